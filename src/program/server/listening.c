#include "server/listening.h"

#include "base/log.h"
#include "server/config.h"

/* Checks whether a listener may be served, and logs exceptions to the rules. The properties of an
 * inherited socket are only known now. */
static bool evaluate_listener(struct listener *listener, const struct config *config, char *error)
{
    const struct exposure exposure = {
        .options = &listener->options,
        .name = listener->name,
        .is_local = listener->is_local,
        .can_prove = config_can_prove(config, &listener->options),
        .is_insecure = config->insecure,
    };
    if (!exposure_check(&exposure, error))
        return false;
    listener->requires_token = exposure_requires_token(&exposure) &&
                               !config_certificate_will_do(config, &listener->options);
    const char *departure = exposure_departure(&exposure);
    if (departure)
        log_event(LOG_WARN, "insecure", LOG_TEXT("address", listener->name),
                  LOG_TEXT("reason", departure));
    return true;
}

static bool open_side(struct listeners *side, const struct config *config, char *error)
{
    struct listener_options options;
    if (!config->beanstalk[0])
        return true;
    return config_beanstalk(config, &options, error) && listeners_open(side, &options, 1, error) &&
           evaluate_listener(&side->at[0], config, error);
}

static uint32_t inherited_count(const struct listeners *listeners)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < listeners->count; i++)
        count += listeners->at[i].is_inherited;
    return count;
}

bool listening_open(struct listening *listening, const struct config *config, char *error)
{
    const struct option_listen *listen = &config->listen;
    struct listeners *api = &listening->api;
    if (!listeners_open(api, listen->at, listen->count, error))
        return false;
    for (uint32_t i = 0; i < api->count; i++)
        if (!evaluate_listener(&api->at[i], config, error))
            return false;
    if (!open_side(&listening->side, config, error))
        return false;
    uint32_t unserved = listeners_unserved(api);
    if (unserved > inherited_count(&listening->side))
        log_event(LOG_WARN, "sockets not served", LOG_NUMBER("sockets", unserved),
                  LOG_TEXT("advice",
                           "systemd opened them but no listener uses them, give --listen fd:NAME"));
    return true;
}

void listening_require_tokens(struct listening *listening)
{
    for (uint32_t i = 0; i < listening->api.count; i++) {
        struct listener *listener = &listening->api.at[i];
        if (listener->options.token == LISTENER_TOKEN_AUTO)
            listener->requires_token = true;
    }
}

void listening_log_others(const struct listening *listening)
{
    char words[LISTENER_WORDS_BYTES];
    for (uint32_t i = 1; i < listening->api.count; i++) {
        listener_words(&listening->api.at[i], words);
        log_event(LOG_INFO, "listening also", LOG_TEXT("address", listening->api.at[i].name),
                  words[0] ? LOG_TEXT("words", words) : (struct log_field){0});
    }
    if (listening->side.count)
        log_event(LOG_INFO, "listening also", LOG_TEXT("address", listening->side.at[0].name),
                  LOG_TEXT("protocol", "beanstalk"));
}

void listening_close(struct listening *listening)
{
    listeners_close(&listening->api);
    listeners_close(&listening->side);
}
