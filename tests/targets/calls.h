/* calls: a peer that takes calls by HTTP and answers each with status 200, for rigs. */
#ifndef TARRY_TESTS_TARGETS_CALLS_H
#define TARRY_TESTS_TARGETS_CALLS_H

#include "peer.h"

/* The size of the request that the bytes begin with; 0: not all of it is there. */
size_t calls_request_bytes(struct peer_talk *talk);
/* Answers with status 200 and this body. */
bool calls_write(const struct peer_talk *talk, const char *body);

#endif
