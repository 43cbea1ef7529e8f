/*
 * machine: the machine of a shard in the simulation: two clocks that move on command, a reactor whose
 * iterations are taken one by one, helper threads that do one work on command, chance from a seed, memory
 * that runs out on command. Doubles of base/clock.h, net/reactor.h, net/worker.h, clock watching,
 * random_u64, log_fields, and of the allocator.
 *
 * One thread. Several machines may exist (a recovery is tried in the middle of a run); one of them
 * is the current one, and the clocks are its.
 */
#ifndef TARRY_TESTS_SIM_MACHINE_H
#define TARRY_TESTS_SIM_MACHINE_H

#include "base/random.h"
#include "net/worker.h"

enum { MACHINE_WORKERS_MAX = 8 };

struct machine {
    int64_t inner_ms, wall_ms;
    struct random random; /* what the shard itself draws */
    struct reactor *reactor;
};

/* Returns the one before. */
struct machine *machine_switch(struct machine *machine);
void machine_init(struct machine *machine, uint64_t seed, int64_t inner_ms, int64_t wall_ms);
void machine_fini(struct machine *machine);

/* Something is there for the loop to do: letters, a deadline that has passed, an iteration that was asked for. */
bool machine_needs_iteration(const struct machine *machine);
void machine_iterate(struct machine *machine);
/* Returns how many helpers have work; does the first work of the n-th of those. Its `done` waits in the
 * mailbox. */
uint32_t machine_busy_workers(const struct machine *machine);
void machine_perform(struct machine *machine, uint32_t nth);
/* Returns the deadline on the inner clock; INT64_MAX: no deadline. */
int64_t machine_deadline_ms(const struct machine *machine);
void machine_advance(struct machine *machine, int64_t elapsed_ms);

/* ---- the last lines of the log, for a report ---- */
void machine_log_show(void);
bool machine_log_has(const char *event); /* since the last machine_log_clear */
void machine_log_clear(void);

/* ---- memory: counted and refused while `memory_counts` ---- */
struct memory_fault {
    uint64_t allocations, fail_at; /* 0: never */
    bool for_ever, counts;
    uint64_t failed;
};
extern struct memory_fault memory_fault;

#endif
