#include "sqs/message.h"

#include "api/json_shape.h"
#include "base/hex.h"
#include "base/json_write.h"
#include "base/text.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the id ---- */

enum { UUID_BYTES = 16, ULID_TEXT_BYTES = 26, VERSION = 5 };

/* Reads a ULID: 26 digits of base 32 are 130 bits, of which the first two are 0. */
static bool ulid_read(struct slice id, unsigned char out[UUID_BYTES])
{
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    unsigned __int128 value = 0;
    if (id.len != ULID_TEXT_BYTES || id.at[0] > '7')
        return false;
    for (size_t i = 0; i < id.len; i++) {
        const char *digit = id.at[i] ? strchr(digits, id.at[i]) : NULL;
        if (!digit)
            return false;
        value = value << 5 | (unsigned)(digit - digits);
    }
    for (size_t i = UUID_BYTES; i-- > 0; value >>= 8)
        out[i] = (unsigned char)value;
    return true;
}

/* Computes the UUID of version 5. The namespace is 16 bytes unique to tarry. */
static void hash_names(struct slice topic, struct slice id, unsigned char out[UUID_BYTES])
{
    static const unsigned char space[UUID_BYTES] = {0x5b, 0x1e, 0xd7, 0x3a, 0x90, 0x44, 0x4c, 0x21,
                                                    0x8f, 0x0d, 0x74, 0x61, 0x72, 0x72, 0x79, 0x01};
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context && EVP_DigestInit_ex(context, EVP_sha1(), NULL) &&
        EVP_DigestUpdate(context, space, sizeof space) &&
        EVP_DigestUpdate(context, topic.at, topic.len) && EVP_DigestUpdate(context, "", 1) &&
        EVP_DigestUpdate(context, id.at, id.len))
        (void)EVP_DigestFinal_ex(context, digest, NULL);
    EVP_MD_CTX_free(context);
    memcpy(out, digest, UUID_BYTES);
    out[6] = (unsigned char)((out[6] & 0x0f) | VERSION << 4);
    out[8] = (unsigned char)((out[8] & 0x3f) | 0x80);
}

void sqs_message_id(struct slice topic, struct slice id, char out[SQS_MESSAGE_ID_BYTES])
{
    unsigned char bytes[UUID_BYTES];
    size_t at = 0;
    if (!ulid_read(id, bytes))
        hash_names(topic, id, bytes);
    for (size_t i = 0; i < UUID_BYTES; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            out[at++] = '-';
        hex_emit_bytes(out + at, &bytes[i], 1);
        at += 2;
    }
}

bool sqs_sequence_number(struct slice id, char out[SQS_SEQUENCE_BYTES])
{
    unsigned char bytes[UUID_BYTES];
    unsigned __int128 number = 0;
    if (!ulid_read(id, bytes))
        return false;
    for (size_t i = 0; i < UUID_BYTES; i++)
        number = number << 8 | bytes[i];
    for (size_t i = SQS_SEQUENCE_BYTES; i-- > 0; number /= 10)
        out[i] = (char)('0' + (int)(number % 10));
    return true;
}

/* ---- the receipt handle ---- */

enum { BYTES_MIN = 30, BYTES_MAX = 1024 };

#define SIGN '~' /* between the parts: never escaped */

void sqs_handle_write(const struct queue_job *taken, struct buffer *out)
{
    struct buffer text;
    buffer_init(&text, QUEUE_LEASE_TEXT_BYTES_MAX + JOB_ID_BYTES_MAX + 1);
    buffer_append_slice(&text, taken->lease);
    buffer_append_byte(&text, SIGN);
    buffer_append_slice(&text, taken->job.id);
    json_write_string(out, buffer_slice(&text));
    buffer_fini(&text);
}

/* Leases of all stores consist of letters, digits and separators. */
static bool is_lease(struct slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((!text_is_unreserved(text.at[i]) && text.at[i] != ':') || text.at[i] == SIGN)
            return false;
    return text.len >= BYTES_MIN && text.len <= QUEUE_LEASE_TEXT_BYTES_MAX;
}

