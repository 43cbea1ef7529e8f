/*
 * The null implementation of queue.h: the model, asked and answered. It keeps nothing on disk, so a
 * reopen finds what the close left in memory. It also carries the faults by which the suite proves
 * that it can fail.
 */
#include "driver.h"

#include "base/clock.h"
#include "job/ulid.h"
#include "model.h"
#include "outcome.h"
#include "queue/check.h"
#include "queue/status.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum fault {
    FAULT_NONE = 0,
    FAULT_ATTEMPT_TWICE,
    FAULT_ACK_DROPPED,
    FAULT_EARLY,
    FAULT_NO_PRIORITY,
    FAULT_NO_ERROR,
    FAULT_ANY_LEASE,
    FAULT_DELAY_LOST,
    FAULT_ATTEMPTS_KEPT,
    FAULT_JOB_LOST_AT_REOPEN,
    FAULT_LEASES_RENEWED_AT_REOPEN,
    FAULT_PAUSE_LOST_AT_REOPEN,
    FAULT_IDS_FORGOTTEN_AT_REOPEN,
    FAULT_NO_TTL,
    FAULT_TOTAL_TWICE,
    FAULT_BODY_CHANGED,
    FAULT_LIST_SHORT,
    FAULT_INSIDE,
    FAULT_TWICE,
    FAULT_PAUSE_IGNORED,
    FAULT_DELIVERY_SAME,
    FAULT_END
};

static const char *const fault_texts[FAULT_END] = {
    [FAULT_ATTEMPT_TWICE] = "a delivery counts as two attempts",
    [FAULT_ACK_DROPPED] = "an ack is answered and not done",
    [FAULT_EARLY] = "a job is ready a millisecond early",
    [FAULT_NO_PRIORITY] = "priorities are ignored",
    [FAULT_NO_ERROR] = "the error of a nack is not kept",
    [FAULT_ANY_LEASE] = "a lease is good after its end",
    [FAULT_DELAY_LOST] = "a nack's delay is not kept",
    [FAULT_ATTEMPTS_KEPT] = "a replaced job keeps its attempts",
    [FAULT_JOB_LOST_AT_REOPEN] = "a job is lost at a restart",
    [FAULT_LEASES_RENEWED_AT_REOPEN] = "leases start again at a restart",
    [FAULT_PAUSE_LOST_AT_REOPEN] = "a pause is forgotten at a restart",
    [FAULT_IDS_FORGOTTEN_AT_REOPEN] = "finished ids are forgotten at a restart",
    [FAULT_NO_TTL] = "ready jobs never expire",
    [FAULT_TOTAL_TWICE] = "an ack is counted twice",
    [FAULT_BODY_CHANGED] = "a byte of a body is changed",
    [FAULT_LIST_SHORT] = "a list leaves out the last job",
    [FAULT_INSIDE] = "the answer comes inside the call",
    [FAULT_TWICE] = "a call is answered twice",
    [FAULT_PAUSE_IGNORED] = "a paused topic delivers",
    [FAULT_DELIVERY_SAME] = "delivery numbers do not rise",
};

struct pending {
    struct pending *next;
    struct queue_reply_to to;
    struct outcome outcome;
};

struct watched {
    char name[JOB_TOPIC_BYTES_MAX + 1];
    uint32_t count;
    bool tell;
};

struct naive {
    struct queue queue; /* first */
    struct model model;
    enum fault fault;
    struct ulid ulid;
    uint64_t deliveries;
    uint64_t acks, calls;
    struct pending *first, **last;
    struct watched watched[8];
    size_t watched_count;
    char dir[256];
};

static struct naive *kept; /* as the last close left it */

static struct naive *naive_of(struct queue *queue)
{
    return (struct naive *)queue;
}

static void answer_later(struct naive *naive, struct queue_reply_to to,
                         const struct queue_reply *reply)
{
    bool spoil = ++naive->calls % 50 == 0;
    int times = spoil && naive->fault == FAULT_TWICE ? 2 : 1;

    if (spoil && naive->fault == FAULT_INSIDE) {
        to.done(to.owner, to.tag, reply);
        return;
    }
    while (times-- > 0) {
        struct pending *pending = calloc(1, sizeof *pending);

        assert(pending);
        pending->to = to;
        outcome_copy(&pending->outcome, reply);
        *naive->last = pending;
        naive->last = &pending->next;
    }
}

