/*
 * load_socket: the generator's connections, over TCP, or over TLS if the plan requires it.
 *
 * Error messages are written to `problem`: what failed, at which address, and why.
 */
#ifndef TARRY_LOAD_SOCKET_H
#define TARRY_LOAD_SOCKET_H

#include "base/buffer.h"
#include "load/load.h"
#include "net/tls.h"

struct load_socket {
    int fd;                  /* -1: closed */
    struct tls_session *tls; /* NULL: plain */
    struct buffer sealed;    /* ciphertext to send */
    size_t sealed_sent;      /* bytes of `sealed` already sent */
    size_t sealed_plain;     /* number of the caller's bytes in it */
};

/* Connects to the plan's host, without delaying small writes. Connecting and the TLS handshake
 * block. */
bool load_socket_open(struct load_socket *socket, const struct load_plan *plan, const char *port,
                      bool blocks, char problem[LOAD_TEXT_BYTES_MAX]);
void load_socket_close(struct load_socket *socket);

/* Send and receive like send(2) and recv(2). Bytes that were not accepted must be passed again,
 * possibly with more behind them, until they are. `cap` is more than LOAD_SOCKET_RECORD_BYTES. */
enum { LOAD_SOCKET_RECORD_BYTES = 17 * 1024 };
ssize_t load_socket_send(struct load_socket *socket, const char *bytes, size_t len);
ssize_t load_socket_receive(struct load_socket *socket, char *into, size_t cap);

/* Makes one blocking request on a connection of its own: sends it and reads until `is_whole`
 * returns true or the peer closes, for at most five seconds. Returns false and fills in
 * `problem` if the answer is incomplete. */
bool load_socket_call(const struct load_plan *plan, struct slice request, struct buffer *answer,
                      bool (*is_whole)(struct slice answer), char problem[LOAD_TEXT_BYTES_MAX]);

#endif
