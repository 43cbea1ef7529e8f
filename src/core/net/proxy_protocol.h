/*
 * proxy_protocol: the header by which a proxy says who its client is, versions 1 (a line of text)
 * and 2 (binary). Pure.
 * https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt
 *
 * Whoever may connect may say anything in it: it is read only where the proxy alone comes.
 */
#ifndef TARRY_NET_PROXY_PROTOCOL_H
#define TARRY_NET_PROXY_PROTOCOL_H

#include "base/slice.h"
#include "net/peer.h"

enum {
    PROXY_PROTOCOL_TEXT_BYTES_MAX = 107, /* of version 1, by its specification */
    PROXY_PROTOCOL_BYTES_MAX = 4096      /* of version 2: room for what may follow the addresses */
};

enum proxy_protocol_step {
    PROXY_PROTOCOL_WHOLE = 1,
    PROXY_PROTOCOL_MORE, /* so far it is one */
    PROXY_PROTOCOL_BAD   /* it is none, or says what nobody can mean */
};

/*
 * Reads the header at the beginning of what has come. WHOLE: its length is in *used, and *peer is the
 * client, or PEER_UNKNOWN where the proxy speaks for itself (it looks whether we are there) or does
 * not say. Else both are untouched.
 */
enum proxy_protocol_step proxy_protocol_read(struct slice bytes, struct peer *peer, size_t *used);

#endif
