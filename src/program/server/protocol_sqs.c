/* Protocol Amazon SQS: --sqs. */
#include "base/error.h"
#include "server/protocol.h"
#include "sqs/mover.h"
#include "sqs/sqs.h"
#include "sqs/topics.h"

#include <stdio.h>
#include <stdlib.h>

struct protocol {
    struct sqs_options options;
    struct sqs_mover *mover; /* NULL if not attached */
};

static bool is_word(const char *text, size_t len, size_t bytes)
{
    for (size_t i = 0; i < len; i++)
        if (!(text[i] >= 'a' && text[i] <= 'z') && !(text[i] >= '0' && text[i] <= '9') &&
            text[i] != '-')
            return false;
    return len > 0 && len < bytes;
}

static bool on_check(const struct config *config, char *error)
{
    const char *text = config->sqs, *slash = strchr(text, '/');
    return (slash && is_word(text, (size_t)(slash - text), SQS_REGION_BYTES) &&
            is_word(slash + 1, strlen(slash + 1), SQS_ACCOUNT_BYTES)) ||
           error_text(error, PROTOCOL_ERROR_BYTES,
                      "bad value '%.100s' for '--sqs', give a region and an account such as "
                      "us-east-1/000000000000",
                      text);
}

static void *on_open(const struct config *config, struct http_shared *shared, char *error)
{
    const char *text = config->sqs, *slash = strchr(text, '/');
    if (!on_check(config, error))
        return NULL;
    size_t region = (size_t)(slash - text);
    struct protocol *protocol = calloc(1, sizeof *protocol);
    struct sqs_options *options = protocol ? &protocol->options : NULL;
    if (options)
        options->topics = sqs_topics_new();
    if (!options || !options->topics) {
        free(protocol);
        (void)error_text(error, PROTOCOL_ERROR_BYTES, "out of memory");
        return NULL;
    }
    (void)snprintf(options->region, sizeof options->region, "%.*s", (int)region, text);
    (void)snprintf(options->account, sizeof options->account, "%s", slash + 1);
    sqs_add(shared, options);
    return protocol;
}

static bool on_attach(void *self, struct reactor *reactor, struct queue *queue,
                      struct waiters *waiters)
{
    struct protocol *protocol = self;
    sqs_topics_follow(protocol->options.topics, queue);
    protocol->mover = sqs_mover_new(reactor, queue, waiters);
    return protocol->mover != NULL;
}

static void on_start(void *self)
{
    struct protocol *protocol = self;
    sqs_mover_start(protocol->mover);
}

static void on_stop(void *self, void (*stopped)(void *ctx), void *ctx)
{
    struct protocol *protocol = self;
    sqs_mover_stop(protocol->mover, stopped, ctx);
}

static void on_free(void *self)
{
    struct protocol *protocol = self;
    if (!protocol)
        return;
    sqs_mover_free(protocol->mover);
    sqs_topics_free(protocol->options.topics);
    free(protocol);
}

const struct protocol_ops protocol_sqs = {.check = on_check,
                                          .open = on_open,
                                          .attach = on_attach,
                                          .start = on_start,
                                          .stop = on_stop,
                                          .free = on_free};
