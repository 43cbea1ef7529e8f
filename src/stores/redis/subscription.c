#include "redis/subscription.h"

#include "base/clock.h"
#include "redis/command.h"

static void start_again(struct redis_subscription *subscription, int64_t pause_ms)
{
    redis_subscription_stop(subscription);
    deadline_set(subscription->deadline, clock_inner_ms() + pause_ms);
}

/* Returns whether the array is of this kind; "message" and "smessage" are equivalent. */
static bool is_kind(const redisReply *array, const char *kind)
{
    const redisReply *word = array->element[0];
    return word->type == REDIS_REPLY_STRING &&
           (strcmp(word->str, kind) == 0 ||
            (word->str[0] == 's' && strcmp(word->str + 1, kind) == 0));
}

static void on_array(struct redis_subscription *subscription, const redisReply *array)
{
    const struct redis_subscription_options *options = &subscription->options;
    if (is_kind(array, "message") && array->elements == 3 &&
        array->element[2]->type == REDIS_REPLY_STRING) {
        options->message(options->ctx, slice_make(array->element[2]->str, array->element[2]->len));
    } else if (is_kind(array, "subscribe")) {
        subscription->is_subscribed = true;
        if (options->subscribed)
            options->subscribed(options->ctx);
    } else if (is_kind(array, "unsubscribe")) {
        start_again(subscription, REDIS_SUBSCRIPTION_PAUSE_MS); /* the slot has moved */
    }
}

static void on_reply(void *ctx, const redisReply *reply)
{
    struct redis_subscription *subscription = ctx;
    const struct redis_subscription_options *options = &subscription->options;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0)
        on_array(subscription, reply);
    else if (reply->type == REDIS_REPLY_ERROR)
        start_again(subscription, options->refused ? options->refused(options->ctx, reply->str)
                                                   : REDIS_SUBSCRIPTION_PAUSE_MS);
}

static void on_up(void *ctx)
{
    struct redis_subscription *subscription = ctx;
    const struct redis_subscription_options *options = &subscription->options;
    struct buffer *out = redis_connection_out(subscription->connection);
    (void)redis_command_auth(out, options->user, options->password);
    redis_command_words(out, options->subscribe, options->channel, NULL);
}

static void on_down(void *ctx, const char *why)
{
    (void)why; /* logged by the other users of the same server */
    start_again(ctx, REDIS_SUBSCRIPTION_PAUSE_MS);
}

static void on_deadline(void *ctx)
{
    redis_subscription_start(ctx);
}

void redis_subscription_start(struct redis_subscription *subscription)
{
    static const struct redis_connection_events events = {
        .up = on_up, .down = on_down, .reply = on_reply};
    const struct redis_subscription_options *options = &subscription->options;
    redis_subscription_stop(subscription);
    subscription->connection =
        redis_connection_new(options->reactor, options->where(options->ctx), options->tls,
                             options->connect_ms, &events, subscription);
    if (!subscription->connection)
        start_again(subscription, REDIS_SUBSCRIPTION_PAUSE_MS);
}

void redis_subscription_stop(struct redis_subscription *subscription)
{
    redis_connection_free(subscription->connection);
    subscription->connection = NULL;
    subscription->is_subscribed = false;
    if (subscription->deadline)
        deadline_set(subscription->deadline, INT64_MAX);
}

bool redis_subscription_init(struct redis_subscription *subscription,
                             const struct redis_subscription_options *options)
{
    *subscription = (struct redis_subscription){.options = *options};
    subscription->deadline = deadline_new(options->reactor, on_deadline, subscription);
    return subscription->deadline != NULL;
}

void redis_subscription_fini(struct redis_subscription *subscription)
{
    redis_subscription_stop(subscription);
    deadline_free(subscription->deadline);
    subscription->deadline = NULL;
}
