/* The outbox by itself: its kind sends nothing, and plays a peer, a library and an owner
 * in every order. */
#include "targets/outbox.h"

#include "base/random.h"

#include "unit/cases.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <stdio.h>
#include <stdlib.h>

enum { TAGS_MAX = 256, ROUNDS_MAX = 10000 };

struct rig {
    struct reactor *reactor;
    struct target_env env;
    struct outbox outbox;
    struct target_setting setting;
    struct outbox_message *messages[TAGS_MAX]; /* NULL: freed */
    size_t added, reported, freed, settled, explained, wakes;
    unsigned char reports[TAGS_MAX];
    struct target_report last[TAGS_MAX];
    bool is_in_call, closes_when_reported, sends_when_reported, loses_when_reported;
    size_t rounds, closed, targets_freed;
};

static void add(struct rig *rig);
static void on_closed(void *ctx);

static void on_reported(void *owner, uint64_t tag, const struct target_report *report)
{
    struct rig *rig = owner;
    assert_false(rig->is_in_call);
    assert_int_equal(rig->closed, 0);
    assert_int_equal(rig->reports[tag], 0);
    rig->reports[tag]++;
    rig->reported++;
    rig->last[tag] = *report;
    if (rig->sends_when_reported && rig->added < TAGS_MAX)
        add(rig);
    if (rig->loses_when_reported)
        outbox_lose_all(&rig->outbox, "gone");
    if (rig->closes_when_reported && !rig->outbox.closed)
        outbox_close(&rig->outbox, on_closed, rig);
}

static void on_overdue(void *ctx, struct outbox_message *message)
{
    struct rig *rig = ctx;
    assert_false(rig->is_in_call);
    outbox_lose(&rig->outbox, message, "timed out");
}

static void on_settled(void *ctx, struct outbox_message *message)
{
    struct rig *rig = ctx;
    rig->settled++;
    assert_int_equal(message->stage, OUTBOX_SETTLED);
}

static void on_explain(void *ctx, const struct outbox_message *message)
{
    struct rig *rig = ctx;
    rig->explained++;
    buffer_append_text(message->explained, "explained");
}

static void on_free_message(void *ctx, struct outbox_message *message)
{
    struct rig *rig = ctx;
    assert_ptr_equal(rig->messages[message->tag], message);
    assert_false(message->is_held);
    rig->messages[message->tag] = NULL;
    rig->freed++;
    free(message);
}

static void on_woken(void *ctx, int64_t now_ms)
{
    struct rig *rig = ctx;
    assert_true(now_ms > 0);
    rig->wakes++;
}

static void on_iteration_end(void *ctx)
{
    struct rig *rig = ctx;
    assert_false(rig->is_in_call);
    rig->rounds++;
}

static void on_free_target(void *ctx)
{
    struct rig *rig = ctx;
    rig->targets_freed++;
    assert_int_equal(rig->reported, rig->added);
    assert_int_equal(rig->freed, rig->added);
}

static void on_closed(void *ctx)
{
    struct rig *rig = ctx;
    assert_false(rig->is_in_call);
    assert_int_equal(rig->targets_freed, 1);
    rig->closed++;
}

static struct rig *begin(void)
{
    static const struct outbox_kind kind = {.overdue = on_overdue,
                                            .settled = on_settled,
                                            .explain = on_explain,
                                            .free_message = on_free_message,
                                            .woken = on_woken,
                                            .iteration_end = on_iteration_end,
                                            .free_target = on_free_target};
    struct rig *rig = calloc(1, sizeof *rig);
    assert_non_null(rig);
    rig->reactor = reactor_new(0);
    rig->env = (struct target_env){.reactor = rig->reactor, .reported = on_reported, .owner = rig};
    rig->setting.timeout_ms = 60000;
    assert_true(outbox_init(&rig->outbox, &rig->env, &kind, rig));
    return rig;
}

/* Runs the loop for as long as `condition` does not hold; something must be there to wake it. */
#define UNTIL(RIG, CONDITION)                                                                      \
    do {                                                                                           \
        int rounds = 0;                                                                            \
        for (; !(CONDITION) && rounds < ROUNDS_MAX; rounds++)                                      \
            uv_run(reactor_loop((RIG)->reactor), UV_RUN_ONCE);                                     \
        assert_true(CONDITION);                                                                    \
    } while (0)

