#include "sqs/move.h"

#include "base/hash.h"
#include "base/json_write.h"
#include "base/random.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>

static const char handle_start[] = "move/";
enum { HANDLE_DIGITS = 16 };

static const char *const status_names[] = {[SQS_MOVE_RUNNING] = "RUNNING",
                                           [SQS_MOVE_COMPLETED] = "COMPLETED",
                                           [SQS_MOVE_CANCELLED] = "CANCELLED",
                                           [SQS_MOVE_FAILED] = "FAILED"};

static const char own_meta[] = JOB_META_OWN "sqs-move\0"
                                            "1";
const struct slice sqs_move_meta = {own_meta, sizeof own_meta};

bool sqs_move_is_own(struct slice meta)
{
    return job_meta_find(meta, slice_of(JOB_META_OWN "sqs-move")).len != 0;
}

const char *sqs_move_status_name(enum sqs_move_status status)
{
    return status_names[status];
}

void sqs_move_handle(struct slice source, char out[SQS_MOVE_HANDLE_BYTES])
{
    (void)snprintf(out, SQS_MOVE_HANDLE_BYTES, "%s%016" PRIx64 "/%.*s", handle_start, random_u64(),
                   (int)source.len, source.at);
}

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

/* Ids are limited to fewer bytes than topics, so a long source is hashed. */
struct slice sqs_move_id(const char *kind, struct slice source, char out[JOB_ID_BYTES_MAX + 1])
{
    int len = snprintf(out, JOB_ID_BYTES_MAX + 1, "%s:%.*s", kind, (int)source.len, source.at);
    if (len > JOB_ID_BYTES_MAX)
        len = snprintf(out, JOB_ID_BYTES_MAX + 1, "%s#%016" PRIx64, kind,
                       hash_64(source.at, source.len));
    return slice_make(out, (size_t)len);
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

/* ---- reading: texts contain no escapes, as topic names never do ---- */

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
