/* A place in a list as text: due, sequence and shard in hex, then the difference of the clocks if it is
 * known. */
#include "queue/cursor.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    NOISE_MS = 2, /* two readings of the difference of the clocks differ by up to this */
    /* The shards of a store notice a step one after the other, so their clocks differ afterwards. */
    MARGIN_MS = 200
};

size_t queue_cursor_write(char out[QUEUE_CURSOR_BYTES_MAX], const struct queue_cursor *cursor)
{
    int bytes = snprintf(out, QUEUE_CURSOR_BYTES_MAX, "%" PRIx64 "-%" PRIx64 "-%" PRIx32,
                         (uint64_t)cursor->due_ms, cursor->sequence, cursor->shard);
    if (cursor->has_skew)
        bytes += snprintf(out + bytes, (size_t)(QUEUE_CURSOR_BYTES_MAX - bytes), "-%" PRIx64,
                          (uint64_t)cursor->skew_ms);
    return (size_t)bytes;
}

bool queue_cursor_parse(struct slice text, struct queue_cursor *cursor)
{
    char copy[QUEUE_CURSOR_BYTES_MAX];
    uint64_t due_ms, skew_ms = 0;
    int used = 0, all = 0;
    if (!text.len || text.len >= sizeof copy)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!strchr("0123456789abcdef-", text.at[i]) || !text.at[i] ||
            (text.at[i] == '-' && (i == 0 || text.at[i - 1] == '-')))
            return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = 0;
    struct queue_cursor parsed = {0};
    int fields = sscanf(copy, "%16" SCNx64 "-%16" SCNx64 "-%8" SCNx32 "%n-%16" SCNx64 "%n", &due_ms,
                        &parsed.sequence, &parsed.shard, &used, &skew_ms, &all);
    if (fields < 3 || (size_t)(fields == 4 ? all : used) != text.len || due_ms > INT64_MAX)
        return false;
    parsed.due_ms = (int64_t)due_ms;
    parsed.has_skew = fields == 4;
    parsed.skew_ms = (int64_t)skew_ms;
    *cursor = parsed;
    return true;
}

bool queue_cursor_is_before(const struct queue_cursor *cursor, int64_t due_ms, uint64_t sequence,
                            uint32_t shard)
{
    if (due_ms != cursor->due_ms)
        return due_ms > cursor->due_ms;
    return sequence != cursor->sequence ? sequence > cursor->sequence : shard > cursor->shard;
}

void queue_cursor_follow(struct queue_cursor *cursor, int64_t skew_ms, bool is_finished)
{
    int64_t step_ms;
    if (!cursor->has_skew || __builtin_sub_overflow(skew_ms, cursor->skew_ms, &step_ms) ||
        (step_ms >= -NOISE_MS && step_ms <= NOISE_MS))
        return;
    int64_t by_ms = is_finished ? -step_ms : step_ms < 0 ? step_ms : 0;
    if (by_ms)
        by_ms -= step_ms > -MARGIN_MS && step_ms < MARGIN_MS ? NOISE_MS : MARGIN_MS;
    if (__builtin_add_overflow(cursor->due_ms, by_ms, &by_ms))
        return;
    cursor->due_ms = by_ms > 0 ? by_ms : 0;
    cursor->skew_ms = skew_ms;
}
