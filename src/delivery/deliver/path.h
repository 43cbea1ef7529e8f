/*
 * path: the exact URLs that asked for fewer requests (429), each with a breaker of its own, so that other URLs of their
 * origin are not delayed. Pure.
 *
 * A URL is found by its hash. The table has PATHS_MAX places; a URL whose place another one needs is removed: then
 * its jobs are sent, and each waits for as long as its own answer requires.
 */
#ifndef TARRY_DELIVER_PATH_H
#define TARRY_DELIVER_PATH_H

#include "base/hash.h"
#include "base/slice.h"
#include "deliver/breaker.h"

enum { PATHS_MAX = 1024 };

struct path {
    uint64_t key; /* 0: free */
    struct breaker breaker;
};

struct paths {
    struct path at[PATHS_MAX];
};

static inline uint64_t path_key(struct slice url)
{
    return hash_64(url.at, url.len) | 1;
}

/* Returns NULL if the URL is not known, which means that it may be used. */
static inline struct path *paths_find(struct paths *paths, uint64_t key)
{
    struct path *path = &paths->at[(key >> 1) % PATHS_MAX];
    return path->key == key ? path : NULL;
}

/* Returns the URL's path, and forgets another one that has its place. */
static inline struct path *paths_claim(struct paths *paths, uint64_t key)
{
    struct path *path = &paths->at[(key >> 1) % PATHS_MAX];
    if (path->key != key)
        *path = (struct path){.key = key};
    return path;
}

#endif
