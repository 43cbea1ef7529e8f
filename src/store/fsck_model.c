#include "store/fsck_model_private.h"

#include <assert.h>
#include <stdlib.h>

/* ---- tables ---- */

static struct fsck_known *slot_of(const struct fsck_model *model, struct hash128 key)
{
    size_t at = key.low & model->mask;

    while (model->table[at].is_used && memcmp(&model->table[at].key, &key, sizeof key) != 0)
        at = (at + 1) & model->mask;
    return &model->table[at];
}

static bool grow(struct fsck_model *model)
{
    struct fsck_known *old = model->table;
    size_t count = model->table ? model->mask + 1 : 0;

    model->table = calloc(count ? count * 2 : 1024, sizeof *model->table);
    if (!model->table) {
        model->table = old;
        return false;
    }
    model->mask = (count ? count * 2 : 1024) - 1;
    for (size_t i = 0; i < count; i++)
        if (old[i].is_used && old[i].state)
            *slot_of(model, old[i].key) = old[i];
        else if (old[i].is_used)
            model->used--;
    free(old);
    return true;
}

/* Made where missing; NULL: out of memory. */
static struct fsck_known *known_of(struct fsck_model *model, struct hash128 key)
{
    struct fsck_known *known;

    if ((!model->table || 2 * (model->used + 1) > model->mask) && !grow(model))
        return NULL;
    known = slot_of(model, key);
    if (!known->is_used) {
        *known = (struct fsck_known){.key = key, .is_used = true};
        model->used++;
    }
    return known;
}

static uint32_t *topic_slot(const struct fsck_model *model, struct hash128 key)
{
    uint32_t at = (uint32_t)key.low & model->topic_mask;

    while (model->topic_table[at] && model->topics[model->topic_table[at] - 1].key.low != key.low)
        at = (at + 1) & model->topic_mask;
    return &model->topic_table[at];
}

static bool grow_topics(struct fsck_model *model)
{
    uint32_t cap = model->topic_cap ? model->topic_cap * 2 : 64;
    struct fsck_model_topic *topics = realloc(model->topics, cap * sizeof *topics);
    uint32_t *table;

    if (!topics)
        return false;
    model->topics = topics;
    table = calloc(cap * 2, sizeof *table);
    if (!table)
        return false;
    free(model->topic_table);
    model->topic_table = table;
    model->topic_mask = cap * 2 - 1;
    model->topic_cap = cap;
    for (uint32_t i = 0; i < model->topic_count; i++)
        *topic_slot(model, topics[i].key) = i + 1;
    return true;
}

/* Index + 1; 0: out of memory. */
static uint32_t topic_of(struct fsck_model *model, struct slice name)
{
    struct hash128 key = hash_pair(name, (struct slice){0}, 0);
    uint32_t *slot;

    if (model->last_topic && model->topics[model->last_topic - 1].key.low == key.low)
        return model->last_topic;
    if (model->topic_count == model->topic_cap && !grow_topics(model))
        return 0;
    slot = topic_slot(model, key);
    if (!*slot) {
        struct fsck_model_topic *topic = &model->topics[model->topic_count++];

        *topic = (struct fsck_model_topic){.key = key, .exists = true, .is_known = model->is_whole};
        memcpy(topic->name, name.at,
               name.len < sizeof topic->name ? name.len : sizeof topic->name - 1);
        *slot = model->topic_count;
    }
    return model->last_topic = *slot;
}

/* ---- records ---- */

static bool is_job(const struct fsck_known *known)
{
    return known->state && known->state < FSCK_STRAY;
}

/* ---- slots ---- */

static bool is_in_slot(const struct fsck_known *known)
{
    return is_job(known) && record_place_is_run(known->place);
}

/* The slot a record names does not count any more. What a crash kept from counting is looked for by
 * its key. False: no slot of the job was alive. */
static bool end_slot(struct fsck_model *model, struct hash128 key, struct record_place from)
{
    enum job_section section;
    struct slice topic;
    enum fsck_slot slot;

    if (!model->base.look || !from.bytes)
        return false;
    slot = model->base.look(model->base.ctx, from, &section, &topic);
    if (slot == FSCK_SLOT_UNKNOWN) {
        int found = model->base.find(model->base.ctx, key, &from);

        model->is_unsure |= found < 0;
        slot = found == 1 ? FSCK_SLOT_ALIVE : FSCK_SLOT_DEAD;
    }
    if (slot == FSCK_SLOT_ALIVE)
        model->base.release(model->base.ctx, from);
    return slot == FSCK_SLOT_ALIVE;
}

