#include "targets/http/transfer.h"

#include "base/clock.h"
#include "base/duration.h"
#include "base/text.h"
#include "base/timestamp.h"
#include "targets/http/webhook.h"
#include "targets/meta.h"
#include "targets/template.h"
#include "trace/carry.h"

#include <dirent.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum {
    CONNECT_MS = 5000,
    IN_BYTES = 4096, /* of libcurl, per handle */
    /* the minimum that libcurl accepts; used for bodies over 64 KiB and by TLS */
    OUT_BYTES = 16384,
    AGE_MAX_S = 30,   /* maximum idle time of a connection */
    LIFE_MAX_S = 120, /* maximum age of a connection, after which its address is checked again */
    TEXT_BYTES_KEPT = 2048,
    PATH_BYTES_MAX = 8192,
    HEADER_VALUE_BYTES_MAX = 4096, /* of a header of the topic's settings */
    HEADERS_BYTES_MAX = 32 * 1024 + TARGET_HEADER_LINES_MAX * (HEADER_VALUE_BYTES_MAX + 128),
    EXPECT_BYTES = 64 * 1024, /* well below libcurl's own limit for Expect */
    DATE_BYTES_MAX = 64
};

/* ---- interpretation of answers ---- */

static struct slice trim_blanks(struct slice text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.at[text.len - 1]))
        text.len--;
    while (text.len > 0 && (*text.at == ' ' || *text.at == '\t')) {
        text.at++;
        text.len--;
    }
    return text;
}

/* Parses "HTTP/1.1 204 No Content" or "HTTP/2 204". */
static void take_status(struct target_answer *answer, struct slice line)
{
    uint64_t status;
    if (line.len < 5 || memcmp(line.at, "HTTP/", 5) != 0)
        return;
    const char *blank = memchr(line.at, ' ', line.len);
    size_t at = blank ? (size_t)(blank - line.at) + 1 : line.len;
    if (line.len - at >= 3 && text_parse_u64(slice_make(line.at + at, 3), 999, &status) &&
        status >= 200)
        answer->status = (uint32_t)status;
}

static int64_t within_a_day(int64_t ms)
{
    return ms < 0 ? 0 : ms > TARGET_RETRY_AFTER_MS_MAX ? TARGET_RETRY_AFTER_MS_MAX : ms;
}

/* Parses Retry-After: seconds or a date (RFC 9110 section 10.2.3). Other values are ignored. */
static void take_retry_after(struct target_answer *answer, struct slice value, int64_t wall_ms)
{
    char date[DATE_BYTES_MAX];
    if (value.len == 0 || value.len >= sizeof date)
        return;
    memcpy(date, value.at, value.len);
    date[value.len] = '\0';
    if (strspn(date, "0123456789") == value.len) {
        uint64_t seconds = TARGET_RETRY_AFTER_MS_MAX / 1000;
        (void)text_parse_u64(value, TARGET_RETRY_AFTER_MS_MAX / 1000, &seconds);
        answer->retry_after_ms = (int64_t)seconds * 1000;
    } else {
        time_t at_s = curl_getdate(date, NULL);
        if (at_s < 0)
            return;
        answer->retry_after_ms = within_a_day((int64_t)at_s * 1000 - wall_ms);
    }
    answer->has_retry_after = true;
}

static void take_field(struct target_answer *answer, struct slice line, int64_t wall_ms)
{
    static const char name[] = "retry-after:";
    if (line.len >= sizeof name - 1 && strncasecmp(line.at, name, sizeof name - 1) == 0)
        take_retry_after(
            answer,
            trim_blanks(slice_make(line.at + sizeof name - 1, line.len - (sizeof name - 1))),
            wall_ms);
}

bool target_answer_add_line(struct target_answer *answer, struct slice line, int64_t wall_ms)
{
    answer->header_bytes += line.len;
    if (answer->header_bytes > TARGET_ANSWER_HEADER_BYTES_MAX)
        return false;
    if (answer->is_in_head && trim_blanks(line).len == 0) {
        answer->is_in_head = false;
    } else if (answer->is_in_head) {
        if (answer->status)
            take_field(answer, line, wall_ms);
    } else if (!answer->status) { /* otherwise it belongs to a trailer */
        take_status(answer, line);
        answer->is_in_head = true;
    }
    return true;
}

