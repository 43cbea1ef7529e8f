/*
 * server: the program under test, started in place of beanstalkd: on a socket that is opened first, because its
 * caller reads its port, or connects, before the server runs. It is handed on as LISTEN_FDS has it.
 */
#ifndef TRY_SERVER_H
#define TRY_SERVER_H

#include <stdbool.h>
#include <stddef.h>

/* `host`: an address, or unix:PATH; a socket file that was left behind is replaced, as beanstalkd does. -1: it failed. */
int server_socket(const char *host, const char *port);

/* Becomes the program that TARRY_BIN names, on that socket. Does not return. */
void server_become(int fd, const char *data, size_t job_bytes_max, bool is_draining);

#endif
