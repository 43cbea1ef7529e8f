/* The traits of a call: what the door and the stores derive from its kind. */
#include "queue/traits.h"

#include "unit/cases.h"
#include "unit/claim.h"

#define JOB .topic = {"t", 1}, .id = {"1", 1}

static const struct queue_push pushes[] = {{JOB}, {.topic = {"u", 1}, .id = {"2", 1}}};
static const struct queue_answer answers[2];
static const struct queue_change changes[] = {{JOB}, {.topic = {"u", 1}, .id = {"2", 1}}};
static const struct queue_find finds[] = {{JOB}, {.topic = {"u", 1}, .id = {"2", 1}}};
static const struct slice topic = {"t", 1};

#define TAKE(ID)                                                                                   \
    {                                                                                              \
        .kind = COMMAND_TAKE, .take = {.topics = &topic, .topic_count = 1, .id = ID }              \
    }
#define TOPIC(VERB, ID)                                                                            \
    {                                                                                              \
        .kind = COMMAND_TOPIC, .topic = {.verb = QUEUE_TOPIC_##VERB, .topic = {"t", 1}, .id = ID } \
    }
#define NONE                                                                                       \
    {                                                                                              \
        NULL, 0                                                                                    \
    }
#define ONE                                                                                        \
    {                                                                                              \
        "1", 1                                                                                     \
    }

static const struct {
    struct command command;
    size_t items, names;
    bool acts, writes, writes_items;
    const char *why;
} rows[] = {
    {{.kind = COMMAND_PUSH, .count = 2, .pushes = pushes}, 2, 2, true, true, true, "push"},
    {{.kind = COMMAND_ANSWER, .count = 2, .answers = answers}, 2, 0, true, true, true, "answer"},
    {{.kind = COMMAND_CHANGE, .count = 2, .changes = changes}, 2, 2, true, true, true, "change"},
    {{.kind = COMMAND_FIND, .count = 2, .finds = finds}, 2, 2, false, false, false, "find"},
    {TAKE(NONE), 1, 0, true, false, false, "take"},
    {TAKE(ONE), 1, 1, true, false, false, "take of one job"},
    {{.kind = COMMAND_GET, .get = {JOB}}, 1, 1, false, false, false, "get"},
    {{.kind = COMMAND_LIST, .list = {.topic = {"t", 1}}}, 1, 0, false, false, false, "list"},
    {TOPIC(GET, NONE), 1, 0, false, false, false, "topic"},
    {TOPIC(PURGE, NONE), 1, 0, true, true, false, "purge"},
    {TOPIC(REDRIVE, NONE), 1, 0, true, true, false, "redrive"},
    {TOPIC(REDRIVE, ONE), 1, 1, true, true, false, "redrive of one job"},
    {{.kind = COMMAND_TOPICS}, 1, 0, false, false, false, "topics"},
    {{.kind = COMMAND_FORECAST}, 1, 0, false, false, false, "forecast"},
    {{.kind = COMMAND_AWAIT, .await = {JOB}}, 1, 1, false, false, false, "await"},
    {{.kind = COMMAND_GROUP, .group = {.verb = QUEUE_GROUP_GET}},
     1,
     0,
     false,
     false,
     false,
     "group"},
    {{.kind = COMMAND_GROUP, .group = {.verb = QUEUE_GROUP_PUT}},
     1,
     0,
     true,
     true,
     false,
     "settings"},
    {{.kind = COMMAND_GROUPS}, 1, 0, false, false, false, "groups"},
    {{.kind = COMMAND_BATCH, .count = 2}, 2, 0, true, true, true, "batch"},
};

CLAIM(each_kind_of_call_has_the_traits_of_its_row)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct command *command = &rows[i].command;
        CASE_HOLDS(rows[i].why, command_item_count(command) == rows[i].items);
        CASE_HOLDS(rows[i].why, command_name_count(command) == rows[i].names);
        CASE_HOLDS(rows[i].why, command_acts(command) == rows[i].acts);
        CASE_HOLDS(rows[i].why, command_writes(command) == rows[i].writes);
        CASE_HOLDS(rows[i].why, command_writes_items(command) == rows[i].writes_items);
    }
}

CLAIM(a_call_names_its_jobs_in_the_order_of_its_items)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t name = 0; name < rows[i].names; name++) {
            struct queue_find job = command_name(&rows[i].command, name);
            CASE_HOLDS(rows[i].why, slice_is(job.topic, name ? "u" : "t"));
            CASE_HOLDS(rows[i].why, slice_is(job.id, name ? "2" : "1"));
        }
}

CLAIMS_MAIN(NULL, NULL)
