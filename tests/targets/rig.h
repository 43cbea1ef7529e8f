/*
 * rig: a peer of a kind of target, for the suite: a real one, on a port of its own.
 *
 * A kind adds a file rig_KIND.c. A rig keeps its port: after a stop and a
 * start it is at the same place. Functions fail the test if the peer does not do as they
 * promise.
 */
#ifndef TARRY_TESTS_TARGETS_RIG_H
#define TARRY_TESTS_TARGETS_RIG_H

#include "guard/target_rows.h"

#include <stdbool.h>
#include <stddef.h>

struct target_rig {
    const char *name;
    /* Why the kind cannot be tried here (its server is not installed); NULL: it can. The function
     * may be NULL: it always can. */
    const char *(*missing)(void);
    /* It listens when start returns, and is gone when stop does. */
    void (*start)(void);
    void (*stop)(void);
    /* Connections are taken, messages are read, nothing is answered. NULL: it cannot. */
    void (*stall)(bool on);
    /* Messages that it has taken since it was made. */
    size_t (*count)(void);
    const char *(*to)(void);
    const char *setting; /* further members of the setting: ",\"exchange\":\"\"" */
    /* Further lines of the policy file, such as credentials. NULL: no further lines. */
    const char *(*policy)(void);
    /* Until a message is through again after the peer came back. */
    int back_ms;
    bool reaches_nobody; /* there is no peer to lose, and nothing for a guard to refuse */
};

/* Ended by NULL. */
extern const struct target_rig *const rigs[];

/* rig_null, and one for each kind of targets.txt */
extern const struct target_rig rig_null;
#define RIG_DECLARE(NAME, ...) extern const struct target_rig rig_##NAME;
TARGET_KIND_ROWS(RIG_DECLARE)
#undef RIG_DECLARE

#endif
