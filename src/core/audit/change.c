#include "audit/change.h"

#include "audit/audit.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 201, PEER_BYTES = 64, DETAIL_BYTES = 256 };

/* The topic or job of a change, or its absence if there are several. */
struct named {
    bool is_several;
    char text[NAME_BYTES];
};

struct audit_change {
    const char *action, *kind, *outcome;
    uint32_t holders;
    bool is_cancelled, counts_jobs;
    uint64_t jobs;
    char caller[128];
    char peer[PEER_BYTES];
    struct named topic, job;
    char detail[DETAIL_BYTES];
};

static void copy_text(char *out, size_t out_bytes, struct slice text)
{
    size_t len = text.len < out_bytes - 1 ? text.len : out_bytes - 1;
    for (size_t i = 0; i < len; i++)
        out[i] = text.at[i] ? text.at[i] : '?';
    out[len] = '\0';
}

struct audit_change *audit_change_begin(const char *action, const struct audit_who *who)
{
    struct audit_change *change = calloc(1, sizeof *change);
    if (!change)
        return NULL;
    change->holders = 1;
    change->action = action;
    change->kind = who->kind;
    copy_text(change->caller, sizeof change->caller, who->name);
    if (who->peer)
        copy_text(change->peer, sizeof change->peer, slice_of(who->peer));
    return change;
}

struct audit_change *audit_change_hold(struct audit_change *change)
{
    if (change)
        change->holders++;
    return change;
}

static const char *text_or_null(const char *text)
{
    return text[0] ? text : NULL;
}

void audit_change_end(struct audit_change *change, const char *outcome)
{
    if (!change)
        return;
    if (outcome)
        change->outcome = outcome;
    if (--change->holders)
        return;
    if (!change->is_cancelled)
        audit_event(&(struct audit_event){
            .action = change->action,
            .caller = change->caller,
            .kind = change->kind,
            .peer = text_or_null(change->peer),
            .topic = text_or_null(change->topic.text),
            .job = text_or_null(change->job.text),
            .detail = text_or_null(change->detail),
            .outcome = change->outcome ? change->outcome : AUDIT_OUTCOME_OK,
            .counts_jobs = change->counts_jobs,
            .jobs = change->jobs,
        });
    free(change);
}

void audit_change_cancel(struct audit_change *change)
{
    if (change)
        change->is_cancelled = true;
}

static void add_name(struct named *named, struct slice text)
{
    char name[NAME_BYTES];
    if (!text.len || named->is_several)
        return;
    copy_text(name, sizeof name, text);
    if (!named->text[0]) {
        memcpy(named->text, name, sizeof name);
    } else if (strcmp(named->text, name) != 0) {
        named->is_several = true;
        named->text[0] = '\0';
    }
}

void audit_change_name(struct audit_change *change, struct slice topic, struct slice job)
{
    if (!change)
        return;
    add_name(&change->topic, topic);
    add_name(&change->job, job);
}

void audit_change_detail(struct audit_change *change, struct slice detail)
{
    if (change)
        copy_text(change->detail, sizeof change->detail, detail);
}

void audit_change_count(struct audit_change *change, uint64_t jobs)
{
    if (!change)
        return;
    change->counts_jobs = true;
    change->jobs += jobs;
}

void audit_change_note(struct audit_change *change, const char *outcome)
{
    if (change)
        change->outcome = outcome;
}
