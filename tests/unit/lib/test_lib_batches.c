/* Batches through tarry.h, in memory and in a directory with two shards. The contract suite has the rules; these are the claims about
 * what only this API has: its structs, the list of members, waits and submitted calls. */
#include "both_rig.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { BOTH_SHARDS = 2, LONG_MS = 20000, KEEP_MS = 60000 };

/* ---- calls in short ---- */

static struct tarry_push a_push(const char *topic, const char *id)
{
    struct tarry_push push = TARRY_PUSH_INIT;
    push.topic = topic;
    push.id = id;
    push.body = id;
    push.body_bytes = strlen(id);
    return push;
}

static struct tarry_push a_member(const char *id)
{
    struct tarry_push push = a_push("m", id);
    push.batch_topic = "t";
    push.batch_id = "w";
    return push;
}

static int push_one(tarry *queue, struct tarry_push push)
{
    struct tarry_result result = TARRY_RESULT_INIT;
    assert_int_not_equal(tarry_push(queue, &push, 1, &result), TARRY_INTERRUPTED);
    return result.code;
}

/* Pushes the waiting job and two members. */
static void begin_two(tarry *queue, uint32_t on_dead)
{
    struct tarry_push waiting = a_push("t", "w");
    struct tarry_push members[] = {a_member("a"), a_member("b")};
    waiting.flags = TARRY_WAITS;
    waiting.on_dead = on_dead;
    assert_int_equal(push_one(queue, waiting), TARRY_CREATED);
    assert_int_equal(tarry_push(queue, members, 2, NULL), TARRY_OK);
}

static int change_one(tarry *queue,
                      int (*verb)(tarry *, const struct tarry_change *, size_t,
                                  struct tarry_result *),
                      const char *id, uint32_t flags)
{
    struct tarry_change change = TARRY_CHANGE_INIT;
    struct tarry_result result = TARRY_RESULT_INIT;
    change.topic = "t";
    change.id = id;
    change.flags = flags;
    assert_int_not_equal(verb(queue, &change, 1, &result), TARRY_INTERRUPTED);
    return result.code;
}

static tarry_job *take_from(tarry *queue, const char *topic, int64_t wait_ms)
{
    struct tarry_take take = TARRY_TAKE_INIT;
    tarry_job *job = NULL;
    size_t n;
    take.topics = &topic;
    take.topic_count = 1;
    assert_int_equal(tarry_take(queue, &take, wait_ms, &job, &n), TARRY_OK);
    return n ? job : NULL;
}

static void ack_from(tarry *queue, const char *topic)
{
    tarry_job *job = take_from(queue, topic, LONG_MS);
    assert_non_null(job);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_OK);
    tarry_job_free(job);
}

static struct tarry_batch batch_of(tarry *queue, const char *topic, const char *id)
{
    struct tarry_batch batch = {.size = sizeof batch};
    tarry_job *job;
    assert_int_equal(tarry_get(queue, topic, id, &job), TARRY_OK);
    assert_int_equal(tarry_job_batch(job, &batch), TARRY_OK);
    tarry_job_free(job);
    return batch;
}

/* Takes the waiting job and compares its outcome. */
static void take_waiting(tarry *queue, const char *outcome)
{
    tarry_job *job = take_from(queue, "t", LONG_MS);
    struct tarry_batch batch = {.size = sizeof batch};
    size_t bytes;
    assert_non_null(job);
    assert_string_equal(tarry_job_id(job), "w");
    const char *meta = tarry_job_meta(job, &bytes);
    assert_int_equal(bytes, sizeof "tarry-batch" + strlen(outcome) + 1);
    assert_string_equal(meta, "tarry-batch");
    assert_string_equal(meta + sizeof "tarry-batch", outcome);
    assert_int_equal(tarry_job_batch(job, &batch), TARRY_OK);
    assert_true(batch.has_own && batch.has_ended && !batch.waits_for);
    assert_int_equal(rig_answer(queue, tarry_ack, job), TARRY_OK);
    tarry_job_free(job);
}

/* ---- claims ---- */

