/*
 * call: on whose behalf a front calls the queue: the caller, what is counted for it, and the operation that the call is part of. With
 * it come the rules that the door of the queue applies (queue/caller.h), which are the same for every protocol:
 *
 *     a push        takes the scope push for its topic, which is none of tarry's own (job_topic_is_own); the process has memory for
 *                   it; the caller has jobs left and keeps to its rate; the topic keeps to its push_rate
 *     a change      takes the scope push for its topic; consume, if it names a lease of the job
 *     a topic call  takes the scope admin for its topic, if it changes something; and is recorded by the audit
 *
 * A front fills one in before each call and gives `&call.queue` with it; it may be on the stack. Answers are allowed by their
 * leases. Who may look at what, and take, is for the fronts to check. One thread.
 */
#ifndef TARRY_ACCESS_CALL_H
#define TARRY_ACCESS_CALL_H

#include "access/quota.h"
#include "audit/change.h"
#include "queue/caller.h"

struct access_call {
    struct queue_caller queue; /* first; its rules are access_rules */
    struct quota *quota;       /* NULL: nothing is counted */
    const struct access_caller *caller;
    struct quota_account *account; /* the caller's; NULL: looked up when it is needed */
    struct audit_change *change; /* the operation; NULL: an event of its own for each topic call */
};

extern const struct queue_rules access_rules;

#endif
