/*
 * peer: the other end of a connection, or a local address, as one small value.
 *
 * An IPv4 address is stored as its IPv4-mapped IPv6 address (::ffff:192.0.2.1), so that one client
 * is one value on both. Pure except for peer_of_unix.
 */
#ifndef TARRY_NET_PEER_H
#define TARRY_NET_PEER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum peer_kind {
    PEER_UNKNOWN = 0, /* for example, if a proxy does not identify the client */
    PEER_ADDRESS,
    PEER_UNIX /* a process on this machine */
};

struct peer {
    enum peer_kind kind;
    uint16_t port;           /* PEER_ADDRESS */
    struct in6_addr address; /* PEER_ADDRESS */
    uint32_t uid;            /* PEER_UNIX: the user id; UINT32_MAX: unknown */
    uint32_t pid;            /* PEER_UNIX; 0: unknown */
    bool is_notified;        /* reported by a proxy (PROXY protocol) */
};

/* Room for "[2001:db8:…]:65535" and "unix:uid=4294967295". */
enum { PEER_TEXT_BYTES = INET6_ADDRSTRLEN + 16 };

/* Returns the IPv6 address that represents an IPv4 address. */
struct in6_addr peer_address_v4(struct in_addr address);
/* Converts a system address. Returns PEER_UNKNOWN for other families than IP. */
struct peer peer_of_socket(const struct sockaddr_storage *address);
/* Returns the process that made the connection `fd` over a unix socket. */
struct peer peer_of_unix(int fd);

/* Returns whether only this machine has the address: 127.0.0.0/8, ::1, ::ffff:127.0.0.0/104, or a
 * unix socket. */
bool peer_is_loopback(const struct peer *peer);

/* Writes "127.0.0.1:8279", "[::1]:8279" or "unix:uid=1000"; "" if unknown. */
void peer_emit(const struct peer *peer, char out[PEER_TEXT_BYTES]);

#endif
