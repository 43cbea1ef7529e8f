/* Calls that touch several shards: parts go out, their replies are kept, and the last one to come
 * joins them. */
#include "local/handle.h"
#include "local/lease.h"

#include <assert.h>
#include <stdlib.h>

struct gather {
    struct handle *handle;
    struct queue_reply_to reply_to;
    enum command_kind kind;
    uint32_t limit; /* list */
    size_t parts, parts_left;
    struct queue_reply
        *replies[DATADIR_SHARDS_MAX]; /* by shard; copies; NULL: out of memory, or not asked */
    bool asked[DATADIR_SHARDS_MAX];
    size_t count;      /* items */
    uint8_t *shard_of; /* each item's */
};

static void gather_free(struct gather *gather)
{
    for (uint32_t i = 0; i < DATADIR_SHARDS_MAX; i++)
        free(gather->replies[i]);
    free(gather->shard_of);
    free(gather);
}

static void finish(struct gather *gather, const struct queue_reply *reply)
{
    gather->reply_to.done(gather->reply_to.owner, gather->reply_to.tag, reply);
    gather_free(gather);
}

static void finish_status(struct gather *gather, enum queue_status status)
{
    struct queue_reply reply = {.status = status};
    finish(gather, &reply);
}

/* ---- items ---- */

static void join_items(struct gather *gather)
{
    size_t next[DATADIR_SHARDS_MAX] = {0};
    struct queue_result *results = calloc(gather->count + 1, sizeof *results);
    if (!results) {
        finish_status(gather, QUEUE_NO_MEMORY);
        return;
    }
    for (size_t i = 0; i < gather->count; i++) {
        uint8_t shard = gather->shard_of[i];
        const struct queue_reply *part = gather->replies[shard];
        if (part && part->result_count > next[shard])
            results[i] = part->results[next[shard]++];
        else /* the part as a whole was refused */
            results[i].status = part && part->status != QUEUE_OK ? part->status : QUEUE_NO_MEMORY;
    }
    struct queue_reply reply = {.results = results, .result_count = gather->count};
    finish(gather, &reply);
    free(results);
}

/* ---- everything ---- */

static bool job_before(const struct gather *gather, const size_t *next, uint32_t a, uint32_t b)
{
    const struct job *x = &gather->replies[a]->jobs[next[a]].job,
                     *y = &gather->replies[b]->jobs[next[b]].job;
    if (x->due_ms != y->due_ms)
        return x->due_ms < y->due_ms;
    return x->sequence != y->sequence ? x->sequence < y->sequence : a < b;
}

static void join_list(struct gather *gather)
{
    size_t next[DATADIR_SHARDS_MAX] = {0}, found = 0, total = 0;
    uint32_t shards = gather->handle->local->shard_count;
    bool more = false, exists = false;
    for (uint32_t i = 0; i < shards; i++) {
        const struct queue_reply *part = gather->replies[i];
        if (!part || (part->status != QUEUE_OK && part->status != QUEUE_NOT_FOUND)) {
            finish_status(gather, part ? part->status : QUEUE_NO_MEMORY);
            return;
        }
        exists |= part->status == QUEUE_OK;
        more |= part->cursor.len > 0;
        total += part->job_count;
    }
    struct queue_job *jobs = exists ? calloc(gather->limit, sizeof *jobs) : NULL;
    if (!jobs) {
        finish_status(gather, exists ? QUEUE_NO_MEMORY : QUEUE_NOT_FOUND);
        return;
    }
    struct walk_cursor last = {0};
    while (found < gather->limit) {
        uint32_t best = shards;
        for (uint32_t i = 0; i < shards; i++)
            if (next[i] < gather->replies[i]->job_count &&
                (best == shards || job_before(gather, next, i, best)))
                best = i;
        if (best == shards)
            break;
        jobs[found] = gather->replies[best]->jobs[next[best]++];
        last = (struct walk_cursor){
            .due_ms = jobs[found].job.due_ms, .sequence = jobs[found].job.sequence, .shard = best};
        found++;
        /* A shard that left some out says nothing of what follows its last. */
        if (next[best] == gather->replies[best]->job_count && gather->replies[best]->cursor.len)
            break;
    }
    char text[CURSOR_TEXT_BYTES_MAX];
    struct queue_reply reply = {.jobs = jobs, .job_count = found};
    if (found && (more || found < total))
        reply.cursor = slice_make(text, cursor_write(text, &last));
    finish(gather, &reply);
    free(jobs);
}

