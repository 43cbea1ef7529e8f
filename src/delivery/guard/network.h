/*
 * network: classifies addresses as public, not public, or containing another address. Pure.
 *
 * There is one table (network.c): a row for each entry of IANA's special-purpose registries, and
 * for networks that are not in these registries. Of the rows that cover an address, the one with
 * the longest prefix counts.
 */
#ifndef TARRY_GUARD_NETWORK_H
#define TARRY_GUARD_NETWORK_H

#include "guard/address.h"

enum { GUARD_NETWORK_TEXT_BYTES = 64, GUARD_NETWORK_ERROR_BYTES = 192 };

/* An allow-network of the policy file. */
struct guard_network {
    struct guard_address address; /* bits after the prefix are 0 */
    uint8_t bits;                 /* of 128; for an IPv4 network 96 more than in its text */
};

enum guard_network_kind {
    GUARD_NETWORK_PUBLIC = 1,
    GUARD_NETWORK_CLOSED,   /* reachable only if an allow-network covers it */
    GUARD_NETWORK_METADATA, /* … and only if one names exactly this address */
    GUARD_NETWORK_HOLDS,    /* decided by the IPv4 address it contains */
    GUARD_NETWORK_RELAYS    /* closed, and the IPv4 address it contains is also checked */
};

struct guard_network_row {
    const char *network; /* in text form */
    enum guard_network_kind kind;
    const char *what, *source;
};

/* The rows, for tests and pages; the last one's `network` is NULL. */
extern const struct guard_network_row guard_network_rows[];

/* Parses "10.0.0.0/8", "fd00::/8" or a single address. Returns false with `error`, which names a
 * valid form. */
bool guard_network_parse(struct slice text, struct guard_network *out,
                         char error[GUARD_NETWORK_ERROR_BYTES]);
bool guard_network_covers(const struct guard_network *network, const struct guard_address *address);

/* Returns true if `address` may be reached when the networks `open` are allowed. */
bool guard_network_allows(const struct guard_network *open, size_t open_count,
                          const struct guard_address *address);

#endif
