/*
 * address: the text form of a listener's address. Pure.
 *
 *     127.0.0.1:8279              an address and a port; port 0 is any free one
 *     [::1]:8279                  an IPv6 address
 *     localhost:8279              127.0.0.1
 *     unix:/run/tarry/tarry.sock  a Unix socket
 *     fd:web  fd:3                an inherited socket: its name or its number
 *
 * It can be followed by attributes, separated by commas:
 *
 *     tls              TLS
 *     plain            no TLS, although other machines can connect
 *     require-token    clients must authenticate
 *     no-token         clients need not authenticate
 *     proxy-protocol   each connection begins with the header of a proxy
 *     mode=0660        mode of the Unix socket file
 *     group=tarry      group of the Unix socket file
 *
 * Names are not resolved: the address has to be given.
 */
#ifndef TARRY_SERVER_ADDRESS_H
#define TARRY_SERVER_ADDRESS_H

#include "base/slice.h"
#include "net/listener.h"

enum { ADDRESS_TEXT_BYTES = LISTENER_NAME_BYTES, ADDRESS_ERROR_BYTES = 200 };

/* Parses an address. Returns false with `error`, which names a correction; *out is then
 * unchanged. */
bool address_parse(struct slice text, struct listener_options *out,
                   char error[ADDRESS_ERROR_BYTES]);
/* Writes the address without the attributes. */
void address_emit(const struct listener_options *options, char out[ADDRESS_TEXT_BYTES]);

#endif