static void add_topic(struct queue_topic *sum, const struct queue_topic *part)
{
    sum->counts.delayed += part->counts.delayed;
    sum->counts.retrying += part->counts.retrying;
    sum->counts.ready += part->counts.ready;
    sum->counts.leased += part->counts.leased;
    sum->counts.dead += part->counts.dead;
    sum->totals.pushed += part->totals.pushed;
    sum->totals.acked += part->totals.acked;
    sum->totals.cancelled += part->totals.cancelled;
    sum->totals.expired += part->totals.expired;
    sum->totals.replaced += part->totals.replaced;
    sum->totals.delivered += part->totals.delivered;
    sum->totals.nacked += part->totals.nacked;
    sum->totals.lease_ended += part->totals.lease_ended;
    sum->totals.died += part->totals.died;
    sum->totals.redriven += part->totals.redriven;
    if (part->oldest_ready_due_ms &&
        (!sum->oldest_ready_due_ms || part->oldest_ready_due_ms < sum->oldest_ready_due_ms))
        sum->oldest_ready_due_ms = part->oldest_ready_due_ms;
}

static int by_name(const void *a, const void *b)
{
    struct slice x = ((const struct queue_topic *)a)->name,
                 y = ((const struct queue_topic *)b)->name;
    int order = memcmp(x.at, y.at, x.len < y.len ? x.len : y.len);
    return order ? order : (x.len > y.len) - (x.len < y.len);
}

/* Sorted by name, then equal names are summed up. */
static void join_topics(struct gather *gather)
{
    size_t total = 0, found = 0;
    uint64_t affected = 0;
    enum queue_status status = QUEUE_NOT_FOUND, refusal = QUEUE_OK;
    for (uint32_t i = 0; i < gather->handle->local->shard_count; i++) {
        const struct queue_reply *part = gather->replies[i];
        if (!part) {
            refusal = QUEUE_NO_MEMORY;
            continue;
        }
        if (part->status == QUEUE_OK || (part->status == QUEUE_CREATED && status != QUEUE_OK))
            status = part->status;
        else if (part->status != QUEUE_NOT_FOUND && part->status != QUEUE_CREATED)
            refusal = part->status;
        total += part->topic_count;
        affected += part->affected;
    }
    struct queue_topic *topics = malloc((total + 1) * sizeof *topics);
    if (!topics || refusal != QUEUE_OK) {
        free(topics);
        finish_status(gather, refusal != QUEUE_OK ? refusal : QUEUE_NO_MEMORY);
        return;
    }
    size_t at = 0;
    for (uint32_t i = 0; i < gather->handle->local->shard_count; i++)
        for (size_t j = 0; j < gather->replies[i]->topic_count; j++)
            topics[at++] = gather->replies[i]->topics[j];
    if (total)
        qsort(topics, total, sizeof *topics, by_name);
    for (size_t i = 0; i < total; i++) {
        if (found && slice_equals(topics[found - 1].name, topics[i].name))
            add_topic(&topics[found - 1], &topics[i]);
        else
            topics[found++] = topics[i];
    }
    struct queue_reply reply = {
        .status = status, .topics = topics, .topic_count = found, .affected = affected};
    finish(gather, &reply);
    free(topics);
}

/* ---- both ---- */