/* Where the promise leaves room, this queue takes the latest. */
static void pin_all(struct naive *naive)
{
    for (size_t i = 0; i < naive->model.job_count; i++) {
        struct model_job *job = &naive->model.jobs[i];

        model_pin_due(job, job->due.most_ms);
        job->lease_until.least_ms = job->lease_until.most_ms;
        if (naive->fault == FAULT_NO_TTL)
            job->first_due.most_ms = job->first_due.least_ms = INT64_MAX / 2;
    }
}

static void tell_watchers(struct naive *naive)
{
    for (size_t i = 0; i < naive->watched_count; i++)
        if (naive->watched[i].count &&
            model_next_ready(&naive->model, slice_of(naive->watched[i].name)))
            naive->watched[i].tell = true;
}

/* What is due happens before anything else does. */
static struct naive *begin(struct queue *queue)
{
    struct naive *naive = naive_of(queue);

    model_advance(&naive->model, clock_inner_ms() + (naive->fault == FAULT_EARLY));
    naive->model.now_ms = clock_inner_ms();
    pin_all(naive);
    return naive;
}

static void end(struct naive *naive, struct queue_reply_to to, const struct queue_reply *reply)
{
    pin_all(naive);
    tell_watchers(naive);
    answer_later(naive, to, reply);
}

static struct queue_result result_of(const struct model_result *from)
{
    return (struct queue_result){.status = from->status,
                                 .state = from->state,
                                 .due_ms = from->has_due ? from->due.most_ms : 0,
                                 .lease_until_ms =
                                     from->has_lease_until ? from->lease_until.most_ms : 0};
}

/* ---- push, answer, change ---- */

static const char *bad_option_of(const struct queue_push *push)
{
    const char *detail = "at";

    queue_check_push(push, SIZE_MAX, &detail);
    return detail;
}

static void naive_push(struct queue *queue, const struct queue_push *pushes, size_t count,
                       struct queue_reply_to to)
{
    struct naive *naive = begin(queue);
    struct queue_result *results = calloc(count + 1, sizeof *results);
    char(*made)[ULID_BYTES] = calloc(count + 1, ULID_BYTES);

    for (size_t i = 0; i < count; i++) {
        struct queue_push push = pushes[i];
        struct model_job *old = model_find(&naive->model, push.topic, push.id);
        uint32_t attempt = old ? old->attempt : 0;
        struct model_result out;

        if (push.id.len == 0) {
            ulid_write(&naive->ulid, clock_wall_ms(), made[i]);
            push.id = slice_make(made[i], ULID_BYTES);
        }
        model_push(&naive->model, &push, false, &out);
        pin_all(naive);
        if (naive->fault == FAULT_ATTEMPTS_KEPT && out.status == QUEUE_REPLACED)
            model_find(&naive->model, push.topic, push.id)->attempt = attempt;
        if (naive->fault == FAULT_BODY_CHANGED && out.status == QUEUE_CREATED && push.body.len > 9)
            model_find(&naive->model, push.topic, push.id)->bytes[push.content_type.len] ^= 1;
        results[i] = result_of(&out);
        results[i].topic = push.topic;
        results[i].id = push.id;
        if (out.status == QUEUE_BAD_OPTION)
            results[i].detail = bad_option_of(&push);
    }
    end(naive, to, &(struct queue_reply){.results = results, .result_count = count});
    free(results);
    free(made);
}

static bool is_spoilt(struct naive *naive, struct queue_answer *answer)
{
    if (answer->verb == QUEUE_NACK && naive->fault == FAULT_NO_ERROR)
        answer->error = slice_of("");
    if (answer->verb == QUEUE_NACK && naive->fault == FAULT_DELAY_LOST && answer->delay_ms > 0)
        answer->delay_ms = 0;
    return answer->verb == QUEUE_ACK && naive->fault == FAULT_ACK_DROPPED && ++naive->acks % 3 == 0;
}

static void naive_answer(struct queue *queue, const struct queue_answer *answers, size_t count,
                         struct queue_reply_to to)
{
    struct naive *naive = begin(queue);
    struct queue_result *results = calloc(count + 1, sizeof *results);
    struct model_result *outs = calloc(count + 1, sizeof *outs);

    for (size_t i = 0; i < count; i++) {
        struct queue_answer answer = answers[i];

        if (is_spoilt(naive, &answer))
            answer = (struct queue_answer){.verb = QUEUE_EXTEND, .lease = answer.lease};
        model_answer(&naive->model, &answer, &outs[i]);
        pin_all(naive);
        if (naive->fault == FAULT_TOTAL_TWICE && answer.verb == QUEUE_ACK && !outs[i].status)
            naive->model.topics[0].totals.acked++;
        if (naive->fault == FAULT_ANY_LEASE && outs[i].status == QUEUE_LEASE_ENDED)
            outs[i].status = QUEUE_OK;
        results[i] = result_of(&outs[i]);
        results[i].id = slice_of(outs[i].id);
        if (outs[i].status == QUEUE_BAD_OPTION)
            results[i].detail = "option";
    }
    end(naive, to, &(struct queue_reply){.results = results, .result_count = count});
    free(results);
    free(outs);
}

