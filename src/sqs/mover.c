#include "sqs/mover.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/json_write.h"
#include "base/log.h"
#include "sqs/move.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t TAKE_WAIT_MS = 24LL * 3600 * 1000;

enum {
    MOVES_MAX = 8, /* under way at a server */
    BATCH_MAX = 10,
    TASK_LEASE_MS = 6 * 1000, /* so soon another server goes on */
    MESSAGE_LEASE_MS = 5 * 1000,
    PACE_MS = 2 * 1000, /* a slow task holds its lease */
    RETRY_MS = 1000,
    ID_SHOWN_BYTES = 100
};

/* Of a hidden copy: "SOURCE/DELIVERY". */
#define META_MOVED JOB_META_OWN "sqs-moved"

enum item_state {
    ITEM_TAKEN = 1, /* of the source, under a lease */
    ITEM_CLASH,     /* there is another job of its id: the copy gets one of its own */
    ITEM_COPIED,    /* hidden where it goes */
    ITEM_ACKED,     /* the source has it no more */
    ITEM_KEPT       /* the source has it again: the copy goes */
};

struct item {
    enum item_state state;
    bool is_apart; /* its copy has an id of its own */
    struct slice id, to, content_type, meta, body, lease;
    uint64_t delivery;
    uint64_t content; /* of what the source has under its id, after a crash */
    uint16_t priority;
};

struct moving {
    struct sqs_mover *mover;
    struct list node;
    struct sqs_move move;
    char lease[QUEUE_LEASE_TEXT_BYTES_MAX];
    size_t lease_bytes;
    struct buffer task;    /* the job as it was taken: with the sources */
    struct buffer history; /* earlier tasks, with commas in front of them */
    struct buffer text;    /* what the items point at */
    struct item items[BATCH_MAX];
    size_t count, at; /* at: the one that is looked at after a crash */
    bool is_lost;     /* somebody else goes on with it, or will */
    bool is_settling; /* the batch of who had it before */
    int64_t wake_ms;  /* it waits until then; 0: for a reply */
    int64_t begun_ms; /* moved_then had been moved by then */
    uint64_t moved_then;
};

struct sqs_mover {
    struct reactor *reactor;
    struct queue *queue;
    struct waiters *waiters;
    struct deadline *alarm;
    struct list moving;
    size_t count;
    uint64_t take; /* waits for a task; 0: none */
    int64_t take_ms;
    bool is_started, is_stopping;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    struct turn_end_call stop_call;
};

static void mover_take(struct sqs_mover *mover);
static void batch_begin(struct moving *moving);
static void settle_next(struct moving *moving);

static struct slice source_of(const struct moving *moving)
{
    return slice_of(moving->move.source);
}

/* Was it done, or is known never to be? Else the store could not say, or will do it once it can again. */
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

/* All changes of a reply. */
static bool are_decided(const struct queue_reply *reply)
{
    bool are = reply->status == QUEUE_OK;
    for (size_t i = 0; i < reply->result_count; i++)
        are = are && is_decided(reply->results[i].status);
    return are;
}

static struct queue_reply_to reply_to(struct moving *moving, queue_done *done)
{
    return (struct queue_reply_to){.done = done, .owner = moving};
}

/* ---- the end of a task at this server ---- */

static void check_stopped(struct sqs_mover *mover)
{
    if (mover->is_stopping && !mover->count && mover->stopped)
        reactor_once_at_turn_end(mover->reactor, &mover->stop_call);
}

static void moving_free(struct moving *moving)
{
    list_remove(&moving->node);
    buffer_fini(&moving->task);
    buffer_fini(&moving->history);
    buffer_fini(&moving->text);
    free(moving);
}

static void moving_end(struct moving *moving)
{
    struct sqs_mover *mover = moving->mover;
    moving_free(moving);
    mover->count--;
    mover_take(mover);
    check_stopped(mover);
}

static void on_given_back(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    (void)reply;
    moving_end(owner);
}

