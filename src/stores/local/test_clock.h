/*
 * test_clock: a local queue whose time stops until it is moved, for tests of users' programs.
 *
 * Its directory is marked (store/manifest.h), so that no server confuses the two kinds. The clock
 * belongs to the queue (base/clock.h). The code that moves it lets all shards settle before moving
 * it again, and so advances from event to event. One at a time, on reactor 0's thread.
 */
#ifndef TARRY_LOCAL_TEST_CLOCK_H
#define TARRY_LOCAL_TEST_CLOCK_H

#include "local/local.h"

/* Returns the test clock; NULL: the queue has an ordinary clock. Valid until local_free. */
struct clock *local_test_clock(struct local *local);
/* Returns the wall-clock time at which it began, to which a reset returns. */
int64_t local_test_clock_start_ms(const struct local *local);

/* Settles the queue. `settled` is called in a later iteration, when nothing more is due in any
 * shard and every watcher's reactor has been notified of the ready jobs. `next_ms`: nothing
 * happens before (inner clock; INT64_MAX: nothing to wait for). `happened` rises with every
 * change that time causes. With `keeps`, the current time is stored on disk. Not `is_good`: the
 * log has failed. */
typedef void local_settled(void *ctx, bool is_good, int64_t next_ms, uint64_t happened);
void local_settle(struct local *local, bool keeps, local_settled *settled, void *ctx);

/* Sets a callback that runs after commands that do not only read have arrived, on the thread of any
 * shard. Before the reactors run. */
void local_on_active(struct local *local, void (*active)(void *ctx), void *ctx);

/* ---- for local.c ---- */

struct test_clock *test_clock_new(struct local *local); /* NULL: out of memory */
void test_clock_free(struct test_clock *test_clock);
void test_clock_active(struct test_clock *test_clock);

#endif
