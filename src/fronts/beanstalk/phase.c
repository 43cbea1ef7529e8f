#include "beanstalk/phase.h"

#include "base/clock.h"

static int64_t timeout_ms(const struct beanstalk_front *front, enum beanstalk_phase phase)
{
    const struct beanstalk_options *options = &front->options;
    switch (phase) {
    case BEANSTALK_PHASE_IDLE:
        return options->idle_ms;
    case BEANSTALK_PHASE_LINE:
        return options->line_ms;
    case BEANSTALK_PHASE_BODY:
        return options->body_ms;
    default:
        return options->write_ms;
    }
}

/* ---- alarm of the front ---- */

static void phases_set_alarm(struct beanstalk_front *front)
{
    int64_t next_ms = INT64_MAX;
    for (int phase = BEANSTALK_PHASE_IDLE; phase < BEANSTALK_PHASES; phase++) {
        const struct list *timed = &front->timed[phase];
        if (list_is_empty(timed))
            continue;
        int64_t until_ms = list_entry(timed->next, struct beanstalk_session, timed)->until_ms;
        next_ms = until_ms < next_ms ? until_ms : next_ms;
    }
    front->alarm_ms = next_ms;
    deadline_set(front->alarm, next_ms);
}

static void phase_begin(struct beanstalk_session *session, enum beanstalk_phase phase)
{
    struct beanstalk_front *front = session->front;
    list_remove(&session->timed);
    session->phase = phase;
    if (phase == BEANSTALK_PHASE_NONE)
        return;
    session->until_ms = clock_inner_ms() + timeout_ms(front, phase);
    session->unsent = uv_stream_get_write_queue_size(&session->connection.stream);
    list_add_last(&front->timed[phase], &session->timed);
    if (session->until_ms < front->alarm_ms) {
        front->alarm_ms = session->until_ms;
        deadline_set(front->alarm, front->alarm_ms);
    }
}

/* Handles the end of a phase's time limit. A client that has read some output gets another period. */
static void phase_expire(struct beanstalk_session *session)
{
    size_t unsent = uv_stream_get_write_queue_size(&session->connection.stream);
    if (session->phase == BEANSTALK_PHASE_WRITE && unsent < session->unsent)
        phase_begin(session, BEANSTALK_PHASE_WRITE);
    else
        beanstalk_session_end(session);
}

static void on_alarm(void *ctx)
{
    struct beanstalk_front *front = ctx;
    int64_t now_ms = clock_inner_ms();
    for (int phase = BEANSTALK_PHASE_IDLE; phase < BEANSTALK_PHASES; phase++)
        while (!list_is_empty(&front->timed[phase])) {
            struct beanstalk_session *first =
                list_entry(front->timed[phase].next, struct beanstalk_session, timed);
            if (first->until_ms > now_ms)
                break;
            phase_expire(first);
        }
    phases_set_alarm(front);
}

/* ---- phase of a session ---- */

static enum beanstalk_phase phase_of(const struct beanstalk_session *session)
{
    const struct beanstalk_connection *connection = &session->connection;
    if (connection->is_writing)
        return BEANSTALK_PHASE_WRITE;
    /* The session waits for a job and has sent more input than is buffered. Reading has stopped, so
     * not even the client's end of input is noticed. */
    if (session->wait == SESSION_WAIT_JOB && !connection->is_reading && !connection->has_ended)
        return BEANSTALK_PHASE_LINE;
    if (session->wait || !list_is_empty(&session->later))
        return BEANSTALK_PHASE_NONE;
    if (session->skip.bytes || session->connection.wanted_bytes)
        return BEANSTALK_PHASE_BODY;
    if (session->skip.line || beanstalk_connection_input(connection).len)
        return BEANSTALK_PHASE_LINE;
    return session->reservations.ends.count ? BEANSTALK_PHASE_NONE : BEANSTALK_PHASE_IDLE;
}

void beanstalk_phase_settle(struct beanstalk_session *session, bool has_moved)
{
    enum beanstalk_phase phase = phase_of(session);
    if (phase != session->phase || (has_moved && phase != BEANSTALK_PHASE_WRITE))
        phase_begin(session, phase);
}

void beanstalk_phase_leave(struct beanstalk_session *session)
{
    list_remove(&session->timed);
    session->phase = BEANSTALK_PHASE_NONE;
}

bool beanstalk_phases_init(struct beanstalk_front *front)
{
    for (int phase = 0; phase < BEANSTALK_PHASES; phase++)
        list_init(&front->timed[phase]);
    front->alarm_ms = INT64_MAX;
    front->alarm = deadline_new(front->options.reactor, on_alarm, front);
    return front->alarm;
}

void beanstalk_phases_fini(struct beanstalk_front *front)
{
    deadline_free(front->alarm);
}
