/*
 * work: takes jobs, runs a command for each, and answers them.
 *
 * One thread. All calls go through a curl multi handle, whose poll also watches the commands, their
 * standard error, and the signals.
 */
#include "base/clock.h"
#include "base/duration.h"
#include "base/random.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "job/job.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* ---- outages ---- */

/*
 * An outage of the server. Its beginning and its end are each reported once. The pauses between
 * attempts grow and vary at random, so that many waiting workers do not return at the same time.
 * One thread.
 */

/* Zeroed: the server is reachable. */
struct outage {
    int64_t since_ms; /* first failure in a row, time since boot; 0: no outage */
    bool is_of_takes; /* so far only takes have failed, so only a take can end it */
};

enum { PAUSE_MS = 50, DOUBLINGS_MAX = 16 };

static int64_t now_ms(void)
{
    return clock_boot_us() / 1000;
}

/* Records that a call failed with `problem`, after *tries failed calls of its kind. Returns the
 * pause before the next attempt, at most `pause_ms_max`. */
static int64_t outage_fail(struct outage *outage, bool is_take, unsigned *tries,
                           const char *problem, int64_t pause_ms_max)
{
    if (!outage->since_ms) {
        cli_error("%s; trying again until it works", problem);
        *outage = (struct outage){.since_ms = now_ms(), .is_of_takes = is_take};
    }
    outage->is_of_takes = outage->is_of_takes && is_take;
    int64_t pause_ms = (int64_t)PAUSE_MS << *tries;
    if (*tries < DOUBLINGS_MAX)
        ++*tries;
    if (pause_ms > pause_ms_max)
        pause_ms = pause_ms_max;
    struct random random = {.state = random_u64()};
    return pause_ms / 2 + (int64_t)random_below(&random, (uint64_t)(pause_ms - pause_ms / 2 + 1));
}

/* Records that a call was answered. Returns true if this ended an outage. */
static bool outage_end(struct outage *outage, bool is_take, unsigned *tries, const char *url)
{
    *tries = 0;
    if (!outage->since_ms || (outage->is_of_takes && !is_take))
        return false;
    cli_error("'%s' answers again, after %lld s", url,
              (long long)((now_ms() - outage->since_ms + 500) / 1000));
    outage->since_ms = 0;
    return true;
}

/* ---- slots ---- */

/* A place for one job: its command while it runs, then its outcome until the server has
 * answered. */

enum {
    WORK_SLOTS_MAX = 256,
    WORK_NAME_BYTES = 336, /* topic/id */
    WORK_LEASE_BYTES = 80
};

enum work_slot_state { WORK_SLOT_FREE = 0, WORK_SLOT_RUNNING, WORK_SLOT_ENDED };

struct work_slot {
    enum work_slot_state state;
    uint64_t serial; /* distinguishes successive jobs of a slot */
    struct child child;
    char name[WORK_NAME_BYTES], lease[WORK_LEASE_BYTES];
    char error[CHILD_ERROR_BYTES]; /* once ended: reason of the failure; "" on success */
    bool is_final;                 /* once ended: no further attempt can help */
    int64_t lease_end_ms;          /* estimate, time since boot */
    int64_t extend_ms;             /* when to extend the lease next */
    bool is_lost;                  /* the server reported that the lease has ended */
    bool is_unwanted;              /* a cancel of the job was requested */
    bool is_doubtful; /* an answer for it was interrupted and may have been processed */
};

/* ---- answers ---- */

/*
 * Acks, nacks and extends of the jobs in slots, many per call.
 *
 * Each verb has its own connection and one call at a time, run by a curl multi handle, so that a
 * slow ack does not delay an extend. Leases are extended after each tenth of their time until the
 * ack or nack is answered, and failed calls are repeated: a server may be unreachable for three
 * quarters of a lease without a job being delivered twice.
 */

enum work_verb { WORK_ACK = 0, WORK_NACK, WORK_EXTEND, WORK_VERBS };

struct work_call {
    struct client client;
    struct buffer body;
    struct work_item {
        size_t slot;
        uint64_t serial;
    } items[WORK_SLOTS_MAX];
    size_t count;    /* number of items in the call; 0: no call in progress */
    int64_t next_ms; /* earliest time of the next call after a failure */
    unsigned tries;
};

