/* caller: makes callers, and counts who holds one. */
#ifndef TARRY_ACCESS_CALLER_H
#define TARRY_ACCESS_CALLER_H

#include "access/access.h"

/* A copy of all of it, held once. NULL when out of memory. */
struct access_caller *caller_new(const struct access_caller *like);
/* Whether they are the same in everything. */
bool caller_equals(const struct access_caller *a, const struct access_caller *b);
/* What made it is no more, or has changed: whoever holds it asks again. Any thread. */
void caller_end(struct access_caller *caller);
bool caller_has_ended(const struct access_caller *caller);

#endif