/* The task goes on elsewhere, or here once what was wrong is over. */
static void moving_give_back(struct moving *moving, const char *why)
{
    const struct queue_answer answer = {.verb = why ? QUEUE_NACK : QUEUE_RETURN,
                                        .lease = slice_make(moving->lease, moving->lease_bytes),
                                        .delay_ms = why ? RETRY_MS : -1,
                                        .error = slice_of(why ? why : "")};
    if (why)
        log_event(LOG_WARN, "message move task put off", LOG_TEXT("topic", moving->move.source),
                  LOG_TEXT("error", why));
    queue_answer(moving->mover->queue, &answer, 1, reply_to(moving, on_given_back));
}

static void on_acked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)tag;
    (void)reply;
    moving_end(owner);
}

static void moving_ack(struct moving *moving)
{
    const struct queue_answer answer = {.verb = QUEUE_ACK,
                                        .lease = slice_make(moving->lease, moving->lease_bytes)};
    queue_answer(moving->mover->queue, &answer, 1, reply_to(moving, on_acked));
}

/* ---- the log ---- */

static void write_batch(const struct moving *moving, struct buffer *out)
{
    buffer_append_text(out, "],\"batch\":[");
    for (size_t i = 0; i < moving->count; i++) {
        const struct item *item = &moving->items[i];
        buffer_append_text(out, i ? ",{" : "{");
        json_write_member_text(out, "id", item->id);
        json_write_member_text(out, "to", item->to);
        json_write_member_number(out, "delivery", item->delivery);
        buffer_append_byte(out, '}');
    }
    buffer_append_text(out, "]}");
}

static void log_push(struct moving *moving, queue_done *done)
{
    char id[JOB_ID_BYTES_MAX + 1];
    struct buffer body;
    buffer_init(&body, SQS_MOVE_TEXT_BYTES_MAX);
    buffer_append_text(&body, "{\"tasks\":[");
    sqs_move_write(&moving->move, &body);
    buffer_append_byte(&body, '}');
    buffer_append_slice(&body, buffer_slice(&moving->history));
    write_batch(moving, &body);
    const struct queue_push push = {.topic = slice_of(SQS_MOVES_TOPIC),
                                    .is_own = true,
                                    .id = sqs_move_id(SQS_MOVE_LOG, source_of(moving), id),
                                    .content_type = slice_of("application/json"),
                                    .meta = sqs_move_meta,
                                    .body = buffer_slice(&body),
                                    .when = {QUEUE_DUE_DELAY, POLICY_DELAY_MS_MAX},
                                    .priority = QUEUE_PRIORITY_UNSET,
                                    .on_conflict = CONFLICT_REPLACE};
    if (body.failed)
        moving_give_back(moving, "out of memory");
    else
        queue_push(moving->mover->queue, &push, 1, reply_to(moving, done));
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
    struct moving *moving = owner;
    (void)tag;
    if (is_pushed(reply))
        moving_ack(moving);
    else
        moving_give_back(moving, "the queue did not take the end of the task");
}

/* Where it failed, move.reason says why. */
static void moving_close(struct moving *moving, enum sqs_move_status status)
{
    moving->move.status = status;
    if (status != SQS_MOVE_FAILED)
        moving->move.reason[0] = '\0';
    moving->count = 0;
    log_push(moving, on_closed);
}

/* ---- copies ---- */

static struct slice origin_of(const struct moving *moving, const struct item *item, char *out,
                              size_t bytes)
{
    int len = snprintf(out, bytes, "%s/%" PRIu64, moving->move.source, item->delivery);
    return slice_make(out, (size_t)len);
}

/* The same for the same delivery of the same message. */
static struct slice copy_id(const struct moving *moving, const struct item *item,
                            char out[JOB_ID_BYTES_MAX + 1])
{
    if (!item->is_apart)
        return item->id;
    const uint64_t names[] = {hash_64(moving->move.source, strlen(moving->move.source)),
                              hash_64(item->id.at, item->id.len), item->delivery};
    int shown = item->id.len < ID_SHOWN_BYTES ? (int)item->id.len : ID_SHOWN_BYTES;
    int len = snprintf(out, JOB_ID_BYTES_MAX + 1, "%.*s~%016" PRIx64, shown, item->id.at,
                       hash_64(names, sizeof names));
    return slice_make(out, (size_t)len);
}