static void naive_change(struct queue *queue, const struct queue_change *changes, size_t count,
                         struct queue_reply_to to)
{
    struct naive *naive = begin(queue);
    struct queue_result *results = calloc(count + 1, sizeof *results);

    for (size_t i = 0; i < count; i++) {
        struct model_result out;

        model_change(&naive->model, &changes[i], &out);
        pin_all(naive);
        results[i] = result_of(&out);
        results[i].topic = changes[i].topic;
        results[i].id = changes[i].id;
        if (out.status == QUEUE_BAD_OPTION)
            results[i].detail = "option";
    }
    end(naive, to, &(struct queue_reply){.results = results, .result_count = count});
    free(results);
}

/* ---- take ---- */

static struct queue_job show(const struct model_job *job, bool with_body)
{
    struct queue_job shown = {.job = {.topic = slice_of(job->topic),
                                      .id = slice_of(job->id),
                                      .content_type = job->content_type,
                                      .meta = job->meta,
                                      .error = slice_make(job->error, job->error_bytes),
                                      .state = job->state,
                                      .priority = job->priority,
                                      .attempt = job->attempt,
                                      .due_ms = job->due.most_ms,
                                      .first_due_ms = job->first_due.most_ms,
                                      .sequence = job->sequence,
                                      .delivery = job->delivery,
                                      .policy = job->policy}};

    if (job->state == JOB_LEASED)
        shown.job.lease_until_ms = job->lease_until.most_ms;
    if (with_body)
        shown.job.body = job->body;
    return shown;
}

static struct model_job *next_ready(struct naive *naive, struct slice topic)
{
    struct model_topic *settings = model_find_topic(&naive->model, topic);
    struct model_job *next;
    bool paused = settings && settings->paused;

    if (naive->fault == FAULT_PAUSE_IGNORED && settings)
        settings->paused = false;
    next = model_next_ready(&naive->model, topic);
    if (settings)
        settings->paused = paused;
    if (!next || naive->fault != FAULT_NO_PRIORITY)
        return next;
    for (size_t i = 0; i < naive->model.job_count; i++) {
        struct model_job *job = &naive->model.jobs[i];

        if (slice_is(topic, job->topic) && job->state == JOB_READY &&
            model_listed_before(job, next))
            next = job;
    }
    return next;
}

static void naive_take(struct queue *queue, const struct queue_take *take, struct queue_reply_to to)
{
    struct naive *naive = begin(queue);
    const char *detail;
    struct queue_reply reply = {.status = queue_check_take(take, &detail)};
    struct queue_job *jobs = calloc(QUEUE_TAKE_MAX, sizeof *jobs);

    for (size_t i = 0; i < take->topic_count && !reply.status; i++) {
        struct model_job *job;

        while (reply.job_count < take->max && (job = next_ready(naive, take->topics[i]))) {
            model_lease(&naive->model, job, take->lease_ms);
            job->lease_until.least_ms = job->lease_until.most_ms;
            job->attempt += naive->fault == FAULT_ATTEMPT_TWICE;
            job->delivery = naive->fault == FAULT_DELIVERY_SAME ? 7 : ++naive->deliveries;
            snprintf(job->lease, sizeof job->lease, "L%" PRIu64, ++naive->calls);
            jobs[reply.job_count] = show(job, true);
            jobs[reply.job_count++].lease = slice_of(job->lease);
        }
    }
    reply.jobs = jobs;
    end(naive, to, &reply);
    free(jobs);
}

/* ---- looking ---- */

static void naive_get(struct queue *queue, struct slice topic, struct slice id,
                      struct queue_reply_to to)
{
    struct naive *naive = begin(queue);
    const struct model_job *job = model_find(&naive->model, topic, id);
    struct queue_reply reply = {.status = QUEUE_NOT_FOUND};
    struct queue_job shown;

    if (job) {
        shown = show(job, true);
        reply = (struct queue_reply){.jobs = &shown, .job_count = 1};
    }
    end(naive, to, &reply);
}

static int by_listed(const void *a, const void *b)
{
    return model_listed_before(*(struct model_job *const *)a, *(struct model_job *const *)b) ? -1
                                                                                             : 1;
}

