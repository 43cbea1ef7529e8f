/*
 * url: splits SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…][/PATH][?QUERY]. Pure.
 *
 * The only URL parser in tarry: the code that chooses the credential for a URL and the code that
 * connects must see the same host. So it is strict where parsers often differ (RFC 3986, the
 * WHATWG standard, curl): one '@' at most, no backslash, no fragment, no blank and no control
 * character, hosts of letters, digits, '.', '-' and '_' only, without escapes, and addresses in
 * full ("127.1" and "0x7f000001" are refused). curl accepts every URL that this parser accepts, and
 * reads the same host and port (tests/fuzz/fuzz_url.c).
 *
 * Parts are slices of the given text, still percent-encoded (text_percent_decode). The parser has
 * no list of schemes or default ports.
 */
#ifndef TARRY_BASE_URL_H
#define TARRY_BASE_URL_H

#include "base/buffer.h"

#include <stdint.h>

enum { URL_SCHEME_BYTES_MAX = 32, URL_HOSTS_MAX = 16, URL_HOST_BYTES_MAX = 253 };

enum url_fault {
    URL_OK = 0,
    URL_BAD_BYTE,      /* a blank, a control character, a byte beyond ASCII or a backslash */
    URL_FRAGMENT,      /* contains a '#' */
    URL_NO_SCHEME,     /* does not begin with SCHEME:// */
    URL_BAD_USER,      /* more than one '@', or more than one ':' before it */
    URL_NO_HOST,       /* empty between two commas, or beside user or port */
    URL_BAD_HOST,      /* a byte that is invalid in names, or a name that is too long */
    URL_NUMBER_HOST,   /* a number, or an IPv4 address that is not written in full */
    URL_BAD_IPV6,      /* not an IPv6 address in brackets, or a missing bracket */
    URL_BAD_PORT,      /* not a number from 1 to 65535 */
    URL_TOO_MANY_HOSTS /* more than URL_HOSTS_MAX */
};

struct url_host {
    struct slice name; /* as written, without brackets */
    bool is_ipv6;
    uint16_t port; /* 0: not given */
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
    struct slice query; /* after the '?' */
};

/* Parses a URL. Sets *out on success only. */
enum url_fault url_parse(struct slice text, struct url *out);

/* Returns one sentence for people. It quotes no part of the URL, because a part may be a
 * password. */
const char *url_fault_text(enum url_fault fault);

/* Compares the scheme without regard to case. */
bool url_scheme_is(const struct url *url, const char *scheme);

/* Removes the first NAME=VALUE from a query, up to the next '&'. `has_value` is false if there is
 * no '='. Returns false at the end. */
bool url_next_pair(struct slice *query, struct slice *name, struct slice *value, bool *has_value);

/* Appends "host:port" in lower case, with an IPv6 address in brackets, `port` if it has no port,
 * and without the final dot of a name. In this form, two spellings of one peer are equal. */
void url_emit_host(const struct url_host *host, uint16_t port, struct buffer *out);

/* Appends "scheme://host:port" of one host, like url_emit_host: the key under which credentials are
 * stored. */
void url_emit_origin(const struct url *url, size_t host, uint16_t port, struct buffer *out);

#endif
