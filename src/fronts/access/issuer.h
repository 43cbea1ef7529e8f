/*
 * issuer: the issuer of JWTs: its name, its keys, and a cache of recent callers. The cache saves
 * verifying the same token again for each of many connections.
 *
 * Threads: any. The keys are passed in; fetching them is done elsewhere.
 */
#ifndef TARRY_ACCESS_ISSUER_H
#define TARRY_ACCESS_ISSUER_H

#include "access/access.h"

struct issuer;

/* Creates an issuer; copies the texts. Returns NULL when out of memory. */
struct issuer *issuer_new(const struct access_jwt_options *options);
void issuer_free(struct issuer *issuer); /* accepts NULL */

/* Replaces the keys. Returns 0 with *is_changed, or negative errno with `error`; then the keys stay
 * as they were. */
int issuer_set_keys(struct issuer *issuer, struct slice text, const char *place, bool *is_changed,
                    char *error);
size_t issuer_key_count(struct issuer *issuer);

/* Returns a reference to the caller of a token. */
enum access_refusal issuer_admit(struct issuer *issuer, struct slice text, int64_t now_ms,
                                 struct access_caller **caller);
/* Returns true if the keys have not changed since the caller was admitted. */
bool issuer_holds(const struct issuer *issuer, const struct access_caller *caller);
/* Returns true once after a token named an unknown key. */
bool issuer_wants_keys(struct issuer *issuer);

#endif
