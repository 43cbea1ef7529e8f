#include "guard/network.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <assert.h>
#include <pthread.h>
#include <stdio.h>

/* ---- the table ---- */

#define PUBLIC GUARD_NETWORK_PUBLIC
#define CLOSED GUARD_NETWORK_CLOSED
#define METADATA GUARD_NETWORK_METADATA
#define HOLDS GUARD_NETWORK_HOLDS
#define RELAYS GUARD_NETWORK_RELAYS

const struct guard_network_row guard_network_rows[] = {
    {"0.0.0.0/0", PUBLIC, "IPv4 except the networks below", "IANA IPv4 address space"},
    {"0.0.0.0/8", CLOSED, "this network; Linux takes 0.0.0.0 for this machine", "RFC 791, 1122"},
    {"10.0.0.0/8", CLOSED, "private", "RFC 1918"},
    {"100.64.0.0/10", CLOSED, "shared by a provider's customers", "RFC 6598"},
    {"100.100.100.200/32", METADATA, "metadata of Alibaba Cloud", "its documentation"},
    {"127.0.0.0/8", CLOSED, "this machine", "RFC 1122"},
    {"168.63.129.16/32", METADATA, "Azure's wire server, on a public address", "its documentation"},
    {"169.254.0.0/16", CLOSED, "link-local", "RFC 3927"},
    {"169.254.0.23/32", METADATA, "metadata of Tencent Cloud", "its documentation"},
    {"169.254.42.42/32", METADATA, "metadata of Scaleway", "its documentation"},
    {"169.254.169.254/32", METADATA, "metadata of nearly every cloud", "their documentation"},
    {"169.254.170.2/32", METADATA, "credentials of Amazon ECS tasks", "its documentation"},
    {"169.254.170.23/32", METADATA, "credentials of Amazon EKS pods", "its documentation"},
    {"172.16.0.0/12", CLOSED, "private", "RFC 1918"},
    {"192.0.0.0/24", CLOSED, "protocol assignments", "RFC 6890"},
    {"192.0.0.192/32", METADATA, "metadata of Oracle Cloud Classic", "its documentation"},
    {"192.0.2.0/24", CLOSED, "documentation", "RFC 5737"},
    {"192.31.196.0/24", CLOSED, "sink of reverse look-ups (AS112)", "RFC 7535"},
    {"192.52.193.0/24", CLOSED, "multicast tunnels (AMT)", "RFC 7450"},
    {"192.88.99.0/24", CLOSED, "6to4 relays, deprecated", "RFC 7526"},
    {"192.168.0.0/16", CLOSED, "private", "RFC 1918"},
    {"192.175.48.0/24", CLOSED, "sink of reverse look-ups (AS112)", "RFC 7534"},
    {"198.18.0.0/15", CLOSED, "benchmarks", "RFC 2544"},
    {"198.51.100.0/24", CLOSED, "documentation", "RFC 5737"},
    {"203.0.113.0/24", CLOSED, "documentation", "RFC 5737"},
    {"224.0.0.0/4", CLOSED, "multicast", "RFC 5771"},
    {"240.0.0.0/4", CLOSED, "reserved", "RFC 1112"},
    {"255.255.255.255/32", CLOSED, "broadcast", "RFC 919"},

    {"::/0", CLOSED, "not global unicast, which is 2000::/3", "RFC 4291"},
    {"2000::/3", PUBLIC, "IPv6 global unicast except the networks below", "RFC 4291"},
    {"::/96", HOLDS, "IPv4-compatible, deprecated", "RFC 4291, 2.5.5.1"},
    {"::/128", CLOSED, "unspecified; Linux takes it for this machine", "RFC 4291"},
    {"::1/128", CLOSED, "this machine", "RFC 4291"},
    {"::ffff:0:0:0/96", RELAYS, "IPv4-translated", "RFC 2765"},
    {"64:ff9b::/96", HOLDS, "NAT64", "RFC 6052"},
    {"64:ff9b:1::/48", RELAYS, "NAT64 of a local network", "RFC 8215"},
    {"100::/64", CLOSED, "discarded", "RFC 6666"},
    {"100:0:0:1::/64", CLOSED, "dummy prefix", "RFC 9780"},
    {"2001::/23", CLOSED, "protocol assignments", "RFC 2928"},
    {"2001::/32", HOLDS, "Teredo: a server and a client", "RFC 4380"},
    {"2001:2::/48", CLOSED, "benchmarks", "RFC 5180"},
    {"2001:3::/32", CLOSED, "multicast tunnels (AMT)", "RFC 7450"},
    {"2001:4:112::/48", CLOSED, "sink of reverse look-ups (AS112)", "RFC 7535"},
    {"2001:10::/28", CLOSED, "ORCHID, deprecated", "RFC 4843"},
    {"2001:20::/28", CLOSED, "ORCHIDv2: not routed", "RFC 7343"},
    {"2001:30::/28", CLOSED, "remote ids of drones", "RFC 9374"},
    {"2001:db8::/32", CLOSED, "documentation", "RFC 3849"},
    {"2002::/16", HOLDS, "6to4", "RFC 3056"},
    {"2620:4f:8000::/48", CLOSED, "sink of reverse look-ups (AS112)", "RFC 7534"},
    {"3ffe::/16", CLOSED, "6bone, returned", "RFC 3701"},
    {"3fff::/20", CLOSED, "documentation", "RFC 9637"},
    {"5f00::/16", CLOSED, "segment routing", "RFC 9602"},
    {"fc00::/7", CLOSED, "private (unique local)", "RFC 4193"},
    {"fd00:42::42/128", METADATA, "metadata of Scaleway", "its documentation"},
    {"fd00:ec2::23/128", METADATA, "credentials of Amazon EKS pods", "its documentation"},
    {"fd00:ec2::254/128", METADATA, "metadata of Amazon EC2", "its documentation"},
    {"fd20:ce::254/128", METADATA, "metadata of Google Cloud", "its documentation"},
    {"fe80::/10", CLOSED, "link-local", "RFC 4291"},
    {"fe80::a9fe:a9fe/128", METADATA, "metadata of OpenStack", "its documentation"},
    {"fec0::/10", CLOSED, "site-local, deprecated", "RFC 3879"},
    {"ff00::/8", CLOSED, "multicast", "RFC 4291"},
    {0},
};

