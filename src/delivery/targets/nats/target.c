/*
 * nats_target: JetStream of NATS.
 *
 * A message is published to its subject with a reply subject of its own. JetStream answers there
 * when a stream has stored it. Many messages are in flight at a time. Nats-Msg-Id is the same for
 * all attempts of a job, so that the stream stores a repeated one only once.
 */
#include "base/json_read.h"
#include "base/timestamp.h"
#include "targets/message_id.h"
#include "targets/meta.h"
#include "targets/nats/connection.h"
#include "targets/outbox.h"
#include "targets/template.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FRAME_BYTES_MAX = 272 * 1024 * 1024, /* of one message; the server limits bodies */
    HEADER_BYTES_MAX = 512 * 1024,
    SUBJECT_BYTES_MAX = 512,
    REMARK_BYTES = 121, /* of texts of the server */
    NO_RESPONDERS = 503
};

/* Source: https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/nats-protocol-binding.md */
#define EVENT_PREFIX "ce-"

/* Numbers of errors of JetStream. Source: server/errors.json of nats-server. */
enum { TOO_LARGE = 10054, HEADER_TOO_LARGE = 10097, WRONG_MESSAGE_ID_SIZE = 10105 };

struct nats_message {              /* waiting: not sent, or only partly */
    struct outbox_message message; /* first */
    uint64_t number;
    size_t handed;    /* bytes of its text */
    uint64_t payload; /* headers and body */
    char *subject;    /* until it is settled */
};

struct nats {
    struct target target; /* first */
    struct outbox outbox;
    struct nats_connection *connection;
    struct session *session; /* of the connection */
    struct message_id ids;
    uint64_t numbers; /* number of the last message */
    bool is_cut;      /* a message timed out when it was partly sent */
};

static struct nats_message *first_of(const struct list *list)
{
    return list_entry(list->next, struct nats_message, message.list);
}

/* ---- a job as a message ---- */

static bool begins_with(struct slice name, const char *prefix)
{
    return name.len >= strlen(prefix) && memcmp(name.at, prefix, strlen(prefix)) == 0;
}

/* Returns true for a header that has a meaning for the server, or that tarry writes. */
static bool is_own_header(struct slice name, bool is_event)
{
    return slice_is(name, "content-type") || begins_with(name, "nats-") ||
           (is_event && begins_with(name, EVENT_PREFIX));
}

/* Appends the metas. One that would have another meaning gets another name. */
static void emit_meta(struct buffer *out, const struct job *job, bool is_event)
{
    struct slice name, value;
    char other[80];
    for (size_t at = 0; target_meta_next(job->meta, &at, &name, &value);) {
        if (is_own_header(name, is_event)) {
            int len = snprintf(other, sizeof other, "meta-%.*s", (int)name.len, name.at);
            name = slice_make(other, (size_t)len);
        }
        nats_emit_header(out, name, value);
    }
}

static void emit_headers(struct buffer *out, const struct target_message *message, const char *id)
{
    const struct job *job = message->job;
    struct slice name, value;
    char due[TIMESTAMP_BYTES], attempt[24];
    int attempt_len = snprintf(attempt, sizeof attempt, "%" PRIu32, job->attempt);
    timestamp_write(due, job->due_ms);
    nats_emit_headers_begin(out);
    nats_emit_header(out, slice_of("Nats-Msg-Id"), slice_of(id));
    nats_emit_header(out, slice_of("content-type"),
                     job->content_type.len ? job->content_type
                                           : slice_of("application/octet-stream"));
    nats_emit_header(out, slice_of("tarry-topic"), job->topic);
    nats_emit_header(out, slice_of("tarry-id"), job->id);
    nats_emit_header(out, slice_of("tarry-attempt"), slice_make(attempt, (size_t)attempt_len));
    nats_emit_header(out, slice_of("tarry-due-at"), slice_make(due, sizeof due));
    for (size_t at = 0; job_meta_next(message->attributes, &at, &name, &value);)
        nats_emit_header(out, name, value);
    emit_meta(out, job, message->attributes.len > 0);
    nats_emit_headers_end(out);
}

/* Returns true if the subject is one of the server's own, which a field must not choose: requests
 * to JetStream itself, and the answers of other clients. */