bool target_answer_add_body(struct target_answer *answer, size_t bytes)
{
    answer->body_bytes += bytes;
    return answer->body_bytes <= TARGET_ANSWER_BODY_BYTES_MAX;
}

static bool is_dead_code(uint32_t status, const struct target_codes *dead_on, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (status >= dead_on[i].from && status <= dead_on[i].to)
            return true;
    return status == 410;
}

void target_answer_evaluate(const struct target_answer *answer, const struct target_codes *dead_on,
                            size_t dead_on_count, struct target_report *out)
{
    uint32_t status = answer->status;
    bool is_busy = status == 429 || status == 503;
    *out = (struct target_report){.outcome = TARGET_FAILED, .retry_after_ms = -1, .code = status};
    if (status >= 200 && status < 300) {
        out->outcome = TARGET_DONE;
        return;
    }
    bool is_redirect = status >= 300 && status < 400;
    (void)snprintf(out->error, sizeof out->error, "http %u%s", (unsigned)status,
                   is_redirect ? ", redirects are not followed" : "");
    if (is_dead_code(status, dead_on, dead_on_count)) {
        out->outcome = TARGET_REFUSED;
        return;
    }
    out->is_ailing = status >= 500;
    out->is_limited = status == 429;
    if (is_busy && answer->has_retry_after)
        out->retry_after_ms = answer->retry_after_ms;
}

/* ---- trusted CAs ---- */

/* Returns true if the directory contains names by hash, such as "5ad8a5d6.0". */
static bool is_hashed(const char *path)
{
    DIR *dir = opendir(path);
    bool found = false;
    if (!dir)
        return false;
    for (struct dirent *entry; !found && (entry = readdir(dir));) {
        size_t len = strlen(entry->d_name);
        found = len > 2 && strcmp(entry->d_name + len - 2, ".0") == 0;
    }
    closedir(dir);
    return found;
}

static bool add_system_trust(SSL_CTX *tls)
{
    const char *path = getenv(X509_get_default_cert_dir_env());
    const char *file = getenv(X509_get_default_cert_file_env());
    if (!path)
        path = X509_get_default_cert_dir();
    if (file || !is_hashed(path))
        return SSL_CTX_set_default_verify_paths(tls) == 1;
    return SSL_CTX_load_verify_locations(tls, NULL, path) == 1;
}

/* Adds the trusted CAs. The system's CAs are looked up individually by hash if they are stored that
 * way, because reading all of them for each connection would cost more than everything else.
 * Returns false if the policy's ca-file cannot be read, or when out of memory. */
static bool add_trust(SSL_CTX *tls, struct guard *guard)
{
    char ca_file[GUARD_PATH_BYTES_MAX];
    if (!add_system_trust(tls))
        return false;
    return !guard_ca_file(guard, ca_file) || SSL_CTX_load_verify_locations(tls, ca_file, NULL) == 1;
}

/* ---- the answer as a result ---- */

/* Takes the content type from a line of the head. A type that is too long for a job is dropped. */
static void result_take_type(struct target_result *result, struct slice line)
{
    static const char name[] = "content-type:";
    if (line.len < sizeof name - 1 || strncasecmp(line.at, name, sizeof name - 1) != 0)
        return;
    struct slice type =
        trim_blanks(slice_make(line.at + sizeof name - 1, line.len - (sizeof name - 1)));
    result->type_bytes = type.len <= sizeof result->type ? type.len : 0;
    memcpy(result->type, type.at, result->type_bytes);
}

static void result_lose(struct target_result *result, enum target_loss loss)
{
    buffer_fini(&result->body);
    result->loss = loss;
}

