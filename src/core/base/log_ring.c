#include "base/log_ring.h"

#include <pthread.h>

struct line {
    uint32_t at, bytes;
};

static struct {
    pthread_mutex_t lock;
    uint64_t last;         /* number of the newest line */
    uint32_t count, first; /* of `lines`: their number, and the index of the oldest */
    uint32_t end;          /* in `bytes`: after the newest line */
    struct line lines[LOG_RING_LINES];
    char bytes[LOG_RING_BYTES];
} ring = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct line *line_at(uint32_t i)
{
    return &ring.lines[(ring.first + i) % LOG_RING_LINES];
}

/* Drops the oldest lines until there is room. They are in order from `end` on, then from the
 * beginning. Returns the offset of the new line. */
static uint32_t make_room(uint32_t bytes)
{
    bool wraps = LOG_RING_BYTES - ring.end < bytes;
    uint32_t at = wraps ? 0 : ring.end;
    while (ring.count) {
        const struct line *oldest = line_at(0);
        bool is_behind = wraps && oldest->at >= ring.end;
        bool is_in_the_way = oldest->at < at + bytes && at < oldest->at + oldest->bytes;
        if (ring.count < LOG_RING_LINES && !is_behind && !is_in_the_way)
            break;
        ring.first = (ring.first + 1) % LOG_RING_LINES;
        ring.count--;
    }
    return at;
}

void log_ring_add(struct slice line)
{
    if (!line.len || line.len > LOG_RING_BYTES)
        return;
    uint32_t bytes = (uint32_t)line.len;
    pthread_mutex_lock(&ring.lock);
    uint32_t at = make_room(bytes);
    memcpy(ring.bytes + at, line.at, bytes);
    ring.lines[(ring.first + ring.count) % LOG_RING_LINES] = (struct line){at, bytes};
    ring.count++;
    ring.end = at + bytes;
    ring.last++;
    pthread_mutex_unlock(&ring.lock);
}

uint64_t log_ring_read(uint64_t since, uint32_t limit, struct buffer *out, uint64_t *lost)
{
    pthread_mutex_lock(&ring.lock);
    uint64_t gone = ring.last - ring.count; /* lines up to this number were dropped */
    bool is_tail = !since || since > ring.last;
    if (is_tail)
        since = 0;
    *lost = gone > since ? gone - since : 0;
    uint64_t from = since > gone ? since : gone;
    if (is_tail && ring.last - from > limit)
        from = ring.last - limit;
    uint64_t to = ring.last - from > limit ? from + limit : ring.last;
    for (uint64_t number = from; number < to; number++) {
        const struct line *line = line_at((uint32_t)(number - gone));
        if (number > from)
            buffer_append_byte(out, ',');
        buffer_append(out, ring.bytes + line->at, line->bytes);
    }
    pthread_mutex_unlock(&ring.lock);
    return to;
}
