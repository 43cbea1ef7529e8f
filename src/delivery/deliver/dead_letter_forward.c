/*
 * Removes dead jobs from their topic. The second step of a pass forwards them to another topic, or
 * to a URL through DEAD_LETTER_CALLBACKS_TOPIC. The last step drops the oldest jobs if there are
 * more than `dead_letter.keep` allows.
 *
 * Jobs are forwarded in pages: copies are pushed first; once a copy is stored, its job is dropped
 * if it is still the same dead job. A copy has the job's ID. If the other topic already has a job
 * of that ID, it is either this copy from an interrupted pass (recognized by its meta) or another
 * job. In the latter case the copy gets a new ID. The same applies if a finished job of that ID is
 * remembered there: it cannot be determined whether it was this copy, and twice is better than
 * never. A job that was forwarded HOPS_MAX times stays, because the topics form a cycle.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "deliver/dead_letter_pass.h"
#include "deliver/deliver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ID_SHOWN_BYTES = 100, /* part of the job's ID in the new ID of a copy */
    HOPS_MAX = 8          /* forwards after which the topics count as a cycle */
};

#define META_ORIGIN "dead-delivery" /* Topic and delivery that identify the dead job of a copy. */

enum item_state {
    ITEM_LISTED = 1, /* not copied; stays */
    ITEM_COPIED,     /* the copy is stored: the job can be dropped */
    ITEM_TAKEN_ID    /* the other topic has or had a job of this ID */
};

struct item {
    char id[JOB_ID_BYTES_MAX];
    size_t id_bytes;
    uint64_t delivery;
    enum item_state state;
};

struct forwarding { /* state of this step */
    struct item items[DEAD_LETTER_PAGE_WITH_BODIES];
    size_t count, at; /* at: the job whose ID is taken */
    bool has_more;
    char cursor[256];
    size_t cursor_bytes;
};

static void forward_ask_page(struct dead_letter_worker *worker);
static void copy_next_apart(struct dead_letter_worker *worker);

static struct slice item_id(const struct item *item)
{
    return slice_make(item->id, item->id_bytes);
}

static struct slice target_topic(const struct dead_letter_pass *pass)
{
    return slice_of(pass->rules.to_topic ? pass->rules.to_topic : DEAD_LETTER_CALLBACKS_TOPIC);
}

/* ---- a copy ---- */

static uint64_t hops_of(struct slice meta)
{
    uint64_t hops;
    struct slice value = job_meta_find(meta, slice_of(JOB_META_DEAD_HOPS));
    return value.len && text_parse_u64(value, UINT32_MAX, &hops) ? hops : 0;
}

static struct slice origin_of(const struct dead_letter_pass *pass, uint64_t delivery, char *out,
                              size_t bytes)
{
    int len = snprintf(out, bytes, "%.*s/%" PRIu64, (int)pass->topic_bytes, pass->topic, delivery);
    return slice_make(out, (size_t)len);
}

/* Copies the job's own meta. Returns false if not all of it fits in addition to the required
 * meta. */
static bool add_own_meta(struct buffer *meta, struct slice own)
{
    struct slice name, value;
    size_t at = 0;
    while (job_meta_next(own, &at, &name, &value)) {
        if (slice_is(name, META_ORIGIN) || slice_is(name, JOB_META_DEAD_TOPIC) ||
            slice_is(name, JOB_META_DEAD_ATTEMPT) || slice_is(name, JOB_META_DEAD_ERROR) ||
            slice_is(name, JOB_META_DEAD_HOPS) || slice_is(name, DELIVER_CALLBACK_META))
            continue;
        if (job_meta_add(meta, name, value) != JOB_META_OK)
            return false;
    }
    return true;
}