/* Keeps a part of the body. Returns false if the rest is not needed. */
static bool result_add(struct target_result *result, struct slice bytes)
{
    if (result->loss)
        return false;
    if (result->body.len + bytes.len > result->bytes_max) {
        result_lose(result, TARGET_LOSS_TOO_BIG);
        return false;
    }
    buffer_append(&result->body, bytes.at, bytes.len);
    if (result->body.failed)
        result_lose(result, TARGET_LOSS_NO_MEMORY);
    return !result->loss;
}

void target_result_free(struct target_result *result)
{
    if (!result)
        return;
    buffer_fini(&result->body);
    free(result);
}

bool target_transfer_keep_result(struct target_transfer *transfer, size_t bytes_max)
{
    transfer->result = calloc(1, sizeof *transfer->result);
    if (!transfer->result) {
        target_transfer_give_up(transfer, TARGET_UNSENT, false, "out of memory");
        return false;
    }
    transfer->result->bytes_max = bytes_max;
    buffer_init(&transfer->result->body, bytes_max);
    return true;
}

struct target_result *target_transfer_take_result(struct target_transfer *transfer)
{
    struct target_result *result = transfer->result;
    transfer->result = NULL;
    return result;
}

/* Adds the result to the report of an accepted message. */
static void report_result(struct target_transfer *transfer, CURLcode code)
{
    struct target_result *result = transfer->result;
    struct target_report *report = &transfer->report;
    if (!result || (report->outcome != TARGET_DONE && !(transfer->is_call && report->code)))
        return;
    if (code != CURLE_OK && !result->loss)
        result_lose(result, TARGET_LOSS_INCOMPLETE);
    report->loss = result->loss;
    if (result->loss)
        return;
    report->result = buffer_slice(&result->body);
    report->result_type = slice_make(result->type, result->type_bytes);
}

/* ---- callbacks of libcurl ---- */

static size_t on_header(char *at, size_t size, size_t count, void *ctx)
{
    struct target_transfer *transfer = ctx;
    size_t len = size * count;
    int64_t wall_ms = len > 0 && (*at | 0x20) == 'r' ? clock_wall_ms() : 0;
    if (!target_answer_add_line(&transfer->answer, slice_make(at, len), wall_ms))
        return 0;
    if (transfer->result && transfer->answer.status && transfer->answer.is_in_head)
        result_take_type(transfer->result, slice_make(at, len));
    return len;
}

static size_t on_body(char *at, size_t size, size_t count, void *ctx)
{
    struct target_transfer *transfer = ctx;
    bool has_room = target_answer_add_body(&transfer->answer, size * count);
    if (transfer->result)
        has_room |= result_add(transfer->result, slice_make(at, size * count));
    return has_room ? size * count : 0;
}

/* Runs when the request is about to be sent. If a reused connection ends before the answer begins,
 * libcurl comes here again on its own. A request that the peer may have received is not sent twice
 * within one attempt. With HTTP/2, a peer can also state that it did not process a request: it
 * rejects the stream, or requires HTTP/1.1 (RFC 9113 section 7). libcurl then comes here again too,
 * and only in that case if the connection was new. */
static int on_connected(void *ctx, char *peer, char *local, int peer_port, int local_port)
{
    struct target_transfer *transfer = ctx;
    struct target_multi *multi = transfer->opening.multi;
    (void)local, (void)peer_port;
    bool is_refused = transfer->offers_http2 && transfer->mark.is_first && !transfer->is_refused;
    if (transfer->has_begun && !is_refused && !target_multi_took_nothing(multi, &transfer->mark))
        return CURL_PREREQFUNC_ABORT;
    transfer->is_refused = transfer->has_begun && is_refused;
    transfer->has_begun = true;
    target_multi_mark(multi, &transfer->opening, peer, local_port, &transfer->mark);
    return CURL_PREREQFUNC_OK;
}

static CURLcode on_tls(CURL *easy, void *tls, void *ctx)
{
    (void)easy;
    return add_trust(tls, ctx) ? CURLE_OK : CURLE_SSL_CACERT_BADFILE;
}

/* ---- life ---- */

/* Disables everything that libcurl would do besides one request to this host: proxies, redirects,
 * netrc, other protocols. */
