#include "trace/exporter.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/trouble.h"
#include "net/thread.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    CONNECT_MS = 5000,
    FIRST_AGAIN_MS = 1000,
    LAST_AGAIN_MS = 30 * 1000,
    ANSWER_BYTES_MAX = 16 * 1024, /* part of an answer that is parsed */
    REQUEST_BYTES_MAX = 8 << 20   /* never reached: a span has about 3 KiB at most */
};

struct trace_exporter {
    struct trace_exporter_options options;
    pthread_t thread;
    bool is_joined;
    CURLM *multi;
    CURL *curl;
    struct curl_slist *headers;
    struct buffer request, answer; /* used by the thread */
    bool is_down;                  /* used by the thread: the last batch failed */

    pthread_mutex_t lock; /* protects all following fields */
    pthread_cond_t changed;
    struct trace_span *first, **last; /* waiting spans, oldest first */
    uint32_t waiting;
    int64_t begun_us; /* time when the first of them arrived */
    int64_t wake_us;  /* INT64_MAX if not set */
    bool is_ending;
    int64_t end_us; /* time at which it gives up */
    struct trace_exporter_counts counts;
};

/* ---- waiting ---- */

/* Waits for a change or that time; the lock is held. */
static void wait_until(struct trace_exporter *exporter, int64_t at_us)
{
    if (at_us == INT64_MAX) {
        pthread_cond_wait(&exporter->changed, &exporter->lock);
        return;
    }
    struct timespec at = {.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000};
    pthread_cond_timedwait(&exporter->changed, &exporter->lock, &at);
}

/* Returns the time at which a batch is to be sent; the lock is held. */
static int64_t batch_due_us(const struct trace_exporter *exporter)
{
    if (!exporter->waiting)
        return INT64_MAX;
    return exporter->waiting >= EXPORTER_BATCH_MAX
               ? 0
               : exporter->begun_us + EXPORTER_DELAY_MS * 1000LL;
}

/* ---- one attempt ---- */

static size_t on_answer(char *bytes, size_t size, size_t count, void *ctx)
{
    struct trace_exporter *exporter = ctx;
    size_t len = size * count, room = ANSWER_BYTES_MAX - exporter->answer.len;
    buffer_append(&exporter->answer, bytes, len < room ? len : room);
    return len;
}

struct attempt {
    bool is_done, may_repeat;
    int64_t again_ms; /* requested by the collector; 0 if not */
    char error[160];
};

