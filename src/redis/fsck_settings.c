/*
 * A topic's settings and pause are the same in all shards; one that was lost comes back without,
 * with the first push. Servers set one shard after another: so a difference counts where it is
 * still the same a second later, and nothing is dropped from the topic meanwhile.
 */
#include "redis/fsck_private.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { WAIT_MS = 1200, VALUE_BYTES_MAX = 1 << 20, KEY_BYTES = REDIS_TAG_BYTES + 300 };

/* A topic in all shards. */
struct view {
    struct slice topic;
    struct buffer
        value[REDIS_SHARDS_MAX]; /* empty: not there; else the pause and, where there are any, the
                                  * length of the extension, that, and the settings */
    struct buffer cancelled[REDIS_SHARDS_MAX]; /* rises while a delete is at work */
};

static struct view *view_new(struct slice topic)
{
    struct view *view = calloc(1, sizeof *view);
    for (uint32_t i = 0; view && i < REDIS_SHARDS_MAX; i++) {
        buffer_init(&view->value[i], VALUE_BYTES_MAX);
        buffer_init(&view->cancelled[i], VALUE_BYTES_MAX);
    }
    if (view)
        view->topic = topic;
    return view;
}

static void view_free(struct view *view)
{
    for (uint32_t i = 0; view && i < REDIS_SHARDS_MAX; i++) {
        buffer_fini(&view->value[i]);
        buffer_fini(&view->cancelled[i]);
    }
    free(view);
}

static struct slice element_of(const redisReply *reply, size_t at)
{
    if (reply->type != REDIS_REPLY_ARRAY || at >= reply->elements ||
        reply->element[at]->type != REDIS_REPLY_STRING)
        return (struct slice){0};
    return slice_make(reply->element[at]->str, reply->element[at]->len);
}

/* As settings_here in check.lua has it. */
static void append_value(struct buffer *out, struct slice paused, struct slice settings,
                         struct slice extension)
{
    buffer_append_slice(out, paused);
    if (!paused.len || (!settings.len && !extension.len))
        return;
    buffer_append_byte(out, (char)(extension.len >> 8 & 255));
    buffer_append_byte(out, (char)(extension.len & 255));
    buffer_append_slice(out, extension);
    buffer_append_slice(out, settings);
}

static int read_shard(struct fsck *fsck, uint32_t shard, struct view *view)
{
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "%s:topic:%.*s", fsck->report->shard[shard].tag, (int)view->topic.len,
             view->topic.at);
    const struct slice words[] = {slice_of("HMGET"),     slice_of(key),
                                  slice_of("paused"),    slice_of("settings"),
                                  slice_of("extension"), slice_of("cancelled")};
    redisReply *reply;
    int result =
        fsck_ask(fsck, redis_slot_of(words[1]), words, sizeof words / sizeof words[0], &reply);
    if (result != 0)
        return result;
    append_value(&view->value[shard], element_of(reply, 0), element_of(reply, 1),
                 element_of(reply, 2));
    buffer_append_slice(&view->cancelled[shard], element_of(reply, 3));
    freeReplyObject(reply);
    return 0;
}

static int read_all(struct fsck *fsck, struct view *view)
{
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < fsck->report->shards; i++)
        if (fsck_names_have(&fsck->topics[i], view->topic))
            result = read_shard(fsck, i, view);
    return result;
}

static bool is_same(const struct fsck *fsck, const struct view *a, const struct view *b)
{
    for (uint32_t i = 0; i < fsck->report->shards; i++)
        if (!slice_equals(buffer_slice(&a->value[i]), buffer_slice(&b->value[i])) ||
            !slice_equals(buffer_slice(&a->cancelled[i]), buffer_slice(&b->cancelled[i])))
            return false;
    return true;
}

/* ---- what is wanted ---- */

static struct slice settings_in(const struct view *view, uint32_t shard)
{
    struct slice value = buffer_slice(&view->value[shard]);
    return value.len ? slice_make(value.at + 1, value.len - 1) : (struct slice){0};
}

/* Those most shards have, but for none: a shard that was lost has none. */
static struct slice wanted_settings(const struct fsck *fsck, const struct view *view)
{
    struct slice best = {0};
    uint32_t most = 0;
    for (uint32_t i = 0; i < fsck->report->shards; i++) {
        uint32_t alike = 0;
        for (uint32_t k = 0; k < fsck->report->shards; k++)
            alike += slice_equals(settings_in(view, i), settings_in(view, k));
        if (settings_in(view, i).len && alike > most) {
            most = alike;
            best = settings_in(view, i);
        }
    }
    return best;
}

