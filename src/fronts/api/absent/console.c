/* Replaces the console in a build without it: answers its paths with a sentence. */
#include "api/console.h"
#include "base/feature.h"
#include "http/exchange.h"

static void refuse(struct http_call *call)
{
    char text[160];
    (void)feature_missing("console", text, sizeof text);
    http_answer_problem(call->exchange, PROBLEM_NO_SUCH_PATH, 0, "%s", text);
}

bool api_console_redirect(struct http_call *call, const char *location)
{
    (void)call;
    (void)location;
    return false;
}

#define CONSOLE_CALL(PATTERN)                                                                      \
    {                                                                                              \
        .method = HTTP_METHOD_GET, .pattern = (PATTERN), .name = "console",                        \
        .scope = HTTP_FOR_EVERYBODY, .topics = HTTP_TOPICS_NONE, .handle = refuse                  \
    }

const struct http_route api_console_routes[] = {
    CONSOLE_CALL("/console/"),
    CONSOLE_CALL("/console/{file}"),
    CONSOLE_CALL("/console"),
    CONSOLE_CALL("/v1/sign-in"),
    {0},
};
