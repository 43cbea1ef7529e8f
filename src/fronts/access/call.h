/*
 * call: the context of a queue call: the caller, its counters, and the operation that the call is
 * part of. It also provides the rules that the door of the queue applies (queue/caller.h), which
 * are the same for every protocol:
 *
 * - A push requires the scope push for its topic, which must not be one of tarry's own
 *   (job_topic_is_own). It also requires free process memory, and that the caller is below its job
 *   limit and its rate and the topic below its push_rate.
 * - A change requires the scope push for its topic, or consume if it names a lease of the job.
 * - A topic call requires the scope admin for its topic if it changes something; the audit records
 *   it.
 *
 * A front fills in a call before each queue call and passes `&call.queue`; it may be on the stack.
 * Answers are authorized by their leases. The fronts have to check the rights to read and to take
 * jobs. Used by one thread.
 */
#ifndef TARRY_ACCESS_CALL_H
#define TARRY_ACCESS_CALL_H

#include "access/quota.h"
#include "audit/change.h"
#include "queue/caller.h"

struct access_call {
    struct queue_caller queue; /* first member; its rules are access_rules */
    struct quota *quota;       /* NULL: nothing is counted */
    const struct access_caller *caller;
    struct quota_account *account; /* the caller's account; if NULL, looked up when needed */
    /* the operation; if NULL, each topic call is an event of its own */
    struct audit_change *change;
};

extern const struct queue_rules access_rules;

#endif
