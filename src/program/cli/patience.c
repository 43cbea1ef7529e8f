#include "cli/patience.h"

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

bool patience_parse(const char *text, struct patience *out)
{
    int64_t limit_ms;
    if (!duration_parse(slice_of(text), LIMIT_MS_MAX, &limit_ms)) {
        cli_usage("bad value '%s' for '--patience', give a duration up to 1d such as 30s", text);
        return false;
    }
    *out = (struct patience){.limit_ms = limit_ms};
    return true;
}

int64_t patience_pause_ms(struct patience *patience)
{
    int64_t now = now_ms();
    if (!patience->since_ms) {
        patience->since_ms = now;
        patience->pause_ms = PAUSE_MS / 2;
    }
    if (now - patience->since_ms >= patience->limit_ms)
        return -1;
    patience->pause_ms *= 2;
    if (patience->pause_ms > PAUSE_MS_MAX)
        patience->pause_ms = PAUSE_MS_MAX;
    return patience->pause_ms;
}

bool patience_wait(struct patience *patience, const char *whom, int64_t least_ms)
{
    int64_t pause_ms = patience_pause_ms(patience);
    if (pause_ms < 0 || interrupt_came())
        return false;
    if (pause_ms < least_ms)
        pause_ms = least_ms;
    if (now_ms() + least_ms > patience->since_ms + patience->limit_ms)
        return false; /* it would exceed the limit */
    progress_wait(whom);
    poll(NULL, 0, (int)pause_ms);
    return true;
}

void patience_renew(struct patience *patience)
{
    patience->since_ms = 0;
}

bool patience_is_passing(const struct client *client, CURLcode code)
{
    long status = 0;
    if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
        return false;
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &status);
    return code != CURLE_OK || status >= 500 || status == 429;
}

bool patience_is_passing_code(const char *code)
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

int patience_call(struct patience *patience, struct client *client, const char *method,
                  const struct slice *body)
{
    for (;;) {
        if (!client_prepare(client, method, body, 0))
            return CLI_USAGE;
        CURLcode code = curl_easy_perform(client->curl);
        bool is_passing = patience_is_passing(client, code);
        if (is_passing && patience_wait(patience, "the server", retry_after_ms(client)))
            continue;
        if (!is_passing)
            patience_renew(patience);
        progress_clear();
        return client_finish(client, code);
    }
}
