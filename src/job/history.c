#include "job/job.h"
#include "job/wire.h"

#include <assert.h>

enum { HISTORY_NUMBERS = 3, OUTCOME_BYTES = 1 };
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

static size_t attempt_bytes(const struct job_attempt *attempt, char *into)
{
    struct slice error = attempt->error;
    if (error.len > JOB_HISTORY_ERROR_BYTES_MAX)
        error.len = JOB_HISTORY_ERROR_BYTES_MAX;
    char *at = wire_put_varint(into, attempt->attempt);
    at = wire_put_ms(at, attempt->started_ms);
    at = wire_put_ms(at, attempt->duration_ms);
    at = wire_put_byte(at, attempt->outcome);
    return (size_t)(wire_put_text(at, error, JOB_HISTORY_ERROR_BYTES_MAX) - into);
}

size_t job_history_add(struct slice history, const struct job_attempt *attempt, char *into)
{
    char added[HISTORY_NUMBERS * WIRE_VARINT_BYTES_MAX + OUTCOME_BYTES + 2 +
               JOB_HISTORY_ERROR_BYTES_MAX];
    size_t bytes = attempt_bytes(attempt, added), count = 0, at = 0, second = 0;
    struct job_attempt ignored;
    while (job_history_next(history, &at, &ignored))
        count++;
    history.len = at; /* what cannot be read is left out */
    /* From the front, until there is room for one more. */
    for (; count && (count >= JOB_HISTORY_MAX || history.len + bytes > JOB_HISTORY_BYTES_MAX);
         count--) {
        second = 0;
        (void)job_history_next(history, &second, &ignored);
        history = slice_make(history.at + second, history.len - second);
    }
    if (history.len)
        memcpy(into, history.at, history.len);
    memcpy(into + history.len, added, bytes);
    return history.len + bytes;
}
