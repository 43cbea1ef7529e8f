/* answers: the options of an answer of a consumer. Pure. */
#ifndef TARRY_API_ANSWERS_H
#define TARRY_API_ANSWERS_H

#include "http/query.h"

/* Applies options given for one lease or for all. */
void api_fields_answer(const struct http_fields *fields, struct queue_answer *answer);

#endif