static void iterate(struct rig *rig)
{
    uv_run(reactor_loop(rig->reactor), UV_RUN_NOWAIT);
}

static struct outbox_message *message_of(struct rig *rig, uint64_t tag)
{
    return rig->messages[tag];
}

static void add_explained(struct rig *rig, struct buffer *explained)
{
    struct target_message from = {
        .tag = rig->added, .setting = &rig->setting, .is_test = explained, .explained = explained};
    struct outbox_message *message = calloc(1, sizeof *message);
    assert_non_null(message);
    rig->messages[rig->added++] = message;
    outbox_add(&rig->outbox, message, &from, 0);
}

static void add(struct rig *rig)
{
    add_explained(rig, NULL);
}

static bool is_open(const struct outbox_message *message)
{
    return message && (message->stage == OUTBOX_WAITING || message->stage == OUTBOX_SENT);
}

static void hand_over(struct rig *rig, uint64_t tag)
{
    struct outbox_message *message = message_of(rig, tag);
    if (!message || message->stage != OUTBOX_WAITING)
        return;
    message->is_held = true;
    outbox_mark_sent(&rig->outbox, message);
}

static void finish(struct rig *rig)
{
    for (uint64_t tag = 0; tag < rig->added; tag++)
        assert_true(rig->reports[tag] <= 1);
    if (!rig->outbox.closed)
        outbox_close(&rig->outbox, on_closed, rig);
    outbox_lose_all(&rig->outbox, "given up");
    outbox_return_all(&rig->outbox);
    assert_int_equal(rig->closed, 0);
    if (!rig->outbox.is_gone)
        outbox_gone(&rig->outbox);
    UNTIL(rig, rig->closed);
    iterate(rig);
    assert_int_equal(rig->closed, 1);
    assert_int_equal(rig->settled, rig->added);
    reactor_free(rig->reactor);
    free(rig);
}

/* ---- what may happen to a message that is sent and held ---- */

static void confirm(struct rig *rig)
{
    if (is_open(message_of(rig, 0)))
        outbox_settle_as(&rig->outbox, message_of(rig, 0), TARGET_DONE, false, "");
}

static void give_back(struct rig *rig)
{
    struct outbox_message *message = message_of(rig, 0);
    if (message && message->is_held && !is_open(message))
        outbox_return(&rig->outbox, message);
}

static void deadline_passes(struct rig *rig)
{
    size_t before = rig->wakes;
    if (is_open(message_of(rig, 0)))
        message_of(rig, 0)->until_ms = 1;
    if (rig->closed)
        return;
    rig->is_in_call = true;
    outbox_wake_at(&rig->outbox, 1);
    rig->is_in_call = false;
    UNTIL(rig, rig->wakes > before);
}

static void connection_is_lost(struct rig *rig)
{
    outbox_lose_sent(&rig->outbox, "connection lost");
}

static void library_goes(struct rig *rig)
{
    outbox_lose_sent(&rig->outbox, "the library is gone");
    outbox_return_all(&rig->outbox);
}

static void close_begins(struct rig *rig)
{
    outbox_close(&rig->outbox, on_closed, rig);
}

static void iteration_ends(struct rig *rig)
{
    iterate(rig);
}

typedef void step(struct rig *rig);
static step *const steps[] = {confirm,      give_back,    deadline_passes, connection_is_lost,
                              library_goes, close_begins, iteration_ends};
enum { STEPS = COUNT_OF(steps) };

static void play(const size_t *order)
{
    struct rig *rig = begin();
    char text[64] = "";
    add(rig);
    hand_over(rig, 0);
    for (size_t i = 0; i < STEPS; i++) {
        size_t at = strlen(text);
        (void)snprintf(text + at, sizeof text - at, " %zu", order[i]);
        rig->is_in_call = steps[order[i]] != deadline_passes && steps[order[i]] != iteration_ends;
        steps[order[i]](rig);
        rig->is_in_call = false;
    }
    CASE_HOLDS(text, rig->settled == 1);
    UNTIL(rig, rig->reported == 1);
    /* Whichever came first has decided. */
    size_t first = 0;
    while (order[first] == 1 || order[first] > 4)
        first++;
    CASE_HOLDS(text, rig->last[0].outcome == (order[first] == 0 ? TARGET_DONE : TARGET_FAILED));
    CASE_HOLDS(text, rig->last[0].is_ailing == (order[first] != 0));
    finish(rig);
}

