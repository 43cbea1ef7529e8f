#include "sql/call.h"

#include "queue/copy.h"
#include "sql/admit.h"

#include <stdlib.h>
#include <string.h>

/* ---- creation ---- */

struct sql_call *sql_call_new(enum sql_call_kind kind, const struct command *command,
                              struct queue_reply_to reply_to)
{
    struct sql_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->kind = kind;
    call->reply_to = reply_to;
    buffer_init(&call->names, SQL_CALL_ARRAY_BYTES_MAX);
    buffer_init(&call->bounds, SQL_CALL_ARRAY_BYTES_MAX);
    call->command = command ? copy_command(command) : NULL;
    if (command && !call->command) {
        free(call);
        return NULL;
    }
    return call;
}

void sql_call_reset_results(struct sql_call *call)
{
    for (size_t i = 0; i < call->results.count; i++)
        call->result_free(call->results.at[i]);
    for (size_t i = 0; i < call->blocks.count; i++)
        free(call->blocks.at[i]);
    call->results.count = call->blocks.count = 0;
    free(call->items);
    free(call->jobs);
    free(call->finished);
    free(call->topics);
    free(call->groups);
    free(call->tokens);
    free(call->forecast);
    call->items = NULL;
    call->jobs = NULL;
    call->finished = NULL;
    call->topics = NULL;
    call->groups = NULL;
    call->tokens = NULL;
    call->forecast = NULL;
    call->job_count = call->topic_count = call->group_count = call->cursor_bytes = 0;
    call->status = QUEUE_OK;
    call->step_affected = 0;
    call->observations.count = 0;
    call->drained = call->has_more = false;
    call->mark = 0;
    buffer_clear(&call->names);
    buffer_clear(&call->bounds);
}

void sql_call_free(struct sql_call *call)
{
    sql_call_reset_results(call);
    sql_results_fini(&call->results);
    sql_results_fini(&call->blocks);
    sql_observations_fini(&call->observations);
    sql_leases_fini(&call->ends);
    buffer_fini(&call->names);
    buffer_fini(&call->bounds);
    free(call->command);
    free(call);
}

bool sql_call_keep(struct sql_call *call, void *result, void (*result_free)(void *result))
{
    call->result_free = result_free;
    if (sql_results_add(&call->results, result))
        return true;
    result_free(result);
    return false;
}

bool sql_call_is_durable(const struct sql_call *call)
{
    if (call->kind != SQL_CALL_COMMAND)
        return call->kind == SQL_CALL_AWAIT; /* after the ends that it returns */
    return command_writes(call->command);
}

bool sql_call_is_of_schedules(const struct sql_call *call)
{
    const struct command *command = call->command;
    if (!sql_call_writes_items(call) || !command->count)
        return false;
    return (command->kind == COMMAND_PUSH && command->pushes[0].once.len) ||
           (command->kind == COMMAND_ANSWER && command->answers[0].verb == QUEUE_AGAIN);
}

bool sql_call_is_change(const struct sql_call *call)
{
    if (call->kind == SQL_CALL_COMMAND)
        return command_acts(call->command);
    return call->kind != SQL_CALL_LOOK && call->kind != SQL_CALL_POLL &&
           call->kind != SQL_CALL_PEEK;
}

bool sql_call_is_count(const struct sql_call *call)
{
    return call->kind == SQL_CALL_COMMAND &&
           (call->command->kind == COMMAND_TOPIC || call->command->kind == COMMAND_TOPICS);
}

bool sql_call_is_single(const struct sql_call *call)
{
    if (call->kind != SQL_CALL_COMMAND)
        return call->kind == SQL_CALL_LOOK || call->kind == SQL_CALL_UPKEEP ||
               call->kind == SQL_CALL_CLOCK;
    return !sql_call_is_change(call);
}

static void copy_name(char *out, size_t out_bytes, struct slice name)
{
    size_t len = name.len < out_bytes ? name.len : out_bytes - 1;
    if (len)
        memcpy(out, name.at, len);
    out[len] = '\0';
}

void sql_call_name(const struct sql_call *call, struct sql_call_name *out)
{
    *out = (struct sql_call_name){0};
    out->jobs = call->kind == SQL_CALL_COMMAND ? command_name_count(call->command) : 0;
    if (!out->jobs)
        return;
    struct queue_find name = command_name(call->command, 0);
    copy_name(out->topic, sizeof out->topic, name.topic);
    copy_name(out->id, sizeof out->id, name.id);
}

size_t sql_call_weight(const struct sql_call *call)
{
    if (call->kind == SQL_CALL_END_LEASES)
        return call->ends.count;
    return call->command ? command_item_count(call->command) : 1;
}

size_t sql_call_bytes(const struct sql_call *call)
{
    size_t bytes = 0;
    if (call->command && call->command->kind == COMMAND_PUSH)
        for (size_t i = 0; i < call->command->count; i++)
            bytes += call->command->pushes[i].body.len;
    if (call->command && call->command->kind == COMMAND_ANSWER)
        for (size_t i = 0; i < call->command->count; i++)
            bytes +=
                call->command->answers[i].again ? call->command->answers[i].again->body.len : 0;
    return bytes;
}