enum { ROWS = sizeof guard_network_rows / sizeof guard_network_rows[0] - 1 };

static struct guard_network networks[ROWS]; /* the networks of the rows, parsed once */
static pthread_once_t networks_once = PTHREAD_ONCE_INIT;

/* ---- parsing ---- */

static bool is_clean(const struct guard_network *network)
{
    for (unsigned bit = network->bits; bit < GUARD_ADDRESS_BITS; bit++)
        if (network->address.bytes[bit / 8] & (0x80 >> bit % 8))
            return false;
    return true;
}

static bool network_refuse(char *error, struct slice text, const char *why)
{
    (void)snprintf(error, GUARD_NETWORK_ERROR_BYTES, "bad network '%.*s', %s",
                   (int)(text.len < 60 ? text.len : 60), text.at, why);
    for (char *at = error; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = '?';
    return false;
}

/* Parses an address strictly as written: 010.0.0.0/8 is not accepted as 8.0.0.0/8. */
static bool read_address(struct slice text, struct guard_address *out)
{
    char plain[INET_ADDRSTRLEN];
    struct in_addr unused;
    if (text.len && memchr(text.at, ':', text.len))
        return guard_address_parse(text, out) == GUARD_SPELLS_ADDRESS;
    (void)snprintf(plain, sizeof plain, "%.*s", (int)text.len, text.at);
    return text.len < sizeof plain && inet_pton(AF_INET, plain, &unused) == 1 &&
           guard_address_parse(text, out) == GUARD_SPELLS_ADDRESS;
}

static bool read_network(struct slice text, struct guard_network *out, char *error)
{
    static const char right[] = "write one such as 10.1.0.0/16, fd12::/16 or 10.1.2.3";
    const char *slash = text.len ? memchr(text.at, '/', text.len) : NULL;
    struct slice head = slice_make(text.at, slash ? (size_t)(slash - text.at) : text.len);
    uint64_t bits = GUARD_ADDRESS_BITS, before = 0;
    if (!read_address(head, &out->address))
        return network_refuse(error, text, right);
    if (!memchr(head.at, ':', head.len))
        before = GUARD_V4_BITS_BEFORE;
    if (slash) {
        struct slice tail = slice_make(slash + 1, text.len - head.len - 1);
        if (!text_parse_u64(tail, GUARD_ADDRESS_BITS - before, &bits))
            return network_refuse(error, text,
                                  before ? "the part behind '/' is a number from 0 to 32"
                                         : "the part behind '/' is a number from 0 to 128");
        bits += before;
    }
    out->bits = (uint8_t)bits;
    return is_clean(out) ||
           network_refuse(error, text, "its address has bits set behind the prefix");
}

static void read_table(void)
{
    char error[GUARD_NETWORK_ERROR_BYTES];
    for (size_t i = 0; i < ROWS; i++) {
        bool is_right = read_network(slice_of(guard_network_rows[i].network), &networks[i], error);
        assert(is_right);
        (void)is_right;
    }
}

/* ---- an address ---- */

static bool shares_bits(const struct guard_address *a, const struct guard_address *b, unsigned bits)
{
    if (memcmp(a->bytes, b->bytes, bits / 8) != 0)
        return false;
    unsigned char rest = (unsigned char)(0xff00 >> bits % 8);
    return bits % 8 == 0 || ((a->bytes[bits / 8] ^ b->bytes[bits / 8]) & rest) == 0;
}

bool guard_network_covers(const struct guard_network *network, const struct guard_address *address)
{
    /* A short IPv6 prefix that happens to contain the mapped addresses does not mean all of
     * IPv4. */
    if (network->bits < GUARD_V4_BITS_BEFORE && guard_address_is_v4(address))
        return false;
    return shares_bits(&network->address, address, network->bits);
}

/* Finds the row of an address. There always is one, because ::/0 and 0.0.0.0/0 are rows. */
static size_t find_row(const struct guard_address *address)
{
    size_t best = ROWS;
    pthread_once(&networks_once, read_table);
    for (size_t i = 0; i < ROWS; i++)
        if (guard_network_covers(&networks[i], address) &&
            (best == ROWS || networks[i].bits > networks[best].bits))
            best = i;
    assert(best < ROWS);
    return best;
}

struct open {
    const struct guard_network *networks;
    size_t count;
};

static bool is_named(const struct open *open, const struct guard_address *address, unsigned bits)
{
    for (size_t i = 0; i < open->count; i++)
        if (open->networks[i].bits >= bits && guard_network_covers(&open->networks[i], address))
            return true;
    return false;
}

static bool allows_v4(const struct open *open, uint32_t inner)
{
    struct guard_address address = guard_address_v4(inner);
    enum guard_network_kind kind = guard_network_rows[find_row(&address)].kind;
    return kind == PUBLIC || is_named(open, &address, kind == METADATA ? GUARD_ADDRESS_BITS : 0);
}

/* ---- embedded addresses ---- */

/* Checks a translated address (RFC 6052, 2.2). The IPv4 address is at the end, or after a prefix of
 * 64 bits in bytes 9 to 12 with zeros around it. The two cannot be distinguished, so both have to
 * be allowed. After shorter prefixes the end is 0.0.0.0, which is never allowed. */
static bool allows_translated(const struct open *open, const struct guard_address *address)
{
    const unsigned char *at = address->bytes;
    bool is_behind_64 = !at[8] && !at[13] && !at[14] && !at[15];
    return allows_v4(open, guard_address_v4_at(address, 12)) &&
           (!is_behind_64 || allows_v4(open, guard_address_v4_at(address, 9)));
}

/* Checks a Teredo address: bytes 4 to 7 are the server, 12 to 15 the client with inverted bits. */
static bool allows_teredo(const struct open *open, const struct guard_address *address)
{
    return allows_v4(open, guard_address_v4_at(address, 4)) &&
           allows_v4(open, ~guard_address_v4_at(address, 12));
}

static bool allows_held(const struct open *open, const struct guard_address *address)
{
    const unsigned char *at = address->bytes;
    if (at[0] == 0x20 && at[1] == 0x02)
        return allows_v4(open, guard_address_v4_at(address, 2));
    if (at[0] == 0x20 && at[1] == 0x01)
        return allows_teredo(open, address);
    if (at[0] == 0x00 && at[1] == 0x64 && at[5] == 1)
        return allows_translated(open, address);
    return allows_v4(open, guard_address_v4_at(address, 12));
}

/* Returns true for the interface ID of a tunnel to an IPv4 address, with any prefix (RFC 5214). */
static bool is_isatap(const struct guard_address *address)
{
    const unsigned char *id = address->bytes + 8;
    return (id[0] & ~2) == 0 && id[1] == 0 && id[2] == 0x5e && id[3] == 0xfe;
}

bool guard_network_allows(const struct guard_network *networks_open, size_t open_count,
                          const struct guard_address *address)
{
    struct open open = {networks_open, open_count};
    enum guard_network_kind kind = guard_network_rows[find_row(address)].kind;
    if ((kind == CLOSED || kind == RELAYS) && !is_named(&open, address, 0))
        return false;
    if (kind == METADATA && !is_named(&open, address, GUARD_ADDRESS_BITS))
        return false;
    if ((kind == HOLDS || kind == RELAYS) && !allows_held(&open, address))
        return false;
    return !is_isatap(address) || allows_v4(&open, guard_address_v4_at(address, 12));
}

bool guard_network_parse(struct slice text, struct guard_network *out,
                         char error[GUARD_NETWORK_ERROR_BYTES])
{
    struct guard_network network;
    if (!read_network(text, &network, error))
        return false;
    size_t row = find_row(&network.address);
    if (guard_network_rows[row].kind == HOLDS && network.bits >= networks[row].bits)
        return network_refuse(error, text,
                              "its addresses contain IPv4 addresses, name the IPv4 network");
    *out = network;
    return true;
}
