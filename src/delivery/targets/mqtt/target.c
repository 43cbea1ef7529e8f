/*
 * mqtt_target: Mosquitto, EMQX, HiveMQ and other brokers with MQTT 5.
 *
 * A message is a PUBLISH with QoS 1, which is converted into its packet when it is added. Its
 * PUBACK ends it. As many are in flight as the broker accepts. A packet ID stays in use until its
 * PUBACK arrives or the connection ends, also if its message has timed out.
 */
#include "base/duration.h"
#include "base/error.h"
#include "base/timestamp.h"
#include "targets/meta.h"
#include "targets/mqtt/connection.h"
#include "targets/outbox.h"
#include "targets/template.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    PACKET_BYTES_MAX = 272 * 1024 * 1024,
    PROPERTY_BYTES_MAX = 512 * 1024,
    EXPIRY_BYTES_MAX = 64,
    IDS = 65536,
    SECOND_MS = 1000
};

struct mqtt_sending {              /* waiting: not sent, or only partly */
    struct outbox_message message; /* first */
    size_t handed;                 /* bytes of its packet */
    size_t id_at, packet_bytes;
    uint16_t id; /* 0: none yet */
};

struct mqtt {
    struct target target; /* first */
    struct outbox outbox;
    struct mqtt_connection *connection;
    struct session *session; /* of the connection */
    uint64_t used[IDS / 64]; /* packet IDs without a PUBACK */
    uint32_t used_count;
    uint16_t last_id;
    bool is_cut; /* a message timed out when it was partly sent */
};

static struct mqtt_sending *first_of(const struct list *list)
{
    return list_entry(list->next, struct mqtt_sending, message.list);
}

/* ---- packet IDs ---- */

static bool id_is_used(const struct mqtt *mqtt, uint16_t id)
{
    return mqtt->used[id / 64] >> id % 64 & 1;
}

/* Returns the next unused packet ID; there is one, because fewer are in use than exist. */
static uint16_t take_id(struct mqtt *mqtt)
{
    do
        mqtt->last_id++;
    while (mqtt->last_id == 0 || id_is_used(mqtt, mqtt->last_id));
    mqtt->used[mqtt->last_id / 64] |= UINT64_C(1) << mqtt->last_id % 64;
    mqtt->used_count++;
    return mqtt->last_id;
}

/* Returns false if the ID is not in use. */
static bool return_id(struct mqtt *mqtt, uint16_t id)
{
    if (!id_is_used(mqtt, id))
        return false;
    mqtt->used[id / 64] &= ~(UINT64_C(1) << id % 64);
    mqtt->used_count--;
    return true;
}

static void return_all_ids(struct mqtt *mqtt)
{
    memset(mqtt->used, 0, sizeof mqtt->used);
    mqtt->used_count = 0;
}

/* ---- a job as a packet ---- */

/* Appends the user properties: tarry's, those of an event, the metas. Beside an event, whose
 * attributes have no prefix, metas have one. */
static void emit_pairs(struct buffer *out, const struct target_message *message)
{
    const struct job *job = message->job;
    struct slice name, value;
    char due[TIMESTAMP_BYTES], attempt[16], other[80];
    int len = snprintf(attempt, sizeof attempt, "%" PRIu32, job->attempt);
    timestamp_write(due, job->due_ms);
    mqtt_emit_pair(out, slice_of("tarry-topic"), job->topic);
    mqtt_emit_pair(out, slice_of("tarry-id"), job->id);
    mqtt_emit_pair(out, slice_of("tarry-attempt"), slice_make(attempt, (size_t)len));
    mqtt_emit_pair(out, slice_of("tarry-due-at"), slice_make(due, sizeof due));
    for (size_t at = 0; job_meta_next(message->attributes, &at, &name, &value);)
        mqtt_emit_pair(out, name, value);
    for (size_t at = 0; target_meta_next(job->meta, &at, &name, &value);) {
        if (message->attributes.len) {
            len = snprintf(other, sizeof other, "meta-%.*s", (int)name.len, name.at);
            name = slice_make(other, (size_t)len);
        }
        mqtt_emit_pair(out, name, value);
    }
}

