/*
 * reserve: takes jobs from the watched tubes, waits for them and holds them for their TTR. A
 * waiting client receives DEADLINE_SOON in the last second of a TTR. Leases that are shorter than
 * the TTR are renewed.
 */
#include "beanstalk/commands.h"

#include "base/clock.h"

enum {
    MARGIN_MS = 1000, /* time before the end of a TTR when DEADLINE_SOON is sent */
    LOOK_MS = 20 /* polling interval for a test clock, which does not report that it was moved */
};

/* ---- time ---- */

static bool deadline_is_near(const struct beanstalk_session *session, int64_t now_ms)
{
    int64_t end_ms = beanstalk_reservations_end_ms(&session->reservations);
    return end_ms != INT64_MAX && now_ms >= end_ms - MARGIN_MS;
}

static void on_renewed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner; /* the answer to the job will detect a lease that had already ended */
    (void)tag;
    (void)reply;
}

static void renew_leases(struct beanstalk_session *session, int64_t now_ms)
{
    struct beanstalk_reservations *held = &session->reservations;
    while (beanstalk_reservations_renewal_ms(held) <= now_ms) {
        struct beanstalk_reservation *next = beanstalk_reservations_renewal(held);
        int64_t left_ms = next->until_ms - now_ms;
        int64_t lease_ms = left_ms < POLICY_LEASE_MS_MAX ? left_ms : POLICY_LEASE_MS_MAX;
        const struct queue_answer extend = {
            .verb = QUEUE_EXTEND, .lease = beanstalk_reservation_lease(next), .lease_ms = lease_ms};
        queue_answer(beanstalk_session_queue(session), &extend, 1,
                     (struct queue_reply_to){.done = on_renewed});
        beanstalk_reservations_renewed(held, next, now_ms + lease_ms);
    }
}

/* Returns when the session's reservations must be checked next, by the process's clock. */
static int64_t reservations_next_ms(const struct beanstalk_session *session, int64_t process_ms)
{
    struct clock *clock = beanstalk_session_clock(session);
    int64_t next_ms = beanstalk_reservations_end_ms(&session->reservations);
    int64_t renewal_ms = beanstalk_reservations_renewal_ms(&session->reservations);
    if (next_ms == INT64_MAX)
        return INT64_MAX;
    if (session->wait == SESSION_WAIT_JOB)
        next_ms -= MARGIN_MS;
    next_ms = clock_process_ms(clock, renewal_ms < next_ms ? renewal_ms : next_ms);
    return next_ms == INT64_MAX ? process_ms + LOOK_MS : next_ms;
}

void beanstalk_reserve_set_timer(struct beanstalk_session *session)
{
    int64_t now_ms = clock_inner_ms();
    int64_t next_ms = reservations_next_ms(session, now_ms);
    if (session->wait == SESSION_WAIT_JOB && session->give_up_ms < next_ms)
        next_ms = session->give_up_ms;
    beanstalk_connection_wake(&session->connection, next_ms == INT64_MAX ? -1
                                                    : next_ms > now_ms   ? next_ms - now_ms
                                                                         : 0);
}

void beanstalk_reserve_woken(struct beanstalk_session *session)
{
    int64_t now_ms = beanstalk_session_now_ms(session);
    beanstalk_session_expire(session, now_ms);
    renew_leases(session, now_ms);
    bool waits = session->wait == SESSION_WAIT_JOB;
    if (waits && deadline_is_near(session, now_ms))
        beanstalk_reserve_give_up(session, "DEADLINE_SOON\r\n");
    else if (waits && clock_inner_ms() >= session->give_up_ms)
        beanstalk_reserve_give_up(session, "TIMED_OUT\r\n");
    else
        beanstalk_reserve_set_timer(session);
}

/* ---- jobs ---- */

/* Records a taken job as held by the client and answers with it. Returns false if out of memory;
 * the job is then returned to the queue. */
static bool hold(struct beanstalk_session *session, const struct queue_job *taken)
{
    const struct job *job = &taken->job;
    struct beanstalk_job_view view = beanstalk_job_view_of(session->front, job);
    int64_t now_ms = beanstalk_session_now_ms(session);
    int64_t lease_until_ms =
        now_ms + job->lease_until_ms - queue_wall_ms(beanstalk_session_queue(session));
    int64_t until_ms = now_ms + (int64_t)view.ttr_s * 1000;
    if (!job->policy.lease_ms) { /* the take applied the topic's default */
        until_ms = lease_until_ms;
        view.ttr_s = (uint32_t)((until_ms - now_ms + 999) / 1000);
    }
    if (!beanstalk_session_has_memory(session, job->body.len) ||
        !beanstalk_reservations_add(&session->reservations, view.number, taken->lease, view.ttr_s,
                                    until_ms, lease_until_ms)) {
        beanstalk_return(session->front, taken->lease);
        return false;
    }
    beanstalk_answer_job(session, "RESERVED", view.number, job->body);
    return true;
}

