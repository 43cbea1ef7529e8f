/*
 * commands: entry points for the commands of the protocol. A command either answers immediately, or
 * calls the queue and answers when the reply arrives. The command is in session->command. One
 * thread.
 */
#ifndef TARRY_BEANSTALK_COMMANDS_H
#define TARRY_BEANSTALK_COMMANDS_H

#include "beanstalk/session.h"

/* ---- dispatch.c: the input of a client ---- */

/* Executes its commands in order. A command that waits for the queue delays only those behind it. */
extern const struct beanstalk_session_driver beanstalk_dispatch;

/* ---- put.c ---- */

/* Begins a put whose line, of `line_bytes`, is at the front of the input. Returns false if more
 * input is needed. */
bool beanstalk_put(struct beanstalk_session *session, const struct beanstalk_command *put,
                   size_t line_bytes);

/* ---- reserve.c: reservations and their timers ---- */

void beanstalk_reserve(struct beanstalk_session *session);
/* Ends the wait of a reserve that has not received a job. */
void beanstalk_reserve_give_up(struct beanstalk_session *session, const char *text);
/* Records a taken job as held by the client and sends it. Returns false if out of memory; the job
 * is then returned to the queue. */
bool beanstalk_reserve_hold(struct beanstalk_session *session, const struct queue_job *taken);
/* Sets the timer to the next end or renewal of a reservation, or to the end of a wait. */
void beanstalk_reserve_set_timer(struct beanstalk_session *session);
void beanstalk_reserve_woken(struct beanstalk_session *session);

/* ---- jobs.c: jobs by their number ---- */

/* Releases, buries or touches a job that the client holds. */
void beanstalk_lease_answer(struct beanstalk_session *session);
void beanstalk_delete(struct beanstalk_session *session);

/* Finds the job for peek, stats-job, kick-job, reserve-job, and for a delete of a job that the
 * client does not hold. */
void beanstalk_look_up(struct beanstalk_session *session);

/* ---- tubes.c: tubes and the jobs of the used tube ---- */

void beanstalk_peek_ready(struct beanstalk_session *session);
void beanstalk_peek_delayed(struct beanstalk_session *session);
void beanstalk_peek_buried(struct beanstalk_session *session);
void beanstalk_kick(struct beanstalk_session *session);

void beanstalk_use(struct beanstalk_session *session);
void beanstalk_watch(struct beanstalk_session *session);
void beanstalk_ignore(struct beanstalk_session *session);
void beanstalk_list_used(struct beanstalk_session *session);
void beanstalk_list_watched(struct beanstalk_session *session);

void beanstalk_pause_tube(struct beanstalk_session *session);
void beanstalk_answer_tube(struct beanstalk_session *session);
/* Answers stats and list-tubes. */
void beanstalk_answer_all(struct beanstalk_session *session);

#endif