static void permute(size_t *order, size_t at)
{
    if (at == STEPS) {
        play(order);
        return;
    }
    for (size_t i = at; i < STEPS; i++) {
        size_t first = order[at];
        order[at] = order[i];
        order[i] = first;
        permute(order, at + 1);
        order[i] = order[at];
        order[at] = first;
    }
}

CLAIM(in_every_order_a_message_is_reported_exactly_once)
{
    size_t order[STEPS];
    for (size_t i = 0; i < STEPS; i++)
        order[i] = i;
    permute(order, 0);
}

/* ---- one claim each ---- */

CLAIM(messages_that_never_left_are_unsent)
{
    struct rig *rig = begin();
    for (int i = 0; i < 3; i++)
        add(rig);
    message_of(rig, 1)->has_left = true; /* half of it */
    hand_over(rig, 2);
    outbox_lose_all(&rig->outbox, "gone");
    UNTIL(rig, rig->reported == 3);
    assert_int_equal(rig->last[0].outcome, TARGET_UNSENT);
    assert_int_equal(rig->last[1].outcome, TARGET_FAILED);
    assert_int_equal(rig->last[2].outcome, TARGET_FAILED);
    assert_string_equal(rig->last[0].error, "gone");
    assert_int_equal(rig->last[0].retry_after_ms, -1);
    finish(rig);
}

CLAIM(every_message_has_its_own_time)
{
    struct rig *rig = begin();
    rig->setting.timeout_ms = 60000;
    add(rig);
    rig->setting.timeout_ms = 1;
    add(rig);
    hand_over(rig, 1);
    UNTIL(rig, rig->reported == 1);
    assert_int_equal(rig->reports[1], 1);
    assert_string_equal(rig->last[1].error, "timed out");
    finish(rig);
}

CLAIM(messages_become_overdue_at_their_deadline)
{
    struct rig *rig = begin();
    rig->setting.timeout_ms = 1;
    add(rig);
    rig->setting.timeout_ms = 300;
    add(rig);
    hand_over(rig, 1);
    UNTIL(rig, rig->reported == 1);
    assert_int_equal(rig->reports[0], 1);
    assert_true(rig->outbox.deadline_ms < INT64_MAX); /* it will look again */
    UNTIL(rig, rig->reported == 2);
    assert_int_equal(rig->reports[1], 1);
    finish(rig);
}

CLAIM(held_messages_outlive_their_report)
{
    struct rig *rig = begin();
    add(rig);
    hand_over(rig, 0);
    connection_is_lost(rig);
    UNTIL(rig, rig->reported == 1);
    assert_int_equal(rig->freed, 0);
    assert_int_equal(message_of(rig, 0)->stage, OUTBOX_REPORTED);
    give_back(rig);
    assert_int_equal(rig->freed, 1);
    finish(rig);
}

CLAIM(descriptions_are_requested_only_if_needed)
{
    struct rig *rig = begin();
    struct buffer lines;
    buffer_init(&lines, 64);
    add_explained(rig, &lines);
    add(rig);
    outbox_lose_all(&rig->outbox, "gone");
    assert_int_equal(lines.len, 0);
    UNTIL(rig, rig->reported == 2);
    assert_int_equal(rig->explained, 1);
    assert_true(slice_is(buffer_slice(&lines), "explained"));
    buffer_fini(&lines);
    finish(rig);
}

CLAIM(a_report_callback_may_send_the_next)
{
    struct rig *rig = begin();
    rig->sends_when_reported = true;
    add(rig);
    while (rig->reported < 50) {
        outbox_lose_all(&rig->outbox, "gone");
        UNTIL(rig, rig->reported + 1 == rig->added && list_is_empty(&rig->outbox.settled));
    }
    rig->sends_when_reported = false;
    finish(rig);
}