static void set_guards(CURL *easy, struct guard *guard)
{
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    /* A resumed session would not verify the certificate again. */
    curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
    curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_tls);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, guard);
}

static void set_options(struct target_transfer *transfer, const char *version)
{
    char agent[64];
    CURL *easy = transfer->easy;
    (void)snprintf(agent, sizeof agent, "tarry/%s", version);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 1L);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, agent);
    curl_easy_setopt(
        easy, CURLOPT_HTTP_VERSION,
        (long)(transfer->offers_http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)IN_BYTES);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)OUT_BYTES);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)AGE_MAX_S);
    curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, (long)LIFE_MAX_S);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
}

struct target_transfer *target_transfer_new(struct guard *guard, bool offers_http2,
                                            const char *version, void *owner)
{
    struct target_transfer *transfer = calloc(1, sizeof *transfer);
    if (!transfer)
        return NULL;
    list_init(&transfer->list);
    buffer_init(&transfer->text, TEXT_BYTES_KEPT);
    transfer->owner = owner;
    transfer->guard = guard;
    transfer->offers_http2 = offers_http2;
    transfer->easy = curl_easy_init();
    if (!transfer->easy) {
        free(transfer);
        return NULL;
    }
    set_options(transfer, version);
    set_guards(transfer->easy, guard);
    return transfer;
}

static void secret_wipe(struct target_transfer *transfer)
{
    if (transfer->secret && transfer->text.at)
        explicit_bzero(transfer->text.at, transfer->text.len);
    transfer->secret = 0;
}

void target_transfer_free(struct target_transfer *transfer)
{
    if (!transfer)
        return;
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->pins);
    secret_wipe(transfer);
    buffer_fini(&transfer->text);
    target_result_free(transfer->result);
    free(transfer);
}

void target_transfer_clear(struct target_transfer *transfer)
{
    secret_wipe(transfer);
    buffer_clear_and_trim(&transfer->text, TEXT_BYTES_KEPT);
    transfer->answer = (struct target_answer){0};
    target_result_free(target_transfer_take_result(transfer));
    transfer->opening.error = 0;
    transfer->has_begun = transfer->is_refused = transfer->is_decided = false;
    transfer->mark = (struct target_mark){0};
    transfer->explained = NULL;
}

void target_transfer_give_up(struct target_transfer *transfer, enum target_outcome outcome,
                             bool is_ailing, const char *why)
{
    struct target_report *report = &transfer->report;
    *report =
        (struct target_report){.outcome = outcome, .is_ailing = is_ailing, .retry_after_ms = -1};
    (void)snprintf(report->error, sizeof report->error, "%s", why);
    transfer->is_decided = true;
}

/* ---- the request ----
 *
 * URL, header lines and body, one after the other in a transfer's text. Data of a job cannot split
 * a line, because control bytes are not copied. */

static bool refuse_request(struct target_transfer *transfer, enum target_outcome outcome,
                           const char *why)
{
    target_transfer_give_up(transfer, outcome, false, why);
    return false;
}

/* ---- header lines ---- */

static struct buffer *begin_line(struct target_transfer *transfer, const char *name)
{
    struct buffer *text = &transfer->text;
    if (transfer->header_count == TARGET_HEADERS_MAX) {
        text->failed = true;
        return text;
    }
    transfer->header_at[transfer->header_count++] = (uint32_t)text->len;
    buffer_append_text(text, name);
    return text;
}

static void end_line(struct target_transfer *transfer)
{
    buffer_append_byte(&transfer->text, '\0');
}

static bool is_blank(struct slice value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.at[i] != ' ' && value.at[i] != '\t')
            return false;
    return true;
}

/* Appends a header value. For libcurl, "Name:" means to omit a header, and "Name;" an empty one. */
static void append_value(struct buffer *text, struct slice value)
{
    if (is_blank(value)) {
        buffer_append_byte(text, ';');
        return;
    }
    buffer_append_text(text, ": ");
    for (size_t i = 0; i < value.len; i++) {
        unsigned char byte = (unsigned char)value.at[i];
        buffer_append_byte(text, byte < ' ' || byte == 0x7f ? '?' : (char)byte);
    }
}