static void write_meta(struct buffer *meta, const struct dead_letter_pass *pass,
                       const struct job *job)
{
    char text[JOB_TOPIC_BYTES_MAX + 32];
    if (pass->rules.to_url)
        (void)job_meta_add(meta, slice_of(DELIVER_CALLBACK_META), slice_of(pass->rules.to_url));
    (void)job_meta_add(meta, slice_of(META_ORIGIN),
                       origin_of(pass, job->delivery, text, sizeof text));
    int len = snprintf(text, sizeof text, "%" PRIu64, hops_of(job->meta) + 1);
    (void)job_meta_add(meta, slice_of(JOB_META_DEAD_HOPS), slice_make(text, (size_t)len));
    if (!add_own_meta(meta, job->meta))
        log_event(LOG_WARN, "dead letter without all of its meta",
                  LOG_TEXT("reason", "tarry's own meta leaves no room for it"));
    /* Add useful information if there is room. */
    (void)job_meta_add(meta, slice_of(JOB_META_DEAD_TOPIC), dead_letter_pass_topic(pass));
    len = snprintf(text, sizeof text, "%" PRIu32, job->attempt);
    (void)job_meta_add(meta, slice_of(JOB_META_DEAD_ATTEMPT), slice_make(text, (size_t)len));
    if (job->error.len)
        (void)job_meta_add(meta, slice_of(JOB_META_DEAD_ERROR), job->error);
}

static struct queue_push copy_of(const struct dead_letter_pass *pass, const struct job *job,
                                 struct buffer *meta)
{
    buffer_init(meta, JOB_META_BYTES_MAX);
    write_meta(meta, pass, job);
    return (struct queue_push){.is_own = true,
                               .topic = target_topic(pass),
                               .id = job->id,
                               .group = job->group,
                               .content_type = job->content_type,
                               .meta = buffer_slice(meta),
                               .body = job->body,
                               .when = {.due = QUEUE_DUE_NOW},
                               .priority = QUEUE_PRIORITY_UNSET,
                               .on_conflict = CONFLICT_REJECT};
}

/* ---- 5: continue with the next page or the next step ---- */

/* Logs the number of jobs that stay because of a cycle when it rises. */
static void note_ring(struct dead_letter_worker *worker)
{
    struct dead_letter_pass *pass = &worker->pass;
    if (!pass->figures || pass->figures->ringed == pass->ringed)
        return;
    if (pass->ringed > pass->figures->ringed)
        log_event(
            LOG_WARN, "dead letters form a loop", LOG_TEXT("topic", pass->figures->name),
            LOG_NUMBER("jobs", (int64_t)pass->ringed), LOG_NUMBER("hops", HOPS_MAX),
            LOG_TEXT(
                "error",
                "the topics of 'dead_letter.to' lead back to this one, so its dead jobs stay"));
    pthread_mutex_lock(&worker->lock);
    pass->figures->tally->ringed += pass->ringed - pass->figures->ringed;
    pass->figures->ringed = pass->ringed;
    pthread_mutex_unlock(&worker->lock);
}

static void forward_go_on(struct dead_letter_worker *worker)
{
    struct forwarding *step = worker->pass.step;
    if (step->has_more && !dead_letter_pass_is_over(worker)) {
        forward_ask_page(worker);
        return;
    }
    if (!step->has_more)
        note_ring(worker);
    dead_letter_pass_next(worker);
}

/* ---- 4: drop the jobs whose copies are stored ---- */

static void on_gone(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    uint64_t gone = 0;
    (void)tag;
    dead_letter_replied(worker);
    if (reply->status != QUEUE_OK) {
        dead_letter_pass_fail(worker, "the queue did not remove a forwarded job");
        return;
    }
    for (size_t i = 0; i < reply->result_count; i++)
        gone += reply->results[i].status == QUEUE_CANCELLED;
    if (worker->pass.figures)
        dead_letter_count(worker, &worker->pass.figures->tally->forwarded, gone);
    forward_go_on(worker);
}