bool sqs_handle_read(struct slice text, struct sqs_handle *out)
{
    const char *sign = memchr(text.at, SIGN, text.len);
    *out = (struct sqs_handle){.lease = text};
    if (text.len > BYTES_MAX)
        return false;
    if (!sign)
        return is_lease(text);
    out->lease.len = (size_t)(sign - text.at);
    out->id = slice_make(sign + 1, (size_t)(text.at + text.len - sign - 1));
    return is_lease(out->lease) && out->id.len;
}

/* ---- attributes ---- */

enum { NAME_BYTES_MAX = 256, CHUNK_BYTES = 1024, CHUNKS_MAX = 8, TEXT = 1, BINARY = 2 };

static const char meta_prefix[] = JOB_META_OWN "sqs-attributes-";

/* An attribute, with unescaped texts in the arena. */
struct attribute {
    struct slice name, type, value;
    uint8_t kind; /* TEXT or BINARY; 0: no value */
};

struct attributes {
    struct attribute at[SQS_ATTRIBUTES_MAX];
    size_t count;
    struct buffer arena;
};

/* ---- digests ---- */

/* MD5, fetched by name only once; OpenSSL would otherwise do so for each digest. */
static pthread_once_t md5_once = PTHREAD_ONCE_INIT;
static EVP_MD *md5_fetched;

static void md5_fetch(void)
{
    md5_fetched = EVP_MD_fetch(NULL, "MD5", NULL);
}

void sqs_md5(struct slice bytes, char out[SQS_MD5_TEXT_BYTES])
{
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    unsigned len = 0;
    (void)pthread_once(&md5_once, md5_fetch);
    (void)EVP_Digest(bytes.len ? bytes.at : "", bytes.len, digest, &len,
                     md5_fetched ? md5_fetched : EVP_md5(), NULL);
    hex_emit_bytes(out, digest, SQS_MD5_TEXT_BYTES / 2);
}

/* ---- reading ---- */

static struct slice take_text(struct attributes *all, struct json_value value)
{
    struct slice out = {0};
    if (value.kind == JSON_STRING)
        (void)json_string_bytes(value.raw, &all->arena, &out);
    return out;
}

static bool take_value(struct attributes *all, struct json_value value, struct attribute *out)
{
    struct json_value text = sqs_member(value, "StringValue"),
                      binary = sqs_member(value, "BinaryValue");
    out->type = take_text(all, sqs_member(value, "DataType"));
    if (text.kind == JSON_STRING) {
        out->kind = TEXT;
        out->value = take_text(all, text);
    } else if (binary.kind == JSON_STRING) {
        size_t before = all->arena.len;
        struct slice encoded = slice_make(binary.raw.at + 1, binary.raw.len - 2);
        if (!text_base64_decode(encoded, &all->arena))
            return false;
        out->kind = BINARY;
        out->value = slice_make(all->arena.at + before, all->arena.len - before);
    }
    return true;
}

static void attributes_fini(struct attributes *all)
{
    buffer_fini(&all->arena);
}

/* Reads the attributes. Returns false if there are too many, one is malformed, or memory runs out.
 * The caller must call attributes_fini in either case. */
static bool attributes_read(struct json_value object, struct attributes *all)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    *all = (struct attributes){0};
    buffer_init(&all->arena, 2 * object.raw.len + 1);
    if (!buffer_reserve(&all->arena, 2 * object.raw.len + 1))
        return false;
    while (object.kind == JSON_OBJECT && json_next_member(object, &cursor, &key, &value)) {
        struct attribute *next = &all->at[all->count];
        if (all->count++ == SQS_ATTRIBUTES_MAX || value.kind != JSON_OBJECT)
            return false;
        next->name = take_text(all, (struct json_value){JSON_STRING, key});
        if (!take_value(all, value, next))
            return false;
    }
    return !all->arena.failed;
}

