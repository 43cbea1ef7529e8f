/* The effect of a command and of time on a job: the promise in the plainest form. */
#include "oracle.h"

static const int64_t never_ms = INT64_MAX / 4;

static struct guess gone(void)
{
    return (struct guess){.state = GUESS_ABSENT};
}

struct guess oracle_finished(const struct oracle *oracle, uint8_t row, int64_t since_ms)
{
    int64_t window_ms = oracle_settings(row).dedup_window_ms;

    if (!window_ms)
        return gone();
    return (struct guess){.state = GUESS_REMEMBERED,
                          .end_least = since_ms + window_ms,
                          .end_most = oracle->now_ms + 1 + window_ms};
}

static struct policy policy_of(const struct guess *guess, uint8_t row)
{
    static struct cargo cargo;
    struct topic_settings settings = oracle_settings(row);

    oracle_cargo(guess->serial, &cargo);
    return policy_resolve(&cargo.policy, &settings.policy);
}

/* Sets a due time: relative times run from when the command was carried out, which is unknown. */
static void set_delay(const struct oracle *oracle, struct guess *guess, int64_t from_ms,
                      int64_t least_ms, int64_t most_ms)
{
    guess->due_least = from_ms + least_ms;
    guess->due_most = most_ms >= never_ms ? never_ms : oracle->now_ms + 1 + most_ms;
    if (guess->is_wall)
        guess->first_ms -= oracle->skew_ms;
    guess->is_wall = false;
}

struct guess oracle_failed(const struct oracle *oracle, const struct guess *guess, uint8_t row,
                           int64_t from_ms, int64_t delay_ms, bool final, uint32_t error)
{
    struct policy policy = policy_of(guess, row);
    struct guess next = *guess;
    int64_t wait_ms = policy.backoff.first_ms;

    next.error = error;
    if (final || guess->attempt >= policy.max_attempts) {
        next.state = GUESS_DEAD;
        return next;
    }
    next.state = GUESS_WAITING;
    for (uint32_t i = 1; i < guess->attempt && policy.backoff.kind == BACKOFF_EXPONENTIAL; i++)
        wait_ms = wait_ms * 2 < policy.backoff.max_ms ? wait_ms * 2 : policy.backoff.max_ms;
    if (policy.backoff.kind == BACKOFF_LIST)
        wait_ms = policy.backoff.steps_ms[guess->attempt < policy.backoff.step_count
                                              ? guess->attempt - 1
                                              : policy.backoff.step_count - 1];
    if (delay_ms >= 0)
        set_delay(oracle, &next, from_ms, delay_ms, delay_ms);
    else
        set_delay(oracle, &next, from_ms, wait_ms - wait_ms * POLICY_JITTER_PERCENT / 100,
                  never_ms);
    return next;
}

static struct guess pushed(const struct oracle *oracle, const struct op *op)
{
    static struct cargo cargo;
    struct guess next = {.state = GUESS_WAITING, .serial = op->serial};

    oracle_cargo(op->serial, &cargo);
    next.attempt = cargo.past_attempt;
    next.priority = (uint16_t)(op->priority == QUEUE_PRIORITY_UNSET ? JOB_PRIORITY : op->priority);
    next.due_least = op->since_ms;
    next.due_most = oracle->now_ms;
    if (op->when.due == QUEUE_DUE_DELAY && op->when.ms) {
        next.due_least = op->since_ms + op->when.ms;
        next.due_most = oracle->now_ms + 1 + op->when.ms;
    } else if (op->when.due == QUEUE_DUE_AT && op->when.ms > op->since_wall_ms) {
        next.due_least = next.due_most = op->when.ms;
        next.is_wall = true;
    }
    next.first_ms = next.due_least;
    if (cargo.past_dead)
        next.state = GUESS_DEAD;
    return next;
}

static size_t push(const struct oracle *oracle, const struct op *op, const struct guess *guess,
                   struct outcome out[3])
{
    struct guess next = pushed(oracle, op);
    size_t count = 0;

    if (guess->state == GUESS_ABSENT ||
        (guess->state == GUESS_REMEMBERED && guess->end_least <= oracle->now_ms))
        out[count++] = (struct outcome){.status = QUEUE_CREATED, .changes = true, .guess = next};
    if (guess->state == GUESS_REMEMBERED && guess->end_most > op->since_ms)
        out[count++] = (struct outcome){.status = QUEUE_EXISTED};
    if (guess->state == GUESS_ABSENT || guess->state == GUESS_REMEMBERED)
        return count;
    if (op->on_conflict == CONFLICT_KEEP)
        out[0] = (struct outcome){.status = QUEUE_EXISTED};
    else if (op->on_conflict == CONFLICT_REJECT)
        out[0] = (struct outcome){.status = QUEUE_CONFLICT};
    else if (guess->state == GUESS_LEASED)
        out[0] = (struct outcome){.status = QUEUE_LEASED};
    else
        out[0] = (struct outcome){.status = QUEUE_REPLACED, .changes = true, .guess = next};
    return 1;
}

