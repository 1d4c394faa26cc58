/* Delays of messages whose body begins with "@" and nineteen digits of monotonic nanoseconds. */
static int64_t *delays;
static size_t delayed, most_delays;

static void expect_delays(size_t count) {
    delays = calloc(count + 1, sizeof *delays);
    if (!delays) die("memory");
    most_delays = count;
}

static void add_delay(int64_t delay) {
    if (delayed < most_delays) delays[delayed++] = delay;
}

static inline void note_delay(const char *text, size_t size) {
    if (size >= 20 && *text == '@') add_delay(now_ns() - strtoll(text + 1, 0, 10));
}

static int later(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* After all messages: the delay that this share of them does not exceed. */
static int64_t rank(double share) {
    qsort(delays, delayed, sizeof *delays, later);
    return delayed ? delays[(size_t)(share * (double)(delayed - 1))] : 0;
}
