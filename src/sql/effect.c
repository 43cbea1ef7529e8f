#include "sql/effect.h"

void sql_effects_clear(struct sql_effects *effects)
{
    effects->tallies.count = effects->news.count = effects->holds.count = 0;
    effects->expire_ms = INT64_MAX;
    effects->failed = false;
}

void sql_effects_fini(struct sql_effects *effects)
{
    sql_tallies_fini(&effects->tallies);
    sql_news_list_fini(&effects->news);
    sql_holds_fini(&effects->holds);
}

void sql_effects_count(struct sql_effects *effects, int64_t topic, const int64_t counts[SQL_COUNTS])
{
    struct sql_tallies *tallies = &effects->tallies;
    size_t i = tallies->count;
    bool is_nothing = true;
    for (int k = 0; k < SQL_COUNTS; k++)
        is_nothing = is_nothing && counts[k] == 0;
    if (is_nothing)
        return;
    while (i > 0 && tallies->at[i - 1].topic != topic)
        i--;
    if (i == 0) {
        if (!sql_tallies_add(tallies, (struct sql_tally){.topic = topic})) {
            effects->failed = true;
            return;
        }
        i = tallies->count;
    }
    for (int k = 0; k < SQL_COUNTS; k++)
        tallies->at[i - 1].counts[k] += counts[k];
}

struct sql_news *sql_effects_news(struct sql_effects *effects, struct slice topic)
{
    struct sql_news_list *list = &effects->news;
    struct sql_news news = {.due_ms = INT64_MAX};
    for (size_t i = list->count; i > 0; i--)
        if (slice_is(topic, list->at[i - 1].name))
            return &list->at[i - 1];
    if (topic.len >= sizeof news.name)
        return NULL;
    memcpy(news.name, topic.at, topic.len);
    if (!sql_news_list_add(list, news)) {
        effects->failed = true;
        return NULL;
    }
    return &list->at[list->count - 1];
}

void sql_effects_due(struct sql_effects *effects, struct slice topic, int64_t due_ms)
{
    struct sql_news *news = sql_effects_news(effects, topic);
    if (news && due_ms < news->due_ms)
        news->due_ms = due_ms;
}

void sql_effects_hold(struct sql_effects *effects, const struct sql_lease *lease, int64_t until_ms)
{
    struct sql_hold hold = {.lease = *lease, .until_ms = until_ms};
    if (!sql_holds_add(&effects->holds, hold))
        effects->failed = true;
}

void sql_effects_expire(struct sql_effects *effects, int64_t expire_ms)
{
    if (expire_ms && expire_ms < effects->expire_ms)
        effects->expire_ms = expire_ms;
}
