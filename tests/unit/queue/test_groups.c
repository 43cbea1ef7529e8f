/* Lists of groups: their order, their pages, and the sum over several shards. */
#include "queue/groups.h"
#include "queue/sharded.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>

enum { GROUPS = 40, PARTS = 3 };

/* The groups of one part; the ready jobs of a group differ by part. */
struct part {
    struct queue queue;
    struct queue_group groups[GROUPS];
    size_t count;
};

static struct part parts[PARTS];
static char names[GROUPS][16];
static char seen[4096]; /* "name:ready:leased " of all pages */
static char cursor[GROUPS_CURSOR_BYTES_MAX];
static size_t cursor_len, pages;
static enum queue_status status;

/* Answers in the call itself, which no queue does, but the sharded one does not depend on it. */
static void on_submit(struct queue *queue, const struct command *command,
                      struct queue_reply_to reply_to)
{
    struct part *part = (struct part *)(void *)queue;
    struct queue_reply reply = {0};
    struct groups_page page;
    if (command->kind == COMMAND_GROUP) {
        reply.status = part->count ? QUEUE_OK : QUEUE_NOT_FOUND;
        reply.groups = part->groups;
        reply.group_count = part->count ? 1 : 0;
        reply_to.done(reply_to.owner, reply_to.tag, &reply);
        return;
    }
    assert_true(groups_page_init(&page, &command->groups));
    for (size_t i = 0; i < part->count; i++)
        groups_page_add(&page, &part->groups[i * 7 % part->count]); /* in no order */
    groups_page_end(&page, &reply);
    reply_to.done(reply_to.owner, reply_to.tag, &reply);
    groups_page_fini(&page);
}

static void on_info(struct queue *queue, struct queue_info *out)
{
    (void)queue;
    *out = (struct queue_info){.groups = true, .one_shard = true};
}

static const struct queue_ops ops = {.submit = on_submit, .info = on_info};

static void on_done(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    (void)owner;
    (void)tag;
    status = reply->status;
    pages++;
    for (size_t i = 0; i < reply->group_count; i++) {
        const struct queue_group *group = &reply->groups[i];
        size_t len = strlen(seen);
        (void)snprintf(seen + len, sizeof seen - len, "%.*s:%d:%d ", (int)group->name.len,
                       group->name.at, (int)group->ready, (int)group->leased);
    }
    cursor_len = reply->cursor.len;
    if (cursor_len)
        memcpy(cursor, reply->cursor.at, cursor_len);
}

static uint32_t part_of_job(void *ctx, struct slice topic, struct slice id)
{
    (void)ctx;
    (void)topic;
    (void)id;
    return 0;
}

static struct sharded *sharded_of_parts(void)
{
    struct queue *queues[PARTS];
    for (int i = 0; i < PARTS; i++)
        queues[i] = &parts[i].queue;
    return sharded_new(&(struct sharded_options){
        .parts = queues, .part_count = PARTS, .part_of_job = part_of_job});
}

/* Reads all pages of a list of the three parts into `seen`. */
static void list(enum queue_groups_order order, uint32_t limit)
{
    struct sharded *sharded = sharded_of_parts();
    assert_non_null(sharded);
    seen[0] = '\0';
    cursor_len = pages = 0;
    do {
        struct command command = {.kind = COMMAND_GROUPS,
                                  .groups = {.topic = slice_of("t"),
                                             .order = order,
                                             .limit = limit,
                                             .cursor = slice_make(cursor, cursor_len)}};
        queue_submit(sharded_queue(sharded), &command, (struct queue_reply_to){.done = on_done});
        assert_int_equal(status, QUEUE_OK);
        assert_true(pages < 100);
    } while (cursor_len);
    assert_true(sharded_is_idle(sharded));
    sharded_free(sharded);
}

static void add(int part, const char *name, uint64_t ready, uint64_t leased, enum flow_held held)
{
    struct part *into = &parts[part];
    into->groups[into->count++] = (struct queue_group){
        .name = slice_of(name), .ready = ready, .leased = leased, .held_by = held};
}

