#include "cadence/zones.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { LOOK_MS = 5000 }; /* a file is checked for changes so often */

struct zones_entry {
    struct table_entry entry;
    struct list list;
    char name[ZONE_NAME_BYTES_MAX + 1];
    struct zone zone;
    int64_t looked_ms;
    struct timespec changed; /* time of the file */
    ino_t inode;
};
TABLE_DECLARE(zones_table, struct zones_entry, entry)

struct zones {
    const char *directory;
    struct zones_table table;
    struct list all;
    int64_t version; /* 0: not known */
    struct timespec version_changed;
    ino_t version_inode;
    char bytes[ZONE_FILE_BYTES_MAX]; /* of the file that is read */
};

/* ---- the version ---- */

/* Reads "# version 2026a" as 2026 * 32 + 1. Returns 0 for anything else. */
static int64_t version_parse(const char *line)
{
    unsigned year;
    char letter = 0;
    if (sscanf(line, "# version %4u%c", &year, &letter) < 2 || letter < 'a' || letter > 'z')
        return 0;
    return (int64_t)year * 32 + (letter - 'a' + 1);
}

/* Reads the version again if its file has changed. Returns whether it has. */
static bool version_look(struct zones *zones)
{
    char path[512], line[64] = "";
    struct stat about;
    (void)snprintf(path, sizeof path, "%s/tzdata.zi", zones->directory);
    if (stat(path, &about) != 0)
        return false;
    if (about.st_ino == zones->version_inode &&
        about.st_mtim.tv_sec == zones->version_changed.tv_sec &&
        about.st_mtim.tv_nsec == zones->version_changed.tv_nsec)
        return false;
    FILE *file = fopen(path, "re");
    if (file && fgets(line, sizeof line, file))
        zones->version = version_parse(line);
    if (file)
        (void)fclose(file);
    zones->version_inode = about.st_ino;
    zones->version_changed = about.st_mtim;
    return true;
}

static int64_t digest_of(const struct zone *zone)
{
    int64_t digest = zone ? (int64_t)(zone->digest >> 1) : 0;
    return zone && !digest ? 1 : digest;
}

void zones_stamp(const struct zones *zones, const struct zone *zone, struct state *state)
{
    state->zone_digest = digest_of(zone);
    state->tzdata = zone ? zones->version : 0;
}

bool zones_differ(const struct zone *zone, const struct state *state)
{
    return state->zone_digest != digest_of(zone);
}

bool zones_are_older(const struct zones *zones, const struct state *state)
{
    return zones->version && state->tzdata > zones->version;
}

/* ---- the cache ---- */

struct zones *zones_new(const char *directory)
{
    struct zones *zones = calloc(1, sizeof *zones);
    if (zones) {
        zones->directory = directory;
        list_init(&zones->all);
        (void)version_look(zones);
    }
    return zones;
}

void zones_free(struct zones *zones)
{
    struct zones_entry *at;
    if (!zones)
        return;
    while ((at = zones_table_first(&zones->table))) {
        zones_table_remove(&zones->table, at);
        list_remove(&at->list);
        zone_fini(&at->zone);
        free(at);
    }
    zones_table_fini(&zones->table);
    free(zones);
}

/* Reads the file of a zone. */
static bool zones_read(struct zones *zones, struct slice name, struct zone *out, struct stat *about)
{
    char path[512];
    if (snprintf(path, sizeof path, "%s/%.*s", zones->directory, ERROR_SHOWN(name, 100)) >=
        (int)sizeof path)
        return false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t len = fread(zones->bytes, 1, sizeof zones->bytes, file);
    bool is_good = !ferror(file) && fstat(fileno(file), about) == 0 && S_ISREG(about->st_mode) &&
                   len < sizeof zones->bytes && zone_parse(slice_make(zones->bytes, len), out);
    (void)fclose(file);
    return is_good;
}

/* Returns whether the file has changed since it was read. */
static bool zones_has_changed(const struct zones *zones, struct zones_entry *at)
{
    char path[512];
    struct stat about;
    at->looked_ms = clock_inner_ms();
    (void)snprintf(path, sizeof path, "%s/%s", zones->directory, at->name);
    return stat(path, &about) != 0 || about.st_ino != at->inode ||
           about.st_mtim.tv_sec != at->changed.tv_sec ||
           about.st_mtim.tv_nsec != at->changed.tv_nsec;
}

static bool zones_is_stale(const struct zones *zones, struct zones_entry *at)
{
    return clock_inner_ms() - at->looked_ms >= LOOK_MS && zones_has_changed(zones, at);
}

static void zones_drop(struct zones *zones, struct zones_entry *at)
{
    zones_table_remove(&zones->table, at);
    list_remove(&at->list);
    zone_fini(&at->zone);
    free(at);
}

static bool zones_refuse(struct zones *zones, struct slice name, char *error)
{
    return error_text(error, ZONES_ERROR_BYTES,
                      "unknown time zone '%.*s' of 'zone' in '%s': write a name such as "
                      "Europe/Berlin, or install the package tzdata on this server",
                      ERROR_SHOWN(name, ZONE_NAME_BYTES_MAX), zones->directory);
}

bool zones_find(struct zones *zones, struct slice name, const struct zone **out, char *error)
{
    struct stat about;
    struct zone zone;
    *out = NULL;
    if (!name.len || slice_is(name, "UTC"))
        return true;
    struct zones_entry *at = zones_table_find(&zones->table, name);
    if (at && zones_is_stale(zones, at)) {
        zones_drop(zones, at);
        at = NULL;
    }
    if (at) {
        *out = &at->zone;
        return true;
    }
    if (!zone_name_is_valid(name) || !zones_read(zones, name, &zone, &about))
        return zones_refuse(zones, name, error);
    (void)version_look(zones);
    at = calloc(1, sizeof *at);
    if (!at) {
        zone_fini(&zone);
        return error_text(error, ZONES_ERROR_BYTES, "out of memory");
    }
    memcpy(at->name, name.at, name.len);
    at->entry.key = slice_of(at->name);
    at->zone = zone;
    at->looked_ms = clock_inner_ms();
    at->changed = about.st_mtim;
    at->inode = about.st_ino;
    zones_table_add(&zones->table, at);
    list_add_last(&zones->all, &at->list);
    *out = &at->zone;
    return true;
}

bool zones_look(struct zones *zones)
{
    bool has_changed = version_look(zones);
    for (struct list *link = zones->all.next, *next; link != &zones->all; link = next) {
        struct zones_entry *at = list_entry(link, struct zones_entry, list);
        next = link->next;
        if (zones_has_changed(zones, at)) {
            zones_drop(zones, at);
            has_changed = true;
        }
    }
    return has_changed;
}

bool zones_is_empty(const struct zones *zones)
{
    return list_is_empty(&zones->all);
}
