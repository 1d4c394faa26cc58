/* consumer PORT QUEUE SIZE COUNT DURABLE ACK_EVERY PREFETCH SECONDS
 *
 * Declares QUEUE (auto-delete), binds it to amq.direct under its own name, prints "ready", then
 * counts COUNT deliveries by walking frames in large reads. ACK_EVERY 0 consumes without
 * acknowledgement; otherwise one basic.ack(multiple) per ACK_EVERY deliveries. Of bodies that
 * begin with "@" and nineteen digits of monotonic nanoseconds, the delays are told. Of those that
 * begin with the number of the message, order and content of a sample are checked. */
#define BENCH_AMQP
#include "common.h"
#include "delays.h"

enum { ROOM = 1 << 20 };
static uint8_t buffer[ROOM];
static uint8_t acks[ROOM];

static size_t put_ack(uint8_t *p, uint64_t tag) {
    static const uint8_t head[] = {FRAME_METHOD, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80};
    memcpy(p, head, sizeof head);
    put64(p + 11, tag);
    p[19] = 1;
    p[20] = FRAME_END;
    return 21;
}

static void write_all(int fd, const uint8_t *p, size_t n) {
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w < 0) die("write");
        p += w;
        n -= (size_t)w;
    }
}

int main(int argc, char **argv) {
    if (argc != 9) return 2;
    int port = atoi(argv[1]), durable = atoi(argv[5]), fd;
    const char *name = argv[2];
    uint64_t size = strtoull(argv[3], 0, 10), count = strtoull(argv[4], 0, 10);
    uint64_t every = strtoull(argv[6], 0, 10);
    limit_seconds(atoi(argv[8]));
    amqp_connection_state_t c = amqp_open(port, &fd);
    amqp_bytes_t queue = amqp_cstring_bytes(name);
    amqp_queue_declare(c, 1, queue, 0, durable, 0, 1, amqp_empty_table);
    amqp_done(c, "queue.declare");
    amqp_queue_bind(c, 1, queue, amqp_cstring_bytes("amq.direct"), queue, amqp_empty_table);
    amqp_done(c, "queue.bind");
    if (every) {
        amqp_basic_qos(c, 1, 0, (uint16_t)atoi(argv[7]), 0);
        amqp_done(c, "basic.qos");
    }
    amqp_basic_consume(c, 1, queue, amqp_cstring_bytes("bench"), 0, every == 0, 0,
                       amqp_empty_table);
    amqp_done(c, "basic.consume");
    set_blocking(fd, 1);
    expect_delays(count);
    puts("ready");
    fflush(stdout);

    uint64_t octets = 0, wanted = size * count, delivered = 0, begun = 0, tag = 0, body = 0;
    uint64_t reads = 0, checked = 0;
    size_t have = 0;
    int64_t first = 0;
    double cpu = cpu_seconds();
    while (delivered < count) {
        ssize_t got = read(fd, buffer + have, ROOM - have);
        if (got == 0) hung_up();
        if (got < 0) die("read");
        if (!first) first = now_ns();
        reads++;
        have += (size_t)got;
        size_t at = 0, ack_bytes = 0;
        while (have - at >= 8) {
            const uint8_t *f = buffer + at;
            size_t length = get32(f + 3);
            if (length + 8 > ROOM) die("frame too large");
            if (have - at < length + 8) break;
            if (f[length + 7] != FRAME_END) die("frame end");
            if (f[0] == FRAME_METHOD) {
                if (get32(f + 7) != BASIC_DELIVER) die("unexpected method");
                tag = get64(f + 12 + f[11]);
                begun++;
                body = 0;
            } else if (f[0] == FRAME_HEADER) {
                if (get64(f + 11) != size) die("body size");
            } else if (f[0] == FRAME_BODY) {
                if (!body) note_delay((const char *)f + 7, length);
                if (length == size) checked += (uint64_t)check_body(f + 7, size, delivered);
                body += length;
                octets += length;
                if (body == size) {
                    delivered++;
                    if (every && (delivered % every == 0 || delivered == count))
                        ack_bytes += put_ack(acks + ack_bytes, tag);
                }
            }
            at += length + 8;
        }
        if (ack_bytes) write_all(fd, acks, ack_bytes);
        have -= at;
        if (have && at) memmove(buffer, buffer + at, have);
    }
    int64_t last = now_ns();
    cpu = cpu_seconds() - cpu;
    if (begun != count || octets != wanted || have) die("count");
    set_blocking(fd, 0);
    amqp_channel_close(c, 1, 200);
    amqp_connection_close(c, 200);
    printf("{\"delivered\": %llu, \"first\": %lld, \"last\": %lld, \"cpu\": %.6f, "
           "\"reads\": %llu, \"checked\": %llu, \"p50\": %lld, \"p99\": %lld}\n",
           (unsigned long long)delivered, (long long)first, (long long)last, cpu,
           (unsigned long long)reads, (unsigned long long)checked, (long long)rank(0.5),
           (long long)rank(0.99));
    return 0;
}
