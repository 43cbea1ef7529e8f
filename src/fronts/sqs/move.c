#include "sqs/move.h"

#include "base/hash.h"
#include "base/json_write.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- names ---- */

/* Ids are limited to fewer bytes than topics, so a long source is hashed. */
struct slice sqs_move_id(const char *kind, struct slice source, char out[JOB_ID_BYTES_MAX + 1])
{
    int len = snprintf(out, JOB_ID_BYTES_MAX + 1, "%s:%.*s", kind, (int)source.len, source.at);
    if (len > JOB_ID_BYTES_MAX)
        len = snprintf(out, JOB_ID_BYTES_MAX + 1, "%s#%016" PRIx64, kind,
                       hash_64(source.at, source.len));
    return slice_make(out, (size_t)len);
}

static const char handle_start[] = "move/";

void sqs_move_handle(struct slice source, char out[SQS_MOVE_HANDLE_BYTES])
{
    (void)snprintf(out, SQS_MOVE_HANDLE_BYTES, "%s%016" PRIx64 "/%.*s", handle_start, random_u64(),
                   (int)source.len, source.at);
}

enum { HANDLE_DIGITS = 16 };

struct slice sqs_move_handle_source(struct slice handle)
{
    size_t before = sizeof handle_start - 1 + HANDLE_DIGITS + 1;
    if (handle.len <= before || handle.len >= SQS_MOVE_HANDLE_BYTES ||
        memcmp(handle.at, handle_start, sizeof handle_start - 1) != 0 ||
        handle.at[before - 1] != '/')
        return (struct slice){0};
    struct slice source = slice_make(handle.at + before, handle.len - before);
    return job_topic_is_valid(source) ? source : (struct slice){0};
}

static const char own_meta[] = JOB_META_OWN "sqs-move\0"
                                            "1";
const struct slice sqs_move_meta = {own_meta, sizeof own_meta};

bool sqs_move_is_own(struct slice meta)
{
    return job_meta_find(meta, slice_of(JOB_META_OWN "sqs-move")).len != 0;
}

/* ---- the task: its texts contain no escapes, as topic names never do ---- */

static const char *const status_names[] = {[SQS_MOVE_RUNNING] = "RUNNING",
                                           [SQS_MOVE_COMPLETED] = "COMPLETED",
                                           [SQS_MOVE_CANCELLED] = "CANCELLED",
                                           [SQS_MOVE_FAILED] = "FAILED"};

const char *sqs_move_status_name(enum sqs_move_status status)
{
    return status_names[status];
}

void sqs_move_write(const struct sqs_move *move, struct buffer *out)
{
    buffer_append_byte(out, '{');
    json_write_member_text(out, "handle", slice_of(move->handle));
    json_write_member_text(out, "status", slice_of(status_names[move->status]));
    json_write_member_text(out, "source", slice_of(move->source));
    json_write_member_text(out, "to", slice_of(move->to));
    json_write_member_number(out, "rate", (uint64_t)move->rate);
    json_write_member_number(out, "started", (uint64_t)move->started_ms);
    json_write_member_number(out, "total", move->total);
    json_write_member_number(out, "moved", move->moved);
    json_write_member_text(out, "reason", slice_of(move->reason));
}

static bool read_text(struct json_value object, const char *name, char *out, size_t bytes)
{
    struct json_value value = json_member(object, name);
    if (value.kind != JSON_STRING || value.raw.len - 2 >= bytes)
        return false;
    (void)snprintf(out, bytes, "%.*s", (int)(value.raw.len - 2), value.raw.at + 1);
    return true;
}

static bool read_number(struct json_value object, const char *name, int64_t *out)
{
    struct json_value value = json_member(object, name);
    return value.kind == JSON_NUMBER && json_number_i64(value.raw, out) && *out >= 0;
}

