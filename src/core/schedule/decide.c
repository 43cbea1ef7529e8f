#include "schedule/decide.h"

enum { STEPS_MAX = 5000 }; /* fires of one decision, also skipped ones */

#define FAR_MS (9 * SPEC_YEAR_MS) /* less than the longest delay of a job */
#define HOUR_MS (3600LL * 1000)

/* A decision in progress. */
struct course {
    const struct schedule *schedule;
    const struct state *before;
    int64_t now_ms;
    struct decision *out;
    int64_t next_ms;  /* the fire after the current one; 0: no fire */
    int64_t ahead_ms; /* the fire DECIDE_CATCH_UP_MAX after the current one; 0: not found yet */
    bool ahead_ends;  /* there are not so many */
};

/* Finds the first fire after a time. Returns 0 if no fire follows. Sets *later_ms to a time until which
 * all fires are excepted, if the search was not finished; else to 0. */
static int64_t find_fire(const struct schedule *schedule, int64_t after_ms, int64_t *later_ms)
{
    struct timetable_fire fire;
    *later_ms = 0;
    switch (timetable_next(&schedule->spec->table, schedule->zone, after_ms, &fire)) {
    case TIMETABLE_FIRE:
        return fire.at_ms;
    case TIMETABLE_LATER:
        *later_ms = fire.at_ms;
        return 0;
    default:
        return 0;
    }
}

static int64_t due_of(const struct schedule *schedule, int64_t at_ms)
{
    return at_ms + spec_jitter(schedule->spec, schedule->name, at_ms);
}

static bool is_missed(const struct course *course, int64_t at_ms)
{
    return course->now_ms - due_of(course->schedule, at_ms) > course->schedule->spec->grace_ms;
}

static bool is_paused(const struct course *course, int64_t due_ms)
{
    const struct state *state = &course->out->state;
    return course->schedule->spec->paused ||
           (state->paused && (!state->paused_until_ms || due_ms < state->paused_until_ms));
}

/* Returns whether so many missed fires follow that this one is not among the newest. */
static bool is_superseded(struct course *course, int64_t at_ms)
{
    int64_t later_ms;
    if (!course->ahead_ms && !course->ahead_ends) {
        course->ahead_ms = at_ms;
        for (int i = 0; i < DECIDE_CATCH_UP_MAX && course->ahead_ms; i++)
            course->ahead_ms = find_fire(course->schedule, course->ahead_ms, &later_ms);
    } else if (course->ahead_ms) {
        course->ahead_ms = find_fire(course->schedule, course->ahead_ms, &later_ms);
    }
    course->ahead_ends = !course->ahead_ms || !is_missed(course, course->ahead_ms);
    return !course->ahead_ends;
}

/* Returns why a due fire is skipped, or 0. Sets *is_late if it is caught up. */
static enum skip_reason skip_of(struct course *course, int64_t at_ms, int64_t due_ms, bool *is_late)
{
    const struct spec *spec = course->schedule->spec;
    *is_late = false;
    if (is_paused(course, due_ms))
        return SKIP_PAUSED;
    if (!is_missed(course, at_ms))
        return 0;
    if (course->before->retry_ms && at_ms <= course->before->refused_ms)
        return SKIP_REFUSED;
    *is_late = true;
    if (spec->missed == MISSED_NONE || course->now_ms - due_ms > spec->catch_up_ms)
        return SKIP_MISSED;
    if (spec->missed == MISSED_LAST)
        return course->next_ms && is_missed(course, course->next_ms) ? SKIP_MISSED : 0;
    return is_superseded(course, at_ms) ? SKIP_MISSED : 0;
}

/* Returns how long the `once` of a fire is remembered. */
static int64_t once_for(const struct course *course, int64_t at_ms)
{
    int64_t twice_ms = course->next_ms ? 2 * (course->next_ms - at_ms) : 0;
    int64_t week_ms = 7 * 24 * HOUR_MS;
    return twice_ms < HOUR_MS ? HOUR_MS : twice_ms < week_ms ? twice_ms : week_ms;
}

static void add_fire(struct course *course, int64_t at_ms, int64_t due_ms, bool is_late)
{
    struct decision *out = course->out;
    struct state *state = &out->state;
    if (is_late && course->schedule->spec->missed == MISSED_ALL) {
        int64_t paced_ms = state->paced_ms + DECIDE_PACE_MS;
        state->paced_ms = paced_ms > course->now_ms ? paced_ms : course->now_ms;
        due_ms = state->paced_ms;
    }
    state->number++;
    state->counted++;
    state_add(state, at_ms, 0);
    out->fires[out->fire_count++] = (struct decision_fire){.at_ms = at_ms,
                                                           .due_ms = due_ms,
                                                           .once_for_ms = once_for(course, at_ms),
                                                           .number = state->number};
}

static bool is_used_up(const struct spec *spec, const struct state *state)
{
    return spec->count && state->counted >= spec->count;
}

/* Notes when the first fire after the end would be, so that the history shows why it does not come. */
static void note_end(const struct schedule *schedule, struct state *state)
{
    struct timetable_fire fire;
    if (!state->ended_ms && timetable_next_endless(&schedule->spec->table, schedule->zone,
                                                   state->after_ms, &fire) == TIMETABLE_FIRE)
        state->ended_ms = fire.at_ms;
}

