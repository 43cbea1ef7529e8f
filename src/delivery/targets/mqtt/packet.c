#include "targets/mqtt/packet.h"

#include <string.h>

enum { VERSION = 5, LENGTH_MAX = 268435455, TEXT_BYTES_MAX = 65535 };
enum { CONNECT = 1, PUBLISH = 3, PINGREQ = 12, QOS_1 = 1 << 1 };
enum { CLEAN_START = 1 << 1, HAS_PASSWORD = 1 << 6, HAS_USER = 1 << 7 };

/* Properties (section 2.2.2.2). */
enum {
    PROPERTY_EXPIRY = 2,
    PROPERTY_CONTENT_TYPE = 3,
    PROPERTY_KEEP_ALIVE = 19,
    PROPERTY_REASON = 31,
    PROPERTY_RECEIVE_MAX = 33,
    PROPERTY_QOS_MAX = 36,
    PROPERTY_PAIR = 38,
    PROPERTY_PACKET_BYTES_MAX = 39
};

const char *mqtt_reason_name(uint8_t reason)
{
    static const struct {
        uint8_t reason;
        const char *name;
    } names[] = {{0x80, "unspecified error"},
                 {0x81, "malformed packet"},
                 {0x82, "protocol error"},
                 {0x83, "implementation specific error"},
                 {0x84, "unsupported protocol version"},
                 {0x85, "client identifier not valid"},
                 {0x86, "bad user name or password"},
                 {0x87, "not authorized"},
                 {0x88, "server unavailable"},
                 {0x89, "server busy"},
                 {0x8a, "banned"},
                 {0x8b, "server shutting down"},
                 {0x8c, "bad authentication method"},
                 {0x8d, "keep alive timeout"},
                 {0x8e, "session taken over"},
                 {0x90, "topic name invalid"},
                 {0x93, "receive maximum exceeded"},
                 {0x95, "packet too large"},
                 {0x96, "message rate too high"},
                 {0x97, "quota exceeded"},
                 {0x98, "administrative action"},
                 {0x99, "payload format invalid"},
                 {0x9b, "QoS not supported"},
                 {0x9c, "use another server"},
                 {0x9d, "server moved"},
                 {0x9f, "connection rate exceeded"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].reason == reason)
            return names[i].name;
    return reason < MQTT_FAILURE ? "success" : "failure";
}

/* ---- reading ---- */

/* The rest of a packet; reading past its end sets `is_broken`. */
struct cursor {
    const unsigned char *at, *end;
    bool is_broken;
};

static uint32_t read_number(struct cursor *cursor, size_t bytes)
{
    uint32_t number = 0;
    if ((size_t)(cursor->end - cursor->at) < bytes) {
        cursor->is_broken = true;
        cursor->at = cursor->end;
        return 0;
    }
    for (; bytes; bytes--)
        number = number << 8 | *cursor->at++;
    return number;
}

/* Reads a number of one to four bytes, seven bits each. */
static uint32_t read_length(struct cursor *cursor)
{
    uint32_t number = 0, byte = 0x80;
    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        if (shift > 21 || cursor->at == cursor->end) {
            cursor->is_broken = true;
            return 0;
        }
        byte = *cursor->at++;
        number |= (byte & 0x7f) << shift;
    }
    return number;
}

static struct slice read_text(struct cursor *cursor)
{
    size_t len = read_number(cursor, 2);
    if ((size_t)(cursor->end - cursor->at) < len) {
        cursor->is_broken = true;
        return (struct slice){0};
    }
    struct slice text = slice_make(cursor->at, len);
    cursor->at += len;
    return text;
}

