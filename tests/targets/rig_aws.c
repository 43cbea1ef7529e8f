/* A small SQS server: takes each SendMessageBatch and accepts all of its entries. Real ones:
 * tests/e2e/delivery/brokers/test_aws.py. */
#include "calls.h"
#include "rig.h"

#include <stdio.h>
#include <string.h>

static ssize_t answer(struct peer_talk *talk)
{
    static const char mark[] = "{\"Id\":\"";
    char body[4096] = "{\"Successful\":[";
    size_t bytes = calls_request_bytes(talk), count = 0;
    const char *at = talk->bytes, *end = talk->bytes + bytes;
    if (bytes == 0)
        return 0;
    while ((at = memmem(at, (size_t)(end - at), mark, sizeof mark - 1))) {
        size_t len = strlen(body);
        snprintf(body + len, sizeof body - len, "%s{\"Id\":\"%zu\",\"MessageId\":\"m\"}",
                 count ? "," : "", count);
        at += sizeof mark - 1;
        count++;
        peer_took();
    }
    strcat(body, "]}");
    return calls_write(talk, body) ? (ssize_t)bytes : -1;
}

static void start(void)
{
    peer_start(answer, 0);
}

static const char *to(void)
{
    return peer_url("aws", "/123456789012/{topic}");
}

static const char *policy(void)
{
    static char text[128];
    snprintf(text, sizeof text, "credential = %s key secret\n", peer_url("aws", ""));
    return text;
}

const struct target_rig rig_aws = {
    .name = "aws", .start = start, .to = to, PEER_RIG, .policy = policy, .back_ms = 3000};
