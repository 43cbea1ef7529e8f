/*
 * place: the address of a destination: its URL, parsed once by base/url.h. Pure.
 *
 * The host to look up and connect to, the name for the certificate, the credential, and the
 * messages that share a target are all taken from one parsed value. So a second parser cannot find
 * a different host in the same text.
 */
#ifndef TARRY_TARGETS_PLACE_H
#define TARRY_TARGETS_PLACE_H

#include "base/url.h"
#include "guard/guard.h"

enum { TARGET_NAME_BYTES = 256 }; /* of a virtual host, including the NUL */

struct target_place {
    bool is_tls;
    uint16_t port; /* as given, or the default of the scheme */
    /* of the first host: lower case, no brackets, no final dot */
    char host[URL_HOST_BYTES_MAX + 1];
    char origin[GUARD_ORIGIN_BYTES]; /* of the first host: "scheme://host:port", lower case */
};

/* Parses a destination of the form SCHEME://HOST[:PORT][,…][PATH][?QUERY]: without user, fragment,
 * or template in the host. *url contains slices of `to`. Returns false with `error`, which names
 * the problem and a valid form without quoting the input. */
bool target_place_read(struct slice to, struct url *url, char *error);
/* Parses a destination of one kind into the place of its first host; `schemes` are its plain scheme and its TLS scheme. */
bool target_place_parse(struct slice to, const char *const *schemes, struct url *url,
                        struct target_place *out, char *error);
/* The same for a destination with several hosts, such as the servers of a cluster. */
struct target_places {
    size_t count;
    struct target_place at[URL_HOSTS_MAX];
};
bool target_places_parse(struct slice to, const char *const *schemes, struct url *url,
                         struct target_places *out, char *error);
/* Returns the path of a URL as a percent-decoded name, without the first '/'. It may be empty.
 * Returns false if it is longer than TARGET_NAME_BYTES or contains a control byte. */
bool target_place_name(const struct url *url, char out[TARGET_NAME_BYTES]);

#endif
