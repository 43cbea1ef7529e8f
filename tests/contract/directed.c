#include "directed.h"

#include "base/clock.h"

#include <stdlib.h>

struct world *w;
static const struct driver *chosen;
static uint64_t last_affected;
const char *claim_topic = "t";

void directed_choose(const struct driver *driver)
{
    chosen = driver;
}

int directed_begin(void **state)
{
    (void)state;
    claim_topic = "t";
    w = calloc(1, sizeof *w);
    if (!w)
        return -1;
    world_open(w, chosen, 16, getenv("TARRY_TEST_TRACE") ? stderr : NULL);
    return w->fault[0] ? -1 : 0;
}

int directed_end(void **state)
{
    (void)state;
    world_close(w);
    free(w);
    w = NULL;
    return 0;
}

static void stop_at_a_fault(void)
{
    if (w->fault[0])
        fail_msg("%s", w->fault);
}

/* ---- pushes ---- */

struct queue_push a_push(const char *id)
{
    static char bodies[64][64];
    static size_t next;
    char *body = bodies[next++ % 64];

    snprintf(body, sizeof bodies[0], "body of %s", id);
    return (struct queue_push){.topic = slice_of(claim_topic),
                               .id = slice_of(id),
                               .body = slice_of(body),
                               .when.due = QUEUE_DUE_NOW,
                               .priority = QUEUE_PRIORITY_UNSET};
}

struct queue_push a_push_in(const char *id, int64_t delay_ms)
{
    struct queue_push push = a_push(id);

    push.when = (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = delay_ms};
    return push;
}

enum queue_status push(struct queue_push push)
{
    const struct queue_reply *reply = world_push(w, &push, 1);

    stop_at_a_fault();
    return reply->results[0].status;
}

/* ---- taking ---- */

struct slice take_as(const char *id, const char *consumer, int64_t lease_ms)
{
    static char leases[16][QUEUE_LEASE_TEXT_BYTES_MAX + 1];
    static size_t next;
    char *lease = leases[next++ % 16];
    struct slice topic = slice_of(claim_topic);
    struct queue_take call = {.topics = &topic,
                              .topic_count = 1,
                              .max = 1,
                              .lease_ms = lease_ms,
                              .consumer = slice_of(consumer)};
    const struct queue_reply *reply = world_take(w, &call);

    stop_at_a_fault();
    if (!id[0]) {
        assert_int_equal(reply->job_count, 0);
        return slice_of("");
    }
    assert_int_equal(reply->job_count, 1);
    assert_true(slice_is(reply->jobs[0].job.id, id));
    memcpy(lease, reply->jobs[0].lease.at, reply->jobs[0].lease.len);
    return slice_make(lease, reply->jobs[0].lease.len);
}

struct slice take_for(const char *id, int64_t lease_ms)
{
    return take_as(id, "", lease_ms);
}

struct slice take(const char *id)
{
    return take_for(id, 0);
}

size_t take_many(const char *topic, uint32_t max)
{
    struct slice name = slice_of(topic);
    struct queue_take call = {.topics = &name, .topic_count = 1, .max = max};
    const struct queue_reply *reply = world_take(w, &call);

    stop_at_a_fault();
    return reply->job_count;
}

/* ---- answers and changes ---- */

static bool asked_to_cancel;

bool is_asked_to_cancel(void)
{
    return asked_to_cancel;
}

static enum queue_status answer(struct queue_answer answer)
{
    const struct queue_reply *reply = world_answer(w, &answer, 1);

    stop_at_a_fault();
    asked_to_cancel = reply->results[0].cancel_requested;
    return reply->results[0].status;
}

enum queue_status ack(struct slice lease)
{
    return answer((struct queue_answer){.verb = QUEUE_ACK, .lease = lease});
}

enum queue_status nack(struct slice lease, int64_t delay_ms, const char *error)
{
    return answer((struct queue_answer){
        .verb = QUEUE_NACK, .lease = lease, .delay_ms = delay_ms, .error = slice_of(error)});
}

enum queue_status extend(struct slice lease, int64_t lease_ms)
{
    return answer(
        (struct queue_answer){.verb = QUEUE_EXTEND, .lease = lease, .lease_ms = lease_ms});
}

enum queue_status give_back(struct slice lease)
{
    return answer((struct queue_answer){.verb = QUEUE_RETURN, .lease = lease});
}

enum queue_status refuse(struct slice lease, const char *error)
{
    return answer((struct queue_answer){.verb = QUEUE_NACK,
                                        .lease = lease,
                                        .delay_ms = -1,
                                        .final = true,
                                        .error = slice_of(error)});
}

