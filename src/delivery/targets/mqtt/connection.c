#include "targets/mqtt/connection.h"

#include "base/clock.h"
#include "base/error.h"
#include "targets/link.h"
#include "targets/meta.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    KEEP_ALIVE_S = 20,
    ANSWER_MS = 10 * 1000, /* to a ping */
    IDLE_MS = 30 * 1000,
    IN_BYTES_MAX = MQTT_IN_BYTES_MAX + 128 * 1024,
    OUT_BYTES_MAX = 4 * 1024,
    WHY_BYTES = 200,
    RECEIVE_MAX = 65535
};

struct mqtt_connection {
    const struct target_env *env;
    struct target_place place;
    struct mqtt_connection_events events;
    void *ctx;
    struct link *link;
    bool is_logged_in, is_needed;
    int64_t pinged_ms; /* time of a ping without an answer; 0: none */
    int64_t keep_alive_ms;
    struct mqtt_packet limits; /* the CONNACK */
    struct buffer in;
    int64_t unneeded_ms; /* time since it is not needed */
};

bool mqtt_place_parse(struct slice to, struct target_place *out, char *error)
{
    struct url url;
    if (!target_place_parse(to, target_mqtt_schemes, &url, out, error))
        return false;
    return (url.host_count == 1 && !url.has_query && url.path.len <= 1) ||
           error_text(error, TARGET_ERROR_BYTES,
                      "an MQTT broker's URL has one host, no path and no query; give the topic in "
                      "'topic'");
}

/* ---- up ---- */

