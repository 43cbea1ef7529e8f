/*
 * tube: what this server stores about the tubes that its connections use or watch. The jobs
 * themselves belong to the queue. The tube "default" always exists. One thread.
 */
#ifndef TARRY_BEANSTALK_TUBE_H
#define TARRY_BEANSTALK_TUBE_H

#include "base/list.h"
#include "base/table.h"

#define BEANSTALK_TUBE_DEFAULT "default"

struct beanstalk_tube {
    struct table_entry entry; /* keyed by name */
    struct list order;        /* position in the list, in order of first use */
    uint32_t users, watchers, waiting;
    uint64_t pauses;
    uint32_t pause_s; /* duration of the last pause */
    char name[];
};

TABLE_DECLARE(beanstalk_tube_table, struct beanstalk_tube, entry)

struct beanstalk_tubes {
    struct beanstalk_tube_table table;
    struct list order;
};

/* Returns false if out of memory. */
bool beanstalk_tubes_init(struct beanstalk_tubes *tubes);
void beanstalk_tubes_fini(struct beanstalk_tubes *tubes);
/* Returns NULL if no client uses or watches the tube. */
struct beanstalk_tube *beanstalk_tubes_find(const struct beanstalk_tubes *tubes, struct slice name);
/* Finds or creates a tube. Returns NULL if out of memory. A caller that does not count itself as a
 * user or a watcher must drop the tube again. */
struct beanstalk_tube *beanstalk_tubes_need(struct beanstalk_tubes *tubes, struct slice name);
/* Frees the tube if no client uses or watches it. */
void beanstalk_tubes_drop(struct beanstalk_tubes *tubes, struct beanstalk_tube *tube);

static inline struct slice beanstalk_tube_name(const struct beanstalk_tube *tube)
{
    return tube->entry.key;
}

#endif
