/* outcome: what became of a message that was given to a target. */
#ifndef TARRY_TARGETS_OUTCOME_H
#define TARRY_TARGETS_OUTCOME_H

enum target_outcome {
    TARGET_DONE = 1, /* the peer has accepted it */
    TARGET_FAILED,   /* retry later; the attempt counts */
    TARGET_REFUSED,  /* never retry: the job becomes dead */
    TARGET_UNSENT    /* it was not sent: the attempt does not count */
};
/* "done", "failed", … */
static inline const char *target_outcome_name(enum target_outcome outcome)
{
    static const char *const names[] = {"unknown", "done", "failed", "refused", "unsent"};
    return names[outcome >= TARGET_DONE && outcome <= TARGET_UNSENT ? outcome : 0];
}

#endif
