/* The rows of commands that are one request. */
#include "cli/call.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <string.h>

static const struct cli_command *const tables[] = {
    cli_push_commands,   cli_lease_commands,   cli_job_commands,
    cli_topic_commands,  cli_deliver_commands, cli_dead_commands,
    cli_status_commands, cli_drain_commands,   cli_clock_commands,
};

#define EACH_ROW(ROW)                                                                              \
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)                                  \
        for (const struct cli_command *command = tables[t]; command->name; command++)              \
            for (const struct call_row *ROW = &command->call; ROW; ROW = NULL)

static bool has_flag(const struct call_row *row, const char *name, size_t len)
{
    for (const struct call_flag *flag = row->flags; flag->name; flag++)
        if (strlen(flag->name) == len && memcmp(flag->name, name, len) == 0)
            return true;
    return false;
}

static void expect_flag(const struct cli_command *command, const char *name, size_t len)
{
    if (!has_flag(&command->call, name, len))
        fail_msg("'%s' names the flag '%.*s', which it does not have", command->name, (int)len,
                 name);
}

/* {0} and {id} of a path: an argument, or a flag of the row. */
static void expect_places(const struct cli_command *command, const char *path)
{
    for (const char *at = path; (at = strchr(at, '{')); at++) {
        size_t len = strcspn(at + 1, "}");
        if (at[1] >= '0' && at[1] <= '9')
            assert_true((size_t)(at[1] - '0') < command->call.most);
        else
            expect_flag(command, at + 1, len);
    }
}

CLAIM(a_row_names_only_its_own_flags)
{
    EACH_ROW(row)
    {
        for (size_t i = 0; i < CALL_PAIRS_MAX && row->pairs[i][0]; i++)
            for (size_t side = 0; side < 2; side++)
                expect_flag(command, row->pairs[i][side], strlen(row->pairs[i][side]));
        for (size_t i = 0; i < CALL_REQUESTS_MAX; i++) {
            const struct call_request *request = &row->requests[i];
            for (size_t j = 0; j < CALL_CHOICES_MAX && request->flags[j]; j++)
                expect_flag(command, request->flags[j], strlen(request->flags[j]));
            expect_places(command, request->path ? request->path : "");
        }
    }
}

CLAIM(every_command_line_has_a_request)
{
    EACH_ROW(row)
    {
        const struct call_request *last = row->requests;
        while (last + 1 < row->requests + CALL_REQUESTS_MAX && (last[1].path || last[1].bulk))
            last++;
        /* Only an unknown verb is without one; cli_parse ensures the number of arguments. */
        assert_true(!last->bulk && !last->flags[0] && last->least <= row->least);
        assert_true(last->verb || last->path);
        assert_true(last->method || last->make);
    }
}

CLAIMS_MAIN(NULL, NULL)