/* Before a job that was known is something else: its count, and its slot's. */
static void let_go(struct fsck_model *model, struct fsck_known *known)
{
    enum job_section section;
    struct slice topic;

    if (is_in_slot(known)) {
        if (model->base.look(model->base.ctx, known->place, &section, &topic) == FSCK_SLOT_ALIVE)
            model->loaded[section]--;
        end_slot(model, known->key, known->place);
    } else if (is_job(known)) {
        model->topics[known->topic - 1].jobs--;
    }
    known->state = 0;
}

static void set_job(struct fsck_model *model, struct fsck_known *known, uint32_t topic,
                    enum job_state state)
{
    let_go(model, known);
    known->topic = topic;
    known->state = (uint8_t)state;
    model->topics[topic - 1].jobs++;
}

/* The log tells the state of a job, but not the job: it may lie in a run. 1, 0; negative: out of
 * memory. */
static int load(struct fsck_model *model, struct fsck_known *known, struct record_place from)
{
    enum fsck_slot slot = FSCK_SLOT_DEAD;
    enum job_section section;
    struct slice name;
    uint32_t topic;
    int found;

    if (!model->base.look)
        return 0;
    if (from.bytes)
        slot = model->base.look(model->base.ctx, from, &section, &name);
    if (slot != FSCK_SLOT_ALIVE) {
        found = model->base.find(model->base.ctx, known->key, &from);
        if (found < 0)
            known->state = FSCK_UNSEEN;
        if (found != 1 ||
            model->base.look(model->base.ctx, from, &section, &name) != FSCK_SLOT_ALIVE)
            return 0;
    }
    topic = topic_of(model, name);
    if (!topic)
        return -1;
    known->topic = topic;
    known->place = from;
    model->loaded[section]++;
    return 1;
}

static bool apply_job(struct fsck_model *model, const struct record *record,
                      struct record_place place)
{
    const struct job *job = &record->job;
    struct fsck_known *known = known_of(model, hash_pair(job->topic, job->id, model->hash_seed));
    uint32_t topic = topic_of(model, job->topic);
    bool was_there;

    if (!known || !topic)
        return false;
    was_there = is_job(known);
    let_go(model, known);
    was_there |= end_slot(model, known->key, record->from) && record->origin != RECORD_PUSHED;
    if (job->state == JOB_READY || job->state == JOB_FINISHED)
        model->complain(model->ctx, place, "a job is stored in a state that is never stored");
    if (record->origin == RECORD_PUSHED && was_there)
        model->complain(model->ctx, place, "a job is pushed as new that is there already");
    if (record->origin != RECORD_PUSHED && !was_there && model->is_whole)
        model->complain(model->ctx, place,
                        "a job is replaced or carried forward that is not there");
    if (record->origin == RECORD_PUSHED)
        model->topics[topic - 1].totals.pushed++;
    model->topics[topic - 1].exists = true;
    set_job(model, known, topic, job->state);
    known->place = place;
    return true;
}

static bool apply_state(struct fsck_model *model, const struct record *record,
                        struct record_place place)
{
    const struct record_state *state = &record->state;
    struct fsck_known *known = known_of(model, state->key);
    int loaded = 0;

    if (!known || (!is_job(known) && (loaded = load(model, known, record->from)) < 0))
        return false;
    if (state->state == JOB_READY || state->state == JOB_FINISHED)
        model->complain(model->ctx, place, "a job is stored in a state that is never stored");
    if (loaded || is_job(known)) {
        known->state = (uint8_t)state->state;
    } else if (known->state == FSCK_UNSEEN) {
        model->is_unsure = true;
    } else {
        if (model->is_whole)
            model->complain(model->ctx, place, "the state of a job changes that is not there");
        known->state = FSCK_STRAY;
    }
    if (!is_in_slot(known))
        known->place = place;
    return true;
}

static void count_end(struct topic_totals *totals, enum record_reason reason)
{
    totals->acked += reason == RECORD_ACKED;
    totals->expired += reason == RECORD_EXPIRED;
    totals->cancelled += reason == RECORD_CANCELLED || reason == RECORD_PURGED;
}

/* One that is not there may be one that was missed: repair ends these so. */
static void end_of_topic(struct fsck_model *model, struct fsck_model_topic *topic,
                         enum record_reason reason, bool is_there, struct record_place place)
{
    if (!is_there && model->is_whole && fsck_model_missing(model, topic) <= 0)
        model->complain(model->ctx, place, "a job ends that is not there");
    count_end(&topic->totals, reason);
}

