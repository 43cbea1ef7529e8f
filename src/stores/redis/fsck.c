/* The walk, in the order that repairs the most in one run: the number of shards; orphaned entries
 * are removed; each job is linked where it belongs; everything is counted; last, all shards must
 * agree on the settings of topics. */
#include "redis/fsck_run.h"
#include "redis/state.h"
#include "redis/tls.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the number of shards ----
 *
 * Compares "{prefix}:shards" with the cores. A shard's name depends on the number, so a core that
 * contains N and exists in the layout of N is a witness for N. */

enum { CORE_KEY_BYTES = REDIS_TAG_BYTES + 16 };

static int ask_text(struct fsck *fsck, const char *key, redisReply **out)
{
    const struct slice words[] = {slice_of("GET"), slice_of(key)};
    return fsck_ask(fsck, redis_slot_of(words[1]), words, 2, out);
}

/* Reads the number in the key; 0 if the key is missing or does not contain one (then *is_there). */
static int ask_number(struct fsck *fsck, const char *key, uint32_t *number, bool *is_there)
{
    redisReply *reply;
    int result = ask_text(fsck, key, &reply);
    if (result != 0)
        return result;
    *is_there = reply->type == REDIS_REPLY_STRING;
    struct redis_generation found = {0};
    bool is_one = *is_there && redis_generation_parse(slice_make(reply->str, reply->len), &found);
    *number = is_one ? found.shards : 0;
    fsck->generation = is_one ? found.number : 0;
    freeReplyObject(reply);
    return 0;
}

static int refuse_newer(struct fsck *fsck, const char *core, const struct redis_core_state *found)
{
    return REDIS_REPORT(&fsck->error, -EINVAL,
                        "'%s' has layout %u and this version reads up to %d, use the version "
                        "that wrote it, or a newer one",
                        core, (unsigned)found->layout, REDIS_LAYOUT);
}

/* Checks whether the core that exists with this number of shards confirms the number. */
static int ask_witness(struct fsck *fsck, uint32_t shard, uint32_t shards, uint32_t *witnesses)
{
    char tag[REDIS_TAG_BYTES], core[CORE_KEY_BYTES];
    struct redis_core_state found = {0};
    redisReply *reply;
    redis_slot_tag_of(fsck->url.prefix, fsck->generation, shard, shards, tag);
    snprintf(core, sizeof core, "%s:core", tag);
    int result = ask_text(fsck, core, &reply);
    if (result == -EBADMSG)
        return 0; /* a key of another type, which the check of the keys reports */
    if (result != 0)
        return result;
    bool is_core = reply->type == REDIS_REPLY_STRING &&
                   redis_core_state_read(slice_make(reply->str, reply->len), &found);
    freeReplyObject(reply);
    if (is_core && found.layout > REDIS_LAYOUT)
        return refuse_newer(fsck, core, &found);
    *witnesses += is_core && found.shards == shards;
    return 0;
}

static int count_witnesses(struct fsck *fsck, uint32_t shards, uint32_t *out)
{
    int result = 0;
    *out = 0;
    for (uint32_t i = 0; result == 0 && i < shards; i++)
        result = ask_witness(fsck, i, shards, out);
    return result;
}

/* Counts the witnesses among the first, middle and last shard, which are on three masters if there
 * are as many. */
static int count_some(struct fsck *fsck, uint32_t shards, uint32_t *out)
{
    const uint32_t some[] = {0, shards / 2, shards - 1};
    int result = 0;
    *out = 0;
    for (int i = 0; result == 0 && i < 3; i++)
        result = ask_witness(fsck, some[i], shards, out);
    return result;
}

/* Finds the number with the most witnesses; 0: no core was found. */
static int ask_cores(struct fsck *fsck, uint32_t *out,
                     int (*count)(struct fsck *fsck, uint32_t shards, uint32_t *witnesses))
{
    uint32_t most = 0;
    int result = 0;
    *out = 0;
    for (uint32_t shards = 1; result == 0 && shards <= REDIS_SHARDS_MAX; shards++) {
        uint32_t witnesses;
        result = count(fsck, shards, &witnesses);
        if (result == 0 && witnesses > most) {
            most = witnesses;
            *out = shards;
        }
    }
    return result;
}