static void add_line(struct target_transfer *transfer, const char *name, struct slice value)
{
    append_value(begin_line(transfer, name), value);
    end_line(transfer);
}

/* Adds the standard trace headers of the job, for peers that do not know tarry's. */
static void add_trace(struct target_transfer *transfer, struct slice meta)
{
    struct trace_context context;
    struct slice state;
    char parent[TRACE_PARENT_BYTES];
    if (!trace_meta_find(meta, &context, &state))
        return;
    trace_parent_emit(&context, parent);
    add_line(transfer, "traceparent", slice_make(parent, sizeof parent));
    if (state.len)
        add_line(transfer, "tracestate", state);
}

/* Adds the job's meta, each as a header; tarry's own are not sent. */
static void add_meta(struct target_transfer *transfer, struct slice meta)
{
    struct slice name, value;
    for (size_t at = 0; target_meta_next(meta, &at, &name, &value);) {
        struct buffer *text = begin_line(transfer, "Tarry-Meta-");
        buffer_append_slice(text, name);
        append_value(text, value);
        end_line(transfer);
    }
}

/* Adds further headers, each by its own name. A signature is not shown. */
static void add_attributes(struct target_transfer *transfer, struct slice attributes)
{
    struct slice name, value;
    for (size_t at = 0; job_meta_next(attributes, &at, &name, &value);) {
        add_line(transfer, name.at, value); /* a NUL ends the name */
        if (slice_is(name, "authorization"))
            transfer->secret = transfer->header_count;
    }
}

static void add_type(struct target_transfer *transfer, const struct job *job)
{
    static const char plain[] = "application/octet-stream";
    add_line(transfer, "Content-Type", job->content_type.len ? job->content_type : slice_of(plain));
    if (job->body.len >= EXPECT_BYTES) { /* libcurl would wait for permission to send */
        buffer_append_byte(begin_line(transfer, "Expect"), ':');
        end_line(transfer);
    }
}

static void add_lines(struct target_transfer *transfer, const struct job *job)
{
    add_line(transfer, "Tarry-Topic", job->topic);
    add_line(transfer, "Tarry-Id", job->id);
    buffer_append_u64(begin_line(transfer, "Tarry-Attempt: "), job->attempt);
    end_line(transfer);
    timestamp_emit(begin_line(transfer, "Tarry-Due-At: "), job->due_ms);
    end_line(transfer);
    add_trace(transfer, job->meta);
    add_meta(transfer, job->meta);
}

/* ---- a credential ---- */

static void append_base64(struct buffer *out, const char *text, size_t len)
{
    char *at = buffer_reserve(out, 4 * ((len + 2) / 3) + 1);
    if (at)
        out->len +=
            (size_t)EVP_EncodeBlock((unsigned char *)at, (const unsigned char *)text, (int)len);
}

/* Adds the policy file's credential for this origin. */
static void add_authorization(struct target_transfer *transfer, struct slice origin)
{
    struct guard_credential credential;
    char pair[2 * GUARD_SECRET_BYTES_MAX], name[GUARD_ORIGIN_BYTES];
    (void)snprintf(name, sizeof name, "%.*s", (int)origin.len, origin.at);
    if (!guard_find_credential(transfer->guard, name, &credential))
        return;
    if (credential.is_token) {
        buffer_append_text(begin_line(transfer, "Authorization: Bearer "), credential.password);
    } else {
        int len = snprintf(pair, sizeof pair, "%s:%s", credential.user, credential.password);
        append_base64(begin_line(transfer, "Authorization: Basic "), pair, (size_t)len);
        explicit_bzero(pair, sizeof pair);
    }
    end_line(transfer);
    transfer->secret = transfer->header_count;
    explicit_bzero(&credential, sizeof credential);
}

/* ---- the whole request ---- */

