#include "cadence/stored.h"

#include "api/json_shape.h"
#include "base/error.h"
#include "base/json_levels.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/timestamp.h"

#include <stdio.h>
#include <stdlib.h>

enum { MEMBERS_MAX = 16, VERSION = 1 };

/* The options of a job that a schedule may have, in the order in which they are stored. */
static const char *const job_members[] = {
    "topic",        "content_type", "meta",     "priority", "group",       "ttl", "lease_for",
    "max_attempts", "backoff",      "callback", "body",     "body_base64", NULL,
};

struct stored *stored_new(void)
{
    struct stored *stored = calloc(1, sizeof *stored);
    if (!stored)
        return NULL;
    buffer_init(&stored->plan, STORED_BYTES_MAX);
    buffer_init(&stored->job, STORED_BYTES_MAX);
    buffer_init(&stored->arena, 8 * STORED_BYTES_MAX);
    buffer_init(&stored->meta, JOB_META_BYTES_MAX);
    return stored;
}

void stored_free(struct stored *stored)
{
    if (!stored)
        return;
    buffer_fini(&stored->plan);
    buffer_fini(&stored->job);
    buffer_fini(&stored->arena);
    buffer_fini(&stored->meta);
    free(stored);
}

static bool stored_no_memory(struct http_fault *fault)
{
    return http_fault_set(fault, PROBLEM_NO_MEMORY, 0, "out of memory, nothing was changed");
}

/* ---- what a user specified ---- */

static bool refuse_member(struct slice key, struct http_fault *fault)
{
    static const char *const names[] = {
        "cron",         "every",    "phase",     "zone",        "except",       "start",
        "end",          "count",    "gap",       "fold",        "jitter",       "missed",
        "catch_up",     "grace",    "overlap",   "paused",      "note",         "owner",
        "topic",        "body",     "meta",      "body_base64", "content_type", "priority",
        "max_attempts", "callback", "lease_for", "backoff",     "ttl",          "name",
        "group",        NULL};
    if (key.len > 2 && key.at[0] == '"') {
        key.at++;
        key.len -= 2;
    }
    const char *quoted = http_quotable(key, 40), *nearest = text_nearest(quoted, names);
    return http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0, "unknown member '%s' of a schedule%s%s%s",
                          quoted, nearest ? ", did you mean '" : ", remove it",
                          nearest ? nearest : "", nearest ? "'" : "");
}

static int job_member_of(struct slice key)
{
    for (int i = 0; job_members[i]; i++)
        if (json_string_is(key, job_members[i]))
            return i;
    return -1;
}

/* Appends the options of the job in their order, as an object. */
static bool collect_job(struct stored *stored, struct slice name, struct json_value object,
                        struct http_fault *fault)
{
    struct json_value values[MEMBERS_MAX] = {0}, value;
    struct json_cursor cursor = {0};
    struct slice key;
    while (json_next_member(object, &cursor, &key, &value)) {
        int at = job_member_of(key);
        if (at >= 0 && values[at].kind)
            return http_fault_set(fault, PROBLEM_OPTION_TWICE, 0, "'%s' is given more than once",
                                  job_members[at]);
        if (at >= 0)
            values[at] = value;
        else if (json_string_is(key, "name") && value.kind == JSON_STRING) {
            struct slice given;
            if (!json_string_bytes(value.raw, &stored->arena, &given))
                return stored_no_memory(fault);
            if (!slice_equals(given, name))
                return http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0,
                                      "'name' differs from the name in the path, use one name");
        } else if (!spec_has_member(key))
            return refuse_member(key, fault);
    }
    buffer_clear(&stored->job);
    for (int i = 0; job_members[i]; i++) {
        if (!values[i].kind)
            continue;
        buffer_append_byte(&stored->job, stored->job.len ? ',' : '{');
        json_write_key(&stored->job, job_members[i]);
        buffer_append_slice(&stored->job, values[i].raw);
    }
    buffer_append_text(&stored->job, stored->job.len ? "}" : "{}");
    return true;
}

/* Refuses a schedule whose body leaves no room for the rest. */
static bool refuse_size(struct http_fault *fault)
{
    return http_fault_set(fault, PROBLEM_BAD_SCHEDULE, STORED_BYTES_MAX,
                          "the schedule with its 'body' has more than about 14 KiB: store the data "
                          "elsewhere and let 'body' refer to it");
}

/* Parses the job of the stored text, as an item of a batch push. */
static bool parse_job(struct stored *stored, const struct http_hooks *hooks,
                      struct http_fault *fault)
{
    struct json_value job;
    if (stored->job.failed)
        return refuse_size(fault);
    if (!json_check(buffer_slice(&stored->job), &job, NULL))
        return http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0, "'body' is nested too deeply");
    if (!api_item_parse(job, &stored->push, NULL, &stored->arena, &stored->meta, hooks, fault))
        return false;
    if (!job_topic_is_valid(stored->push.topic) || job_topic_is_own(stored->push.topic))
        return http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0,
                              "'topic' is '%s' but must be the name of a topic of yours",
                              http_quotable(stored->push.topic, 60));
    return true;
}

