#include "beanstalk/tube.h"

#include <stdlib.h>

struct beanstalk_tube *beanstalk_tubes_find(const struct beanstalk_tubes *tubes, struct slice name)
{
    return beanstalk_tube_table_find(&tubes->table, name);
}

struct beanstalk_tube *beanstalk_tubes_need(struct beanstalk_tubes *tubes, struct slice name)
{
    struct beanstalk_tube *tube = beanstalk_tubes_find(tubes, name);
    if (tube || !(tube = calloc(1, sizeof *tube + name.len)))
        return tube;
    memcpy(tube->name, name.at, name.len);
    tube->entry.key = slice_make(tube->name, name.len);
    beanstalk_tube_table_add(&tubes->table, tube);
    list_add_last(&tubes->order, &tube->order);
    return tube;
}

void beanstalk_tubes_drop(struct beanstalk_tubes *tubes, struct beanstalk_tube *tube)
{
    if (tube->users || tube->watchers || slice_is(tube->entry.key, BEANSTALK_TUBE_DEFAULT))
        return;
    beanstalk_tube_table_remove(&tubes->table, tube);
    list_remove(&tube->order);
    free(tube);
}

bool beanstalk_tubes_init(struct beanstalk_tubes *tubes)
{
    *tubes = (struct beanstalk_tubes){0};
    list_init(&tubes->order);
    return beanstalk_tubes_need(tubes, slice_of(BEANSTALK_TUBE_DEFAULT)) != NULL;
}

void beanstalk_tubes_fini(struct beanstalk_tubes *tubes)
{
    struct beanstalk_tube *tube;
    while ((tube = beanstalk_tube_table_first(&tubes->table))) {
        beanstalk_tube_table_remove(&tubes->table, tube);
        free(tube);
    }
    beanstalk_tube_table_fini(&tubes->table);
}
