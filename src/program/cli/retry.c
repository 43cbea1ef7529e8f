#include "cli/retry.h"

#include "base/clock.h"
#include "base/duration.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

#include <poll.h>
#include <string.h>

enum { PAUSE_MS = 100, PAUSE_MS_MAX = 2000, LIMIT_MS_MAX = 24 * 3600 * 1000 };

static int64_t now_ms(void)
{
    return clock_boot_us() / 1000;
}

bool retry_parse(const char *text, struct retry *out)
{
    int64_t limit_ms;
    if (!duration_parse(slice_of(text), LIMIT_MS_MAX, &limit_ms)) {
        cli_usage("bad value '%s' for '--retry-for', give a duration up to 1d such as 30s", text);
        return false;
    }
    *out = (struct retry){.limit_ms = limit_ms};
    return true;
}

int64_t retry_pause_ms(struct retry *retry)
{
    int64_t now = now_ms();
    if (!retry->since_ms) {
        retry->since_ms = now;
        retry->pause_ms = PAUSE_MS / 2;
    }
    if (now - retry->since_ms >= retry->limit_ms)
        return -1;
    retry->pause_ms *= 2;
    if (retry->pause_ms > PAUSE_MS_MAX)
        retry->pause_ms = PAUSE_MS_MAX;
    return retry->pause_ms;
}

bool retry_wait(struct retry *retry, const char *whom, int64_t least_ms)
{
    int64_t pause_ms = retry_pause_ms(retry);
    if (pause_ms < 0 || interrupt_came())
        return false;
    if (pause_ms < least_ms)
        pause_ms = least_ms;
    if (now_ms() + least_ms > retry->since_ms + retry->limit_ms)
        return false; /* it would exceed the limit */
    progress_wait(whom);
    poll(NULL, 0, (int)pause_ms);
    return true;
}

void retry_reset(struct retry *retry)
{
    retry->since_ms = 0;
}

bool retry_helps(const struct client *client, CURLcode code)
{
    long status = 0;
    if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
        return false;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    return code != CURLE_OK || (status >= 500 && status != 501) || status == 429;
}

bool retry_helps_code(const char *code)
{
    static const char *const codes[] = {
        "no_space",   "no_memory",         "stopping",    "unavailable", "directory_moved",
        "topic_full", "too_many_requests", "caller_full", "memory",      "draining"};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(code, codes[i]) == 0)
            return true;
    return false;
}

/* Returns the server's Retry-After in ms; 0: not given. */
static int64_t retry_after_ms(const struct client *client)
{
    curl_off_t seconds = 0;
    curl_easy_getinfo(client->curl, CURLINFO_RETRY_AFTER, &seconds);
    return (int64_t)seconds * 1000;
}

int retry_call(struct retry *retry, struct client *client, const char *method,
               const struct slice *body)
{
    for (;;) {
        if (!client_prepare(client, method, body, 0))
            return CLI_USAGE;
        CURLcode code = curl_easy_perform(client->curl);
        bool is_passing = retry_helps(client, code);
        if (is_passing && retry_wait(retry, "the server", retry_after_ms(client)))
            continue;
        if (!is_passing)
            retry_reset(retry);
        progress_clear();
        return client_finish(client, code);
    }
}
