/*
 * network: which addresses are public, which are not, and which hold another address. Pure.
 *
 * One table (network.c): a row each for the special-purpose registries of IANA and for what stands
 * in none of them. Of the rows an address lies in, the longest counts.
 */
#ifndef TARRY_GUARD_NETWORK_H
#define TARRY_GUARD_NETWORK_H

#include "guard/address.h"

enum { GUARD_NETWORK_TEXT_BYTES = 64, GUARD_NETWORK_ERROR_BYTES = 192 };

/* An allow-network of the policy file. */
struct guard_network {
    struct guard_address address; /* bits behind the prefix are 0 */
    uint8_t bits;                 /* of 128; an IPv4 network has 96 more than it is written with */
};

enum guard_network_kind {
    GUARD_NETWORK_PUBLIC = 1,
    GUARD_NETWORK_CLOSED,   /* reached only where an allow-network covers it */
    GUARD_NETWORK_METADATA, /* … and names exactly this address */
    GUARD_NETWORK_HOLDS,    /* judged by the IPv4 address within */
    GUARD_NETWORK_RELAYS    /* closed, and the IPv4 address within is judged, too */
};

struct guard_network_row {
    const char *network; /* as it is written */
    enum guard_network_kind kind;
    const char *what, *source;
};

/* The rows, for tests and pages; the last one's `network` is NULL. */
extern const struct guard_network_row guard_network_rows[];

/* "10.0.0.0/8", "fd00::/8", a lone address. False: `error` says what would be right. */
bool guard_network_parse(struct slice text, struct guard_network *out,
                         char error[GUARD_NETWORK_ERROR_BYTES]);
bool guard_network_covers(const struct guard_network *network, const struct guard_address *address);

/* May `address` be reached where `open` are named? */
bool guard_network_allows(const struct guard_network *open, size_t open_count,
                          const struct guard_address *address);

#endif
