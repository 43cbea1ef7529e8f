#include "fsck/replay.h"

#include "base/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { HITS_MAX = 64, RECORD_BYTES_MAX = 64 << 20 };

/* A topic that has a record in the log: its totals are complete. */
struct named_topic {
    struct table_entry entry;
    char name[JOB_TOPIC_BYTES_MAX + 1];
};
TABLE_DECLARE(named_topics, struct named_topic, entry)

/* A job whose state is in the log, but not the job itself, and the place of its last state. */
struct stray {
    struct table_entry entry;
    struct hash128 key;
    struct record_place place, slot;
};
TABLE_DECLARE(strays, struct stray, entry)

struct fsck_replay {
    struct fsck_exam *exam;
    struct engine *engine;
    struct engine_now now;
    bool is_whole;
    bool is_unsure; /* the number of alive slots may be wrong */
    struct named_topics named;
    struct strays strays;
    struct slice topic; /* topic of the current record */
    struct record_place place;
};

static void replay_find(const struct fsck_replay *replay, struct record_place place,
                        enum fsck_cure cure, const char *text)
{
    char name[32], path[48];

    wal_file_name(place.file, name);
    snprintf(path, sizeof path, "wal/%s", name);
    fsck_find(
        replay->exam,
        (struct fsck_where){.file = place.file ? path : NULL, .at = place.at, .slot = FSCK_NO_SLOT},
        cure, "%s", text);
}

/* Reports an inconsistency in the current record. After a gap many records are inconsistent. */
static void replay_complain(const struct fsck_replay *replay, const char *text)
{
    replay_find(replay, replay->place, FSCK_RESTORE, text);
}

/* ---- slots of runs ---- */

/* Returns whether a read failed. Everything was readable shortly before, so a slot that fails now
 * would be mistaken for dead. */
static bool has_failed(struct fsck_exam *exam, int result, const char *what)
{
    exam->has_no_memory |= result == -ENOMEM;
    if (result < 0)
        fsck_unread(exam, what);
    return result < 0;
}

/* An alive slot with its run, section and topic. */
struct live_slot {
    struct fsck_run_exam *run;
    enum job_section section;
    struct slice topic;
};

static bool find_live_slot(struct fsck_exam *exam, struct record_place place, struct live_slot *out)
{
    struct fsck_run_exam *run = fsck_run_of(exam, record_place_run(place));
    struct run_slot entry;

    if (!record_place_is_run(place) || !run || !run->run || place.at >= run->pending.slots ||
        !alive_test(&run->pending, place.at) ||
        has_failed(exam, run_slots(run->run, place.at, 1, true, &entry), "a run's directory"))
        return false;
    *out = (struct live_slot){.run = run,
                              .section = run_section_of(run->run, place.at),
                              .topic = run_topic_name(run->run, entry.topic)};
    return true;
}

/* Reads the slot's record. Returns 1 if it is the job with that key, 0 if not, or a negative value.
 * The record points into `scratch`. */
static int read_slot(struct fsck_exam *exam, struct hash128 key, struct record_place *place,
                     struct buffer *scratch, struct record *record)
{
    struct live_slot slot;
    struct hash128 found;
    struct slice bytes;

    if (!find_live_slot(exam, *place, &slot))
        return 0;
    if (has_failed(exam, run_read(slot.run->run, place->at, 0, true, scratch, &bytes),
                   "a record of a run"))
        return -EIO;
    if (!fsck_decode(bytes, record) || record->kind != RECORD_JOB)
        return 0;
    found = fsck_key_of(exam, record);
    place->bytes = (uint32_t)bytes.len;
    return memcmp(&found, &key, sizeof key) == 0 && slice_equals(record->job.topic, slot.topic);
}

/* Finds an alive slot that holds the job with this key. Returns 1 or 0, or a negative value if a
 * table cannot be searched. */
static int find_by_key(struct fsck_exam *exam, struct hash128 key, struct buffer *scratch,
                       struct record_place *place, struct record *record)
{
    struct keys_entry hits[HITS_MAX];
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < exam->catalog.key_count; i++) {
        int count = -1;

        if (exam->tables[i] && !keys_maybe(exam->tables[i], key.low))
            continue;
        if (exam->tables[i])
            count = keys_find(exam->tables[i], key.low, true, hits, HITS_MAX);
        result = has_failed(exam, count, "a table of keys") ? -1 : 0;
        for (int hit = 0; result == 0 && hit < count; hit++) {
            *place = (struct record_place){
                .file = hits[hit].run | RECORD_IN_RUN, .at = hits[hit].slot, .bytes = 1};
            result = read_slot(exam, key, place, scratch, record);
        }
    }
    return result;
}

