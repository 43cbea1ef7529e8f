#include "targets/http_transfer.h"

#include "base/clock.h"
#include "base/duration.h"
#include "targets/http_trust.h"

#include <errno.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CONNECT_MS = 5000,
    IN_BYTES = 4096,   /* of libcurl, per handle */
    OUT_BYTES = 16384, /* the least it accepts; used by bodies over 64 KiB and by TLS */
    AGE_MAX_S = 30,    /* of an idle connection */
    LIFE_MAX_S = 120,  /* of any: then its address is looked at again */
    TEXT_BYTES_KEPT = 2048
};

/* ---- what libcurl hands us ---- */

static size_t on_header(char *at, size_t size, size_t count, void *ctx)
{
    struct target_transfer *transfer = ctx;
    size_t len = size * count;
    int64_t wall_ms = len > 0 && (*at | 0x20) == 'r' ? clock_wall_ms() : 0;
    return target_answer_add_line(&transfer->answer, slice_make(at, len), wall_ms) ? len : 0;
}

static size_t on_body(char *at, size_t size, size_t count, void *ctx)
{
    struct target_transfer *transfer = ctx;
    (void)at;
    return target_answer_add_body(&transfer->answer, size * count) ? size * count : 0;
}

/* The request is about to be sent. Where a kept connection ends before its answer begins, libcurl
 * comes here once more by itself: a request that may have been taken is not sent a second time
 * within one attempt. */
static int on_connected(void *ctx, char *peer, char *local, int peer_port, int local_port)
{
    struct target_transfer *transfer = ctx;
    struct target_multi *multi = transfer->opening.multi;
    (void)local, (void)peer_port;
    if (transfer->has_begun && !target_multi_took_nothing(multi, &transfer->mark))
        return CURL_PREREQFUNC_ABORT;
    transfer->has_begun = true;
    target_multi_mark(multi, &transfer->opening, peer, local_port, &transfer->mark);
    return CURL_PREREQFUNC_OK;
}

static CURLcode on_tls(CURL *easy, void *tls, void *ctx)
{
    (void)easy;
    return target_trust_add(tls, ctx) ? CURLE_OK : CURLE_SSL_CACERT_BADFILE;
}

/* ---- life ---- */

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
    /* A session taken up again would not look at the certificate again. */
    curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
    curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_tls);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, guard);
}

static void set_options(struct target_transfer *transfer, bool is_tls, const char *version)
{
    char agent[64];
    CURL *easy = transfer->easy;
    (void)snprintf(agent, sizeof agent, "tarry/%s", version);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 1L);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, agent);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
                     (long)(is_tls ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
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

struct target_transfer *target_transfer_new(struct guard *guard, bool is_tls, const char *version,
                                            void *owner)
{
    struct target_transfer *transfer = calloc(1, sizeof *transfer);
    if (!transfer)
        return NULL;
    list_init(&transfer->list);
    buffer_init(&transfer->text, TEXT_BYTES_KEPT);
    transfer->owner = owner;
    transfer->guard = guard;
    transfer->easy = curl_easy_init();
    if (!transfer->easy) {
        free(transfer);
        return NULL;
    }
    set_options(transfer, is_tls, version);
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
    free(transfer);
}

void target_transfer_clear(struct target_transfer *transfer)
{
    secret_wipe(transfer);
    buffer_shrink(&transfer->text, TEXT_BYTES_KEPT);
    transfer->answer = (struct target_answer){0};
    transfer->opening.error = 0;
    transfer->has_begun = transfer->is_added = transfer->is_decided = false;
    transfer->explained = NULL;
}

/* ---- before ---- */

/* The whole text stands now, so its pieces have their places. */
static void point(struct target_transfer *transfer)
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
                             i + 1 == transfer->secret ? "Authorization: (of the policy file)"
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
    transfer->explained = message->explained;
    transfer->started_ms = now_ms;
    transfer->timeout_ms = setting->timeout_ms;
    transfer->until_ms = now_ms + setting->timeout_ms;
    transfer->dead_on_count = setting->dead_on_count;
    memcpy(transfer->dead_on, setting->dead_on, sizeof transfer->dead_on);
    if (!target_transfer_write(transfer, message, webhook, origin, path))
        return false;
    point(transfer);
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

/* ---- after ---- */

void target_transfer_give_up(struct target_transfer *transfer, enum target_outcome outcome,
                             bool is_ailing, const char *why)
{
    struct target_report *report = &transfer->report;
    *report =
        (struct target_report){.outcome = outcome, .is_ailing = is_ailing, .retry_after_ms = -1};
    (void)snprintf(report->error, sizeof report->error, "%s", why);
    transfer->is_decided = true;
}

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
        return "the address may not be reached by the policy file";
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

static const char *not_trusted(CURL *easy)
{
    long verdict = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &verdict);
    switch (verdict) {
    case X509_V_OK:
    case X509_V_ERR_UNSPECIFIED: /* libcurl compares names before it looks at this */
        return "certificate is of another host";
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "certificate has expired";
    default:
        return "certificate not trusted";
    }
}

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
    case CURLE_ABORTED_BY_CALLBACK: /* on_connected */
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
        return "no answer";
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

static void time_out(struct target_transfer *transfer)
{
    struct buffer text;
    buffer_init(&text, TARGET_ERROR_BYTES);
    buffer_append_text(&text, "timed out after ");
    duration_emit(&text, transfer->timeout_ms);
    buffer_append_byte(&text, '\0');
    target_transfer_give_up(transfer, TARGET_FAILED, true, text.failed ? "timed out" : text.at);
    buffer_fini(&text);
}

/* What the endpoint is not to blame for, as long as nothing was sent: once it was, libcurl is "out
 * of memory" where an answer is too much for it. */
static bool is_our_fault(const struct target_transfer *transfer, CURLcode code)
{
    int error = code == CURLE_COULDNT_CONNECT ? transfer->opening.error : 0;
    return code == CURLE_OUT_OF_MEMORY || error == EMFILE || error == ENFILE || error == ENOMEM ||
           error == ENOBUFS;
}

void target_transfer_judge(struct target_transfer *transfer, CURLcode code)
{
    if (transfer->is_decided)
        return;
    bool is_late = code == CURLE_OPERATION_TIMEDOUT &&
                   (transfer->has_begun || clock_boot_us() / 1000 >= transfer->until_ms);
    if (transfer->answer.status)
        target_answer_judge(&transfer->answer, transfer->dead_on, transfer->dead_on_count,
                            &transfer->report);
    else if (is_late)
        time_out(transfer);
    else if (is_our_fault(transfer, code) && !transfer->has_begun)
        target_transfer_give_up(transfer, TARGET_UNSENT, false, reason_of(transfer, code));
    else
        target_transfer_give_up(transfer, TARGET_FAILED, true, reason_of(transfer, code));
    transfer->is_decided = true;
}
