#include "world.h"

#include "base/clock.h"
#include "queue/door.h"
#include "queue/status.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#define START_MS 1700000000000LL

static const struct queue_reply nothing;

void world_fail(struct world *world, const char *format, ...)
{
    va_list arguments;

    if (world->fault[0])
        return;
    va_start(arguments, format);
    vsnprintf(world->fault, sizeof world->fault, format, arguments);
    va_end(arguments);
    trace_line(world, "FAULT: %s", world->fault);
}

/* False: go no further. */
static bool is_sound(struct world *world)
{
    if (world->client.fault)
        world_fail(world, "%s", world->client.fault);
    return !world->fault[0];
}

/* Every event of the model is sent, without advancing the clock. More events may be sent. */
static void await_events(struct world *world)
{
    struct model *model = &world->model;

    for (size_t i = 0; i < model->event_count && is_sound(world); i++) {
        const struct model_event *event = &model->events[i];

        if (!client_await_event(&world->client, event->event, event->topic))
            world_fail(world, "no event reported that %s '%s'",
                       event->event == QUEUE_EVENT_DEAD ? "jobs died in topic"
                                                        : "there are other settings in topic",
                       event->topic);
        world->received++;
    }
    model->event_count = 0;
    client_forget_events(&world->client);
}

/* Returns the reply after all events that the call made due, such as the end of a returned job's ttl. */
static const struct queue_reply *looked_at(struct world *world, const struct outcome *kept)
{
    if (is_sound(world)) {
        world->client.driver->moved(world->client.self);
        model_advance(&world->model, clock_inner_ms());
    }
    await_events(world);
    if (is_sound(world) && !world->quick)
        check_everything(world);
    return is_sound(world) ? &kept->reply : &nothing;
}

/* The answer of the call outlives the looking around that follows it. */
static struct outcome last;

static const struct queue_reply *keep(const struct queue_reply *reply)
{
    outcome_free(&last);
    outcome_copy(&last, reply);
    return &last.reply;
}

void world_open(struct world *world, const struct driver *driver, uint32_t topics_max, FILE *trace)
{
    struct driver_options options = {.body_bytes_max = WORLD_BODY_BYTES_MAX,
                                     .topics_max = topics_max};

    clock_fake_start(START_MS, START_MS);
    *world = (struct world){.start_ms = START_MS, .trace = trace};
    model_init(&world->model, START_MS, options.body_bytes_max, topics_max);
    client_open(&world->client, driver, &options);
    is_sound(world);
}

void world_close(struct world *world)
{
    client_close(&world->client);
    model_fini(&world->model);
    outcome_free(&last);
    clock_fake_end();
}

/* ---- push ---- */

static void note_name(struct world *world, struct slice topic, struct slice id)
{
    struct world_name name = {0};

    if (topic.len >= sizeof name.topic || id.len >= sizeof name.id ||
        world->name_count == WORLD_NAMES_MAX)
        return;
    for (size_t i = 0; i < world->name_count; i++)
        if (slice_is(topic, world->names[i].topic) && slice_is(id, world->names[i].id))
            return;
    memcpy(name.topic, topic.at, topic.len);
    memcpy(name.id, id.at, id.len);
    world->names[world->name_count++] = name;
}

/* An id of the queue's own making is only judged by its form and by being new. */
static bool has_good_new_id(struct world *world, const struct queue_result *result)
{
    return job_id_is_valid(result->id) && result->id.len == 26 &&
           !model_find(&world->model, result->topic, result->id);
}

