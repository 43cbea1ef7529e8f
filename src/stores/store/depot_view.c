/* Views of the depot, and closing of runs and tables that left all views. */
#include "store/depot_private.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- runs and tables ---- */

void depot_path(const struct depot *depot, const char *name, char out[PATH_MAX])
{
    int len = snprintf(out, PATH_MAX, "%s/%s", depot->dir, name);

    assert(len > 0 && len < PATH_MAX); /* depot_open reserved room for names */
}

/* Removes a run's file. A failure is harmless: the next opening removes files that do not count. */
void depot_unlink_run(struct depot *depot, uint32_t number)
{
    char name[32], path[PATH_MAX];

    run_file_name(number, name);
    depot_path(depot, name, path);
    depot->options.fs->ops->unlink(depot->options.fs->ctx, path);
}

void depot_unlink_keys(struct depot *depot, uint32_t number)
{
    char name[32], path[PATH_MAX];

    keys_file_name(number, name);
    depot_path(depot, name, path);
    depot->options.fs->ops->unlink(depot->options.fs->ctx, path);
}

uint64_t depot_run_freed(const struct run *run)
{
    uint64_t file_bytes = run_info(run)->file_bytes;
    int64_t on_disk = run_disk_bytes(run);

    return on_disk >= 0 && (uint64_t)on_disk < file_bytes ? file_bytes - (uint64_t)on_disk : 0;
}

struct depot_run *depot_run_new(struct depot *depot, struct run *run, uint32_t number)
{
    struct depot_run *made = calloc(1, sizeof *made);

    if (!made) {
        run_close(run);
        return NULL;
    }
    *made = (struct depot_run){
        .run = run, .number = number, .depot = depot, .file_bytes = run_info(run)->file_bytes};
    atomic_init(&made->freed, depot_run_freed(run));
    return made;
}

struct depot_table *depot_table_new(struct depot *depot, struct keys *keys)
{
    struct depot_table *made = calloc(1, sizeof *made);

    if (!made) {
        keys_close(keys);
        return NULL;
    }
    *made = (struct depot_table){.keys = keys, .depot = depot, .number = keys_number(keys)};
    return made;
}

void depot_run_free(struct depot_run *run)
{
    run_close(run->run);
    alive_fini(&run->alive);
    free(run->moved);
    free((void *)atomic_load(&run->in_memory));
    free(run);
}

void depot_table_free(struct depot_table *table)
{
    keys_close(table->keys);
    free(table);
}

/* ---- views ---- */

struct depot_view *depot_view_new(struct depot *depot, size_t runs, size_t tables)
{
    struct depot_view *view = calloc(1, sizeof *view);

    if (!view)
        return NULL;
    *view = (struct depot_view){.depot = depot};
    view->runs = calloc(runs + 1, sizeof(struct depot_run *));
    view->tables = calloc(tables + 1, sizeof(struct depot_table *));
    if (!view->runs || !view->tables) {
        depot_view_free(view);
        return NULL;
    }
    return view;
}

void depot_view_free(struct depot_view *view)
{
    if (!view)
        return;
    free(view->runs);
    free(view->tables);
    free(view);
}

void depot_view_fill(struct depot_view *view, depot_keeps_run *keeps_run,
                     depot_keeps_table *keeps_table, void *ctx)
{
    const struct depot_view *from = view->depot->view;

    for (uint32_t i = 0; i < from->run_count; i++)
        if (!keeps_run || keeps_run(ctx, from->runs[i]))
            depot_view_add_run(view, from->runs[i]);
    for (uint32_t i = 0; i < from->table_count; i++)
        if (!keeps_table || keeps_table(ctx, from->tables[i]))
            depot_view_add_table(view, from->tables[i]);
}

void depot_view_add_run(struct depot_view *view, struct depot_run *run)
{
    assert(view->run_count == 0 || view->runs[view->run_count - 1]->number < run->number);
    view->runs[view->run_count++] = run;
}

/* Inserts by number, as the catalog requires: a merge may have received its number before a
 * checkpoint that finished first. */
void depot_view_add_table(struct depot_view *view, struct depot_table *table)
{
    uint32_t at = view->table_count++;

    for (; at > 0 && view->tables[at - 1]->number > table->number; at--)
        view->tables[at] = view->tables[at - 1];
    view->tables[at] = table;
}

void depot_view_set(struct depot *depot, struct depot_view *view)
{
    struct depot_view *old = depot->view;

    for (uint32_t i = 0; i < view->run_count; i++)
        view->runs[i]->holds++;
    for (uint32_t i = 0; i < view->table_count; i++)
        view->tables[i]->holds++;
    view->holds = 1;
    view->generation = old ? old->generation + 1 : 1;
    depot->views++;
    pthread_mutex_lock(&depot->lock);
    depot->view = view;
    pthread_mutex_unlock(&depot->lock);
    depot_let_go(old);
}

/* Holds the owner's view. The lock ensures that the owner does not release it at the same time. */
struct depot_view *depot_view_hold(struct depot *depot)
{
    struct depot_view *view;

