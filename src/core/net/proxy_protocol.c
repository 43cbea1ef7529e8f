#include "net/proxy_protocol.h"

#include "base/text.h"

#include <arpa/inet.h>

/* ---- version 1: "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n" ---- */

static const char text_start[] = "PROXY ";

/* Returns the text up to the next blank and removes it from *line. */
static struct slice next_word(struct slice *line)
{
    const char *blank = line->len ? memchr(line->at, ' ', line->len) : NULL;
    size_t len = blank ? (size_t)(blank - line->at) : line->len, taken = blank ? len + 1 : len;
    struct slice word = slice_make(line->at, len);
    *line = slice_make(line->at + taken, line->len - taken);
    return word;
}

static bool read_address(struct slice word, bool is_v6, struct in6_addr *out)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr v4;
    if (!slice_copy(word, text, sizeof text))
        return false;
    if (is_v6)
        return inet_pton(AF_INET6, text, out) == 1;
    if (inet_pton(AF_INET, text, &v4) != 1)
        return false;
    *out = peer_address_v4(v4);
    return true;
}

static bool read_port(struct slice word, uint16_t *out)
{
    uint64_t port;
    bool ok = text_parse_u64(word, UINT16_MAX, &port) && (word.len == 1 || word.at[0] != '0');
    if (ok)
        *out = (uint16_t)port;
    return ok;
}

/* Reads `line`, the text between "PROXY " and the line end. */
static bool read_line(struct slice line, struct peer *peer)
{
    struct peer client = {.kind = PEER_ADDRESS, .is_notified = true};
    struct in6_addr server;
    uint16_t server_port;
    struct slice family = next_word(&line);
    if (slice_is(family, "UNKNOWN")) {
        *peer = (struct peer){.is_notified = true};
        return true;
    }
    bool is_v6 = slice_is(family, "TCP6");
    bool ok = (is_v6 || slice_is(family, "TCP4")) &&
              read_address(next_word(&line), is_v6, &client.address) &&
              read_address(next_word(&line), is_v6, &server) &&
              read_port(next_word(&line), &client.port) && line.len &&
              read_port(line, &server_port);
    if (ok)
        *peer = client;
    return ok;
}

static enum proxy_protocol_step read_text(struct slice bytes, struct peer *peer, size_t *used)
{
    const size_t start = sizeof text_start - 1;
    size_t most =
        bytes.len < PROXY_PROTOCOL_TEXT_BYTES_MAX ? bytes.len : PROXY_PROTOCOL_TEXT_BYTES_MAX;
    const char *end = memchr(bytes.at, '\r', most);
    size_t len = end ? (size_t)(end - bytes.at) : most;
    if (len + 1 >= most) /* no line end yet, or half of it */
        return most == PROXY_PROTOCOL_TEXT_BYTES_MAX ? PROXY_PROTOCOL_BAD : PROXY_PROTOCOL_MORE;
    if (end[1] != '\n' || !read_line(slice_make(bytes.at + start, len - start), peer))
        return PROXY_PROTOCOL_BAD;
    *used = len + 2;
    return PROXY_PROTOCOL_WHOLE;
}

/* ---- version 2: a signature, version and family, the length of the rest, addresses, values
 * ---- */

static const char signature[] = "\r\n\r\n\0\r\nQUIT\n";

enum {
    SIGNATURE_BYTES = sizeof signature - 1,
    BINARY_HEAD_BYTES = 16,
    VERSION_2 = 2,
    COMMAND_LOCAL = 0,
    COMMAND_PROXY = 1,
    FAMILY_ANY = 0,
    FAMILY_V4 = 1,
    FAMILY_V6 = 2,
    FAMILY_UNIX = 3,
    TRANSPORT_ANY = 0,
    TRANSPORT_STREAM = 1,
    BYTES_V4 = 12, /* two addresses and two ports */
    BYTES_V6 = 36,
    BYTES_UNIX = 216, /* two paths */
    VALUE_HEAD_BYTES = 3
};

