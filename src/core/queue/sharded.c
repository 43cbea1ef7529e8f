#include "queue/sharded.h"

#include "queue/copy.h"
#include "queue/cursor.h"
#include "queue/sharded_gather.h"
#include "queue/traits.h"

#include <assert.h>
#include <stdlib.h>

enum {
    PAGE_BYTES_MAX = 8 << 20,    /* of bodies in one page of a list, approximately */
    TAKE_BYTES_ENOUGH = 16 << 20 /* of bodies: then a take tries no further part */
};

/* ---- push, answer, change, find ---- */

static void spread_items(struct sharded *sharded, const struct command *command,
                         struct queue_reply_to reply_to)
{
    if (sharded_has_members(command))
        sharded_push_members(sharded, command, reply_to);
    else if (sharded_has_holds(command))
        sharded_answers_with_holds(sharded, command, reply_to);
    else
        sharded_items(sharded, command, reply_to);
}

/* ---- get, list: joins the pages of all parts by due, then push order ---- */

static void spread_get(struct sharded *sharded, const struct command *command,
                       struct queue_reply_to reply_to)
{
    struct queue_find name = command_name(command, 0);
    uint32_t part = sharded_part_of_job(sharded, name.topic, name.id);
    sharded_send(sharded, part, command, reply_to);
}

static bool job_before(const struct sharded_gather *gather, const size_t *next, uint32_t a,
                       uint32_t b)
{
    const struct job *x = &gather->replies[a]->jobs[next[a]].job,
                     *y = &gather->replies[b]->jobs[next[b]].job;
    if (x->due_ms != y->due_ms)
        return x->due_ms < y->due_ms;
    return x->sequence != y->sequence ? x->sequence < y->sequence : a < b;
}

/* Returns the part whose next job comes first; part_count: no part has one. */
static uint32_t first_of(const struct sharded_gather *gather, const size_t *next)
{
    uint32_t count = gather->sharded->part_count, best = count;
    for (uint32_t i = 0; i < count; i++)
        if (next[i] < gather->replies[i]->job_count &&
            (best == count || job_before(gather, next, i, best)))
            best = i;
    return best;
}

static struct queue_cursor place_of(const struct sharded *sharded, uint32_t part,
                                    const struct job *job)
{
    const struct sharded_options *options = &sharded->options;
    if (options->number_of_job)
        part = options->number_of_job(options->ctx, part, job->topic, job->id);
    return (struct queue_cursor){.due_ms = job->due_ms, .sequence = job->sequence, .shard = part};
}

/* Returns whether the last of these jobs is already in the list, because it moved to another part between two
 * replies. */
static bool is_shown(const struct queue_job *jobs, size_t found)
{
    const struct job *last = &jobs[found].job;
    for (size_t i = found; i-- > 0;) {
        const struct job *other = &jobs[i].job;
        if (other->due_ms != last->due_ms)
            return false;
        if (slice_equals(other->id, last->id))
            return true;
    }
    return false;
}

/* Merges the pages and returns the number of jobs; `last` is the place of the last one. */
static size_t merge_pages(const struct sharded_gather *gather, struct queue_job *jobs,
                          struct queue_cursor *last)
{
    size_t next[SHARDED_PARTS_MAX] = {0}, found = 0, bytes = 0;
    while (found < gather->limit && bytes < PAGE_BYTES_MAX) {
        uint32_t best = first_of(gather, next);
        if (best == gather->sharded->part_count)
            break;
        const struct queue_reply *part = gather->replies[best];
        jobs[found] = part->jobs[next[best]++];
        *last = place_of(gather->sharded, best, &jobs[found].job);
        if (!gather->sharded->options.in_turn || !is_shown(jobs, found))
            bytes += jobs[found++].job.body.len;
        /* If a part has more jobs, those after its last one are unknown. */
        if (next[best] == part->job_count && part->cursor.len)
            break;
    }
    return found;
}

/* Returns the joint status: QUEUE_OK if any part has the topic. */
static enum queue_status list_status(const struct sharded_gather *gather, size_t *total, bool *more)
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

static void note_skew(const struct sharded_options *options, struct queue_cursor *last)
{
    last->has_skew = options->skew_ms != NULL;
    if (last->has_skew)
        last->skew_ms = options->skew_ms(options->ctx);
}

