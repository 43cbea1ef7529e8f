/* Takes: those of a step with the same topic travel together and share the jobs returned, in order.
 * A take of several topics goes through them one by one. */
#include "redis/command.h"
#include "redis/id.h"
#include "redis/shard_core.h"

#include "queue/copy.h"
#include "queue/filter.h"

#include <stdlib.h>

/* Takes that select jobs: one job by its id, or the best of several topics. Each is a separate
 * call. */

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
        struct queue_waiting waiting;
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
        !redis_unpack_job(record, attempt, JOB_LEASED, head->adjust_ms, &out->job) ||
        !redis_unpack_waiting(record, true, out, &text->waiting))
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

/* ---- shard take ---- */

enum { TAKE_BYTES_MAX = 16 << 20 };

struct taking {
    struct redis_shard *shard;
    struct queue_reply_to reply_to;
    struct redis_take_terms terms; /* the consumer is stored after the topics */
    enum job_way way;
    uint32_t left; /* jobs still wanted */
    size_t topic, topic_count;
    struct queue_reply **parts; /* copies of the jobs from earlier topics */
    size_t part_count;
    struct slice topics[]; /* followed by their text */
};

/* The jobs of one reply. */
struct taken {
    struct queue_job *jobs;
    size_t count;
    size_t bytes;     /* of their records */
    bool leaves_some; /* the topic may have more ready jobs */
    struct taken_text {
        char id[REDIS_ID_ROOM_BYTES], lease[REDIS_LEASE_BYTES];
        struct queue_waiting waiting;
    } * texts;
};

/* ---- requests ---- */

static void taking_free(struct taking *taking)
{
    for (size_t i = 0; i < taking->part_count; i++)
        free(taking->parts[i]);
    free(taking->parts);
    free(taking);
}

static struct taking *taking_new(struct redis_shard *shard, const struct queue_take *take,
                                 struct queue_reply_to reply_to)
{
    size_t bytes = take->consumer.len;
    for (size_t i = 0; i < take->topic_count; i++)
        bytes += take->topics[i].len;
    struct taking *taking =
        calloc(1, sizeof *taking + take->topic_count * sizeof(struct slice) + bytes);
    if (!taking)
        return NULL;
    *taking = (struct taking){.shard = shard,
                              .reply_to = reply_to,
                              .terms.lease_ms = take->lease_ms,
                              .way = take->way,
                              .left = take->max,
                              .topic_count = take->topic_count};
    char *text = (char *)(taking->topics + take->topic_count);
    for (size_t i = 0; i < take->topic_count; i++) {
        taking->topics[i] = queue_text_copy(&text, take->topics[i]);
    }
    taking->terms.consumer = queue_text_copy(&text, take->consumer);
    return taking;
}

static const struct redis_batch_kind takes;

/* Requests jobs of the current topic. Returns false if memory runs out. */
static bool taking_ask(struct taking *taking)
{
    struct redis_batch *batch =
        redis_batch_need(taking->shard, &takes, taking->topics[taking->topic], taking->terms);
    if (!batch)
        return false;
    bool is_alike = !batch->count || batch->way == taking->way;
    redis_batch_add(batch, taking, taking->left);
    batch->wanted += taking->left;
    batch->way = is_alike ? taking->way : JOB_WAY_UNKNOWN;
    return true;
}

void redis_submit_take(struct redis_shard *shard, const struct command *command,
                       struct queue_reply_to reply_to)
{
    enum queue_status status = redis_shard_accepts(shard);
    if (status == QUEUE_OK)
        status = command->status;
    /* The shards are queried one by one, while the leases from earlier ones are running. An
     * unreachable shard has no jobs to offer and must not delay the others. */
    if (status == QUEUE_OK && redis_shard_is_missed(shard)) {
        bool alone = shard->options.figures->shards_up > 0;
        redis_shard_refuse(shard, alone ? QUEUE_OK : QUEUE_UNAVAILABLE, reply_to);
        return;
    }
    bool picks = command->take.id.len || command->take.by_priority;
    if (status == QUEUE_OK && picks && redis_pick_begin(shard, &command->take, reply_to)) {
        shard->calls++;
        return;
    }
    struct taking *taking =
        status == QUEUE_OK && !picks ? taking_new(shard, &command->take, reply_to) : NULL;
    if (taking && taking_ask(taking)) {
        shard->calls++;
        return;
    }
    free(taking);
    redis_shard_refuse(shard, status == QUEUE_OK ? QUEUE_NO_MEMORY : status, reply_to);
}

/* ---- completion ---- */

/* Replies with the jobs. `drained`: the last of its topics had no more, which is then true of
 * all. */
static void reply_jobs(struct taking *taking, const struct queue_job *jobs, size_t count,
                       bool drained)
{
    struct queue_reply reply = {.jobs = jobs, .job_count = count, .drained = drained};
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
        /* If memory runs out the jobs are not returned: their leases end on their own. */
        reply = joined
                    ? (struct queue_reply){.jobs = joined, .job_count = total, .drained = drained}
                    : (struct queue_reply){.status = QUEUE_NO_MEMORY};
    }
    redis_shard_reply(taking->shard, taking->reply_to, &reply);
    free(joined);
    taking_free(taking);
}

