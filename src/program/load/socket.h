/*
 * load_socket: connections for the generator, by TCP, and by TLS where the plan says so.
 *
 * Errors for people go into `problem`: what failed, at which address, and why.
 */
#ifndef TARRY_LOAD_SOCKET_H
#define TARRY_LOAD_SOCKET_H

#include "base/buffer.h"
#include "load/load.h"
#include "net/tls.h"

struct load_socket {
    int fd;                  /* -1: closed */
    struct tls_session *tls; /* NULL: plain */
    struct buffer sealed;    /* to be sent */
    size_t sealed_sent;      /* of it */
    size_t sealed_plain;     /* bytes of the caller's in it */
};

/* Connects to the plan's host; it sends at once. Connecting itself blocks, and so does a handshake.
 */
bool load_socket_open(struct load_socket *socket, const struct load_plan *plan, const char *port,
                      bool blocks, char problem[LOAD_TEXT_BYTES_MAX]);
void load_socket_close(struct load_socket *socket);

/* Like send(2) and recv(2). What is to be sent is given again, with more behind it maybe, until it
 * was taken. `cap` is more than LOAD_SOCKET_RECORD_BYTES. */
enum { LOAD_SOCKET_RECORD_BYTES = 17 * 1024 };
ssize_t load_socket_send(struct load_socket *socket, const char *bytes, size_t len);
ssize_t load_socket_receive(struct load_socket *socket, char *into, size_t cap);

/* One request, blocking: sends it on a connection of its own and reads until `is_whole` says so or
 * the other side closes, at most five seconds. False with `problem` when there was no whole answer.
 */
bool load_socket_call(const struct load_plan *plan, struct slice request, struct buffer *answer,
                      bool (*is_whole)(struct slice answer), char problem[LOAD_TEXT_BYTES_MAX]);

#endif
