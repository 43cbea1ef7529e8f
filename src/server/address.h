/*
 * address: where a server listens, as text and as the system wants it. Pure.
 *
 * Text: "127.0.0.1:8279", "[::1]:8279", "localhost:8279" (127.0.0.1). Names are not resolved: a
 * server says which of its addresses it means. Port 0: any free one.
 */
#ifndef TARRY_SERVER_ADDRESS_H
#define TARRY_SERVER_ADDRESS_H

#include "base/slice.h"

#include <stdint.h>
#include <sys/socket.h>

enum { ADDRESS_TEXT_BYTES = 64 };

struct address {
    struct sockaddr_storage socket;
    socklen_t socket_bytes;
};

/* False, *out untouched, on anything else than the above. */
bool address_parse(struct slice text, struct address *out);
void address_emit(const struct address *address, char out[ADDRESS_TEXT_BYTES]);
/* Without port and brackets. */
void address_emit_host(const struct address *address, char out[ADDRESS_TEXT_BYTES]);

uint16_t address_port(const struct address *address);
void address_set_port(struct address *address, uint16_t port);

/* Can only this machine reach it? 127.0.0.0/8, ::1 and ::ffff:127.0.0.0/104. */
bool address_is_loopback(const struct address *address);

#endif