CLAIM(messages_settled_during_reports_are_reported_in_the_next_iteration)
{
    struct rig *rig = begin();
    rig->sends_when_reported = rig->loses_when_reported = true;
    add(rig);
    outbox_lose_all(&rig->outbox, "gone");
    for (size_t before = rig->rounds; rig->reported < 20; before = rig->rounds) {
        UNTIL(rig, rig->rounds > before);
        assert_int_equal(rig->rounds, before + 1);
        assert_int_equal(rig->reported, rig->rounds);
    }
    rig->sends_when_reported = rig->loses_when_reported = false;
    finish(rig);
}

CLAIM(messages_settled_by_the_last_report_are_reported_before_the_end)
{
    struct rig *rig = begin();
    add(rig);
    add(rig);
    outbox_lose(&rig->outbox, message_of(rig, 0), "gone");
    rig->loses_when_reported = true;
    outbox_close(&rig->outbox, on_closed, rig);
    outbox_gone(&rig->outbox);
    UNTIL(rig, rig->closed);
    assert_int_equal(rig->reported, 2);
    reactor_free(rig->reactor);
    free(rig);
}

CLAIM(a_report_callback_may_close)
{
    struct rig *rig = begin();
    rig->closes_when_reported = true;
    for (int i = 0; i < 3; i++)
        add(rig);
    outbox_lose_all(&rig->outbox, "gone");
    UNTIL(rig, rig->reported == 3);
    assert_int_equal(rig->closed, 0); /* its peer is still there */
    finish(rig);
}

CLAIM(a_close_waits_for_the_peer_and_the_last_report)
{
    struct rig *rig = begin();
    add(rig);
    hand_over(rig, 0);
    outbox_close(&rig->outbox, on_closed, rig);
    for (int i = 0; i < 5; i++)
        iterate(rig);
    assert_int_equal(rig->closed, 0);
    library_goes(rig);
    for (int i = 0; i < 5; i++)
        iterate(rig);
    assert_int_equal(rig->reported, 1);
    assert_int_equal(rig->closed, 0);
    finish(rig);
}

CLAIM(pauses_double_up_to_five_seconds)
{
    static const int64_t ms[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000};
    struct outbox_pause pause = {0};
    for (size_t i = 0; i < COUNT_OF(ms); i++) {
        outbox_pause_longer(&pause, 1000);
        assert_int_equal(pause.until_ms, 1000 + ms[i]);
    }
    pause.failures = 0;
    outbox_pause_longer(&pause, 0);
    assert_int_equal(pause.until_ms, 100);
}

/* ---- anything, many times ---- */

/* No callback runs inside a call. */
static void call_anything(struct rig *rig, struct random *random)
{
    uint64_t tag = random_below(random, rig->added ? rig->added : 1);
    struct outbox_message *message = message_of(rig, tag);
    switch (random_below(random, 8)) {
    case 0:
    case 1:
        rig->setting.timeout_ms = 1 + (int64_t)random_below(random, 3);
        if (rig->added < TAGS_MAX && !rig->outbox.closed)
            add(rig);
        return;
    case 2:
        hand_over(rig, tag);
        return;
    case 3:
        if (is_open(message))
            outbox_settle_as(&rig->outbox, message, TARGET_DONE, false, "");
        return;
    case 4:
        if (is_open(message))
            outbox_lose(&rig->outbox, message, "lost");
        return;
    case 5:
        if (message && message->is_held && !is_open(message))
            outbox_return(&rig->outbox, message);
        return;
    case 6:
        if (random_below(random, 8) == 0)
            library_goes(rig);
        return;
    case 7:
        if (random_below(random, 200) == 0 && !rig->outbox.closed)
            outbox_close(&rig->outbox, on_closed, rig);
        return;
    }
}

CLAIM(whatever_happens_each_is_reported_and_freed_once)
{
    struct random random = seed_random("whatever_happens_each_is_reported_and_freed_once");
    for (int round = 0; round < 200; round++) {
        struct rig *rig = begin();
        for (int i = 0; i < 400; i++) {
            rig->is_in_call = true;
            call_anything(rig, &random);
            rig->is_in_call = false;
            if (random_below(&random, 8) == 0)
                iterate(rig);
        }
        finish(rig);
    }
}

CLAIMS_MAIN(NULL, NULL)
