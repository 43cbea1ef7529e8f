#include "cli/outage.h"

#include "base/clock.h"
#include "base/random.h"
#include "cli/cli.h"

enum { PAUSE_MS = 50, DOUBLINGS_MAX = 16 };

static int64_t now_ms(void)
{
    return clock_boot_us() / 1000;
}

int64_t outage_fail(struct outage *outage, bool is_take, unsigned *tries, const char *problem,
                    int64_t pause_ms_max)
{
    if (!outage->since_ms) {
        cli_error("%s; trying again until it works", problem);
        *outage = (struct outage){.since_ms = now_ms(), .is_of_takes = is_take};
    }
    outage->is_of_takes = outage->is_of_takes && is_take;
    int64_t pause_ms = (int64_t)PAUSE_MS << *tries;
    if (*tries < DOUBLINGS_MAX)
        ++*tries;
    if (pause_ms > pause_ms_max)
        pause_ms = pause_ms_max;
    struct random random = {.state = random_u64()};
    return pause_ms / 2 + (int64_t)random_below(&random, (uint64_t)(pause_ms - pause_ms / 2 + 1));
}

bool outage_end(struct outage *outage, bool is_take, unsigned *tries, const char *url)
{
    *tries = 0;
    if (!outage->since_ms || (outage->is_of_takes && !is_take))
        return false;
    cli_error("'%s' answers again, after %lld s", url,
              (long long)((now_ms() - outage->since_ms + 500) / 1000));
    outage->since_ms = 0;
    return true;
}