/* ---- validation ---- */

static bool is_type(struct slice type, const char *base)
{
    size_t len = strlen(base);
    return type.len >= len && memcmp(type.at, base, len) == 0 &&
           (type.len == len || type.at[len] == '.');
}

static bool is_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!text_is_unreserved(name.at[i]) || name.at[i] == '~')
            return false;
    return name.len > 0 && name.len <= NAME_BYTES_MAX && name.at[0] != '.' &&
           name.at[name.len - 1] != '.';
}

static bool check_one(const struct attribute *one, struct sqs_error *error)
{
    int shown = (int)(one->name.len < 80 ? one->name.len : 80);
    const char *name = one->name.len ? one->name.at : "";
    if (!is_name(one->name))
        return sqs_error_set(error, SQS_BAD_VALUE,
                             "The message attribute name '%.*s' is invalid. Attribute name can "
                             "contain A-Z, a-z, 0-9, underscore (_), hyphen (-), and period (.) "
                             "characters.",
                             shown, name);
    if (one->type.len == 0)
        return sqs_error_set(error, SQS_BAD_VALUE,
                             "The message attribute '%.*s' must contain non-empty message "
                             "attribute type.",
                             shown, name);
    bool is_binary = is_type(one->type, "Binary");
    if (!is_binary && !is_type(one->type, "String") && !is_type(one->type, "Number"))
        return sqs_error_set(error, SQS_BAD_VALUE,
                             "The message attribute '%.*s' has an invalid message attribute type, "
                             "the set of supported type prefixes is Binary, Number, and String.",
                             shown, name);
    if (one->kind != (is_binary ? BINARY : TEXT) || one->value.len == 0)
        return sqs_error_set(error, SQS_BAD_VALUE,
                             "The message attribute '%.*s' must contain non-empty message "
                             "attribute value for message attribute type '%.*s'.",
                             shown, name, (int)(one->type.len < 40 ? one->type.len : 40),
                             one->type.at);
    return true;
}

bool sqs_system_attributes_check(struct json_value attributes, struct sqs_error *error)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    while (attributes.kind == JSON_OBJECT && json_next_member(attributes, &cursor, &key, &value)) {
        struct json_value type = sqs_member(value, "DataType");
        if (!json_string_is(key, "AWSTraceHeader"))
            return sqs_error_set(
                error, SQS_BAD_VALUE,
                "The message system attribute '%.*s' is unknown, send only AWSTraceHeader.",
                (int)(key.len < 80 ? key.len - 2 : 78), key.at + 1);
        if (type.kind != JSON_STRING || !json_string_is(type.raw, "String"))
            return sqs_error_set(error, SQS_BAD_VALUE,
                                 "The message system attribute 'AWSTraceHeader' must have the type "
                                 "String.");
    }
    return sqs_attributes_check(attributes, error);
}

bool sqs_attributes_check(struct json_value attributes, struct sqs_error *error)
{
    struct attributes all;
    if (attributes.kind == JSON_NONE)
        return true;
    bool good = attributes_read(attributes, &all) ||
                sqs_error_set(error, SQS_BAD_VALUE,
                              "Number of message attributes exceeds the allowed maximum [10], or "
                              "one cannot be read.");
    for (size_t i = 0; good && i < all.count; i++)
        good = check_one(&all.at[i], error);
    if (good && attributes.raw.len > SQS_ATTRIBUTES_BYTES_MAX)
        good = sqs_error_set(error, SQS_BAD_VALUE,
                             "Message attributes have at most %d bytes together on this server.",
                             SQS_ATTRIBUTES_BYTES_MAX);
    attributes_fini(&all);
    return good;
}

/* ---- the digest ---- */

static int compare_names(const void *a, const void *b)
{
    const struct attribute *one = a, *other = b;
    return slice_compare(one->name, other->name);
}