struct work_answers {
    struct work_call calls[WORK_VERBS];
    struct work_slot *slots;
    size_t slot_count;
    CURLM *multi;
    struct outage *outage;
    const char *lease_for;
    int64_t lease_ms;
    bool quiet;
};

enum {
    CALL_MS_MIN = 2000, /* a call without an answer for longer than a lease is repeated */
    CALL_MS_MAX = 30000,
    RETRY_MS_MIN = 50,
    RETRY_MS_MAX = 3000
};

static const char *const verbs[WORK_VERBS] = {"ack", "nack", "extend"};

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Opens the connections. The fields from `slots` on are already set. Returns false if out of
 * memory, after printing the error. */
static bool work_answers_open(struct work_answers *answers, const char *url)
{
    for (int verb = 0; verb < WORK_VERBS; verb++) {
        struct work_call *call = &answers->calls[verb];
        if (!client_open(&call->client, url))
            return false;
        call->client.is_silent = true;
        buffer_init(&call->body, WORK_SLOTS_MAX * 2048);
    }
    return true;
}

static void work_answers_close(struct work_answers *answers)
{
    for (int verb = 0; verb < WORK_VERBS; verb++) {
        client_close(&answers->calls[verb].client);
        buffer_fini(&answers->calls[verb].body);
    }
}

/* ---- due calls ---- */

/* Returns when the verb is due for the slot; INT64_MAX: never. */
static int64_t due_ms(const struct work_slot *slot, enum work_verb verb)
{
    bool is_failure = slot->error[0] != '\0';
    if (slot->state == WORK_SLOT_FREE)
        return INT64_MAX;
    if (verb == WORK_EXTEND)
        return slot->is_lost ? INT64_MAX : slot->extend_ms;
    return slot->state == WORK_SLOT_ENDED && is_failure == (verb == WORK_NACK) ? 0 : INT64_MAX;
}

static bool add_lease(json_t *leases, const struct work_slot *slot, enum work_verb verb,
                      const char *lease_for)
{
    json_t *item = json_pack("{s:s}", "lease", slot->lease);
    if (item && verb == WORK_NACK)
        json_object_set_new(item, "error", json_string(slot->error));
    if (item && verb == WORK_NACK && slot->is_final)
        json_object_set_new(item, "final", json_true());
    if (item && verb == WORK_EXTEND)
        json_object_set_new(item, "lease_for", json_string(lease_for));
    return json_array_append_new(leases, item) == 0;
}

/* Adds all slots for which the verb is due to the call's body. Returns false if there is no such
 * slot. */
static bool make_body(struct work_answers *answers, enum work_verb verb)
{
    struct work_call *call = &answers->calls[verb];
    json_t *leases = json_array(), *body = json_pack("{s:o}", "leases", leases);
    for (size_t i = 0; i < answers->slot_count; i++)
        if (due_ms(&answers->slots[i], verb) <= now_ms() &&
            add_lease(leases, &answers->slots[i], verb, answers->lease_for))
            call->items[call->count++] = (struct work_item){i, answers->slots[i].serial};
    char *text = call->count > 0 ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    buffer_clear(&call->body);
    buffer_append_text(&call->body, text ? text : "");
    free(text);
    if (call->body.len > 0 && !call->body.failed)
        return true;
    call->count = 0;
    return false;
}

/* Starts the verb's call, unless one is in progress or must wait. */
static void work_call_start(struct work_answers *answers, enum work_verb verb)
{
    struct work_call *call = &answers->calls[verb];
    struct client *client = &call->client;
    if (call->count > 0 || call->next_ms > now_ms() || !make_body(answers, verb))
        return;
    struct slice body = buffer_slice(&call->body);
    cli_url_add_segment(client_begin(client), verbs[verb]);
    client_add_header(client, "Content-Type: application/json");
    if (!client_prepare(client, "POST", &body, 0)) {
        call->count = 0;
        call->next_ms = now_ms() + RETRY_MS_MAX;
        return;
    }
    curl_easy_setopt(client->curl, CURLOPT_TIMEOUT_MS,
                     (long)clamp(answers->lease_ms, CALL_MS_MIN, CALL_MS_MAX));
    curl_multi_add_handle(answers->multi, client->curl);
}

/* Starts all due calls. */
static void work_answers_start(struct work_answers *answers)
{
    for (int verb = 0; verb < WORK_VERBS; verb++)
        work_call_start(answers, (enum work_verb)verb);
}

