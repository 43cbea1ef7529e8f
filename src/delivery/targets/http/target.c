/*
 * http_target: an origin ("https://host:port") that receives each message as a POST.
 *
 * A message is a transfer. It waits until the host's addresses are known, then libcurl processes it
 * until its end or its timeout. It is reported at the end of the loop iteration at the latest, and
 * its handle is reused for the next message. An endpoint that is idle for a while closes its
 * connections and frees its memory.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "guard/address.h"
#include "guard/resolve.h"
#include "targets/http/multi.h"
#include "targets/http/transfer.h"
#include "targets/http/webhook.h"
#include "targets/place.h"
#include "targets/template.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    IDLE_MS = 10 * 1000,
    FRESH_MS = 1000,      /* age after which addresses are resolved again, while there is traffic */
    KNOWN_MS = 15 * 1000, /* age after which addresses are no longer used without an answer */
    LINE_BYTES_MAX = 1024
};

/* A question to the resolver. It outlives the name if that is freed first. */
struct name_question {
    struct http_name *name;
};

/*
 * The addresses of the endpoint's host, kept fresh, in libcurl's format so that libcurl itself does
 * not resolve names. After a change of the policy, nothing is sent before a new answer.
 */
struct http_name {
    const struct target_env *env;
    struct name_question *question; /* in progress, or NULL */
    void (*answered)(void *ctx);
    void *ctx;
    char host[URL_HOST_BYTES_MAX + 1];
    uint16_t port;
    /* time of the last question, and of the last answer with addresses */
    int64_t asked_ms, known_ms;
    uint64_t policy;               /* the guard's generation at the last check */
    uint64_t generation;           /* of `line`; 0: no line is needed */
    struct buffer line;            /* "host:port:address,address", NUL-terminated */
    char error[GUARD_ERROR_BYTES]; /* reason for missing addresses */
    bool is_temporary, is_unasked; /* ... the name server did not answer; it was not even asked */
};

struct http_endpoint {
    struct target target;
    const struct target_env *env;
    struct target_multi *multi; /* NULL if idle */
    struct http_name name;
    struct webhook *webhook;
    struct target_place place;
    bool wants_http1;    /* the host has rejected HTTP/2; tried again after it was idle */
    struct list waiting; /* waiting for addresses */
    struct list running; /* with libcurl, in order of their start */
    struct list decided; /* to be reported at the end of the loop iteration */
    struct list spare;
    uv_timer_t timer; /* for the next timeout of a message, or the end of idleness */
    int64_t timer_ms; /* time of the timer; INT64_MAX if not set */
    int64_t sent_ms;  /* time of the last message */
    struct iteration_end_call reporting;
    void (*closed)(void *ctx); /* set while it is closing */
    void *closed_ctx;
};

/* ---- the host's addresses ---- */

static void name_init(struct http_name *name, const struct target_env *env, const char *host,
                      uint16_t port, void (*answered)(void *ctx), void *ctx)
{
    *name = (struct http_name){.env = env, .port = port, .answered = answered, .ctx = ctx};
    (void)snprintf(name->host, sizeof name->host, "%s", host);
    buffer_init(&name->line, LINE_BYTES_MAX);
}

static void name_fini(struct http_name *name)
{
    if (name->question)
        name->question->name = NULL;
    buffer_fini(&name->line);
}

static void append_address(struct buffer *out, const struct sockaddr_storage *address)
{
    char text[INET6_ADDRSTRLEN];
    const void *generic = address;
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *ipv6 = generic;
        (void)inet_ntop(AF_INET6, &ipv6->sin6_addr, text, sizeof text);
        buffer_append_format(out, "[%s]", text);
    } else {
        const struct sockaddr_in *ipv4 = generic;
        (void)inet_ntop(AF_INET, &ipv4->sin_addr, text, sizeof text);
        buffer_append_text(out, text);
    }
}

/* Stores "host:port:address,address"; libcurl uses it until it receives another line. A host that
 * is an address needs no line, and libcurl before 8.13 cannot parse one with an IPv6 address. */