/* Appends the time after which the broker drops the message. Returns false if it is not a time. */
static bool emit_expiry(struct buffer *out, const char *template, const struct job *job)
{
    char bytes[EXPIRY_BYTES_MAX];
    struct buffer text = {.at = bytes, .cap = sizeof bytes, .bytes_max = sizeof bytes};
    int64_t ms = 0;
    if (!template || !*template)
        return true;
    if (!template_fill(slice_of(template), job, TEMPLATE_PLAIN, sizeof bytes, &text))
        return false;
    if (text.len == 0)
        return true;
    if (!duration_parse(buffer_slice(&text), (int64_t)UINT32_MAX * SECOND_MS, &ms) || ms <= 0)
        return false;
    mqtt_emit_expiry(out, (uint32_t)((ms + SECOND_MS - 1) / SECOND_MS));
    return true;
}

/* Fills in the topic. Returns NULL, or the reason why nothing can be published there. */
static const char *fill_topic(const struct target_message *message, struct buffer *topic)
{
    const char *text = message->setting->topic;
    if (!text || !*text)
        text = TARGET_STANDARD_topic;
    if (!template_fill(slice_of(text), message->job, TEMPLATE_PLAIN, MQTT_TOPIC_BYTES_MAX, topic))
        return "the topic is longer than 1024 bytes";
    if (topic->len && topic->at[0] == '$' && text[0] != '$')
        return "the values in the topic begin with '$'";
    return mqtt_topic_fault(buffer_slice(topic));
}

/* Writes the packet. Returns NULL, or the reason why the message is refused. */
static const char *emit_message(struct mqtt_sending *sending, const struct target_message *message)
{
    const struct job *job = message->job;
    struct buffer topic, properties, *out = &sending->message.text;
    buffer_init(&topic, MQTT_TOPIC_BYTES_MAX);
    buffer_init(&properties, PROPERTY_BYTES_MAX);
    const char *fault = fill_topic(message, &topic);
    mqtt_emit_content_type(&properties, job->content_type.len
                                            ? job->content_type
                                            : slice_of("application/octet-stream"));
    if (!fault && !emit_expiry(&properties, message->setting->expiry, job))
        fault = "its 'expiry' is not a time such as 1h";
    emit_pairs(&properties, message);
    if (!fault) {
        const struct mqtt_message packet = {buffer_slice(&topic), buffer_slice(&properties),
                                            job->body};
        mqtt_emit_publish(out, &packet, &sending->id_at);
        out->failed = out->failed || properties.failed;
        sending->packet_bytes = out->len;
    }
    if (!fault && message->explained)
        buffer_append_format(message->explained, "topic '%.*s', %zu bytes with properties\n",
                             (int)topic.len, topic.at, out->len);
    buffer_fini(&topic);
    buffer_fini(&properties);
    return fault;
}

/* ---- the end of a message ---- */

static void on_explain(void *ctx, const struct outbox_message *message)
{
    (void)ctx;
    buffer_append_text(message->explained, message->report.outcome == TARGET_DONE
                                               ? "the broker sent the PUBACK\n"
                                           : message->report.outcome == TARGET_UNSENT
                                               ? "nothing was sent\n"
                                               : "the broker has not accepted it\n");
}

static void on_iteration_end(void *ctx)
{
    struct mqtt *mqtt = ctx;
    if (!mqtt->outbox.closed)
        session_needed(mqtt->session,
                       !list_is_empty(&mqtt->outbox.waiting) || !list_is_empty(&mqtt->outbox.sent));
}

/* ---- sending ---- */

/* Refuses a packet that the broker does not accept: it would end the connection. Returns false if
 * the packet may be sent. */
static bool refuse_large(struct mqtt *mqtt, struct mqtt_sending *sending)
{
    char error[96];
    uint32_t max = mqtt_connection_packet_bytes_max(mqtt->connection);
    if (!max || sending->packet_bytes <= max)
        return false;
    (void)snprintf(error, sizeof error,
                   "a packet of %zu bytes, the broker accepts %" PRIu32 " (maximum packet size)",
                   sending->packet_bytes, max);
    outbox_settle_as(&mqtt->outbox, &sending->message, TARGET_REFUSED, false, error);
    return true;
}