/* Returns the time since boot of the next action if no transfer ends before. */
static int64_t work_answers_next_ms(const struct work_answers *answers)
{
    int64_t next_ms = INT64_MAX;
    for (int verb = 0; verb < WORK_VERBS; verb++) {
        const struct work_call *call = &answers->calls[verb];
        for (size_t i = 0; call->count == 0 && i < answers->slot_count; i++) {
            int64_t ms = due_ms(&answers->slots[i], (enum work_verb)verb);
            if (ms < call->next_ms)
                ms = call->next_ms;
            if (ms < next_ms)
                next_ms = ms;
        }
    }
    return next_ms;
}

/* ---- results ---- */

/* Returns whether the failure is temporary and not caused by the lease. */
static bool is_passing(const char *code)
{
    static const char *const passing[] = {"unavailable", "stopping", "not_ready", "no_memory"};
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++)
        if (strcmp(code, passing[i]) == 0)
            return true;
    return false;
}

/* Signals the command once with SIGTERM, as at the end of a worker. */
static void note_unwanted(struct work_slot *slot)
{
    if (slot->is_unwanted || slot->state != WORK_SLOT_RUNNING)
        return;
    slot->is_unwanted = true;
    cli_error("a cancel of '%s' was requested, its command receives SIGTERM", slot->name);
    kill(-slot->child.pid, SIGTERM);
}

static void end_extend(struct work_answers *answers, struct work_slot *slot, bool is_ok,
                       const json_t *result)
{
    if (is_ok) {
        if (json_is_true(json_object_get(result, "cancel_requested")))
            note_unwanted(slot);
        slot->lease_end_ms = now_ms() + answers->lease_ms;
        slot->extend_ms = now_ms() + answers->lease_ms / 10;
        return;
    }
    slot->is_lost = true;
    if (slot->state == WORK_SLOT_RUNNING)
        cli_error(
            "the lease of '%s' has ended while its command runs, the job will be delivered again",
            slot->name);
}

/* Handles the result of an ack or nack: frees the slot and prints the outcome. */
static void end_answer(struct work_answers *answers, struct work_slot *slot, enum work_verb verb,
                       bool is_ok)
{
    slot->state = WORK_SLOT_FREE;
    if (is_ok && !answers->quiet)
        fprintf(stderr, "%sed %s%s%s%s\n", verbs[verb], slot->name, slot->error[0] ? ", " : "",
                slot->error, slot->is_final ? ", now dead" : "");
    else if (!is_ok && slot->is_doubtful)
        cli_error("'%s' may have been %sed by an interrupted call; if not, its lease has ended and "
                  "it will be delivered again",
                  slot->name, verbs[verb]);
    else if (!is_ok)
        cli_error("'%s' was not %sed, its lease has ended, it will be delivered again", slot->name,
                  verbs[verb]);
}

/* Handles a nack of a job whose cancel was requested: it is not retried. */
static void end_cancelled(struct work_answers *answers, struct work_slot *slot)
{
    slot->state = WORK_SLOT_FREE;
    if (!answers->quiet)
        fprintf(stderr, "cancelled %s as requested\n", slot->name);
}

/* Returns the slot of an item, or NULL if its job has ended meanwhile. */
static struct work_slot *find_slot(struct work_answers *answers, const struct work_item *item)
{
    struct work_slot *slot = &answers->slots[item->slot];
    return slot->state != WORK_SLOT_FREE && slot->serial == item->serial ? slot : NULL;
}

/* Handles the result of one item. Returns false if it must be sent again. */
static bool end_item(struct work_answers *answers, const struct work_item *item,
                     enum work_verb verb, const json_t *result)
{
    struct work_slot *slot = find_slot(answers, item);
    const char *code = json_string_value(json_object_get(result, "result"));
    if (!slot)
        return true;
    if (!code || is_passing(code))
        return false;
    if (verb == WORK_EXTEND)
        end_extend(answers, slot, strcmp(code, "ok") == 0, result);
    else if (strcmp(code, "cancelled") == 0)
        end_cancelled(answers, slot);
    else
        end_answer(answers, slot, verb, strcmp(code, "ok") == 0);
    return true;
}

