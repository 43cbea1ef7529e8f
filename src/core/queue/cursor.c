/* A place in a list as text: due, sequence and shard in hex. */
#include "queue/cursor.h"

#include <inttypes.h>
#include <stdio.h>

size_t queue_cursor_write(char out[QUEUE_CURSOR_BYTES_MAX], const struct queue_cursor *cursor)
{
    int bytes = snprintf(out, QUEUE_CURSOR_BYTES_MAX, "%" PRIx64 "-%" PRIx64 "-%" PRIx32,
                         (uint64_t)cursor->due_ms, cursor->sequence, cursor->shard);
    return (size_t)bytes;
}

bool queue_cursor_parse(struct slice text, struct queue_cursor *cursor)
{
    char copy[QUEUE_CURSOR_BYTES_MAX];
    uint64_t due_ms;
    int used = 0;
    if (!text.len || text.len >= sizeof copy)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!strchr("0123456789abcdef-", text.at[i]) || !text.at[i])
            return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = 0;
    struct queue_cursor parsed;
    if (sscanf(copy, "%16" SCNx64 "-%16" SCNx64 "-%8" SCNx32 "%n", &due_ms, &parsed.sequence,
               &parsed.shard, &used) != 3 ||
        (size_t)used != text.len || due_ms > INT64_MAX)
        return false;
    parsed.due_ms = (int64_t)due_ms;
    *cursor = parsed;
    return true;
}