static void check_push(struct world *world, const struct queue_push *push, size_t at,
                       const struct queue_result *result)
{
    struct queue_push named = *push;
    struct model_result expected;
    struct model_job *job;

    if (push->id.len == 0 && queue_status_is_success(result->status)) {
        if (!has_good_new_id(world, result))
            world_fail(world, "push item %zu: the queue made the id '%.*s'", at,
                       (int)result->id.len, result->id.at);
        named.id = result->id;
    }
    if (named.id.len == 0)
        named.id = slice_of("none");
    world->model.shards = world->client.driver->shards;
    world->model.seems_full = result->status == QUEUE_TOPIC_FULL;
    model_push(&world->model, &named, result->status == QUEUE_EXISTED, &expected);
    check_result(world, "push", at, &expected, result);
    if (world->fault[0] || !queue_status_is_success(expected.status))
        return;
    if (!slice_equals(result->topic, named.topic) || !slice_equals(result->id, named.id))
        world_fail(world, "push item %zu: the result names another job", at);
    note_name(world, named.topic, named.id);
    job = model_find(&world->model, named.topic, named.id);
    if (job && expected.has_due)
        model_pin_due(job->next && job->state == JOB_LEASED ? job->next : job, result->due_ms);
}

/* True: as many results as items. */
static bool has_results(struct world *world, const struct queue_reply *reply, size_t count)
{
    if (!is_sound(world))
        return false;
    if (reply->status || reply->result_count != count)
        world_fail(world, "%zu items got status %s and %zu results", count,
                   queue_status_code(reply->status), reply->result_count);
    return !world->fault[0];
}

const struct queue_reply *world_push(struct world *world, const struct queue_push *pushes,
                                     size_t count)
{
    const struct queue_reply *reply;

    if (!is_sound(world))
        return &nothing;
    reply = keep(client_push(&world->client, pushes, count));
    if (!has_results(world, reply, count))
        return &nothing;
    for (size_t i = 0; i < count; i++) {
        trace_push(world, &pushes[i], &reply->results[i]);
        check_push(world, &pushes[i], i, &reply->results[i]);
    }
    return looked_at(world, &last);
}

/* ---- take ---- */

static bool lease_is_new(struct world *world, struct slice lease)
{
    for (size_t i = 0; i < world->lease_count && i < WORLD_LEASES_MAX; i++)
        if (slice_is(lease, world->leases[i]))
            return false;
    return lease.len >= 1 && lease.len <= QUEUE_LEASE_TEXT_BYTES_MAX;
}

static void adopt_lease(struct world *world, struct model_job *job, const struct queue_job *shown,
                        const struct queue_take *take)
{
    char *kept = world->leases[world->lease_count++ % WORLD_LEASES_MAX];

    model_lease(&world->model, job, take->lease_ms, take->consumer);
    if (shown->job.delivery <= job->delivery_floor)
        world_fail(world, "take: delivery number %" PRIu64 " of '%s/%s' follows %" PRIu64,
                   shown->job.delivery, job->topic, job->id, job->delivery_floor);
    job->delivery = job->delivery_floor = shown->job.delivery;
    check_job(world, "take", job, shown, true);
    memset(job->lease, 0, sizeof job->lease);
    memcpy(job->lease, shown->lease.at, shown->lease.len);
    memcpy(kept, job->lease, sizeof job->lease);
}

/* Returns the expected job: with several shards any ready job of the topic will do; with one it must be the next. */
static struct model_job *expected_job(struct world *world, struct slice topic,
                                      const struct queue_job *shown)
{
    struct model_job *job = model_first_ready_of_topic(&world->model, topic);

    if (job && world->client.driver->shards > 1 && shown) {
        job = model_find(&world->model, topic, shown->job.id);
        if (job && !model_is_takeable(&world->model, job))
            job = NULL;
    }
    return job;
}

/* Returns whether the store may serve a job before the best one of another topic, which is equally good. */
static bool may_come_first(struct world *world, struct model_job *job, const struct model_job *best)
{
    return world->client.driver->lacks & DRIVER_LACKS_ORDER_OF_TOPICS &&
           strcmp(job->topic, best->topic) != 0 && job->priority == best->priority &&
           job->due.most_ms == best->due.most_ms &&
           model_first_ready_of_topic(&world->model, slice_of(job->topic)) == job;
}

