/*
 * share: how much of a loop iteration a session may take.
 *
 * While the iteration has time left, a session begins its commands immediately, up to a limit.
 * After that the session joins the front's waiting list. Each iteration serves this list from its
 * head while there is time. So a client that pipelines delays other clients by at most one command.
 * One thread.
 */
#ifndef TARRY_BEANSTALK_SHARE_H
#define TARRY_BEANSTALK_SHARE_H

#include "beanstalk/session.h"

/* Returns true if the session may begin a command after `begun` others. If false, the session
 * continues by itself in a later iteration. */
bool beanstalk_share_take(struct beanstalk_session *session, uint32_t begun);

void beanstalk_share_init(struct beanstalk_front *front);
void beanstalk_share_fini(struct beanstalk_front *front);

#endif
