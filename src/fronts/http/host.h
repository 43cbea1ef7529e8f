/*
 * host: by which names a server may be called, and from which pages.
 *
 * A browser runs the programs of strangers beside the servers of this machine. Two checks keep
 * those out. The name in `Host` must be one of the server's own: a stranger's name that DNS turns
 * to this machine (rebinding) would make the stranger's page one origin with the server, which
 * could then read every answer. And a call that changes or takes something is refused where the
 * browser says that the page of another site makes it (`Origin`, `Sec-Fetch-Site`). What is no
 * browser sends neither mark, and HTTP/1.0 no name.
 *
 * The server's own names, each with any port: localhost; addresses of loopback, and every address
 * over a listener that is beyond loopback (nobody else can own an address); the names it was given.
 *
 * One thread.
 */
#ifndef TARRY_HTTP_HOST_H
#define TARRY_HTTP_HOST_H

#include "http/request.h"

enum { HTTP_HOST_LAST_BYTES = 64 };

struct http_hosts {
    struct slice names;   /* see http_host_names_check; outlives this */
    struct slice origins; /* of pages that are let in beside its own, see cors.h; outlives this */
    bool has_any_address; /* every address is a name */
    size_t last_len;
    char last[HTTP_HOST_LAST_BYTES]; /* the Host that was let in last: most come again */
};

/* `is_local`: it is called over loopback or a unix socket; `names` is what http_host_names_check took,
 * `origins` what http_cors_check took, or NULL. */
void http_hosts_init(struct http_hosts *hosts, bool is_local, const char *names,
                     const char *origins);

/* Names with commas or blanks between: "queue.internal", "*.internal" for all names below, an
 * address; without a port. False: *bad is one that is none of these. */
bool http_host_names_check(struct slice names, struct slice *bad);

/* Is "name:port" or "name" one of the server's? *is_malformed where it cannot be a Host at all. */
bool http_hosts_have(const struct http_hosts *hosts, struct slice host, bool *is_malformed);

/* What http_hosts_admit does with a request that is not plain. */
bool http_hosts_judge(struct http_hosts *hosts, const struct http_request *request,
                      struct http_fault *fault);

/* May this request be answered? False: *fault says why not. */
static inline bool http_hosts_admit(struct http_hosts *hosts, const struct http_request *request,
                                    struct http_fault *fault)
{
    if (!request->has_marks && request->host.len && request->host.len == hosts->last_len &&
        memcmp(request->host.at, hosts->last, hosts->last_len) == 0)
        return true;
    return http_hosts_judge(hosts, request, fault);
}

#endif
