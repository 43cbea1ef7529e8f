/*
 * token: the text of a token: "tarry_", thirty random letters and digits (178 bits), and six more
 * with their CRC-32. With the check digits, a secret scanner can recognize a token offline; they
 * add no security.
 */
#ifndef TARRY_ACCESS_TOKEN_H
#define TARRY_ACCESS_TOKEN_H

#include "base/slice.h"

#define TOKEN_PREFIX "tarry_"
enum { TOKEN_RANDOM_BYTES = 30, TOKEN_CHECK_BYTES = 6, TOKEN_BYTES = 42, TOKEN_HASH_BYTES = 32 };

/* Generates a token, NUL-terminated. */
void token_make(char out[TOKEN_BYTES + 1]);
/* Returns true if the text has the form of a token. */
bool token_is_formed(struct slice text);
/* Computes the SHA-256 of a token. */
void token_hash(struct slice token, unsigned char out[TOKEN_HASH_BYTES]);

#endif
