/* Jobs of the used tube: peek-ready, peek-delayed, peek-buried, kick. */
#include "beanstalk/commands.h"

#include <inttypes.h>
#include <stdlib.h>

enum { KICK_PAGE = QUEUE_LIST_MAX };

/* ---- peek ---- */

static void on_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    const struct job *job = beanstalk_session_got_job(session, reply);
    if (!job)
        return;
    beanstalk_answer_job(session, "FOUND", beanstalk_job_view_of(session->front, job).number,
                         job->body);
    session->driver->go_on(session);
}

static void on_listed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    const struct job *best = NULL;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    for (size_t i = 0; i < reply->job_count; i++) /* sorted by due time, then by push order */
        if (!best || reply->jobs[i].job.priority < best->priority)
            best = &reply->jobs[i].job;
    if (best)
        queue_get(beanstalk_session_queue(session), best->topic, best->id,
                  beanstalk_session_call(session, on_got));
    else
        beanstalk_finish_not_found(session, reply->status);
}

static void peek(struct beanstalk_session *session, enum job_state state, uint32_t limit)
{
    const struct queue_list list = {.topic = beanstalk_tube_name(session->used),
                                    .state = state,
                                    .limit = limit,
                                    .first_only = state == JOB_READY};
    queue_list(beanstalk_session_queue(session), &list, beanstalk_session_call(session, on_listed));
}

/* Finds the job of the best priority. If the store returns a page of jobs, finds the best one on
 * this page. */
void beanstalk_peek_ready(struct beanstalk_session *session)
{
    peek(session, JOB_READY, QUEUE_LIST_MAX);
}

void beanstalk_peek_delayed(struct beanstalk_session *session)
{
    peek(session, JOB_DELAYED, 1);
}

void beanstalk_peek_buried(struct beanstalk_session *session)
{
    peek(session, JOB_DEAD, 1);
}

/* ---- kick ---- */

/* Returns how many jobs the command may still kick. */
static uint32_t kick_left(const struct beanstalk_session *session)
{
    return session->command.number - session->kicked;
}

static void finish_kick(struct beanstalk_session *session)
{
    buffer_append_format(&session->connection.out, "KICKED %" PRIu32 "\r\n", session->kicked);
    session->driver->go_on(session);
}

static void run_delayed(struct beanstalk_session *session);

static void on_run(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    uint32_t before = session->kicked;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    for (size_t i = 0; i < reply->result_count; i++)
        session->kicked += reply->results[i].status == QUEUE_OK;
    audit_change_count(session->call.change, session->kicked - before);
    if (kick_left(session) && reply->result_count == KICK_PAGE && session->kicked > before)
        run_delayed(session);
    else
        finish_kick(session);
}

static void on_delayed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    struct queue_change *runs = reply->job_count ? calloc(reply->job_count, sizeof *runs) : NULL;
    if (!runs) {
        finish_kick(session);
        return;
    }
    for (size_t i = 0; i < reply->job_count; i++)
        runs[i] = (struct queue_change){.verb = QUEUE_RUN,
                                        .topic = reply->jobs[i].job.topic,
                                        .id = reply->jobs[i].job.id,
                                        .when = {.due = QUEUE_DUE_UNCHANGED},
                                        .priority = QUEUE_PRIORITY_UNSET};
    queue_change(beanstalk_session_queue(session), runs, reply->job_count,
                 beanstalk_session_call(session, on_run));
    free(runs);
}

/* Runs the delayed jobs that are due next. */
static void run_delayed(struct beanstalk_session *session)
{
    uint32_t left = kick_left(session);
    const struct queue_list list = {.topic = beanstalk_tube_name(session->used),
                                    .state = JOB_DELAYED,
                                    .limit = left < KICK_PAGE ? left : KICK_PAGE};
    queue_list(beanstalk_session_queue(session), &list,
               beanstalk_session_call(session, on_delayed));
}

/* Handles the reply to a redrive. If the tube has no buried jobs, runs delayed jobs. */
static void on_redriven(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        beanstalk_finish(session, beanstalk_answer_of(reply->status));
        return;
    }
    session->kicked = (uint32_t)reply->affected;
    if (session->kicked)
        finish_kick(session);
    else
        run_delayed(session);
}

void beanstalk_kick(struct beanstalk_session *session)
{
    const struct queue_topic_call redrive = {.verb = QUEUE_TOPIC_REDRIVE,
                                             .topic = beanstalk_tube_name(session->used),
                                             .max = session->command.number};
    if (!redrive.max)
        beanstalk_answer(session, "KICKED 0\r\n");
    else
        queue_topic(beanstalk_session_queue(session), &redrive,
                    beanstalk_session_call(session, on_redriven));
}
