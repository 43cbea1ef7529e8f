/*
 * jobs: the commands on a job by its number. peek, stats-job, kick-job, reserve-job, and delete of a
 * job that the client does not hold, locate it across all tubes first.
 */
#include "beanstalk/commands.h"
#include "beanstalk/stats.h"

#include "queue/locate.h"
#include "queue/status.h"

#include <assert.h>

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

static void on_taken(void *owner, uint64_t tag, const struct queue_reply *reply)
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

static void redrive(struct beanstalk_session *session)
{
    const struct queue_topic_call redrive = {.verb = QUEUE_TOPIC_REDRIVE,
                                             .topic = beanstalk_subject_topic(&session->subject),
                                             .id = beanstalk_subject_id(&session->subject)};
    queue_topic(beanstalk_session_queue(session), &redrive,
                beanstalk_session_call(session, on_kicked));
}

static void take(struct beanstalk_session *session)
{
    const struct slice topic = beanstalk_subject_topic(&session->subject);
    const struct queue_take take = {.topics = &topic,
                                    .topic_count = 1,
                                    .id = beanstalk_subject_id(&session->subject),
                                    .max = 1,
                                    .way = JOB_WAY_TAKE};
    queue_take(beanstalk_session_queue(session), &take, beanstalk_session_call(session, on_taken));
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
        take(session);
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
