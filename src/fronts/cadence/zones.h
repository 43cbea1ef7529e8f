/*
 * zones: the time zones of a directory, read when they are needed and again when their file changes.
 *
 * One thread. A zone is valid until the next call.
 */
#ifndef TARRY_CADENCE_ZONES_H
#define TARRY_CADENCE_ZONES_H

#include "schedule/state.h"
#include "schedule/zone.h"

#define ZONES_DIRECTORY "/usr/share/zoneinfo"
enum { ZONES_ERROR_BYTES = 300 };

struct zones;

/* Creates an empty cache. `directory` must outlive it. Returns NULL if out of memory. */
struct zones *zones_new(const char *directory);
void zones_free(struct zones *zones);

/* Finds a zone by its name; an empty name and "UTC" need no file and set *out to NULL. Returns false
 * with `error` (ZONES_ERROR_BYTES), which names the zone and the remedy. */
bool zones_find(struct zones *zones, struct slice name, const struct zone **out, char *error);

/* Checks the files of all zones in use, and that of the version. Returns whether one has changed. */
bool zones_look(struct zones *zones);
/* Returns whether no zone is in use. */
bool zones_is_empty(const struct zones *zones);

/* Notes in a state which file the next fire was found with, and the version of the directory: the
 * first line of its tzdata.zi, such as "# version 2026a", as a number that rises. */
void zones_stamp(const struct zones *zones, const struct zone *zone, struct state *state);
/* Returns whether a state was noted with another file of the zone. */
bool zones_differ(const struct zone *zone, const struct state *state);
/* Returns whether a state was noted with a newer version than that of the directory. */
bool zones_are_older(const struct zones *zones, const struct state *state);

#endif