bool beanstalk_reserve_hold(struct beanstalk_session *session, const struct queue_job *taken)
{
    bool is_held = hold(session, taken);
    beanstalk_reserve_set_timer(session);
    return is_held;
}

/* Answers all reserves in progress. */
static void answer_reserves(struct beanstalk_session *session, const char *text)
{
    for (; session->reserve_count; session->reserve_count--)
        beanstalk_answer(session, text);
}

static bool take(struct beanstalk_session *session, bool waits);

/* Answers as many reserves as there are jobs. The others are answered when a take finds nothing. */
static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    beanstalk_session_stop_waiting(session);
    session->waiter = 0;
    if (!beanstalk_session_called(session))
        return;
    for (size_t i = 0; i < reply->job_count; i++, session->reserve_count--)
        if (!hold(session, &reply->jobs[i]))
            beanstalk_answer(session, beanstalk_answer_of(QUEUE_NO_MEMORY));
    if (reply->job_count) {
        session->is_deadline_near = deadline_is_near(session, beanstalk_session_now_ms(session));
        if (session->reserve_count && take(session, false))
            return;
    }
    if (reply->status != QUEUE_OK || refused)
        answer_reserves(session,
                        beanstalk_answer_of(reply->status ? reply->status : QUEUE_NO_MEMORY));
    else
        answer_reserves(session, session->is_deadline_near ? "DEADLINE_SOON\r\n" : "TIMED_OUT\r\n");
    beanstalk_reserve_set_timer(session);
    session->driver->go_on(session);
}

void beanstalk_reserve_give_up(struct beanstalk_session *session, const char *text)
{
    waiter_cancel(session->front->options.waiters, session->waiter);
    session->waiter = 0;
    beanstalk_session_stop_waiting(session);
    answer_reserves(session, text);
    beanstalk_reserve_set_timer(session);
    session->driver->go_on(session);
    beanstalk_connection_release(&session->connection);
}

/* Takes a job for each reserve in progress. Returns false if out of memory; all reserves are then
 * answered. */
static bool take(struct beanstalk_session *session, bool waits)
{
    struct slice topics[SESSION_WATCHED_MAX];
    for (uint32_t i = 0; i < session->watched_count; i++)
        topics[i] = beanstalk_tube_name(session->watched[i]);
    const struct queue_take wanted = {.topics = topics,
                                      .topic_count = session->watched_count,
                                      .by_priority = true,
                                      .max = session->reserve_count,
                                      .way = JOB_WAY_TAKE};
    if (waits)
        beanstalk_session_wait(session);
    else
        session->wait = SESSION_WAIT_CALL;
    beanstalk_connection_hold(&session->connection);
    session->waiter =
        waiter_take(session->front->options.waiters, &wanted, waits ? INT64_MAX / 4 : 0,
                    clock_inner_ms(), on_taken, session, 0);
    if (session->waiter) {
        beanstalk_reserve_set_timer(session);
        return true;
    }
    beanstalk_session_stop_waiting(session);
    session->wait = SESSION_WAIT_NONE;
    answer_reserves(session, "OUT_OF_MEMORY\r\n");
    beanstalk_connection_release(&session->connection);
    return false;
}

/* Consumes the command at the front of the input if it is a reserve that does not wait. Returns
 * true if it was. */
static bool take_next_reserve(struct beanstalk_session *session)
{
    struct beanstalk_command next;
    struct slice input = beanstalk_connection_input(&session->connection);
    size_t line_bytes = beanstalk_line_bytes(input);
    if (!line_bytes || !beanstalk_command_parse(slice_make(input.at, line_bytes - 2), &next) ||
        next.verb != BEANSTALK_RESERVE_WITH_TIMEOUT || next.number)
        return false;
    beanstalk_connection_consume(&session->connection, line_bytes);
    session->front->verbs[BEANSTALK_RESERVE_WITH_TIMEOUT]++;
    return true;
}

static void reserve(struct beanstalk_session *session)
{
    int64_t now_ms = clock_inner_ms();
    bool is_timed = session->command.verb == BEANSTALK_RESERVE_WITH_TIMEOUT;
    beanstalk_session_expire(session, beanstalk_session_now_ms(session));
    session->is_deadline_near = deadline_is_near(session, beanstalk_session_now_ms(session));
    session->give_up_ms = is_timed ? now_ms + (int64_t)session->command.number * 1000 : INT64_MAX;
    session->reserve_count = 1;
    while (session->reserve_count < SESSION_RESERVES_MAX && take_next_reserve(session))
        session->reserve_count++;
    (void)take(session, !session->is_deadline_near && session->give_up_ms > now_ms);
}

const struct beanstalk_handler beanstalk_reserve_handlers[] = {
    {BEANSTALK_RESERVE, reserve, true}, {BEANSTALK_RESERVE_WITH_TIMEOUT, reserve, true}, {0}};