static bool write_meta(const struct moving *moving, const struct item *item, struct buffer *out)
{
    char origin[JOB_TOPIC_BYTES_MAX + 32];
    struct slice name, value;
    bool fits = job_meta_add(out, slice_of(META_MOVED),
                             origin_of(moving, item, origin, sizeof origin)) == JOB_META_OK;
    for (size_t at = 0; fits && job_meta_next(item->meta, &at, &name, &value);)
        if (!slice_is(name, META_MOVED))
            fits = job_meta_add(out, name, value) == JOB_META_OK;
    return fits;
}

/* ---- 5: copies are let out, or go ---- */

static void on_let_out(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct moving *moving = owner;
    (void)tag;
    if (!are_decided(reply))
        moving_give_back(moving, "the queue did not let copies out");
    else if (moving->move.reason[0])
        moving_close(moving, SQS_MOVE_FAILED);
    else
        batch_begin(moving);
}

static void let_out(struct moving *moving)
{
    struct queue_change changes[BATCH_MAX];
    char ids[BATCH_MAX][JOB_ID_BYTES_MAX + 1];
    size_t count = 0;
    for (size_t i = 0; i < moving->count; i++) {
        const struct item *item = &moving->items[i];
        if (item->state != ITEM_ACKED && item->state != ITEM_KEPT)
            continue;
        moving->move.moved += item->state == ITEM_ACKED;
        changes[count] =
            (struct queue_change){.verb = item->state == ITEM_ACKED ? QUEUE_RUN : QUEUE_CANCEL,
                                  .topic = item->to,
                                  .id = copy_id(moving, item, ids[count]),
                                  .priority = QUEUE_PRIORITY_UNSET};
        count++;
    }
    if (count)
        queue_change(moving->mover->queue, changes, count, reply_to(moving, on_let_out));
    else if (moving->move.reason[0])
        moving_close(moving, SQS_MOVE_FAILED);
    else
        batch_begin(moving);
}

/* ---- 4: the source lets them go ---- */

static void on_source_acked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct moving *moving = owner;
    size_t next = 0;
    (void)tag;
    if (reply->status != QUEUE_OK || reply->result_count != moving->count) {
        moving_give_back(moving, "the queue did not ack what was moved");
        return;
    }
    for (size_t i = 0; i < moving->count; i++) {
        struct item *item = &moving->items[i];
        enum queue_status status = reply->results[next++].status;
        if (item->state != ITEM_COPIED)
            continue;
        /* Whether it was done is not known: who takes the task up again finds out. */
        if (status != QUEUE_OK && status != QUEUE_LEASE_ENDED)
            moving->is_lost = true;
        item->state = status == QUEUE_OK ? ITEM_ACKED : ITEM_KEPT;
    }
    if (moving->is_lost)
        moving_give_back(moving, "the queue did not ack what was moved");
    else
        let_out(moving);
}

/* Those that have no copy go back as they were. */
static void ack_source(struct moving *moving)
{
    struct queue_answer answers[BATCH_MAX];
    for (size_t i = 0; i < moving->count; i++)
        answers[i] = (struct queue_answer){
            .verb = moving->items[i].state == ITEM_COPIED ? QUEUE_ACK : QUEUE_RETURN,
            .lease = moving->items[i].lease,
            .delay_ms = -1};
    queue_answer(moving->mover->queue, answers, moving->count, reply_to(moving, on_source_acked));
}

/* ---- 3: hidden copies ---- */

static void push_copies(struct moving *moving, enum item_state state);

static void on_copied(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct moving *moving = owner;
    enum item_state state = (enum item_state)tag;
    size_t next = 0;
    bool has_clash = false;
    for (size_t i = 0; i < moving->count; i++) {
        struct item *item = &moving->items[i];
        if (item->state != state || !item->to.len)
            continue;
        enum queue_status status = reply->status                ? reply->status
                                   : next < reply->result_count ? reply->results[next++].status
                                                                : QUEUE_UNAVAILABLE;
        bool is_taken = status == QUEUE_CONFLICT || status == QUEUE_LEASED ||
                        status == QUEUE_EXISTED || status == QUEUE_BAD_ID;
        if (status == QUEUE_CREATED)
            item->state = ITEM_COPIED;
        else if (is_taken && state == ITEM_TAKEN)
            item->state = ITEM_CLASH;
        else if (!is_decided(status))
            moving->is_lost = true;
        else
            (void)snprintf(moving->move.reason, sizeof moving->move.reason, "%s",
                           "CouldNotSendToDestination");
        has_clash |= item->state == ITEM_CLASH && state == ITEM_TAKEN;
    }
    if (moving->is_lost)
        moving_give_back(moving, "the queue did not take copies");
    else if (has_clash)
        push_copies(moving, ITEM_CLASH);
    else
        ack_source(moving);
}