static int64_t retry_ms_max(const struct work_answers *answers)
{
    return clamp(answers->lease_ms / 20, RETRY_MS_MIN, RETRY_MS_MAX);
}

static void work_call_fail(struct work_answers *answers, struct work_call *call,
                           const char *problem)
{
    call->next_ms = now_ms() + outage_fail(answers->outage, false, &call->tries, problem,
                                           retry_ms_max(answers));
}

/* Ends a call: each item has its result, or is sent again. */
static void work_call_end(struct work_answers *answers, enum work_verb verb, CURLcode code)
{
    struct work_call *call = &answers->calls[verb];
    struct client *client = &call->client;
    const json_t *results;
    int exit_code = client_finish(client, code);
    size_t count = call->count;
    bool is_whole = true;
    call->count = 0;
    results = json_object_get(client->json, "results");
    if (exit_code != CLI_OK || json_array_size(results) != count) {
        for (size_t i = 0; i < count && verb != WORK_EXTEND; i++) {
            struct work_slot *slot = find_slot(answers, &call->items[i]);
            if (slot)
                slot->is_doubtful = true;
        }
        work_call_fail(answers, call,
                       client->problem[0] ? client->problem : "unexpected answer to an ack");
        return;
    }
    for (size_t i = 0; i < count; i++)
        is_whole = end_item(answers, &call->items[i], verb, json_array_get(results, i)) && is_whole;
    if (is_whole)
        outage_end(answers->outage, false, &call->tries, client->shown);
    else
        work_call_fail(answers, call, "the server's store is not available now");
}

/* Ends a transfer of the multi handle. Returns false if it belongs to another call. */
static bool work_answers_end(struct work_answers *answers, const CURL *curl, CURLcode code)
{
    for (int verb = 0; verb < WORK_VERBS; verb++)
        if (answers->calls[verb].client.curl == curl) {
            curl_multi_remove_handle(answers->multi, answers->calls[verb].client.curl);
            work_call_end(answers, (enum work_verb)verb, code);
            return true;
        }
    return false;
}

/* Frees slots whose command and lease have ended during an outage. If `is_impatient`, the lease
 * need not have ended. */
static void work_answers_give_up(struct work_answers *answers, bool is_impatient)
{
    for (size_t i = 0; i < answers->slot_count; i++) {
        struct work_slot *slot = &answers->slots[i];
        bool is_over = slot->lease_end_ms <= now_ms() || is_impatient;
        if (slot->state != WORK_SLOT_ENDED || !answers->outage->since_ms || !is_over)
            continue;
        cli_error("'%s' could not be answered, it will be delivered again", slot->name);
        slot->state = WORK_SLOT_FREE;
    }
}

enum { WAIT_MS = 30000, TAKE_PAUSE_MS_MAX = 10000, TOPICS_MAX = 64 /* of a take */ };

struct work {
    struct cli_list topics;
    const char *url, *consumer, *order;
    char **command;
    size_t slot_count;
    struct work_slot slots[WORK_SLOTS_MAX];
    uint64_t serial; /* of the last taken job */
    struct client taker;
    struct work_answers answers;
    struct outage outage;
    CURLM *multi;
    bool taking, stopping;
    int64_t take_again_ms;
    unsigned take_tries;
    int signals; /* a signalfd */
    int exit_code;
};

static size_t count_slots(const struct work *work, enum work_slot_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < work->slot_count; i++)
        count += work->slots[i].state == state;
    return count;
}

static void work_stop(struct work *work, int exit_code)
{
    work->stopping = true;
    if (work->exit_code == CLI_OK)
        work->exit_code = exit_code;
}

/* ---- commands ---- */

static void end_command(struct work_slot *slot)
{
    slot->state = WORK_SLOT_ENDED;
    slot->is_final = child_is_final(&slot->child);
    child_explain(&slot->child, slot->error);
}

static void tend_commands(struct work *work)
{
    for (size_t i = 0; i < work->slot_count; i++) {
        struct work_slot *slot = &work->slots[i];
        if (slot->state != WORK_SLOT_RUNNING)
            continue;
        child_pass_errors(&slot->child);
        if (child_reap(&slot->child))
            end_command(slot);
    }
}

