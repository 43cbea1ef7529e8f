#include "cli/load_http.h"

#include "cli/load_http_answer.h"
#include "cli/load_socket.h"

#include <stdio.h>
#include <stdlib.h>

enum { TEXT_BYTES = 1024, ANSWER_BYTES_MAX = 1 << 20 };

struct load_speech {
    bool own_ids;
    uint32_t run;
    struct buffer push;      /* "POST …/jobs?delay=" or "PUT …/jobs/" */
    struct buffer push_tail; /* " HTTP/1.1 … Content-Length: 200", blank line */
    struct buffer batch;     /* "POST /v1/jobs HTTP/1.1 … Content-Length: " */
    struct buffer line;      /* what begins a line of a batch, up to the delay */
    struct buffer take;      /* the whole request */
    struct buffer ack;       /* "POST /v1/ack HTTP/1.1 … Content-Length: " */
    struct buffer filler;    /* the body after its stamp */
};

static void open_texts(struct load_speech *speech, const struct load_plan *plan)
{
    char host[TEXT_BYTES];
    snprintf(host, sizeof host, "HTTP/1.1\r\nHost: %s:%s\r\n", plan->host, plan->port);
    if (plan->own_ids)
        buffer_append_format(&speech->push, "PUT /v1/topics/%s/jobs/", plan->topic);
    else
        buffer_append_format(&speech->push, "POST /v1/topics/%s/jobs?delay=", plan->topic);
    buffer_append_format(&speech->push_tail, " %sContent-Length: %zu\r\n\r\n", host,
                         plan->body_bytes);
    buffer_append_format(
        &speech->batch,
        "POST /v1/jobs %sContent-Type: application/x-ndjson\r\nContent-Length: ", host);
    buffer_append_format(&speech->line, "{\"topic\":\"%s\",\"delay\":", plan->topic);
    buffer_append_format(&speech->take,
                         "POST /v1/topics/%s/take?max=%u&wait=20s %sContent-Length: 0\r\n\r\n",
                         plan->topic, plan->take_max, host);
    buffer_append_format(&speech->ack,
                         "POST /v1/ack %sContent-Type: application/json\r\nContent-Length: ", host);
    for (size_t i = LOAD_STAMP_BYTES; i < plan->body_bytes; i++)
        buffer_append_byte(&speech->filler, (char)('a' + i % 26));
}

static struct load_speech *http_open(const struct load_plan *plan, uint32_t run,
                                     char problem[LOAD_TEXT_BYTES_MAX])
{
    struct load_speech *speech = calloc(1, sizeof *speech);
    if (!speech) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "out of memory");
        return NULL;
    }
    speech->own_ids = plan->own_ids;
    speech->run = run;
    struct buffer *texts[] = {&speech->push, &speech->push_tail, &speech->batch, &speech->line,
                              &speech->take, &speech->ack,       &speech->filler};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        buffer_init(texts[i], LOAD_BODY_BYTES_MAX + TEXT_BYTES);
    open_texts(speech, plan);
    return speech;
}

static void http_close(struct load_speech *speech)
{
    if (!speech)
        return;
    buffer_fini(&speech->push);
    buffer_fini(&speech->push_tail);
    buffer_fini(&speech->batch);
    buffer_fini(&speech->line);
    buffer_fini(&speech->take);
    buffer_fini(&speech->ack);
    buffer_fini(&speech->filler);
    free(speech);
}

static void append_buffer(struct buffer *out, const struct buffer *text)
{
    buffer_append(out, text->at, text->len);
}

static void append_body(struct load_speech *speech, struct buffer *out,
                        const struct load_stamp *stamp)
{
    char *at = buffer_reserve(out, LOAD_STAMP_BYTES);
    if (!at)
        return;
    load_stamp_write(at, stamp);
    out->len += LOAD_STAMP_BYTES;
    append_buffer(out, &speech->filler);
}

static void append_id(struct load_speech *speech, struct buffer *out,
                      const struct load_stamp *stamp)
{
    char *at = buffer_reserve(out, LOAD_ID_BYTES);
    if (!at)
        return;
    load_stamp_id(at, speech->run, stamp->index);
    out->len += LOAD_ID_BYTES;
}

/* A length that is known only afterwards: leaves room for its digits, and fills them in. Zeros in
 * front are allowed. */
enum { LENGTH_DIGITS = 9 };

static size_t length_begin(struct buffer *out)
{
    static const char room[] = "000000000\r\n\r\n";
    _Static_assert(sizeof room == LENGTH_DIGITS + 4 + 1, "room");
    buffer_append(out, room, sizeof room - 1);
    return out->len;
}

static void length_end(struct buffer *out, size_t body_at)
{
    if (out->failed)
        return;
    size_t length = out->len - body_at;
    char *digit = out->at + body_at - 4;
    for (int i = 0; i < LENGTH_DIGITS; i++, length /= 10)
        *--digit = (char)('0' + length % 10);
}

