/*
 * amqp: the target RabbitMQ: one connection to one virtual host, on a thread of its own.
 *
 * A message is done when the broker has confirmed it. It is published as mandatory: one that no
 * queue was there for comes back and has failed. The thread (amqp_worker.h) gets copies of the
 * messages through its queue and hands them back settled; times are kept here.
 */
#include "base/clock.h"
#include "net/thread.h"
#include "targets/amqp_worker.h"
#include "targets/template.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { WAITING_BYTES_MAX = 64 << 20 };

struct target_amqp {
    struct target target; /* first */
    struct letter letter; /* from the worker: look what is settled */
    atomic_bool is_letter_on_its_way;
    struct target_env env;
    struct target_amqp_url url;
    struct target_amqp_worker worker;
    struct deadline *deadline;
    struct list live;    /* not reported yet, in the order they came */
    struct list refused; /* settled here, to be reported by the letter */
    size_t bytes;        /* of bodies kept */
    int64_t next_ms;     /* when the first one's time is over */
    bool has_thread, is_closing;
    atomic_bool has_ended; /* the thread is about to */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

static struct slice or_default(const char *given, const char *otherwise)
{
    return slice_of(given ? given : otherwise);
}

static bool check(const struct target_setting *setting, struct slice to,
                  char error[TARGET_ERROR_BYTES])
{
    struct target_amqp_url url;
    return target_amqp_url_parse(to, &url, NULL, error) &&
           template_check(or_default(setting->exchange, ""), error) &&
           template_check(or_default(setting->routing_key, "{topic}"), error);
}

/* ---- reports ---- */

static void explain(const struct target_amqp_message *message, const struct target_report *report)
{
    struct buffer *out = message->explained;
    buffer_append_format(out, "exchange '%.*s', routing key '%.*s', %zu bytes\n",
                         (int)message->exchange.len, message->exchange.at,
                         (int)message->routing_key.len, message->routing_key.at, message->body.len);
    buffer_append_format(out, "%s after %lld ms\n",
                         report->outcome == TARGET_DONE ? "confirmed by the broker" : "ended",
                         (long long)(clock_inner_ms() - message->sent_ms));
}

static void give_report(struct target_amqp *amqp, struct target_amqp_message *message,
                        const struct target_report *report)
{
    if (message->explained)
        explain(message, report);
    list_remove(&message->live);
    amqp->env.reported(amqp->env.owner, message->tag, report);
}

static void free_message(struct target_amqp *amqp, struct target_amqp_message *message)
{
    amqp->bytes -= message->body.len;
    free(message);
}

static void report_settled(struct target_amqp *amqp, struct list *settled)
{
    while (!list_is_empty(settled)) {
        struct target_amqp_message *message =
            list_entry(settled->next, struct target_amqp_message, list);
        struct target_report report = {.outcome = message->outcome,
                                       .is_ailing = message->is_ailing,
                                       .retry_after_ms = -1,
                                       .code = message->code};
        list_remove(&message->list);
        memcpy(report.error, message->error, sizeof(report.error));
        if (!atomic_load(&message->is_abandoned))
            give_report(amqp, message, &report);
        free_message(amqp, message);
    }
}

static void end(struct target_amqp *amqp)
{
    void (*closed)(void *ctx) = amqp->closed;
    void *ctx = amqp->closed_ctx;
    if (amqp->has_thread)
        thread_join(amqp->worker.thread);
    assert(list_is_empty(&amqp->live));
    target_amqp_worker_fini(&amqp->worker);
    deadline_free(amqp->deadline);
    free(amqp);
    closed(ctx);
}

static void run_letter(struct letter *letter)
{
    struct target_amqp *amqp = list_entry(letter, struct target_amqp, letter);
    struct list settled;
    list_init(&settled);
    /* From here on a further one may be sent: what comes now is seen by it, or already here. */
    atomic_store(&amqp->is_letter_on_its_way, false);
    bool has_ended = atomic_load(&amqp->has_ended);
    if (amqp->has_thread)
        target_amqp_worker_take_settled(&amqp->worker, &settled);
    while (!list_is_empty(&amqp->refused)) {
        struct list *first = amqp->refused.next;
        list_remove(first);
        list_add_last(&settled, first);
    }
    report_settled(amqp, &settled);
    if (amqp->is_closing && (has_ended || !amqp->has_thread) &&
        !atomic_load(&amqp->is_letter_on_its_way))
        end(amqp);
}

static void post(struct target_amqp *amqp)
{
    if (!atomic_exchange(&amqp->is_letter_on_its_way, true)) {
        amqp->letter.run = run_letter;
        reactor_post(amqp->env.reactor, &amqp->letter);
    }
}

/* The worker's thread. */
static void on_settled(void *ctx)
{
    post(ctx);
}

/* The worker's thread; nothing follows this. */
static void on_ended(void *ctx)
{
    struct target_amqp *amqp = ctx;
    atomic_store(&amqp->has_ended, true);
    post(amqp);
}

/* ---- times ---- */

/* The message may be the worker's still: what it writes there is not looked at. */
static void give_up(struct target_amqp *amqp, struct target_amqp_message *message)
{
    char trouble[TARGET_ERROR_BYTES];
    struct target_report report = {.is_ailing = true, .retry_after_ms = -1};
    bool is_unsent = target_amqp_worker_give_up(&amqp->worker, message, trouble);
    report.outcome = is_unsent ? TARGET_UNSENT : TARGET_FAILED;
    if (is_unsent && trouble[0])
        memcpy(report.error, trouble, sizeof(report.error));
    else
        snprintf(report.error, sizeof(report.error), "timed out after %lld ms, %s",
                 (long long)(clock_inner_ms() - message->sent_ms),
                 is_unsent ? "not sent" : "no confirm");
    give_report(amqp, message, &report);
    if (is_unsent)
        free_message(amqp, message);
}

static void on_deadline(void *ctx)
{
    struct target_amqp *amqp = ctx;
    int64_t now_ms = clock_inner_ms(), next_ms = INT64_MAX;
    for (struct list *at = amqp->live.next, *next; at != &amqp->live; at = next) {
        struct target_amqp_message *message = list_entry(at, struct target_amqp_message, live);
        next = at->next;
        if (message->until_ms <= now_ms)
            give_up(amqp, message);
    }
    /* A report may have led to a new message, so only now. */
    for (struct list *at = amqp->live.next; at != &amqp->live; at = at->next) {
        int64_t until_ms = list_entry(at, struct target_amqp_message, live)->until_ms;
        next_ms = until_ms < next_ms ? until_ms : next_ms;
    }
    amqp->next_ms = next_ms;
    deadline_set(amqp->deadline, next_ms);
}

/* ---- the table ---- */

static struct target *open_amqp(const struct target_env *env, const struct target_setting *setting,
                                struct slice to)
{
    static const struct target_amqp_told told = {.settled = on_settled, .ended = on_ended};
    char error[TARGET_ERROR_BYTES];
    struct target_amqp *amqp = calloc(1, sizeof(*amqp));
    (void)setting;
    if (!amqp)
        return NULL;
    *amqp = (struct target_amqp){.target.ops = &target_amqp, .env = *env, .next_ms = INT64_MAX};
    list_init(&amqp->live);
    list_init(&amqp->refused);
    bool ok = target_amqp_url_parse(to, &amqp->url, NULL, error);
    assert(ok);
    if (target_amqp_worker_init(&amqp->worker, env->guard, &amqp->url, env->version, &told, amqp) !=
        0) {
        free(amqp);
        return NULL;
    }
    amqp->deadline = deadline_new(env->reactor, on_deadline, amqp);
    if (!amqp->deadline) {
        target_amqp_worker_fini(&amqp->worker);
        free(amqp);
        return NULL;
    }
    return &amqp->target;
}

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
    if (!template_fill(or_default(setting->exchange, ""), message->job, TEMPLATE_PLAIN,
                       TARGET_AMQP_TEXT_BYTES_MAX, &exchange))
        *fault = "the exchange's name is longer than 255 bytes";
    else if (!template_fill(or_default(setting->routing_key, "{topic}"), message->job,
                            TEMPLATE_PLAIN, TARGET_AMQP_TEXT_BYTES_MAX, &key))
        *fault = "the routing key is longer than 255 bytes";
    else
        copy = target_amqp_message_new(message->job, buffer_slice(&exchange), buffer_slice(&key));
    buffer_fini(&exchange);
    buffer_fini(&key);
    /* Only its tag is needed to refuse it; where there is no memory even for that, its lease ends.
     */
    return copy ? copy : target_amqp_message_new(&none, (struct slice){0}, (struct slice){0});
}