static size_t number_at(const char *at)
{
    return (size_t)(unsigned char)at[0] << 8 | (unsigned char)at[1];
}

/* Returns whether the rest consists of whole values, each with its length. */
static bool are_values(struct slice rest)
{
    while (rest.len >= VALUE_HEAD_BYTES) {
        size_t len = VALUE_HEAD_BYTES + number_at(rest.at + 1);
        if (len > rest.len)
            return false;
        rest = slice_make(rest.at + len, rest.len - len);
    }
    return rest.len == 0;
}

/* Reads the addresses of the client. `rest` is everything after the head. */
static bool read_client(unsigned family, struct slice rest, struct peer *client)
{
    struct in_addr v4;
    size_t len = 0;
    switch (family) {
    case FAMILY_V4:
        len = BYTES_V4;
        break;
    case FAMILY_V6:
        len = BYTES_V6;
        break;
    case FAMILY_UNIX:
        len = BYTES_UNIX;
        break;
    default:
        return false;
    }
    if (rest.len < len || !are_values(slice_make(rest.at + len, rest.len - len)))
        return false;
    client->kind = family == FAMILY_UNIX ? PEER_UNIX : PEER_ADDRESS;
    client->uid = UINT32_MAX;
    if (family == FAMILY_V4) {
        memcpy(&v4, rest.at, sizeof v4);
        client->address = peer_address_v4(v4);
        client->port = (uint16_t)number_at(rest.at + 8);
    } else if (family == FAMILY_V6) {
        memcpy(&client->address, rest.at, sizeof client->address);
        client->port = (uint16_t)number_at(rest.at + 32);
    }
    return true;
}

static enum proxy_protocol_step read_binary(struct slice bytes, struct peer *peer, size_t *used)
{
    struct peer client = {.is_notified = true};
    if (bytes.len < BINARY_HEAD_BYTES)
        return PROXY_PROTOCOL_MORE;
    unsigned version = (unsigned char)bytes.at[12] >> 4, command = bytes.at[12] & 0xf;
    unsigned family = (unsigned char)bytes.at[13] >> 4, transport = bytes.at[13] & 0xf;
    size_t len = number_at(bytes.at + 14);
    if (version != VERSION_2 || command > COMMAND_PROXY ||
        BINARY_HEAD_BYTES + len > PROXY_PROTOCOL_BYTES_MAX)
        return PROXY_PROTOCOL_BAD;
    if (bytes.len < BINARY_HEAD_BYTES + len)
        return PROXY_PROTOCOL_MORE;
    struct slice rest = slice_make(bytes.at + BINARY_HEAD_BYTES, len);
    bool is_silent =
        command == COMMAND_LOCAL || (family == FAMILY_ANY && transport == TRANSPORT_ANY);
    if (!is_silent && (transport != TRANSPORT_STREAM || !read_client(family, rest, &client)))
        return PROXY_PROTOCOL_BAD;
    *peer = client;
    *used = BINARY_HEAD_BYTES + len;
    return PROXY_PROTOCOL_WHOLE;
}

enum proxy_protocol_step proxy_protocol_read(struct slice bytes, struct peer *peer, size_t *used)
{
    const size_t start = sizeof text_start - 1;
    size_t text_len = bytes.len < start ? bytes.len : start;
    size_t binary_len = bytes.len < SIGNATURE_BYTES ? bytes.len : SIGNATURE_BYTES;
    if (bytes.len == 0)
        return PROXY_PROTOCOL_MORE;
    if (memcmp(bytes.at, text_start, text_len) == 0)
        return text_len < start ? PROXY_PROTOCOL_MORE : read_text(bytes, peer, used);
    if (memcmp(bytes.at, signature, binary_len) == 0)
        return read_binary(bytes, peer, used);
    return PROXY_PROTOCOL_BAD;
}
