#include "job/json.h"

#include "base/buffer_put.h"
#include "base/duration.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/timestamp.h"

#include <stddef.h>
#include <strings.h>

enum { KEY_BYTES = 24 };

#define PUT BUFFER_PUT

/* A line while it is read. */
struct job_json_reading {
    struct job_json *out;
    struct buffer *text, *meta;
    struct json_value body; /* read last, because its meaning depends on the type */
};

struct job_json_writing {
    const struct job *job;
    struct slice lease;
};

/* A member of a job. `at` is the field of the job that the row names. */
struct job_member {
    char key[KEY_BYTES]; /* `,"name":` */
    uint8_t key_len, forms;
    uint16_t offset; /* of the field in struct job */
    /* Writes the value, or nothing and no key if the job has no value. */
    void (*write)(struct buffer *out, const struct job_member *member, const void *at,
                  const struct job_json_writing *writing);
    bool (*read)(struct job_json_reading *reading, struct json_value value, void *at); /* or NULL */
    /* Writes the member of an export from a kept job. NULL: a copy of the member `kept`, or of the
     * same name. */
    bool (*dump)(struct buffer *out, const struct job_member *member, struct json_value job);
    const char *kept;
};

/* Appends the key. A copy of fixed length is a few moves, and each answer to a take has eleven keys. */
static inline void put_key(struct buffer *out, const struct job_member *member)
{
    if (out->failed || out->cap - out->len < KEY_BYTES) {
        buffer_append(out, member->key, member->key_len);
        return;
    }
    memcpy(out->at + out->len, member->key, KEY_BYTES);
    out->len += member->key_len;
}

/* ---- types ---- */

struct slice job_type_plain(struct slice type)
{
    const char *semicolon = type.len ? memchr(type.at, ';', type.len) : NULL;
    if (semicolon)
        type.len = (size_t)(semicolon - type.at);
    while (type.len && (type.at[type.len - 1] == ' ' || type.at[type.len - 1] == '\t'))
        type.len--;
    return type;
}

static bool equals_folded(struct slice text, const char *word)
{
    return text.len == strlen(word) && strncasecmp(text.at, word, text.len) == 0;
}

bool job_type_is_json(struct slice type)
{
    static const size_t suffix = sizeof "+json" - 1;
    if (!type.len)
        return false;
    type = job_type_plain(type);
    if (equals_folded(type, "application/json"))
        return true;
    return type.len > suffix &&
           equals_folded(slice_make(type.at + type.len - suffix, suffix), "+json");
}

/* ---- values of a line ---- */

bool job_json_read_text(struct json_value value, struct buffer *text, struct slice *out)
{
    return value.kind == JSON_STRING && json_string_bytes(value.raw, text, out);
}

bool job_json_read_number(struct json_value value, int64_t most, int64_t *out)
{
    return value.kind == JSON_NUMBER && json_number_i64(value.raw, out) && *out >= 0 &&
           *out <= most;
}

bool job_json_read_duration(struct json_value value, struct buffer *text, int64_t *out)
{
    struct slice duration;
    if (value.kind == JSON_NUMBER)
        return job_json_read_number(value, POLICY_DELAY_MS_MAX, out);
    return job_json_read_text(value, text, &duration) &&
           duration_parse(duration, POLICY_DELAY_MS_MAX, out);
}

bool job_json_read_conflict(struct json_value value, enum record_conflict *out)
{
    return value.kind == JSON_STRING &&
           record_conflict_parse(slice_make(value.raw.at + 1, value.raw.len - 2), out);
}

bool job_json_read_body(struct json_value value, struct buffer *text, struct slice *type,
                        struct slice *out)
{
    if (value.kind == JSON_STRING && !job_type_is_json(*type)) {
        if (!type->len)
            *type = slice_of("text/plain; charset=utf-8");
        return json_string_bytes(value.raw, text, out);
    }
    if (!type->len)
        *type = slice_of("application/json");
    *out = value.raw;
    return true;
}

/* ---- texts, numbers, times ---- */

#define WRITE(NAME)                                                                                \
    static void write_##NAME(struct buffer *out, const struct job_member *member, const void *at,  \
                             __attribute__((unused)) const struct job_json_writing *writing)
#define READ(NAME)                                                                                 \
    static bool read_##NAME(struct job_json_reading *reading, struct json_value value,             \
                            __attribute__((unused)) void *at)

WRITE(name)
{
    put_key(out, member);
    json_write_string(out, *(const struct slice *)at);
}

WRITE(text)
{
    if (((const struct slice *)at)->len)
        write_name(out, member, at, writing);
}

READ(text)
{
    return job_json_read_text(value, reading->text, at);
}

WRITE(u16)
{
    put_key(out, member);
    buffer_append_u64(out, *(const uint16_t *)at);
}