/* Returns the best job: with several shards any of its priority will do, and of a single one any that is due as early. */
static struct model_job *best_job(struct world *world, const struct queue_take *take,
                                  const struct queue_job *shown)
{
    struct model_job *best =
        model_first_ready_of_topics(&world->model, take->topics, take->topic_count);
    struct model_job *job =
        best && shown ? model_find(&world->model, shown->job.topic, shown->job.id) : NULL;

    if (!job || !model_is_takeable(&world->model, job))
        return best;
    if (may_come_first(world, job, best))
        return job;
    if (world->client.driver->shards == 1 || job->priority != best->priority ||
        (take->max == 1 && job->due.most_ms != best->due.most_ms))
        return best;
    return job;
}

/* False: it is not the one that should come. */
static bool check_taken(struct world *world, const struct queue_take *take, size_t at,
                        struct model_job *job, const struct queue_job *shown)
{
    if (!shown || !slice_is(shown->job.topic, job->topic) || !slice_is(shown->job.id, job->id) ||
        !lease_is_new(world, shown->lease)) {
        world_fail(world, "take: job %zu should be '%s/%s', but is '%.*s/%.*s'", at, job->topic,
                   job->id, shown ? (int)shown->job.topic.len : 0, shown ? shown->job.topic.at : "",
                   shown ? (int)shown->job.id.len : 0, shown ? shown->job.id.at : "");
        return false;
    }
    adopt_lease(world, job, shown, take);
    return !world->fault[0];
}

static void check_best(struct world *world, const struct queue_take *take,
                       const struct queue_reply *reply)
{
    size_t at = 0;

    while (at < take->max &&
           model_first_ready_of_topics(&world->model, take->topics, take->topic_count)) {
        const struct queue_job *shown = at < reply->job_count ? &reply->jobs[at] : NULL;

        if (!check_taken(world, take, at, best_job(world, take, shown), shown))
            return;
        at++;
    }
    if (at != reply->job_count)
        world_fail(world, "take by priority: %zu jobs instead of %zu", reply->job_count, at);
}

static void check_pick(struct world *world, const struct queue_take *take,
                       const struct queue_reply *reply)
{
    struct model_job *job = NULL;
    enum queue_status expected = model_pick(&world->model, take->topics[0], take->id, &job);

    if (reply->status != expected || reply->job_count != (expected == QUEUE_OK))
        world_fail(world, "take of '%.*s': status %s with %zu jobs instead of %s",
                   (int)take->id.len, take->id.at, queue_status_code(reply->status),
                   reply->job_count, queue_status_code(expected));
    else if (job)
        check_taken(world, take, 0, job, &reply->jobs[0]);
}

static void check_take(struct world *world, const struct queue_take *take,
                       const struct queue_reply *reply)
{
    size_t at = 0;

    for (size_t i = 0; i < take->topic_count; i++) {
        while (at < take->max && model_first_ready_of_topic(&world->model, take->topics[i])) {
            const struct queue_job *shown = at < reply->job_count ? &reply->jobs[at] : NULL;
            struct model_job *job = expected_job(world, take->topics[i], shown);

            if (!shown || !job || !slice_equals(shown->job.topic, take->topics[i]) ||
                !slice_is(shown->job.id, job->id) || !lease_is_new(world, shown->lease)) {
                world_fail(world, "take: job %zu should be '%s/%s', but is '%.*s/%.*s'", at,
                           job ? job->topic : "(a ready one)", job ? job->id : "",
                           shown ? (int)shown->job.topic.len : 0, shown ? shown->job.topic.at : "",
                           shown ? (int)shown->job.id.len : 0, shown ? shown->job.id.at : "");
                return;
            }
            adopt_lease(world, job, shown, take);
            if (world->fault[0])
                return;
            at++;
        }
    }
    if (at != reply->job_count)
        world_fail(world, "take: %zu jobs instead of %zu; the next is '%.*s'", reply->job_count, at,
                   (int)reply->jobs[at].job.id.len, reply->jobs[at].job.id.at);
}

