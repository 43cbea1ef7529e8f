/* The group calls of a sharded queue. Each part has a share of the jobs of a group, and the settings of all groups. */
#include "queue/groups.h"
#include "queue/sharded_gather.h"

#include "queue/copy.h"

#include <stdlib.h>

static int64_t earlier(int64_t a, int64_t b)
{
    return !a || (b && b < a) ? b : a;
}

static void group_add(struct queue_group *sum, const struct queue_group *part)
{
    sum->ready += part->ready;
    sum->leased += part->leased;
    sum->oldest_ready_due_ms = earlier(sum->oldest_ready_due_ms, part->oldest_ready_due_ms);
    if (part->has_settings && !sum->has_settings) {
        sum->has_settings = true;
        sum->settings = part->settings;
    }
    if (!sum->held_by) {
        sum->held_by = part->held_by;
        sum->held_until_ms = part->held_until_ms;
    } else if (part->held_by) {
        sum->held_until_ms = earlier(sum->held_until_ms, part->held_until_ms);
    }
}

/* ---- one group ---- */

static void join_group(struct sharded_gather *gather)
{
    struct queue_group sum = {0};
    struct queue_reply reply = {.status = QUEUE_NOT_FOUND, .groups = &sum};
    for (uint32_t i = 0; i < gather->sharded->part_count; i++) {
        const struct queue_reply *part = gather->replies[i];
        sharded_add_status(&reply, part);
        if (!part || !part->group_count)
            continue;
        if (reply.group_count)
            group_add(&sum, &part->groups[0]);
        else
            sum = part->groups[0];
        reply.group_count = 1;
    }
    sharded_gather_finish(gather, &reply);
}

void sharded_group(struct sharded *sharded, const struct command *command,
                   struct queue_reply_to reply_to)
{
    struct sharded_gather *gather = sharded_gather_new(sharded, join_group, reply_to);
    if (gather)
        sharded_gather_ask_all(gather, command);
}

/* ---- a page by name ---- */

/* Returns the part whose next group comes first; part_count: no part has one. */
static uint32_t first_of(const struct sharded_gather *gather, const size_t *next)
{
    uint32_t count = gather->sharded->part_count, best = count;
    for (uint32_t i = 0; i < count; i++)
        if (next[i] < gather->replies[i]->group_count &&
            (best == count || slice_compare(gather->replies[i]->groups[next[i]].name,
                                            gather->replies[best]->groups[next[best]].name) < 0))
            best = i;
    return best;
}

/* Adds up the first group of all parts that have it. Returns whether the next groups of one of these parts are unknown. */
static bool take_group(const struct sharded_gather *gather, size_t *next, uint32_t first,
                       struct queue_group *out)
{
    bool is_last = false;
    *out = gather->replies[first]->groups[next[first]];
    for (uint32_t i = first; i < gather->sharded->part_count; i++) {
        const struct queue_reply *part = gather->replies[i];
        if (next[i] == part->group_count || !slice_equals(part->groups[next[i]].name, out->name))
            continue;
        if (i != first)
            group_add(out, &part->groups[next[i]]);
        is_last |= ++next[i] == part->group_count && part->cursor.len;
    }
    return is_last;
}

static size_t merge_groups(const struct sharded_gather *gather, struct queue_group *groups,
                           bool *has_more)
{
    size_t next[SHARDED_PARTS_MAX] = {0}, found = 0;
    while (found < gather->limit) {
        uint32_t first = first_of(gather, next);
        if (first == gather->sharded->part_count)
            return found;
        if (take_group(gather, next, first, &groups[found++])) {
            *has_more = true;
            return found;
        }
    }
    *has_more = first_of(gather, next) != gather->sharded->part_count;
    for (uint32_t i = 0; i < gather->sharded->part_count; i++)
        *has_more |= gather->replies[i]->cursor.len > 0;
    return found;
}