/* Reads one property. Skips those that a publisher does not use, by the type of their value. */
static void read_property(struct cursor *cursor, struct mqtt_packet *packet)
{
    uint32_t number;
    switch (read_number(cursor, 1)) {
    case PROPERTY_REASON:
        packet->remark = read_text(cursor);
        return;
    case PROPERTY_RECEIVE_MAX:
        packet->receive_max = read_number(cursor, 2);
        return;
    case PROPERTY_PACKET_BYTES_MAX:
        packet->packet_bytes_max = read_number(cursor, 4);
        return;
    case PROPERTY_QOS_MAX:
        packet->lacks_qos1 = read_number(cursor, 1) == 0;
        return;
    case PROPERTY_KEEP_ALIVE:
        number = read_number(cursor, 2);
        packet->keep_alive_s = (uint16_t)number;
        packet->has_keep_alive = true;
        return;
    case PROPERTY_PAIR:
        (void)read_text(cursor);
        (void)read_text(cursor);
        return;
    case 18: /* assigned client identifier */
    case 21: /* authentication method */
    case 22: /* authentication data */
    case 26: /* response information */
    case 28: /* server reference */
        (void)read_text(cursor);
        return;
    case 37: /* retain available */
    case 40: /* wildcard subscription available */
    case 41: /* subscription identifier available */
    case 42: /* shared subscription available */
        (void)read_number(cursor, 1);
        return;
    case 34: /* topic alias maximum */
        (void)read_number(cursor, 2);
        return;
    case 17: /* session expiry interval */
        (void)read_number(cursor, 4);
        return;
    default:
        cursor->is_broken = true;
    }
}

static void read_properties(struct cursor *cursor, struct mqtt_packet *packet)
{
    size_t len = read_length(cursor);
    if (cursor->is_broken || (size_t)(cursor->end - cursor->at) < len) {
        cursor->is_broken = true;
        return;
    }
    struct cursor own = {.at = cursor->at, .end = cursor->at + len};
    while (own.at < own.end && !own.is_broken)
        read_property(&own, packet);
    cursor->is_broken = own.is_broken;
    cursor->at += len;
}

/* Reads the variable header. A missing reason means success, missing properties none. */
static void read_header(struct cursor *cursor, struct mqtt_packet *packet)
{
    if (packet->type == MQTT_CONNACK)
        (void)read_number(cursor, 1); /* session present */
    if (packet->type == MQTT_PUBACK)
        packet->id = (uint16_t)read_number(cursor, 2);
    if (packet->type != MQTT_CONNACK && packet->type != MQTT_PUBACK &&
        packet->type != MQTT_DISCONNECT)
        return;
    if (cursor->at < cursor->end)
        packet->reason = (uint8_t)read_number(cursor, 1);
    else if (packet->type == MQTT_CONNACK)
        cursor->is_broken = true;
    if (cursor->at < cursor->end)
        read_properties(cursor, packet);
}

enum mqtt_read mqtt_packet_read(const char *bytes, size_t len, struct mqtt_packet *packet,
                                size_t *used, const char **why)
{
    const unsigned char *at = (const unsigned char *)bytes;
    struct cursor head = {.at = at + (len > 0), .end = at + len};
    *packet = (struct mqtt_packet){0};
    uint32_t rest = read_length(&head);
    if (head.is_broken && len < 5)
        return MQTT_MORE;
    *why = "its length is malformed";
    if (head.is_broken)
        return MQTT_BROKEN;
    *why = "it is longer than 64 KiB";
    if (rest > MQTT_IN_BYTES_MAX)
        return MQTT_BROKEN;
    if ((size_t)(head.end - head.at) < rest)
        return MQTT_MORE;
    struct cursor body = {.at = head.at, .end = head.at + rest};
    packet->type = at[0] >> 4;
    read_header(&body, packet);
    *used = (size_t)(body.end - at);
    *why = "its header is malformed";
    return body.is_broken ? MQTT_BROKEN : MQTT_PACKET;
}

/* ---- writing ---- */

static void append_u16(struct buffer *out, size_t number)
{
    buffer_append_byte(out, (char)(number >> 8 & 0xff));
    buffer_append_byte(out, (char)(number & 0xff));
}

