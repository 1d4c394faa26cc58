/* segments publish PORT STEPS LAST MESSAGE ID BODY SYNC FIRST COUNT WINDOW SECONDS
 * segments consume PORT STEPS LAST ACCEPT COMPLETED SIZE COUNT EVERY SECONDS
 *
 * AMQP 0-10 with octets that are made elsewhere, in hexadecimal. STEPS are "CODE:OCTETS,..." : wait
 * for the control or command with this code, then say the octets; then wait for LAST.
 *
 * publish: COUNT times MESSAGE, with a number of its own at the offsets ID and BODY of its octets.
 * With a WINDOW each hundredth has the octet at SYNC set, and no more are sent than that before the
 * server says that they are complete; FIRST is the number of the first. The message after the last
 * is always waited for.
 * consume: COUNT messages of at least SIZE octets. Runs of EVERY are completed, and accepted unless
 * ACCEPT is empty; both end with a range, which is filled in. */
#include "common.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>

enum {
    ROOM = 1 << 20, BATCH = 256 << 10, HEAD = 12, COMPLETED = 0x020a, TRANSFER = 0x0401,
    EXCEPTION = 0x0303, DETACHED = 0x0204, CLOSE = 0x010b, FIRST_OF_ALL = 0x0a, LAST_OF_ALL = 0x05,
    EACH = 100,
};
static uint8_t buffer[ROOM];
static size_t have;

static void write_all(int fd, const uint8_t *p, size_t n) {
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EAGAIN) {
            struct pollfd wait = {fd, POLLOUT, 0};
            poll(&wait, 1, -1);
            continue;
        }
        if (w < 0) die("write");
        p += w;
        n -= (size_t)w;
    }
}

static size_t octets_of(const char *hex, uint8_t *into) {
    size_t n = 0;
    for (; hex[0] && hex[0] != ','; hex += 2) {
        char pair[3] = {hex[0], hex[1], 0};
        into[n++] = (uint8_t)strtoul(pair, 0, 16);
    }
    return n;
}

static void read_more(int fd) {
    ssize_t got = read(fd, buffer + have, sizeof buffer - have);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got == 0) hung_up();
    if (got < 0) die("read");
    have += (size_t)got;
}

static void drop(size_t n) {
    have -= n;
    memmove(buffer, buffer + n, have);
}

static size_t size_at(const uint8_t *f) { return (size_t)f[2] << 8 | f[3]; }

/* Class and code of the control or command that begins in this frame; 0 of any other. */
static unsigned code_of(const uint8_t *f) {
    if (f[1] > 1 || (f[0] & FIRST_OF_ALL) != FIRST_OF_ALL || size_at(f) < HEAD + 2) return 0;
    unsigned code = (unsigned)f[HEAD] << 8 | f[HEAD + 1];
    errno = 0;
    if (code == EXCEPTION || code == DETACHED || code == CLOSE)
        die("the server said exception, detached or close");
    return code;
}

static void await(int fd, unsigned wanted) {
    for (;;) {
        while (have < HEAD || have < size_at(buffer)) read_more(fd);
        unsigned code = code_of(buffer);
        drop(size_at(buffer));
        if (code == wanted) return;
    }
}

static int opened(int port, const char *steps, const char *last) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    write_all(fd, (const uint8_t *)"AMQP\1\1\0\12", 8);
    while (have < 8) read_more(fd);
    errno = 0;
    if (memcmp(buffer, "AMQP\1\1\0\12", 8)) die("another header");
    drop(8);
    static uint8_t octets[4096];
    for (const char *at = steps; at; at = strchr(at, ',')) {
        if (*at == ',') at++;
        await(fd, (unsigned)strtoul(at, 0, 16));
        write_all(fd, octets, octets_of(strchr(at, ':') + 1, octets));
    }
    await(fd, (unsigned)strtoul(last, 0, 16));
    return fd;
}

/* --- publish ---------------------------------------------------------------------------------- */

static uint32_t complete; /* the last command that the server says is complete */

static void read_frames(int fd) {
    read_more(fd);
    size_t at = 0;
    while (have - at >= HEAD && have - at >= size_at(buffer + at)) {
        const uint8_t *f = buffer + at;
        if (code_of(f) == COMPLETED) {
            size_t octets = (size_t)f[HEAD + 4] << 8 | f[HEAD + 5];
            for (size_t range = 0; range < octets; range += 8) {
                uint32_t high = get32(f + HEAD + 6 + range + 4);
                if ((int32_t)(high - complete) > 0) complete = high;
            }
        }
        at += size_at(f);
    }
    drop(at);
}

