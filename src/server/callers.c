#include "server/callers.h"

#include "audit/audit.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 1000 };

static void say_change(const struct access_change *change)
{
    char detail[128];
    snprintf(detail, sizeof detail, "%u added, %u removed, %u altered, %u in all", change->added,
             change->removed, change->altered, change->total);
    audit_event(&(struct audit_event){.action = "tokens changed",
                                      .kind = "server",
                                      .detail = detail,
                                      .outcome = AUDIT_OUTCOME_OK});
}

/* What is wrong for long is said once. */
static void complain(struct callers *callers, const char *error)
{
    if (strcmp(callers->complaint, error) == 0)
        return;
    snprintf(callers->complaint, sizeof callers->complaint, "%s", error);
    log_event(LOG_ERROR, "tokens not read", LOG_TEXT("error", error));
}

static void look(struct callers *callers, bool is_forced)
{
    struct access_change change;
    char error[ACCESS_ERROR_BYTES] = "";
    if (access_reload(callers->access, is_forced, &change, error) != 0)
        complain(callers, error);
    else
        callers->complaint[0] = '\0';
    if (!change.is_changed)
        return;
    say_change(&change);
    callers->changed(callers->ctx);
}

static void on_look(void *ctx)
{
    struct callers *callers = ctx;
    look(callers, false);
    callers_start(callers);
}

void callers_start(struct callers *callers)
{
    if (callers->look)
        deadline_set(callers->look, clock_inner_ms() + LOOK_MS);
}

void callers_reload(struct callers *callers)
{
    if (!callers->look)
        return;
    look(callers, true);
    if (!callers->complaint[0])
        log_event(LOG_INFO, "tokens read again");
}

bool callers_open(struct callers *callers, const struct config *config, struct reactor *reactor,
                  void (*changed)(void *ctx), void *ctx, char *error)
{
    const struct access_options options = {.tokens_file = config->tokens};
    *callers = (struct callers){.changed = changed, .ctx = ctx};
    if (access_new(&options, &callers->access, error) != 0)
        return false;
    if (!access_is_on(callers->access))
        return true;
    callers->look = deadline_new(reactor, on_look, callers);
    if (!callers->look)
        return error_text(error, ACCESS_ERROR_BYTES, "out of memory");
    log_event(LOG_INFO, "tokens read", LOG_TEXT("file", config->tokens));
    return true;
}

void callers_close(struct callers *callers)
{
    deadline_free(callers->look);
    access_free(callers->access);
    *callers = (struct callers){0};
}
