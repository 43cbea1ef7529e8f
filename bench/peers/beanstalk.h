/*
 * load_beanstalk: beanstalkd's protocol as a load protocol, for comparing.
 *
 * It has no batches: a take is as many reserves as came to something last time, sent together, of
 * which only the first waits; an ack is one delete a job, all sent together. Delays are whole
 * seconds.
 */
#ifndef TARRY_LOAD_BEANSTALK_H
#define TARRY_LOAD_BEANSTALK_H

#include "load/protocol.h"

extern const struct load_protocol load_beanstalk;

#endif
