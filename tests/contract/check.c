/* Comparing what the queue shows with what the model holds. */
#include "queue/door.h"

#include "queue/status.h"
#include "world.h"

#include <inttypes.h>
#include <stdlib.h>

static int64_t shown_ms(const struct world *world, int64_t ms)
{
    return ms ? ms - world->start_ms : 0;
}

void check_result(struct world *world, const char *what, size_t at,
                  const struct model_result *expected, const struct queue_result *result)
{
    if (result->status != expected->status)
        world_fail(world, "%s item %zu: status %s instead of %s", what, at,
                   queue_status_code(result->status), queue_status_code(expected->status));
    else if (expected->state && result->state != expected->state)
        world_fail(world, "%s item %zu: state %d instead of %s", what, at, (int)result->state,
                   job_state_name(expected->state));
    else if (expected->has_due && !span_holds(expected->due, result->due_ms))
        world_fail(world, "%s item %zu: due %+" PRId64 " instead of %+" PRId64 "..%+" PRId64, what,
                   at, shown_ms(world, result->due_ms), shown_ms(world, expected->due.least_ms),
                   shown_ms(world, expected->due.most_ms));
    else if (expected->has_lease_until &&
             !span_holds(expected->lease_until, result->lease_until_ms))
        world_fail(world, "%s item %zu: lease until %+" PRId64 " instead of %+" PRId64, what, at,
                   shown_ms(world, result->lease_until_ms),
                   shown_ms(world, expected->lease_until.most_ms));
    else if (result->cancel_requested != expected->cancel_requested)
        world_fail(world, "%s item %zu: a request to cancel is %sreported", what, at,
                   result->cancel_requested ? "" : "not ");
    else if (expected->status == QUEUE_BAD_OPTION && !result->detail)
        world_fail(world, "%s item %zu: the bad option is not named", what, at);
}

/* ---- a job ---- */

static const char *differing_bytes(const struct model_job *job, const struct job *shown,
                                   bool with_body)
{
    if (!slice_is(shown->topic, job->topic) || !slice_is(shown->id, job->id))
        return "name";
    if (!slice_equals(shown->content_type, job->content_type))
        return "content type";
    if (!slice_equals(shown->meta, job->meta))
        return "meta";
    if (with_body ? !slice_equals(shown->body, job->body) : shown->body.len != 0)
        return "body";
    if (!slice_equals(shown->error, slice_make(job->error, job->error_bytes)))
        return "error";
    return NULL;
}

static bool policy_equals(const struct policy *a, const struct policy *b)
{
    return a->lease_ms == b->lease_ms && a->ttl_ms == b->ttl_ms &&
           a->max_attempts == b->max_attempts && policy_backoff_equal(&a->backoff, &b->backoff);
}

static void check_number(struct world *world, const char *where, const struct model_job *job,
                         const char *field, int64_t is, int64_t should)
{
    if (is != should)
        world_fail(world, "%s: '%s/%s' has %s %" PRId64 " instead of %" PRId64, where, job->topic,
                   job->id, field, is, should);
}

static void check_span(struct world *world, const char *where, const struct model_job *job,
                       const char *field, int64_t is_ms, struct span should)
{
    if (!span_holds(should, is_ms))
        world_fail(world, "%s: '%s/%s' has %s %+" PRId64 " instead of %+" PRId64 "..%+" PRId64,
                   where, job->topic, job->id, field, shown_ms(world, is_ms),
                   shown_ms(world, should.least_ms), shown_ms(world, should.most_ms));
}

static void check_attempt(struct world *world, const char *where, const struct model_job *job,
                          const struct model_attempt *should, const struct job_attempt *is)
{
    check_number(world, where, job, "a number in its history", is->attempt, should->attempt);
    check_number(world, where, job, "an outcome in its history", is->outcome, should->outcome);
    check_number(world, where, job, "a start in its history", shown_ms(world, is->started_ms),
                 shown_ms(world, should->started_ms));
    if (!span_holds(should->duration, is->duration_ms))
        world_fail(world, "%s: '%s/%s' has a duration of %" PRId64 " instead of %" PRId64, where,
                   job->topic, job->id, is->duration_ms, should->duration.most_ms);
    if (!slice_equals(is->error, slice_make(should->error, should->error_bytes)))
        world_fail(world, "%s: '%s/%s' has another error in its history: '%.*s'", where, job->topic,
                   job->id, (int)is->error.len, is->error.at);
}

