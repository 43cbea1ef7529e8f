#include "targets/mqtt/connection.h"

#include "base/clock.h"
#include "base/error.h"
#include "targets/meta.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    KEEP_ALIVE_S = 20,
    ANSWER_MS = 10 * 1000, /* to a ping */
    IN_BYTES_MAX = MQTT_IN_BYTES_MAX + 128 * 1024,
    OUT_BYTES_MAX = 4 * 1024,
    WHY_BYTES = 200,
    RECEIVE_MAX = 65535
};

struct mqtt_connection {
    struct session *session;
    void (*acked)(void *owner, const struct mqtt_packet *packet);
    void *owner;
    int64_t pinged_ms; /* time of a ping without an answer; 0: none */
    int64_t keep_alive_ms;
    struct mqtt_packet limits; /* the CONNACK */
};

bool mqtt_places_parse(struct slice to, struct target_places *out, char *error)
{
    struct url url;
    if (!target_places_parse(to, target_mqtt_schemes, &url, out, error))
        return false;
    return (!url.has_query && url.path.len <= 1) ||
           error_text(error, TARGET_ERROR_BYTES,
                      "an MQTT broker's URL has no path and no query; give the topic in 'topic'");
}

/* ---- while it is up ---- */

static void send_packet(struct mqtt_connection *connection, void (*emit)(struct buffer *out))
{
    struct buffer out;
    buffer_init(&out, OUT_BYTES_MAX);
    emit(&out);
    session_send(connection->session, out.at, out.len);
    buffer_fini(&out);
}

/* Sends a ping when it is due. A broker that takes messages without answering anything is found by
 * the ping. */
static int64_t keep(void *ctx, int64_t now_ms)
{
    struct mqtt_connection *connection = ctx;
    int64_t lost_ms = connection->pinged_ms + ANSWER_MS;
    if (connection->pinged_ms && now_ms >= lost_ms)
        session_fail(connection->session, "connection lost", "the broker did not answer a ping");
    if (connection->pinged_ms)
        return lost_ms;
    if (!connection->keep_alive_ms)
        return INT64_MAX;
    int64_t ping_ms = session_out_ms(connection->session) + connection->keep_alive_ms * 3 / 4;
    if (now_ms < ping_ms)
        return ping_ms;
    send_packet(connection, mqtt_emit_ping);
    connection->pinged_ms = now_ms;
    return now_ms + ANSWER_MS;
}

static void leave(void *ctx)
{
    send_packet(ctx, mqtt_emit_disconnect);
}

/* ---- packets of the broker ---- */

/* Ends the connection with the reason that the broker reports. */
static void fail_by(struct mqtt_connection *connection, const char *what,
                    const struct mqtt_packet *packet)
{
    char why[WHY_BYTES / 2], remark[MQTT_REMARK_BYTES / 2];
    target_remark_write(packet->remark, remark, sizeof remark);
    (void)snprintf(why, sizeof why, "%s%s%s", mqtt_reason_name(packet->reason),
                   remark[0] ? ", " : "", remark);
    session_fail(connection->session, what, why);
}

static void take_login(struct mqtt_connection *connection, const struct mqtt_packet *packet)
{
    if (packet->type != MQTT_CONNACK) {
        session_fail(connection->session, "no login", "the peer is not an MQTT 5 broker");
        return;
    }
    if (packet->reason >= MQTT_FAILURE) {
        fail_by(connection, "login refused", packet);
        return;
    }
    if (packet->lacks_qos1) {
        session_fail(connection->session, "no login", "the broker does not support QoS 1");
        return;
    }
    connection->limits = *packet;
    connection->limits.remark = (struct slice){0};
    connection->keep_alive_ms =
        (packet->has_keep_alive ? packet->keep_alive_s : KEEP_ALIVE_S) * INT64_C(1000);
    connection->pinged_ms = 0;
    session_logged_in(connection->session);
}

static void take_packet(struct mqtt_connection *connection, const struct mqtt_packet *packet)
{
    if (!session_is_up(connection->session)) {
        take_login(connection, packet);
    } else if (packet->type == MQTT_PUBACK) {
        connection->acked(connection->owner, packet);
    } else if (packet->type == MQTT_PINGRESP) {
        connection->pinged_ms = 0;
        session_keep(connection->session);
    } else if (packet->type == MQTT_DISCONNECT) {
        fail_by(connection, "connection ended by the broker", packet);
    } else {
        session_fail(connection->session, "connection lost",
                     "the broker sent an unexpected packet");
    }
}

static enum session_read read_packet(void *ctx, char *at, size_t len, size_t *used,
                                     const char **why)
{
    struct mqtt_packet packet;
    enum mqtt_read read = mqtt_packet_read(at, len, &packet, used, why);
    if (read != MQTT_PACKET)
        return read == MQTT_BROKEN ? SESSION_BROKEN : SESSION_MORE;
    take_packet(ctx, &packet);
    return SESSION_PART;
}

/* Sends the login with the credential of the policy file, which is wiped. */
static void send_login(void *ctx)
{
    struct mqtt_connection *connection = ctx;
    struct guard_credential credential;
    struct buffer out;
    bool is_found = session_credential(connection->session, &credential);
    buffer_init(&out, OUT_BYTES_MAX);
    mqtt_emit_connect(&out, KEEP_ALIVE_S, is_found ? credential.user : NULL,
                      is_found ? credential.password : NULL);
    explicit_bzero(&credential, sizeof credential);
    session_login(connection->session, &out);
}

/* ---- for the owner ---- */

struct session *mqtt_connection_session(const struct mqtt_connection *connection)
{
    return connection->session;
}

uint32_t mqtt_connection_receive_max(const struct mqtt_connection *connection)
{
    return connection->limits.receive_max ? connection->limits.receive_max : (uint32_t)RECEIVE_MAX;
}

uint32_t mqtt_connection_packet_bytes_max(const struct mqtt_connection *connection)
{
    return session_is_up(connection->session) ? connection->limits.packet_bytes_max : 0;
}

struct mqtt_connection *mqtt_connection_new(
    const struct target_env *env, const struct target_places *places,
    const struct session_events *events,
    void (*acked)(void *owner, const struct mqtt_packet *packet), void *owner)
{
    static const struct session_protocol protocol = {.in_bytes_max = IN_BYTES_MAX,
                                                     .unreadable =
                                                         "a packet of the broker cannot be read",
                                                     .up = send_login,
                                                     .read = read_packet,
                                                     .keep = keep,
                                                     .leave = leave,
                                                     .free = free};
    struct mqtt_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->acked = acked;
    connection->owner = owner;
    connection->session = session_new(env, places, &protocol, connection, events, owner);
    if (connection->session)
        return connection;
    free(connection);
    return NULL;
}
