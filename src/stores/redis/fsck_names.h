/* fsck_names: a sorted set of byte strings, each on the heap. A zeroed set is valid and empty. */
#ifndef TARRY_REDIS_FSCK_NAMES_H
#define TARRY_REDIS_FSCK_NAMES_H

#include "base/slice.h"
#include "base/vector.h"

VECTOR_DECLARE(fsck_names, struct slice)

/* Returns the index of `name`, or the index at which to insert it. */
static inline size_t fsck_names_place(const struct fsck_names *names, struct slice name,
                                      bool *found)
{
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        struct slice other = names->at[middle];
        size_t both = other.len < name.len ? other.len : name.len;
        int order = both ? memcmp(other.at, name.at, both) : 0;
        if (order < 0 || (order == 0 && other.len < name.len))
            low = middle + 1;
        else
            high = middle;
    }
    *found = low < names->count && slice_equals(names->at[low], name);
    return low;
}

static inline bool fsck_names_have(const struct fsck_names *names, struct slice name)
{
    bool found;
    (void)fsck_names_place(names, name, &found);
    return found;
}

/* Adds a copy of the name. Returns false if memory runs out. */
static inline bool fsck_names_put(struct fsck_names *names, struct slice name)
{
    bool found;
    size_t place = fsck_names_place(names, name, &found);
    char *copy = found ? NULL : malloc(name.len + 1);
    if (found || !copy)
        return found;
    if (name.len)
        memcpy(copy, name.at, name.len);
    if (fsck_names_insert(names, place, slice_make(copy, name.len)))
        return true;
    free(copy);
    return false;
}

static inline void fsck_names_free(struct fsck_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free((char *)names->at[i].at);
    fsck_names_fini(names);
}

#endif
