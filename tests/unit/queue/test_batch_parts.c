/*
 * A batch over three shards, in all interleavings: a home without members, and two shards. Three members: the first is pushed by a
 * client, each of the others by the one before it. Calls and replies are lost, calls are repeated, pushes fail, and the process is killed at any point.
 * Each shard then has its changes up to the last one that was durable.
 *
 * A search visits every state that can be reached. In none of them has the wait ended although a member is unfinished or about to be
 * stored; no push is rejected while its parent is unfinished; the final counts are right; and from every state the end is reached.
 * Mutants of the protocol show that the search finds mistakes.
 */
#include "queue/batch_parts.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 3, SHARDS = 2, VERSIONS = 8 };

/* How often what may happen. */
struct bounds {
    uint8_t members, crashes, losses, failures;
};

enum mutant {
    SOUND,
    IGNORES_PUSHES_UNDER_WAY,
    IGNORES_THE_VERSION_OF_A_PUSH,
    LEAVES_BEFORE_THE_PUSH,
    HEARS_OLD_REPORTS,
    REPORTS_BEFORE_DURABLE,
    LOSES_REPORTS,
    LOSES_LEAVES,
    LEAVES_WITHOUT_A_VERSION,
    LEAVES_WITHOUT_ROOM_END_NO_WAIT,
    STARTS_WITHOUT_REPORTS,
    FORGETS_BEFORE_DURABLE,
    REJECTS_MEMBERS_OF_MEMBERS,
    MUTANTS
};

/* A push of a member. */
enum push {
    PUSH_NONE = 0,
    PUSH_ALLOWED, /* the lease of the parent was found to be valid */
    PUSH_JOINED,
    PUSH_STORED,
    PUSH_LOST,   /* stored; its reply is lost */
    PUSH_FAILED, /* by its shard */
    PUSH_LEFT
};
enum fate { NOT_STORED = 0, UNFINISHED, ENDED };

/* The counts of one shard, and the home's record of it. */
struct shard {
    uint8_t version, stable; /* of its counts: now, and the last durable one */
    uint8_t unfinished[VERSIONS], acked[VERSIONS];
    uint8_t is_due, flight; /* a report is to be sent; bits of versions on their way */
    uint8_t has_forgotten;
    uint8_t under_way, needs, seen, seen_unfinished, seen_acked;
};

/* Bytes only, so that equal states have equal memory. */
struct state {
    uint8_t push[MEMBERS], life[MEMBERS], stable_life[MEMBERS], version[MEMBERS];
    struct shard shards[SHARDS];
    uint8_t is_closed, has_ended, stable_closed, stable_ended;
    uint8_t unfinished, acked; /* of the whole batch, as the home counts */
    uint8_t crashes, losses, failures;
};

struct search {
    enum mutant mutant;
    struct bounds bounds;
    struct state *states;
    uint32_t count, room;
    uint32_t *table; /* state + 1 by hash */
    uint32_t (*edges)[2];
    size_t edge_count, edge_room;
    uint32_t from; /* whose successors are being added */
    const char *fault;
};

static uint32_t shard_of(uint32_t member)
{
    return member % SHARDS;
}

/* ---- the protocol: the home's state as queue/batch_parts.h has it, and back ---- */

struct home {
    struct batch_part at[SHARDS];
    struct batch_parts parts;
    struct life_batch whole;
};

static void home_load(struct home *home, const struct state *state)
{
    *home = (struct home){.whole = {.on_dead = BATCH_GO,
                                    .is_closed = state->is_closed,
                                    .has_ended = state->has_ended}};
    home->whole.counts.of[BATCH_UNFINISHED] = state->unfinished;
    home->whole.counts.of[BATCH_ACKED] = state->acked;
    for (uint32_t i = 0; i < SHARDS; i++) {
        const struct shard *shard = &state->shards[i];
        home->at[i] = (struct batch_part){.shard = i + 1,
                                          .under_way = shard->under_way,
                                          .needs = shard->needs,
                                          .seen = {.version = shard->seen}};
        home->at[i].seen.counts.of[BATCH_UNFINISHED] = shard->seen_unfinished;
        home->at[i].seen.counts.of[BATCH_ACKED] = shard->seen_acked;
    }
    home->parts = (struct batch_parts){.at = home->at, .count = SHARDS};
}

