/*
 * url: SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/PATH][?QUERY], split. Pure.
 *
 * The one parser of the house: whoever decides which credential goes with a URL and whoever
 * connects to it must see the same host. So it is strict where parsers are known to differ
 * (RFC 3986 and the WHATWG's standard, curl's): one '@' at most, no backslash, no fragment, no blank
 * and no control character, hosts of letters, digits, '.', '-' and '_' only, no escapes in them, and
 * an address spelled in full ("127.1" and "0x7f000001" are refused). What it takes curl takes, and
 * reads the same host and port out of it (tests/fuzz/fuzz_url.c).
 *
 * Parts are slices of the text that was given, still percent-encoded (text_percent_decode); no
 * scheme is known here, nor any default port.
 */
#ifndef TARRY_BASE_URL_H
#define TARRY_BASE_URL_H

#include "base/buffer.h"

#include <stdint.h>

enum { URL_SCHEME_BYTES_MAX = 32, URL_HOSTS_MAX = 16, URL_HOST_BYTES_MAX = 253 };

enum url_fault {
    URL_OK = 0,
    URL_BAD_BYTE,      /* a blank, a control character, a byte beyond ASCII or a backslash */
    URL_FRAGMENT,      /* a '#' */
    URL_NO_SCHEME,     /* it does not begin with SCHEME:// */
    URL_BAD_USER,      /* more than one '@', or more than one ':' before it */
    URL_NO_HOST,       /* between two commas, or beside user or port */
    URL_BAD_HOST,      /* a byte that is in no name, or a name that is too long */
    URL_NUMBER_HOST,   /* a number, or an IPv4 address that is not spelled in full */
    URL_BAD_IPV6,      /* what stands in brackets is no IPv6 address, or they are not closed */
    URL_BAD_PORT,      /* not a number from 1 to 65535 */
    URL_TOO_MANY_HOSTS /* more than URL_HOSTS_MAX */
};

struct url_host {
    struct slice name; /* as it stands there, without brackets */
    bool is_ipv6;
    uint16_t port; /* 0: none is given */
};

struct url {
    struct slice scheme;
    bool has_user, has_password;
    struct slice user, password;
    struct slice authority; /* all hosts and ports, without user and password */
    struct url_host hosts[URL_HOSTS_MAX];
    size_t host_count; /* 0: the authority is empty, as in "unix:///path" */
    struct slice path; /* begins with '/', or is empty */
    bool has_query;
    struct slice query; /* behind the '?' */
};

/* *out is written on success only. */
enum url_fault url_parse(struct slice text, struct url *out);

/* One sentence for people, which quotes nothing of the URL: part of it may be a password. */
const char *url_fault_text(enum url_fault fault);

/* Schemes have no case. */
bool url_scheme_is(const struct url *url, const char *scheme);

/* Takes the first NAME=VALUE off a query, up to the next '&'; `has_value` is false where there is no
 * '='. False when nothing is left. */
bool url_next_pair(struct slice *query, struct slice *name, struct slice *value, bool *has_value);

/* Appends "host:port" in small letters, an IPv6 address in brackets, `port` where none is given, the
 * final dot of a name left out: the form in which two ways to write one peer are equal. */
void url_emit_host(const struct url_host *host, uint16_t port, struct buffer *out);

/* Appends "scheme://host:port" of one host, as url_emit_host: what credentials are kept by. */
void url_emit_origin(const struct url *url, size_t host, uint16_t port, struct buffer *out);

#endif
