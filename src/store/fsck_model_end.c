#include "store/fsck_model_private.h"

#include <inttypes.h>
#include <stdio.h>

int64_t fsck_model_missing(const struct fsck_model *model, const struct fsck_model_topic *topic)
{
    const struct topic_totals *totals = &topic->totals;

    if (!topic->is_known || model->is_unsure)
        return 0;
    return (int64_t)(totals->pushed - totals->acked - totals->cancelled - totals->expired -
                     fsck_model_jobs(model, topic));
}

static void check_topic(struct fsck_model *model, const struct fsck_model_topic *topic)
{
    const struct topic_totals *totals = &topic->totals;
    int64_t missing = fsck_model_missing(model, topic);
    uint64_t jobs = fsck_model_jobs(model, topic);
    char text[FSCK_TEXT_BYTES];

    if (missing == 0)
        return;
    model->cure = missing > 0 ? FSCK_ACCEPT_LOSS : FSCK_RESTORE;
    snprintf(text, sizeof text,
             "the totals of topic '%s' do not add up: %" PRIu64 " pushed, %" PRIu64
             " acked, %" PRIu64 " cancelled, %" PRIu64 " expired, but %" PRIu64 " there",
             topic->name, totals->pushed, totals->acked, totals->cancelled, totals->expired, jobs);
    model->complain(model->ctx, (struct record_place){0}, text);
}

/* Jobs in runs, but those whose state the log tells: these are counted by that. */
static void count_cold(const struct fsck_model *model, struct fsck_shard *out)
{
    for (int section = 0; model->base.alive_in && section < SECTIONS; section++) {
        uint64_t alive = model->base.alive_in(model->base.ctx, (enum job_section)section);
        uint64_t left = alive > model->loaded[section] ? alive - model->loaded[section] : 0;

        if (section == SECTION_REMEMBERED) {
            out->remembered += alive;
            continue;
        }
        out->cold += alive;
        *(section == SECTION_LEASED ? &out->leased
          : section == SECTION_DEAD ? &out->dead
                                    : &out->delayed) += left;
    }
}

void fsck_model_end(struct fsck_model *model, struct fsck_shard *out)
{
    count_cold(model, out);
    for (size_t i = 0; model->table && i <= model->mask; i++) {
        const struct fsck_known *known = &model->table[i];

        out->delayed += known->state == JOB_DELAYED;
        out->leased += known->state == JOB_LEASED;
        out->dead += known->state == JOB_DEAD;
        model->cure = model->topic_count ? FSCK_ACCEPT_LOSS : FSCK_RESTORE;
        if (known->state == FSCK_STRAY)
            model->complain(model->ctx, known->place, "the state of a job changes that is nowhere");
    }
    for (uint32_t i = 0; i < model->topic_count; i++) {
        out->topics += model->topics[i].exists;
        check_topic(model, &model->topics[i]);
    }
}

enum fsck_cure fsck_model_cure(const struct fsck_model *model)
{
    return model->cure;
}

/* The next one from *at on that is known to be nowhere; NULL: no more. */
static const struct fsck_known *next_orphan(const struct fsck_model *model, size_t *at)
{
    while (model->table && *at <= model->mask) {
        const struct fsck_known *known = &model->table[(*at)++];

        if (known->state == FSCK_STRAY)
            return known;
    }
    return NULL;
}

/* An end names a topic: where the log knows of none, orphans cannot be ended. */
bool fsck_model_has_losses(const struct fsck_model *model)
{
    size_t at = 0;

    if (model->topic_count && next_orphan(model, &at))
        return true;
    for (uint32_t i = 0; i < model->topic_count; i++)
        if (fsck_model_missing(model, &model->topics[i]) > 0)
            return true;
    return false;
}

/* Of a orphan one the topic is not known: any that misses one will do. */
bool fsck_model_losses(const struct fsck_model *model,
                       bool (*each)(void *ctx, const struct fsck_loss *loss), void *ctx)
{
    size_t at = 0;
    const struct fsck_known *orphan = next_orphan(model, &at);
    struct fsck_loss loss;

    for (uint32_t i = 0; i < model->topic_count; i++)
        for (int64_t left = fsck_model_missing(model, &model->topics[i]); left > 0; left--) {
            loss = (struct fsck_loss){.topic = slice_of(model->topics[i].name), .is_counted = true};
            if (orphan) {
                loss.key = orphan->key;
                loss.is_named = true;
                orphan = next_orphan(model, &at);
            }
            if (!each(ctx, &loss))
                return false;
        }
    for (; orphan; orphan = next_orphan(model, &at)) {
        loss = (struct fsck_loss){
            .key = orphan->key, .is_named = true, .topic = slice_of(model->topics[0].name)};
        if (!each(ctx, &loss))
            return false;
    }
    return true;
}