static bool is_inner_subject(struct slice subject)
{
    static const char inbox[] = "_INBOX.";
    return subject.len &&
           (subject.at[0] == '$' ||
            (subject.len >= sizeof inbox - 1 && memcmp(subject.at, inbox, sizeof inbox - 1) == 0));
}

/* Fills in the subject. Returns NULL, or the reason why nothing can be sent there. */
static const char *fill_subject(const struct target_message *message, struct buffer *subject)
{
    const char *text = message->setting->subject;
    if (!text || !*text)
        text = TARGET_STANDARD_subject;
    if (!template_fill(slice_of(text), message->job, TEMPLATE_PLAIN, SUBJECT_BYTES_MAX, subject))
        return "the subject is longer than 512 bytes";
    if (is_inner_subject(buffer_slice(subject)) && !is_inner_subject(slice_of(text)))
        return "the values in the subject begin with '$' or '_INBOX.'";
    return nats_subject_fault(buffer_slice(subject));
}

/* Writes the message. Returns NULL, or the reason why it is refused. */
static const char *emit_message(struct nats *nats, struct nats_message *sending,
                                const struct target_message *message)
{
    struct buffer subject, headers, *out = &sending->message.text;
    char id[MESSAGE_ID_BYTES], reply[NATS_REPLY_BYTES];
    const struct job *job = message->job;
    buffer_init(&subject, SUBJECT_BYTES_MAX);
    buffer_init(&headers, HEADER_BYTES_MAX);
    const char *fault = fill_subject(message, &subject);
    if (!fault && message_id_write(&nats->ids, job, id)) {
        nats_connection_reply(nats->connection, sending->number, reply);
        emit_headers(&headers, message, id);
        nats_emit_publish(out, buffer_slice(&subject), slice_of(reply), buffer_slice(&headers),
                          job->body);
        sending->payload = headers.len + job->body.len;
        sending->subject = strndup(subject.at, subject.len);
    }
    out->failed = out->failed || headers.failed || (!fault && !sending->subject);
    if (!fault && message->explained)
        buffer_append_format(message->explained, "subject '%.*s', %" PRIu64 " bytes with headers\n",
                             (int)subject.len, subject.at, sending->payload);
    buffer_fini(&subject);
    buffer_fini(&headers);
    return fault;
}

/* ---- the end of a message ---- */

static void on_settled(void *ctx, struct outbox_message *message)
{
    struct nats_message *sending = (struct nats_message *)message;
    (void)ctx;
    free(sending->subject);
    sending->subject = NULL;
}

static void on_explain(void *ctx, const struct outbox_message *message)
{
    (void)ctx;
    buffer_append_text(message->explained, message->report.outcome == TARGET_DONE
                                               ? "a stream stored the message\n"
                                           : message->report.outcome == TARGET_UNSENT
                                               ? "nothing was sent\n"
                                               : "no stream stored the message\n");
}

static void on_iteration_end(void *ctx)
{
    struct nats *nats = ctx;
    if (!nats->outbox.closed)
        session_needed(nats->session,
                       !list_is_empty(&nats->outbox.waiting) || !list_is_empty(&nats->outbox.sent));
}

/* ---- sending ---- */

/* Refuses a message that the server does not accept: it would end the connection. Returns false if
 * the message may be sent. */
static bool refuse_large(struct nats *nats, struct nats_message *sending)
{
    char error[96];
    uint64_t max = nats_connection_max_payload(nats->connection);
    if (!max || sending->payload <= max)
        return false;
    (void)snprintf(error, sizeof error,
                   "%" PRIu64 " bytes with headers, the server accepts %" PRIu64 " (max_payload)",
                   sending->payload, max);
    outbox_settle_as(&nats->outbox, &sending->message, TARGET_REFUSED, false, error);
    return true;
}

/* Writes the rest of a message. Returns false if the connection has no room left. */
static bool hand_over(struct nats *nats, struct nats_message *sending)
{
    const struct buffer *text = &sending->message.text;
    size_t left = text->len - sending->handed;
    if (sending->handed == 0 && refuse_large(nats, sending))
        return true;
    size_t taken = session_write(nats->session, text->at + sending->handed, left);
    sending->handed += taken;
    sending->message.has_left = sending->handed > 0;
    if (taken < left)
        return false;
    outbox_drop_text(&nats->outbox, &sending->message);
    outbox_mark_sent(&nats->outbox, &sending->message);
    return true;
}