static void drop_copied(struct dead_letter_worker *worker)
{
    struct forwarding *step = worker->pass.step;
    struct queue_change changes[DEAD_LETTER_PAGE_WITH_BODIES];
    size_t count = 0;
    for (size_t i = 0; i < step->count; i++)
        if (step->items[i].state != ITEM_COPIED)
            worker->pass.droppable++;
        else
            changes[count++] = (struct queue_change){.verb = QUEUE_CANCEL,
                                                     .topic = dead_letter_pass_topic(&worker->pass),
                                                     .id = item_id(&step->items[i]),
                                                     .priority = QUEUE_PRIORITY_UNSET,
                                                     .only_dead = true,
                                                     .delivery = step->items[i].delivery};
    if (count)
        queue_change(worker->options.queue, changes, count, dead_letter_reply_to(worker, on_gone));
    else
        forward_go_on(worker);
}

/* ---- 3: handle jobs whose ID is taken, one by one ---- */

/* Makes a new ID: always the same for a dead job, and different for any other dead job of any
 * topic. */
static struct slice id_apart(const struct dead_letter_pass *pass, const struct item *item,
                             char out[JOB_ID_BYTES_MAX + 1])
{
    const struct slice topic = dead_letter_pass_topic(pass);
    const uint64_t names[] = {hash_64(topic.at, topic.len), hash_64(item->id, item->id_bytes),
                              item->delivery};
    int shown = item->id_bytes < ID_SHOWN_BYTES ? (int)item->id_bytes : ID_SHOWN_BYTES;
    int len = snprintf(out, JOB_ID_BYTES_MAX + 1, "%.*s~%016" PRIx64, shown, item->id,
                       hash_64(names, sizeof names));
    return slice_make(out, (size_t)len);
}

static void on_copied_apart(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct forwarding *step = worker->pass.step;
    (void)tag;
    dead_letter_replied(worker);
    enum queue_status status = reply->status == QUEUE_OK && reply->result_count == 1
                                   ? reply->results[0].status
                                   : QUEUE_UNAVAILABLE;
    if (status != QUEUE_CREATED && status != QUEUE_EXISTED && status != QUEUE_BODY_TOO_BIG) {
        dead_letter_pass_fail(worker, "the queue did not accept a dead letter");
        return;
    }
    step->items[step->at].state = status == QUEUE_BODY_TOO_BIG ? ITEM_LISTED : ITEM_COPIED;
    copy_next_apart(worker);
}

static void on_source(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct forwarding *step = worker->pass.step;
    struct item *item = &step->items[step->at];
    char id[JOB_ID_BYTES_MAX + 1];
    struct buffer meta;
    (void)tag;
    dead_letter_replied(worker);
    if (reply->status != QUEUE_OK || reply->job_count != 1 ||
        reply->jobs[0].job.state != JOB_DEAD || reply->jobs[0].job.delivery != item->delivery) {
        /* it was forwarded or changed meanwhile, or cannot be read now */
        item->state = ITEM_LISTED;
        copy_next_apart(worker);
        return;
    }
    struct queue_push push = copy_of(&worker->pass, &reply->jobs[0].job, &meta);
    push.id = id_apart(&worker->pass, item, id);
    push.on_conflict = CONFLICT_KEEP;
    queue_push(worker->options.queue, &push, 1, dead_letter_reply_to(worker, on_copied_apart));
    buffer_fini(&meta);
}

static bool is_copy_of(const struct dead_letter_pass *pass, const struct item *item,
                       struct slice meta)
{
    char text[JOB_TOPIC_BYTES_MAX + 32];
    return slice_equals(job_meta_find(meta, slice_of(META_ORIGIN)),
                        origin_of(pass, item->delivery, text, sizeof text));
}

