/* work_slot: one place of `tarry work` for a job: its command while it runs, then its outcome until
 * the server has answered. */
#ifndef TARRY_CLI_WORK_SLOT_H
#define TARRY_CLI_WORK_SLOT_H

#include "cli/child.h"

enum {
    WORK_SLOTS_MAX = 256,
    WORK_NAME_BYTES = 336, /* topic/id */
    WORK_LEASE_BYTES = 80
};

enum work_slot_state { WORK_SLOT_FREE = 0, WORK_SLOT_RUNNING, WORK_SLOT_ENDED };

struct work_slot {
    enum work_slot_state state;
    uint64_t serial; /* tells the jobs apart that one slot has one after the other */
    struct child child;
    char name[WORK_NAME_BYTES], lease[WORK_LEASE_BYTES];
    char error[CHILD_ERROR_BYTES]; /* once ended: why it failed; "": it did not */
    bool is_final;                 /* once ended: no further attempt can help */
    int64_t lease_end_ms;          /* as far as we know, on the clock since boot */
    int64_t extend_ms;             /* when to extend the lease next */
    bool is_lost;                  /* the lease has ended, the server says */
    bool is_doubtful;              /* an answer for it broke off: it may have counted */
};

#endif
