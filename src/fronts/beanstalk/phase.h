/*
 * phase: what the server expects from a client, and for how long it waits.
 *
 * Each phase has one time limit and one list of sessions in the front. Since the limit is the same
 * for all sessions of a list, the list is sorted by time. The front has one alarm, set for the
 * earliest session. A session that waits for a job or for the queue, or that holds jobs, is in no
 * phase: a worker may take as long as its TTR allows. One thread.
 */
#ifndef TARRY_BEANSTALK_PHASE_H
#define TARRY_BEANSTALK_PHASE_H

#include "beanstalk/session.h"

/* Determines the phase of a session. `has_moved`: a command has been executed, so the time limit
 * restarts now. */
void beanstalk_phase_settle(struct beanstalk_session *session, bool has_moved);
/* Removes the session from its phase. */
void beanstalk_phase_leave(struct beanstalk_session *session);

/* Returns false if out of memory. */
bool beanstalk_phases_init(struct beanstalk_front *front);
void beanstalk_phases_fini(struct beanstalk_front *front);

#endif
