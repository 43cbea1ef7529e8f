/* The steps of a checkpoint on the owner's thread (depot.h): the new run replaces its victims. */
#include "store/depot_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { VICTIM_SLOTS_MAX = 1000 * 1000 };

/* ---- choosing ---- */

bool depot_wants_checkpoint(const struct depot *depot, bool is_short)
{
    const struct depot_sums *sums = &depot->sums;

    /* Space released by the last commit is not reclaimed yet, or must not be. */
    if (depot->build || depot->is_tidy_due || depot->held_back)
        return false;
    return depot_plan_is_due(sums->file_bytes - sums->freed,
                             sums->alive_bytes + sums->slots_alive * DEPOT_SLOT_BYTES,
                             is_short ? 0 : depot->options.slack_bytes);
}

/* Estimates how much the next commit allows to be punched. Ranges that were tried before do not
 * count. */
static uint64_t prefix_bytes(const struct depot *depot, const struct depot_run *run)
{
    const struct run_info *info = run_info(run->run);
    uint64_t mean = info->record_bytes / info->slots, sum = 0;

    for (size_t section = 0; section < SECTIONS; section++) {
        uint32_t first = info->sections[section].first, count = info->sections[section].count;
        uint32_t dead = alive_next(&run->alive, first, first + count) - first;
        uint64_t bytes = dead > run->punched[section] ? (dead - run->punched[section]) * mean : 0;

        if (bytes >= depot->options.punch_bytes)
            sum += bytes;
    }
    return sum;
}

static struct depot_plan_run plan_of(const struct depot *depot, const struct depot_run *run)
{
    uint64_t disk = run->file_bytes - run->freed, prefix = prefix_bytes(depot, run);

    return (struct depot_plan_run){.disk_bytes = disk,
                                   .alive_bytes = run->alive_bytes +
                                                  (uint64_t)run->alive.count * DEPOT_SLOT_BYTES,
                                   .prefix_bytes = prefix < disk ? prefix : disk,
                                   .alive = run->alive.count};
}

static struct depot_plan_run *make_plan(struct depot *depot, const struct depot_build *build,
                                        size_t *victims)
{
    const struct depot_view *view = depot->view;
    struct depot_plan_limits limits = {.slack_bytes = depot->options.slack_bytes,
                                       .victim_bytes_max = depot->options.victim_bytes_max,
                                       .small_run_bytes = depot->options.small_run_bytes,
                                       .victim_slots_max = VICTIM_SLOTS_MAX,
                                       .is_short = build->is_short};
    struct depot_plan_run *plan = calloc((size_t)view->run_count + 1, sizeof *plan);

    if (!plan)
        return NULL;
    if (build->is_short) {
        limits.slack_bytes = 0;
        if (limits.victim_bytes_max > build->spare_bytes)
            limits.victim_bytes_max = build->spare_bytes;
    }
    pthread_mutex_lock(&depot->lock); /* protects `punched` */
    for (uint32_t i = 0; i < view->run_count; i++)
        plan[i] = plan_of(depot, view->runs[i]);
    pthread_mutex_unlock(&depot->lock);
    *victims = depot_plan_victims(plan, view->run_count, &limits);
    return plan;
}

static void take_victims(struct depot_build *build, const struct depot_plan_run *plan)
{
    const struct depot_view *view = build->view;

    for (uint32_t i = 0; i < view->run_count; i++)
        if (plan[i].is_victim) {
            view->runs[i]->is_victim = true;
            build->victims[build->victim_count++].run = view->runs[i];
        }
}

int depot_plan(struct depot *depot, struct depot_build *build)
{
    struct depot_plan_run *plan;
    size_t victims = 0;

    assert(!depot->build && build->count == 0);
    plan = make_plan(depot, build, &victims);
    if (!plan)
        return -ENOMEM;
    for (uint32_t i = 0; build->no_victims && i < depot->view->run_count; i++)
        plan[i].is_victim = false;
    build->victims = calloc(victims + 1, sizeof *build->victims);
    if (!build->victims) {
        free(plan);
        return -ENOMEM;
    }
    build->depot = depot;
    build->view = depot_view_hold(depot);
    build->run = depot->next_run++;
    build->keys_number = depot->next_keys++;
    take_victims(build, plan);
    free(plan);
    depot->build = build;
    depot->is_installed = false;
    return 0;
}

/* ---- adding the new run ---- */

static struct depot_run *wrap(struct depot *depot, struct depot_build *build)
{
    struct depot_run *run = calloc(1, sizeof *run);

    if (!run || !alive_init(&run->alive, build->slots) || !depot_run_prepare_hold(run)) {
        if (run)
            alive_fini(&run->alive);
        free(run);
        return NULL;
    }
    run->run = build->made_run;
    run->number = build->run;
    run->depot = depot;
    run->file_bytes = run_info(build->made_run)->file_bytes;
    run->alive_bytes = build->record_bytes;
    run->is_new = true;
    return run;
}

/* Makes places in a victim translate to places in the new run. A victim that stays is no longer a
 * victim. */
