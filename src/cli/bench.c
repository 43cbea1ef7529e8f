#include "cli/bench.h"

#include "base/json_read.h"
#include "cli/load_flags.h"
#include "cli/url.h"
#include "load/http.h"

#include <inttypes.h>
#include <unistd.h>

static const char about[] =
    "Measures a server from one thread of this machine: pushes jobs, takes them when they fall "
    "due, acks them,\n"
    "and prints how many a second went which way and how late they came. Lateness is counted from "
    "the moment\n"
    "of sending plus the delay, so it includes the way to the server and back.\n"
    "It takes all that the server has to give: think before pointing it at one that is in use.";

/* What the server says an answered push survives; empty when it does not say. */
static void find_durability(struct slice info, struct buffer *out)
{
    struct json_value value, member;
    struct json_cursor cursor = {0};
    struct slice key, text;
    if (!json_check(info, &value, NULL) || value.kind != JSON_OBJECT)
        return;
    while (json_next_member(value, &cursor, &key, &member)) {
        struct buffer scratch;
        buffer_init(&scratch, LOAD_TEXT_BYTES_MAX);
        if (json_string_is(key, "durability") && member.kind == JSON_STRING &&
            json_string_bytes(member.raw, &scratch, &text))
            buffer_append_slice(out, text);
        buffer_fini(&scratch);
    }
}

static void print_plan(const struct load_plan *plan, const char *url,
                       const struct buffer *durability)
{
    printf("%-14s%s", "server", url);
    if (durability->len)
        printf(" (%.*s)", (int)durability->len, durability->at);
    printf("\n%-14s%u connections, %u requests on their way on each, jobs a request: %u, body %zu "
           "bytes\n",
           "pushers", plan->connections, plan->pipeline, plan->batch, plan->body_bytes);
    printf("%-14s%.3f to %.3f s\n", "delay", (double)plan->delay_min_ms / 1000,
           (double)plan->delay_max_ms / 1000);
    if (plan->consumers)
        printf("%-14s%u, taking up to %u jobs at once\n", "consumers", plan->consumers,
               plan->take_max);
    putchar('\n');
}

static int judge(const struct load_result *result, bool done)
{
    if (!done)
        return cli_error("the run broke off: %s", result->problem);
    if (result->missing)
        cli_error("%" PRIu64 " jobs never came", result->missing);
    if (result->early)
        cli_error("%" PRIu64 " jobs came before they were due", result->early);
    if (*result->problem)
        cli_error("%" PRIu64 " pushes and %" PRIu64 " acks were refused, the first with: %s",
                  result->push_failed, result->ack_failed, result->problem);
    return result->missing || result->early || *result->problem ? CLI_REFUSED : CLI_OK;
}

static int measure(struct load_plan *plan, const char *url, bool json, bool keep)
{
    char problem[LOAD_TEXT_BYTES_MAX] = "";
    struct buffer info, durability;
    buffer_init(&info, 1 << 16);
    buffer_init(&durability, LOAD_TEXT_BYTES_MAX);
    int exit_code = CLI_UNREACHABLE;
    int status = load_http_call(plan, "GET", "/v1/info", &info, problem);
    if (status == 0) {
        cli_error("%s; start a server with 'tarry serve', or name one with --url", problem);
        goto done;
    }
    if (status != 200) {
        exit_code = cli_error("'%s' answers %d to GET /v1/info, is it a tarry server", url, status);
        goto done;
    }
    find_durability(buffer_slice(&info), &durability);
    if (!json)
        print_plan(plan, url, &durability);
    fflush(stdout);

    static struct load_result result;
    bool ran = load_run(plan, &result);
    if (json)
        load_report_json(plan, &result);
    else
        load_report(plan, &result);
    exit_code = judge(&result, ran);
    if (!keep) {
        char path[LOAD_TEXT_BYTES_MAX + 16];
        snprintf(path, sizeof path, "/v1/topics/%s", plan->topic);
        status = load_http_call(plan, "DELETE", path, NULL, problem);
        if (status != 404 && (status < 200 || status > 299))
            exit_code = cli_error("cannot delete the topic '%s': %s", plan->topic,
                                  status ? "refused" : problem);
    }

done:
    buffer_fini(&info);
    buffer_fini(&durability);
    return exit_code;
}

int cli_bench(int argc, char **argv)
{
    static struct load_flags flags;
    static struct cli_args args;
    static struct load_plan plan = {.protocol = &load_http};
    bool keep = false;
    load_flags_table(&flags);
    load_flags_add(&flags, (struct cli_flag){"keep", CLI_SWITCH, &keep, NULL,
                                             "do not delete the topic at the end"});
    const struct cli_syntax syntax = {
        .usage = "bench [OPTIONS]", .about = about, .flags = flags.rows};
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code < 0)
        exit_code = load_flags_plan(&flags, &plan);
    if (exit_code >= 0)
        return exit_code;
    char problem[LOAD_TEXT_BYTES_MAX], url[URL_SHOWN_BYTES];
    url_show(args.url, url, sizeof url);
    if (!load_http_url(args.url, &plan, problem))
        return cli_usage("bad URL '%s', give http://HOST:PORT, without a user and password", url);
    plan.progress = isatty(STDERR_FILENO);
    return measure(&plan, url, args.json, keep || flags.topic);
}