/* Writes the canonical text of the plan. */
static bool write_plan(struct stored *stored, struct http_fault *fault)
{
    buffer_clear(&stored->plan);
    buffer_append_byte(&stored->plan, '{');
    spec_write(&stored->plan, &stored->spec);
    buffer_append_byte(&stored->plan, '}');
    return !stored->plan.failed || refuse_size(fault);
}

/* Checks that there is room for the state, and for the meta of a fire. */
static bool check_room(struct stored *stored, struct http_fault *fault)
{
    enum { STATE_BYTES = 1024, META_BYTES = 250 };
    size_t pairs = 0, at = 0;
    struct slice name, value;
    while (job_meta_next(stored->push.meta, &at, &name, &value))
        pairs++;
    if (pairs + 3 > JOB_META_PAIRS_MAX || at + META_BYTES > JOB_META_BYTES_MAX)
        return http_fault_set(fault, PROBLEM_BAD_META, 0,
                              "'meta' of a schedule may hold at most %d pairs and %d bytes",
                              JOB_META_PAIRS_MAX - 3, JOB_META_BYTES_MAX - META_BYTES);
    return stored->plan.len + stored->job.len + STATE_BYTES <= STORED_BYTES_MAX ||
           refuse_size(fault);
}

bool stored_accept(struct stored *stored, struct slice name, struct json_value object,
                   const struct http_hooks *hooks, struct http_fault *fault)
{
    char error[SPEC_ERROR_BYTES] = "";
    buffer_clear(&stored->arena);
    if (object.raw.len > 2 * STORED_BYTES_MAX)
        return refuse_size(fault);
    if (!buffer_reserve(&stored->arena, 3 * object.raw.len + 1024))
        return stored_no_memory(fault);
    if (!collect_job(stored, name, object, fault))
        return false;
    if (!spec_read(object, name, &stored->arena, &stored->spec, error))
        return http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0, "%s", error);
    return write_plan(stored, fault) && parse_job(stored, hooks, fault) &&
           check_room(stored, fault);
}

bool stored_preview(struct stored *stored, struct json_value object, struct slice *name,
                    struct http_fault *fault)
{
    char error[SPEC_ERROR_BYTES] = "";
    struct json_value given = json_member(object, "name");
    buffer_clear(&stored->arena);
    if (object.raw.len > 2 * STORED_BYTES_MAX)
        return refuse_size(fault);
    if (!buffer_reserve(&stored->arena, 4 * object.raw.len + 1024))
        return stored_no_memory(fault);
    if (given.kind == JSON_STRING && !json_string_bytes(given.raw, &stored->arena, name))
        return stored_no_memory(fault);
    return collect_job(stored, *name, object, fault) &&
           (spec_read(object, *name, &stored->arena, &stored->spec, error) ||
            http_fault_set(fault, PROBLEM_BAD_SCHEDULE, 0, "%s", error));
}

/* ---- a stored body ---- */

bool stored_read(struct stored *stored, struct slice name, struct slice body,
                 const struct http_hooks *hooks)
{
    struct json_value object, plan, job;
    struct http_fault fault;
    char error[SPEC_ERROR_BYTES];
    int64_t version;
    buffer_clear(&stored->arena);
    buffer_clear(&stored->plan);
    buffer_clear(&stored->job);
    /* The stored body has one level more than the schedule that was accepted. */
    if (json_check_levels(body, JSON_LEVELS_MAX, &object, NULL) != JSON_SOUND ||
        object.kind != JSON_OBJECT || !json_number_i64(json_member(object, "v").raw, &version) ||
        version != VERSION)
        return false;
    plan = json_member(object, "plan");
    job = json_member(object, "job");
    if (plan.kind != JSON_OBJECT || job.kind != JSON_OBJECT ||
        !state_read(json_member(object, "state"), &stored->state) ||
        !buffer_reserve(&stored->arena, 2 * body.len + 1024))
        return false;
    buffer_append_slice(&stored->plan, plan.raw);
    buffer_append_slice(&stored->job, job.raw);
    return !stored->plan.failed && json_check(buffer_slice(&stored->plan), &plan, NULL) &&
           spec_read(plan, name, &stored->arena, &stored->spec, error) &&
           parse_job(stored, hooks, &fault);
}

void stored_write(struct buffer *out, const struct stored *stored, const struct state *state)
{
    buffer_append_format(out, "{\"v\":%d,\"plan\":", VERSION);
    buffer_append_slice(out, buffer_slice(&stored->plan));
    buffer_append_text(out, ",\"job\":");
    buffer_append_slice(out, buffer_slice(&stored->job));
    buffer_append_text(out, ",\"state\":");
    state_write(out, state);
    buffer_append_byte(out, '}');
}

