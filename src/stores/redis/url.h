/*
 * url: the address of Redis as the user writes it. Pure.
 *
 *   redis://[[user]:password@]host[:6379][/db][?options]
 *   redis-sentinel://[[user]:password@]host[:26379][,host…]/master[/db][?options]
 *   redis-cluster://[[user]:password@]host[:6379][,host…][?options]
 *   redis+unix://[[user]:password@]/path/of/socket[?db=0&…]   also  unix:///path
 *   rediss://…, rediss-sentinel://…, rediss-cluster://…: the same with TLS
 *
 * base/url.h splits the text; its strict rules also apply here. User and password are
 * percent-encoded. Options: prefix=tarry ([A-Za-z0-9._-]{1,32}, begins the name of every key),
 * sentinel-user, sentinel-password, db; with TLS ca=FILE (trusted CAs; default: those of the
 * system), cert=FILE and key=FILE (the client certificate), tls-name=NAME (expected in the servers'
 * certificates instead of the host name). IPv6 addresses are written in brackets.
 */
#ifndef TARRY_REDIS_URL_H
#define TARRY_REDIS_URL_H

#include "base/slice.h"

#include <stdint.h>

struct tls_context;

enum redis_kind { REDIS_SINGLE = 1, REDIS_SENTINEL, REDIS_CLUSTER };

enum {
    REDIS_HOSTS_MAX = 16,
    REDIS_HOST_BYTES = 256,
    REDIS_SECRET_BYTES = 256,
    REDIS_FILE_BYTES = 512,
    REDIS_PREFIX_BYTES = 33,
    REDIS_MASTER_BYTES = 128,
    REDIS_ENDPOINT_NAME_BYTES = REDIS_HOST_BYTES + 10
};

/* An address to connect to. With a path: a unix socket. */
struct redis_endpoint {
    char host[REDIS_HOST_BYTES]; /* name, address, or path of a socket when port is 0 */
    uint16_t port;
};

/* Writes the endpoint for people: "host:6379", "[::1]:6379", "/path". */
void redis_endpoint_name(const struct redis_endpoint *endpoint,
                         char out[REDIS_ENDPOINT_NAME_BYTES]);

/* The encryption of connections; see redis/tls.h. */
struct redis_tls {
    bool is_on;
    struct tls_context *context; /* NULL until redis_tls_open */
    char name[REDIS_HOST_BYTES]; /* in the servers' certificates; empty: the host name */
    char ca_file[REDIS_FILE_BYTES], certificate_file[REDIS_FILE_BYTES], key_file[REDIS_FILE_BYTES];
};

struct redis_url {
    enum redis_kind kind;
    struct redis_endpoint hosts[REDIS_HOSTS_MAX];
    uint32_t host_count;
    char user[REDIS_SECRET_BYTES], password[REDIS_SECRET_BYTES]; /* empty: not used */
    char sentinel_user[REDIS_SECRET_BYTES], sentinel_password[REDIS_SECRET_BYTES];
    char master[REDIS_MASTER_BYTES]; /* sentinel */
    uint32_t db;
    char prefix[REDIS_PREFIX_BYTES];
    struct redis_tls tls;
};

/* Returns false if the URL is invalid: `error` names the problem and never contains a password. */
bool redis_url_parse(const char *text, struct redis_url *out, char *error, size_t error_bytes);
/* Writes the URL without user and password, for logs. */
void redis_url_emit(const struct redis_url *url, char *out, size_t out_bytes);

#endif
