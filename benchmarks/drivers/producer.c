/* producer PORT EXCHANGE KEY SIZE COUNT DURABLE WINDOW RATE SECONDS [DIFFERENT]
 *
 * Publishes COUNT messages of SIZE octets. The frames of one message are encoded once, repeated
 * into a large block, and the block is written over and over. DIFFERENT: each message has a
 * message id, a timestamp and a trace header of its own, which are renewed whenever the block has
 * been written. WINDOW 0: no confirms; otherwise
 * at most WINDOW messages unconfirmed. RATE > 0: so many messages per second, one by one, each
 * body (text/plain) beginning with "@" and nineteen digits of monotonic nanoseconds. */
#define BENCH_AMQP
#include "common.h"

enum { BLOCK = 256 << 10, MOST = 1 << 16 };
static uint8_t incoming[1 << 16];
static uint8_t unconfirmed[MOST]; /* a ring by delivery tag */
static uint64_t sent, confirmed, lowest = 1, refused;
static size_t have;
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

static void put_hex(uint8_t *p, uint64_t number) {
    for (int i = 15; i >= 0; i--, number >>= 4) p[i] = (uint8_t)"0123456789abcdef"[number & 15];
}

/* Give each message of a block a number that none had before. */
static void renew(uint8_t *block, size_t block_size, size_t each) {
    static uint64_t number;
    size_t table = sizeof trace - 1, id = sizeof identifier - 1;
    for (uint8_t *p = block + own; p < block + block_size; p += each, number++) {
        put_hex(p + 4 + TRACE_DIGITS, number);
        put_hex(p + 4 + TRACE_DIGITS + 17, number * 0x9e3779b97f4a7c15u);
        put_hex(p + 4 + table + 1 + ID_DIGITS, number);
        put64(p + 4 + table + 1 + id, 1700000000 + number);
    }
}

static void settle(uint64_t tag, int multiple, int refusal) {
    if (tag < lowest || tag > sent) die("confirm of an unknown tag");
    for (uint64_t t = multiple ? lowest : tag; t <= tag; t++) {
        if (!unconfirmed[t % MOST]) continue;
        unconfirmed[t % MOST] = 0;
        if (refusal) refused++;
        confirmed++;
    }
    while (lowest <= sent && !unconfirmed[lowest % MOST]) lowest++;
}

static void read_confirms(int fd) {
    ssize_t got = read(fd, incoming + have, sizeof incoming - have);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got == 0) hung_up();
    if (got < 0) die("read");
    have += (size_t)got;
    size_t at = 0;
    while (have - at >= 8) {
        const uint8_t *f = incoming + at;
        size_t length = get32(f + 3);
        if (have - at < length + 8) break;
        uint32_t method = f[0] == FRAME_METHOD ? get32(f + 7) : 0;
        errno = 0;
        if (method == BASIC_ACK || method == BASIC_NACK)
            settle(get64(f + 11), f[19] & 1, method == BASIC_NACK);
        else if (f[0] != FRAME_HEARTBEAT)
            die("unexpected frame");
        at += length + 8;
    }
    have -= at;
    memmove(incoming, incoming + at, have);
}

/* The stream of messages is periodic, but for what `renew` changes: any octet of it is found in the
 * block. */
static void blast(int fd, uint8_t *block, size_t block_size, size_t each, uint64_t count,
                  uint64_t window) {
    uint64_t done = 0, total = count * each;
    set_blocking(fd, !window);
    while (done < total || confirmed < (window ? count : 0)) {
        uint64_t allowed = total;
        if (window && (confirmed + window) < count) allowed = (confirmed + window) * each;
        if (window) {
            struct pollfd p = {fd, POLLIN, 0};
            if (done < allowed) p.events |= POLLOUT;
            if (poll(&p, 1, -1) < 0) die("poll");
            if (p.revents & (POLLIN | POLLERR | POLLHUP)) read_confirms(fd);
            if (!(p.revents & POLLOUT)) continue;
        }
        if (done == allowed) continue;
        size_t from = (size_t)(done % block_size), most = block_size - from;
        if (different && !from) renew(block, block_size, each);
        if (most > allowed - done) most = (size_t)(allowed - done);
        uint64_t reach = (done + most + each - 1) / each;
        for (; window && sent < reach; sent++) unconfirmed[(sent + 1) % MOST] = 1;
        ssize_t wrote = write(fd, block + from, most);
        if (wrote < 0 && errno == EAGAIN) continue;
        if (wrote < 0) die("write");
        done += (uint64_t)wrote;
    }
    if (!window) sent = count;
}

static void pace(int fd, uint8_t *message, size_t each, size_t size, uint64_t count,
                 double rate) {
    int64_t begin = now_ns();
    char text[32];
    if (size < 20) die("body too small for a timestamp");
    set_blocking(fd, 1);
    for (; sent < count; sent++) {
        int64_t due = begin + (int64_t)((double)sent * 1e9 / rate), wait = due - now_ns();
        if (wait > 0) {
            struct timespec t = {wait / 1000000000, wait % 1000000000};
            nanosleep(&t, 0);
        }
        snprintf(text, sizeof text, "@%019lld", (long long)now_ns());
        memcpy(message + each - 1 - size, text, 20);
        if (different) renew(message, each, each);
        for (size_t at = 0; at < each;) {
            ssize_t wrote = write(fd, message + at, each - at);
            if (wrote < 0) die("write");
            at += (size_t)wrote;
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 10 && argc != 11) return 2;
    different = argc == 11 && atoi(argv[10]);
    size_t size = strtoull(argv[4], 0, 10);
    uint64_t count = strtoull(argv[5], 0, 10), window = strtoull(argv[7], 0, 10);
    double rate = atof(argv[8]);
    int fd, durable = atoi(argv[6]);
    limit_seconds(atoi(argv[9]));
    if (window >= MOST / 2) return 2;
    amqp_connection_state_t c = amqp_open(atoi(argv[1]), &fd);
    if (window) {
        amqp_confirm_select(c, 1);
        amqp_done(c, "confirm.select");
    }
    size_t repeat = 1 + BLOCK / (size + 64);
    uint8_t *block = malloc(repeat * (size + 1024));
    if (!block) die("memory");
    size_t each = put_message(block, argv[2], argv[3], size, durable, rate > 0);
    for (size_t i = 1; i < repeat; i++) memcpy(block + i * each, block, each);

    double cpu = cpu_seconds();
    int64_t first = now_ns();
    if (rate > 0)
        pace(fd, block, each, size, count, rate);
    else
        blast(fd, block, repeat * each, each, count, window);
    int64_t last = now_ns();
    cpu = cpu_seconds() - cpu;
    set_blocking(fd, 0);
    amqp_channel_close(c, 1, 200);
    amqp_connection_close(c, 200);
    printf("{\"published\": %llu, \"confirmed\": %llu, \"refused\": %llu, \"first\": %lld, "
           "\"last\": %lld, \"cpu\": %.6f}\n", (unsigned long long)sent,
           (unsigned long long)confirmed, (unsigned long long)refused, (long long)first,
           (long long)last, cpu);
    return 0;
}
