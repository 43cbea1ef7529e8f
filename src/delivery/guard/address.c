#include "guard/address.h"

#include "base/hex.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>

enum { NAME_BYTES_MAX = 253, LABEL_BYTES_MAX = 63, PARTS_MAX = 4 };

/* ---- numbers ---- */

/* Parses "127", "0177", "0x7f"; at most `max`. */
static bool parse_number(struct slice text, uint64_t max, uint64_t *out)
{
    int base = 10;
    if (text.len > 1 && text.at[0] == '0') {
        size_t prefix = (text.at[1] | 0x20) == 'x' ? 2 : 1;
        base = prefix == 2 ? 16 : 8;
        text = slice_make(text.at + prefix, text.len - prefix);
    }
    *out = 0;
    for (size_t i = 0; i < text.len; i++) {
        int digit = hex_value(text.at[i]);
        if (digit < 0 || digit >= base)
            return false;
        *out = *out * (uint64_t)base + (uint64_t)digit;
        if (*out > max)
            return false;
    }
    return text.len > 0;
}

static struct slice next_label(struct slice *rest)
{
    const char *dot = memchr(rest->at, '.', rest->len);
    size_t len = dot ? (size_t)(dot - rest->at) : rest->len;
    struct slice label = slice_make(rest->at, len);
    *rest = dot ? slice_make(dot + 1, rest->len - len - 1) : slice_make(rest->at + len, 0);
    return label;
}

/* Parses one to four parts; the last one fills the remaining bytes: 127.1 is 127.0.0.1. */
static bool parse_v4(struct slice host, struct guard_address *out)
{
    uint64_t address = 0, part = 0;
    for (int i = 0; i < PARTS_MAX; i++) {
        struct slice label = next_label(&host);
        if (host.len == 0) {
            if (!parse_number(label, UINT32_MAX >> (8 * i), &part))
                return false;
            *out = guard_address_v4((uint32_t)(address | part));
            return true;
        }
        if (!parse_number(label, UINT8_MAX, &part))
            return false;
        address |= part << (24 - 8 * i);
    }
    return false;
}

/* ---- names ---- */

static bool is_label(struct slice label)
{
    return label.len > 0 && label.len <= LABEL_BYTES_MAX && text_is_word(label, "-_");
}

static bool is_name(struct slice host)
{
    if (host.len == 0 || host.len > NAME_BYTES_MAX || host.at[host.len - 1] == '.')
        return false;
    while (host.len > 0)
        if (!is_label(next_label(&host)))
            return false;
    return true;
}

/* Returns true for only digits, or for "0x" and any number of hexadecimal digits. */
static bool is_number(struct slice label)
{
    bool is_hex = label.len > 1 && label.at[0] == '0' && (label.at[1] | 0x20) == 'x';
    for (size_t i = is_hex ? 2 : 0; i < label.len; i++)
        if (hex_value(label.at[i]) < 0 || hex_value(label.at[i]) >= (is_hex ? 16 : 10))
            return false;
    return label.len > 0;
}

static struct slice last_label(struct slice name)
{
    const char *dot = memrchr(name.at, '.', name.len);
    return dot ? slice_make(dot + 1, name.len - (size_t)(dot + 1 - name.at)) : name;
}

static bool parse_v6(struct slice host, struct guard_address *out)
{
    char text[INET6_ADDRSTRLEN];
    return slice_copy(host, text, sizeof text) && inet_pton(AF_INET6, text, out->bytes) == 1;
}

enum guard_spelling guard_address_parse(struct slice host, struct guard_address *out)
{
    struct guard_address address;
    if (host.len > 0 && memchr(host.at, ':', host.len)) {
        if (!parse_v6(host, &address))
            return GUARD_SPELLS_NOTHING;
        *out = address;
        return GUARD_SPELLS_ADDRESS;
    }
    if (host.len > 0 && host.at[host.len - 1] == '.')
        host.len--;
    if (!is_name(host))
        return GUARD_SPELLS_NOTHING;
    if (!is_number(last_label(host)))
        return GUARD_SPELLS_NAME;
    if (!parse_v4(host, &address))
        return GUARD_SPELLS_NOTHING;
    *out = address;
    return GUARD_SPELLS_ADDRESS;
}

/* ---- socket addresses ---- */

bool guard_address_of(const struct sockaddr *socket, struct guard_address *out)
{
    if (socket->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)socket;
        *out = guard_address_v4(ntohl(v4->sin_addr.s_addr));
        return true;
    }
    if (socket->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)socket;
        memcpy(out->bytes, &v6->sin6_addr, sizeof out->bytes);
        return true;
    }
    return false;
}

void guard_address_emit(const struct guard_address *address, uint16_t port,
                        struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (guard_address_is_v4(address)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)out;
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        v4->sin_addr.s_addr = htonl(guard_address_v4_at(address, 12));
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        memcpy(&v6->sin6_addr, address->bytes, sizeof address->bytes);
    }
}