static void check_history(struct world *world, const char *where, const struct model_job *job,
                          struct slice history)
{
    struct job_attempt is;
    size_t at = 0, count = 0;

    for (; job_history_next(history, &at, &is); count++)
        if (count < job->history_count)
            check_attempt(world, where, job, &job->history[count], &is);
    check_number(world, where, job, "attempts in its history", (int64_t)count,
                 (int64_t)job->history_count);
    if (at != history.len)
        world_fail(world, "%s: '%s/%s' has a history that cannot be read", where, job->topic,
                   job->id);
}

void check_job(struct world *world, const char *where, struct model_job *job,
               const struct queue_job *shown, bool with_body)
{
    const struct job *is = &shown->job;
    const char *differs = differing_bytes(job, is, with_body);

    check_number(world, where, job, "state", is->state, job->state);
    if (differs)
        world_fail(world, "%s: '%s/%s' has another %s", where, job->topic, job->id, differs);
    check_number(world, where, job, "attempt", is->attempt, job->attempt);
    check_number(world, where, job, "priority", is->priority, job->priority);
    if (!policy_equals(&is->policy, &job->policy))
        world_fail(world, "%s: '%s/%s' has another policy", where, job->topic, job->id);
    if (job->state != JOB_DEAD)
        check_span(world, where, job, "due", is->due_ms, job->due);
    if (job->state == JOB_LEASED)
        check_span(world, where, job, "the lease's end", is->lease_until_ms, job->lease_until);
    else
        check_number(world, where, job, "the lease's end", is->lease_until_ms, 0);
    if (!slice_is(is->consumer, job->state == JOB_LEASED ? job->consumer : ""))
        world_fail(world, "%s: '%s/%s' is with '%.*s'", where, job->topic, job->id,
                   (int)is->consumer.len, is->consumer.at);
    check_number(world, where, job, "a request to cancel", is->cancel_requested,
                 job->state == JOB_LEASED && job->cancel_requested);
    if (world->client.driver->lacks & DRIVER_HIDES_NEXT)
        check_number(world, where, job, "the due of a successor", is->next_due_ms, 0);
    else if (job->next && strcmp(where, "get") == 0)
        check_span(world, where, job, "the due of its successor", is->next_due_ms, job->next->due);
    else if (!job->next)
        check_number(world, where, job, "the due of a successor", is->next_due_ms, 0);
    if (strcmp(where, "take") != 0)
        check_number(world, where, job, "delivery", (int64_t)is->delivery, (int64_t)job->delivery);
    check_history(world, where, job, is->history);
    if (world->fault[0])
        return;
    if (job->state != JOB_DEAD)
        model_pin_due(job, is->due_ms);
    job->lease_until = (struct span){is->lease_until_ms, is->lease_until_ms};
}

/* ---- a topic ---- */

static bool settings_equal(const struct topic_settings *a, const struct topic_settings *b)
{
    return policy_equals(&a->policy, &b->policy) && a->on_conflict == b->on_conflict &&
           a->has_priority == b->has_priority && (!a->has_priority || a->priority == b->priority) &&
           a->dead_letter_expired == b->dead_letter_expired &&
           a->dedup_window_ms == b->dedup_window_ms && a->max_jobs == b->max_jobs &&
           a->keep_finished_ms == b->keep_finished_ms &&
           a->keep_finished_max == b->keep_finished_max &&
           a->keep_finished_bytes == b->keep_finished_bytes && a->keep_body == b->keep_body &&
           frequency_equal(a->push_rate, b->push_rate) && slice_equals(a->extension, b->extension);
}

static void check_figure(struct world *world, const char *topic, const char *field, uint64_t is,
                         uint64_t should)
{
    if (is != should)
        world_fail(world, "topic '%s' has %s %" PRIu64 " instead of %" PRIu64, topic, field, is,
                   should);
}

static void check_sum(struct world *world, const struct queue_topic *is, const char *name)
{
    const struct queue_counts *counts = &is->counts;
    const struct topic_totals *totals = &is->totals;

    check_figure(world, name, "a sum of counts",
                 counts->delayed + counts->retrying + counts->ready + counts->leased +
                     counts->dead + totals->acked + totals->cancelled + totals->expired,
                 totals->pushed);
}