WRITE(u32)
{
    put_key(out, member);
    buffer_append_u64(out, *(const uint32_t *)at);
}

WRITE(u64)
{
    put_key(out, member);
    buffer_append_u64(out, *(const uint64_t *)at);
}

READ(priority)
{
    int64_t number;
    if (!job_json_read_number(value, JOB_PRIORITY_MAX, &number))
        return false;
    *(uint16_t *)at = (uint16_t)number;
    reading->out->has_priority = true;
    return true;
}

WRITE(time)
{
    put_key(out, member);
    json_write_time(out, *(const int64_t *)at);
}

WRITE(duration)
{
    if (!*(const int64_t *)at)
        return;
    put_key(out, member);
    buffer_append_byte(out, '"');
    duration_emit(out, *(const int64_t *)at);
    buffer_append_byte(out, '"');
}

READ(duration)
{
    return job_json_read_duration(value, reading->text, at);
}

WRITE(flag)
{
    if (!*(const bool *)at)
        return;
    put_key(out, member);
    PUT(out, "true");
}

/* ---- state ---- */

WRITE(lease)
{
    (void)at;
    put_key(out, member);
    json_write_string(out, writing->lease);
}

WRITE(lease_until)
{
    if (writing->job->state == JOB_LEASED)
        write_time(out, member, at, writing);
}

/* The successor of a leased job. */
WRITE(next)
{
    int64_t due_ms = *(const int64_t *)at;
    if (!due_ms)
        return;
    put_key(out, member);
    PUT(out, "{\"due_at\":");
    json_write_time(out, due_ms);
    buffer_append_byte(out, '}');
}

WRITE(state)
{
    put_key(out, member);
    buffer_append_byte(out, '"');
    buffer_append_text(out, job_state_name(*(const enum job_state *)at));
    buffer_append_byte(out, '"');
}

WRITE(dead)
{
    if (*(const enum job_state *)at == JOB_DEAD)
        write_state(out, member, at, writing);
}

READ(dead)
{
    (void)reading;
    *(enum job_state *)at = JOB_DEAD;
    return value.kind == JSON_STRING && json_string_is(value.raw, "dead");
}

/* Returns whether a kept job waits for its members. If its batch was not closed it is dead: its export waits again. */
static bool kept_waits(struct json_value job)
{
    return json_member(job, "waits_for").kind == JSON_NUMBER;
}

static void copy_member(struct buffer *out, const struct job_member *member,
                        struct json_value kept);

static bool dump_dead(struct buffer *out, const struct job_member *member, struct json_value job)
{
    struct json_value state = json_member(job, "state");
    if (!kept_waits(job) && state.kind == JSON_STRING && json_string_is(state.raw, "dead")) {
        put_key(out, member);
        buffer_append_slice(out, state.raw);
    }
    return true;
}

/* Appends a due in the range that a push accepts; a smaller one has passed long ago. */
static void put_at(struct buffer *out, const struct job_member *member, int64_t ms)
{
    put_key(out, member);
    buffer_append_i64(out, ms < TIMESTAMP_BARE_MS_MIN ? TIMESTAMP_BARE_MS_MIN : ms);
}

/* Writes the due of a line; of a leased job, the end of its lease. */
WRITE(at)
{
    const struct job *job = writing->job;
    (void)at;
    if (!job->due_ms && job->batch.len) /* it waits for its members */
        return;
    put_at(out, member, job->state == JOB_LEASED ? job->lease_until_ms : job->due_ms);
}

READ(at)
{
    reading->out->has_at = true;
    return job_json_read_number(value, INT64_MAX, at);
}

static bool dump_at(struct buffer *out, const struct job_member *member, struct json_value job)
{
    struct json_value at = json_member(job, "lease_until");
    int64_t ms;
    if (at.kind == JSON_NONE)
        at = json_member(job, "due_at");
    if (kept_waits(job) && (at = json_member(job, "at")).kind == JSON_NONE)
        return true;
    if (at.kind != JSON_STRING || !timestamp_parse(slice_make(at.raw.at + 1, at.raw.len - 2), &ms))
        return false;
    put_at(out, member, ms);
    return true;
}

READ(delay)
{
    (void)at;
    reading->out->has_delay = true;
    return job_json_read_duration(value, reading->text, &reading->out->delay_ms);
}

/* ---- attempts ---- */

/* Writes the number of attempts without the one in progress. */
WRITE(attempts)
{
    const struct job *job = writing->job;
    uint32_t ended = job->attempt - (job->state == JOB_LEASED && job->attempt);
    if (ended)
        write_u32(out, member, &ended, writing);
    (void)at;
}

