/* settle: the options of an answer of a consumer. Pure. */
#ifndef TARRY_GRPC_SETTLE_H
#define TARRY_GRPC_SETTLE_H

#include "grpc/fields.h"

/* Reads the options of an answer; each verb has its own. Returns false with a fault. */
bool settle_read(const Tarry__V1__AnswerRequest *answer, enum queue_verb verb,
                 struct fields *fields);
/* Returns true, or refuses an option that the call does not have. */
bool settle_lacks(bool is_given, const char *name, struct http_fault *fault);

#endif