static void on_holder(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct forwarding *step = worker->pass.step;
    struct item *item = &step->items[step->at];
    (void)tag;
    dead_letter_replied(worker);
    if (reply->status == QUEUE_OK && reply->job_count == 1 &&
        is_copy_of(&worker->pass, item, reply->jobs[0].job.meta)) {
        item->state = ITEM_COPIED;
        copy_next_apart(worker);
        return;
    }
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        dead_letter_pass_fail(worker, "the queue did not return the job with a dead letter's id");
        return;
    }
    queue_get(worker->options.queue, dead_letter_pass_topic(&worker->pass), item_id(item),
              dead_letter_reply_to(worker, on_source));
}

static void copy_next_apart(struct dead_letter_worker *worker)
{
    struct forwarding *step = worker->pass.step;
    for (step->at = 0; step->at < step->count; step->at++)
        if (step->items[step->at].state == ITEM_TAKEN_ID)
            break;
    if (step->at == step->count)
        drop_copied(worker);
    else
        queue_get(worker->options.queue, target_topic(&worker->pass),
                  item_id(&step->items[step->at]), dead_letter_reply_to(worker, on_holder));
}

/* ---- 2: push the copies of a page ---- */

static void note_too_big(const struct dead_letter_pass *pass, const struct item *item)
{
    char topic[JOB_TOPIC_BYTES_MAX + 1], id[JOB_ID_BYTES_MAX + 1];
    const char *topic_text = topic, *id_text = id;
    (void)snprintf(topic, sizeof topic, "%.*s", (int)pass->topic_bytes, pass->topic);
    (void)snprintf(id, sizeof id, "%.*s", (int)item->id_bytes, item->id);
    log_event(LOG_WARN, "dead letter stays", LOG_TEXT("topic", topic_text), LOG_TEXT("id", id_text),
              LOG_TEXT("error", "its body is larger than the current --max-body"));
}

static void on_copied(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct forwarding *step = worker->pass.step;
    bool refused = reply->status != QUEUE_OK || reply->result_count != step->count;
    (void)tag;
    dead_letter_replied(worker);
    for (size_t i = 0; i < step->count && !refused; i++) {
        enum queue_status status = reply->results[i].status;
        if (status == QUEUE_CREATED)
            step->items[i].state = ITEM_COPIED;
        else if (status == QUEUE_CONFLICT || status == QUEUE_LEASED || status == QUEUE_EXISTED ||
                 status == QUEUE_BAD_ID) /* such as "..", stored before such IDs were rejected */
            step->items[i].state = ITEM_TAKEN_ID;
        /* the limit was higher earlier; other jobs may still be forwarded */
        else if (status == QUEUE_BODY_TOO_BIG)
            note_too_big(&worker->pass, &step->items[i]);
        else
            refused = true;
    }
    if (refused)
        dead_letter_pass_fail(worker, "the queue did not accept a dead letter");
    else
        copy_next_apart(worker);
}

/* ---- 1: read a page ---- */

static void note_item(struct item *item, const struct job *job)
{
    memcpy(item->id, job->id.at, job->id.len);
    item->id_bytes = job->id.len;
    item->delivery = job->delivery;
    item->state = ITEM_LISTED;
}

static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct forwarding *step = worker->pass.step;
    struct queue_push pushes[DEAD_LETTER_PAGE_WITH_BODIES];
    struct buffer metas[DEAD_LETTER_PAGE_WITH_BODIES];
    (void)tag;
    dead_letter_replied(worker);
    if (reply->status != QUEUE_OK || reply->job_count > DEAD_LETTER_PAGE_WITH_BODIES ||
        reply->cursor.len > sizeof step->cursor) {
        dead_letter_pass_fail(worker, "the queue did not return the dead jobs");
        return;
    }
    step->count = 0;
    step->has_more = reply->cursor.len > 0;
    step->cursor_bytes = reply->cursor.len;
    if (reply->cursor.len)
        memcpy(step->cursor, reply->cursor.at, reply->cursor.len);
    for (size_t i = 0; i < reply->job_count; i++) {
        const struct job *job = &reply->jobs[i].job;
        if (hops_of(job->meta) >= HOPS_MAX) {
            worker->pass.ringed++;
            worker->pass.droppable++;
            continue;
        }
        note_item(&step->items[step->count], job);
        pushes[step->count] = copy_of(&worker->pass, job, &metas[step->count]);
        step->count++;
    }
    if (!step->count) {
        forward_go_on(worker);
        return;
    }
    queue_push(worker->options.queue, pushes, step->count, dead_letter_reply_to(worker, on_copied));
    for (size_t i = 0; i < step->count; i++)
        buffer_fini(&metas[i]);
}

