/*
 * test_clock: moves the clock of a server that is there for tests: from event to event, so that each happens at
 * its time, and not before what the one before brought about is done with, where that is asked for.
 *
 * It lives on reactor 0. Calls come from any reactor and are carried out one after the other. Between two events it
 *   1. puts the clock to the next one (or where it is to stop),
 *   2. waits until nothing more is due by it (the backend's settle),
 *   3. where it waits for idleness: sees three times in a row that no call has come meanwhile, that nothing is being
 *      delivered and that no more jobs are leased by others than there were when it began; until then whoever acks, nacks or takes has it look again.
 * By itself (`auto`) it does the same, whenever nobody has a lease.
 *
 * Job time follows it; the process's, by which time limits go, does not.
 */
#ifndef TARRY_SERVER_TEST_CLOCK_H
#define TARRY_SERVER_TEST_CLOCK_H

#include "http/front.h"
#include "server/backend.h"
#include "server/delivery.h"

struct test_clock_keeper;

/* NULL: out of memory. `reactors` of the server, the first with its `queue` and `delivery`; the backend has a test clock. Before
 * the reactors run. */
struct test_clock_keeper *test_clock_keeper_new(struct backend *backend, struct queue *queue,
                                                struct delivery *delivery,
                                                struct reactor *const *reactors, uint32_t count);
const struct http_clock_hooks *test_clock_keeper_hooks(struct test_clock_keeper *keeper);
/* On reactor 0: what waits is answered, and the clock moves no more. */
void test_clock_keeper_stop(struct test_clock_keeper *keeper);
/* After the reactors have ended. NULL is fine. */
void test_clock_keeper_free(struct test_clock_keeper *keeper);

#endif
