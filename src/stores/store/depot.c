#include "store/depot_private.h"

#include "base/random.h"
#include "base/vector.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Orphans: files that a crash left and that the catalog does not name. */

VECTOR_DECLARE(file_numbers, uint32_t)

struct depot_orphans {
    const struct catalog *catalog;
    struct file_numbers runs, keys;
    uint32_t highest_run, highest_keys;
    bool failed;
    /* marker of the highest run that was never committed (see depot.h), or NULL */
    struct depot_run *marker;
};

static void orphans_free(struct depot_orphans *orphans)
{
    if (!orphans)
        return;
    if (orphans->marker)
        depot_run_free(orphans->marker);
    file_numbers_fini(&orphans->runs);
    file_numbers_fini(&orphans->keys);
    free(orphans);
}

static bool names_run(const struct catalog *catalog, uint32_t number)
{
    for (uint32_t i = 0; i < catalog->run_count; i++)
        if (catalog->runs[i].number == number)
            return true;
    return false;
}

static bool names_keys(const struct catalog *catalog, uint32_t number)
{
    for (uint32_t i = 0; i < catalog->key_count; i++)
        if (catalog->keys[i] == number)
            return true;
    return false;
}

static void note_orphan(void *ctx, const char *name)
{
    struct depot_orphans *orphans = ctx;
    uint32_t run = run_file_number(name), keys = keys_file_number(name);

    if (run > orphans->highest_run)
        orphans->highest_run = run;
    if (keys > orphans->highest_keys)
        orphans->highest_keys = keys;
    if (run && !names_run(orphans->catalog, run) && !file_numbers_add(&orphans->runs, run))
        orphans->failed = true;
    if (keys && !names_keys(orphans->catalog, keys) && !file_numbers_add(&orphans->keys, keys))
        orphans->failed = true;
}

/* Files left by a crash during writing, under a temporary name. */
struct fresh {
    char names[64][32];
    size_t count;
};

static void note_fresh(void *ctx, const char *name)
{
    struct fresh *fresh = ctx;
    size_t len = strlen(name);

    if (len > 4 && len < sizeof fresh->names[0] &&
        (strcmp(name + len - 4, ".tmp") == 0 || strcmp(name + len - 4, ".new") == 0) &&
        fresh->count < sizeof fresh->names / sizeof fresh->names[0])
        memcpy(fresh->names[fresh->count++], name, len + 1);
}

static void remove_fresh(struct depot *depot)
{
    const struct fs *fs = depot->options.fs;
    struct fresh fresh = {0};
    char path[PATH_MAX];

    fs->ops->list(fs->ctx, depot->dir, note_fresh, &fresh);
    for (size_t i = 0; i < fresh.count; i++) {
        depot_path(depot, fresh.names[i], path);
        fs->ops->unlink(fs->ctx, path);
    }
}

static bool mark_highest(struct depot *depot, struct depot_orphans *orphans)
{
    if (orphans->highest_run < depot->catalog.next_run)
        return true;
    orphans->marker = depot_marker_new(depot, orphans->highest_run);
    return orphans->marker != NULL;
}

/* Collects the orphans and sets the next numbers above all numbers ever used. If a newer catalog
 * was damaged, nothing may be removed (may_remove false), since the files that it names may be the
 * only copies. */
static int find_orphans(struct depot *depot, bool may_remove, char *error, size_t error_bytes)
{
    const struct fs *fs = depot->options.fs;
    struct depot_orphans *orphans = calloc(1, sizeof *orphans);
    int result = -ENOMEM;

    if (orphans) {
        orphans->catalog = &depot->catalog;
        result = fs->ops->list(fs->ctx, depot->dir, note_orphan, orphans);
    }
    if (result == 0 && (orphans->failed || (may_remove && !mark_highest(depot, orphans))))
        result = -ENOMEM;
    if (result < 0) {
        snprintf(error, error_bytes, "'%s' cannot be read: %s", depot->dir, strerror(-result));
        orphans_free(orphans);
        return result;
    }
    depot->next_run = depot->catalog.next_run;
    depot->next_keys = depot->catalog.next_keys;
    if (orphans->highest_run >= depot->next_run)
        depot->next_run = orphans->highest_run + 1;
    if (orphans->highest_keys >= depot->next_keys)
        depot->next_keys = orphans->highest_keys + 1;
    if (may_remove)
        depot->orphans = orphans;
    else
        orphans_free(orphans);
    return 0;
}