static bool is_due_of_a_ready_one(struct world *world, const char *topic, int64_t due_ms)
{
    for (size_t i = 0; i < world->model.job_count; i++) {
        const struct model_job *job = &world->model.jobs[i];

        if (strcmp(job->topic, topic) == 0 && job->state == JOB_READY &&
            span_holds(job->due, due_ms))
            return true;
    }
    return false;
}

/* Checks the topic, and pins the values that the model left open. */
static void check_topic(struct world *world, struct model_topic *topic,
                        const struct queue_topic *is)
{
    struct queue_counts counts = model_count(&world->model, topic->name);
    const struct topic_totals *totals = &topic->totals;
    const char *name = topic->name;

    if (!slice_is(is->name, name))
        world_fail(world, "topic '%s' is shown as '%.*s'", name, (int)is->name.len, is->name.at);
    if (is->paused != topic->paused)
        world_fail(world, "topic '%s' is %spaused", name, is->paused ? "" : "not ");
    if (!span_holds(topic->paused_until, is->paused_until_ms))
        world_fail(world, "topic '%s' is paused until %+" PRId64 " instead of %+" PRId64, name,
                   shown_ms(world, is->paused_until_ms),
                   shown_ms(world, topic->paused_until.most_ms));
    if (!settings_equal(&is->settings, &topic->settings))
        world_fail(world, "topic '%s' has other settings", name);
    check_figure(world, name, "delayed", is->counts.delayed, counts.delayed);
    check_figure(world, name, "retrying", is->counts.retrying, counts.retrying);
    check_figure(world, name, "ready", is->counts.ready, counts.ready);
    check_figure(world, name, "leased", is->counts.leased, counts.leased);
    check_figure(world, name, "dead", is->counts.dead, counts.dead);
    if (counts.dead ? is->counts.dead_bytes <= counts.dead_bytes : is->counts.dead_bytes != 0)
        world_fail(world,
                   "topic '%s' has %" PRIu64 " bytes of dead jobs; there are %" PRIu64
                   ", with bodies of %" PRIu64,
                   name, is->counts.dead_bytes, counts.dead, counts.dead_bytes);
    check_figure(world, name, "pushed", is->totals.pushed, totals->pushed);
    check_figure(world, name, "acked", is->totals.acked, totals->acked);
    check_figure(world, name, "cancelled", is->totals.cancelled, totals->cancelled);
    check_figure(world, name, "expired", is->totals.expired, totals->expired);
    check_figure(world, name, "replaced", is->totals.replaced, totals->replaced);
    check_figure(world, name, "delivered", is->totals.delivered, totals->delivered);
    check_figure(world, name, "nacked", is->totals.nacked, totals->nacked);
    check_figure(world, name, "lease_ended", is->totals.lease_ended, totals->lease_ended);
    check_figure(world, name, "died", is->totals.died, totals->died);
    check_figure(world, name, "redriven", is->totals.redriven, totals->redriven);
    check_sum(world, is, name);
    if (counts.ready == 0 ? is->oldest_ready_due_ms != 0
                          : !is_due_of_a_ready_one(world, name, is->oldest_ready_due_ms))
        world_fail(world, "topic '%s' says the oldest ready job was due at %+" PRId64, name,
                   shown_ms(world, is->oldest_ready_due_ms));
    topic->paused_until = (struct span){is->paused_until_ms, is->paused_until_ms};
}

static void check_topics(struct world *world, const struct queue_reply *reply)
{
    if (reply->status || reply->topic_count != world->model.topic_count) {
        world_fail(world, "topics: status %s with %zu topics instead of %zu",
                   queue_status_code(reply->status), reply->topic_count, world->model.topic_count);
        return;
    }
    for (size_t i = 0; i < reply->topic_count; i++) {
        const struct queue_topic *is = &reply->topics[i];
        struct model_topic *topic = model_find_topic(&world->model, is->name);

        if (!topic)
            world_fail(world, "topics: '%.*s' does not exist", (int)is->name.len, is->name.at);
        else
            check_topic(world, topic, is);
        if (i > 0 && strcmp(reply->topics[i - 1].name.at, is->name.at) >= 0)
            world_fail(world, "topics: not in the order of their names");
    }
}

