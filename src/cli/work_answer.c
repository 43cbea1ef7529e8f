#include "cli/work_answer.h"

#include "base/clock.h"

enum {
    CALL_MS_MIN = 2000, /* a call that is silent for longer than a lease is made anew */
    CALL_MS_MAX = 30000,
    RETRY_MS_MIN = 50,
    RETRY_MS_MAX = 3000
};

static const char *const verbs[WORK_VERBS] = {"ack", "nack", "extend"};

static int64_t now_ms(void)
{
    return clock_boot_us() / 1000;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

bool work_answers_open(struct work_answers *answers, const char *url)
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

void work_answers_close(struct work_answers *answers)
{
    for (int verb = 0; verb < WORK_VERBS; verb++) {
        client_close(&answers->calls[verb].client);
        buffer_fini(&answers->calls[verb].body);
    }
}

/* ---- what is due ---- */

/* When the verb is to be said of the slot next; INT64_MAX: never. */
static int64_t due_ms(const struct work_slot *slot, enum work_verb verb)
{
    bool is_failure = slot->error[0] != '\0';
    if (slot->state == WORK_SLOT_FREE)
        return INT64_MAX;
    if (verb == WORK_EXTEND)
        return slot->is_lost ? INT64_MAX : slot->extend_ms;
    return slot->state == WORK_SLOT_ENDED && is_failure == (verb == WORK_NACK) ? 0 : INT64_MAX;
}

static bool add_item(json_t *leases, const struct work_slot *slot, enum work_verb verb,
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

static bool make_body(struct work_answers *answers, enum work_verb verb)
{
    struct work_call *call = &answers->calls[verb];
    json_t *leases = json_array(), *body = json_pack("{s:o}", "leases", leases);
    for (size_t i = 0; i < answers->slot_count; i++)
        if (due_ms(&answers->slots[i], verb) <= now_ms() &&
            add_item(leases, &answers->slots[i], verb, answers->lease_for))
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

static void start(struct work_answers *answers, enum work_verb verb)
{
    struct work_call *call = &answers->calls[verb];
    struct client *client = &call->client;
    if (call->count > 0 || call->next_ms > now_ms() || !make_body(answers, verb))
        return;
    struct slice body = buffer_slice(&call->body);
    url_add_segment(client_begin(client), verbs[verb]);
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

void work_answers_start(struct work_answers *answers)
{
    for (int verb = 0; verb < WORK_VERBS; verb++)
        start(answers, (enum work_verb)verb);
}

int64_t work_answers_next_ms(const struct work_answers *answers)
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

/* ---- what the server said ---- */

/* A refusal that says nothing of the lease: the same may succeed later. */
static bool is_passing(const char *code)
{
    static const char *const passing[] = {"unavailable", "stopping", "not_ready", "no_memory"};
    for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++)
        if (strcmp(code, passing[i]) == 0)
            return true;
    return false;
}

static void end_extend(struct work_answers *answers, struct work_slot *slot, bool is_ok)
{
    if (is_ok) {
        slot->lease_end_ms = now_ms() + answers->lease_ms;
        slot->extend_ms = now_ms() + answers->lease_ms / 10;
        return;
    }
    slot->is_lost = true;
    if (slot->state == WORK_SLOT_RUNNING)
        cli_error("the lease of '%s' has ended while its command runs, the job is delivered again",
                  slot->name);
}

static void end_answer(struct work_answers *answers, struct work_slot *slot, enum work_verb verb,
                       bool is_ok)
{
    slot->state = WORK_SLOT_FREE;
    if (is_ok && !answers->quiet)
        fprintf(stderr, "%sed %s%s%s%s\n", verbs[verb], slot->name, slot->error[0] ? ", " : "",
                slot->error, slot->is_final ? ", for good" : "");
    else if (!is_ok && slot->is_doubtful)
        cli_error("'%s' may have been %sed by a call that broke off; if not, its lease has ended "
                  "and it will be delivered again",
                  slot->name, verbs[verb]);
    else if (!is_ok)
        cli_error("'%s' was not %sed, its lease has ended, it will be delivered again", slot->name,
                  verbs[verb]);
}

/* The slot that an item of a call is about; NULL: its job is gone meanwhile. */
static struct work_slot *find_slot(struct work_answers *answers, const struct work_item *item)
{
    struct work_slot *slot = &answers->slots[item->slot];
    return slot->state != WORK_SLOT_FREE && slot->serial == item->serial ? slot : NULL;
}

/* One item's result. False: it has to be said again. */
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
        end_extend(answers, slot, strcmp(code, "ok") == 0);
    else
        end_answer(answers, slot, verb, strcmp(code, "ok") == 0);
    return true;
}

static int64_t retry_ms_max(const struct work_answers *answers)
{
    return clamp(answers->lease_ms / 20, RETRY_MS_MIN, RETRY_MS_MAX);
}

static void fail(struct work_answers *answers, struct work_call *call, const char *problem)
{
    call->next_ms = now_ms() + outage_fail(answers->outage, false, &call->tries, problem,
                                           retry_ms_max(answers));
}

static void end(struct work_answers *answers, enum work_verb verb, CURLcode code)
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
        fail(answers, call, client->problem[0] ? client->problem : "unexpected answer to an ack");
        return;
    }
    for (size_t i = 0; i < count; i++)
        is_whole = end_item(answers, &call->items[i], verb, json_array_get(results, i)) && is_whole;
    if (is_whole)
        outage_end(answers->outage, false, &call->tries, client->shown);
    else
        fail(answers, call, "the server cannot answer for its jobs now");
}

bool work_answers_end(struct work_answers *answers, const CURL *curl, CURLcode code)
{
    for (int verb = 0; verb < WORK_VERBS; verb++)
        if (answers->calls[verb].client.curl == curl) {
            curl_multi_remove_handle(answers->multi, answers->calls[verb].client.curl);
            end(answers, (enum work_verb)verb, code);
            return true;
        }
    return false;
}

void work_answers_give_up(struct work_answers *answers, bool is_impatient)
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