static void part_done(void *owner, uint64_t shard, const struct queue_reply *reply)
{
    struct gather *gather = owner;
    gather->replies[shard] = copy_reply(reply);
    if (--gather->parts_left)
        return;
    if (gather->shard_of)
        join_items(gather);
    else if (gather->kind == COMMAND_LIST)
        join_list(gather);
    else
        join_topics(gather);
}

static struct gather *gather_new(struct handle *handle, const struct command *command,
                                 struct queue_reply_to reply_to)
{
    struct gather *gather = calloc(1, sizeof *gather);
    if (!gather)
        return NULL;
    gather->handle = handle;
    gather->reply_to = reply_to;
    gather->kind = command->kind;
    return gather;
}

static uint32_t shard_of_item(const struct handle *handle, const struct command *command, size_t i)
{
    struct engine_lease lease;
    uint32_t shard;
    switch (command->kind) {
    case COMMAND_PUSH:
        return route_of_job(handle, command->pushes[i].topic, command->pushes[i].id);
    case COMMAND_CHANGE:
        return route_of_job(handle, command->changes[i].topic, command->changes[i].id);
    default:
        assert(command->kind == COMMAND_ANSWER);
        /* A token that is not ours is refused as well by one shard as by another. */
        if (!lease_parse(command->answers[i].lease, &lease, &shard) ||
            shard >= handle->local->shard_count)
            return handle->index;
        return shard;
    }
}

static size_t item_bytes(enum command_kind kind)
{
    return kind == COMMAND_PUSH     ? sizeof(struct queue_push)
           : kind == COMMAND_CHANGE ? sizeof(struct queue_change)
                                    : sizeof(struct queue_answer);
}

void gather_items(struct handle *handle, const struct command *command,
                  struct queue_reply_to reply_to)
{
    uint32_t first = command->count ? shard_of_item(handle, command, 0) : handle->index;
    if (command->count <= 1) {
        route_send(handle, first, command, reply_to);
        return;
    }
    struct gather *gather = gather_new(handle, command, reply_to);
    size_t bytes = item_bytes(command->kind);
    char *items = malloc(command->count * bytes);
    if (gather)
        gather->shard_of = malloc(command->count);
    if (!gather || !items || !gather->shard_of) {
        if (gather)
            gather_free(gather);
        free(items);
        route_refuse(handle, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    gather->count = command->count;
    for (size_t i = 0; i < command->count; i++) {
        uint32_t shard = shard_of_item(handle, command, i);
        gather->shard_of[i] = (uint8_t)shard;
        gather->parts += !gather->asked[shard];
        gather->asked[shard] = true;
    }
    gather->parts_left = gather->parts;
    for (uint32_t shard = 0; shard < handle->local->shard_count; shard++) {
        if (!gather->asked[shard])
            continue;
        struct command part = {.kind = command->kind,
                               .pushes = (const struct queue_push *)(void *)items};
        for (size_t i = 0; i < command->count; i++)
            if (gather->shard_of[i] == shard)
                memcpy(items + part.count++ * bytes, (const char *)command->pushes + i * bytes,
                       bytes);
        route_send(handle, shard, &part,
                   (struct queue_reply_to){.done = part_done, .owner = gather, .tag = shard});
    }
    free(items);
}

void gather_all(struct handle *handle, const struct command *command,
                struct queue_reply_to reply_to)
{
    /* A shard's topics come in no order: they are sorted here also where there is one shard. */
    if (handle->local->shard_count == 1 && command->kind != COMMAND_TOPICS) {
        route_send(handle, 0, command, reply_to);
        return;
    }
    struct gather *gather = gather_new(handle, command, reply_to);
    if (!gather) {
        route_refuse(handle, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    gather->limit = command->kind == COMMAND_LIST ? command->list.limit : 0;
    gather->parts = gather->parts_left = handle->local->shard_count;
    for (uint32_t shard = 0; shard < handle->local->shard_count; shard++)
        route_send(handle, shard, command,
                   (struct queue_reply_to){.done = part_done, .owner = gather, .tag = shard});
}
