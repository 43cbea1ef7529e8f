/* Calls of SQS: --sqs. */
#include "base/error.h"
#include "server/protocol.h"
#include "sqs/sqs.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_word(const char *text, size_t len, size_t bytes)
{
    for (size_t i = 0; i < len; i++)
        if (!(text[i] >= 'a' && text[i] <= 'z') && !(text[i] >= '0' && text[i] <= '9') &&
            text[i] != '-')
            return false;
    return len > 0 && len < bytes;
}

static void *on_open(const struct config *config, struct http_shared *shared, char *error)
{
    const char *text = config->sqs, *slash = strchr(text, '/');
    size_t region = slash ? (size_t)(slash - text) : 0;
    if (!slash || !is_word(text, region, SQS_REGION_BYTES) ||
        !is_word(slash + 1, strlen(slash + 1), SQS_ACCOUNT_BYTES)) {
        (void)error_text(error, PROTOCOL_ERROR_BYTES,
                         "bad value '%.100s' for '--sqs', give a region and an account such as "
                         "us-east-1/000000000000",
                         text);
        return NULL;
    }
    struct sqs_options *options = calloc(1, sizeof *options);
    if (!options) {
        (void)error_text(error, PROTOCOL_ERROR_BYTES, "out of memory");
        return NULL;
    }
    (void)snprintf(options->region, sizeof options->region, "%.*s", (int)region, text);
    (void)snprintf(options->account, sizeof options->account, "%s", slash + 1);
    sqs_add(shared, options);
    return options;
}

const struct protocol_ops protocol_sqs = {.open = on_open, .free = free};
