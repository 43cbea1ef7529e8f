#include "beanstalk/reservations.h"

#include "beanstalk/commands.h"

#include "base/clock.h"

#include <stdlib.h>

enum {
    MARGIN_MS = 1000, /* time before the end of a TTR when DEADLINE_SOON is sent */
    LOOK_MS = 20, /* polling interval for a test clock, which does not report that it was moved */
    RENEW_MS = 3600 * 1000, /* time before the end of a lease when it is renewed */
    EQUAL_MS = 500 /* ends at most this far apart count as equal, since two clocks measured them */
};

/* ---- the list ---- */

static struct slice key_of(const uint64_t *number)
{
    return slice_make(number, sizeof *number);
}

struct beanstalk_reservation *beanstalk_reservations_find(const struct beanstalk_reservations *held,
                                                          uint64_t number)
{
    return beanstalk_reservation_table_find(&held->table, key_of(&number));
}

/* Adds the reservation to the renewals or removes it, depending on its two ends. Needs reserved
 * space. */
static void renewal_place(struct beanstalk_reservations *held, struct beanstalk_reservation *at)
{
    bool is_in = at->renewal_index != SIZE_MAX,
         needs = at->lease_until_ms + EQUAL_MS < at->until_ms;
    if (is_in && needs) {
        beanstalk_reservation_renewals_changed(&held->renewals, at->renewal_index);
    } else if (is_in) {
        (void)beanstalk_reservation_renewals_remove(&held->renewals, at->renewal_index);
        at->renewal_index = SIZE_MAX;
    } else if (needs) {
        (void)beanstalk_reservation_renewals_add(&held->renewals, at);
    }
}

void beanstalk_reservations_remove(struct beanstalk_reservations *held,
                                   struct beanstalk_reservation *reservation)
{
    beanstalk_reservation_table_remove(&held->table, reservation);
    (void)beanstalk_reservation_ends_remove(&held->ends, reservation->end_index);
    if (reservation->renewal_index != SIZE_MAX)
        (void)beanstalk_reservation_renewals_remove(&held->renewals, reservation->renewal_index);
    free(reservation);
}

void beanstalk_reservations_fini(struct beanstalk_reservations *held)
{
    while (held->ends.count)
        beanstalk_reservations_remove(held, held->ends.at[0]);
    beanstalk_reservation_table_fini(&held->table);
    beanstalk_reservation_ends_fini(&held->ends);
    beanstalk_reservation_renewals_fini(&held->renewals);
}

bool beanstalk_reservations_add(struct beanstalk_reservations *held, uint64_t number,
                                struct slice lease, struct slice topic, uint32_t ttr_s,
                                int64_t until_ms, int64_t lease_until_ms)
{
    size_t count = held->ends.count + 1;
    struct beanstalk_reservation *before = beanstalk_reservations_find(held, number);
    struct beanstalk_reservation *added = calloc(1, sizeof *added + lease.len + topic.len);
    if (!added || !beanstalk_reservation_ends_reserve(&held->ends, count) ||
        !beanstalk_reservation_renewals_reserve(&held->renewals, count)) {
        free(added);
        return false;
    }
    if (before)
        beanstalk_reservations_remove(held, before);
    added->number = number;
    added->entry.key = key_of(&added->number);
    added->renewal_index = SIZE_MAX;
    added->ttr_s = ttr_s;
    added->until_ms = until_ms;
    added->lease_until_ms = lease_until_ms;
    added->lease_bytes = (uint8_t)lease.len;
    added->topic_bytes = (uint8_t)topic.len;
    memcpy(added->text, lease.at, lease.len);
    memcpy(added->text + lease.len, topic.at, topic.len);
    beanstalk_reservation_table_add(&held->table, added);
    (void)beanstalk_reservation_ends_add(&held->ends, added);
    renewal_place(held, added);
    return true;
}

uint64_t beanstalk_reservations_expire(struct beanstalk_reservations *held, int64_t now_ms)
{
    uint64_t count = 0;
    for (; held->ends.count && held->ends.at[0]->until_ms <= now_ms; count++)
        beanstalk_reservations_remove(held, held->ends.at[0]);
    return count;
}

int64_t beanstalk_reservations_end_ms(const struct beanstalk_reservations *held)
{
    return held->ends.count ? held->ends.at[0]->until_ms : INT64_MAX;
}

void beanstalk_reservations_renewed(struct beanstalk_reservations *held,
                                    struct beanstalk_reservation *reservation,
                                    int64_t lease_until_ms)
{
    reservation->lease_until_ms = lease_until_ms;
    renewal_place(held, reservation);
}