static bool push_of(struct moving *moving, struct item *item, struct buffer *meta,
                    char id[JOB_ID_BYTES_MAX + 1], struct queue_push *out)
{
    buffer_init(meta, JOB_META_BYTES_MAX);
    *out = (struct queue_push){.topic = item->to,
                               .is_own = true,
                               .id = copy_id(moving, item, id),
                               .content_type = item->content_type,
                               .body = item->body,
                               .when = {QUEUE_DUE_DELAY, POLICY_DELAY_MS_MAX},
                               .priority = item->priority,
                               .on_conflict = CONFLICT_REJECT};
    bool fits = write_meta(moving, item, meta);
    out->meta = buffer_slice(meta);
    return fits;
}

/* Of all that are in this state. */
static void push_copies(struct moving *moving, enum item_state state)
{
    struct queue_push pushes[BATCH_MAX];
    struct buffer metas[BATCH_MAX];
    char ids[BATCH_MAX][JOB_ID_BYTES_MAX + 1];
    size_t count = 0;
    for (size_t i = 0; i < moving->count; i++) {
        struct item *item = &moving->items[i];
        if (item->state != state || !item->to.len)
            continue;
        item->is_apart = state == ITEM_CLASH;
        if (!push_of(moving, item, &metas[count], ids[count], &pushes[count])) {
            buffer_fini(&metas[count]);
            item->to.len = 0; /* no room for its meta beside tarry's own: it stays */
            (void)snprintf(moving->move.reason, sizeof moving->move.reason, "MessageTooLarge");
            continue;
        }
        count++;
    }
    if (count)
        queue_push(moving->mover->queue, pushes, count,
                   (struct queue_reply_to){on_copied, moving, (uint64_t)state});
    else
        ack_source(moving);
    for (size_t i = 0; i < count; i++)
        buffer_fini(&metas[i]);
}

/* ---- 2: the batch is written down ---- */

static void on_logged(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct moving *moving = owner;
    (void)tag;
    if (is_pushed(reply))
        push_copies(moving, ITEM_TAKEN);
    else
        moving_give_back(moving, "the queue did not take the batch");
}

/* ---- 1: a batch ---- */

static struct slice text_keep(struct buffer *text, struct slice from)
{
    char *at = text->at + text->len;
    buffer_append_slice(text, from);
    return slice_make(at, from.len);
}

/* The queue that the message died in, if that still sends its dead letters here; the only one there is. */
static struct slice home_of(const struct moving *moving, struct slice meta)
{
    struct json_value task = {0}, item;
    struct json_cursor cursor = {0};
    struct slice topic = job_meta_find(meta, slice_of(JOB_META_DEAD_TOPIC)), only = {0};
    size_t count = 0;
    (void)json_check(buffer_slice(&moving->task), &task, NULL);
    struct json_value sources = sqs_move_member(task, "sources");
    while (sources.kind == JSON_ARRAY && json_next_item(sources, &cursor, &item)) {
        only = slice_make(item.raw.at + 1, item.raw.len - 2);
        count++;
        if (slice_equals(only, topic))
            return only;
    }
    return count == 1 ? only : (struct slice){0};
}

