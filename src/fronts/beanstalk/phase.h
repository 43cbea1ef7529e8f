/*
 * phase: what a client is waited for, and how long.
 *
 * Each phase has one time limit, and a list of its sessions in the front, which is in order of time by itself.
 * The front has one alarm, for the first of all. A session that waits for a job or for the queue, or that holds
 * jobs, is in no phase: a worker may take as long as its TTR allows. One thread.
 */
#ifndef TARRY_BEANSTALK_PHASE_H
#define TARRY_BEANSTALK_PHASE_H

#include "beanstalk/session.h"

/* Decides on the phase. `has_moved`: a command has been carried out, so that the time counts from now. */
void beanstalk_phase_settle(struct beanstalk_session *session, bool has_moved);
/* The session is in no phase from now on. */
void beanstalk_phase_leave(struct beanstalk_session *session);

/* False: out of memory. */
bool beanstalk_phases_init(struct beanstalk_front *front);
void beanstalk_phases_fini(struct beanstalk_front *front);

#endif
