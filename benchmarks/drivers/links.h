/* AMQP 1.0 by hand, as much of it as a driver needs: log in as guest, one session, one link, and
 * the fields of the performatives that matter while messages flow. */
#ifndef BENCH_LINKS_H
#define BENCH_LINKS_H
#include "common.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>

enum {
    ROOM = 1 << 20, OPEN = 0x10, BEGIN = 0x11, ATTACH = 0x12, FLOW = 0x13, TRANSFER = 0x14,
    DISPOSITION = 0x15, DETACH = 0x16, END = 0x17, CLOSE = 0x18, ACCEPTED = 0x24,
    LARGE = 0x7fffffff,
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

/* --- values ----------------------------------------------------------------------------------- */

typedef struct { const uint8_t *at, *end; unsigned left; } list_t;

static size_t value_size(const uint8_t *p, const uint8_t *end) {
    if (p >= end) die("a value is cut");
    if (p[0] == 0) { size_t d = value_size(p + 1, end); return 1 + d + value_size(p + 1 + d, end); }
    static const uint8_t fixed[] = {1, 2, 3, 5, 9, 17};
    unsigned class_ = p[0] >> 4;
    if (class_ >= 4 && class_ <= 9) return fixed[class_ - 4];
    if (class_ == 0xa || class_ == 0xc || class_ == 0xe) return 2u + p[1];
    return 5u + get32(p + 1);
}

static list_t list_at(const uint8_t *p, const uint8_t *end) {
    if (p[0] == 0x45) return (list_t){p + 1, p + 1, 0};
    if (p[0] == 0xc0) return (list_t){p + 3, p + 2 + p[1], p[2]};
    if (p[0] == 0xd0) return (list_t){p + 9, p + 5 + get32(p + 1), get32(p + 5)};
    (void)end;
    errno = 0;
    die("no list");
    return (list_t){0, 0, 0};
}

/* The next field, or NULL if it is absent. */
static const uint8_t *field(list_t *l) {
    if (!l->left) return 0;
    const uint8_t *p = l->at;
    l->left--;
    l->at += value_size(p, l->end);
    return p[0] == 0x40 ? 0 : p;
}

static uint32_t number(const uint8_t *p, uint32_t otherwise) {
    if (!p) return otherwise;
    switch (p[0]) {
    case 0x43: case 0x44: case 0x42: return 0;
    case 0x41: return 1;
    case 0x52: case 0x53: case 0x50: case 0x56: return p[1];
    case 0x60: return (uint32_t)p[1] << 8 | p[2];
    case 0x70: return get32(p + 1);
    case 0x80: return (uint32_t)get64(p + 1);
    }
    return otherwise;
}

/* The code of the described list at p, whose fields are then in l; its end is l->end. */
static uint32_t described(const uint8_t *p, const uint8_t *end, list_t *l) {
    if (p[0]) { errno = 0; die("not described"); }
    uint32_t code = number(p + 1, 0);
    *l = list_at(p + 1 + value_size(p + 1, end), end);
    return code;
}

/* --- frames ----------------------------------------------------------------------------------- */

typedef struct { uint8_t octets[2048]; size_t size; } frame_t;

static void put(frame_t *f, const void *p, size_t n) {
    memcpy(f->octets + f->size, p, n);
    f->size += n;
}
static void put_byte(frame_t *f, unsigned b) { f->octets[f->size++] = (uint8_t)b; }
static void put_uint(frame_t *f, uint32_t v) {
    put_byte(f, 0x70);
    put32(f->octets + f->size, v);
    f->size += 4;
}
static void put_text(frame_t *f, unsigned code, const char *text, size_t n) {
    put_byte(f, code);
    put_byte(f, (unsigned)n);
    put(f, text, n);
}

/* A frame whose performative has so many fields, which follow. */
static frame_t begun(unsigned type, unsigned code, unsigned fields) {
    frame_t f = {{0, 0, 0, 0, 2, (uint8_t)type, 0, 0, 0, 0x53, (uint8_t)code, 0xd0}, 20};
    put32(f.octets + 16, fields);
    return f;
}
static void say(int fd, frame_t *f) {
    put32(f->octets, (uint32_t)f->size);
    put32(f->octets + 12, (uint32_t)f->size - 16);
    write_all(fd, f->octets, f->size);
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

/* Wait for a frame with this performative, which is then at the beginning of the buffer; frames
 * before it are dropped. Its size. */
static size_t await(int fd, uint32_t wanted) {
    for (;;) {
        while (have < 8 || have < get32(buffer)) read_more(fd);
        size_t size = get32(buffer), at = (size_t)buffer[4] * 4;
        if (size > at) {
            list_t l;
            uint32_t code = described(buffer + at, buffer + size, &l);
            if (code == wanted) return size;
            errno = 0;
            if (code >= DETACH && code <= CLOSE) die("the server said detach, end or close");
        }
        drop(size);
    }
}

/* The header that the server answers. */
static void await_header(int fd) {
    while (have < 8) read_more(fd);
    errno = 0;
    if (memcmp(buffer, "AMQP", 4)) die("no header");
    drop(8);
}

/* A terminus: described list of one address. */
static void put_terminus(frame_t *f, unsigned code, const char *address) {
    size_t n = strlen(address);
    put_byte(f, 0); put_byte(f, 0x53); put_byte(f, code);
    if (!n) { put_byte(f, 0x45); return; }
    put_byte(f, 0xc0); put_byte(f, (unsigned)(n + 3)); put_byte(f, 1);
    put_text(f, 0xa1, address, n);
}

/* Connect, log in, open, begin on channel 0, attach handle 0 as "bench". */
static int attached(int port, const char *address, int receiver, int settled) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);