/* Writes the URL. The origin is the endpoint's text; only path and query are filled in. */
static bool write_url(struct target_transfer *transfer, const struct target_message *message,
                      struct slice origin, struct slice path)
{
    struct buffer *text = &transfer->text;
    buffer_append_slice(text, origin);
    if (message->is_call) {
        buffer_append_slice(text, path);
        buffer_append_byte(text, '\0');
        return true;
    }
    if (path.len == 0 || path.at[0] != '/')
        buffer_append_byte(text, '/');
    if (!template_fill(path, message->job, TEMPLATE_URL, PATH_BYTES_MAX, text))
        return refuse_request(
            transfer, TARGET_REFUSED,
            "the URL is too long or contains '..' after its template is filled in");
    buffer_append_byte(text, '\0');
    return true;
}

/* Adds the headers of Standard Webhooks; without the key that the topic names, nothing is sent. */
static bool add_signature(struct target_transfer *transfer, const struct target_message *message,
                          struct webhook *webhook)
{
    struct webhook_headers headers;
    enum webhook_result result =
        webhook_sign(webhook, message->setting, message->job, clock_wall_ms() / 1000, &headers);
    if (result == WEBHOOK_NO_KEY)
        return refuse_request(
            transfer, TARGET_FAILED,
            "the policy file does not have the key in the topic's 'sign', add it");
    if (result == WEBHOOK_FAILED)
        return refuse_request(transfer, TARGET_UNSENT, "out of memory");
    add_line(transfer, "webhook-id", slice_of(headers.id));
    buffer_append_i64(begin_line(transfer, "webhook-timestamp: "), headers.timestamp_s);
    end_line(transfer);
    if (result == WEBHOOK_SIGNED)
        add_line(transfer, "webhook-signature", slice_of(headers.signature));
    return true;
}

/* Adds the headers of the topic's settings, filled in from the job. */
static bool add_headers(struct target_transfer *transfer, const struct target_message *message)
{
    struct buffer value;
    bool is_good = true;
    buffer_init(&value, SIZE_MAX / 2);
    for (size_t i = 0; is_good && i < message->setting->header_count; i++) {
        const struct target_header *header = &message->setting->headers[i];
        buffer_clear(&value);
        is_good = template_fill(slice_of(header->value), message->job, TEMPLATE_PLAIN,
                                HEADER_VALUE_BYTES_MAX, &value);
        if (is_good)
            add_line(transfer, header->name, buffer_slice(&value));
    }
    is_good = is_good || refuse_request(transfer, value.failed ? TARGET_UNSENT : TARGET_REFUSED,
                                        value.failed ? "out of memory"
                                                     : "a header of the topic's settings is too "
                                                       "long once its template is filled");
    buffer_fini(&value);
    return is_good;
}

/* Writes URL, headers and body. Returns false with `report` set on failure. */
static bool write_request(struct target_transfer *transfer, const struct target_message *message,
                          struct webhook *webhook, struct slice origin, struct slice path)
{
    const struct job *job = message->job;
    struct buffer *text = &transfer->text;
    buffer_clear(text);
    text->bytes_max = origin.len + PATH_BYTES_MAX + HEADERS_BYTES_MAX + job->body.len;
    transfer->header_count = transfer->secret = 0;
    if (!write_url(transfer, message, origin, path))
        return false;
    add_type(transfer, job);
    if (!message->is_call) {
        add_authorization(transfer, origin);
        add_lines(transfer, job);
    }
    add_attributes(transfer, message->attributes);
    if (!message->is_call &&
        (!add_headers(transfer, message) || !add_signature(transfer, message, webhook)))
        return false;
    transfer->body_at = text->len;
    transfer->body_bytes = job->body.len;
    buffer_append_slice(text, job->body);
    buffer_append_byte(text, '\0');
    if (text->failed)
        return refuse_request(transfer, TARGET_UNSENT, "out of memory");
    return true;
}

/* ---- before the transfer ---- */

/* Sets the pointers to the headers, when the text is complete and no longer moves. */
static void point_headers(struct target_transfer *transfer)
{
    for (size_t i = 0; i < transfer->header_count; i++) {
        bool is_last = i + 1 == transfer->header_count;
        transfer->headers[i].data = transfer->text.at + transfer->header_at[i];
        transfer->headers[i].next = is_last ? NULL : &transfer->headers[i + 1];
    }
}