static int write_number(struct fsck *fsck, const char *key, const char *number, bool is_there)
{
    const struct slice words[] = {slice_of("SET"), slice_of(key), slice_of(number),
                                  slice_of(is_there ? "XX" : "NX")};
    redisReply *reply;
    int result = fsck_ask(fsck, redis_slot_of(words[1]), words, 4, &reply);
    if (result == 0)
        freeReplyObject(reply);
    return result;
}

/* Reports, and with `repair` corrects, a key that is missing or contradicts the cores. */
static int write_number_right(struct fsck *fsck, const char *key, bool is_there, uint32_t stored,
                              uint32_t shards)
{
    const bool repairs = fsck->options->repair;
    char what[CORE_KEY_BYTES + 80], repair[32], number[16];
    snprintf(number, sizeof number, "%u", (unsigned)shards);
    if (!is_there)
        snprintf(what, sizeof what, "'%s' is missing, and the cores have %s", key, number);
    else if (!stored)
        snprintf(what, sizeof what, "'%s' is not a number of shards, and the cores have %s", key,
                 number);
    else
        snprintf(what, sizeof what, "'%s' has %u, and the cores have %s", key, (unsigned)stored,
                 number);
    snprintf(repair, sizeof repair, "set to %s", number);
    int result = repairs ? write_number(fsck, key, number, is_there) : 0;
    if (result == 0)
        fsck_found(fsck, -1, repairs ? REDIS_FSCK_MENDED : REDIS_FSCK_TO_MEND, slice_of(""),
                   slice_of(""), slice_of(what), slice_of(repair));
    return result;
}

/* Finds whether the first core of any layout exists, even if it does not contain the number. */
static int find_mute_core(struct fsck *fsck, bool *is_there)
{
    int result = 0;
    *is_there = false;
    for (uint32_t shards = 1; result == 0 && !*is_there && shards <= REDIS_SHARDS_MAX; shards++) {
        char tag[REDIS_TAG_BYTES], core[CORE_KEY_BYTES];
        redisReply *reply;
        redis_slot_tag(fsck->url.prefix, 0, shards, tag);
        snprintf(core, sizeof core, "%s:core", tag);
        const struct slice words[] = {slice_of("EXISTS"), slice_of(core)};
        result = fsck_ask(fsck, redis_slot_of(words[1]), words, 2, &reply);
        if (result != 0)
            break;
        *is_there = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
        freeReplyObject(reply);
    }
    return result;
}

static int refuse_unknown(struct fsck *fsck, const char *key, bool is_there)
{
    bool has_core;
    int result = find_mute_core(fsck, &has_core);
    if (result != 0)
        return result;
    if (has_core)
        return REDIS_REPORT(&fsck->error, -ENOENT,
                            "the number of shards is lost in '%s' and in the cores, start a server "
                            "with the previous --shards, and check again",
                            key);
    return REDIS_REPORT(&fsck->error, -ENOENT,
                        is_there ? "'%s' is not a number of shards and no core has it, another "
                                   "program may use these keys"
                                 : "no queue found: '%s' and all shards' cores are missing, check "
                                   "the database and the prefix of the URL",
                        key);
}

static int find_number(struct fsck *fsck, const char *key, uint32_t *shards)
{
    uint32_t stored, witnesses = 0, others = 0;
    bool is_there;
    int result = ask_number(fsck, key, &stored, &is_there);
    if (result == 0 && stored)
        result = count_witnesses(fsck, stored, &witnesses);
    if (result == 0 && !witnesses)
        result = ask_cores(fsck, &others, count_some);
    if (result == 0 && !stored && !others)
        result = ask_cores(fsck, &others, count_witnesses);
    if (result != 0)
        return result;
    *shards = others ? others : stored;
    if (*shards)
        return others ? write_number_right(fsck, key, is_there, stored, others) : 0;
    return refuse_unknown(fsck, key, is_there);
}

