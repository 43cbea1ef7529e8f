/*
 * issuer_keys: the keys of an issuer of JWTs from its JWKS URL: fetched at the start, every ten
 * minutes, when told to, and where a token names a key that is not known, that at most once a minute.
 * What was fetched last stays in force where the issuer cannot be asked.
 */
#ifndef TARRY_SERVER_ISSUER_KEYS_H
#define TARRY_SERVER_ISSUER_KEYS_H

#include "server/fetch.h"

struct issuer_keys { /* zeroed: closed */
    struct fetch fetch;
    const char *url, *ca_file;
    void (*got)(void *ctx, struct slice text, const char *url, const char *error);
    void *ctx;
    int64_t next_ms, wished_ms; /* inner clock: the next one; the last by a token's wish */
    bool has_keys;
};

/* Is it https, or http to this machine alone? False: `error` says what is wrong. */
bool issuer_keys_check_url(const char *url, char *error, size_t error_bytes);
/* Texts outlive it; `ca_file` empty: the system's. `got` is called on the reactor's thread with the
 * text, or with an error. */
bool issuer_keys_open(struct issuer_keys *keys, struct reactor *reactor, const char *url,
                      const char *ca_file);
/* Now and then; `is_wished`: a token names a key that is not known. */
void issuer_keys_look(struct issuer_keys *keys, bool is_wished);
/* At the next look. */
void issuer_keys_ask_again(struct issuer_keys *keys);
void issuer_keys_close(struct issuer_keys *keys);

#endif
