/*
 * guard: what this server may reach, and with which secrets: the policy file behind --deliver.
 *
 * Nothing is allowed until the file says so. A host must be named (allow-host), and each address it
 * resolves to must be public, or lie in a network that is named (allow-network). Addresses are
 * judged where the connection is made, after resolution: never by spelling.
 *
 * File: `key = value` a line, # begins a comment; keys may be repeated.
 *
 *   allow-host = hooks.example.com        a name, `*.example.com`, `*`, or an address
 *   allow-network = 10.1.0.0/16           on top of the public ones
 *   sign = shop whsec_dGFycnktZXhhbXBsZS1rZXktMjQtYnl0     a key of Standard Webhooks; a name
 *                                         repeated: all of its keys sign, for rotation
 *   credential = amqp://mq.internal:5672 user password     both percent-encoded as in a URL
 *   credential = https://shop.example token                http and https alone: a bearer token
 *   command = pager /usr/local/bin/page   what an alert may run, by name
 *   ca-file = /etc/ssl/private-ca.pem     trusted beside the system's
 *
 * Threads: any; guard_reload swaps the rules under a lock. Strings handed out are copies.
 * Secrets: never logged, wiped when freed; a file that others may read is refused.
 */
#ifndef TARRY_GUARD_GUARD_H
#define TARRY_GUARD_GUARD_H

#include "base/url.h"

#include <sys/socket.h>

struct guard;

enum {
    GUARD_ERROR_BYTES = 256,
    GUARD_NAME_BYTES_MAX = 64,
    GUARD_KEYS_MAX = 8,       /* of one name */
    GUARD_KEY_BYTES_MAX = 64, /* decoded; at least 24, as Standard Webhooks wants it */
    GUARD_SECRET_BYTES_MAX = 256,
    GUARD_PATH_BYTES_MAX = 1024,
    GUARD_ORIGIN_BYTES = 320
};

/* Why an address may not be reached; rows of guard/network.c with the network and its source. */
enum guard_verdict {
    GUARD_ALLOWED = 0,
    GUARD_OFF,               /* no policy file: nothing is delivered */
    GUARD_HOST_NOT_NAMED,    /* no allow-host covers it */
    GUARD_NETWORK_FORBIDDEN, /* private, loopback, link-local, metadata, mapped, translated, … */
    /* A family other than IPv4 and IPv6; a host that is neither a name nor an address. */
    GUARD_NOT_AN_ADDRESS
};
const char *guard_verdict_name(enum guard_verdict verdict); /* "host_not_allowed", … */

/* `path` NULL or empty: a guard that refuses everything. 0 or negative errno with `error`. */
int guard_open(const char *path, struct guard **out, char error[GUARD_ERROR_BYTES]);
void guard_free(struct guard *guard);
/* Reads the file again. On an error the old rules stay in force. */
int guard_reload(struct guard *guard, char error[GUARD_ERROR_BYTES]);
bool guard_is_on(const struct guard *guard);
/* Rises with each reload: what was made of the rules is then made anew. */
uint64_t guard_generation(const struct guard *guard);

/* `host` as in a URL, without brackets; compared without regard to case and a final dot. Where it
 * is an address, in whatever spelling, its network is judged as well. */
enum guard_verdict guard_check_host(struct guard *guard, struct slice host);
/* Does a rule name exactly this host? False where only '*' or '*.example.com' covers it. */
bool guard_names_host(struct guard *guard, struct slice host);
/* IPv4 and IPv6; mapped, compatible, NAT64, 6to4 and Teredo forms are judged by what they hold. */
enum guard_verdict guard_check_address(struct guard *guard, const struct sockaddr *address);

/* An open connection, judged by the rules of now: the host it was made for and its peer. */
enum guard_verdict guard_check_peer(struct guard *guard, struct slice host, int fd);

struct guard_key {
    size_t bytes;
    unsigned char key[GUARD_KEY_BYTES_MAX];
};
/* The keys of a name, in the file's order; 0: there is no such name. The caller wipes them. */
size_t guard_find_keys(struct guard *guard, struct slice name,
                       struct guard_key out[GUARD_KEYS_MAX]);

struct guard_credential {
    bool is_token; /* `password` is one, there is no user */
    char user[GUARD_SECRET_BYTES_MAX], password[GUARD_SECRET_BYTES_MAX];
};
/* The name under which the credential of one of a URL's hosts is kept: "scheme://host:port" in the
 * one spelling of url_emit_origin, a port that is missing is the scheme's. Who connects by the same
 * `struct url` connects to what the credential is for. False: neither gives a port. */
bool guard_origin(const struct url *url, size_t host, char out[GUARD_ORIGIN_BYTES]);
/* The port of that origin; 0: none is known. */
uint16_t guard_port(const struct url *url, size_t host);
/* For what guard_origin says, or a URL whose first host it is. False: none. The caller wipes it. */
bool guard_find_credential(struct guard *guard, const char *origin, struct guard_credential *out);
/* The program of a command. False: no such name. */
bool guard_find_command(struct guard *guard, struct slice name, char out[GUARD_PATH_BYTES_MAX]);
/* False: none was named. */
bool guard_ca_file(struct guard *guard, char out[GUARD_PATH_BYTES_MAX]);

#endif
