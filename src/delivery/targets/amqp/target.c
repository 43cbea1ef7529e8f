/*
 * amqp_target: RabbitMQ: one connection to one virtual host, on its own thread.
 *
 * A message is done when the broker has confirmed it. It is published as mandatory: if there is no
 * queue for it, it is returned and has failed. The publisher's thread receives copies of the
 * messages through its queue and returns them settled. Until then they are held, even after their
 * timeout.
 */
#include "base/clock.h"
#include "targets/amqp/publisher.h"
#include "targets/template.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { WAITING_BYTES_MAX = 64 << 20 };

struct target_amqp {
    struct target target; /* first */
    struct outbox outbox;
    struct letter letter; /* from the publisher: there are settled messages */
    atomic_bool is_letter_on_its_way;
    atomic_bool has_ended; /* the publisher's thread has ended or is about to */
    struct target_amqp_place place;
    struct target_amqp_publisher *publisher; /* NULL if closed */
    size_t bytes;                            /* bytes of held bodies */
};

static struct slice or_default(const char *given, const char *otherwise)
{
    return slice_of(given ? given : otherwise);
}

/* ---- the end of a message ---- */

static void on_explain(void *ctx, const struct outbox_message *base)
{
    const struct target_amqp_message *message = (const struct target_amqp_message *)base;
    struct buffer *out = base->explained;
    (void)ctx;
    buffer_append_format(out, "exchange '%.*s', routing key '%.*s', %zu bytes\n",
                         (int)message->exchange.len, message->exchange.at,
                         (int)message->routing_key.len, message->routing_key.at, message->body.len);
    buffer_append_format(out, "%s after %lld ms\n",
                         base->report.outcome == TARGET_DONE ? "confirmed by the broker" : "ended",
                         (long long)(clock_inner_ms() - base->added_ms));
}

static void on_free_message(void *ctx, struct outbox_message *message)
{
    struct target_amqp *amqp = ctx;
    amqp->bytes -= ((struct target_amqp_message *)message)->body.len;
    free(message);
}

/* Settles a message that has timed out. The publisher may still have it; its result is then
 * ignored. */
static void on_overdue(void *ctx, struct outbox_message *message)
{
    struct target_amqp *amqp = ctx;
    char error[TARGET_ERROR_BYTES];
    bool is_unsent = target_amqp_publisher_give_up(amqp->publisher,
                                                   (struct target_amqp_message *)message, error);
    message->has_left = message->is_held = !is_unsent;
    if (!is_unsent || !error[0])
        snprintf(error, sizeof error, "timed out after %lld ms, %s",
                 (long long)(clock_inner_ms() - message->added_ms),
                 is_unsent ? "not sent" : "no confirm");
    outbox_lose(&amqp->outbox, message, error);
}

/* Reports the messages that the publisher has settled, unless they had timed out, and releases
 * them. */
static void take_settled(struct target_amqp *amqp)
{
    struct list settled;
    list_init(&settled);
    target_amqp_publisher_take_settled(amqp->publisher, &settled);
    while (!list_is_empty(&settled)) {
        struct target_amqp_message *message =
            list_entry(settled.next, struct target_amqp_message, list);
        list_remove(&message->list);
        if (message->message.stage == OUTBOX_WAITING)
            outbox_settle(&amqp->outbox, &message->message, &message->result);
        outbox_return(&amqp->outbox, &message->message);
    }
}

/* Runs when the publisher has settled messages or its thread has ended. */
static void run_letter(struct letter *letter)
{
    struct target_amqp *amqp = list_entry(letter, struct target_amqp, letter);
    /* From here on another letter may be sent: it covers later events, and earlier ones are handled
     * now. */
    atomic_store(&amqp->is_letter_on_its_way, false);
    bool has_ended = atomic_load(&amqp->has_ended);
    if (amqp->publisher)
        take_settled(amqp);
    if (has_ended) {
        target_amqp_publisher_free(amqp->publisher);
        amqp->publisher = NULL;
    }
    /* The thread has ended, so no letter can be sent any more, but one may still be on its way. */
    if (has_ended && !atomic_load(&amqp->is_letter_on_its_way))
        outbox_gone(&amqp->outbox);
}

/* Posts the letter unless it is on its way. Any thread. */
static void post(struct target_amqp *amqp)
{
    if (!atomic_exchange(&amqp->is_letter_on_its_way, true)) {
        amqp->letter.run = run_letter;
        reactor_post(amqp->outbox.env->reactor, &amqp->letter);
    }
}

/* Reports settled messages to the reactor; on the publisher's thread. */
static void on_settled(void *ctx)
{
    post(ctx);
}

/* Reports the end of the publisher's thread, as the last call on it. */
static void on_ended(void *ctx)
{
    struct target_amqp *amqp = ctx;
    atomic_store(&amqp->has_ended, true);
    post(amqp);
}

/* ---- sending ---- */

/* Copies everything that is published, with exchange and routing key filled in. *fault is the
 * reason if it can never be sent. */