/* Starts the command for the taken job in a free slot. */
static void start_job(struct work *work)
{
    const struct client *client = &work->taker;
    const int64_t lease_ms = work->answers.lease_ms;
    const struct child_job job = {
        .topic = client_header(client, "Tarry-Topic"),
        .id = client_header(client, "Tarry-Id"),
        .attempt = client_header(client, "Tarry-Attempt"),
        .lease = client_header(client, "Tarry-Lease"),
        .content_type = client_header(client, "Content-Type"),
        .body = buffer_slice(&client->answer),
        .traceparent = client_header(client, "Tarry-Meta-Traceparent"),
        .tracestate = client_header(client, "Tarry-Meta-Tracestate"),
    };
    struct work_slot *slot = work->slots;
    while (slot->state != WORK_SLOT_FREE)
        slot++; /* a free slot exists, otherwise no job would have been taken */
    *slot = (struct work_slot){.state = WORK_SLOT_RUNNING,
                               .serial = ++work->serial,
                               .lease_end_ms = now_ms() + lease_ms,
                               .extend_ms = now_ms() + lease_ms / 10};
    snprintf(slot->name, sizeof slot->name, "%.*s/%.*s", (int)job.topic.len, job.topic.at,
             (int)job.id.len, job.id.at);
    snprintf(slot->lease, sizeof slot->lease, "%.*s", (int)job.lease.len, job.lease.at);
    int error = child_start(&slot->child, work->command, &job, work->url);
    if (error == 0)
        return;
    cli_error("cannot run '%s', %s", work->command[0], strerror(-error));
    slot->state = WORK_SLOT_ENDED;
    snprintf(slot->error, sizeof slot->error, "the command could not be run");
    work_stop(work, CLI_REFUSED);
}

/* ---- takes ---- */

static void begin_take(struct work *work)
{
    /* During an outage, takes do not wait, so that its end is noticed immediately. */
    int64_t wait_ms = work->outage.since_ms ? 0 : WAIT_MS;
    struct buffer *target = client_begin(&work->taker);
    cli_url_add_segment(target, "take");
    for (size_t i = 0; i < work->topics.count; i++)
        cli_url_add_query(target, "topic", work->topics.at[i]);
    cli_url_add_query(target, "order", work->order);
    cli_url_add_query_ms(target, "wait", wait_ms);
    cli_url_add_query(target, "lease_for", work->answers.lease_for);
    cli_url_add_query(target, "consumer", work->consumer);
    client_want_raw(&work->taker); /* byte for byte, which JSON does not guarantee */
    if (!client_prepare(&work->taker, "POST", NULL, wait_ms)) {
        work_stop(work, CLI_USAGE);
        return;
    }
    curl_multi_add_handle(work->multi, work->taker.curl);
    work->taking = true;
}

/* Handles the end of a take: a job, no job, a rejection, or an unreachable server. */
static void end_take(struct work *work, CURLcode code)
{
    struct client *client = &work->taker;
    int exit_code = client_finish(client, code);
    curl_multi_remove_handle(work->multi, client->curl);
    work->taking = false;
    bool is_away = exit_code == CLI_UNREACHABLE || client->status >= 500 || client->status == 429;
    if (is_away) {
        work->take_again_ms = now_ms() + outage_fail(&work->outage, true, &work->take_tries,
                                                     client->problem, TAKE_PAUSE_MS_MAX);
        return;
    }
    outage_end(&work->outage, true, &work->take_tries, client->shown);
    if (exit_code == CLI_OK && client_header(client, "Tarry-Lease").len > 0) {
        start_job(work);
    } else if (exit_code == CLI_OK) {
        work_stop(work, cli_error("unexpected answer to a take, check that it is a tarry server"));
    } else if (client->status != 204) {
        cli_error("%s", client->problem);
        work_stop(work, exit_code);
    }
}

static void run_transfers(struct work *work)
{
    int running, left;
    curl_multi_perform(work->multi, &running);
    for (const CURLMsg *message; (message = curl_multi_info_read(work->multi, &left));) {
        if (message->msg != CURLMSG_DONE)
            continue;
        const CURLcode code = message->data.result;
        bool was_away = work->outage.since_ms != 0;
        if (!work_answers_end(&work->answers, message->easy_handle, code))
            end_take(work, code);
        else if (was_away && !work->outage.since_ms)
            work->take_again_ms = 0;
    }
}

/* ---- the loop ---- */

