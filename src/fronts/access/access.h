/*
 * access: who calls, and what he may do.
 *
 * A caller is made by a token, a certificate, an access key or a JWT: a name, scopes, topics and limits. Who asks
 * with none of these is refused, or is anyone, who may do everything: that is the listener's rule.
 * Callers never change and are counted. What a server knows of them does: each change raises the
 * generation, and whoever holds a caller asks for it again then.
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
 * Threads: any, all of it, but for access_new and access_free; changes are made by one at a time. A caller may be let go on another
 * thread than the one that asked for it. What is read from outside (files, a URL) is read by whoever
 * calls access_reload, never by access_admit.
 * Secrets: no secret is logged or named in an error. A token is known by its SHA-256 alone and
 * looked for by it, so that how long an answer takes says nothing of the tokens there are. Of an access key the
 * secret itself is kept, since it is what signatures are made with.
 */
#ifndef TARRY_ACCESS_ACCESS_H
#define TARRY_ACCESS_ACCESS_H

#include "access/limits.h"
#include "access/rights.h"
#include "access/signature.h"
#include "base/metric.h"

enum {
    ACCESS_ERROR_BYTES = 512,
    ACCESS_HEADER_BYTES_MAX = 16 * 1024 /* of the header Authorization; longer ones are refused */
};

/* ---- callers ---- */

enum access_kind { ACCESS_ANYONE = 1, ACCESS_TOKEN, ACCESS_CERTIFICATE, ACCESS_JWT, ACCESS_KEY };
const char *access_kind_name(
    enum access_kind kind); /* "anonymous", "token", "certificate", "jwt", "access-key" */

/* Read only. Name and topics end with it. */
struct access_caller {
    enum access_kind kind;
    unsigned scopes;     /* of enum access_scope */
    bool has_all_topics; /* one of the patterns is "*" */
    struct slice name;   /* of the token or the certificate, the JWT's subject; "anonymous". A NUL
                            stands behind it */
    struct slice topics; /* patterns, see rights.h */
    struct access_limits limits;
    int64_t ends_ms;  /* wall clock: no caller any more from then on; INT64_MAX: never */
    uint64_t era;     /* of a JWT: which keys of its issuer it was looked at with */
    bool is_unlisted; /* a certificate, where none is listed */
};

/* One more who holds it; returns it. */
struct access_caller *access_caller_hold(const struct access_caller *caller);
/* One less; NULL is fine. */
void access_caller_release(struct access_caller *caller);

/* Scopes alone: for what is about no topic, and before it is known which. All of them are needed
 * where several are given. */
static inline bool access_has_scope(const struct access_caller *caller, unsigned scopes)
{
    return (caller->scopes & scopes) == scopes;
}

/* Scopes, and the topic. An empty topic is none: then it takes all topics. */
static inline bool access_may(const struct access_caller *caller, unsigned scopes,
                              struct slice topic)
{
    return access_has_scope(caller, scopes) &&
           (caller->has_all_topics || access_topics_match(caller->topics, topic));
}

/* The same for a call that serves several roles: one of the scopes is enough. */
static inline bool access_may_as_any(const struct access_caller *caller, unsigned scopes,
                                     struct slice topic)
{
    return (caller->scopes & scopes) && access_may(caller, 0, topic);
}

/* ---- a server's knowledge ---- */

struct access;

/* A company's own issuer of JWTs. */
struct access_jwt_options {
    const char *issuer, *audience; /* what iss is, and one of aud; NULL or empty issuer: none */
    const char *scope_claim, *topics_claim;
    const char *keys_file; /* JWKS or PEM; NULL or empty: access_set_jwt_keys says what they are */
};

struct access_options {
    const char *tokens_file; /* NULL or empty: none */
    bool has_stored_tokens;  /* instead: access_set_tokens says what they are */
    struct access_jwt_options jwt;
};

/* 0 or negative errno with `error`. Without any of the options it knows nobody (see
 * access_is_on). */
int access_new(const struct access_options *options, struct access **out,
               char error[ACCESS_ERROR_BYTES]);
void access_free(struct access *access);

/* Whether there is a list of callers, or an issuer. Without one everybody is anyone, whatever header
 * he sends; but for who shows a certificate, who may do everything under its name. */
bool access_is_on(const struct access *access);

/* Who everybody is where nothing is asked: all scopes, all topics, no limits. Held by nobody: the
 * caller of this function need not let it go. NULL as `access` will do. */
struct access_caller *access_anyone(void);