static void append_length(struct buffer *out, size_t number)
{
    if (number > LENGTH_MAX)
        out->failed = true;
    do {
        buffer_append_byte(out, (char)((number & 0x7f) | (number > 0x7f ? 0x80 : 0)));
        number >>= 7;
    } while (number);
}

static size_t length_bytes(size_t number)
{
    size_t bytes = 1;
    while (number >>= 7)
        bytes++;
    return bytes;
}

static void append_text(struct buffer *out, struct slice text)
{
    if (text.len > TEXT_BYTES_MAX)
        out->failed = true;
    append_u16(out, text.len);
    buffer_append_slice(out, text);
}

void mqtt_emit_connect(struct buffer *out, uint16_t keep_alive_s, const char *user,
                       const char *password)
{
    static const char properties[] = {PROPERTY_PACKET_BYTES_MAX, 0, 1, 0, 0}; /* 64 KiB */
    size_t user_bytes = user ? 2 + strlen(user) : 0;
    size_t password_bytes = password ? 2 + strlen(password) : 0;
    buffer_append_byte(out, CONNECT << 4);
    append_length(out, 10 + 1 + sizeof properties + 2 + user_bytes + password_bytes);
    append_text(out, slice_of("MQTT"));
    buffer_append_byte(out, VERSION);
    buffer_append_byte(out,
                       (char)(CLEAN_START | (user ? HAS_USER : 0) | (password ? HAS_PASSWORD : 0)));
    append_u16(out, keep_alive_s);
    append_length(out, sizeof properties);
    buffer_append(out, properties, sizeof properties);
    append_text(out, (struct slice){0}); /* the broker assigns the client identifier */
    if (user)
        append_text(out, slice_of(user));
    if (password)
        append_text(out, slice_of(password));
}

void mqtt_emit_ping(struct buffer *out)
{
    buffer_append_byte(out, (char)(PINGREQ << 4));
    buffer_append_byte(out, 0);
}

void mqtt_emit_disconnect(struct buffer *out)
{
    buffer_append_byte(out, (char)(MQTT_DISCONNECT << 4));
    buffer_append_byte(out, 0);
}

void mqtt_emit_content_type(struct buffer *properties, struct slice type)
{
    buffer_append_byte(properties, PROPERTY_CONTENT_TYPE);
    append_text(properties, type);
}

void mqtt_emit_expiry(struct buffer *properties, uint32_t seconds)
{
    buffer_append_byte(properties, PROPERTY_EXPIRY);
    append_u16(properties, seconds >> 16);
    append_u16(properties, seconds & 0xffff);
}

void mqtt_emit_pair(struct buffer *properties, struct slice name, struct slice value)
{
    buffer_append_byte(properties, PROPERTY_PAIR);
    append_text(properties, name);
    append_text(properties, value);
}

void mqtt_emit_publish(struct buffer *out, const struct mqtt_message *message, size_t *id_at)
{
    size_t properties = message->properties.len;
    buffer_append_byte(out, PUBLISH << 4 | QOS_1);
    append_length(out, 2 + message->topic.len + 2 + length_bytes(properties) + properties +
                           message->body.len);
    append_text(out, message->topic);
    *id_at = out->len;
    append_u16(out, 0);
    append_length(out, properties);
    buffer_append_slice(out, message->properties);
    buffer_append_slice(out, message->body);
}

void mqtt_set_id(struct buffer *packet, size_t id_at, uint16_t id)
{
    packet->at[id_at] = (char)(id >> 8);
    packet->at[id_at + 1] = (char)(id & 0xff);
}

const char *mqtt_topic_fault(struct slice topic)
{
    for (size_t i = 0; i < topic.len; i++) {
        unsigned char byte = (unsigned char)topic.at[i];
        if (byte == '+' || byte == '#')
            return "the topic contains '+' or '#'";
        if (byte < ' ' || byte == 0x7f)
            return "the topic contains a control byte";
    }
    return topic.len ? NULL : "the topic is empty";
}
