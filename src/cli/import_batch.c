#include "cli/import_batch.h"

#include "base/clock.h"
#include "cli/interrupt.h"
#include "cli/progress.h"

#include <string.h>

enum {
    SEND_BYTES = 2 << 20, /* a batch goes out once it holds so much */
    CHOICE_BYTES_MAX = 64,
    STEP_MS = 50
};

static int64_t now_ms(void)
{
    return clock_boot_us() / 1000;
}

bool import_batches_open(struct import_batches *batches, const char *url)
{
    batches->multi = curl_multi_init();
    if (!batches->multi)
        return cli_error("out of memory"), false;
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++) {
        struct import_batch *batch = &batches->batches[i];
        if (!client_open(&batch->client, url))
            return false;
        buffer_init(&batch->body, batches->bytes_max + CHOICE_BYTES_MAX);
    }
    return true;
}

void import_batches_close(struct import_batches *batches)
{
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++) {
        struct import_batch *batch = &batches->batches[i];
        if (!batch->client.curl)
            continue;
        curl_multi_remove_handle(batches->multi, batch->client.curl);
        client_close(&batch->client);
        buffer_fini(&batch->body);
    }
    curl_multi_cleanup(batches->multi);
}

/* ---- results ---- */

void import_refuse(struct import_batches *batches, struct slice text, uint64_t line,
                   const char *code, const char *detail)
{
    batches->counts.refused++;
    progress_clear();
    fprintf(stderr, "line %llu refused: %s%s%s\n", (unsigned long long)line, code,
            detail ? ", " : "", detail ? detail : "");
    if (batches->rejects && (fwrite(text.at, 1, text.len, batches->rejects) != text.len ||
                             fputc('\n', batches->rejects) == EOF))
        batches->rejects_lost++;
}

/* The line as it was in the file. */
static struct slice line_of(const struct import_batches *batches, struct import_batch *batch,
                            const struct import_item *item)
{
    char *at = batch->body.at + item->at;
    size_t ours = strlen(batches->on_conflict) + sizeof "\"on_conflict\":\"\"," - 1;
    if (!item->has_choice)
        return slice_make(at, item->bytes);
    at[ours] = '{'; /* over the end of what was put in; the batch is not sent again */
    return slice_make(at + ours, item->bytes - ours);
}

static void count_result(struct import_batches *batches, struct import_batch *batch, size_t i,
                         const json_t *result)
{
    const char *code = json_string_value(json_object_get(result, "result"));
    if (code && strcmp(code, "created") == 0)
        batches->counts.created++;
    else if (code && strcmp(code, "replaced") == 0)
        batches->counts.replaced++;
    else if (code && strcmp(code, "existed") == 0)
        batches->counts.existed++;
    else
        import_refuse(batches, line_of(batches, batch, &batch->items[i]), batch->items[i].line,
                      code ? code : "no result",
                      json_string_value(json_object_get(result, "detail")));
}

/* Worth another try: nothing is wrong with the job. */
static bool is_passing(const json_t *result)
{
    static const char *const codes[] = {"no_space", "no_memory", "stopping", "unavailable",
                                        "directory_moved"};
    const char *code = json_string_value(json_object_get(result, "result"));
    for (size_t i = 0; code && i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(code, codes[i]) == 0)
            return true;
    return false;
}

static const json_t *passing_fault(const json_t *results)
{
    for (size_t i = 0; i < json_array_size(results); i++)
        if (is_passing(json_array_get(results, i)))
            return json_array_get(results, i);
    return NULL;
}

static void fail(struct import_batches *batches, int exit_code)
{
    if (batches->exit_code == CLI_OK)
        batches->exit_code = exit_code;
}

static bool try_again(const struct import_batches *batches, struct import_batch *batch)
{
    int64_t pause_ms = interrupt_came() ? -1 : patience_pause_ms(&batch->patience);
    if (pause_ms < 0 || batches->exit_code != CLI_OK)
        return false;
    batch->again_ms = now_ms() + pause_ms;
    return true;
}

static void take_results(struct import_batches *batches, struct import_batch *batch)
{
    const json_t *results = json_object_get(batch->client.json, "results");
    const json_t *fault = passing_fault(results);
    if (json_array_size(results) != batch->count) {
        fail(batches,
             cli_error("unexpected answer from '%s', is it a tarry server", batch->client.shown));
        return;
    }
    if (fault) {
        if (!try_again(batches, batch))
            fail(batches, cli_error("the server has taken no more for some time, %s",
                                    json_string_value(json_object_get(fault, "result"))));
        return;
    }
    for (size_t i = 0; i < batch->count; i++)
        count_result(batches, batch, i, json_array_get(results, i));
    batch->under_way = false;
}