void beanstalk_reservations_touch(struct beanstalk_reservations *held,
                                  struct beanstalk_reservation *reservation, int64_t now_ms,
                                  int64_t lease_until_ms)
{
    reservation->until_ms = now_ms + (int64_t)reservation->ttr_s * 1000;
    beanstalk_reservation_ends_changed(&held->ends, reservation->end_index);
    beanstalk_reservations_renewed(held, reservation, lease_until_ms);
}

int64_t beanstalk_reservations_renewal_ms(const struct beanstalk_reservations *held)
{
    return held->renewals.count ? held->renewals.at[0]->lease_until_ms - RENEW_MS : INT64_MAX;
}

struct beanstalk_reservation *beanstalk_reservations_renewal(
    const struct beanstalk_reservations *held)
{
    return held->renewals.count ? held->renewals.at[0] : NULL;
}

/* ---- time ---- */

static bool deadline_is_near(const struct beanstalk_session *session, int64_t now_ms)
{
    int64_t end_ms = beanstalk_reservations_end_ms(&session->reservations);
    return end_ms != INT64_MAX && now_ms >= end_ms - MARGIN_MS;
}

/* Ignores the reply about a lease that no client waits for. The answer to the job detects a lease
 * that had already ended. */
static void on_ignored(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
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
                     (struct queue_reply_to){.done = on_ignored});
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

/* Sets the timer to the next end or renewal of a reservation, or to the end of a wait. */
static void set_timer(struct beanstalk_session *session)
{
    int64_t now_ms = clock_inner_ms();
    int64_t next_ms = reservations_next_ms(session, now_ms);
    if (session->wait == SESSION_WAIT_JOB && session->give_up_ms < next_ms)
        next_ms = session->give_up_ms;
    beanstalk_connection_wake(&session->connection, next_ms == INT64_MAX ? -1
                                                    : next_ms > now_ms   ? next_ms - now_ms
                                                                         : 0);
}

/* Marks the session as waiting and counts it in the tubes that it watches. */
static void begin_waiting(struct beanstalk_session *session)
{
    session->wait = SESSION_WAIT_JOB;
    session->front->waiting++;
    for (uint32_t i = 0; i < session->watched_count; i++)
        session->watched[i]->waiting++;
}

static void stop_waiting(struct beanstalk_session *session)
{
    if (session->wait != SESSION_WAIT_JOB)
        return;
    session->wait = SESSION_WAIT_NONE;
    session->front->waiting--;
    for (uint32_t i = 0; i < session->watched_count; i++)
        session->watched[i]->waiting--;
}

/* Answers all reserves in progress. */
static void answer_reserves(struct beanstalk_session *session, const char *text)
{
    for (; session->reserve_count; session->reserve_count--)
        beanstalk_answer(session, text);
}

void beanstalk_reservations_give_up(struct beanstalk_session *session, const char *text)
{
    waiter_cancel(session->front->options.waiters, session->waiter);
    session->waiter = 0;
    stop_waiting(session);
    answer_reserves(session, text);
    set_timer(session);
    session->driver->go_on(session);
    beanstalk_connection_release(&session->connection);
}

/* Removes and counts reservations that have ended by `now_ms`. The queue handles their jobs. */
static void expire(struct beanstalk_session *session, int64_t now_ms)
{
    session->front->timeouts += beanstalk_reservations_expire(&session->reservations, now_ms);
}

void beanstalk_reservations_woken(struct beanstalk_session *session)
{
    int64_t now_ms = beanstalk_session_now_ms(session);
    expire(session, now_ms);
    renew_leases(session, now_ms);
    bool waits = session->wait == SESSION_WAIT_JOB;
    if (waits && deadline_is_near(session, now_ms))
        beanstalk_reservations_give_up(session, "DEADLINE_SOON\r\n");
    else if (waits && clock_inner_ms() >= session->give_up_ms)
        beanstalk_reservations_give_up(session, "TIMED_OUT\r\n");
    else
        set_timer(session);
}

/* ---- taking ---- */

/* Ends the lease of a client that has disconnected, as a failed attempt. */
static void give_back(struct beanstalk_front *front, struct slice lease)
{
    const struct queue_answer nack = {
        .verb = QUEUE_NACK, .lease = lease, .error = slice_of("connection closed")};
    queue_answer(front->options.queue, &nack, 1, (struct queue_reply_to){.done = on_ignored});
}

