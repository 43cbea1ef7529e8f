/* Which listeners are served, and the messages about them. */
#include "server/config.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <string.h>

enum { LOCAL = 1, PROVE = 2, INSECURE = 4 };

CLAIM(only_safe_or_explicitly_insecure_listeners_are_served)
{
    static const char both[] =
        "reach without TLS and tokens, add the word tls and give --tokens, or --insecure";
    static const char tls[] = "reach without TLS, add the word tls, or plain";
    static const char meant[] = "reach without tokens, leave out no-token, or --insecure";
    static const char none[] = "reach without tokens, give --tokens FILE, or --insecure";
    static const char lacks[] = "cannot require tokens on 'a' without a file of tokens";
    static const char nothing[] = "neither TLS nor tokens",
                      readable[] = "can be read on the network", open[] = "requires no tokens",
                      every[] = "every program of this machine";
    static const struct {
        const char *sentence;
        struct listener_options options;
        int how;
        const char *refusal; /* NULL: it is served */
        bool requires_token;
        const char *departure; /* NULL: no message */
    } rows[] = {
        {"loopback, as it comes", {0}, LOCAL, NULL, false, NULL},
        {"loopback where there are tokens", {0}, LOCAL | PROVE, NULL, true, NULL},
        {"loopback with an exception",
         {.token = LISTENER_TOKEN_NONE},
         LOCAL | PROVE,
         NULL,
         false,
         every},
        {"loopback, no exception needed", {.token = LISTENER_TOKEN_NONE}, LOCAL, NULL, false, NULL},
        {"loopback that cannot ask", {.token = LISTENER_TOKEN_REQUIRED}, LOCAL, lacks, false, NULL},
        {"loopback that asks", {.token = LISTENER_TOKEN_REQUIRED}, LOCAL | PROVE, NULL, true, NULL},
        {"others, with nothing", {0}, 0, both, false, NULL},
        {"others, with nothing, meant", {0}, INSECURE, NULL, false, nothing},
        {"others, plain", {.plain = true}, 0, none, false, NULL},
        {"others, plain, with tokens", {.plain = true}, PROVE, NULL, true, readable},
        {"others, TLS only", {.tls = true}, 0, none, false, NULL},
        {"others, TLS only, meant", {.tls = true}, INSECURE, NULL, false, open},
        {"others, tokens only", {0}, PROVE, tls, false, NULL},
        {"others, tokens only, meant", {0}, PROVE | INSECURE, NULL, true, readable},
        {"others, both", {.tls = true}, PROVE, NULL, true, NULL},
        {"others, with an exception",
         {.tls = true, .token = LISTENER_TOKEN_NONE},
         PROVE,
         meant,
         false,
         NULL},
        {"others, with an exception, meant",
         {.tls = true, .token = LISTENER_TOKEN_NONE},
         PROVE | INSECURE,
         NULL,
         false,
         open},
        {"others, neither, with tokens there",
         {.token = LISTENER_TOKEN_NONE},
         PROVE,
         both,
         false,
         NULL},
        {"others, that cannot ask, though meant",
         {.tls = true, .token = LISTENER_TOKEN_REQUIRED},
         INSECURE,
         lacks,
         false,
         NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *sentence = rows[i].sentence;
        const struct exposure exposure = {
            .options = &rows[i].options,
            .name = "a",
            .is_local = rows[i].how & LOCAL,
            .can_prove = rows[i].how & PROVE,
            .is_insecure = rows[i].how & INSECURE,
        };
        char error[LISTENER_ERROR_BYTES] = "";
        CASE_HOLDS(sentence, exposure_check(&exposure, error) == !rows[i].refusal);
        CASE_HOLDS(sentence, !rows[i].refusal || strstr(error, rows[i].refusal));
        if (rows[i].refusal)
            continue;
        const char *departure = exposure_departure(&exposure);
        CASE_HOLDS(sentence, exposure_requires_token(&exposure) == rows[i].requires_token);
        CASE_HOLDS(sentence, !departure == !rows[i].departure);
        CASE_HOLDS(sentence, !departure || strstr(departure, rows[i].departure));
    }
}

CLAIMS_MAIN(NULL, NULL)