READ(attempts)
{
    int64_t number;
    (void)reading;
    if (!job_json_read_number(value, UINT32_MAX, &number))
        return false;
    *(uint32_t *)at = (uint32_t)number;
    return true;
}

int64_t job_json_attempts(struct json_value kept)
{
    struct json_value attempt = json_member(kept, "attempt");
    int64_t number;
    if (attempt.kind != JSON_NUMBER || !json_number_i64(attempt.raw, &number) || number <= 0)
        return 0;
    return number - (json_member(kept, "lease_until").kind != JSON_NONE);
}

static bool dump_attempts(struct buffer *out, const struct job_member *member,
                          struct json_value job)
{
    int64_t ended = job_json_attempts(job);
    if (ended) {
        put_key(out, member);
        buffer_append_i64(out, ended);
    }
    return true;
}

WRITE(attempts_max)
{
    uint32_t most = *(const uint32_t *)at;
    if (!most)
        return;
    if (most != POLICY_ATTEMPTS_NONE) {
        write_u32(out, member, at, writing);
        return;
    }
    put_key(out, member);
    PUT(out, "\"none\"");
}

READ(attempts_max)
{
    int64_t number = 0;
    (void)reading;
    if (value.kind == JSON_STRING) {
        *(uint32_t *)at = POLICY_ATTEMPTS_NONE;
        return json_string_is(value.raw, "none");
    }
    if (!job_json_read_number(value, POLICY_ATTEMPTS_MAX, &number))
        return false;
    *(uint32_t *)at = (uint32_t)number;
    return true;
}

WRITE(backoff)
{
    const struct backoff *backoff = at;
    if (!backoff->kind)
        return;
    put_key(out, member);
    buffer_append_byte(out, '"');
    policy_emit_backoff(out, backoff);
    buffer_append_byte(out, '"');
}

READ(backoff)
{
    struct slice text;
    return job_json_read_text(value, reading->text, &text) && policy_parse_backoff(text, at);
}

/* Writes the readable part of the history. */
WRITE(history)
{
    struct slice history = *(const struct slice *)at;
    struct job_attempt attempt;
    size_t read_bytes = 0;
    if (!history.len || !job_history_next(history, &read_bytes, &attempt))
        return;
    put_key(out, member);
    char before = '[';
    do {
        buffer_append_byte(out, before);
        PUT(out, "{\"attempt\":");
        buffer_append_u64(out, attempt.attempt);
        PUT(out, ",\"at\":");
        json_write_time(out, attempt.started_ms);
        PUT(out, ",\"duration_ms\":");
        buffer_append_i64(out, attempt.duration_ms);
        PUT(out, ",\"outcome\":\"");
        buffer_append_text(out, job_outcome_name(attempt.outcome));
        buffer_append_byte(out, '"');
        if (attempt.error.len) {
            PUT(out, ",\"error\":");
            json_write_string(out, attempt.error);
        }
        buffer_append_byte(out, '}');
        before = ',';
    } while (job_history_next(history, &read_bytes, &attempt));
    buffer_append_byte(out, ']');
}

READ(conflict)
{
    (void)at;
    return job_json_read_conflict(value, &reading->out->on_conflict);
}

/* ---- content type, meta, callback ---- */

/* Writes a type. One that is not printable ASCII was stored by an earlier version; pushes now
 * refuse it. */
WRITE(type)
{
    struct slice type = *(const struct slice *)at;
    char text[JOB_CONTENT_TYPE_BYTES_MAX];
    size_t len = type.len < sizeof text ? type.len : sizeof text;
    for (size_t i = 0; i < len; i++)
        text[i] = type.at[i] < ' ' || type.at[i] > '~' ? '?' : type.at[i];
    put_key(out, member);
    json_write_string(out, len ? slice_make(text, len) : slice_of("application/octet-stream"));
}

static bool dump_type(struct buffer *out, const struct job_member *member, struct json_value job)
{
    struct json_value type = json_member(job, "content_type");
    if (type.kind != JSON_STRING)
        return true;
    put_key(out, member);
    for (size_t i = 0; i < type.raw.len; i++)
        buffer_append_byte(out,
                           type.raw.at[i] < ' ' || type.raw.at[i] > '~' ? '?' : type.raw.at[i]);
    return true;
}

static bool is_own(struct slice name)
{
    static const size_t own = sizeof JOB_META_OWN - 1;
    return name.len >= own && memcmp(name.at, JOB_META_OWN, own) == 0;
}

/* Returns whether a user never sees the pair as meta. */
static bool is_hidden(struct slice name)
{
    return slice_is(name, JOB_META_CALLBACK) || job_meta_is_hidden(name);
}