BOTH(a_waiting_job_comes_after_its_members)
{
    begin_two(queue, 0);
    struct tarry_batch batch = batch_of(queue, "t", "w");
    assert_true(batch.has_own && !batch.is_closed && !batch.has_ended && !batch.topic[0]);
    assert_int_equal(batch.on_dead, TARRY_GO);
    assert_int_equal(batch.waits_for, 2);
    assert_int_equal(batch.unfinished, 2);
    batch = batch_of(queue, "m", "a");
    assert_false(batch.has_own);
    assert_string_equal(batch.topic, "t");
    assert_string_equal(batch.id, "w");
    assert_int_equal(change_one(queue, tarry_close_batch, "w", 0), TARRY_OK);
    assert_int_equal(push_one(queue, a_member("late")), TARRY_BATCH_CLOSED);
    assert_int_equal(push_one(queue, a_push("t", "w")), TARRY_WAITING);
    ack_from(queue, "m");
    assert_null(take_from(queue, "t", 0));
    ack_from(queue, "m");
    take_waiting(queue, "acked=2 dead=0 cancelled=0 expired=0 missing=0");
}

BOTH(a_member_that_runs_adds_a_member)
{
    begin_two(queue, 0);
    assert_int_equal(change_one(queue, tarry_close_batch, "w", 0), TARRY_OK);
    tarry_job *parent = take_from(queue, "m", LONG_MS);
    struct tarry_push child = a_member("c");
    child.parent = tarry_job_lease(parent);
    assert_int_equal(push_one(queue, child), TARRY_CREATED);
    assert_int_equal(rig_answer(queue, tarry_ack, parent), TARRY_OK);
    child.id = "d";
    assert_int_equal(push_one(queue, child), TARRY_BATCH_CLOSED);
    tarry_job_free(parent);
    ack_from(queue, "m");
    ack_from(queue, "m");
    take_waiting(queue, "acked=3 dead=0 cancelled=0 expired=0 missing=0");
}

BOTH(a_cancel_includes_the_members_if_asked)
{
    struct tarry_push plain = a_push("m", "plain");
    begin_two(queue, TARRY_HOLD);
    assert_int_equal(push_one(queue, plain), TARRY_CREATED);
    assert_int_equal(change_one(queue, tarry_run, "w", TARRY_WITH_MEMBERS), TARRY_BAD_OPTION);
    assert_int_equal(change_one(queue, tarry_cancel, "w", TARRY_WITH_MEMBERS), TARRY_CANCELLED);
    tarry_job *job = take_from(queue, "m", LONG_MS);
    assert_string_equal(tarry_job_id(job), "plain");
    tarry_job_free(job);
    assert_null(take_from(queue, "m", 0));
}

BOTH(options_of_batches_are_checked)
{
    struct tarry_batch batch = {.size = sizeof batch};
    struct tarry_push push = a_push("t", "x");
    tarry_job *job;
    push.on_dead = TARRY_HOLD; /* without TARRY_WAITS */
    assert_int_equal(push_one(queue, push), TARRY_BAD_OPTION);
    push.flags = TARRY_WAITS;
    push.on_dead = 4;
    assert_int_equal(push_one(queue, push), TARRY_BAD_OPTION);
    push.on_dead = 0;
    push.wait_at_most_ms = -1;
    assert_int_equal(push_one(queue, push), TARRY_BAD_OPTION);
    assert_int_equal(push_one(queue, a_member("a")), TARRY_NO_BATCH);
    push = a_member("a");
    push.batch_id = NULL;
    assert_int_equal(push_one(queue, push), TARRY_BAD_OPTION);
    assert_int_equal(change_one(queue, tarry_close_batch, "none", 0), TARRY_NOT_FOUND);
    assert_int_equal(push_one(queue, a_push("t", "plain")), TARRY_CREATED);
    assert_int_equal(tarry_get(queue, "t", "plain", &job), TARRY_OK);
    assert_int_equal(tarry_job_batch(job, &batch), TARRY_NOT_FOUND);
    batch.size = 8;
    assert_int_equal(tarry_job_batch(job, &batch), TARRY_BAD_OPTION);
    tarry_job_free(job);
}

