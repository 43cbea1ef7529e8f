#include "api/batch.h"

#include "api/media.h"
#include "base/clock.h"
#include "job/json.h"

#include <assert.h>

enum { CHECK_BYTES = 64 * 1024 }; /* a piece of an item: at most 0.3 ms */

/* ---- the check of a body ---- */

static enum api_batch_step refuse_count(struct http_fault *fault)
{
    (void)http_fault_set(fault, PROBLEM_TOO_MANY_ITEMS, QUEUE_BATCH_MAX,
                         "a batch has at most %d jobs: send several", QUEUE_BATCH_MAX);
    return API_BATCH_REFUSED;
}

static bool refuse_json(struct http_fault *fault, size_t at)
{
    return http_fault_set(fault, PROBLEM_BAD_JSON, 0, "malformed JSON at byte %zu", at);
}

static enum api_batch_step refuse_array(const struct api_batch_reader *reader,
                                        struct http_fault *fault)
{
    (void)refuse_json(fault, reader->at);
    return API_BATCH_REFUSED;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

static void skip_blanks(struct api_batch_reader *reader)
{
    while (reader->at < reader->body.len && is_blank(reader->body.at[reader->at]))
        reader->at++;
}

/* Returns whether the byte is next, without moving. */
static bool sees(const struct api_batch_reader *reader, char byte)
{
    return reader->at < reader->body.len && reader->body.at[reader->at] == byte;
}

static struct slice rest_of(const struct api_batch_reader *reader)
{
    return slice_make(reader->body.at + reader->at, reader->body.len - reader->at);
}

/* Counts an item. Returns false if there are too many. */
static bool count_item(struct api_batch_reader *reader, size_t bytes)
{
    if (bytes > reader->item_bytes_most)
        reader->item_bytes_most = bytes;
    return reader->item_count++ < QUEUE_BATCH_MAX;
}

/* Moves past the end of the array, behind which only blanks may follow. */
static enum api_batch_step end_array(struct api_batch_reader *reader, struct http_fault *fault)
{
    reader->at++;
    skip_blanks(reader);
    return reader->at == reader->body.len ? API_BATCH_END : refuse_array(reader, fault);
}

/* Checks the next item of an array, and the comma or the end behind it; of a long item a part. */
static enum api_batch_step check_array(struct api_batch_reader *reader, struct http_fault *fault)
{
    size_t bytes;
    if (!reader->has_begun) {
        reader->has_begun = true;
        skip_blanks(reader);
        reader->at++; /* the bracket */
        skip_blanks(reader);
        if (sees(reader, ']'))
            return end_array(reader, fault);
    }
    enum json_finding finding =
        json_scan_some(&reader->scan, rest_of(reader), JSON_DEPTH_MAX + 1, CHECK_BYTES, &bytes);
    if (finding == JSON_UNFINISHED)
        return API_BATCH_MORE;
    reader->at += bytes;
    if (finding == JSON_MALFORMED)
        return refuse_array(reader, fault);
    reader->has_deep |= finding == JSON_TOO_DEEP;
    if (!count_item(reader, bytes))
        return refuse_count(fault);
    skip_blanks(reader);
    if (sees(reader, ']'))
        return end_array(reader, fault);
    if (!sees(reader, ','))
        return refuse_array(reader, fault);
    reader->at++;
    skip_blanks(reader);
    return API_BATCH_MORE;
}

/* Moves past the next line that is not empty, to the next one. Returns false at the end. */
static bool next_line(struct api_batch_reader *reader, struct slice *line)
{
    while (reader->at < reader->body.len) {
        struct slice rest = rest_of(reader);
        const char *lf = memchr(rest.at, '\n', rest.len);
        *line = slice_make(rest.at, lf ? (size_t)(lf - rest.at) : rest.len);
        reader->at += line->len + (lf ? 1 : 0);
        if (line->len && line->at[line->len - 1] == '\r')
            line->len--;
        if (line->len)
            return true;
    }
    return false;
}

/* Checks a line of a body declared as a single JSON value. Other lines that are not JSON are invalid items. */
static bool check_line(const struct api_batch_reader *reader, struct slice line,
                       struct http_fault *fault)
{
    struct json_value value;
    size_t error_at;
    if (!reader->is_json)
        return true;
    if (json_check_levels(line, JSON_DEPTH_MAX + 1, &value, &error_at) == JSON_MALFORMED)
        return http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                              "malformed JSON at byte %zu; the body must be a JSON array of jobs, "
                              "or one object per line",
                              (size_t)(line.at - reader->body.at) + error_at);
    return value.kind == JSON_OBJECT ||
           http_fault_set(fault, PROBLEM_BAD_JSON, 0,
                          "the body must be a JSON array of jobs, or one object per line");
}

static enum api_batch_step check_lines(struct api_batch_reader *reader, struct http_fault *fault)
{
    struct slice line;
    if (!next_line(reader, &line)) {
        if (reader->item_count || !reader->is_json)
            return API_BATCH_END;
        (void)http_fault_set(
            fault, PROBLEM_BAD_JSON, 0,
            "the body is empty, send a JSON array of jobs, or one object per line");
        return API_BATCH_REFUSED;
    }
    if (!count_item(reader, line.len))
        return refuse_count(fault);
    return check_line(reader, line, fault) ? API_BATCH_MORE : API_BATCH_REFUSED;
}

/* Returns whether the first byte that is not blank begins an array. */
static bool begins_array(struct slice body)
{
    size_t i = 0;
    while (i < body.len && is_blank(body.at[i]))
        i++;
    return i < body.len && body.at[i] == '[';
}

