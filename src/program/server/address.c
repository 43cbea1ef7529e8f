#include "server/address.h"

#include "base/error.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static bool refuse(char *error, const char *advice)
{
    return error_text(error, ADDRESS_ERROR_BYTES, "%s", advice);
}

/* ---- addresses ---- */

/* Splits the text at the last colon and removes the brackets of an IPv6 address. */
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

static bool parse_v4(const char *host, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    return inet_pton(AF_INET, host, &v4->sin_addr) == 1;
}

static bool parse_v6(const char *host, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return inet_pton(AF_INET6, host, &v6->sin6_addr) == 1;
}

static bool parse_tcp(struct slice text, struct listener_options *out, char *error)
{
    struct slice host, port_text;
    char name[INET6_ADDRSTRLEN];
    bool in_brackets;
    uint64_t port;
    out->kind = LISTENER_TCP;
    if (split_address(text, &host, &port_text, &in_brackets) && port_text.len <= 5 &&
        text_parse_u64(port_text, UINT16_MAX, &port)) {
        snprintf(name, sizeof name, "%.*s", (int)host.len, host.at);
        if (!in_brackets && strcmp(name, "localhost") == 0)
            strcpy(name, "127.0.0.1");
        if ((in_brackets ? parse_v6 : parse_v4)(name, (uint16_t)port, &out->address))
            return true;
    }
    return refuse(error, "give an address and a port, such as 127.0.0.1:8279 or [::1]:8279, or a "
                         "unix socket, such as unix:/run/tarry/tarry.sock");
}

static bool parse_unix(struct slice text, struct listener_options *out, char *error)
{
    out->kind = LISTENER_UNIX;
    if (text.len == 0 || text.len >= sizeof out->path || memchr(text.at, '\0', text.len))
        return error_text(error, ADDRESS_ERROR_BYTES,
                          "give a path of 1 to %zu bytes, such as unix:/run/tarry/tarry.sock",
                          sizeof out->path - 1);
    memcpy(out->path, text.at, text.len);
    return true;
}

static bool parse_inherited(struct slice text, struct listener_options *out, char *error)
{
    out->kind = LISTENER_INHERITED;
    if (text.len == 0 || text.len >= sizeof out->path || memchr(text.at, '\0', text.len))
        return refuse(error, "give the name of a socket that systemd opened, such as fd:web, or "
                             "its number, such as fd:3");
    memcpy(out->path, text.at, text.len);
    return true;
}

static bool take_prefix(struct slice *text, const char *prefix)
{
    size_t len = strlen(prefix);
    if (text->len < len || memcmp(text->at, prefix, len) != 0)
        return false;
    *text = slice_make(text->at + len, text->len - len);
    return true;
}

static bool parse_place(struct slice text, struct listener_options *out, char *error)
{
    if (take_prefix(&text, "unix:"))
        return parse_unix(text, out, error);
    if (take_prefix(&text, "fd:"))
        return parse_inherited(text, out, error);
    return parse_tcp(text, out, error);
}

/* ---- attributes ---- */

/* Parses octal digits as for chmod. */
static bool parse_mode(struct slice text, struct listener_options *out, char *error)
{
    mode_t mode = 0;
    bool ok = text.len >= 3 && text.len <= 4;
    for (size_t i = 0; ok && i < text.len; i++) {
        ok = text.at[i] >= '0' && text.at[i] <= '7';
        mode = mode * 8 + (mode_t)(text.at[i] - '0');
    }
    if (!ok || mode == 0 || mode > 0777)
        return refuse(error, "give the mode as chmod takes it, such as mode=0660");
    out->mode = mode;
    return true;
}

static bool parse_group(struct slice text, struct listener_options *out, char *error)
{
    if (text.len == 0 || text.len >= sizeof out->group)
        return refuse(error, "give the name of a group, such as group=tarry");
    memcpy(out->group, text.at, text.len);
    return true;
}

static bool refuse_word(struct slice word, char *error)
{
    static const char *const words[] = {
        "tls", "plain", "require-token", "no-token", "proxy-protocol", "mode=", "group=", NULL};
    char text[32];
    snprintf(text, sizeof text, "%.*s", ERROR_SHOWN(word, sizeof text - 1));
    const char *nearest = text_nearest(text, words);
    return error_text(error, ADDRESS_ERROR_BYTES, "%s%s%s", nearest ? "did you mean " : "",
                      nearest ? nearest
                              : "give after the address, separated by commas: tls, plain, "
                                "require-token, no-token, proxy-protocol, mode=0660, group=NAME",
                      "");
}

static bool parse_word(struct slice word, struct listener_options *out, char *error)
{
    if (slice_is(word, "tls"))
        out->tls = true;
    else if (slice_is(word, "plain"))
        out->plain = true;
    else if (slice_is(word, "proxy-protocol"))
        out->proxy_protocol = true;
    else if (slice_is(word, "require-token") && out->token != LISTENER_TOKEN_NONE)
        out->token = LISTENER_TOKEN_REQUIRED;
    else if (slice_is(word, "no-token") && out->token != LISTENER_TOKEN_REQUIRED)
        out->token = LISTENER_TOKEN_NONE;
    else if (slice_is(word, "require-token") || slice_is(word, "no-token"))
        return refuse(error, "give require-token or no-token, not both");
    else if (take_prefix(&word, "mode="))
        return parse_mode(word, out, error);
    else if (take_prefix(&word, "group="))
        return parse_group(word, out, error);
    else
        return refuse_word(word, error);
    return true;
}

/* Checks that the attributes do not conflict. */
static bool check_words(const struct listener_options *options, char *error)
{
    if (options->tls && options->plain)
        return refuse(error, "give tls or plain, not both");
    if (options->kind != LISTENER_UNIX && (options->mode || options->group[0]))
        return refuse(error, "mode and group are for unix:PATH, leave them out");
    if (options->kind == LISTENER_UNIX && options->plain)
        return refuse(error, "plain is for addresses that other machines can reach, leave it out");
    return true;
}

/* Cuts the text up to the next comma, and the comma. */
static struct slice next_part(struct slice *text)
{
    const char *comma = text->len ? memchr(text->at, ',', text->len) : NULL;
    size_t len = comma ? (size_t)(comma - text->at) : text->len;
    struct slice part = slice_make(text->at, len);
    size_t taken = comma ? len + 1 : len;
    *text = slice_make(text->at + taken, text->len - taken);
    return part;
}

bool address_parse(struct slice text, struct listener_options *out, char error[ADDRESS_ERROR_BYTES])
{
    struct listener_options options = {0};
    if (!parse_place(next_part(&text), &options, error))
        return false;
    while (text.len)
        if (!parse_word(next_part(&text), &options, error))
            return false;
    if (!check_words(&options, error))
        return false;
    *out = options;
    return true;
}

void address_emit(const struct listener_options *options, char out[ADDRESS_TEXT_BYTES])
{
    char text[PEER_TEXT_BYTES];
    const struct peer address = peer_of_socket(&options->address);
    if (options->kind == LISTENER_TCP) {
        peer_emit(&address, text);
        snprintf(out, ADDRESS_TEXT_BYTES, "%s", text);
    } else {
        snprintf(out, ADDRESS_TEXT_BYTES, "%s:%s", options->kind == LISTENER_UNIX ? "unix" : "fd",
                 options->path);
    }
}
