/* Topics: their settings, operations on whole topics, and their counters. */
#include "lib/directory.h"
#include "lib/limits.h"
#include "queue/door.h"

#include <stdlib.h>

/* Sizes of the first versions of these structs. */
enum {
    TOPIC_BYTES_MIN = offsetof(struct tarry_topic, oldest_ready_due_ms) + sizeof(int64_t),
    SETTINGS_BYTES_MIN = offsetof(struct tarry_settings, max_jobs) + sizeof(uint64_t)
};

/* ---- conversion of a topic ---- */

/* Writes the settings, cut to the size of the caller's struct. */
static void settings_write(const struct topic_settings *from, size_t stride, void *into)
{
    struct tarry_settings settings = {
        .size = (uint32_t)stride,
        .flags = (from->has_priority ? (uint32_t)TARRY_HAS_PRIORITY : 0) |
                 (from->dead_letter_expired ? (uint32_t)TARRY_DEAD_LETTER_EXPIRED : 0) |
                 (from->keep_body ? (uint32_t)TARRY_KEEP_BODY : 0) |
                 (from->flow.one_shard ? (uint32_t)TARRY_ONE_SHARD : 0),
        .lease_ms = from->policy.lease_ms,
        .ttl_ms = from->policy.ttl_ms,
        .max_attempts = from->policy.max_attempts,
        .backoff = (uint32_t)from->policy.backoff.kind,
        .backoff_first_ms = from->policy.backoff.first_ms,
        .backoff_max_ms = from->policy.backoff.max_ms,
        .priority = from->priority,
        .on_conflict = (uint32_t)from->on_conflict,
        .dedup_window_ms = from->dedup_window_ms,
        .max_jobs = from->max_jobs,
        .keep_finished_ms = from->keep_finished_ms,
        .keep_finished_max = from->keep_finished_max,
        .keep_finished_bytes = from->keep_finished_bytes,
        .limits = lib_limits_write(&from->flow.topic),
        .group_limits = lib_limits_write(&from->flow.group),
        .group_order = (uint32_t)from->flow.group_order,
        .group_max_jobs = from->flow.group_max_jobs,
        .backoff_step_count = from->policy.backoff.step_count};
    memcpy(settings.backoff_steps_ms, from->policy.backoff.steps_ms,
           sizeof settings.backoff_steps_ms);
    memcpy(into, &settings, stride < sizeof settings ? stride : sizeof settings);
}

/* Writes the topic, cut to the size of the caller's struct. */
static void topic_write(const struct queue_topic *from, size_t stride, void *into)
{
    const struct topic_totals *totals = &from->totals;
    struct tarry_topic topic = {.size = (uint32_t)stride,
                                .is_paused = from->paused,
                                .paused_until_ms = from->paused_until_ms,
                                .delayed = from->counts.delayed,
                                .retrying = from->counts.retrying,
                                .ready = from->counts.ready,
                                .leased = from->counts.leased,
                                .dead = from->counts.dead,
                                .pushed = totals->pushed,
                                .replaced = totals->replaced,
                                .delivered = totals->delivered,
                                .acked = totals->acked,
                                .nacked = totals->nacked,
                                .lease_ended = totals->lease_ended,
                                .cancelled = totals->cancelled,
                                .expired = totals->expired,
                                .died = totals->died,
                                .redriven = totals->redriven,
                                .dead_bytes = from->counts.dead_bytes,
                                .oldest_ready_due_ms = from->oldest_ready_due_ms,
                                .finished = from->counts.finished,
                                .held = from->counts.held,
                                .groups = from->groups};
    memcpy(topic.name, from->name.at, from->name.len);
    memcpy(into, &topic, stride < sizeof topic ? stride : sizeof topic);
}

/* ---- in a directory ---- */

/* A request for topics; the reply is converted directly into the caller's array. */
struct topic_reply {
    struct directory_call call;
    void (*write)(const struct queue_topic *, size_t, void *);
    size_t room, stride, count; /* room and count: number of topics */
    void *out;
    uint64_t affected;
};

static void topic_replied(struct directory_call *call, const struct queue_reply *reply)
{
    struct topic_reply *answer = list_entry(call, struct topic_reply, call);
    call->code = lib_code(reply->status);
    answer->affected = reply->affected;
    /* Several shards may together return more topics than requested. */
    answer->count = reply->topic_count < answer->room ? reply->topic_count : answer->room;
    for (size_t i = 0; answer->write && i < answer->count; i++)
        answer->write(&reply->topics[i], answer->stride, (char *)answer->out + i * answer->stride);
}

