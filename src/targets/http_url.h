/*
 * http_url: a destination of http or https, cut into its parts. Pure.
 *
 * Strict, so that nobody reads another host out of it than we do: no user, no fragment, no
 * backslash, no byte that is not printable ASCII; a host is a name of letters, digits, '.', '-',
 * '_', or an address. Templates are allowed in path and query.
 */
#ifndef TARRY_TARGETS_HTTP_URL_H
#define TARRY_TARGETS_HTTP_URL_H

#include "base/buffer.h"

#include <stdint.h>

enum { TARGET_HOST_BYTES_MAX = 253 };

struct target_http_url { /* slices of the text that was parsed */
    bool is_tls, is_ipv6;
    uint16_t port;
    struct slice host; /* without brackets */
    struct slice path; /* path and query; empty: "/" */
};

/* False: `error` (TARGET_ERROR_BYTES) says what is wrong and what would be right. */
bool target_http_url_parse(struct slice text, struct target_http_url *out, char *error);

#endif
