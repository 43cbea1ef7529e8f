/* What goes into a new run: the items the engine gave, what is alive in the victims, sorted. */
#include "base/radix.h"
#include "store/depot_private.h"

#include <errno.h>
#include <stdlib.h>

enum { CHUNK_SLOTS = 1024, ITEMS_FIRST = 1024 };
#define TAKEN UINT32_MAX /* in moved: a slot for which the engine gave an item */

/* ---- what is alive in the victims ---- */

struct depot_victim *depot_victim_of(const struct depot_build *build, struct record_place place)
{
    if (!record_place_is_run(place))
        return NULL;
    for (size_t i = 0; i < build->victim_count; i++)
        if (build->victims[i].run->number == record_place_run(place))
            return place.at < build->victims[i].run->alive.slots ? &build->victims[i] : NULL;
    return NULL;
}

static bool push_item(struct depot_build *build, const struct depot_item *item)
{
    if (build->count == build->cap) {
        size_t cap = build->cap ? build->cap * 2 : ITEMS_FIRST;
        struct depot_item *grown = realloc(build->items, cap * sizeof *grown);

        if (!grown)
            return false;
        build->items = grown;
        build->cap = cap;
    }
    build->items[build->count++] = *item;
    return true;
}

static int ready_victims(struct depot_build *build)
{
    for (size_t i = 0; i < build->victim_count; i++) {
        struct depot_victim *victim = &build->victims[i];

        victim->moved = calloc(victim->run->alive.slots, sizeof *victim->moved);
        if (!victim->moved)
            return -ENOMEM;
    }
    for (size_t i = 0; i < build->count; i++) {
        struct depot_victim *victim = depot_victim_of(build, build->items[i].place);

        if (victim)
            victim->moved[build->items[i].place.at] = TAKEN;
    }
    return 0;
}

/* `chunk`: room for CHUNK_SLOTS. */
static int add_slots(struct depot_build *build, const struct depot_victim *victim, uint32_t first,
                     uint32_t count, struct run_slot *chunk)
{
    const struct depot_run *run = victim->run;
    int result = depot_slots(run, first, count, chunk);

    for (uint32_t i = 0; result == 0 && i < count; i++) {
        const struct run_slot *slot = &chunk[i];
        const struct depot_item item = {
            .when_ms = (uint64_t)slot->when_ms & ((UINT64_C(1) << 48) - 1),
            .section = (uint64_t)run_section_of(run->run, first + i) & 0xff,
            .sequence = slot->sequence,
            .place = {.file = run->number | RECORD_IN_RUN, .at = first + i, .bytes = slot->bytes}};

        if (!alive_test(&run->alive, first + i) || victim->moved[first + i] == TAKEN)
            continue;
        if (!push_item(build, &item))
            result = -ENOMEM;
    }
    return result;
}

/* Where its directory cannot be read the whole victim stays. */
static int add_victim(struct depot_build *build, struct depot_victim *victim,
                      struct run_slot *chunk)
{
    uint32_t slots = victim->run->alive.slots;
    size_t before = build->count;

    for (uint32_t first = alive_next(&victim->run->alive, 0, slots); first < slots;
         first = alive_next(&victim->run->alive, first + CHUNK_SLOTS, slots)) {
        uint32_t count = slots - first < CHUNK_SLOTS ? slots - first : CHUNK_SLOTS;
        int result = add_slots(build, victim, first, count, chunk);

        if (result == -ENOMEM)
            return result;
        if (result < 0) {
            build->count = before;
            victim->stays = true;
            return 0;
        }
        if (slots - first <= CHUNK_SLOTS)
            break;
    }
    return 0;
}

/* ---- in the order of the run ---- */

static struct depot_item *in_order(const struct depot_item *items, const struct radix_item *ranks,
                                   size_t count)
{
    enum { AHEAD = 16 };
    struct depot_item *sorted = malloc(count * sizeof *sorted);

    for (size_t i = 0; sorted && i < count; i++) {
        if (i + AHEAD < count)
            __builtin_prefetch(&items[ranks[i + AHEAD].at]);
        sorted[i] = items[ranks[i].at];
    }
    return sorted;
}

static int sort_items(struct depot_build *build)
{
    struct radix_item *ranks = malloc(build->count * sizeof *ranks);
    struct depot_item *sorted = NULL;

    for (size_t i = 0; ranks && i < build->count; i++)
        ranks[i] = (struct radix_item){.high = (uint64_t)build->items[i].section << 48 |
                                               build->items[i].when_ms,
                                       .low = build->items[i].sequence,
                                       .at = i};
    if (ranks && radix_sort(ranks, build->count))
        sorted = in_order(build->items, ranks, build->count);
    free(ranks);
    if (!sorted)
        return -ENOMEM;
    free(build->items);
    build->items = sorted;
    build->cap = build->count;
    return 0;
}

/* ---- both ---- */

int depot_gather(struct depot_build *build)
{
    struct run_slot *chunk = malloc(CHUNK_SLOTS * sizeof *chunk);
    int result = chunk ? ready_victims(build) : -ENOMEM;

    for (size_t i = 0; result == 0 && i < build->victim_count; i++)
        result = add_victim(build, &build->victims[i], chunk);
    free(chunk);
    return result == 0 && build->count > 0 ? sort_items(build) : result;
}