static struct target_amqp_message *copy_message(const struct target_message *message,
                                                const char **fault)
{
    const struct target_setting *setting = message->setting;
    const struct job none = {.attempt = message->job->attempt};
    struct target_amqp_message *copy = NULL;
    struct buffer exchange, key;
    buffer_init(&exchange, TARGET_AMQP_TEXT_BYTES_MAX);
    buffer_init(&key, TARGET_AMQP_TEXT_BYTES_MAX);
    *fault = NULL;
    if (!template_fill(or_default(setting->exchange, TARGET_STANDARD_exchange), message->job,
                       TEMPLATE_PLAIN, TARGET_AMQP_TEXT_BYTES_MAX, &exchange))
        *fault = "the exchange's name is longer than 255 bytes";
    else if (!template_fill(or_default(setting->routing_key, TARGET_STANDARD_routing_key),
                            message->job, TEMPLATE_PLAIN, TARGET_AMQP_TEXT_BYTES_MAX, &key))
        *fault = "the routing key is longer than 255 bytes";
    else
        copy = target_amqp_message_new(message->job, message->attributes, buffer_slice(&exchange),
                                       buffer_slice(&key));
    buffer_fini(&exchange);
    buffer_fini(&key);
    /* A rejected message only needs its tag. If there is no memory even for that, its lease
     * ends. */
    return copy ? copy
                : target_amqp_message_new(&none, (struct slice){0}, (struct slice){0},
                                          (struct slice){0});
}

/* Adds a copy to `fresh`, for the publisher, or settles it immediately. */
static void add_message(struct target_amqp *amqp, const struct target_message *message,
                        struct list *fresh)
{
    const char *fault;
    struct target_amqp_message *copy = copy_message(message, &fault);
    if (!copy)
        return;
    outbox_add(&amqp->outbox, &copy->message, message, 0);
    amqp->bytes += copy->body.len;
    enum target_outcome outcome = fault ? TARGET_REFUSED : TARGET_UNSENT;
    if (!fault && copy->body.len != message->job->body.len)
        fault = "not sent, out of memory";
    else if (!fault && amqp->bytes > WAITING_BYTES_MAX)
        fault = "not sent, more than 64 MiB wait for this RabbitMQ";
    if (fault) {
        outbox_settle_as(&amqp->outbox, &copy->message, outcome, false, fault);
        return;
    }
    copy->message.is_held = true;
    list_add_last(fresh, &copy->list);
}

static void send_amqp(struct target *target, const struct target_message *messages, size_t count)
{
    struct target_amqp *amqp = list_entry(target, struct target_amqp, target);
    struct list fresh;
    list_init(&fresh);
    for (size_t i = 0; i < count; i++)
        add_message(amqp, &messages[i], &fresh);
    if (!list_is_empty(&fresh))
        target_amqp_publisher_send(amqp->publisher, &fresh);
}

/* ---- life ---- */

static bool check_amqp(const struct target_setting *setting, struct slice to,
                       char error[TARGET_ERROR_BYTES])
{
    struct target_amqp_place place;
    return target_amqp_place_parse(to, &place, NULL, error) &&
           template_check(or_default(setting->exchange, TARGET_STANDARD_exchange), error) &&
           template_check(or_default(setting->routing_key, TARGET_STANDARD_routing_key), error);
}

static const struct outbox_kind outbox_kind = {
    .overdue = on_overdue, .explain = on_explain, .free_message = on_free_message};

static struct target *open_amqp(const struct target_env *env, const struct target_setting *setting,
                                struct slice to)
{
    static const struct target_amqp_publisher_events events = {.settled = on_settled,
                                                               .ended = on_ended};
    char error[TARGET_ERROR_BYTES];
    struct target_amqp *amqp = calloc(1, sizeof *amqp);
    (void)setting;
    if (!amqp || !target_amqp_place_parse(to, &amqp->place, NULL, error) ||
        !outbox_init(&amqp->outbox, env, &outbox_kind, amqp)) {
        free(amqp);
        return NULL;
    }
    amqp->target.ops = &target_amqp;
    amqp->publisher =
        target_amqp_publisher_new(env->guard, &amqp->place, env->version, &events, amqp);
    if (amqp->publisher)
        return &amqp->target;
    outbox_fini(&amqp->outbox);
    free(amqp);
    return NULL;
}

static void close_amqp(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct target_amqp *amqp = list_entry(target, struct target_amqp, target);
    outbox_close(&amqp->outbox, closed, ctx);
    target_amqp_publisher_stop(amqp->publisher, !list_is_empty(&amqp->outbox.waiting));
}

const struct target_ops target_amqp = {
    .schemes = target_amqp_schemes,
    .event = {.prefix = TARGET_AMQP_EVENT_PREFIX},
    .has_virtual_hosts = true,
    .check = check_amqp,
    .open = open_amqp,
    .send = send_amqp,
    .close = close_amqp,
};
