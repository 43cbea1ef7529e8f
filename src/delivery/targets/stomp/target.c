/*
 * stomp_target: ActiveMQ, Artemis, RabbitMQ and other brokers with STOMP 1.2.
 *
 * A message is converted into its frame when it is added, and waits until the connection accepts
 * it. From its first sent byte on it may have arrived. A receipt ends it. Many messages can be in
 * flight at a time.
 */
#include "base/clock.h"
#include "base/timestamp.h"
#include "targets/meta.h"
#include "targets/outbox.h"
#include "targets/stomp/connection.h"
#include "targets/template.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FRAME_BYTES_MAX = 272 * 1024 * 1024, /* of one frame; the server limits bodies */
    AFTER_ERROR_MS = 1000,               /* wait for receipts after an ERROR */
    REMARK_BYTES_MAX = 120,              /* of texts of the broker */
    DESTINATION_BYTES_MAX = 1024
};

static const char after_error[] = "the broker reported an error on the connection";

struct stomp_message {             /* waiting: not sent, or only partly */
    struct outbox_message message; /* first */
    uint64_t receipt;
    size_t handed; /* bytes of its frame, which is its text */
};

struct stomp {
    struct target target; /* first */
    struct outbox outbox;
    struct session *session;
    uint64_t receipts; /* number of the last one requested */
    bool is_cut;       /* a message timed out when it was partly sent */
    bool is_draining;  /* an ERROR was received: nothing more is written on this connection */
    int64_t drained_ms;
};

static struct stomp_message *first_of(const struct list *list)
{
    return list_entry(list->next, struct stomp_message, message.list);
}

/* ---- a job as a frame ---- */

/* Returns true for STOMP's own headers and those that tarry writes. */
static bool is_own_header(struct slice name)
{
    static const char *const ours[] = {"destination", "receipt",      "persistent",
                                       "transaction", "content-type", "content-length",
                                       "receipt-id"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (slice_is(name, ours[i]))
            return true;
    return false;
}

/* Appends the metas. A meta that would change the meaning of the frame gets another name; tarry's
 * own are not sent. */
static void emit_meta(struct buffer *out, const struct job *job)
{
    struct slice name, value;
    char other[80];
    for (size_t at = 0; target_meta_next(job->meta, &at, &name, &value);) {
        if (is_own_header(name)) {
            int len = snprintf(other, sizeof other, "meta-%.*s", (int)name.len, name.at);
            name = slice_make(other, (size_t)len);
        }
        stomp_emit_header(out, name, value);
    }
}

static void emit_number(struct buffer *out, const char *name, uint64_t number)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRIu64, number);
    stomp_emit_header(out, slice_of(name), slice_make(text, (size_t)len));
}

/* Appends the SEND frame: STOMP's own headers, tarry's, the job's meta, the body. */
static void emit_frame(struct buffer *out, const struct job *job, struct slice destination,
                       uint64_t receipt)
{
    char due[TIMESTAMP_BYTES];
    timestamp_write(due, job->due_ms);
    stomp_emit_command(out, "SEND");
    stomp_emit_header(out, slice_of("destination"), destination);
    emit_number(out, "receipt", receipt);
    stomp_emit_header(out, slice_of("persistent"), slice_of("true"));
    stomp_emit_header(out, slice_of("content-type"),
                      job->content_type.len ? job->content_type
                                            : slice_of("application/octet-stream"));
    emit_number(out, "content-length", job->body.len);
    stomp_emit_header(out, slice_of("tarry-topic"), job->topic);
    stomp_emit_header(out, slice_of("tarry-id"), job->id);
    emit_number(out, "tarry-attempt", job->attempt);
    stomp_emit_header(out, slice_of("tarry-due-at"), slice_make(due, sizeof due));
    emit_meta(out, job);
    stomp_emit_body(out, job->body);
}

/* Counts characters with a special meaning for brokers: several destinations, patterns, options. */
static size_t count_signs(struct slice text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += text.at[i] && strchr(",*>?", text.at[i]);
    return count;
}

static const char *emit_message(struct buffer *out, const struct target_message *message,
                                uint64_t receipt)
{
    const char *text = message->setting->destination, *fault = NULL;
    if (!text || !*text)
        text = TARGET_STANDARD_destination;
    struct buffer destination;
    buffer_init(&destination, DESTINATION_BYTES_MAX);
    if (!template_fill(slice_of(text), message->job, TEMPLATE_PLAIN, DESTINATION_BYTES_MAX,
                       &destination))
        fault = "the destination is longer than 1024 bytes";
    else if (destination.len == 0)
        fault = "the destination is empty";
    else if (count_signs(buffer_slice(&destination)) > count_signs(slice_of(text)))
        fault = "the values in the destination contain ',', '*', '>' or '?'";
    else
        emit_frame(out, message->job, buffer_slice(&destination), receipt);
    if (!fault && message->explained)
        buffer_append_format(message->explained, "destination '%.*s', %zu bytes with headers\n",
                             (int)destination.len, destination.at, out->len);
    buffer_fini(&destination);
    return fault;
}

