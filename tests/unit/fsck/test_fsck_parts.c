/* Findings for each kind of slot that a run can have, and for runs with a wrong header. */
#include "fsck_rig_run.h"
#include "unit/claim.h"

/* ---- a run with one of each ---- */

static const struct {
    enum job_section section;
    const char *named;
} kinds[] = {
    {SECTION_LEASED, "a leased job of topic 'parts'"},
    {SECTION_DELAYED, "a delayed job of topic 'parts', due 1970-01-01T00:01:40"},
    {SECTION_DELAYED_WALL, "a delayed job of topic 'parts', due 1970-01-01T00:01:41"},
    {SECTION_RETRYING, "a job to be retried of topic 'parts', due 1970-01-01T00:01:42"},
    {SECTION_RETRYING_WALL, "a job to be retried of topic 'parts', due 1970-01-01T00:01:43"},
    {SECTION_REMEMBERED, "a remembered id of topic 'parts', until 1970-01-01T00:01:44"},
    {SECTION_DEAD, "a dead job of topic 'parts', due 1970-01-01T00:01:45"},
};

enum { KINDS = sizeof kinds / sizeof *kinds, REMEMBERED = 5, DEAD = 6 };

static struct record remembered(const char *topic, const char *id, int64_t until_ms)
{
    return (struct record){
        .kind = RECORD_DONE,
        .done = {.key = hash_pair(slice_of(topic), slice_of(id), scene.manifest.hash_seed),
                 .reason = RECORD_ACKED,
                 .remember_until_ms = until_ms,
                 .topic = slice_of(topic),
                 .sequence = 500}};
}

static int make_kinds(void **state)
{
    int result = make_scene(state);

    begin_run(3);
    for (int i = 0; result == 0 && i < KINDS; i++) {
        struct record record =
            job_record("parts", kinds[i].named, JOB_DELAYED, 99000 + 1000 * i, 500);
        const char id[] = {(char)('a' + i), '\0'};

        record.job.id = slice_of(id);
        record.job.due_is_wall =
            kinds[i].section == SECTION_DELAYED_WALL || kinds[i].section == SECTION_RETRYING_WALL;
        record.job.attempt =
            kinds[i].section == SECTION_RETRYING || kinds[i].section == SECTION_RETRYING_WALL;
        if (kinds[i].section == SECTION_LEASED)
            record.job.state = JOB_LEASED;
        if (kinds[i].section == SECTION_DEAD)
            record.job.state = JOB_DEAD;
        if (kinds[i].section == SECTION_REMEMBERED)
            record = remembered("parts", id, 99000 + 1000 * i);
        add_to_run("parts", &record);
    }
    end_run();
    return result;
}

CLAIM_BETWEEN(every_kind_of_job_is_counted, make_kinds, remove_scene)
{
    const struct fsck_shard *shard = &scene.report.shard[0];

    expect_clean();
    assert_int_equal(shard->cold, 18 + 6);
    assert_int_equal(shard->remembered, 1);
    assert_int_equal(shard->leased, 1 + 1);
    assert_int_equal(shard->dead, 1 + 1);
    assert_int_equal(shard->delayed, 18 + 4);
}

CLAIM_BETWEEN(every_kind_of_damage_is_named, make_kinds, remove_scene)
{
    for (uint32_t i = 0; i < KINDS; i++) {
        const struct fsck_finding *found;

        flip(made.name, made.at[i] + 20);
        examine();
        found = the_finding("run/00000003.run", kinds[i].named);
        assert_int_equal(found->slot, i);
        assert_int_equal(found->at, made.at[i]);
        flip(made.name, made.at[i] + 20);
    }
    expect_clean();
}

CLAIM_BETWEEN(omitted_jobs_are_not_counted, make_kinds, remove_scene)
{
    const struct fsck_shard *shard = &scene.report.shard[0];

    flip(made.name, made.at[REMEMBERED] + 20);
    flip(made.name, made.at[DEAD] + 20);
    save();
    assert_int_equal(scene.report.finding_count, 2);
    expect_clean();
    assert_int_equal(shard->cold, 20 + 5);
    assert_int_equal(shard->remembered, 0);
    assert_int_equal(shard->dead, 1);
}

CLAIM_BETWEEN(wrong_byte_counts_of_dead_jobs_are_corrected, make_kinds, remove_scene)
{
    catalog_topic_of(slice_of("parts"))->dead_bytes += 7;
    renew_catalog();
    examine();
    assert_int_equal(
        the_finding("run/CATALOG-00000007", "dead jobs of topic 'parts' should have")->cure,
        FSCK_REPAIR);
    repair();
    expect_all_mended();
}

static void push_the_remembered_id(void)
{
    struct record record = job_record("parts", "f", JOB_DELAYED, 9, 3000);

    record.from = slot(3, REMEMBERED);
    append(&record);
}

CLAIM_BETWEEN(a_remembered_id_that_is_pushed_again_is_forgotten, make_kinds, remove_scene)
{
    write_log(push_the_remembered_id);
    expect_clean();
    assert_int_equal(scene.report.shard[0].remembered, 0);
}

static void lease_the_remembered_id(void)
{
    append(&(struct record){
        .kind = RECORD_STATE,
        .from = slot(7, 0), /* of a run that never counted: it is looked for by key */
        .state = {.key = hash_pair(slice_of("parts"), slice_of("f"), scene.manifest.hash_seed),
                  .state = JOB_LEASED}});
}

CLAIM_BETWEEN(a_remembered_id_is_not_taken_for_its_job, make_kinds, remove_scene)
{
    write_log(lease_the_remembered_id);
    examine();
    the_finding("wal/00000001.log", "stored nowhere");
    assert_int_equal(scene.report.shard[0].remembered, 1);
}

