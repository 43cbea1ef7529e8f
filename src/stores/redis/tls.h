/*
 * tls: what connections to Redis have in common where they are encrypted: whose certificates are
 * believed, the certificate that is shown, the name that is expected.
 */
#ifndef TARRY_REDIS_TLS_H
#define TARRY_REDIS_TLS_H

#include "net/tls.h"
#include "redis/url.h"

/* Reads the files that a rediss:// URL names, into url->tls.context; of another one it does nothing.
 * False: `error` says which file, and what is wrong with it. */
bool redis_tls_open(struct redis_url *url, char *error, size_t error_bytes);
/* Of a zeroed URL, or one that was never opened: nothing. Connections there are go on. */
void redis_tls_close(struct redis_url *url);

/* A session with the server at `endpoint`; what it says first is appended to `out`. NULL: out of
 * memory. */
struct tls_session *redis_tls_connect(const struct redis_tls *tls,
                                      const struct redis_endpoint *endpoint, struct buffer *out);
/* Why a session with Redis failed, with what helps. */
void redis_tls_explain(const struct tls_session *session, char *out, size_t out_bytes);

#endif
