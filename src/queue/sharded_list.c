/* A page of a list: every part's page, joined by due, then push order. */
#include "queue/cursor.h"
#include "queue/sharded_private.h"

#include <stdlib.h>

enum { PAGE_BYTES_MAX = 8 << 20 }; /* of bodies in one page, give or take a job */

static bool job_before(const struct sharded_gather *gather, const size_t *next, uint32_t a,
                       uint32_t b)
{
    const struct job *x = &gather->replies[a]->jobs[next[a]].job,
                     *y = &gather->replies[b]->jobs[next[b]].job;
    if (x->due_ms != y->due_ms)
        return x->due_ms < y->due_ms;
    return x->sequence != y->sequence ? x->sequence < y->sequence : a < b;
}

/* The part whose next job comes first; part_count: there is none. */
static uint32_t first_of(const struct sharded_gather *gather, const size_t *next)
{
    uint32_t count = gather->sharded->part_count, best = count;
    for (uint32_t i = 0; i < count; i++)
        if (next[i] < gather->replies[i]->job_count &&
            (best == count || job_before(gather, next, i, best)))
            best = i;
    return best;
}

/* Returns how many; `last` is the place of the last one. */
static size_t merge(const struct sharded_gather *gather, struct queue_job *jobs,
                    struct queue_cursor *last)
{
    size_t next[SHARDED_PARTS_MAX] = {0}, found = 0, bytes = 0;
    while (found < gather->limit && bytes < PAGE_BYTES_MAX) {
        uint32_t best = first_of(gather, next);
        if (best == gather->sharded->part_count)
            break;
        const struct queue_reply *part = gather->replies[best];
        jobs[found] = part->jobs[next[best]++];
        *last = (struct queue_cursor){
            .due_ms = jobs[found].job.due_ms, .sequence = jobs[found].job.sequence, .shard = best};
        bytes += jobs[found++].job.body.len;
        /* A part that left some out says nothing of what follows its last. */
        if (next[best] == part->job_count && part->cursor.len)
            break;
    }
    return found;
}

/* What was found in all: QUEUE_OK where any part knows the topic. */
static enum queue_status look_over(const struct sharded_gather *gather, size_t *total, bool *more)
{
    enum queue_status status = QUEUE_NOT_FOUND;
    for (uint32_t i = 0; i < gather->sharded->part_count; i++) {
        const struct queue_reply *part = gather->replies[i];
        if (!part)
            return QUEUE_NO_MEMORY;
        if (part->status != QUEUE_OK && part->status != QUEUE_NOT_FOUND)
            return part->status;
        if (part->status == QUEUE_OK)
            status = QUEUE_OK;
        *more |= part->cursor.len > 0;
        *total += part->job_count;
    }
    return status;
}

static void join_list(struct sharded_gather *gather)
{
    size_t total = 0;
    bool more = false;
    enum queue_status status = look_over(gather, &total, &more);
    struct queue_job *jobs = status == QUEUE_OK ? calloc(gather->limit, sizeof *jobs) : NULL;
    if (!jobs) {
        sharded_gather_refuse(gather, status == QUEUE_OK ? QUEUE_NO_MEMORY : status);
        return;
    }
    struct queue_cursor last = {0};
    char text[QUEUE_CURSOR_BYTES_MAX];
    size_t found = merge(gather, jobs, &last);
    struct queue_reply reply = {.jobs = jobs, .job_count = found};
    if (found && (more || found < total))
        reply.cursor = slice_make(text, queue_cursor_write(text, &last));
    sharded_gather_finish(gather, &reply);
    free(jobs);
}

void sharded_list(struct sharded *sharded, const struct command *command,
                  struct queue_reply_to reply_to)
{
    struct sharded_gather *gather = sharded_gather_new(sharded, join_list, reply_to);
    if (!gather)
        return;
    gather->limit = command->list.limit;
    sharded_gather_ask_all(gather, command);
}