static void print_stopping(size_t running)
{
    fprintf(stderr, "stopping, %zu command%s still running\n", running,
            running == 1 ? " is" : "s are");
}

static void read_signals(struct work *work)
{
    struct signalfd_siginfo info;
    while (read(work->signals, &info, sizeof info) == sizeof info) {
        if (!work->stopping && !work->answers.quiet)
            print_stopping(count_slots(work, WORK_SLOT_RUNNING));
        for (size_t i = 0; work->stopping && i < work->slot_count; i++)
            if (work->slots[i].state == WORK_SLOT_RUNNING)
                kill(-work->slots[i].child.pid, SIGTERM);
        if (work->stopping)
            work_answers_give_up(&work->answers, true);
        work->stopping = true;
    }
}

static int poll_timeout(const struct work *work)
{
    int64_t next = now_ms() + 60 * 1000, answer = work_answers_next_ms(&work->answers);
    size_t free_count = count_slots(work, WORK_SLOT_FREE);
    if (work->stopping && free_count == work->slot_count)
        return 0;
    if (!work->taking && !work->stopping && free_count > 0 && work->take_again_ms < next)
        next = work->take_again_ms;
    if (answer < next)
        next = answer;
    return next <= now_ms() ? 0 : (int)(next - now_ms());
}

/* Waits for a transfer, the end or output of a command, a signal, or the next deadline. */
static void wait_for_events(struct work *work)
{
    struct curl_waitfd fds[2 * WORK_SLOTS_MAX + 1];
    unsigned count = 0;
    fds[count++] = (struct curl_waitfd){.fd = work->signals, .events = CURL_WAIT_POLLIN};
    for (size_t i = 0; i < work->slot_count; i++) {
        const struct child *child = &work->slots[i].child;
        if (work->slots[i].state != WORK_SLOT_RUNNING)
            continue;
        fds[count++] = (struct curl_waitfd){.fd = child->pidfd, .events = CURL_WAIT_POLLIN};
        if (child->errors >= 0)
            fds[count++] = (struct curl_waitfd){.fd = child->errors, .events = CURL_WAIT_POLLIN};
    }
    curl_multi_poll(work->multi, fds, count, poll_timeout(work), NULL);
}

/* Runs until stopping is set and no slot is in use. */
static void work_loop(struct work *work)
{
    for (;;) {
        bool may_take = !work->stopping && !work->taking && work->take_again_ms <= now_ms();
        if (may_take && count_slots(work, WORK_SLOT_FREE) > 0)
            begin_take(work);
        if (work->stopping && work->taking) {
            /* The server returns a job that was being delivered. */
            curl_multi_remove_handle(work->multi, work->taker.curl);
            work->taking = false;
        }
        if (work->stopping)
            work_answers_give_up(&work->answers, false);
        if (work->stopping && count_slots(work, WORK_SLOT_FREE) == work->slot_count)
            return;
        run_transfers(work);
        tend_commands(work);
        work_answers_start(&work->answers);
        wait_for_events(work);
        read_signals(work);
    }
}

static int work_run(struct work *work)
{
    sigset_t caught;
    sigemptyset(&caught);
    sigaddset(&caught, SIGTERM);
    sigaddset(&caught, SIGINT);
    sigprocmask(SIG_BLOCK, &caught, NULL);
    work->signals = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    if (work->signals < 0)
        return cli_error("cannot start, %s", strerror(errno));
    work_loop(work);
    close(work->signals);
    return work->exit_code;
}

/* Returns HOST:PROCESS. Long host names keep their end, where hosts of a cluster differ. */
static const char *own_name(void)
{
    static char name[JOB_CONSUMER_BYTES_MAX + 1];
    char host[HOST_NAME_MAX + 1], process[16];
    if (gethostname(host, sizeof host) != 0)
        snprintf(host, sizeof host, "worker");
    host[sizeof host - 1] = '\0';
    for (char *c = host; *c; c++)
        *c = *c > ' ' && *c <= '~' ? *c : '?';
    int process_bytes = snprintf(process, sizeof process, ":%ld", (long)getpid());
    size_t room = JOB_CONSUMER_BYTES_MAX - (size_t)process_bytes, bytes = strlen(host);
    const char *begin = bytes > room ? host + bytes - room : host;
    memcpy(name, begin, strlen(begin));
    memcpy(name + strlen(begin), process, (size_t)process_bytes + 1);
    return name;
}

