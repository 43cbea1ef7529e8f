#include "server/delivery.h"

#include "base/error.h"
#include "base/log.h"
#include "base/trouble.h"
#include "deliver/deliver.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert((int)DELIVER_ERROR_BYTES <= (int)HTTP_HOOK_ERROR_BYTES, "errors are handed through");

/* ---- checks; any thread ---- */

static bool is_delivery_on(void *ctx)
{
    const struct delivery *delivery = ctx;
    return guard_is_on(delivery->guard);
}

static bool check_extension(void *ctx, struct slice topic, struct slice extension, char *error)
{
    const struct delivery *delivery = ctx;
    return deliver_check(delivery->guard, topic, extension, error);
}

static bool other_topic(void *ctx, struct slice extension, char *other)
{
    (void)ctx;
    return deliver_other_topic(extension, other);
}

static bool check_callback(void *ctx, struct slice url, char *error)
{
    const struct delivery *delivery = ctx;
    return deliver_check_callback(delivery->guard, url, error);
}

static bool allows_callback(void *ctx, struct slice url)
{
    const struct delivery *delivery = ctx;
    char error[HTTP_HOOK_ERROR_BYTES];
    return guard_is_on(delivery->guard) && deliver_check_callback(delivery->guard, url, error);
}

static void write_endpoints(void *ctx, struct slice extension, bool sees_all, struct buffer *out)
{
    const struct delivery *delivery = ctx;
    deliver_write_endpoints(delivery->deliver, extension, sees_all, out);
}

static const char *target_state(void *ctx, struct slice extension)
{
    const struct delivery *delivery = ctx;
    return deliver_target_state(delivery->deliver, extension);
}

/* ---- a test delivery from any reactor: a letter to the first one, and a letter back ---- */

struct test_letter {
    struct letter letter;
    struct delivery *delivery;
    struct reactor *home;
    http_tested *done;
    void *owner;
    uint64_t tag;
    enum queue_status status;
    char *json;
    size_t json_bytes, topic_bytes, body_bytes;
    char text[]; /* topic and body */
};

static void run_back(struct letter *letter)
{
    struct test_letter *test = (struct test_letter *)(void *)letter;
    test->done(test->owner, test->tag, test->status, slice_make(test->json, test->json_bytes));
    free(test->json);
    free(test);
}

static void post_back(struct test_letter *test, enum queue_status status)
{
    test->status = status;
    test->letter.run = run_back;
    reactor_post(test->home, &test->letter);
}

static void on_tested(void *owner, uint64_t tag, enum queue_status status, struct slice json)
{
    struct test_letter *test = owner;
    (void)tag;
    if (json.len > 0) {
        test->json = malloc(json.len);
        if (!test->json) {
            post_back(test, QUEUE_NO_MEMORY);
            return;
        }
        memcpy(test->json, json.at, json.len);
        test->json_bytes = json.len;
    }
    post_back(test, status);
}

static void run_test(struct letter *letter)
{
    struct test_letter *test = (struct test_letter *)(void *)letter;
    if (test->delivery->is_stopping) {
        post_back(test, QUEUE_STOPPING);
        return;
    }
    deliver_test(test->delivery->deliver, slice_make(test->text, test->topic_bytes),
                 slice_make(test->text + test->topic_bytes, test->body_bytes), on_tested, test, 0);
}

static void post_test(void *ctx, struct reactor *reactor, struct slice topic, struct slice body,
                      http_tested *done, void *owner, uint64_t tag)
{
    struct delivery *delivery = ctx;
    struct test_letter *test = malloc(sizeof *test + topic.len + body.len);
    if (!test)
        /* no error can be returned; with bodies of a few MiB at most, everything else would fail
         * too */
        abort();
    *test = (struct test_letter){.letter.run = run_test,
                                 .delivery = delivery,
                                 .home = reactor,
                                 .done = done,
                                 .owner = owner,
                                 .tag = tag,
                                 .topic_bytes = topic.len,
                                 .body_bytes = body.len};
    memcpy(test->text, topic.at, topic.len);
    if (body.len > 0)
        memcpy(test->text + topic.len, body.at, body.len);
    reactor_post(delivery->reactor, &test->letter);
}