static void put_meta(struct buffer *out, const struct job_member *member, struct slice meta,
                     bool (*is_left_out)(struct slice name))
{
    struct slice name, value;
    size_t at = 0;
    char before = '{';
    put_key(out, member);
    while (job_meta_next(meta, &at, &name, &value)) {
        if (is_left_out(name))
            continue;
        buffer_append_byte(out, before);
        json_write_string(out, name);
        buffer_append_byte(out, ':');
        json_write_string(out, value);
        before = ',';
    }
    if (before == '{')
        buffer_append_byte(out, '{');
    buffer_append_byte(out, '}');
}

WRITE(meta)
{
    (void)at;
    put_meta(out, member, writing->job->meta, is_hidden);
}

/* Writes the pairs without tarry's own, which a push rejects and a peer does not need. */
WRITE(users_meta)
{
    (void)at;
    put_meta(out, member, writing->job->meta, is_own);
}

READ(users_meta)
{
    struct json_cursor cursor = {0};
    struct json_value text;
    struct slice key, name, meta;
    bool is_good = value.kind == JSON_OBJECT;
    while (is_good && json_next_member(value, &cursor, &key, &text))
        is_good = json_string_bytes(key, reading->text, &name) &&
                  job_json_read_text(text, reading->text, &meta) && !is_own(name) &&
                  job_meta_add(reading->meta, name, meta) == JOB_META_OK;
    return is_good;
}

static bool dump_users_meta(struct buffer *out, const struct job_member *member,
                            struct json_value job)
{
    static const char own[] = "\"" JOB_META_OWN;
    struct json_value meta = json_member(job, "meta"), value;
    struct json_cursor cursor = {0};
    struct slice key;
    char before = '{';
    if (meta.kind != JSON_OBJECT)
        return true;
    put_key(out, member);
    while (json_next_member(meta, &cursor, &key, &value)) {
        if (key.len >= sizeof own - 1 && memcmp(key.at, own, sizeof own - 1) == 0)
            continue;
        buffer_append_byte(out, before);
        buffer_append_slice(out, key);
        buffer_append_byte(out, ':');
        buffer_append_slice(out, value.raw);
        before = ',';
    }
    buffer_append_text(out, before == '{' ? "{}" : "}");
    return true;
}

WRITE(callback)
{
    struct slice meta = writing->job->meta;
    struct slice url = meta.len ? job_meta_find(meta, slice_of(JOB_META_CALLBACK)) : meta;
    write_text(out, member, &url, writing);
    (void)at;
}

READ(callback)
{
    struct slice url;
    return job_json_read_text(value, reading->text, &url) &&
           job_meta_add(reading->meta, slice_of(JOB_META_CALLBACK), url) == JOB_META_OK;
}

/* ---- batches ---- */

/* Copies a member that only a job has that waits for its members. After the wait it is an ordinary job. */
static bool dump_of_waiting(struct buffer *out, const struct job_member *member,
                            struct json_value job)
{
    if (kept_waits(job))
        copy_member(out, member, job);
    return true;
}

static bool dump_error(struct buffer *out, const struct job_member *member, struct json_value job)
{
    if (!kept_waits(job))
        copy_member(out, member, job);
    return true;
}

/* Reads the outcomes of a kept job. Returns false without them. */
static bool read_kept_outcomes(struct json_value job, struct batch_counts *out)
{
    struct json_value outcomes = json_member(job, "outcomes");
    int64_t number;
    if (outcomes.kind != JSON_OBJECT)
        return false;
    for (int i = 0; i < BATCH_OUTCOMES; i++) {
        struct json_value count = json_member(outcomes, batch_outcome_name((enum batch_outcome)i));
        if (!job_json_read_number(count, UINT32_MAX, &number))
            return false;
        out->of[i] = (uint32_t)number;
    }
    return true;
}

/* Writes the expected members. Of a closed batch these are all that it has: the import closes it with the last one. */
static bool dump_members(struct buffer *out, const struct job_member *member, struct json_value job)
{
    struct batch_counts counts;
    if (json_member(job, "closed").kind != JSON_TRUE || !read_kept_outcomes(job, &counts))
        return dump_of_waiting(out, member, job);
    if (kept_waits(job)) {
        put_key(out, member);
        buffer_append_u64(out, batch_members(&counts));
    }
    return true;
}

static const char *ended_name(int outcome)
{
    return outcome == BATCH_UNFINISHED ? "missing"
                                       : batch_outcome_name((enum batch_outcome)outcome);
}

void job_json_write_outcomes(struct buffer *out, const struct batch_counts *counts, bool waits)
{
    static const enum batch_outcome order[] = {BATCH_ACKED, BATCH_DEAD, BATCH_CANCELLED,
                                               BATCH_EXPIRED, BATCH_UNFINISHED};
    char before = '{';
    PUT(out, ",\"ended\":");
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        if (waits && (order[i] == BATCH_DEAD || order[i] == BATCH_UNFINISHED))
            continue;
        buffer_append_byte(out, before);
        json_write_key(out, ended_name((int)order[i]));
        buffer_append_u64(out, counts->of[order[i]]);
        before = ',';
    }
    buffer_append_byte(out, '}');
}

