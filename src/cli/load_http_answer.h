/* load_http_answer: inside load_http only. */
#ifndef TARRY_CLI_LOAD_HTTP_ANSWER_H
#define TARRY_CLI_LOAD_HTTP_ANSWER_H

#include "cli/load_protocol.h"

enum load_outcome load_http_parse(struct load_speech *speech, enum load_kind kind, uint32_t count,
                                  struct slice bytes, struct load_answer *answer);

#endif
