/*
 * proxy_protocol: the header by which a proxy identifies its client, versions 1 (a line of text)
 * and 2 (binary). Pure.
 * https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt
 *
 * Any client that can connect can forge the header, so it is read only on listeners that only the
 * proxy can reach.
 */
#ifndef TARRY_NET_PROXY_PROTOCOL_H
#define TARRY_NET_PROXY_PROTOCOL_H

#include "base/slice.h"
#include "net/peer.h"

enum {
    PROXY_PROTOCOL_TEXT_BYTES_MAX = 107, /* of version 1, by its specification */
    PROXY_PROTOCOL_BYTES_MAX = 4096 /* of version 2: includes room for data after the addresses */
};

enum proxy_protocol_step {
    PROXY_PROTOCOL_WHOLE = 1,
    PROXY_PROTOCOL_MORE, /* incomplete, valid so far */
    PROXY_PROTOCOL_BAD   /* not a header, or invalid values */
};

/*
 * Reads the header at the beginning of the received bytes. For WHOLE, *used is its length, and
 * *peer is the client, or PEER_UNKNOWN if the proxy speaks for itself (a health check) or does not
 * identify the client. Otherwise both are unchanged.
 */
enum proxy_protocol_step proxy_protocol_read(struct slice bytes, struct peer *peer, size_t *used);

#endif
