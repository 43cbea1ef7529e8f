/*
 * access: authenticates callers and checks their rights.
 *
 * A caller is identified by a token, a certificate, an access key or a JWT. It has a name, scopes,
 * topics and limits. The listener's rule decides about a request without credentials: it is either
 * rejected, or treated as the anonymous caller, which has all rights.
 *
 * Callers are immutable and reference-counted. The server's list of callers can change: each change
 * raises the generation, and each holder of a caller then has to authenticate again.
 *
 *     struct access_asked asked = {.authorization = header, .now_ms = clock_wall_ms()};
 *     struct access_caller *caller;
 *     enum access_refusal refusal = access_admit(access, &asked, &caller);
 *     if (refusal)
 *         ...401 with access_challenge(refusal)...
 *     if (!access_may(caller, ACCESS_PUSH, topic))
 *         ...403...
 *     access_caller_release(caller);
 *
 * Threads: any thread may call all functions except access_new and access_free; changes are made by
 * one thread at a time. A caller may be released on another thread than the one that acquired it.
 * External sources (files, a URL) are read by the thread that calls access_reload, never by
 * access_admit.
 *
 * Secrets: no secret is logged or named in an error. Only the SHA-256 of a token is stored. Tokens
 * are looked up by this hash, so that the response time reveals nothing about existing tokens. The
 * secret of an access key is stored itself, because signatures are computed with it.
 */
#ifndef TARRY_ACCESS_ACCESS_H
#define TARRY_ACCESS_ACCESS_H

#include "access/limits.h"
#include "access/rights.h"
#include "base/metric.h"
#include "net/signature.h"

enum {
    ACCESS_ERROR_BYTES = 512,
    ACCESS_HEADER_BYTES_MAX = 16 * 1024 /* of the Authorization header; longer ones are rejected */
};

/* ---- callers ---- */

enum access_kind { ACCESS_ANYONE = 1, ACCESS_TOKEN, ACCESS_CERTIFICATE, ACCESS_JWT, ACCESS_KEY };
const char *access_kind_name(
    enum access_kind kind); /* "anonymous", "token", "certificate", "jwt", "access-key" */

/* A caller. Read-only. The name and the topics are valid as long as the caller. */
struct access_caller {
    enum access_kind kind;
    unsigned scopes;     /* of enum access_scope */
    bool has_all_topics; /* true if one of the patterns is "*" */
    /* name of the token or the certificate, the JWT's subject, or "anonymous"; NUL-terminated */
    struct slice name;
    struct slice topics; /* patterns, see rights.h */
    struct access_limits limits;
    int64_t ends_ms;  /* wall clock: the caller is valid until this time; INT64_MAX: no expiry */
    uint64_t era;     /* of a JWT: generation of the issuer's keys that verified it */
    bool is_unlisted; /* true for a certificate if no certificate is listed */
};

/* Adds a reference; returns the caller. */
struct access_caller *access_caller_hold(const struct access_caller *caller);
/* Drops a reference; accepts NULL. */
void access_caller_release(struct access_caller *caller);

/* Notes a call of a caller that was authenticated before, on the same connection. Wall clock; exact to a second. Any
 * thread. */
void access_caller_use(const struct access_caller *caller, int64_t now_ms);

/* Returns true if the caller has all given scopes. For calls that concern no topic, or before the
 * topic is known. */
static inline bool access_has_scope(const struct access_caller *caller, unsigned scopes)
{
    return (caller->scopes & scopes) == scopes;
}

/* Returns true if the caller has all given scopes and the topic. An empty topic means no topic,
 * which requires a caller with all topics. */
static inline bool access_may(const struct access_caller *caller, unsigned scopes,
                              struct slice topic)
{
    return access_has_scope(caller, scopes) &&
           (caller->has_all_topics || access_topics_match(caller->topics, topic));
}

/* Returns true if the caller has at least one of the scopes, and the topic. For calls that serve
 * several roles. */
static inline bool access_may_as_any(const struct access_caller *caller, unsigned scopes,
                                     struct slice topic)
{
    return (caller->scopes & scopes) && access_may(caller, 0, topic);
}

/* ---- the access list of a server ---- */

struct access;

/* An external issuer of JWTs. */
struct access_jwt_options {
    /* required iss, and a required member of aud; no issuer if NULL or empty */
    const char *issuer, *audience;
    const char *scope_claim, *topics_claim;
    /* JWKS or PEM; if NULL or empty, access_set_jwt_keys provides the keys */
    const char *keys_file;
};

struct access_options {
    const char *tokens_file; /* NULL or empty: no file */
    bool has_stored_tokens;  /* instead of a file: access_set_tokens provides the tokens */
    struct access_jwt_options jwt;
};

/* Creates the access list. Returns 0, or negative errno with `error`. Without any of the options it
 * contains no callers (see access_is_on). */
int access_new(const struct access_options *options, struct access **out,
               char error[ACCESS_ERROR_BYTES]);
void access_free(struct access *access);

/* Returns true if there is a list of callers or an issuer. Otherwise every client is the anonymous
 * caller, regardless of its header. The exception is a client with a certificate, which has all
 * rights under the certificate's name. */