static void name_keep(struct http_name *name, const struct resolved *resolved)
{
    struct guard_address ignored;
    struct buffer line;
    if (guard_address_parse(slice_of(name->host), &ignored) == GUARD_SPELLS_ADDRESS)
        return;
    buffer_init(&line, LINE_BYTES_MAX);
    buffer_append_format(&line, "%s:%u:", name->host, (unsigned)name->port);
    for (size_t i = 0; i < resolved->count; i++) {
        if (i > 0)
            buffer_append_byte(&line, ',');
        append_address(&line, &resolved->addresses[i]);
    }
    buffer_append_byte(&line, '\0');
    if (line.failed || slice_equals(buffer_slice(&line), buffer_slice(&name->line))) {
        buffer_fini(&line);
        return;
    }
    buffer_fini(&name->line);
    name->line = line;
    name->generation++;
}

static void name_forget(struct http_name *name, const struct resolved *resolved)
{
    name->known_ms = 0;
    name->is_temporary = resolved->is_temporary;
    name->is_unasked = resolved->is_unasked;
    (void)snprintf(name->error, sizeof name->error, "%s", resolved->error);
}

/* Stores the resolver's answer: the addresses, or the reason for their absence. */
static void on_answer(void *owner, uint64_t tag, const struct resolved *resolved)
{
    struct name_question *question = owner;
    struct http_name *name = question->name;
    (void)tag;
    free(question);
    if (!name)
        return;
    name->question = NULL;
    if (resolved->count == 0) {
        name_forget(name, resolved);
    } else {
        name_keep(name, resolved);
        name->known_ms = clock_boot_us() / 1000;
    }
    name->answered(name->ctx);
}

/* Resolves the name for `topic` if it is due. Returns true if there are addresses; false: wait for
 * `answered`. */
static bool name_look_up(struct http_name *name, struct slice topic, int64_t now_ms)
{
    uint64_t policy = guard_generation(name->env->guard);
    if (name->policy != policy)
        name->known_ms = 0;
    name->policy = policy;
    uint64_t group = hash_64(topic.at, topic.len);
    bool is_known = name->known_ms && now_ms - name->known_ms < KNOWN_MS;
    if (name->question && !is_known)
        resolver_join(name->env->resolver, name->host, group);
    if (name->question || (is_known && now_ms - name->asked_ms < FRESH_MS))
        return is_known;
    struct name_question *question = malloc(sizeof *question);
    if (!question)
        return is_known;
    question->name = name;
    name->question = question;
    name->asked_ms = now_ms;
    resolver_ask(name->env->resolver, name->host, name->port, group, on_answer, question, 0);
    return is_known;
}

/* ---- transfers ---- */

static int64_t now_ms(void)
{
    return clock_boot_us() / 1000;
}

static void transfer_move(struct list *to, struct target_transfer *transfer)
{
    list_remove(&transfer->list);
    list_add_last(to, &transfer->list);
}

static struct target_transfer *first_of(struct list *list)
{
    return list_is_empty(list) ? NULL : list_entry(list->next, struct target_transfer, list);
}

/* ---- time ---- */

static void on_time(uv_timer_t *timer);

static void wake_at(struct http_endpoint *endpoint, int64_t at_ms, int64_t now)
{
    if (at_ms >= endpoint->timer_ms)
        return;
    endpoint->timer_ms = at_ms;
    uv_update_time(reactor_loop(endpoint->env->reactor));
    (void)uv_timer_start(&endpoint->timer, on_time, at_ms > now ? (uint64_t)(at_ms - now) : 0, 0);
}

static void free_spare(struct http_endpoint *endpoint)
{
    struct target_transfer *transfer;
    while ((transfer = first_of(&endpoint->spare))) {
        list_remove(&transfer->list);
        target_transfer_free(transfer);
    }
}

/* ---- reports ---- */

/* Reports a transfer. Its handle is made available before, because the owner may send the next
 * message immediately. */
static void transfer_report(struct http_endpoint *endpoint, struct target_transfer *transfer)
{
    uint64_t tag = transfer->tag;
    struct target_report what = transfer->report;
    struct target_result *result =
        target_transfer_take_result(transfer); /* `what` points into it */
    target_transfer_explain(transfer, now_ms());
    target_transfer_clear(transfer);
    if (transfer->offers_http2 && endpoint->wants_http1) {
        list_remove(&transfer->list);
        target_transfer_free(transfer);
    } else {
        transfer_move(&endpoint->spare, transfer);
    }
    endpoint->env->reported(endpoint->env->owner, tag, &what);
    target_result_free(result);
}