static void explain_request(const struct target_transfer *transfer)
{
    buffer_append_format(transfer->explained, "POST %s\n", transfer->text.at);
    for (size_t i = 0; i < transfer->header_count; i++)
        buffer_append_format(transfer->explained, "> %s\n",
                             i + 1 == transfer->secret ? "Authorization: (from the policy file)"
                                                       : transfer->headers[i].data);
    buffer_append_format(transfer->explained, "> (%zu bytes of body)\n", transfer->body_bytes);
}

bool target_transfer_fill(struct target_transfer *transfer, const struct target_message *message,
                          struct webhook *webhook, struct slice origin, struct slice path,
                          int64_t now_ms)
{
    const struct target_setting *setting = message->setting;
    int64_t connect_ms = setting->timeout_ms < CONNECT_MS ? setting->timeout_ms : CONNECT_MS;
    transfer->tag = message->tag;
    transfer->is_call = message->is_call;
    transfer->explained = message->explained;
    transfer->started_ms = now_ms;
    transfer->timeout_ms = setting->timeout_ms;
    transfer->until_ms = now_ms + setting->timeout_ms;
    transfer->dead_on_count = setting->dead_on_count;
    memcpy(transfer->dead_on, setting->dead_on, sizeof transfer->dead_on);
    if (!write_request(transfer, message, webhook, origin, path))
        return false;
    point_headers(transfer);
    curl_easy_setopt(transfer->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers);
    curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDS, transfer->text.at + transfer->body_at);
    curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->body_bytes);
    if (curl_easy_setopt(transfer->easy, CURLOPT_URL, transfer->text.at) != CURLE_OK) {
        target_transfer_give_up(transfer, TARGET_UNSENT, false, "out of memory");
        return false;
    }
    if (transfer->explained)
        explain_request(transfer);
    return true;
}

bool target_transfer_pin(struct target_transfer *transfer, const char *line, uint64_t generation)
{
    if (transfer->pinned == generation)
        return true;
    struct curl_slist *pins = curl_slist_append(NULL, line);
    if (!pins)
        return false;
    curl_easy_setopt(transfer->easy, CURLOPT_RESOLVE, pins);
    curl_slist_free_all(transfer->pins);
    transfer->pins = pins;
    transfer->pinned = generation;
    return true;
}

/* ---- after the transfer ---- */

/* Describes from the socket's errno why there is no connection. */
static const char *no_connection(const struct target_transfer *transfer)
{
    long number = transfer->opening.error;
    if (!number)
        (void)curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &number);
    switch (number) {
    case ECONNREFUSED:
        return "connection refused";
    case ENETUNREACH:
    case EHOSTUNREACH:
        return "no route to the host";
    case EACCES:
        return "the policy file does not allow the address";
    case ENOMEM:
    case ENOBUFS:
        return "out of memory";
    case EMFILE:
    case ENFILE:
        return "out of descriptors, raise the limit of open files";
    default:
        return "no connection";
    }
}

/* Describes from OpenSSL's result why the peer's certificate was rejected. */
static const char *not_trusted(CURL *easy)
{
    long decision = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &decision);
    switch (decision) {
    case X509_V_OK:
    case X509_V_ERR_UNSPECIFIED: /* libcurl compares names before it checks this */
        return "certificate is for another host";
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "certificate has expired";
    default:
        return "certificate not trusted";
    }
}

/* Returns a short description of libcurl's result for users; NULL if libcurl itself failed, not the
 * peer or the network. */
