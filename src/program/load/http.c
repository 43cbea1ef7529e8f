#include "load/http.h"

#include "base/error.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "base/url.h"
#include "load/socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* ---- parsing: framing, counting rejected jobs, finding leases and bodies ---- */

enum { HEAD_BYTES_MAX = 16384, BODY_BYTES_MAX = 1 << 30 };

static bool read_length(struct slice value, size_t *length)
{
    size_t i = 0, n = 0;
    while (i < value.len && value.at[i] == ' ')
        i++;
    size_t first = i;
    for (; i < value.len && text_is_digit(value.at[i]) && n < BODY_BYTES_MAX; i++)
        n = n * 10 + (size_t)(value.at[i] - '0');
    *length = n;
    return i > first && i == value.len && n < BODY_BYTES_MAX;
}

/* Finds the Content-Length in the header lines of `head`. Returns false if it is missing or not
 * a number. */
static bool find_length(struct slice head, size_t *length)
{
    static const char name[] = "content-length:";
    const size_t name_len = sizeof name - 1;
    const char *at = head.at, *end = head.at + head.len;
    while (at < end) {
        const char *eol = memchr(at, '\r', (size_t)(end - at));
        if (!eol)
            eol = end;
        if ((*at | 0x20) == 'c' && (size_t)(eol - at) > name_len &&
            strncasecmp(at, name, name_len) == 0)
            return read_length(slice_make(at + name_len, (size_t)(eol - at) - name_len), length);
        at = eol + 2;
    }
    return false;
}

enum load_outcome load_http_frame(struct slice bytes, struct load_http_frame *frame, size_t *need)
{
    static const char start[] = "HTTP/1.1 ";
    size_t start_len = sizeof start - 1;
    if (memcmp(bytes.at, start, bytes.len < start_len ? bytes.len : start_len) != 0)
        return LOAD_BROKEN;
    const char *blank = memmem(bytes.at, bytes.len, "\r\n\r\n", 4);
    if (!blank) {
        *need = bytes.len + 1;
        return bytes.len > HEAD_BYTES_MAX ? LOAD_BROKEN : LOAD_PARTIAL;
    }
    const char *line_end = memchr(bytes.at, '\r', bytes.len);
    const char *status = bytes.at + start_len;
    if (line_end - status < 3)
        return LOAD_BROKEN;
    int code = 0;
    for (int i = 0; i < 3; i++) {
        if (status[i] < '0' || status[i] > '9')
            return LOAD_BROKEN;
        code = code * 10 + status[i] - '0';
    }
    size_t length = 0;
    bool bodiless = code == 204 || code == 304;
    if (!bodiless &&
        (line_end == blank ||
         !find_length(slice_make(line_end + 2, (size_t)(blank - line_end - 2)), &length)))
        return LOAD_BROKEN;
    size_t head = (size_t)(blank - bytes.at) + 4;
    if (bytes.len < head + length) {
        *need = head + length;
        return LOAD_PARTIAL;
    }
    *frame = (struct load_http_frame){
        .status = code, .bytes = head + length, .body = slice_make(blank + 4, length)};
    return LOAD_ANSWER;
}

static bool is_good_result(struct slice rest)
{
    static const char *const good[] = {"created\"", "ok\"", "replaced\"", "existed\""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t len = strlen(good[i]);
        if (rest.len >= len && memcmp(rest.at, good[i], len) == 0)
            return true;
    }
    return false;
}

/* Returns the number of successful results of a batch; *problem is the first failed one. */
static uint64_t count_good(struct slice body, struct slice *problem)
{
    static const char mark[] = "\"result\":\"";
    uint64_t count = 0;
    const char *at = body.at, *end = body.at + body.len;
    problem->len = 0;
    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1))) {
        at += sizeof mark - 1;
        struct slice rest = slice_make(at, (size_t)(end - at));
        if (is_good_result(rest))
            count++;
        else if (problem->len == 0)
            *problem = rest;
    }
    return count;
}

/* Finds the string after `mark` in [at, end), without its quotes. Returns the position of the
 * mark, or NULL. */
