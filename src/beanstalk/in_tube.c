/* Jobs of the tube that is used: peek-ready, peek-delayed, peek-buried, kick. */
#include "beanstalk/commands.h"

#include <inttypes.h>
#include <stdlib.h>

enum { KICK_DELAYED_MAX = QUEUE_LIST_MAX };

/* ---- peek ---- */

static void on_got(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    if (!reply->job_count) {
        beanstalk_finish(session,
                         beanstalk_answer_of(reply->status ? reply->status : QUEUE_NOT_FOUND));
        return;
    }
    const struct job *job = &reply->jobs[0].job;
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
    for (size_t i = 0; i < reply->job_count; i++) /* they come by due, then push order */
        if (!best || reply->jobs[i].job.priority < best->priority)
            best = &reply->jobs[i].job;
    if (best)
        queue_get(beanstalk_session_queue(session), best->topic, best->id,
                  beanstalk_session_call(session, on_got));
    else
        beanstalk_finish(session,
                         beanstalk_answer_of(reply->status ? reply->status : QUEUE_NOT_FOUND));
}

static void peek(struct beanstalk_session *session, enum job_state state, uint32_t limit)
{
    const struct queue_list list = {
        .topic = beanstalk_tube_name(session->used), .state = state, .limit = limit};
    queue_list(beanstalk_session_queue(session), &list, beanstalk_session_call(session, on_listed));
}

/* That of the best priority comes first, as far as a page shows. */
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

static void finish_kick(struct beanstalk_session *session, uint64_t jobs)
{
    buffer_append_format(&session->connection.out, "KICKED %" PRIu64 "\r\n", jobs);
    session->driver->go_on(session);
}

static void on_run(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    uint64_t jobs = 0;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    for (size_t i = 0; i < reply->result_count; i++)
        jobs += reply->results[i].status == QUEUE_OK;
    finish_kick(session, jobs);
}

static void on_delayed(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    struct queue_change *runs = reply->job_count ? calloc(reply->job_count, sizeof *runs) : NULL;
    if (!runs) {
        finish_kick(session, 0);
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

/* Where none is buried, delayed ones run. */
static void on_redriven(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct beanstalk_session *session = owner;
    uint32_t most = session->command.number;
    (void)tag;
    if (!beanstalk_session_called(session))
        return;
    if (reply->status != QUEUE_OK && reply->status != QUEUE_NOT_FOUND) {
        beanstalk_finish(session, beanstalk_answer_of(reply->status));
        return;
    }
    if (reply->affected) {
        finish_kick(session, reply->affected);
        return;
    }
    const struct queue_list list = {.topic = beanstalk_tube_name(session->used),
                                    .state = JOB_DELAYED,
                                    .limit = most < KICK_DELAYED_MAX ? most : KICK_DELAYED_MAX};
    queue_list(beanstalk_session_queue(session), &list,
               beanstalk_session_call(session, on_delayed));
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