static struct record_place found_slot(struct fsck_replay *replay, struct hash128 key)
{
    struct record_place place = {0};
    struct record record;
    struct buffer scratch;
    int result;

    buffer_init(&scratch, RECORD_BYTES_MAX);
    result = find_by_key(replay->exam, key, &scratch, &place, &record);
    buffer_fini(&scratch);
    replay->is_unsure |= result < 0;
    return result == 1 ? place : (struct record_place){0};
}

static void release(struct fsck_exam *exam, struct record_place place, const struct live_slot *slot)
{
    alive_clear(&slot->run->pending, place.at);
    exam->cold[slot->section]--;
    fsck_topics_find(&exam->topics, slot->topic)->cold[slot->section]--;
}

/* ---- callbacks of the engine ---- */

static struct record_place on_append(void *ctx, const struct record *record)
{
    struct fsck_exam *exam = ((struct fsck_replay *)ctx)->exam;

    return exam->append ? exam->append(exam->append_ctx, record) : (struct record_place){0};
}

/* Releases a slot. Only slots of the record's topic are released, since the engine counts them
 * there. */
static enum engine_slot on_release_slot(void *ctx, struct record_place place,
                                        enum job_section *section)
{
    struct fsck_replay *replay = ctx;
    struct live_slot slot;

    if (!find_live_slot(replay->exam, place, &slot))
        return SLOT_WAS_DEAD;
    if (!slice_equals(slot.topic, replay->topic)) {
        replay_complain(replay, "the record names a slot with a job of another topic");
        return SLOT_WAS_DEAD;
    }
    release(replay->exam, place, &slot);
    *section = slot.section;
    return SLOT_RELEASED;
}

static void on_topic(void *ctx, struct slice topic)
{
    (void)ctx, (void)topic;
}

/* ---- contents of the log ---- */

static bool is_notified(const struct fsck_replay *replay, struct slice name)
{
    return replay->is_whole || named_topics_find(&replay->named, name);
}

static bool note_notified(struct fsck_replay *replay, struct slice name)
{
    struct named_topic *topic;

    if (named_topics_find(&replay->named, name))
        return true;
    topic = calloc(1, sizeof *topic);
    if (!topic)
        return false;
    memcpy(topic->name, name.at, name.len < JOB_TOPIC_BYTES_MAX ? name.len : JOB_TOPIC_BYTES_MAX);
    topic->entry.key = slice_of(topic->name);
    named_topics_add(&replay->named, topic);
    return true;
}

static struct stray *find_stray(const struct fsck_replay *replay, struct hash128 key)
{
    return strays_find(&replay->strays, slice_make((const char *)&key, sizeof key));
}

static bool note_stray(struct fsck_replay *replay, struct hash128 key, struct record_place slot)
{
    struct stray *stray = find_stray(replay, key);

    if (!stray && (stray = calloc(1, sizeof *stray))) {
        stray->key = key;
        stray->entry.key = slice_make((const char *)&stray->key, sizeof stray->key);
        strays_add(&replay->strays, stray);
    }
    if (!stray)
        return false;
    stray->place = replay->place;
    if (slot.bytes)
        stray->slot = slot;
    return true;
}

/* Returns whether the engine has the job with this key at this point of the log. */
static bool has_job(struct fsck_replay *replay, struct hash128 key)
{
    const enum engine_known known = engine_known(replay->engine, key);
    const struct stray *stray = known == ENGINE_KNOWN_STATE ? find_stray(replay, key) : NULL;
    struct live_slot slot;

    return known == ENGINE_KNOWN_JOB || (stray && find_live_slot(replay->exam, stray->slot, &slot));
}

/* Returns the number of jobs in the topic's totals that do not exist; negative if there are more
 * jobs than in the totals. */
static int64_t missing_of(const struct queue_topic *topic)
{
    return (int64_t)(topic->totals.pushed - topic->totals.acked - topic->totals.cancelled -
                     topic->totals.expired - queue_counts_jobs(&topic->counts));
}

/* ---- records ---- */

static const char *const never_stored = "a job is stored in an invalid state";