void api_batch_begin(struct api_batch_reader *reader, struct slice body, struct slice type)
{
    *reader = (struct api_batch_reader){.body = body,
                                        .is_array = begins_array(body) && !api_media_is_lines(type),
                                        .is_json = job_type_is_json(type)};
}

enum api_batch_step api_batch_check(struct api_batch_reader *reader, struct http_fault *fault)
{
    return reader->is_array ? check_array(reader, fault) : check_lines(reader, fault);
}

void api_batch_rewind(struct api_batch_reader *reader)
{
    reader->at = 0;
    reader->has_begun = false;
}

/* ---- items ---- */

/* Records the fault of the current item, for its place in the answer. */
void api_batch_set_aside(struct api_batch *batch, const struct http_fault *fault)
{
    struct api_item_fault item = {.index = batch->item_count - 1, .fault = *fault};
    buffer_append(batch->faults, &item, sizeof item);
}

void api_batch_add_trace(struct api_batch *batch)
{
    if (batch->carry && trace_meta_add(batch->meta, batch->carry))
        batch->carried++;
    if (batch->notes_pushed && trace_meta_is_sampled(buffer_slice(batch->meta)))
        trace_meta_add_pushed(batch->meta, clock_wall_us());
}

/* Adds the request's trace context to the current item, whose pairs are still in `meta`. */
static void carry_item(struct api_batch *batch, struct queue_push *push)
{
    struct buffer *arena = batch->arena;
    size_t before = batch->meta->len;
    api_batch_add_trace(batch);
    if (batch->meta->len == before)
        return;
    arena->len -= push->meta.len; /* the part added last */
    push->meta = slice_make(arena->at + arena->len, batch->meta->len);
    buffer_append_slice(arena, buffer_slice(batch->meta));
}

static void add_item(struct api_batch *batch, struct json_value value, bool is_too_deep)
{
    struct http_fault fault;
    struct queue_push *push = &batch->pushes[batch->push_count];
    bool is_good =
        is_too_deep
            ? api_depth_refuse(&fault)
            : api_item_parse(value, push, batch->rooms ? &batch->rooms[batch->push_count] : NULL,
                             batch->arena, batch->meta, batch->hooks, &fault) &&
                  (!batch->allows || batch->allows(batch->ctx, push->topic, &fault));
    if (!is_good) {
        api_batch_set_aside(batch, &fault);
        return;
    }
    if (batch->carry || batch->notes_pushed)
        carry_item(batch, push);
    batch->push_count++;
}

static bool read_line(struct api_batch_reader *reader, struct api_batch *batch)
{
    struct json_value value;
    struct http_fault fault;
    struct slice line;
    size_t error_at;
    if (!next_line(reader, &line))
        return false;
    batch->item_count++;
    enum json_finding finding = json_check_levels(line, JSON_DEPTH_MAX + 1, &value, &error_at);
    if (finding != JSON_MALFORMED) {
        add_item(batch, value, finding == JSON_TOO_DEEP);
        return true;
    }
    (void)refuse_json(&fault, error_at);
    api_batch_set_aside(batch, &fault);
    return true;
}

/* Reads the next item of a checked array, which the cursor of json_read finds from where the last one ended. */
static bool read_array(struct api_batch_reader *reader, struct api_batch *batch)
{
    const struct json_value array = {JSON_ARRAY, reader->body};
    struct json_cursor cursor;
    struct json_value value;
    size_t ignored;
    if (!reader->has_begun) {
        skip_blanks(reader);
        reader->at++; /* the bracket */
    }
    cursor.at = reader->body.at + reader->at;
    if (!json_next_item(array, &cursor, &value))
        return false;
    reader->has_begun = true;
    reader->at = (size_t)(cursor.at - reader->body.at);
    batch->item_count++;
    bool is_deep = reader->has_deep && /* at least one item */
                   json_check_first(value.raw, JSON_DEPTH_MAX + 1, &ignored) != JSON_SOUND;
    add_item(batch, value, is_deep);
    return true;
}

bool api_batch_make_room(struct api_batch *batch, size_t bytes)
{
    batch->push_count = 0;
    buffer_clear(batch->arena);
    buffer_clear(batch->faults);
    /* Unescaped or copied text is always shorter than its source in the body. */
    bool carries = batch->carry || batch->notes_pushed;
    size_t carried = carries ? (size_t)QUEUE_BATCH_MAX * TRACE_META_BYTES_MAX : 0;
    return buffer_reserve(batch->arena, bytes + 1 + carried);
}

bool api_batch_read(struct api_batch_reader *reader, struct api_batch *batch)
{
    const char *arena_at = batch->arena->at;
    bool has_read = reader->is_array ? read_array(reader, batch) : read_line(reader, batch);
    assert(batch->arena->at == arena_at);
    (void)arena_at;
    return has_read;
}

bool api_batch_parse(struct slice body, struct slice type, struct api_batch *batch,
                     struct http_fault *fault)
{
    struct api_batch_reader reader;
    enum api_batch_step step = API_BATCH_MORE;
    batch->item_count = batch->carried = 0;
    if (!api_batch_make_room(batch, body.len))
        return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
    api_batch_begin(&reader, body, type);
    while (step == API_BATCH_MORE)
        step = api_batch_check(&reader, fault);
    if (step == API_BATCH_REFUSED)
        return false;
    api_batch_rewind(&reader);
    while (api_batch_read(&reader, batch))
        ;
    return !batch->faults->failed || http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory");
}
