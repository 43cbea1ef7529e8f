/* Single promises of checkpoints: records that must be written though only a note in memory requires it,
 * records that may go afterwards, and records that go when they are met again. */
#include "engine_owner.h"
#include "unit/claim.h"

/* ---- claims ---- */

CLAIM(after_a_checkpoint_all_that_is_not_leased_and_far_from_due_may_go)
{
    struct owner owner;
    open_owner(&owner);
    push(&owner, "fails", 0);
    fail_once(&owner);
    push(&owner, "dies", 0);
    answer(&owner, take(&owner),
           (struct queue_answer){.verb = QUEUE_NACK, .final = true, .error = slice_of("never")});
    push(&owner, "leased", 0);
    take(&owner);
    push(&owner, "far", COLD_MS);
    push(&owner, "moved", COLD_MS);
    reschedule(&owner, "moved", 2 * COLD_MS);
    put_topic(&owner, WINDOW_MS);
    push(&owner, "done", 0);
    answer(&owner, take(&owner), (struct queue_answer){.verb = QUEUE_ACK});

    checkpoint(&owner, ++owner.rig->file);
    evict_all(&owner);
    assert_int_equal(engine_entries(owner.rig->engine), 1); /* the leased one */

    /* Loaded and changed again, in the log that stays: it has to wait for the next one. */
    rig_load_due(owner.rig, 0, true, owner.now);
    reschedule(&owner, "moved", 3 * COLD_MS);
    evict_all(&owner);
    assert_int_equal(engine_entries(owner.rig->engine), 2);
    checkpoint(&owner, ++owner.rig->file);
    evict_all(&owner);
    assert_int_equal(engine_entries(owner.rig->engine), 1);
    crash(&owner);
    assert_int_equal(engine_entries(owner.rig->engine), 1);
    assert_int_equal(shown(&owner).counts.delayed, 2);
    assert_int_equal(shown(&owner).counts.retrying, 1);
    assert_int_equal(shown(&owner).counts.dead, 1);
    assert_int_equal(shown(&owner).counts.leased, 1);
    close_owner(&owner);
}

/* Its newest state is in a file that stays, but without the attempt. */
CLAIM(an_attempt_survives_the_file_with_its_end)
{
    struct owner owner;
    open_owner(&owner);
    push(&owner, "fails", 0);
    checkpoint(&owner, ++owner.rig->file); /* its record is in a run */
    fail_once(&owner);
    uint32_t next_file = ++owner.rig->file;
    reschedule(&owner, "fails", 2 * COLD_MS);
    checkpoint(&owner, next_file);
    assert_int_equal(attempts_of(&owner, "fails"), 1);
    crash(&owner);
    assert_int_equal(attempts_of(&owner, "fails"), 1);
    close_owner(&owner);
}

/* The end came during the checkpoint: its record is in a file that stays. */
CLAIM(an_attempt_that_ends_during_a_checkpoint_is_written_by_the_next)
{
    struct owner owner;
    struct random random = {1};
    open_owner(&owner);
    push(&owner, "fails", 0);
    fail_once(&owner);
    owner.now.inner_ms += 2 * COLD_MS;
    owner.now.wall_ms += 2 * COLD_MS;
    uint32_t second = ++owner.rig->file;
    owner.rig->collect = (struct engine_collect){
        .before_file = second, .is_victim = rig_is_victim, .each = rig_each, .ctx = owner.rig};
    owner.rig->stage = RIG_COLLECTING;
    while (owner.rig->stage != RIG_INSTALLING)
        rig_checkpoint_step(owner.rig, &random, owner.now);
    fail_once(&owner); /* the second attempt, in a file that stays */
    while (owner.rig->stage != RIG_IDLE)
        rig_checkpoint_step(owner.rig, &random, owner.now);
    uint32_t third = ++owner.rig->file;
    reschedule(&owner, "fails", 2 * COLD_MS);
    checkpoint(&owner, third);
    crash(&owner);
    assert_int_equal(attempts_of(&owner, "fails"), 2);
    close_owner(&owner);
}

