/*
 * stomp_place: a URL of a broker, read. Pure.
 *
 *   stomp://host[:61613][/virtual-host]     stomps://host[:61614][/virtual-host] by TLS
 */
#ifndef TARRY_TARGETS_STOMP_PLACE_H
#define TARRY_TARGETS_STOMP_PLACE_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

enum { STOMP_HOST_BYTES = 256, STOMP_PORT = 61613, STOMP_TLS_PORT = 61614 };

struct stomp_place {
    bool is_tls;
    uint16_t port;
    char host[STOMP_HOST_BYTES];         /* without brackets */
    char virtual_host[STOMP_HOST_BYTES]; /* the host's name where the URL has no path */
    char origin[STOMP_HOST_BYTES + 32];  /* "scheme://host:port", as credentials are kept by */
};

/* False: `error` (TARGET_ERROR_BYTES) says what is wrong and what would be right. */
bool stomp_place_parse(struct slice url, struct stomp_place *out, char *error);

#endif
