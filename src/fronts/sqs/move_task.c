#include "sqs/move_task.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "sqs/move.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MESSAGE_LEASE_MS = 5 * 1000,
    PACE_MS = 2 * 1000, /* a slow task extends its lease this often */
    RETRY_MS = 1000,
    ID_SHOWN_BYTES = 100
};

/* Meta of a hidden copy: "SOURCE/DELIVERY". */
#define META_MOVED JOB_META_OWN "sqs-moved"

enum message_state {
    MESSAGE_TAKEN = 1, /* taken from the source, under a lease */
    MESSAGE_CLASH,     /* another job has its id: the copy gets a new one */
    MESSAGE_COPIED,    /* hidden in the destination */
    MESSAGE_ACKED,     /* no longer in the source */
    MESSAGE_RETURNED   /* back in the source: the copy is cancelled */
};

struct message {
    enum message_state state;
    bool has_other_id; /* its copy has a different id */
    struct slice id, to, group, content_type, meta, body, lease;
    uint64_t delivery;
    uint64_t content; /* hash of the source's job with its id, after a crash */
    uint16_t priority;
};

struct sqs_move_task {
    struct sqs_move_owner *owner;
    struct list node; /* of owner->tasks */
    struct sqs_move move;
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
    size_t lease_bytes;
    struct buffer body;    /* of the job as taken, including the sources */
    struct buffer history; /* earlier tasks, each preceded by a comma */
    struct buffer text;    /* storage for the texts of the messages */
    struct message messages[SQS_MOVE_BATCH_MAX];
    size_t count;
    size_t settle_at;      /* the message being checked after a crash */
    bool is_settling;      /* settling the batch of the previous server */
    int64_t wake_ms;       /* end of the pause; 0: waiting for a reply */
    int64_t rate_start_ms; /* rate_start_moved messages had been moved at this time */
    uint64_t rate_start_moved;
};

static void batch_begin(struct sqs_move_task *task);
static void settle_next(struct sqs_move_task *task);

static struct slice task_source(const struct sqs_move_task *task)
{
    return slice_of(task->move.source);
}

/* Returns whether the change was made, or certainly never will be. Otherwise the store could not
 * report it, or will make it once it can again. */
static bool is_decided(enum queue_status status)
{
    switch (status) {
    case QUEUE_NO_SPACE:
    case QUEUE_NO_MEMORY:
    case QUEUE_STOPPING:
    case QUEUE_DIRECTORY_MOVED:
    case QUEUE_UNAVAILABLE:
    case QUEUE_ELSEWHERE:
    case QUEUE_MOVING:
        return false;
    default:
        return true;
    }
}

/* Returns whether this holds for all changes of a reply. */
static bool are_decided(const struct queue_reply *reply)
{
    bool are = reply->status == QUEUE_OK;
    for (size_t i = 0; i < reply->result_count; i++)
        are = are && is_decided(reply->results[i].status);
    return are;
}

static struct queue_reply_to reply_to(struct sqs_move_task *task, queue_done *done)
{
    return (struct queue_reply_to){.done = done, .owner = task};
}

/* ---- end of a task on this server ---- */

static void task_free(struct sqs_move_task *task)
{
    list_remove(&task->node);
    buffer_fini(&task->body);
    buffer_fini(&task->history);
    buffer_fini(&task->text);
    free(task);
}

static void task_end(struct sqs_move_task *task)
{
    struct sqs_move_owner *owner = task->owner;
    task_free(task);
    owner->ended(owner);
}

/* Ends the task here. If its job was neither returned nor acked, the lease ends on its own. */
static void on_let_go(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    (void)reply;
    task_end(owner);
}

/* Returns the task's job. Another server continues it, or this one after the problem has ended. */
static void task_give_back(struct sqs_move_task *task, const char *why)
{
    const struct queue_answer answer = {.verb = why ? QUEUE_NACK : QUEUE_RETURN,
                                        .lease = slice_make(task->lease, task->lease_bytes),
                                        .delay_ms = why ? RETRY_MS : -1,
                                        .error = slice_of(why ? why : "")};
    if (why)
        log_event(LOG_WARN, "message move task delayed", LOG_TEXT("topic", task->move.source),
                  LOG_TEXT("error", why));
    queue_answer(task->owner->queue, &answer, 1, reply_to(task, on_let_go));
}

