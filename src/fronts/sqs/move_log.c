#include "sqs/move_log.h"

#include "base/json_write.h"

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

static struct json_value log_member(struct slice log, const char *name)
{
    struct json_value object = {0};
    return json_check(log, &object, NULL) ? json_member(object, name) : (struct json_value){0};
}

struct json_value sqs_move_log_tasks(struct slice log)
{
    return log_member(log, "tasks");
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