/* Refuses a check during a reshard: jobs that are moving are linked in neither shard. */
static int refuse_on_the_way(struct fsck *fsck)
{
    char core[CORE_KEY_BYTES];
    redisReply *reply;
    snprintf(core, sizeof core, "%s:core", fsck->report->shard[0].tag);
    int result = ask_text(fsck, core, &reply);
    if (result != 0)
        return result;
    struct redis_core_state state = {0};
    bool is_on_the_way = reply->type == REDIS_REPLY_STRING &&
                         redis_core_state_read(slice_make(reply->str, reply->len), &state) &&
                         state.sealed != 0;
    freeReplyObject(reply);
    return is_on_the_way ? REDIS_REPORT(&fsck->error, -EBUSY,
                                        "the number of shards is being changed, complete that with "
                                        "'tarry reshard' and check again")
                         : 0;
}

/* Determines report->shards. */
static int count_shards(struct fsck *fsck)
{
    struct redis_fsck_report *report = fsck->report;
    char key[CORE_KEY_BYTES];
    uint32_t shards = 0;
    snprintf(key, sizeof key, "{%s}:shards", fsck->url.prefix);
    int result = find_number(fsck, key, &shards);
    if (result != 0)
        return result;
    report->shards = shards;
    for (uint32_t i = 0; i < shards; i++) {
        char tag[REDIS_TAG_BYTES];
        redis_slot_tag_of(fsck->url.prefix, fsck->generation, i, shards, tag);
        snprintf(report->shard[i].tag, sizeof report->shard[i].tag, "%s", tag);
    }
    return refuse_on_the_way(fsck);
}

/* ---- the tokens ----
 *
 * `{prefix}:tokens` is stored outside all shards. Servers interpret the content; this only checks
 * the key's type. If the Redis user may not read the key, it is not checked. */

static int check_tokens(struct fsck *fsck)
{
    char key[CORE_KEY_BYTES];
    redisReply *reply;
    snprintf(key, sizeof key, "{%s}:tokens", fsck->url.prefix);
    const struct slice words[] = {slice_of("TYPE"), slice_of(key)};
    int result = fsck_ask(fsck, redis_slot_of(words[1]), words, 2, &reply);
    if (result == -EACCES)
        return 0;
    if (result != 0)
        return result;
    struct slice type = slice_make(reply->str, reply->len);
    if (!slice_is(type, "none") && !slice_is(type, "hash"))
        fsck_found(
            fsck, -1, REDIS_FSCK_MANUAL, slice_of(""), slice_of(""),
            slice_of("the tokens are stored in a key of another type"),
            slice_of("servers cannot read them: delete the key, and create the tokens again"));
    freeReplyObject(reply);
    return 0;
}

/* ---- the settings of topics ----
 *
 * The settings and the pause of a topic are the same in all shards; a topic lost in one shard is
 * recreated without them by the next push. Servers write one shard after another. So a difference
 * counts only if it is unchanged a second later and no jobs were cancelled in the topic
 * meanwhile. */

enum { WAIT_MS = 1200, VALUE_BYTES_MAX = 1 << 20, TOPIC_KEY_BYTES = REDIS_TAG_BYTES + 300 };

/* A topic in all shards. */
struct topic_view {
    struct slice topic;
    /* The value in each shard. Empty: the topic does not exist there. Otherwise the pause and, if
     * there are any, the length of the extension, the extension, and the settings. */
    struct buffer value[REDIS_SHARDS_MAX];
    struct buffer cancelled[REDIS_SHARDS_MAX]; /* increases during a delete */
};

static struct topic_view *topic_view_new(struct slice topic)
{
    struct topic_view *view = calloc(1, sizeof *view);
    for (uint32_t i = 0; view && i < REDIS_SHARDS_MAX; i++) {
        buffer_init(&view->value[i], VALUE_BYTES_MAX);
        buffer_init(&view->cancelled[i], VALUE_BYTES_MAX);
    }
    if (view)
        view->topic = topic;
    return view;
}

static void topic_view_free(struct topic_view *view)
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

