#include "cli/sweep.h"

#include "base/clock.h"
#include "cli/progress.h"

#include <string.h>

enum { SWEEP_LOOK_US = 500 * 1000 };

void sweep_print(const struct call *call)
{
    long long jobs = json_integer_value(call_member(call, "jobs"));
    bool is_dry_run = json_is_true(call_member(call, "dry_run"));
    if (is_dry_run)
        printf("%lld job%s would be %s\n", jobs, jobs == 1 ? "" : "s", call->request->done);
    else
        printf("%s %lld\n", call->request->done, jobs);
    if (json_is_false(call_member(call, "complete")))
        fputs("tarry: there may be more\n", stderr);
}

/* The progress of a sweep, read from the topic's counts while the server works. */
struct sweep_view {
    const char *topic;
    struct sweep_jobs jobs;
    struct client client;
    uint64_t begin; /* number of jobs at the start */
    int64_t next_us;
};

/* Counts the jobs that may be affected. Returns false if the server does not report them. */
static bool count_jobs(struct sweep_view *view, uint64_t *out)
{
    const char *state;
    json_t *jobs;
    *out = 0;
    struct buffer *target = client_begin(&view->client);
    cli_url_add_segment(target, "topics");
    cli_url_add_segment(target, view->topic);
    if (client_call(&view->client, "GET", NULL, 0) != CLI_OK)
        return false;
    json_object_foreach(json_object_get(view->client.json, "counts"), state, jobs)
    {
        if (view->jobs.state ? strcmp(state, view->jobs.state) == 0 : strcmp(state, "leased") != 0)
            *out += (uint64_t)json_integer_value(jobs);
    }
    return true;
}

/* Updates the progress. curl calls it several times a second. */
static int on_sweep(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct sweep_view *view = ctx;
    uint64_t left;
    int64_t now_us = clock_boot_us();
    (void)a, (void)b, (void)c, (void)d;
    if (now_us < view->next_us)
        return 0;
    view->next_us = now_us + SWEEP_LOOK_US;
    if (count_jobs(view, &left))
        progress_show(left < view->begin ? view->begin - left : 0,
                      view->jobs.is_whole ? view->begin : 0, -1);
    return 0;
}

int sweep_call(struct call *call, struct sweep_jobs jobs)
{
    struct client *client = &call->client;
    struct sweep_view state = {.topic = call_argument(call, 0), .jobs = jobs}, *view = &state;
    if (!call_value(call, "dry-run"))
        progress_begin(call->request->done, false);
    if (call_value(call, "dry-run") || !progress_is_on() ||
        !client_open(&view->client, call->args.url))
        return client_call(client, "POST", NULL, call->wait_ms);
    view->client.is_silent = true;
    bool knows = count_jobs(view, &view->begin);
    int exit_code = CLI_USAGE;
    if (client_prepare(client, "POST", NULL, call->wait_ms)) {
        curl_easy_setopt(client->curl, CURLOPT_NOPROGRESS, knows ? 0L : 1L);
        curl_easy_setopt(client->curl, CURLOPT_XFERINFOFUNCTION, on_sweep);
        curl_easy_setopt(client->curl, CURLOPT_XFERINFODATA, view);
        CURLcode code = curl_easy_perform(client->curl);
        progress_clear();
        exit_code = client_finish(client, code);
    }
    client_close(&view->client);
    return exit_code;
}
