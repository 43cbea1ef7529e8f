#include "targets/rocketmq/frame.h"

#include "base/json_read.h"
#include "base/json_write.h"
#include "base/text.h"
#include "targets/meta.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>

enum {
    VERSION = 407, /* protocol version that is sent; from 4.9.4 on, it makes routes JSON */
    LENGTH_BYTES = 4,
    ANSWER_FLAG = 1,
    PERMISSION_WRITE = 2,
    SIGNATURE_BYTES = 20
};

static void put_u32(char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (char)(value >> (24 - 8 * i));
}

static uint32_t get_u32(const char *at)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 8 | (unsigned char)at[i];
    return value;
}

/* ---- requests ---- */

/* Signs a request: the values in the order of their names, including the access key, and the body.
 * The name of the access key begins with a capital letter, unlike the others, so it comes first. */
static bool sign(const struct rocketmq_field *fields, size_t count, struct slice body,
                 const struct rocketmq_login *login, unsigned char out[SIGNATURE_BYTES])
{
    unsigned len = 0;
    struct buffer text;
    buffer_init(&text, SIZE_MAX);
    buffer_append_text(&text, login->access_key);
    for (size_t i = 0; i < count; i++)
        buffer_append_slice(&text, fields[i].value);
    buffer_append_slice(&text, body);
    bool good = !text.failed &&
                HMAC(EVP_sha1(), login->secret_key, (int)strlen(login->secret_key),
                     (const unsigned char *)text.at, text.len, out, &len) &&
                len == SIGNATURE_BYTES;
    buffer_fini(&text);
    return good;
}

static void emit_header(struct buffer *out, enum rocketmq_code code, uint32_t opaque,
                        const struct rocketmq_field *fields, size_t count,
                        const struct rocketmq_login *login, const unsigned char *signature)
{
    buffer_append_format(out,
                         "{\"code\":%d,\"flag\":0,\"language\":\"OTHER\",\"opaque\":%u,"
                         "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":%d,\"extFields\":{",
                         (int)code, opaque, VERSION);
    if (signature) {
        json_write_member_text(out, "AccessKey", slice_of(login->access_key));
        json_write_member(out, "Signature");
        json_write_base64(out, slice_make(signature, SIGNATURE_BYTES));
    }
    for (size_t i = 0; i < count; i++)
        json_write_member_text(out, fields[i].name, fields[i].value);
    buffer_append_text(out, "}}");
}

void rocketmq_emit_request(struct buffer *out, enum rocketmq_code code, uint32_t opaque,
                           const struct rocketmq_field *fields, size_t count, struct slice body,
                           const struct rocketmq_login *login)
{
    unsigned char signature[SIGNATURE_BYTES];
    bool signs = *login->access_key;
    size_t before = out->len;
    for (size_t i = 1; i < count; i++)
        assert(strcmp(fields[i - 1].name, fields[i].name) < 0);
    char *lengths = buffer_reserve(out, 2 * LENGTH_BYTES);
    if (!lengths || (signs && !sign(fields, count, body, login, signature))) {
        out->failed = true;
        return;
    }
    out->len += 2 * LENGTH_BYTES;
    emit_header(out, code, opaque, fields, count, login, signs ? signature : NULL);
    size_t header = out->len - before - 2 * LENGTH_BYTES;
    buffer_append_slice(out, body);
    if (out->failed)
        return;
    put_u32(out->at + before, (uint32_t)(out->len - before - LENGTH_BYTES));
    put_u32(out->at + before + LENGTH_BYTES, (uint32_t)header);
}

/* ---- answers ---- */

static bool read_number(struct json_value value, int64_t *out)
{
    return value.kind == JSON_NUMBER && json_number_i64(value.raw, out);
}

static bool read_header(struct slice json, struct rocketmq_answer *answer)
{
    struct json_value header, value;
    struct json_cursor cursor = {0};
    struct slice key;
    int64_t code = -1, flag = -1, opaque = -1;
    if (!json_check(json, &header, NULL) || header.kind != JSON_OBJECT)
        return false;
    while (json_next_member(header, &cursor, &key, &value)) {
        if (json_string_is(key, "code") && !read_number(value, &code))
            return false;
        if (json_string_is(key, "flag") && !read_number(value, &flag))
            return false;
        if (json_string_is(key, "opaque") && !read_number(value, &opaque))
            return false;
        if (json_string_is(key, "remark") && value.kind == JSON_STRING)
            answer->remark = value.raw;
    }
    answer->is_answer = flag >= 0 && flag & ANSWER_FLAG;
    answer->code = (int)code;
    answer->opaque = (uint32_t)opaque;
    return code >= INT32_MIN && code <= INT32_MAX && flag >= 0;
}

