/*
 * zones: the time zones of a directory, read when they are needed and again when their file changes.
 *
 * One thread. A zone is valid until the next call.
 */
#ifndef TARRY_CADENCE_ZONES_H
#define TARRY_CADENCE_ZONES_H

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

#endif