static int topic_run(tarry *queue, struct topic_reply *answer, const struct command *command)
{
    int code = lib_begin(queue);
    if (code)
        return code;
    answer->call.replied = topic_replied;
    answer->call.command = *command;
    code = directory_run(queue->directory, &answer->call);
    lib_end(queue);
    return code;
}

/* ---- calls ---- */

/* Carries out a call about a topic. `write`, unless NULL, converts the topic into `out`, which
 * has `stride` bytes. */
static int call_topic(tarry *queue, const struct queue_topic_call *call, uint64_t *affected,
                      void (*write)(const struct queue_topic *, size_t, void *), size_t stride,
                      void *out)
{
    struct queue_topic topic = {0};
    uint64_t count = 0;
    const char *detail;
    int code = lib_code(queue_check_topic(call, &detail));
    if (!code && queue->directory) {
        struct topic_reply answer = {.write = write, .room = 1, .stride = stride, .out = out};
        code = topic_run(queue, &answer, &(struct command){.kind = COMMAND_TOPIC, .topic = *call});
        if (affected)
            *affected = answer.affected;
        return code;
    }
    if (!code)
        code = lib_enter(queue);
    if (code)
        return code;
    code = lib_code(memory_topic(queue->memory, call, queue->now, &topic, &count));
    if (!code && write)
        write(&topic, stride, out);
    lib_leave(queue);
    if (affected)
        *affected = count;
    return code;
}

int lib_topic_call(struct tarry *queue, const struct queue_topic_call *call,
                   void (*write)(const struct queue_topic *, size_t, void *), void *into)
{
    return call_topic(queue, call, NULL, write, 0, into);
}

/* Settings of a topic that tarry_settings has no fields for, because only a server uses them for
 * delivery. They are kept unchanged. */
struct server_settings {
    struct frequency push_rate;
    size_t extension_bytes;
    char extension[TOPIC_EXTENSION_BYTES_MAX];
};

static void server_settings_write(const struct queue_topic *topic, size_t stride, void *into)
{
    struct server_settings *held = into;
    const struct slice extension = topic->settings.extension;
    (void)stride;
    held->push_rate = topic->settings.push_rate;
    if (extension.len > sizeof held->extension)
        return;
    held->extension_bytes = extension.len;
    if (extension.len)
        memcpy(held->extension, extension.at, extension.len);
}

int tarry_topic_put(tarry *queue, const char *topic, const struct tarry_settings *from)
{
    struct tarry_settings settings;
    struct backoff backoff;
    struct server_settings held = {.extension_bytes = 0};
    const uint32_t flags =
        TARRY_HAS_PRIORITY | TARRY_DEAD_LETTER_EXPIRED | TARRY_KEEP_BODY | TARRY_ONE_SHARD;
    if (!lib_read(&settings, sizeof settings, from) || settings.flags & ~flags ||
        settings.reserved || settings.reserved_order || settings.on_conflict > TARRY_REJECT ||
        settings.group_order > TARRY_STRICT || !lib_limits_are_good(&settings.limits) ||
        !lib_limits_are_good(&settings.group_limits) ||
        !lib_backoff_read(&backoff, settings.backoff, settings.backoff_first_ms,
                          settings.backoff_max_ms, settings.backoff_steps_ms,
                          settings.backoff_step_count))
        return TARRY_BAD_OPTION;
    bool has_priority = settings.flags & TARRY_HAS_PRIORITY;
    struct queue_topic_call call = {
        .verb = QUEUE_TOPIC_PUT,
        .topic = lib_text(topic),
        .settings = {.policy = {.lease_ms = settings.lease_ms,
                                .ttl_ms = settings.ttl_ms,
                                .max_attempts = settings.max_attempts,
                                .backoff = backoff},
                     .on_conflict = (enum record_conflict)settings.on_conflict,
                     .has_priority = has_priority,
                     .priority = has_priority ? settings.priority : 0,
                     .dead_letter_expired = settings.flags & TARRY_DEAD_LETTER_EXPIRED,
                     .dedup_window_ms = settings.dedup_window_ms,
                     .max_jobs = settings.max_jobs,
                     .keep_finished_ms = settings.keep_finished_ms,
                     .keep_finished_max = settings.keep_finished_max,
                     .keep_finished_bytes = settings.keep_finished_bytes,
                     .keep_body = settings.flags & TARRY_KEEP_BODY,
                     .flow = {.topic = lib_limits_read(&settings.limits),
                              .group = lib_limits_read(&settings.group_limits),
                              .group_max_jobs = settings.group_max_jobs,
                              .group_order = (enum flow_order)settings.group_order,
                              .one_shard = settings.flags & TARRY_ONE_SHARD}}};
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET, .topic = call.topic};
    int code = lib_topic_call(queue, &get, server_settings_write, &held);
    if (code && code != TARRY_NOT_FOUND)
        return code;
    call.settings.push_rate = held.push_rate;
    call.settings.extension = slice_make(held.extension, held.extension_bytes);
    return call_topic(queue, &call, NULL, NULL, 0, NULL);
}