/* Corrects the cursor of a joint list after a change of the wall clock. The parts use the corrected cursor unchanged. */
static struct slice follow_skew(const struct sharded_options *options,
                                const struct queue_list *list, char text[QUEUE_CURSOR_BYTES_MAX])
{
    struct queue_cursor cursor;
    if (!options->skew_ms || !list->cursor.len || !queue_cursor_parse(list->cursor, &cursor))
        return list->cursor;
    queue_cursor_follow(&cursor, options->skew_ms(options->ctx), list->state == JOB_FINISHED);
    cursor.has_skew = false;
    return slice_make(text, queue_cursor_write(text, &cursor));
}

static void join_list(struct sharded_gather *gather)
{
    size_t total = 0;
    bool more = false;
    enum queue_status status = list_status(gather, &total, &more);
    struct queue_job *jobs = status == QUEUE_OK ? calloc(gather->limit, sizeof *jobs) : NULL;
    if (!jobs) {
        sharded_gather_refuse(gather, status == QUEUE_OK ? QUEUE_NO_MEMORY : status);
        return;
    }
    struct queue_cursor last = {0};
    char text[QUEUE_CURSOR_BYTES_MAX];
    size_t found = merge_pages(gather, jobs, &last);
    struct queue_reply reply = {.jobs = jobs, .job_count = found};
    note_skew(&gather->sharded->options, &last);
    if (found && (more || found < total))
        reply.cursor = slice_make(text, queue_cursor_write(text, &last));
    sharded_gather_finish(gather, &reply);
    free(jobs);
}

static void spread_list(struct sharded *sharded, const struct command *command,
                        struct queue_reply_to reply_to)
{
    struct sharded_gather *gather = sharded_gather_new(sharded, join_list, reply_to);
    if (!gather)
        return;
    char text[QUEUE_CURSOR_BYTES_MAX];
    struct command followed = *command;
    followed.list.cursor = follow_skew(&sharded->options, &command->list, text);
    gather->limit = command->list.limit;
    sharded_gather_ask_all(gather, &followed);
}

/* ---- take ---- */

/*
 * A take over several parts. It takes from one part after the other, so that no more jobs are leased than requested,
 * and from the first topic in all parts before the second. It begins where jobs were last reported as ready, and
 * advances from take to take, so that no part is favoured.
 */
struct taking {
    struct sharded *sharded;
    struct queue_reply_to reply_to;
    struct command *command;   /* a copy of the whole command */
    size_t topic;              /* current topic */
    uint32_t first, asked;     /* parts: the first one, and how many were tried for this topic */
    uint32_t left;             /* jobs still needed */
    size_t bytes;              /* of the jobs received */
    bool leaves_some;          /* a part may have more jobs */
    enum queue_status refusal; /* of a part; reported if no other part had jobs */
    struct queue_reply **replies;
    size_t reply_count;
};

static void take_next(struct taking *take);

static void take_finish(struct taking *take)
{
    size_t count = 0;
    bool has_asked_all = take->topic == take->command->take.topic_count;
    struct queue_reply reply = {.status = take->reply_count ? QUEUE_OK : take->refusal,
                                .drained = has_asked_all && !take->leaves_some};
    for (size_t i = 0; i < take->reply_count; i++)
        count += take->replies[i]->job_count;
    struct queue_job *jobs = malloc((count + 1) * sizeof *jobs);
    if (jobs) {
        for (size_t i = 0; i < take->reply_count; i++)
            for (size_t j = 0; j < take->replies[i]->job_count; j++)
                jobs[reply.job_count++] = take->replies[i]->jobs[j];
        reply.jobs = jobs;
    } else {
        reply.status = QUEUE_NO_MEMORY; /* the leases expire */
    }
    take->reply_to.done(take->reply_to.owner, take->reply_to.tag, &reply);
    free(jobs);
    for (size_t i = 0; i < take->reply_count; i++)
        free(take->replies[i]);
    take->sharded->under_way--;
    free(take->replies);
    free(take->command);
    free(take);
}

/* Keeps the jobs of a part, and takes the rest from the next part. */
static void part_taken(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct taking *take = owner;
    (void)tag;
    if (reply->status != QUEUE_OK)
        take->refusal = reply->status;
    if (reply->job_count) {
        take->leaves_some |= !reply->drained;
        struct queue_reply *copy = copy_reply(reply);
        if (copy) {
            take->replies[take->reply_count++] = copy;
            for (size_t i = 0; i < copy->job_count; i++)
                take->bytes += copy->jobs[i].job.body.len + copy->jobs[i].job.meta.len;
            take->left -= reply->job_count < take->left ? (uint32_t)reply->job_count : take->left;
        }
    }
    take_next(take);
}

