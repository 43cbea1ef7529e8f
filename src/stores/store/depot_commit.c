/* The end of a checkpoint (depot.h): the snapshot, the commit by a new catalog, and cleaning up
 * afterwards. */
#include "store/depot_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* ---- snapshot ---- */

static bool is_moved(const struct depot_run *run)
{
    return run->moved != NULL;
}

static bool counts(const struct depot_run *run)
{
    return run->alive.count > 0 && !run->is_gone && !is_moved(run);
}

static int copy_run(const struct depot_run *run, struct catalog_run *out)
{
    *out = (struct catalog_run){.number = run->number,
                                .slots = run->alive.slots,
                                .keys = run->keys,
                                .alive_count = run->alive.count,
                                .record_bytes = run->alive_bytes,
                                .alive = malloc(alive_bytes(run->alive.slots))};
    if (!out->alive)
        return -ENOMEM;
    alive_save(&run->alive, out->alive);
    return 0;
}

static int copy_runs(const struct depot_view *view, struct catalog *out)
{
    int result = 0;

    out->runs = calloc((size_t)view->run_count + 1, sizeof *out->runs);
    if (!out->runs)
        return -ENOMEM;
    for (uint32_t i = 0; result == 0 && i < view->run_count; i++)
        if (counts(view->runs[i])) {
            assert(!view->runs[i]->is_new && view->runs[i]->keys != 0);
            result = copy_run(view->runs[i], &out->runs[out->run_count++]);
        }
    return result;
}

/* Returns whether a run that counts uses the table; other tables are left out of the catalog. */
static bool is_needed(const struct catalog *catalog, uint32_t keys)
{
    for (uint32_t i = 0; i < catalog->run_count; i++)
        if (catalog->runs[i].keys == keys)
            return true;
    return false;
}

static int copy_keys(const struct depot_view *view, struct catalog *out)
{
    out->keys = calloc((size_t)view->table_count + 1, sizeof *out->keys);
    if (!out->keys)
        return -ENOMEM;
    for (uint32_t i = 0; i < view->table_count; i++)
        if (is_needed(out, view->tables[i]->number))
            out->keys[out->key_count++] = view->tables[i]->number;
    return 0;
}

static int copy_topics(const struct catalog_topic *topics, uint32_t count, struct catalog *out)
{
    out->topics = calloc((size_t)count + 1, sizeof *out->topics);
    if (!out->topics)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        char *name = malloc(topics[i].name.len + 1);

        if (!name)
            return -ENOMEM;
        memcpy(name, topics[i].name.at, topics[i].name.len);
        out->topics[i] = topics[i];
        out->topics[i].name = slice_make(name, topics[i].name.len);
        out->topic_count++;
    }
    return 0;
}

/* Allocates the memory for the steps after the commit, which must not fail. */
static int make_spare(struct depot *depot)
{
    depot_view_free(depot->spare);
    depot->spare = depot_view_new(depot, depot->view->run_count, depot->view->table_count);
    return depot->spare ? 0 : -ENOMEM;
}

int depot_snapshot(struct depot *depot, uint32_t log_first, uint64_t log_first_sequence,
                   const struct catalog_topic *topics, uint32_t topic_count, int64_t inner_ms,
                   int64_t wall_ms, struct catalog *out)
{
    struct catalog made = {.generation = depot->catalog.generation + 1,
                           .seed = depot->catalog.seed,
                           .identity = depot->catalog.identity,
                           .next_run = depot->next_run,
                           .next_keys = depot->next_keys,
                           .log_first = log_first,
                           .log_first_sequence = log_first_sequence,
                           .inner_ms = inner_ms,
                           .wall_ms = wall_ms};
    int result;

    assert(!depot->build || depot->is_installed);
    result = make_spare(depot);

    if (result == 0)
        result = copy_runs(depot->view, &made);
    if (result == 0)
        result = copy_keys(depot->view, &made);
    if (result == 0)
        result = copy_topics(topics, topic_count, &made);
    if (result < 0) {
        catalog_fini(&made);
        return result;
    }
    *out = made;
    return 0;
}

/* ---- commit ---- */

/* Returns the number of dead slots at the start of a section in these bits. */
static uint32_t dead_prefix(const char *bits, uint32_t first, uint32_t count)
{
    uint32_t slot = first;

    while (slot < first + count) {
        if (slot % 8 == 0 && first + count - slot >= 8 && bits[slot / 8] == 0)
            slot += 8;
        else if ((unsigned char)bits[slot / 8] >> (slot % 8) & 1)
            break;
        else
            slot++;
    }
    return slot - first;
}

static void note_dead(struct depot *depot, struct depot_run *run, const struct catalog_run *about)
{
    const struct run_info *info = run_info(run->run);
    uint32_t dead[SECTIONS];

    for (size_t section = 0; section < SECTIONS; section++)
        dead[section] =
            dead_prefix(about->alive, info->sections[section].first, info->sections[section].count);
    pthread_mutex_lock(&depot->lock);
    memcpy(run->dead_written, dead, sizeof dead);
    pthread_mutex_unlock(&depot->lock);
}

bool depot_leads(const struct depot *depot)
{
    return fs_leads(depot->options.fs, depot->dir, -1);
}

