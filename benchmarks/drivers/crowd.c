/* crowd publish PORT NAME QUEUES CONNECTIONS SIZE COUNT SECONDS DIFFERENT
 * crowd consume PORT NAME QUEUES CONNECTIONS SIZE COUNT SECONDS
 *
 * Many connections in one process. Connection I has the queues NAME-I, NAME-(I + CONNECTIONS) and
 * so on below QUEUES; with fewer queues than connections it shares NAME-(I % QUEUES) with others.
 * consume: declares the queues (auto-delete), consumes without acknowledgement, prints "ready" and
 * counts COUNT deliveries in all. publish: so many to the queues in turn, as fast as the sockets
 * take them. Bodies begin with the number of the connection (four hexadecimal digits) and that of
 * the message on it; what one consumer gets of one publisher from one queue has to be in order. */
#define BENCH_AMQP
#include "common.h"
#include "messages.h"

enum { MOST = 128, ROOM = 256 << 10, FILL = 64 << 10 };
typedef struct {
    int fd;
    uint8_t *octets;
    size_t at, end;
    uint64_t number, left;
    int turn;
    amqp_connection_state_t library;
} peer_t;
static peer_t peers[MOST];
static struct pollfd polled[MOST];
static int queues, connections;
static uint64_t *latest; /* by connection, queue and publisher: the next number but one */

/* The TURN-th queue of a connection, or -1. */
static int queue_of(int connection, int turn) {
    if (queues <= connections) return turn ? -1 : connection % queues;
    int found = connection + turn * connections;
    return found < queues ? found : -1;
}

static uint64_t hex(const uint8_t *p, int digits) {
    uint64_t number = 0;
    for (int i = 0; i < digits; i++)
        number = number << 4 | (uint64_t)(p[i] <= '9' ? p[i] - '0' : p[i] - 'a' + 10);
    return number;
}

/* --- consume ---------------------------------------------------------------------------------- */

static void subscribe(amqp_connection_state_t c, const char *name, int queue) {
    char text[128], tag[16];
    snprintf(text, sizeof text, "%s-%d", name, queue);
    snprintf(tag, sizeof tag, "%d", queue);
    amqp_queue_declare(c, 1, amqp_cstring_bytes(text), 0, 0, 0, 1, amqp_empty_table);
    amqp_done(c, "queue.declare");
    amqp_basic_consume(c, 1, amqp_cstring_bytes(text), amqp_cstring_bytes(tag), 0, 1, 0,
                       amqp_empty_table);
    amqp_done(c, "basic.consume");
}

static void look(int i, int queue, const uint8_t *body, size_t size) {
    uint64_t publisher = hex(body, 4), number = hex(body + 4, 12);
    errno = 0;
    if (publisher >= MOST) die("content of a message");
    uint64_t *last = latest + ((size_t)i * (size_t)queues + (size_t)queue) * MOST + publisher;
    if (number < *last) die("order of messages");
    *last = number + 1;
    if (number % SAMPLE) return;
    for (size_t at = NUMBERED; at < size; at++)
        if (body[at] != 'x') die("content of a message");
}

static uint64_t take(int i, size_t size) {
    peer_t *peer = &peers[i];
    ssize_t got = read(peer->fd, peer->octets + peer->end, ROOM - peer->end);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (got == 0) hung_up();
    if (got < 0) die("read");
    peer->end += (size_t)got;
    size_t at = 0;
    uint64_t found = 0;
    while (peer->end - at >= 8) {
        const uint8_t *f = peer->octets + at;
        size_t length = get32(f + 3);
        if (length + 8 > ROOM) die("frame too large");
        if (peer->end - at < length + 8) break;
        errno = 0;
        if (f[length + 7] != FRAME_END) die("frame end");
        if (f[0] == FRAME_METHOD) {
            if (get32(f + 7) != BASIC_DELIVER) die("unexpected method");
            peer->turn = 0;
            for (int k = 0; k < f[11]; k++) peer->turn = peer->turn * 10 + f[12 + k] - '0';
        } else if (f[0] == FRAME_BODY) {
            if (length != size || peer->turn >= queues) die("body size");
            look(i, peer->turn, f + 7, size);
            found++;
        }
        at += length + 8;
    }
    peer->end -= at;
    memmove(peer->octets, peer->octets + at, peer->end);
    return found;
}