    write_all(fd, (const uint8_t *)"AMQP\3\1\0", 8);
    await_header(fd);
    await(fd, 0x40);
    frame_t f = begun(1, 0x41, 2);
    put_text(&f, 0xa3, "PLAIN", 5);
    put_text(&f, 0xa0, "\0guest\0guest", 12);
    say(fd, &f);
    size_t size = await(fd, 0x44);
    list_t l;
    described(buffer + buffer[4] * 4, buffer + size, &l);
    errno = 0;
    if (number(field(&l), 1)) die("login");
    drop(size);

    write_all(fd, (const uint8_t *)"AMQP\0\1\0", 8);
    char name[64];
    snprintf(name, sizeof name, "bench-%d", (int)getpid());
    f = begun(0, OPEN, 2);
    put_text(&f, 0xa1, name, strlen(name));
    put_text(&f, 0xa1, "localhost", 9);
    say(fd, &f);
    await_header(fd);
    drop(await(fd, OPEN));

    f = begun(0, BEGIN, 4);
    put_byte(&f, 0x40); put_uint(&f, 0); put_uint(&f, LARGE); put_uint(&f, LARGE);
    say(fd, &f);
    size = await(fd, BEGIN);

    f = begun(0, ATTACH, 10);
    put_text(&f, 0xa1, name, strlen(name));
    put_uint(&f, 0);
    put_byte(&f, receiver ? 0x41 : 0x42);
    put_byte(&f, 0x50); put_byte(&f, settled ? 1 : 0);
    put_byte(&f, 0x50); put_byte(&f, 0);
    put_terminus(&f, 0x28, receiver ? address : "");
    put_terminus(&f, 0x29, receiver ? "" : address);
    put_byte(&f, 0x40); put_byte(&f, 0x40);
    if (receiver) put_byte(&f, 0x40); else put_uint(&f, 0);
    say(fd, &f);
    return fd;
}

static void closed(int fd) {
    frame_t f = begun(0, CLOSE, 0);
    set_blocking(fd, 1);
    say(fd, &f);
    shutdown(fd, SHUT_WR);
    while (read(fd, buffer, sizeof buffer) > 0) {}
    close(fd);
}
#endif