static void task_ack(struct sqs_move_task *task)
{
    const struct queue_answer answer = {.verb = QUEUE_ACK,
                                        .lease = slice_make(task->lease, task->lease_bytes)};
    queue_answer(task->owner->queue, &answer, 1, reply_to(task, on_let_go));
}

/* ---- the log ---- */

static void log_push(struct sqs_move_task *task, queue_done *done)
{
    struct sqs_move_entry entries[SQS_MOVE_BATCH_MAX];
    char id[JOB_ID_BYTES_MAX + 1];
    struct buffer body;
    for (size_t i = 0; i < task->count; i++)
        entries[i] = (struct sqs_move_entry){task->messages[i].id, task->messages[i].to,
                                             task->messages[i].delivery};
    buffer_init(&body, SQS_MOVE_TEXT_BYTES_MAX);
    sqs_move_log_write(&task->move, buffer_slice(&task->history), entries, task->count, &body);
    const struct queue_push push = {.topic = slice_of(SQS_MOVES_TOPIC),
                                    .is_own = true,
                                    .id = sqs_move_id(SQS_MOVE_LOG, task_source(task), id),
                                    .content_type = slice_of("application/json"),
                                    .meta = sqs_move_meta,
                                    .body = buffer_slice(&body),
                                    .when = {QUEUE_DUE_DELAY, POLICY_DELAY_MS_MAX},
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .on_conflict = CONFLICT_REPLACE};
    if (body.failed)
        task_give_back(task, "out of memory");
    else
        queue_push(task->owner->queue, &push, 1, reply_to(task, done));
    buffer_fini(&body);
}

static bool is_pushed(const struct queue_reply *reply)
{
    return reply->status == QUEUE_OK && reply->result_count == 1 &&
           (reply->results[0].status == QUEUE_CREATED ||
            reply->results[0].status == QUEUE_REPLACED);
}

static void on_closed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    (void)tag;
    if (is_pushed(reply))
        task_ack(task);
    else
        task_give_back(task, "the queue did not take the end of the task");
}

/* Logs the end of the task. For SQS_MOVE_FAILED, move.reason holds the reason. */
static void task_close(struct sqs_move_task *task, enum sqs_move_status status)
{
    task->move.status = status;
    if (status != SQS_MOVE_FAILED)
        task->move.reason[0] = '\0';
    task->count = 0;
    log_push(task, on_closed);
}

/* ---- copies ---- */

static struct slice copy_origin(const struct sqs_move_task *task, const struct message *message,
                                char *out, size_t bytes)
{
    int len = snprintf(out, bytes, "%s/%" PRIu64, task->move.source, message->delivery);
    return slice_make(out, (size_t)len);
}

/* Returns the copy's id, which is the same for the same delivery of the same message. */
static struct slice copy_id(const struct sqs_move_task *task, const struct message *message,
                            char out[JOB_ID_BYTES_MAX + 1])
{
    if (!message->has_other_id)
        return message->id;
    const uint64_t names[] = {hash_64(task->move.source, strlen(task->move.source)),
                              hash_64(message->id.at, message->id.len), message->delivery};
    int shown = message->id.len < ID_SHOWN_BYTES ? (int)message->id.len : ID_SHOWN_BYTES;
    int len = snprintf(out, JOB_ID_BYTES_MAX + 1, "%.*s~%016" PRIx64, shown, message->id.at,
                       hash_64(names, sizeof names));
    return slice_make(out, (size_t)len);
}

/* Returns whether a meta describes the message's death. In its destination the message is not a
 * dead letter, so these metas are dropped. */
static bool is_of_death(struct slice name)
{
    return slice_is(name, JOB_META_DEAD_TOPIC) || slice_is(name, JOB_META_DEAD_ATTEMPT) ||
           slice_is(name, JOB_META_DEAD_ERROR) || slice_is(name, JOB_META_DEAD_HOPS);
}

