#include "redis/fsck_private.h"

#include <stdlib.h>

/* Where it is or would stand. */
static size_t place_of(const struct fsck_names *names, struct slice name, bool *found)
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

bool fsck_names_have(const struct fsck_names *names, struct slice name)
{
    bool found;
    place_of(names, name, &found);
    return found;
}

static bool grow(struct fsck_names *names)
{
    size_t room = names->room ? names->room * 2 : 64;
    struct slice *at = realloc(names->at, room * sizeof *at);
    if (!at)
        return false;
    names->at = at;
    names->room = room;
    return true;
}

bool fsck_names_add(struct fsck_names *names, struct slice name)
{
    bool found;
    size_t place = place_of(names, name, &found);
    if (found)
        return true;
    if (names->count == names->room && !grow(names))
        return false;
    char *copy = malloc(name.len + 1);
    if (!copy)
        return false;
    if (name.len)
        memcpy(copy, name.at, name.len);
    memmove(names->at + place + 1, names->at + place, (names->count - place) * sizeof *names->at);
    names->at[place] = slice_make(copy, name.len);
    names->count++;
    return true;
}

void fsck_names_fini(struct fsck_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free((char *)names->at[i].at);
    free(names->at);
    *names = (struct fsck_names){0};
}