void depot_remove_orphans(struct depot *depot)
{
    struct depot_orphans *orphans = depot->orphans;
    struct depot_run *marker = orphans ? orphans->marker : NULL;

    if (!orphans)
        return;
    for (size_t i = 0; i < orphans->runs.count; i++)
        if (!marker || orphans->runs.at[i] != marker->number)
            depot_unlink_run(depot, orphans->runs.at[i]);
    for (size_t i = 0; i < orphans->keys.count; i++)
        depot_unlink_keys(depot, orphans->keys.at[i]);
    remove_fresh(depot);
    if (marker) {
        marker->next_gone = depot->gone_runs;
        depot->gone_runs = marker; /* emptied by depot_put_away */
        orphans->marker = NULL;
    }
    depot->orphans = NULL;
    orphans_free(orphans);
    depot_put_away(depot);
}

enum { KEYS_FAN = 6, NAME_ROOM = 40 };
#define MIB (UINT64_C(1) << 20)
#define KEYS_ENTRIES_MAX (UINT64_C(20) * 1000 * 1000)

static void set_default(uint64_t *option, uint64_t value)
{
    if (*option == 0)
        *option = value;
}

static struct depot *new_depot(const struct depot_options *options)
{
    struct depot *depot = calloc(1, sizeof *depot);
    int len;

    if (!depot)
        return NULL;
    depot->options = *options;
    set_default(&depot->options.slack_bytes, 256 * MIB);
    set_default(&depot->options.victim_bytes_max, 256 * MIB);
    set_default(&depot->options.small_run_bytes, 16 * MIB);
    set_default(&depot->options.punch_bytes, MIB);
    set_default(&depot->options.keys_entries_max, KEYS_ENTRIES_MAX);
    if (depot->options.keys_fan < 2)
        depot->options.keys_fan = KEYS_FAN;
    len = snprintf(depot->dir, sizeof depot->dir, "%s/run", options->dir);
    if ((size_t)len + NAME_ROOM >= PATH_MAX || pthread_mutex_init(&depot->lock, NULL) != 0) {
        free(depot);
        return NULL;
    }
    return depot;
}

/* ---- what the catalog names ---- */

static void note_dead(struct depot_run *run)
{
    const struct run_info *info = run_info(run->run);

    for (size_t section = 0; section < SECTIONS; section++) {
        uint32_t first = info->sections[section].first;

        run->dead_committed[section] =
            alive_next(&run->alive, first, first + info->sections[section].count) - first;
    }
    memcpy(run->dead_written, run->dead_committed, sizeof run->dead_written);
}

static int load_run(struct depot *depot, const struct catalog_run *about, struct depot_run **out,
                    char *error, size_t error_bytes)
{
    struct depot_run *made;
    struct run *run;
    int result = run_open(depot->options.fs, depot->dir, about->number, depot->catalog.seed, &run,
                          error, error_bytes);

    if (result < 0)
        return result;
    made = depot_run_new(depot, run, about->number);
    if (!made)
        return -ENOMEM;
    if (run_info(run)->slots != about->slots) {
        snprintf(error, error_bytes,
                 "run %" PRIu32 " in '%s' has %" PRIu32 " slots, and the catalog has %" PRIu32
                 ": restore the directory from a backup",
                 about->number, depot->dir, run_info(run)->slots, about->slots);
        depot_run_free(made);
        return -EBADMSG;
    }
    if (!alive_load(&made->alive, about->slots, about->alive)) {
        depot_run_free(made);
        return -ENOMEM; /* catalog_decode has already checked the bits */
    }
    made->keys = about->keys;
    made->alive_bytes = about->record_bytes;
    made->was_committed = true;
    note_dead(made);
    *out = made;
    return 0;
}

