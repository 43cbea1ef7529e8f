/*
 * session: a connection to one of the servers of a broker, with a login: connects when it is
 * needed, splits what arrives, checks that the server is alive, closes half a minute after it is no
 * longer needed, and continues with the next server after a failure. A protocol supplies the rest.
 *
 * Used on the reactor's thread. Events never occur inside a call. A session begins down;
 * session_needed leads to one `up` or one `down`. An `up` is followed by one `down`, unless the
 * session was stopped or closed because it was not needed.
 */
#ifndef TARRY_TARGETS_SESSION_H
#define TARRY_TARGETS_SESSION_H

#include "base/buffer.h"
#include "targets/place.h"
#include "targets/target.h"

struct session;

/* For the owner. */
struct session_events {
    void (*up)(void *owner);                    /* logged in */
    void (*room)(void *owner);                  /* after a write that accepted too little */
    void (*down)(void *owner, const char *why); /* no server could be logged in to, or the
                                                   connection is lost; a text for users */
    void (*gone)(void *owner);                  /* after session_free; the last event */
};

enum session_read {
    SESSION_MORE = 1, /* more bytes are needed */
    SESSION_PART,     /* a part was read and handled */
    SESSION_BROKEN    /* `why` is set */
};

struct session_protocol {
    bool begins_plain;          /* see link.h */
    size_t in_bytes_max;        /* received and not yet read */
    const char *unreadable;     /* the first half of the error after SESSION_BROKEN */
    void (*up)(void *ctx);      /* connected: sends the login, or waits for a greeting */
    void (*secured)(void *ctx); /* after session_start_tls; may be NULL */
    /* Reads and handles the first part of `len` bytes; it may fail, stop or free the session. */
    enum session_read (*read)(void *ctx, char *at, size_t len, size_t *used, const char **why);
    /* Keeps the connection alive, or fails the session if the server is not. Returns the time of
     * the next call. Called while logged in; may be NULL. */
    int64_t (*keep)(void *ctx, int64_t now_ms);
    void (*leave)(void *ctx);    /* says goodbye; may be NULL */
    bool (*has_room)(void *ctx); /* sends what is left first; may be NULL */
    void (*free)(void *ctx);     /* frees `ctx` */
};

/* Returns NULL when out of memory. `env` and `protocol` outlive the session. */
struct session *session_new(const struct target_env *env, const struct target_places *places,
                            const struct session_protocol *protocol, void *ctx,
                            const struct session_events *events, void *owner);
void session_free(struct session *session);
/* Sets whether the session is needed. If needed and down, it connects immediately or after the
 * pause that follows a failure. */
void session_needed(struct session *session, bool is_needed);
/* Goes down without an event. `pauses`: the next start waits briefly. */
void session_stop(struct session *session, bool pauses);
/* Returns the number of accepted bytes; if fewer than `len`, `up` or `room` follows. */
size_t session_write(struct session *session, const char *at, size_t len);
bool session_is_up(const struct session *session);
/* Returns true if it is neither up nor connecting nor waiting for the end of a pause. */
bool session_is_down(const struct session *session);
/* Return the time of the last received or sent data, on the inner clock, while it is up. */
int64_t session_in_ms(const struct session *session);
int64_t session_out_ms(const struct session *session);
/* Ends the connection because of an error of the peer: `down` follows with "WHAT: WHY". */
void session_fail(struct session *session, const char *what, const char *why);

/* ---- for the protocol ---- */

/* Returns the server in use. */
const struct target_place *session_place(const struct session *session);
/* Finds the credential of the server in use. That of another server is never sent to it: a topic's
 * settings may name any host that the policy file allows. */
bool session_credential(const struct session *session, struct guard_credential *out);
/* Sends the login unless the session has failed. The login is wiped and freed. */
void session_login(struct session *session, struct buffer *login);
void session_start_tls(struct session *session);
/* Sends a short message, before the login was accepted too. */
void session_send(struct session *session, const char *at, size_t len);
/* Records that the server accepted the login: calls `up` of the owner. */
void session_logged_in(struct session *session);
/* Calls `keep` now, because its next time may have changed. */
void session_keep(struct session *session);

#endif