static void home_store(const struct home *home, struct state *state)
{
    state->is_closed = home->whole.is_closed;
    state->has_ended = home->whole.has_ended;
    state->unfinished = (uint8_t)home->whole.counts.of[BATCH_UNFINISHED];
    state->acked = (uint8_t)home->whole.counts.of[BATCH_ACKED];
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &state->shards[i];
        shard->under_way = (uint8_t)home->at[i].under_way;
        shard->needs = (uint8_t)home->at[i].needs;
        shard->seen = (uint8_t)home->at[i].seen.version;
        shard->seen_unfinished = (uint8_t)home->at[i].seen.counts.of[BATCH_UNFINISHED];
        shard->seen_acked = (uint8_t)home->at[i].seen.counts.of[BATCH_ACKED];
    }
}

/* Ends the wait if the home finds nothing left to wait for. */
static void home_look(struct search *search, struct home *home)
{
    struct batch_part at[SHARDS];
    memcpy(at, home->at, sizeof at);
    if (search->mutant == IGNORES_PUSHES_UNDER_WAY)
        for (uint32_t i = 0; i < SHARDS; i++)
            at[i].under_way = 0;
    const struct batch_parts parts = {.at = at, .count = SHARDS};
    if (life_batch_is_over(&home->whole) && batch_parts_are_complete(&parts))
        home->whole.has_ended = true;
}

static void home_hear(struct search *search, struct home *home, const struct state *state,
                      uint32_t shard, uint8_t version)
{
    struct batch_report report = {.version = version};
    report.counts.of[BATCH_UNFINISHED] = state->shards[shard].unfinished[version];
    report.counts.of[BATCH_ACKED] = state->shards[shard].acked[version];
    if (search->mutant == HEARS_OLD_REPORTS)
        home->at[shard].seen.version = 0;
    batch_part_hear(&home->at[shard], &report, &home->whole);
}

/* ---- the states ---- */

static uint64_t state_hash(const struct state *state)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < sizeof *state; i++)
        hash = (hash ^ ((const uint8_t *)state)[i]) * UINT64_C(1099511628211);
    return hash ^ hash >> 29;
}

/* Checks a state that the protocol has reached. */
static void state_check(struct search *search, const struct state *state)
{
    uint8_t acked = 0;
    if (!state->has_ended)
        return;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        acked = (uint8_t)(acked + (state->life[i] == ENDED));
        if (state->life[i] == UNFINISHED || state->push[i] == PUSH_JOINED)
            search->fault = "the wait has ended before its last member";
    }
    if (!search->fault && (state->acked != acked || state->unfinished))
        search->fault = "the final counts are wrong";
}

static uint32_t *table_slot(struct search *search, const struct state *state)
{
    uint64_t at = state_hash(state) & (2 * (uint64_t)search->room - 1);
    while (search->table[at] &&
           memcmp(&search->states[search->table[at] - 1], state, sizeof *state))
        at = (at + 1) & (2 * (uint64_t)search->room - 1);
    return &search->table[at];
}

static void states_grow(struct search *search)
{
    search->room *= 2;
    search->states = realloc(search->states, search->room * sizeof *search->states);
    free(search->table);
    search->table = calloc(2 * (size_t)search->room, sizeof *search->table);
    assert_non_null(search->states);
    assert_non_null(search->table);
    for (uint32_t i = 0; i < search->count; i++)
        *table_slot(search, &search->states[i]) = i + 1;
}

/* Clears what cannot matter any more, so that fewer states differ. */
static void state_trim(struct state *state)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (state->push[i] != PUSH_STORED)
            state->version[i] = 0;
    for (uint32_t at = 0; at < SHARDS; at++) {
        struct shard *shard = &state->shards[at];
        if (shard->needs <= shard->seen)
            shard->needs = 0;
        if (state->has_ended) /* no report counts */
            shard->flight = shard->is_due = shard->needs = 0;
        for (uint8_t version = 1; version < VERSIONS; version++)
            if (!(shard->flight & 1u << version) && version != shard->version)
                shard->unfinished[version] = shard->acked[version] = 0;
    }
}

