/*
 * dispatch: what came from a client is cut into commands, which are carried out one after the other. A
 * command that waits for the queue holds up those behind it and nobody else. One thread.
 */
#ifndef TARRY_BEANSTALK_DISPATCH_H
#define TARRY_BEANSTALK_DISPATCH_H

#include "beanstalk/session.h"

extern const struct beanstalk_session_driver beanstalk_dispatch;

#endif