static bool copy_meta(const struct sqs_move_task *task, const struct message *message,
                      struct buffer *out)
{
    char origin[JOB_TOPIC_BYTES_MAX + 32];
    struct slice name, value;
    bool fits = job_meta_add(out, slice_of(META_MOVED),
                             copy_origin(task, message, origin, sizeof origin)) == JOB_META_OK;
    for (size_t at = 0; fits && job_meta_next(message->meta, &at, &name, &value);)
        if (!slice_is(name, META_MOVED) && !is_of_death(name))
            fits = job_meta_add(out, name, value) == JOB_META_OK;
    return fits;
}

/* ---- 5: make copies due, or cancel them ---- */

static void batch_end(struct sqs_move_task *task)
{
    if (task->move.reason[0])
        task_close(task, SQS_MOVE_FAILED);
    else
        batch_begin(task);
}

static struct queue_change copy_release(const struct sqs_move_task *task,
                                        const struct message *message,
                                        char id[JOB_ID_BYTES_MAX + 1])
{
    return (struct queue_change){.verb = message->state == MESSAGE_ACKED ? QUEUE_RUN : QUEUE_CANCEL,
                                 .topic = message->to,
                                 .id = copy_id(task, message, id),
                                 .priority = QUEUE_PRIORITY_UNSET};
}

static void on_copies_released(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    (void)tag;
    if (!are_decided(reply))
        task_give_back(task, "the queue did not release copies");
    else
        batch_end(task);
}

static void copies_release(struct sqs_move_task *task)
{
    struct queue_change changes[SQS_MOVE_BATCH_MAX];
    char ids[SQS_MOVE_BATCH_MAX][JOB_ID_BYTES_MAX + 1];
    size_t count = 0;
    for (size_t i = 0; i < task->count; i++) {
        const struct message *message = &task->messages[i];
        if (message->state != MESSAGE_ACKED && message->state != MESSAGE_RETURNED)
            continue;
        task->move.moved += message->state == MESSAGE_ACKED;
        changes[count] = copy_release(task, message, ids[count]);
        count++;
    }
    if (count)
        queue_change(task->owner->queue, changes, count, reply_to(task, on_copies_released));
    else
        batch_end(task);
}

/* ---- 4: ack the messages in the source ---- */

static void on_source_acked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    bool are_known = true;
    (void)tag;
    if (reply->status != QUEUE_OK || reply->result_count != task->count) {
        task_give_back(task, "the queue did not ack what was moved");
        return;
    }
    for (size_t i = 0; i < task->count; i++) {
        struct message *message = &task->messages[i];
        enum queue_status status = reply->results[i].status;
        if (message->state != MESSAGE_COPIED)
            continue;
        if (status != QUEUE_OK && status != QUEUE_LEASE_ENDED)
            are_known = false;
        message->state = status == QUEUE_OK ? MESSAGE_ACKED : MESSAGE_RETURNED;
    }
    if (!are_known) /* the server that resumes the task determines the outcome */
        task_give_back(task, "the queue did not ack what was moved");
    else
        copies_release(task);
}

/* Acks messages that have a copy and returns the others unchanged. */
static void source_ack(struct sqs_move_task *task)
{
    struct queue_answer answers[SQS_MOVE_BATCH_MAX];
    for (size_t i = 0; i < task->count; i++)
        answers[i] = (struct queue_answer){
            .verb = task->messages[i].state == MESSAGE_COPIED ? QUEUE_ACK : QUEUE_RETURN,
            .lease = task->messages[i].lease,
            .delay_ms = -1};
    queue_answer(task->owner->queue, answers, task->count, reply_to(task, on_source_acked));
}

/* ---- 3: hidden copies ---- */

static void copies_push(struct sqs_move_task *task, enum message_state state);

