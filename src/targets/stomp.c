/*
 * target_stomp: ActiveMQ, Artemis, RabbitMQ and whoever else speaks STOMP 1.2.
 *
 * A message is made into its frame when it comes and waits for its turn on the link; once its first
 * byte is handed over it may have arrived. A receipt ends it. Many are under way at a time.
 */
#include "base/clock.h"
#include "targets/stomp_link.h"
#include "targets/stomp_message.h"
#include "targets/target.h"
#include "targets/template.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FRAME_BYTES_MAX = 272 * 1024 * 1024, /* of one; the server bounds bodies */
    WAITING_BYTES_MAX = 64 * 1024 * 1024,
    AFTER_ERROR_MS = 1000, /* for receipts that are still to come behind an ERROR */
    SAID_BYTES_MAX = 120   /* of what a broker says */
};

static const char after_error[] = "the broker reported an error on the connection";

/* One message. Its list: waiting (not, or partly, handed over), sent (waits for its receipt),
 * settled (waits to be reported). */
struct sending {
    struct list list;
    uint64_t tag, receipt;
    int64_t until_ms, timeout_ms;
    struct buffer frame; /* empty once it is handed over */
    size_t handed;
    struct buffer *explained;
    struct target_report report;
};

struct stomp {
    struct target target; /* the first */
    const struct target_env *env;
    struct stomp_link *link;
    struct list waiting, sent, settled;
    size_t waiting_bytes;
    uint64_t receipts; /* the last one asked for */
    struct deadline *deadline;
    int64_t deadline_ms;
    struct turn_end_call turn_end;
    bool is_draining; /* an ERROR came: nothing more is written on this connection */
    int64_t drained_ms;
    void (*closed)(void *ctx); /* set: it is being closed */
    void *closed_ctx;
    bool is_gone; /* the link is */
};

/* ---- the end of a message ---- */

static void settle(struct stomp *stomp, struct sending *sending, enum target_outcome outcome,
                   bool is_ailing, const char *error)
{
    sending->report =
        (struct target_report){.outcome = outcome, .is_ailing = is_ailing, .retry_after_ms = -1};
    (void)snprintf(sending->report.error, sizeof sending->report.error, "%s", error);
    stomp->waiting_bytes -= sending->frame.len;
    buffer_fini(&sending->frame);
    sending->frame.len = 0;
    list_remove(&sending->list);
    list_add_last(&stomp->settled, &sending->list);
    reactor_once_at_turn_end(stomp->env->reactor, &stomp->turn_end);
}

static void give_up_all(struct stomp *stomp, const char *why)
{
    while (!list_is_empty(&stomp->sent))
        settle(stomp, list_entry(stomp->sent.next, struct sending, list), TARGET_FAILED, true, why);
    while (!list_is_empty(&stomp->waiting)) {
        struct sending *sending = list_entry(stomp->waiting.next, struct sending, list);
        settle(stomp, sending, sending->handed ? TARGET_FAILED : TARGET_UNSENT, true, why);
    }
}

static void explain(const struct sending *sending)
{
    if (!sending->explained)
        return;
    if (sending->report.outcome == TARGET_DONE)
        buffer_append_text(sending->explained, "the broker sent the receipt\n");
    else if (sending->report.outcome == TARGET_UNSENT)
        buffer_append_text(sending->explained, "nothing was sent\n");
    else
        buffer_append_text(sending->explained, "no receipt came\n");
}

static void report_settled(struct stomp *stomp)
{
    while (!list_is_empty(&stomp->settled)) {
        struct sending *sending = list_entry(stomp->settled.next, struct sending, list);
        list_remove(&sending->list);
        explain(sending);
        stomp->env->reported(stomp->env->owner, sending->tag, &sending->report);
        free(sending);
    }
}

static void go(struct stomp *stomp)
{
    void (*closed)(void *) = stomp->closed;
    void *ctx = stomp->closed_ctx;
    deadline_free(stomp->deadline);
    free(stomp);
    closed(ctx);
}

static void on_turn_end(struct turn_end_call *call)
{
    struct stomp *stomp = list_entry(call, struct stomp, turn_end);
    /* Who acts on reports has had its call in this turn already. */
    reactor_turn_again(stomp->env->reactor);
    report_settled(stomp);
    if (stomp->is_gone)
        go(stomp);
    else if (!stomp->closed)
        stomp_link_needed(stomp->link,
                          !list_is_empty(&stomp->waiting) || !list_is_empty(&stomp->sent));
}

/* ---- time ---- */

static void watch(struct stomp *stomp, int64_t at_ms)
{
    if (at_ms >= stomp->deadline_ms)
        return;
    stomp->deadline_ms = at_ms;
    deadline_set(stomp->deadline, at_ms);
}