static bool keep_items(struct moving *moving, const struct queue_reply *reply)
{
    size_t bytes = 1;
    for (size_t i = 0; i < reply->job_count; i++) {
        const struct job *job = &reply->jobs[i].job;
        bytes += job->id.len + job->content_type.len + job->meta.len + job->body.len +
                 reply->jobs[i].lease.len;
    }
    buffer_fini(&moving->text);
    buffer_init(&moving->text, bytes);
    if (!buffer_reserve(&moving->text, bytes))
        return false;
    moving->count = reply->job_count;
    for (size_t i = 0; i < reply->job_count; i++) {
        const struct job *job = &reply->jobs[i].job;
        struct buffer *text = &moving->text;
        struct item *item = &moving->items[i];
        *item = (struct item){.state = ITEM_TAKEN,
                              .id = text_keep(text, job->id),
                              .content_type = text_keep(text, job->content_type),
                              .meta = text_keep(text, job->meta),
                              .body = text_keep(text, job->body),
                              .lease = text_keep(text, reply->jobs[i].lease),
                              .delivery = job->delivery,
                              .priority = job->priority};
        item->to = moving->move.to[0] ? slice_of(moving->move.to) : home_of(moving, job->meta);
        if (!item->to.len)
            (void)snprintf(moving->move.reason, sizeof moving->move.reason, "%s",
                           "CouldNotDetermineMessageSource");
    }
    return true;
}

static void on_messages(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct moving *moving = owner;
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND)
        moving_give_back(moving, "the queue did not hand out messages");
    else if (!reply->job_count)
        moving_close(moving, SQS_MOVE_COMPLETED);
    else if (keep_items(moving, reply))
        log_push(moving, on_logged);
    else
        moving_give_back(moving, "out of memory");
}

/* Until then, or sooner: it goes on by moving_go_on. */
static void moving_rest(struct moving *moving, int64_t rest_ms)
{
    int64_t now_ms = clock_inner_ms();
    moving->wake_ms = now_ms + (rest_ms < PACE_MS ? rest_ms : PACE_MS);
    deadline_set(moving->mover->alarm, now_ms); /* on_alarm finds the next one */
}

/* By the rate as many as are due by now; the task rests where that is none. */
static void take_messages(struct moving *moving)
{
    const struct sqs_move *move = &moving->move;
    struct slice topic = source_of(moving);
    uint64_t most = move->total - move->moved;
    int64_t now_ms = clock_inner_ms();
    if (move->rate) {
        int64_t due = (now_ms - moving->begun_ms) * move->rate / 1000 + 1 -
                      (int64_t)(move->moved - moving->moved_then);
        if (due <= 0) {
            moving_rest(moving, (1 - due) * 1000 / move->rate + 1);
            return;
        }
        most = most < (uint64_t)due ? most : (uint64_t)due;
    }
    const struct queue_take take = {.topics = &topic,
                                    .topic_count = 1,
                                    .max = (uint32_t)(most < BATCH_MAX ? most : BATCH_MAX),
                                    .lease_ms = MESSAGE_LEASE_MS,
                                    .way = JOB_WAY_TAKE};
    queue_take(moving->mover->queue, &take, reply_to(moving, on_messages));
}

static void on_stop_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct moving *moving = owner;
    (void)tag;
    if (reply->status == QUEUE_OK && reply->job_count == 1 &&
        sqs_move_is_own(reply->jobs[0].job.meta) &&
        slice_is(reply->jobs[0].job.body, moving->move.handle))
        moving_close(moving, SQS_MOVE_CANCELLED);
    else if (reply->status == QUEUE_OK || reply->status == QUEUE_NOT_FOUND)
        take_messages(moving);
    else
        moving_give_back(moving, "the queue did not answer");
}

static void on_extended(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct moving *moving = owner;
    char id[JOB_ID_BYTES_MAX + 1];
    (void)tag;
    if (reply->status != QUEUE_OK || reply->result_count != 1 ||
        reply->results[0].status != QUEUE_OK)
        moving_give_back(moving, "its lease ended");
    else if (moving->is_settling)
        settle_next(moving);
    else if (moving->move.moved >= moving->move.total)
        moving_close(moving, SQS_MOVE_COMPLETED);
    else
        queue_get(moving->mover->queue, slice_of(SQS_MOVES_TOPIC),
                  sqs_move_id(SQS_MOVE_STOP, source_of(moving), id),
                  reply_to(moving, on_stop_seen));
}