/* Ends a failed take. Jobs from earlier topics are returned instead of the error. */
static void taking_fail(struct taking *taking, enum queue_status status)
{
    if (taking->part_count) {
        reply_jobs(taking, NULL, 0, false);
        return;
    }
    redis_shard_reply_status(taking->shard, taking->reply_to, status);
    taking_free(taking);
}

static bool taking_keep(struct taking *taking, const struct queue_job *jobs, size_t count)
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

/* Passes to the take the jobs of its topic; `enough`: no further topics are queried; `leaves_some`:
 * the topic may have more. */
static void taking_serve(struct taking *taking, const struct queue_job *jobs, size_t count,
                         bool enough, bool leaves_some)
{
    bool is_last = taking->topic + 1 == taking->topic_count;
    if (is_last || enough || count == taking->left || !taking_keep(taking, jobs, count)) {
        reply_jobs(taking, jobs, count, is_last && !leaves_some);
        return;
    }
    taking->topic++;
    if (!taking_ask(taking))
        taking_fail(taking, QUEUE_NO_MEMORY);
}

/* ---- replies ---- */

static bool read_job(struct redis_batch *batch, const struct redis_head *head,
                     const redisReply *reply, size_t at, struct taken *taken)
{
    struct queue_job *out = &taken->jobs[taken->count];
    struct taken_text *text = &taken->texts[taken->count];
    struct slice stored, record, attempt, id;
    if (!redis_element(reply, at, &stored) || !redis_element(reply, at + 1, &record) ||
        !redis_element(reply, at + 2, &attempt))
        return false;
    taken->bytes += record.len;
    *out = (struct queue_job){0};
    if (!redis_id_show(stored, text->id, &id) ||
        !redis_unpack_job(record, attempt, JOB_LEASED, head->adjust_ms, &out->job) ||
        !redis_unpack_waiting(record, true, out, &text->waiting))
        return false;
    out->job.topic = slice_make(batch->topic, batch->topic_bytes);
    out->job.id = id;
    redis_lease_write(text->lease, redis_session_lease_key(batch->shard->session),
                      batch->shard->options.index, out->job.delivery);
    out->lease = slice_make(text->lease, sizeof text->lease);
    taken->count++;
    return true;
}

static bool read_taken(struct redis_batch *batch, const struct redis_batch_answer *answer,
                       struct taken *taken)
{
    size_t count = answer->count / REDIS_TAKE_ELEMENTS;
    taken->leaves_some = answer->leaves_some;
    taken->jobs = malloc((count + 1) * sizeof *taken->jobs);
    taken->texts = malloc((count + 1) * sizeof *taken->texts);
    if (!taken->jobs || !taken->texts)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!read_job(batch, answer->head, answer->reply, answer->at + i * REDIS_TAKE_ELEMENTS,
                      taken))
            redis_shard_log_malformed(batch->shard, REDIS_STEP); /* its lease ends on its own */
    return true;
}

/* Requests jobs again for a take left empty because the call was limited in bytes. Returns false if
 * it was not, or if memory runs out. */
static bool taking_ask_again(struct taking *taking, const struct taken *taken)
{
    return taken->bytes >= TAKE_BYTES_MAX / 2 && taking_ask(taking);
}

/* Appends the arguments when the batch is sent, because only then the number wanted is known. */
static void take_finish(struct redis_batch *batch)
{
    redis_pack_take(&batch->call.args, redis_batch_topic(batch), (uint32_t)batch->wanted,
                    TAKE_BYTES_MAX, batch->terms.lease_ms, batch->way, batch->terms.consumer);
}

static void share_out(struct redis_batch *batch, const struct taken *taken)
{
    size_t at = 0;
    bool enough = taken->bytes >= TAKE_BYTES_MAX / 2;
    batch->shard->options.figures->items += taken->count;
    for (size_t i = 0; i < batch->count; i++) {
        struct taking *taking = batch->items[i].owner;
        size_t left = taken->count - at;
        size_t count = left < taking->left ? left : taking->left;
        if (count || !taking_ask_again(taking, taken))
            taking_serve(taking, taken->jobs + at, count, enough, taken->leaves_some);
        at += count;
    }
}

/* Updates the average record size: immediately if it grows, gradually if it shrinks. */
static void note_size(struct redis_shard *shard, const struct taken *taken)
{
    size_t bytes = taken->count ? taken->bytes / taken->count : 0;
    if (bytes > shard->record_bytes)
        shard->record_bytes = bytes;
    else if (bytes)
        shard->record_bytes -= (shard->record_bytes - bytes) / 8;
}

static void take_done(struct redis_batch *batch, enum queue_status status,
                      const struct redis_batch_answer *answer)
{
    struct taken taken = {0};
    if (status == QUEUE_OK && !read_taken(batch, answer, &taken))
        status = QUEUE_NO_MEMORY;
    note_size(batch->shard, &taken);
    if (status == QUEUE_OK)
        share_out(batch, &taken);
    for (size_t i = 0; status != QUEUE_OK && i < batch->count; i++)
        taking_fail(batch->items[i].owner, status);
    free(taken.jobs);
    free(taken.texts);
}

static const struct redis_batch_kind takes = {
    .script = REDIS_STEP, .is_take = true, .finish = take_finish, .done = take_done};