/* No record marks the end of a remembered id's window: after a restart its slot is there again. */
CLAIM(the_slot_of_an_id_pushed_again_after_its_window_is_released_when_met)
{
    struct owner owner;
    struct rig_slot *slot;
    struct record_place place;
    open_owner(&owner);
    put_topic(&owner, WINDOW_MS);
    push(&owner, "again", 0);
    answer(&owner, take(&owner), (struct queue_answer){.verb = QUEUE_ACK});
    checkpoint(&owner, ++owner.rig->file);
    owner.now.inner_ms += WINDOW_MS + 2;
    owner.now.wall_ms += WINDOW_MS + 2;
    engine_advance(owner.rig->engine, owner.now, 10);
    push(&owner, "again", COLD_MS);
    crash(&owner);

    struct engine_stats stats;
    engine_stats(owner.rig->engine, &stats);
    assert_int_equal(stats.remembered, 1); /* this is still unknown */
    slot = rig_find(owner.rig, engine_key(owner.rig->engine, topic_name(0), slice_of("again")),
                    &place);
    assert_non_null(slot);
    assert_int_equal(slot->section, SECTION_REMEMBERED);
    rig_load(owner.rig, slot, place, owner.now);
    assert_false(slot->alive);
    engine_stats(owner.rig->engine, &stats);
    assert_int_equal(stats.remembered, 0);
    assert_int_equal(shown(&owner).counts.delayed, 1);
    rig_load(owner.rig, slot, place, owner.now); /* a slice that was read before */
    assert_int_equal(shown(&owner).counts.delayed, 1);
    close_owner(&owner);
}

/* After a crash it has a slot again of an id whose time has passed: that id was not met yet when
 * the record of the removal goes. */
CLAIM(a_removed_topic_does_not_come_back_when_the_record_of_its_removal_goes)
{
    struct owner owner;
    open_owner(&owner);
    put_topic(&owner, WINDOW_MS);
    push(&owner, "done", 0);
    answer(&owner, take(&owner), (struct queue_answer){.verb = QUEUE_ACK});
    checkpoint(&owner, ++owner.rig->file);
    owner.now.inner_ms += WINDOW_MS + 2;
    owner.now.wall_ms += WINDOW_MS + 2;
    engine_advance(owner.rig->engine, owner.now, 10);
    rig_load_due(owner.rig, 0, true, owner.now);
    assert_int_equal(engine_topic_remove(owner.rig->engine, topic_name(0)), QUEUE_OK);
    for (int i = 0; i < 2; i++) {
        crash(&owner);
        assert_int_equal(engine_topic_remove(owner.rig->engine, topic_name(0)), QUEUE_NOT_FOUND);
        checkpoint(&owner, ++owner.rig->file);
    }
    crash(&owner);
    assert_int_equal(engine_topic_remove(owner.rig->engine, topic_name(0)), QUEUE_NOT_FOUND);
    push(&owner, "anew", COLD_MS);
    assert_int_equal(shown(&owner).counts.delayed, 1);
    close_owner(&owner);
}

/* Its own slot must not be taken for an outlived one. */
CLAIM(the_slot_of_a_remembered_id_that_is_in_memory_stays)
{
    struct owner owner;
    struct rig_slot *slot;
    struct record_place place;
    open_owner(&owner);
    put_topic(&owner, WINDOW_MS);
    push(&owner, "done", 0);
    answer(&owner, take(&owner), (struct queue_answer){.verb = QUEUE_ACK});
    checkpoint(&owner, ++owner.rig->file);
    slot =
        rig_find(owner.rig, engine_key(owner.rig->engine, topic_name(0), slice_of("done")), &place);
    rig_load(owner.rig, slot, place, owner.now);
    assert_true(slot->alive);
    close_owner(&owner);
}

/* An item of one that is gone, or was replaced, is refused, so that its new slot is cleared. */
CLAIM(jobs_that_ended_during_a_checkpoint_are_not_installed)
{
    struct owner owner;
    struct random random = {1};
    struct queue_result result = {0};
    struct record_place place;
    open_owner(&owner);
    push(&owner, "one", COLD_MS);
    push(&owner, "two", COLD_MS);
    owner.rig->collect = (struct engine_collect){.before_file = ++owner.rig->file,
                                                 .is_victim = rig_is_victim,
                                                 .each = rig_each,
                                                 .ctx = owner.rig};
    owner.rig->stage = RIG_COLLECTING;
    while (owner.rig->stage != RIG_INSTALLING)
        rig_checkpoint_step(owner.rig, &random, owner.now);
    struct queue_change cancel = {
        .verb = QUEUE_CANCEL, .topic = topic_name(0), .id = slice_of("one")};
    engine_change(owner.rig->engine, &cancel, owner.now, &result);
    assert_int_equal(result.status, QUEUE_CANCELLED);
    while (owner.rig->stage != RIG_IDLE)
        rig_checkpoint_step(owner.rig, &random, owner.now);
    assert_null(
        rig_find(owner.rig, engine_key(owner.rig->engine, topic_name(0), slice_of("one")), &place));
    assert_non_null(
        rig_find(owner.rig, engine_key(owner.rig->engine, topic_name(0), slice_of("two")), &place));
    assert_false(engine_install(owner.rig->engine, 0, place, place, SECTION_DELAYED, 1));
    assert_false(engine_install(owner.rig->engine, 1000, place, place, SECTION_DELAYED, 1));
    crash(&owner);
    assert_int_equal(shown(&owner).counts.delayed, 1);
    close_owner(&owner);
}

