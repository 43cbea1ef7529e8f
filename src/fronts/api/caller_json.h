/* caller_json: a caller and its rights as JSON. Pure. */
#ifndef TARRY_API_CALLER_JSON_H
#define TARRY_API_CALLER_JSON_H

#include "access/access.h"

/* Writes `"name":…,"kind":…,"scopes":[…],"topics":[…]`, and `expires_at` if the caller expires;
 * without braces. */
void api_caller_members_write(struct buffer *out, const struct access_caller *caller);

#endif