static void end_transfer(struct import_batches *batches, struct import_batch *batch, CURLcode code)
{
    curl_multi_remove_handle(batches->multi, batch->client.curl);
    bool is_passing = patience_is_passing(&batch->client, code);
    if (is_passing && (batches->exit_code != CLI_OK || try_again(batches, batch)))
        return;
    if (is_passing)
        progress_clear();
    int exit_code = client_finish(&batch->client, code);
    if (exit_code == CLI_OK)
        take_results(batches, batch);
    else
        fail(batches, exit_code);
}

/* ---- on their way ---- */

static void send_batch(struct import_batches *batches, struct import_batch *batch)
{
    struct slice body = buffer_slice(&batch->body);
    batch->under_way = true;
    batch->again_ms = 0;
    url_add_segment(client_begin(&batch->client), "jobs");
    client_add_header(&batch->client, "Content-Type: application/x-ndjson");
    if (!client_prepare(&batch->client, "POST", &body, 60 * 1000)) {
        fail(batches, CLI_REFUSED);
        return;
    }
    curl_easy_setopt(batch->client.curl, CURLOPT_PRIVATE, batch);
    curl_multi_add_handle(batches->multi, batch->client.curl);
}

static void send_again(struct import_batches *batches)
{
    int64_t now = now_ms();
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++) {
        struct import_batch *batch = &batches->batches[i];
        if (!batch->under_way || !batch->again_ms)
            continue;
        progress_wait("the server");
        if (batch->again_ms <= now)
            send_batch(batches, batch);
    }
}

/* `fd` -1: none. */
static void step(struct import_batches *batches, int fd)
{
    struct curl_waitfd also = {.fd = fd, .events = CURL_WAIT_POLLIN};
    int running, left;
    send_again(batches);
    curl_multi_perform(batches->multi, &running);
    curl_multi_poll(batches->multi, &also, fd >= 0 ? 1 : 0, STEP_MS, NULL);
    curl_multi_perform(batches->multi, &running);
    for (const CURLMsg *message; (message = curl_multi_info_read(batches->multi, &left));) {
        struct import_batch *batch;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &batch);
        end_transfer(batches, batch, message->data.result);
    }
}

static struct import_batch *find_free(struct import_batches *batches)
{
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++)
        if (!batches->batches[i].under_way)
            return &batches->batches[i];
    return NULL;
}

static bool is_any_under_way(const struct import_batches *batches)
{
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++)
        if (batches->batches[i].under_way)
            return true;
    return false;
}

static void flush(struct import_batches *batches)
{
    if (batches->filling && batches->filling->count)
        send_batch(batches, batches->filling);
    batches->filling = NULL;
}

static void need_batch(struct import_batches *batches)
{
    while (!batches->filling && batches->exit_code == CLI_OK) {
        batches->filling = find_free(batches);
        if (!batches->filling)
            step(batches, -1);
    }
}

void import_batches_add(struct import_batches *batches, struct slice text, uint64_t line,
                        bool has_choice)
{
    if (batches->filling && (batches->filling->count == IMPORT_ITEMS_MAX ||
                             batches->filling->body.len + text.len > SEND_BYTES))
        flush(batches);
    bool is_fresh = !batches->filling;
    need_batch(batches);
    struct import_batch *batch = batches->filling;
    if (!batch)
        return;
    if (is_fresh) {
        buffer_clear(&batch->body);
        batch->count = 0;
        batch->patience = batches->patience;
    }
    struct import_item *item = &batch->items[batch->count++];
    *item = (struct import_item){.line = line, .at = batch->body.len, .has_choice = !has_choice};
    if (!has_choice) {
        buffer_append_format(&batch->body, "{\"on_conflict\":\"%s\",", batches->on_conflict);
        text = slice_make(text.at + 1, text.len - 1);
    }
    buffer_append_slice(&batch->body, text);
    item->bytes = batch->body.len - item->at;
    buffer_append_byte(&batch->body, '\n');
    if (batch->body.failed)
        fail(batches, cli_error("out of memory"));
}

void import_batches_wait(struct import_batches *batches, int fd)
{
    if (!is_any_under_way(batches)) /* else it may still grow */
        flush(batches);
    step(batches, fd);
}

void import_batches_drain(struct import_batches *batches)
{
    if (batches->exit_code == CLI_OK)
        flush(batches);
    while (batches->exit_code == CLI_OK && is_any_under_way(batches))
        step(batches, -1);
}

uint64_t import_batches_done(const struct import_batches *batches, uint64_t read)
{
    uint64_t done = read;
    for (size_t i = 0; i < IMPORT_UNDER_WAY; i++) {
        const struct import_batch *batch = &batches->batches[i];
        bool is_open = batch->under_way || batch == batches->filling;
        if (is_open && batch->count && batch->items[0].line - 1 < done)
            done = batch->items[0].line - 1;
    }
    return done;
}
