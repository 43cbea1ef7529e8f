#include "sql/event.h"

#include "base/text.h"

void sql_event_emit(struct buffer *out, const struct job_event *event)
{
    size_t error_bytes =
        event->error.len < JOB_ERROR_BYTES_MAX ? event->error.len : JOB_ERROR_BYTES_MAX;
    buffer_append_format(out, "%d %u %lld %lld %llu %d ", (int)event->kind, event->attempt,
                         (long long)event->due_ms, (long long)event->lease_until_ms,
                         (unsigned long long)event->count, (int)event->way);
    buffer_append_slice(out, event->topic);
    buffer_append_byte(out, ' ');
    buffer_append_slice(out, event->id);
    buffer_append_byte(out, ' ');
    text_percent_encode(slice_make(event->error.at, error_bytes), "", out);
    buffer_append_byte(out, '\n');
}

/* Takes the text up to `end` and skips `end`. Returns false if `end` is missing. */
static bool take_text(struct slice *rest, char end, struct slice *out)
{
    const char *at = rest->len ? memchr(rest->at, end, rest->len) : NULL;
    if (!at)
        return false;
    *out = slice_make(rest->at, (size_t)(at - rest->at));
    *rest = slice_make(at + 1, rest->len - out->len - 1);
    return true;
}

bool sql_event_take_number(struct slice *rest, char end, uint64_t *out)
{
    struct slice digits;
    uint64_t number = 0;
    if (!take_text(rest, end, &digits) || !digits.len || digits.len > 18)
        return false;
    for (size_t i = 0; i < digits.len; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(digits.at[i] - '0');
    }
    *out = number;
    return true;
}

bool sql_event_take(struct slice *lines, struct buffer *error, struct job_event *out)
{
    uint64_t kind, attempt, due, until, way;
    struct slice text;
    *out = (struct job_event){0};
    buffer_clear(error);
    if (!sql_event_take_number(lines, ' ', &kind) || kind < JOB_EVENT_PUSHED ||
        kind >= JOB_EVENT_KINDS_END || !sql_event_take_number(lines, ' ', &attempt) ||
        !sql_event_take_number(lines, ' ', &due) || !sql_event_take_number(lines, ' ', &until) ||
        !sql_event_take_number(lines, ' ', &out->count) ||
        !sql_event_take_number(lines, ' ', &way) || !take_text(lines, ' ', &out->topic) ||
        !take_text(lines, ' ', &out->id) || !take_text(lines, '\n', &text) ||
        !text_percent_decode(text, false, error) || error->failed)
        return false;
    out->kind = (enum job_event_kind)kind;
    out->way = way <= JOB_WAY_BROKER ? (enum job_way)way : JOB_WAY_UNKNOWN;
    out->attempt = (uint32_t)attempt;
    out->due_ms = (int64_t)due;
    out->lease_until_ms = (int64_t)until;
    out->error = buffer_slice(error);
    return true;
}

struct slice sql_event_take_lines(struct slice *lines, size_t bytes_max)
{
    size_t len = lines->len < bytes_max ? lines->len : bytes_max;
    while (len && lines->at[len - 1] != '\n')
        len--;
    struct slice taken = slice_make(lines->at, len);
    *lines = slice_make(lines->at + len, lines->len - len);
    return taken;
}

size_t sql_event_count(struct slice lines)
{
    size_t count = 0;
    for (size_t i = 0; i < lines.len; i++)
        count += lines.at[i] == '\n';
    return count;
}