bool job_json_read_outcomes(struct json_value value, struct batch_counts *out, bool *is_whole)
{
    struct json_cursor cursor = {0};
    struct json_value count;
    struct slice key;
    int64_t number;
    unsigned seen = 0;
    *out = (struct batch_counts){0};
    if (value.kind != JSON_OBJECT)
        return false;
    while (json_next_member(value, &cursor, &key, &count)) {
        int i = 0;
        while (i < BATCH_OUTCOMES && !json_string_is(key, ended_name(i)))
            i++;
        if (i == BATCH_OUTCOMES || !job_json_read_number(count, BATCH_MEMBERS_MAX, &number))
            return false;
        out->of[i] = (uint32_t)number;
        seen |= 1u << i;
    }
    *is_whole = seen == (1u << BATCH_OUTCOMES) - 1;
    return true;
}

static bool dump_ended(struct buffer *out, const struct job_member *member, struct json_value job)
{
    struct batch_counts counts;
    (void)member;
    if (read_kept_outcomes(job, &counts))
        job_json_write_outcomes(out, &counts, kept_waits(job));
    return true;
}

READ(ended)
{
    bool is_whole;
    (void)at;
    reading->out->has_ended = true;
    return job_json_read_outcomes(value, &reading->out->ended, &is_whole);
}

/* Writes the due, which a job that waits for its members does not have. */
WRITE(due)
{
    if (*(const int64_t *)at || !writing->job->batch.len)
        write_time(out, member, at, writing);
}

/* Decodes the batches of a job. Returns false without any. */
static bool has_batch(const struct job_json_writing *writing, struct job_batch *out)
{
    return __builtin_expect(writing->job->batch.len != 0, 0) &&
           job_batch_decode(writing->job->batch, out);
}

WRITE(batch)
{
    struct job_batch batch;
    (void)at;
    if (!has_batch(writing, &batch) || !batch.topic.len)
        return;
    put_key(out, member);
    PUT(out, "{\"topic\":");
    json_write_string(out, batch.topic);
    PUT(out, ",\"id\":");
    json_write_string(out, batch.id);
    buffer_append_byte(out, '}');
}

READ(batch)
{
    struct job_batch *batch = &reading->out->batch;
    struct json_value topic = json_member(value, "topic"), id = json_member(value, "id");
    return value.kind == JSON_OBJECT && job_json_read_text(topic, reading->text, &batch->topic) &&
           job_json_read_text(id, reading->text, &batch->id);
}

WRITE(waits)
{
    struct job_batch batch;
    (void)at;
    if (has_batch(writing, &batch))
        write_flag(out, member, &batch.waits, writing);
}

READ(waits)
{
    reading->out->batch.waits = value.kind == JSON_TRUE;
    return value.kind == JSON_TRUE || value.kind == JSON_FALSE;
}

WRITE(on_dead)
{
    struct job_batch batch;
    (void)at;
    if (!has_batch(writing, &batch) || !batch.waits)
        return;
    put_key(out, member);
    buffer_append_byte(out, '"');
    buffer_append_text(out, batch_on_dead_name(batch.on_dead));
    buffer_append_byte(out, '"');
}

READ(on_dead)
{
    return value.kind == JSON_STRING &&
           batch_on_dead_parse(slice_make(value.raw.at + 1, value.raw.len - 2),
                               &reading->out->batch.on_dead);
}

WRITE(members)
{
    struct job_batch batch;
    (void)at;
    if (has_batch(writing, &batch) && batch.members)
        write_u32(out, member, &batch.members, writing);
}

READ(members)
{
    int64_t number = 0;
    bool is_good = job_json_read_number(value, BATCH_MEMBERS_MAX, &number);
    reading->out->batch.members = (uint32_t)number;
    return is_good;
}

WRITE(wait_at_most)
{
    struct job_batch batch;
    (void)at;
    if (has_batch(writing, &batch))
        write_duration(out, member, &batch.wait_ms, writing);
}

READ(wait_at_most)
{
    return job_json_read_duration(value, reading->text, &reading->out->batch.wait_ms);
}

WRITE(close_within)
{
    struct job_batch batch;
    (void)at;
    if (has_batch(writing, &batch))
        write_duration(out, member, &batch.close_ms, writing);
}

READ(close_within)
{
    return job_json_read_duration(value, reading->text, &reading->out->batch.close_ms);
}

/* ---- bodies ---- */

