/*
 * dispatch: cuts the input of a client into commands and executes them in order. A command that
 * waits for the queue delays only the commands behind it. One thread.
 */
#ifndef TARRY_BEANSTALK_DISPATCH_H
#define TARRY_BEANSTALK_DISPATCH_H

#include "beanstalk/session.h"

extern const struct beanstalk_session_driver beanstalk_dispatch;

#endif
