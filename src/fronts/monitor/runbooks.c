/* Serves the runbooks, the instructions for problems, from the affected server: as text, and to a
 * browser as pages of the console. They are public, since a user who follows the link of an alert
 * has no token at hand. */
#include "api/console.h"
#include "http/exchange.h"
#include "monitor/routes.h"
#include "monitor/runbook_texts.h"

#include <stdio.h>

static const struct runbook {
    const char *name, *text;
    const size_t *bytes;
} runbooks[] = {
#define RUNBOOK(NAME, SYMBOL)                                                                      \
    {                                                                                              \
        NAME, monitor_runbook_##SYMBOL##_text, &monitor_runbook_##SYMBOL##_bytes                   \
    }
    RUNBOOK("late", late),
    RUNBOOK("stuck", stuck),
    RUNBOOK("held", held),
    RUNBOOK("dead", dead),
    RUNBOOK("full", full),
    RUNBOOK("redis-away", redis_away),
    RUNBOOK("database-away", database_away),
    RUNBOOK("bloat", bloat),
    RUNBOOK("store", store),
    RUNBOOK("background", background),
    RUNBOOK("clock", clock),
    RUNBOOK("certificate", certificate),
    RUNBOOK("down", down),
#undef RUNBOOK
};

static void answer_page(struct http_exchange *exchange, const char *text, size_t bytes)
{
    buffer_append_slice(http_answer_start(exchange), slice_make(text, bytes));
    http_answer_field(exchange, "X-Content-Type-Options", slice_of("nosniff"));
    http_answer_field(exchange, "Vary", slice_of("Accept"));
    http_answer_end(exchange, 200, "text/plain; charset=utf-8");
}

static void get_list(struct http_call *call)
{
    if (!api_console_redirect(call, call->exchange->route->verb ? "../console/#/runbooks"
                                                                : "console/#/runbooks"))
        answer_page(call->exchange, monitor_runbook_README_text, monitor_runbook_README_bytes);
}

static void get_runbook(struct http_call *call)
{
    struct slice name = call->id;
    if (name.len > 3 &&
        memcmp(name.at + name.len - 3, ".md", 3) == 0) /* pages link each other with it */
        name.len -= 3;
    for (size_t i = 0; i < sizeof runbooks / sizeof runbooks[0]; i++)
        if (slice_equals(name, slice_of(runbooks[i].name))) {
            char place[64];
            (void)snprintf(place, sizeof place, "../console/#/runbooks/%s", runbooks[i].name);
            if (!api_console_redirect(call, place))
                answer_page(call->exchange, runbooks[i].text, *runbooks[i].bytes);
            return;
        }
    http_answer_problem(call->exchange, PROBLEM_NO_SUCH_PATH, 0,
                        "there is no runbook '%s'; /runbooks lists them",
                        http_quotable(call->id, 60));
}

#define GET_CALL(PATTERN, HANDLE, VERB)                                                            \
    {                                                                                              \
        .method = HTTP_METHOD_GET, .pattern = (PATTERN), .name = "runbook", .handle = (HANDLE),    \
        .scope = HTTP_FOR_EVERYBODY, .topics = HTTP_TOPICS_NONE, .verb = (VERB)                    \
    }

const struct http_route monitor_runbooks_routes[] = {
    GET_CALL("/runbooks", get_list, 0),
    GET_CALL("/runbooks/", get_list, 1), /* 1: in the folder */
    GET_CALL("/runbooks/{id}", get_runbook, 0),
    {0},
};