static void evaluate(struct trace_exporter *exporter, CURLcode code, struct attempt *attempt)
{
    long status = 0;
    curl_off_t again_s = 0;
    curl_easy_getinfo(exporter->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(exporter->curl, CURLINFO_RETRY_AFTER, &again_s);
    attempt->is_done = code == CURLE_OK && status >= 200 && status < 300;
    attempt->may_repeat =
        code != CURLE_OK || status == 429 || status == 502 || status == 503 || status == 504;
    attempt->again_ms = again_s > 0 && again_s < 86400 ? (int64_t)again_s * 1000 : 0;
    if (code != CURLE_OK)
        snprintf(attempt->error, sizeof attempt->error, "%s", curl_easy_strerror(code));
    else
        snprintf(attempt->error, sizeof attempt->error, "http %ld", status);
}

/* Returns the time limit of an attempt, which is shorter during a stop. */
static int64_t attempt_end_us(struct trace_exporter *exporter)
{
    int64_t end_us = clock_awake_us() + EXPORTER_ATTEMPT_MS * 1000LL;
    pthread_mutex_lock(&exporter->lock);
    if (exporter->is_ending && exporter->end_us < end_us)
        end_us = exporter->end_us;
    pthread_mutex_unlock(&exporter->lock);
    return end_us;
}

/* Runs the transfer until it ends. */
static CURLcode perform(struct trace_exporter *exporter)
{
    int64_t begun_us = clock_awake_us();
    for (;;) {
        int running = 0, left = 0;
        if (curl_multi_perform(exporter->multi, &running) != CURLM_OK)
            return CURLE_OUT_OF_MEMORY;
        CURLMsg *message = curl_multi_info_read(exporter->multi, &left);
        if (message && message->msg == CURLMSG_DONE)
            return message->data.result;
        int64_t now_us = clock_awake_us(), end_us = attempt_end_us(exporter);
        if (end_us - begun_us > EXPORTER_ATTEMPT_MS * 1000LL)
            end_us = begun_us + EXPORTER_ATTEMPT_MS * 1000LL;
        if (now_us >= end_us)
            return CURLE_OPERATION_TIMEDOUT;
        (void)curl_multi_poll(exporter->multi, NULL, 0, (int)((end_us - now_us) / 1000 + 1), NULL);
    }
}

static void try_once(struct trace_exporter *exporter, struct attempt *attempt)
{
    *attempt = (struct attempt){0};
    buffer_clear(&exporter->answer);
    curl_easy_setopt(exporter->curl, CURLOPT_POSTFIELDS, exporter->request.at);
    curl_easy_setopt(exporter->curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     (curl_off_t)exporter->request.len);
    if (curl_multi_add_handle(exporter->multi, exporter->curl) != CURLM_OK) {
        snprintf(attempt->error, sizeof attempt->error, "out of memory");
        return;
    }
    evaluate(exporter, perform(exporter), attempt);
    curl_multi_remove_handle(exporter->multi, exporter->curl);
}

/* ---- a batch ---- */

/* Returns the delay, of which up to a half is random, so that servers do not retry
 * simultaneously. */
static int64_t backoff_ms(uint32_t attempts)
{
    int64_t ms = FIRST_AGAIN_MS << (attempts < 6 ? attempts : 6);
    ms = ms < LAST_AGAIN_MS ? ms : LAST_AGAIN_MS;
    return ms / 2 + (int64_t)(random_u64() % (uint64_t)(ms / 2 + 1));
}

/* Sleeps until the next attempt. Returns false if that is after `give_up_us`. */
static bool rest(struct trace_exporter *exporter, int64_t wait_ms, int64_t give_up_us)
{
    int64_t at_us = clock_awake_us() + wait_ms * 1000;
    pthread_mutex_lock(&exporter->lock);
    bool is_asked = !exporter->is_ending; /* a stop makes one more attempt, immediately */
    while (is_asked && at_us <= give_up_us && clock_awake_us() < at_us && !exporter->is_ending)
        wait_until(exporter, at_us);
    bool goes_on = is_asked && at_us <= give_up_us;
    pthread_mutex_unlock(&exporter->lock);
    return goes_on;
}

/* Logs a failure once, and the recovery once. */
static void note_outcome(struct trace_exporter *exporter, const struct attempt *attempt)
{
    bool is_down = !attempt->is_done;
    if (is_down && !exporter->is_down)
        log_event(LOG_WARN, "traces not exported", LOG_TEXT("error", attempt->error),
                  LOG_TEXT("url", exporter->options.url));
    if (!is_down && exporter->is_down)
        log_event(LOG_INFO, "traces exported again");
    exporter->is_down = is_down;
    trouble_note(TROUBLE_TRACES, 0, is_down);
}

static void count(struct trace_exporter *exporter, uint64_t spans, const struct attempt *attempt)
{
    uint64_t rejected = attempt->is_done ? otlp_rejected(buffer_slice(&exporter->answer)) : spans;
    if (rejected > spans)
        rejected = spans;
    pthread_mutex_lock(&exporter->lock);
    exporter->counts.sent += spans - rejected;
    exporter->counts.failed += rejected;
    pthread_mutex_unlock(&exporter->lock);
}

static void send_batch(struct trace_exporter *exporter, const struct trace_span *first,
                       uint64_t spans)
{
    int64_t give_up_us = clock_awake_us() + EXPORTER_TIMEOUT_MS * 1000LL;
    struct attempt attempt = {0};
    buffer_clear(&exporter->request);
    otlp_request_write(&exporter->request, &exporter->options.resource, first);
    if (exporter->request.failed)
        snprintf(attempt.error, sizeof attempt.error, "out of memory");
    for (uint32_t attempts = 0; !exporter->request.failed; attempts++) {
        try_once(exporter, &attempt);
        note_outcome(exporter, &attempt);
        if (attempt.is_done)
            break;
        pthread_mutex_lock(&exporter->lock);
        exporter->counts.failures++;
        pthread_mutex_unlock(&exporter->lock);
        int64_t wait_ms = attempt.again_ms ? attempt.again_ms : backoff_ms(attempts);
        if (!attempt.may_repeat || !rest(exporter, wait_ms, give_up_us))
            break;
    }
    count(exporter, spans, &attempt);
    buffer_clear_and_trim(&exporter->request, 0);
}

/* Takes the oldest spans, at most a batch; the lock is held. */
static struct trace_span *take_batch(struct trace_exporter *exporter, uint32_t *spans)
{
    struct trace_span *first = exporter->first, *at = first;
    if (!first)
        return NULL;
    for (*spans = 1; *spans < EXPORTER_BATCH_MAX && at->next; at = at->next)
        ++*spans;
    exporter->first = at->next;
    at->next = NULL;
    if (!exporter->first)
        exporter->last = &exporter->first;
    exporter->waiting -= *spans;
    exporter->begun_us = clock_awake_us();
    return first;
}

static void free_spans(struct trace_span *span)
{
    while (span) {
        struct trace_span *next = span->next;
        trace_span_free(span);
        span = next;
    }
}

/* ---- the thread ---- */

/* Does what is due now, unlocked meanwhile. Returns false if there was nothing; the lock is
 * held. */
static bool do_due(struct trace_exporter *exporter)
{
    int64_t now_us = clock_awake_us();
    bool wakes = exporter->wake_us <= now_us, is_over;
    uint32_t spans = 0;
    struct trace_span *first = NULL;
    if (exporter->is_ending || batch_due_us(exporter) <= now_us)
        first = take_batch(exporter, &spans);
    if (!wakes && !first)
        return false;
    if (wakes)
        exporter->wake_us = INT64_MAX;
    is_over = exporter->is_ending && now_us >= exporter->end_us;
    if (is_over)
        exporter->counts.failed += spans;
    pthread_mutex_unlock(&exporter->lock);
    if (wakes && exporter->options.woken)
        exporter->options.woken(exporter->options.ctx);
    if (first && !is_over)
        send_batch(exporter, first, spans);
    free_spans(first);
    pthread_mutex_lock(&exporter->lock);
    return true;
}

static void run(void *ctx)
{
    struct trace_exporter *exporter = ctx;
    pthread_mutex_lock(&exporter->lock);
    while (do_due(exporter) || !exporter->is_ending) {
        int64_t due_us = batch_due_us(exporter);
        due_us = due_us < exporter->wake_us ? due_us : exporter->wake_us;
        if (!exporter->is_ending && due_us > clock_awake_us())
            wait_until(exporter, due_us);
    }
    pthread_mutex_unlock(&exporter->lock);
}

/* ---- any thread ---- */

void trace_exporter_add(struct trace_exporter *exporter, struct trace_span *span)
{
    bool wakes = false;
    span->next = NULL;
    pthread_mutex_lock(&exporter->lock);
    if (exporter->waiting == EXPORTER_WAITING_MAX) {
        exporter->counts.dropped++;
    } else {
        *exporter->last = span;
        exporter->last = &span->next;
        if (!exporter->waiting)
            exporter->begun_us = clock_awake_us();
        exporter->waiting++;
        wakes = exporter->waiting == 1 || exporter->waiting == EXPORTER_BATCH_MAX;
        span = NULL;
    }
    pthread_mutex_unlock(&exporter->lock);
    if (wakes)
        pthread_cond_signal(&exporter->changed);
    trace_span_free(span);
}

void trace_exporter_count_dropped(struct trace_exporter *exporter)
{
    pthread_mutex_lock(&exporter->lock);
    exporter->counts.dropped++;
    pthread_mutex_unlock(&exporter->lock);
}

void trace_exporter_wake_by(struct trace_exporter *exporter, int64_t at_us)
{
    pthread_mutex_lock(&exporter->lock);
    bool is_earlier = at_us < exporter->wake_us;
    if (is_earlier)
        exporter->wake_us = at_us;
    pthread_mutex_unlock(&exporter->lock);
    if (is_earlier)
        pthread_cond_signal(&exporter->changed);
}

void trace_exporter_read(struct trace_exporter *exporter, struct trace_exporter_counts *out)
{
    pthread_mutex_lock(&exporter->lock);
    *out = exporter->counts;
    pthread_mutex_unlock(&exporter->lock);
}

/* ---- life ---- */

static bool set_up(struct trace_exporter *exporter)
{
    const struct trace_exporter_options *options = &exporter->options;
    CURL *curl = exporter->curl;
    exporter->headers = curl_slist_append(NULL, "Content-Type: application/json");
    exporter->headers = exporter->headers ? curl_slist_append(exporter->headers, "Expect:") : NULL;
    for (size_t i = 0; exporter->headers && options->headers && options->headers[i]; i++)
        if (!curl_slist_append(exporter->headers, options->headers[i]))
            return false;
    curl_easy_setopt(curl, CURLOPT_URL, options->url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, exporter->headers);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "tarry/" TARRY_VERSION);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_answer);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, exporter);
    if (options->ca_file[0])
        curl_easy_setopt(curl, CURLOPT_CAINFO, options->ca_file);
    return exporter->headers;
}