/* ---- everything ---- */

static void check_get(struct world *world, const struct world_name *name,
                      const struct queue_reply *reply)
{
    struct model_job *job = model_find(&world->model, slice_of(name->topic), slice_of(name->id));

    if (!job && (reply->status != QUEUE_NOT_FOUND || reply->job_count))
        world_fail(world, "get: '%s/%s' should be gone, status %s, state %d", name->topic, name->id,
                   queue_status_code(reply->status),
                   reply->job_count ? (int)reply->jobs[0].job.state : 0);
    else if (job && (reply->status || reply->job_count != 1))
        world_fail(world, "get: '%s/%s' should be %s, but is %s", name->topic, name->id,
                   job_state_name(job->state), queue_status_code(reply->status));
    else if (job)
        check_job(world, "get", job, &reply->jobs[0], true);
}

static void check_topic_get(struct world *world, const struct queue_reply *reply,
                            struct model_topic *topic)
{
    if (reply->status || reply->topic_count != 1)
        world_fail(world, "topic '%s': status %s", topic->name, queue_status_code(reply->status));
    else
        check_topic(world, topic, &reply->topics[0]);
}

static struct queue_forecast_call forecast_call(const struct world *world, const char *topic)
{
    return (struct queue_forecast_call){
        .topic = slice_of(topic), .from_ms = world->model.now_ms - world->model.now_ms % 60000};
}

/* Stores may count jobs that were far off when they were pushed by less than their topic. */
static bool is_far_from_start(const struct world *world)
{
    return world->model.now_ms - world->start_ms > 11 * 24 * INT64_C(3600000);
}

/* Checks a forecast. Each job's due time is pinned by now. Estimates of a store must at least add up. */
static void check_forecast(struct world *world, const struct queue_reply *reply, const char *topic)
{
    struct queue_forecast_call call = forecast_call(world, topic);
    struct queue_forecast should = {0};
    const struct queue_forecast *is = reply->forecast;
    uint64_t sum_is = 0, sum_should = 0;

    if (model_forecast(&world->model, &call, &should) != reply->status || !is) {
        world_fail(world, "forecast of '%s': status %s", topic, queue_status_code(reply->status));
        return;
    }
    for (size_t i = 0; i < FORECAST_HOURS; i++) {
        sum_is += is->hours[i];
        sum_should += should.hours[i];
        if (is->hours[i] != should.hours[i] && !is->estimated)
            world_fail(world, "forecast of '%s': %" PRIu64 " in hour %zu instead of %" PRIu64,
                       topic, is->hours[i], i, should.hours[i]);
    }
    for (size_t i = 0; i < FORECAST_MINUTES; i++)
        if (is->minutes[i] != should.minutes[i] && !is->estimated)
            world_fail(world, "forecast of '%s': %" PRIu64 " in minute %zu instead of %" PRIu64,
                       topic, is->minutes[i], i, should.minutes[i]);
    check_figure(world, topic, "a forecast of", sum_is + is->later, sum_should + should.later);
    check_figure(world, topic, "overdue", is->overdue, should.overdue);
    check_figure(world, topic, "a forecast from", (uint64_t)is->from_ms, (uint64_t)call.from_ms);
    if (is->estimated && world->client.driver->forecasts_exactly && !is_far_from_start(world))
        world_fail(world, "forecast of '%s': estimated", topic);
}

static void ask_forecast(struct world *world, const char *topic)
{
    struct queue_forecast_call call = forecast_call(world, topic);

    queue_forecast(world->client.queue, &call, client_add(&world->client));
    client_sent(&world->client);
}