/* ---- the end of a message ---- */

static void on_explain(void *ctx, const struct outbox_message *message)
{
    (void)ctx;
    buffer_append_text(message->explained,
                       message->report.outcome == TARGET_DONE     ? "the broker sent the receipt\n"
                       : message->report.outcome == TARGET_UNSENT ? "nothing was sent\n"
                                                                  : "no receipt arrived\n");
}

static void on_iteration_end(void *ctx)
{
    struct stomp *stomp = ctx;
    if (!stomp->outbox.closed)
        session_needed(stomp->session, !list_is_empty(&stomp->outbox.waiting) ||
                                           !list_is_empty(&stomp->outbox.sent));
}

/* ---- sending ---- */

/* Writes the rest of a frame. Returns false if the connection has no room left. */
static bool hand_over(struct stomp *stomp, struct stomp_message *sending)
{
    const struct buffer *frame = &sending->message.text;
    size_t left = frame->len - sending->handed;
    size_t taken = session_write(stomp->session, frame->at + sending->handed, left);
    sending->handed += taken;
    sending->message.has_left = sending->handed > 0;
    if (taken < left)
        return false;
    outbox_drop_text(&stomp->outbox, &sending->message);
    outbox_mark_sent(&stomp->outbox, &sending->message);
    return true;
}

/* Sends frames as long as the connection accepts them; requests a connection if necessary. */
static void pump(struct stomp *stomp)
{
    const struct list *waiting = &stomp->outbox.waiting;
    if (stomp->is_draining || stomp->outbox.closed || list_is_empty(waiting))
        return;
    session_needed(stomp->session, true);
    while (!list_is_empty(waiting) && hand_over(stomp, first_of(waiting)))
        continue;
}

/* Makes the frame of a message and adds it as waiting, or settles it immediately. */
static void add_message(struct stomp *stomp, const struct target_message *message)
{
    struct stomp_message *sending = calloc(1, sizeof *sending);
    /* only a few hundred bytes; without them the failure could not be reported either */
    assert(sending);
    sending->receipt = ++stomp->receipts;
    struct buffer *frame = &sending->message.text;
    buffer_init(frame, FRAME_BYTES_MAX);
    outbox_add(&stomp->outbox, &sending->message, message, 0);
    const char *fault = emit_message(frame, message, sending->receipt);
    const char *away = outbox_hold_text(&stomp->outbox, &sending->message);
    if (fault || away)
        outbox_settle_as(&stomp->outbox, &sending->message, fault ? TARGET_REFUSED : TARGET_UNSENT,
                         false, fault ? fault : away);
}

static void stomp_send(struct target *target, const struct target_message *messages, size_t count)
{
    struct stomp *stomp = (struct stomp *)target;
    for (size_t i = 0; i < count; i++)
        add_message(stomp, &messages[i]);
    pump(stomp);
}

/* ---- timeouts ---- */

/* Closes the connection; messages that were not begun use the next one, immediately or after a
 * pause. */
static void begin_again(struct stomp *stomp, const char *why, bool pauses)
{
    struct stomp_message *first = first_of(&stomp->outbox.waiting);
    if (!list_is_empty(&stomp->outbox.waiting) && first->handed)
        outbox_lose(&stomp->outbox, &first->message, why);
    outbox_lose_sent(&stomp->outbox, why);
    stomp->is_draining = stomp->is_cut = false;
    session_stop(stomp->session, pauses);
    pump(stomp);
}

/* Settles an overdue message. If it was partly sent, the connection cannot be used without the
 * rest. */
static void on_overdue(void *ctx, struct outbox_message *message)
{
    struct stomp *stomp = ctx;
    stomp->is_cut = stomp->is_cut || (message->stage == OUTBOX_WAITING && message->has_left);
    outbox_lose_overdue(&stomp->outbox, message);
}

static void on_woken(void *ctx, int64_t now_ms)
{
    struct stomp *stomp = ctx;
    if (stomp->is_cut)
        begin_again(stomp, "the broker took too long for a message", true);
    else if (stomp->is_draining && now_ms >= stomp->drained_ms)
        begin_again(stomp, after_error, false);
    else if (stomp->is_draining)
        outbox_wake_at(&stomp->outbox, stomp->drained_ms);
}

/* ---- frames of the broker ---- */

static struct stomp_message *find_sent(struct stomp *stomp, struct slice receipt)
{
    const struct list *sent = &stomp->outbox.sent;
    char text[24];
    for (struct list *at = sent->next; at != sent; at = at->next) {
        struct stomp_message *sending = list_entry(at, struct stomp_message, message.list);
        int len = snprintf(text, sizeof text, "%" PRIu64, sending->receipt);
        if (slice_equals(receipt, slice_make(text, (size_t)len)))
            return sending;
    }
    return NULL;
}

