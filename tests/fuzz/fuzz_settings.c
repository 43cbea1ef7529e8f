/* Settings of a topic, then a merge patch of them, divided by the first NUL: what is read is what
 * the queue takes, is shown as JSON, and read again it is the same. */
#include "claim.h"

#include "api/settings.h"
#include "queue/door.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum { ROOM = 1 << 16 };

struct read {
    struct topic_settings settings;
    struct buffer scratch, extension, shown;
};

static bool read_one(struct slice json, struct read *out)
{
    struct http_fields fields = {0};
    struct http_fault fault = {0};
    buffer_init(&out->scratch, ROOM);
    buffer_init(&out->extension, ROOM);
    buffer_init(&out->shown, ROOM);
    CLAIM("there is room", buffer_reserve(&out->scratch, json.len + 1));
    if (!api_settings_read(json, &fields, &out->scratch, &out->extension, &fault)) {
        CLAIM("a refusal has its problem", fault.problem > PROBLEM_NONE && fault.detail[0]);
        return false;
    }
    api_fields_settings(&fields, &out->settings);
    out->settings.extension = buffer_slice(&out->extension);
    api_settings_write(&out->shown, &out->settings);
    return true;
}

static void read_fini(struct read *read)
{
    buffer_fini(&read->scratch);
    buffer_fini(&read->extension);
    buffer_fini(&read->shown);
}

static void check_read(const struct read *read)
{
    struct queue_topic_call put = {
        .verb = QUEUE_TOPIC_PUT, .topic = slice_of("t"), .settings = read->settings};
    struct json_value value;
    const char *detail;
    struct read again;
    CLAIM("the queue takes it", queue_check_topic(&put, &detail) == QUEUE_OK);
    CLAIM("an extension has its limit", read->extension.len <= TOPIC_EXTENSION_BYTES_MAX);
    CLAIM("and is an object or nothing",
          !read->extension.len || (json_check(buffer_slice(&read->extension), &value, NULL) &&
                                   value.kind == JSON_OBJECT));
    CLAIM("it is shown as JSON", json_check(buffer_slice(&read->shown), &value, NULL));
    CLAIM("it can be read again", read_one(buffer_slice(&read->shown), &again));
    CLAIM("and is the same", slice_equals(buffer_slice(&read->shown), buffer_slice(&again.shown)));
    read_fini(&again);
}

static void check_patch(const struct topic_settings *held, struct slice patch)
{
    struct buffer merged;
    struct http_fault fault = {0};
    struct json_value value;
    struct read patched;
    buffer_init(&merged, ROOM);
    if (api_settings_patch(held, patch, &merged, &fault)) {
        CLAIM("a patch makes JSON", json_check(buffer_slice(&merged), &value, NULL));
        if (read_one(buffer_slice(&merged), &patched))
            check_read(&patched);
        read_fini(&patched);
    } else {
        CLAIM("a refusal has its problem", fault.problem > PROBLEM_NONE && fault.detail[0]);
    }
    buffer_fini(&merged);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct slice settings = slice_make(bytes, len), patch = {.at = ""};
    const uint8_t *end = len ? memchr(bytes, 0, len) : NULL;
    struct read read;
    if (len > API_PATCH_BYTES_MAX)
        return 0;
    if (end) {
        settings.len = (size_t)(end - bytes);
        patch = slice_make(end + 1, len - settings.len - 1);
    }
    if (read_one(settings, &read)) {
        check_read(&read);
        check_patch(&read.settings, patch);
    }
    read_fini(&read);
    return 0;
}