/* Appends a value in the format of settings_here in check.lua. */
static void append_value(struct buffer *out, bool is_paused, struct slice settings,
                         struct slice extension)
{
    buffer_append_byte(out, is_paused ? '1' : '0');
    if (!settings.len && !extension.len)
        return;
    buffer_append_byte(out, (char)(extension.len >> 8 & 255));
    buffer_append_byte(out, (char)(extension.len & 255));
    buffer_append_slice(out, extension);
    buffer_append_slice(out, settings);
}

static int topic_view_read_shard(struct fsck *fsck, uint32_t shard, struct topic_view *view)
{
    char topic[TOPIC_KEY_BYTES], extension[TOPIC_KEY_BYTES];
    const char *tag = fsck->report->shard[shard].tag;
    struct slice name = view->topic;
    snprintf(topic, sizeof topic, "%s:topic:%.*s", tag, (int)name.len, name.at);
    snprintf(extension, sizeof extension, "%s:extension:%.*s", tag, (int)name.len, name.at);
    const struct slice words[] = {slice_of("MGET"), slice_of(topic), slice_of(extension)};
    struct redis_topic_state state;
    redisReply *reply;
    int result = fsck_ask(fsck, redis_slot_of(words[1]), words, 3, &reply);
    if (result != 0)
        return result;
    if (redis_topic_state_read(element_of(reply, 0), &state)) {
        append_value(&view->value[shard], state.is_paused, state.settings, element_of(reply, 1));
        buffer_append_format(&view->cancelled[shard], "%lld",
                             (long long)state.figure[REDIS_FIGURE_CANCELLED]);
    }
    freeReplyObject(reply);
    return 0;
}

static int topic_view_read(struct fsck *fsck, struct topic_view *view)
{
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < fsck->report->shards; i++)
        if (fsck_names_have(&fsck->topics[i], view->topic))
            result = topic_view_read_shard(fsck, i, view);
    return result;
}

static bool is_same(const struct fsck *fsck, const struct topic_view *a, const struct topic_view *b)
{
    for (uint32_t i = 0; i < fsck->report->shards; i++)
        if (!slice_equals(buffer_slice(&a->value[i]), buffer_slice(&b->value[i])) ||
            !slice_equals(buffer_slice(&a->cancelled[i]), buffer_slice(&b->cancelled[i])))
            return false;
    return true;
}

static struct slice settings_in(const struct topic_view *view, uint32_t shard)
{
    struct slice value = buffer_slice(&view->value[shard]);
    return value.len ? slice_make(value.at + 1, value.len - 1) : (struct slice){0};
}

/* Returns the settings that most shards have. Empty settings do not count, because a lost shard lacks
 * settings. */
static struct slice wanted_settings(const struct fsck *fsck, const struct topic_view *view)
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

/* Returns the pause that most shards with these settings have. */
static char wanted_pause(const struct fsck *fsck, const struct topic_view *view,
                         struct slice settings)
{
    int votes = 0;
    for (uint32_t i = 0; i < fsck->report->shards; i++)
        if (view->value[i].len && slice_equals(settings_in(view, i), settings))
            votes += view->value[i].at[0] == '1' ? 1 : -1;
    return votes >= 0 ? '1' : '0';
}

static void find_wanted(const struct fsck *fsck, const struct topic_view *view, struct buffer *out)
{
    struct slice settings = wanted_settings(fsck, view);
    buffer_append_byte(out, wanted_pause(fsck, view, settings));
    buffer_append_slice(out, settings);
}

/* Returns whether a shard's value is wrong. A topic without settings is created in a shard by its
 * first job. */
static bool is_wrong(const struct topic_view *view, uint32_t shard, struct slice wanted)
{
    struct slice value = buffer_slice(&view->value[shard]);
    return value.len ? !slice_equals(value, wanted) : !slice_is(wanted, "0");
}

static bool is_any_wrong(const struct fsck *fsck, const struct topic_view *view)
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

static bool gather_names(const struct fsck *fsck, struct fsck_names *all)
{
    for (uint32_t i = 0; i < fsck->report->shards; i++)
        for (size_t k = 0; k < fsck->topics[i].count; k++)
            if (!fsck_names_put(all, fsck->topics[i].at[k]))
                return false;
    return true;
}