static void time_out(struct stomp *stomp, struct sending *sending)
{
    char error[64];
    (void)snprintf(error, sizeof error, "timed out after %" PRId64 " ms", sending->timeout_ms);
    bool never_left = sending->frame.len && !sending->handed;
    settle(stomp, sending, never_left ? TARGET_UNSENT : TARGET_FAILED, true, error);
}

/* A message that is half handed over stays on its way, and the link is of no use without it. */
static bool look_at(struct stomp *stomp, struct list *list, int64_t now_ms)
{
    bool is_cut = false;
    for (struct list *at = list->next, *next; at != list; at = next) {
        struct sending *sending = list_entry(at, struct sending, list);
        next = at->next;
        if (sending->until_ms > now_ms) {
            watch(stomp, sending->until_ms);
            continue;
        }
        is_cut = is_cut || (sending->frame.len && sending->handed);
        time_out(stomp, sending);
    }
    return is_cut;
}

static void pump(struct stomp *stomp);

/* The connection goes; what has not begun goes by the next one, at once or after a pause. */
static void begin_again(struct stomp *stomp, const char *why, bool pauses)
{
    struct sending *first = list_entry(stomp->waiting.next, struct sending, list);
    if (!list_is_empty(&stomp->waiting) && first->handed)
        settle(stomp, first, TARGET_FAILED, true, why);
    while (!list_is_empty(&stomp->sent))
        settle(stomp, list_entry(stomp->sent.next, struct sending, list), TARGET_FAILED, true, why);
    stomp->is_draining = false;
    stomp_link_stop(stomp->link, pauses);
    pump(stomp);
}

static void on_deadline(void *ctx)
{
    struct stomp *stomp = ctx;
    int64_t now_ms = clock_inner_ms();
    stomp->deadline_ms = INT64_MAX;
    (void)look_at(stomp, &stomp->sent, now_ms);
    if (look_at(stomp, &stomp->waiting, now_ms))
        begin_again(stomp, "the broker took too long over a message", true);
    else if (stomp->is_draining && now_ms >= stomp->drained_ms)
        begin_again(stomp, after_error, false);
    else if (stomp->is_draining)
        watch(stomp, stomp->drained_ms);
}

/* ---- out ---- */

/* False: the link has no room left. */
static bool hand_over(struct stomp *stomp, struct sending *sending)
{
    size_t left = sending->frame.len - sending->handed;
    size_t taken = stomp_link_write(stomp->link, sending->frame.at + sending->handed, left);
    sending->handed += taken;
    if (taken < left)
        return false;
    stomp->waiting_bytes -= sending->frame.len;
    buffer_fini(&sending->frame);
    sending->frame.len = 0;
    list_remove(&sending->list);
    list_add_last(&stomp->sent, &sending->list);
    return true;
}

static void pump(struct stomp *stomp)
{
    if (stomp->is_draining || stomp->closed || list_is_empty(&stomp->waiting))
        return;
    stomp_link_needed(stomp->link, true);
    if (!stomp_link_is_up(stomp->link)) {
        stomp_link_start(stomp->link);
        return;
    }
    while (!list_is_empty(&stomp->waiting) &&
           hand_over(stomp, list_entry(stomp->waiting.next, struct sending, list)))
        continue;
}

static void take(struct stomp *stomp, const struct target_message *message)
{
    struct sending *sending = calloc(1, sizeof *sending);
    assert(sending); /* some hundred bytes; without them nobody could be told of it either */
    sending->tag = message->tag;
    sending->explained = message->explained;
    sending->receipt = ++stomp->receipts;
    sending->timeout_ms = message->setting->timeout_ms;
    sending->until_ms = clock_inner_ms() + sending->timeout_ms;
    list_add_last(&stomp->waiting, &sending->list);
    buffer_init(&sending->frame, FRAME_BYTES_MAX);
    const char *fault = stomp_message_emit(&sending->frame, message, sending->receipt);
    stomp->waiting_bytes += sending->frame.len;
    if (fault)
        settle(stomp, sending, TARGET_REFUSED, false, fault);
    else if (sending->frame.failed)
        settle(stomp, sending, TARGET_UNSENT, false, "out of memory");
    else if (stomp->waiting_bytes > WAITING_BYTES_MAX && stomp->waiting_bytes > sending->frame.len)
        settle(stomp, sending, TARGET_UNSENT, false, "64 MiB wait for the broker already");
    else
        watch(stomp, sending->until_ms);
}

static void stomp_send(struct target *target, const struct target_message *messages, size_t count)
{
    struct stomp *stomp = (struct stomp *)target;
    for (size_t i = 0; i < count; i++)
        take(stomp, &messages[i]);
    pump(stomp);
}

/* ---- what the broker says ---- */

static struct sending *find_sent(struct stomp *stomp, struct slice receipt)
{
    char text[24];
    for (struct list *at = stomp->sent.next; at != &stomp->sent; at = at->next) {
        struct sending *sending = list_entry(at, struct sending, list);
        int len = snprintf(text, sizeof text, "%" PRIu64, sending->receipt);
        if (slice_equals(receipt, slice_make(text, (size_t)len)))
            return sending;
    }
    return NULL;
}

