/* Which transactions commit without waiting for the disk, and are flushed afterwards. */
#include "sql/connection.h"

#include "unit/cases.h"
#include "unit/claim.h"

enum { FAST_US = 500, SLOW_US = 5000 };

static const struct {
    const char *sentence;
    int64_t disk_us;
    bool has_take, is_durable, is_of_schedules, is_flushed;
} cases[] = {
    {"a take arrived on a slow disk", SLOW_US, true, true, false, true},
    {"a take arrived on a fast disk", FAST_US, true, true, false, false},
    {"a take arrived during fires on a fast disk", FAST_US, true, true, true, true},
    {"no take arrived during fires", SLOW_US, false, true, true, false},
    {"the transaction need not be durable", SLOW_US, true, false, false, false},
};

CLAIM(fires_are_flushed_on_a_fast_disk_if_takes_arrive)
{
    struct sql_link link = {0};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct sql_flush flush;
        sql_flush_init(&flush, NULL);
        flush.link = &link;
        flush.disk_us = cases[i].disk_us;
        if (cases[i].has_take)
            sql_flush_note_take(&flush);
        CASE_HOLDS(cases[i].sentence,
                   sql_flush_choose(&flush, cases[i].is_durable, cases[i].is_of_schedules) ==
                       cases[i].is_flushed);
    }
}

CLAIM(a_take_has_an_effect_on_sixteen_transactions)
{
    struct sql_link link = {0};
    struct sql_flush flush;
    sql_flush_init(&flush, NULL);
    flush.link = &link;
    sql_flush_note_take(&flush);
    for (int i = 0; i < 16; i++)
        assert_true(sql_flush_choose(&flush, true, true));
    assert_false(sql_flush_choose(&flush, true, true));
}

CLAIM(pushes_with_a_once_and_pushes_again_belong_to_schedules)
{
    struct queue_push pushes[] = {{.once = slice_of("fire")}, {.id = slice_of("job")}};
    struct queue_answer answers[] = {{.verb = QUEUE_AGAIN}, {.verb = QUEUE_ACK}};
    struct command commands[] = {
        {.kind = COMMAND_PUSH, .pushes = &pushes[0], .count = 1},
        {.kind = COMMAND_ANSWER, .answers = &answers[0], .count = 1},
        {.kind = COMMAND_PUSH, .pushes = &pushes[1], .count = 1},
        {.kind = COMMAND_ANSWER, .answers = &answers[1], .count = 1},
        {.kind = COMMAND_TAKE},
    };
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        struct sql_call call = {.kind = SQL_CALL_COMMAND, .command = &commands[i]};
        assert_int_equal(sql_call_is_of_schedules(&call), i < 2);
    }
    struct sql_call upkeep = {.kind = SQL_CALL_UPKEEP};
    assert_false(sql_call_is_of_schedules(&upkeep));
}

CLAIMS_MAIN(NULL, NULL)
