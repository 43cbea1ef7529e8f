/* depot_rig_helper: the work of a shard's helpers on its depot: on a thread of
 * their own if the rig requires that, while the owner continues. */
#ifndef TARRY_TESTS_DEPOT_RIG_HELPER_H
#define TARRY_TESTS_DEPOT_RIG_HELPER_H

#include "depot_rig_jobs.h"

#include <pthread.h>
#include <sched.h>

struct rig_work {
    struct rig *rig;
    int (*work)(struct rig *rig, void *of);
    void *of;
    int result;
};

static inline void *rig_help(void *ctx)
{
    struct rig_work *work = ctx;

    work->result = work->work(work->rig, work->of);
    return NULL;
}

static inline int rig_let_help(struct rig *rig, int (*work)(struct rig *rig, void *of), void *of)
{
    struct rig_work help = {.rig = rig, .work = work, .of = of};
    pthread_t helper;

    if (!rig->has_helper)
        return work(rig, of);
    assert_int_equal(pthread_create(&helper, NULL, rig_help, &help), 0);
    for (int i = 0; i < 20; i++) {
        rig_live_on(rig, 1);
        depot_maybe(rig->depot, rig_key(0));
        depot_wants_checkpoint(rig->depot, false);
        depot_let_go(depot_hold(rig->depot));
        sched_yield();
    }
    assert_int_equal(pthread_join(helper, NULL), 0);
    return help.result;
}

static inline int rig_do_build(struct rig *rig, void *of)
{
    (void)rig;
    return depot_build(of);
}

struct rig_committing {
    struct catalog *catalog;
    bool *fatal;
};

static inline int rig_do_commit(struct rig *rig, void *of)
{
    struct rig_committing *committing = of;

    return depot_commit(rig->depot, committing->catalog, committing->fatal);
}

static inline int rig_do_tidy(struct rig *rig, void *of)
{
    (void)of;
    depot_tidy(rig->depot);
    return 0;
}

struct rig_merging {
    struct depot_keys_merge merge;
    uint64_t step; /* entries */
};

static inline int rig_do_merge(struct rig *rig, void *of)
{
    struct rig_merging *merging = of;

    return depot_keys_merge(rig->depot, &merging->merge, merging->step);
}

#endif
