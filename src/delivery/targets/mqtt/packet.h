/*
 * mqtt_packet: parses and writes the packets of MQTT 5 that a publisher needs. Pure.
 *
 * Source: https://docs.oasis-open.org/mqtt/mqtt/v5.0/mqtt-v5.0.html
 *
 * Packets of the broker are limited to 64 KiB, which the login announces.
 */
#ifndef TARRY_TARGETS_MQTT_PACKET_H
#define TARRY_TARGETS_MQTT_PACKET_H

#include "base/buffer.h"

enum { MQTT_IN_BYTES_MAX = 64 * 1024, MQTT_TOPIC_BYTES_MAX = 1024, MQTT_REMARK_BYTES = 96 };

enum mqtt_type { MQTT_CONNACK = 2, MQTT_PUBACK = 4, MQTT_PINGRESP = 13, MQTT_DISCONNECT = 14 };

/* Reason codes (section 2.4); from MQTT_FAILURE on they report a failure. */
enum mqtt_reason {
    MQTT_FAILURE = 0x80,
    MQTT_NOT_AUTHORIZED = 0x87,
    MQTT_TOPIC_INVALID = 0x90,
    MQTT_PACKET_TOO_LARGE = 0x95,
    MQTT_QUOTA_EXCEEDED = 0x97,
    MQTT_FORMAT_INVALID = 0x99
};
/* Returns a short text for users; never NULL. */
const char *mqtt_reason_name(uint8_t reason);

struct mqtt_packet {
    uint8_t type; /* enum mqtt_type, or another one */
    uint8_t reason;
    uint16_t id;         /* PUBACK */
    struct slice remark; /* the reason string of the broker, or empty */
    /* CONNACK; 0 if the broker does not limit it */
    uint32_t receive_max, packet_bytes_max;
    uint16_t keep_alive_s;
    bool has_keep_alive, lacks_qos1;
};

enum mqtt_read { MQTT_PACKET = 1, MQTT_MORE, MQTT_BROKEN };
/* Reads the first packet in bytes[0, len). PACKET: *used bytes are consumed; the packet points into
 * them. BROKEN: *why is the reason. */
enum mqtt_read mqtt_packet_read(const char *bytes, size_t len, struct mqtt_packet *packet,
                                size_t *used, const char **why);

/* Appends CONNECT. User and password may be NULL. */
void mqtt_emit_connect(struct buffer *out, uint16_t keep_alive_s, const char *user,
                       const char *password);
void mqtt_emit_ping(struct buffer *out);
void mqtt_emit_disconnect(struct buffer *out);

/* The properties of a message, written one after the other. */
void mqtt_emit_content_type(struct buffer *properties, struct slice type);
void mqtt_emit_expiry(struct buffer *properties, uint32_t seconds);
void mqtt_emit_pair(struct buffer *properties, struct slice name, struct slice value);

struct mqtt_message {
    struct slice topic, properties, body;
};
/* Appends PUBLISH with QoS 1. Sets *id_at to the place of its packet ID, which mqtt_set_id sets. A
 * message that is too long for MQTT sets the failure flag of `out`. */
void mqtt_emit_publish(struct buffer *out, const struct mqtt_message *message, size_t *id_at);
void mqtt_set_id(struct buffer *packet, size_t id_at, uint16_t id);

/* Returns NULL if a message can be published to the topic, else the reason. */
const char *mqtt_topic_fault(struct slice topic);

#endif