static bool is_past(const struct model_job *job, struct slice cursor)
{
    int64_t due_ms = 0;
    uint64_t sequence = 0;

    if (cursor.len == 0 || sscanf(cursor.at, "%" SCNd64 ":%" SCNu64, &due_ms, &sequence) != 2)
        return true;
    return job->due.most_ms > due_ms || (job->due.most_ms == due_ms && job->sequence > sequence);
}

static void naive_list(struct queue *queue, const struct queue_list *list, struct queue_reply_to to)
{
    struct naive *naive = begin(queue);
    const char *detail;
    struct queue_reply reply = {.status = queue_check_list(list, &detail)};
    struct model_job **found = calloc(naive->model.job_count + 1, sizeof *found);
    struct queue_job *jobs = calloc(QUEUE_LIST_MAX, sizeof *jobs);
    char cursor[64], text[64] = "";
    size_t count = 0;

    if (!reply.status && list->cursor.len < sizeof text)
        snprintf(text, sizeof text, "%.*s", (int)list->cursor.len, list->cursor.at);
    for (size_t i = 0; i < naive->model.job_count && !reply.status; i++) {
        struct model_job *job = &naive->model.jobs[i];

        if (slice_is(list->topic, job->topic) && (!list->state || list->state == job->state) &&
            is_past(job, slice_of(text)))
            found[count++] = job;
    }
    if (count > 1)
        qsort(found, count, sizeof *found, by_listed);
    if (naive->fault == FAULT_LIST_SHORT && count > 2)
        count--;
    for (size_t i = 0; i < count && i < list->limit; i++)
        jobs[reply.job_count++] = show(found[i], list->with_body);
    if (count > reply.job_count) {
        const struct model_job *last = found[reply.job_count - 1];

        snprintf(cursor, sizeof cursor, "%" PRId64 ":%" PRIu64, last->due.most_ms, last->sequence);
        reply.cursor = slice_of(cursor);
    }
    if (!reply.status && !model_find_topic(&naive->model, list->topic))
        reply.status = QUEUE_NOT_FOUND;
    reply.jobs = jobs;
    end(naive, to, &reply);
    free(jobs);
    free(found);
}

/* ---- topics ---- */

static struct queue_topic show_topic(struct naive *naive, const struct model_topic *topic)
{
    struct queue_topic shown = {.name = slice_of(topic->name),
                                .paused = topic->paused,
                                .settings = topic->settings,
                                .counts = model_count(&naive->model, topic->name),
                                .totals = topic->totals};

    for (size_t i = 0; i < naive->model.job_count; i++) {
        const struct model_job *job = &naive->model.jobs[i];

        if (strcmp(job->topic, topic->name) == 0 && job->state == JOB_READY &&
            (!shown.oldest_ready_due_ms || job->due.most_ms < shown.oldest_ready_due_ms))
            shown.oldest_ready_due_ms = job->due.most_ms;
    }
    return shown;
}

static void naive_topic(struct queue *queue, const struct queue_topic_call *call,
                        struct queue_reply_to to)
{
    struct naive *naive = begin(queue);
    struct queue_reply reply = {0};
    struct model_topic *topic;
    struct queue_topic shown;

    reply.status = model_topic_call(&naive->model, call, &reply.affected);
    topic = model_find_topic(&naive->model, call->topic);
    if (topic && queue_status_is_success(reply.status)) {
        shown = show_topic(naive, topic);
        reply.topics = &shown;
        reply.topic_count = 1;
    }
    end(naive, to, &reply);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct model_topic *)a)->name, ((const struct model_topic *)b)->name);
}

static void naive_topics(struct queue *queue, struct queue_reply_to to)
{
    struct naive *naive = begin(queue);
    struct model *model = &naive->model;
    struct queue_topic *topics = calloc(model->topic_count + 1, sizeof *topics);

    if (model->topic_count)
        qsort(model->topics, model->topic_count, sizeof *model->topics, by_name);
    for (size_t i = 0; i < model->topic_count; i++)
        topics[i] = show_topic(naive, &model->topics[i]);
    end(naive, to, &(struct queue_reply){.topics = topics, .topic_count = model->topic_count});
    free(topics);
}

static void naive_watch(struct queue *queue, struct slice topic, bool on)
{
    struct naive *naive = naive_of(queue);
    size_t at = 0;

    while (at < naive->watched_count && !slice_is(topic, naive->watched[at].name))
        at++;
    assert(at < sizeof naive->watched / sizeof naive->watched[0]);
    if (at == naive->watched_count) {
        naive->watched[at] = (struct watched){.count = 0};
        memcpy(naive->watched[at].name, topic.at, topic.len);
        naive->watched_count++;
    }
    assert(on || naive->watched[at].count > 0);
    naive->watched[at].count += on ? 1 : (uint32_t)-1;
    naive->watched[at].tell = on && model_next_ready(&naive->model, topic);
}

