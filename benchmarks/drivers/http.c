/* http PORT PATH BODY CONNECTIONS SECONDS [HEADER...]
 *
 * Keep-alive POSTs of BODY (a file, or so many octets), one outstanding per connection, for
 * SECONDS. The request is encoded once; an answer is complete after its content-length or its last
 * chunk. Counts answers by class. */
#include "common.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

enum { ROOM = 1 << 17, MOST = 1024, SAMPLES = 1 << 22 };
typedef struct {
    int fd;
    size_t have;
    int64_t asked;
    char room[ROOM + 1];
} Peer;
static Peer peers[MOST];
static uint32_t samples[SAMPLES];
static char request[1 << 18];
static size_t request_size;

static void ask(Peer *p) {
    p->have = 0;
    p->asked = now_ns();
    if (write(p->fd, request, request_size) != (ssize_t)request_size) die("write");
}

/* The size of the whole answer, or 0 while its head is incomplete. */
static size_t answer_size(Peer *p) {
    p->room[p->have] = 0;
    char *blank = strstr(p->room, "\r\n\r\n");
    if (!blank) return 0;
    size_t head = (size_t)(blank - p->room) + 4;
    char *length = strcasestr(p->room, "\r\ncontent-length:");
    if (length && length < blank) return head + strtoull(length + 17, 0, 10);
    if (strncmp(p->room + 9, "204", 3) == 0) return head;
    if ((length = strcasestr(p->room, "\r\ntransfer-encoding: chunked")) && length < blank) {
        int ended = p->have >= head + 5 && !memcmp(p->room + p->have - 5, "0\r\n\r\n", 5);
        return ended ? p->have : 0;
    }
    errno = 0;
    die("an answer without content-length");
    return 0;
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The body into `to`: a file's octets, or as many "x" as the number says. */
static size_t fill(const char *what, char *to, size_t most) {
    char *end;
    size_t size = strtoull(what, &end, 10);
    if (!*end) {
        if (size > most) die("the body is too large");
        memset(to, 'x', size);
        return size;
    }
    int file = open(what, O_RDONLY);
    ssize_t got = file < 0 ? -1 : read(file, to, most);
    if (got < 0) die("the body's file");
    close(file);
    return (size_t)got;
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    static char body[1 << 17];
    size_t size = fill(argv[3], body, sizeof body);
    int many = atoi(argv[4]);
    double seconds = atof(argv[5]);
    if (many < 1 || many > MOST) return 2;
    limit_seconds((int)seconds + 20);
    char *room = request + 65536, *at = request;
    at += snprintf(at, (size_t)(room - at), "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n", argv[2]);
    for (int i = 6; i < argc && at < room; i++)
        at += snprintf(at, (size_t)(room - at), "%s\r\n", argv[i]);
    if (at < room) at += snprintf(at, (size_t)(room - at), "Content-Length: %zu\r\n\r\n", size);
    if (at >= room) die("the head is too large");
    memcpy(at, body, size);
    request_size = (size_t)(at - request) + size;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int poller = epoll_create1(0), one = 1;
    for (int i = 0; i < many; i++) {
        Peer *p = &peers[i];
        p->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(p->fd, (struct sockaddr *)&to, sizeof to)) die("connect");
        setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};
        epoll_ctl(poller, EPOLL_CTL_ADD, p->fd, &e);
    }
    double cpu = cpu_seconds();
    int64_t begin = now_ns(), end = begin + (int64_t)(seconds * 1e9), last = begin;
    uint64_t good = 0, bad = 0, count = 0;
    int status = 0, open = many;
    for (int i = 0; i < many; i++) ask(&peers[i]);
    while (open) {
        struct epoll_event events[256];
        int n = epoll_wait(poller, events, 256, 1000);
        int64_t now = now_ns();
        if (n == 0 && now > end) break;
        for (int i = 0; i < n; i++) {
            Peer *p = events[i].data.ptr;
            ssize_t got = read(p->fd, p->room + p->have, ROOM - p->have);
            if (got == 0) hung_up();
            if (got < 0) die("read");
            p->have += (size_t)got;
            size_t whole = answer_size(p);
            if (whole > ROOM) die("answer too large");
            if (!whole || p->have < whole) continue;
            int code = atoi(p->room + 9);
            if (code >= 200 && code < 300) good++;
            else { bad++; status = code; }
            samples[count++ % SAMPLES] = (uint32_t)((now - p->asked) / 1000);
            last = now;
            if (now < end) ask(p);
            else { close(p->fd); open--; }
        }
    }
    cpu = cpu_seconds() - cpu;
    uint64_t kept = count < SAMPLES ? count : SAMPLES;
    qsort(samples, kept, sizeof *samples, by_value);
    printf("{\"good\": %llu, \"bad\": %llu, \"bad_status\": %d, \"seconds\": %.6f, "
           "\"p50_us\": %u, \"p99_us\": %u, \"cpu\": %.6f}\n", (unsigned long long)good,
           (unsigned long long)bad, status, (double)(last - begin) / 1e9,
           kept ? samples[kept / 2] : 0, kept ? samples[kept * 99 / 100] : 0, cpu);
    return 0;
}