static void append_part(struct buffer *out, struct slice part)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        buffer_append_byte(out, (char)(part.len >> shift));
    buffer_append_slice(out, part);
}

bool sqs_attributes_md5(struct json_value attributes, char out[SQS_MD5_TEXT_BYTES])
{
    struct attributes all;
    struct buffer text;
    buffer_init(&text, 2 * attributes.raw.len + 13 * SQS_ATTRIBUTES_MAX + 1);
    bool good = attributes_read(attributes, &all) && all.count;
    if (good)
        qsort(all.at, all.count, sizeof all.at[0], compare_names);
    for (size_t i = 0; good && i < all.count; i++) {
        append_part(&text, all.at[i].name);
        append_part(&text, all.at[i].type);
        buffer_append_byte(&text, (char)all.at[i].kind);
        append_part(&text, all.at[i].value);
    }
    good = good && !text.failed;
    if (good)
        sqs_md5(buffer_slice(&text), out);
    buffer_fini(&text);
    attributes_fini(&all);
    return good;
}

/* ---- storage ---- */

bool sqs_attributes_keep(struct json_value attributes, struct buffer *meta)
{
    struct buffer compact;
    char name[sizeof meta_prefix + 4];
    bool good = true;
    if (attributes.kind == JSON_NONE)
        return true;
    buffer_init(&compact, attributes.raw.len + 1);
    json_shape_compact(attributes.raw, &compact);
    struct slice left = buffer_slice(&compact);
    for (unsigned i = 0; good && left.len > 2 - 2 * (i > 0) && i < CHUNKS_MAX; i++) {
        size_t len = text_cut(left, CHUNK_BYTES).len;
        (void)snprintf(name, sizeof name, "%s%u", meta_prefix, i);
        good = job_meta_add(meta, slice_of(name), slice_make(left.at, len)) == JOB_META_OK;
        left = slice_make(left.at + len, left.len - len);
    }
    good = good && !compact.failed;
    buffer_fini(&compact);
    return good;
}

void sqs_attributes_restore(struct slice meta, struct buffer *out)
{
    struct slice name, value;
    size_t prefix = sizeof meta_prefix - 1;
    for (size_t at = 0; job_meta_next(meta, &at, &name, &value);)
        if (name.len > prefix && memcmp(name.at, meta_prefix, prefix) == 0)
            buffer_append_slice(out, value);
}

/* ---- selection by name ---- */

static bool name_matches(struct slice wanted, struct slice name)
{
    if (slice_is(wanted, "All") || slice_is(wanted, "*") || slice_is(wanted, ".*"))
        return true;
    if (wanted.len > 2 && memcmp(wanted.at + wanted.len - 2, ".*", 2) == 0)
        return name.len >= wanted.len - 2 && memcmp(name.at, wanted.at, wanted.len - 2) == 0;
    return slice_equals(wanted, name);
}

/* Names contain no escapes; an escaped name matches nothing. */
bool sqs_names_have(struct json_value names, struct slice name)
{
    struct json_cursor cursor = {0};
    struct json_value item;
    while (names.kind == JSON_ARRAY && json_next_item(names, &cursor, &item))
        if (item.kind == JSON_STRING &&
            name_matches(slice_make(item.raw.at + 1, item.raw.len - 2), name))
            return true;
    return false;
}

void sqs_attributes_select(struct json_value attributes, struct json_value names,
                           struct buffer *out)
{
    struct json_cursor cursor = {0};
    struct json_value value;
    struct slice key;
    size_t before = out->len;
    while (attributes.kind == JSON_OBJECT && json_next_member(attributes, &cursor, &key, &value)) {
        if (!sqs_names_have(names, slice_make(key.at + 1, key.len - 2)))
            continue;
        buffer_append_byte(out, out->len == before ? '{' : ',');
        buffer_append_slice(out, key);
        buffer_append_byte(out, ':');
        buffer_append_slice(out, value.raw);
    }
    if (out->len > before)
        buffer_append_byte(out, '}');
}
