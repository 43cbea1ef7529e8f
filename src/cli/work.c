/*
 * work: takes jobs, runs a command for each, answers for it.
 *
 * One thread. Takes go through a curl multi handle, whose poll also watches the children and the
 * signals; answers are short and made one after the other on a connection of their own.
 */
#include "cli/child.h"
#include "cli/client.h"
#include "cli/commands.h"

#include "base/clock.h"
#include "base/duration.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    SLOTS_MAX = 256,
    NAME_BYTES = 336, /* topic/id */
    LEASE_BYTES = 80,
    RETRY_MS = 1000,
    WAIT_MS = 30000,
    LEASE_MS_MIN = 1000,
    LEASE_MS_MAX = 24 * 3600 * 1000
};

enum slot_state { SLOT_FREE = 0, SLOT_RUNNING, SLOT_ANSWERING };

struct slot {
    enum slot_state state;
    struct child child;
    char name[NAME_BYTES], lease[LEASE_BYTES];
    int64_t lease_end_ms; /* as far as we know, on the clock of now_ms */
    int64_t next_ms;      /* running: extend then. answering: try (again) then */
};

struct work {
    const char *topic, *url, *lease_for;
    char **command;
    int64_t lease_ms;
    size_t slot_count;
    struct slot slots[SLOTS_MAX];
    struct client taker, answerer;
    CURLM *multi;
    bool taking, stopping, quiet;
    int64_t take_again_ms;
    int signals; /* a signalfd */
    int exit_code;
};

static int64_t now_ms(void)
{
    return clock_boot_us() / 1000;
}

static size_t count_slots(const struct work *work, enum slot_state state)
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

/* ---- answers ---- */

/* ack, nack or extend of one lease. False: the server could not be asked. */
static bool ask(struct work *work, struct slot *slot, const char *verb, const char *error,
                bool is_final)
{
    struct client *client = &work->answerer;
    struct buffer *target = client_begin(client);
    url_add_segment(target, verb);
    url_add_query(target, "lease", slot->lease);
    url_add_query(target, "error", error);
    url_add_query(target, "final", is_final ? "true" : NULL);
    if (strcmp(verb, "extend") == 0)
        url_add_query(target, "lease_for", work->lease_for);
    int exit_code = client_call(client, "POST", NULL, 0);
    if (exit_code == CLI_UNREACHABLE || client->status >= 500)
        return false;
    const json_t *result = json_array_get(json_object_get(client->json, "results"), 0);
    const char *status = json_string_value(json_object_get(result, "result"));
    if (exit_code != CLI_OK || !status || strcmp(status, "ok") != 0)
        cli_error("'%s' was not %sed, it will be delivered again", slot->name, verb);
    else if (strcmp(verb, "extend") == 0)
        slot->lease_end_ms = now_ms() + work->lease_ms;
    return true;
}

static void answer(struct work *work, struct slot *slot)
{
    char error[64];
    child_explain(&slot->child, error, sizeof(error));
    bool is_final = child_is_final(&slot->child);
    if (ask(work, slot, error[0] ? "nack" : "ack", error[0] ? error : NULL, is_final)) {
        if (!work->quiet)
            fprintf(stderr, "%s %s%s%s%s\n", error[0] ? "nacked" : "acked", slot->name,
                    error[0] ? ", " : "", error, is_final ? ", for good" : "");
        slot->state = SLOT_FREE;
    } else if (now_ms() + RETRY_MS < slot->lease_end_ms) {
        slot->next_ms = now_ms() + RETRY_MS;
    } else {
        cli_error("'%s' could not be answered before its lease ended, it will be delivered again",
                  slot->name);
        slot->state = SLOT_FREE;
    }
}

static void extend(struct work *work, struct slot *slot)
{
    bool asked = ask(work, slot, "extend", NULL, false);
    slot->next_ms = now_ms() + (asked ? work->lease_ms / 2 : RETRY_MS);
}

