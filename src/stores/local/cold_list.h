/*
 * cold_list: the first jobs of a topic, by due, that are stored in runs. Private to this room; on
 * the shard's thread, with the scout's help.
 */
#ifndef TARRY_LOCAL_COLD_LIST_H
#define TARRY_LOCAL_COLD_LIST_H

#include "local/shard_core.h"

struct cold_list;

/* Creates a list and begins to read. `walk` is as filled in for walk_init; the list keeps a
 * reference to it. Returns NULL when out of memory. */
struct cold_list *cold_list_new(struct shard *shard, const struct walk *walk);
void cold_list_free(struct cold_list *list); /* not while it is reading */
bool cold_list_is_reading(const struct cold_list *list);
/*
 * Adds the jobs that were found to walk->found, in order, at most walk->limit in total, once it has
 * read and the engine's part of the walk is finished. Sets walk->more if jobs were left out.
 * Returns 0 or a negative errno. -EAGAIN: the jobs found are not valid, but there are more:
 * continue from walk->after with another walk and another list.
 */
int cold_list_merge(struct cold_list *list, struct walk *walk, struct engine_now now);

#endif