/* Ends a lease that no client has received. Does not count as an attempt. */
static void return_lease(struct beanstalk_front *front, struct slice lease)
{
    const struct queue_answer back = {.verb = QUEUE_RETURN, .lease = lease, .delay_ms = -1};
    queue_answer(front->options.queue, &back, 1, (struct queue_reply_to){.done = on_ignored});
}

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
        !beanstalk_reservations_add(&session->reservations, view.number, taken->lease, job->topic,
                                    view.ttr_s, until_ms, lease_until_ms)) {
        return_lease(session->front, taken->lease);
        return false;
    }
    beanstalk_answer_job(session, "RESERVED", view.number, job->body);
    return true;
}

static bool take(struct beanstalk_session *session, bool waits);

/* Answers as many reserves as there are jobs. The others are answered when a take finds nothing. */
static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply, bool refused)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    stop_waiting(session);
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
    set_timer(session);
    session->driver->go_on(session);
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
        begin_waiting(session);
    else
        session->wait = SESSION_WAIT_CALL;
    beanstalk_connection_hold(&session->connection);
    session->waiter =
        waiter_take(session->front->options.waiters, &wanted, waits ? INT64_MAX / 4 : 0,
                    clock_inner_ms(), on_taken, session, 0);
    if (session->waiter) {
        set_timer(session);
        return true;
    }
    stop_waiting(session);
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
    expire(session, beanstalk_session_now_ms(session));
    session->is_deadline_near = deadline_is_near(session, beanstalk_session_now_ms(session));
    session->give_up_ms = is_timed ? now_ms + (int64_t)session->command.number * 1000 : INT64_MAX;
    session->reserve_count = 1;
    while (session->reserve_count < SESSION_RESERVES_MAX && take_next_reserve(session))
        session->reserve_count++;
    (void)take(session, !session->is_deadline_near && session->give_up_ms > now_ms);
}

/* ---- reserve-job ---- */

static void on_job_taken(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (beanstalk_session_has_ended(session)) /* no client is left to receive it */
        for (size_t i = 0; i < reply->job_count; i++)
            give_back(session->front, reply->jobs[i].lease);
    if (!beanstalk_session_called(session))
        return;
    bool is_held = reply->job_count && hold(session, &reply->jobs[0]);
    if (reply->job_count)
        set_timer(session);
    if (is_held)
        session->driver->go_on(session);
    else
        beanstalk_finish(session,
                         beanstalk_answer_of(reply->job_count ? QUEUE_NO_MEMORY : reply->status));
}

void beanstalk_reserve_job(struct beanstalk_session *session, struct slice topic, struct slice id)
{
    const struct queue_take wanted = {
        .topics = &topic, .topic_count = 1, .id = id, .max = 1, .way = JOB_WAY_TAKE};
    queue_take(beanstalk_session_queue(session), &wanted,
               beanstalk_session_call(session, on_job_taken));
}

/* ---- release, touch, bury ---- */

static void on_answered(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    struct beanstalk_reservations *held = &session->reservations;
    enum beanstalk_verb verb = session->command.verb;
    enum queue_status status = beanstalk_reply_status(reply);
    struct beanstalk_reservation *reservation =
        beanstalk_reservations_find(held, session->command.id);
    bool is_good = status == QUEUE_OK || status == QUEUE_CANCELLED; /* cancellation was requested */
    if (is_good && verb == BEANSTALK_TOUCH) {
        int64_t now_ms = beanstalk_session_now_ms(session);
        if (reservation)
            beanstalk_reservations_touch(held, reservation, now_ms,
                                         now_ms + beanstalk_lease_ms(reservation->ttr_s));
    } else if (reservation && (is_good || status == QUEUE_LEASE_ENDED)) {
        beanstalk_reservations_remove(held, reservation);
    }
    set_timer(session);
    beanstalk_finish(session, !is_good                              ? beanstalk_answer_of(status)
                              : verb == BEANSTALK_TOUCH             ? "TOUCHED\r\n"
                              : verb == BEANSTALK_BURY              ? "BURIED\r\n"
                              : reply->results[0].state == JOB_DEAD ? "BURIED\r\n"
                                                                    : "RELEASED\r\n");
}

