/* What every driver shares: a clock that two processes agree on, CPU time, and AMQP set-up. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double cpu_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static inline void die(const char *why) {
    printf("{\"error\": \"%s: %s\"}\n", why, errno ? strerror(errno) : "protocol");
    fflush(stdout);
    _exit(1);
}

static inline void hung_up(void) {
    errno = 0;
    die("the server hung up");
}

static void on_alarm(int signal_number) {
    (void)signal_number;
    static const char text[] = "{\"error\": \"out of time\"}\n";
    if (write(1, text, sizeof text - 1) < 0) _exit(2);
    _exit(1);
}

static inline void limit_seconds(int seconds) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGALRM, on_alarm);
    alarm((unsigned)seconds);
}

static inline void set_blocking(int fd, int blocking) {
    int flags = fcntl(fd, F_GETFL, 0);
    fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

static inline void put16(uint8_t *p, uint32_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }
static inline void put32(uint8_t *p, uint32_t v) { put16(p, v >> 16); put16(p + 2, v & 0xffff); }
static inline void put64(uint8_t *p, uint64_t v) {
    put32(p, (uint32_t)(v >> 32));
    put32(p + 4, (uint32_t)v);
}
static inline uint32_t get32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline uint64_t get64(const uint8_t *p) { return (uint64_t)get32(p) << 32 | get32(p + 4); }

enum {
    FRAME_METHOD = 1, FRAME_HEADER = 2, FRAME_BODY = 3, FRAME_HEARTBEAT = 8, FRAME_END = 0xCE,
    BASIC_DELIVER = 60 << 16 | 60, BASIC_ACK = 60 << 16 | 80, BASIC_NACK = 60 << 16 | 120,
};

static inline void put_hex(uint8_t *p, uint64_t number) {
    for (int i = 15; i >= 0; i--, number >>= 4) p[i] = (uint8_t)"0123456789abcdef"[number & 15];
}

/* Bodies of sixteen octets and more begin with their number in hexadecimal, and are x to the end.
 * Whether this one was looked at; it has to be the INDEX-th. */
enum { NUMBERED = 16, SAMPLE = 64 };
static inline int check_body(const uint8_t *body, size_t size, uint64_t index) {
    uint64_t number = 0;
    if (size < NUMBERED || index % SAMPLE) return 0;
    for (int i = 0; i < NUMBERED; i++) {
        uint8_t c = body[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f')) return 0;
        number = number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    errno = 0;
    if (number != index) die("order of messages");
    for (size_t i = NUMBERED; i < size; i++)
        if (body[i] != 'x') die("content of a message");
    return 1;
}

#ifdef BENCH_AMQP
#include <amqp.h>
#include <amqp_tcp_socket.h>

/* Log in as guest on "/", open channel 1. The library is used for set-up only. */
static inline amqp_connection_state_t amqp_open(int port, int *fd) {
    amqp_connection_state_t c = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    if (!socket || amqp_socket_open(socket, "127.0.0.1", port)) die("connect");
    amqp_rpc_reply_t reply =
        amqp_login(c, "/", 2047, 131072, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) die("login");
    amqp_channel_open(c, 1);
    if (amqp_get_rpc_reply(c).reply_type != AMQP_RESPONSE_NORMAL) die("channel.open");
    *fd = amqp_get_sockfd(c);
    return c;
}

static inline void amqp_done(amqp_connection_state_t c, const char *what) {
    if (amqp_get_rpc_reply(c).reply_type != AMQP_RESPONSE_NORMAL) die(what);
}
#endif
#endif