/* Lists all members page by page; returns their number, and checks that each is of an expected id. */
static size_t list_all(tarry *queue, int outcome, uint32_t limit, const char *ids)
{
    struct tarry_members list = TARRY_MEMBERS_INIT;
    tarry_job *jobs[10];
    size_t n, sum = 0;
    list.topic = "t";
    list.id = "w";
    list.outcome = outcome;
    list.limit = limit;
    do {
        assert_int_equal(tarry_list_members(queue, &list, jobs, &n), TARRY_OK);
        assert_true(n <= limit);
        for (size_t i = 0; i < n; i++) {
            assert_non_null(strstr(ids, tarry_job_id(jobs[i])));
            tarry_job_free(jobs[i]);
        }
        sum += n;
    } while (list.cursor[0]);
    return sum;
}

BOTH(members_are_listed_by_outcome)
{
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    struct tarry_members list = TARRY_MEMBERS_INIT;
    struct tarry_answer final = TARRY_ANSWER_INIT;
    tarry_job *job;
    size_t n;
    list.topic = "t";
    list.id = "w";
    assert_int_equal(tarry_list_members(queue, &list, &job, &n), TARRY_NOT_FOUND);
    settings.keep_finished_ms = KEEP_MS;
    assert_int_equal(tarry_topic_put(queue, "m", &settings), TARRY_CREATED);
    begin_two(queue, TARRY_HOLD);
    for (int i = 0; i < 20; i++) { /* others in between */
        char id[32];
        snprintf(id, sizeof id, "other-%d", i);
        struct tarry_push other = a_push("m", id);
        other.delay_ms = KEEP_MS;
        assert_int_equal(push_one(queue, other), TARRY_CREATED);
    }
    struct tarry_push far = a_member("c");
    far.topic = "z";
    assert_int_equal(push_one(queue, far), TARRY_CREATED);
    assert_int_equal(list_all(queue, 0, 10, "a b c"), 3);
    assert_int_equal(list_all(queue, 0, 1, "a b c"), 3);
    ack_from(queue, "m");
    assert_int_equal(list_all(queue, TARRY_MEMBER_UNFINISHED, 3, "a b c"), 2);
    assert_int_equal(list_all(queue, TARRY_MEMBER_ACKED, 3, "a b"), 1);
    final.job = job = take_from(queue, "z", LONG_MS);
    final.flags = TARRY_FINAL;
    assert_int_equal(tarry_nack(queue, &final, 1, NULL), TARRY_OK);
    tarry_job_free(job);
    assert_int_equal(list_all(queue, TARRY_MEMBER_DEAD, 3, "c"), 1);
    assert_int_equal(list_all(queue, TARRY_MEMBER_EXPIRED, 3, ""), 0);
    list.limit = 0;
    assert_int_equal(tarry_list_members(queue, &list, &job, &n), TARRY_BAD_OPTION);
    list.limit = 1;
    list.cursor[0] = 'x';
    assert_int_equal(tarry_list_members(queue, &list, &job, &n), TARRY_BAD_CURSOR);
}

static void on_reply(void *owner, const struct tarry_reply *reply)
{
    *(int *)owner = reply->code;
}

static int submit_and_wait(tarry *queue, int32_t kind, const void *item)
{
    struct tarry_call call = TARRY_CALL_INIT;
    int code = -1;
    call.kind = kind;
    call.items = item;
    call.n = 1;
    assert_int_equal(tarry_submit(queue, &call, on_reply, &code), TARRY_OK);
    struct pollfd fd = {.fd = tarry_fd(queue), .events = POLLIN};
    for (int i = 0; i < 1000 && code == -1; i++) {
        (void)poll(&fd, 1, 20);
        (void)tarry_dispatch(queue, 0);
    }
    return code;
}

