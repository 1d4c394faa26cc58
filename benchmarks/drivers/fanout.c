/* fanout PORT STREAM_PATH POST_PATH READERS WINDOW RATE SECONDS PREFIX TYPE [HEADER...]
 *
 * Opens READERS event streams and four connections that publish, all in one process and thread.
 * Every event carries a mark, "@" and nineteen digits of monotonic nanoseconds, written when its
 * POST goes out and looked for in what each stream is sent, so both ends have one clock.
 *
 * With RATE 0 it publishes as fast as WINDOW allows: so many messages may be under way, that is,
 * not yet with all readers. Nothing can be lost by being too fast then, whatever the server does
 * with slow readers. With a RATE (messages per second) it publishes at fixed times. Ends after
 * SECONDS, or after 30000 messages (nchan has given no more than 32768 to one stream of a channel
 * here), and what was under way then. PREFIX goes before the mark in each body of content type
 * TYPE; 256 octets follow from the mark on. HEADERs go with all requests. */
#include "common.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

enum {
    ROOM = 1 << 18, KEEP = 20, MOST = 16384, SAMPLES = 1 << 23, BODY = 256, DOORS = 4,
    AT_ONCE = 128, MESSAGES = 30000, PATIENCE_NS = 3000000000u,
};
typedef struct {
    int fd, open;
    size_t kept;
    char tail[2048]; /* the head of the answer at first, later an unfinished mark */
} Stream;
typedef struct {
    int fd, busy;
    size_t have;
    char room[8192];
} Door;
static Stream streams[MOST];
static Door doors[DOORS];
static char room[sizeof streams[0].tail + ROOM + 1];
static uint32_t samples[SAMPLES];
static char post[8192], ask[4096];
static size_t post_size, mark_offset, ask_size;
static uint64_t seen, published, answered, refused;
static int poller, status;

static int64_t mark_at(const char *p) {
    int64_t value = 0;
    for (int i = 1; i < KEEP; i++) {
        if (p[i] < '0' || p[i] > '9') return -1;
        value = value * 10 + (p[i] - '0');
    }
    return value;
}

static void scan(Stream *s, size_t n, int64_t now) {
    const char *p = room, *stop = room + n;
    while ((p = memchr(p, '@', (size_t)(stop - p)))) {
        if (stop - p < KEEP) break;
        int64_t sent = mark_at(p);
        if (sent >= 0) {
            samples[seen++ % SAMPLES] = (uint32_t)((now - sent) / 1000);
            p += KEEP;
        } else
            p++;
    }
    s->kept = p ? (size_t)(stop - p) : 0;
    memcpy(s->tail, p ? p : stop, s->kept);
}

/* True when this piece completed the head of the answer. */
static int greet(Stream *s, size_t n) {
    room[n] = 0;
    if (!strstr(room, "\r\n\r\n")) {
        if (n > sizeof s->tail) die("a head too large");
        memcpy(s->tail, room, s->kept = n);
        return 0;
    }
    errno = 0;
    if (strncmp(room + 9, "200", 3)) {
        room[strcspn(room, "\r")] = 0;
        die(room);
    }
    s->kept = 0;
    return s->open = 1;
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static int dial(int port, uint64_t tag) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = tag};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    return fd;
}

static void publish(Door *d) {
    char mark[KEEP + 1];
    snprintf(mark, sizeof mark, "@%019lld", (long long)now_ns());
    memcpy(post + mark_offset, mark, KEEP);
    d->busy = 1;
    d->have = 0;
    published++;
    if (write(d->fd, post, post_size) != (ssize_t)post_size) die("write");
}

/* The answer to a POST: complete after its content-length, or its last chunk. */
static void answer(Door *d) {
    ssize_t got = read(d->fd, d->room + d->have, sizeof d->room - 1 - d->have);
    if (got == 0) hung_up();
    if (got < 0) die("read");
    d->room[d->have += (size_t)got] = 0;
    char *blank = strstr(d->room, "\r\n\r\n");
    if (!blank) return;
    size_t head = (size_t)(blank - d->room) + 4, whole = head;
    char *length = strcasestr(d->room, "\r\ncontent-length:");
    if (length && length < blank)
        whole += strtoull(length + 17, 0, 10);
    else if (strcasestr(d->room, "\r\ntransfer-encoding: chunked")) {
        if (d->have < head + 5 || memcmp(d->room + d->have - 5, "0\r\n\r\n", 5)) return;
        whole = d->have;
    }
    if (d->have < whole) return;
    if (d->room[9] != '2') {
        refused++;
        status = atoi(d->room + 9);
    }
    answered++;
    d->busy = 0;
}

