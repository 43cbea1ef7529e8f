/*
 * address: an IP address apart from how it was spelled. Pure.
 *
 * Sixteen bytes for both families: an IPv4 address stands in its mapped form (::ffff:a.b.c.d), so
 * that 1.2.3.4 and ::ffff:1.2.3.4 are one and the same here, as they are to the kernel.
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
    GUARD_SPELLS_NAME,   /* what a name server may be asked for */
    GUARD_SPELLS_NOTHING /* refused: neither */
};

/*
 * What a host, as it stands in a URL without brackets, is. Addresses in every spelling that some
 * reader of addresses takes: dotted with decimal, octal and hexadecimal parts, with one to four
 * parts, a final dot, and all forms of RFC 4291. Whatever ends in a number is an address or
 * nothing, as no name does (WHATWG URL, section 3.5). A zone index is refused.
 */
enum guard_spelling guard_address_parse(struct slice host, struct guard_address *out);

/* IPv4 addresses are numbers in the host's byte order here. */
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

/* False: a family other than IPv4 and IPv6. */
bool guard_address_of(const struct sockaddr *socket, struct guard_address *out);
void guard_address_emit(const struct guard_address *address, uint16_t port,
                        struct sockaddr_storage *out);

#endif
