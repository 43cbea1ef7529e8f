/* Error messages on standard error. */
#include "cli/cli.h"
#include "cli/show.h"
#include "cli/url.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>

enum { SENTENCE_BYTES = 8192 };

static bool is_json;

void cli_errors_as_json(void)
{
    is_json = true;
}

static void print_json(const char *text, const char *code, long status)
{
    json_t *error = json_pack("{s:s}", "error", text);
    if (error && code)
        json_object_set_new(error, "code", json_string(code));
    if (error && status)
        json_object_set_new(error, "status", json_integer(status));
    char *line = error ? json_dumps(error, JSON_COMPACT) : NULL;
    fprintf(stderr, "%s\n", line ? line : "{\"error\":\"out of memory\"}");
    free(line);
    json_decref(error);
}

static void print_sentence(bool is_careful, const char *sentence, const char *code, long status)
{
    char shown[SENTENCE_BYTES + 64];
    cli_url_show_sentence(sentence, is_careful, shown, sizeof shown);
    show_disarm(shown);
    if (is_json)
        print_json(shown, code, status);
    else
        fprintf(stderr, "tarry: %s%s%s%s\n", shown, code ? " (" : "", code ? code : "",
                code ? ")" : "");
}

/* Prints an error. Removes every part of a password that was given in a URL. */
static void print_error(bool is_careful, const char *format, va_list args)
{
    char sentence[SENTENCE_BYTES];
    vsnprintf(sentence, sizeof sentence, format, args);
    print_sentence(is_careful, sentence, NULL, 0);
}

void cli_problem(const char *text, const char *code, long status)
{
    print_sentence(false, text, code, status);
}

int cli_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_error(false, format, args);
    va_end(args);
    return CLI_REFUSED;
}

int cli_usage(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_error(true, format, args);
    va_end(args);
    return CLI_USAGE;
}

int cli_store_error(int result, const char *error)
{
    cli_error("%s", error);
    return result == -EDOM ? CLI_USAGE : result == -EHOSTUNREACH ? CLI_UNREACHABLE : CLI_REFUSED;
}
