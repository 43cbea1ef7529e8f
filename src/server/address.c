#include "server/address.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* Splits at the last colon and takes the brackets off a version 6 address. */
static bool split_address(struct slice text, struct slice *host, struct slice *port,
                          bool *in_brackets)
{
    const char *colon = text.len ? memrchr(text.at, ':', text.len) : NULL;
    if (!colon)
        return false;
    size_t host_len = (size_t)(colon - text.at);
    *port = slice_make(colon + 1, text.len - host_len - 1);
    *in_brackets = host_len >= 2 && text.at[0] == '[' && colon[-1] == ']';
    *host = *in_brackets ? slice_make(text.at + 1, host_len - 2) : slice_make(text.at, host_len);
    return host->len > 0 && host->len < INET6_ADDRSTRLEN;
}

static bool parse_v4(const char *host, uint16_t port, struct address *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&out->socket;
    if (inet_pton(AF_INET, host, &v4->sin_addr) != 1)
        return false;
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    out->socket_bytes = sizeof *v4;
    out->is_loopback = ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    return inet_ntop(AF_INET, &v4->sin_addr, out->host, sizeof out->host) != NULL;
}

static bool parse_v6(const char *host, uint16_t port, struct address *out)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out->socket;
    const struct in6_addr *bytes = &v6->sin6_addr;
    if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
        return false;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    out->socket_bytes = sizeof *v6;
    out->is_ipv6 = true;
    out->is_loopback =
        IN6_IS_ADDR_LOOPBACK(bytes) || (IN6_IS_ADDR_V4MAPPED(bytes) && bytes->s6_addr[12] == 127);
    return inet_ntop(AF_INET6, bytes, out->host, sizeof out->host) != NULL;
}

bool address_parse(struct slice text, struct address *out)
{
    struct address address = {0};
    struct slice host, port_text;
    char name[INET6_ADDRSTRLEN];
    bool in_brackets;
    uint64_t port;
    if (!split_address(text, &host, &port_text, &in_brackets) || port_text.len > 5 ||
        !text_parse_u64(port_text, UINT16_MAX, &port))
        return false;
    snprintf(name, sizeof name, "%.*s", (int)host.len, host.at);
    if (!in_brackets && strcmp(name, "localhost") == 0)
        strcpy(name, "127.0.0.1");
    address.port = (uint16_t)port;
    if (!(in_brackets ? parse_v6 : parse_v4)(name, address.port, &address))
        return false;
    *out = address;
    return true;
}

void address_emit(const struct address *address, char out[ADDRESS_TEXT_BYTES])
{
    snprintf(out, ADDRESS_TEXT_BYTES, address->is_ipv6 ? "[%.46s]:%u" : "%.46s:%u", address->host,
             address->port);
}