int64_t sql_call_due_ms(int64_t now_ms, const struct queue_when *when)
{
    if (when->due == QUEUE_DUE_AT)
        return when->ms > now_ms ? when->ms : now_ms;
    return when->due == QUEUE_DUE_DELAY && when->ms > 0 ? now_ms + when->ms + 1 : now_ms;
}

void sql_call_created(struct sql_call *call, size_t item, int64_t now_ms)
{
    const struct queue_push *push = &call->command->pushes[item];
    int64_t due_ms = sql_call_due_ms(now_ms, &push->when);
    call->items[item] = (struct queue_result){.status = QUEUE_CREATED,
                                              .state = due_ms <= now_ms ? JOB_READY : JOB_DELAYED,
                                              .due_ms = due_ms,
                                              .topic = push->topic,
                                              .id = push->id};
}

void sql_call_all_created(struct sql_call *call, int64_t now_ms)
{
    for (size_t i = 0; i < call->command->count; i++)
        if (call->items[i].status == QUEUE_UNAVAILABLE)
            sql_call_created(call, i, now_ms);
}

/* ---- the reply ---- */

void sql_call_reply(struct sql_call *call)
{
    sql_admit_jobs(call);
    struct queue_reply reply = {
        .status = call->status,
        .results = call->items,
        .result_count = call->items ? call->command->count : 0,
        .jobs = call->jobs,
        .job_count = call->job_count,
        .drained = call->drained,
        .topics = call->topics,
        .topic_count = call->topic_count,
        .groups = call->groups,
        .group_count = call->group_count,
        .cursor = slice_make(call->cursor, call->cursor_bytes),
        .affected = call->affected,
        .forecast = call->status == QUEUE_OK ? call->forecast : NULL,
    };
    if (call->reply_to.done)
        call->reply_to.done(call->reply_to.owner, call->reply_to.tag, &reply);
}

void sql_call_refuse(struct sql_call *call, enum queue_status status)
{
    const struct command *command = call->command;
    sql_call_reset_results(call);
    if (command && command_has_items(command) && status != QUEUE_OK &&
        (call->items = calloc(command->count ? command->count : 1, sizeof *call->items))) {
        for (size_t i = 0; i < command->count; i++)
            if (command_item_is_good(command, i, &call->items[i]))
                call->items[i].status = status;
    } else {
        call->status = status;
    }
    sql_call_reply(call);
}

/* ---- times of callers ---- */

static void when_read(struct queue_when *when, int64_t adjust_ms)
{
    if (when->due == QUEUE_DUE_AT)
        when->ms += adjust_ms;
}

void sql_wall_read(struct command *command, int64_t adjust_ms)
{
    if (!adjust_ms)
        return;
    /* the items are part of the copy of the command */
    for (size_t i = 0; i < command->count; i++)
        if (command->kind == COMMAND_PUSH)
            when_read(&((struct queue_push *)(uintptr_t)&command->pushes[i])->when, adjust_ms);
        else if (command->kind == COMMAND_CHANGE)
            when_read(&((struct queue_change *)(uintptr_t)&command->changes[i])->when, adjust_ms);
        else if (command->kind == COMMAND_ANSWER && command->answers[i].again)
            when_read(&((struct queue_again *)(uintptr_t)command->answers[i].again)->when,
                      adjust_ms);
}

/* Converts a time; 0: no time. */
static void time_write(int64_t *ms, int64_t adjust_ms)
{
    if (*ms)
        *ms -= adjust_ms;
}

static void job_write(struct job *job, int64_t adjust_ms)
{
    time_write(&job->due_ms, adjust_ms);
    time_write(&job->first_due_ms, adjust_ms);
    time_write(&job->lease_until_ms, adjust_ms);
    time_write(&job->taken_ms, adjust_ms);
}

void sql_wall_write(struct sql_call *call, int64_t adjust_ms)
{
    if (!adjust_ms || (!call->command && call->kind != SQL_CALL_AWAIT))
        return;
    for (size_t i = 0; call->items && i < call->command->count; i++) {
        time_write(&call->items[i].due_ms, adjust_ms);
        time_write(&call->items[i].lease_until_ms, adjust_ms);
    }
    for (size_t i = 0; i < call->job_count; i++) {
        job_write(&call->jobs[i].job, adjust_ms);
        time_write(&call->jobs[i].held_until_ms, adjust_ms);
    }
    for (size_t i = 0; i < call->group_count; i++) {
        time_write(&call->groups[i].settings.paused_until_ms, adjust_ms);
        time_write(&call->groups[i].held_until_ms, adjust_ms);
        time_write(&call->groups[i].oldest_ready_due_ms, adjust_ms);
    }
    for (size_t i = 0; call->finished && i < call->job_count; i++)
        time_write(&call->finished[i].finished_ms, adjust_ms);
    for (size_t i = 0; i < call->topic_count; i++) {
        time_write(&call->topics[i].paused_until_ms, adjust_ms);
        time_write(&call->topics[i].oldest_ready_due_ms, adjust_ms);
    }
}
