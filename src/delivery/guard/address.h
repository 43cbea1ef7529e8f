/*
 * address: an IP address, independent of its spelling. Pure.
 *
 * It has sixteen bytes for both families: an IPv4 address is stored in its mapped form
 * (::ffff:a.b.c.d). So 1.2.3.4 and ::ffff:1.2.3.4 are the same address here, as they are for the
 * kernel.
 */
#ifndef TARRY_GUARD_ADDRESS_H
#define TARRY_GUARD_ADDRESS_H

#include "base/slice.h"

#include <stdint.h>
#include <sys/socket.h>

enum { GUARD_ADDRESS_BYTES = 16, GUARD_ADDRESS_BITS = 128, GUARD_V4_BITS_BEFORE = 96 };

struct guard_address {
    unsigned char bytes[GUARD_ADDRESS_BYTES];
};

enum guard_spelling {
    GUARD_SPELLS_ADDRESS = 1,
    GUARD_SPELLS_NAME,   /* can be looked up at a name server */
    GUARD_SPELLS_NOTHING /* neither; rejected */
};

/*
 * Classifies a host as written in a URL, without brackets. Addresses are accepted in every spelling
 * that any address parser accepts: dotted with decimal, octal and hexadecimal parts, with one to
 * four parts, with a final dot, and all forms of RFC 4291. A host that ends in a number is an
 * address or invalid, never a name (WHATWG URL, section 3.5). A zone index is rejected.
 */
enum guard_spelling guard_address_parse(struct slice host, struct guard_address *out);

/* Converts an IPv4 address in host byte order. */
static inline struct guard_address guard_address_v4(uint32_t address)
{
    return (struct guard_address){.bytes = {[10] = 0xff,
                                            [11] = 0xff,
                                            [12] = (unsigned char)(address >> 24),
                                            [13] = (unsigned char)(address >> 16),
                                            [14] = (unsigned char)(address >> 8),
                                            [15] = (unsigned char)address}};
}

static inline uint32_t guard_address_v4_at(const struct guard_address *address, size_t byte)
{
    const unsigned char *at = address->bytes + byte;
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline bool guard_address_is_v4(const struct guard_address *address)
{
    struct guard_address same = guard_address_v4(guard_address_v4_at(address, 12));
    return memcmp(address, &same, sizeof same) == 0;
}

/* Returns false for families other than IPv4 and IPv6. */
bool guard_address_of(const struct sockaddr *socket, struct guard_address *out);
void guard_address_emit(const struct guard_address *address, uint16_t port,
                        struct sockaddr_storage *out);

#endif
