/*
 * load_sqs: Amazon SQS' AWS JSON 1.0 as a load protocol, for comparing.
 *
 * Up to ten messages in each call, the limit of SQS. Delays are whole seconds. Requests carry the
 * headers that an SDK sends, with a signature that the server does not check.
 */
#ifndef TARRY_LOAD_SQS_H
#define TARRY_LOAD_SQS_H

#include "load/protocol.h"

extern const struct load_protocol load_sqs;

#endif
