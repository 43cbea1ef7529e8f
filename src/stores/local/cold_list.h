/*
 * cold_list: the first so many jobs of a topic, by due, that lie in runs. This room only; the
 * shard's thread, with the scout's help.
 */
#ifndef TARRY_LOCAL_COLD_LIST_H
#define TARRY_LOCAL_COLD_LIST_H

#include "local/shard_core.h"

struct cold_list;

/* `walk` as filled in for walk_init; kept by reference. Reading begins at once. NULL: out of
 * memory.
 */
struct cold_list *cold_list_new(struct shard *shard, const struct walk *walk);
void cold_list_free(struct cold_list *list); /* not while it is reading */
bool cold_list_is_reading(const struct cold_list *list);
/*
 * Once it has read and the engine's part of the walk is finished: puts what was found among
 * walk->found, in order, at most walk->limit in all; walk->more is set where jobs were left out. 0
 * or negative errno. -EAGAIN: nothing of what was found counts, but there is more: walk->after is
 * where to go on with another walk and another list.
 */
int cold_list_merge(struct cold_list *list, struct walk *walk, struct engine_now now);

#endif
