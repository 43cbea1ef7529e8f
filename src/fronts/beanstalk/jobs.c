/*
 * jobs: the commands on a job by its number. peek, stats-job, kick-job, reserve-job, and delete of a
 * job that the client does not hold, locate it across all tubes first.
 */
#include "beanstalk/commands.h"
#include "beanstalk/session.h"

#include "base/clock.h"
#include "queue/locate.h"
#include "queue/status.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * reserve: takes jobs from the watched tubes, waits for them and holds them for their TTR. A
 * waiting client receives DEADLINE_SOON in the last second of a TTR. Leases that are shorter than
 * the TTR are renewed.
 */

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

/* Answers all reserves in progress. */
static void answer_reserves(struct beanstalk_session *session, const char *text)
{
    for (; session->reserve_count; session->reserve_count--)
        beanstalk_answer(session, text);
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

/* Removes and counts reservations that have ended by `now_ms`. The queue handles their jobs. */
static void beanstalk_session_expire(struct beanstalk_session *session, int64_t now_ms)
{
    session->front->timeouts += beanstalk_reservations_expire(&session->reservations, now_ms);
}

/* Marks the session as waiting and counts it in the tubes that it watches. */
static void beanstalk_session_wait(struct beanstalk_session *session)
{
    session->wait = SESSION_WAIT_JOB;
    session->front->waiting++;
    for (uint32_t i = 0; i < session->watched_count; i++)
        session->watched[i]->waiting++;
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
        !beanstalk_reservations_add(&session->reservations, view.number, taken->lease, job->topic,
                                    view.ttr_s, until_ms, lease_until_ms)) {
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

/* ---- jobs ---- */

/* ---- commands on a located job ---- */

static void on_cancelled(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    enum queue_status status = beanstalk_reply_status(reply);
    beanstalk_finish(session,
                     status == QUEUE_CANCELLED ? "DELETED\r\n" : beanstalk_answer_of(status));
}

static void change(struct beanstalk_session *session, enum queue_change_verb verb, queue_done *done)
{
    const struct queue_change change = {.verb = verb,
                                        .topic = beanstalk_subject_topic(&session->subject),
                                        .id = beanstalk_subject_id(&session->subject),
                                        .when = {.due = QUEUE_DUE_UNCHANGED},
                                        .priority = QUEUE_PRIORITY_UNSET};
    queue_change(beanstalk_session_queue(session), &change, 1,
                 beanstalk_session_call(session, done));
}

static void on_kicked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    enum queue_status status = beanstalk_reply_status(reply);
    audit_change_note(session->call.change, status == QUEUE_OK ? NULL : queue_status_code(status));
    audit_change_count(session->call.change, reply->result_count && status == QUEUE_OK);
    beanstalk_finish(session, status == QUEUE_OK ? "KICKED\r\n" : beanstalk_answer_of(status));
}

static void jobs_on_taken(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (beanstalk_session_has_ended(session)) /* no client is left to receive it */
        for (size_t i = 0; i < reply->job_count; i++)
            beanstalk_give_back(session->front, reply->jobs[i].lease);
    if (!beanstalk_session_called(session))
        return;
    if (reply->job_count && beanstalk_reserve_hold(session, &reply->jobs[0]))
        session->driver->go_on(session);
    else
        beanstalk_finish(session,
                         beanstalk_answer_of(reply->job_count ? QUEUE_NO_MEMORY : reply->status));
}

static void redrive(struct beanstalk_session *session)
{
    const struct queue_topic_call redrive = {.verb = QUEUE_TOPIC_REDRIVE,
                                             .topic = beanstalk_subject_topic(&session->subject),
                                             .id = beanstalk_subject_id(&session->subject)};
    queue_topic(beanstalk_session_queue(session), &redrive,
                beanstalk_session_call(session, on_kicked));
}

static void jobs_take(struct beanstalk_session *session)
{
    const struct slice topic = beanstalk_subject_topic(&session->subject);
    const struct queue_take jobs_take = {.topics = &topic,
                                         .topic_count = 1,
                                         .id = beanstalk_subject_id(&session->subject),
                                         .max = 1,
                                         .way = JOB_WAY_TAKE};
    queue_take(beanstalk_session_queue(session), &jobs_take,
               beanstalk_session_call(session, jobs_on_taken));
}

static void answer_found(struct beanstalk_session *session)
{
    struct buffer yaml;
    buffer_init(&yaml, SESSION_YAML_BYTES_MAX);
    beanstalk_stats_job(&yaml, &session->subject.view);
    beanstalk_answer_yaml(session, &yaml);
    session->driver->go_on(session);
}

static void kick(struct beanstalk_session *session)
{
    audit_change_name(session->call.change, beanstalk_subject_topic(&session->subject),
                      beanstalk_subject_id(&session->subject));
    if (session->subject.state == JOB_DEAD)
        redrive(session);
    else if (session->subject.state == JOB_DELAYED)
        change(session, QUEUE_RUN, on_kicked);
    else
        beanstalk_finish_not_found(session, QUEUE_NOT_FOUND);
}

static void go_on_with_job(struct beanstalk_session *session)
{
    switch (session->command.verb) {
    case BEANSTALK_PEEK: /* answered when the job was found */
        session->driver->go_on(session);
        break;
    case BEANSTALK_STATS_JOB:
        answer_found(session);
        break;
    case BEANSTALK_DELETE:
        change(session, QUEUE_CANCEL, on_cancelled);
        break;
    case BEANSTALK_RESERVE_JOB:
        jobs_take(session);
        break;
    default:
        assert(session->command.verb == BEANSTALK_KICK_JOB);
        kick(session);
    }
}

/* ---- location ---- */

static void note_found(struct beanstalk_session *session, const struct job *job)
{
    beanstalk_subject_set(&session->subject, session->front, job, session->command.id);
    if (session->command.verb == BEANSTALK_PEEK)
        beanstalk_answer_job(session, "FOUND", session->command.id, job->body);
}

static bool looks_at(void *owner, uint64_t tag, struct slice topic)
{
    (void)owner;
    (void)tag;
    return !beanstalk_topic_is_own(topic);
}

static bool is_wanted(void *owner, uint64_t tag)
{
    (void)tag;
    return !beanstalk_session_has_ended(owner);
}

static void on_found(void *owner, uint64_t tag, const struct queue_job *job)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_has_ended(session))
        note_found(session, &job->job);
}

