#include "server/callers.h"

#include "server/config.h"

#include "access/token_list.h"
#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/trouble.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- stored tokens ---- */

const struct stored_tokens_ops *stored_tokens_ops_of(const struct config *config)
{
    if (config_is_sql(config))
        return &stored_tokens_sql;
    return config_is_redis(config) ? &stored_tokens_redis : NULL;
}

static int get(void *ctx, struct fetch *fetch)
{
    struct stored_tokens *stored = ctx;
    return stored->ops->read(stored->tokens, &fetch->text, &stored->is_changed, fetch->error);
}

static void got(void *ctx, struct fetch *fetch)
{
    struct stored_tokens *stored = ctx;
    if (fetch->result != 0)
        stored->got(stored->ctx, slice_make(NULL, 0), fetch->error);
    else if (stored->is_changed)
        stored->got(stored->ctx, buffer_slice(&fetch->text), NULL);
}

/* Opens the follower; `got` and `ctx` are set. `got` is called when the text has changed or could
 * not be read. It is called once inside this call, with the current text. Returns 0, or negative
 * errno with `error`. */
static int stored_tokens_open(struct stored_tokens *stored, const struct config *config,
                              struct reactor *reactor, char *error)
{
    stored->ops = stored_tokens_ops_of(config);
    stored->fetch = (struct fetch){.get = get, .got = got, .ctx = stored};
    int result = stored->ops->open(config, &stored->tokens, error);
    if (result != 0)
        return result;
    if (!fetch_open(&stored->fetch, reactor, "stored-tokens", TOKEN_LIST_BYTES_MAX)) {
        strcpy(error, "out of memory");
        return -ENOMEM;
    }
    stored->fetch.result = get(stored, &stored->fetch); /* no other thread has started yet */
    if (stored->fetch.result != 0)
        memcpy(error, stored->fetch.error, FETCH_ERROR_BYTES);
    else
        got(stored, &stored->fetch);
    return stored->fetch.result;
}

static void stored_tokens_look(struct stored_tokens *stored)
{
    fetch_begin(&stored->fetch);
}

static void stored_tokens_close(struct stored_tokens *stored)
{
    if (stored->fetch.worker)
        fetch_close(&stored->fetch);
    if (stored->ops)
        stored->ops->close(stored->tokens);
    *stored = (struct stored_tokens){0};
}

/* ---- callers ---- */

enum { LOOK_MS = 1000 };

static void log_change(const struct access_change *change)
{
    char detail[128];
    snprintf(detail, sizeof detail, "%u added, %u removed, %u changed, %u in total", change->added,
             change->removed, change->altered, change->total);
    if (change->added || change->removed || change->altered)
        audit_event(&(struct audit_event){.action = "tokens changed",
                                          .kind = "server",
                                          .detail = detail,
                                          .outcome = AUDIT_OUTCOME_OK});
    if (change->has_new_keys)
        audit_event(&(struct audit_event){
            .action = "issuer keys changed", .kind = "server", .outcome = AUDIT_OUTCOME_OK});
}

/* Logs an error once while it persists. */
static void complain(char complaint[ACCESS_ERROR_BYTES], const char *event, const char *error)
{
    if (strcmp(complaint, error) == 0)
        return;
    snprintf(complaint, ACCESS_ERROR_BYTES, "%s", error);
    log_event(LOG_ERROR, event, LOG_TEXT("error", error));
}

/* ---- an issuer's keys ---- */

static void on_keys(void *ctx, struct slice text, const char *url, const char *fetch_error)
{
    struct callers *callers = ctx;
    struct access_change change = {0};
    char error[ACCESS_ERROR_BYTES] = "";
    if (fetch_error)
        snprintf(error, sizeof error, "%s", fetch_error);
    if (fetch_error || access_set_jwt_keys(callers->access, text, url, &change, error) != 0) {
        trouble_note(TROUBLE_ISSUER_KEYS, 0, true);
        complain(callers->key_complaint, "issuer keys not read", error);
        return;
    }
    trouble_note(TROUBLE_ISSUER_KEYS, 0, false);
    callers->key_complaint[0] = '\0';
    log_change(&change);
}

static bool open_keys(struct callers *callers, struct reactor *reactor)
{
    const struct config *config = callers->config;
    callers->keys = (struct issuer_keys){.got = on_keys, .ctx = callers};
    callers->has_key_url = true;
    return issuer_keys_open(&callers->keys, reactor, config->jwt_keys, config->jwt_ca);
}

/* ---- tokens in a store ---- */

