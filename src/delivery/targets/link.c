#include "targets/link.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "guard/resolve.h"
#include "targets/outbox.h"
#include "targets/stream.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CONNECT_MS = 10 * 1000, /* for all addresses, TLS and login together */
    PAUSE_MS = 100,         /* if the owner requests one */
    WHY_BYTES = 200
};

enum link_state { DOWN = 1, PAUSING, RESOLVING, CONNECTING, LOGIN, UP };

struct link {
    const struct target_env *env;
    struct target_place place;
    struct link_events events;
    void *ctx;
    enum link_state state;
    bool is_freed;
    struct resolved found;
    size_t next;       /* index in found */
    uint64_t policy;   /* the guard's generation when it allowed the connection */
    uint64_t question; /* number of the last question to the resolver */
    size_t asks;       /* unanswered questions */
    struct stream *stream;
    bool is_secured; /* TLS has begun on a stream that began plain */
    struct deadline *deadline;
    int64_t until_ms;                        /* timeout in the states up to LOGIN */
    int64_t last_out_ms, last_in_ms;         /* LOGIN, UP */
    struct outbox_pause pause;               /* pause before the next attempt */
    struct iteration_end_call iteration_end; /* reports failures of a call after it, and `gone` */
    char why[WHY_BYTES];
};

/* ---- down ---- */

static void link_hang_up(struct link *link)
{
    stream_free(link->stream);
    link->stream = NULL;
    link->question++;
    deadline_set(link->deadline, INT64_MAX);
}

void link_fail(struct link *link, const char *what, const char *why)
{
    link_hang_up(link);
    outbox_pause_longer(&link->pause, clock_inner_ms());
    (void)snprintf(link->why, sizeof link->why, "%s%s%s", what, *why ? ": " : "", why);
    log_event(LOG_INFO, "broker cannot be reached", LOG_TEXT("broker", link->place.origin),
              LOG_TEXT("why", link->why));
    reactor_once_at_iteration_end(link->env->reactor, &link->iteration_end);
}

/* Reports to the owner that the link is down, or frees it if the owner released it. */
static void on_iteration_end(struct iteration_end_call *call)
{
    struct link *link = list_entry(call, struct link, iteration_end);
    struct link_events events = link->events;
    void *ctx = link->ctx;
    reactor_iterate_again(link->env->reactor);
    if (!link->is_freed) {
        link->state = DOWN;
        events.down(ctx, link->why);
    } else if (link->asks == 0) {
        free(link);
        events.gone(ctx);
    }
}

void link_stop(struct link *link, bool pauses)
{
    link_hang_up(link);
    reactor_cancel_at_iteration_end(&link->iteration_end);
    link->state = DOWN;
    link->pause.until_ms = pauses ? clock_inner_ms() + PAUSE_MS : 0;
}

/* ---- up ---- */

bool link_is_up(const struct link *link)
{
    return (link->state == LOGIN || link->state == UP) && link->stream;
}

bool link_is_down(const struct link *link)
{
    return link->state == DOWN;
}

int64_t link_in_ms(const struct link *link)
{
    return link->last_in_ms;
}

int64_t link_out_ms(const struct link *link)
{
    return link->last_out_ms;
}

/* Checks the connection again if the policy file was read since it was opened. */
static bool is_allowed(struct link *link)
{
    struct guard *guard = link->env->guard;
    uint64_t policy = guard_generation(guard);
    const void *peer = &link->found.addresses[link->next - 1];
    if (policy == link->policy)
        return true;
    link->policy = policy;
    if (guard_check_host(guard, slice_of(link->place.host)) == GUARD_ALLOWED &&
        guard_check_address(guard, peer) == GUARD_ALLOWED)
        return true;
    link_fail(link, "connection ended", "the policy file forbids it now");
    return false;
}

void link_login_done(struct link *link)
{
    link->state = UP;
    link->pause.failures = 0;
    deadline_set(link->deadline, INT64_MAX);
}

void link_wake_at(struct link *link, int64_t at_ms)
{
    if (link->state == UP && link->stream)
        deadline_set(link->deadline, at_ms);
}

size_t link_write(struct link *link, const char *at, size_t len)
{
    if (!link_is_up(link) || !is_allowed(link))
        return 0;
    size_t taken = stream_write(link->stream, at, len);
    if (taken)
        link->last_out_ms = clock_inner_ms();
    return taken;
}

static void on_stream_bytes(void *ctx, const char *at, size_t len)
{
    struct link *link = ctx;
    link->last_in_ms = clock_inner_ms();
    link->events.bytes(link->ctx, at, len);
}

static void on_stream_room(void *ctx)
{
    struct link *link = ctx;
    if (link->state == UP)
        link->events.room(link->ctx);
}

/* ---- connecting ---- */

static void try_next(struct link *link, const char *reason);

static void on_stream_up(void *ctx)
{
    struct link *link = ctx;
    if (link->is_secured) {
        link->events.secured(link->ctx);
        return;
    }
    link->state = LOGIN;
    link->last_out_ms = link->last_in_ms = clock_inner_ms();
    deadline_set(link->deadline, link->until_ms);
    link->events.up(link->ctx);
}

