#include "targets/session.h"

#include "base/clock.h"
#include "targets/link.h"

#include <stdlib.h>

enum { IDLE_MS = 30 * 1000, IN_BYTES_KEPT = 16 * 1024 };

struct session {
    const struct target_env *env;
    struct target_places places;
    size_t at;       /* index of the server in use */
    size_t failures; /* servers in a row that could not be logged in to */
    const struct session_protocol *protocol;
    void *ctx;
    struct session_events events;
    void *owner;
    struct link *link;
    struct buffer in;
    bool is_logged_in, is_needed;
    int64_t unneeded_ms; /* time since it is not needed */
};

const struct target_place *session_place(const struct session *session)
{
    return &session->places.at[session->at];
}

bool session_is_up(const struct session *session)
{
    return session->is_logged_in && link_is_up(session->link);
}

bool session_is_down(const struct session *session)
{
    return link_is_down(session->link);
}

int64_t session_in_ms(const struct session *session)
{
    return link_in_ms(session->link);
}

int64_t session_out_ms(const struct session *session)
{
    return link_out_ms(session->link);
}

/* ---- while it is up ---- */

static void leave(struct session *session)
{
    if (session->protocol->leave)
        session->protocol->leave(session->ctx);
    session_stop(session, false);
}

void session_keep(struct session *session)
{
    int64_t now_ms = clock_inner_ms(), next_ms = INT64_MAX;
    int64_t idle_ms = session->is_needed ? INT64_MAX : session->unneeded_ms + IDLE_MS;
    if (now_ms >= idle_ms) {
        leave(session);
        return;
    }
    if (session->protocol->keep)
        next_ms = session->protocol->keep(session->ctx, now_ms);
    if (!link_is_up(session->link))
        return;
    link_wake_at(session->link, next_ms < idle_ms ? next_ms : idle_ms);
}

void session_logged_in(struct session *session)
{
    session->is_logged_in = true;
    session->failures = 0;
    session->unneeded_ms = clock_inner_ms();
    link_login_done(session->link);
    session_keep(session);
    session->events.up(session->owner);
}

/* ---- the link ---- */

static void on_link_up(void *ctx)
{
    struct session *session = ctx;
    buffer_clear_and_trim(&session->in, 0);
    session->is_logged_in = false;
    session->protocol->up(session->ctx);
}

static void on_link_secured(void *ctx)
{
    struct session *session = ctx;
    session->protocol->secured(session->ctx);
}

/* Splits received bytes into parts; each of them may end the session or free it. */
static void on_link_bytes(void *ctx, const char *bytes, size_t len)
{
    struct session *session = ctx;
    struct buffer *in = &session->in;
    size_t at = 0, used = 0;
    const char *why = "";
    enum session_read read = SESSION_MORE;
    buffer_append(in, bytes, len);
    if (in->failed) {
        link_fail(session->link, "connection lost", "the broker sent too much");
        return;
    }
    while (link_is_up(session->link) && at < in->len &&
           (read = session->protocol->read(session->ctx, in->at + at, in->len - at, &used, &why)) ==
               SESSION_PART)
        at += used;
    if (!link_is_up(session->link))
        return;
    if (read == SESSION_BROKEN) {
        link_fail(session->link, session->protocol->unreadable, why);
        return;
    }
    memmove(in->at, in->at + at, in->len - at);
    in->len -= at;
    if (in->len == 0)
        buffer_clear_and_trim(in, IN_BYTES_KEPT);
}

static void on_link_room(void *ctx)
{
    struct session *session = ctx;
    if (!session->protocol->has_room || session->protocol->has_room(session->ctx))
        session->events.room(session->owner);
}

static void on_link_woken(void *ctx)
{
    session_keep(ctx);
}

/* Continues with the next server: immediately if others are left that have not failed. */
static void on_link_down(void *ctx, const char *why)
{
    struct session *session = ctx;
    bool was_logged_in = session->is_logged_in;
    session->is_logged_in = false;
    session->at = (session->at + 1) % session->places.count;
    link_move(session->link, session_place(session));
    if (!was_logged_in && ++session->failures < session->places.count) {
        link_stop(session->link, false);
        link_start(session->link);
        return;
    }
    session->failures = 0;
    session->events.down(session->owner, why);
}

static void on_link_gone(void *ctx)
{
    struct session *session = ctx;
    struct session_events events = session->events;
    void *owner = session->owner;
    session->protocol->free(session->ctx);
    buffer_fini(&session->in);
    free(session);
    events.gone(owner);
}

/* ---- calls ---- */

bool session_credential(const struct session *session, struct guard_credential *out)
{
    return guard_find_credential(session->env->guard, session_place(session)->origin, out);
}

void session_login(struct session *session, struct buffer *login)
{
    bool is_sent = link_is_up(session->link) && !login->failed &&
                   link_write(session->link, login->at, login->len) == login->len;
    if (!is_sent && link_is_up(session->link))
        link_fail(session->link, "no login", "out of memory");
    if (login->at)
        explicit_bzero(login->at, login->cap);
    buffer_fini(login);
}

void session_start_tls(struct session *session)
{
    link_start_tls(session->link);
}

void session_send(struct session *session, const char *at, size_t len)
{
    (void)link_write(session->link, at, len);
}

size_t session_write(struct session *session, const char *at, size_t len)
{
    return session_is_up(session) ? link_write(session->link, at, len) : 0;
}

void session_fail(struct session *session, const char *what, const char *why)
{
    link_fail(session->link, what, why);
}

void session_stop(struct session *session, bool pauses)
{
    session->is_logged_in = false;
    link_stop(session->link, pauses);
}

void session_needed(struct session *session, bool is_needed)
{
    if (is_needed)
        link_start(session->link);
    if (session->is_needed == is_needed)
        return;
    session->is_needed = is_needed;
    session->unneeded_ms = clock_inner_ms();
    if (session_is_up(session))
        session_keep(session);
}

struct session *session_new(const struct target_env *env, const struct target_places *places,
                            const struct session_protocol *protocol, void *ctx,
                            const struct session_events *events, void *owner)
{
    struct link_events link_events = {.begins_plain = protocol->begins_plain,
                                      .up = on_link_up,
                                      .secured = on_link_secured,
                                      .bytes = on_link_bytes,
                                      .room = on_link_room,
                                      .woken = on_link_woken,
                                      .down = on_link_down,
                                      .gone = on_link_gone};
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->link = link_new(env, &places->at[0], &link_events, session);
    if (!session->link) {
        free(session);
        return NULL;
    }
    session->env = env;
    session->places = *places;
    session->protocol = protocol;
    session->ctx = ctx;
    session->events = *events;
    session->owner = owner;
    buffer_init(&session->in, protocol->in_bytes_max);
    return session;
}

void session_free(struct session *session)
{
    if (session_is_up(session) && session->protocol->leave)
        session->protocol->leave(session->ctx);
    link_free(session->link);
}