/* Writes the rest of a packet. Returns false if the connection has no room left. */
static bool hand_over(struct mqtt *mqtt, struct mqtt_sending *sending)
{
    struct buffer *packet = &sending->message.text;
    if (sending->handed == 0 && refuse_large(mqtt, sending))
        return true;
    if (!sending->id) {
        sending->id = take_id(mqtt);
        mqtt_set_id(packet, sending->id_at, sending->id);
    }
    size_t left = packet->len - sending->handed;
    size_t taken = session_write(mqtt->session, packet->at + sending->handed, left);
    sending->handed += taken;
    sending->message.has_left = sending->handed > 0;
    if (taken == 0 && sending->handed == 0) { /* the ID belongs to a packet that is sent */
        (void)return_id(mqtt, sending->id);
        sending->id = 0;
    }
    if (taken < left)
        return false;
    outbox_drop_text(&mqtt->outbox, &sending->message);
    outbox_mark_sent(&mqtt->outbox, &sending->message);
    return true;
}

/* Returns true if the broker accepts a further message. A packet that was begun is completed. */
static bool has_window(const struct mqtt *mqtt)
{
    return first_of(&mqtt->outbox.waiting)->handed > 0 ||
           mqtt->used_count < mqtt_connection_receive_max(mqtt->connection);
}

/* Sends packets as long as the connection and the broker accept them; requests a connection if
 * necessary. */
static void pump(struct mqtt *mqtt)
{
    const struct list *waiting = &mqtt->outbox.waiting;
    if (mqtt->outbox.closed || list_is_empty(waiting))
        return;
    session_needed(mqtt->session, true);
    while (!list_is_empty(waiting) && has_window(mqtt) && hand_over(mqtt, first_of(waiting)))
        continue;
}

/* Makes the packet of a message and adds it as waiting, or settles it immediately. */
static void add_message(struct mqtt *mqtt, const struct target_message *message)
{
    struct mqtt_sending *sending = calloc(1, sizeof *sending);
    /* only a few hundred bytes; without them the failure could not be reported either */
    assert(sending);
    buffer_init(&sending->message.text, PACKET_BYTES_MAX);
    outbox_add(&mqtt->outbox, &sending->message, message, 0);
    const char *fault = emit_message(sending, message);
    const char *away = outbox_hold_text(&mqtt->outbox, &sending->message);
    if (fault || away)
        outbox_settle_as(&mqtt->outbox, &sending->message, fault ? TARGET_REFUSED : TARGET_UNSENT,
                         false, fault ? fault : away);
}

static void mqtt_send(struct target *target, const struct target_message *messages, size_t count)
{
    struct mqtt *mqtt = (struct mqtt *)target;
    for (size_t i = 0; i < count; i++)
        add_message(mqtt, &messages[i]);
    pump(mqtt);
}

/* ---- timeouts ---- */

/* Settles an overdue message. If it was partly sent, the connection cannot be used without the
 * rest. */
static void on_overdue(void *ctx, struct outbox_message *message)
{
    struct mqtt *mqtt = ctx;
    mqtt->is_cut = mqtt->is_cut || (message->stage == OUTBOX_WAITING && message->has_left);
    outbox_lose_overdue(&mqtt->outbox, message);
}

/* Closes a connection that cannot be used any more; messages that were not begun use the next
 * one. */
static void on_woken(void *ctx, int64_t now_ms)
{
    struct mqtt *mqtt = ctx;
    (void)now_ms;
    if (!mqtt->is_cut)
        return;
    mqtt->is_cut = false;
    outbox_lose_sent(&mqtt->outbox, "the broker took too long for a message");
    return_all_ids(mqtt);
    session_stop(mqtt->session, true);
    pump(mqtt);
}

/* ---- events of the connection ---- */

static struct mqtt_sending *find_sent(struct mqtt *mqtt, uint16_t id)
{
    const struct list *sent = &mqtt->outbox.sent;
    for (struct list *at = sent->next; at != sent; at = at->next) {
        struct mqtt_sending *sending = list_entry(at, struct mqtt_sending, message.list);
        if (sending->id == id)
            return sending;
    }
    return NULL;
}