static void push_one(struct load_speech *speech, struct buffer *out, const struct load_stamp *stamp)
{
    append_buffer(out, &speech->push);
    if (speech->own_ids) {
        append_id(speech, out, stamp);
        buffer_append(out, "?delay=", 7);
    }
    buffer_append_u64(out, (uint64_t)stamp->delay_ms);
    append_buffer(out, &speech->push_tail);
    append_body(speech, out, stamp);
}

static void http_push(struct load_speech *speech, struct buffer *out,
                      const struct load_stamp *stamps, unsigned count)
{
    if (count == 1) {
        push_one(speech, out, stamps);
        return;
    }
    append_buffer(out, &speech->batch);
    size_t body_at = length_begin(out);
    for (unsigned i = 0; i < count; i++) {
        append_buffer(out, &speech->line);
        buffer_append_u64(out, (uint64_t)stamps[i].delay_ms);
        if (speech->own_ids) {
            buffer_append_text(out, ",\"id\":\"");
            append_id(speech, out, &stamps[i]);
            buffer_append_byte(out, '"');
        }
        buffer_append(out, ",\"body\":\"", 9);
        append_body(speech, out, &stamps[i]);
        buffer_append(out, "\"}\n", 3);
    }
    length_end(out, body_at);
}

static unsigned http_take(struct load_speech *speech, struct buffer *out, unsigned got_last_time)
{
    (void)got_last_time;
    append_buffer(out, &speech->take);
    return 1;
}

static unsigned http_ack(struct load_speech *speech, struct buffer *out,
                         const struct load_item *items, unsigned count)
{
    append_buffer(out, &speech->ack);
    size_t body_at = length_begin(out);
    buffer_append(out, "{\"leases\":[", 11);
    for (unsigned i = 0; i < count; i++) {
        buffer_append(out, i ? ",\"" : "\"", i ? 2 : 1);
        buffer_append_slice(out, items[i].lease);
        buffer_append_byte(out, '"');
    }
    buffer_append(out, "]}", 2);
    length_end(out, body_at);
    return 1;
}

bool load_http_url(const char *url, struct load_plan *plan, char problem[LOAD_TEXT_BYTES_MAX])
{
    static const char scheme[] = "http://";
    snprintf(problem, LOAD_TEXT_BYTES_MAX, "cannot use url '%.100s': write http://host:port", url);
    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *host = url + sizeof scheme - 1;
    bool bracketed = *host == '[';
    host += bracketed;
    size_t host_len = strcspn(host, bracketed ? "]" : ":/");
    const char *at = host + host_len;
    if (host_len == 0 || host_len >= sizeof plan->host || (bracketed && *at++ != ']'))
        return false;
    bool has_port = *at == ':';
    const char *port = at + has_port;
    size_t port_len = has_port ? strspn(port, "0123456789") : 0;
    at = port + port_len;
    if ((*at == '/' ? at[1] : *at) || port_len >= sizeof plan->port || has_port != (port_len > 0))
        return false;
    snprintf(plan->host, sizeof plan->host, "%.*s", (int)host_len, host);
    if (has_port)
        snprintf(plan->port, sizeof plan->port, "%.*s", (int)port_len, port);
    else
        snprintf(plan->port, sizeof plan->port, "%s", load_http.port);
    return true;
}

static bool is_whole(struct slice bytes)
{
    struct load_http_frame frame;
    size_t need;
    return bytes.len > 0 && load_http_frame(bytes, &frame, &need) != LOAD_PARTIAL;
}

int load_http_call(const struct load_plan *plan, const char *method, const char *path,
                   struct buffer *answer, char problem[LOAD_TEXT_BYTES_MAX])
{
    char request[TEXT_BYTES];
    int len = snprintf(request, sizeof request,
                       "%s %s HTTP/1.1\r\nHost: %s:%s\r\nContent-Length: 0\r\n\r\n", method, path,
                       plan->host, plan->port);
    if (len < 0 || (size_t)len >= sizeof request) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "path too long");
        return 0;
    }
    struct buffer bytes;
    buffer_init(&bytes, ANSWER_BYTES_MAX);
    int status = 0;
    if (load_socket_call(plan->host, plan->port, slice_make(request, (size_t)len), &bytes, is_whole,
                         problem)) {
        struct load_http_frame frame;
        size_t need;
        if (load_http_frame(buffer_slice(&bytes), &frame, &need) == LOAD_ANSWER) {
            status = frame.status;
            if (answer)
                buffer_append_slice(answer, frame.body);
        } else {
            snprintf(problem, LOAD_TEXT_BYTES_MAX,
                     "'%.100s:%s' does not answer in HTTP: is it a tarry server?", plan->host,
                     plan->port);
        }
    }
    buffer_fini(&bytes);
    return status;
}

const struct load_protocol load_http = {
    .name = "http",
    .port = "8279",
    .delay_unit_ms = 1,
    .batch_max = LOAD_BATCH_MAX,
    .acks_apart = true,
    .open = http_open,
    .close = http_close,
    .push = http_push,
    .take = http_take,
    .ack = http_ack,
    .parse = load_http_parse,
};
