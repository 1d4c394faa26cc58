/* sender PORT ADDRESS SIZE COUNT DURABLE SETTLED SECONDS [UNIQUE]
 *
 * Sends COUNT messages of SIZE octets over one link of AMQP 1.0, as fast as credit and window
 * allow: settled, or unsettled and then until all are accepted. UNIQUE: each message has a message
 * id, a creation time and a trace header of its own, as those of ``producer``. */
#include "links.h"

enum { BATCH = 256 << 10 };
static uint64_t sent, accepted, refused;
static uint32_t credit_limit, window_limit; /* serial numbers: the first that may not be sent */

static void on_flow(list_t l) {
    uint32_t next_incoming = number(field(&l), 0), window = number(field(&l), 0);
    field(&l); field(&l);
    window_limit = next_incoming + window;
    if (!field(&l)) return;
    uint32_t count = number(field(&l), 0);
    const uint8_t *credit = field(&l);
    if (credit) credit_limit = count + number(credit, 0);
}

static void on_disposition(list_t l) {
    field(&l);
    uint32_t first = number(field(&l), 0), last = number(field(&l), first), state = 0;
    field(&l);
    const uint8_t *p = field(&l);
    if (p) state = number(p + 1, 0);
    if (state == ACCEPTED) accepted += last - first + 1;
    else refused += last - first + 1;
}

static void read_frames(int fd) {
    read_more(fd);
    size_t at = 0;
    while (have - at >= 8 && have - at >= get32(buffer + at)) {
        const uint8_t *f = buffer + at;
        size_t size = get32(f), body = (size_t)f[4] * 4;
        at += size;
        if (size == body) continue;
        list_t l;
        uint32_t code = described(f + body, f + size, &l);
        errno = 0;
        if (code == FLOW) on_flow(l);
        else if (code == DISPOSITION) on_disposition(l);
        else die("unexpected frame");
    }
    drop(at);
}

/* Properties with a message id and a creation time; application properties with a trace header. */
static const char own[] =
    "\0\x53\x73\xc0\x2c\x0a\xa1\x18message-0000000000000000\x40\x40\x40\x40\x40\x40\x40\x40"
    "\x83\0\0\0\0\0\0\0\0"
    "\0\x53\x74\xc1\x47\x02\xa1\x0btraceparent\xa1\x37"
    "00-00000000000000000000000000000000-0000000000000000-01";
enum { ID_AT = 16, TIME_AT = 41, TRACE_AT = 73 };

static void renew(uint8_t *p, uint64_t number) {
    uint64_t milliseconds = 1000 * (1700000000 + number);
    put_hex(p + ID_AT, number);
    put32(p + TIME_AT, (uint32_t)(milliseconds >> 32));
    put32(p + TIME_AT + 4, (uint32_t)milliseconds);
    put_hex(p + TRACE_AT, number);
    put_hex(p + TRACE_AT + 17, number * 0x9e3779b97f4a7c15u);
}

int main(int argc, char **argv) {
    if (argc != 8 && argc != 9) return 2;
    int unique = argc == 9 && atoi(argv[8]);
    size_t size = strtoull(argv[3], 0, 10);
    uint64_t count = strtoull(argv[4], 0, 10);
    int durable = atoi(argv[5]), settled = atoi(argv[6]);
    limit_seconds(atoi(argv[7]));
    int fd = attached(atoi(argv[1]), argv[2], 0, settled);

    list_t l;
    size_t found = (size_t)buffer[4] * 4;
    described(buffer + found, buffer + get32(buffer), &l); /* their begin */
    field(&l); field(&l);
    window_limit = number(field(&l), 0);
    drop(get32(buffer));
    drop(await(fd, ATTACH));
    while (!credit_limit) {
        size_t n = await(fd, FLOW);
        described(buffer + buffer[4] * 4, buffer + n, &l);
        on_flow(l);
        drop(n);
    }

    /* handle 0, delivery-id, tag of four octets, format 0, settled; header; data */
    static const uint8_t head[] = {
        0, 0, 0, 0, 2, 0, 0, 0, 0, 0x53, TRANSFER, 0xc0, 15, 5, 0x43, 0x70, 0, 0, 0, 0,
        0xa0, 4, 0, 0, 0, 0, 0x43, 0x42, 0, 0x53, 0x70, 0xc0, 2, 1, 0x42,
    };
    static const uint8_t section[] = {0, 0x53, 0x75};
    size_t more = unique ? sizeof own - 1 : 0;
    size_t each = sizeof head + more + sizeof section + (size < 256 ? 2 : 5) + size;
    uint8_t *message = malloc(each), *batch = malloc(BATCH + each);
    if (!message || !batch) die("memory");
    memcpy(message, head, sizeof head);
    put32(message, (uint32_t)each);
    message[27] = settled ? 0x41 : 0x42;
    message[34] = durable ? 0x41 : 0x42;
    memcpy(message + sizeof head, own, more);
    memcpy(message + sizeof head + more, section, sizeof section);
    uint8_t *data = message + sizeof head + more + sizeof section;
    if (size < 256) { data[0] = 0xa0; data[1] = (uint8_t)size; data += 2; }
    else { data[0] = 0xb0; put32(data + 1, (uint32_t)size); data += 5; }
    memset(data, 'x', size);

    set_blocking(fd, 0);
    double cpu = cpu_seconds();
    int64_t first = now_ns();
    size_t filled = 0, written = 0;
    while (sent < count || written < filled || (!settled && accepted + refused < count)) {
        if (written == filled) {
            filled = written = 0;
            while (sent < count && filled < BATCH && (int32_t)(credit_limit - (uint32_t)sent) > 0 &&
                   (int32_t)(window_limit - (uint32_t)sent) > 0) {
                uint8_t *p = batch + filled;
                memcpy(p, message, each);
                put32(p + 16, (uint32_t)sent);
                put32(p + 22, (uint32_t)sent);
                if (unique) renew(p + sizeof head, sent);
                if (size >= NUMBERED) put_hex(p + each - size, sent);
                filled += each;
                sent++;
            }
        }
        struct pollfd p = {fd, POLLIN, 0};
        if (written < filled) p.events |= POLLOUT;
        if (poll(&p, 1, -1) < 0) die("poll");
        if (p.revents & (POLLIN | POLLERR | POLLHUP)) read_frames(fd);
        if (p.revents & POLLOUT) {
            ssize_t wrote = write(fd, batch + written, filled - written);
            if (wrote < 0 && errno != EAGAIN) die("write");
            if (wrote > 0) written += (size_t)wrote;
        }
    }
    int64_t last = now_ns();
    cpu = cpu_seconds() - cpu;
    closed(fd);
    printf("{\"published\": %llu, \"confirmed\": %llu, \"refused\": %llu, \"first\": %lld, "
           "\"last\": %lld, \"cpu\": %.6f}\n", (unsigned long long)sent,
           (unsigned long long)accepted, (unsigned long long)refused, (long long)first,
           (long long)last, cpu);
    return 0;
}
