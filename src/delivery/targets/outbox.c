#include "targets/outbox.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAUSE_MS = 100, PAUSE_MS_MAX = 5 * 1000, TEXT_BYTES_MAX = 64 * 1024 * 1024 };

static struct outbox_message *message_first(const struct list *list)
{
    return list_entry(list->next, struct outbox_message, list);
}

static void message_move(struct outbox_message *message, struct list *to, enum outbox_stage stage)
{
    list_remove(&message->list);
    list_add_last(to, &message->list);
    message->stage = stage;
}

/* ---- reports ---- */

/* Reports a message. It is returned to the kind before, because the owner may close the target in
 * response. */
static void report_message(struct outbox *outbox, struct outbox_message *message)
{
    const struct target_report report = message->report;
    uint64_t tag = message->tag;
    if (message->explained)
        outbox->kind->explain(outbox->ctx, message);
    message->explained = NULL;
    message_move(message, &outbox->held, OUTBOX_REPORTED);
    if (!message->is_held)
        outbox_return(outbox, message);
    outbox->env->reported(outbox->env->owner, tag, &report);
}

/* Reports the messages that are settled at the beginning. In response, the owner may send more,
 * which may also be settled. */
static void report_settled(struct outbox *outbox)
{
    struct outbox_message *last = list_entry(outbox->settled.prev, struct outbox_message, list);
    for (bool more = !list_is_empty(&outbox->settled); more;) {
        struct outbox_message *message = message_first(&outbox->settled);
        more = message != last;
        report_message(outbox, message);
    }
}

static void outbox_end(struct outbox *outbox)
{
    void (*closed)(void *ctx) = outbox->closed;
    void *ctx = outbox->closed_ctx;
    assert(list_is_empty(&outbox->waiting) && list_is_empty(&outbox->sent));
    outbox_return_all(outbox);
    outbox_fini(outbox);
    if (outbox->kind->free_target)
        outbox->kind->free_target(outbox->ctx);
    else
        free(outbox->ctx);
    closed(ctx);
}

static void on_iteration_end(struct iteration_end_call *call)
{
    struct outbox *outbox = list_entry(call, struct outbox, iteration_end);
    /* The code that acts on reports may have run in this iteration already. */
    reactor_iterate_again(outbox->env->reactor);
    if (outbox->kind->iteration_end)
        outbox->kind->iteration_end(outbox->ctx);
    report_settled(outbox);
    if (outbox->is_gone && list_is_empty(&outbox->settled))
        outbox_end(outbox);
}

void outbox_call_at_iteration_end(struct outbox *outbox)
{
    reactor_once_at_iteration_end(outbox->env->reactor, &outbox->iteration_end);
}

/* ---- time ---- */

void outbox_wake_at(struct outbox *outbox, int64_t at_ms)
{
    if (at_ms >= outbox->deadline_ms)
        return;
    outbox->deadline_ms = at_ms;
    deadline_set(outbox->deadline, at_ms);
}

/* Asks the kind to settle each overdue message of a list; the others set the next deadline. */
static void expire(struct outbox *outbox, struct list *list, int64_t now_ms)
{
    for (struct list *at = list->next, *next; at != list; at = next) {
        struct outbox_message *message = list_entry(at, struct outbox_message, list);
        next = at->next;
        if (message->until_ms > now_ms) {
            outbox_wake_at(outbox, message->until_ms);
            continue;
        }
        outbox->kind->overdue(outbox->ctx, message);
        assert(message->stage == OUTBOX_SETTLED);
    }
}

static void on_deadline(void *ctx)
{
    struct outbox *outbox = ctx;
    int64_t now_ms = clock_inner_ms();
    outbox->deadline_ms = INT64_MAX;
    expire(outbox, &outbox->sent, now_ms);
    expire(outbox, &outbox->waiting, now_ms);
    if (outbox->kind->woken)
        outbox->kind->woken(outbox->ctx, now_ms);
}

void outbox_pause_longer(struct outbox_pause *pause, int64_t now_ms)
{
    int64_t pause_ms = PAUSE_MS;
    for (uint32_t i = 0; i < pause->failures && pause_ms < PAUSE_MS_MAX; i++)
        pause_ms *= 2;
    pause->failures++;
    pause->until_ms = now_ms + (pause_ms < PAUSE_MS_MAX ? pause_ms : PAUSE_MS_MAX);
}

/* ---- stages of a message ---- */

void outbox_add(struct outbox *outbox, struct outbox_message *message,
                const struct target_message *from, int64_t grace_ms)
{
    assert(!message->stage && !outbox->closed);
    message->stage = OUTBOX_WAITING;
    message->tag = from->tag;
    message->explained = from->explained;
    message->timeout_ms = from->setting->timeout_ms;
    message->added_ms = clock_inner_ms();
    message->until_ms = message->added_ms + message->timeout_ms + grace_ms;
    list_add_last(&outbox->waiting, &message->list);
    outbox_wake_at(outbox, message->until_ms);
}