static void on_copies_pushed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    enum message_state state = (enum message_state)tag;
    size_t next = 0;
    bool has_clash = false, are_known = true;
    for (size_t i = 0; i < task->count; i++) {
        struct message *message = &task->messages[i];
        if (message->state != state || !message->to.len)
            continue;
        enum queue_status status = reply->status                ? reply->status
                                   : next < reply->result_count ? reply->results[next++].status
                                                                : QUEUE_UNAVAILABLE;
        bool is_taken = status == QUEUE_CONFLICT || status == QUEUE_LEASED ||
                        status == QUEUE_EXISTED || status == QUEUE_BAD_ID;
        if (status == QUEUE_CREATED)
            message->state = MESSAGE_COPIED;
        else if (is_taken && state == MESSAGE_TAKEN)
            message->state = MESSAGE_CLASH;
        else if (!is_decided(status))
            are_known = false;
        else
            (void)snprintf(task->move.reason, sizeof task->move.reason, "%s",
                           "CouldNotSendToDestination");
        has_clash |= message->state == MESSAGE_CLASH && state == MESSAGE_TAKEN;
    }
    if (!are_known) /* the server that resumes the task determines the outcome */
        task_give_back(task, "the queue did not take copies");
    else if (has_clash)
        copies_push(task, MESSAGE_CLASH);
    else
        source_ack(task);
}

static bool copy_push(struct sqs_move_task *task, struct message *message, struct buffer *meta,
                      char id[JOB_ID_BYTES_MAX + 1], struct queue_push *out)
{
    buffer_init(meta, JOB_META_BYTES_MAX);
    *out = (struct queue_push){.topic = message->to,
                               .is_own = true,
                               .id = copy_id(task, message, id),
                               .group = message->group,
                               .content_type = message->content_type,
                               .body = message->body,
                               .when = {QUEUE_DUE_DELAY, POLICY_DELAY_MS_MAX},
                               .priority = message->priority,
                               .on_conflict = CONFLICT_REJECT};
    bool fits = copy_meta(task, message, meta);
    out->meta = buffer_slice(meta);
    return fits;
}

/* Pushes copies of all messages in this state. */
static void copies_push(struct sqs_move_task *task, enum message_state state)
{
    struct queue_push pushes[SQS_MOVE_BATCH_MAX];
    struct buffer metas[SQS_MOVE_BATCH_MAX];
    char ids[SQS_MOVE_BATCH_MAX][JOB_ID_BYTES_MAX + 1];
    size_t count = 0;
    for (size_t i = 0; i < task->count; i++) {
        struct message *message = &task->messages[i];
        if (message->state != state || !message->to.len)
            continue;
        message->has_other_id = state == MESSAGE_CLASH;
        if (!copy_push(task, message, &metas[count], ids[count], &pushes[count])) {
            buffer_fini(&metas[count]);
            message->to.len = 0; /* no room for the extra meta: the message stays */
            (void)snprintf(task->move.reason, sizeof task->move.reason, "MessageTooLarge");
            continue;
        }
        count++;
    }
    if (count)
        queue_push(task->owner->queue, pushes, count,
                   (struct queue_reply_to){
                       .done = on_copies_pushed, .owner = task, .tag = (uint64_t)state});
    else
        source_ack(task);
    for (size_t i = 0; i < count; i++)
        buffer_fini(&metas[i]);
}

/* ---- 2: log the batch ---- */

static void on_logged(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    (void)tag;
    if (is_pushed(reply))
        copies_push(task, MESSAGE_TAKEN);
    else
        task_give_back(task, "the queue did not take the batch");
}

/* ---- 1: take a batch ---- */

/* Returns the queue in which the message died, if that queue still sends its dead letters here;
 * otherwise the only source, if there is exactly one. */
static struct slice dead_letter_source(const struct sqs_move_task *task, struct slice meta)
{
    struct json_value body = {0}, name;
    struct json_cursor cursor = {0};
    struct slice topic = job_meta_find(meta, slice_of(JOB_META_DEAD_TOPIC)), only = {0};
    size_t count = 0;
    (void)json_check(buffer_slice(&task->body), &body, NULL);
    struct json_value sources = json_member(body, "sources");
    while (sources.kind == JSON_ARRAY && json_next_item(sources, &cursor, &name)) {
        only = slice_make(name.raw.at + 1, name.raw.len - 2);
        count++;
        if (slice_equals(only, topic))
            return only;
    }
    return count == 1 ? only : (struct slice){0};
}