static void forward_ask_page(struct dead_letter_worker *worker)
{
    struct forwarding *step = worker->pass.step;
    struct queue_list list = {.topic = dead_letter_pass_topic(&worker->pass),
                              .state = JOB_DEAD,
                              .limit = DEAD_LETTER_PAGE_WITH_BODIES,
                              .cursor = slice_make(step->cursor, step->cursor_bytes),
                              .with_body = true};
    queue_list(worker->options.queue, &list, dead_letter_reply_to(worker, on_page));
}

void dead_letter_forward(struct dead_letter_worker *worker)
{
    struct dead_letter_pass *pass = &worker->pass;
    bool has_to = pass->rules.to_topic || pass->rules.to_url;
    pass->droppable = has_to ? 0 : UINT64_MAX;
    if (!has_to || dead_letter_pass_is_over(worker)) {
        dead_letter_pass_next(worker);
        return;
    }
    pass->step = calloc(1, sizeof(struct forwarding));
    if (!pass->step)
        dead_letter_pass_fail(worker, "out of memory");
    else
        forward_ask_page(worker);
}

/*
 * ---- the last step: drop the oldest dead jobs ----
 *
 * Each one is counted under its reason. The store only reports the total size of the jobs. So for
 * `bytes`, a number of jobs based on the average size is dropped, rather too few, and then the
 * total is checked again.
 *
 * If dead jobs are forwarded, only as many are dropped as this pass could not forward; jobs that
 * died since are left to the next pass.
 */

struct dropping { /* state of this step */
    enum dead_letter_drop_reason reasons[DEAD_LETTER_PAGE];
    size_t count;
};

static void drop_look(struct dead_letter_worker *worker);

/* ---- which jobs to drop ---- */

static int64_t ended_ms(const struct job *job)
{
    struct job_attempt attempt;
    int64_t ms = job->due_ms; /* of a job that was never attempted */
    size_t at = 0;
    while (job_history_next(job->history, &at, &attempt))
        ms = attempt.started_ms + attempt.duration_ms;
    return ms;
}

static bool is_too_old(struct dead_letter_worker *worker, const struct job *job)
{
    int64_t keep_ms = worker->pass.rules.keep_ms;
    if (!keep_ms)
        return false;
    int64_t left_ms = ended_ms(job) + keep_ms - queue_wall_ms(worker->options.queue);
    if (left_ms > 0)
        dead_letter_pass_again(worker, clock_inner_ms() + (left_ms < keep_ms ? left_ms : keep_ms));
    return left_ms <= 0;
}

static uint64_t excess_by_bytes(const struct dead_letter_pass *pass)
{
    uint64_t jobs = pass->counts.dead, bytes = pass->counts.dead_bytes;
    if (!pass->rules.keep_bytes || bytes <= pass->rules.keep_bytes || !jobs)
        return 0;
    uint64_t each = bytes / jobs ? bytes / jobs : 1;
    uint64_t excess = (bytes - pass->rules.keep_bytes) / each / 2;
    return excess ? excess : 1;
}

static uint64_t excess_by_count(const struct dead_letter_pass *pass)
{
    uint64_t most = pass->rules.keep_count;
    return most && pass->counts.dead > most ? pass->counts.dead - most : 0;
}

/* ---- drop a page ---- */

