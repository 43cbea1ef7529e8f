/* Claims about every case of the rules of a job's life (queue/life.h): the store does what the table of cases lists. */
#include "directed.h"
#include "support/life_cases.h"

#include <stdio.h>

enum { HOUR_MS = 3600 * 1000, LEASE_MS = 60 * 1000, TTL_MS = 1000, FILLERS = 40 };

/* Brings the job "a" into the state. It was delivered once before it waits or died. Returns the lease of that
 * delivery; empty without a lease. */
static struct slice bring(enum job_state state)
{
    struct slice lease = {0};
    if (state == JOB_FINISHED) {
        put((struct topic_settings){.dedup_window_ms = 60 * HOUR_MS});
        push(a_push("a"));
        lease = take_for("a", LEASE_MS);
        assert_int_equal(ack(lease), QUEUE_OK);
    } else if (state) {
        push(a_push("a"));
        lease = take_for("a", LEASE_MS);
    }
    if (state == JOB_DELAYED)
        assert_int_equal(nack(lease, HOUR_MS, "later"), QUEUE_OK);
    if (state == JOB_READY)
        assert_int_equal(give_back(lease), QUEUE_OK);
    if (state == JOB_DEAD)
        assert_int_equal(refuse(lease, "no"), QUEUE_OK);
    return lease;
}

/* Returns the state that a caller sees after the step. `waiting`: the state of a job that waits then. */
static enum job_state state_after(enum life_step step, enum job_state before,
                                  enum job_state waiting)
{
    switch (step) {
    case LIFE_STAYS:
        return before == JOB_FINISHED ? 0 : before;
    case LIFE_CREATED:
    case LIFE_REPLACED:
    case LIFE_MOVED:
    case LIFE_RETURNED:
    case LIFE_RETRIED:
    case LIFE_AGAIN:
        return waiting;
    case LIFE_NEXT:
    case LIFE_REQUESTED:
    case LIFE_LEASED:
    case LIFE_LEASED_NOW:
    case LIFE_EXTENDED:
        return JOB_LEASED;
    case LIFE_DIED:
        return JOB_DEAD;
    case LIFE_ACKED:
    case LIFE_CANCELLED:
    case LIFE_EXPIRED:
        break;
    }
    return 0;
}

static void compare(const char *name, enum job_state before, enum queue_status status,
                    struct life expected, enum job_state waiting)
{
    enum job_state after = state_of("a");
    if (status != expected.status)
        fail_msg("%s, state %d: status %d, expected %d", name, (int)before, (int)status,
                 (int)expected.status);
    if (after != state_after(expected.step, before, waiting))
        fail_msg("%s, state %d: state %d afterwards, expected %d", name, (int)before, (int)after,
                 (int)state_after(expected.step, before, waiting));
}

/* Begins a case without jobs, and without settings of the topic. */
static void begin_case(void)
{
    topic_call(QUEUE_TOPIC_DELETE);
}

static void fill_topic(enum job_state state)
{
    char id[24];
    struct topic_settings settings = {.max_jobs = 3};
    if (state == JOB_FINISHED)
        settings.dedup_window_ms = 60 * HOUR_MS;
    put(settings);
    for (int i = 0; i < FILLERS; i++) { /* every shard allows its share */
        (void)snprintf(id, sizeof id, "filler-%d", i);
        push(a_push_in(id, HOUR_MS));
    }
}

static void push_onto_every_state_follows_the_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIFE_CASES(life_push_cases); i++)
        for (size_t k = 0; k < LIFE_COLUMNS; k++) {
            const struct life_push_case *row = &life_push_cases[i];
            struct queue_push job = a_push_in("a", 2 * HOUR_MS);
            begin_case();
            bring(life_columns[k]);
            if (row->is_full)
                fill_topic(life_columns[k]);
            job.on_conflict = row->on_conflict;
            compare(row->name, life_columns[k], push(job), row->outcomes[k], JOB_DELAYED);
        }
}

/* A lease of another job, which waits. */
static struct slice lease_of_another(void)
{
    struct slice lease;
    push(a_push("other"));
    lease = take_for("other", LEASE_MS);
    assert_int_equal(nack(lease, HOUR_MS, "later"), QUEUE_OK);
    return lease;
}

