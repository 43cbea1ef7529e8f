/*
 * guard: the destinations that this server may reach, and the secrets for them: the policy file of
 * --deliver.
 *
 * Everything is forbidden unless the file allows it. A host must be named (allow-host), and each
 * address it resolves to must be public or in a named network (allow-network). Addresses are
 * checked when the connection is made, after the name was resolved, never by their spelling.
 *
 * The file has one `key = value` per line; # begins a comment; keys may be repeated.
 *
 *   allow-host = hooks.example.com        a name, `*.example.com`, `*`, or an address
 *   allow-network = 10.1.0.0/16           in addition to public networks
 *   sign = shop whsec_dGFycnktZXhhbXBsZS1rZXktMjQtYnl0     a key of Standard Webhooks; if a name
 *                                         is repeated, all of its keys sign, for rotation
 *   credential = amqp://mq.internal:5672 user password     both percent-encoded as in a URL
 *   credential = https://shop.example token                only kinds with +token in targets.txt
 *   command = pager /usr/local/bin/page   a program that alerts may run, by name
 *   ca-file = /etc/ssl/private-ca.pem     trusted in addition to the system's CAs
 *
 * Threads: any; guard_reload replaces the rules under a lock. Returned strings are copies. Secrets
 * are never logged, and wiped when freed; a file that other users can read is rejected.
 */
#ifndef TARRY_GUARD_GUARD_H
#define TARRY_GUARD_GUARD_H

#include "base/url.h"

#include <sys/socket.h>

struct guard;

enum {
    GUARD_ERROR_BYTES = 256,
    GUARD_NAME_BYTES_MAX = 64,
    GUARD_KEYS_MAX = 8,       /* per name */
    GUARD_KEY_BYTES_MAX = 64, /* decoded; at least 24, as Standard Webhooks requires */
    GUARD_SECRET_BYTES_MAX = 256,
    GUARD_PATH_BYTES_MAX = 1024,
    GUARD_ORIGIN_BYTES = 320
};

/* Reason why an address must not be reached. guard/network.c has the rows with the networks and
 * their sources. */
enum guard_decision {
    GUARD_ALLOWED = 0,
    GUARD_OFF,               /* no policy file: nothing is delivered */
    GUARD_HOST_NOT_NAMED,    /* not covered by an allow-host */
    GUARD_NETWORK_FORBIDDEN, /* private, loopback, link-local, metadata, mapped, translated, … */
    /* A family other than IPv4 and IPv6, or a host that is neither a name nor an address. */
    GUARD_NOT_AN_ADDRESS
};
const char *guard_decision_name(enum guard_decision decision); /* "host_not_allowed", … */

/* Opens a guard. If `path` is NULL or empty, it refuses everything. Returns 0, or negative errno
 * with `error`. */
int guard_open(const char *path, struct guard **out, char error[GUARD_ERROR_BYTES]);
void guard_free(struct guard *guard);
/* Reads the file again. After an error the old rules stay in force. */
int guard_reload(struct guard *guard, char error[GUARD_ERROR_BYTES]);
bool guard_is_on(const struct guard *guard);
/* Returns a number that rises with each reload; data derived from the rules then has to be
 * recreated. */
uint64_t guard_generation(const struct guard *guard);

/* Checks a host as in a URL, without brackets; case and a final dot are ignored. If it is an
 * address, in any spelling, its network is also checked. */
enum guard_decision guard_check_host(struct guard *guard, struct slice host);
/* Returns true if a rule names exactly this host; false if only '*' or '*.example.com' covers
 * it. */
bool guard_names_host(struct guard *guard, struct slice host);
/* Checks an IPv4 or IPv6 address; mapped, compatible, NAT64, 6to4 and Teredo forms are checked by
 * the address they contain. */
enum guard_decision guard_check_address(struct guard *guard, const struct sockaddr *address);

/* Checks an open connection against the current rules: the host it was made for and its peer. */
enum guard_decision guard_check_peer(struct guard *guard, struct slice host, int fd);

struct guard_key {
    size_t bytes;
    unsigned char key[GUARD_KEY_BYTES_MAX];
};
/* Returns the number of keys of a name, in the order of the file; 0 if there is no such name. The
 * calling code has to wipe them. */
size_t guard_find_keys(struct guard *guard, struct slice name,
                       struct guard_key out[GUARD_KEYS_MAX]);

struct guard_credential {
    bool is_token; /* `password` is a token, and there is no user */
    char user[GUARD_SECRET_BYTES_MAX], password[GUARD_SECRET_BYTES_MAX];
};
/* Writes the origin of a URL's host, which identifies its credential: "scheme://host:port" as
 * normalized by url_emit_origin; a missing port is that of the scheme. A connection made with the
 * same `struct url` goes to the host that the credential is for. Returns false if there is no
 * port. */
bool guard_origin(const struct url *url, size_t host, char out[GUARD_ORIGIN_BYTES]);
/* Returns the port of that origin; 0 if unknown. */
uint16_t guard_port(const struct url *url, size_t host);
/* Finds the credential of an origin from guard_origin, or of the first host of a URL. Returns false
 * if not found. The calling code has to wipe it. */
bool guard_find_credential(struct guard *guard, const char *origin, struct guard_credential *out);
/* Finds the program of a command. Returns false if there is no such name. */
bool guard_find_command(struct guard *guard, struct slice name, char out[GUARD_PATH_BYTES_MAX]);
/* Returns false if no CA file is configured. */
bool guard_ca_file(struct guard *guard, char out[GUARD_PATH_BYTES_MAX]);

#endif