    pthread_mutex_lock(&depot->lock);
    view = depot->view;
    view->holds++;
    pthread_mutex_unlock(&depot->lock);
    return view;
}

const struct depot_view *depot_view(const struct depot *depot)
{
    return depot->view;
}

struct depot_view *depot_hold(struct depot *depot)
{
    return depot_view_hold(depot);
}

static void let_run_go(struct depot *depot, struct depot_run *run)
{
    if (atomic_fetch_sub(&run->holds, 1) > 1)
        return;
    pthread_mutex_lock(&depot->lock);
    run->next_gone = depot->gone_runs;
    depot->gone_runs = run;
    pthread_mutex_unlock(&depot->lock);
}

static void let_table_go(struct depot *depot, struct depot_table *table)
{
    if (atomic_fetch_sub(&table->holds, 1) > 1)
        return;
    pthread_mutex_lock(&depot->lock);
    table->next_gone = depot->gone_tables;
    depot->gone_tables = table;
    pthread_mutex_unlock(&depot->lock);
}

void depot_let_go(struct depot_view *view)
{
    struct depot *depot;

    if (!view || atomic_fetch_sub(&view->holds, 1) > 1)
        return;
    depot = view->depot;
    for (uint32_t i = 0; i < view->run_count; i++)
        let_run_go(depot, view->runs[i]);
    for (uint32_t i = 0; i < view->table_count; i++)
        let_table_go(depot, view->tables[i]);
    depot_view_free(view);
    depot->views--;
}

struct depot_run *depot_view_run(const struct depot_view *view, uint32_t number)
{
    uint32_t low = 0, high = view->run_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (view->runs[middle]->number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < view->run_count && view->runs[low]->number == number ? view->runs[low] : NULL;
}

/* ---- runs and tables that left all views ---- */

struct depot_run *depot_marker_new(struct depot *depot, uint32_t number)
{
    struct depot_run *marker = calloc(1, sizeof *marker);

    if (marker)
        *marker = (struct depot_run){.number = number, .depot = depot, .is_gone = true};
    return marker;
}

/* Truncates the file of a run instead of removing it: the log may name the run, and after a crash
 * nothing else would show that its number is used. */
static void empty_file(struct depot *depot, uint32_t number)
{
    const struct fs *fs = depot->options.fs;
    char name[32], path[PATH_MAX];
    int fd;

    run_file_name(number, name);
    depot_path(depot, name, path);
    fd = fs->ops->open(fs->ctx, path, O_RDWR, 0);
    if (fd < 0)
        return;
    fs->ops->truncate(fs->ctx, fd, 0);
    fs->ops->close(fs->ctx, fd);
}

static void keep_marker(struct depot *depot, struct depot_run *run)
{
    run_close(run->run);
    run->run = NULL;
    alive_fini(&run->alive);
    empty_file(depot, run->number);
    pthread_mutex_lock(&depot->lock);
    run->next_gone = depot->markers;
    depot->markers = run;
    pthread_mutex_unlock(&depot->lock);
}

static void put_run_away(struct depot *depot, struct depot_run *run)
{
    if (run->is_gone && !run->was_committed) {
        keep_marker(depot, run);
        return;
    }
    if (run->is_gone)
        depot_unlink_run(depot, run->number);
    depot_run_free(run);
}

static void put_table_away(struct depot *depot, struct depot_table *table)
{
    if (table->is_gone)
        depot_unlink_keys(depot, table->number);
    depot_table_free(table);
}

/* Removes and returns the markers that a catalog has made unnecessary by its next_run. */
static struct depot_run *take_needless_markers(struct depot *depot)
{
    struct depot_run *needless = NULL, **at;

    pthread_mutex_lock(&depot->lock);
    for (at = &depot->markers; *at;) {
        struct depot_run *marker = *at;

        if (marker->number < depot->committed_next_run) {
            *at = marker->next_gone;
            marker->next_gone = needless;
            needless = marker;
        } else {
            at = &marker->next_gone;
        }
    }
    pthread_mutex_unlock(&depot->lock);
    return needless;
}

void depot_put_away(struct depot *depot)
{
    struct depot_run *runs, *markers;
    struct depot_table *tables;

    pthread_mutex_lock(&depot->lock);
    runs = depot->gone_runs;
    tables = depot->gone_tables;
    depot->gone_runs = NULL;
    depot->gone_tables = NULL;
    pthread_mutex_unlock(&depot->lock);
    for (struct depot_run *next; runs; runs = next) {
        next = runs->next_gone;
        put_run_away(depot, runs);
    }
    for (struct depot_table *next; tables; tables = next) {
        next = tables->next_gone;
        put_table_away(depot, tables);
    }
    markers = take_needless_markers(depot);
    for (struct depot_run *next; markers; markers = next) {
        next = markers->next_gone;
        depot_unlink_run(depot, markers->number);
        depot_run_free(markers);
    }
}
