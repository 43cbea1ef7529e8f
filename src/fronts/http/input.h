/*
 * input: bytes that came on a connection and are no whole request yet. What is parsed at once never
 * comes here: it lies in the buffer that all connections of a front read into.
 *
 * They are counted in the budget of what requests may hold. The reactor's thread.
 */
#ifndef TARRY_HTTP_INPUT_H
#define TARRY_HTTP_INPUT_H

#include "http/connection.h"

/* Keeps what is not parsed yet. `bytes` is the shared buffer or the connection's own. False: no memory. */
bool http_input_keep(struct http_connection *connection, const char *bytes, size_t len);
/* Makes room for `cap` bytes. False: no memory, and all is as before. */
bool http_input_grow(struct http_connection *connection, size_t cap);
/* How large its own buffer should be for the next read: ever larger, but no larger than a body whose
 * length is known. */
size_t http_input_cap_wanted(const struct http_connection *connection);
void http_input_drop_bytes(struct http_connection *connection);
/* Forgets a request that is not whole, or not begun. */
void http_input_drop(struct http_connection *connection);

#endif
