/*
 * http_name: the addresses that an endpoint's host may be reached at, kept fresh, and in the form
 * libcurl takes them, so that it resolves nothing by itself.
 *
 * The reactor's thread. An answer is used at once, and asked for again in the background while
 * there is traffic. After a change of the policy nothing goes out before a new answer.
 */
#ifndef TARRY_TARGETS_HTTP_NAME_H
#define TARRY_TARGETS_HTTP_NAME_H

#include "guard/resolve.h"
#include "targets/http_url.h"
#include "targets/target.h"

struct target_name {
    const struct target_env *env;
    struct name_question *question; /* under way, or NULL */
    void (*answered)(void *ctx);
    void *ctx;
    char host[TARGET_HOST_BYTES_MAX + 1];
    uint16_t port;
    int64_t asked_ms, known_ms;    /* of the last question; of the last answer with addresses */
    uint64_t policy;               /* the generation of the guard when it was last looked at */
    uint64_t generation;           /* of `line`; 0: there is none */
    struct buffer line;            /* "host:port:address,address" NUL */
    char error[GUARD_ERROR_BYTES]; /* why there are none */
    bool is_temporary, is_unasked; /* ... nobody answered; nobody was even asked */
};

/* `host` in lower case. `answered`: after each answer, never inside a call. */
void target_name_init(struct target_name *name, const struct target_env *env, struct slice host,
                      uint16_t port, void (*answered)(void *ctx), void *ctx);
/* No `answered` after it. */
void target_name_fini(struct target_name *name);

/* Asks where that is due, on behalf of `topic`. True: there are addresses; false: wait for
 * `answered`. */
bool target_name_look_up(struct target_name *name, struct slice topic, int64_t now_ms);

#endif