/* Finds the message that an ERROR is about: the one it names, or the only one in flight. */
static struct stomp_message *find_culprit(struct stomp *stomp, const struct stomp_frame *frame)
{
    const struct list *sent = &stomp->outbox.sent;
    struct slice receipt = stomp_frame_header(frame, "receipt-id");
    if (receipt.at)
        return find_sent(stomp, receipt);
    return !list_is_empty(sent) && sent->next == sent->prev ? first_of(sent) : NULL;
}

/* Handles an ERROR. According to the standard, an error of one message ends the connection for all.
 * Some brokers continue, so there is a short wait for the receipts of the others, so that few are
 * sent twice. */
static void take_error(struct stomp *stomp, const struct stomp_frame *frame)
{
    char remark[REMARK_BYTES_MAX + 1], error[REMARK_BYTES_MAX + 32];
    struct stomp_message *culprit = find_culprit(stomp, frame);
    target_remark_write(stomp_frame_header(frame, "message"), remark, sizeof remark);
    (void)snprintf(error, sizeof error, "error of the broker: %s", remark);
    if (culprit)
        outbox_settle_as(&stomp->outbox, &culprit->message, TARGET_FAILED, false, error);
    else if (!stomp->is_draining)
        begin_again(stomp, error, true);
    if (!culprit || stomp->is_draining)
        return;
    stomp->is_draining = true;
    stomp->drained_ms = clock_inner_ms() + AFTER_ERROR_MS;
    outbox_wake_at(&stomp->outbox, stomp->drained_ms);
}

/* Handles a frame: a RECEIPT completes a message, an ERROR ends the connection. */
static void on_frame(void *ctx, const struct stomp_frame *frame)
{
    struct stomp *stomp = ctx;
    struct stomp_message *sending;
    if (slice_is(frame->command, "ERROR"))
        take_error(stomp, frame);
    else if (slice_is(frame->command, "RECEIPT") &&
             (sending = find_sent(stomp, stomp_frame_header(frame, "receipt-id"))))
        outbox_settle_as(&stomp->outbox, &sending->message, TARGET_DONE, false, "");
    if (stomp->is_draining && list_is_empty(&stomp->outbox.sent))
        begin_again(stomp, after_error, false);
}

static void on_up(void *ctx)
{
    pump(ctx);
}

/* Handles the end of the connection. If an ERROR was received, the messages already have their
 * reason, and those not begun use the next connection. */
static void on_down(void *ctx, const char *why)
{
    struct stomp *stomp = ctx;
    if (stomp->is_draining)
        begin_again(stomp, after_error, false);
    else
        outbox_lose_all(&stomp->outbox, why);
}

static void on_gone(void *ctx)
{
    struct stomp *stomp = ctx;
    outbox_gone(&stomp->outbox);
}

/* ---- life ---- */

static bool stomp_check(const struct target_setting *setting, struct slice to,
                        char error[TARGET_ERROR_BYTES])
{
    struct stomp_place place;
    return stomp_place_parse(to, &place, error) &&
           (!setting || !setting->destination ||
            template_check(slice_of(setting->destination), error));
}

static const struct outbox_kind outbox_kind = {.overdue = on_overdue,
                                               .explain = on_explain,
                                               .woken = on_woken,
                                               .iteration_end = on_iteration_end};

static struct target *stomp_open(const struct target_env *env, const struct target_setting *setting,
                                 struct slice to)
{
    static const struct session_events events = {
        .up = on_up, .room = on_up, .down = on_down, .gone = on_gone};
    struct stomp_place place;
    char error[TARGET_ERROR_BYTES];
    (void)setting;
    struct stomp *stomp = stomp_place_parse(to, &place, error) ? calloc(1, sizeof *stomp) : NULL;
    if (!stomp || !outbox_init(&stomp->outbox, env, &outbox_kind, stomp)) {
        free(stomp);
        return NULL;
    }
    stomp->target.ops = &target_stomp;
    stomp->session = stomp_session_new(env, &place, &events, on_frame, stomp);
    if (stomp->session)
        return &stomp->target;
    outbox_fini(&stomp->outbox);
    free(stomp);
    return NULL;
}

static void stomp_close(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct stomp *stomp = (struct stomp *)target;
    outbox_lose_all(&stomp->outbox, "abandoned: the server stops sending there");
    outbox_close(&stomp->outbox, closed, ctx);
    session_free(stomp->session);
}

const struct target_ops target_stomp = {.schemes = target_stomp_schemes,
                                        .has_virtual_hosts = true,
                                        .check = stomp_check,
                                        .open = stomp_open,
                                        .send = stomp_send,
                                        .close = stomp_close};