static bool topic_exists(const struct fsck *fsck, const struct topic_view *view)
{
    for (uint32_t i = 0; i < fsck->report->shards; i++)
        if (view->value[i].len)
            return true;
    return false;
}

/* Puts the topics that differ between shards into *views. */
static int look_first(struct fsck *fsck, const struct fsck_names *all, struct topic_view **views,
                      size_t *count)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < all->count; i++) {
        struct topic_view *view = topic_view_new(all->at[i]);
        if (!view)
            return REDIS_REPORT(&fsck->error, -ENOMEM, "out of memory");
        result = topic_view_read(fsck, view);
        if (result == 0 && topic_exists(fsck, view) && is_any_wrong(fsck, view))
            views[(*count)++] = view;
        else
            topic_view_free(view);
    }
    return result;
}

static int set_right(struct fsck *fsck, const struct topic_view *view)
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

static int look_again(struct fsck *fsck, const struct topic_view *before)
{
    struct topic_view *view = topic_view_new(before->topic);
    if (!view)
        return REDIS_REPORT(&fsck->error, -ENOMEM, "out of memory");
    int result = topic_view_read(fsck, view);
    if (result == 0 && is_same(fsck, before, view))
        result = set_right(fsck, view);
    topic_view_free(view);
    return result;
}

static int walk_settings(struct fsck *fsck)
{
    struct fsck_names all = {0};
    size_t count = 0;
    struct topic_view **views = NULL;
    int result = 0;
    if (!gather_names(fsck, &all) || !(views = calloc(all.count + 1, sizeof(struct topic_view *))))
        result = REDIS_REPORT(&fsck->error, -ENOMEM, "out of memory");
    if (result == 0)
        result = look_first(fsck, &all, views, &count);
    if (count)
        poll(NULL, 0, WAIT_MS);
    for (size_t i = 0; i < count; i++) {
        if (result == 0)
            result = look_again(fsck, views[i]);
        topic_view_free(views[i]);
    }
    free(views);
    fsck_names_free(&all);
    return result;
}

/* ---- the walk ---- */

static const struct topic_part {
    enum redis_script script;
    const char *name;
} topic_parts[] = {
    {REDIS_CHECK_TOPIC, "topic"},      {REDIS_CHECK_SETS, "fresh"},
    {REDIS_CHECK_SETS, "leaves"},      {REDIS_CHECK_SETS, "ready"},
    {REDIS_CHECK_SETS, "held"},        {REDIS_CHECK_SETS, "dead"},
    {REDIS_CHECK_SETS, "expiry"},      {REDIS_CHECK_SETS, "finished"},
    {REDIS_CHECK_SETS, "tries"},       {REDIS_CHECK_SETS, "order"},
    {REDIS_CHECK_SETS, "done"},        {REDIS_CHECK_JOBS, "jobs"},
    {REDIS_CHECK_TOPIC, "successors"}, {REDIS_CHECK_SETS, "histories"},
    {REDIS_CHECK_TOPIC, "counts"},     {REDIS_CHECK_TOPIC, "split"},
    {REDIS_CHECK_TOPIC, "bytes"},      {REDIS_CHECK_TOPIC, "kept"},
    {REDIS_CHECK_TOPIC, "groups"},     {REDIS_CHECK_TOPIC, "event"},
};

enum { TOPIC_PARTS = sizeof topic_parts / sizeof topic_parts[0], JOBS_KEY_BYTES_MAX = 1 << 16 };

static int check_core(struct fsck *fsck, uint32_t shard)
{
    char shards[16];
    snprintf(shards, sizeof shards, "%u", (unsigned)fsck->report->shards);
    const struct slice more = slice_of(shards);
    return fsck_part(fsck, shard, REDIS_CHECK, "core", slice_of(""), &more, 1);
}