/* Between two batches, or two looks at one that is settled. */
static void moving_go_on(struct moving *moving)
{
    const struct queue_answer extend = {.verb = QUEUE_EXTEND,
                                        .lease = slice_make(moving->lease, moving->lease_bytes),
                                        .lease_ms = TASK_LEASE_MS};
    if (moving->mover->is_stopping)
        moving_give_back(moving, NULL);
    else
        queue_answer(moving->mover->queue, &extend, 1, reply_to(moving, on_extended));
}

static void batch_begin(struct moving *moving)
{
    moving->count = 0;
    moving_go_on(moving);
}

/* ---- after a crash: the batch that was under way ---- */

static void on_settled(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct moving *moving = owner;
    (void)tag;
    if (!are_decided(reply)) {
        moving_give_back(moving, "the queue did not settle a batch");
        return;
    }
    moving->at++;
    settle_next(moving);
}

static bool is_hidden_copy(const struct moving *moving, const struct item *item,
                           const struct job *job)
{
    char text[JOB_TOPIC_BYTES_MAX + 32];
    int64_t ahead_ms = job->due_ms - queue_wall_ms(moving->mover->queue);
    return job->state == JOB_DELAYED && ahead_ms >= POLICY_DELAY_MS_MAX / 2 &&
           slice_equals(job_meta_find(job->meta, slice_of(META_MOVED)),
                        origin_of(moving, item, text, sizeof text));
}

/* The same for a message and for its copy. */
static uint64_t content_of(const struct job *job)
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

static void copy_look(struct moving *moving)
{
    char id[JOB_ID_BYTES_MAX + 1];
    const struct item *item = &moving->items[moving->at];
    queue_get(moving->mover->queue, item->to, copy_id(moving, item, id),
              reply_to(moving, on_copy_seen));
}

static void on_copy_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct moving *moving = owner;
    struct item *item = &moving->items[moving->at];
    const struct job *job = reply->job_count == 1 ? &reply->jobs[0].job : NULL;
    char id[JOB_ID_BYTES_MAX + 1];
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        moving_give_back(moving, "the queue did not settle a batch");
    } else if (job && is_hidden_copy(moving, item, job)) {
        if (content_of(job) != item->content)
            item->state = ITEM_ACKED; /* what the source has is another message of its id */
        moving->move.moved += item->state == ITEM_ACKED;
        const struct queue_change change = {.verb =
                                                item->state == ITEM_KEPT ? QUEUE_CANCEL : QUEUE_RUN,
                                            .topic = item->to,
                                            .id = copy_id(moving, item, id),
                                            .priority = QUEUE_PRIORITY_UNSET};
        queue_change(moving->mover->queue, &change, 1, reply_to(moving, on_settled));
    } else if (!item->is_apart) {
        item->is_apart = true;
        copy_look(moving);
    } else {
        moving->at++;
        settle_next(moving);
    }
}

/* While the lease lasts that it was moved under, its ack may still come from who had the task before: then
 * nothing is decided yet. One that was never delivered so often is another message of the same id; one that was may
 * be another as well: the copy shows that. */
static void on_source_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct moving *moving = owner;
    struct item *item = &moving->items[moving->at];
    const struct job *job = reply->job_count == 1 ? &reply->jobs[0].job : NULL;
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        moving_give_back(moving, "the queue did not settle a batch");
    } else if (job && job->state == JOB_LEASED && job->delivery == item->delivery) {
        moving_rest(moving, job->lease_until_ms - queue_wall_ms(moving->mover->queue) + 1);
    } else {
        item->state = job && job->delivery >= item->delivery ? ITEM_KEPT : ITEM_ACKED;
        item->content = job ? content_of(job) : 0;
        copy_look(moving);
    }
}

static void settle_next(struct moving *moving)
{
    if (moving->at < moving->count) {
        queue_get(moving->mover->queue, source_of(moving), moving->items[moving->at].id,
                  reply_to(moving, on_source_seen));
        return;
    }
    moving->is_settling = false;
    moving->moved_then = moving->move.moved;
    batch_begin(moving);
}

/* ---- a task is taken ---- */

