/* receiver PORT ADDRESS SIZE COUNT SETTLED CREDIT EVERY SECONDS
 *
 * Attaches to ADDRESS, prints "ready", gives CREDIT and renews it at half, and counts COUNT
 * messages of at least SIZE octets. Unsettled ones are accepted in runs of EVERY. Of bodies that
 * begin with "@" and nineteen digits of monotonic nanoseconds, the delays are told. Of those that
 * begin with the number of the message, order and content of a sample are checked. */
#include "links.h"
#include "delays.h"

static uint32_t received, transfers;

static void put_credit(int fd, uint32_t credit) {
    frame_t f = begun(0, FLOW, 7);
    put_uint(&f, transfers); put_uint(&f, LARGE); put_uint(&f, 0); put_uint(&f, LARGE);
    put_uint(&f, 0); put_uint(&f, received); put_uint(&f, credit);
    say(fd, &f);
}

static void put_accepted(int fd, uint32_t first, uint32_t last) {
    static const uint8_t accepted[] = {0, 0x53, ACCEPTED, 0x45};
    frame_t f = begun(0, DISPOSITION, 5);
    put_byte(&f, 0x41); put_uint(&f, first); put_uint(&f, last); put_byte(&f, 0x41);
    put(&f, accepted, sizeof accepted);
    say(fd, &f);
}

int main(int argc, char **argv) {
    if (argc != 9) return 2;
    uint64_t size = strtoull(argv[3], 0, 10), count = strtoull(argv[4], 0, 10);
    int settled = atoi(argv[5]);
    uint32_t credit = (uint32_t)atoi(argv[6]), every = (uint32_t)atoi(argv[7]);
    limit_seconds(atoi(argv[8]));
    int fd = attached(atoi(argv[1]), argv[2], 1, settled);
    drop(get32(buffer));
    drop(await(fd, ATTACH));
    put_credit(fd, credit);
    expect_delays(count);
    puts("ready");
    fflush(stdout);

    uint32_t granted = credit, told = 0, checked = 0, id = 0, last_id = 0, first_id = 0;
    uint64_t octets = 0;
    int64_t first = 0;
    double cpu = cpu_seconds();
    int open = 0;
    while (received < count) {
        read_more(fd);
        if (!first) first = now_ns();
        size_t at = 0;
        while (have - at >= 8 && have - at >= get32(buffer + at)) {
            const uint8_t *f = buffer + at;
            size_t frame = get32(f), body = (size_t)f[4] * 4;
            errno = 0;
            if (frame > ROOM) die("frame too large");
            at += frame;
            if (frame == body) continue;
            list_t l;
            uint32_t code = described(f + body, f + frame, &l);
            if (code == FLOW || code == DISPOSITION) continue;
            if (code != TRANSFER) die("unexpected frame");
            transfers++;
            octets += frame - (size_t)(l.end - f);
            field(&l);
            const uint8_t *p = field(&l);
            if (!open) id = number(p, id + 1);
            field(&l); field(&l); field(&l);
            open = (int)number(field(&l), 0);
            if (open) continue;
            const char *text = (const char *)f + frame - size;
            if (frame > size) note_delay(text, size);
            if (frame > size) checked += (uint32_t)check_body((const uint8_t *)text, size, received);
            if (received == told) first_id = id;
            received++;
            last_id = id;
            if (!settled && (received - told >= every || received == count)) {
                put_accepted(fd, first_id, last_id);
                told = received;
            }
            if (granted - received <= credit / 2) {
                put_credit(fd, credit);
                granted = received + credit;
            }
        }
        drop(at);
    }
    int64_t last = now_ns();
    cpu = cpu_seconds() - cpu;
    errno = 0;
    if (octets < size * count) die("count");
    closed(fd);
    printf("{\"delivered\": %u, \"first\": %lld, \"last\": %lld, \"cpu\": %.6f, "
           "\"checked\": %u, \"p50\": %lld, \"p99\": %lld}\n", received, (long long)first,
           (long long)last, cpu, checked,
           (long long)rank(0.5), (long long)rank(0.99));
    return 0;
}
