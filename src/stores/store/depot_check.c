/* Invariants of a depot, for tests. */
#include "store/depot_private.h"

#include <assert.h>

/* Invariants that hold whenever the owner's thread is not inside a depot function. */

static uint32_t bits_set(const struct alive *alive)
{
    uint32_t count = 0;

    for (uint32_t slot = alive_next(alive, 0, alive->slots); slot < alive->slots;
         slot = alive_next(alive, slot + 1, alive->slots))
        count++;
    return count;
}

static bool has_table(const struct depot_view *view, uint32_t number)
{
    for (uint32_t i = 0; i < view->table_count; i++)
        if (view->tables[i]->number == number)
            return true;
    return false;
}

static void check_moved(const struct depot *depot, const struct depot_run *run)
{
    const struct depot_build *build = depot->build;

    assert(build && depot->is_installed && run->is_victim && !run->is_counted);
    for (uint32_t slot = 0; slot < run->alive.slots; slot++)
        assert(run->moved[slot] <= build->slots);
}

static void check_run(const struct depot *depot, const struct depot_run *run)
{
    assert(run->depot == depot && run->holds > 0 && run->number < depot->next_run);
    assert(run->alive.slots == run_info(run->run)->slots);
    assert(run->alive.count == bits_set(&run->alive));
    assert(run->alive_bytes <= run_info(run->run)->record_bytes);
    assert(run->alive.count > 0 || run->alive_bytes == 0);
    assert(run->freed <= run->file_bytes);
    assert(!run->is_new || depot->build || run->is_gone);
    assert(!run->is_victim || depot->build);
    if (run->moved)
        check_moved(depot, run);
    if (!run->is_new && run->alive.count > 0)
        assert(has_table(depot->view, run->keys));
    for (size_t section = 0; section < SECTIONS; section++)
        assert(run->dead_committed[section] <= run_info(run->run)->sections[section].count &&
               run->punched[section] <= run->dead_committed[section]);
}

static void check_sums(const struct depot *depot)
{
    struct depot_sums sums = {0};

    for (uint32_t i = 0; i < depot->view->run_count; i++) {
        const struct depot_run *run = depot->view->runs[i];

        if (!run->is_counted)
            continue;
        sums.slots_alive += run->alive.count;
        sums.alive_bytes += run->alive_bytes;
        sums.file_bytes += run->file_bytes;
        sums.freed += run->freed;
    }
    assert(sums.slots_alive == depot->sums.slots_alive);
    assert(sums.alive_bytes == depot->sums.alive_bytes);
    assert(sums.file_bytes == depot->sums.file_bytes);
    assert(sums.freed == depot->sums.freed);
}

void depot_check(const struct depot *depot)
{
    const struct depot_view *view = depot->view;

    assert(view && view->holds > 0 && depot->views > 0);
    assert(depot->next_run >= depot->catalog.next_run);
    assert(depot->next_keys >= depot->catalog.next_keys);
    for (uint32_t i = 0; i < view->run_count; i++) {
        assert(i == 0 || view->runs[i - 1]->number < view->runs[i]->number);
        check_run(depot, view->runs[i]);
    }
    for (uint32_t i = 0; i < view->table_count; i++) {
        assert(view->tables[i]->number < depot->next_keys && view->tables[i]->holds > 0);
        assert(i == 0 || view->tables[i - 1]->number < view->tables[i]->number);
    }
    check_sums(depot);
}

static bool is_being_installed(const struct depot *depot)
{
    const struct depot_run *run =
        depot->is_installed ? depot_view_run(depot->view, depot->build->run) : NULL;

    return run && run->is_new;
}

/* Returns whether the owner counts an alive slot (depot_find_counted handles only cold jobs). */
static bool slot_counts(const struct depot *depot, const struct depot_run *run, uint32_t slot,
                        uint32_t installed)
{
    const struct record_place place = {.file = run->number | RECORD_IN_RUN, .at = slot};

    if (run->is_new)
        return slot < installed && depot->build->items[slot].id;
    if (!run->moved)
        return true;
    return is_being_installed(depot) && depot_is_alive(depot, depot_moved(depot, place));
}

void depot_count_slots(const struct depot *depot, uint32_t installed, struct depot_counted *out)
{
    *out = (struct depot_counted){0};
    for (uint32_t i = 0; i < depot->view->run_count; i++) {
        const struct depot_run *run = depot->view->runs[i];

        for (uint32_t slot = alive_next(&run->alive, 0, run->alive.slots); slot < run->alive.slots;
             slot = alive_next(&run->alive, slot + 1, run->alive.slots)) {
            const enum job_section section = run_section_of(run->run, slot);

            if (!slot_counts(depot, run, slot, installed))
                continue;
            out->slots[section]++;
            out->in_memory[section] += !depot_is_cold(run, slot);
        }
    }
}
