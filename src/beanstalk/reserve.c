/*
 * reserve: jobs are taken from the tubes that are watched, waited for, and held for their time: the last
 * second of it is told to a client that waits, and leases that are shorter are renewed.
 */
#include "beanstalk/commands.h"

#include "base/clock.h"

enum { MARGIN_MS = 1000 }; /* before the end of a ttr: DEADLINE_SOON */

/* ---- time ---- */

static bool deadline_is_near(const struct beanstalk_session *session, int64_t now_ms)
{
    int64_t end_ms = beanstalk_reservations_end_ms(&session->reservations);
    return end_ms != INT64_MAX && now_ms >= end_ms - MARGIN_MS;
}

static void on_renewed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner; /* a lease that had ended is found out when it is answered */
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

void beanstalk_reserve_set_timer(struct beanstalk_session *session)
{
    int64_t now_ms = clock_inner_ms();
    int64_t next_ms = beanstalk_reservations_end_ms(&session->reservations);
    int64_t renewal_ms = beanstalk_reservations_renewal_ms(&session->reservations);
    bool waits = session->wait == SESSION_WAIT_JOB;
    if (waits && next_ms != INT64_MAX)
        next_ms -= MARGIN_MS;
    if (waits && session->give_up_ms < next_ms)
        next_ms = session->give_up_ms;
    if (renewal_ms < next_ms)
        next_ms = renewal_ms;
    beanstalk_connection_wake(&session->connection, next_ms == INT64_MAX ? -1
                                                    : next_ms > now_ms   ? next_ms - now_ms
                                                                         : 0);
}

/* Whose time is over is the client's no more: the queue sees to it. */
static void expire(struct beanstalk_session *session, int64_t now_ms)
{
    session->front->timeouts += beanstalk_reservations_expire(&session->reservations, now_ms);
}

void beanstalk_reserve_woken(struct beanstalk_session *session)
{
    int64_t now_ms = clock_inner_ms();
    expire(session, now_ms);
    renew_leases(session, now_ms);
    bool waits = session->wait == SESSION_WAIT_JOB;
    if (waits && deadline_is_near(session, now_ms))
        beanstalk_reserve_give_up(session, "DEADLINE_SOON\r\n");
    else if (waits && now_ms >= session->give_up_ms)
        beanstalk_reserve_give_up(session, "TIMED_OUT\r\n");
    else
        beanstalk_reserve_set_timer(session);
}

/* ---- jobs ---- */

bool beanstalk_reserve_hold(struct beanstalk_session *session, const struct queue_job *taken)
{
    const struct job *job = &taken->job;
    struct beanstalk_job_view view = beanstalk_job_view_of(session->front, job);
    int64_t now_ms = clock_inner_ms();
    int64_t lease_until_ms =
        now_ms + job->lease_until_ms - queue_wall_ms(beanstalk_session_queue(session));
    if (!beanstalk_reservations_add(&session->reservations, view.number, taken->lease, view.ttr_s,
                                    now_ms, lease_until_ms)) {
        beanstalk_give_back(session->front, taken->lease);
        return false;
    }
    beanstalk_answer_job(session, "RESERVED", view.number, job->body);
    beanstalk_reserve_set_timer(session);
    return true;
}

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    beanstalk_session_stop_waiting(session);
    session->waiter = 0;
    if (!beanstalk_session_called(session))
        return;
    if (reply->job_count)
        beanstalk_finish(session, beanstalk_reserve_hold(session, &reply->jobs[0])
                                      ? ""
                                      : beanstalk_answer_of(QUEUE_NO_MEMORY));
    else if (reply->status != QUEUE_OK || refused)
        beanstalk_finish(session,
                         beanstalk_answer_of(reply->status ? reply->status : QUEUE_NO_MEMORY));
    else
        beanstalk_finish(session,
                         session->is_deadline_near ? "DEADLINE_SOON\r\n" : "TIMED_OUT\r\n");
}

void beanstalk_reserve_give_up(struct beanstalk_session *session, const char *text)
{
    waiter_cancel(session->front->options.waiters, session->waiter);
    session->waiter = 0;
    beanstalk_session_stop_waiting(session);
    beanstalk_reserve_set_timer(session);
    beanstalk_finish(session, text);
    beanstalk_connection_release(&session->connection);
}

void beanstalk_reserve(struct beanstalk_session *session)
{
    struct slice topics[SESSION_WATCHED_MAX];
    int64_t now_ms = clock_inner_ms();
    bool is_timed = session->command.verb == BEANSTALK_RESERVE_WITH_TIMEOUT;
    expire(session, now_ms);
    session->is_deadline_near = deadline_is_near(session, now_ms);
    session->give_up_ms = is_timed ? now_ms + (int64_t)session->command.number * 1000 : INT64_MAX;
    bool waits = !session->is_deadline_near && session->give_up_ms > now_ms;
    for (uint32_t i = 0; i < session->watched_count; i++)
        topics[i] = beanstalk_tube_name(session->watched[i]);
    const struct queue_take take = {.topics = topics,
                                    .topic_count = session->watched_count,
                                    .by_priority = true,
                                    .max = 1,
                                    .way = JOB_WAY_TAKE};
    if (waits)
        beanstalk_session_wait(session);
    else
        session->wait = SESSION_WAIT_CALL;
    beanstalk_connection_hold(&session->connection);
    session->waiter = waiter_take(session->front->options.waiters, &take, waits ? INT64_MAX / 4 : 0,
                                  now_ms, on_taken, session, 0);
    if (session->waiter) {
        beanstalk_reserve_set_timer(session);
        return;
    }
    beanstalk_session_stop_waiting(session);
    session->wait = SESSION_WAIT_NONE;
    beanstalk_answer(session, "OUT_OF_MEMORY\r\n");
    beanstalk_connection_release(&session->connection);
}
