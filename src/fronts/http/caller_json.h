/* caller_json: who may call, and what, as JSON. Pure. */
#ifndef TARRY_HTTP_CALLER_JSON_H
#define TARRY_HTTP_CALLER_JSON_H

#include "access/access.h"

/* `"name":…,"kind":…,"scopes":[…],"topics":[…]`, and `expires_at` where there is an end; without
 * braces. */
void http_caller_members_write(struct buffer *out, const struct access_caller *caller);

#endif
