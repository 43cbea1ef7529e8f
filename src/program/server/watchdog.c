#include "server/watchdog.h"

#include "base/clock.h"
#include "base/text.h"
#include "server/process.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns the number in an environment variable, or 0. */
static uint64_t variable_number(const char *name)
{
    const char *text = getenv(name);
    uint64_t number = 0;
    return text && text_parse_u64(slice_of(text), INT64_MAX, &number) ? number : 0;
}

int64_t watchdog_interval_ms(void)
{
    uint64_t pid = variable_number("WATCHDOG_PID");
    if (pid && pid != (uint64_t)getpid())
        return 0;
    return (int64_t)(variable_number("WATCHDOG_USEC") / 1000);
}

/* Records the answer of a reactor; back on the first reactor. */
static void run_answer(struct letter *letter)
{
    struct watchdog_ping *ping = (struct watchdog_ping *)(void *)letter;
    ping->watchdog->unanswered--;
}

/* Answers on the pinged reactor. */
static void run_ping(struct letter *letter)
{
    struct watchdog_ping *ping = (struct watchdog_ping *)(void *)letter;
    ping->letter.run = run_answer;
    reactor_post(ping->watchdog->first, &ping->letter);
}

/* Notifies systemd if all reactors have answered since the last notification, then pings them
 * again. */
static void on_tick(void *ctx)
{
    struct watchdog *watchdog = ctx;
    deadline_set(watchdog->deadline, clock_inner_ms() + watchdog->pause_ms);
    if (watchdog->unanswered > 0)
        return;
    process_notify_or_skip("WATCHDOG=1");
    watchdog->unanswered = watchdog->count;
    for (uint32_t i = 0; i < watchdog->count; i++) {
        struct watchdog_ping *ping = &watchdog->pings[i];
        ping->letter.run = run_ping;
        reactor_post(ping->reactor, &ping->letter);
    }
}

bool watchdog_open(struct watchdog *watchdog, struct reactor *first)
{
    int64_t interval_ms = watchdog_interval_ms();
    watchdog->first = first;
    if (interval_ms == 0)
        return true;
    watchdog->pause_ms = interval_ms / 3 > 0 ? interval_ms / 3 : 1;
    watchdog->deadline = deadline_new(first, on_tick, watchdog);
    return watchdog->deadline != NULL;
}

void watchdog_add(struct watchdog *watchdog, struct reactor *reactor)
{
    assert(watchdog->count < WATCHDOG_REACTORS_MAX);
    watchdog->pings[watchdog->count++] =
        (struct watchdog_ping){.watchdog = watchdog, .reactor = reactor};
}

void watchdog_start(struct watchdog *watchdog)
{
    if (watchdog->deadline)
        on_tick(watchdog);
}

void watchdog_close(struct watchdog *watchdog)
{
    if (watchdog->deadline)
        deadline_free(watchdog->deadline);
    watchdog->deadline = NULL;
}