static void join_groups(struct sharded_gather *gather)
{
    struct queue_reply reply = {.status = QUEUE_NOT_FOUND};
    char cursor[GROUPS_CURSOR_BYTES_MAX];
    bool has_more = false;
    for (uint32_t i = 0; i < gather->sharded->part_count; i++)
        sharded_add_status(&reply, gather->replies[i]);
    struct queue_group *groups =
        reply.status == QUEUE_OK ? malloc(gather->limit * sizeof *groups) : NULL;
    if (!groups) {
        sharded_gather_refuse(gather, reply.status == QUEUE_OK ? QUEUE_NO_MEMORY : reply.status);
        return;
    }
    reply.groups = groups;
    reply.group_count = merge_groups(gather, groups, &has_more);
    if (has_more && reply.group_count)
        reply.cursor = slice_make(cursor, groups_cursor_write(cursor, QUEUE_GROUPS_BY_NAME,
                                                              &groups[reply.group_count - 1]));
    sharded_gather_finish(gather, &reply);
    free(groups);
}

static void ask_page(struct sharded *sharded, const struct command *command,
                     struct queue_reply_to reply_to)
{
    struct sharded_gather *gather = sharded_gather_new(sharded, join_groups, reply_to);
    if (!gather)
        return;
    gather->limit = command->groups.limit;
    sharded_gather_ask_all(gather, command);
}

/* ---- another order: a walk over all groups by name, because no part has the sums ---- */

struct groups_walk {
    struct sharded *sharded;
    struct queue_reply_to reply_to;
    struct command *command; /* a copy; owns the cursor of the page */
    struct groups_page page;
    char (*names)[JOB_GROUP_BYTES_MAX]; /* of the groups of the page */
};

static void walk_free(struct groups_walk *walk)
{
    walk->sharded->under_way--;
    groups_page_fini(&walk->page);
    free(walk->names);
    free(walk->command);
    free(walk);
}

/* Copies the names of the page, since the reply that they came with ends. Returns false if out of memory. */
static bool keep_names(struct groups_walk *walk)
{
    struct groups_page *page = &walk->page;
    char(*names)[JOB_GROUP_BYTES_MAX] = malloc((page->count + 1) * sizeof *names);
    if (!names)
        return false;
    for (size_t i = 0; i < page->count; i++) {
        struct slice *name = &page->groups[i].name;
        if (name->len)
            memcpy(names[i], name->at, name->len);
        name->at = names[i];
    }
    free(walk->names);
    walk->names = names;
    return true;
}

static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply);

static void ask_next(struct groups_walk *walk, struct slice cursor)
{
    struct command part = {.kind = COMMAND_GROUPS,
                           .groups = {.topic = walk->command->groups.topic,
                                      .limit = QUEUE_LIST_MAX,
                                      .cursor = cursor}};
    ask_page(walk->sharded, &part, (struct queue_reply_to){.done = on_page, .owner = walk});
}

static void walk_finish(struct groups_walk *walk, enum queue_status status)
{
    struct queue_reply reply = {.status = status};
    if (status == QUEUE_OK)
        groups_page_end(&walk->page, &reply);
    walk->reply_to.done(walk->reply_to.owner, walk->reply_to.tag, &reply);
    walk_free(walk);
}

static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct groups_walk *walk = owner;
    (void)tag;
    for (size_t i = 0; i < reply->group_count; i++)
        groups_page_add(&walk->page, &reply->groups[i]);
    if (reply->status != QUEUE_OK)
        walk_finish(walk, reply->status);
    else if (!keep_names(walk))
        walk_finish(walk, QUEUE_NO_MEMORY);
    else if (reply->cursor.len)
        ask_next(walk, reply->cursor);
    else
        walk_finish(walk, QUEUE_OK);
}

static void begin_walk(struct sharded *sharded, const struct command *command,
                       struct queue_reply_to reply_to)
{
    struct groups_walk *walk = calloc(1, sizeof *walk);
    struct command *copy = copy_command(command);
    if (!walk || !copy || !groups_page_init(&walk->page, &copy->groups)) {
        free(walk);
        free(copy);
        sharded_refuse(sharded, QUEUE_NO_MEMORY, reply_to);
        return;
    }
    sharded->under_way++;
    walk->sharded = sharded;
    walk->reply_to = reply_to;
    walk->command = copy;
    ask_next(walk, (struct slice){0});
}

void sharded_groups(struct sharded *sharded, const struct command *command,
                    struct queue_reply_to reply_to)
{
    if (command->groups.order == QUEUE_GROUPS_BY_NAME)
        ask_page(sharded, command, reply_to);
    else
        begin_walk(sharded, command, reply_to);
}
