/*
 * site: the names by which a server may be called, and the pages that may call it.
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
 * Pages of other sites may use the API if their origin is configured (the Fetch standard, "CORS
 * protocol"). A browser lets a page read an answer, or send more than a plain form, only if the
 * server names the origin of the page in header fields. Without configured origins no field is
 * sent. Credentials of the browser (cookies, certificates) are never allowed: a page sends its
 * token in Authorization.
 *
 * Not thread-safe; the functions http_cors_… are pure.
 */
#ifndef TARRY_HTTP_SITE_H
#define TARRY_HTTP_SITE_H

#include "base/buffer.h"
#include "http/request.h"

/* ---- names of the server ---- */

enum { HTTP_HOST_LAST_BYTES = 64 };

struct http_hosts {
    struct slice names;   /* see http_host_names_check; must outlive this */
    struct slice origins; /* further allowed origins, see http_cors_check; must outlive this */
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

/* ---- pages of other sites ---- */

/* Checks a list of origins as a browser sends them, separated by commas or blanks:
 * "https://console.example", "http://localhost:3000". On false, *bad is the invalid origin. */
bool http_cors_check(struct slice origins, struct slice *bad);

/* Returns the position of the origin in the list, from 1, or 0 if it is not in the list. */
uint16_t http_cors_find(struct slice origins, struct slice origin);

/* Returns whether the request is a preflight request. */
bool http_cors_is_preflight(const struct http_request *request);
/* Writes the header fields of its answer: the methods of the path (`allow`, as in the field Allow)
 * and which of the fields that the page requests are allowed. */
void http_cors_emit_preflight(const struct http_request *request, struct slice allow,
                              struct buffer *out);

/* Writes the header fields of any other answer. `index` is the result of http_cors_find for its
 * request. */
void http_cors_emit(struct slice origins, uint16_t index, struct buffer *out);

#endif