static void tend(struct work *work)
{
    for (size_t i = 0; i < work->slot_count; i++) {
        struct slot *slot = &work->slots[i];
        if (slot->state == SLOT_RUNNING && child_reap(&slot->child)) {
            slot->state = SLOT_ANSWERING;
            slot->next_ms = now_ms();
        }
        if (slot->state == SLOT_FREE || slot->next_ms > now_ms())
            continue;
        if (slot->state == SLOT_ANSWERING)
            answer(work, slot);
        else
            extend(work, slot);
    }
}

/* ---- takes ---- */

static void start_job(struct work *work)
{
    const struct client *client = &work->taker;
    const struct child_job job = {
        .topic = client_header(client, "Tarry-Topic"),
        .id = client_header(client, "Tarry-Id"),
        .attempt = client_header(client, "Tarry-Attempt"),
        .lease = client_header(client, "Tarry-Lease"),
        .content_type = client_header(client, "Content-Type"),
        .body = buffer_slice(&client->answer),
    };
    struct slot *slot = work->slots;
    while (slot->state != SLOT_FREE)
        slot++; /* there is one, else nothing would have been taken */
    *slot = (struct slot){.state = SLOT_RUNNING};
    snprintf(slot->name, sizeof(slot->name), "%.*s/%.*s", (int)job.topic.len, job.topic.at,
             (int)job.id.len, job.id.at);
    snprintf(slot->lease, sizeof(slot->lease), "%.*s", (int)job.lease.len, job.lease.at);
    slot->lease_end_ms = now_ms() + work->lease_ms;
    slot->next_ms = now_ms() + work->lease_ms / 2;
    int error = child_start(&slot->child, work->command, &job, work->url);
    if (error == 0)
        return;
    cli_error("cannot run '%s', %s", work->command[0], strerror(-error));
    ask(work, slot, "nack", "the command could not be run", false);
    slot->state = SLOT_FREE;
    stop(work, CLI_REFUSED);
}