/* Adds a state that can follow the present one. */
static void state_add(struct search *search, const struct state *reached)
{
    struct state trimmed = *reached;
    const struct state *state = &trimmed;
    state_trim(&trimmed);
    uint32_t *slot = table_slot(search, state);
    if (!*slot) {
        search->states[search->count++] = *state;
        *slot = search->count;
        state_check(search, state);
    }
    uint32_t id = *slot - 1;
    if (search->edge_count == search->edge_room) {
        search->edge_room *= 2;
        search->edges = realloc(search->edges, search->edge_room * sizeof *search->edges);
        assert_non_null(search->edges);
    }
    search->edges[search->edge_count][0] = search->from;
    search->edges[search->edge_count++][1] = id;
    if (search->count == search->room)
        states_grow(search);
}

/* ---- the steps ---- */

/* A change of a shard, which is not durable yet. */
static void shard_change(struct state *state, uint32_t at)
{
    struct shard *shard = &state->shards[at];
    shard->version++;
    assert_true(shard->version < VERSIONS);
    shard->unfinished[shard->version] = shard->acked[shard->version] = 0;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        bool is_here = shard_of(i) == at;
        if (is_here && state->life[i] == UNFINISHED)
            shard->unfinished[shard->version]++;
        if (is_here && state->life[i] == ENDED)
            shard->acked[shard->version]++;
    }
    shard->is_due = true;
}

static void step_join(struct search *search, struct state next, uint32_t member)
{
    struct home home;
    home_load(&home, &next);
    bool has_parent = member > 0 && search->mutant != REJECTS_MEMBERS_OF_MEMBERS;
    if (life_batch_join(&home.whole, has_parent) != QUEUE_OK) {
        if (member > 0 && next.life[member - 1] == UNFINISHED)
            search->fault = "a push was rejected while its parent was unfinished";
        next.push[member] = PUSH_LEFT;
        state_add(search, &next);
        return;
    }
    batch_part_join(&home.at[shard_of(member)]);
    next.push[member] = PUSH_JOINED;
    if (search->mutant == LEAVES_BEFORE_THE_PUSH)
        batch_part_leave(&home.at[shard_of(member)], 0);
    home_store(&home, &next);
    state_add(search, &next);
}

/* A push leaves. Without room in its log, the home looks later. Or the leave is rejected, and is sent again. */
static void step_leave(struct search *search, struct state next, uint32_t member)
{
    struct home home;
    if (next.losses < search->bounds.losses) {
        struct state lost = next;
        lost.losses++;
        if (search->mutant == LOSES_LEAVES)
            lost.push[member] = PUSH_LEFT;
        state_add(search, &lost);
    }
    uint8_t version = next.version[member];
    home_load(&home, &next);
    if (search->mutant != LEAVES_BEFORE_THE_PUSH)
        batch_part_leave(&home.at[shard_of(member)],
                         search->mutant == IGNORES_THE_VERSION_OF_A_PUSH ? 0 : version);
    next.push[member] = PUSH_LEFT;
    home_store(&home, &next);
    state_add(search, &next);
    home_look(search, &home);
    home_store(&home, &next);
    state_add(search, &next);
}