static void take_next(struct taking *take)
{
    uint32_t parts = take->sharded->part_count;
    if (take->asked == parts) {
        take->asked = 0;
        take->topic++;
    }
    if (!take->left || take->bytes >= TAKE_BYTES_ENOUGH ||
        take->topic == take->command->take.topic_count) {
        take_finish(take);
        return;
    }
    struct command part = {.kind = COMMAND_TAKE,
                           .take = {.topics = &take->command->take.topics[take->topic],
                                    .topic_count = 1,
                                    .max = take->left,
                                    .lease_ms = take->command->take.lease_ms,
                                    .consumer = take->command->take.consumer,
                                    .way = take->command->take.way}};
    uint32_t at = (take->first + take->asked++) % parts;
    sharded_send(take->sharded, at, &part,
                 (struct queue_reply_to){.done = part_taken, .owner = take});
}

static void spread_in_turn(struct sharded *sharded, const struct command *command,
                           struct queue_reply_to reply_to)
{
    uint32_t parts = sharded->part_count;
    struct taking *take = calloc(1, sizeof *take);
    struct command *copy = copy_command(command);
    struct queue_reply **replies =
        malloc(parts * command->take.topic_count * sizeof(struct queue_reply *));
    if (!take || !copy || !replies) {
        free(take);
        free(copy);
        free(replies);
        sharded_refuse(sharded, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    *take = (struct taking){.sharded = sharded,
                            .reply_to = reply_to,
                            .command = copy,
                            .first = sharded->take_from,
                            .left = command->take.max,
                            .replies = replies};
    sharded->under_way++;
    sharded->take_from = (sharded->take_from + 1) % parts;
    take_next(take);
}

/*
 * A take by priority. Each part returns the rank of its next job. The part with the best one returns its jobs that
 * come before the next of all others, and its new rank. This repeats until there are enough jobs, with one call for
 * each change of the priority. Other takes meanwhile only reduce the number of jobs.
 */
enum { BEST_CALLS_MAX = 64 };

struct best_take {
    struct sharded *sharded;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy of the whole command */
    struct queue_rank next[SHARDED_PARTS_MAX];
    bool has_next[SHARDED_PARTS_MAX];
    uint32_t looks;            /* parts that have not returned a rank yet */
    uint32_t left;             /* jobs still needed */
    size_t bytes;              /* of the jobs received */
    enum queue_status refusal; /* of a part; reported if no other part had jobs */
    struct queue_reply *replies[BEST_CALLS_MAX];
    size_t reply_count, calls;
};

/* Returns the part whose next job comes first, except `other`; part_count: no part has one. */
static uint32_t best_part(const struct best_take *take, uint32_t other)
{
    uint32_t parts = take->sharded->part_count, best = parts;
    for (uint32_t i = 0; i < parts; i++)
        if (i != other && take->has_next[i] &&
            (best == parts || queue_rank_before(&take->next[i], &take->next[best])))
            best = i;
    return best;
}

static void best_finish(struct best_take *take)
{
    struct sharded *sharded = take->sharded;
    uint32_t best = best_part(take, sharded->part_count);
    size_t count = 0;
    struct queue_reply reply = {.status = take->reply_count ? QUEUE_OK : take->refusal,
                                .has_next = best < sharded->part_count};
    for (size_t i = 0; i < take->reply_count; i++)
        count += take->replies[i]->job_count;
    struct queue_job *jobs = malloc((count + 1) * sizeof *jobs);
    if (reply.has_next)
        reply.next = take->next[best];
    if (!jobs)
        reply.status = QUEUE_NO_MEMORY; /* the leases expire */
    for (size_t i = 0; jobs && i < take->reply_count; i++)
        for (size_t j = 0; j < take->replies[i]->job_count; j++)
            jobs[reply.job_count++] = take->replies[i]->jobs[j];
    reply.jobs = jobs;
    take->reply_to.done(take->reply_to.owner, take->reply_to.tag, &reply);
    free(jobs);
    for (size_t i = 0; i < take->reply_count; i++)
        free(take->replies[i]);
    sharded->under_way--;
    free(take->command);
    free(take);
}

static void best_go_on(struct best_take *take);

/* Stores the rank of the part's next job. If the part returned no job although its rank is unchanged, this take
 * does not try it again. */
static void best_note(struct best_take *take, uint64_t part, const struct queue_reply *reply)
{
    bool is_stuck = take->has_next[part] && !reply->job_count &&
                    !queue_rank_before(&take->next[part], &reply->next);
    if (reply->status != QUEUE_OK)
        take->refusal = reply->status;
    take->has_next[part] = reply->status == QUEUE_OK && reply->has_next && !is_stuck;
    take->next[part] = reply->next;
}

static void best_looked(void *owner, uint64_t part, const struct queue_reply *reply)
{
    struct best_take *take = owner;
    best_note(take, part, reply);
    if (--take->looks == 0)
        best_go_on(take);
}

static void best_taken(void *owner, uint64_t part, const struct queue_reply *reply)
{
    struct best_take *take = owner;
    struct queue_reply *copy = reply->job_count ? copy_reply(reply) : NULL;
    best_note(take, part, reply);
    if (!copy && reply->job_count)
        take->refusal = QUEUE_NO_MEMORY; /* the leases expire */
    for (size_t i = 0; copy && i < copy->job_count; i++)
        take->bytes += copy->jobs[i].job.body.len + copy->jobs[i].job.meta.len;
    if (copy) {
        take->replies[take->reply_count++] = copy;
        take->left -= copy->job_count < take->left ? (uint32_t)copy->job_count : take->left;
    }
    best_go_on(take);
}

/* Takes from the best part, up to the rank of the second. */
static void best_go_on(struct best_take *take)
{
    uint32_t parts = take->sharded->part_count, best = best_part(take, parts);
    const struct queue_take *whole = &take->command->take;
    bool is_beyond =
        best < parts && whole->is_bounded && take->next[best].priority > whole->priority_max;
    if (best == parts || is_beyond || !take->left || take->bytes >= TAKE_BYTES_ENOUGH ||
        take->calls == BEST_CALLS_MAX) {
        best_finish(take);
        return;
    }
    uint32_t second = best_part(take, best);
    struct command part = {.kind = COMMAND_TAKE, .take = *whole};
    part.take.max = take->left;
    if (second < parts &&
        (!whole->is_bounded || take->next[second].priority < whole->priority_max)) {
        part.take.is_bounded = true;
        part.take.priority_max = take->next[second].priority;
    }
    take->calls++;
    sharded_send(take->sharded, best, &part,
                 (struct queue_reply_to){.done = best_taken, .owner = take, .tag = best});
}

static void spread_by_priority(struct sharded *sharded, const struct command *command,
                               struct queue_reply_to reply_to)
{
    struct best_take *take = calloc(1, sizeof *take);
    struct command *copy = copy_command(command);
    if (!take || !copy) {
        free(take);
        free(copy);
        sharded_refuse(sharded, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    take->sharded = sharded;
    take->reply_to = reply_to;
    take->command = copy;
    take->left = command->take.max;
    take->looks = sharded->part_count;
    sharded->under_way++;
    struct command look = *copy;
    look.take.max = 0;
    for (uint32_t part = 0; part < sharded->part_count; part++)
        sharded_send(sharded, part, &look,
                     (struct queue_reply_to){.done = best_looked, .owner = take, .tag = part});
}

static void spread_take(struct sharded *sharded, const struct command *command,
                        struct queue_reply_to reply_to)
{
    const struct queue_take *take = &command->take;
    if (take->id.len)
        sharded_send(sharded, sharded_part_of_job(sharded, take->topics[0], take->id), command,
                     reply_to);
    else if (take->topic_count == 1 && sharded_is_one_by_name(sharded, take->topics[0]))
        sharded_send(sharded, sharded_home_of(sharded, take->topics[0]), command, reply_to);
    else if (take->by_priority)
        spread_by_priority(sharded, command, reply_to);
    else
        spread_in_turn(sharded, command, reply_to);
}

/* ---- any call ---- */

static struct sharded *sharded_of(struct queue *queue)
{
    return (struct sharded *)(void *)queue;
}

/* The functions that spread each kind of call over the parts. */
static void (*const spreads[])(struct sharded *sharded, const struct command *command,
                               struct queue_reply_to reply_to) = {
    [COMMAND_PUSH] = spread_items,
    [COMMAND_ANSWER] = spread_items,
    [COMMAND_CHANGE] = spread_items,
    [COMMAND_TAKE] = spread_take,
    [COMMAND_GET] = spread_get,
    [COMMAND_LIST] = spread_list,
    [COMMAND_TOPIC] = sharded_topic,
    [COMMAND_TOPICS] = sharded_topics,
    [COMMAND_FORECAST] = sharded_forecast,
    [COMMAND_FIND] = spread_items,
    [COMMAND_AWAIT] = spread_get,
    [COMMAND_GROUP] = sharded_group,
    [COMMAND_GROUPS] = sharded_groups,
    [COMMAND_BATCH] = sharded_items,
};

static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct sharded *sharded = sharded_of(queue);
    if (command->status != QUEUE_OK)
        sharded_refuse(sharded, command->status, reply_to);
    else
        spreads[command->kind](sharded, command, reply_to);
}

static void on_watch(struct queue *queue, struct slice topic, bool on)
{
    struct sharded *sharded = sharded_of(queue);
    for (uint32_t i = 0; i < sharded->part_count; i++)
        queue_watch(sharded->parts[i].queue, topic, on);
}

/* Handles new ready jobs in a part: the next take begins there. */
static void on_ready(void *owner, struct slice topic)
{
    struct sharded_part *part = owner;
    struct sharded *sharded = part->sharded;
    sharded->take_from = (uint32_t)(part - sharded->parts);
    queue_report_ready(&sharded->queue, topic);
}

static void on_event(void *owner, enum queue_event event, struct slice topic)
{
    queue_report_event(&((struct sharded_part *)owner)->sharded->queue, event, topic);
}

/* Combines the parts; common properties are those of the first part. */
static void on_info(struct queue *queue, struct queue_info *out)
{
    struct sharded *sharded = sharded_of(queue);
    for (uint32_t i = 0; i < sharded->part_count; i++) {
        struct queue_info part = {0};
        queue_info(sharded->parts[i].queue, &part);
        if (i == 0) {
            *out = part;
            /* If jobs are always spread by their id, the order of a group would hold in each shard only. */
            out->one_shard_by_name = sharded->options.one_by_name;
            out->one_shard = out->strict_groups = sharded->options.place != NULL;
            out->batches = part.batches && sharded->options.joins_batches;
        }
        /* A part may have several shards itself (handover). */
        out->one_shard_by_name |= part.one_shard_by_name;
        out->one_shard |= out->one_shard_by_name;
        out->strict_groups |= out->one_shard_by_name;
        if (i == 0)
            continue;
        out->shards += part.shards;
        out->bytes_on_disk += part.bytes_on_disk;
        out->cold_jobs += part.cold_jobs;
        out->spare_bytes += part.spare_bytes;
        for (size_t drop = 0; drop < QUEUE_DROPS; drop++)
            out->finished_dropped[drop] += part.finished_dropped[drop];
        out->runs += part.runs;
        out->checkpoints += part.checkpoints;
        out->checkpoints_failed += part.checkpoints_failed;
        out->healthy &= part.healthy;
        out->accepting &= part.accepting;
        out->moved |= part.moved;
    }
}

static bool same_part(const struct queue *queue, struct slice topic, struct slice id,
                      struct slice once)
{
    const struct sharded *sharded = (const struct sharded *)(const void *)queue;
    char room[QUEUE_ONCE_ID_BYTES_MAX];
    return sharded_part_of_job(sharded, topic, id) ==
           sharded_part_of_job(sharded, topic, queue_once_id(once, room));
}

static const struct queue_ops sharded_ops = {
    .submit = on_submit, .watch = on_watch, .info = on_info, .same_part = same_part};

struct sharded *sharded_new(const struct sharded_options *options)
{
    assert(options->part_count >= 2 && options->part_count <= SHARDED_PARTS_MAX);
    assert(options->home < options->part_count);
    struct sharded *sharded = calloc(1, sizeof *sharded);
    if (!sharded)
        return NULL;
    sharded->queue.ops = &sharded_ops;
    sharded->options = *options;
    sharded->part_count = options->part_count;
    sharded->take_from = options->home;
    for (uint32_t i = 0; i < sharded->part_count; i++) {
        struct sharded_part *part = &sharded->parts[i];
        *part = (struct sharded_part){.sharded = sharded, .queue = options->parts[i]};
        part->queue->on_ready = on_ready;
        part->queue->on_ready_owner = part;
        part->queue->on_event = on_event;
        part->queue->on_event_owner = part;
    }
    return sharded;
}

void sharded_free(struct sharded *sharded)
{
    if (sharded)
        sharded_forget_leaves(sharded);
    free(sharded);
}

bool sharded_is_idle(const struct sharded *sharded)
{
    return sharded->under_way == 0;
}

struct queue *sharded_queue(struct sharded *sharded)
{
    return &sharded->queue;
}