static void on_dropped(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct dropping *step = worker->pass.step;
    (void)tag;
    dead_letter_replied(worker);
    if (reply->status != QUEUE_OK || reply->result_count != step->count) {
        dead_letter_pass_fail(worker, "the queue did not remove dead jobs");
        return;
    }
    if (worker->pass.droppable != UINT64_MAX)
        worker->pass.droppable -= step->count;
    for (size_t i = 0; i < step->count && worker->pass.figures; i++)
        if (reply->results[i].status == QUEUE_CANCELLED)
            dead_letter_count(worker, &worker->pass.figures->tally->dropped[step->reasons[i]], 1);
    if (dead_letter_pass_is_over(worker))
        dead_letter_pass_next(worker);
    else
        drop_look(worker);
}

static size_t drop_choose(struct dead_letter_worker *worker, const struct queue_reply *reply,
                          struct queue_change changes[DEAD_LETTER_PAGE])
{
    struct dropping *step = worker->pass.step;
    uint64_t by_count = excess_by_count(&worker->pass), by_bytes = excess_by_bytes(&worker->pass);
    uint64_t most =
        worker->pass.droppable < DEAD_LETTER_PAGE ? worker->pass.droppable : DEAD_LETTER_PAGE;
    size_t count = 0;
    for (size_t i = 0; i < reply->job_count && count < most; i++) {
        const struct job *job = &reply->jobs[i].job;
        if (count < by_count)
            step->reasons[count] = DEAD_LETTER_COUNT;
        else if (count < by_bytes)
            step->reasons[count] = DEAD_LETTER_BYTES;
        else if (is_too_old(worker, job))
            step->reasons[count] = DEAD_LETTER_AGE;
        else
            continue;
        changes[count++] = (struct queue_change){.verb = QUEUE_CANCEL,
                                                 .topic = dead_letter_pass_topic(&worker->pass),
                                                 .id = job->id,
                                                 .priority = QUEUE_PRIORITY_UNSET,
                                                 .only_dead = true,
                                                 .delivery = job->delivery};
    }
    return step->count = count;
}

static void on_oldest(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    struct queue_change changes[DEAD_LETTER_PAGE];
    (void)tag;
    dead_letter_replied(worker);
    if (reply->status != QUEUE_OK)
        dead_letter_pass_fail(worker, "the queue did not return the dead jobs");
    else if (drop_choose(worker, reply, changes))
        queue_change(worker->options.queue, changes, ((struct dropping *)worker->pass.step)->count,
                     dead_letter_reply_to(worker, on_dropped));
    else
        dead_letter_pass_next(worker);
}

/* ---- repeat while there are too many ---- */

static void on_counts(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct dead_letter_worker *worker = owner;
    (void)tag;
    if (!dead_letter_pass_read_counts(worker, reply))
        return;
    if (!worker->pass.counts.dead) {
        dead_letter_pass_next(worker);
        return;
    }
    struct queue_list list = {.topic = dead_letter_pass_topic(&worker->pass),
                              .state = JOB_DEAD,
                              .limit = DEAD_LETTER_PAGE};
    queue_list(worker->options.queue, &list, dead_letter_reply_to(worker, on_oldest));
}

static void drop_look(struct dead_letter_worker *worker)
{
    struct queue_topic_call get = {.verb = QUEUE_TOPIC_GET,
                                   .topic = dead_letter_pass_topic(&worker->pass)};
    queue_topic(worker->options.queue, &get, dead_letter_reply_to(worker, on_counts));
}

void dead_letter_drop(struct dead_letter_worker *worker)
{
    struct dead_letter_pass *pass = &worker->pass;
    bool has_limit = pass->rules.keep_count || pass->rules.keep_bytes || pass->rules.keep_ms;
    if (!has_limit || !pass->droppable || dead_letter_pass_is_over(worker)) {
        dead_letter_pass_next(worker);
        return;
    }
    pass->step = calloc(1, sizeof(struct dropping));
    if (!pass->step)
        dead_letter_pass_fail(worker, "out of memory");
    else
        drop_look(worker);
}
