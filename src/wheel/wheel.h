/*
 * wheel: who is due next. PURE: time comes in as an argument.
 *
 * A hierarchical timing wheel (Varghese and Lauck 1987) with ticks of 1 ms. 8 levels of 64 slots; a slot of one level is as wide as 32
 * slots of the level below, so a level reaches two upper slots far. From that follows what this wheel is for: no tick ever
 * has a big slot to move at once.
 *
 *   - An entry goes to the lowest level where its slot is fewer than 64 slots ahead. At levels above 0 that is always at least
 *     two slots ahead.
 *   - When the wheel stands in the slot before an upper slot S, everything in S already fits the level below. So S is moved down
 *     in small steps during the whole width of the slot before it, and is empty when its time comes.
 *
 * Adding and removing are O(1); each entry is moved at most once a level; empty ticks cost nothing (a bitmap a level).
 * Reach: 64 * 32^7 ms, about 69 years; later times are an assertion (the callers' limit is 10 years).
 *
 * Entries are items of a slab whose first member is a struct wheel_node. The slab's owner owns the items; an item is removed from the
 * wheel before it leaves the slab. One thread.
 */
#ifndef TARRY_WHEEL_WHEEL_H
#define TARRY_WHEEL_WHEEL_H

#include "base/slab.h"

#include <stdbool.h>
#include <stdint.h>

enum { WHEEL_LEVELS = 8, WHEEL_SLOTS = 64, WHEEL_STEP_BITS = 5 };

struct wheel_node {
    uint64_t when_ms : 48; /* as given to wheel_add */
    uint64_t place : 16;   /* 0: not in the wheel; else level * 64 + slot + 1 */
    uint32_t prev, next;   /* ids; free for the owner's use while place is 0 */
};

struct wheel {
    struct slab *nodes;
    int64_t now_ms; /* everything due at or before it has been handed out or lies in the slot of now_ms itself */
    size_t count;
    struct {
        uint64_t occupied; /* bit s: heads[s] != 0 */
        uint32_t heads[WHEEL_SLOTS];
    } levels[WHEEL_LEVELS];
};

void wheel_init(struct wheel *wheel, struct slab *nodes, int64_t now_ms);

/* The node must not be in the wheel. A time at or before the wheel's own goes out at the next wheel_take_due. */
void wheel_add(struct wheel *wheel, uint32_t id, int64_t when_ms);

/* Does nothing where the node is not in the wheel. */
void wheel_remove(struct wheel *wheel, uint32_t id);

/*
 * Takes out entries with when_ms <= now_ms, at most `max` (>= 1), into ids[]; returns how many. Within one call and from call to call they
 * come in the order of their millisecond. Also moves upper slots down, in bounded work: at most about `max` + 256 moves a call, except
 * where the caller let time jump over a whole slot (then what is overdue is moved as far as `max` reaches; no entry is ever handed out early).
 * Call again while it returns `max`, and whenever now_ms >= wheel_next_ms. A now_ms below an earlier one is taken as the earlier one.
 */
size_t wheel_take_due(struct wheel *wheel, int64_t now_ms, uint32_t *ids, size_t max);

/* The earliest time at which wheel_take_due has anything to do: an entry due, or a slot to move. INT64_MAX when empty. Never later than the
 * earliest entry. */
int64_t wheel_next_ms(const struct wheel *wheel);

/* Asserts every invariant; walks everything. For tests. */
void wheel_check(const struct wheel *wheel);

#endif