static void transfer_report_later(struct http_endpoint *endpoint, struct target_transfer *transfer)
{
    transfer_move(&endpoint->decided, transfer);
    reactor_once_at_iteration_end(endpoint->env->reactor, &endpoint->reporting);
}

static void transfer_give_up(struct http_endpoint *endpoint, struct target_transfer *transfer,
                             enum target_outcome outcome, bool is_ailing, const char *why)
{
    target_transfer_give_up(transfer, outcome, is_ailing, why);
    transfer_report_later(endpoint, transfer);
}

/* Handles a transfer that libcurl has completed: sets its result, reports it, and records whether
 * the endpoint requires HTTP/1.1. */
static void on_ended(void *ctx, CURL *easy, CURLcode code)
{
    struct http_endpoint *endpoint = ctx;
    struct target_transfer *transfer = NULL;
    (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&transfer);
    if (target_transfer_wants_http1(transfer)) {
        endpoint->wants_http1 = true;
        free_spare(endpoint);
    }
    target_transfer_evaluate(transfer, code);
    transfer_report(endpoint, transfer);
}

/* ---- beginning ---- */

/* Passes the transfer to libcurl, when the addresses are known. */
static void transfer_begin(struct http_endpoint *endpoint, struct target_transfer *transfer)
{
    if (!endpoint->multi)
        endpoint->multi =
            target_multi_new(endpoint->env->reactor, endpoint->env->guard, on_ended, endpoint);
    if (!endpoint->multi ||
        !target_transfer_pin(transfer, endpoint->name.line.at, endpoint->name.generation)) {
        transfer_give_up(endpoint, transfer, TARGET_UNSENT, false, "out of memory or descriptors");
        return;
    }
    if (!target_multi_add(endpoint->multi, transfer->easy, &transfer->opening)) {
        transfer_give_up(endpoint, transfer, TARGET_UNSENT, false, "out of memory");
        return;
    }
    transfer->began_ms = now_ms();
    transfer_move(&endpoint->running, transfer);
}

/* Begins the messages that waited for the addresses, or ends them without addresses. */
static void on_answered(void *ctx)
{
    struct http_endpoint *endpoint = ctx;
    struct target_transfer *transfer;
    bool is_known = endpoint->name.known_ms != 0;
    while ((transfer = first_of(&endpoint->waiting))) {
        if (is_known)
            transfer_begin(endpoint, transfer);
        else
            transfer_give_up(endpoint, transfer,
                             endpoint->name.is_temporary ? TARGET_UNSENT : TARGET_FAILED,
                             !endpoint->name.is_unasked, endpoint->name.error);
    }
}

/* Parses a destination; *path is path and query, unchanged. */
static bool parse_place(struct slice to, struct target_place *out, struct slice *path, char *error)
{
    struct url url;
    if (!target_place_parse(to, target_http_schemes, &url, out, error))
        return false;
    *path = slice_make(url.path.at, (size_t)(to.at + to.len - url.path.at));
    return true;
}

static struct target_transfer *transfer_of(struct http_endpoint *endpoint)
{
    struct target_transfer *transfer = first_of(&endpoint->spare);
    if (!transfer)
        transfer = target_transfer_new(endpoint->env->guard,
                                       endpoint->place.is_tls && !endpoint->wants_http1,
                                       endpoint->env->version, endpoint);
    assert(transfer); /* without memory for a tag nothing can be reported */
    return transfer;
}

