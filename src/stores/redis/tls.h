/*
 * tls: the common TLS settings of connections to Redis: the trusted CAs, the client certificate,
 * the expected server name.
 */
#ifndef TARRY_REDIS_TLS_H
#define TARRY_REDIS_TLS_H

#include "net/tls.h"
#include "redis/url.h"

/* Reads the files named by a rediss:// URL into url->tls.context; does nothing for other URLs.
 * Returns false if this fails: `error` names the file and the problem. */
bool redis_tls_open(struct redis_url *url, char *error, size_t error_bytes);
/* Closes the context. Does nothing for a URL that is zeroed or was never opened. Existing
 * connections continue. */
void redis_tls_close(struct redis_url *url);

/* Begins a session with the server at `endpoint` and appends its first bytes to `out`. Returns NULL
 * if memory runs out. */
struct tls_session *redis_tls_connect(const struct redis_tls *tls,
                                      const struct redis_endpoint *endpoint, struct buffer *out);
/* Writes why a session with Redis failed, and a remedy. */
void redis_tls_explain(const struct tls_session *session, char *out, size_t out_bytes);

#endif