static int load_table(struct depot *depot, uint32_t number, struct depot_table **out, char *error,
                      size_t error_bytes)
{
    struct keys *keys;
    int result = keys_open(depot->options.fs, depot->dir, number, depot->catalog.seed, &keys, error,
                           error_bytes);

    if (result < 0)
        return result;
    *out = depot_table_new(depot, keys);
    return *out ? 0 : -ENOMEM;
}

static int load_all(struct depot *depot, struct depot_view *view, char *error, size_t error_bytes)
{
    const struct catalog *catalog = &depot->catalog;
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < catalog->run_count; i++) {
        struct depot_run *run;

        result = load_run(depot, &catalog->runs[i], &run, error, error_bytes);
        if (result == 0) {
            depot_view_add_run(view, run);
            depot_count_in(depot, run);
        }
    }
    for (uint32_t i = 0; result == 0 && i < catalog->key_count; i++) {
        struct depot_table *table;

        result = load_table(depot, catalog->keys[i], &table, error, error_bytes);
        if (result == 0)
            depot_view_add_table(view, table);
    }
    if (result == -ENOMEM)
        snprintf(error, error_bytes, "out of memory opening '%s'", depot->dir);
    return result;
}

static void free_view_with_all(struct depot_view *view)
{
    for (uint32_t i = 0; i < view->run_count; i++)
        depot_run_free(view->runs[i]);
    for (uint32_t i = 0; i < view->table_count; i++)
        depot_table_free(view->tables[i]);
    depot_view_free(view);
}

static int load_view(struct depot *depot, char *error, size_t error_bytes)
{
    const struct catalog *catalog = &depot->catalog;
    struct depot_view *view = depot_view_new(depot, catalog->run_count, catalog->key_count);
    int result;

    if (!view) {
        snprintf(error, error_bytes, "out of memory opening '%s'", depot->dir);
        return -ENOMEM;
    }
    result = load_all(depot, view, error, error_bytes);
    if (result < 0) {
        free_view_with_all(view);
        return result;
    }
    depot_view_set(depot, view);
    return 0;
}

/* ---- open, close ---- */

static int make_one(const struct fs *fs, const char *path, const char *parent)
{
    int result = fs->ops->mkdir(fs->ctx, path, 0700);

    return result < 0 ? result : fs->ops->fsync_dir(fs->ctx, parent);
}

static int make_dir(struct depot *depot, char *error, size_t error_bytes)
{
    const struct fs *fs = depot->options.fs;
    char parent[PATH_MAX];
    char *slash;
    int result;

    snprintf(parent, sizeof parent, "%s", depot->options.dir);
    slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent] = '\0';
    result = make_one(fs, depot->options.dir, slash ? parent : ".");
    if (result == 0)
        result = make_one(fs, depot->dir, depot->options.dir);
    /* A process that died may have left a catalog whose name is not yet on disk; log files are
     * dropped according to it. */
    if (result == 0)
        result = fs->ops->fsync_dir(fs->ctx, depot->dir);
    if (result < 0)
        snprintf(error, error_bytes, "cannot create '%s': %s", depot->dir, strerror(-result));
    return result;
}

static uint64_t draw_seed(const struct depot_options *options)
{
    return options->seed ? options->seed : random_u64() | 1; /* 0 means "generate" */
}

static int refuse_identity(const struct depot *depot, char *error, size_t error_bytes)
{
    snprintf(error, error_bytes,
             "the catalog in '%s' belongs to shard %02" PRIu32
             " of %s store; put each shard back in its place, or restore a backup (nothing was "
             "changed)",
             depot->dir, depot->catalog.identity.shard,
             strcmp(depot->catalog.identity.store, depot->options.identity.store) == 0 ? "this"
                                                                                       : "another");
    return -EBADMSG;
}