static const char *find_string(const char *at, const char *end, const char *mark, size_t mark_len,
                               struct slice *out)
{
    const char *found = memmem(at, (size_t)(end - at), mark, mark_len);
    if (!found)
        return NULL;
    const char *from = found + mark_len;
    const char *quote = memchr(from, '"', (size_t)(end - from));
    if (!quote)
        return NULL;
    *out = slice_make(from, (size_t)(quote - from));
    return found;
}

static void find_jobs(struct slice body, struct load_answer *answer)
{
    static const char lease_mark[] = "\"lease\":\"", body_mark[] = "\"body\":\"",
                      due_mark[] = "\"due_at\":\"";
    const char *end = body.at + body.len;
    struct slice lease, next_lease;
    const char *at = find_string(body.at, end, lease_mark, sizeof lease_mark - 1, &lease);
    while (at && answer->item_count < LOAD_TAKE_MAX) {
        const char *from = lease.at + lease.len;
        const char *next = find_string(from, end, lease_mark, sizeof lease_mark - 1, &next_lease);
        struct load_item *item = &answer->items[answer->item_count++];
        *item = (struct load_item){.lease = lease};
        const char *behind = next ? next : end;
        find_string(from, behind, body_mark, sizeof body_mark - 1, &item->body);
        struct slice due;
        if (find_string(from, behind, due_mark, sizeof due_mark - 1, &due))
            timestamp_parse(due, &item->due_ms);
        at = next;
        lease = next_lease;
    }
}

static enum load_outcome load_http_parse(struct load_speech *speech, enum load_kind kind,
                                         uint32_t count, struct slice bytes,
                                         struct load_answer *answer)
{
    (void)speech;
    struct load_http_frame frame;
    enum load_outcome outcome = load_http_frame(bytes, &frame, &answer->need);
    if (outcome == LOAD_BROKEN)
        answer->problem = bytes;
    if (outcome != LOAD_ANSWER)
        return outcome;
    answer->bytes = frame.bytes;
    answer->failed = 0;
    answer->item_count = 0;
    if (frame.status < 200 || frame.status > 299) {
        answer->failed = count ? count : 1;
        answer->problem = bytes.len < frame.bytes ? bytes : slice_make(bytes.at, frame.bytes);
    } else if (kind == LOAD_TAKE) {
        find_jobs(frame.body, answer);
    } else if (count > 1 || kind == LOAD_ACK) {
        uint64_t good = count_good(frame.body, &answer->problem);
        answer->failed = good < count ? count - good : 0;
        if (answer->problem.len == 0)
            answer->problem = frame.body;
    }
    return LOAD_ANSWER;
}

/* ---- writing: requests are rendered in advance as far as possible ---- */

enum { TEXT_BYTES = 1024, HEADERS_BYTES = 20 * 1024, ANSWER_BYTES_MAX = 1 << 20 };

struct load_speech {
    bool own_ids;
    uint32_t run;
    struct buffer push;      /* "POST …/jobs?delay=" or "PUT …/jobs/" */
    struct buffer push_tail; /* " HTTP/1.1 … Content-Length: 200", blank line */
    struct buffer batch;     /* "POST /v1/jobs HTTP/1.1 … Content-Length: " */
    struct buffer line;      /* the beginning of a line of a batch, up to the delay */
    struct buffer take;      /* the whole request */
    struct buffer ack;       /* "POST /v1/ack HTTP/1.1 … Content-Length: " */
    struct load_body body;
};

/* Writes the HTTP version and the headers that all requests share. */
static void write_headers(char out[HEADERS_BYTES], const struct load_plan *plan)
{
    bool is_ipv6 = strchr(plan->host, ':') != NULL;
    snprintf(out, HEADERS_BYTES, "HTTP/1.1\r\nHost: %s%s%s:%s\r\n%s%s%s", is_ipv6 ? "[" : "",
             plan->host, is_ipv6 ? "]" : "", plan->port,
             plan->token ? "Authorization: Bearer " : "", plan->token ? plan->token : "",
             plan->token ? "\r\n" : "");
}

