/*
 * wire: what a connection speaks: how the bytes of its requests are read, and how its answers are
 * written. A connection has one wire from its first byte to its end.
 *
 * The functions are called by the rest of this room; the wire itself closes no connection and
 * refuses none: it returns what the connection must do. Runs on the reactor thread.
 */
#ifndef TARRY_HTTP_WIRE_H
#define TARRY_HTTP_WIRE_H

#include "base/slice.h"
#include "http/fault.h"
#include "http/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_connection;
struct http_exchange;

enum http_fed {
    HTTP_FED_NONE = 0, /* nothing was done */
    HTTP_FED,          /* read on */
    HTTP_FED_HELD,     /* requests are held back: read nothing until `resume` */
    HTTP_FED_CLOSING,  /* more input is ignored */
    HTTP_FED_REFUSED,  /* answer *fault and close */
    HTTP_FED_FAILED    /* out of memory: close */
};

struct http_wire {
    bool is_ordered; /* answers leave in the order of the requests */

    /* Handles decrypted bytes, in the shared buffer or the connection's own. */
    enum http_fed (*feed)(struct http_connection *connection, char *bytes, size_t len,
                          struct http_fault *fault);
    /* Tries held requests again at the end of an iteration. Returns HTTP_FED_NONE if no request is held,
     * or no room for them. */
    enum http_fed (*resume)(struct http_connection *connection, struct http_fault *fault);
    /* Handles the expiry of the phase. Returns HTTP_FED_NONE if the connection is to handle it.
     * NULL: always. */
    enum http_fed (*expire)(struct http_connection *connection, enum http_phase phase);
    /* Handles the end of the peer's output: waiting takes and open answers end. On HTTP/2 the
     * connection ends. */
    void (*end_waits)(struct http_connection *connection);
    /* Ends open answers because the front drains. Returns HTTP_FED_NONE if the connection is to be
     * drained as one without them. */
    enum http_fed (*drain)(struct http_connection *connection);
    /* Separates all exchanges from the connection, which closes. */
    void (*cut)(struct http_connection *connection);
    /* Adds what was collected to the output, before it is written. */
    void (*flush)(struct http_connection *connection);

    /* Returns the exchange after this one, or the first one (NULL), or NULL at the end. */
    struct http_exchange *(*next)(const struct http_connection *connection,
                                  const struct http_exchange *exchange);
    /* Ends an open call whose caller is no longer valid. NULL: there are none. */
    void (*revoke)(struct http_exchange *exchange);
    /* Adds a new exchange to the connection. */
    void (*add)(struct http_exchange *exchange);
    /* Writes the answer in the front's `body` and `fields`, and ends the exchange. Without a
     * content type it has no body, as for 204. */
    void (*answer)(struct http_exchange *exchange, uint16_t status, const char *content_type);
    /* Asks the client for the body that it holds back. Ends the exchange. */
    void (*proceed)(struct http_exchange *exchange);
    /* Writes the head of an answer that stays open, its parts, and its end, which ends the
     * exchange. */
    void (*open)(struct http_exchange *exchange, const char *content_type);
    void (*write)(struct http_exchange *exchange, struct slice text);
    void (*close)(struct http_exchange *exchange);
    /* Returns how many bytes of an open answer are not written; SIZE_MAX: the client does not
     * read. */
    size_t (*unsent)(const struct http_exchange *exchange);
};

extern const struct http_wire http1_wire; /* HTTP/1.1; http2.h switches to HTTP/2 */

#endif
