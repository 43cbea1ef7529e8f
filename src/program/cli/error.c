/* Error messages on standard error. */
#include "cli/cli.h"
#include "cli/show.h"
#include "cli/url.h"

#include <errno.h>
#include <stdarg.h>

enum { SENTENCE_BYTES = 8192 };

/* Prints an error. Removes every part of a password that was given in a URL. */
static void print_error(bool is_careful, const char *format, va_list args)
{
    char sentence[SENTENCE_BYTES], shown[SENTENCE_BYTES + 64];
    vsnprintf(sentence, sizeof sentence, format, args);
    cli_url_show_sentence(sentence, is_careful, shown, sizeof shown);
    show_disarm(shown);
    fprintf(stderr, "tarry: %s\n", shown);
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