enum queue_status give_back_for(struct slice lease, int64_t delay_ms)
{
    return answer(
        (struct queue_answer){.verb = QUEUE_RETURN, .lease = lease, .delay_ms = delay_ms});
}

enum queue_status again(struct slice lease, struct queue_again again)
{
    return answer((struct queue_answer){.verb = QUEUE_AGAIN, .lease = lease, .again = &again});
}

enum queue_status again_in(struct slice lease, int64_t delay_ms)
{
    return again(lease, (struct queue_again){.when = {.due = QUEUE_DUE_DELAY, .ms = delay_ms},
                                             .priority = QUEUE_PRIORITY_UNSET});
}

static enum queue_status change_by(struct queue_change change)
{
    const struct queue_reply *reply = world_change(w, &change, 1);

    stop_at_a_fault();
    return reply->results[0].status;
}

static enum queue_status change(enum queue_change_verb verb, const char *id, struct queue_when when)
{
    return change_by((struct queue_change){.verb = verb,
                                           .topic = slice_of(claim_topic),
                                           .id = slice_of(id),
                                           .when = when,
                                           .priority = QUEUE_PRIORITY_UNSET});
}

enum queue_status cancel_dead(const char *id, uint64_t delivery)
{
    return change_by((struct queue_change){.verb = QUEUE_CANCEL,
                                           .topic = slice_of(claim_topic),
                                           .id = slice_of(id),
                                           .priority = QUEUE_PRIORITY_UNSET,
                                           .only_dead = true,
                                           .delivery = delivery});
}

enum queue_status cancel_by(const char *id, struct slice lease)
{
    return change_by((struct queue_change){.verb = QUEUE_CANCEL,
                                           .topic = slice_of(claim_topic),
                                           .id = slice_of(id),
                                           .priority = QUEUE_PRIORITY_UNSET,
                                           .lease = lease});
}

enum queue_status cancel(const char *id)
{
    return change(QUEUE_CANCEL, id, (struct queue_when){0});
}

enum queue_status request_cancel(const char *id)
{
    return change_by((struct queue_change){.verb = QUEUE_CANCEL,
                                           .topic = slice_of(claim_topic),
                                           .id = slice_of(id),
                                           .priority = QUEUE_PRIORITY_UNSET,
                                           .request = true});
}

enum queue_status run(const char *id)
{
    return change(QUEUE_RUN, id, (struct queue_when){0});
}

enum queue_status reschedule_in(const char *id, int64_t delay_ms)
{
    return change(QUEUE_RESCHEDULE, id,
                  (struct queue_when){.due = QUEUE_DUE_DELAY, .ms = delay_ms});
}

/* ---- topics ---- */

static enum queue_status call_topic(struct queue_topic_call call)
{
    const struct queue_reply *reply = world_topic(w, &call);

    stop_at_a_fault();
    last_affected = reply->affected;
    return reply->status;
}

enum queue_status topic_call(enum queue_topic_verb verb)
{
    return call_topic((struct queue_topic_call){.verb = verb, .topic = slice_of(claim_topic)});
}

enum queue_status put(struct topic_settings settings)
{
    return call_topic((struct queue_topic_call){
        .verb = QUEUE_TOPIC_PUT, .topic = slice_of(claim_topic), .settings = settings});
}

uint64_t affected(void)
{
    return last_affected;
}

struct queue_topic figures(void)
{
    struct queue_topic_call call = {.verb = QUEUE_TOPIC_GET, .topic = slice_of(claim_topic)};
    const struct queue_reply *reply = world_topic(w, &call);

    stop_at_a_fault();
    assert_int_equal(reply->topic_count, 1);
    return reply->topics[0];
}

/* ---- looking ---- */

/* The slices of the job are good until the next call. */
struct job job_of(const char *id)
{
    const struct queue_reply *reply = client_get(&w->client, slice_of(claim_topic), slice_of(id));

    stop_at_a_fault();
    return reply->job_count ? reply->jobs[0].job : (struct job){0};
}

enum job_state state_of(const char *id)
{
    return job_of(id).state;
}

/* The errors are good until the next call. */
size_t history_of(const char *id, struct job_attempt out[JOB_HISTORY_MAX])
{
    struct slice history = job_of(id).history;
    size_t at = 0, count = 0;

    while (count < JOB_HISTORY_MAX && job_history_next(history, &at, &out[count]))
        count++;
    assert_int_equal(at, history.len);
    return count;
}

uint64_t received(void)
{
    return w->received;
}

void pass(int64_t ms)
{
    world_advance(w, ms);
    stop_at_a_fault();
}

void restart(void)
{
    world_reopen(w);
    stop_at_a_fault();
}

int64_t now_ms(void)
{
    return clock_inner_ms();
}