/* Rises with each change of what is known. Cheap: asked at each request. */
uint64_t access_generation(const struct access *access);

struct access_asked {
    struct slice authorization; /* the header's value; `at` NULL: there is none. Who finds two of
                                   them refuses the request himself */
    struct slice certificate;   /* the name in the client's certificate, verified; empty: none */
    bool needs_caller;          /* the listener's rule: who does not say who he is, is refused */
    int64_t now_ms;             /* wall clock */
};

/* Why nobody was admitted: for logs and metrics. The client is told one of two things only, see
 * access_challenge. */
enum access_refusal {
    ACCESS_OK = 0,
    ACCESS_MISSING, /* nothing says who it is */
    ACCESS_MALFORMED, /* neither Bearer nor Basic, no token in it, too long; a signature that lacks something */
    ACCESS_UNKNOWN, /* no such token */
    ACCESS_REVOKED, /* it was */
    ACCESS_EXPIRED, /* its time is over */
    ACCESS_FORGED, /* a JWT whose signature is not the issuer's, or a request's that is not the key's */
    ACCESS_UNKNOWN_KEY, /* a JWT by a key that the issuer does not have, or not yet here */
    ACCESS_CLAIMS,      /* a JWT of another issuer, for others, not valid yet, or without a claim; a
                           signature for another region or service */
    ACCESS_SKEW,        /* signed too long ago, or in the future */
    ACCESS_UNAVAILABLE, /* nothing wrong was found but it could not be looked at: 503 */
    ACCESS_REFUSALS
};
const char *access_refusal_name(enum access_refusal refusal); /* "missing", … */
/* The value of WWW-Authenticate. */
const char *access_challenge(enum access_refusal refusal);

/*
 * Who asks. A header counts before a certificate; one that is wrong is refused, also where nothing
 * need be said. ACCESS_OK: *caller is held for whoever asked, who lets it go.
 */
enum access_refusal access_admit(struct access *access, const struct access_asked *asked,
                                 struct access_caller **caller);

/* A request that is signed with an access key (signature.h). */
struct access_signed {
    struct slice authorization;
    const struct signature_request *request;
    bool is_whole; /* else its body is not here yet: all but the signature itself is looked at */
    const char *region, *service; /* that it must be signed for */
    int64_t now_ms;               /* wall clock */
};
/* Are there access keys, revoked ones too? Without any a signature says nothing. */
bool access_has_keys(struct access *access);
/* As access_admit. Where it is refused *why is a sentence for the client. */
enum access_refusal access_admit_signed(struct access *access, const struct access_signed *asked,
                                        struct access_caller **caller, const char **why);

/* After a change of the generation: whether a caller is what he was when he was admitted. Where not,
 * he is asked again who he is. Where he is, it is the same caller, so nothing need be made anew. */
bool access_holds(struct access *access, const struct access_caller *caller, int64_t now_ms);

/* All tokens, certificates and access keys that are listed and not revoked, in the order of the list. `shown_ms`:
 * when somebody last proved himself by it, on a new connection or after a change; wall clock; 0: not
 * since the start. `each` is called under a lock, and is quick. Returns how many. */
size_t access_list(struct access *access,
                   void (*each)(void *ctx, const struct access_caller *caller, int64_t shown_ms),
                   void *ctx);

/* ---- changes ---- */

struct access_change {
    bool is_changed;                         /* the generation has risen */
    uint32_t added, removed, altered, total; /* of tokens, by secrets */
    bool has_new_keys;                       /* the issuer's are others */
};

/* Reads files again where they changed, or all of them where `is_forced`. 0; or negative errno with
 * `error`: what could not be read stays in force as it was, but for a file of tokens that is gone or
 * open to others: then nobody is known any more. */
int access_reload(struct access *access, bool is_forced, struct access_change *change,
                  char error[ACCESS_ERROR_BYTES]);

/* What stands in a store instead of a file; empty: there are no tokens. */
int access_set_tokens(struct access *access, struct slice text, struct access_change *change,
                      char error[ACCESS_ERROR_BYTES]);

/* The issuer's keys where no file has them: a JWKS or PEM; `place` is where they are from. */
int access_set_jwt_keys(struct access *access, struct slice text, const char *place,
                        struct access_change *change, char error[ACCESS_ERROR_BYTES]);
/* Somebody named a key of the issuer's that is not known; asked once after each such time. */
bool access_wants_jwt_keys(struct access *access);

/* Lines for /metrics. */
void access_emit_metrics(struct access *access, struct metric_page *page);
extern const struct metric access_metrics[];

#endif