/* Settles a message by the reason code of its PUBACK. */
static void settle_by(struct mqtt *mqtt, struct mqtt_sending *sending,
                      const struct mqtt_packet *packet)
{
    struct target_report report = {
        .outcome = TARGET_FAILED, .retry_after_ms = -1, .code = packet->reason};
    char remark[MQTT_REMARK_BYTES];
    if (packet->reason < MQTT_FAILURE) {
        outbox_settle_as(&mqtt->outbox, &sending->message, TARGET_DONE, false, "");
        return;
    }
    if (packet->reason == MQTT_TOPIC_INVALID || packet->reason == MQTT_PACKET_TOO_LARGE ||
        packet->reason == MQTT_FORMAT_INVALID)
        report.outcome = TARGET_REFUSED;
    target_remark_write(packet->remark, remark, sizeof remark);
    (void)snprintf(report.error, sizeof report.error, "the broker answers 0x%02x, %s%s%s",
                   (unsigned)packet->reason, mqtt_reason_name(packet->reason),
                   remark[0] ? ": " : "", remark);
    outbox_settle(&mqtt->outbox, &sending->message, &report);
}

static void on_acked(void *ctx, const struct mqtt_packet *packet)
{
    struct mqtt *mqtt = ctx;
    struct mqtt_sending *sending = find_sent(mqtt, packet->id);
    if (!return_id(mqtt, packet->id))
        return;
    if (sending)
        settle_by(mqtt, sending, packet);
    pump(mqtt);
}

static void on_up(void *ctx)
{
    pump(ctx);
}

static void on_down(void *ctx, const char *why)
{
    struct mqtt *mqtt = ctx;
    return_all_ids(mqtt);
    outbox_lose_all(&mqtt->outbox, why);
}

static void on_gone(void *ctx)
{
    struct mqtt *mqtt = ctx;
    outbox_gone(&mqtt->outbox);
}

/* ---- life ---- */

static bool mqtt_check(const struct target_setting *setting, struct slice to,
                       char error[TARGET_ERROR_BYTES])
{
    struct target_places places;
    int64_t ms;
    if (!mqtt_places_parse(to, &places, error))
        return false;
    if (!setting)
        return true;
    if (!template_check_name(setting->topic, "topic", mqtt_topic_fault, error))
        return false;
    if (!setting->expiry || !setting->expiry[0])
        return true;
    if (template_has_fields(slice_of(setting->expiry)))
        return template_check(slice_of(setting->expiry), error);
    return (duration_parse(slice_of(setting->expiry), (int64_t)UINT32_MAX * SECOND_MS, &ms) &&
            ms > 0) ||
           error_text(error, TARGET_ERROR_BYTES, "bad 'expiry', write a time such as 1h");
}

static struct target *mqtt_open(const struct target_env *env, const struct target_setting *setting,
                                struct slice to)
{
    static const struct outbox_kind kind = {.overdue = on_overdue,
                                            .explain = on_explain,
                                            .woken = on_woken,
                                            .iteration_end = on_iteration_end};
    static const struct session_events events = {
        .up = on_up, .room = on_up, .down = on_down, .gone = on_gone};
    struct target_places places;
    char error[TARGET_ERROR_BYTES];
    (void)setting;
    struct mqtt *mqtt = mqtt_places_parse(to, &places, error) ? calloc(1, sizeof *mqtt) : NULL;
    if (!mqtt || !outbox_init(&mqtt->outbox, env, &kind, mqtt)) {
        free(mqtt);
        return NULL;
    }
    mqtt->target.ops = &target_mqtt;
    mqtt->connection = mqtt_connection_new(env, &places, &events, on_acked, mqtt);
    if (mqtt->connection) {
        mqtt->session = mqtt_connection_session(mqtt->connection);
        return &mqtt->target;
    }
    outbox_fini(&mqtt->outbox);
    free(mqtt);
    return NULL;
}

static void mqtt_close(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct mqtt *mqtt = (struct mqtt *)target;
    outbox_lose_all(&mqtt->outbox, "abandoned: the server stops sending there");
    outbox_close(&mqtt->outbox, closed, ctx);
    session_free(mqtt->session);
}

const struct target_ops target_mqtt = {.schemes = target_mqtt_schemes,
                                       .event = {.prefix = ""},
                                       .check = mqtt_check,
                                       .open = mqtt_open,
                                       .send = mqtt_send,
                                       .close = mqtt_close};
