/* sse PORT PATH STREAMS EVENTS SECONDS [HEADER]
 *
 * Opens STREAMS event streams, prints "ready" when every one has answered 200, then counts
 * marks: "@" and nineteen digits of monotonic nanoseconds, put into the body by the publisher.
 * Ends after EVENTS marks in all, or when nothing came for three seconds. */
#include "common.h"
#include <arpa/inet.h>
#include <sys/epoll.h>

enum { ROOM = 1 << 18, KEEP = 20, MOST = 16384, SAMPLES = 1 << 23 };
typedef struct {
    int fd, open;
    size_t kept;
    char tail[1024]; /* the head of the answer at first, later an unfinished mark */
} Stream;
static Stream streams[MOST];
static char room[1024 + ROOM + 1];
static uint32_t samples[SAMPLES];
static uint64_t seen;

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

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    int many = atoi(argv[3]), opened = 0, alive = many;
    uint64_t wanted = strtoull(argv[4], 0, 10);
    if (many < 1 || many > MOST) return 2;
    limit_seconds(atoi(argv[5]));
    char request[2048];
    int length = snprintf(request, sizeof request,
                          "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s%s"
                          "Accept: text/event-stream\r\n\r\n",
                          argv[2], argc > 6 ? argv[6] : "", argc > 6 ? "\r\n" : "");
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int poller = epoll_create1(0);
    for (int i = 0; i < many; i++) {
        Stream *s = &streams[i];
        s->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(s->fd, (struct sockaddr *)&to, sizeof to)) die("connect");
        if (write(s->fd, request, (size_t)length) != length) die("write");
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};
        epoll_ctl(poller, EPOLL_CTL_ADD, s->fd, &e);
    }
    int64_t first = 0, last = 0;
    double cpu = 0;
    while (seen < wanted && alive) {
        struct epoll_event events[512];
        int n = epoll_wait(poller, events, 512, 3000);
        if (n == 0 && opened == many && seen) break;
        for (int i = 0; i < n; i++) {
            Stream *s = events[i].data.ptr;
            memcpy(room, s->tail, s->kept);
            ssize_t got = read(s->fd, room + s->kept, ROOM);
            if (got <= 0) {
                if (opened < many) die("a stream ended before all were open");
                epoll_ctl(poller, EPOLL_CTL_DEL, s->fd, 0);
                alive--;
                continue;
            }
            size_t have = s->kept + (size_t)got;
            if (!s->open) {
                if (greet(s, have) && ++opened == many) {
                    puts("ready");
                    fflush(stdout);
                    cpu = cpu_seconds();
                }
                continue;
            }
            int64_t now = now_ns();
            uint64_t before = seen;
            scan(s, have, now);
            if (seen > before) {
                last = now;
                if (!first) first = now;
            }
        }
    }
    cpu = cpu_seconds() - cpu;
    uint64_t kept = seen < SAMPLES ? seen : SAMPLES;
    qsort(samples, kept, sizeof *samples, by_value);
    printf("{\"events\": %llu, \"seconds\": %.6f, \"p50_us\": %u, \"p99_us\": %u, "
           "\"max_us\": %u, \"lost_streams\": %d, \"cpu\": %.6f}\n", (unsigned long long)seen,
           (double)(last - first) / 1e9, kept ? samples[kept / 2] : 0,
           kept ? samples[kept * 99 / 100] : 0, kept ? samples[kept - 1] : 0, many - alive, cpu);
    return 0;
}