void check_everything(struct world *world)
{
    struct client *client = &world->client;
    struct queue *queue = client->queue;
    size_t topics_at = world->name_count, at = 0;

    client_begin(client);
    for (size_t i = 0; i < world->name_count; i++) {
        const struct world_name *name = &world->names[i];

        queue_get(queue, slice_of(name->topic), slice_of(name->id), client_add(client));
        client_sent(client);
    }
    for (size_t i = 0; i < world->model.topic_count; i++) {
        struct queue_topic_call call = {.verb = QUEUE_TOPIC_GET,
                                        .topic = slice_of(world->model.topics[i].name)};

        queue_topic(queue, &call, client_add(client));
        client_sent(client);
    }
    queue_topics(queue, client_add(client));
    client_sent(client);
    ask_forecast(world, "");
    for (size_t i = 0; i < world->model.topic_count; i++)
        ask_forecast(world, world->model.topics[i].name);
    client_wait(client);
    if (client->fault) {
        world_fail(world, "%s", client->fault);
        return;
    }
    for (at = 0; at < topics_at; at++)
        check_get(world, &world->names[at], &client->calls[at].outcome.reply);
    for (; at < topics_at + world->model.topic_count; at++)
        check_topic_get(world, &client->calls[at].outcome.reply,
                        &world->model.topics[at - topics_at]);
    check_topics(world, &client->calls[at++].outcome.reply);
    check_forecast(world, &client->calls[at++].outcome.reply, "");
    for (size_t i = 0; i < world->model.topic_count; i++)
        check_forecast(world, &client->calls[at++].outcome.reply, world->model.topics[i].name);
}

/* ---- list ---- */

struct listing {
    struct model_job **jobs; /* that should be there, in their order */
    size_t count, at;
};

static int by_listed(const void *a, const void *b)
{
    return model_listed_before(*(struct model_job *const *)a, *(struct model_job *const *)b) ? -1
                                                                                             : 1;
}

static struct listing expect_listing(struct world *world, const struct queue_list *list)
{
    struct listing listing = {.jobs = calloc(world->model.job_count + 1, sizeof *listing.jobs)};

    for (size_t i = 0; i < world->model.job_count; i++) {
        struct model_job *job = &world->model.jobs[i];

        if (slice_is(list->topic, job->topic) && (!list->state || list->state == job->state))
            listing.jobs[listing.count++] = job;
    }
    if (listing.count > 1)
        qsort(listing.jobs, listing.count, sizeof *listing.jobs, by_listed);
    return listing;
}

/* Checks a list. With several shards the push order only holds within a shard: then any job with the same due time is accepted. */
static void check_listed(struct world *world, const struct queue_list *list,
                         struct listing *listing, const struct queue_job *shown)
{
    size_t pick = listing->at;
    struct model_job *job;

    if (listing->at == listing->count) {
        world_fail(world, "list: '%.*s' is one too many", (int)shown->job.id.len, shown->job.id.at);
        return;
    }
    while (world->client.driver->shards > 1 && pick + 1 < listing->count &&
           !slice_is(shown->job.id, listing->jobs[pick]->id) &&
           listing->jobs[pick + 1]->due.most_ms == listing->jobs[pick]->due.most_ms)
        pick++;
    job = listing->jobs[pick];
    listing->jobs[pick] = listing->jobs[listing->at];
    listing->jobs[listing->at++] = job;
    if (!slice_is(shown->job.id, job->id))
        world_fail(world, "list: '%.*s' where '%s' should be", (int)shown->job.id.len,
                   shown->job.id.at, job->id);
    else
        check_job(world, "list", job, shown, list->with_body);
}

void check_list(struct world *world, const struct queue_list *list)
{
    const char *detail;
    struct queue_list page = *list;
    enum queue_status expected = queue_check_list(list, &detail);
    struct listing listing = expect_listing(world, list);
    struct outcome kept = {0};

    if (!expected && !model_find_topic(&world->model, list->topic))
        expected = QUEUE_NOT_FOUND;
    do {
        const struct queue_reply *reply = client_list(&world->client, &page);

        outcome_free(&kept);
        if (world->client.fault)
            break;
        outcome_copy(&kept, reply);
        page.cursor = kept.reply.cursor;
        if (reply->status != expected || reply->job_count > list->limit)
            world_fail(world, "list: status %s with %zu jobs, limit %u",
                       queue_status_code(reply->status), reply->job_count, list->limit);
        if (page.cursor.len && reply->job_count == 0)
            world_fail(world, "list: an empty page with a cursor");
        for (size_t i = 0; i < reply->job_count && !world->fault[0]; i++)
            check_listed(world, list, &listing, &reply->jobs[i]);
    } while (page.cursor.len && !world->fault[0]);
    if (!world->client.fault && !expected && listing.at != listing.count)
        world_fail(world, "list: ended with %zu jobs instead of %zu", listing.at, listing.count);
    outcome_free(&kept);
    free(listing.jobs);
}
