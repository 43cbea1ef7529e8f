/*
 * address: where a server listens, as text and as the system wants it. Pure.
 *
 * Text: "127.0.0.1:8279", "[::1]:8279", "localhost:8279" (127.0.0.1). Names are not resolved: a
 * server says which of its addresses it means. Port 0: any free one. (base/url.h knows no port 0,
 * and no address without a scheme.)
 */
#ifndef TARRY_SERVER_ADDRESS_H
#define TARRY_SERVER_ADDRESS_H

#include "base/slice.h"

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

enum { ADDRESS_TEXT_BYTES = 64 };

struct address {
    struct sockaddr_storage socket;
    socklen_t socket_bytes;
    char host[INET6_ADDRSTRLEN]; /* without port and brackets */
    uint16_t port;
    bool is_ipv6;
    bool is_loopback; /* only this machine reaches it: 127.0.0.0/8, ::1 and ::ffff:127.0.0.0/104 */
};

/* False, *out untouched, on anything else than the above. */
bool address_parse(struct slice text, struct address *out);
void address_emit(const struct address *address, char out[ADDRESS_TEXT_BYTES]);

#endif
