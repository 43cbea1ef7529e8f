#include "sql/wall.h"

static void when_read(struct queue_when *when, int64_t adjust_ms)
{
    if (when->due == QUEUE_DUE_AT)
        when->ms += adjust_ms;
}

void sql_wall_read(struct command *command, int64_t adjust_ms)
{
    bool is_push = command->kind == COMMAND_PUSH;
    if (!adjust_ms || (!is_push && command->kind != COMMAND_CHANGE))
        return;
    /* the items are part of the copy of the command */
    struct queue_push *pushes = (struct queue_push *)(uintptr_t)command->pushes;
    struct queue_change *changes = (struct queue_change *)(uintptr_t)command->changes;
    for (size_t i = 0; i < command->count; i++)
        when_read(is_push ? &pushes[i].when : &changes[i].when, adjust_ms);
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
    if (!adjust_ms || !call->command)
        return;
    for (size_t i = 0; call->items && i < call->command->count; i++) {
        time_write(&call->items[i].due_ms, adjust_ms);
        time_write(&call->items[i].lease_until_ms, adjust_ms);
    }
    for (size_t i = 0; i < call->job_count; i++)
        job_write(&call->jobs[i].job, adjust_ms);
    for (size_t i = 0; i < call->topic_count; i++) {
        time_write(&call->topics[i].paused_until_ms, adjust_ms);
        time_write(&call->topics[i].oldest_ready_due_ms, adjust_ms);
    }
}