enum rocketmq_read rocketmq_frame_read(const char *at, size_t len, struct rocketmq_answer *answer,
                                       size_t *used, const char **why)
{
    if (len < 2 * LENGTH_BYTES)
        return ROCKETMQ_MORE;
    size_t all = get_u32(at), header = get_u32(at + LENGTH_BYTES);
    *why = header >> 24 ? "its header is not JSON" : "its length cannot be";
    if (header >> 24 || header > ROCKETMQ_HEADER_BYTES_MAX || all < LENGTH_BYTES + header ||
        all - LENGTH_BYTES - header > ROCKETMQ_BODY_BYTES_MAX)
        return ROCKETMQ_BROKEN;
    if (len - LENGTH_BYTES < all)
        return ROCKETMQ_MORE;
    *answer = (struct rocketmq_answer){0};
    at += 2 * LENGTH_BYTES;
    answer->body = slice_make(at + header, all - LENGTH_BYTES - header);
    *used = LENGTH_BYTES + all;
    *why = "its header cannot be read";
    return read_header(slice_make(at, header), answer) ? ROCKETMQ_FRAME : ROCKETMQ_BROKEN;
}

void rocketmq_emit_remark(struct slice remark, char *out, size_t bytes)
{
    struct buffer scratch;
    struct slice text = {0};
    buffer_init(&scratch, ROCKETMQ_HEADER_BYTES_MAX);
    if (remark.len && !json_string_bytes(remark, &scratch, &text))
        text = (struct slice){0};
    const char *colon = text.len ? memmem(text.at, text.len, "Exception: ", 11) : NULL;
    if (colon)
        text = slice_make(colon + 11, text.len - (size_t)(colon + 11 - text.at));
    target_remark_write(text, out, bytes);
    buffer_fini(&scratch);
}

/* ---- routes ---- */

/* Copies JSON in which keys may be bare numbers, and adds the quotes. */
static void quote_keys(struct slice json, struct buffer *out)
{
    bool in_string = false;
    for (size_t i = 0; i < json.len; i++) {
        char c = json.at[i];
        size_t end = i;
        if (in_string && c == '\\' && i + 1 < json.len) {
            buffer_append(out, json.at + i++, 2);
            continue;
        }
        in_string = in_string != (c == '"');
        while (!in_string && end < json.len && text_is_digit(json.at[end]))
            end++;
        if (end > i && end < json.len && json.at[end] == ':') {
            buffer_append_format(out, "\"%.*s\"", (int)(end - i), json.at + i);
            i = end - 1;
        } else {
            buffer_append_byte(out, c);
        }
    }
}

/* Copies a string. Returns false if it is not a string or too long. */
static bool copy_string(struct json_value value, char *out, size_t bytes)
{
    struct buffer scratch;
    struct slice text;
    if (value.kind != JSON_STRING)
        return false;
    buffer_init(&scratch, value.raw.len);
    bool good = json_string_bytes(value.raw, &scratch, &text) && text.len > 0 && text.len < bytes &&
                !memchr(text.at, 0, text.len);
    if (good)
        (void)snprintf(out, bytes, "%.*s", (int)text.len, text.at);
    buffer_fini(&scratch);
    return good;
}

static struct rocketmq_master *find_master(struct rocketmq_master *masters, size_t count,
                                           const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(masters[i].name, name) == 0)
            return &masters[i];
    return NULL;
}

/* Reads a group of brokers. Its master has number 0; a group may temporarily lack a master. */
static void read_broker(struct json_value item, struct rocketmq_master *masters, size_t *count)
{
    struct rocketmq_master *master = &masters[*count];
    *master = (struct rocketmq_master){0};
    if (copy_string(json_member(item, "brokerName"), master->name, sizeof master->name) &&
        copy_string(json_member(json_member(item, "brokerAddrs"), "0"), master->address,
                    sizeof master->address))
        (*count)++;
}

static void read_queues(struct json_value item, struct rocketmq_master *masters, size_t count)
{
    char name[ROCKETMQ_NAME_BYTES];
    int64_t permission = 0, queues = 0;
    struct rocketmq_master *master = copy_string(json_member(item, "brokerName"), name, sizeof name)
                                         ? find_master(masters, count, name)
                                         : NULL;
    if (master && read_number(json_member(item, "perm"), &permission) &&
        read_number(json_member(item, "writeQueueNums"), &queues) &&
        permission & PERMISSION_WRITE && queues > 0 && queues <= INT32_MAX)
        master->queues = (uint32_t)queues;
}

static bool read_route(struct json_value route, struct rocketmq_master *out, size_t *count)
{
    struct json_value brokers = json_member(route, "brokerDatas"),
                      queues = json_member(route, "queueDatas"), item;
    struct json_cursor cursor = {0};
    size_t found = 0;
    if (brokers.kind != JSON_ARRAY || queues.kind != JSON_ARRAY)
        return false;
    while (found < ROCKETMQ_BROKERS_MAX && json_next_item(brokers, &cursor, &item))
        read_broker(item, out, &found);
    cursor = (struct json_cursor){0};
    while (json_next_item(queues, &cursor, &item))
        read_queues(item, out, found);
    *count = 0;
    for (size_t i = 0; i < found; i++)
        if (out[i].queues)
            out[(*count)++] = out[i];
    return true;
}

bool rocketmq_route_parse(struct slice json, struct rocketmq_master out[ROCKETMQ_BROKERS_MAX],
                          size_t *count)
{
    struct json_value route;
    struct buffer quoted;
    buffer_init(&quoted, 2 * json.len + 1);
    quote_keys(json, &quoted);
    bool good = !quoted.failed && json_check(buffer_slice(&quoted), &route, NULL) &&
                read_route(route, out, count);
    buffer_fini(&quoted);
    return good;
}