static void steps_of_push(struct search *search, const struct state *state, uint32_t member)
{
    const struct shard *shard = &state->shards[shard_of(member)];
    struct state next = *state;
    switch ((enum push)state->push[member]) {
    case PUSH_NONE:
        if (member == 0 && !state->is_closed)
            step_join(search, next, member);
        if (member > 0 && state->life[member - 1] == UNFINISHED) {
            next.push[member] = PUSH_ALLOWED;
            state_add(search, &next);
        }
        break;
    case PUSH_ALLOWED:
        step_join(search, next, member);
        break;
    case PUSH_JOINED:
        next.push[member] = PUSH_STORED;
        next.life[member] = UNFINISHED;
        shard_change(&next, shard_of(member));
        next.version[member] = next.shards[shard_of(member)].version;
        state_add(search, &next);
        if (state->failures < search->bounds.failures) {
            next = *state;
            next.push[member] = PUSH_FAILED;
            next.failures++;
            state_add(search, &next);
        }
        break;
    case PUSH_STORED: /* it is answered when it is durable */
        if (state->version[member] <= shard->stable)
            step_leave(search, next, member);
        if (state->losses < search->bounds.losses) {
            next.push[member] = PUSH_LOST;
            next.losses++;
            state_add(search, &next);
        }
        break;
    case PUSH_LOST: /* its shard is asked for the version of its counts */
        next.version[member] = search->mutant == LEAVES_WITHOUT_A_VERSION ? 0 : shard->version;
        step_leave(search, next, member);
        break;
    case PUSH_FAILED:
        step_leave(search, next, member);
        break;
    case PUSH_LEFT:
        break;
    }
}

static void steps_of_member(struct search *search, const struct state *state, uint32_t member)
{
    struct state next = *state;
    steps_of_push(search, state, member);
    if (state->life[member] != UNFINISHED)
        return;
    next.life[member] = ENDED;
    shard_change(&next, shard_of(member));
    state_add(search, &next);
}

/* A report arrives, and may arrive again; or it is lost, and its sender notices. */
static void step_report(struct search *search, const struct state *state, uint32_t at,
                        uint8_t version)
{
    uint8_t bit = (uint8_t)(1u << version);
    struct state next = *state;
    struct home home;
    home_load(&home, &next);
    home_hear(search, &home, &next, at, version);
    home_look(search, &home);
    home_store(&home, &next);
    state_add(search, &next);
    next.shards[at].flight &= (uint8_t)~bit;
    state_add(search, &next);
    if (state->losses == search->bounds.losses)
        return;
    next = *state;
    next.losses++;
    next.shards[at].flight &= (uint8_t)~bit;
    next.shards[at].is_due |= search->mutant != LOSES_REPORTS;
    state_add(search, &next);
}

static void steps_of_shard(struct search *search, const struct state *state, uint32_t at)
{
    const struct shard *shard = &state->shards[at];
    struct state next = *state;
    if (shard->stable != shard->version) {
        next.shards[at].stable = shard->version;
        for (uint32_t i = 0; i < MEMBERS; i++)
            if (shard_of(i) == at)
                next.stable_life[i] = next.life[i];
        state_add(search, &next);
    }
    bool may_send = shard->stable == shard->version || search->mutant == REPORTS_BEFORE_DURABLE;
    if (shard->is_due && may_send && !shard->has_forgotten) {
        next = *state;
        next.shards[at].is_due = false;
        next.shards[at].flight |= (uint8_t)(1u << shard->version);
        state_add(search, &next);
    }
    for (uint8_t version = 1; version < VERSIONS; version++)
        if (shard->flight & 1u << version)
            step_report(search, state, at, version);
    bool may_order =
        state->stable_ended || (state->has_ended && search->mutant == FORGETS_BEFORE_DURABLE);
    if (may_order && !shard->has_forgotten) {
        next = *state;
        next.shards[at].has_forgotten = true;
        state_add(search, &next);
    }
}

static void steps_of_home(struct search *search, const struct state *state)
{
    struct state next = *state;
    struct home home;
    if (search->mutant != LEAVES_WITHOUT_ROOM_END_NO_WAIT) {
        home_load(&home, &next);
        home_look(search, &home);
        home_store(&home, &next);
        state_add(search, &next);
        next = *state;
    }
    if (!state->is_closed) {
        home_load(&home, &next);
        home.whole.is_closed = true;
        home_look(search, &home);
        home_store(&home, &next);
        state_add(search, &next);
    }
    if (state->stable_closed == state->is_closed && state->stable_ended == state->has_ended)
        return;
    next = *state;
    next.stable_closed = state->is_closed;
    next.stable_ended = state->has_ended;
    state_add(search, &next);
}

