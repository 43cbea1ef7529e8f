/* Takes: those of a turn for the same topic travel together and share out what comes, in their
 * order. One that names several topics goes from one to the next. */
#include "queue/copy.h"
#include "redis/id.h"
#include "redis/lease.h"
#include "redis/private.h"

#include <stdlib.h>

enum { ELEMENTS = 3 /* of an answer, for each job */ };

struct redis_taking {
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    int64_t lease_ms;
    uint32_t left; /* jobs still wanted */
    size_t topic, topic_count;
    struct queue_reply **parts; /* what earlier topics gave: copies */
    size_t part_count;
    struct slice topics[]; /* then their text */
};

/* The jobs of one answer. */
struct haul {
    struct queue_job *jobs;
    size_t count;
    size_t bytes; /* of their records */
    struct haul_text {
        char id[REDIS_ID_ROOM_BYTES], lease[REDIS_LEASE_BYTES];
    } * texts;
};

/* ---- asking ---- */

static void taking_free(struct redis_taking *taking)
{
    for (size_t i = 0; i < taking->part_count; i++)
        free(taking->parts[i]);
    free(taking->parts);
    free(taking);
}

static struct redis_taking *taking_new(struct redis_shard *shard, const struct queue_take *take,
                                       struct queue_reply_to reply_to)
{
    size_t bytes = 0;
    for (size_t i = 0; i < take->topic_count; i++)
        bytes += take->topics[i].len;
    struct redis_taking *taking =
        calloc(1, sizeof *taking + take->topic_count * sizeof(struct slice) + bytes);
    if (!taking)
        return NULL;
    *taking = (struct redis_taking){.shard = shard,
                                    .reply_to = reply_to,
                                    .lease_ms = take->lease_ms,
                                    .left = take->max,
                                    .topic_count = take->topic_count};
    char *text = (char *)(taking->topics + take->topic_count);
    for (size_t i = 0; i < take->topic_count; i++) {
        memcpy(text, take->topics[i].at, take->topics[i].len);
        taking->topics[i] = slice_make(text, take->topics[i].len);
        text += take->topics[i].len;
    }
    return taking;
}

/* False: out of memory. */
static bool ask(struct redis_taking *taking)
{
    struct redis_batch *batch = redis_batch_need(taking->shard, REDIS_BATCH_TAKE,
                                                 taking->topics[taking->topic], taking->lease_ms);
    if (!batch)
        return false;
    redis_batch_add(batch, taking, taking->left);
    batch->wanted += taking->left;
    return true;
}

void redis_take(struct redis_shard *shard, const struct command *command,
                struct queue_reply_to reply_to)
{
    enum queue_status status = redis_shard_accepts(shard);
    if (status == QUEUE_OK)
        status = command->status;
    /* Shards are asked one after the other, and leases run that others gave already. One that is
     * away has nothing to give, and keeps nobody from waiting for the others. */
    if (status == QUEUE_OK && redis_shard_is_missed(shard)) {
        bool alone = shard->options.figures->shards_up > 0;
        redis_shard_refuse(shard, alone ? QUEUE_OK : QUEUE_UNAVAILABLE, reply_to);
        return;
    }
    struct redis_taking *taking =
        status == QUEUE_OK ? taking_new(shard, &command->take, reply_to) : NULL;
    if (taking && ask(taking)) {
        shard->calls++;
        return;
    }
    free(taking);
    redis_shard_refuse(shard, status == QUEUE_OK ? QUEUE_NO_MEMORY : status, reply_to);
}

/* ---- ending ---- */

static void reply_jobs(struct redis_taking *taking, const struct queue_job *jobs, size_t count)
{
    struct queue_reply reply = {.jobs = jobs, .job_count = count};
    struct queue_job *joined = NULL;
    if (taking->part_count) {
        size_t total = count, at = 0;
        for (size_t i = 0; i < taking->part_count; i++)
            total += taking->parts[i]->job_count;
        joined = malloc((total + 1) * sizeof *joined);
        for (size_t i = 0; joined && i < taking->part_count; i++)
            for (size_t j = 0; j < taking->parts[i]->job_count; j++)
                joined[at++] = taking->parts[i]->jobs[j];
        for (size_t i = 0; joined && i < count; i++)
            joined[at++] = jobs[i];
        /* Without memory: the leases end by themselves. */
        reply = joined ? (struct queue_reply){.jobs = joined, .job_count = total}
                       : (struct queue_reply){.status = QUEUE_NO_MEMORY};
    }
    redis_shard_reply(taking->shard, taking->reply_to, &reply);
    free(joined);
    taking_free(taking);
}