/* Returns the slot below a record. If the record names a run that no catalog knows, the slot is
 * looked up by key. After a gap this also applies if the record names no slot, since the record
 * that ended the job there may be missing. */
static struct record_place known_slot(struct fsck_replay *replay, struct record_place from,
                                      struct hash128 key)
{
    if (!from.bytes && replay->is_unsure && engine_known(replay->engine, key) != ENGINE_KNOWN_JOB)
        return found_slot(replay, key);
    if (!from.bytes || !record_place_is_run(from) ||
        record_place_run(from) < replay->exam->catalog.next_run)
        return from;
    return found_slot(replay, key);
}

/* Checks that the key belongs to this shard. */
static void check_key(const struct fsck_replay *replay, struct hash128 key, struct slice topic)
{
    char name[32], path[48];

    wal_file_name(replay->place.file, name);
    snprintf(path, sizeof path, "wal/%s", name);
    fsck_owner_check(
        replay->exam,
        (struct fsck_where){.file = path, .at = replay->place.at, .slot = FSCK_NO_SLOT}, key,
        topic);
}

static bool replay_job(struct fsck_replay *replay, struct record *record)
{
    const struct hash128 key = fsck_key_of(replay->exam, record);
    const bool was_there = has_job(replay, key);

    check_key(replay, key, record->job.topic);
    if (record->job.state == JOB_READY || record->job.state == JOB_FINISHED) {
        replay_complain(replay, never_stored);
        record->job.state = JOB_DELAYED;
    }
    if (record->origin == RECORD_PUSHED && was_there)
        replay_complain(replay, "a job is pushed as new that exists already");
    if (record->origin != RECORD_PUSHED && !was_there && replay->is_whole)
        replay_complain(replay, "a job is replaced or carried forward that does not exist");
    record->from = known_slot(replay, record->from, key);
    replay->topic = record->job.topic;
    return engine_replay(replay->engine, record, replay->place);
}

static bool replay_state(struct fsck_replay *replay, struct record *record)
{
    const struct hash128 key = record->state.key;
    const enum engine_known known = engine_known(replay->engine, key);

    if (record->state.state == JOB_READY || record->state.state == JOB_FINISHED) {
        replay_complain(replay, never_stored);
        record->state.state = JOB_DELAYED;
    }
    if (known != ENGINE_KNOWN_JOB && replay->is_whole)
        replay_complain(replay, "the state of a job changes that does not exist");
    if (known == ENGINE_KNOWN_FINISHED)
        return true;
    record->from = known_slot(replay, record->from, key);
    if (known != ENGINE_KNOWN_JOB && !note_stray(replay, key, record->from))
        return false;
    return engine_replay(replay->engine, record, replay->place);
}

/* Evaluates the end of a job. A job that does not exist may be one that was missing before: a
 * repair by an older version ended such jobs this way. */
static void check_end(struct fsck_replay *replay, const struct record_done *done)
{
    struct queue_topic topic;

    if (has_job(replay, done->key) || !replay->is_whole)
        return;
    if (!engine_topic_show(replay->engine, done->topic, replay->now, &topic) ||
        missing_of(&topic) <= 0)
        replay_complain(replay, "a job ends that does not exist");
}

static bool replay_done(struct fsck_replay *replay, struct record *record)
{
    if (record->done.topic.len)
        check_key(replay, record->done.key, record->done.topic);
    if (!record->done.topic.len) {
        replay_complain(replay, "a job ends, and the record does not name its topic");
        return true;
    }
    if (!record->done.carried)
        check_end(replay, &record->done);
    record->from = known_slot(replay, record->from, record->done.key);
    replay->topic = record->done.topic;
    return engine_replay(replay->engine, record, replay->place);
}

static bool never_fell(const struct topic_totals *before, const struct topic_totals *after)
{
    return after->pushed >= before->pushed && after->acked >= before->acked &&
           after->cancelled >= before->cancelled && after->expired >= before->expired;
}

static bool replay_topic(struct fsck_replay *replay, struct record *record)
{
    const struct record_topic *about = &record->topic;
    struct queue_topic topic;
    const bool is_there = engine_topic_show(replay->engine, about->topic, replay->now, &topic);

    if (is_there && !about->exists && queue_counts_jobs(&topic.counts)) {
        if (!replay->is_unsure)
            replay_complain(replay, "a topic is removed that has jobs");
        return note_notified(replay, about->topic);
    }
    if (is_there && about->exists && is_notified(replay, about->topic) &&
        !never_fell(&topic.totals, &about->totals))
        replay_complain(replay, "a topic's totals fall");
    replay->topic = about->topic;
    return note_notified(replay, about->topic) &&
           engine_replay(replay->engine, record, replay->place);
}