/* Kills the process and starts it again: durable changes remain, and each shard reports before the first call. A push without
 * an answer may be repeated. */
static void step_crash(struct search *search, const struct state *state)
{
    struct state next = {.crashes = (uint8_t)(state->crashes + 1),
                         .losses = state->losses,
                         .failures = state->failures,
                         .is_closed = state->stable_closed,
                         .has_ended = state->stable_ended,
                         .stable_closed = state->stable_closed,
                         .stable_ended = state->stable_ended};
    struct home home;
    if (state->crashes == search->bounds.crashes)
        return;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        next.life[i] = next.stable_life[i] = state->stable_life[i];
        next.push[i] = next.life[i] ? PUSH_LEFT : PUSH_NONE;
    }
    if (next.has_ended) { /* the final counts are stored */
        next.unfinished = state->unfinished;
        next.acked = state->acked;
    }
    home_load(&home, &next);
    for (uint32_t at = 0; at < SHARDS; at++) {
        next.shards[at].has_forgotten = state->shards[at].has_forgotten;
        if (!state->shards[at].stable || next.shards[at].has_forgotten)
            continue;
        shard_change(&next, at);
        next.shards[at].stable = next.shards[at].version;
        if (search->mutant != STARTS_WITHOUT_REPORTS)
            home_hear(search, &home, &next, at, next.shards[at].version);
    }
    home_look(search, &home);
    home_store(&home, &next);
    state_add(search, &next);
}

/* ---- the search ---- */

static void search_states(struct search *search)
{
    const struct state first = {0};
    *search = (struct search){
        .mutant = search->mutant, .bounds = search->bounds, .room = 1 << 12, .edge_room = 1 << 14};
    search->edges = malloc(search->edge_room * sizeof *search->edges);
    assert_non_null(search->edges);
    states_grow(search);
    state_add(search, &first);
    for (uint32_t at = 0; at < search->count && !search->fault; at++) {
        const struct state state = search->states[at];
        search->from = at;
        for (uint32_t i = 0; i < search->bounds.members; i++)
            steps_of_member(search, &state, i);
        for (uint32_t i = 0; i < SHARDS; i++)
            steps_of_shard(search, &state, i);
        steps_of_home(search, &state);
        step_crash(search, &state);
    }
}

/* Finds a state from which the end cannot be reached. */
static void search_ends(struct search *search)
{
    uint8_t *reaches = calloc(search->count, 1);
    bool grows = true;
    assert_non_null(reaches);
    for (uint32_t i = 0; i < search->count; i++)
        reaches[i] = search->states[i].stable_ended;
    while (grows) {
        grows = false;
        for (size_t i = search->edge_count; i-- > 0;) {
            const uint32_t *edge = search->edges[i];
            if (!reaches[edge[1]] || reaches[edge[0]])
                continue;
            reaches[edge[0]] = true;
            grows = true;
        }
    }
    for (uint32_t i = 0; i < search->count && !search->fault; i++)
        if (!reaches[i])
            search->fault = "the end cannot be reached";
    free(reaches);
}

static const char *fault_of(enum mutant mutant, struct bounds bounds, uint32_t *states)
{
    struct search search = {.mutant = mutant, .bounds = bounds};
    search_states(&search);
    if (!search.fault)
        search_ends(&search);
    *states = search.count;
    free(search.states);
    free(search.table);
    free(search.edges);
    return search.fault;
}

/* The bounds of each search; the last one is visited with TARRY_TEST_DEEP=1. */
static const struct bounds bounds_of_tests[] = {
    {.members = 2, .crashes = 1, .losses = 1, .failures = 1},
    {.members = 3},
    {.members = 3, .crashes = 1, .losses = 1, .failures = 1},
};

CLAIM(the_wait_ends_once_after_the_last_member_in_all_interleavings)
{
    size_t count = getenv("TARRY_TEST_DEEP") ? COUNT_OF(bounds_of_tests) : 2;
    for (size_t i = 0; i < count; i++) {
        uint32_t states;
        const char *fault = fault_of(SOUND, bounds_of_tests[i], &states);
        if (fault)
            fail_msg("bounds %zu: %s, after %u states", i, fault, states);
        print_message("bounds %zu: %u states\n", i, states);
        assert_true(states > 1000);
    }
}