/* Sends messages as long as the connection accepts them; requests a connection if necessary. */
static void pump(struct nats *nats)
{
    const struct list *waiting = &nats->outbox.waiting;
    if (nats->outbox.closed || list_is_empty(waiting))
        return;
    session_needed(nats->session, true);
    while (!list_is_empty(waiting) && hand_over(nats, first_of(waiting)))
        continue;
}

/* Makes a message and adds it as waiting, or settles it immediately. */
static void add_message(struct nats *nats, const struct target_message *message)
{
    struct nats_message *sending = calloc(1, sizeof *sending);
    /* only a few hundred bytes; without them the failure could not be reported either */
    assert(sending);
    sending->number = ++nats->numbers;
    buffer_init(&sending->message.text, FRAME_BYTES_MAX);
    outbox_add(&nats->outbox, &sending->message, message, 0);
    const char *fault = emit_message(nats, sending, message);
    const char *away = outbox_hold_text(&nats->outbox, &sending->message);
    if (fault || away)
        outbox_settle_as(&nats->outbox, &sending->message, fault ? TARGET_REFUSED : TARGET_UNSENT,
                         false, fault ? fault : away);
}

static void nats_send(struct target *target, const struct target_message *messages, size_t count)
{
    struct nats *nats = (struct nats *)target;
    for (size_t i = 0; i < count; i++)
        add_message(nats, &messages[i]);
    pump(nats);
}

/* ---- timeouts ---- */

/* Settles an overdue message. If it was partly sent, the connection cannot be used without the
 * rest. */
static void on_overdue(void *ctx, struct outbox_message *message)
{
    struct nats *nats = ctx;
    nats->is_cut = nats->is_cut || (message->stage == OUTBOX_WAITING && message->has_left);
    outbox_lose_overdue(&nats->outbox, message);
}

/* Closes a connection that cannot be used any more; messages that were not begun use the next
 * one. */
static void on_woken(void *ctx, int64_t now_ms)
{
    struct nats *nats = ctx;
    (void)now_ms;
    if (!nats->is_cut)
        return;
    nats->is_cut = false;
    outbox_lose_sent(&nats->outbox, "the server took too long for a message");
    session_stop(nats->session, true);
    pump(nats);
}

/* ---- answers ---- */

static struct nats_message *find_sent(struct nats *nats, uint64_t number)
{
    const struct list *sent = &nats->outbox.sent;
    for (struct list *at = sent->next; at != sent; at = at->next) {
        struct nats_message *sending = list_entry(at, struct nats_message, message.list);
        if (sending->number == number)
            return sending;
    }
    return NULL;
}

/* Settles a message that JetStream did not store. A message that is too large can never be stored;
 * for the rest the stream may have room later. An error of the server (5xx) is not the message's
 * fault. */
static void take_refusal(struct nats *nats, struct nats_message *sending,
                         const struct nats_ack *ack)
{
    struct target_report report = {.outcome = TARGET_FAILED,
                                   .is_ailing = ack->code >= 500,
                                   .retry_after_ms = -1,
                                   .code = ack->error};
    struct buffer scratch;
    struct slice text = {0};
    char remark[REMARK_BYTES];
    buffer_init(&scratch, NATS_PAYLOAD_BYTES_MAX);
    if (ack->description.len && !json_string_bytes(ack->description, &scratch, &text))
        text = (struct slice){0};
    target_remark_write(text, remark, sizeof remark);
    buffer_fini(&scratch);
    if (ack->error == TOO_LARGE || ack->error == HEADER_TOO_LARGE ||
        ack->error == WRONG_MESSAGE_ID_SIZE) {
        report.outcome = TARGET_REFUSED;
        report.is_ailing = false;
    }
    (void)snprintf(report.error, sizeof report.error, "jetstream error %" PRIu32 ": %s", ack->error,
                   remark);
    outbox_settle(&nats->outbox, &sending->message, &report);
}