/* All streams, a few unanswered at a time: a listener's backlog is not what is measured. */
static void open_streams(int port, int many) {
    int asked = 0, opened = 0;
    while (opened < many) {
        while (asked < many && asked - opened < AT_ONCE) {
            Stream *s = &streams[asked];
            s->fd = dial(port, (uint64_t)asked++);
            if (write(s->fd, ask, ask_size) != (ssize_t)ask_size) die("write");
        }
        struct epoll_event events[512];
        int n = epoll_wait(poller, events, 512, 10000);
        errno = 0;
        if (n == 0) die("no more streams are answered");
        for (int i = 0; i < n; i++) {
            Stream *s = &streams[events[i].data.u64];
            memcpy(room, s->tail, s->kept);
            ssize_t got = read(s->fd, room + s->kept, ROOM);
            if (got <= 0) die("a stream ended before all were open");
            if (!s->open) opened += greet(s, s->kept + (size_t)got);
        }
    }
}

int main(int argc, char **argv) {
    if (argc < 10) return 2;
    int port = atoi(argv[1]), many = atoi(argv[4]), alive = many;
    uint64_t window = strtoull(argv[5], 0, 10);
    double rate = atof(argv[6]), seconds = atof(argv[7]);
    if (many < 1 || many > MOST) return 2;
    limit_seconds((int)seconds + 60);
    struct rlimit files = {0, 0};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    errno = EMFILE;
    if (files.rlim_cur < (rlim_t)many + 32) die("too few files are allowed");
    char more[2048] = "", *at = more;
    for (int i = 10; i < argc && at < more + sizeof more; i++)
        at += snprintf(at, sizeof more - (size_t)(at - more), "%s\r\n", argv[i]);
    ask_size = (size_t)snprintf(ask, sizeof ask,
                                "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s"
                                "Accept: text/event-stream\r\n\r\n", argv[2], more);
    size_t prefix = strlen(argv[8]);
    mark_offset = (size_t)snprintf(post, sizeof post,
                                   "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%sContent-Type: %s\r\n"
                                   "Content-Length: %zu\r\n\r\n%s", argv[3], more, argv[9],
                                   prefix + BODY, argv[8]);
    if (ask_size >= sizeof ask || mark_offset + BODY > sizeof post) return 2;
    memset(post + mark_offset, 'x', BODY);
    post_size = mark_offset + BODY;

    poller = epoll_create1(0);
    open_streams(port, many);
    for (int i = 0; i < DOORS; i++) doors[i].fd = dial(port, (uint64_t)(MOST + i));
    puts("ready");
    fflush(stdout);
    double cpu = cpu_seconds();
    int64_t begin = now_ns(), now = begin, last = begin;
    int64_t end = begin + (int64_t)(seconds * 1e9);
    for (;;) {
        now = now_ns();
        if (published >= MESSAGES && now < end) end = now;
        if (now < end) {
            uint64_t due = rate > 0 ? (uint64_t)((double)(now - begin) / 1e9 * rate) + 1 : ~0ull;
            for (int i = 0; i < DOORS && published < due; i++) {
                if (published * (uint64_t)many >= seen + window * (uint64_t)many) break;
                if (!doors[i].busy) publish(&doors[i]);
            }
        } else if (seen >= published * (uint64_t)alive && answered == published)
            break;
        else if (now - last > PATIENCE_NS && now - end > PATIENCE_NS)
            break;
        int wait = 1000;
        if (now < end && rate > 0) {
            int64_t next = begin + (int64_t)((double)published / rate * 1e9);
            wait = next > now ? (int)((next - now) / 1000000) + 1 : 1;
        }
        struct epoll_event events[512];
        int n = epoll_wait(poller, events, 512, wait);
        for (int i = 0; i < n; i++) {
            uint64_t tag = events[i].data.u64;
            if (tag >= MOST) {
                answer(&doors[tag - MOST]);
                continue;
            }
            Stream *s = &streams[tag];
            memcpy(room, s->tail, s->kept);
            ssize_t got = read(s->fd, room + s->kept, ROOM);
            if (got <= 0) {
                epoll_ctl(poller, EPOLL_CTL_DEL, s->fd, 0);
                alive--;
                continue;
            }
            uint64_t before = seen;
            int64_t here = now_ns();
            scan(s, s->kept + (size_t)got, here);
            if (seen > before) last = here;
        }
    }
    cpu = cpu_seconds() - cpu;
    uint64_t kept = seen < SAMPLES ? seen : SAMPLES;
    qsort(samples, kept, sizeof *samples, by_value);
    printf("{\"events\": %llu, \"published\": %llu, \"refused\": %llu, \"status\": %d, "
           "\"seconds\": %.6f, \"p50_us\": %u, \"p99_us\": %u, \"max_us\": %u, "
           "\"lost_streams\": %d, \"cpu\": %.6f}\n", (unsigned long long)seen,
           (unsigned long long)published, (unsigned long long)refused, status,
           (double)(last - begin) / 1e9, kept ? samples[kept / 2] : 0,
           kept ? samples[kept * 99 / 100] : 0, kept ? samples[kept - 1] : 0, many - alive, cpu);
    return 0;
}