static void fini(struct trace_exporter *exporter)
{
    free_spans(exporter->first);
    curl_easy_cleanup(exporter->curl);
    curl_multi_cleanup(exporter->multi);
    curl_slist_free_all(exporter->headers);
    buffer_fini(&exporter->request);
    buffer_fini(&exporter->answer);
    pthread_cond_destroy(&exporter->changed);
    pthread_mutex_destroy(&exporter->lock);
    free(exporter);
}

struct trace_exporter *trace_exporter_new(const struct trace_exporter_options *options)
{
    struct trace_exporter *exporter = calloc(1, sizeof *exporter);
    pthread_condattr_t by_awake;
    if (!exporter)
        return NULL;
    exporter->options = *options;
    exporter->last = &exporter->first;
    exporter->wake_us = INT64_MAX;
    buffer_init(&exporter->request, REQUEST_BYTES_MAX);
    buffer_init(&exporter->answer, ANSWER_BYTES_MAX);
    pthread_mutex_init(&exporter->lock, NULL);
    pthread_condattr_init(&by_awake);
    pthread_condattr_setclock(&by_awake, CLOCK_MONOTONIC);
    pthread_cond_init(&exporter->changed, &by_awake);
    pthread_condattr_destroy(&by_awake);
    exporter->multi = curl_multi_init();
    exporter->curl = curl_easy_init();
    if (exporter->multi && exporter->curl && set_up(exporter) &&
        thread_start(&exporter->thread, "traces", run, exporter) == 0)
        return exporter;
    fini(exporter);
    return NULL;
}

void trace_exporter_stop(struct trace_exporter *exporter, int64_t timeout_ms)
{
    pthread_mutex_lock(&exporter->lock);
    if (!exporter->is_ending)
        exporter->end_us = clock_awake_us() + timeout_ms * 1000;
    exporter->is_ending = true;
    pthread_mutex_unlock(&exporter->lock);
    pthread_cond_signal(&exporter->changed);
    curl_multi_wakeup(exporter->multi);
}

void trace_exporter_wait(struct trace_exporter *exporter)
{
    trace_exporter_stop(exporter, 0);
    if (!exporter->is_joined)
        thread_join(exporter->thread);
    exporter->is_joined = true;
}

void trace_exporter_free(struct trace_exporter *exporter)
{
    if (!exporter)
        return;
    trace_exporter_wait(exporter);
    fini(exporter);
}