/* Builds the request of a message, and begins it if the addresses of its host are known. */
static void send_one(struct http_endpoint *endpoint, const struct target_message *message,
                     int64_t now)
{
    struct target_place place;
    struct slice path;
    char error[TARGET_ERROR_BYTES] = "the URL is at another endpoint";
    struct target_transfer *transfer = transfer_of(endpoint);
    transfer->tag = message->tag;
    if (!parse_place(message->to, &place, &path, error) ||
        strcmp(place.origin, endpoint->place.origin) != 0) {
        transfer_give_up(endpoint, transfer, TARGET_REFUSED, false, error);
        return;
    }
    if (!target_transfer_fill(transfer, message, endpoint->webhook,
                              slice_of(endpoint->place.origin), path, now) ||
        ((message->setting->takes_result || message->is_call) &&
         !target_transfer_keep_result(transfer, message->is_call
                                                    ? (size_t)TARGET_ANSWER_BODY_BYTES_MAX
                                                    : endpoint->env->result_bytes_max))) {
        transfer_report_later(endpoint, transfer);
        return;
    }
    wake_at(endpoint, transfer->until_ms, now);
    if (name_look_up(&endpoint->name, message->job->topic, now))
        transfer_begin(endpoint, transfer);
    else
        transfer_move(&endpoint->waiting, transfer);
}

static void http_send(struct target *target, const struct target_message *messages, size_t count)
{
    struct http_endpoint *endpoint = (struct http_endpoint *)(void *)target;
    int64_t now = now_ms();
    assert(!endpoint->closed);
    endpoint->sent_ms = now;
    for (size_t i = 0; i < count; i++)
        send_one(endpoint, &messages[i], now);
}

/* ---- ending ---- */

static void transfer_stop(struct http_endpoint *endpoint, struct target_transfer *transfer,
                          CURLcode code)
{
    target_multi_remove(endpoint->multi, transfer->easy);
    target_transfer_evaluate(transfer, code);
    transfer_report_later(endpoint, transfer);
}

/* Ends a message that was not sent because it waited for its host's addresses: the name server did
 * not answer, or was busy with other names. */
static void time_out_waiting(struct http_endpoint *endpoint, struct target_transfer *transfer)
{
    int64_t asked_ms = resolver_asked_ms(endpoint->env->resolver, endpoint->name.host);
    bool is_silent = asked_ms >= transfer->timeout_ms / 2;
    transfer_give_up(endpoint, transfer, TARGET_UNSENT, is_silent,
                     is_silent
                         ? "the host was not looked up in time, the name server did not answer"
                         : "the host was not looked up in time, because of too many other names");
}

/* Ends a message in libcurl. If it began late because it waited for the addresses, and got no
 * connection, it counts as unsent. */
static void time_out_running(struct http_endpoint *endpoint, struct target_transfer *transfer)
{
    int64_t waited_ms = transfer->began_ms - transfer->started_ms;
    if (!transfer->has_begun && waited_ms > transfer->timeout_ms / 2)
        target_transfer_give_up(transfer, TARGET_UNSENT, false,
                                "the host was looked up too late for a call in time");
    transfer_stop(endpoint, transfer, CURLE_OPERATION_TIMEDOUT);
}

/* Ends the transfers of `list` that have timed out; returns the earliest timeout of the others. */
static int64_t transfers_expire(struct http_endpoint *endpoint, struct list *list, int64_t now)
{
    int64_t next_ms = INT64_MAX;
    struct list *after;
    for (struct list *at = list->next; at != list; at = after) {
        struct target_transfer *transfer = list_entry(at, struct target_transfer, list);
        after = at->next;
        if (transfer->until_ms > now) {
            next_ms = transfer->until_ms < next_ms ? transfer->until_ms : next_ms;
        } else if (list == &endpoint->running) {
            time_out_running(endpoint, transfer);
        } else {
            time_out_waiting(endpoint, transfer);
        }
    }
    return next_ms;
}

static void go_idle(struct http_endpoint *endpoint)
{
    free_spare(endpoint);
    target_multi_free(endpoint->multi);
    endpoint->multi = NULL;
    endpoint->wants_http1 = false;
}

/* Ends overdue transfers. An endpoint that is idle for a while closes its connections and frees
 * memory. */
static void on_time(uv_timer_t *timer)
{
    struct http_endpoint *endpoint = timer->data;
    int64_t now = now_ms();
    endpoint->timer_ms = INT64_MAX;
    int64_t waiting_ms = transfers_expire(endpoint, &endpoint->waiting, now);
    int64_t next_ms = transfers_expire(endpoint, &endpoint->running, now);
    if (waiting_ms < next_ms)
        next_ms = waiting_ms;
    if (next_ms == INT64_MAX && endpoint->multi) {
        if (now - endpoint->sent_ms >= IDLE_MS && list_is_empty(&endpoint->decided))
            go_idle(endpoint);
        else
            next_ms = endpoint->sent_ms + IDLE_MS;
    }
    wake_at(endpoint, next_ms, now);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct http_endpoint *endpoint = handle->data;
    endpoint->closed(endpoint->closed_ctx);
    webhook_free(endpoint->webhook);
    free(endpoint);
}

