/*
 * test_clock: a local queue whose time stands still until it is told to move, for tests of users' programs.
 *
 * Its directory is marked (store/manifest.h), so that no server takes one kind for the other. The clock is the
 * queue's own (base/clock.h); who moves it lets all shards settle before he moves it again, and so goes from
 * event to event. One at a time, on reactor 0's thread.
 */
#ifndef TARRY_LOCAL_TEST_CLOCK_H
#define TARRY_LOCAL_TEST_CLOCK_H

#include "local/local.h"

/* NULL: the queue goes by an ordinary clock. Until local_free. */
struct clock *local_test_clock(struct local *local);
/* Where it began, wall clock: a reset goes back to there. */
int64_t local_test_clock_start_ms(const struct local *local);

/* `settled` comes in a later turn: nothing more is due in any shard, and every watcher's reactor has been told of
 * what became ready. `next_ms`: nothing happens before (inner clock; INT64_MAX: nothing to wait for); `happened`:
 * rises with everything that time brings. `keeps`: where the clock stands is on the disk. Not `is_good`: the log has failed. */
typedef void local_settled(void *ctx, bool is_good, int64_t next_ms, uint64_t happened);
void local_settle(struct local *local, bool keeps, local_settled *settled, void *ctx);

/* `active` is called after commands have come that do not only look, on the thread of any shard. Before the reactors run. */
void local_on_active(struct local *local, void (*active)(void *ctx), void *ctx);

/* ---- local.c's ---- */

struct test_clock *test_clock_new(struct local *local); /* NULL: out of memory */
void test_clock_free(struct test_clock *test_clock);
void test_clock_active(struct test_clock *test_clock);

#endif
