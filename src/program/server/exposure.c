#include "server/exposure.h"

#include "base/error.h"

static bool is_proven(const struct exposure *exposure)
{
    return exposure->can_prove && exposure->options->token != LISTENER_TOKEN_NONE;
}

bool exposure_requires_token(const struct exposure *exposure)
{
    return exposure->options->token == LISTENER_TOKEN_REQUIRED || is_proven(exposure);
}

bool exposure_check(const struct exposure *exposure, char *error)
{
    const struct listener_options *options = exposure->options;
    bool is_hidden = options->tls || options->plain;
    if (options->token == LISTENER_TOKEN_REQUIRED && !exposure->can_prove)
        return error_text(
            error, LISTENER_ERROR_BYTES,
            "cannot require tokens on '%s' without a file of tokens, give --tokens FILE",
            exposure->name);
    if (exposure->is_local || exposure->is_insecure || (is_hidden && is_proven(exposure)))
        return true;
    if (!is_hidden && !is_proven(exposure))
        return error_text(error, LISTENER_ERROR_BYTES,
                          "refusing to listen on '%s', which other machines can reach without TLS "
                          "and tokens, add the word tls and give --tokens, or --insecure to allow "
                          "it",
                          exposure->name);
    if (is_hidden)
        return error_text(error, LISTENER_ERROR_BYTES,
                          "refusing to listen on '%s', which other machines can reach without "
                          "tokens, %s, or --insecure to allow it",
                          exposure->name,
                          exposure->can_prove ? "leave out no-token" : "give --tokens FILE");
    return error_text(error, LISTENER_ERROR_BYTES,
                      "refusing to listen on '%s', which other machines can reach without TLS, add "
                      "the word tls, or plain if a proxy or the network protects the traffic",
                      exposure->name);
}

const char *exposure_departure(const struct exposure *exposure)
{
    bool is_plain = !exposure->options->tls, is_open = !exposure_requires_token(exposure);
    if (exposure->is_local)
        return is_open && exposure->can_prove && exposure->options->token == LISTENER_TOKEN_NONE
                   ? "every program of this machine that may connect can do everything (no-token)"
                   : NULL;
    if (is_plain && is_open)
        return "other machines can reach this server, which requires neither TLS nor tokens on "
               "this listener";
    if (is_open)
        return "other machines can reach this server, which requires no tokens on this listener";
    if (is_plain)
        return "requests from other machines, including tokens, can be read on the network: no TLS";
    return NULL;
}