static int check_topic(struct fsck *fsck, uint32_t shard, struct slice topic)
{
    int result = 0;
    for (int i = 0; result == 0 && i < TOPIC_PARTS; i++)
        result = fsck_part(fsck, shard, topic_parts[i].script, topic_parts[i].name, topic, NULL, 0);
    return result;
}

/* Walks a shard. Topics created meanwhile are not checked. */
static int walk_shard(struct fsck *fsck, uint32_t shard)
{
    const struct fsck_names *topics = &fsck->topics[shard];
    int result = fsck_part(fsck, shard, REDIS_CHECK, "topics", slice_of(""), NULL, 0);
    fsck->report->shard[shard].topics = topics->count;
    for (size_t i = 0; result == 0 && i < topics->count; i++)
        result = check_topic(fsck, shard, topics->at[i]);
    if (result == 0)
        result = fsck_part(fsck, shard, REDIS_CHECK, "leases", slice_of(""), NULL, 0);
    if (result == 0)
        result = fsck_part(fsck, shard, REDIS_CHECK, "leased", slice_of(""), NULL, 0);
    if (result == 0)
        result = fsck_part(fsck, shard, REDIS_CHECK, "batches", slice_of(""), NULL, 0);
    if (result == 0)
        result = fsck_part(fsck, shard, REDIS_CHECK, "guests", slice_of(""), NULL, 0);
    return result;
}

/* Counts the jobs of a topic, for the progress. */
static int count_jobs(struct fsck *fsck, uint32_t shard, struct slice topic)
{
    struct buffer key;
    redisReply *reply;
    buffer_init(&key, JOBS_KEY_BYTES_MAX);
    buffer_append_format(&key, "%s:job:", fsck->report->shard[shard].tag);
    buffer_append_slice(&key, topic);
    const struct slice words[] = {slice_of("HLEN"), buffer_slice(&key)};
    int result = fsck_ask(fsck, redis_slot_of(words[1]), words, 2, &reply);
    buffer_fini(&key);
    if (result != 0)
        return result == -EBADMSG ? 0 : result;
    fsck->jobs_total += reply->type == REDIS_REPLY_INTEGER ? (uint64_t)reply->integer : 0;
    freeReplyObject(reply);
    return 0;
}

static int count_all_jobs(struct fsck *fsck)
{
    int result = 0;
    for (uint32_t i = 0; i < fsck->report->shards; i++)
        for (size_t k = 0; result == 0 && k < fsck->topics[i].count; k++)
            result = count_jobs(fsck, i, fsck->topics[i].at[k]);
    return result;
}

static int walk_all(struct fsck *fsck)
{
    int result = count_shards(fsck);
    if (result == 0)
        result = check_tokens(fsck);
    for (uint32_t i = 0; result == 0 && i < fsck->report->shards; i++)
        result = check_core(fsck, i);
    if (result == 0)
        result = fsck_walk_keys(fsck);
    if (result == 0 && fsck->options->progress)
        result = count_all_jobs(fsck);
    for (uint32_t i = 0; result == 0 && i < fsck->report->shards; i++)
        result = walk_shard(fsck, i);
    return result == 0 ? walk_settings(fsck) : result;
}

int redis_fsck_run(const struct redis_fsck_options *options, struct redis_fsck_report *report)
{
    struct fsck fsck = {.options = options, .report = report};
    *report = (struct redis_fsck_report){.repairs = options->repair};
    fsck.error = (struct redis_report){report->error, sizeof report->error};
    if (!redis_scripts_init())
        return REDIS_REPORT(&fsck.error, -ENOMEM, "out of memory");
    if (!redis_url_parse(options->url, &fsck.url, report->error, sizeof report->error))
        return -EDOM;
    if (!redis_tls_open(&fsck.url, report->error, sizeof report->error))
        return -EINVAL;
    int result = walk_all(&fsck);
    if (result == 0)
        *report->error = 0; /* left by retried errors */
    fsck_close(&fsck);
    for (uint32_t i = 0; i < REDIS_SHARDS_MAX; i++)
        fsck_names_free(&fsck.topics[i]);
    redis_tls_close(&fsck.url);
    explicit_bzero(&fsck.url, sizeof fsck.url);
    return result;
}
