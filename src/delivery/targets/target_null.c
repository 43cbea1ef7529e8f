/*
 * The null target, "null:": accepts all messages and discards them. It is for experiments, for
 * benchmarks of tarry itself, and as an example of a target.
 *
 * It has no peer, so the policy file need not allow a host; but like all delivery it requires a
 * policy file.
 *
 * A real target would keep each message until its peer has answered or it times out. This one keeps
 * the tags and reports them at the end of the loop iteration, because a report never occurs inside
 * send (rule 3).
 */
#include "targets/target.h"

#include <stdlib.h>

struct null_target {
    struct target target; /* the first member, to which the caller has the pointer */
    const struct target_env *env;
    struct iteration_end_call iteration_end; /* for reports, and the end of a close */
    uint64_t *tags;                          /* tags of messages that were not reported yet */
    size_t count, cap;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

static bool check_null(const struct target_setting *setting, struct slice to,
                       char error[TARGET_ERROR_BYTES])
{
    (void)setting;
    if (slice_is(to, "null:"))
        return true;
    strcpy(error, "it continues after 'null:', write only that");
    return false;
}

static void report_tag(struct null_target *null, uint64_t tag, enum target_outcome outcome,
                       const char *error)
{
    struct target_report report = {.outcome = outcome, .retry_after_ms = -1};
    strcpy(report.error, error);
    null->env->reported(null->env->owner, tag, &report);
}

/* Reports the tags collected so far; in response, the owner may send more. */
static void report_all(struct null_target *null)
{
    uint64_t *tags = null->tags;
    size_t count = null->count;
    null->tags = NULL;
    null->count = null->cap = 0;
    for (size_t i = 0; i < count; i++)
        report_tag(null, tags[i], TARGET_DONE, "");
    free(tags);
}

/* Runs at the end of a loop iteration with messages or a close. */
static void run_iteration_end(struct iteration_end_call *call)
{
    struct null_target *null = list_entry(call, struct null_target, iteration_end);
    report_all(null);
    if (!null->closed)
        return;
    void (*closed)(void *ctx) = null->closed;
    void *ctx = null->closed_ctx;
    free(null->tags);
    free(null);
    closed(ctx);
}

static struct target *open_null(const struct target_env *env, const struct target_setting *setting,
                                struct slice to)
{
    struct null_target *null = calloc(1, sizeof *null);
    (void)setting;
    (void)to;
    if (!null)
        return NULL;
    null->target.ops = &target_null;
    null->env = env;
    null->iteration_end.run = run_iteration_end;
    list_init(&null->iteration_end.list);
    return &null->target;
}

/* Makes room for tags. The number of messages is not limited elsewhere, so memory may run out. A
 * message without room would be unsent, and without memory that could not be reported. So room is
 * made first. */
static void make_room(struct null_target *null, size_t count)
{
    if (null->count + count <= null->cap)
        return;
    size_t cap = (null->count + count) * 2;
    uint64_t *tags = realloc(null->tags, cap * sizeof *tags);
    if (!tags)
        abort(); /* eight bytes per message: everything else would fail too */
    null->tags = tags;
    null->cap = cap;
}

static void send_null(struct target *target, const struct target_message *messages, size_t count)
{
    struct null_target *null = (struct null_target *)target;
    make_room(null, count);
    for (size_t i = 0; i < count; i++) {
        null->tags[null->count++] = messages[i].tag;
        if (messages[i].is_test && messages[i].explained)
            buffer_append_text(messages[i].explained, "accepted and discarded\n");
    }
    reactor_once_at_iteration_end(null->env->reactor, &null->iteration_end);
}

static void close_null(struct target *target, void (*closed)(void *ctx), void *ctx)
{
    struct null_target *null = (struct null_target *)target;
    null->closed = closed;
    null->closed_ctx = ctx;
    reactor_once_at_iteration_end(null->env->reactor, &null->iteration_end);
}

static const char *const schemes[] = {"null", NULL};

const struct target_ops target_null = {.schemes = schemes,
                                       .check = check_null,
                                       .open = open_null,
                                       .send = send_null,
                                       .close = close_null};
