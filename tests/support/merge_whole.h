/* merge_whole: tables of keys merged in one step, where it is of no matter what happens between
 * steps. */
#ifndef TARRY_TESTS_MERGE_WHOLE_H
#define TARRY_TESTS_MERGE_WHOLE_H

#include "store/keys.h"

/* Calls keys_merger_new and all its steps. *kept: how many entries the new table has; only on success. */
static inline int merge_whole(const struct keys_writing *writing, struct keys *const *tables,
                              size_t count,
                              bool (*keeps)(void *ctx, const struct keys_entry *entry), void *ctx,
                              uint64_t *kept)
{
    struct keys_merger *merger;
    int result = keys_merger_new(writing, tables, count, keeps, ctx, &merger);

    if (result < 0)
        return result;
    result = keys_merger_step(merger, UINT64_MAX);
    if (result == 0)
        *kept = keys_merger_kept(merger);
    keys_merger_free(merger);
    return result;
}

#endif
