/* The topics of a shard: a table by name, settings, counts. */
#include "engine/state.h"

#include <assert.h>
#include <stdlib.h>

/* Returns the slot of the name in the table, or the free slot for it. */
static uint32_t *topic_table_slot(const struct engine *engine, struct slice name, uint64_t hash)
{
    uint32_t mask = engine->topic_table_size - 1;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        uint32_t *slot = &engine->topic_table[at];
        if (!*slot)
            return slot;
        const struct topic *topic = engine->topics[*slot];
        if (topic->name_hash == hash && slice_equals(topic->name, name))
            return slot;
    }
}

static bool topic_table_grow(struct engine *engine)
{
    uint32_t size = engine->topic_table_size ? engine->topic_table_size * 2 : 64;
    uint32_t *table = calloc(size, sizeof *table);
    if (!table)
        return false;
    free(engine->topic_table);
    engine->topic_table = table;
    engine->topic_table_size = size;
    for (uint32_t id = 1; id <= engine->topic_top; id++) {
        struct topic *topic = engine->topics[id];
        if (topic)
            *topic_table_slot(engine, topic->name, topic->name_hash) = id;
    }
    return true;
}

struct topic *engine_topic_find(struct engine *engine, struct slice name)
{
    struct topic *topic = engine_topic_lookup(engine, name);
    return topic && topic->exists ? topic : NULL;
}

struct topic *engine_topic_lookup(struct engine *engine, struct slice name)
{
    if (engine->topic_last) {
        struct topic *last = engine->topics[engine->topic_last];
        if (slice_equals(last->name, name))
            return last;
    }
    if (!engine->topic_table_size)
        return NULL;
    uint32_t id = *topic_table_slot(engine, name, hash_64(name.at, name.len));
    if (!id)
        return NULL;
    engine->topic_last = id;
    return engine->topics[id];
}

/* Returns a free topic id. 0: out of memory. */
static uint32_t topic_free_id(struct engine *engine)
{
    for (uint32_t id = 1; id <= engine->topic_top && engine->topic_count < engine->topic_top; id++)
        if (!engine->topics[id])
            return id;
    if (engine->topic_top + 1 >= engine->topic_cap) {
        uint32_t cap = engine->topic_cap ? engine->topic_cap * 2 : 64;
        struct topic **topics = realloc(engine->topics, cap * sizeof *topics);
        if (!topics)
            return 0;
        memset(topics + engine->topic_cap, 0, (cap - engine->topic_cap) * sizeof *topics);
        engine->topics = topics;
        engine->topic_cap = cap;
    }
    return ++engine->topic_top;
}

/* ---- order by name ---- */

static int compare_names(const void *a, const void *b)
{
    const struct topic *one = *(struct topic *const *)a, *other = *(struct topic *const *)b;
    return slice_compare(one->name, other->name);
}

static bool by_name_reserve(struct engine *engine)
{
    if (engine->topic_count < engine->topics_by_name_cap)
        return true;
    uint32_t cap = engine->topics_by_name_cap ? engine->topics_by_name_cap * 2 : 64;
    struct topic **grown = realloc((void *)engine->topics_by_name, cap * sizeof *grown);
    if (!grown)
        return false;
    engine->topics_by_name = grown;
    engine->topics_by_name_cap = cap;
    return true;
}