static bool apply_done(struct fsck_model *model, const struct record *record,
                       struct record_place place)
{
    const struct record_done *done = &record->done;
    struct fsck_known *known = known_of(model, done->key);
    uint32_t topic = 0;

    if (!known || (done->topic.len && !(topic = topic_of(model, done->topic))))
        return false;
    if (!topic) {
        model->complain(model->ctx, place, "a job ends, and of which topic is not said");
    } else if (!done->carried) {
        end_of_topic(model, &model->topics[topic - 1], done->reason, is_job(known), place);
    }
    let_go(model, known);
    end_slot(model, done->key, record->from);
    known->topic = 0;
    known->place = place;
    return true;
}

static bool never_fell(const struct topic_totals *before, const struct topic_totals *after)
{
    return after->pushed >= before->pushed && after->acked >= before->acked &&
           after->cancelled >= before->cancelled && after->expired >= before->expired;
}

uint64_t fsck_model_jobs(const struct fsck_model *model, const struct fsck_model_topic *topic)
{
    uint64_t cold =
        model->base.jobs_of ? model->base.jobs_of(model->base.ctx, slice_of(topic->name)) : 0;

    return topic->jobs + cold;
}

uint64_t fsck_settings_hash(const struct topic_settings *settings)
{
    enum { BESIDE_BYTES = 512 };
    const struct record record = {
        .kind = RECORD_TOPIC,
        .topic = {.topic = slice_of("t"), .exists = true, .settings = *settings}};
    char bytes[TOPIC_EXTENSION_BYTES_MAX + BESIDE_BYTES];

    assert(record_bytes_max(&record) <= sizeof bytes);
    return hash_64(bytes, record_encode(&record, bytes));
}

bool fsck_model_topics(const struct fsck_model *model,
                       bool (*each)(void *ctx, const struct fsck_said *said), void *ctx)
{
    for (uint32_t i = 0; i < model->topic_count; i++) {
        const struct fsck_model_topic *topic = &model->topics[i];
        const struct fsck_said said = {.topic = slice_of(topic->name),
                                       .settings = topic->settings,
                                       .paused = topic->paused,
                                       .deleting = topic->deleting};

        if (topic->exists && topic->is_known && !each(ctx, &said))
            return false;
    }
    return true;
}

static bool apply_topic(struct fsck_model *model, const struct record *about,
                        struct record_place place)
{
    const struct record_topic *record = &about->topic;
    uint32_t index = topic_of(model, record->topic);
    struct fsck_model_topic *topic;

    if (!index)
        return false;
    topic = &model->topics[index - 1];
    if (!record->exists) {
        if (fsck_model_jobs(model, topic) && !model->is_unsure)
            model->complain(model->ctx, place, "a topic is removed that has jobs");
        topic->totals = (struct topic_totals){0};
    } else {
        if (topic->is_known && !never_fell(&topic->totals, &record->totals))
            model->complain(model->ctx, place, "a topic's totals fall");
        topic->totals = record->totals;
    }
    topic->exists = record->exists;
    topic->is_known = true;
    topic->settings = fsck_settings_hash(&record->settings);
    topic->paused = record->paused;
    topic->deleting = record->deleting;
    return true;
}

bool fsck_model_apply(struct fsck_model *model, const struct record *record,
                      struct record_place place)
{
    static bool (*const apply[])(struct fsck_model *, const struct record *,
                                 struct record_place) = {
        [RECORD_JOB] = apply_job,
        [RECORD_STATE] = apply_state,
        [RECORD_DONE] = apply_done,
        [RECORD_TOPIC] = apply_topic,
    };

    return apply[record->kind](model, record, place);
}

/* ---- life ---- */

struct fsck_model *fsck_model_new(uint64_t hash_seed, bool is_whole, const struct fsck_base *base,
                                  void (*complain)(void *ctx, struct record_place place,
                                                   const char *text),
                                  void *ctx)
{
    struct fsck_model *model = calloc(1, sizeof *model);

    if (model)
        *model = (struct fsck_model){.hash_seed = hash_seed,
                                     .is_whole = is_whole,
                                     .base = *base,
                                     .cure = FSCK_RESTORE,
                                     .complain = complain,
                                     .ctx = ctx};
    return model;
}

void fsck_model_free(struct fsck_model *model)
{
    if (!model)
        return;
    free(model->table);
    free(model->topics);
    free(model->topic_table);
    free(model);
}