static void on_stream_down(void *ctx, const char *why)
{
    struct link *link = ctx;
    if (link->state == CONNECTING) {
        stream_free(link->stream);
        link->stream = NULL;
        try_next(link, why);
    } else {
        link_fail(link, link->state == UP ? "connection lost" : "no login", why);
    }
}

/* Returns the file of further CAs, in `file`, or NULL. */
static const char *link_ca_file(const struct link *link, char file[GUARD_PATH_BYTES_MAX])
{
    return guard_ca_file(link->env->guard, file) ? file : NULL;
}

static bool connect_to(struct link *link, const struct sockaddr *address)
{
    static const struct stream_events events = {.up = on_stream_up,
                                                .bytes = on_stream_bytes,
                                                .room = on_stream_room,
                                                .down = on_stream_down};
    char file[GUARD_PATH_BYTES_MAX];
    bool is_tls = link->place.is_tls && !link->events.begins_plain;
    link->is_secured = false;
    link->stream = stream_new(link->env->reactor, address, is_tls ? link->place.host : NULL,
                              is_tls ? link_ca_file(link, file) : NULL, &events, link);
    return link->stream != NULL;
}

void link_start_tls(struct link *link)
{
    char file[GUARD_PATH_BYTES_MAX];
    link->is_secured = true;
    if (!stream_start_tls(link->stream, link->place.host, link_ca_file(link, file)))
        link_fail(link, "no TLS", "out of memory, or the ca-file cannot be read");
}

/* Connects to the next address; `reason` is why the previous one failed. */
static void try_next(struct link *link, const char *reason)
{
    int64_t now_ms = clock_inner_ms();
    while (link->next < link->found.count && now_ms < link->until_ms) {
        size_t left = link->found.count - link->next;
        const void *address = &link->found.addresses[link->next++];
        link->policy = guard_generation(link->env->guard);
        enum guard_decision decision = guard_check_address(link->env->guard, address);
        if (decision != GUARD_ALLOWED) {
            reason = guard_decision_name(decision);
        } else if (connect_to(link, address)) {
            int64_t share_ms = (link->until_ms - now_ms) / (int64_t)left;
            deadline_set(link->deadline, now_ms + (share_ms > 1 ? share_ms : 1));
            return;
        } else {
            reason = "out of memory, or the ca-file cannot be read";
        }
    }
    link_fail(link, "no connection", reason);
}

/* Handles the resolver's answer: tries the addresses in order, unless they are no longer needed. */
static void on_resolved(void *owner, uint64_t tag, const struct resolved *resolved)
{
    struct link *link = owner;
    link->asks--;
    if (link->is_freed) {
        reactor_once_at_iteration_end(link->env->reactor, &link->iteration_end);
        return;
    }
    if (tag != link->question || link->state != RESOLVING)
        return;
    link->found = *resolved;
    link->next = 0;
    link->state = CONNECTING;
    if (resolved->count == 0)
        link_fail(link, "no connection", resolved->error);
    else
        try_next(link, "");
}

static void link_begin(struct link *link)
{
    link->state = RESOLVING;
    link->until_ms = clock_inner_ms() + CONNECT_MS;
    deadline_set(link->deadline, link->until_ms);
    link->asks++;
    resolver_ask(link->env->resolver, link->place.host, link->place.port,
                 hash_64(link->place.host, strlen(link->place.host)), on_resolved, link,
                 ++link->question);
}

void link_start(struct link *link)
{
    if (link->state != DOWN || link->is_freed)
        return;
    if (clock_inner_ms() >= link->pause.until_ms) {
        link_begin(link);
        return;
    }
    link->state = PAUSING;
    deadline_set(link->deadline, link->pause.until_ms);
}

/* Handles the deadline, whose meaning depends on the state. */
static void on_deadline(void *ctx)
{
    struct link *link = ctx;
    switch (link->state) {
    case PAUSING:
        link_begin(link);
        return;
    case RESOLVING:
        link_fail(link, "no connection", "its address was not found in time");
        return;
    case CONNECTING:
        stream_free(link->stream);
        link->stream = NULL;
        try_next(link, "timed out");
        return;
    case LOGIN:
        link_fail(link, "no login", "the broker did not answer in time");
        return;
    case UP:
        if (is_allowed(link) && link->events.woken)
            link->events.woken(link->ctx);
        return;
    case DOWN:
        return;
    }
}

/* ---- life ---- */

struct link *link_new(const struct target_env *env, const struct target_place *place,
                      const struct link_events *events, void *ctx)
{
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->deadline = deadline_new(env->reactor, on_deadline, link);
    if (!link->deadline) {
        free(link);
        return NULL;
    }
    link->env = env;
    link->place = *place;
    link->events = *events;
    link->ctx = ctx;
    link->state = DOWN;
    link->iteration_end.run = on_iteration_end;
    list_init(&link->iteration_end.list);
    return link;
}

void link_move(struct link *link, const struct target_place *place)
{
    assert(link->state == DOWN);
    link->place = *place;
}

void link_free(struct link *link)
{
    link_stop(link, false);
    deadline_free(link->deadline);
    link->deadline = NULL;
    link->is_freed = true;
    reactor_once_at_iteration_end(link->env->reactor, &link->iteration_end);
}
