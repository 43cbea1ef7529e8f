/*
 * token: the secret itself: "tarry_", thirty letters and digits drawn at random (178 bits), and six
 * more that are their CRC-32. The last let a scanner for secrets know one without asking anybody;
 * they prove nothing.
 */
#ifndef TARRY_ACCESS_TOKEN_H
#define TARRY_ACCESS_TOKEN_H

#include "base/slice.h"

#define TOKEN_PREFIX "tarry_"
enum { TOKEN_RANDOM_BYTES = 30, TOKEN_CHECK_BYTES = 6, TOKEN_BYTES = 42, TOKEN_HASH_BYTES = 32 };

/* Draws a new one, with a NUL behind it. */
void token_make(char out[TOKEN_BYTES + 1]);
/* Is it one by its form? */
bool token_is_formed(struct slice text);
/* SHA-256. */
void token_hash(struct slice token, unsigned char out[TOKEN_HASH_BYTES]);

#endif
