#include "server/delivery.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert((int)DELIVER_ERROR_BYTES <= (int)HTTP_HOOK_ERROR_BYTES, "errors are handed through");

/* ---- checks; any thread ---- */

static bool is_on(void *ctx)
{
    const struct delivery *delivery = ctx;
    return guard_is_on(delivery->guard);
}

static bool check_extension(void *ctx, struct slice topic, struct slice extension, char *error)
{
    const struct delivery *delivery = ctx;
    return deliver_check(delivery->guard, topic, extension, error);
}

static bool check_callback(void *ctx, struct slice url, char *error)
{
    const struct delivery *delivery = ctx;
    return deliver_check_callback(delivery->guard, url, error);
}

/* ---- a test from any reactor: a letter to the first one, a letter back ---- */

struct trip {
    struct letter letter;
    struct delivery *delivery;
    struct reactor *home;
    http_tested *done;
    void *owner;
    uint64_t tag;
    enum queue_status status;
    char *json;
    size_t json_bytes, topic_bytes, body_bytes;
    char text[]; /* topic, body */
};

static void run_home(struct letter *letter)
{
    struct trip *trip = (struct trip *)(void *)letter;
    trip->done(trip->owner, trip->tag, trip->status, slice_make(trip->json, trip->json_bytes));
    free(trip->json);
    free(trip);
}

static void go_home(struct trip *trip, enum queue_status status)
{
    trip->status = status;
    trip->letter.run = run_home;
    reactor_post(trip->home, &trip->letter);
}

static void on_tested(void *owner, uint64_t tag, enum queue_status status, struct slice json)
{
    struct trip *trip = owner;
    (void)tag;
    if (json.len > 0) {
        trip->json = malloc(json.len);
        if (!trip->json) {
            go_home(trip, QUEUE_NO_MEMORY);
            return;
        }
        memcpy(trip->json, json.at, json.len);
        trip->json_bytes = json.len;
    }
    go_home(trip, status);
}

static void run_there(struct letter *letter)
{
    struct trip *trip = (struct trip *)(void *)letter;
    if (trip->delivery->is_stopping) {
        go_home(trip, QUEUE_STOPPING);
        return;
    }
    deliver_test(trip->delivery->deliver, slice_make(trip->text, trip->topic_bytes),
                 slice_make(trip->text + trip->topic_bytes, trip->body_bytes), on_tested, trip, 0);
}

static void test(void *ctx, struct reactor *reactor, struct slice topic, struct slice body,
                 http_tested *done, void *owner, uint64_t tag)
{
    struct delivery *delivery = ctx;
    struct trip *trip = malloc(sizeof(*trip) + topic.len + body.len);
    if (!trip)
        abort(); /* no way to say so; with bodies of a few MiB at most nothing else works either */
    *trip = (struct trip){.letter.run = run_there,
                          .delivery = delivery,
                          .home = reactor,
                          .done = done,
                          .owner = owner,
                          .tag = tag,
                          .topic_bytes = topic.len,
                          .body_bytes = body.len};
    memcpy(trip->text, topic.at, topic.len);
    if (body.len > 0)
        memcpy(trip->text + topic.len, body.at, body.len);
    reactor_post(delivery->reactor, &trip->letter);
}

/* ---- life ---- */

bool delivery_open(struct delivery *delivery, const char *path, struct backend *backend,
                   struct reactor *reactor, struct queue *queue, struct waiters *waiters,
                   char error[DELIVERY_ERROR_BYTES])
{
    char why[GUARD_ERROR_BYTES] = "";
    if (guard_open(path, &delivery->guard, why) != 0) {
        snprintf(error, DELIVERY_ERROR_BYTES, "%s", why);
        return false;
    }
    const struct deliver_options options = {.reactor = reactor,
                                            .queue = queue,
                                            .waiters = waiters,
                                            .guard = delivery->guard,
                                            .store_name = backend_store_name,
                                            .store = backend,
                                            .version = TARRY_VERSION};
    if (guard_is_on(delivery->guard))
        log_event(LOG_INFO, "policy read", LOG_TEXT("file", path));
    delivery->reactor = reactor;
    delivery->deliver = deliver_new(&options);
    if (!delivery->deliver) {
        snprintf(error, DELIVERY_ERROR_BYTES, "out of memory");
        return false;
    }
    delivery->hooks = (struct http_hooks){.ctx = delivery,
                                          .is_on = is_on,
                                          .check_extension = check_extension,
                                          .check_callback = check_callback,
                                          .test = test};
    return true;
}

void delivery_start(struct delivery *delivery)
{
    deliver_start(delivery->deliver);
}

void delivery_reload(struct delivery *delivery)
{
    char error[GUARD_ERROR_BYTES] = "";
    if (!guard_is_on(delivery->guard))
        return;
    if (guard_reload(delivery->guard, error) != 0)
        log_event(LOG_ERROR, "policy not reloaded, the old one stays", LOG_TEXT("error", error));
    else {
        log_event(LOG_INFO, "policy reloaded");
        deliver_judge_all(delivery->deliver);
    }
}

void delivery_stop(struct delivery *delivery, int64_t patience_ms, void (*stopped)(void *ctx),
                   void *ctx)
{
    delivery->is_stopping = true;
    deliver_stop(delivery->deliver, patience_ms, stopped, ctx);
}

void delivery_close(struct delivery *delivery)
{
    deliver_free(delivery->deliver);
    guard_free(delivery->guard);
    *delivery = (struct delivery){0};
}