/* Returns how many topics come before the name; `with`: including the topic of that name. */
static uint32_t by_name_find(const struct engine *engine, struct slice name, bool with)
{
    uint32_t low = 0, high = engine->topic_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = slice_compare(engine->topics_by_name[middle]->name, name);
        if (order < 0 || (with && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Inserts a topic; room is reserved. During recovery topics are appended unsorted, because there may be many and
 * no look-up needs the order. */
static void by_name_add(struct engine *engine, struct topic *topic)
{
    uint32_t count = engine->topic_count;
    uint32_t at = engine->recovering ? count : by_name_find(engine, topic->name, false);
    struct topic **place = engine->topics_by_name + at;
    memmove((void *)(place + 1), (void *)place, (count - at) * sizeof *place);
    *place = topic;
}

static void by_name_remove(struct engine *engine, const struct topic *topic)
{
    uint32_t at = engine->recovering ? 0 : by_name_find(engine, topic->name, false);
    while (engine->topics_by_name[at] != topic)
        at++;
    struct topic **place = engine->topics_by_name + at;
    memmove((void *)place, (void *)(place + 1), (engine->topic_count - at - 1) * sizeof *place);
}

void engine_topics_sort(struct engine *engine)
{
    if (engine->topic_count)
        qsort((void *)engine->topics_by_name, engine->topic_count, sizeof *engine->topics_by_name,
              compare_names);
}

/* ---- creation and removal ---- */

enum queue_status engine_topic_make(struct engine *engine, struct slice name, struct topic **out)
{
    struct topic *removed = engine_topic_lookup(engine, name);
    if (removed) {
        assert(!removed->exists);
        removed->exists = true;
        *out = removed;
        return QUEUE_OK;
    }
    if (engine->topic_count >= engine->topics_max && !engine->recovering)
        return QUEUE_TOO_MANY_TOPICS;
    if (!by_name_reserve(engine))
        return QUEUE_NO_MEMORY;
    if ((engine->topic_count + 1) * 2 > engine->topic_table_size && !topic_table_grow(engine))
        return QUEUE_NO_MEMORY;
    uint32_t id = topic_free_id(engine);
    struct topic *topic = calloc(1, sizeof *topic);
    char *copy = malloc(name.len);
    if (!id || !topic || !copy) {
        free(topic);
        free(copy);
        return QUEUE_NO_MEMORY;
    }
    memcpy(copy, name.at, name.len);
    topic->name = slice_make(copy, name.len);
    topic->name_hash = hash_64(name.at, name.len);
    topic->id = id;
    topic->exists = true;
    engine->topics[id] = topic;
    by_name_add(engine, topic);
    engine->topic_count++;
    *topic_table_slot(engine, topic->name, topic->name_hash) = id;
    *out = topic;
    return QUEUE_OK;
}

bool engine_topic_set(struct engine *engine, struct topic *topic,
                      const struct topic_settings *settings)
{
    struct slice extension = settings->extension;
    char *copy = NULL;
    assert(extension.len <= TOPIC_EXTENSION_BYTES_MAX);
    if (extension.len) {
        copy = malloc(extension.len);
        if (!copy)
            return false;
        memcpy(copy, extension.at, extension.len);
    }
    if (!flow_prepare(engine, topic, &settings->flow)) {
        free(copy);
        return false;
    }
    enum flow_order order_before = topic->settings.flow.group_order;
    topic->checks_place |= engine->shards > 1 && (flow_is_one_shard(&settings->flow) ||
                                                  flow_is_one_shard(&topic->settings.flow));
    free((char *)(uintptr_t)topic->settings.extension.at);
    topic->settings = *settings;
    topic->settings.extension = slice_make(copy, extension.len);
    engine_topic_mind(engine, topic);
    if (topic->flow)
        flow_set(engine, topic, order_before);
    return true;
}

/* Frees the topic and the memory it owns. */
static void topic_give_back(struct engine *engine, struct topic *topic)
{
    flow_free(engine, topic);
    free((char *)(uintptr_t)topic->name.at);
    free((char *)(uintptr_t)topic->settings.extension.at);
    free(topic->ready.items);
    free(topic->kept_queue.items);
    free(topic);
}

void engine_topic_free(struct engine *engine, struct topic *topic)
{
    engine->topics[topic->id] = NULL;
    by_name_remove(engine, topic);
    engine->topic_count--;
    engine->topic_last = 0;
    /* Open addressing allows no holes: insert the other topics again. */
    memset(engine->topic_table, 0, engine->topic_table_size * sizeof *engine->topic_table);
    for (uint32_t id = 1; id <= engine->topic_top; id++)
        if (engine->topics[id])
            *topic_table_slot(engine, engine->topics[id]->name, engine->topics[id]->name_hash) = id;
    topic_give_back(engine, topic);
}

void engine_topics_fini(struct engine *engine)
{
    for (uint32_t id = 1; id <= engine->topic_top; id++) {
        struct topic *topic = engine->topics[id];
        if (topic)
            topic_give_back(engine, topic);
    }
    free((void *)engine->topics_by_name);
    free(engine->topics);
    free(engine->topic_table);
}

void engine_topic_count_done(struct topic *topic, enum record_reason reason)
{
    struct topic_totals *totals = &topic->totals;
    totals->acked += reason == RECORD_ACKED;
    totals->expired += reason == RECORD_EXPIRED;
    totals->cancelled += reason == RECORD_CANCELLED || reason == RECORD_PURGED;
}

bool engine_topic_is_empty(const struct topic *topic)
{
    uint64_t remembered, stored = 0;
    struct queue_counts counts = engine_topic_counts(topic, &remembered);
    for (int section = 0; section < SECTIONS; section++)
        stored += topic->stored[section];
    return !(counts.delayed + counts.retrying + counts.ready + counts.leased + counts.dead +
             counts.finished + remembered + stored);
}

void engine_topic_let_go(struct engine *engine, struct topic *topic)
{
    if (!topic->exists && engine_topic_is_empty(topic))
        engine_topic_free(engine, topic);
}

void engine_topic_unmake(struct engine *engine, struct topic *topic)
{
    topic->exists = false;
    engine_topic_let_go(engine, topic);
}

/* Returns how many jobs of the section are in a run and not in memory. */
static uint64_t topic_cold(const struct topic *topic, enum job_section section)
{
    return topic->stored[section] - topic->loaded[section];
}

/* Moves up to *count jobs from `from` to `ready`, because they are due. *count is set to the number left. */
static void count_as_ready(uint64_t *from, uint64_t *ready, uint64_t *count)
{
    uint64_t moved = *count < *from ? *count : *from;
    *from -= moved;
    *ready += moved;
    *count -= moved;
}

struct queue_counts engine_topic_counts(const struct topic *topic, uint64_t *remembered)
{
    struct queue_counts counts = topic->counts;
    uint64_t delayed = topic_cold(topic, SECTION_DELAYED) + topic_cold(topic, SECTION_DELAYED_WALL);
    uint64_t retrying =
        topic_cold(topic, SECTION_RETRYING) + topic_cold(topic, SECTION_RETRYING_WALL);
    uint64_t due = topic->cold_ready;
    count_as_ready(&delayed, &counts.ready, &due);
    count_as_ready(&retrying, &counts.ready, &due);
    counts.delayed += delayed;
    counts.retrying += retrying;
    counts.leased += topic_cold(topic, SECTION_LEASED); /* until all are loaded, at the start */
    counts.dead += topic_cold(topic, SECTION_DEAD);
    counts.dead_bytes += topic->stored_dead_bytes - topic->loaded_dead_bytes;
    counts.finished = topic->kept + topic_cold(topic, SECTION_KEPT);
    *remembered = topic->remembered + topic_cold(topic, SECTION_REMEMBERED);
    return counts;
}

static uint64_t topic_jobs(const struct topic *topic)
{
    uint64_t remembered;
    struct queue_counts counts = engine_topic_counts(topic, &remembered);
    return counts.delayed + counts.retrying + counts.ready + counts.leased + counts.dead;
}

/* Returns the share of this shard in the limit of the topic. */
static uint64_t topic_jobs_most(const struct engine *engine, const struct topic *topic)
{
    return flow_share(topic->settings.max_jobs, flow_topic_shares(engine, topic));
}

bool engine_topic_is_full(const struct engine *engine, const struct topic *topic)
{
    return topic->settings.max_jobs && topic_jobs(topic) >= topic_jobs_most(engine, topic);
}

/* ---- records ---- */

void engine_topic_append(struct engine *engine, const struct topic *topic, bool carried)
{
    struct record record = {.kind = RECORD_TOPIC,
                            .topic = {.topic = topic->name,
                                      .exists = topic->exists,
                                      .paused = topic->paused,
                                      .paused_until_ms = topic->paused_until_ms,
                                      .carried = carried,
                                      .deleting = topic->deleting,
                                      .settings = topic->settings,
                                      .totals = topic->totals,
                                      .sequence = engine->sequence}};
    engine->sink.append(engine->sink.ctx, &record);
}

/* Changes of topics between two calls have records of their own. Removed topics that still have a slot are also carried;
 * otherwise the catalog would create them again. */
bool engine_carry_topics(struct engine *engine, uint32_t *at, size_t max)
{
    while (*at < engine->topic_top && max) {
        const struct topic *topic = engine->topics[*at + 1];
        bool is_carried = topic && engine->carry_group == 0;
        if (is_carried)
            engine_topic_append(engine, topic, true);
        else if (topic)
            is_carried = flow_carry(engine, topic);
        if (is_carried && topic->flow && topic->flow->settings_count) {
            engine->carry_group += engine->carry_group == 0;
        } else {
            engine->carry_group = 0;
            ++*at;
        }
        max -= is_carried;
    }
    while (*at == engine->topic_top && max) {
        if (!batch_carry(engine))
            return true;
        max--;
    }
    return *at == engine->topic_top && !engine->batches;
}

/* ---- commands ---- */

bool engine_keeps_waiting(struct engine *engine, struct slice name)
{
    const struct topic *topic = engine_topic_lookup(engine, name);
    return topic && engine_topic_keeps_waiting(topic);
}

bool engine_topic_keeps_waiting(const struct topic *topic)
{
    const struct topic_flow *settings = &topic->settings.flow;
    return settings->group_order == FLOW_STRICT || settings->group_max_jobs ||
           (topic->flow && topic->flow->own_max_jobs);
}

/* Returns whether a job of the topic waits or is leased. */
static bool topic_has_work(const struct topic *topic)
{
    uint64_t remembered;
    struct queue_counts counts = engine_topic_counts(topic, &remembered);
    return counts.delayed + counts.retrying + counts.ready + counts.leased;
}

bool engine_topic_has_place(const struct engine *engine, const struct topic *topic,
                            struct hash128 key)
{
    if (flow_is_one_shard(&topic->settings.flow))
        key = hash_pair(topic->name, (struct slice){.at = ""}, engine->hash_seed);
    return hash_share(key, engine->shards) == engine->shard;
}

enum queue_status engine_topic_may_move(struct engine *engine, struct slice name,
                                        const struct topic_settings *settings,
                                        enum queue_place place)
{
    static const struct topic_settings defaults;
    const struct topic *topic = engine_topic_find(engine, name);
    const struct topic_settings *before = topic ? &topic->settings : &defaults;
    bool is_moved = flow_is_one_shard(&before->flow) != flow_is_one_shard(&settings->flow);
    if (place == QUEUE_PLACE_KEPT && is_moved)
        return QUEUE_ELSEWHERE;
    if (place != QUEUE_PLACE_MOVED || !topic)
        return QUEUE_OK;
    uint64_t remembered;
    struct queue_counts counts = engine_topic_counts(topic, &remembered);
    return counts.dead || counts.finished || topic_has_work(topic) ? QUEUE_NOT_EMPTY : QUEUE_OK;
}

enum queue_status engine_topic_put(struct engine *engine, struct slice name,
                                   const struct topic_settings *settings)
{
    const struct topic *topic = engine_topic_find(engine, name);
    bool is_ordered = !topic || topic->settings.flow.group_order == settings->flow.group_order;
    return is_ordered || !topic_has_work(topic) ? engine_topic_put_back(engine, name, settings)
                                                : QUEUE_NOT_EMPTY;
}

enum queue_status engine_topic_put_back(struct engine *engine, struct slice name,
                                        const struct topic_settings *settings)
{
    struct topic *topic = engine_topic_find(engine, name);
    enum queue_status status = QUEUE_OK;
    if (!topic) {
        status = engine_topic_make(engine, name, &topic);
        if (status != QUEUE_OK)
            return status;
        status = QUEUE_CREATED;
    }
    if (!engine_topic_set(engine, topic, settings)) {
        if (status == QUEUE_CREATED)
            engine_topic_unmake(engine, topic);
        return QUEUE_NO_MEMORY;
    }
    engine_topic_append(engine, topic, false);
    return status;
}

void engine_topic_set_pause(struct engine *engine, struct topic *topic, bool paused,
                            int64_t until_ms)
{
    topic->paused = paused;
    topic->paused_until_ms = paused ? until_ms : 0;
    if (topic->paused_until_ms && topic->paused_until_ms < engine->pause_end_ms)
        engine->pause_end_ms = topic->paused_until_ms;
    if (topic->flow)
        flow_settle(engine, topic, 0);
}

static void topic_resume(struct engine *engine, struct topic *topic)
{
    engine_topic_set_pause(engine, topic, false, 0);
    if (topic->flow)
        flow_settle(engine, topic, 0);
    else if (topic->ready.count && !engine->recovering)
        engine->sink.ready(engine->sink.ctx, topic->name);
}

enum queue_status engine_topic_pause(struct engine *engine, struct slice name, int64_t until_ms)
{
    struct topic *topic = engine_topic_find(engine, name);
    if (!topic)
        return QUEUE_NOT_FOUND;
    if (topic->paused && topic->paused_until_ms == until_ms)
        return QUEUE_OK;
    engine_topic_set_pause(engine, topic, true, until_ms);
    engine_topic_append(engine, topic, false);
    return QUEUE_OK;
}

enum queue_status engine_topic_resume(struct engine *engine, struct slice name)
{
    struct topic *topic = engine_topic_find(engine, name);
    if (!topic)
        return QUEUE_NOT_FOUND;
    if (topic->flow)
        flow_end_hold(engine, topic);
    if (!topic->paused)
        return QUEUE_OK;
    topic_resume(engine, topic);
    engine_topic_append(engine, topic, false);
    return QUEUE_OK;
}

/* The end of a pause is not recorded: it follows from the record of the pause and the time. */
void engine_end_pauses(struct engine *engine, struct engine_now now)
{
    if (engine->pause_end_ms > now.inner_ms)
        return;
    engine->pause_end_ms = INT64_MAX;
    for (uint32_t id = 1; id <= engine->topic_top; id++) {
        struct topic *topic = engine->topics[id];
        if (!topic || !topic->paused_until_ms)
            continue;
        if (topic->paused_until_ms > now.inner_ms) {
            engine_topic_set_pause(engine, topic, true, topic->paused_until_ms);
            continue;
        }
        topic_resume(engine, topic);
        engine->happened++;
        if (topic->exists && engine->sink.resumed && !engine->recovering)
            engine->sink.resumed(engine->sink.ctx, topic->name);
    }
}

enum queue_status engine_topic_mark(struct engine *engine, struct slice name, bool deleting)
{
    struct topic *topic = engine_topic_find(engine, name);
    enum queue_status status = topic ? QUEUE_OK : QUEUE_NOT_FOUND;
    if (!topic && deleting)
        status = engine_topic_make(engine, name, &topic);
    if (status != QUEUE_OK || topic->deleting == deleting)
        return status;
    topic->deleting = deleting;
    engine_topic_append(engine, topic, false);
    return QUEUE_OK;
}

enum queue_status engine_topic_remove(struct engine *engine, struct slice name)
{
    struct topic *topic = engine_topic_find(engine, name);
    if (!topic)
        return QUEUE_NOT_FOUND;
    if (!engine_topic_is_empty(topic))
        return QUEUE_CONFLICT;
    topic->exists = topic->deleting = false;
    engine_topic_append(engine, topic, false);
    engine_topic_free(engine, topic);
    return QUEUE_OK;
}

/* ---- look-up ---- */

static void topic_show(const struct engine *engine, const struct topic *topic,
                       struct engine_now now, struct queue_topic *out)
{
    uint64_t remembered;
    *out = (struct queue_topic){
        .name = topic->name,
        .paused = topic->paused,
        .paused_until_ms = topic->paused_until_ms ? topic->paused_until_ms + now.skew_ms : 0,
        .deleting = topic->deleting,
        .settings = topic->settings,
        .counts = engine_topic_counts(topic, &remembered),
        .totals = topic->totals};
    /* The head of the heap is the next job to be taken, not always the oldest. It costs nothing and is accurate
     * enough as a measure of delay. */
    const struct ready_item *first = flow_any(engine, topic);
    if (first)
        out->oldest_ready_due_ms = entry_due_wall_ms(entry_at(engine, first->id), now.skew_ms);
    if (topic->flow)
        flow_show(topic, out);
}

bool engine_topic_show(struct engine *engine, struct slice name, struct engine_now now,
                       struct queue_topic *out)
{
    const struct topic *topic = engine_topic_find(engine, name);
    if (topic)
        topic_show(engine, topic, now, out);
    return topic != NULL;
}

bool engine_topic_has_ready(struct engine *engine, struct slice name)
{
    const struct topic *topic = engine_topic_find(engine, name);
    if (topic && topic->flow)
        return topic->flow->is_open;
    return topic && topic->ready.count && !topic->paused;
}

bool engine_topic_next(struct engine *engine, uint32_t *at, struct engine_now now,
                       struct queue_topic *out)
{
    while (*at < engine->topic_top) {
        const struct topic *topic = engine->topics[++*at];
        if (topic && topic->exists) {
            topic_show(engine, topic, now, out);
            return true;
        }
    }
    return false;
}

bool engine_topics_page(const struct engine *engine, struct slice after, size_t limit,
                        struct engine_now now, struct queue_topic **out, size_t *count)
{
    assert(!engine->recovering);
    size_t max = limit && limit < engine->topic_count ? limit : engine->topic_count;
    struct queue_topic *page = malloc((max + 1) * sizeof *page);
    if (!page)
        return false;
    *out = page;
    *count = 0;
    for (uint32_t at = after.len ? by_name_find(engine, after, true) : 0;
         at < engine->topic_count && *count < max; at++)
        if (engine->topics_by_name[at]->exists)
            topic_show(engine, engine->topics_by_name[at], now, &page[(*count)++]);
    return true;
}

uint32_t engine_topic_count(const struct engine *engine)
{
    return engine->topic_count;
}