static int open_all(struct depot *depot, char *error, size_t error_bytes)
{
    uint32_t damaged = 0;
    int result = make_dir(depot, error, error_bytes);

    if (result < 0)
        return result;
    result =
        catalog_read(depot->options.fs, depot->dir, &depot->catalog, &damaged, error, error_bytes);
    if (result < 0 && result != -ENOENT)
        return result;
    if (result == -ENOENT)
        depot->catalog = (struct catalog){.seed = draw_seed(&depot->options),
                                          .identity = depot->options.identity,
                                          .next_run = 1,
                                          .next_keys = 1};
    if (!store_identity_equals(&depot->catalog.identity, &depot->options.identity))
        return refuse_identity(depot, error, error_bytes);
    depot->committed_next_run = depot->catalog.next_run;
    depot->is_tidy_due = depot->catalog.run_count > 0;
    result = load_view(depot, error, error_bytes);
    if (result == 0)
        result = find_orphans(depot, damaged == 0, error, error_bytes);
    return result;
}

int depot_open(const struct depot_options *options, struct depot **out, char *error,
               size_t error_bytes)
{
    struct depot *depot = new_depot(options);
    int result;

    if (!depot) {
        snprintf(error, error_bytes, "out of memory or name too long, opening '%s/run'",
                 options->dir);
        return -ENOMEM;
    }
    result = open_all(depot, error, error_bytes);
    if (result < 0) {
        depot_close(depot);
        return result;
    }
    *out = depot;
    return 0;
}

void depot_close(struct depot *depot)
{
    struct depot_run *next;

    if (!depot)
        return;
    depot_let_go(depot->view);
    assert(depot->views == 0);
    orphans_free(depot->orphans);
    depot_put_away(depot);
    for (; depot->markers; depot->markers = next) {
        next = depot->markers->next_gone;
        depot_run_free(depot->markers);
    }
    depot_view_free(depot->spare);
    catalog_fini(&depot->catalog);
    pthread_mutex_destroy(&depot->lock);
    free(depot);
}

const struct catalog *depot_catalog(const struct depot *depot)
{
    return &depot->catalog;
}

void depot_forget_catalog(struct depot *depot)
{
    struct catalog *catalog = &depot->catalog;

    for (uint32_t i = 0; i < catalog->run_count; i++) {
        free(catalog->runs[i].alive);
        catalog->runs[i].alive = NULL;
    }
    for (uint32_t i = 0; i < catalog->topic_count; i++)
        free((char *)catalog->topics[i].name.at);
    free(catalog->topics);
    catalog->topics = NULL;
    catalog->topic_count = 0;
}

/* ---- figures ---- */

void depot_count_in(struct depot *depot, struct depot_run *run)
{
    assert(!run->is_counted);
    pthread_mutex_lock(&depot->lock);
    run->is_counted = true;
    depot->sums.slots_alive += run->alive.count;
    depot->sums.alive_bytes += run->alive_bytes;
    depot->sums.file_bytes += run->file_bytes;
    depot->sums.freed += run->freed;
    pthread_mutex_unlock(&depot->lock);
}

void depot_count_out(struct depot *depot, struct depot_run *run)
{
    if (!run->is_counted)
        return;
    pthread_mutex_lock(&depot->lock);
    run->is_counted = false;
    depot->sums.slots_alive -= run->alive.count;
    depot->sums.alive_bytes -= run->alive_bytes;
    depot->sums.file_bytes -= run->file_bytes;
    depot->sums.freed -= run->freed;
    pthread_mutex_unlock(&depot->lock);
}

void depot_stats(const struct depot *depot, struct depot_stats *out)
{
    const struct depot_view *view = depot->view;
    uint64_t disk = depot->sums.file_bytes - depot->sums.freed;
    uint64_t alive = depot->sums.alive_bytes + depot->sums.slots_alive * (uint64_t)DEPOT_SLOT_BYTES;

    *out = (struct depot_stats){.runs = view->run_count,
                                .tables = view->table_count,
                                .slots_alive = depot->sums.slots_alive,
                                .alive_bytes = depot->sums.alive_bytes,
                                .garbage_bytes = disk > alive ? disk - alive : 0,
                                .bytes_on_disk = disk};
    for (uint32_t i = 0; i < view->table_count; i++) {
        const struct keys *keys = view->tables[i]->keys;

        out->bytes_on_disk += keys_file_bytes(keys);
        if (keys_has_filter(keys))
            out->filter_bytes += keys_count(keys) * FILTER_BITS_PER_HASH / 8;
        else
            out->filters_loading = true;
    }
}
