/*
 * Terms: at level l, time t is in slot t >> 5l, counted from time 0: an absolute slot. Absolute slot s is stored at
 * index s % 64. The wheel is in the absolute slot of its now_ms. The distance of a slot is how many slots ahead of
 * that it is: 0..63 at level 0, 1..63 above.
 */
#include "wheel/wheel.h"

#include <assert.h>
#include <string.h>

enum { SLOT_MASK = WHEEL_SLOTS - 1 };

static const int64_t WHEN_MS_MAX = (INT64_C(1) << 48) - 1;

static struct wheel_node *node_at(const struct wheel *wheel, uint32_t id)
{
    return slab_at(wheel->nodes, id);
}

static int64_t absolute_slot(int64_t ms, unsigned level)
{
    return ms >> (level * WHEEL_STEP_BITS);
}

static int64_t slot_start_ms(int64_t slot, unsigned level)
{
    return slot << (level * WHEEL_STEP_BITS);
}

void wheel_init(struct wheel *wheel, struct slab *nodes, int64_t now_ms)
{
    assert(now_ms >= 0 && now_ms <= WHEN_MS_MAX);
    memset(wheel, 0, sizeof *wheel);
    wheel->nodes = nodes;
    wheel->now_ms = now_ms;
    wheel->next_ms = INT64_MAX;
}

/* ---- slots ---- */

/* Returns when the slot needs work: when it is due, or can be drained. */
static int64_t slot_wants_ms(int64_t slot, unsigned level)
{
    return level == 0 ? slot : slot_start_ms(slot - 1, level);
}

static void slot_fill(struct wheel *wheel, unsigned level, unsigned index)
{
    wheel->occupied[level] |= UINT64_C(1) << index;
    wheel->levels |= 1u << level;
}

static void slot_clear(struct wheel *wheel, unsigned level, unsigned index)
{
    wheel->occupied[level] &= ~(UINT64_C(1) << index);
    if (!wheel->occupied[level])
        wheel->levels &= ~(1u << level);
}

static void link_first(struct wheel *wheel, uint32_t id, unsigned level, unsigned index)
{
    struct wheel_node *node = node_at(wheel, id);
    uint32_t *head = &wheel->heads[level][index];

    node->place = (uint16_t)(level * WHEEL_SLOTS + index + 1);
    node->prev = 0;
    node->next = *head;
    if (*head)
        node_at(wheel, *head)->prev = id;
    else
        slot_fill(wheel, level, index);
    *head = id;
}

static void set_head(struct wheel *wheel, unsigned level, unsigned index, uint32_t id)
{
    wheel->heads[level][index] = id;
    if (id)
        node_at(wheel, id)->prev = 0;
    else
        slot_clear(wheel, level, index);
}

/* Puts the entry on the lowest level on which its slot is fewer than 64 ahead. */
static void place(struct wheel *wheel, uint32_t id, int64_t when_ms)
{
    unsigned level = 0;

    if (when_ms < wheel->now_ms)
        when_ms = wheel->now_ms;
    while (absolute_slot(when_ms, level) - absolute_slot(wheel->now_ms, level) >= WHEEL_SLOTS)
        level++;
    assert(level < WHEEL_LEVELS);
    link_first(wheel, id, level, (unsigned)absolute_slot(when_ms, level) & SLOT_MASK);
    int64_t wants_ms = slot_wants_ms(absolute_slot(when_ms, level), level);
    if (wants_ms < wheel->next_ms)
        wheel->next_ms = wants_ms;
}

/* Returns the distance of the first occupied slot of a level that is not empty. */
static unsigned first_distance(const struct wheel *wheel, unsigned level)
{
    uint64_t occupied = wheel->occupied[level];
    unsigned here = (unsigned)absolute_slot(wheel->now_ms, level) & SLOT_MASK;

    return (unsigned)__builtin_ctzll(occupied >> here | occupied << (-here & SLOT_MASK));
}