/* Releases, buries or touches a job that the client holds. */
static void answer_lease(struct beanstalk_session *session)
{
    const struct beanstalk_command *command = &session->command;
    struct beanstalk_reservations *held = &session->reservations;
    expire(session, beanstalk_session_now_ms(session));
    const struct beanstalk_reservation *reservation =
        beanstalk_reservations_find(held, command->id);
    if (!reservation) {
        beanstalk_answer(session, "NOT_FOUND\r\n");
        return;
    }
    char reason[BEANSTALK_REASON_BYTES];
    const struct queue_answer answer = {
        .verb = command->verb == BEANSTALK_TOUCH ? QUEUE_EXTEND : QUEUE_NACK,
        .lease = beanstalk_reservation_lease(reservation),
        .delay_ms = (int64_t)command->delay_s * 1000,
        .final = command->verb == BEANSTALK_BURY,
        .has_priority = true,
        .priority = beanstalk_priority_pack(command->priority),
        .error = command->verb == BEANSTALK_BURY
                     ? beanstalk_bury_reason(command->priority, reason)
                     : beanstalk_release_reason(command->priority, command->delay_s, reason),
        .lease_ms = command->verb == BEANSTALK_TOUCH ? beanstalk_lease_ms(reservation->ttr_s) : 0};
    queue_answer(beanstalk_session_queue(session), &answer, 1,
                 beanstalk_session_call(session, on_answered));
}

/* ---- delete: deletes that have arrived together go to the queue as one call, and so to the disk in
 * one write ---- */

static void on_deleted(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    struct beanstalk_reservations *held = &session->reservations;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    for (size_t i = 0; i < session->delete_count; i++) {
        enum queue_status status =
            i < reply->result_count ? reply->results[i].status : reply->status;
        bool is_gone = status == QUEUE_OK || status == QUEUE_CANCELLED;
        struct beanstalk_reservation *reservation =
            beanstalk_reservations_find(held, session->deletes[i]);
        if (reservation && (is_gone || status == QUEUE_LEASE_ENDED))
            beanstalk_reservations_remove(held, reservation);
        beanstalk_answer(session, is_gone ? "DELETED\r\n" : beanstalk_answer_of(status));
    }
    set_timer(session);
    session->driver->go_on(session);
}

static bool is_under_way(const struct beanstalk_session *session, uint64_t number)
{
    for (size_t i = 0; i < session->delete_count; i++)
        if (session->deletes[i] == number)
            return true;
    return false;
}

/* Returns the reservation that the command at the front of the input deletes, and consumes the
 * command. Returns NULL if the input is not a complete delete, or if the job is not held or its
 * delete is already in progress. */
static const struct beanstalk_reservation *take_next_delete(struct beanstalk_session *session)
{
    struct beanstalk_command next;
    struct slice input = beanstalk_connection_input(&session->connection);
    size_t line_bytes = beanstalk_line_bytes(input);
    if (!line_bytes || !beanstalk_command_parse(slice_make(input.at, line_bytes - 2), &next) ||
        next.verb != BEANSTALK_DELETE || is_under_way(session, next.id))
        return NULL;
    const struct beanstalk_reservation *reservation =
        beanstalk_reservations_find(&session->reservations, next.id);
    if (reservation) {
        beanstalk_connection_consume(&session->connection, line_bytes);
        session->front->verbs[BEANSTALK_DELETE]++;
    }
    return reservation;
}

bool beanstalk_reservations_delete(struct beanstalk_session *session)
{
    struct queue_answer acks[SESSION_DELETES_MAX];
    struct beanstalk_reservations *held = &session->reservations;
    expire(session, beanstalk_session_now_ms(session));
    const struct beanstalk_reservation *reservation =
        beanstalk_reservations_find(held, session->command.id);
    if (!reservation)
        return false;
    session->delete_count = 0;
    while (reservation) {
        session->deletes[session->delete_count] = reservation->number;
        acks[session->delete_count++] = (struct queue_answer){
            .verb = QUEUE_ACK, .lease = beanstalk_reservation_lease(reservation)};
        reservation =
            session->delete_count < SESSION_DELETES_MAX ? take_next_delete(session) : NULL;
    }
    queue_answer(beanstalk_session_queue(session), acks, session->delete_count,
                 beanstalk_session_call(session, on_deleted));
    return true;
}

/* ---- life ---- */

void beanstalk_reservations_end(struct beanstalk_session *session)
{
    struct beanstalk_reservations *held = &session->reservations;
    if (session->waiter) {
        waiter_cancel(session->front->options.waiters, session->waiter);
        session->waiter = 0;
        beanstalk_connection_release(&session->connection);
    }
    stop_waiting(session);
    for (size_t i = 0; i < held->ends.count; i++)
        give_back(session->front, beanstalk_reservation_lease(held->ends.at[i]));
    beanstalk_reservations_fini(held);
}

const struct beanstalk_handler beanstalk_reservations_handlers[] = {
    {BEANSTALK_RESERVE, reserve, true},       {BEANSTALK_RESERVE_WITH_TIMEOUT, reserve, true},
    {BEANSTALK_RELEASE, answer_lease, false}, {BEANSTALK_TOUCH, answer_lease, false},
    {BEANSTALK_BURY, answer_lease, false},    {0},
};