bool access_is_on(const struct access *access);

/* Returns the caller for clients that need not authenticate: all scopes, all topics, no limits. It
 * is not reference-counted, so it need not be released. `access` may be NULL. */
struct access_caller *access_anyone(void);

/* Returns a number that rises with each change of the access list. Cheap enough to call for each
 * request. */
uint64_t access_generation(const struct access *access);

struct access_asked {
    /* value of the header; `at` is NULL if it is missing. A front that finds two such headers has
     * to reject the request itself */
    struct slice authorization;
    /* verified name in the client's certificate; may be empty */
    struct slice certificate;
    bool needs_caller; /* rule of the listener: reject clients without credentials */
    int64_t now_ms;    /* wall clock */
};

/* Reason why a caller was rejected, for logs and metrics. The client receives only one of two
 * reasons, see access_challenge. */
enum access_refusal {
    ACCESS_OK = 0,
    ACCESS_MISSING, /* no credentials */
    /* neither Bearer nor Basic, no token in it, or too long; or a signature with a missing part */
    ACCESS_MALFORMED,
    ACCESS_UNKNOWN, /* unknown token */
    ACCESS_REVOKED, /* revoked token */
    ACCESS_EXPIRED, /* expired credentials */
    ACCESS_FORGED, /* a JWT not signed by the issuer, or a request not signed with the access key */
    /* a JWT signed by a key that the issuer does not have, or that was not loaded yet */
    ACCESS_UNKNOWN_KEY,
    /* a JWT of another issuer, for another audience, not valid yet, or without a required claim; or
     * a signature for another region or service */
    ACCESS_CLAIMS,
    ACCESS_SKEW,        /* signed too long ago, or in the future */
    ACCESS_UNAVAILABLE, /* the credentials could not be checked: 503 */
    ACCESS_REFUSALS
};
const char *access_refusal_name(enum access_refusal refusal); /* "missing", … */
/* Returns the value of the WWW-Authenticate header. */
const char *access_challenge(enum access_refusal refusal);

/*
 * Authenticates a request. The header takes precedence over the certificate. Invalid credentials
 * are rejected even if credentials are optional. Returns ACCESS_OK with a reference in *caller,
 * which the calling code has to release.
 */
enum access_refusal access_admit(struct access *access, const struct access_asked *asked,
                                 struct access_caller **caller);

/* A request that is signed with an access key (signature.h). */
struct access_signed {
    struct slice authorization;
    const struct signature_request *request;
    /* if false, the body has not arrived yet: everything except the signature itself is checked */
    bool is_whole;
    const char *region, *service; /* required region and service */
    int64_t now_ms;               /* wall clock */
};
/* Returns true if there are access keys, including revoked ones. Otherwise signatures are
 * ignored. */
bool access_has_keys(struct access *access);
/* Authenticates a signed request, like access_admit. If it is rejected, *why is a sentence for the
 * client. */
enum access_refusal access_admit_signed(struct access *access, const struct access_signed *asked,
                                        struct access_caller **caller, const char **why);

/* Returns true if the caller is still valid after a change of the generation. If so, the same
 * caller remains in use and nothing has to be recreated. If not, the client has to authenticate
 * again. */
bool access_holds(struct access *access, const struct access_caller *caller, int64_t now_ms);

/* Lists all tokens, certificates and access keys that are not revoked, in the order of the list.
 * `used_ms` is the wall-clock time of the last call with it, or with another secret of the same
 * token; 0 if it was not used since the start. `each` is called under a lock and has to be quick.
 * Returns the number of entries. */
size_t access_list(struct access *access,
                   void (*each)(void *ctx, const struct access_caller *caller, int64_t used_ms),
                   void *ctx);

/* ---- changes ---- */

struct access_change {
    bool is_changed;                         /* the generation was raised */
    uint32_t added, removed, altered, total; /* tokens, counted by secrets */
    bool has_new_keys;                       /* the issuer's keys have changed */
};

/* Reads changed files again, or all files if `is_forced`. Returns 0, or negative errno with
 * `error`. If a file cannot be read, its previous content stays in force. The exception is a tokens
 * file that is missing or accessible to other users: then there are no callers any more. */
int access_reload(struct access *access, bool is_forced, struct access_change *change,
                  char error[ACCESS_ERROR_BYTES]);

/* Sets the tokens from a store instead of a file. An empty text means that there are no tokens. */
int access_set_tokens(struct access *access, struct slice text, struct access_change *change,
                      char error[ACCESS_ERROR_BYTES]);

/* Sets the issuer's keys, a JWKS or PEM, if they are not in a file. `place` is their source. */
int access_set_jwt_keys(struct access *access, struct slice text, const char *place,
                        struct access_change *change, char error[ACCESS_ERROR_BYTES]);
/* Returns true once after a JWT named an unknown key of the issuer. */
bool access_wants_jwt_keys(struct access *access);

/* Appends the lines for /metrics. */
void access_emit_metrics(struct access *access, struct metric_page *page);
extern const struct metric access_metrics[];

#endif