static bool is_up(const struct mqtt_connection *connection)
{
    return connection->is_logged_in && link_is_up(connection->link);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ping_ms(const struct mqtt_connection *connection)
{
    return connection->keep_alive_ms && !connection->pinged_ms
               ? link_out_ms(connection->link) + connection->keep_alive_ms * 3 / 4
               : INT64_MAX;
}

static int64_t lost_ms(const struct mqtt_connection *connection)
{
    return connection->pinged_ms ? connection->pinged_ms + ANSWER_MS : INT64_MAX;
}

static int64_t idle_ms(const struct mqtt_connection *connection)
{
    return connection->is_needed ? INT64_MAX : connection->unneeded_ms + IDLE_MS;
}

static void set_wake_up(struct mqtt_connection *connection)
{
    link_wake_at(connection->link,
                 earlier(ping_ms(connection), earlier(lost_ms(connection), idle_ms(connection))));
}

static void send_packet(struct mqtt_connection *connection, void (*emit)(struct buffer *out))
{
    struct buffer out;
    buffer_init(&out, OUT_BYTES_MAX);
    emit(&out);
    (void)link_write(connection->link, out.at, out.len);
    buffer_fini(&out);
}

static void send_disconnect(struct mqtt_connection *connection)
{
    send_packet(connection, mqtt_emit_disconnect);
    mqtt_connection_stop(connection, false);
}

/* Checks, while it is up, that the broker is alive and the connection needed. A broker that takes
 * messages without answering anything is found by the ping. */
static void on_link_woken(void *ctx)
{
    struct mqtt_connection *connection = ctx;
    int64_t now_ms = clock_inner_ms();
    if (now_ms >= lost_ms(connection)) {
        link_fail(connection->link, "connection lost", "the broker did not answer a ping");
        return;
    }
    if (now_ms >= idle_ms(connection)) {
        send_disconnect(connection);
        return;
    }
    if (now_ms >= ping_ms(connection)) {
        send_packet(connection, mqtt_emit_ping);
        connection->pinged_ms = now_ms;
    }
    set_wake_up(connection);
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
    link_fail(connection->link, what, why);
}

static void take_login(struct mqtt_connection *connection, const struct mqtt_packet *packet)
{
    if (packet->type != MQTT_CONNACK) {
        link_fail(connection->link, "no login", "the peer is not an MQTT 5 broker");
        return;
    }
    if (packet->reason >= MQTT_FAILURE) {
        fail_by(connection, "login refused", packet);
        return;
    }
    if (packet->lacks_qos1) {
        link_fail(connection->link, "no login", "the broker does not support QoS 1");
        return;
    }
    connection->limits = *packet;
    connection->limits.remark = (struct slice){0};
    connection->keep_alive_ms =
        (packet->has_keep_alive ? packet->keep_alive_s : KEEP_ALIVE_S) * INT64_C(1000);
    connection->is_logged_in = true;
    connection->pinged_ms = 0;
    connection->unneeded_ms = clock_inner_ms();
    link_login_done(connection->link);
    set_wake_up(connection);
    connection->events.up(connection->ctx);
}

static void take_packet(struct mqtt_connection *connection, const struct mqtt_packet *packet)
{
    if (!connection->is_logged_in) {
        take_login(connection, packet);
    } else if (packet->type == MQTT_PUBACK) {
        connection->events.acked(connection->ctx, packet);
    } else if (packet->type == MQTT_PINGRESP) {
        connection->pinged_ms = 0;
        set_wake_up(connection);
    } else if (packet->type == MQTT_DISCONNECT) {
        fail_by(connection, "connection ended by the broker", packet);
    } else {
        link_fail(connection->link, "connection lost", "the broker sent an unexpected packet");
    }
}

/* Splits received bytes into packets; each of them may end the connection or free it. */
static void on_link_bytes(void *ctx, const char *bytes, size_t len)
{
    struct mqtt_connection *connection = ctx;
    struct buffer *in = &connection->in;
    struct mqtt_packet packet;
    size_t at = 0, used = 0;
    const char *why = "";
    enum mqtt_read read = MQTT_MORE;
    buffer_append(in, bytes, len);
    if (in->failed) {
        link_fail(connection->link, "connection lost", "the broker sent too much");
        return;
    }
    while (link_is_up(connection->link) && at < in->len &&
           (read = mqtt_packet_read(in->at + at, in->len - at, &packet, &used, &why)) ==
               MQTT_PACKET) {
        at += used;
        take_packet(connection, &packet);
    }
    if (!link_is_up(connection->link))
        return;
    if (read == MQTT_BROKEN) {
        link_fail(connection->link, "a packet of the broker cannot be read", why);
        return;
    }
    memmove(in->at, in->at + at, in->len - at);
    in->len -= at;
}

/* ---- the link ---- */

/* Sends the login with the credential of the policy file, which is wiped. */
static void on_link_up(void *ctx)
{
    struct mqtt_connection *connection = ctx;
    struct guard_credential credential;
    struct buffer out;
    bool is_found =
        guard_find_credential(connection->env->guard, connection->place.origin, &credential);
    buffer_clear_and_trim(&connection->in, 0);
    connection->is_logged_in = false;
    buffer_init(&out, OUT_BYTES_MAX);
    mqtt_emit_connect(&out, KEEP_ALIVE_S, is_found ? credential.user : NULL,
                      is_found ? credential.password : NULL);
    explicit_bzero(&credential, sizeof credential);
    if (out.failed || link_write(connection->link, out.at, out.len) < out.len)
        link_fail(connection->link, "no login", "out of memory");
    if (out.at)
        explicit_bzero(out.at, out.cap);
    buffer_fini(&out);
}

static void on_link_room(void *ctx)
{
    struct mqtt_connection *connection = ctx;
    connection->events.room(connection->ctx);
}

static void on_link_down(void *ctx, const char *why)
{
    struct mqtt_connection *connection = ctx;
    connection->is_logged_in = false;
    connection->events.down(connection->ctx, why);
}

static void on_link_gone(void *ctx)
{
    struct mqtt_connection *connection = ctx;
    struct mqtt_connection_events events = connection->events;
    void *owner = connection->ctx;
    buffer_fini(&connection->in);
    free(connection);
    events.gone(owner);
}

/* ---- for the owner ---- */

uint32_t mqtt_connection_receive_max(const struct mqtt_connection *connection)
{
    return connection->limits.receive_max ? connection->limits.receive_max : (uint32_t)RECEIVE_MAX;
}

uint32_t mqtt_connection_packet_bytes_max(const struct mqtt_connection *connection)
{
    return is_up(connection) ? connection->limits.packet_bytes_max : 0;
}

void mqtt_connection_stop(struct mqtt_connection *connection, bool pauses)
{
    connection->is_logged_in = false;
    link_stop(connection->link, pauses);
}

size_t mqtt_connection_write(struct mqtt_connection *connection, const char *at, size_t len)
{
    return is_up(connection) ? link_write(connection->link, at, len) : 0;
}

void mqtt_connection_needed(struct mqtt_connection *connection, bool is_needed)
{
    if (is_needed)
        link_start(connection->link);
    if (connection->is_needed == is_needed)
        return;
    connection->is_needed = is_needed;
    connection->unneeded_ms = clock_inner_ms();
    if (is_up(connection))
        set_wake_up(connection);
}

struct mqtt_connection *mqtt_connection_new(const struct target_env *env,
                                            const struct target_place *place,
                                            const struct mqtt_connection_events *events, void *ctx)
{
    static const struct link_events link_events = {.up = on_link_up,
                                                   .bytes = on_link_bytes,
                                                   .room = on_link_room,
                                                   .woken = on_link_woken,
                                                   .down = on_link_down,
                                                   .gone = on_link_gone};
    struct mqtt_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->link = link_new(env, place, &link_events, connection);
    if (!connection->link) {
        free(connection);
        return NULL;
    }
    connection->env = env;
    connection->place = *place;
    connection->events = *events;
    connection->ctx = ctx;
    buffer_init(&connection->in, IN_BYTES_MAX);
    return connection;
}

void mqtt_connection_free(struct mqtt_connection *connection)
{
    if (is_up(connection))
        send_disconnect(connection);
    link_free(connection->link);
}
