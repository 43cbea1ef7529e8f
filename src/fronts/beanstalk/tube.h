/*
 * tube: what this server knows of the tubes that its connections use or watch. The jobs are the queue's.
 * The tube "default" is always there. One thread.
 */
#ifndef TARRY_BEANSTALK_TUBE_H
#define TARRY_BEANSTALK_TUBE_H

#include "base/list.h"
#include "base/table.h"

struct beanstalk_tube {
    struct table_entry entry; /* by name */
    struct list order;        /* by first use */
    uint32_t users, watchers, waiting;
    uint64_t pauses;
    uint32_t pause_s; /* as the last pause said */
    char name[];
};

TABLE_DECLARE(beanstalk_tube_table, struct beanstalk_tube, entry)

struct beanstalk_tubes {
    struct beanstalk_tube_table table;
    struct list order;
};

#define BEANSTALK_TUBE_DEFAULT "default"

/* False: out of memory. */
bool beanstalk_tubes_init(struct beanstalk_tubes *tubes);
void beanstalk_tubes_fini(struct beanstalk_tubes *tubes);
/* NULL: nobody uses or watches it. */
struct beanstalk_tube *beanstalk_tubes_find(const struct beanstalk_tubes *tubes, struct slice name);
/* Made where it is not there; NULL: out of memory. Whoever does not count himself among its users or
 * watchers drops it. */
struct beanstalk_tube *beanstalk_tubes_need(struct beanstalk_tubes *tubes, struct slice name);
/* Goes where nobody uses or watches it any more. */
void beanstalk_tubes_drop(struct beanstalk_tubes *tubes, struct beanstalk_tube *tube);

static inline struct slice beanstalk_tube_name(const struct beanstalk_tube *tube)
{
    return tube->entry.key;
}

#endif