/* The batch that the log has; texts go to moving->text. */
static bool read_batch(struct moving *moving, struct json_value batch, size_t bytes)
{
    struct json_cursor cursor = {0};
    struct json_value entry;
    buffer_init(&moving->text, bytes + 1);
    if (!buffer_reserve(&moving->text, bytes + 1))
        return false;
    while (batch.kind == JSON_ARRAY && moving->count < BATCH_MAX &&
           json_next_item(batch, &cursor, &entry)) {
        struct item *item = &moving->items[moving->count];
        struct json_value id = sqs_move_member(entry, "id"), to = sqs_move_member(entry, "to"),
                          delivery = sqs_move_member(entry, "delivery");
        int64_t number;
        *item = (struct item){0};
        if (id.kind != JSON_STRING || to.kind != JSON_STRING || delivery.kind != JSON_NUMBER ||
            !json_string_bytes(id.raw, &moving->text, &item->id) ||
            !json_number_i64(delivery.raw, &number))
            continue;
        if (to.raw.len > 2)
            item->to = text_keep(&moving->text, slice_make(to.raw.at + 1, to.raw.len - 2));
        item->id = text_keep(&moving->text, item->id); /* it may lie in what is read */
        item->delivery = (uint64_t)number;
        moving->count += item->to.len > 0; /* one that went nowhere has no copy */
    }
    return true;
}

/* How far it has come, and what was before. */
static void read_tasks(struct moving *moving, struct json_value tasks)
{
    struct json_cursor cursor = {0};
    struct json_value entry;
    struct sqs_move move;
    size_t kept = 0;
    while (tasks.kind == JSON_ARRAY && json_next_item(tasks, &cursor, &entry)) {
        if (!sqs_move_read(entry, &move))
            continue;
        if (strcmp(move.handle, moving->move.handle) == 0) {
            moving->move = move;
        } else if (++kept < SQS_MOVES_KEPT) {
            buffer_append_byte(&moving->history, ',');
            buffer_append_slice(&moving->history, entry.raw);
        }
    }
}

static void on_log_seen(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct moving *moving = owner;
    struct json_value log = {0};
    (void)tag;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        moving_give_back(moving, "the queue did not show the log");
        return;
    }
    if (reply->job_count == 1 && sqs_move_is_own(reply->jobs[0].job.meta))
        (void)json_check(reply->jobs[0].job.body, &log, NULL);
    read_tasks(moving, sqs_move_member(log, "tasks"));
    if (!read_batch(moving, sqs_move_member(log, "batch"), 2 * log.raw.len) ||
        moving->history.failed) {
        moving_give_back(moving, "out of memory");
        return;
    }
    moving->begun_ms = clock_inner_ms();
    moving->is_settling = true;
    if (moving->move.status == SQS_MOVE_RUNNING)
        settle_next(moving);
    else
        moving_ack(moving); /* it had ended, and the end of its job was lost */
}

static void on_unkept(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    (void)reply;
}

static void moving_begin(struct sqs_mover *mover, const struct queue_job *taken)
{
    char id[JOB_ID_BYTES_MAX + 1];
    struct json_value task = {0};
    struct moving *moving = calloc(1, sizeof *moving);
    const struct queue_answer give_back = {.verb = QUEUE_RETURN, .lease = taken->lease};
    if (!moving) {
        queue_answer(mover->queue, &give_back, 1, (struct queue_reply_to){.done = on_unkept});
        return;
    }
    moving->mover = mover;
    moving->lease_bytes = taken->lease.len;
    memcpy(moving->lease, taken->lease.at, taken->lease.len);
    buffer_init(&moving->task, SQS_MOVE_TEXT_BYTES_MAX);
    buffer_init(&moving->history, SQS_MOVE_TEXT_BYTES_MAX);
    buffer_init(&moving->text, 1);
    list_add_last(&mover->moving, &moving->node);
    mover->count++;
    buffer_append_slice(&moving->task, taken->job.body);
    if (!sqs_move_is_own(taken->job.meta) ||
        !json_check(buffer_slice(&moving->task), &task, NULL) ||
        !sqs_move_read(task, &moving->move)) {
        moving_ack(moving); /* nobody's task: it was pushed by hand */
        return;
    }
    queue_get(mover->queue, slice_of(SQS_MOVES_TOPIC),
              sqs_move_id(SQS_MOVE_LOG, source_of(moving), id), reply_to(moving, on_log_seen));
}

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct sqs_mover *mover = owner;
    (void)tag;
    mover->take = 0;
    if (reply->status == QUEUE_OK && reply->job_count == 1)
        moving_begin(mover, &reply->jobs[0]);
    else if (reply->status != QUEUE_OK || refused)
        mover->take_ms = clock_inner_ms() + RETRY_MS;
    mover_take(mover);
}

