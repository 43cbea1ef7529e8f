#include "net/peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

struct in6_addr peer_address_v4(struct in_addr address)
{
    struct in6_addr mapped = {0};
    mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
    memcpy(&mapped.s6_addr[12], &address, sizeof address);
    return mapped;
}

struct peer peer_of_socket(const struct sockaddr_storage *address)
{
    struct peer peer = {0};
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    if (address->ss_family == AF_INET) {
        peer.kind = PEER_ADDRESS;
        peer.port = ntohs(v4->sin_port);
        peer.address = peer_address_v4(v4->sin_addr);
    } else if (address->ss_family == AF_INET6) {
        peer.kind = PEER_ADDRESS;
        peer.port = ntohs(v6->sin6_port);
        peer.address = v6->sin6_addr;
    }
    return peer;
}

struct peer peer_of_unix(int fd)
{
    struct peer peer = {.kind = PEER_UNIX, .uid = UINT32_MAX};
    struct ucred who;
    socklen_t bytes = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0) {
        peer.uid = (uint32_t)who.uid;
        peer.pid = who.pid > 0 ? (uint32_t)who.pid : 0;
    }
    return peer;
}

bool peer_is_loopback(const struct peer *peer)
{
    const struct in6_addr *address = &peer->address;
    return peer->kind == PEER_UNIX ||
           (peer->kind == PEER_ADDRESS &&
            (IN6_IS_ADDR_LOOPBACK(address) ||
             (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127)));
}

void peer_emit(const struct peer *peer, char out[PEER_TEXT_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "";
    bool is_v4 = IN6_IS_ADDR_V4MAPPED(&peer->address);
    out[0] = '\0';
    switch (peer->kind) {
    case PEER_UNKNOWN:
        break;
    case PEER_ADDRESS:
        (void)inet_ntop(is_v4 ? AF_INET : AF_INET6, &peer->address.s6_addr[is_v4 ? 12 : 0], host,
                        sizeof host);
        (void)snprintf(out, PEER_TEXT_BYTES, is_v4 ? "%s:%u" : "[%s]:%u", host, peer->port);
        break;
    case PEER_UNIX:
        if (peer->uid == UINT32_MAX)
            (void)snprintf(out, PEER_TEXT_BYTES, "unix");
        else
            (void)snprintf(out, PEER_TEXT_BYTES, "unix:uid=%u", peer->uid);
        break;
    }
}
