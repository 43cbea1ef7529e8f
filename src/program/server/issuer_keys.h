/*
 * issuer_keys: the keys of a JWT issuer from its JWKS URL. They are fetched at the start, every ten
 * minutes, on request, and when a token names an unknown key, but then at most once a minute. If
 * the issuer is unreachable, the last keys stay in force.
 */
#ifndef TARRY_SERVER_ISSUER_KEYS_H
#define TARRY_SERVER_ISSUER_KEYS_H

#include "server/fetch.h"

struct issuer_keys { /* zeroed: closed */
    struct fetch fetch;
    const char *url, *ca_file;
    void (*got)(void *ctx, struct slice text, const char *url, const char *error);
    void *ctx;
    /* inner clock: time of the next fetch; time of the last one caused by a token */
    int64_t next_ms, wished_ms;
    bool has_keys;
};

/* Opens the fetcher; the texts must outlive it. If `ca_file` is empty, the system's CAs are used.
 * `got` is called on the reactor's thread with the text or with an error. */
bool issuer_keys_open(struct issuer_keys *keys, struct reactor *reactor, const char *url,
                      const char *ca_file);
/* Fetches the keys if they are due; call it periodically. `is_wished` is true if a token named an
 * unknown key. */
void issuer_keys_look(struct issuer_keys *keys, bool is_wished);
/* Fetches the keys at the next call of issuer_keys_look. */
void issuer_keys_ask_again(struct issuer_keys *keys);
void issuer_keys_close(struct issuer_keys *keys);

#endif
