#include "cli/event_stream.h"

#include "cli/interrupt.h"
#include "cli/retry.h"

#include <string.h>

enum {
    WAIT_MS = 1000,
    SILENT_S = 45,            /* maximum time without a byte: the server pings every 15 s */
    BLOCK_BYTES_MAX = 1 << 20 /* maximum size of one event */
};

struct event_stream {
    struct client *client;
    const struct event_receiver *receiver;
    struct buffer text; /* the received part of the next event */
    bool is_open, has_enough;
};

static long status_of(const struct event_stream *stream)
{
    long status = 0;
    curl_easy_getinfo(stream->client->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

/* Returns the value of a line "NAME: VALUE" in the block, empty if absent. */
static struct slice block_field(struct slice block, const char *name)
{
    size_t name_len = strlen(name);
    while (block.len) {
        const char *end = memchr(block.at, '\n', block.len);
        size_t len = end ? (size_t)(end - block.at) : block.len;
        if (len > name_len + 2 && memcmp(block.at, name, name_len) == 0 &&
            memcmp(block.at + name_len, ": ", 2) == 0)
            return slice_make(block.at + name_len + 2, len - name_len - 2);
        len += end != NULL;
        block = slice_make(block.at + len, block.len - len);
    }
    return (struct slice){0};
}

/* Delivers an event; skips a comment. */
static void take_block(struct event_stream *stream, struct slice block)
{
    struct slice event = block_field(block, "event"), data = block_field(block, "data");
    char name[64];
    if (!event.len || event.len >= sizeof name)
        return;
    memcpy(name, event.at, event.len);
    name[event.len] = '\0';
    json_t *json = json_loadb(data.at ? data.at : "", data.len, JSON_ALLOW_NUL, NULL);
    if (json && !stream->receiver->take(stream->receiver->ctx, name, json))
        stream->has_enough = true;
    json_decref(json);
}

static void take_blocks(struct event_stream *stream)
{
    struct buffer *text = &stream->text;
    size_t at = 0;
    const char *end;
    while (!stream->has_enough && (end = memmem(text->at + at, text->len - at, "\n\n", 2))) {
        size_t len = (size_t)(end - text->at) - at;
        take_block(stream, slice_make(text->at + at, len));
        at += len + 2;
    }
    text->len -= at;
    memmove(text->at, text->at + at, text->len);
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    struct event_stream *stream = ctx;
    if (status_of(stream) != 200) {
        buffer_append(&stream->client->answer, bytes, size * count);
        return stream->client->answer.failed ? 0 : size * count;
    }
    buffer_append(&stream->text, bytes, size * count);
    if (stream->text.failed)
        return 0;
    take_blocks(stream);
    return stream->has_enough ? 0 : size * count;
}

/* Detects the empty line that ends the head of the answer. */
static size_t on_header(char *bytes, size_t size, size_t count, void *ctx)
{
    struct event_stream *stream = ctx;
    bool is_end = size * count <= 2 && bytes[0] == '\r';
    if (is_end && !stream->is_open && status_of(stream) == 200) {
        stream->is_open = true;
        if (stream->receiver->open)
            stream->receiver->open(stream->receiver->ctx);
    }
    return size * count;
}

/* Stops the transfer on an interrupt. Called about once a second and on each signal. */
static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct event_stream *stream = ctx;
    (void)a, (void)b, (void)c, (void)d;
    if (interrupt_came())
        stream->has_enough = true;
    return stream->has_enough;
}

static void stream_prepare(struct event_stream *stream)
{
    CURL *curl = stream->client->curl;
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 0L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)SILENT_S);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, stream);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, stream);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, stream);
}

/* Runs the transfer while also watching for keys. */
static CURLcode stream_perform(struct event_stream *stream, CURLM *multi)
{
    const struct event_receiver *receiver = stream->receiver;
    struct curl_waitfd keys = {.fd = receiver->keys, .events = CURL_WAIT_POLLIN};
    CURLcode code = CURLE_OK;
    int running = 1, left;
    curl_multi_add_handle(multi, stream->client->curl);
    while (running && !stream->has_enough) {
        keys.revents = 0;
        if (curl_multi_perform(multi, &running) != CURLM_OK)
            break;
        if (running)
            curl_multi_poll(multi, &keys, 1, WAIT_MS, NULL);
        if (keys.revents && !receiver->press(receiver->ctx))
            stream->has_enough = true;
        stream->has_enough |= interrupt_came();
    }
    for (CURLMsg *message; (message = curl_multi_info_read(multi, &left));)
        if (message->msg == CURLMSG_DONE)
            code = message->data.result;
    curl_multi_remove_handle(multi, stream->client->curl);
    return code;
}

enum event_stream_end event_stream_run(struct client *client, const struct event_receiver *receiver,
                                       int *exit_code)
{
    struct event_stream stream = {.client = client, .receiver = receiver};
    *exit_code = CLI_USAGE;
    if (!client_prepare(client, "GET", NULL, 0))
        return EVENT_STREAM_REFUSED;
    buffer_init(&stream.text, BLOCK_BYTES_MAX);
    stream_prepare(&stream);
    CURLM *multi = receiver->press ? curl_multi_init() : NULL;
    CURLcode code = multi ? stream_perform(&stream, multi) : curl_easy_perform(client->curl);
    curl_multi_cleanup(multi);
    buffer_fini(&stream.text);
    *exit_code = CLI_OK;
    if (stream.has_enough || interrupt_came())
        return EVENT_STREAM_ENOUGH;
    if (stream.is_open) {
        *exit_code = CLI_UNREACHABLE;
        return EVENT_STREAM_CUT;
    }
    bool is_passing = retry_helps(client, code);
    *exit_code = client_finish(client, code);
    return is_passing ? EVENT_STREAM_CUT : EVENT_STREAM_REFUSED;
}