int tarry_topic_get(tarry *queue, const char *topic, struct tarry_topic *out)
{
    size_t stride = lib_stride(out, TOPIC_BYTES_MIN);
    if (!stride)
        return TARRY_BAD_OPTION;
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_GET, .topic = lib_text(topic)};
    return call_topic(queue, &call, NULL, topic_write, stride, out);
}

static void topic_write_settings(const struct queue_topic *from, size_t stride, void *into)
{
    settings_write(&from->settings, stride, into);
}

int tarry_topic_settings(tarry *queue, const char *topic, struct tarry_settings *out)
{
    size_t stride = lib_stride(out, SETTINGS_BYTES_MIN);
    if (!stride)
        return TARRY_BAD_OPTION;
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_GET, .topic = lib_text(topic)};
    return call_topic(queue, &call, NULL, topic_write_settings, stride, out);
}

int tarry_topic_delete(tarry *queue, const char *topic, uint64_t *affected)
{
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_DELETE, .topic = lib_text(topic)};
    return call_topic(queue, &call, affected, NULL, 0, NULL);
}

int tarry_topic_pause(tarry *queue, const char *topic, int64_t for_ms)
{
    struct queue_topic_call call = {
        .verb = QUEUE_TOPIC_PAUSE, .topic = lib_text(topic), .pause_ms = for_ms};
    return call_topic(queue, &call, NULL, NULL, 0, NULL);
}

int tarry_topic_resume(tarry *queue, const char *topic)
{
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_RESUME, .topic = lib_text(topic)};
    return call_topic(queue, &call, NULL, NULL, 0, NULL);
}

int tarry_topic_purge(tarry *queue, const char *topic, int state, uint64_t *affected)
{
    if (state < 0)
        return TARRY_BAD_OPTION;
    struct queue_topic_call call = {
        .verb = QUEUE_TOPIC_PURGE, .topic = lib_text(topic), .state = (enum job_state)state};
    return call_topic(queue, &call, affected, NULL, 0, NULL);
}

int tarry_topic_redrive(tarry *queue, const char *topic, const char *id, uint64_t max,
                        uint64_t *affected)
{
    struct queue_topic_call call = {
        .verb = QUEUE_TOPIC_REDRIVE, .topic = lib_text(topic), .id = lib_text(id), .max = max};
    if (id && !call.id.len)
        return TARRY_BAD_ID;
    return call_topic(queue, &call, affected, NULL, 0, NULL);
}

uint64_t tarry_finished_dropped(tarry *queue)
{
    uint64_t count = 0;
    if (queue->directory && !lib_begin(queue)) {
        count = directory_dropped(queue->directory);
        lib_end(queue);
        return count;
    }
    if (queue->directory || lib_enter(queue))
        return 0;
    for (int reason = 0; reason < QUEUE_DROPS; reason++)
        count += memory_dropped(queue->memory, (enum queue_drop)reason);
    lib_leave(queue);
    return count;
}

int tarry_topics(tarry *queue, const char *after, struct tarry_topic *out, size_t *n)
{
    size_t room = *n, stride = room ? lib_stride(out, TOPIC_BYTES_MIN) : 0;
    struct queue_topic *topics;
    *n = 0;
    if (!stride || room > UINT32_MAX)
        return TARRY_BAD_OPTION;
    struct queue_topics_page page = {.after = lib_text(after), .limit = (uint32_t)room};
    if (queue->directory) {
        struct topic_reply answer = {
            .write = topic_write, .room = room, .stride = stride, .out = out};
        struct command command = {.kind = COMMAND_TOPICS, .topics = page};
        int failed = topic_run(queue, &answer, &command);
        *n = answer.count;
        return failed;
    }
    int code = lib_enter(queue);
    if (code)
        return code;
    bool is_shown = memory_topics(queue->memory, page, queue->now, &topics, n);
    for (size_t i = 0; is_shown && i < *n; i++)
        topic_write(&topics[i], stride, (char *)out + i * stride);
    lib_leave(queue);
    if (!is_shown)
        return TARRY_NO_MEMORY;
    free(topics);
    return TARRY_OK;
}