/* By the shards that have these settings. */
static char wanted_pause(const struct fsck *fsck, const struct view *view, struct slice settings)
{
    int votes = 0;
    for (uint32_t i = 0; i < fsck->report->shards; i++)
        if (view->value[i].len && slice_equals(settings_in(view, i), settings))
            votes += view->value[i].at[0] == '1' ? 1 : -1;
    return votes >= 0 ? '1' : '0';
}

static void find_wanted(const struct fsck *fsck, const struct view *view, struct buffer *out)
{
    struct slice settings = wanted_settings(fsck, view);
    buffer_append_byte(out, wanted_pause(fsck, view, settings));
    buffer_append_slice(out, settings);
}

/* A topic that nobody set up is made in a shard by the first job there. */
static bool is_wrong(const struct view *view, uint32_t shard, struct slice wanted)
{
    struct slice value = buffer_slice(&view->value[shard]);
    return value.len ? !slice_equals(value, wanted) : !slice_is(wanted, "0");
}

static bool is_any_wrong(const struct fsck *fsck, const struct view *view)
{
    struct buffer wanted;
    bool wrong = false;
    buffer_init(&wanted, VALUE_BYTES_MAX);
    find_wanted(fsck, view, &wanted);
    for (uint32_t i = 0; i < fsck->report->shards; i++)
        wrong = wrong || is_wrong(view, i, buffer_slice(&wanted));
    buffer_fini(&wanted);
    return wrong;
}

/* ---- two looks ---- */

static bool gather_names(const struct fsck *fsck, struct fsck_names *all)
{
    for (uint32_t i = 0; i < fsck->report->shards; i++)
        for (size_t k = 0; k < fsck->topics[i].count; k++)
            if (!fsck_names_add(all, fsck->topics[i].at[k]))
                return false;
    return true;
}

static bool exists(const struct fsck *fsck, const struct view *view)
{
    for (uint32_t i = 0; i < fsck->report->shards; i++)
        if (view->value[i].len)
            return true;
    return false;
}

/* Keeps those in *views that differ between shards. */
static int look_first(struct fsck *fsck, const struct fsck_names *all, struct view **views,
                      size_t *count)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < all->count; i++) {
        struct view *view = view_new(all->at[i]);
        if (!view)
            return REDIS_REPORT(&fsck->error, -ENOMEM, "out of memory");
        result = read_all(fsck, view);
        if (result == 0 && exists(fsck, view) && is_any_wrong(fsck, view))
            views[(*count)++] = view;
        else
            view_free(view);
    }
    return result;
}

static int set_right(struct fsck *fsck, const struct view *view)
{
    struct buffer wanted;
    int result = 0;
    buffer_init(&wanted, VALUE_BYTES_MAX);
    find_wanted(fsck, view, &wanted);
    for (uint32_t i = 0; result == 0 && i < fsck->report->shards; i++) {
        const struct slice more[] = {buffer_slice(&view->value[i]), buffer_slice(&wanted)};
        if (is_wrong(view, i, more[1]))
            result = fsck_part(fsck, i, REDIS_CHECK, "settings", view->topic, more, 2);
    }
    buffer_fini(&wanted);
    return result;
}

static int look_again(struct fsck *fsck, const struct view *before)
{
    struct view *view = view_new(before->topic);
    if (!view)
        return REDIS_REPORT(&fsck->error, -ENOMEM, "out of memory");
    int result = read_all(fsck, view);
    if (result == 0 && is_same(fsck, before, view))
        result = set_right(fsck, view);
    view_free(view);
    return result;
}

int fsck_walk_settings(struct fsck *fsck)
{
    struct fsck_names all = {0};
    size_t count = 0;
    struct view **views = NULL;
    int result = 0;
    if (!gather_names(fsck, &all) || !(views = calloc(all.count + 1, sizeof(struct view *))))
        result = REDIS_REPORT(&fsck->error, -ENOMEM, "out of memory");
    if (result == 0)
        result = look_first(fsck, &all, views, &count);
    if (count)
        poll(NULL, 0, WAIT_MS);
    for (size_t i = 0; i < count; i++) {
        if (result == 0)
            result = look_again(fsck, views[i]);
        view_free(views[i]);
    }
    free(views);
    fsck_names_fini(&all);
    return result;
}
