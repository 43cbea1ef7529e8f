/*
 * wheel: who is due next. PURE: time comes in as an argument.
 *
 * A hierarchical timing wheel (Varghese and Lauck 1987) with ticks of 1 ms. 8 levels of 64 slots; a
 * slot of one level is as wide as 32 slots of the level below, so a level reaches two upper slots
 * far. From that follows what this wheel is for: no tick ever has a big slot to move at once.
 *
 *   - An entry goes to the lowest level where its slot is fewer than 64 slots ahead. At levels
 *     above 0 that is always at least two slots ahead.
 *   - When the wheel stands in the slot before an upper slot S, everything in S already fits the
 *     level below. So S is moved down in small steps while the wheel stands there, and the wheel
 *     does not enter S before S is empty.
 *
 * Adding and removing are O(1); each entry is moved at most once a level; empty ticks cost nothing
 * (a bitmap a level). Reach: 64 * 32^7 ms, about 69 years; later times are an assertion (the
 * callers' limit is 10 years).
 *
 * Two times: the caller's, and the wheel's own `now_ms`, which follows it. The wheel's falls behind
 * where there is more to do than one wheel_take_due may do, and while nobody calls. Then entries
 * come late, never early and never out of order; wheel_next_ms tells that there is more to do.
 * Where many entries are added after a long quiet time, call wheel_take_due first: they are then
 * placed against the present and need fewer moves.
 *
 * Entries are items of a slab whose first member is a struct wheel_node. The slab's owner owns the
 * items; an item is removed from the wheel before it leaves the slab. One thread. Times are
 * milliseconds from 0 to 2^48 - 1.
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
    uint32_t prev, next;   /* ids; free for the owner's use while place is 0 */
};

struct wheel {
    struct slab *nodes;
    int64_t now_ms; /* all due before it is handed out, all due at it is or lies in its slot */
    int64_t
        next_ms; /* when its first occupied slot wants something, also before now_ms; INT64_MAX: none is */
    size_t count;
    uint64_t moves; /* entries moved down a level since wheel_init */
    uint64_t stops; /* times the wheel stood at since wheel_init; empty ticks are none */
    uint64_t occupied[WHEEL_LEVELS]; /* bit s of [l]: heads[l][s] != 0 */
    uint32_t levels;                 /* bit l: occupied[l] != 0 */
    uint32_t heads[WHEEL_LEVELS][WHEEL_SLOTS];
};

void wheel_init(struct wheel *wheel, struct slab *nodes, int64_t now_ms);

/* The node must not be in the wheel. A time at or before the wheel's own goes out at the next
 * wheel_take_due. */
void wheel_add(struct wheel *wheel, uint32_t id, int64_t when_ms);

/* Does nothing where the node is not in the wheel. */
void wheel_remove(struct wheel *wheel, uint32_t id);

/*
 * Takes out entries with when_ms <= now_ms, at most `max` (>= 1), into ids[]; returns how many.
 * Within one call and from call to call they come in the order of their millisecond; those added
 * when already overdue come first. Also moves upper slots down, at most WHEEL_MOVES_MAX entries a
 * call.
 *
 * Work of a call: `max` entries, WHEEL_MOVES_MAX moves, a few steps more; however far time jumped
 * and however many are due. So a call may return fewer than `max`, even none, with due entries
 * left: there is more to do now while wheel_next_ms(wheel) <= now_ms, whatever was returned. A
 * caller may do it at once or, better, in the next turn of its loop.
 *
 * A now_ms below the wheel's own is taken as the wheel's own.
 */
size_t wheel_take_due(struct wheel *wheel, int64_t now_ms, uint32_t *ids, size_t max);

/*
 * The earliest time at which wheel_take_due has anything to do: an entry due, or a slot to move.
 * The wheel's own time where it has that already; INT64_MAX when empty. Never later than the
 * earliest entry. It may be earlier: a far entry wakes its owner at most once a level on its way
 * down.
 */
int64_t wheel_next_ms(const struct wheel *wheel);

/* Asserts every invariant; walks everything. For tests. */
void wheel_check(const struct wheel *wheel);

#endif
