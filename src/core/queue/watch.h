/*
 * watch: which reactors watch which topics: a hash table from a topic to a bit for each reactor. Topics need not
 * exist.
 */
#ifndef TARRY_QUEUE_WATCH_H
#define TARRY_QUEUE_WATCH_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct watch_table;

struct watch_table *watch_table_new(void); /* NULL: out of memory */
void watch_table_free(struct watch_table *table);

/* Sets or clears a reactor's bit; false: out of memory. */
bool watch_set(struct watch_table *table, struct slice topic, uint32_t reactor, bool on);
uint64_t watch_find(const struct watch_table *table, struct slice topic);

#endif