void job_json_write_bytes(struct buffer *out, const char *key, struct slice type,
                          struct slice bytes, enum job_form_body form)
{
    struct json_value value;
    bool is_shown = form == JOB_BODY_SHOWN;
    if (form == JOB_BODY_NONE)
        return;
    PUT(out, ",\"");
    buffer_append_text(out, key);
    if (is_shown && job_type_is_json(type) && json_check(bytes, &value, NULL)) {
        PUT(out, "\":");
        buffer_append_slice(out, value.raw);
    } else if (is_shown && json_utf8_is_valid(bytes)) {
        PUT(out, "\":");
        json_write_string(out, bytes);
    } else {
        PUT(out, "_base64\":");
        json_write_base64(out, bytes);
    }
}

static void put_body(struct buffer *out, const struct job *job, enum job_form_body form)
{
    job_json_write_bytes(out, "body", job->content_type, job->body, form);
}

READ(body)
{
    reading->body = value;
    return true;
}

READ(body_base64)
{
    struct slice base64;
    if (!job_json_read_text(value, reading->text, &base64))
        return false;
    size_t start = reading->text->len;
    if (!text_base64_decode(base64, reading->text))
        return false;
    *(struct slice *)at = slice_make(reading->text->at + start, reading->text->len - start);
    return true;
}

#undef WRITE
#undef READ

/* ---- the table ---- */

#define KEY(NAME) .key = ",\"" NAME "\":", .key_len = sizeof ",\"" NAME "\":" - 1
#define JOB(FIELD) .offset = offsetof(struct job, FIELD)
#define TAKEN JOB_FORM_TAKEN
#define KEPT JOB_FORM_KEPT
#define SENT JOB_FORM_SENT
#define LINE JOB_FORM_EXPORTED
#define DUMPED 16 /* an export from a kept job, as JSON */
#define LINES (LINE | DUMPED)
#define ENDED JOB_FORM_FINISHED

/* The members in the order of writing. A name has several rows if the forms differ in its value or its place. */
static const struct job_member members[] = {
    {KEY("topic"), TAKEN | KEPT | SENT | LINES | ENDED, JOB(topic), write_name, read_text},
    {KEY("id"), TAKEN | KEPT | SENT | LINES | ENDED, JOB(id), write_name, read_text},
    {KEY("lease"), TAKEN, 0, write_lease},
    {KEY("state"), KEPT | ENDED, JOB(state), write_state},
    {KEY("due_at"), KEPT, JOB(due_ms), write_due},
    {KEY("at"), LINES, JOB(due_ms), write_at, read_at, dump_at},
    {KEY("delay"), DUMPED, 0, NULL, read_delay, dump_of_waiting},
    {KEY("attempt"), TAKEN | KEPT | SENT | ENDED, JOB(attempt), write_u32},
    {KEY("attempt"), LINES, JOB(attempt), write_attempts, read_attempts, dump_attempts},
    {KEY("state"), LINES, JOB(state), write_dead, read_dead, dump_dead},
    {KEY("error"), LINES, JOB(error), write_text, read_text, dump_error, .kept = "last_error"},
    {KEY("delivery"), TAKEN | KEPT, JOB(delivery), write_u64},
    {KEY("due_at"), TAKEN | SENT, JOB(due_ms), write_time},
    {KEY("lease_until"), TAKEN, JOB(lease_until_ms), write_time},
    {KEY("priority"), TAKEN | KEPT | SENT | LINES, JOB(priority), write_u16, read_priority},
    {KEY("group"), TAKEN | KEPT | SENT | LINES | ENDED, JOB(group), write_text, read_text},
    {KEY("batch"), KEPT | LINES | ENDED, 0, write_batch, read_batch},
    {KEY("waits"), KEPT | LINES, 0, write_waits, read_waits, dump_of_waiting},
    {KEY("on_dead"), KEPT | LINES, 0, write_on_dead, read_on_dead, dump_of_waiting},
    {KEY("members"), KEPT | LINES, 0, write_members, read_members, dump_members},
    {KEY("wait_at_most"), KEPT | LINES, 0, write_wait_at_most, read_wait_at_most, dump_of_waiting},
    {KEY("close_within"), KEPT | LINES, 0, write_close_within, read_close_within, dump_of_waiting},
    {KEY("ended"), DUMPED, 0, NULL, read_ended, dump_ended},
    {KEY("lease_until"), KEPT, JOB(lease_until_ms), write_lease_until},
    {KEY("consumer"), KEPT | ENDED, JOB(consumer), write_text},
    {KEY("progress"), KEPT | ENDED, JOB(progress), write_text},
    {KEY("cancel_requested"), KEPT, JOB(cancel_requested), write_flag},
    {KEY("next"), KEPT, JOB(next_due_ms), write_next},
    {KEY("last_error"), KEPT, JOB(error), write_text},
    {KEY("history"), KEPT | ENDED, JOB(history), write_history},
    {KEY("lease_for"), KEPT | LINES, JOB(policy.lease_ms), write_duration, read_duration},
    {KEY("ttl"), KEPT | LINES, JOB(policy.ttl_ms), write_duration, read_duration},
    {KEY("max_attempts"), KEPT | LINES, JOB(policy.max_attempts), write_attempts_max,
     read_attempts_max},
    {KEY("backoff"), KEPT | LINES, JOB(policy.backoff), write_backoff, read_backoff},
    {KEY("on_conflict"), 0, 0, NULL, read_conflict},
    {KEY("callback"), DUMPED, 0, NULL},
    {KEY("content_type"), TAKEN | KEPT | SENT, JOB(content_type), write_type},
    {KEY("content_type"), LINES, JOB(content_type), write_text, read_text, dump_type},
    {KEY("meta"), TAKEN | KEPT | ENDED, 0, write_meta},
    {KEY("meta"), SENT | LINES, 0, write_users_meta, read_users_meta, dump_users_meta},
    {KEY("callback"), TAKEN | KEPT | LINE | ENDED, 0, write_callback, read_callback},
    {KEY("body"), 0, 0, NULL, read_body},
    {KEY("body_base64"), 0, JOB(body), NULL, read_body_base64},
};
enum { MEMBERS = sizeof members / sizeof members[0] };

