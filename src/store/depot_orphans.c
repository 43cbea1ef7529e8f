#include "store/depot_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Files that a crash left, and that the catalog does not name. */

struct orphans {
    const struct catalog *catalog;
    uint32_t *runs, *keys;
    size_t run_count, key_count;
    uint32_t highest_run, highest_keys;
    bool failed;
};

static bool add_number(uint32_t **numbers, size_t *count, uint32_t number)
{
    uint32_t *grown = *numbers;

    if ((*count & (*count - 1)) == 0) /* full: room is a power of two */
        grown = realloc(*numbers, (*count ? *count * 2 : 1) * sizeof **numbers);
    if (!grown)
        return false;
    *numbers = grown;
    grown[(*count)++] = number;
    return true;
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
    struct orphans *orphans = ctx;
    uint32_t run = run_file_number(name), keys = keys_file_number(name);

    if (run > orphans->highest_run)
        orphans->highest_run = run;
    if (keys > orphans->highest_keys)
        orphans->highest_keys = keys;
    if (run && !names_run(orphans->catalog, run) &&
        !add_number(&orphans->runs, &orphans->run_count, run))
        orphans->failed = true;
    if (keys && !names_keys(orphans->catalog, keys) &&
        !add_number(&orphans->keys, &orphans->key_count, keys))
        orphans->failed = true;
}

/* The last word of a crash: what was being written under a temporary name. */
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

/* The highest one that never counted stays as a marker (see depot.h). */
static bool remove_orphans(struct depot *depot, struct orphans *orphans)
{
    uint32_t marker = orphans->highest_run >= depot->catalog.next_run ? orphans->highest_run : 0;

    if (marker) {
        struct depot_run *run = depot_marker_new(depot, marker);

        if (!run)
            return false;
        run->next_gone = depot->gone_runs;
        depot->gone_runs = run; /* emptied when it is put away */
    }
    for (size_t i = 0; i < orphans->run_count; i++)
        if (orphans->runs[i] != marker)
            depot_unlink_run(depot, orphans->runs[i]);
    for (size_t i = 0; i < orphans->key_count; i++)
        depot_unlink_keys(depot, orphans->keys[i]);
    remove_fresh(depot);
    depot_put_away(depot);
    return true;
}

int depot_remove_orphans(struct depot *depot, bool may_remove, char *error, size_t error_bytes)
{
    const struct fs *fs = depot->options.fs;
    struct orphans orphans = {.catalog = &depot->catalog};
    int result = fs->ops->list(fs->ctx, depot->dir, note_orphan, &orphans);

    if (result == 0 && orphans.failed)
        result = -ENOMEM;
    depot->next_run = depot->catalog.next_run;
    depot->next_keys = depot->catalog.next_keys;
    if (orphans.highest_run >= depot->next_run)
        depot->next_run = orphans.highest_run + 1;
    if (orphans.highest_keys >= depot->next_keys)
        depot->next_keys = orphans.highest_keys + 1;
    if (result == 0 && may_remove && !remove_orphans(depot, &orphans))
        result = -ENOMEM;
    free(orphans.runs);
    free(orphans.keys);
    if (result < 0)
        snprintf(error, error_bytes, "'%s' cannot be read: %s", depot->dir, strerror(-result));
    return result;
}