/* A record of another job, or an end, is not this job's record. */
CLAIM(a_stub_takes_only_its_own_record)
{
    struct owner owner;
    struct hash128 key;
    struct record_place place;
    uint32_t at = 0;
    open_owner(&owner);
    push(&owner, "one", COLD_MS);
    push(&owner, "two", COLD_MS);
    checkpoint(&owner, ++owner.rig->file);
    reschedule(&owner, "one", 2 * COLD_MS);

    struct rig *rig = owner.rig;
    struct rig_slot *other =
        rig_find(rig, engine_key(rig->engine, topic_name(0), slice_of("two")), &place);
    struct record wrong = rig_decode(other->record);
    engine_free(rig->engine);
    rig->engine = rig_open(rig, owner.now);
    assert_true(
        engine_stored_begin(rig->engine, topic_name(0), rig->catalog.topics[0].stored, 0, 0));
    rig->replaying = true;
    rig_replay(rig);
    assert_true(engine_stub_next(rig->engine, &at, &key, &place));
    struct record end = {.kind = RECORD_DONE, .done = {.key = key, .topic = topic_name(0)}};
    assert_false(engine_stub_fill(rig->engine, at, &wrong, place));
    assert_false(engine_stub_fill(rig->engine, at, &end, place));
    rig_resolve(rig);
    rig->replaying = false;
    engine_start(rig->engine, 2);
    assert_int_equal(shown(&owner).counts.delayed, 2);
    close_owner(&owner);
}

static struct record last_record(struct owner *owner)
{
    const struct rig_file *file = &owner->rig->files[owner->rig->file];
    assert_true(file->count);
    return rig_decode(file->records[file->count - 1]);
}

static void assert_names(struct owner *owner, enum record_kind kind, struct record_place slot)
{
    struct record record = last_record(owner);
    assert_int_equal(record.kind, kind);
    assert_int_equal(record.from.file, slot.file);
    assert_int_equal(record.from.at, slot.at);
    assert_int_equal(record.from.bytes, slot.bytes);
}

/* So that a replay has nothing to look up. */
CLAIM(every_record_about_a_job_in_a_run_names_its_slot)
{
    struct owner owner;
    struct record_place slot, other;
    open_owner(&owner);
    push(&owner, "one", COLD_MS);
    push(&owner, "two", COLD_MS);
    checkpoint(&owner, ++owner.rig->file);
    struct engine *engine = owner.rig->engine;
    assert_non_null(rig_find(owner.rig, engine_key(engine, topic_name(0), slice_of("one")), &slot));
    assert_non_null(
        rig_find(owner.rig, engine_key(engine, topic_name(0), slice_of("two")), &other));
    reschedule(&owner, "one", 0);
    assert_names(&owner, RECORD_STATE, slot);
    struct engine_lease lease = take(&owner);
    assert_names(&owner, RECORD_STATE, slot);
    answer(&owner, lease, (struct queue_answer){.verb = QUEUE_ACK});
    assert_names(&owner, RECORD_DONE, slot);
    struct queue_result result = {0};
    struct queue_push again = {.topic = topic_name(0),
                               .id = slice_of("two"),
                               .priority = QUEUE_PRIORITY_UNSET,
                               .on_conflict = CONFLICT_REPLACE};
    engine_push(engine, &again, owner.now, &result);
    assert_int_equal(result.status, QUEUE_REPLACED);
    assert_names(&owner, RECORD_JOB, other);
    push(&owner, "one", COLD_MS); /* in the log now: there is nothing to name */
    assert_names(&owner, RECORD_JOB, (struct record_place){0});
    close_owner(&owner);
}

CLAIMS_MAIN(NULL, NULL)