BOTH(batches_are_pushed_and_closed_by_submitted_calls)
{
    struct tarry_push waiting = a_push("t", "w"), member = a_member("a");
    struct tarry_change close = TARRY_CHANGE_INIT;
    close.topic = "t";
    close.id = "w";
    waiting.flags = TARRY_WAITS;
    assert_int_equal(submit_and_wait(queue, TARRY_CALL_PUSH, &waiting), TARRY_OK);
    assert_int_equal(submit_and_wait(queue, TARRY_CALL_PUSH, &member), TARRY_OK);
    assert_int_equal(submit_and_wait(queue, TARRY_CALL_CLOSE_BATCH, &close), TARRY_OK);
    close.id = "none";
    assert_int_equal(submit_and_wait(queue, TARRY_CALL_CLOSE_BATCH, &close), TARRY_NOT_FOUND);
    assert_true(batch_of(queue, "t", "w").is_closed);
    ack_from(queue, "m");
    take_waiting(queue, "acked=1 dead=0 cancelled=0 expired=0 missing=0");
}

BOTH(a_push_that_waits_may_be_a_member)
{
    struct tarry_push waiting = a_push("t", "w"), member = a_member("a");
    struct tarry_await await = TARRY_AWAIT_INIT;
    tarry_job *job;
    waiting.flags = TARRY_WAITS;
    waiting.members = 1;
    await.push = &waiting;
    assert_int_equal(tarry_await(queue, &await, 0, &job), TARRY_OK);
    assert_int_equal(tarry_job_state(job), TARRY_STATE_DELAYED);
    tarry_job_free(job);
    await.push = &member;
    assert_int_equal(tarry_await(queue, &await, 0, &job), TARRY_OK);
    struct tarry_batch batch = {.size = sizeof batch};
    assert_int_equal(tarry_job_batch(job, &batch), TARRY_OK);
    assert_string_equal(batch.id, "w");
    tarry_job_free(job);
    assert_true(batch_of(queue, "t", "w").is_closed); /* by its only member */
    ack_from(queue, "m");
    take_waiting(queue, "acked=1 dead=0 cancelled=0 expired=0 missing=0");
}

CLAIM(a_batch_survives_a_restart_of_the_directory)
{
    int place = ++rig_places;
    tarry *queue = rig_open_in(place, BOTH_SHARDS);
    begin_two(queue, 0);
    ack_from(queue, "m");
    assert_int_equal(change_one(queue, tarry_close_batch, "w", 0), TARRY_OK);
    assert_int_equal(tarry_close(queue), TARRY_OK);
    queue = rig_open_in(place, BOTH_SHARDS);
    struct tarry_batch batch = batch_of(queue, "t", "w");
    assert_true(batch.is_closed && batch.unfinished == 1 && batch.acked == 1);
    ack_from(queue, "m");
    take_waiting(queue, "acked=2 dead=0 cancelled=0 expired=0 missing=0");
    assert_int_equal(tarry_close(queue), TARRY_OK);
}

/* ---- export and import ---- */

static void transfer(tarry *from, tarry *into)
{
    struct tarry_transfer out = TARRY_TRANSFER_INIT;
    FILE *file = tmpfile();
    assert_non_null(file);
    out.fd = fileno(file);
    assert_int_equal(tarry_export(from, &out), TARRY_OK);
    rewind(file);
    struct tarry_transfer in = TARRY_TRANSFER_INIT;
    in.fd = fileno(file);
    int code = tarry_import(into, &in);
    if (code)
        fail_msg("line %llu: %s", (unsigned long long)in.line, tarry_strerror(code));
    (void)fclose(file);
}

BOTH(an_import_continues_a_closed_batch)
{
    tarry *other = rig_open(0);
    begin_two(queue, 0);
    struct tarry_push third = a_member("c");
    third.topic = "a"; /* before the waiting job in the export */
    assert_int_equal(push_one(queue, third), TARRY_CREATED);
    ack_from(queue, "m");
    assert_int_equal(change_one(queue, tarry_close_batch, "w", 0), TARRY_OK);
    transfer(queue, other);
    struct tarry_batch batch = batch_of(other, "t", "w");
    assert_int_equal(batch.acked, 1);
    assert_int_equal(batch.unfinished, 2);
    assert_true(batch.is_closed);
    ack_from(other, "m");
    ack_from(other, "a");
    take_waiting(other, "acked=3 dead=0 cancelled=0 expired=0 missing=0");
    assert_int_equal(tarry_close(other), TARRY_OK);
}

CLAIMS_MAIN(scratch_setup, scratch_teardown)