static void on_answer(void *ctx, uint64_t number, const struct nats_frame *frame)
{
    struct nats *nats = ctx;
    struct nats_message *sending = find_sent(nats, number);
    char error[SUBJECT_BYTES_MAX];
    struct nats_ack ack;
    if (!sending)
        return;
    if (nats_headers_status(frame->headers) == NO_RESPONDERS) {
        (void)snprintf(error, sizeof error, "no stream takes the subject '%.160s'",
                       sending->subject);
        outbox_settle_as(&nats->outbox, &sending->message, TARGET_FAILED, false, error);
    } else if (!nats_ack_parse(frame->payload, &ack)) {
        outbox_settle_as(&nats->outbox, &sending->message, TARGET_FAILED, false,
                         "the answer is not one of JetStream");
    } else if (ack.is_stored) {
        outbox_settle_as(&nats->outbox, &sending->message, TARGET_DONE, false, "");
    } else {
        take_refusal(nats, sending, &ack);
    }
}

/* Handles an error about a subject that this user may not publish to: the server does not answer
 * such a message. It handles messages in order, so the error is about the first one sent there. */
static void on_error(void *ctx, struct slice text)
{
    struct nats *nats = ctx;
    const struct list *sent = &nats->outbox.sent;
    char quoted[SUBJECT_BYTES_MAX + 4], remark[REMARK_BYTES];
    target_remark_write(text, remark, sizeof remark);
    for (struct list *at = sent->next; at != sent; at = at->next) {
        struct nats_message *sending = list_entry(at, struct nats_message, message.list);
        int len = snprintf(quoted, sizeof quoted, "\"%s\"", sending->subject);
        if (!memmem(text.at, text.len, quoted, (size_t)len))
            continue;
        outbox_settle_as(&nats->outbox, &sending->message, TARGET_FAILED, false, remark);
        return;
    }
}

static void on_up(void *ctx)
{
    pump(ctx);
}

static void on_down(void *ctx, const char *why)
{
    struct nats *nats = ctx;
    outbox_lose_all(&nats->outbox, why);
}

static void on_gone(void *ctx)
{
    struct nats *nats = ctx;
    outbox_gone(&nats->outbox);
}

/* ---- life ---- */

static bool nats_check(const struct target_setting *setting, struct slice to,
                       char error[TARGET_ERROR_BYTES])
{
    struct target_places places;
    return nats_places_parse(to, &places, error) &&
           (!setting ||
            template_check_name(setting->subject, "subject", nats_subject_fault, error));
}

static void nats_free(void *ctx)
{
    struct nats *nats = ctx;
    message_id_fini(&nats->ids);
    free(nats);
}

static struct target *nats_open(const struct target_env *env, const struct target_setting *setting,
                                struct slice to)
{
    static const struct outbox_kind kind = {.overdue = on_overdue,
                                            .settled = on_settled,
                                            .explain = on_explain,
                                            .woken = on_woken,
                                            .iteration_end = on_iteration_end,
                                            .free_target = nats_free};
    static const struct nats_connection_events events = {
        .session = {.up = on_up, .room = on_up, .down = on_down, .gone = on_gone},
        .answer = on_answer,
        .error = on_error};
    struct target_places places;
    char error[TARGET_ERROR_BYTES];
    (void)setting;
    struct nats *nats = nats_places_parse(to, &places, error) ? calloc(1, sizeof *nats) : NULL;
    if (!nats)
        return NULL;
    nats->target.ops = &target_nats;
    bool is_made = message_id_init(&nats->ids, env->store_name, env->store);
    if (is_made && outbox_init(&nats->outbox, env, &kind, nats)) {
        nats->connection = nats_connection_new(env, &places, &events, nats);
        if (nats->connection) {
            nats->session = nats_connection_session(nats->connection);
            return &nats->target;
        }
        outbox_fini(&nats->outbox);
    }
    nats_free(nats);
    return NULL;
}

static void nats_close(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct nats *nats = (struct nats *)target;
    outbox_lose_all(&nats->outbox, "abandoned: the server stops sending there");
    outbox_close(&nats->outbox, closed, ctx);
    session_free(nats->session);
}

const struct target_ops target_nats = {.schemes = target_nats_schemes,
                                       .event = {EVENT_PREFIX, .escapes_values = true},
                                       .check = nats_check,
                                       .open = nats_open,
                                       .send = nats_send,
                                       .close = nats_close};
