/* The history of a job (job.h): its attempts that ended without an ack, stored one after the
 * other. */
#include "job/job.h"

#include "base/text.h"
#include "job/wire.h"

#include <assert.h>

/* The maximum size of an attempt: two durations below 2^63, and the error with its length. */
enum {
    NUMBER_BYTES_MAX = 5,
    MS_BYTES_MAX = 9,
    ATTEMPT_BYTES_MAX = NUMBER_BYTES_MAX + 2 * MS_BYTES_MAX + 2 + JOB_HISTORY_ERROR_BYTES_MAX
};
_Static_assert(JOB_HISTORY_MAX *ATTEMPT_BYTES_MAX <= JOB_HISTORY_BYTES_MAX,
               "as many attempts as are remembered always have room");

static const char *const outcome_names[] = {
    [JOB_OUTCOME_FAILED] = "failed",
    [JOB_OUTCOME_LEASE_ENDED] = "lease_ended",
    [JOB_OUTCOME_REFUSED] = "refused",
};

const char *job_outcome_name(enum job_outcome outcome)
{
    assert(outcome >= JOB_OUTCOME_FAILED && outcome <= JOB_OUTCOME_REFUSED);
    return outcome_names[outcome];
}

static void take_attempt(struct wire_in *in, struct job_attempt *out)
{
    out->attempt = (uint32_t)wire_take_varint(in, 1, UINT32_MAX);
    out->started_ms = wire_take_ms(in, 0);
    out->duration_ms = wire_take_ms(in, 0);
    out->outcome = (enum job_outcome)wire_take_varint(in, JOB_OUTCOME_FAILED, JOB_OUTCOME_REFUSED);
    out->error = wire_take_text(in, 0, JOB_HISTORY_ERROR_BYTES_MAX);
}

bool job_history_next(struct slice history, size_t *at, struct job_attempt *out)
{
    if (*at >= history.len)
        return false;
    struct wire_in in = wire_in_make(slice_make(history.at + *at, history.len - *at));
    struct job_attempt attempt;
    take_attempt(&in, &attempt);
    if (in.bad)
        return false;
    *at = history.len - wire_left(&in);
    *out = attempt;
    return true;
}

bool job_history_check(struct slice history)
{
    struct job_attempt ignored;
    size_t at = 0, count = 0;
    while (job_history_next(history, &at, &ignored))
        count++;
    return at == history.len && count <= JOB_HISTORY_MAX;
}

static char *put_attempt(char *at, const struct job_attempt *attempt)
{
    assert(attempt->attempt && attempt->outcome >= JOB_OUTCOME_FAILED &&
           attempt->outcome <= JOB_OUTCOME_REFUSED);
    at = wire_put_varint(at, attempt->attempt);
    at = wire_put_ms(at, attempt->started_ms);
    at = wire_put_ms(at, attempt->duration_ms);
    at = wire_put_byte(at, attempt->outcome);
    return wire_put_text(at, text_cut(attempt->error, JOB_HISTORY_ERROR_BYTES_MAX),
                         JOB_HISTORY_ERROR_BYTES_MAX);
}

/* Returns the attempts to keep so that another one fits. Leaves out what cannot be decoded. */
static struct slice make_room(struct slice history)
{
    struct job_attempt ignored;
    size_t at = 0, count = 0;
    while (job_history_next(history, &at, &ignored))
        count++;
    history.len = at;
    for (; count >= JOB_HISTORY_MAX; count--) {
        size_t second = 0;
        (void)job_history_next(history, &second, &ignored);
        history = slice_make(history.at + second, history.len - second);
    }
    return history;
}

size_t job_history_add(struct slice history, const struct job_attempt *attempt, char *into)
{
    history = make_room(history);
    return (size_t)(put_attempt(wire_put_bytes(into, history), attempt) - into);
}
