/*
 * peers: drives tarry, beanstalkd, ElasticMQ or a delay queue on Redis with one and the same load
 * engine and prints one JSON object.
 *
 *   peers http|beanstalk|redis|sqs HOST PORT[,PORT] [flags as of `tarry bench`]
 *
 * With two ports every second connection goes to the second: two servers that share one queue.
 */
#include "cli/bench.h"
#include "load/http.h"
#include "peers/beanstalk.h"
#include "peers/redis.h"
#include "peers/sqs.h"

#include <string.h>
#include <unistd.h>

static const struct load_protocol *const protocols[] = {&load_http, &load_beanstalk, &load_redis,
                                                        &load_sqs};

static const struct load_protocol *find_protocol(const char *name)
{
    for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++)
        if (strcmp(protocols[i]->name, name) == 0)
            return protocols[i];
    return NULL;
}

int main(int argc, char **argv)
{
    static struct load_flags flags;
    static struct cli_args args;
    static struct load_plan plan;
    static struct load_result result;
    load_flags_table(&flags);
    const struct cli_syntax syntax = {
        .usage = "peers http|beanstalk|redis|sqs HOST PORT[,PORT] [OPTIONS]",
        .about = "Drives a server and prints what it saw, as JSON.",
        .flags = flags.rows,
        .least = 3,
        .most = 3,
        .is_local = true};
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code < 0)
        exit_code = load_flags_plan(&flags, &plan);
    if (exit_code >= 0)
        return exit_code;
    plan.protocol = find_protocol(args.list.at[0]);
    if (!plan.protocol)
        return cli_usage("unknown protocol '%s', give http, beanstalk, redis or sqs",
                         args.list.at[0]);
    if (plan.batch > plan.protocol->batch_max)
        return cli_usage("protocol '%s' has no batches, leave --batch out", plan.protocol->name);
    snprintf(plan.host, sizeof plan.host, "%s", args.list.at[1]);
    const char *second = strchr(args.list.at[2], ',');
    int first_len = second ? (int)(second - args.list.at[2]) : (int)strlen(args.list.at[2]);
    snprintf(plan.port, sizeof plan.port, "%.*s", first_len, args.list.at[2]);
    snprintf(plan.second_port, sizeof plan.second_port, "%s", second ? second + 1 : "");
    plan.progress = isatty(STDERR_FILENO);
    if (!load_run(&plan, &result))
        return cli_error("the run failed: %s", result.problem);
    load_report_json(&plan, &result);
    return CLI_OK;
}
