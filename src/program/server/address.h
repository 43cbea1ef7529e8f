/*
 * address: where a server listens, as people write it. Pure.
 *
 *     127.0.0.1:8279              an address and a port; port 0 is any free one
 *     [::1]:8279                  of IPv6
 *     localhost:8279              127.0.0.1
 *     unix:/run/tarry/tarry.sock  a unix socket
 *     fd:web  fd:3                a socket that is there already: its name, or its number
 *
 * and after it, with commas between, words about it:
 *
 *     tls              TLS is spoken here
 *     plain            no TLS is meant, where other machines reach it
 *     require-token    clients must prove themselves
 *     no-token         they need not
 *     proxy-protocol   each connection begins with the header of a proxy
 *     mode=0660        of the file of a unix socket
 *     group=tarry      of the file of a unix socket
 *
 * Names are not resolved: a server says which of its addresses it means.
 */
#ifndef TARRY_SERVER_ADDRESS_H
#define TARRY_SERVER_ADDRESS_H

#include "base/slice.h"
#include "net/listener.h"

enum { ADDRESS_TEXT_BYTES = LISTENER_NAME_BYTES, ADDRESS_ERROR_BYTES = 200 };

/* False, *out untouched: `error` says what to write instead. */
bool address_parse(struct slice text, struct listener_options *out,
                   char error[ADDRESS_ERROR_BYTES]);
/* Without the words. */
void address_emit(const struct listener_options *options, char out[ADDRESS_TEXT_BYTES]);

#endif
