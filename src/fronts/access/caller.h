/* caller: creates and reference-counts callers. */
#ifndef TARRY_ACCESS_CALLER_H
#define TARRY_ACCESS_CALLER_H

#include "access/access.h"

/* Returns a deep copy with one reference, or NULL when out of memory. */
struct access_caller *caller_new(const struct access_caller *like);
/* Returns true if all fields are equal. */
bool caller_equals(const struct access_caller *a, const struct access_caller *b);
/* Marks a caller whose source was removed or changed: its holders have to authenticate again. Any
 * thread. */
void caller_end(struct access_caller *caller);
bool caller_has_ended(const struct access_caller *caller);
/* Returns the time of the last access_caller_use, or 0. Any thread. */
int64_t caller_used_ms(const struct access_caller *caller);

#endif