/* Returns when the first occupied slot needs work, from all levels. */
static int64_t first_wants_ms(const struct wheel *wheel)
{
    int64_t first_ms = INT64_MAX;

    for (uint32_t levels = wheel->levels; levels; levels &= levels - 1) {
        unsigned level = (unsigned)__builtin_ctz(levels);
        int64_t distance = first_distance(wheel, level);
        int64_t wants_ms = slot_wants_ms(absolute_slot(wheel->now_ms, level) + distance, level);
        if (wants_ms < first_ms)
            first_ms = wants_ms;
    }
    return first_ms;
}

/* Updates next_ms after a slot became empty, if that slot was the first. */
static void slot_emptied(struct wheel *wheel, unsigned level, unsigned index)
{
    int64_t here = absolute_slot(wheel->now_ms, level);
    int64_t slot = here + ((index - (unsigned)here) & SLOT_MASK);

    if (slot_wants_ms(slot, level) == wheel->next_ms)
        wheel->next_ms = first_wants_ms(wheel);
}

/* ---- adding and removing ---- */

void wheel_add(struct wheel *wheel, uint32_t id, int64_t when_ms)
{
    struct wheel_node *node = node_at(wheel, id);

    assert(node->place == 0 && when_ms >= 0 && when_ms <= WHEN_MS_MAX);
    node->when_ms = (uint64_t)when_ms & (uint64_t)WHEN_MS_MAX;
    place(wheel, id, when_ms);
    wheel->count++;
}

void wheel_remove(struct wheel *wheel, uint32_t id)
{
    struct wheel_node *node = node_at(wheel, id);
    unsigned slot;

    if (node->place == 0)
        return;
    slot = node->place - 1u;
    if (node->prev) {
        node_at(wheel, node->prev)->next = node->next;
        if (node->next)
            node_at(wheel, node->next)->prev = node->prev;
    } else {
        set_head(wheel, slot / WHEEL_SLOTS, slot & SLOT_MASK, node->next);
        if (!node->next)
            slot_emptied(wheel, slot / WHEEL_SLOTS, slot & SLOT_MASK);
    }
    node->place = 0;
    wheel->count--;
}

/* ---- advance of time ---- */

/* Takes entries out of the slot at now_ms. */
static size_t take_here(struct wheel *wheel, uint32_t *ids, size_t max)
{
    unsigned index = (unsigned)wheel->now_ms & SLOT_MASK;
    uint32_t id = wheel->heads[0][index];
    size_t taken = 0;

    if (!id)
        return 0;
    while (id && taken < max) {
        struct wheel_node *node = node_at(wheel, id);

        node->place = 0;
        ids[taken++] = id;
        id = node->next;
    }
    set_head(wheel, 0, index, id);
    wheel->count -= taken;
    return taken;
}

/* Moves entries of the next slot of the level down, at most `max`; returns how many. */
static size_t drain_next(struct wheel *wheel, unsigned level, size_t max)
{
    unsigned index = (unsigned)(absolute_slot(wheel->now_ms, level) + 1) & SLOT_MASK;
    uint32_t id = wheel->heads[level][index];
    size_t moved = 0;

    if (!(wheel->occupied[level] >> index & 1))
        return 0;
    while (id && moved < max) {
        const struct wheel_node *node = node_at(wheel, id);
        uint32_t next = node->next;

        __builtin_prefetch(node_at(wheel, next), 1);
        place(wheel, id, (int64_t)node->when_ms);
        id = next;
        moved++;
    }
    set_head(wheel, level, index, id);
    wheel->moves += moved;
    return moved;
}

/* Drains the next slots, lowest level first, because its next slot is the first to be entered. */
static size_t drain(struct wheel *wheel, size_t max)
{
    size_t moved = 0;

    for (uint32_t levels = wheel->levels & ~1u; levels && moved < max; levels &= levels - 1)
        moved += drain_next(wheel, (unsigned)__builtin_ctz(levels), max - moved);
    return moved;
}