const struct queue_reply *world_take(struct world *world, const struct queue_take *take)
{
    const struct queue_reply *reply;
    const char *detail;
    enum queue_status expected = queue_check_take(take, &detail);

    if (!is_sound(world))
        return &nothing;
    reply = keep(client_take(&world->client, take));
    if (!is_sound(world))
        return &nothing;
    trace_take(world, take, reply);
    if (!expected && take->id.len)
        check_pick(world, take, reply);
    else if (reply->status != expected)
        world_fail(world, "take: status %s instead of %s", queue_status_code(reply->status),
                   queue_status_code(expected));
    else if (!expected && take->by_priority)
        check_best(world, take, reply);
    else if (!expected)
        check_take(world, take, reply);
    return looked_at(world, &last);
}

/* ---- answer, change ---- */

static void check_answer(struct world *world, const struct queue_answer *answer, size_t at,
                         const struct queue_result *result)
{
    struct model_result expected;
    struct model_job *job = NULL;

    model_answer(&world->model, answer, &expected);
    check_result(world, "answer", at, &expected, result);
    if (world->fault[0] || !queue_status_is_success(expected.status))
        return;
    if (result->id.len && !slice_is(result->id, expected.id))
        world_fail(world, "answer item %zu: the result names '%.*s' instead of '%s'", at,
                   (int)result->id.len, result->id.at, expected.id);
    for (size_t i = 0; i < world->model.job_count; i++)
        if (slice_is(answer->lease, world->model.jobs[i].lease))
            job = &world->model.jobs[i];
    if (job && expected.has_due)
        model_pin_due(job, result->due_ms);
    if (job && expected.has_lease_until)
        job->lease_until = (struct span){result->lease_until_ms, result->lease_until_ms};
}

const struct queue_reply *world_answer(struct world *world, const struct queue_answer *answers,
                                       size_t count)
{
    const struct queue_reply *reply;

    if (!is_sound(world))
        return &nothing;
    reply = keep(client_answer(&world->client, answers, count));
    if (!has_results(world, reply, count))
        return &nothing;
    for (size_t i = 0; i < count; i++) {
        trace_answer(world, &answers[i], &reply->results[i]);
        check_answer(world, &answers[i], i, &reply->results[i]);
    }
    return looked_at(world, &last);
}

static void check_change(struct world *world, const struct queue_change *change, size_t at,
                         const struct queue_result *result)
{
    struct model_result expected;
    struct model_job *job;

    model_change(&world->model, change, &expected);
    check_result(world, "change", at, &expected, result);
    job = model_find(&world->model, change->topic, change->id);
    if (!world->fault[0] && job && expected.has_due)
        model_pin_due(job, result->due_ms);
}

const struct queue_reply *world_change(struct world *world, const struct queue_change *changes,
                                       size_t count)
{
    const struct queue_reply *reply;

    if (!is_sound(world))
        return &nothing;
    reply = keep(client_change(&world->client, changes, count));
    if (!has_results(world, reply, count))
        return &nothing;
    for (size_t i = 0; i < count; i++) {
        trace_change(world, &changes[i], &reply->results[i]);
        check_change(world, &changes[i], i, &reply->results[i]);
    }
    return looked_at(world, &last);
}

const struct queue_reply *world_find(struct world *world, const struct queue_find *finds,
                                     size_t count)
{
    const struct queue_reply *reply;

    if (!is_sound(world))
        return &nothing;
    reply = keep(client_find(&world->client, finds, count));
    if (!has_results(world, reply, count))
        return &nothing;
    for (size_t i = 0; i < count; i++) {
        const struct queue_result *result = &reply->results[i];
        struct model_result expected;

        model_look(&world->model, &finds[i], &expected);
        check_result(world, "find", i, &expected, result);
        if (!slice_equals(result->topic, finds[i].topic) || !slice_equals(result->id, finds[i].id))
            world_fail(world, "find item %zu: the result names another job", i);
    }
    return looked_at(world, &last);
}

