/*
 * test_clock: moves the clock of a test server from event to event, so that each event happens at
 * its time. On request, it waits until the effects of an event are completed before it goes to the
 * next one.
 *
 * It runs on reactor 0. Calls come from any reactor and are processed one after the other. Between
 * two events it
 *   1. sets the clock to the next event (or to the target time),
 *   2. waits until nothing more is due (the backend's settle),
 *   3. if it waits for idleness: checks three times in a row that no call has arrived meanwhile,
 *      that nothing is being delivered, and that no more jobs are leased by clients than at the
 *      beginning. If a check fails, it checks again after the next ack, nack or take.
 * With `auto` it does the same on its own whenever no client has a lease.
 *
 * The time of jobs follows this clock; the clock of the process, which is used for timeouts, does
 * not.
 */
#ifndef TARRY_SERVER_TEST_CLOCK_H
#define TARRY_SERVER_TEST_CLOCK_H

#include "http/front.h"
#include "server/backend.h"
#include "server/delivery.h"

struct test_clock_keeper;

/* Creates the keeper. `reactors` are those of the server, the first one with its `queue` and
 * `delivery`. The backend has a test clock. Called before the reactors run. Returns NULL when out
 * of memory. */
struct test_clock_keeper *test_clock_keeper_new(struct backend *backend, struct queue *queue,
                                                struct delivery *delivery,
                                                struct reactor *const *reactors, uint32_t count);
const struct http_clock_hooks *test_clock_keeper_hooks(struct test_clock_keeper *keeper);
/* Answers waiting calls and stops moving the clock. On reactor 0. */
void test_clock_keeper_stop(struct test_clock_keeper *keeper);
/* Frees the keeper, after the reactors have ended; accepts NULL. */
void test_clock_keeper_free(struct test_clock_keeper *keeper);

#endif
