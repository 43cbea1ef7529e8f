#include "cli/bench.h"

#include "base/duration.h"
#include "base/json_read.h"
#include "base/random.h"
#include "cli/commands.h"
#include "cli/credentials.h"
#include "cli/terminal.h"
#include "cli/url.h"
#include "load/body.h"
#include "load/http.h"
#include "net/tls.h"

#include <assert.h>
#include <inttypes.h>
#include <unistd.h>

#define YEAR_MS INT64_C(31536000000)

enum { JOBS_DEFAULT = 100000, TOPIC_BYTES_MAX = 200 };

void load_flags_add(struct load_flags *flags, struct cli_flag row)
{
    assert(flags->row_count + 1 < LOAD_FLAGS_MAX);
    flags->rows[flags->row_count++] = row;
}

void load_flags_table(struct load_flags *flags)
{
    *flags = (struct load_flags){.connections = 8,
                                 .pipeline = 64,
                                 .batch = 1,
                                 .body = 200,
                                 .consumers = 4,
                                 .take = 100,
                                 .timeout = "30s"};
    const struct cli_flag rows[] = {
        {"jobs", CLI_COUNT, &flags->jobs, "N",
         "Push this many jobs, then stop (default: 100000, or no limit with --duration)"},
        {"duration", CLI_DURATION, &flags->duration, "TIME", "Push for this long, then stop"},
        {"connections", CLI_COUNT, &flags->connections, "N", "Connections that push (default: 8)"},
        {"pipeline", CLI_COUNT, &flags->pipeline, "N",
         "Requests in progress per connection (default: 64)"},
        {"batch", CLI_COUNT, &flags->batch, "N", "Jobs per request (default: 1)"},
        {"body", CLI_COUNT, &flags->body, "BYTES", "Size of each body (default: 200)"},
        {"delay", CLI_DURATION, &flags->delay, "RANGE",
         "Delay: 10s, or 0..10s, evenly spread (default: 1s..2s)"},
        {"due-in", CLI_DURATION, &flags->due_in, "TIME",
         "Make all jobs due at one moment, this long after the start; instead of --delay"},
        {"rate", CLI_COUNT, &flags->rate, "N",
         "Jobs per second, independent of the answers (default: as fast as possible)"},
        {"consumers", CLI_COUNT, &flags->consumers, "N",
         "Consumers that take jobs and ack them (default: 4; 0: do not take)"},
        {"take", CLI_COUNT, &flags->take, "N", "Largest number of jobs per take (default: 100)"},
        {"take-after", CLI_SWITCH, &flags->take_after, NULL,
         "Start the consumers after all pushes"},
        {"own-ids", CLI_SWITCH, &flags->own_ids, NULL,
         "Give each job an id instead of a generated one"},
        {"topic", CLI_TEXT, &flags->topic, "NAME",
         "Topic to push to; use one without other users (default: a new one, deleted at the end)"},
        {"timeout", CLI_DURATION, &flags->timeout, "TIME",
         "Give up after this long without an answer (default: 30s)"},
        {"trace", CLI_TEXT, &flags->trace, "FILE",
         "Write every answer and delivery to this file, in binary (src/program/load/tally.h)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        load_flags_add(flags, rows[i]);
}

static int plan_duration(const char *name, const char *text, int64_t *ms)
{
    if (!duration_parse(slice_of(text), 10 * YEAR_MS, ms))
        return cli_usage("bad value '%s' for '--%s', give a time such as 500ms, 10s or 5m", text,
                         name);
    return -1;
}

static int plan_delay(const char *text, struct load_plan *plan)
{
    const char *dots = strstr(text, "..");
    struct slice first = dots ? slice_make(text, (size_t)(dots - text)) : slice_of(text);
    struct slice second = slice_of(dots ? dots + 2 : text);
    if (!duration_parse(first, 10 * YEAR_MS, &plan->delay_min_ms) ||
        !duration_parse(second, 10 * YEAR_MS, &plan->delay_max_ms) ||
        plan->delay_max_ms < plan->delay_min_ms)
        return cli_usage("bad value '%s' for '--delay', give a time or a range such as 0..10s",
                         text);
    return -1;
}

/* Plans the due times: a range of delays, or one moment for all jobs. */
static int plan_due(const struct load_flags *flags, struct load_plan *plan)
{
    if (!flags->due_in)
        return plan_delay(flags->delay ? flags->delay : "1s..2s", plan);
    if (flags->delay)
        return cli_usage("'--due-in' and '--delay' exclude each other, give one");
    int exit_code = plan_duration("due-in", flags->due_in, &plan->due_in_ms);
    if (exit_code < 0 && plan->due_in_ms == 0)
        exit_code =
            cli_usage("bad value '%s' for '--due-in', give a time above zero", flags->due_in);
    plan->delay_max_ms = plan->due_in_ms;
    return exit_code;
}

static int plan_topic(const char *name, struct load_plan *plan)
{
    if (!name) {
        snprintf(plan->topic, sizeof plan->topic, "bench-%08" PRIx32, (uint32_t)random_u64());
        return -1;
    }
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    if (len == 0 || name[len] || len > TOPIC_BYTES_MAX || *name == '.')
        return cli_usage("bad topic '%s', give up to %d of A-Z a-z 0-9 . _ - and no leading dot",
                         name, TOPIC_BYTES_MAX);
    snprintf(plan->topic, sizeof plan->topic, "%s", name);
    return -1;
}

struct range {
    const char *name;
    uint64_t value, least, most;
};

static int check_ranges(const struct load_flags *flags)
{
    const struct range ranges[] = {
        {"jobs", flags->jobs, 0, (uint64_t)1 << 40},
        {"connections", flags->connections, 1, LOAD_CONNECTIONS_MAX},
        {"pipeline", flags->pipeline, 1, LOAD_PIPELINE_MAX},
        {"batch", flags->batch, 1, LOAD_BATCH_MAX},
        {"body", flags->body, LOAD_STAMP_BYTES, LOAD_BODY_BYTES_MAX},
        {"consumers", flags->consumers, 0, LOAD_CONNECTIONS_MAX},
        {"take", flags->take, 1, LOAD_TAKE_MAX},
        {"rate", flags->rate, 0, 100000000},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (ranges[i].value < ranges[i].least || ranges[i].value > ranges[i].most)
            return cli_usage("bad value '%" PRIu64 "' for '--%s', give %" PRIu64 " to %" PRIu64,
                             ranges[i].value, ranges[i].name, ranges[i].least, ranges[i].most);
    return -1;
}

int load_flags_plan(const struct load_flags *flags, struct load_plan *plan)
{
    int exit_code = check_ranges(flags);
    if (exit_code < 0 && flags->duration)
        exit_code = plan_duration("duration", flags->duration, &plan->duration_ms);
    if (exit_code < 0)
        exit_code = plan_duration("timeout", flags->timeout, &plan->timeout_ms);
    if (exit_code < 0)
        exit_code = plan_due(flags, plan);
    if (exit_code < 0)
        exit_code = plan_topic(flags->topic, plan);
    if (exit_code >= 0)
        return exit_code;
    plan->jobs = flags->jobs || plan->duration_ms ? flags->jobs : JOBS_DEFAULT;
    plan->connections = (unsigned)flags->connections;
    plan->pipeline = (unsigned)flags->pipeline;
    plan->batch = (unsigned)flags->batch;
    plan->body_bytes = (size_t)flags->body;
    plan->consumers = (unsigned)flags->consumers;
    plan->take_max = (unsigned)flags->take;
    plan->rate_per_s = flags->rate;
    plan->take_after = flags->take_after;
    plan->own_ids = flags->own_ids;
    plan->trace = flags->trace;
    return -1;
}

static const char about[] =
    "Measures a server from one thread of this machine: pushes jobs, takes them when they fall "
    "due,\n"
    "acks them, and prints the rates and the lateness. Lateness counts from the moment of sending\n"
    "plus the delay, so it includes the way to the server and back.\n"
    "It uses the server's whole capacity: do not run it against a server in production.";

/* Finds the server's durability: the failures that an answered push survives. Appends nothing if
 * it is absent. */
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

/* Prints what will be measured. */
static void print_plan(const struct load_plan *plan, const char *url,
                       const struct buffer *durability)
{
    printf("%-14s%s", "server", url);
    if (durability->len)
        printf(" (%.*s)", (int)durability->len, durability->at);
    printf("\n%-14s%u connections, %u requests in progress on each, %u jobs per request, body %zu "
           "bytes\n",
           "pushers", plan->connections, plan->pipeline, plan->batch, plan->body_bytes);
    printf("%-14s%.3f to %.3f s\n", "delay", (double)plan->delay_min_ms / 1000,
           (double)plan->delay_max_ms / 1000);
    if (plan->consumers)
        printf("%-14s%u, taking up to %u jobs at a time\n", "consumers", plan->consumers,
               plan->take_max);
    putchar('\n');
}

static int evaluate(const struct load_result *result, bool done)
{
    if (!done)
        return cli_error("the run failed: %s", result->problem);
    if (result->missing)
        cli_error("%" PRIu64 " jobs were never delivered", result->missing);
    if (result->early)
        cli_error("%" PRIu64 " jobs were delivered before they were due", result->early);
    if (*result->problem)
        cli_error("%" PRIu64 " pushes and %" PRIu64 " acks were refused, the first with: %s",
                  result->push_failed, result->ack_failed, result->problem);
    return result->missing || result->early || *result->problem ? CLI_REFUSED : CLI_OK;
}

/* Requests the server's information, runs the plan, reports the result, and deletes the topic. */
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
        exit_code = cli_error("'%s' answers %d to GET /v1/info, check that it is a tarry server",
                              url, status);
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
    exit_code = evaluate(&result, ran);
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

static struct tls_context *make_context(char problem[LOAD_TEXT_BYTES_MAX])
{
    const struct credentials *credentials = credentials_get();
    const struct tls_options options = {.certificate_file = credentials->certificate_file,
                                        .key_file = credentials->key_file,
                                        .ca_file = credentials->ca_file};
    return tls_context_new(&options, problem, LOAD_TEXT_BYTES_MAX);
}

static int bench_command(int argc, char **argv)
{
    static struct load_flags flags;
    static struct cli_args args;
    static struct load_plan plan = {.protocol = &load_http};
    bool keep = false;
    load_flags_table(&flags);
    load_flags_add(&flags,
                   (struct cli_flag){"keep", CLI_SWITCH, &keep, NULL, "Keep the topic at the end"});
    const struct cli_syntax syntax = {
        .usage = "bench [OPTIONS]", .about = about, .flags = flags.rows};
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code < 0)
        exit_code = load_flags_plan(&flags, &plan);
    if (exit_code >= 0)
        return exit_code;
    char problem[LOAD_TEXT_BYTES_MAX], url[CLI_URL_SHOWN_BYTES];
    cli_url_show(args.url, url, sizeof url);
    if (!load_http_url(args.url, &plan, problem))
        return cli_usage("bad URL '%s', give http://HOST:PORT, without a user and password", url);
    plan.progress = terminal_can_erase(STDERR_FILENO);
    plan.token = credentials_get()->token;
    if (plan.wants_tls && !(plan.tls = make_context(problem)))
        return cli_usage("%s", problem);
    exit_code = measure(&plan, url, args.json, keep || flags.topic);
    tls_context_release(plan.tls);
    return exit_code;
}

const struct cli_command cli_bench_commands[] = {
    {.name = "bench", .run = bench_command, .help = "measure a server"},
    {0},
};