/* Printable and short. */
static void coarse(struct slice said, char out[SAID_BYTES_MAX + 1])
{
    size_t len = said.len < SAID_BYTES_MAX ? said.len : SAID_BYTES_MAX;
    for (size_t i = 0; i < len; i++)
        out[i] = said.at[i] >= ' ' && said.at[i] <= '~' ? said.at[i] : '?';
    out[len] = 0;
}

/* Whom an ERROR is about: the one it names; where it names none, the only one there is. */
static struct sending *find_culprit(struct stomp *stomp, const struct stomp_frame *frame)
{
    struct slice receipt = stomp_frame_header(frame, "receipt-id");
    if (receipt.at)
        return find_sent(stomp, receipt);
    bool is_one = !list_is_empty(&stomp->sent) && stomp->sent.next == stomp->sent.prev;
    return is_one ? list_entry(stomp->sent.next, struct sending, list) : NULL;
}

/* One message's fault ends the connection of all, as the standard has it. Brokers that go on are
 * given a moment for the receipts of the others, so that few are sent twice. */
static void take_error(struct stomp *stomp, const struct stomp_frame *frame)
{
    char said[SAID_BYTES_MAX + 1], error[SAID_BYTES_MAX + 32];
    struct sending *culprit = find_culprit(stomp, frame);
    coarse(stomp_frame_header(frame, "message"), said);
    (void)snprintf(error, sizeof error, "the broker says: %s", said);
    if (culprit)
        settle(stomp, culprit, TARGET_FAILED, false, error);
    else if (!stomp->is_draining)
        begin_again(stomp, error, true);
    if (!culprit || stomp->is_draining)
        return;
    stomp->is_draining = true;
    stomp->drained_ms = clock_inner_ms() + AFTER_ERROR_MS;
    watch(stomp, stomp->drained_ms);
}

static void on_frame(void *ctx, const struct stomp_frame *frame)
{
    struct stomp *stomp = ctx;
    struct sending *sending;
    if (slice_is(frame->command, "ERROR"))
        take_error(stomp, frame);
    else if (slice_is(frame->command, "RECEIPT") &&
             (sending = find_sent(stomp, stomp_frame_header(frame, "receipt-id"))))
        settle(stomp, sending, TARGET_DONE, false, "");
    if (stomp->is_draining && list_is_empty(&stomp->sent))
        begin_again(stomp, after_error, false);
}

static void on_up(void *ctx)
{
    pump(ctx);
}

/* An ERROR that named a message has told why; what had not begun goes by the next connection. */
static void on_down(void *ctx, const char *why)
{
    struct stomp *stomp = ctx;
    if (stomp->is_draining)
        begin_again(stomp, after_error, false);
    else
        give_up_all(stomp, why);
}

static void on_gone(void *ctx)
{
    struct stomp *stomp = ctx;
    stomp->is_gone = true;
    reactor_once_at_turn_end(stomp->env->reactor, &stomp->turn_end);
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

static bool set_up(struct stomp *stomp, const struct stomp_place *place)
{
    static const struct stomp_link_events events = {
        .up = on_up, .frame = on_frame, .room = on_up, .down = on_down, .gone = on_gone};
    stomp->deadline = deadline_new(stomp->env->reactor, on_deadline, stomp);
    stomp->link = stomp->deadline ? stomp_link_new(stomp->env, place, &events, stomp) : NULL;
    return stomp->link != NULL;
}

static struct target *stomp_open(const struct target_env *env, const struct target_setting *setting,
                                 struct slice to)
{
    struct stomp_place place;
    char error[TARGET_ERROR_BYTES];
    (void)setting;
    struct stomp *stomp = stomp_place_parse(to, &place, error) ? calloc(1, sizeof *stomp) : NULL;
    if (!stomp)
        return NULL;
    stomp->target.ops = &target_stomp;
    stomp->env = env;
    list_init(&stomp->waiting);
    list_init(&stomp->sent);
    list_init(&stomp->settled);
    stomp->deadline_ms = INT64_MAX;
    stomp->turn_end.run = on_turn_end;
    list_init(&stomp->turn_end.list);
    if (set_up(stomp, &place))
        return &stomp->target;
    deadline_free(stomp->deadline);
    free(stomp);
    return NULL;
}

static void stomp_close(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct stomp *stomp = (struct stomp *)target;
    give_up_all(stomp, "given up: the server stops sending there");
    stomp->closed = closed;
    stomp->closed_ctx = ctx;
    stomp_link_free(stomp->link);
}

static const char *const schemes[] = {"stomp", "stomps", NULL};

const struct target_ops target_stomp = {.schemes = schemes,
                                        .check = stomp_check,
                                        .open = stomp_open,
                                        .send = stomp_send,
                                        .close = stomp_close};
