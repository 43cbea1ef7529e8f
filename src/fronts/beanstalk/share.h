/*
 * share: how much of a turn of the loop a session may take.
 *
 * While a turn has time, a session begins its commands at once, some at a time. After that it stands in the
 * front's line, and each turn serves that from its front as long as there is time. So a client that
 * pipelines holds up no other for longer than a command takes. One thread.
 */
#ifndef TARRY_BEANSTALK_SHARE_H
#define TARRY_BEANSTALK_SHARE_H

#include "beanstalk/session.h"

/* May the session begin a command, as its next behind `begun` others? False: it goes on by itself in a turn to
 * come. */
bool beanstalk_share_take(struct beanstalk_session *session, uint32_t begun);

void beanstalk_share_init(struct beanstalk_front *front);
void beanstalk_share_fini(struct beanstalk_front *front);

#endif