static const char *reason_of(const struct target_transfer *transfer, CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_CONNECT:
        return no_connection(transfer);
    case CURLE_OPERATION_TIMEDOUT:
        return "no connection in time";
    case CURLE_PEER_FAILED_VERIFICATION:
        return not_trusted(transfer->easy);
    case CURLE_SSL_CONNECT_ERROR:
        return "tls handshake failed";
    case CURLE_SSL_CACERT_BADFILE:
        return "the ca-file of the policy file cannot be read";
    case CURLE_GOT_NOTHING:
    case CURLE_ABORTED_BY_CALLBACK: /* from on_connected */
        return "closed without an answer";
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        return "connection lost";
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return "the answer is not http";
    case CURLE_OUT_OF_MEMORY:
        return transfer->has_begun ? "the answer's header is too long" : "out of memory";
    case CURLE_WRITE_ERROR:
        return "the answer's header is too long";
    default:
        return NULL;
    }
}

static const char *version_name(long version)
{
    return version == CURL_HTTP_VERSION_2_0   ? "2"
           : version == CURL_HTTP_VERSION_1_0 ? "1.0"
                                              : "1.1";
}

void target_transfer_explain(const struct target_transfer *transfer, int64_t now_ms)
{
    const struct target_report *report = &transfer->report;
    long version = 0;
    if (!transfer->explained)
        return;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_HTTP_VERSION, &version);
    if (report->code)
        buffer_append_format(transfer->explained, "< HTTP/%s %u\n", version_name(version),
                             (unsigned)report->code);
    buffer_append_format(
        transfer->explained, "%s after %lld ms%s%s\n", target_outcome_name(report->outcome),
        (long long)(now_ms - transfer->started_ms), report->error[0] ? ": " : "", report->error);
}

static void give_up_late(struct target_transfer *transfer)
{
    struct buffer text;
    buffer_init(&text, TARGET_ERROR_BYTES);
    buffer_append_text(&text, "timed out after ");
    duration_emit(&text, transfer->timeout_ms);
    buffer_append_byte(&text, '\0');
    target_transfer_give_up(transfer, TARGET_FAILED, true, text.failed ? "timed out" : text.at);
    buffer_fini(&text);
}

/* Ends a transfer after an error in libcurl: the endpoint is not at fault, and it only counts as an
 * attempt if something was sent. */
static void give_up_libcurl(struct target_transfer *transfer, CURLcode code)
{
    char why[TARGET_ERROR_BYTES];
    (void)snprintf(why, sizeof why, "libcurl failed with error %d: %.150s", (int)code,
                   curl_easy_strerror(code));
    target_transfer_give_up(transfer, transfer->has_begun ? TARGET_FAILED : TARGET_UNSENT, false,
                            why);
}

/* Returns true for errors that are not the endpoint's fault, as long as nothing was sent. After
 * that, libcurl also reports "out of memory" if an answer is too large for it. */
static bool is_our_fault(const struct target_transfer *transfer, CURLcode code)
{
    int error = code == CURLE_COULDNT_CONNECT ? transfer->opening.error : 0;
    return code == CURLE_OUT_OF_MEMORY || error == EMFILE || error == ENFILE || error == ENOMEM ||
           error == ENOBUFS;
}

bool target_transfer_wants_http1(const struct target_transfer *transfer)
{
    long version = 0;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_HTTP_VERSION, &version);
    return transfer->is_refused && version == CURL_HTTP_VERSION_1_1;
}

void target_transfer_evaluate(struct target_transfer *transfer, CURLcode code)
{
    if (transfer->is_decided)
        return;
    bool is_late = code == CURLE_OPERATION_TIMEDOUT &&
                   (transfer->has_begun || clock_boot_us() / 1000 >= transfer->until_ms);
    if (transfer->answer.status)
        target_answer_evaluate(&transfer->answer, transfer->dead_on, transfer->dead_on_count,
                               &transfer->report);
    else if (is_late)
        give_up_late(transfer);
    else if (!reason_of(transfer, code))
        give_up_libcurl(transfer, code);
    else if (is_our_fault(transfer, code) && !transfer->has_begun)
        target_transfer_give_up(transfer, TARGET_UNSENT, false, reason_of(transfer, code));
    else
        target_transfer_give_up(transfer, TARGET_FAILED, true, reason_of(transfer, code));
    report_result(transfer, code);
    transfer->is_decided = true;
}