#undef TAKEN
#undef KEPT
#undef SENT
#undef LINE
#undef LINES
#undef ENDED

/* ---- flow: settings of topics and groups ---- */

static void put_setting(struct buffer *out, const char *name, uint64_t number)
{
    if (!number)
        return;
    buffer_append_byte(out, ',');
    json_write_key(out, name);
    buffer_append_u64(out, number);
}

static void put_rate(struct buffer *out, const char *name, struct frequency rate)
{
    if (!rate.count)
        return;
    buffer_append_byte(out, ',');
    json_write_key(out, name);
    buffer_append_byte(out, '"');
    frequency_emit(out, rate);
    buffer_append_byte(out, '"');
}

void job_json_write_flow(struct buffer *out, const struct topic_flow *flow)
{
    put_setting(out, "limit", flow->topic.limit);
    put_rate(out, "rate", flow->topic.rate);
    put_setting(out, "burst", flow->topic.burst);
    put_setting(out, "group_limit", flow->group.limit);
    put_rate(out, "group_rate", flow->group.rate);
    put_setting(out, "group_burst", flow->group.burst);
    put_setting(out, "group_max_jobs", flow->group_max_jobs);
    if (flow->group_order == FLOW_STRICT)
        PUT(out, ",\"group_order\":\"strict\"");
    if (flow->one_shard)
        PUT(out, ",\"one_shard\":true");
}

void job_json_write_group(struct buffer *out, const struct group_settings *settings)
{
    put_setting(out, "weight", settings->weight);
    put_setting(out, "limit", settings->limits.limit);
    put_rate(out, "rate", settings->limits.rate);
    put_setting(out, "burst", settings->limits.burst);
    put_setting(out, "max_jobs", settings->max_jobs);
    if (!settings->paused)
        return;
    PUT(out, ",\"paused\":true");
    if (settings->paused_until_ms) {
        PUT(out, ",\"paused_until\":");
        json_write_time(out, settings->paused_until_ms);
    }
}

static bool read_rate(struct json_value value, struct buffer *text, struct frequency *out)
{
    struct slice rate;
    return job_json_read_text(value, text, &rate) && frequency_parse(rate, out);
}

/* Reads a number up to the limit of its row. */
static bool read_setting(struct json_value value, enum job_limit_id limit, int64_t *out)
{
    return job_json_read_number(value, job_limits[limit].most, out) &&
           *out >= job_limits[limit].least;
}

bool job_json_read_flow(struct slice key, struct json_value value, struct buffer *text,
                        struct topic_flow *out, bool *is_good)
{
    const struct {
        enum job_limit_id id;
        uint32_t *into;
    } rows[] = {{LIMIT_LIMIT, &out->topic.limit},
                {LIMIT_BURST, &out->topic.burst},
                {LIMIT_GROUP_LIMIT, &out->group.limit},
                {LIMIT_GROUP_BURST, &out->group.burst}};
    int64_t number = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!json_string_is(key, job_limits[rows[i].id].option))
            continue;
        *is_good = read_setting(value, rows[i].id, &number);
        *rows[i].into = (uint32_t)number;
        return true;
    }
    if (json_string_is(key, "rate")) {
        *is_good = read_rate(value, text, &out->topic.rate);
    } else if (json_string_is(key, "group_rate")) {
        *is_good = read_rate(value, text, &out->group.rate);
    } else if (json_string_is(key, "group_max_jobs")) {
        *is_good = read_setting(value, LIMIT_GROUP_MAX_JOBS, &number);
        out->group_max_jobs = (uint64_t)number;
    } else if (json_string_is(key, "group_order")) {
        bool is_strict = value.kind == JSON_STRING && json_string_is(value.raw, "strict");
        out->group_order = is_strict ? FLOW_STRICT : FLOW_FREE;
        *is_good = is_strict || (value.kind == JSON_STRING && json_string_is(value.raw, "free"));
    } else if (json_string_is(key, "one_shard")) {
        out->one_shard = value.kind == JSON_TRUE;
        *is_good = value.kind == JSON_TRUE || value.kind == JSON_FALSE;
    } else {
        return false;
    }
    return true;
}