static enum queue_status change(const struct life_change_case *row, struct slice lease)
{
    if (row->only_dead)
        return cancel_dead("a", job_of("a").delivery + (row->names == LIFE_NAMES_OTHER));
    if (row->by_lease)
        return cancel_by("a", lease);
    if (row->verb == QUEUE_RESCHEDULE)
        return reschedule_in("a", 2 * HOUR_MS);
    if (row->verb == QUEUE_RUN)
        return run("a");
    return row->request ? request_cancel("a") : cancel("a");
}

static void change_of_every_state_follows_the_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIFE_CASES(life_change_cases); i++)
        for (size_t k = 0; k < LIFE_COLUMNS; k++) {
            const struct life_change_case *row = &life_change_cases[i];
            if (row->by_lease && w->client.driver->lacks & DRIVER_LACKS_CANCEL_BY_LEASE)
                continue;
            begin_case();
            struct slice other = row->by_lease ? lease_of_another() : (struct slice){0};
            struct slice last = bring(life_columns[k]);
            struct slice lease = row->names == LIFE_NAMES_LAST && last.len ? last : other;
            compare(row->name, life_columns[k], change(row, lease), row->outcomes[k],
                    row->verb == QUEUE_RUN ? JOB_READY : JOB_DELAYED);
        }
}

static void take_by_id_of_every_state_follows_the_rules(void **state)
{
    struct slice topic = slice_of("t");
    const struct queue_take call = {
        .topics = &topic, .topic_count = 1, .id = slice_of("a"), .max = 1, .lease_ms = LEASE_MS};
    (void)state;
    if (w->client.driver->lacks & DRIVER_LACKS_CHOICE)
        skip();
    for (size_t k = 0; k < LIFE_COLUMNS; k++) {
        begin_case();
        bring(life_columns[k]);
        enum queue_status status = world_take(w, &call)->status;
        compare("take by id", life_columns[k], status, life_pick_outcomes[k], 0);
    }
}

static enum queue_status answer(enum queue_verb verb, bool final, struct slice lease)
{
    switch (verb) {
    case QUEUE_ACK:
        return ack(lease);
    case QUEUE_NACK:
        return final ? refuse(lease, "no") : nack(lease, HOUR_MS, "later");
    case QUEUE_EXTEND:
        return extend(lease, 2 * LEASE_MS);
    case QUEUE_RETURN:
        return give_back_for(lease, HOUR_MS);
    case QUEUE_AGAIN:
        return again_in(lease, HOUR_MS);
    default:
        pass(LEASE_MS + 2);
        return QUEUE_OK;
    }
}

static void answer_and_end_of_a_lease_follow_the_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIFE_CASES(life_answer_cases); i++) {
        const struct life_answer_case *row = &life_answer_cases[i];
        struct queue_push job = a_push("a");
        if (row->verb == QUEUE_AGAIN && w->client.driver->lacks & DRIVER_LACKS_AGAIN)
            continue;
        begin_case();
        job.policy.max_attempts = row->last ? 1 : 5;
        job.policy.backoff =
            (struct backoff){.kind = BACKOFF_FIXED, .first_ms = HOUR_MS, .max_ms = HOUR_MS};
        push(job);
        struct slice lease = take_for("a", LEASE_MS);
        if (row->cancel_requested)
            assert_int_equal(request_cancel("a"), QUEUE_REQUESTED);
        compare(row->name, JOB_LEASED, answer(row->verb, row->final, lease),
                (struct life){row->status, row->step}, JOB_DELAYED);
    }
}