void stored_write_spec(struct buffer *out, const struct stored *stored)
{
    struct slice plan = buffer_slice(&stored->plan), job = buffer_slice(&stored->job);
    buffer_append(out, job.at, job.len - 1);
    buffer_append_byte(out, ',');
    buffer_append(out, plan.at + 1, plan.len - 1);
}

bool stored_equals(const struct stored *a, const struct stored *b)
{
    return slice_equals(buffer_slice(&a->plan), buffer_slice(&b->plan)) &&
           slice_equals(buffer_slice(&a->job), buffer_slice(&b->job));
}

/* ---- fires ---- */

/* Appends the nominal time, with milliseconds only if there are any. */
static size_t write_time(char out[TIMESTAMP_BYTES], int64_t at_ms)
{
    timestamp_write(out, at_ms);
    if (at_ms % 1000)
        return TIMESTAMP_BYTES;
    out[TIMESTAMP_BYTES - 5] = 'Z';
    return TIMESTAMP_BYTES - 4;
}

struct slice stored_fire_id(struct slice name, int64_t at_ms, char out[STORED_ID_BYTES_MAX])
{
    char time[TIMESTAMP_BYTES];
    int len = snprintf(out, STORED_ID_BYTES_MAX, "%.*s@%.*s",
                       ERROR_SHOWN(name, SPEC_NAME_BYTES_MAX), (int)write_time(time, at_ms), time);
    return slice_make(out, (size_t)len);
}

/* The choice of a fire whose id exists. A leased job cannot be replaced; the worker then asks its holder to end. */
static const enum record_conflict conflicts[] = {[OVERLAP_ALLOW] = CONFLICT_KEEP,
                                                 [OVERLAP_SKIP] = CONFLICT_KEEP,
                                                 [OVERLAP_AFTER] = CONFLICT_AFTER,
                                                 [OVERLAP_REPLACE] = CONFLICT_REPLACE};

/* Writes the text that makes the push of a fire idempotent. A schedule that was deleted and created again, or whose
 * fires were cancelled, may push a fire of the same time once more. */
static struct slice write_once(struct slice name, const struct stored *stored, int64_t at_ms,
                               char out[STORED_ID_BYTES_MAX])
{
    int len =
        snprintf(out, STORED_ID_BYTES_MAX, "%.*s@%llx+%llx", ERROR_SHOWN(name, SPEC_NAME_BYTES_MAX),
                 (unsigned long long)at_ms, (unsigned long long)stored->state.since_ms);
    return slice_make(out, (size_t)len);
}

void stored_fire_init(struct stored_fire *fire, const struct stored *stored, struct slice name,
                      const struct decision_fire *decided)
{
    char time[TIMESTAMP_BYTES], number[24];
    size_t time_len = write_time(time, decided->at_ms);
    int number_len = snprintf(number, sizeof number, "%llu", (unsigned long long)decided->number);
    fire->push = stored->push;
    fire->push.once = write_once(name, stored, decided->at_ms, fire->once);
    fire->push.once_for_ms = decided->once_for_ms;
    fire->is_shared = stored->spec.overlap != OVERLAP_ALLOW;
    fire->push.id = stored_fire_id(name, decided->at_ms, fire->id);
    if (fire->is_shared)
        fire->push.id = name;
    fire->push.on_conflict = conflicts[stored->spec.overlap];
    fire->push.when = (struct queue_when){.due = QUEUE_DUE_AT, .ms = decided->due_ms};
    buffer_init(&fire->meta, JOB_META_BYTES_MAX);
    buffer_append_slice(&fire->meta, stored->push.meta);
    (void)job_meta_add(&fire->meta, slice_of(JOB_META_OWN "schedule"), name);
    (void)job_meta_add(&fire->meta, slice_of(JOB_META_OWN "scheduled-for"),
                       slice_make(time, time_len));
    if (decided->number)
        (void)job_meta_add(&fire->meta, slice_of(JOB_META_OWN "fire"),
                           slice_make(number, (size_t)number_len));
    fire->push.meta = buffer_slice(&fire->meta);
}

void stored_fire_fini(struct stored_fire *fire)
{
    buffer_fini(&fire->meta);
}

struct queue_push stored_push(struct slice name, struct slice body, int64_t wake_ms)
{
    return (struct queue_push){
        .topic = slice_of(SCHEDULES_TOPIC),
        .is_own = true,
        .id = name,
        .content_type = slice_of("application/json"),
        .body = body,
        .when = {.due = QUEUE_DUE_AT, .ms = wake_ms},
        .priority = QUEUE_PRIORITY_UNSET,
        .on_conflict = CONFLICT_KEEP,
        .policy = {.max_attempts = POLICY_ATTEMPTS_NONE,
                   .lease_ms = STORED_LEASE_MS,
                   .backoff = {.kind = BACKOFF_FIXED, .first_ms = 1000, .max_ms = 1000}}};
}