/* Prints a topic and the server, so that a misspelt name shows at the start. A failed call prints
 * nothing: the worker waits for a server that is away, and reports it. */
static bool print_topic(struct client *client, const char *topic)
{
    struct buffer *target = client_begin(client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, topic);
    int exit_code = client_call(client, "GET", NULL, 0);
    bool is_answered = exit_code == CLI_OK || exit_code == CLI_NOTHING;
    if (is_answered)
        fprintf(stderr, "waiting for jobs of '%s' at %s%s\n", topic, client->shown,
                exit_code == CLI_NOTHING ? ", which has no such topic yet" : "");
    return is_answered;
}

static void print_start(struct work *work)
{
    struct client client;
    size_t i = 0;
    if (work->answers.quiet || !client_open(&client, work->url))
        return;
    client.is_silent = true;
    while (i < work->topics.count && print_topic(&client, work->topics.at[i]))
        i++;
    client_close(&client);
}

static int work_command(int argc, char **argv)
{
    static struct work work; /* too large for the stack */
    uint64_t jobs = 1;
    work = (struct work){.answers = {.lease_for = "60s"}, .consumer = own_name()};
    const struct cli_flag flags[] = {
        {"jobs", CLI_COUNT, &jobs, "N", "Number of commands at a time (default: 1)"},
        {"lease-for", CLI_DURATION, &work.answers.lease_for, "60s",
         "Lease time; extended every tenth of it until the server has the result"},
        {"consumer", CLI_TEXT, &work.consumer, "NAME",
         "Name of the consumer (default: the host and the process)"},
        {"order", CLI_TEXT, &work.order, "ORDER",
         "priority: the best job of all topics first; named (default): topics in the given order"},
        {"quiet", CLI_SWITCH, &work.answers.quiet, NULL, "Print no line per job"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "work TOPIC... [--jobs N] [--lease-for 60s] -- COMMAND [ARGUMENTS]",
        .about =
            "Runs COMMAND for each due job, with the body on standard input and TARRY_TOPIC, "
            "TARRY_ID,\n"
            "TARRY_ATTEMPT, TARRY_LEASE and TARRY_CONTENT_TYPE in the environment, and TRACEPARENT "
            "and\n"
            "TRACESTATE if the job has them. Exit code 0 acks the job; 65 (data error: no further\n"
            "attempt can help) makes it dead immediately; any other code nacks it, and the last "
            "lines\n"
            "of its standard error become the job's last error. The lease is extended until the "
            "server\n"
            "has the answer; the worker retries while it cannot reach the server. SIGTERM or "
            "Ctrl-C\n"
            "lets running commands finish; a second one is passed to them. If the worker dies, "
            "its\n"
            "commands are killed. Several topics are served in the given order.",
        .flags = flags,
        .least = 1,
        .most = TOPICS_MAX,
        .takes_command = true,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (jobs < 1 || jobs > WORK_SLOTS_MAX)
        return cli_usage("bad value '%llu' for '--jobs', give a number from 1 to %d",
                         (unsigned long long)jobs, WORK_SLOTS_MAX);
    if (!duration_parse(slice_of(work.answers.lease_for), POLICY_LEASE_MS_MAX,
                        &work.answers.lease_ms) ||
        work.answers.lease_ms < POLICY_LEASE_MS_MIN)
        return cli_usage("bad value '%s' for '--lease-for', give a time from 100ms to 24h",
                         work.answers.lease_for);
    work.slot_count = work.answers.slot_count = (size_t)jobs;
    work.answers.slots = work.slots;
    work.answers.outage = &work.outage;
    work.answers.multi = work.multi = curl_multi_init();
    work.topics = args.list;
    work.url = args.url;
    work.command = args.command;
    if (!work.multi || !client_open(&work.taker, args.url) ||
        !work_answers_open(&work.answers, args.url))
        return CLI_REFUSED;
    work.taker.is_silent = true;
    print_start(&work);
    exit_code = work_run(&work);
    work_answers_close(&work.answers);
    client_close(&work.taker);
    curl_multi_cleanup(work.multi);
    return exit_code;
}

const struct cli_command cli_work_commands[] = {
    {.name = "work", .run = work_command, .help = "run a command for each due job"},
    {0},
};