/* Skips the first fire after the end at its time. The later ones are not counted. */
static void skip_ended(const struct schedule *schedule, struct decision *out, int64_t now_ms)
{
    struct state *state = &out->state;
    if (state->ended_ms <= state->after_ms || due_of(schedule, state->ended_ms) > now_ms)
        return;
    out->skipped[SKIP_ENDED]++;
    state_add(state, state->ended_ms, SKIP_ENDED);
    state->after_ms = state->ended_ms;
}

/* Sets when the schedule is handled again: shortly before a fire whose job may wait, else at its
 * time. */
static void plan_wake(const struct schedule *schedule, struct decision *out, int64_t now_ms,
                      int64_t next_ms, int64_t later_ms)
{
    int64_t lead_ms = schedule->spec->overlap == OVERLAP_ALLOW ? DECIDE_LEAD_MS : 0;
    out->state.next_ms = next_ms;
    if (!next_ms && !later_ms) {
        note_end(schedule, &out->state);
        skip_ended(schedule, out, now_ms);
    }
    bool is_ending = out->state.ended_ms > out->state.after_ms;
    out->wake_ms = next_ms     ? due_of(schedule, next_ms) - lead_ms
                   : later_ms  ? later_ms
                   : is_ending ? due_of(schedule, out->state.ended_ms)
                               : now_ms + FAR_MS;
    if (out->wake_ms > now_ms + FAR_MS)
        out->wake_ms = now_ms + FAR_MS;
}

void schedule_decide(const struct schedule *schedule, const struct state *before, int64_t now_ms,
                     size_t fires_max, struct decision *out)
{
    const struct spec *spec = schedule->spec;
    struct course course = {.schedule = schedule, .before = before, .now_ms = now_ms, .out = out};
    int64_t until_ms = now_ms + (spec->overlap == OVERLAP_ALLOW ? DECIDE_LEAD_MS : 0), later_ms = 0;
    struct state *state = &out->state;
    out->state = *before;
    out->state.retry_ms = 0;
    out->fire_count = 0;
    memset(out->skipped, 0, sizeof out->skipped);
    if (state->paused && state->paused_until_ms && state->paused_until_ms <= now_ms &&
        state->after_ms >= state->paused_until_ms)
        state->paused = false;
    int64_t at_ms = is_used_up(spec, state) ? 0 : find_fire(schedule, state->after_ms, &later_ms);
    for (int i = 0; i < STEPS_MAX; i++) {
        bool is_late;
        if (!at_ms && later_ms && later_ms <= until_ms) { /* continue the search */
            state->after_ms = later_ms - 1;
            at_ms = find_fire(schedule, state->after_ms, &later_ms);
            continue;
        }
        int64_t due_ms = at_ms ? due_of(schedule, at_ms) : 0;
        if (!at_ms || due_ms > until_ms)
            break;
        course.next_ms = find_fire(schedule, at_ms, &later_ms);
        enum skip_reason reason = skip_of(&course, at_ms, due_ms, &is_late);
        if (!reason && out->fire_count == fires_max)
            break;
        if (reason) {
            out->skipped[reason]++;
            state_add(state, at_ms, reason);
        } else {
            add_fire(&course, at_ms, due_ms, is_late);
        }
        state->after_ms = at_ms;
        at_ms = is_used_up(spec, state) ? 0 : course.next_ms;
    }
    if (is_used_up(spec, state))
        later_ms = 0;
    plan_wake(schedule, out, now_ms, at_ms, later_ms);
}

void schedule_retry(struct decision *out, const struct state *before, int64_t refused_ms,
                    int64_t now_ms)
{
    int64_t wait_ms = before->retry_ms ? 2 * before->retry_ms : 1000;
    out->state.retry_ms = wait_ms < DECIDE_RETRY_MS_MAX ? wait_ms : DECIDE_RETRY_MS_MAX;
    out->state.refused_ms = refused_ms;
    out->wake_ms = now_ms + out->state.retry_ms;
}

void schedule_begin(const struct schedule *schedule, struct state *state, int64_t now_ms,
                    int64_t *wake_ms)
{
    struct decision decision = {.state = *state};
    int64_t later_ms = 0, next_ms;
    decision.state.after_ms = now_ms;
    decision.state.ended_ms = 0;
    next_ms =
        is_used_up(schedule->spec, &decision.state) ? 0 : find_fire(schedule, now_ms, &later_ms);
    plan_wake(schedule, &decision, now_ms, next_ms, later_ms);
    *state = decision.state;
    *wake_ms = decision.wake_ms;
}

bool schedule_fires_at(const struct schedule *schedule, int64_t at_ms)
{
    int64_t later_ms;
    return find_fire(schedule, at_ms - 1, &later_ms) == at_ms;
}

size_t schedule_take_back(const struct schedule *schedule, struct state *state, int64_t now_ms,
                          int64_t taken_ms[STATE_LAST])
{
    size_t count = 0;
    while (state->last_count && schedule->spec->overlap == OVERLAP_ALLOW) {
        const struct state_fire *last = &state->last[state->last_count - 1];
        if (last->reason == SKIP_ENDED || due_of(schedule, last->at_ms) <= now_ms)
            break;
        if (!last->reason)
            taken_ms[count++] = last->at_ms;
        state->after_ms = last->at_ms > now_ms ? now_ms : last->at_ms - 1;
        state_remove_last(state);
    }
    return count;
}
