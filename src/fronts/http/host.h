/*
 * host: checks the names by which a server may be called and the pages that may call it.
 *
 * A browser runs programs of strangers on the machine of the server. Two checks protect against
 * them. First, the name in `Host` must be one of the server's own. Otherwise a foreign name that
 * DNS maps to this machine (rebinding) would give a foreign page the same origin as the server, so
 * that it could read all answers. Second, a call that changes or takes something is refused if the
 * browser reports that a page of another site makes it (`Origin`, `Sec-Fetch-Site`). Clients other
 * than browsers send neither field, and HTTP/1.0 sends no name.
 *
 * The server's own names, each with any port: localhost; loopback addresses, and any address on a
 * listener that is not limited to loopback (an address cannot be owned by a stranger); the
 * configured names.
 *
 * Not thread-safe.
 */
#ifndef TARRY_HTTP_HOST_H
#define TARRY_HTTP_HOST_H

#include "http/request.h"

enum { HTTP_HOST_LAST_BYTES = 64 };

struct http_hosts {
    struct slice names;   /* see http_host_names_check; must outlive this */
    struct slice origins; /* further allowed origins, see cors.h; must outlive this */
    bool has_any_address; /* every address is an accepted name */
    size_t last_len;
    char last[HTTP_HOST_LAST_BYTES]; /* the Host accepted last, which most requests repeat */
};

/* Initializes the names of a listener. `is_local`: it is on loopback or a unix socket. `names` was
 * checked by http_host_names_check, `origins` by http_cors_check; both may be NULL. */
void http_hosts_init(struct http_hosts *hosts, bool is_local, const char *names,
                     const char *origins);

/* Checks a list of names separated by commas or blanks: "queue.internal", "*.internal" for all
 * names below, or an address; without a port. On false, *bad is the invalid name. */
bool http_host_names_check(struct slice names, struct slice *bad);

/* Returns whether "name:port" or "name" is one of the server's. Sets *is_malformed if it is not a
 * valid Host. */
bool http_hosts_have(const struct http_hosts *hosts, struct slice host, bool *is_malformed);

/* Checks a request in full; http_hosts_admit has a short path for the Host accepted last. */
bool http_hosts_evaluate(struct http_hosts *hosts, const struct http_request *request,
                         struct http_fault *fault);

/* Returns whether this request may be answered. On false, *fault gives the reason. */
static inline bool http_hosts_admit(struct http_hosts *hosts, const struct http_request *request,
                                    struct http_fault *fault)
{
    if (!request->has_marks && request->host.len && request->host.len == hosts->last_len &&
        memcmp(request->host.at, hosts->last, hosts->last_len) == 0)
        return true;
    return http_hosts_evaluate(hosts, request, fault);
}

#endif