/* ---- life ---- */

static const char *store_name(void *ctx)
{
    struct backend *backend = ctx;
    return backend->ops->store_name(backend);
}

bool delivery_check(const char *path, char error[DELIVERY_ERROR_BYTES])
{
    char why[GUARD_ERROR_BYTES] = "";
    struct guard *guard = NULL;
    bool is_good = guard_open(path, &guard, why) == 0;
    guard_free(guard);
    return is_good || error_text(error, DELIVERY_ERROR_BYTES, "%s", why);
}

bool delivery_open(struct delivery *delivery, const struct config *config, struct backend *backend,
                   struct reactor *reactor, struct queue *queue, struct waiters *waiters,
                   struct lateness *lateness, struct tracer *tracer,
                   char error[DELIVERY_ERROR_BYTES])
{
    char why[GUARD_ERROR_BYTES] = "";
    if (guard_open(config->deliver, &delivery->guard, why) != 0) {
        return error_text(error, DELIVERY_ERROR_BYTES, "%s", why);
    }
    const struct deliver_options options = {.reactor = reactor,
                                            .queue = queue,
                                            .waiters = waiters,
                                            .guard = delivery->guard,
                                            .lateness = lateness,
                                            .store_name = store_name,
                                            .store = backend,
                                            .version = TARRY_VERSION,
                                            .tracer = tracer,
                                            .result_bytes_max = (size_t)config->max_result_bytes};
    if (guard_is_on(delivery->guard))
        log_event(LOG_INFO, "policy read", LOG_TEXT("file", config->deliver));
    delivery->reactor = reactor;
    delivery->deliver = deliver_new(&options);
    if (!delivery->deliver) {
        return error_text(error, DELIVERY_ERROR_BYTES, "out of memory");
    }
    delivery->hooks = (struct http_hooks){.ctx = delivery,
                                          .is_on = is_delivery_on,
                                          .check_extension = check_extension,
                                          .other_topic = other_topic,
                                          .check_callback = check_callback,
                                          .write_endpoints = write_endpoints,
                                          .target_state = target_state,
                                          .test = post_test};
    delivery->callbacks = (struct queue_callback_rule){.allows = allows_callback, .ctx = delivery};
    return true;
}

void delivery_start(struct delivery *delivery)
{
    deliver_start(delivery->deliver);
}

void delivery_emit_metrics(struct delivery *delivery, struct metric_page *page)
{
    deliver_emit_metrics(delivery->deliver, page);
}

const struct metric_table delivery_metrics = {"Deliveries by the server", deliver_metrics};
const struct metric_table delivery_dead_metrics = {"Dead letters", dead_letter_metrics};

int64_t delivery_next_ms(const struct delivery *delivery)
{
    return delivery->deliver ? deliver_next_ms(delivery->deliver) : INT64_MAX;
}

void delivery_clock_moved(struct delivery *delivery)
{
    if (delivery->deliver)
        deliver_clock_moved(delivery->deliver);
}

void delivery_clock_reset(struct delivery *delivery)
{
    if (delivery->deliver)
        deliver_clock_reset(delivery->deliver);
}

void delivery_reload(struct delivery *delivery)
{
    char error[GUARD_ERROR_BYTES] = "";
    if (!guard_is_on(delivery->guard))
        return;
    int failed = guard_reload(delivery->guard, error);
    trouble_note(TROUBLE_POLICY, 0, failed != 0);
    if (failed)
        log_event(LOG_ERROR, "policy not reloaded, the previous one stays in force",
                  LOG_TEXT("error", error));
    else {
        log_event(LOG_INFO, "policy reloaded");
        deliver_evaluate_all(delivery->deliver);
    }
}

void delivery_stop(struct delivery *delivery, int64_t timeout_ms, void (*stopped)(void *ctx),
                   void *ctx)
{
    delivery->is_stopping = true;
    deliver_stop(delivery->deliver, timeout_ms, stopped, ctx);
}

void delivery_close(struct delivery *delivery)
{
    deliver_free(delivery->deliver);
    guard_free(delivery->guard);
    *delivery = (struct delivery){0};
}