/*
 * Returns the next time after now_ms at which the wheel must stop: an occupied tick, the last tick before a slot that
 * is not drained yet, or the first tick from which a slot can be drained. The slot at now_ms is empty.
 */
static int64_t next_stop_ms(const struct wheel *wheel)
{
    int64_t stop_ms = INT64_MAX;

    for (uint32_t levels = wheel->levels; levels; levels &= levels - 1) {
        unsigned level = (unsigned)__builtin_ctz(levels);
        int64_t distance = first_distance(wheel, level), slot, level_ms;

        slot = absolute_slot(wheel->now_ms, level) + distance;
        if (level == 0)
            level_ms = slot;
        else if (distance == 1)
            level_ms = slot_start_ms(slot, level) - 1;
        else
            level_ms = slot_start_ms(slot - 1, level);
        if (level_ms < stop_ms)
            stop_ms = level_ms;
    }
    return stop_ms;
}

/* Advances to the next stop, but not beyond `target_ms`. False: the wheel must stay where it is. */
static bool advance(struct wheel *wheel, int64_t target_ms)
{
    int64_t stop_ms = next_stop_ms(wheel);

    if (stop_ms > target_ms)
        stop_ms = target_ms;
    if (stop_ms <= wheel->now_ms)
        return false;
    wheel->now_ms = stop_ms;
    wheel->stops++;
    return true;
}

size_t wheel_take_due(struct wheel *wheel, int64_t now_ms, uint32_t *ids, size_t max)
{
    size_t taken = 0, moves_left = WHEEL_MOVES_MAX;

    assert(max >= 1 && now_ms <= WHEN_MS_MAX);
    do {
        moves_left -= drain(wheel, moves_left);
        taken += take_here(wheel, ids + taken, max - taken);
    } while (taken < max && advance(wheel, now_ms));
    wheel->next_ms = first_wants_ms(wheel);
    return taken;
}

int64_t wheel_next_ms(const struct wheel *wheel)
{
    return wheel->next_ms > wheel->now_ms ? wheel->next_ms : wheel->now_ms;
}

/* ---- checks ---- */

static void check_node(const struct wheel *wheel, const struct wheel_node *node, unsigned level,
                       unsigned index)
{
    int64_t when_ms = (int64_t)node->when_ms, distance;

    assert(node->place == level * WHEEL_SLOTS + index + 1);
    if (when_ms < wheel->now_ms)
        when_ms = wheel->now_ms;
    distance = absolute_slot(when_ms, level) - absolute_slot(wheel->now_ms, level);
    assert(distance >= (level ? 1 : 0) && distance < WHEEL_SLOTS);
    assert(index == ((unsigned)absolute_slot(when_ms, level) & SLOT_MASK));
}

static size_t check_slot(const struct wheel *wheel, unsigned level, unsigned index)
{
    uint32_t id = wheel->heads[level][index], prev = 0;
    size_t found = 0;

    assert((id != 0) == (wheel->occupied[level] >> index & 1));
    assert((wheel->occupied[level] != 0) == (wheel->levels >> level & 1));
    for (; id; found++) {
        const struct wheel_node *node = node_at(wheel, id);

        assert(node->prev == prev && found < wheel->count);
        check_node(wheel, node, level, index);
        prev = id;
        id = node->next;
    }
    return found;
}

void wheel_check(const struct wheel *wheel)
{
    size_t found = 0;

    assert(wheel->now_ms >= 0 && wheel->now_ms <= WHEN_MS_MAX);
    for (unsigned level = 0; level < WHEEL_LEVELS; level++)
        for (unsigned index = 0; index < WHEEL_SLOTS; index++)
            found += check_slot(wheel, level, index);
    assert(found == wheel->count && wheel->next_ms == first_wants_ms(wheel));
}
