/* producer PORT EXCHANGE KEY SIZE COUNT DURABLE WINDOW RATE SECONDS [DIFFERENT]
 *
 * Publishes COUNT messages of SIZE octets. The frames of one message are encoded once, repeated
 * into a large block, and the block is written over and over. DIFFERENT: each message has a
 * message id, a timestamp and a trace header of its own, which are renewed whenever the block has
 * been written. WINDOW 0: no confirms; otherwise
 * at most WINDOW messages unconfirmed. RATE > 0: so many messages per second, one by one, each
 * body (text/plain) beginning with "@" and nineteen digits of monotonic nanoseconds; RATE < 0: the
 * same as fast as the window allows. With a WINDOW the delays of their confirms are told. Other
 * bodies begin with the number of the message. */
#define BENCH_AMQP
#include "common.h"
#include "delays.h"
#include "messages.h"

enum { BLOCK = 256 << 10, MOST = 1 << 16 };
static uint8_t incoming[1 << 16];
static int64_t sent_at[MOST]; /* likewise, where messages go out one by one */
static uint8_t unconfirmed[MOST]; /* a ring by delivery tag */
static uint64_t sent, confirmed, lowest = 1, refused;
static size_t have;
static void settle(uint64_t tag, int multiple, int refusal) {
    if (tag < lowest || tag > sent + 1) die("confirm of an unknown tag");
    for (uint64_t t = multiple ? lowest : tag; t <= tag; t++) {
        if (!unconfirmed[t % MOST]) continue;
        unconfirmed[t % MOST] = 0;
        if (sent_at[t % MOST]) add_delay(now_ns() - sent_at[t % MOST]);
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
static void blast(int fd, uint8_t *block, size_t block_size, size_t each, size_t size,
                  uint64_t count, uint64_t window) {
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
        if (!from) renew(block, block_size, each, size);
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

/* Read confirms until it is time, and until fewer than WINDOW are missing. */
static void read_until(int fd, int64_t due, uint64_t window) {
    for (;;) {
        int64_t wait = due - now_ns();
        int crowded = sent - confirmed >= window;
        struct pollfd p = {fd, POLLIN, 0};
        struct timespec t = {wait / 1000000000, wait % 1000000000};
        if (wait <= 0 && !crowded) t = (struct timespec){0, 0};
        if (ppoll(&p, 1, crowded ? 0 : &t, 0) > 0) read_confirms(fd);
        else if (wait <= 0) return;
    }
}

static void pace(int fd, uint8_t *message, size_t each, size_t size, uint64_t count,
                 uint64_t window, double rate) {
    int64_t begin = now_ns();
    char text[32];
    if (size < 20) die("body too small for a timestamp");
    set_blocking(fd, 1);
    for (; sent < count; sent++) {
        int64_t due = rate > 0 ? begin + (int64_t)((double)sent * 1e9 / rate) : 0;
        if (window) read_until(fd, due, window);
        int64_t wait = due - now_ns();
        if (wait > 0) {
            struct timespec t = {wait / 1000000000, wait % 1000000000};
            nanosleep(&t, 0);
        }
        if (window) unconfirmed[(sent + 1) % MOST] = 1;
        if (window) sent_at[(sent + 1) % MOST] = now_ns();
        snprintf(text, sizeof text, "@%019lld", (long long)now_ns());
        memcpy(message + each - 1 - size, text, 20);
        if (different) renew(message, each, each, 0);
        for (size_t at = 0; at < each;) {
            ssize_t wrote = write(fd, message + at, each - at);
            if (wrote < 0) die("write");
            at += (size_t)wrote;
        }
    }
    if (window) read_until(fd, 0, 1);
}

int main(int argc, char **argv) {
    if (argc != 10 && argc != 11) return 2;
    different = argc == 11 && atoi(argv[10]);
    size_t size = strtoull(argv[4], 0, 10);
    uint64_t count = strtoull(argv[5], 0, 10), window = strtoull(argv[7], 0, 10);
    double rate = atof(argv[8]);
    int fd, durable = atoi(argv[6]);
    limit_seconds(atoi(argv[9]));
    if (rate && window) expect_delays(count);
    if (window >= MOST / 2) return 2;
    amqp_connection_state_t c = amqp_open(atoi(argv[1]), &fd);
    if (window) {
        amqp_confirm_select(c, 1);
        amqp_done(c, "confirm.select");
    }
    size_t repeat = 1 + BLOCK / (size + 64);
    uint8_t *block = malloc(repeat * (size + 1024));
    if (!block) die("memory");
    size_t each = put_message(block, argv[2], argv[3], size, durable, rate != 0);
    for (size_t i = 1; i < repeat; i++) memcpy(block + i * each, block, each);

    double cpu = cpu_seconds();
    int64_t first = now_ns();
    if (rate)
        pace(fd, block, each, size, count, window, rate);
    else
        blast(fd, block, repeat * each, each, size, count, window);
    int64_t last = now_ns();
    cpu = cpu_seconds() - cpu;
    set_blocking(fd, 0);
    amqp_channel_close(c, 1, 200);
    amqp_connection_close(c, 200);
    printf("{\"published\": %llu, \"confirmed\": %llu, \"refused\": %llu, \"first\": %lld, "
           "\"last\": %lld, \"cpu\": %.6f, \"p50\": %lld, \"p99\": %lld}\n",
           (unsigned long long)sent, (unsigned long long)confirmed, (unsigned long long)refused,
           (long long)first, (long long)last, cpu, (long long)rank(0.5), (long long)rank(0.99));
    return 0;
}
