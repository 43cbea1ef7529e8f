/* answers: the options of an answer of a consumer. Pure. */
#ifndef TARRY_API_ANSWERS_H
#define TARRY_API_ANSWERS_H

#include "http/exchange.h"

/* Applies options given for one lease or for all. */
void api_fields_answer(const struct http_fields *fields, struct queue_answer *answer);
/* Checks a result and its type. Returns false with *fault. */
bool api_result_check(const struct http_front *front, struct slice type, struct slice result,
                      struct http_fault *fault);

#endif