bool fsck_replay_record(struct fsck_replay *replay, const struct record *record,
                        struct record_place place)
{
    static bool (*const replay_one[])(struct fsck_replay *, struct record *) = {
        [RECORD_JOB] = replay_job,
        [RECORD_STATE] = replay_state,
        [RECORD_DONE] = replay_done,
        [RECORD_TOPIC] = replay_topic,
    };
    struct record copy = *record;

    if (record->kind == RECORD_GROUP || record->kind == RECORD_BATCH)
        return engine_replay(replay->engine, record, place);
    replay->place = place;
    return replay_one[record->kind](replay, &copy);
}

void fsck_replay_gap(struct fsck_replay *replay)
{
    replay->is_whole = false;
    replay->is_unsure = true;
}

/* ---- the end of the log ---- */

/* Ends a job that does not exist anywhere. Its topic is unknown, so any topic is used. */
static bool end_stray(struct fsck_replay *replay, struct hash128 key)
{
    struct queue_topic topic;
    uint32_t at = 0;
    const struct record record = {
        .kind = RECORD_DONE, .done = {.key = key, .reason = RECORD_CANCELLED, .carried = true}};
    struct record done = record;

    if (!engine_topic_next(replay->engine, &at, replay->now, &topic))
        return true;
    done.done.topic = topic.name;
    replay->topic = topic.name;
    return engine_replay(replay->engine, &done, (struct record_place){0});
}

/* Reads the job of a state from its run, as recovery does. Returns 1 if found, 0 if not, or a
 * negative value if a table cannot be searched. */
static int fill_stray(struct fsck_replay *replay, uint32_t id, struct hash128 key,
                      struct record_place place, struct buffer *scratch)
{
    struct record record;
    int found = read_slot(replay->exam, key, &place, scratch, &record);

    if (found == 0)
        found = find_by_key(replay->exam, key, scratch, &place, &record);
    if (found == 1 && !engine_stub_fill(replay->engine, id, &record, place))
        found = 0;
    return found;
}

static bool settle_strays(struct fsck_replay *replay)
{
    struct hash128 key;
    struct record_place place;
    struct buffer scratch;
    bool ok = true;

    buffer_init(&scratch, RECORD_BYTES_MAX);
    for (uint32_t at = 0; ok && engine_stub_next(replay->engine, &at, &key, &place);) {
        const struct stray *stray = find_stray(replay, key);
        const int found = fill_stray(replay, at, key, place, &scratch);

        if (found == 1)
            continue;
        replay->is_unsure |= found < 0;
        if (found == 0)
            replay_find(replay, stray ? stray->place : (struct record_place){0},
                        engine_topic_count(replay->engine) ? FSCK_SALVAGE : FSCK_RESTORE,
                        "the state of a job changes that is stored nowhere");
        ok = end_stray(replay, key);
    }
    buffer_fini(&scratch);
    return ok;
}

static void check_totals(const struct fsck_replay *replay, const struct queue_topic *topic)
{
    const struct topic_totals *totals = &topic->totals;
    char text[FSCK_TEXT_BYTES];

    if (!is_notified(replay, topic->name) || replay->is_unsure || missing_of(topic) == 0 ||
        (replay->exam->options->salvage && replay->exam->has_lost))
        return; /* each lost job was reported */
    snprintf(text, sizeof text,
             "the totals of topic '%.*s' do not add up: %" PRIu64 " pushed, %" PRIu64
             " acked, %" PRIu64 " cancelled, %" PRIu64 " expired, but %" PRIu64 " present",
             (int)topic->name.len, topic->name.at, totals->pushed, totals->acked, totals->cancelled,
             totals->expired, queue_counts_jobs(&topic->counts));
    replay_find(replay, (struct record_place){0},
                missing_of(topic) > 0 ? FSCK_SALVAGE : FSCK_RESTORE, text);
}