/* Returns false if memory is short. */
static bool open_texts(struct load_speech *speech, const struct load_plan *plan)
{
    char host[HEADERS_BYTES];
    write_headers(host, plan);
    if (plan->own_ids)
        buffer_append_format(&speech->push, "PUT /v1/topics/%s/jobs/", plan->topic);
    else
        buffer_append_format(&speech->push, "POST /v1/topics/%s/jobs?delay=", plan->topic);
    buffer_append_format(&speech->push_tail, " %sContent-Length: %zu\r\n\r\n", host,
                         plan->body_bytes);
    buffer_append_format(
        &speech->batch,
        "POST /v1/jobs %sContent-Type: application/x-ndjson\r\nContent-Length: ", host);
    buffer_append_format(&speech->line, "{\"topic\":\"%s\",\"delay\":\"", plan->topic);
    buffer_append_format(&speech->take,
                         "POST /v1/topics/%s/take?max=%u&wait=20s %sContent-Length: 0\r\n\r\n",
                         plan->topic, plan->take_max, host);
    buffer_append_format(&speech->ack,
                         "POST /v1/ack %sContent-Type: application/json\r\nContent-Length: ", host);
    return load_body_init(&speech->body, plan->body_bytes);
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
    load_body_fini(&speech->body);
    free(speech);
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
    struct buffer *texts[] = {&speech->push, &speech->push_tail, &speech->batch,
                              &speech->line, &speech->take,      &speech->ack};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        buffer_init(texts[i], LOAD_BODY_BYTES_MAX + HEADERS_BYTES + TEXT_BYTES);
    if (open_texts(speech, plan))
        return speech;
    snprintf(problem, LOAD_TEXT_BYTES_MAX, "out of memory");
    http_close(speech);
    return NULL;
}

static void append_buffer(struct buffer *out, const struct buffer *text)
{
    buffer_append(out, text->at, text->len);
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

/* A length that is known only afterwards: length_begin reserves its digits and length_end fills
 * them in. Leading zeros are allowed. */
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
    buffer_append(out, "ms", 2);
    append_buffer(out, &speech->push_tail);
    load_body_append(&speech->body, stamp, out);
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
        buffer_append(out, "ms\"", 3);
        if (speech->own_ids) {
            buffer_append_text(out, ",\"id\":\"");
            append_id(speech, out, &stamps[i]);
            buffer_append_byte(out, '"');
        }
        buffer_append(out, ",\"body\":\"", 9);
        load_body_append(&speech->body, &stamps[i], out);
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

bool load_http_url(const char *text, struct load_plan *plan, char problem[LOAD_TEXT_BYTES_MAX])
{
    struct url url;
    if (url_parse(slice_of(text), &url) != URL_OK || url.has_user || url.host_count != 1 ||
        url.path.len > 1 || url.has_query)
        return error_text(problem, LOAD_TEXT_BYTES_MAX,
                          "cannot use url '%.100s': write http://host:port", text);
    plan->wants_tls = url_scheme_is(&url, "https");
    if (!plan->wants_tls && !url_scheme_is(&url, "http"))
        return error_text(problem, LOAD_TEXT_BYTES_MAX,
                          "cannot use url '%.100s': write http://host:port", text);
    const struct url_host *host = &url.hosts[0];
    snprintf(plan->host, sizeof plan->host, "%.*s", (int)host->name.len, host->name.at);
    if (host->port)
        snprintf(plan->port, sizeof plan->port, "%u", host->port);
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
    char headers[HEADERS_BYTES], request[HEADERS_BYTES + TEXT_BYTES];
    write_headers(headers, plan);
    int len = snprintf(request, sizeof request, "%s %s %sContent-Length: 0\r\n\r\n", method, path,
                       headers);
    if (len < 0 || (size_t)len >= sizeof request) {
        snprintf(problem, LOAD_TEXT_BYTES_MAX, "path too long");
        return 0;
    }
    struct buffer bytes;
    buffer_init(&bytes, ANSWER_BYTES_MAX);
    int status = 0;
    if (load_socket_call(plan, slice_make(request, (size_t)len), &bytes, is_whole, problem)) {
        struct load_http_frame frame;
        size_t need;
        if (load_http_frame(buffer_slice(&bytes), &frame, &need) == LOAD_ANSWER) {
            status = frame.status;
            if (answer)
                buffer_append_slice(answer, frame.body);
        } else {
            snprintf(problem, LOAD_TEXT_BYTES_MAX,
                     "'%.100s:%s' does not answer in HTTP, check that it is a tarry server",
                     plan->host, plan->port);
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