static int three_parts(void **state)
{
    (void)state;
    memset(parts, 0, sizeof parts);
    for (int i = 0; i < PARTS; i++)
        parts[i].queue.ops = &ops;
    add(0, "", 1, 0, 0);
    add(0, "b", 5, 1, 0);
    add(0, "d", 2, 0, FLOW_HELD_HOLD);
    add(1, "a", 9, 0, 0);
    add(1, "b", 5, 2, FLOW_HELD_GROUP_LIMIT);
    add(2, "c", 3, 4, 0);
    add(2, "d", 2, 0, 0);
    return 0;
}

CLAIM_BETWEEN(a_list_of_several_shards_has_the_sums_in_its_order, three_parts, NULL)
{
    for (uint32_t limit = 1; limit <= 6; limit++) {
        list(QUEUE_GROUPS_BY_NAME, limit);
        assert_string_equal(seen, ":1:0 a:9:0 b:10:3 c:3:4 d:4:0 ");
        list(QUEUE_GROUPS_BY_READY, limit);
        assert_string_equal(seen, "b:10:3 a:9:0 d:4:0 c:3:4 :1:0 ");
        list(QUEUE_GROUPS_BY_LEASED, limit);
        assert_string_equal(seen, "c:3:4 b:10:3 :1:0 a:9:0 d:4:0 ");
        list(QUEUE_GROUPS_HELD, limit);
        assert_string_equal(seen, "b:10:3 d:4:0 ");
    }
}

CLAIM_BETWEEN(every_group_is_on_one_page_for_every_size_of_the_pages, three_parts, NULL)
{
    for (int i = 0; i < PARTS; i++)
        parts[i].count = 0;
    for (int i = 0; i < GROUPS; i++) {
        (void)snprintf(names[i], sizeof names[i], "g%02d", i);
        for (int part = 0; part < PARTS; part++)
            if (i % PARTS != part)
                add(part, names[i], (uint64_t)(i % 5), 0, 0);
    }
    for (uint32_t limit = 1; limit <= GROUPS + 1; limit += 3) {
        for (int order = QUEUE_GROUPS_BY_NAME; order <= QUEUE_GROUPS_BY_READY; order++) {
            list((enum queue_groups_order)order, limit);
            size_t found = 0;
            for (const char *at = seen; *at; at++)
                found += *at == ' ';
            assert_int_equal(found, GROUPS);
            assert_int_equal(pages, (GROUPS + limit - 1) / limit);
            for (int i = 0; i < GROUPS; i++) {
                char name[400];
                int bytes = snprintf(name, sizeof name, "%s:%d:0 ", names[i], i % 5 * 2);
                assert_in_range(bytes, 1, sizeof name - 1);
                assert_non_null(strstr(seen, name));
            }
        }
    }
}

CLAIM_BETWEEN(one_group_is_the_sum_of_its_parts, three_parts, NULL)
{
    struct command command = {.kind = COMMAND_GROUP,
                              .group = {.verb = QUEUE_GROUP_GET, .topic = slice_of("t")}};
    parts[0].count = 0; /* without the topic */
    struct sharded *sharded = sharded_of_parts();
    seen[0] = '\0';
    queue_submit(sharded_queue(sharded), &command, (struct queue_reply_to){.done = on_done});
    assert_int_equal(status, QUEUE_OK);
    assert_string_equal(seen, "a:12:4 ");
    sharded_free(sharded);
}

CLAIM_BETWEEN(several_shards_do_not_keep_a_topic_on_one_shard, three_parts, NULL)
{
    struct queue_info info;
    struct sharded *sharded = sharded_of_parts();
    queue_info(sharded_queue(sharded), &info);
    assert_true(info.groups);
    assert_false(info.one_shard);
    sharded_free(sharded);
}

CLAIMS_MAIN(NULL, NULL)
