/* mac: SipHash-2-4 (Aumasson, Bernstein 2012) of two words under a secret key: without the key, the
 * value for unseen words cannot be computed. Pure. */
#ifndef TARRY_BASE_MAC_H
#define TARRY_BASE_MAC_H

#include <stdint.h>

struct mac_key {
    uint64_t low, high;
};

/* Returns the MAC of the 16 bytes of both words, little-endian. */
uint64_t mac_pair(const struct mac_key *key, uint64_t first, uint64_t second);

#endif
