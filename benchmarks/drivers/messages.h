/* The frames of a message of 0-9-1 that is published, with a header of its own if it has to be. */
#ifndef BENCH_MESSAGES_H
#define BENCH_MESSAGES_H
#include "common.h"

static const char plain[] = "\x0atext/plain";
static const char trace[] = "\x0btraceparentS\0\0\0\x37"
                            "00-00000000000000000000000000000000-0000000000000000-01";
static const char identifier[] = "\x18message-0000000000000000";
enum { TRACE_DIGITS = 12 + 5 + 3 + 32 - 16, ID_DIGITS = 1 + 8, TIME = 8 };
static int different;
static size_t own; /* where the parts of a message begin that no other has */

static size_t put_message(uint8_t *p, const char *exchange, const char *key, size_t size,
                          int durable, int text) {
    size_t x = strlen(exchange), k = strlen(key), method = 4 + 2 + 1 + x + 1 + k + 1, at = 0;
    p[0] = FRAME_METHOD; put16(p + 1, 1); put32(p + 3, (uint32_t)method);
    put32(p + 7, 60 << 16 | 40); put16(p + 11, 0);
    at = 13;
    p[at++] = (uint8_t)x; memcpy(p + at, exchange, x); at += x;
    p[at++] = (uint8_t)k; memcpy(p + at, key, k); at += k;
    p[at++] = 0; p[at++] = FRAME_END;
    size_t type = text ? sizeof plain - 1 : 0, table = sizeof trace - 1, id = sizeof identifier - 1;
    size_t more = type + (different ? 4 + table + id + TIME : 0);
    p[at] = FRAME_HEADER; put16(p + at + 1, 1); put32(p + at + 3, 15 + (uint32_t)more);
    put32(p + at + 7, 60 << 16); put64(p + at + 11, size);
    put16(p + at + 19, (uint16_t)((text ? 1 << 15 : 0) | (different ? 1 << 13 : 0) | 1 << 12 |
                                  (different ? 1 << 7 | 1 << 6 : 0)));
    at += 21;
    memcpy(p + at, plain, type); at += type;
    own = at;
    if (different) {
        put32(p + at, (uint32_t)table);
        memcpy(p + at + 4, trace, table); at += 4 + table;
    }
    p[at++] = durable ? 2 : 1;
    if (different) {
        memcpy(p + at, identifier, id); at += id;
        put64(p + at, 1700000000); at += TIME;
    }
    p[at++] = FRAME_END;
    if (size) {
        p[at] = FRAME_BODY; put16(p + at + 1, 1); put32(p + at + 3, (uint32_t)size);
        memset(p + at + 7, 'x', size); p[at + 7 + size] = FRAME_END;
        at += size + 8;
    }
    return at;
}

/* Give each message of a block a number that none had before: in its header, if they are to be
 * different, and in its body. */
static void renew(uint8_t *block, size_t block_size, size_t each, size_t size) {
    static uint64_t number;
    size_t table = sizeof trace - 1, id = sizeof identifier - 1;
    for (uint8_t *p = block + own; p < block + own + block_size; p += each, number++) {
        if (size >= NUMBERED) put_hex(p - own + each - 1 - size, number);
        if (!different) continue;
        put_hex(p + 4 + TRACE_DIGITS, number);
        put_hex(p + 4 + TRACE_DIGITS + 17, number * 0x9e3779b97f4a7c15u);
        put_hex(p + 4 + table + 1 + ID_DIGITS, number);
        put64(p + 4 + table + 1 + id, 1700000000 + number);
    }
}
#endif
