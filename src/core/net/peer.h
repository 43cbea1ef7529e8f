/*
 * peer: who is at the other end of a connection, or an address of our own, as one small value.
 *
 * An address of IPv4 is kept as that of IPv6 which stands for it (::ffff:192.0.2.1), so that one
 * client is one value however it came. Pure but for peer_of_unix.
 */
#ifndef TARRY_NET_PEER_H
#define TARRY_NET_PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum peer_kind {
    PEER_UNKNOWN = 0, /* e.g. where a proxy does not say */
    PEER_ADDRESS,
    PEER_UNIX /* a process of this machine */
};

struct peer {
    enum peer_kind kind;
    uint16_t port;           /* PEER_ADDRESS */
    struct in6_addr address; /* PEER_ADDRESS */
    uint32_t uid;            /* PEER_UNIX: the user's number; UINT32_MAX: not known */
    uint32_t pid;            /* PEER_UNIX; 0: not known */
    bool is_told;            /* a proxy says so (PROXY protocol) */
};

/* Room for "[2001:db8:…]:65535" and "unix:uid=4294967295". */
enum { PEER_TEXT_BYTES = INET6_ADDRSTRLEN + 16 };

/* The address of IPv6 that stands for one of IPv4. */
struct in6_addr peer_address_v4(struct in_addr address);
/* Of an address of the system; of another family than IP: PEER_UNKNOWN. */
struct peer peer_of_socket(const struct sockaddr_storage *address);
/* Who made the connection `fd` over a unix socket. */
struct peer peer_of_unix(int fd);

/* Only this machine has that address: 127.0.0.0/8, ::1, ::ffff:127.0.0.0/104; or it is of a unix
 * socket. */
bool peer_is_loopback(const struct peer *peer);

/* "127.0.0.1:8279", "[::1]:8279", "unix:uid=1000"; "" where it is not known. */
void peer_emit(const struct peer *peer, char out[PEER_TEXT_BYTES]);

#endif
