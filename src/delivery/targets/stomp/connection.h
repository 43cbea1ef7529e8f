/*
 * stomp_connection: the protocol STOMP 1.2 of a session: logs in, sends heart-beats, receives
 * frames.
 */
#ifndef TARRY_TARGETS_STOMP_CONNECTION_H
#define TARRY_TARGETS_STOMP_CONNECTION_H

#include "targets/session.h"
#include "targets/stomp/frame.h"

/* The address of a broker: stomp://host[:61613][,host[:61613]][/virtual-host], or stomps:// with
 * port 61614 and TLS. */
struct stomp_place {
    struct target_places at;
    char virtual_host[TARGET_NAME_BYTES]; /* empty: the name of the host in use */
};

/* Returns false with `error` (TARGET_ERROR_BYTES), which names the problem and a valid form. */
bool stomp_place_parse(struct slice to, struct stomp_place *out, char *error);

/* Returns NULL when out of memory. `frame` is called for all frames except CONNECTED; they are
 * valid during the callback. `env` outlives the session. */
struct session *stomp_session_new(const struct target_env *env, const struct stomp_place *place,
                                  const struct session_events *events,
                                  void (*frame)(void *owner, const struct stomp_frame *frame),
                                  void *owner);

#endif
