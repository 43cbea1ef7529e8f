/*
 * issuer: the issuer of JWTs as a server knows it: what it is called, its keys, and the callers of
 * late, so that a token that comes with each of many connections is looked at once.
 *
 * Threads: any. Keys are read from what is given; who fetches them is somebody else's.
 */
#ifndef TARRY_ACCESS_ISSUER_H
#define TARRY_ACCESS_ISSUER_H

#include "access/access.h"

struct issuer;

/* NULL: out of memory. The texts are copied. */
struct issuer *issuer_new(const struct access_jwt_options *options);
void issuer_free(struct issuer *issuer); /* NULL: nothing */

/* 0 with *is_changed, or negative errno with `error`: the keys stay as they were. */
int issuer_set_keys(struct issuer *issuer, struct slice text, const char *place, bool *is_changed,
                    char *error);
size_t issuer_key_count(struct issuer *issuer);

/* The caller of a token, held. */
enum access_refusal issuer_admit(struct issuer *issuer, struct slice text, int64_t now_ms,
                                 struct access_caller **caller);
/* Have the keys stayed the same since he was admitted? */
bool issuer_holds(const struct issuer *issuer, const struct access_caller *caller);
/* Somebody named a key that is not known: once after each such time. */
bool issuer_wants_keys(struct issuer *issuer);

#endif