/* What earlier topics gave counts for more than a refusal now. */
static void fail(struct redis_taking *taking, enum queue_status status)
{
    if (taking->part_count) {
        reply_jobs(taking, NULL, 0);
        return;
    }
    redis_shard_reply_status(taking->shard, taking->reply_to, status);
    taking_free(taking);
}

static bool keep(struct redis_taking *taking, const struct queue_job *jobs, size_t count)
{
    struct queue_reply reply = {.jobs = jobs, .job_count = count};
    if (!count)
        return true;
    if (!taking->parts)
        taking->parts = calloc(taking->topic_count, sizeof(struct queue_reply *));
    struct queue_reply *copy = taking->parts ? copy_reply(&reply) : NULL;
    if (!copy)
        return false;
    taking->parts[taking->part_count++] = copy;
    taking->left -= (uint32_t)count;
    return true;
}

/* It got these of its topic; `enough`: no further topic is asked. */
static void serve(struct redis_taking *taking, const struct queue_job *jobs, size_t count,
                  bool enough)
{
    bool is_last = taking->topic + 1 == taking->topic_count;
    if (is_last || enough || count == taking->left || !keep(taking, jobs, count)) {
        reply_jobs(taking, jobs, count);
        return;
    }
    taking->topic++;
    if (!ask(taking))
        fail(taking, QUEUE_NO_MEMORY);
}

/* ---- what came ---- */

static bool read_job(struct redis_batch *batch, const struct redis_head *head,
                     const redisReply *reply, size_t at, struct haul *haul)
{
    struct queue_job *out = &haul->jobs[haul->count];
    struct haul_text *text = &haul->texts[haul->count];
    struct slice stored, record, attempt, id;
    if (!redis_element(reply, at, &stored) || !redis_element(reply, at + 1, &record) ||
        !redis_element(reply, at + 2, &attempt))
        return false;
    haul->bytes += record.len;
    *out = (struct queue_job){0};
    if (!redis_id_show(stored, text->id, &id) ||
        !redis_unpack_job(record, attempt, JOB_LEASED, head->adjust_ms, &out->job))
        return false;
    out->job.topic = slice_make(batch->topic, batch->topic_bytes);
    out->job.id = id;
    redis_lease_write(text->lease, redis_session_lease_key(batch->shard->session),
                      batch->shard->options.index, out->job.delivery);
    out->lease = slice_make(text->lease, sizeof text->lease);
    haul->count++;
    return true;
}

static bool haul_in(struct redis_batch *batch, const struct redis_head *head,
                    const redisReply *reply, struct haul *haul)
{
    size_t count = (reply->elements - 1) / ELEMENTS;
    haul->jobs = malloc((count + 1) * sizeof *haul->jobs);
    haul->texts = malloc((count + 1) * sizeof *haul->texts);
    if (!haul->jobs || !haul->texts)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!read_job(batch, head, reply, 1 + i * ELEMENTS, haul))
            redis_shard_say_malformed(batch->shard, REDIS_TAKE); /* its lease ends by itself */
    return true;
}

void redis_take_fail(struct redis_batch *batch, enum queue_status status)
{
    for (size_t i = 0; i < batch->count; i++)
        fail(batch->items[i].owner, status);
}

/* A call brings no more than its bytes allow: who went without may find some in the next. */
static bool ask_again(struct redis_taking *taking, const struct haul *haul)
{
    return haul->bytes >= REDIS_TAKE_BYTES_MAX / 2 && ask(taking);
}

void redis_take_done(struct redis_batch *batch, enum redis_call_end end,
                     const struct redis_head *head, const redisReply *reply)
{
    struct haul haul = {0};
    size_t at = 0;
    if (end != REDIS_CALL_OK || !haul_in(batch, head, reply, &haul)) {
        redis_take_fail(batch, end == REDIS_CALL_OK ? QUEUE_NO_MEMORY : redis_shard_status(end));
    } else {
        batch->shard->options.figures->jobs += haul.count;
        for (size_t i = 0; i < batch->count; i++) {
            struct redis_taking *taking = batch->items[i].owner;
            size_t left = haul.count - at;
            size_t count = left < taking->left ? left : taking->left;
            if (count || !ask_again(taking, &haul))
                serve(taking, haul.jobs + at, count, haul.bytes >= REDIS_TAKE_BYTES_MAX / 2);
            at += count;
        }
    }
    free(haul.jobs);
    free(haul.texts);
}