bool sqs_move_read(struct json_value object, struct sqs_move *out)
{
    char status[16] = "";
    int64_t total, moved;
    *out = (struct sqs_move){0};
    if (!read_text(object, "handle", out->handle, sizeof out->handle) ||
        !read_text(object, "status", status, sizeof status) ||
        !read_text(object, "source", out->source, sizeof out->source) ||
        !read_text(object, "to", out->to, sizeof out->to) ||
        !read_text(object, "reason", out->reason, sizeof out->reason) ||
        !read_number(object, "rate", &out->rate) ||
        !read_number(object, "started", &out->started_ms) ||
        !read_number(object, "total", &total) || !read_number(object, "moved", &moved))
        return false;
    out->total = (uint64_t)total;
    out->moved = (uint64_t)moved;
    for (int i = SQS_MOVE_RUNNING; i <= SQS_MOVE_FAILED; i++)
        if (strcmp(status, status_names[i]) == 0)
            out->status = (enum sqs_move_status)i;
    return out->status && job_topic_is_valid(slice_of(out->source)) &&
           (!out->to[0] || job_topic_is_valid(slice_of(out->to)));
}

/* ---- the log of a source ---- */

static struct json_value log_member(struct slice log, const char *name)
{
    struct json_value object = {0};
    return json_check(log, &object, NULL) ? json_member(object, name) : (struct json_value){0};
}

struct json_value sqs_move_log_tasks(struct slice log)
{
    return log_member(log, "tasks");
}

void sqs_move_log_write(const struct sqs_move *move, struct slice history,
                        const struct sqs_move_entry *entries, size_t count, struct buffer *out)
{
    buffer_append_text(out, "{\"tasks\":[");
    sqs_move_write(move, out);
    buffer_append_byte(out, '}');
    buffer_append_slice(out, history);
    buffer_append_text(out, "],\"batch\":[");
    for (size_t i = 0; i < count; i++) {
        buffer_append_text(out, i ? ",{" : "{");
        json_write_member_text(out, "id", entries[i].id);
        json_write_member_text(out, "to", entries[i].to);
        json_write_member_number(out, "delivery", entries[i].delivery);
        buffer_append_byte(out, '}');
    }
    buffer_append_text(out, "]}");
}

void sqs_move_log_read_tasks(struct slice log, struct sqs_move *move, struct buffer *history)
{
    struct json_value tasks = sqs_move_log_tasks(log), entry;
    struct json_cursor cursor = {0};
    struct sqs_move other;
    size_t count = 1; /* including the newest */
    while (tasks.kind == JSON_ARRAY && json_next_item(tasks, &cursor, &entry)) {
        if (!sqs_move_read(entry, &other))
            continue;
        if (strcmp(other.handle, move->handle) == 0) {
            *move = other;
        } else if (++count <= SQS_MOVES_KEPT) {
            buffer_append_byte(history, ',');
            buffer_append_slice(history, entry.raw);
        }
    }
}

/* Reads an entry of the batch. Topics contain no escapes. */
static bool read_entry(struct json_value value, struct buffer *text, struct sqs_move_entry *out)
{
    struct json_value id = json_member(value, "id"), to = json_member(value, "to"),
                      delivery = json_member(value, "delivery");
    struct slice plain;
    int64_t number;
    if (id.kind != JSON_STRING || to.kind != JSON_STRING || to.raw.len <= 2 ||
        delivery.kind != JSON_NUMBER || !json_number_i64(delivery.raw, &number) ||
        !json_string_bytes(id.raw, text, &plain))
        return false;
    *out = (struct sqs_move_entry){
        .id = buffer_append_copy(text, plain), /* `plain` may point into the log */
        .to = buffer_append_copy(text, slice_make(to.raw.at + 1, to.raw.len - 2)),
        .delivery = (uint64_t)number};
    return true;
}

bool sqs_move_log_read_batch(struct slice log, struct buffer *text,
                             struct sqs_move_entry entries[SQS_MOVE_BATCH_MAX], size_t *count)
{
    struct json_value batch = log_member(log, "batch"), value;
    struct json_cursor cursor = {0};
    size_t bytes = 2 * log.len + 1; /* space for an unescaped id and its copy */
    buffer_init(text, bytes);
    *count = 0;
    if (!buffer_reserve(text, bytes))
        return false;
    while (batch.kind == JSON_ARRAY && *count < SQS_MOVE_BATCH_MAX &&
           json_next_item(batch, &cursor, &value))
        *count += read_entry(value, text, &entries[*count]);
    return true;
}