static bool messages_copy(struct sqs_move_task *task, const struct queue_reply *reply)
{
    size_t bytes = 1;
    for (size_t i = 0; i < reply->job_count; i++) {
        const struct job *job = &reply->jobs[i].job;
        bytes += job->id.len + job->group.len + job->content_type.len + job->meta.len +
                 job->body.len + reply->jobs[i].lease.len;
    }
    buffer_fini(&task->text);
    buffer_init(&task->text, bytes);
    if (!buffer_reserve(&task->text, bytes))
        return false;
    task->count = reply->job_count;
    for (size_t i = 0; i < reply->job_count; i++) {
        const struct job *job = &reply->jobs[i].job;
        struct buffer *text = &task->text;
        struct message *message = &task->messages[i];
        *message = (struct message){.state = MESSAGE_TAKEN,
                                    .id = buffer_append_copy(text, job->id),
                                    .group = buffer_append_copy(text, job->group),
                                    .content_type = buffer_append_copy(text, job->content_type),
                                    .meta = buffer_append_copy(text, job->meta),
                                    .body = buffer_append_copy(text, job->body),
                                    .lease = buffer_append_copy(text, reply->jobs[i].lease),
                                    .delivery = job->delivery,
                                    .priority = job->priority};
        message->to =
            task->move.to[0] ? slice_of(task->move.to) : dead_letter_source(task, job->meta);
        if (!message->to.len)
            (void)snprintf(task->move.reason, sizeof task->move.reason, "%s",
                           "CouldNotDetermineMessageSource");
    }
    return true;
}

static void on_messages_taken(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND)
        task_give_back(task, "the queue did not return messages");
    else if (!reply->job_count)
        task_close(task, SQS_MOVE_COMPLETED);
    else if (messages_copy(task, reply))
        log_push(task, on_logged);
    else
        task_give_back(task, "out of memory");
}

/* Pauses for at most this long; sqs_move_task_go_on continues. */
static void task_rest(struct sqs_move_task *task, int64_t rest_ms)
{
    int64_t now_ms = clock_inner_ms();
    task->wake_ms = now_ms + (rest_ms < PACE_MS ? rest_ms : PACE_MS);
    task->owner->rested(task->owner);
}

/* Takes as many messages as the rate allows by now; pauses if no message is allowed yet. */
static void messages_take(struct sqs_move_task *task)
{
    const struct sqs_move *move = &task->move;
    struct slice topic = task_source(task);
    uint64_t most = move->total - move->moved;
    int64_t now_ms = clock_inner_ms();
    if (move->rate) {
        int64_t due = (now_ms - task->rate_start_ms) * move->rate / 1000 + 1 -
                      (int64_t)(move->moved - task->rate_start_moved);
        if (due <= 0) {
            task_rest(task, (1 - due) * 1000 / move->rate + 1);
            return;
        }
        most = most < (uint64_t)due ? most : (uint64_t)due;
    }
    const struct queue_take take = {
        .topics = &topic,
        .topic_count = 1,
        .max = (uint32_t)(most < SQS_MOVE_BATCH_MAX ? most : SQS_MOVE_BATCH_MAX),
        .lease_ms = MESSAGE_LEASE_MS,
        .way = JOB_WAY_TAKE};
    queue_take(task->owner->queue, &take, reply_to(task, on_messages_taken));
}

static void on_stop_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    (void)tag;
    if (reply->status == QUEUE_OK && reply->job_count == 1 &&
        sqs_move_is_own(reply->jobs[0].job.meta) &&
        slice_is(reply->jobs[0].job.body, task->move.handle))
        task_close(task, SQS_MOVE_CANCELLED);
    else if (reply->status == QUEUE_OK || reply->status == QUEUE_NOT_FOUND)
        messages_take(task);
    else
        task_give_back(task, "the queue did not answer");
}

