/*
 * commands: how each command of the protocol begins. A command either answers at once or calls the queue, and
 * then answers when the reply comes. Which one it is stands in session->command. One thread.
 */
#ifndef TARRY_BEANSTALK_COMMANDS_H
#define TARRY_BEANSTALK_COMMANDS_H

#include "beanstalk/session.h"

/* ---- put.c ---- */

/* The line of a put, of `line_bytes`, is at the front of the input. False: more of it must come first. */
bool beanstalk_put(struct beanstalk_session *session, const struct beanstalk_command *put,
                   size_t line_bytes);

/* ---- reserve.c: taking jobs, and their time ---- */

void beanstalk_reserve(struct beanstalk_session *session);
/* The wait of a reserve is over before a job came. */
void beanstalk_reserve_give_up(struct beanstalk_session *session, const char *text);
/* The client has the job from now on, and is told so. False: out of memory, it went back. */
bool beanstalk_reserve_hold(struct beanstalk_session *session, const struct queue_job *taken);
/* The next moment at which a reservation or a wait is to be looked at. */
void beanstalk_reserve_set_timer(struct beanstalk_session *session);
void beanstalk_reserve_woken(struct beanstalk_session *session);

/* ---- lease.c: delete, release, bury, touch ---- */

/* Of a job that the client holds. */
void beanstalk_lease_answer(struct beanstalk_session *session);
void beanstalk_delete(struct beanstalk_session *session);

/* ---- lookup.c: jobs by their number ---- */

/* peek, stats-job, kick-job, reserve-job, and delete of what the client does not hold. */
void beanstalk_look_up(struct beanstalk_session *session);

/* ---- tube_jobs.c: jobs of the tube that is used ---- */

void beanstalk_peek_ready(struct beanstalk_session *session);
void beanstalk_peek_delayed(struct beanstalk_session *session);
void beanstalk_peek_buried(struct beanstalk_session *session);
void beanstalk_kick(struct beanstalk_session *session);

/* ---- watch.c: which tubes the client uses and watches ---- */

void beanstalk_use(struct beanstalk_session *session);
void beanstalk_watch(struct beanstalk_session *session);
void beanstalk_ignore(struct beanstalk_session *session);
void beanstalk_list_used(struct beanstalk_session *session);
void beanstalk_list_watched(struct beanstalk_session *session);

/* ---- topics.c: what the queue knows of tubes ---- */

void beanstalk_pause_tube(struct beanstalk_session *session);
void beanstalk_tell_tube(struct beanstalk_session *session);
/* stats and list-tubes. */
void beanstalk_tell_all(struct beanstalk_session *session);

#endif
