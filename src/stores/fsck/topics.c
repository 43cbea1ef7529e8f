/* Counts of the topics: as recorded in the catalog, and as they are. */
#include "fsck/exam.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t *place_of(const struct fsck_topics *topics, struct slice name)
{
    uint32_t at = (uint32_t)hash_pair(name, (struct slice){0}, 0).low & topics->mask;

    while (topics->table[at] && !slice_is(name, topics->at[topics->table[at] - 1].name))
        at = (at + 1) & topics->mask;
    return &topics->table[at];
}

struct fsck_topic *fsck_topics_find(const struct fsck_topics *topics, struct slice name)
{
    uint32_t *place = topics->count ? place_of(topics, name) : NULL;

    return place && *place ? &topics->at[*place - 1] : NULL;
}

static bool grow(struct fsck_topics *topics)
{
    uint32_t cap = topics->cap ? topics->cap * 2 : 64;
    struct fsck_topic *at = realloc(topics->at, cap * sizeof *at);
    uint32_t *table;

    if (!at)
        return false;
    topics->at = at;
    table = calloc(cap * 2, sizeof *table);
    if (!table)
        return false;
    free(topics->table);
    topics->table = table;
    topics->mask = cap * 2 - 1;
    topics->cap = cap;
    for (uint32_t i = 0; i < topics->count; i++)
        *place_of(topics, slice_of(at[i].name)) = i + 1;
    return true;
}

struct fsck_topic *fsck_topics_of(struct fsck_topics *topics, struct slice name)
{
    uint32_t *place;

    if (topics->count == topics->cap && !grow(topics))
        return NULL;
    place = place_of(topics, name);
    if (!*place) {
        struct fsck_topic *topic = &topics->at[topics->count++];

        *topic = (struct fsck_topic){0};
        memcpy(topic->name, name.at,
               name.len < sizeof topic->name ? name.len : sizeof topic->name - 1);
        *place = topics->count;
    }
    return &topics->at[*place - 1];
}

void fsck_topics_fini(struct fsck_topics *topics)
{
    free(topics->at);
    free(topics->table);
    *topics = (struct fsck_topics){0};
}

int fsck_topics_load(struct fsck_exam *exam)
{
    for (uint32_t i = 0; i < exam->catalog.topic_count; i++) {
        const struct catalog_topic *from = &exam->catalog.topics[i];
        struct fsck_topic *topic = fsck_topics_of(&exam->topics, from->name);

        if (!topic)
            return -ENOMEM;
        memcpy(topic->catalog, from->stored, sizeof topic->catalog);
        topic->catalog_dead_bytes = from->dead_bytes;
        topic->catalog_kept_bytes = from->kept_bytes;
    }
    return 0;
}

void fsck_topics_compare(struct fsck_exam *exam)
{
    static const char *const names[SECTIONS] = {
        [SECTION_LEASED] = "leased",
        [SECTION_DELAYED] = "delayed",
        [SECTION_DELAYED_WALL] = "timed",
        [SECTION_RETRYING] = "retrying",
        [SECTION_RETRYING_WALL] = "retrying at a time",
        [SECTION_REMEMBERED] = "remembered",
        [SECTION_KEPT] = "finished",
        [SECTION_DEAD] = "dead",
    };
    char name[32], file[48];

    if (exam->are_counts_unknown || (exam->has_lost && exam->options->salvage))
        return; /* nothing to compare with */
    catalog_file_name(exam->catalog.generation, name);
    snprintf(file, sizeof file, "run/%s", name);
    for (uint32_t i = 0; i < exam->topics.count; i++) {
        const struct fsck_topic *topic = &exam->topics.at[i];

        for (int section = 0; section < SECTIONS; section++)
            if (topic->stored[section] != topic->catalog[section]) {
                exam->are_counts_wrong = true;
                fsck_find(
                    exam, (struct fsck_where){.file = file, .slot = FSCK_NO_SLOT}, FSCK_REPAIR,
                    "topic '%s' should have %" PRIu64 " %s jobs in runs, and has %" PRIu64,
                    topic->name, topic->catalog[section], names[section], topic->stored[section]);
            }
        if (topic->dead_bytes != topic->catalog_dead_bytes) {
            exam->are_counts_wrong = true;
            fsck_find(exam, (struct fsck_where){.file = file, .slot = FSCK_NO_SLOT}, FSCK_REPAIR,
                      "the dead jobs of topic '%s' should have %" PRIu64
                      " bytes, and have %" PRIu64,
                      topic->name, topic->catalog_dead_bytes, topic->dead_bytes);
        }
        if (topic->kept_bytes != topic->catalog_kept_bytes) {
            exam->are_counts_wrong = true;
            fsck_find(exam, (struct fsck_where){.file = file, .slot = FSCK_NO_SLOT}, FSCK_REPAIR,
                      "the finished jobs of topic '%s' should have %" PRIu64
                      " bytes, and have %" PRIu64,
                      topic->name, topic->catalog_kept_bytes, topic->kept_bytes);
        }
    }
}

/* ---- jobs lost with unreadable runs and directory blocks ---- */

/* Returns the number of jobs that are not in any readable run. */
static uint64_t missing_of(const struct fsck_topic *topic, enum job_section section)
{
    const uint64_t known = topic->stored[section] + topic->given_up[section];

    return topic->catalog[section] > known ? topic->catalog[section] - known : 0;
}

static uint64_t missing_jobs(const struct fsck_topic *topic)
{
    uint64_t missing = 0;

    for (int section = 0; section < SECTIONS; section++)
        missing += section == SECTION_REMEMBERED ? 0 : missing_of(topic, (enum job_section)section);
    return missing;
}

void fsck_topics_report_lost(struct fsck_exam *exam)
{
    uint64_t lost = 0, missing = 0;

    for (uint32_t i = 0; i < exam->catalog.run_count; i++)
        lost += exam->runs[i].lost;
    for (uint32_t i = 0; i < exam->topics.count; i++) {
        lost -= exam->topics.at[i].lost; /* already reported */
        missing +=
            missing_jobs(&exam->topics.at[i]) + missing_of(&exam->topics.at[i], SECTION_REMEMBERED);
    }
    if (lost == 0)
        return;
    if (missing != lost) {
        fsck_note(exam, "the topics of the %" PRIu64 " unreadable jobs are unknown", lost);
        return;
    }
    for (uint32_t i = 0; i < exam->topics.count; i++) {
        const struct fsck_topic *topic = &exam->topics.at[i];
        const uint64_t jobs = missing_jobs(topic), ids = missing_of(topic, SECTION_REMEMBERED);

        if (jobs + ids)
            fsck_note(exam,
                      "in unreadable parts: topic '%s', jobs: %" PRIu64
                      ", remembered ids: %" PRIu64,
                      topic->name, jobs, ids);
    }
}