static bool start_thread(struct target_amqp *amqp)
{
    if (!amqp->has_thread)
        amqp->has_thread = target_amqp_worker_start(&amqp->worker) == 0;
    return amqp->has_thread;
}

static void add_message(struct target_amqp *amqp, const struct target_message *message,
                        struct list *fresh)
{
    const char *fault;
    int64_t now_ms = clock_inner_ms();
    struct target_amqp_message *copy = copy_message(message, &fault);
    if (!copy)
        return;
    copy->tag = message->tag;
    copy->explained = message->is_test ? message->explained : NULL;
    copy->sent_ms = now_ms;
    copy->until_ms = now_ms + message->setting->timeout_ms;
    list_add_last(&amqp->live, &copy->live);
    amqp->bytes += copy->body.len;
    amqp->next_ms = copy->until_ms < amqp->next_ms ? copy->until_ms : amqp->next_ms;
    enum target_outcome outcome = fault ? TARGET_REFUSED : TARGET_UNSENT;
    if (!fault && copy->body.len != message->job->body.len)
        fault = "not sent, out of memory";
    else if (!fault && amqp->bytes > WAITING_BYTES_MAX)
        fault = "not sent, more than 64 MiB wait for this RabbitMQ";
    else if (!fault && !start_thread(amqp))
        fault = "not sent, no thread could be started";
    if (!fault) {
        list_add_last(fresh, &copy->list);
        return;
    }
    copy->stage = TARGET_AMQP_TAKEN; /* the queue does not have it */
    target_amqp_settle(&amqp->refused, copy, outcome, false, 0, fault);
    post(amqp);
}

static void send_amqp(struct target *target, const struct target_message *messages, size_t count)
{
    struct target_amqp *amqp = list_entry(target, struct target_amqp, target);
    struct list fresh;
    list_init(&fresh);
    assert(!amqp->is_closing);
    for (size_t i = 0; i < count; i++)
        add_message(amqp, &messages[i], &fresh);
    deadline_set(amqp->deadline, amqp->next_ms);
    if (!list_is_empty(&fresh))
        target_amqp_worker_send(&amqp->worker, &fresh);
}

static void close_amqp(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct target_amqp *amqp = list_entry(target, struct target_amqp, target);
    assert(!amqp->is_closing);
    amqp->is_closing = true;
    amqp->closed = closed;
    amqp->closed_ctx = ctx;
    if (amqp->has_thread)
        target_amqp_worker_stop(&amqp->worker, !list_is_empty(&amqp->live));
    else
        post(amqp);
}

static const char *const schemes[] = {"amqp", "amqps", NULL};

const struct target_ops target_amqp = {
    .schemes = schemes,
    .check = check,
    .open = open_amqp,
    .send = send_amqp,
    .close = close_amqp,
};
