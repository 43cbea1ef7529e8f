/* Await: notes that a call of this server waits for the end of a job, and looks the job up. Calls of one step travel
 * together. The waits themselves are in waits.c. */
#include "redis/command.h"
#include "redis/id.h"
#include "redis/shard_core.h"

#include <stdlib.h>

enum { AWAIT_ARGS = 2 };

/* A call, until its reply. */
struct look_up {
    struct redis_soon soon;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    char topic[JOB_TOPIC_BYTES_MAX], id[JOB_ID_BYTES_MAX];
    size_t topic_bytes, id_bytes;
};

/* Replies, and frees the call. `job`: a kept job; else NULL. */
static void look_up_end(struct look_up *look_up, enum queue_status status, enum job_state state,
                        struct queue_job *job)
{
    const struct queue_result result = {.status = status, .state = state};
    struct queue_reply reply = {.status = status};
    if (status == QUEUE_OK) {
        reply.results = &result;
        reply.result_count = 1;
    }
    if (job) {
        job->job.topic = slice_make(look_up->topic, look_up->topic_bytes);
        job->job.id = slice_make(look_up->id, look_up->id_bytes);
        reply.jobs = job;
        reply.job_count = 1;
    }
    redis_shard_reply(look_up->shard, look_up->reply_to, &reply);
    free(look_up);
}

/* Returns false if the reply is malformed; the call then continues to exist. */
static bool look_up_done(struct look_up *look_up, const struct redis_batch_answer *answer, size_t i)
{
    uint8_t status, state;
    struct slice text;
    struct queue_end end;
    struct queue_job job = {.end = &end};
    if (!redis_unpack_u8(answer->rest, &status) || !redis_unpack_u8(answer->rest, &state) ||
        !redis_element(answer->reply, answer->at + i, &text) || status >= QUEUE_STATUSES ||
        state > JOB_FINISHED)
        return false;
    if (text.len && !redis_unpack_kept(text, answer->head->adjust_ms, &job.job, &end))
        return false;
    look_up_end(look_up, (enum queue_status)status, (enum job_state)state, text.len ? &job : NULL);
    return true;
}

static void awaits_done(struct redis_batch *batch, enum queue_status status,
                        const struct redis_batch_answer *answer)
{
    bool malformed = false;
    for (size_t i = 0; i < batch->count; i++) {
        struct look_up *look_up = batch->items[i].owner;
        if (status == QUEUE_OK && !malformed && look_up_done(look_up, answer, i))
            continue;
        malformed |= status == QUEUE_OK;
        look_up_end(look_up, malformed ? QUEUE_UNAVAILABLE : status, 0, NULL);
    }
    if (malformed)
        redis_shard_log_malformed(batch->shard, REDIS_AWAIT);
}

static const struct redis_batch_kind awaits = {
    .script = REDIS_AWAIT, .item_args = AWAIT_ARGS, .done = awaits_done};

void redis_submit_await(struct redis_shard *shard, const struct command *command,
                        struct queue_reply_to reply_to)
{
    enum queue_status status = redis_shard_accepts(shard);
    struct look_up *look_up = status == QUEUE_OK ? calloc(1, sizeof *look_up) : NULL;
    struct slice topic = command->await.topic, id = command->await.id;
    struct redis_batch *batch = look_up ? redis_batch_need(shard, &awaits, (struct slice){.at = ""},
                                                           (struct redis_take_terms){0})
                                        : NULL;
    if (!batch) {
        free(look_up);
        redis_shard_refuse(shard, status == QUEUE_OK ? QUEUE_NO_MEMORY : status, reply_to);
        return;
    }
    char room[REDIS_ID_PACKED_BYTES];
    look_up->shard = shard;
    look_up->reply_to = reply_to;
    memcpy(look_up->topic, topic.at, look_up->topic_bytes = topic.len);
    memcpy(look_up->id, id.at, look_up->id_bytes = id.len);
    redis_command_arg(&batch->call.args, topic);
    redis_command_arg(&batch->call.args, redis_id_store(id, room));
    redis_batch_add(batch, look_up, 0);
    shard->calls++;
}
