/*
 * stomp_tls: one TLS conversation between buffers; whoever owns the socket carries the bytes. The
 * peer's certificate is checked against the system's authorities and its name or address.
 */
#ifndef TARRY_TARGETS_STOMP_TLS_H
#define TARRY_TARGETS_STOMP_TLS_H

#include "base/buffer.h"

#include <sys/types.h>

enum { STOMP_TLS_WHY_BYTES = 160 };

struct stomp_tls;

/* `host`: a name or an address. `ca_file`: trusted beside the system's, or NULL. NULL: out of
 * memory, or the file cannot be read. */
struct stomp_tls *stomp_tls_new(const char *host, const char *ca_file);
void stomp_tls_free(struct stomp_tls *tls);

void stomp_tls_take_in(struct stomp_tls *tls, const char *at, size_t len); /* from the network */
void stomp_tls_take_out(struct stomp_tls *tls, struct buffer *out);        /* for the network */

/* True: done. False: more is needed from the peer, or *fault says what is wrong (valid as long as
 * `tls`). */
bool stomp_tls_shake_hands(struct stomp_tls *tls, const char **fault);
/* Bytes read; 0: none now, or the end, or *fault is set. */
ssize_t stomp_tls_read(struct stomp_tls *tls, char *into, size_t len, const char **fault);
/* All of it. False: the conversation is broken. */
bool stomp_tls_write(struct stomp_tls *tls, const char *at, size_t len);

#endif