/* ---- unused bytes ---- */

CLAIM_BETWEEN(bytes_behind_the_records_are_worth_a_note, make_kinds, remove_scene)
{
    flip(made.name, made.at[made.slots] + 10);
    expect_clean();
    assert_int_equal(scene.report.note_count, 1);
    assert_non_null(strstr(scene.report.note[0].text, "run/00000003.run, byte "));
    assert_non_null(strstr(scene.report.note[0].text, "nothing is lost"));
}

static void job_of_nobody(void)
{
    push_to("orders", "alone", RECORD_PUSHED);
}

CLAIM_BETWEEN(a_catalog_without_runs_is_clean, make_kinds, remove_scene)
{
    const uint64_t generation = scene.catalog.generation + 1;
    const struct store_identity identity = scene.catalog.identity;

    forget_shard();
    catalog_fini(&scene.catalog);
    scene.catalog = (struct catalog){.generation = generation,
                                     .identity = identity,
                                     .seed = SEED,
                                     .next_run = 1,
                                     .next_keys = 1,
                                     .log_first = 0};
    write_catalog();
    write_log(job_of_nobody);
    expect_clean();
    assert_int_equal(scene.report.shard[0].generation, generation);
    assert_int_equal(scene.report.shard[0].delayed, 1);
    assert_int_equal(scene.report.shard[0].cold, 0);
}

/* ---- records and slots that do not go together ---- */

CLAIM_BETWEEN(records_that_differ_from_their_slots_are_found, make_scene, remove_scene)
{
    static const char *const found[] = {
        "a job is stored in an invalid state",
        "a job is stored in an invalid state",
        "the record belongs to another part of the run",
        "the record has another time than its slot",
        "the record has another sequence than its slot",
        "the record has another topic than its slot",
        "the record has another topic than its slot",
        "the record belongs to another part of the run",
        "the record has another group than its slot",
    };
    struct record record = job_record("parts", "0", JOB_DELAYED, 100, 10), ended;

    begin_run(3);
    add_as(SECTION_DELAYED, 100, 10, "parts", &record);
    record.job.state = JOB_READY;
    add_as(SECTION_DELAYED, 100, 10, "parts", &record);
    record.job.state = JOB_FINISHED;
    add_as(SECTION_DELAYED, 100, 10, "parts", &record);
    record.job.state = JOB_LEASED;
    add_as(SECTION_DELAYED, 100, 10, "parts", &record);
    record.job.state = JOB_DELAYED;
    add_as(SECTION_DELAYED, 101, 10, "parts", &record);
    record.job.due_ms = record.job.first_due_ms = 101;
    add_as(SECTION_DELAYED, 101, 11, "parts", &record);
    record.job.due_ms = record.job.first_due_ms = 102;
    add_as(SECTION_DELAYED, 102, 10, "party", &record);
    add_as(SECTION_DELAYED, 102, 10, "parties", &record);
    ended = remembered("parts", "1", 103);
    add_as(SECTION_DELAYED, 103, 500, "parts", &ended);
    record.job.due_ms = record.job.first_due_ms = 104;
    record.job.group = slice_of("shop-7");
    add_as(SECTION_DELAYED, 104, 10, "parts", &record);
    end_run();
    examine();
    assert_int_equal(scene.report.finding_count, sizeof found / sizeof *found);
    for (uint32_t i = 0; i < sizeof found / sizeof *found; i++) {
        assert_int_equal(finding(i, found[i])->slot, i + 1);
        assert_int_equal(scene.report.finding[i].cure, FSCK_RESTORE);
    }
}

/* Encodes a state of as many bytes as the slot has. */
static void encode_state(uint32_t bytes, char *into)
{
    static char text[600];
    struct record record = {.kind = RECORD_STATE, .state = {.state = JOB_LEASED}};
    size_t len = 0;

    memset(text, 'e', sizeof text);
    for (size_t error_bytes = 1; len != bytes && error_bytes < sizeof text; error_bytes++) {
        record.state.error = slice_make(text, error_bytes);
        len = record_encode(&record, into);
    }
    assert_int_equal(len, bytes);
}

CLAIM_BETWEEN(a_valid_record_of_another_kind_is_damage, make_kinds, remove_scene)
{
    char bytes[1024];

    encode_state(made.bytes[1], bytes);
    replace_record(1, bytes);
    read_run(made.at[2], bytes, made.bytes[2]);
    bytes[6] = (char)0xff; /* no such form */
    replace_record(2, bytes);
    remove_file("00000003.keys");
    repair(); /* the new table has the others */
    assert_int_equal(scene.report.finding_count, 3);
    assert_int_equal(finding(0, "the record is damaged: a delayed job")->slot, 1);
    assert_int_equal(finding(1, "the record is damaged: a delayed job")->slot, 2);
    assert_int_equal(scene.report.mended, 1);
    save();
    assert_int_equal(scene.report.finding_count, 2);
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 20 + 4);
}

CLAIM_BETWEEN(a_run_with_a_wrong_length_is_lost_as_a_whole, make_kinds, remove_scene)
{
    struct catalog_run *run = &scene.catalog.runs[2];

    free(run->alive);
    set_alive(run, 3, KINDS + 1, UINT32_MAX);
    renew_catalog();
    examine();
    assert_int_equal(finding(0, "it has 7 slots, and the catalog has 8; 8 jobs are in it")->cure,
                     FSCK_SALVAGE);
    repair();
    assert_true(is_there("00000003.run"));
    save();
    expect_clean();
    assert_int_equal(scene.report.shard[0].cold, 20);
}

CLAIMS_MAIN(NULL, NULL)