bool fsck_replay_end(struct fsck_replay *replay, struct fsck_shard *out)
{
    const struct fsck_exam *exam = replay->exam;
    struct engine_stats stats;
    struct queue_topic topic;
    bool ok = settle_strays(replay);

    engine_stats(replay->engine, &stats);
    out->delayed = stats.counts.delayed + stats.counts.retrying + stats.counts.ready;
    out->leased = stats.counts.leased;
    out->dead = stats.counts.dead;
    for (int section = 0; section < SECTIONS; section++)
        *(section == SECTION_REMEMBERED ? &out->remembered
          : section == SECTION_KEPT     ? &out->finished
                                        : &out->cold) += exam->cold[section];
    for (uint32_t at = 0; ok && engine_topic_next(replay->engine, &at, replay->now, &topic);) {
        out->topics++;
        check_totals(replay, &topic);
    }
    return ok && !exam->has_no_memory;
}

struct engine *fsck_replay_engine(struct fsck_replay *replay)
{
    return replay->engine;
}

struct engine_now fsck_replay_now(const struct fsck_replay *replay)
{
    return replay->now;
}

bool fsck_replay_topics(const struct fsck_replay *replay,
                        bool (*each)(void *ctx, const struct queue_topic *topic), void *ctx)
{
    struct queue_topic topic;

    for (uint32_t at = 0; engine_topic_next(replay->engine, &at, replay->now, &topic);)
        if (is_notified(replay, topic.name) && !each(ctx, &topic))
            return false;
    return true;
}

/* ---- creating and freeing ---- */

/* Copies the alive bits for the log's own view, because the bits that repair writes must not be
 * ahead of the log. */
static bool copy_bits(struct fsck_run_exam *run)
{
    char *bytes = malloc(alive_bytes(run->alive.slots) + 1);
    bool ok = bytes != NULL;

    if (ok) {
        alive_save(&run->alive, bytes);
        alive_fini(&run->pending);
        ok = alive_load(&run->pending, run->alive.slots, bytes);
    }
    free(bytes);
    return ok;
}

/* Passes the contents of the runs to the engine, as counted there, not as recorded in the
 * catalog. */
static bool report_runs(struct fsck_replay *replay)
{
    struct fsck_exam *exam = replay->exam;

    for (uint32_t i = 0; i < exam->catalog.run_count; i++)
        if (!copy_bits(&exam->runs[i]))
            return false;
    for (uint32_t i = 0; i < exam->topics.count; i++) {
        struct fsck_topic *topic = &exam->topics.at[i];
        uint64_t sum = 0;

        memcpy(topic->cold, topic->stored, sizeof topic->cold);
        for (int section = 0; section < SECTIONS; section++) {
            exam->cold[section] += topic->cold[section];
            sum += topic->cold[section];
        }
        if (sum && !engine_stored_begin(replay->engine, slice_of(topic->name), topic->stored,
                                        topic->dead_bytes, topic->kept_bytes))
            return false;
    }
    return true;
}

struct fsck_replay *fsck_replay_new(struct fsck_exam *exam, bool is_whole)
{
    struct fsck_replay *replay = calloc(1, sizeof *replay);
    const struct engine_options options = {.sink = {.append = on_append,
                                                    .release_slot = on_release_slot,
                                                    .ready = on_topic,
                                                    .died = on_topic,
                                                    .ctx = replay},
                                           .hash_seed = exam->hash_seed,
                                           .body_bytes_max = RECORD_BYTES_MAX,
                                           .topics_max = UINT32_MAX,
                                           .shards = exam->shards,
                                           .shard = exam->shard,
                                           .random_seed = 1,
                                           .now = {.skew_ms = exam->skew_ms}};

    if (!replay)
        return NULL;
    *replay = (struct fsck_replay){.exam = exam, .is_whole = is_whole, .now = options.now};
    replay->engine = engine_new(&options);
    if (replay->engine && report_runs(replay))
        return replay;
    fsck_replay_free(replay);
    return NULL;
}

void fsck_replay_free(struct fsck_replay *replay)
{
    if (!replay)
        return;
    engine_free(replay->engine);
    for (struct named_topic *topic = named_topics_first(&replay->named), *next; topic;
         topic = next) {
        next = named_topics_next(&replay->named, topic);
        free(topic);
    }
    for (struct stray *stray = strays_first(&replay->strays), *next; stray; stray = next) {
        next = strays_next(&replay->strays, stray);
        free(stray);
    }
    named_topics_fini(&replay->named);
    strays_fini(&replay->strays);
    free(replay);
}