static void begin_take(struct work *work)
{
    struct buffer *target = client_begin(&work->taker);
    url_add_segment(target, "topics");
    url_add_segment(target, work->topic);
    url_add_segment(target, "take");
    url_add_query_number(target, "wait", WAIT_MS);
    url_add_query(target, "lease_for", work->lease_for);
    client_want_raw(&work->taker); /* byte for byte, which JSON does not promise */
    if (!client_prepare(&work->taker, "POST", NULL, WAIT_MS)) {
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
    if (exit_code == CLI_OK && client_header(client, "Tarry-Lease").len > 0) {
        start_job(work);
    } else if (exit_code == CLI_OK) {
        stop(work, cli_error("unexpected answer to a take, is it a tarry server"));
    } else if (client->status == 204) {
        return;
    } else if (exit_code == CLI_UNREACHABLE || client->status >= 500 || client->status == 429) {
        work->take_again_ms = now_ms() + RETRY_MS;
    } else {
        stop(work, exit_code);
    }
}

static void run_transfers(struct work *work)
{
    int running, left;
    curl_multi_perform(work->multi, &running);
    for (const CURLMsg *message; (message = curl_multi_info_read(work->multi, &left));)
        if (message->msg == CURLMSG_DONE)
            end_take(work, message->data.result);
}

/* ---- the loop ---- */

static void read_signals(struct work *work)
{
    struct signalfd_siginfo info;
    while (read(work->signals, &info, sizeof(info)) == sizeof(info)) {
        if (!work->stopping && !work->quiet)
            fprintf(stderr, "stopping, %zu commands are still running\n",
                    count_slots(work, SLOT_RUNNING));
        for (size_t i = 0; work->stopping && i < work->slot_count; i++)
            if (work->slots[i].state == SLOT_RUNNING)
                kill(-work->slots[i].child.pid, SIGTERM);
        work->stopping = true;
    }
}

static int poll_timeout(const struct work *work)
{
    int64_t next = now_ms() + 60 * 1000;
    if (!work->taking && !work->stopping && count_slots(work, SLOT_FREE) > 0 &&
        work->take_again_ms < next)
        next = work->take_again_ms;
    for (size_t i = 0; i < work->slot_count; i++)
        if (work->slots[i].state != SLOT_FREE && work->slots[i].next_ms < next)
            next = work->slots[i].next_ms;
    return next <= now_ms() ? 0 : (int)(next - now_ms());
}

static void wait_for_events(struct work *work)
{
    struct curl_waitfd fds[SLOTS_MAX + 1];
    unsigned count = 0;
    fds[count++] = (struct curl_waitfd){.fd = work->signals, .events = CURL_WAIT_POLLIN};
    for (size_t i = 0; i < work->slot_count; i++)
        if (work->slots[i].state == SLOT_RUNNING)
            fds[count++] =
                (struct curl_waitfd){.fd = work->slots[i].child.pidfd, .events = CURL_WAIT_POLLIN};
    curl_multi_poll(work->multi, fds, count, poll_timeout(work), NULL);
}

static void loop(struct work *work)
{
    for (;;) {
        bool may_take = !work->stopping && !work->taking && work->take_again_ms <= now_ms();
        if (may_take && count_slots(work, SLOT_FREE) > 0)
            begin_take(work);
        if (work->stopping && work->taking) {
            /* The server gives back what was on its way. */
            curl_multi_remove_handle(work->multi, work->taker.curl);
            work->taking = false;
        }
        if (work->stopping && count_slots(work, SLOT_FREE) == work->slot_count)
            return;
        run_transfers(work);
        tend(work);
        if (work->taking || count_slots(work, SLOT_FREE) < work->slot_count || !work->stopping)
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
    work->multi = curl_multi_init();
    if (work->signals < 0 || !work->multi)
        return cli_error("cannot start, %s", strerror(errno));
    loop(work);
    curl_multi_cleanup(work->multi);
    close(work->signals);
    return work->exit_code;
}

int cli_work(int argc, char **argv)
{
    static struct work work; /* large */
    uint64_t jobs = 1;
    work = (struct work){.lease_for = "60s"};
    const struct cli_flag flags[] = {
        {"jobs", CLI_COUNT, &jobs, "N", "run so many commands at a time; 1"},
        {"lease-for", CLI_TEXT, &work.lease_for, "60s", "extended at half as long as one runs"},
        {"quiet", CLI_SWITCH, &work.quiet, NULL, "no line for each job"},
        {0},
    };
    const struct cli_syntax syntax = {
        .usage = "work TOPIC [--jobs N] [--lease-for 60s] -- COMMAND [ARGUMENTS]",
        .about =
            "Runs COMMAND for each job that falls due, with the body on standard input and\n"
            "TARRY_TOPIC, TARRY_ID, TARRY_ATTEMPT, TARRY_LEASE and TARRY_CONTENT_TYPE in the\n"
            "environment. Exit code 0 acks the job; 65 (data error: no further attempt can help)\n"
            "makes it dead at once; anything else nacks it. The lease is extended while the\n"
            "command runs. SIGTERM or Ctrl-C lets running commands finish; a second one is handed\n"
            "on to them.",
        .flags = flags,
        .least = 1,
        .most = 1,
        .takes_command = true,
    };
    struct cli_args args;
    int exit_code = cli_parse(argc, argv, &syntax, &args);
    if (exit_code >= 0)
        return exit_code;
    if (jobs < 1 || jobs > SLOTS_MAX)
        return cli_usage("bad value for '--jobs', give a number from 1 to %d", SLOTS_MAX);
    if (!duration_parse(slice_of(work.lease_for), LEASE_MS_MAX, &work.lease_ms) ||
        work.lease_ms < LEASE_MS_MIN)
        return cli_usage("bad value '%s' for '--lease-for', give a time from 1s to 24h",
                         work.lease_for);
    work.slot_count = (size_t)jobs;
    work.topic = args.list.at[0];
    work.url = args.url;
    work.command = args.command;
    if (!client_open(&work.taker, args.url) || !client_open(&work.answerer, args.url))
        return CLI_REFUSED;
    exit_code = work_run(&work);
    client_close(&work.taker);
    client_close(&work.answerer);
    return exit_code;
}