static void mover_take(struct sqs_mover *mover)
{
    struct slice topic = slice_of(SQS_MOVES_TOPIC);
    int64_t now_ms = clock_inner_ms();
    const struct queue_take take = {
        .topics = &topic, .topic_count = 1, .max = 1, .lease_ms = TASK_LEASE_MS};
    if (!mover->is_started || mover->is_stopping || mover->take || mover->count >= MOVES_MAX)
        return;
    if (now_ms >= mover->take_ms)
        mover->take = waiter_take(mover->waiters, &take, TAKE_WAIT_MS, now_ms, on_taken, mover, 0);
    if (mover->take)
        return;
    if (mover->take_ms <= now_ms)
        mover->take_ms = now_ms + RETRY_MS;
    deadline_set(mover->alarm, now_ms);
}

/* ---- time ---- */

/* Tasks that rested go on; the alarm rings next for the one that rests shortest. */
static void on_alarm(void *ctx)
{
    struct sqs_mover *mover = ctx;
    int64_t now_ms = clock_inner_ms(), next_ms = INT64_MAX;
    for (struct list *at = mover->moving.next, *after; at != &mover->moving; at = after) {
        struct moving *moving = list_entry(at, struct moving, node);
        after = at->next;
        if (!moving->wake_ms)
            continue;
        if (moving->wake_ms > now_ms && !mover->is_stopping) {
            next_ms = moving->wake_ms < next_ms ? moving->wake_ms : next_ms;
            continue;
        }
        moving->wake_ms = 0;
        moving_go_on(moving);
    }
    if (mover->is_started && !mover->is_stopping && !mover->take && mover->count < MOVES_MAX) {
        if (mover->take_ms <= now_ms)
            mover_take(mover);
        else
            next_ms = mover->take_ms < next_ms ? mover->take_ms : next_ms;
    }
    if (next_ms != INT64_MAX)
        deadline_set(mover->alarm, next_ms);
}

/* ---- life ---- */

static void run_stopped(struct turn_end_call *call)
{
    struct sqs_mover *mover = list_entry(call, struct sqs_mover, stop_call);
    void (*stopped)(void *ctx) = mover->stopped;
    mover->stopped = NULL;
    if (stopped)
        stopped(mover->stopped_ctx);
}

struct sqs_mover *sqs_mover_new(struct reactor *reactor, struct queue *queue,
                                struct waiters *waiters)
{
    struct sqs_mover *mover = calloc(1, sizeof *mover);
    if (!mover)
        return NULL;
    *mover = (struct sqs_mover){.reactor = reactor, .queue = queue, .waiters = waiters};
    list_init(&mover->moving);
    list_init(&mover->stop_call.list);
    mover->stop_call.run = run_stopped;
    mover->alarm = deadline_new(reactor, on_alarm, mover);
    if (mover->alarm)
        return mover;
    free(mover);
    return NULL;
}

void sqs_mover_start(struct sqs_mover *mover)
{
    mover->is_started = true;
    mover_take(mover);
}

void sqs_mover_stop(struct sqs_mover *mover, void (*stopped)(void *ctx), void *ctx)
{
    mover->is_stopping = true;
    mover->stopped = stopped;
    mover->stopped_ctx = ctx;
    if (mover->take)
        waiter_cancel(mover->waiters, mover->take);
    mover->take = 0;
    on_alarm(mover); /* those that rest are given back */
    check_stopped(mover);
}

void sqs_mover_free(struct sqs_mover *mover)
{
    if (!mover)
        return;
    reactor_cancel_at_turn_end(&mover->stop_call);
    deadline_free(mover->alarm);
    while (!list_is_empty(&mover->moving))
        moving_free(list_entry(mover->moving.next, struct moving, node));
    free(mover);
}
