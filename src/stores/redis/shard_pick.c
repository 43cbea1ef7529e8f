/* Takes that select jobs: one job by its id, or the best of several topics. Each is a separate
 * call. */
#include "redis/command.h"
#include "redis/id.h"
#include "redis/lease.h"
#include "redis/shard_calls.h"

#include <stdlib.h>

enum { PICK_BYTES_MAX = 16 << 20, PICK_ELEMENTS = 4, PICK_ARGS_BESIDE = 2 };

struct pick {
    struct redis_call call;
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
};

/* The jobs of a reply, and the texts that they point to. */
struct picked {
    struct queue_job *jobs;
    size_t count;
    struct picked_text {
        char id[REDIS_ID_ROOM_BYTES], lease[REDIS_LEASE_BYTES];
    } * texts;
};

static bool picked_add(struct picked *picked, const struct redis_shard *shard,
                       const struct redis_head *head, const redisReply *reply, size_t at)
{
    struct queue_job *out = &picked->jobs[picked->count];
    struct picked_text *text = &picked->texts[picked->count];
    struct slice topic, stored, record, attempt, id;
    *out = (struct queue_job){0};
    if (!redis_element(reply, at, &topic) || !redis_element(reply, at + 1, &stored) ||
        !redis_element(reply, at + 2, &record) || !redis_element(reply, at + 3, &attempt) ||
        !redis_id_show(stored, text->id, &id) ||
        !redis_unpack_job(record, attempt, JOB_LEASED, head->adjust_ms, &out->job))
        return false;
    out->job.topic = topic;
    out->job.id = id;
    redis_lease_write(text->lease, redis_session_lease_key(shard->session), shard->options.index,
                      out->job.delivery);
    out->lease = slice_make(text->lease, sizeof text->lease);
    picked->count++;
    return true;
}

/* Reads everything but the jobs into *answer. Returns false if it is malformed. */
static bool pick_read_head(const struct redis_head *head, struct queue_reply *answer, size_t *jobs)
{
    struct slice rest = head->rest;
    uint8_t status, has_next;
    uint32_t count;
    if (!redis_unpack_u8(&rest, &status) || !redis_unpack_u8(&rest, &has_next) ||
        !redis_unpack_rank(&rest, head->adjust_ms, &answer->next) ||
        !redis_unpack_u32(&rest, &count) || status > QUEUE_MOVING)
        return false;
    answer->status = (enum queue_status)status;
    answer->has_next = has_next;
    *jobs = count;
    return true;
}

static void on_picked(struct redis_call *call, enum redis_call_end end,
                      const struct redis_head *head, const redisReply *reply)
{
    struct pick *pick = list_entry(call, struct pick, call);
    struct redis_shard *shard = pick->shard;
    struct queue_reply answer = {.status = redis_shard_status(end)};
    struct picked picked = {0};
    size_t jobs = 0;
    if (end == REDIS_CALL_OK) {
        redis_shard_note_head(shard, head);
        if (!pick_read_head(head, &answer, &jobs)) {
            redis_shard_log_malformed(shard, REDIS_PICK);
            answer = (struct queue_reply){.status = QUEUE_UNAVAILABLE};
        }
    }
    if (jobs) {
        picked.jobs = malloc(jobs * sizeof *picked.jobs);
        picked.texts = malloc(jobs * sizeof *picked.texts);
    }
    /* Jobs that cannot be returned: their leases end on their own. */
    if (jobs && !(picked.jobs && picked.texts))
        answer = (struct queue_reply){.status = QUEUE_NO_MEMORY};
    for (size_t i = 0; i < jobs && picked.jobs && picked.texts; i++)
        if (!picked_add(&picked, shard, head, reply, 1 + i * PICK_ELEMENTS))
            redis_shard_log_malformed(shard, REDIS_PICK);
    answer.jobs = picked.jobs;
    answer.job_count = picked.count;
    shard->options.figures->items += picked.count;
    redis_shard_reply(shard, pick->reply_to, &answer);
    free(picked.jobs);
    free(picked.texts);
    buffer_fini(&pick->call.args);
    free(pick);
}

bool redis_pick_begin(struct redis_shard *shard, const struct queue_take *take,
                      struct queue_reply_to reply_to)
{
    struct pick *pick = calloc(1, sizeof *pick);
    char room[REDIS_ID_PACKED_BYTES];
    if (!pick)
        return false;
    pick->shard = shard;
    pick->reply_to = reply_to;
    redis_shard_call_init(&pick->call, REDIS_PICK, true, on_picked);
    struct buffer *args = &pick->call.args;
    redis_pack_pick(args, take, PICK_BYTES_MAX);
    redis_command_arg(args, redis_id_store(take->id, room));
    for (size_t i = 0; i < take->topic_count; i++)
        redis_command_arg(args, take->topics[i]);
    if (redis_shard_send(shard, &pick->call, PICK_ARGS_BESIDE + take->topic_count))
        return true;
    buffer_fini(args);
    free(pick);
    return false;
}
