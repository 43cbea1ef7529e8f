/*
 * mqtt_connection: a persistent connection to one broker: connects, logs in, sends pings, closes
 * when it is no longer needed, and waits before it reconnects after a failure.
 *
 * Used on the reactor's thread. Events never occur inside a call. A connection begins down;
 * mqtt_connection_needed leads to one `up` or one `down`. An `up` is followed by one `down`, unless
 * the connection was stopped or closed because it was not needed.
 */
#ifndef TARRY_TARGETS_MQTT_CONNECTION_H
#define TARRY_TARGETS_MQTT_CONNECTION_H

#include "targets/mqtt/packet.h"
#include "targets/place.h"
#include "targets/target.h"

/* Parses mqtt://host[:1883], or mqtts://host[:8883] with TLS. Returns false with `error`
 * (TARGET_ERROR_BYTES), which names the problem and a valid form. */
bool mqtt_place_parse(struct slice to, struct target_place *out, char *error);

struct mqtt_connection;

struct mqtt_connection_events {
    void (*up)(void *ctx);
    void (*acked)(void *ctx, const struct mqtt_packet *packet); /* PUBACK; valid during it */
    void (*room)(void *ctx);                  /* after a write that accepted too little */
    void (*down)(void *ctx, const char *why); /* a text for users */
    void (*gone)(void *ctx);                  /* after mqtt_connection_free; the last event */
};

/* Returns NULL when out of memory. `env` outlives the connection. */
struct mqtt_connection *mqtt_connection_new(const struct target_env *env,
                                            const struct target_place *place,
                                            const struct mqtt_connection_events *events, void *ctx);
/* Return the limits of the broker while it is up: messages without a PUBACK, and bytes of a packet
 * (0: no limit). */
uint32_t mqtt_connection_receive_max(const struct mqtt_connection *connection);
uint32_t mqtt_connection_packet_bytes_max(const struct mqtt_connection *connection);
/* Goes down without an event. `pauses`: the next start waits briefly. */
void mqtt_connection_stop(struct mqtt_connection *connection, bool pauses);
/* Returns the number of accepted bytes; if fewer than `len`, `up` or `room` follows. */
size_t mqtt_connection_write(struct mqtt_connection *connection, const char *at, size_t len);
/* Sets whether the connection is needed. If needed and down, it connects immediately or after the
 * pause that follows a failure. If not needed for half a minute, it disconnects. */
void mqtt_connection_needed(struct mqtt_connection *connection, bool is_needed);
void mqtt_connection_free(struct mqtt_connection *connection);

#endif