/* ---- writing ---- */

void job_json_write(struct buffer *out, const struct job *job, struct slice lease,
                    enum job_form form, enum job_form_body body)
{
    const struct job_json_writing writing = {job, lease};
    size_t start = out->len;
    for (const struct job_member *member = members; member < members + MEMBERS; member++)
        if (member->forms & form)
            member->write(out, member, (const char *)job + member->offset, &writing);
    put_body(out, job, body);
    buffer_append_byte(out, '}');
    if (!out->failed)
        out->at[start] = '{';
}

/* Returns whether the row is of a policy. */
static bool is_of_policy(const struct job_member *member)
{
    return member->offset >= offsetof(struct job, policy) &&
           member->offset < offsetof(struct job, policy) + sizeof(struct policy);
}

void job_json_write_policy(struct buffer *out, const struct policy *policy)
{
    for (const struct job_member *member = members; member < members + MEMBERS; member++)
        if (is_of_policy(member))
            member->write(out, member,
                          (const char *)policy + member->offset - offsetof(struct job, policy),
                          NULL);
}

/* Copies a member of a kept job; by its name in the export, or in the kept job. */
static void copy_member(struct buffer *out, const struct job_member *member, struct json_value kept)
{
    char name[KEY_BYTES];
    const size_t len = member->key_len - 4u; /* without the comma, the quotes and the colon */
    memcpy(name, member->key + 2, len);
    name[len] = '\0';
    struct json_value value = json_member(kept, member->kept ? member->kept : name);
    if (value.kind == JSON_NONE)
        return;
    put_key(out, member);
    buffer_append_slice(out, value.raw);
}

bool job_json_export(struct buffer *out, struct json_value kept)
{
    size_t start = out->len;
    if (json_member(kept, "topic").kind != JSON_STRING ||
        json_member(kept, "id").kind != JSON_STRING)
        return false;
    for (const struct job_member *member = members; member < members + MEMBERS; member++) {
        if (!(member->forms & DUMPED))
            continue;
        if (!member->dump)
            copy_member(out, member, kept);
        else if (!member->dump(out, member, kept))
            return false;
    }
    if (!out->failed)
        out->at[start] = '{';
    return true;
}

/* ---- reading ---- */

/* Returns the row that reads a member, or NULL. `key` is in quotes. */
static const struct job_member *member_find(struct slice key)
{
    for (const struct job_member *member = members; member < members + MEMBERS; member++)
        if (member->read && member->key_len == key.len + 2 &&
            memcmp(member->key + 1, key.at, key.len) == 0)
            return member;
    return NULL;
}

bool job_json_read_policy(struct slice key, struct json_value value, struct buffer *text,
                          struct policy *out, bool *is_good)
{
    const struct job_member *member = member_find(key);
    struct job_json_reading reading = {.text = text};
    if (!member || !is_of_policy(member))
        return false;
    *is_good =
        member->read(&reading, value, (char *)out + member->offset - offsetof(struct job, policy));
    return true;
}

bool job_json_read(struct json_value line, struct buffer *text, struct buffer *meta,
                   struct job_json *out)
{
    struct job_json_reading reading = {.out = out, .text = text, .meta = meta};
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    *out = (struct job_json){.job.priority = JOB_PRIORITY};
    buffer_clear(meta);
    while (json_next_member(line, &cursor, &key, &value)) {
        const struct job_member *member = member_find(key);
        if (!member || !member->read(&reading, value, (char *)&out->job + member->offset))
            return false;
    }
    if (reading.body.kind &&
        !job_json_read_body(reading.body, text, &out->job.content_type, &out->job.body))
        return false;
    char outcome[BATCH_META_BYTES_MAX];
    if (out->has_ended && !out->batch.waits)
        buffer_append(meta, outcome, batch_meta_write(&out->ended, outcome));
    if (meta->failed)
        return false;
    if (meta->len) {
        out->job.meta = slice_make(text->at + text->len, meta->len);
        buffer_append_slice(text, buffer_slice(meta));
    }
    return !text->failed;
}