/* ---- topics ---- */

static bool is_partial_redrive(struct world *world, const struct queue_topic_call *call)
{
    if (call->verb != QUEUE_TOPIC_REDRIVE || call->max == 0 || call->id.len)
        return false;
    for (size_t i = 0; i < world->model.topic_count; i++)
        if (slice_is(call->topic, world->model.topics[i].name))
            return model_count(&world->model, world->model.topics[i].name).dead > call->max;
    return false;
}

/* Follows a partial redrive: the queue chooses which of the dead go first, so check which ones went. */
static void follow_partial_redrive(struct world *world, const struct queue_topic_call *call,
                                   const struct queue_reply *reply)
{
    uint64_t redriven = 0;

    for (size_t i = 0; i < world->model.job_count && is_sound(world); i++) {
        struct model_job *job = &world->model.jobs[i];
        const struct queue_reply *got;

        if (!slice_is(call->topic, job->topic) || job->state != JOB_DEAD)
            continue;
        got = client_get(&world->client, slice_of(job->topic), slice_of(job->id));
        if (got->job_count == 1 && got->jobs[0].job.state == JOB_READY) {
            model_redrive(&world->model, job);
            redriven++;
        }
    }
    if (reply->status || reply->affected != call->max || redriven != call->max)
        world_fail(world,
                   "redrive: %" PRIu64 " affected and %" PRIu64 " redriven, of at most %" PRIu64,
                   reply->affected, redriven, call->max);
}

static void check_topic_call(struct world *world, const struct queue_topic_call *call,
                             const struct queue_reply *reply)
{
    uint64_t affected;
    enum queue_status expected;

    if (is_partial_redrive(world, call)) {
        follow_partial_redrive(world, call, reply);
        return;
    }
    expected = model_topic_call(&world->model, call, &affected);
    if (reply->status != expected)
        world_fail(world, "topic call: status %s instead of %s", queue_status_code(reply->status),
                   queue_status_code(expected));
    else if (reply->affected != affected)
        world_fail(world, "topic call: %" PRIu64 " affected instead of %" PRIu64, reply->affected,
                   affected);
}

const struct queue_reply *world_topic(struct world *world, const struct queue_topic_call *call)
{
    const struct queue_reply *reply;

    if (!is_sound(world))
        return &nothing;
    reply = keep(client_topic(&world->client, call));
    if (!is_sound(world))
        return &nothing;
    trace_topic(world, call, reply);
    check_topic_call(world, call, reply);
    return looked_at(world, &last);
}

/* ---- looking, time, restarts ---- */

void world_list(struct world *world, const struct queue_list *list)
{
    if (!is_sound(world))
        return;
    trace_line(world, "list %.*s state=%d limit=%u", (int)list->topic.len, list->topic.at,
               (int)list->state, list->limit);
    check_list(world, list);
}

void world_advance(struct world *world, int64_t ms)
{
    if (!is_sound(world))
        return;
    trace_line(world, "%" PRId64 " ms pass", ms);
    /* Calls in progress end first: a call is carried out as of when it was sent. */
    const struct driver *driver = world->client.driver;
    driver->moved(world->client.self);
    int64_t until_ms = clock_inner_ms() + ms;
    while (driver->next_ms && is_sound(world)) {
        int64_t next_ms = driver->next_ms(world->client.self), now_ms = clock_inner_ms();
        if (next_ms >= until_ms)
            break;
        clock_fake_advance(next_ms > now_ms ? next_ms - now_ms : 1);
        looked_at(world, &last);
    }
    clock_fake_advance(until_ms - clock_inner_ms());
    looked_at(world, &last);
}

void world_reopen(struct world *world)
{
    if (!is_sound(world))
        return;
    trace_line(world, "restart");
    client_begin(&world->client);
    client_reopen(&world->client);
    model_restart(&world->model);
    looked_at(world, &last);
}