static void hand_out_moved(struct depot *depot, struct depot_build *build)
{
    for (size_t i = 0; i < build->victim_count; i++) {
        struct depot_victim *victim = &build->victims[i];

        if (victim->stays) {
            victim->run->is_victim = false;
            continue;
        }
        victim->run->moved = victim->moved;
        victim->moved = NULL;
        depot_count_out(depot, victim->run);
    }
}

/* Clears new slots that were written of a victim that stays after all. */
static void clear_given_back(const struct depot_build *build, struct depot_run *run)
{
    for (uint32_t slot = 0; build->kept && slot < build->slots; slot++)
        if (build->items[slot].place.bytes == 0) {
            alive_clear(&run->alive, slot);
            run->alive_bytes -= build->bytes[slot];
        }
}

static bool join_run(struct depot *depot, struct depot_build *build)
{
    struct depot_view *view =
        depot_view_new(depot, (size_t)depot->view->run_count + 1, depot->view->table_count);
    struct depot_run *run = view ? wrap(depot, build) : NULL;

    if (!run) {
        depot_view_free(view);
        return false;
    }
    build->made_run = NULL;
    clear_given_back(build, run);
    depot_view_fill(view, NULL, NULL, NULL);
    depot_view_add_run(view, run);
    depot_count_in(depot, run);
    depot_view_set(depot, view);
    return true;
}

bool depot_install(struct depot *depot, struct depot_build *build)
{
    assert(depot->build == build && !depot->is_installed);
    if (build->run && !join_run(depot, build))
        return false;
    hand_out_moved(depot, build);
    depot->is_installed = true;
    return true;
}

static bool join_table(struct depot *depot, struct depot_build *build)
{
    struct depot_view *view =
        depot_view_new(depot, depot->view->run_count, (size_t)depot->view->table_count + 1);
    struct depot_table *table = view ? calloc(1, sizeof *table) : NULL;

    if (!table) {
        depot_view_free(view);
        return false;
    }
    *table = (struct depot_table){
        .keys = build->made_keys, .depot = depot, .number = build->keys_number};
    build->made_keys = NULL;
    depot_view_fill(view, NULL, NULL, NULL);
    depot_view_add_table(view, table);
    depot_view_set(depot, view);
    return true;
}

bool depot_installed(struct depot *depot, struct depot_build *build)
{
    struct depot_run *run;

    assert(depot->build == build && depot->is_installed);
    if (!build->run)
        return true;
    run = depot_view_run(depot->view, build->run);
    assert(run && run->is_new);
    if (!join_table(depot, build))
        return false;
    run->keys = build->keys_number;
    run->is_new = false;
    return true;
}

/* ---- abandoning ---- */

static bool is_not_new(void *ctx, const struct depot_run *run)
{
    (void)ctx;
    return !run->is_new;
}

/* Removes the new run. If out of memory, it stays in the view without alive slots, and is removed
 * with the next commit. */
static void drop_new_run(struct depot *depot, struct depot_run *run)
{
    struct depot_view *view =
        depot_view_new(depot, depot->view->run_count, depot->view->table_count);

    depot_count_out(depot, run);
    for (uint32_t slot = 0; slot < run->alive.slots; slot++)
        alive_clear(&run->alive, slot);
    run->alive_bytes = 0;
    run->is_gone = true;
    if (!view)
        return;
    depot_view_fill(view, is_not_new, NULL, NULL);
    depot_view_set(depot, view);
}

static void free_victims(struct depot_build *build)
{
    for (size_t i = 0; i < build->victim_count; i++)
        free(build->victims[i].moved);
    free(build->victims);
    build->victims = NULL;
    build->victim_count = 0;
}

static void spare_victims(struct depot *depot, struct depot_build *build)
{
    for (size_t i = 0; i < build->victim_count; i++) {
        struct depot_run *run = build->victims[i].run;

        if (depot->is_installed && run->moved)
            depot_count_in(depot, run);
        free(run->moved);
        run->moved = NULL;
        run->is_victim = false;
    }
}

void depot_abandon(struct depot *depot, struct depot_build *build)
{
    struct depot_run *run =
        depot->is_installed && build->run ? depot_view_run(depot->view, build->run) : NULL;

    assert(depot->build == build && (!run || run->is_new));
    spare_victims(depot, build);
    if (run)
        drop_new_run(depot, run);
    depot->build = NULL;
    depot->is_installed = false;
}

void depot_build_fini(struct depot_build *build)
{
    struct depot *depot = build->depot;

    if (depot && depot->build == build) { /* only depot_close follows */
        depot->build = NULL;
        depot->is_installed = false;
    }
    /* Files that were never added to the view are not referenced. */
    if (build->made_run) {
        run_close(build->made_run);
        depot_unlink_run(depot, build->run);
    }
    if (build->made_keys) {
        keys_close(build->made_keys);
        depot_unlink_keys(depot, build->keys_number);
    }
    free_victims(build);
    free(build->items);
    free(build->bytes);
    depot_let_go(build->view);
    *build = (struct depot_build){0};
}
