/*
 * delete, release, bury and touch for a job that the client holds. Deletes that have arrived
 * together go to the queue as one call, and so to the disk in one write.
 */
#include "beanstalk/commands.h"

#include "beanstalk/priority.h"

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

void beanstalk_lease_answer(struct beanstalk_session *session)
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

/* ---- delete ---- */

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

void beanstalk_delete(struct beanstalk_session *session)
{
    struct queue_answer acks[SESSION_DELETES_MAX];
    struct beanstalk_reservations *held = &session->reservations;
    beanstalk_session_expire(session, beanstalk_session_now_ms(session));
    const struct beanstalk_reservation *reservation =
        beanstalk_reservations_find(held, session->command.id);
    if (!reservation) {
        beanstalk_look_up(session);
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