static int publish(char **argv) {
    static uint8_t message[128 << 10];
    size_t each = octets_of(argv[5], message);
    size_t id = strtoull(argv[6], 0, 10), body = strtoull(argv[7], 0, 10);
    size_t sync = strtoull(argv[8], 0, 10);
    uint32_t next = (uint32_t)strtoul(argv[9], 0, 10);
    uint64_t count = strtoull(argv[10], 0, 10), window = strtoull(argv[11], 0, 10), sent = 0;
    limit_seconds(atoi(argv[12]));
    int fd = opened(atoi(argv[2]), argv[3], argv[4]);
    uint8_t *batch = malloc(BATCH + each);
    if (!batch) die("memory");
    complete = next - 1;
    set_blocking(fd, 0);
    double cpu = cpu_seconds();
    int64_t first = now_ns();
    size_t filled = 0, written = 0;
    while (sent < count || written < filled || (int32_t)(next - 1 - complete) > 0) {
        if (written == filled) {
            filled = written = 0;
            while (sent < count && filled < BATCH && (!window || next - 1 - complete < window)) {
                uint8_t *p = batch + filled;
                memcpy(p, message, each);
                put64(p + id, sent);
                if (body) put64(p + body, sent);
                sent++;
                next++;
                p[sync] = sent == count || (window && sent % EACH == 0);
                filled += each;
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
    close(fd);
    printf("{\"published\": %llu, \"confirmed\": %llu, \"refused\": 0, \"first\": %lld, "
           "\"last\": %lld, \"cpu\": %.6f}\n", (unsigned long long)sent, (unsigned long long)sent,
           (long long)first, (long long)last, cpu);
    return 0;
}

/* --- consume ---------------------------------------------------------------------------------- */

static void say_range(int fd, uint8_t *octets, size_t size, uint32_t low, uint32_t high) {
    if (!size) return;
    put32(octets + size - 8, low);
    put32(octets + size - 4, high);
    write_all(fd, octets, size);
}

static int consume(char **argv) {
    static uint8_t accept[256], completed[256];
    size_t accept_size = octets_of(argv[5], accept), completed_size = octets_of(argv[6], completed);
    uint64_t size = strtoull(argv[7], 0, 10), count = strtoull(argv[8], 0, 10), octets = 0;
    uint32_t every = (uint32_t)atoi(argv[9]), next = 0, told = 0, received = 0, run = 0;
    limit_seconds(atoi(argv[10]));
    int fd = opened(atoi(argv[2]), argv[3], argv[4]);
    puts("ready");
    fflush(stdout);
    int64_t first = 0;
    double cpu = cpu_seconds();
    while (received < count) {
        read_more(fd);
        if (!first) first = now_ns();
        size_t at = 0;
        while (have - at >= HEAD && have - at >= size_at(buffer + at)) {
            const uint8_t *f = buffer + at;
            size_t frame = size_at(f);
            at += frame;
            unsigned code = code_of(f);
            if (f[1] == 1 && code) {
                next++;
                errno = 0;
                if (code != TRANSFER) die("another command");
            }
            if (f[1] == 3) octets += frame - HEAD;
            if (!f[1] || (f[0] & LAST_OF_ALL) != LAST_OF_ALL) continue;
            received++;
            if (++run < every && received < count) continue;
            say_range(fd, accept, accept_size, told, next - 1);
            say_range(fd, completed, completed_size, told, next - 1);
            told = next;
            run = 0;
        }
        drop(at);
    }
    int64_t last = now_ns();
    cpu = cpu_seconds() - cpu;
    errno = 0;
    if (octets < size * count) die("count");
    set_blocking(fd, 1);
    shutdown(fd, SHUT_WR);
    while (read(fd, buffer, sizeof buffer) > 0) {}
    close(fd);
    printf("{\"delivered\": %u, \"first\": %lld, \"last\": %lld, \"cpu\": %.6f}\n", received,
           (long long)first, (long long)last, cpu);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 13 && !strcmp(argv[1], "publish")) return publish(argv);
    if (argc == 11 && !strcmp(argv[1], "consume")) return consume(argv);
    return 2;
}