static void end_of_a_lease_starts_the_successor_by_the_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIFE_CASES(life_next_cases); i++) {
        const struct life_next_case *row = &life_next_cases[i];
        struct queue_push next = a_push_in("a", 2 * HOUR_MS);
        struct topic_totals sum = {0};
        if (row->verb == QUEUE_AGAIN && w->client.driver->lacks & DRIVER_LACKS_AGAIN)
            continue;
        begin_case();
        push(a_push("a"));
        struct slice lease = take_for("a", LEASE_MS);
        next.on_conflict = CONFLICT_AFTER;
        next.body = slice_of("next");
        assert_int_equal(push(next), QUEUE_CREATED);
        if (row->cancel_requested) { /* which removes the successor */
            assert_int_equal(request_cancel("a"), QUEUE_REQUESTED);
            assert_int_equal(push(next), QUEUE_CREATED);
        }
        assert_int_equal(answer(row->verb, row->final, lease), row->status);
        assert_int_equal(state_of("a"), JOB_DELAYED);
        assert_true(slice_is(job_of("a").body, "next"));
        assert_int_equal(job_of("a").attempt, 0);
        record_next_count(&sum, row->after);
        struct topic_totals totals = figures().totals;
        assert_int_equal(totals.pushed, sum.pushed + 1);
        assert_int_equal(totals.acked, sum.acked);
        assert_int_equal(totals.cancelled, sum.cancelled);
        assert_int_equal(totals.nacked, sum.nacked);
        assert_int_equal(totals.lease_ended, sum.lease_ended);
        assert_int_equal(totals.replaced, sum.replaced);
        assert_int_equal(totals.died, 0);
    }
}

static void end_of_the_ttl_follows_the_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIFE_CASES(life_expire_cases); i++) {
        const struct life_expire_case *row = &life_expire_cases[i];
        struct queue_push job = a_push("a");
        begin_case();
        put((struct topic_settings){.dead_letter_expired = row->dead_letter_expired});
        job.policy.ttl_ms = 1000;
        push(job);
        pass(1002);
        compare(row->name, JOB_READY, QUEUE_OK, (struct life){QUEUE_OK, row->step}, 0);
    }
}

/* ---- kept jobs ---- */

static const struct queue_job *kept_job(void)
{
    struct client *client = &w->client;
    client_begin(client);
    struct queue_reply_to to = client_add(client);
    queue_get_finished(client->queue, slice_of("t"), slice_of("a"), to);
    client_sent(client);
    client_wait(client);
    const struct queue_reply *reply = &client->calls[0].outcome.reply;
    bool is_kept = reply->status == QUEUE_OK && reply->jobs[0].job.state == JOB_FINISHED;
    return is_kept ? &reply->jobs[0] : NULL;
}

static enum queue_status answer_as(struct queue_answer answer)
{
    const struct queue_reply *reply = world_answer(w, &answer, 1);
    if (w->fault[0])
        fail_msg("%s", w->fault);
    return reply->results[0].status;
}

/* Takes the job and reports its progress. */
static struct slice hold(bool request)
{
    struct slice lease = take_as("a", "worker", LEASE_MS);
    const struct queue_answer progress = {
        .verb = QUEUE_EXTEND, .lease = lease, .lease_ms = LEASE_MS, .progress = slice_of("half")};
    assert_int_equal(answer_as(progress), QUEUE_OK);
    if (request)
        assert_int_equal(request_cancel("a"), QUEUE_REQUESTED);
    return lease;
}

static void ack_with_result(struct slice lease)
{
    assert_int_equal(answer_as((struct queue_answer){.verb = QUEUE_ACK,
                                                     .lease = lease,
                                                     .result = slice_of("result"),
                                                     .result_type = slice_of("text/x")}),
                     QUEUE_OK);
}

