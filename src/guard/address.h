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

struct guard_address guard_address_v4(uint32_t address); /* host's byte order */
bool guard_address_is_v4(const struct guard_address *address);
uint32_t guard_address_v4_at(const struct guard_address *address, size_t byte);

/* False: a family other than IPv4 and IPv6. */
bool guard_address_of(const struct sockaddr *socket, struct guard_address *out);
void guard_address_emit(const struct guard_address *address, uint16_t port,
                        struct sockaddr_storage *out);

#endif