/* Aborts all transfers. */
static void transfers_abandon(struct http_endpoint *endpoint)
{
    static const char why[] = "abandoned, the server stops or the topic has changed";
    struct target_transfer *transfer;
    while ((transfer = first_of(&endpoint->waiting)))
        transfer_give_up(endpoint, transfer, TARGET_UNSENT, false, why);
    while ((transfer = first_of(&endpoint->running))) {
        if (!transfer->answer.status)
            target_transfer_give_up(transfer, transfer->has_begun ? TARGET_FAILED : TARGET_UNSENT,
                                    false, why);
        transfer_stop(endpoint, transfer, CURLE_ABORTED_BY_CALLBACK);
    }
}

/* Reports the completed transfers. Transfers completed during the reports wait for the next loop
 * iteration. */
static void report_decided(struct http_endpoint *endpoint)
{
    struct list now;
    list_init(&now);
    while (!list_is_empty(&endpoint->decided))
        transfer_move(&now, first_of(&endpoint->decided));
    while (!list_is_empty(&now))
        transfer_report(endpoint, first_of(&now));
}

/* Reports the transfers completed in this loop iteration; a closed endpoint is freed after all are
 * reported. */
static void on_iteration_end(struct iteration_end_call *call)
{
    struct http_endpoint *endpoint = list_entry(call, struct http_endpoint, reporting);
    if (endpoint->closed)
        transfers_abandon(endpoint);
    report_decided(endpoint);
    if (!endpoint->closed || uv_is_closing((uv_handle_t *)&endpoint->timer))
        return;
    go_idle(endpoint);
    name_fini(&endpoint->name);
    reactor_cancel_at_iteration_end(&endpoint->reporting);
    uv_close((uv_handle_t *)&endpoint->timer, on_timer_closed);
}

static void http_close(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct http_endpoint *endpoint = (struct http_endpoint *)(void *)target;
    assert(!endpoint->closed);
    endpoint->closed = closed;
    endpoint->closed_ctx = ctx;
    reactor_once_at_iteration_end(endpoint->env->reactor, &endpoint->reporting);
}

/* ---- life ---- */

static struct target *http_open(const struct target_env *env, const struct target_setting *setting,
                                struct slice to)
{
    struct target_place place;
    struct slice path;
    char error[TARGET_ERROR_BYTES];
    (void)setting;
    if (!parse_place(to, &place, &path, error))
        return NULL;
    struct http_endpoint *endpoint = calloc(1, sizeof *endpoint);
    struct webhook *webhook = webhook_new(env->guard, env->store_name, env->store);
    if (!endpoint || !webhook) {
        webhook_free(webhook);
        free(endpoint);
        return NULL;
    }
    endpoint->webhook = webhook;
    endpoint->target.ops = &target_http;
    endpoint->env = env;
    endpoint->place = place;
    endpoint->timer_ms = INT64_MAX;
    list_init(&endpoint->waiting);
    list_init(&endpoint->running);
    list_init(&endpoint->decided);
    list_init(&endpoint->spare);
    list_init(&endpoint->reporting.list);
    endpoint->reporting.run = on_iteration_end;
    (void)uv_timer_init(reactor_loop(env->reactor), &endpoint->timer);
    endpoint->timer.data = endpoint;
    name_init(&endpoint->name, env, endpoint->place.host, endpoint->place.port, on_answered,
              endpoint);
    return &endpoint->target;
}

static bool http_check(const struct target_setting *setting, struct slice to,
                       char error[TARGET_ERROR_BYTES])
{
    struct target_place place;
    struct slice path;
    (void)setting;
    return parse_place(to, &place, &path, error) && template_check(path, error);
}

const struct target_ops target_http = {
    .schemes = target_http_schemes,
    .event = {"ce-", .escapes_values = true},
    .check = http_check,
    .open = http_open,
    .send = http_send,
    .close = http_close,
};
