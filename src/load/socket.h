/*
 * load_socket: TCP connections for the generator.
 *
 * Errors for people go into `problem`: what failed, at which address, and why.
 */
#ifndef TARRY_LOAD_SOCKET_H
#define TARRY_LOAD_SOCKET_H

#include "base/buffer.h"
#include "load/load.h"

/* A connected socket that sends at once; -1 on failure. Connecting itself blocks. */
int load_socket_open(const char *host, const char *port, bool blocks,
                     char problem[LOAD_TEXT_BYTES_MAX]);

/* One request, blocking: sends it on a connection of its own and reads until `is_whole` says so or
 * the other side closes, at most five seconds. False with `problem` when there was no whole answer.
 */
bool load_socket_call(const char *host, const char *port, struct slice request,
                      struct buffer *answer, bool (*is_whole)(struct slice answer),
                      char problem[LOAD_TEXT_BYTES_MAX]);

#endif