static void on_extended(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    char id[JOB_ID_BYTES_MAX + 1];
    (void)tag;
    if (reply->status != QUEUE_OK || reply->result_count != 1 ||
        reply->results[0].status != QUEUE_OK)
        task_give_back(task, "its lease ended");
    else if (task->is_settling)
        settle_next(task);
    else if (task->move.moved >= task->move.total)
        task_close(task, SQS_MOVE_COMPLETED);
    else
        queue_get(task->owner->queue, slice_of(SQS_MOVES_TOPIC),
                  sqs_move_id(SQS_MOVE_STOP, task_source(task), id), reply_to(task, on_stop_seen));
}

/* Continues between two batches, or between two checks of a batch being settled. */
static void task_go_on(struct sqs_move_task *task)
{
    const struct queue_answer extend = {.verb = QUEUE_EXTEND,
                                        .lease = slice_make(task->lease, task->lease_bytes),
                                        .lease_ms = SQS_MOVE_TASK_LEASE_MS};
    if (task->owner->is_stopping)
        task_give_back(task, NULL);
    else
        queue_answer(task->owner->queue, &extend, 1, reply_to(task, on_extended));
}

static void batch_begin(struct sqs_move_task *task)
{
    task->count = 0;
    task_go_on(task);
}

/* ---- after a crash: settle the unfinished batch ---- */

static void on_settled(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    (void)tag;
    if (!are_decided(reply)) {
        task_give_back(task, "the queue did not settle a batch");
        return;
    }
    task->settle_at++;
    settle_next(task);
}

static bool is_hidden_copy(const struct sqs_move_task *task, const struct message *message,
                           const struct job *job)
{
    char text[JOB_TOPIC_BYTES_MAX + 32];
    int64_t ahead_ms = job->due_ms - queue_wall_ms(task->owner->queue);
    return job->state == JOB_DELAYED && ahead_ms >= POLICY_DELAY_MS_MAX / 2 &&
           slice_equals(job_meta_find(job->meta, slice_of(META_MOVED)),
                        copy_origin(task, message, text, sizeof text));
}

/* Returns a hash that is equal for a message and its copy. */
static uint64_t content_hash(const struct job *job)
{
    uint64_t parts[] = {hash_64(job->content_type.at, job->content_type.len),
                        hash_64(job->body.at, job->body.len), 0};
    struct slice name, value;
    for (size_t at = 0; job_meta_next(job->meta, &at, &name, &value);) {
        if (slice_is(name, META_MOVED))
            continue;
        const uint64_t pair[] = {parts[2], hash_64(name.at, name.len),
                                 hash_64(value.at, value.len)};
        parts[2] = hash_64(pair, sizeof pair);
    }
    return hash_64(parts, sizeof parts);
}

static void on_copy_seen(void *owner, uint64_t tag, const struct queue_reply *reply);

static void copy_get(struct sqs_move_task *task)
{
    char id[JOB_ID_BYTES_MAX + 1];
    const struct message *message = &task->messages[task->settle_at];
    queue_get(task->owner->queue, message->to, copy_id(task, message, id),
              reply_to(task, on_copy_seen));
}

static void on_copy_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    struct message *message = &task->messages[task->settle_at];
    const struct job *job = reply->job_count == 1 ? &reply->jobs[0].job : NULL;
    char id[JOB_ID_BYTES_MAX + 1];
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        task_give_back(task, "the queue did not settle a batch");
    } else if (job && is_hidden_copy(task, message, job)) {
        if (content_hash(job) != message->content)
            message->state = MESSAGE_ACKED; /* what the source has is another message of its id */
        task->move.moved += message->state == MESSAGE_ACKED;
        const struct queue_change change = copy_release(task, message, id);
        queue_change(task->owner->queue, &change, 1, reply_to(task, on_settled));
    } else if (!message->has_other_id) {
        message->has_other_id = true;
        copy_get(task);
    } else {
        task->settle_at++;
        settle_next(task);
    }
}

/* Decides whether the source still has the message. While the message's lease is in force, the
 * previous server may still ack it, so nothing is decided yet. A job with a lower delivery number
 * is another job of the same id. One with an equal or higher number may be another as well:
 * comparing it with the copy decides. */