static struct guess answered(const struct oracle *oracle, const struct op *op,
                             const struct guess *guess)
{
    uint8_t row = oracle->topics[op->topic].row;
    struct guess next = *guess;

    switch (op->kind) {
    case OP_ACK:
        return oracle_finished(oracle, row, op->since_ms);
    case OP_NACK:
        return oracle_failed(oracle, guess, row, op->since_ms, op->delay_ms, op->final, op->error);
    case OP_EXTEND:
        next.end_least = op->since_ms + op->lease_ms;
        next.end_most = oracle->now_ms + 1 + op->lease_ms;
        return next;
    default: /* OP_RETURN */
        next.state = GUESS_WAITING;
        next.attempt--;
        if (op->delay_ms > 0)
            set_delay(oracle, &next, op->since_ms, op->delay_ms, op->delay_ms);
        return next;
    }
}

static size_t answer(const struct oracle *oracle, const struct op *op, const struct guess *guess,
                     struct outcome out[3])
{
    size_t count = 0;

    if (guess->state == GUESS_LEASED && guess->delivery == op->delivery &&
        guess->end_most > op->since_ms)
        out[count++] = (struct outcome){
            .status = QUEUE_OK, .changes = true, .guess = answered(oracle, op, guess)};
    if (guess->state != GUESS_LEASED || guess->delivery != op->delivery ||
        guess->end_least <= oracle->now_ms)
        out[count++] = (struct outcome){.status = QUEUE_LEASE_ENDED};
    return count;
}

static void due_now(const struct oracle *oracle, const struct op *op, struct guess *next)
{
    next->due_least = next->first_ms = op->since_ms;
    next->due_most = oracle->now_ms;
    next->is_wall = false;
}

static struct guess rescheduled(const struct oracle *oracle, const struct op *op,
                                const struct guess *guess)
{
    struct guess next = *guess;

    if (op->priority != QUEUE_PRIORITY_UNSET)
        next.priority = (uint16_t)op->priority;
    if (op->when.due != QUEUE_DUE_UNCHANGED) {
        struct op as_push = *op;
        struct guess fresh;

        as_push.serial = guess->serial;
        fresh = pushed(oracle, &as_push);
        next.due_least = fresh.due_least;
        next.due_most = fresh.due_most;
        next.is_wall = fresh.is_wall;
        next.first_ms = fresh.first_ms;
    }
    return next;
}

static size_t change(const struct oracle *oracle, const struct op *op, const struct guess *guess,
                     struct outcome out[3])
{
    size_t count = 0;

    out[0] = (struct outcome){.status = QUEUE_OK, .changes = true, .guess = *guess};
    if (guess->state == GUESS_ABSENT || guess->state == GUESS_REMEMBERED)
        out[0] = (struct outcome){.status = QUEUE_NOT_FOUND};
    else if (guess->state == GUESS_LEASED)
        out[0] = (struct outcome){.status = QUEUE_LEASED};
    else if (op->kind == OP_CANCEL)
        out[0] = (struct outcome){
            .status = QUEUE_CANCELLED,
            .changes = true,
            .guess = oracle_finished(oracle, oracle->topics[op->topic].row, op->since_ms)};
    else if (guess->state == GUESS_DEAD)
        out[0] = (struct outcome){.status = QUEUE_DEAD_STATE};
    else if (op->kind == OP_RESCHEDULE)
        out[0].guess = rescheduled(oracle, op, guess);
    else
        count = 1; /* run: if it is already ready, nothing changes */
    if (count) {
        due_now(oracle, op, &out[0].guess);
        out[1] = (struct outcome){.status = QUEUE_OK, .changes = true, .guess = *guess};
        if (guess->is_wall || guess->due_least <= oracle->now_ms)
            count = 2;
        return count;
    }
    return 1;
}

static size_t redrive(const struct oracle *oracle, const struct op *op, const struct guess *guess,
                      struct outcome out[3])
{
    out[0] = (struct outcome){.status = QUEUE_NOT_FOUND};
    if (guess->state == GUESS_DEAD) {
        out[0] = (struct outcome){.status = QUEUE_OK, .changes = true, .guess = *guess};
        out[0].guess.state = GUESS_WAITING;
        out[0].guess.attempt = 0;
        due_now(oracle, op, &out[0].guess);
    }
    return 1;
}

size_t oracle_outcomes(const struct oracle *oracle, const struct op *op, const struct guess *guess,
                       struct outcome out[3])
{
    switch (op->kind) {
    case OP_PUSH:
        return push(oracle, op, guess, out);
    case OP_ACK:
    case OP_NACK:
    case OP_EXTEND:
    case OP_RETURN:
        return answer(oracle, op, guess, out);
    case OP_CANCEL:
    case OP_RESCHEDULE:
    case OP_RUN:
        return change(oracle, op, guess, out);
    case OP_REDRIVE:
        return redrive(oracle, op, guess, out);
    }
    return 0;
}