/* Ends the job "a", which is ready. */
static void end_by(enum life_way way)
{
    struct queue_push next = a_push_in("a", HOUR_MS);
    switch (way) {
    case LIFE_BY_ACK:
    case LIFE_BY_ACK_AFTER_REQUEST:
        ack_with_result(hold(way == LIFE_BY_ACK_AFTER_REQUEST));
        break;
    case LIFE_BY_CANCEL_DEAD:
        assert_int_equal(refuse(hold(false), "no"), QUEUE_OK);
        assert_int_equal(cancel("a"), QUEUE_CANCELLED);
        break;
    case LIFE_BY_CANCEL_WAITING:
        assert_int_equal(nack(hold(false), HOUR_MS, "later"), QUEUE_OK);
        assert_int_equal(cancel("a"), QUEUE_CANCELLED);
        break;
    case LIFE_BY_NACK_AFTER_REQUEST:
        assert_int_equal(nack(hold(true), HOUR_MS, "no"), QUEUE_CANCELLED);
        break;
    case LIFE_BY_LEASE_END_AFTER_REQUEST:
        (void)hold(true);
        pass(LEASE_MS + 2);
        break;
    case LIFE_BY_TTL:
        pass(TTL_MS + 2);
        break;
    case LIFE_BY_PURGE:
        topic_call(QUEUE_TOPIC_PURGE);
        break;
    case LIFE_BY_REPLACEMENT:
        assert_int_equal(push(next), QUEUE_REPLACED);
        break;
    case LIFE_BY_AGAIN:
        assert_int_equal(again_in(hold(false), HOUR_MS), QUEUE_CREATED);
        break;
    case LIFE_BY_SUCCESSOR: {
        struct slice lease = hold(false);
        next.on_conflict = CONFLICT_AFTER;
        assert_int_equal(push(next), QUEUE_CREATED);
        ack_with_result(lease);
    }
    }
}

static void check_kept(const struct life_end_case *row, const struct life_keep_case *keep,
                       bool keeps_body)
{
    const struct queue_job *job = kept_job();
    if (!row->end || !keep->kept_ms) {
        if (job)
            fail_msg("%s, %s: it is kept", row->name, keep->name);
        return;
    }
    if (!job)
        fail_msg("%s, %s: it is not kept", row->name, keep->name);
    if (job->end->outcome != row->end)
        fail_msg("%s, %s: outcome %d", row->name, keep->name, (int)job->end->outcome);
    if (!slice_is(job->end->result, row->has_result ? "result" : "") ||
        !slice_is(job->end->result_type, row->has_result ? "text/x" : ""))
        fail_msg("%s, %s: another result", row->name, keep->name);
    if (!slice_is(job->job.consumer, row->has_holder ? "worker" : "") ||
        !slice_is(job->job.progress, row->has_holder ? "half" : ""))
        fail_msg("%s, %s: another holder or progress", row->name, keep->name);
    if (job->end->has_body != keeps_body || !slice_is(job->job.body, keeps_body ? "body of a" : ""))
        fail_msg("%s, %s: another body", row->name, keep->name);
    pass(keep->kept_ms - 100);
    if (!kept_job())
        fail_msg("%s, %s: no longer kept before its time has passed", row->name, keep->name);
    pass(200);
    if (kept_job())
        fail_msg("%s, %s: still kept after its time has passed", row->name, keep->name);
}

static void end_of_a_job_keeps_it_by_the_rules(void **state)
{
    (void)state;
    if (!w->client.driver->keeps_finished)
        skip();
    for (size_t i = 0; i < LIFE_CASES(life_end_cases); i++)
        for (size_t k = 0; k < LIFE_CASES(life_keep_cases); k++) {
            const struct life_end_case *row = &life_end_cases[i];
            const struct life_keep_case *keep = &life_keep_cases[k];
            struct queue_push job = a_push("a");
            if (row->way == LIFE_BY_AGAIN && w->client.driver->lacks & DRIVER_LACKS_AGAIN)
                continue;
            begin_case();
            put((struct topic_settings){.keep_finished_ms = keep->topic_ms,
                                        .keep_body = (i + k) % 2});
            job.has_keep_finished = keep->has_own;
            job.keep_finished_ms = keep->own_ms;
            if (row->way == LIFE_BY_TTL)
                job.policy.ttl_ms = TTL_MS;
            push(job);
            end_by(row->way);
            check_kept(row, keep, (i + k) % 2);
        }
}

const struct CMUnitTest directed_life[] = {
    CLAIM(push_onto_every_state_follows_the_rules),
    CLAIM(change_of_every_state_follows_the_rules),
    CLAIM(take_by_id_of_every_state_follows_the_rules),
    CLAIM(answer_and_end_of_a_lease_follow_the_rules),
    CLAIM(end_of_a_lease_starts_the_successor_by_the_rules),
    CLAIM(end_of_the_ttl_follows_the_rules),
    CLAIM(end_of_a_job_keeps_it_by_the_rules),
};
const size_t directed_life_count = sizeof directed_life / sizeof directed_life[0];