const char *outbox_hold_text(struct outbox *outbox, const struct outbox_message *message)
{
    outbox->text_bytes += message->text.len;
    if (message->text.failed)
        return "out of memory";
    /* A message of any size may wait if no other one does. */
    if (outbox->text_bytes > TEXT_BYTES_MAX && outbox->text_bytes > message->text.len)
        return "64 MiB already wait for the broker";
    return NULL;
}

void outbox_drop_text(struct outbox *outbox, struct outbox_message *message)
{
    outbox->text_bytes -= message->text.len;
    buffer_fini(&message->text);
    message->text.len = 0;
}

void outbox_mark_sent(struct outbox *outbox, struct outbox_message *message)
{
    assert(message->stage == OUTBOX_WAITING);
    message->has_left = true;
    message_move(message, &outbox->sent, OUTBOX_SENT);
}

void outbox_settle(struct outbox *outbox, struct outbox_message *message,
                   const struct target_report *report)
{
    assert(message->stage == OUTBOX_WAITING || message->stage == OUTBOX_SENT);
    message->report = *report;
    message_move(message, &outbox->settled, OUTBOX_SETTLED);
    outbox_drop_text(outbox, message);
    outbox_call_at_iteration_end(outbox);
    if (outbox->kind->settled)
        outbox->kind->settled(outbox->ctx, message);
}

void outbox_settle_as(struct outbox *outbox, struct outbox_message *message,
                      enum target_outcome outcome, bool is_ailing, const char *error)
{
    struct target_report report = {
        .outcome = outcome, .is_ailing = is_ailing, .retry_after_ms = -1};
    (void)snprintf(report.error, sizeof report.error, "%s", error);
    outbox_settle(outbox, message, &report);
}

void outbox_lose(struct outbox *outbox, struct outbox_message *message, const char *error)
{
    outbox_settle_as(outbox, message, message->has_left ? TARGET_FAILED : TARGET_UNSENT, true,
                     error);
}

void outbox_lose_overdue(struct outbox *outbox, struct outbox_message *message)
{
    char error[64];
    (void)snprintf(error, sizeof error, "timed out after %" PRId64 " ms", message->timeout_ms);
    outbox_lose(outbox, message, error);
}

void outbox_lose_sent(struct outbox *outbox, const char *error)
{
    while (!list_is_empty(&outbox->sent))
        outbox_lose(outbox, message_first(&outbox->sent), error);
}

void outbox_lose_all(struct outbox *outbox, const char *error)
{
    outbox_lose_sent(outbox, error);
    while (!list_is_empty(&outbox->waiting))
        outbox_lose(outbox, message_first(&outbox->waiting), error);
}

void outbox_return(struct outbox *outbox, struct outbox_message *message)
{
    assert(message->stage == OUTBOX_SETTLED || message->stage == OUTBOX_REPORTED);
    message->is_held = false;
    if (message->stage == OUTBOX_SETTLED)
        return;
    list_remove(&message->list);
    if (outbox->kind->free_message)
        outbox->kind->free_message(outbox->ctx, message);
    else
        free(message);
}

void outbox_return_all(struct outbox *outbox)
{
    for (struct list *at = outbox->settled.next; at != &outbox->settled; at = at->next)
        list_entry(at, struct outbox_message, list)->is_held = false;
    while (!list_is_empty(&outbox->held))
        outbox_return(outbox, message_first(&outbox->held));
}

/* ---- life ---- */

bool outbox_init(struct outbox *outbox, const struct target_env *env,
                 const struct outbox_kind *kind, void *ctx)
{
    *outbox = (struct outbox){.env = env, .kind = kind, .ctx = ctx, .deadline_ms = INT64_MAX};
    list_init(&outbox->waiting);
    list_init(&outbox->sent);
    list_init(&outbox->settled);
    list_init(&outbox->held);
    list_init(&outbox->iteration_end.list);
    outbox->iteration_end.run = on_iteration_end;
    outbox->deadline = deadline_new(env->reactor, on_deadline, outbox);
    return outbox->deadline != NULL;
}

void outbox_fini(struct outbox *outbox)
{
    reactor_cancel_at_iteration_end(&outbox->iteration_end);
    deadline_free(outbox->deadline);
    outbox->deadline = NULL;
}

void outbox_close(struct outbox *outbox, void (*closed)(void *ctx), void *ctx)
{
    assert(!outbox->closed);
    outbox->closed = closed;
    outbox->closed_ctx = ctx;
    outbox_call_at_iteration_end(outbox);
}

void outbox_gone(struct outbox *outbox)
{
    assert(outbox->closed);
    outbox->is_gone = true;
    outbox_call_at_iteration_end(outbox);
}
