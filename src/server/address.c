#include "server/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static bool parse_port(struct slice text, uint16_t *out)
{
    uint32_t port = 0;
    if (text.len == 0 || text.len > 5)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        port = port * 10 + (uint32_t)(text.at[i] - '0');
    }
    if (port > UINT16_MAX)
        return false;
    *out = (uint16_t)port;
    return true;
}

/* Splits at the last colon and takes the brackets off a version 6 address. */
static bool split(struct slice text, struct slice *host, struct slice *port, bool *in_brackets)
{
    const char *colon = memrchr(text.at, ':', text.len);
    if (!colon)
        return false;
    size_t host_len = (size_t)(colon - text.at);
    *port = slice_make(colon + 1, text.len - host_len - 1);
    *in_brackets = host_len >= 2 && text.at[0] == '[' && colon[-1] == ']';
    *host = *in_brackets ? slice_make(text.at + 1, host_len - 2) : slice_make(text.at, host_len);
    return host->len > 0 && host->len < INET6_ADDRSTRLEN;
}

bool address_parse(struct slice text, struct address *out)
{
    struct slice host, port_text;
    bool in_brackets;
    uint16_t port;
    if (text.len == 0 || !split(text, &host, &port_text, &in_brackets) ||
        !parse_port(port_text, &port))
        return false;

    char name[INET6_ADDRSTRLEN];
    memcpy(name, host.at, host.len);
    name[host.len] = '\0';
    if (!in_brackets && strcmp(name, "localhost") == 0)
        strcpy(name, "127.0.0.1");

    struct address address = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address.socket;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address.socket;
    if (!in_brackets && inet_pton(AF_INET, name, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        address.socket_bytes = sizeof(*v4);
    } else if (in_brackets && inet_pton(AF_INET6, name, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        address.socket_bytes = sizeof(*v6);
    } else {
        return false;
    }
    *out = address;
    return true;
}

void address_emit_host(const struct address *address, char out[ADDRESS_TEXT_BYTES])
{
    const void *bytes =
        address->socket.ss_family == AF_INET6
            ? (const void *)&((const struct sockaddr_in6 *)&address->socket)->sin6_addr
            : (const void *)&((const struct sockaddr_in *)&address->socket)->sin_addr;
    if (!inet_ntop(address->socket.ss_family, bytes, out, ADDRESS_TEXT_BYTES))
        strcpy(out, "?");
}

void address_emit(const struct address *address, char out[ADDRESS_TEXT_BYTES])
{
    char host[ADDRESS_TEXT_BYTES];
    address_emit_host(address, host);
    snprintf(out, ADDRESS_TEXT_BYTES,
             address->socket.ss_family == AF_INET6 ? "[%.46s]:%u" : "%.46s:%u", host,
             address_port(address));
}

uint16_t address_port(const struct address *address)
{
    if (address->socket.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&address->socket)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&address->socket)->sin_port);
}

void address_set_port(struct address *address, uint16_t port)
{
    if (address->socket.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&address->socket)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&address->socket)->sin_port = htons(port);
}

bool address_is_loopback(const struct address *address)
{
    if (address->socket.ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->socket;
        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)&address->socket)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}
