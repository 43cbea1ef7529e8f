/* Input of SQS calls: message attributes, attributes of queues, signatures, tasks. An accepted value is kept and read
 * back unchanged. The first byte chooses the kind. */
#include "claim.h"

#include "sqs/message.h"
#include "sqs/move.h"
#include "sqs/settings.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* ---- message attributes ---- */

static void check_attributes(struct json_value attributes)
{
    struct json_value all = {0}, back = {0}, chosen = {0};
    struct buffer meta, text, selected;
    struct sqs_error error = {0};
    char md5[SQS_MD5_TEXT_BYTES], again[SQS_MD5_TEXT_BYTES];
    if (!sqs_attributes_check(attributes, &error)) {
        CLAIM("a refusal says why", error.fault && error.message[0]);
        return;
    }
    buffer_init(&meta, JOB_META_BYTES_MAX);
    buffer_init(&text, JOB_META_BYTES_MAX);
    buffer_init(&selected, 2 * JOB_META_BYTES_MAX);
    bool has_some = sqs_attributes_md5(attributes, md5);
    if (sqs_attributes_keep(attributes, &meta) && has_some) {
        sqs_attributes_restore(buffer_slice(&meta), &text);
        CLAIM("what is kept is JSON", json_check(buffer_slice(&text), &back, NULL));
        CLAIM("and has the same digest",
              sqs_attributes_md5(back, again) && memcmp(md5, again, sizeof md5) == 0);
        CLAIM("names", json_check(slice_of("[\"All\"]"), &all, NULL));
        sqs_attributes_select(back, all, &selected);
        CLAIM("all of them are all", json_check(buffer_slice(&selected), &chosen, NULL) &&
                                         sqs_attributes_md5(chosen, again) &&
                                         memcmp(md5, again, sizeof md5) == 0);
    }
    buffer_fini(&meta);
    buffer_fini(&text);
    buffer_fini(&selected);
}

/* ---- attributes of a queue ---- */

static void check_queue(struct json_value attributes, size_t len)
{
    struct topic_settings settings = {0};
    struct sqs_queue queue, back;
    struct sqs_error error = {0};
    struct json_value extension;
    struct buffer scratch, text;
    sqs_queue_read(&settings, &queue);
    buffer_init(&scratch, len + 1);
    buffer_init(&text, 2 * TOPIC_EXTENSION_BYTES_MAX);
    CLAIM("room", buffer_reserve(&scratch, len + 1));
    (void)sqs_wants_fifo(attributes);
    if (!sqs_queue_change(&queue, attributes, &scratch, &error)) {
        CLAIM("a refusal says why", error.fault && error.message[0]);
    } else if (sqs_queue_write(&queue, true, &settings, &text, &error)) {
        CLAIM("the extension is JSON", json_check(settings.extension, &extension, NULL));
        CLAIM("and has its limit", settings.extension.len <= TOPIC_EXTENSION_BYTES_MAX);
        sqs_queue_read(&settings, &back);
        CLAIM("what is kept reads as it was", sqs_queue_equals(&queue, &back));
        CLAIM("times have their ranges",
              back.visibility_s >= 0 && back.visibility_s <= SQS_VISIBILITY_S_MAX &&
                  back.delay_s >= 0 && back.delay_s <= POLICY_DELAY_MS_MAX / 1000 &&
                  back.wait_s >= 0 && back.wait_s <= SQS_WAIT_S_MAX);
    } else {
        CLAIM("a refusal says why", error.fault && error.message[0]);
    }
    buffer_fini(&scratch);
    buffer_fini(&text);
}

/* ---- signatures: lines of an Authorization, a path, a query, headers "name:value" ---- */

enum { HEADERS_MAX = 8 };

struct headers {
    size_t count;
    struct slice names[HEADERS_MAX], values[HEADERS_MAX];
};

static struct slice next_line(struct slice *rest)
{
    const char *end = rest->len ? memchr(rest->at, '\n', rest->len) : NULL;
    struct slice line = slice_make(rest->at, end ? (size_t)(end - rest->at) : rest->len);
    size_t used = line.len + (end != NULL);
    *rest = slice_make(rest->at + used, rest->len - used);
    return line;
}

static bool next_header(const void *ctx, size_t index, struct slice *name, struct slice *value)
{
    const struct headers *headers = ctx;
    if (index >= headers->count)
        return false;
    *name = headers->names[index];
    *value = headers->values[index];
    return true;
}

static void check_signature(struct slice text)
{
    struct signature signature;
    struct headers headers = {0};
    const char *why = NULL;
    struct slice authorization = next_line(&text);
    struct signature_request request = {.method = slice_of("POST"),
                                        .path = next_line(&text),
                                        .query = next_line(&text),
                                        .headers = &headers,
                                        .next_header = next_header};
    while (text.len && headers.count < HEADERS_MAX) {
        struct slice line = next_line(&text);
        const char *colon = line.len ? memchr(line.at, ':', line.len) : NULL;
        if (!colon)
            break;
        size_t name = (size_t)(colon - line.at);
        headers.names[headers.count] = slice_make(line.at, name);
        headers.values[headers.count++] = slice_make(colon + 1, line.len - name - 1);
    }
    request.body = text;
    if (!signature_parse(authorization, &signature, &why)) {
        CLAIM("a refusal says why", why && why[0]);
        return;
    }
    unsigned char key[SIGNATURE_BYTES];
    int64_t ms;
    (void)signature_covers(&signature, &request, &why);
    (void)signature_time(&signature, &request, &ms, &why);
    CLAIM("a key is made of any secret",
          signature_key(slice_of("secret-of-the-fuzzer"), &signature, key));
    CLAIM("nobody guesses a signature", !signature_holds(&signature, &request, key));
}

/* ---- tasks ---- */

static void check_move(struct slice text)
{
    struct json_value object, again;
    struct sqs_move move, back;
    struct buffer out;
    char id[JOB_ID_BYTES_MAX + 1];
    (void)sqs_move_handle_source(text);
    if (!json_check(text, &object, NULL) || !sqs_move_read(object, &move))
        return;
    CLAIM("an id has its length",
          sqs_move_id(SQS_MOVE_LOG, slice_of(move.source), id).len <= JOB_ID_BYTES_MAX);
    buffer_init(&out, 4 * SQS_MOVE_TEXT_BYTES_MAX);
    sqs_move_write(&move, &out);
    buffer_append_byte(&out, '}');
    CLAIM("what is written is JSON", json_check(buffer_slice(&out), &again, NULL));
    if (sqs_move_read(again, &back)) /* a text with an escape in it is longer then */
        CLAIM("and says the same", back.moved == move.moved && back.status == move.status &&
                                       strcmp(back.source, move.source) == 0);
    buffer_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct json_value value;
    if (len == 0 || len > 64 * 1024)
        return 0;
    struct slice text = slice_make(bytes + 1, len - 1);
    char id[SQS_MESSAGE_ID_BYTES];
    switch (bytes[0] & 3) {
    case 0:
        if (json_check(text, &value, NULL))
            check_attributes(value);
        break;
    case 1:
        if (json_check(text, &value, NULL))
            check_queue(value, len);
        break;
    case 2:
        check_signature(text);
        break;
    default:
        check_move(text);
        sqs_message_id(slice_of("t"), text, id);
    }
    return 0;
}