CLAIM(the_search_finds_mistakes_of_the_protocol)
{
    static const char *const faults[MUTANTS] = {
        [IGNORES_PUSHES_UNDER_WAY] = "the wait has ended before its last member",
        [IGNORES_THE_VERSION_OF_A_PUSH] = "the wait has ended before its last member",
        [LEAVES_BEFORE_THE_PUSH] = "the wait has ended before its last member",
        [HEARS_OLD_REPORTS] = "the end cannot be reached",
        [REPORTS_BEFORE_DURABLE] = "the final counts are wrong",
        [LOSES_REPORTS] = "the end cannot be reached",
        [LOSES_LEAVES] = "the end cannot be reached",
        [LEAVES_WITHOUT_A_VERSION] = "the wait has ended before its last member",
        [LEAVES_WITHOUT_ROOM_END_NO_WAIT] = "the end cannot be reached",
        [STARTS_WITHOUT_REPORTS] = "the wait has ended before its last member",
        [FORGETS_BEFORE_DURABLE] = "the final counts are wrong",
        [REJECTS_MEMBERS_OF_MEMBERS] = "a push was rejected while its parent was unfinished"};
    for (enum mutant mutant = SOUND + 1; mutant < MUTANTS; mutant++) {
        uint32_t states;
        const char *fault = NULL;
        for (size_t i = 0; i < 2 && !fault; i++)
            fault = fault_of(mutant, bounds_of_tests[i], &states);
        if (!fault || strcmp(fault, faults[mutant]) != 0)
            fail_msg("mutant %d: found '%s', expected '%s'", (int)mutant, fault ? fault : "nothing",
                     faults[mutant]);
    }
}

CLAIM(final_counts_do_not_change)
{
    struct batch_part part = {.shard = 1};
    struct life_batch whole = {.on_dead = BATCH_GO, .has_ended = true};
    const struct batch_report report = {.version = 1, .counts = {.of = {[BATCH_ACKED] = 1}}};
    batch_part_hear(&part, &report, &whole);
    assert_int_equal(batch_members(&whole.counts), 0);
}

CLAIM(reported_members_close_a_batch_with_an_expected_number)
{
    struct batch_part part = {.shard = 1};
    struct life_batch whole = {.on_dead = BATCH_GO, .members = 2};
    struct batch_report report = {.version = 1, .counts = {.of = {[BATCH_ACKED] = 1}}};
    batch_part_hear(&part, &report, &whole);
    assert_false(whole.is_closed);
    report.version = 2;
    report.counts.of[BATCH_DEAD] = 1;
    batch_part_hear(&part, &report, &whole);
    assert_true(whole.is_closed);
    assert_int_equal(batch_members(&whole.counts), 2);
}

CLAIM(a_batch_that_is_gone_waits_until_its_orders_were_followed)
{
    struct batch_parts parts = {0};
    const struct life_batch whole = {.on_dead = BATCH_STOP, .is_stopped = true};
    uint8_t orders = batch_parts_orders(&whole, true);
    assert_int_equal(orders, BATCH_ORDER_STOP | BATCH_ORDER_FORGET);
    assert_true(batch_parts_are_done(&parts, 0, orders));
    batch_parts_of(&parts, 0)->under_way = 1;
    assert_false(batch_parts_are_done(&parts, 0, orders));
    batch_part_leave(batch_parts_of(&parts, 0), 0);
    assert_true(batch_parts_are_done(&parts, 0, orders));
    batch_parts_of(&parts, 2)->followed = BATCH_ORDER_STOP;
    assert_false(batch_parts_are_done(&parts, 0, orders));
    batch_parts_of(&parts, 2)->followed = orders;
    assert_true(batch_parts_are_done(&parts, 0, orders));
    batch_parts_fini(&parts);
}

CLAIMS_MAIN(NULL, NULL)
