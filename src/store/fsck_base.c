#include "store/fsck_private.h"

#include <errno.h>
#include <stdlib.h>

enum { HITS_MAX = 64 };

/* ---- slots ---- */

/* All of it was read a moment ago: what fails now would be taken for dead. */
static bool failed(struct fsck_exam *exam, int result, const char *what)
{
    exam->has_no_memory |= result == -ENOMEM;
    if (result < 0)
        fsck_unread(exam, what);
    return result < 0;
}

static bool slot_of(struct fsck_exam *exam, const struct fsck_run_exam *run, uint32_t slot,
                    struct run_slot *out)
{
    return !failed(exam, run_slots(run->run, slot, 1, true, out), "a run's directory");
}

static enum fsck_slot on_look(void *ctx, struct record_place place, enum job_section *section,
                              struct slice *topic)
{
    struct fsck_exam *exam = ctx;
    const uint32_t number = record_place_run(place);
    const struct fsck_run_exam *run = fsck_run_of(exam, number);
    struct run_slot entry;

    *topic = (struct slice){0};
    if (!run)
        return number >= exam->catalog.next_run ? FSCK_SLOT_UNKNOWN : FSCK_SLOT_DEAD;
    if (!run->run || place.at >= run->pending.slots || !slot_of(exam, run, place.at, &entry))
        return FSCK_SLOT_DEAD;
    *section = run_section_of(run->run, place.at);
    *topic = run_topic_name(run->run, entry.topic);
    return alive_test(&run->pending, place.at) ? FSCK_SLOT_ALIVE : FSCK_SLOT_DEAD;
}

static void on_release(void *ctx, struct record_place place)
{
    struct fsck_exam *exam = ctx;
    struct fsck_run_exam *run = fsck_run_of(exam, record_place_run(place));
    enum job_section section;
    struct slice name;

    if (on_look(ctx, place, &section, &name) != FSCK_SLOT_ALIVE)
        return;
    alive_clear(&run->pending, place.at);
    exam->cold[section]--;
    fsck_topics_find(&exam->topics, name)->cold[section]--; /* its slots were counted there */
}

/* ---- by key ---- */

/* Whether that slot is alive and holds the job. */
static bool holds(struct fsck_exam *exam, const struct keys_entry *hit, struct hash128 key,
                  struct buffer *scratch, struct record_place *place)
{
    struct fsck_run_exam *run = fsck_run_of(exam, hit->run);
    struct record record;
    struct hash128 found;
    struct slice bytes;

    if (!run || !run->run || hit->slot >= run->pending.slots ||
        !alive_test(&run->pending, hit->slot))
        return false;
    if (failed(exam, run_read(run->run, hit->slot, 0, true, scratch, &bytes), "a record of a run"))
        return false;
    if (!fsck_decode(bytes, &record) || record.kind != RECORD_JOB)
        return false;
    found = fsck_key_of(exam, &record);
    *place = (struct record_place){
        .file = hit->run | RECORD_IN_RUN, .at = hit->slot, .bytes = (uint32_t)bytes.len};
    return memcmp(&found, &key, sizeof key) == 0;
}

static int on_find(void *ctx, struct hash128 key, struct record_place *place)
{
    struct fsck_exam *exam = ctx;
    struct keys_entry hits[HITS_MAX];
    struct buffer scratch;
    int result = 0;

    buffer_init(&scratch, 64 << 20);
    for (uint32_t i = 0; result == 0 && i < exam->catalog.key_count; i++) {
        int count = -1;

        if (exam->tables[i] && !keys_maybe(exam->tables[i], key.low))
            continue;
        if (exam->tables[i])
            count = keys_find(exam->tables[i], key.low, true, hits, HITS_MAX);
        result = failed(exam, count, "a table of keys") ? -1 : 0;
        for (int hit = 0; result == 0 && hit < count; hit++)
            result = holds(exam, &hits[hit], key, &scratch, place);
    }
    buffer_fini(&scratch);
    return result;
}

/* ---- sums ---- */

static uint64_t on_jobs_of(void *ctx, struct slice name)
{
    struct fsck_exam *exam = ctx;
    const struct fsck_topic *topic = fsck_topics_find(&exam->topics, name);
    uint64_t jobs = 0;

    for (int section = 0; topic && section < SECTIONS; section++)
        jobs += section == SECTION_REMEMBERED ? 0 : topic->cold[section];
    return jobs;
}

static uint64_t on_alive_in(void *ctx, enum job_section section)
{
    return ((struct fsck_exam *)ctx)->cold[section];
}

/* The log's own view of what is alive: what repair writes must not be ahead of the log. */
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

bool fsck_base_init(struct fsck_exam *exam, struct fsck_base *out)
{
    for (uint32_t i = 0; i < exam->catalog.run_count; i++)
        if (!copy_bits(&exam->runs[i]))
            return false;
    for (uint32_t i = 0; i < exam->topics.count; i++) {
        struct fsck_topic *topic = &exam->topics.at[i];

        memcpy(topic->cold, topic->stored, sizeof topic->cold);
        for (int section = 0; section < SECTIONS; section++)
            exam->cold[section] += topic->cold[section];
    }
    *out = (struct fsck_base){.look = on_look,
                              .release = on_release,
                              .find = on_find,
                              .jobs_of = on_jobs_of,
                              .alive_in = on_alive_in,
                              .ctx = exam};
    return true;
}