static void on_located(void *owner, uint64_t tag, const struct locate_result *result)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    if (session->subject.is_there)
        go_on_with_job(session);
    else
        beanstalk_finish_not_found(session, result->status);
}

/* Continues with the job of an alias, whose topic is known. */
static void on_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    const struct job *job = beanstalk_session_got_job(session, reply);
    if (!job)
        return;
    note_found(session, job);
    go_on_with_job(session);
}

/* Finds the job for peek, stats-job, kick-job, reserve-job, and for a delete of a job that the
 * client does not hold. */
static void look_up(struct beanstalk_session *session)
{
    char room[JOB_ID_BYTES_MAX];
    struct slice topic = {0};
    struct slice id = beanstalk_id_of(session->front, session->command.id, room, &topic);
    session->subject.is_there = false;
    if (!id.len) {
        beanstalk_answer(session, "NOT_FOUND\r\n");
        return;
    }
    const struct beanstalk_reservation *held =
        beanstalk_reservations_find(&session->reservations, session->command.id);
    if (held)
        topic = beanstalk_reservation_topic(held);
    if (topic.len) {
        queue_get(beanstalk_session_queue(session), topic, id,
                  beanstalk_session_call(session, on_got));
        return;
    }
    const struct locate_listener listener = {.looks_at = looks_at,
                                             .found = on_found,
                                             .wanted = is_wanted,
                                             .done = on_located,
                                             .owner = session};
    (void)beanstalk_session_call(session, NULL);
    if (locate_start(beanstalk_session_queue(session), id, 1, &listener))
        return;
    (void)beanstalk_session_called(session);
    beanstalk_answer(session, "OUT_OF_MEMORY\r\n");
}

/* ---- jobs that the client holds ---- */

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
    beanstalk_reserve_set_timer(session);
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
    beanstalk_session_expire(session, beanstalk_session_now_ms(session));
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
    beanstalk_reserve_set_timer(session);
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

static void delete_job(struct beanstalk_session *session)
{
    struct queue_answer acks[SESSION_DELETES_MAX];
    struct beanstalk_reservations *held = &session->reservations;
    beanstalk_session_expire(session, beanstalk_session_now_ms(session));
    const struct beanstalk_reservation *reservation =
        beanstalk_reservations_find(held, session->command.id);
    if (!reservation) {
        look_up(session);
        return;
    }
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
}

/* ---- the table ---- */

const struct beanstalk_handler beanstalk_jobs_handlers[] = {
    {BEANSTALK_DELETE, delete_job, false},
    {BEANSTALK_RELEASE, answer_lease, false},
    {BEANSTALK_TOUCH, answer_lease, false},
    {BEANSTALK_BURY, answer_lease, false},
    {BEANSTALK_PEEK, look_up, false},
    {BEANSTALK_RESERVE_JOB, look_up, true},
    {BEANSTALK_KICK_JOB, look_up, false},
    {BEANSTALK_STATS_JOB, look_up, false},
    {0},
};
