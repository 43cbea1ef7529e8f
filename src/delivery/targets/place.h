/*
 * place: where a destination is: its URL, read once by base/url.h. Pure.
 *
 * Whom to look up and connect to, whose certificate it must be, which credential goes along and
 * which messages share a target come from one parsed value: no second reader of the same text could
 * find another host in it.
 */
#ifndef TARRY_TARGETS_PLACE_H
#define TARRY_TARGETS_PLACE_H

#include "base/url.h"
#include "guard/guard.h"

enum { TARGET_NAME_BYTES = 256 }; /* of a virtual host, with its NUL */

struct target_place {
    bool is_tls;
    uint16_t port;                     /* as given, or the scheme's */
    char host[URL_HOST_BYTES_MAX + 1]; /* of the first: small letters, no brackets, no final dot */
    char origin[GUARD_ORIGIN_BYTES];   /* of the first: "scheme://host:port", small letters */
};

/* SCHEME://HOST[:PORT][,…][PATH][?QUERY] as any destination is written: no user, no fragment, no
 * template in the host. *url holds slices of `to`. False: `error` (TARGET_ERROR_BYTES) says what is
 * wrong and what would be right, and quotes nothing. */
bool target_place_read(struct slice to, struct url *url, char *error);
/* The same for one kind: `schemes` are its own, the plain one and the one by TLS. */
bool target_place_parse(struct slice to, const char *const *schemes, struct url *url,
                        struct target_place *out, char *error);
/* The path of a URL as one name, percent-decoded, without its first '/'; empty where there is none.
 * False: it is longer than TARGET_NAME_BYTES, or holds a control byte. */
bool target_place_name(const struct url *url, char out[TARGET_NAME_BYTES]);

#endif