int depot_commit(struct depot *depot, const struct catalog *catalog, bool *is_fatal)
{
    struct depot_view *view;
    int result;

    *is_fatal = false;
    if (!depot_leads(depot))
        return -ESTALE;
    result = catalog_write(depot->options.fs, depot->dir, catalog, is_fatal);
    if (result < 0)
        return result;
    view = depot_view_hold(depot);
    for (uint32_t i = 0; i < catalog->run_count; i++) {
        struct depot_run *run = depot_view_run(view, catalog->runs[i].number);

        if (run)
            note_dead(depot, run, &catalog->runs[i]);
    }
    depot_let_go(view);
    return 0;
}

static const struct catalog_run *find_run(const struct catalog *catalog, uint32_t number)
{
    uint32_t low = 0, high = catalog->run_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (catalog->runs[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < catalog->run_count && catalog->runs[low].number == number ? &catalog->runs[low]
                                                                           : NULL;
}

static bool catalog_names_run(void *ctx, const struct depot_run *run)
{
    return find_run(ctx, run->number) != NULL;
}

static bool catalog_names_table(void *ctx, const struct depot_table *table)
{
    const struct catalog *catalog = ctx;

    for (uint32_t i = 0; i < catalog->key_count; i++)
        if (catalog->keys[i] == table->number)
            return true;
    return false;
}

static void mark(struct depot *depot, const struct catalog *catalog)
{
    const struct depot_view *view = depot->view;

    for (uint32_t i = 0; i < view->run_count; i++) {
        struct depot_run *run = view->runs[i];

        if (find_run(catalog, run->number)) {
            run->was_committed = true;
            memcpy(run->dead_committed, run->dead_written, sizeof run->dead_committed);
            continue;
        }
        /* The catalog leaves out the run, but covers its number, which is below next_run. */
        run->was_committed = true;
        run->is_gone = true;
    }
    for (uint32_t i = 0; i < view->table_count; i++)
        view->tables[i]->is_gone = !catalog_names_table((void *)catalog, view->tables[i]);
}

static void leave(struct depot *depot)
{
    struct depot_view *view = depot->spare;

    for (uint32_t i = 0; i < depot->view->run_count; i++)
        if (depot->view->runs[i]->is_gone)
            depot_count_out(depot, depot->view->runs[i]);
    depot->spare = NULL;
    depot_view_fill(view, catalog_names_run, catalog_names_table, &depot->catalog);
    depot_view_set(depot, view);
}

void depot_committed(struct depot *depot, struct catalog *catalog)
{
    assert(depot->spare && catalog->generation == depot->catalog.generation + 1);
    assert(depot->next_run == catalog->next_run && depot->next_keys == catalog->next_keys);
    catalog_fini(&depot->catalog);
    depot->catalog = *catalog;
    *catalog = (struct catalog){0};
    pthread_mutex_lock(&depot->lock);
    depot->committed_next_run = depot->catalog.next_run;
    mark(depot, &depot->catalog);
    pthread_mutex_unlock(&depot->lock);
    leave(depot);
    /* else the victims' files would stay until the tidying after the next commit */
    if (depot->build) {
        depot_let_go(depot->build->view);
        depot->build->view = NULL;
    }
    depot_forget_catalog(depot);
    depot->build = NULL;
    depot->is_installed = false;
    depot->is_tidy_due = true;
}

/* ---- tidying ---- */

/* Returns the size of the records of [first, end), or a negative errno. */
static int64_t bytes_of(const struct depot_run *run, uint32_t first, uint32_t end)
{
    struct run_slot from, to;
    int result = run_slots(run->run, first, 1, true, &from);

    if (result == 0)
        result = run_slots(run->run, end - 1, 1, true, &to);
    return result < 0 ? result : (int64_t)(to.offset + to.bytes - from.offset);
}

static void punch_section(struct depot *depot, struct depot_run *run, size_t section, uint32_t dead)
{
    uint32_t first = run_info(run->run)->sections[section].first;
    uint64_t ignored, freed;

    if (bytes_of(run, first + run->punched[section], first + dead) <
        (int64_t)depot->options.punch_bytes)
        return;
    /* If it fails, the space is garbage like any other. */
    run_punch(run->run, first, first + dead, &ignored);
    freed = depot_run_freed(run->run);
    pthread_mutex_lock(&depot->lock);
    run->punched[section] = dead;
    if (run->is_counted)
        depot->sums.freed += freed - run->freed; /* unsigned: an intermediate wrap is harmless */
    run->freed = freed;
    pthread_mutex_unlock(&depot->lock);
}

static void punch_run(struct depot *depot, struct depot_run *run)
{
    uint32_t dead[SECTIONS];

    pthread_mutex_lock(&depot->lock);
    memcpy(dead, run->dead_committed, sizeof dead);
    pthread_mutex_unlock(&depot->lock);
    for (size_t section = 0; section < SECTIONS; section++)
        if (dead[section] > run->punched[section] && !depot->held_back)
            punch_section(depot, run, section, dead[section]);
}

void depot_tidy(struct depot *depot)
{
    struct depot_view *view;

    if (depot->held_back)
        return;
    depot_put_away(depot);
    view = depot_view_hold(depot);
    for (uint32_t i = 0; i < view->run_count; i++)
        punch_run(depot, view->runs[i]);
    depot_let_go(view);
    if (!depot->held_back)
        depot->is_tidy_due = false;
}

bool depot_wants_tidying(const struct depot *depot)
{
    return depot->is_tidy_due && !depot->held_back;
}

void depot_hold_back(struct depot *depot, bool on)
{
    assert(on || depot->held_back > 0);
    depot->held_back += on ? 1 : (uint32_t)-1;
}
