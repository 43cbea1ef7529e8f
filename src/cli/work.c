/*
 * work: takes jobs, runs a command for each, answers for it.
 *
 * One thread. All calls go through a curl multi handle, whose poll also watches the commands, what
 * they write to their standard error, and the signals.
 */
#include "cli/child.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/outage.h"
#include "cli/work_answer.h"
#include "cli/work_slot.h"

#include "base/clock.h"
#include "base/duration.h"
#include "job/policy.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { WAIT_MS = 30000, TAKE_PAUSE_MS_MAX = 10000 };

struct work {
    const char *topic, *url;
    char **command;
    size_t slot_count;
    struct work_slot slots[WORK_SLOTS_MAX];
    uint64_t serial; /* of the job taken last */
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

static int64_t now_ms(void)
{
    return clock_boot_us() / 1000;
}

static size_t count_slots(const struct work *work, enum work_slot_state state)
{
    size_t count = 0;
    for (size_t i = 0; i < work->slot_count; i++)
        count += work->slots[i].state == state;
    return count;
}

static void stop(struct work *work, int exit_code)
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
    };
    struct work_slot *slot = work->slots;
    while (slot->state != WORK_SLOT_FREE)
        slot++; /* there is one, else nothing would have been taken */
    *slot = (struct work_slot){.state = WORK_SLOT_RUNNING,
                               .serial = ++work->serial,
                               .lease_end_ms = now_ms() + lease_ms,
                               .extend_ms = now_ms() + lease_ms / 10};
    snprintf(slot->name, sizeof(slot->name), "%.*s/%.*s", (int)job.topic.len, job.topic.at,
             (int)job.id.len, job.id.at);
    snprintf(slot->lease, sizeof(slot->lease), "%.*s", (int)job.lease.len, job.lease.at);
    int error = child_start(&slot->child, work->command, &job, work->url);
    if (error == 0)
        return;
    cli_error("cannot run '%s', %s", work->command[0], strerror(-error));
    slot->state = WORK_SLOT_ENDED;
    snprintf(slot->error, sizeof(slot->error), "the command could not be run");
    stop(work, CLI_REFUSED);
}

/* ---- takes ---- */

static void begin_take(struct work *work)
{
    /* After an outage: at once, so that its end is known when it ends. */
    int64_t wait_ms = work->outage.since_ms ? 0 : WAIT_MS;
    struct buffer *target = client_begin(&work->taker);
    url_add_segment(target, "topics");
    url_add_segment(target, work->topic);
    url_add_segment(target, "take");
    url_add_query_number(target, "wait", (uint64_t)wait_ms);
    url_add_query(target, "lease_for", work->answers.lease_for);
    client_want_raw(&work->taker); /* byte for byte, which JSON does not promise */
    if (!client_prepare(&work->taker, "POST", NULL, wait_ms)) {
        stop(work, CLI_USAGE);
        return;
    }
    curl_multi_add_handle(work->multi, work->taker.curl);
    work->taking = true;
}

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
        stop(work, cli_error("unexpected answer to a take, is it a tarry server"));
    } else if (client->status != 204) {
        cli_error("%s", client->problem);
        stop(work, exit_code);
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

static void read_signals(struct work *work)
{
    struct signalfd_siginfo info;
    while (read(work->signals, &info, sizeof(info)) == sizeof(info)) {
        if (!work->stopping && !work->answers.quiet)
            fprintf(stderr, "stopping, %zu commands are still running\n",
                    count_slots(work, WORK_SLOT_RUNNING));
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

static void loop(struct work *work)
{
    for (;;) {
        bool may_take = !work->stopping && !work->taking && work->take_again_ms <= now_ms();
        if (may_take && count_slots(work, WORK_SLOT_FREE) > 0)
            begin_take(work);
        if (work->stopping && work->taking) {
            /* The server gives back what was on its way. */
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
    loop(work);
    close(work->signals);
    return work->exit_code;
}

int cli_work(int argc, char **argv)
{
    static struct work work; /* large */
    uint64_t jobs = 1;
    work = (struct work){.answers = {.lease_for = "60s"}};
    const struct cli_flag flags[] = {
        {"jobs", CLI_COUNT, &jobs, "N", "run so many commands at a time; 1"},
        {"lease-for", CLI_DURATION, &work.answers.lease_for, "60s",
         "extended after each tenth of it until the server has the outcome"},
        {"quiet", CLI_SWITCH, &work.answers.quiet, NULL, "no line for each job"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "work TOPIC [--jobs N] [--lease-for 60s] -- COMMAND [ARGUMENTS]",
        .about =
            "Runs COMMAND for each job that falls due, with the body on standard input and\n"
            "TARRY_TOPIC, TARRY_ID, TARRY_ATTEMPT, TARRY_LEASE and TARRY_CONTENT_TYPE in the\n"
            "environment. Exit code 0 acks the job; 65 (data error: no further attempt can help)\n"
            "makes it dead at once; anything else nacks it, and the last lines of its standard\n"
            "error are kept with the job. The lease is extended until the server has the answer;\n"
            "a server that is away is tried again until it is back. SIGTERM or Ctrl-C lets "
            "running\n"
            "commands finish; a second one is handed on to them. A command dies with its worker.",
        .flags = flags,
        .least = 1,
        .most = 1,
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
    work.topic = args.list.at[0];
    work.url = args.url;
    work.command = args.command;
    if (!work.multi || !client_open(&work.taker, args.url) ||
        !work_answers_open(&work.answers, args.url))
        return CLI_REFUSED;
    work.taker.is_silent = true;
    exit_code = work_run(&work);
    work_answers_close(&work.answers);
    client_close(&work.taker);
    curl_multi_cleanup(work.multi);
    return exit_code;
}
