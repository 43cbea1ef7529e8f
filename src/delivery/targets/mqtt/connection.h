/*
 * mqtt_connection: the protocol MQTT 5 of a session: logs in, sends pings, receives PUBACKs.
 */
#ifndef TARRY_TARGETS_MQTT_CONNECTION_H
#define TARRY_TARGETS_MQTT_CONNECTION_H

#include "targets/mqtt/packet.h"
#include "targets/session.h"

/* Parses mqtt://host[:1883][,host[:1883]], or mqtts:// with port 8883 and TLS. Returns false with
 * `error` (TARGET_ERROR_BYTES), which names the problem and a valid form. */
bool mqtt_places_parse(struct slice to, struct target_places *out, char *error);

struct mqtt_connection;

/* Returns NULL when out of memory. `acked` is called for each PUBACK, which is valid during the
 * callback. `env` outlives the connection, which is freed with its session. */
struct mqtt_connection *mqtt_connection_new(
    const struct target_env *env, const struct target_places *places,
    const struct session_events *events,
    void (*acked)(void *owner, const struct mqtt_packet *packet), void *owner);
struct session *mqtt_connection_session(const struct mqtt_connection *connection);
/* Return the limits of the broker while it is up: messages without a PUBACK, and bytes of a packet
 * (0: no limit). */
uint32_t mqtt_connection_receive_max(const struct mqtt_connection *connection);
uint32_t mqtt_connection_packet_bytes_max(const struct mqtt_connection *connection);

#endif
