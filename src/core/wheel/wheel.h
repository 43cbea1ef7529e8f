/*
 * wheel: which entry is due next. PURE: time is an argument.
 *
 * A hierarchical timing wheel (Varghese and Lauck 1987) with ticks of 1 ms. It has 8 levels of 64 slots. A slot of
 * one level is as wide as 32 slots of the level below, so a level covers two upper slots. This gives the purpose of
 * this wheel: no tick ever has to move a big slot in one step.
 *
 *   - An entry goes to the lowest level on which its slot is fewer than 64 slots ahead. At levels above 0 that is
 *     always at least two slots ahead.
 *   - When the wheel is in the slot before an upper slot S, everything in S already fits the level below. So S is
 *     moved down in small steps meanwhile, and the wheel does not enter S before S is empty.
 *
 * Adding and removing are O(1). Each entry is moved at most once per level. Empty ticks cost nothing (a bitmap per
 * level). Reach: 64 * 32^7 ms, about 69 years; later times fail an assertion (the callers' limit is 10 years).
 *
 * There are two times: the caller's, and the wheel's own `now_ms`, which follows it. The wheel's falls behind when
 * there is more work than one wheel_take_due may do, and while it is not called. Then entries come late, never early
 * and never out of order; wheel_next_ms shows that there is more to do. Before many entries are added after a long
 * quiet time, call wheel_take_due: they are then placed relative to the present and need fewer moves.
 *
 * Entries are items of a slab whose first member is a struct wheel_node. The owner of the slab owns the items; an
 * item is removed from the wheel before it leaves the slab. One thread. Times are milliseconds from 0 to 2^48 - 1.
 */
#ifndef TARRY_WHEEL_WHEEL_H
#define TARRY_WHEEL_WHEEL_H

#include "base/slab.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHEEL_LEVELS = 8, WHEEL_SLOTS = 64, WHEEL_STEP_BITS = 5, WHEEL_MOVES_MAX = 256 };

struct wheel_node {
    uint64_t when_ms : 48; /* as given to wheel_add */
    uint64_t place : 16;   /* 0: not in the wheel; else level * 64 + slot + 1 */
    uint32_t prev, next;   /* ids; free for the owner while place is 0 */
};

struct wheel {
    struct slab *nodes;
    int64_t now_ms; /* all due before were returned; those due now were, or are in its slot */
    /* When its first occupied slot needs work, also before now_ms; INT64_MAX: never. */
    int64_t next_ms;
    size_t count;
    uint64_t moves; /* entries moved down a level since wheel_init */
    uint64_t stops; /* times at which the wheel stopped since wheel_init; not at empty ticks */
    uint64_t occupied[WHEEL_LEVELS]; /* bit s of [l]: heads[l][s] != 0 */
    uint32_t levels;                 /* bit l: occupied[l] != 0 */
    uint32_t heads[WHEEL_LEVELS][WHEEL_SLOTS];
};

void wheel_init(struct wheel *wheel, struct slab *nodes, int64_t now_ms);

/* Adds a node, which must not be in the wheel. A time at or before the wheel's own is returned by the next
 * wheel_take_due. */
void wheel_add(struct wheel *wheel, uint32_t id, int64_t when_ms);

/* Removes a node. Does nothing if the node is not in the wheel. */
void wheel_remove(struct wheel *wheel, uint32_t id);

/*
 * Takes out entries with when_ms <= now_ms, at most `max` (>= 1), into ids[]; returns how many. Within one call and
 * from call to call they come in the order of their millisecond; those that were already overdue when added come
 * first. Also moves upper slots down, at most WHEEL_MOVES_MAX entries a call.
 *
 * The work of a call is `max` entries, WHEEL_MOVES_MAX moves and a few steps more, however far time jumped and
 * however many are due. So a call may return fewer than `max`, even 0, with due entries left: there is more to do now
 * while wheel_next_ms(wheel) <= now_ms, whatever was returned. A caller may continue immediately or, better, in the
 * next iteration of its loop.
 *
 * A now_ms below the wheel's own is taken as the wheel's own.
 */
size_t wheel_take_due(struct wheel *wheel, int64_t now_ms, uint32_t *ids, size_t max);

/*
 * Returns the earliest time at which wheel_take_due has anything to do: an entry due, or a slot to move. The wheel's
 * own time if it has work already; INT64_MAX when empty. Never later than the earliest entry. It may be earlier: a
 * distant entry wakes its owner at most once per level on its way down.
 */
int64_t wheel_next_ms(const struct wheel *wheel);

/* Asserts every invariant, with a walk over everything. For tests. */
void wheel_check(const struct wheel *wheel);

#endif