static void on_stored(void *ctx, struct slice text, const char *read_error)
{
    struct callers *callers = ctx;
    struct access_change change = {0};
    char error[ACCESS_ERROR_BYTES] = "";
    if (read_error)
        snprintf(error, sizeof error, "%s", read_error);
    bool has_failed = read_error || access_set_tokens(callers->access, text, &change, error) != 0;
    trouble_note(TROUBLE_TOKENS, 1, has_failed);
    if (has_failed) {
        complain(callers->complaint, "tokens not read", error);
        return;
    }
    callers->complaint[0] = '\0';
    if (callers->follows_store) /* otherwise they are the first ones */
        log_change(&change);
}

/* Opens the tokens in the store. If no tokens are configured, the tokens in the store apply,
 * because they are meant for all its servers. A user of the store without the right to read them is
 * accepted in that case. */
static bool open_stored(struct callers *callers, struct reactor *reactor, char *error)
{
    bool is_asked_for = config_tokens_are_stored(callers->config);
    callers->stored = (struct stored_tokens){.got = on_stored, .ctx = callers};
    int result = stored_tokens_open(&callers->stored, callers->config, reactor, error);
    if (result == -EACCES && !is_asked_for)
        result = 0;
    else if (result == 0)
        callers->follows_store = is_asked_for || access_is_on(callers->access);
    if (!callers->follows_store)
        stored_tokens_close(&callers->stored);
    return result == 0;
}

/* ---- periodic checks ---- */

static void look(struct callers *callers, bool is_forced)
{
    struct access_change change;
    char error[ACCESS_ERROR_BYTES] = "";
    int failed = access_reload(callers->access, is_forced, &change, error);
    trouble_note(TROUBLE_TOKENS, 0, failed != 0);
    if (failed)
        complain(callers->complaint, "tokens not read", error);
    else if (!callers->follows_store)
        callers->complaint[0] = '\0';
    if (callers->follows_store)
        stored_tokens_look(&callers->stored);
    log_change(&change);
    if (callers->has_key_url)
        issuer_keys_look(&callers->keys, access_wants_jwt_keys(callers->access));
}

void callers_start(struct callers *callers)
{
    if (!callers->look)
        return;
    if (callers->has_key_url)
        issuer_keys_look(&callers->keys, false);
    deadline_set(callers->look, clock_inner_ms() + LOOK_MS);
}

static void on_look(void *ctx)
{
    struct callers *callers = ctx;
    look(callers, false);
    callers_start(callers);
}

void callers_reload(struct callers *callers)
{
    if (!callers->look)
        return;
    if (callers->has_key_url)
        issuer_keys_ask_again(&callers->keys);
    look(callers, true);
    if (!callers->complaint[0])
        log_event(LOG_INFO, "tokens read again");
}

/* ---- life ---- */

static struct access_options options_of(const struct config *config)
{
    bool is_url = config_jwt_keys_are_remote(config);
    return (struct access_options){.tokens_file =
                                       config_tokens_are_stored(config) ? "" : config->tokens,
                                   .has_stored_tokens = config_tokens_are_stored(config),
                                   .jwt = {.issuer = config->jwt_issuer,
                                           .audience = config->jwt_audience,
                                           .scope_claim = config->jwt_scope_claim,
                                           .topics_claim = config->jwt_topics_claim,
                                           .keys_file = is_url ? "" : config->jwt_keys}};
}

bool callers_check(const struct config *config, char *error)
{
    const struct access_options options = options_of(config);
    struct access *access = NULL;
    bool is_good = access_new(&options, &access, error) == 0;
    if (is_good)
        access_free(access);
    return is_good;
}

bool callers_open(struct callers *callers, const struct config *config, struct reactor *reactor,
                  char *error)
{
    const struct access_options options = options_of(config);
    *callers = (struct callers){.config = config};
    if (access_new(&options, &callers->access, error) != 0)
        return false;
    bool may_be_stored = stored_tokens_ops_of(config) && !options.tokens_file[0];
    if (may_be_stored && !open_stored(callers, reactor, error))
        return false;
    if (!access_is_on(callers->access))
        return true;
    callers->look = deadline_new(reactor, on_look, callers);
    if (!callers->look || (config_jwt_keys_are_remote(config) && !open_keys(callers, reactor)))
        return error_text(error, ACCESS_ERROR_BYTES, "out of memory");
    if (callers->follows_store)
        log_event(LOG_INFO, "tokens read", LOG_TEXT("file", "store"));
    else if (config->tokens[0])
        log_event(LOG_INFO, "tokens read", LOG_TEXT("file", config->tokens));
    return true;
}

void callers_close(struct callers *callers)
{
    if (callers->has_key_url)
        issuer_keys_close(&callers->keys);
    stored_tokens_close(&callers->stored);
    deadline_free(callers->look);
    access_free(callers->access);
    *callers = (struct callers){0};
}