static void on_source_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    struct message *message = &task->messages[task->settle_at];
    const struct job *job = reply->job_count == 1 ? &reply->jobs[0].job : NULL;
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        task_give_back(task, "the queue did not settle a batch");
    } else if (job && job->state == JOB_LEASED && job->delivery == message->delivery) {
        task_rest(task, job->lease_until_ms - queue_wall_ms(task->owner->queue) + 1);
    } else {
        message->state =
            job && job->delivery >= message->delivery ? MESSAGE_RETURNED : MESSAGE_ACKED;
        message->content = job ? content_hash(job) : 0;
        copy_get(task);
    }
}

static void settle_next(struct sqs_move_task *task)
{
    if (task->settle_at < task->count) {
        queue_get(task->owner->queue, task_source(task), task->messages[task->settle_at].id,
                  reply_to(task, on_source_seen));
        return;
    }
    task->is_settling = false;
    task->rate_start_moved = task->move.moved;
    batch_begin(task);
}

/* ---- start of a task ---- */

static bool batch_copy(struct sqs_move_task *task, struct slice log)
{
    struct sqs_move_entry entries[SQS_MOVE_BATCH_MAX];
    if (!sqs_move_log_read_batch(log, &task->text, entries, &task->count))
        return false;
    for (size_t i = 0; i < task->count; i++)
        task->messages[i] = (struct message){
            .id = entries[i].id, .to = entries[i].to, .delivery = entries[i].delivery};
    return true;
}

static void on_log_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct sqs_move_task *task = owner;
    struct slice log = {0};
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        task_give_back(task, "the queue did not show the log");
        return;
    }
    if (reply->job_count == 1 && sqs_move_is_own(reply->jobs[0].job.meta))
        log = reply->jobs[0].job.body;
    sqs_move_log_read_tasks(log, &task->move, &task->history);
    if (!batch_copy(task, log) || task->history.failed) {
        task_give_back(task, "out of memory");
        return;
    }
    task->rate_start_ms = clock_inner_ms();
    task->is_settling = true;
    if (task->move.status == SQS_MOVE_RUNNING)
        settle_next(task);
    else
        task_ack(task); /* the task had ended, but the ack of its job was lost */
}

bool sqs_move_task_start(struct sqs_move_owner *owner, const struct queue_job *taken)
{
    char id[JOB_ID_BYTES_MAX + 1];
    struct json_value body = {0};
    struct sqs_move_task *task = calloc(1, sizeof *task);
    if (!task)
        return false;
    task->owner = owner;
    task->lease_bytes = taken->lease.len;
    memcpy(task->lease, taken->lease.at, taken->lease.len);
    buffer_init(&task->body, SQS_MOVE_TEXT_BYTES_MAX);
    buffer_init(&task->history, SQS_MOVE_TEXT_BYTES_MAX);
    buffer_init(&task->text, 1);
    list_add_last(&owner->tasks, &task->node);
    buffer_append_slice(&task->body, taken->job.body);
    if (!sqs_move_is_own(taken->job.meta) || !json_check(buffer_slice(&task->body), &body, NULL) ||
        !sqs_move_read(body, &task->move))
        task_ack(task); /* not a task: pushed manually */
    else
        queue_get(owner->queue, slice_of(SQS_MOVES_TOPIC),
                  sqs_move_id(SQS_MOVE_LOG, task_source(task), id), reply_to(task, on_log_seen));
    return true;
}

int64_t sqs_move_task_wake_ms(const struct list *node)
{
    return list_entry(node, const struct sqs_move_task, node)->wake_ms;
}

void sqs_move_task_go_on(struct list *node)
{
    struct sqs_move_task *task = list_entry(node, struct sqs_move_task, node);
    task->wake_ms = 0;
    task_go_on(task);
}

void sqs_move_tasks_free(struct sqs_move_owner *owner)
{
    while (!list_is_empty(&owner->tasks))
        task_free(list_entry(owner->tasks.next, struct sqs_move_task, node));
}