static void naive_info(struct queue *queue, struct queue_info *out)
{
    *out = (struct queue_info){.store = "naive",
                               .durability = "nothing survives the process",
                               .sync = "never",
                               .shards = 1,
                               .body_bytes_max = naive_of(queue)->model.body_bytes_max,
                               .healthy = true,
                               .accepting = true};
}

static const struct queue_ops naive_ops = {
    .push = naive_push,
    .take = naive_take,
    .answer = naive_answer,
    .change = naive_change,
    .get = naive_get,
    .list = naive_list,
    .topic = naive_topic,
    .topics = naive_topics,
    .watch = naive_watch,
    .info = naive_info,
};

/* ---- the driver ---- */

static void spoil_at_reopen(struct naive *naive)
{
    struct model *model = &naive->model;

    if (naive->fault == FAULT_JOB_LOST_AT_REOPEN && model->job_count) {
        free(model->jobs[0].bytes);
        model->jobs[0] = model->jobs[--model->job_count];
    }
    for (size_t i = 0; i < model->job_count; i++)
        if (naive->fault == FAULT_LEASES_RENEWED_AT_REOPEN)
            model->jobs[i].lease_until.least_ms = model->jobs[i].lease_until.most_ms =
                clock_inner_ms() + model->jobs[i].lease_ms + 1;
    for (size_t i = 0; i < model->topic_count; i++)
        if (naive->fault == FAULT_PAUSE_LOST_AT_REOPEN)
            model->topics[i].paused = false;
    if (naive->fault == FAULT_IDS_FORGOTTEN_AT_REOPEN)
        model->memory_count = 0;
}

static void *open_with(const struct driver_options *options, enum fault fault)
{
    struct naive *naive = kept;

    kept = NULL;
    if (naive && strcmp(naive->dir, options->dir) != 0) {
        model_fini(&naive->model);
        free(naive);
        naive = NULL;
    }
    if (naive) {
        spoil_at_reopen(naive);
        return naive;
    }
    naive = calloc(1, sizeof *naive);
    assert(naive);
    naive->queue.ops = &naive_ops;
    naive->fault = fault;
    naive->last = &naive->first;
    ulid_init(&naive->ulid, 1);
    snprintf(naive->dir, sizeof naive->dir, "%s", options->dir);
    model_init(&naive->model, clock_inner_ms(), options->body_bytes_max, options->topics_max);
    return naive;
}

static void *naive_open(const struct driver_options *options)
{
    return open_with(options, FAULT_NONE);
}

static struct queue *naive_queue(void *self)
{
    return &((struct naive *)self)->queue;
}

static void naive_pump(void *self)
{
    struct naive *naive = self;
    struct pending *pending = naive->first;

    naive->first = NULL;
    naive->last = &naive->first;
    while (pending) {
        struct pending *next = pending->next;

        pending->to.done(pending->to.owner, pending->to.tag, &pending->outcome.reply);
        outcome_free(&pending->outcome);
        free(pending);
        pending = next;
    }
    for (size_t i = 0; i < naive->watched_count; i++) {
        bool tell = naive->watched[i].tell && naive->watched[i].count;

        naive->watched[i].tell = false;
        if (tell)
            naive->queue.on_ready(naive->queue.on_ready_owner, slice_of(naive->watched[i].name));
    }
}

static void naive_moved(void *self)
{
    tell_watchers(begin(&((struct naive *)self)->queue));
}

static void naive_close(void *self)
{
    struct naive *naive = self;

    naive_pump(self);
    if (kept) {
        model_fini(&kept->model);
        free(kept);
    }
    naive->watched_count = 0;
    kept = naive;
}

const struct driver driver_naive = {
    .name = "naive",
    .shards = 1,
    .open = naive_open,
    .queue = naive_queue,
    .pump = naive_pump,
    .moved = naive_moved,
    .close = naive_close,
};

static enum fault chosen_fault;

static void *faulty_open(const struct driver_options *options)
{
    return open_with(options, chosen_fault);
}

const struct driver *driver_faulty(size_t number, const char **what)
{
    static const struct driver driver = {
        .name = "faulty",
        .shards = 1,
        .open = faulty_open,
        .queue = naive_queue,
        .pump = naive_pump,
        .moved = naive_moved,
        .close = naive_close,
    };

    if (number + 1 >= FAULT_END)
        return NULL;
    chosen_fault = (enum fault)(number + 1);
    *what = fault_texts[chosen_fault];
    return &driver;
}
