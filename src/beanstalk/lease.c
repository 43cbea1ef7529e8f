/* delete, release, bury and touch: what becomes of a job that the client holds. */
#include "beanstalk/commands.h"

#include "beanstalk/priority.h"

#include "base/clock.h"

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
    bool is_good = status == QUEUE_OK || status == QUEUE_CANCELLED;
    if (is_good && verb == BEANSTALK_TOUCH) {
        int64_t now_ms = clock_inner_ms();
        if (reservation)
            beanstalk_reservations_touch(held, reservation, now_ms,
                                         now_ms + beanstalk_lease_ms(reservation->ttr_s));
    } else if (reservation && (is_good || status == QUEUE_LEASE_ENDED)) {
        beanstalk_reservations_remove(held, reservation);
    }
    beanstalk_reserve_set_timer(session);
    beanstalk_finish(session, !is_good                              ? beanstalk_answer_of(status)
                              : verb == BEANSTALK_TOUCH             ? "TOUCHED\r\n"
                              : verb == BEANSTALK_DELETE            ? "DELETED\r\n"
                              : verb == BEANSTALK_BURY              ? "BURIED\r\n"
                              : reply->results[0].state == JOB_DEAD ? "BURIED\r\n"
                                                                    : "RELEASED\r\n");
}

/* False: the client does not hold the job. */
static bool answer_held(struct beanstalk_session *session)
{
    const struct beanstalk_command *command = &session->command;
    struct beanstalk_reservations *held = &session->reservations;
    session->front->timeouts += beanstalk_reservations_expire(held, clock_inner_ms());
    const struct beanstalk_reservation *reservation =
        beanstalk_reservations_find(held, command->id);
    if (!reservation)
        return false;
    const struct queue_answer answer = {
        .verb = command->verb == BEANSTALK_DELETE  ? QUEUE_ACK
                : command->verb == BEANSTALK_TOUCH ? QUEUE_EXTEND
                                                   : QUEUE_NACK,
        .lease = beanstalk_reservation_lease(reservation),
        .delay_ms = (int64_t)command->delay_s * 1000,
        .final = command->verb == BEANSTALK_BURY,
        .has_priority = true,
        .priority = beanstalk_priority_pack(command->priority),
        .error = slice_of(command->verb == BEANSTALK_BURY ? "buried" : "released"),
        .lease_ms = command->verb == BEANSTALK_TOUCH ? beanstalk_lease_ms(reservation->ttr_s) : 0};
    queue_answer(beanstalk_session_queue(session), &answer, 1,
                 beanstalk_session_call(session, on_answered));
    return true;
}

void beanstalk_lease_answer(struct beanstalk_session *session)
{
    if (!answer_held(session))
        beanstalk_answer(session, "NOT_FOUND\r\n");
}

void beanstalk_delete(struct beanstalk_session *session)
{
    if (!answer_held(session))
        beanstalk_find_named(session);
}