static uint64_t consume(int port, const char *name, size_t size, uint64_t count, int64_t *first) {
    uint64_t delivered = 0;
    latest = calloc((size_t)connections * (size_t)queues * MOST, sizeof *latest);
    if (!latest) die("memory");
    for (int i = 0; i < connections; i++) {
        amqp_connection_state_t c = amqp_open(port, &peers[i].fd);
        for (int turn = 0; queue_of(i, turn) >= 0; turn++) subscribe(c, name, queue_of(i, turn));
        if (!(peers[i].octets = malloc(ROOM))) die("memory");
        polled[i] = (struct pollfd){peers[i].fd, POLLIN, 0};
        set_blocking(peers[i].fd, 0);
    }
    puts("ready");
    fflush(stdout);
    while (delivered < count) {
        if (poll(polled, (nfds_t)connections, -1) < 0) die("poll");
        if (!*first) *first = now_ns();
        for (int i = 0; i < connections; i++)
            if (polled[i].revents) delivered += take(i, size);
    }
    if (delivered != count) die("count");
    return delivered;
}

/* --- publish ---------------------------------------------------------------------------------- */

static void fill(int i, const char *name, size_t size) {
    peer_t *peer = &peers[i];
    peer->at = peer->end = 0;
    while (peer->left && peer->end < FILL) {
        char key[128];
        if (queue_of(i, peer->turn) < 0) peer->turn = 0;
        snprintf(key, sizeof key, "%s-%d", name, queue_of(i, peer->turn++));
        uint8_t *p = peer->octets + peer->end;
        size_t each = put_message(p, "", key, size, 0, 0);
        renew(p, each, each, size);
        put_hex(p + each - 1 - size, (uint64_t)i << 48 | peer->number++);
        peer->end += each;
        peer->left--;
    }
}

static uint64_t publish(int port, const char *name, size_t size, uint64_t count, int64_t *first) {
    for (int i = 0; i < connections; i++) {
        peers[i].library = amqp_open(port, &peers[i].fd);
        if (!(peers[i].octets = malloc(FILL + size + 2048))) die("memory");
        peers[i].left = count / (uint64_t)connections;
        if ((uint64_t)i < count % (uint64_t)connections) peers[i].left++;
        polled[i] = (struct pollfd){peers[i].fd, POLLOUT, 0};
        set_blocking(peers[i].fd, 0);
    }
    *first = now_ns();
    for (int busy = connections; busy;) {
        if (poll(polled, (nfds_t)connections, -1) < 0) die("poll");
        for (int i = 0; i < connections; i++) {
            peer_t *peer = &peers[i];
            if (!polled[i].revents) continue;
            if (peer->at == peer->end) fill(i, name, size);
            if (peer->at == peer->end) {
                polled[i].fd = -1;
                busy--;
                continue;
            }
            ssize_t wrote = write(peer->fd, peer->octets + peer->at, peer->end - peer->at);
            if (wrote < 0 && errno != EAGAIN) die("write");
            if (wrote > 0) peer->at += (size_t)wrote;
        }
    }
    return count;
}

int main(int argc, char **argv) {
    if (argc != 9 && argc != 10) return 2;
    int port = atoi(argv[2]), publishes = !strcmp(argv[1], "publish");
    const char *name = argv[3];
    queues = atoi(argv[4]);
    connections = atoi(argv[5]);
    size_t size = strtoull(argv[6], 0, 10);
    uint64_t count = strtoull(argv[7], 0, 10);
    limit_seconds(atoi(argv[8]));
    different = argc == 10 && atoi(argv[9]);
    if (queues < 1 || connections < 1 || connections > MOST || size < NUMBERED) return 2;
    int64_t first = 0;
    uint64_t done = (publishes ? publish : consume)(port, name, size, count, &first);
    int64_t last = now_ns();
    if (publishes) { /* a broker may drop what is not read yet of a connection that is cut */
        for (int i = 0; i < connections; i++) {
            set_blocking(peers[i].fd, 1);
            amqp_channel_close(peers[i].library, 1, 200);
            amqp_connection_close(peers[i].library, 200);
        }
        printf("{\"published\": %llu, \"refused\": 0, \"first\": %lld, \"last\": %lld, "
               "\"cpu\": %.6f}\n", (unsigned long long)done, (long long)first, (long long)last,
               cpu_seconds());
        return 0;
    }
    printf("{\"delivered\": %llu, \"first\": %lld, \"last\": %lld, \"cpu\": %.6f}\n",
           (unsigned long long)done, (long long)first, (long long)last, cpu_seconds());
    return 0;
}
