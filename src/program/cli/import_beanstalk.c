#include "cli/import_beanstalk.h"

#include "base/clock.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/vector.h"
#include "beanstalk/command.h"
#include "beanstalk/job_view.h"
#include "cli/beanstalk_peer.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "job/policy.h"

#include <inttypes.h>
#include <string.h>

enum {
    TUBE_BYTES = 201,
    SERVER_ID_BYTES = 33, /* id of this beanstalkd process */
    ANSWER_BYTES_MAX = 16 << 20,
    BLOCK_MIN = 64, /* numbers requested at a time; more if many of them are jobs */
    BLOCK_MAX = 1024,
    PEEK_MAX = 64,         /* bodies requested at a time */
    JOB_BYTES_MAX = 1024,  /* of a line, without the body */
    BATCH_BYTES = 2 << 20, /* a batch is pushed when it reaches this size */
    BATCH_JOBS = 1000,
    REFUSED_MAX = 1000, /* the import ends after this many rejected jobs */
    PAUSE_S = 3600,
    PAUSE_AGAIN_MS = 20 * 60 * 1000
};

/* The lists of a tube, in the order in which they are moved. */
enum { KIND_READY, KIND_DELAYED, KIND_BURIED, KINDS };
static const char *const kinds[KINDS] = {"ready", "delayed", "buried"};

struct tube {
    char name[TUBE_BYTES];
    uint64_t counts[KINDS], reserved; /* from the last statistics */
    int64_t own_pause_until_ms;       /* end of a pause set by another client; boot time */
    bool is_stuck[KINDS]; /* its head could not be moved, so the jobs behind it are not visible */
};
VECTOR_DECLARE(tubes, struct tube)
VECTOR_DECLARE(numbers, uint64_t)

struct moved_job {
    uint64_t number;
    const struct tube *tube;
    int kind;
    uint32_t priority;
    uint64_t ttr_s, reserves;
    int64_t due_ms;   /* delayed: time since boot */
    size_t at, bytes; /* its body within `bodies` */
    bool is_there;    /* the body was still available */
    bool is_in;       /* stored in the server */
    bool is_created;  /* stored by this import */
};

struct drain {
    const struct import_beanstalk_wish *wish;
    struct beanstalk_peer peer;
    char server_id[SERVER_ID_BYTES];
    uint64_t job_bytes_max; /* maximum size in beanstalkd */
    struct tubes tubes;
    struct buffer commands, answer, bodies, lines;
    struct moved_job jobs[BLOCK_MAX];
    size_t job_count; /* number of jobs found in a block */
    uint64_t block;
    struct retry retry;
    int64_t paused_ms;      /* last time the tubes were paused; 0: not paused */
    struct numbers refused; /* not tried again */
    uint64_t total, moved, created, existed;
    bool is_in_doubt; /* some jobs may be stored in the server and not yet deleted in beanstalkd */
    bool is_out_of_step; /* answers of beanstalkd may be unread: no more commands are sent */
};

/* ---- answers of beanstalkd ---- */

static bool send_commands(struct drain *drain)
{
    bool is_sent = !drain->commands.failed && !drain->is_out_of_step &&
                   beanstalk_peer_send(&drain->peer, buffer_slice(&drain->commands));
    buffer_clear(&drain->commands);
    return is_sent;
}

static bool answer_fail(struct drain *drain, const char *line)
{
    char shown[BEANSTALK_LINE_MAX];
    drain->is_out_of_step = true;
    snprintf(shown, sizeof shown, "%s", line);
    show_disarm(shown);
    progress_clear();
    cli_error("unexpected answer '%s' from beanstalkd at '%s', no more jobs are moved", shown,
              drain->peer.shown);
    return false;
}

/* Converts seconds to milliseconds, limited to the maximum of beanstalkd's commands. */
static int64_t milliseconds(uint64_t seconds)
{
    return (int64_t)(seconds < UINT32_MAX ? seconds : UINT32_MAX) * 1000;
}

/* Returns the number of bytes at the end of "OK 200" and "FOUND 17 200". */
static uint64_t bytes_of(const char *line)
{
    const char *last = strrchr(line, ' ');
    uint64_t bytes = 0;
    if (last)
        (void)text_parse_u64(slice_of(last + 1), UINT32_MAX, &bytes);
    return bytes;
}

/* Reads the next answer, with its body if any into drain->answer. Sets *is_found unless the
 * answer is NOT_FOUND. */
static bool read_answer(struct drain *drain, bool *is_found)
{
    char line[BEANSTALK_LINE_MAX];
    buffer_clear(&drain->answer);
    if (!beanstalk_peer_line(&drain->peer, line))
        return false;
    *is_found = strcmp(line, "NOT_FOUND") != 0;
    if (strncmp(line, "OK ", 3) == 0)
        return beanstalk_peer_body(&drain->peer, bytes_of(line), &drain->answer) &&
               !drain->answer.failed;
    bool is_word = strncmp(line, "USING ", 6) == 0 || strcmp(line, "PAUSED") == 0 ||
                   strcmp(line, "DELETED") == 0;
    return is_word || !*is_found || answer_fail(drain, line);
}

static bool ask(struct drain *drain, bool *is_found, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool ask(struct drain *drain, bool *is_found, const char *format, ...)
{
    char text[TUBE_BYTES + 32];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    buffer_append_format(&drain->commands, "%s\r\n", text);
    return send_commands(drain) && read_answer(drain, is_found);
}

/* Returns the value of a line "NAME: VALUE" of the answer, without quotes; empty if absent. */
static struct slice yaml_value(const struct drain *drain, const char *name)
{
    struct slice text = buffer_slice(&drain->answer);
    size_t name_bytes = strlen(name);
    while (text.len) {
        const char *end = memchr(text.at, '\n', text.len);
        size_t len = end ? (size_t)(end - text.at) : text.len;
        if (len > name_bytes + 2 && memcmp(text.at, name, name_bytes) == 0 &&
            memcmp(text.at + name_bytes, ": ", 2) == 0) {
            struct slice value = slice_make(text.at + name_bytes + 2, len - name_bytes - 2);
            if (value.len >= 2 && *value.at == '"')
                value = slice_make(value.at + 1, value.len - 2);
            return value;
        }
        len += end != NULL;
        text = slice_make(text.at + len, text.len - len);
    }
    return slice_make("", 0);
}

static uint64_t yaml_number(const struct drain *drain, const char *name)
{
    uint64_t number = 0;
    (void)text_parse_u64(yaml_value(drain, name), UINT64_MAX, &number);
    return number;
}

/* ---- tubes ---- */

static bool add_tube(struct drain *drain, struct slice name)
{
    struct tube tube = {.name = ""};
    if (name.len >= sizeof tube.name || !beanstalk_tube_is_valid(name))
        return answer_fail(drain, "an invalid tube name");
    memcpy(tube.name, name.at, name.len);
    return tubes_add(&drain->tubes, tube) || (cli_error("out of memory"), false);
}

/* Adds each "- NAME" of the answer. */
static bool add_tubes(struct drain *drain)
{
    struct slice text = buffer_slice(&drain->answer);
    while (text.len) {
        const char *end = memchr(text.at, '\n', text.len);
        size_t len = end ? (size_t)(end - text.at) : text.len;
        if (len > 2 && memcmp(text.at, "- ", 2) == 0 &&
            !add_tube(drain, slice_make(text.at + 2, len - 2)))
            return false;
        len += end != NULL;
        text = slice_make(text.at + len, text.len - len);
    }
    return true;
}

/* Reads the counts of a tube. A tube that no longer exists has no jobs. */
static bool count_tube(struct drain *drain, struct tube *tube, bool *is_found)
{
    if (!ask(drain, is_found, "stats-tube %s", tube->name))
        return false;
    tube->counts[KIND_READY] = yaml_number(drain, "current-jobs-ready");
    tube->counts[KIND_DELAYED] = yaml_number(drain, "current-jobs-delayed");
    tube->counts[KIND_BURIED] = yaml_number(drain, "current-jobs-buried");
    tube->reserved = yaml_number(drain, "current-jobs-reserved");
    /* A pause of the same length as this program's is left over from an interrupted import. */
    if (!drain->paused_ms && yaml_number(drain, "pause") != PAUSE_S)
        tube->own_pause_until_ms =
            clock_boot_ms() + milliseconds(yaml_number(drain, "pause-time-left"));
    return true;
}

static bool count_tubes(struct drain *drain)
{
    bool is_found;
    for (size_t i = 0; i < drain->tubes.count; i++)
        if (!count_tube(drain, &drain->tubes.at[i], &is_found))
            return false;
    return true;
}

static uint64_t pending(const struct drain *drain, int kind)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < drain->tubes.count; i++)
        sum += drain->tubes.at[i].counts[kind];
    return sum;
}

static uint64_t reserved(const struct drain *drain)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < drain->tubes.count; i++)
        sum += drain->tubes.at[i].reserved;
    return sum;
}

static const struct tube *find_tube(const struct drain *drain, struct slice name)
{
    for (size_t i = 0; i < drain->tubes.count; i++)
        if (slice_is(name, drain->tubes.at[i].name))
            return &drain->tubes.at[i];
    return NULL;
}

/* Finds the tubes to import. Returns an exit code; errors are printed. */
static int find_tubes(struct drain *drain)
{
    const struct cli_list *names = &drain->wish->tubes;
    bool is_found;
    if (names->count == 0 &&
        (!ask(drain, &is_found, "list-tubes") || !add_tubes(drain) || !count_tubes(drain)))
        return CLI_REFUSED;
    for (size_t i = 0; i < names->count; i++) {
        if (find_tube(drain, slice_of(names->at[i])))
            continue;
        if (!beanstalk_tube_is_valid(slice_of(names->at[i])))
            return cli_usage("bad value '%s' for '--tube', give the name of a tube", names->at[i]);
        if (!add_tube(drain, slice_of(names->at[i])) ||
            !count_tube(drain, &drain->tubes.at[drain->tubes.count - 1], &is_found))
            return CLI_REFUSED;
        if (!is_found) {
            cli_error("there is no tube '%s' at '%s'", names->at[i], drain->peer.shown);
            return CLI_NOTHING;
        }
    }
    return CLI_OK;
}

static bool pause_tubes(struct drain *drain)
{
    bool is_found;
    drain->paused_ms = clock_boot_ms();
    for (size_t i = 0; i < drain->tubes.count; i++)
        if (!ask(drain, &is_found, "pause-tube %s %u", drain->tubes.at[i].name, (unsigned)PAUSE_S))
            return false;
    return true;
}

/* Resumes the tubes. A tube that was paused by another client before stays paused for the
 * remaining time. */
static bool resume_tubes(struct drain *drain)
{
    bool is_found;
    for (size_t i = 0; i < drain->tubes.count; i++) {
        int64_t left_ms = drain->tubes.at[i].own_pause_until_ms - clock_boot_ms();
        if (!ask(drain, &is_found, "pause-tube %s %" PRId64, drain->tubes.at[i].name,
                 left_ms > 0 ? left_ms / 1000 : 0))
            return false;
    }
    drain->paused_ms = 0;
    return true;
}

static bool keep_paused(struct drain *drain)
{
    bool is_soon_over = !drain->paused_ms || clock_boot_ms() - drain->paused_ms > PAUSE_AGAIN_MS;
    return !is_soon_over || pause_tubes(drain);
}

/* ---- pushing a batch to the server ---- */

/* Writes a line of JSON that pushes the job as a put of the beanstalk protocol would
 * (docs/beanstalk.md). */
static void write_job(struct drain *drain, const struct moved_job *job)
{
    struct buffer *out = &drain->lines;
    uint64_t lease_ms =
        job->ttr_s < POLICY_LEASE_MS_MAX / 1000 ? job->ttr_s * 1000 : POLICY_LEASE_MS_MAX;
    int64_t left_ms = job->kind == KIND_DELAYED ? job->due_ms - clock_boot_ms() : 0;
    buffer_append_text(out, "{\"on_conflict\":\"keep\",\"topic\":");
    json_write_string(out, slice_of(job->tube->name));
    buffer_append_format(out, ",\"id\":\"%s-%" PRIu64 "\",\"delay\":\"%" PRId64 "ms\"",
                         drain->server_id, job->number, left_ms > 0 ? left_ms : 0);
    buffer_append_format(out, ",\"priority\":%u,\"lease_for\":\"%" PRIu64 "ms\"",
                         (unsigned)beanstalk_priority_pack(job->priority), lease_ms);
    buffer_append_format(
        out, ",\"max_attempts\":\"none\",\"backoff\":\"none\",\"attempt\":%" PRIu64, job->reserves);
    if (job->kind == KIND_BURIED)
        buffer_append_text(out, ",\"state\":\"dead\",\"error\":\"buried in beanstalkd\"");
    buffer_append_text(out, ",\"content_type\":\"application/octet-stream\",\"body_base64\":");
    json_write_base64(out, slice_make(job->bytes ? drain->bodies.at + job->at : "", job->bytes));
    buffer_append_text(out, "}\n");
}

static bool is_refused(const struct drain *drain, uint64_t number)
{
    for (size_t i = 0; i < drain->refused.count; i++)
        if (drain->refused.at[i] == number)
            return true;
    return false;
}

/* Reports a rejected job. It stays in beanstalkd. */
static void job_refuse(struct drain *drain, const struct moved_job *job, const char *code,
                       const char *detail)
{
    (void)numbers_add(&drain->refused, job->number);
    progress_clear();
    fprintf(stderr, "job %" PRIu64 " of tube '%s' refused: %s%s%s\n", job->number, job->tube->name,
            code, detail ? ", " : "", detail ? detail : "");
}

static const char *code_of(const json_t *result)
{
    const char *code = json_string_value(json_object_get(result, "result"));
    return code ? code : "no result";
}

static bool is_any_passing(const json_t *results)
{
    for (size_t i = 0; i < json_array_size(results); i++)
        if (retry_helps_code(code_of(json_array_get(results, i))))
            return true;
    return false;
}

/* Notes which jobs are created: a later attempt returns that they exist. */
static void note_created(struct moved_job *jobs, size_t count, const json_t *results)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++)
        if (jobs[i].is_there)
            jobs[i].is_created |= strcmp(code_of(json_array_get(results, at++)), "created") == 0;
}

/* Pushes once, with delays relative to now. Returns an exit code; errors are printed unless
 * *again is set. */
static int push_once(struct drain *drain, struct moved_job *jobs, size_t count, bool *again)
{
    struct client *client = drain->wish->client;
    buffer_clear(&drain->lines);
    for (size_t i = 0; i < count; i++)
        if (jobs[i].is_there)
            write_job(drain, &jobs[i]);
    struct slice body = buffer_slice(&drain->lines);
    *again = false;
    cli_url_add_segment(client_begin(client), "jobs");
    client_add_header(client, "Content-Type: application/x-ndjson");
    if (drain->lines.failed || !client_prepare(client, "POST", &body, 60 * 1000))
        return cli_error("out of memory");
    const bool was_in_doubt = drain->is_in_doubt; /* after an attempt whose outcome is unknown */
    drain->is_in_doubt = true;
    CURLcode code = curl_easy_perform(client->curl);
    if (retry_helps(client, code)) {
        *again = retry_wait(&drain->retry, "the server", 0);
        return *again ? CLI_OK : client_finish(client, code);
    }
    int exit_code = client_finish(client, code);
    if (exit_code == CLI_OK)
        note_created(jobs, count, json_object_get(client->json, "results"));
    if (exit_code != CLI_OK && client->status >= 400)
        drain->is_in_doubt = was_in_doubt; /* this attempt was rejected as a whole */
    if (exit_code == CLI_OK && is_any_passing(json_object_get(client->json, "results")))
        *again = retry_wait(&drain->retry, "the server", 0);
    else
        retry_reset(&drain->retry);
    return exit_code;
}

/* Processes the server's result for each job. */
static int count_results(struct drain *drain, struct moved_job *jobs, size_t count)
{
    const json_t *results = json_object_get(drain->wish->client->json, "results");
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (!jobs[i].is_there)
            continue;
        const json_t *result = json_array_get(results, at++);
        const char *code = code_of(result);
        jobs[i].is_in = jobs[i].is_created || strcmp(code, "existed") == 0;
        drain->created += jobs[i].is_created;
        drain->existed += jobs[i].is_in && !jobs[i].is_created;
        if (!jobs[i].is_in)
            job_refuse(drain, &jobs[i], code, json_string_value(json_object_get(result, "detail")));
    }
    return at == json_array_size(results)
               ? CLI_OK
               : cli_error("unexpected answer from '%s', check that it is a tarry server",
                           drain->wish->client->shown);
}

/* Deletes from beanstalkd the jobs that the server has stored. */
static bool delete_jobs(struct drain *drain, const struct moved_job *jobs, size_t count)
{
    bool is_found;
    for (size_t i = 0; i < count; i++)
        if (jobs[i].is_in)
            buffer_append_format(&drain->commands, "delete %" PRIu64 "\r\n", jobs[i].number);
    if (!send_commands(drain))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!jobs[i].is_in)
            continue;
        if (!read_answer(drain, &is_found))
            return false;
        drain->moved++;
        if (is_found)
            continue;
        progress_clear();
        fprintf(stderr,
                "job %" PRIu64 " of tube '%s' was taken or deleted in beanstalkd during the "
                "import, but is also stored as '%s-%" PRIu64 "'\n",
                jobs[i].number, jobs[i].tube->name, drain->server_id, jobs[i].number);
    }
    drain->is_in_doubt = false;
    return true;
}

/* Moves jobs whose bodies have been read. Returns an exit code; errors are printed. */
static int move_batch(struct drain *drain, struct moved_job *jobs, size_t count)
{
    bool again = true, is_any = false;
    int exit_code = CLI_OK;
    for (size_t i = 0; i < count; i++)
        is_any |= jobs[i].is_there;
    while (is_any && again) {
        if (!keep_paused(drain))
            return CLI_REFUSED;
        exit_code = push_once(drain, jobs, count, &again);
    }
    if (is_any && exit_code == CLI_OK) {
        bool is_given_up = is_any_passing(json_object_get(drain->wish->client->json, "results"));
        exit_code = count_results(drain, jobs, count);
        if (exit_code == CLI_OK && !delete_jobs(drain, jobs, count))
            exit_code = CLI_REFUSED;
        if (exit_code == CLI_OK && is_given_up)
            exit_code = cli_error("the server has accepted no jobs for some time");
    }
    if (exit_code == CLI_OK && drain->refused.count >= REFUSED_MAX)
        exit_code =
            cli_error("%zu jobs were refused, no more jobs are moved", drain->refused.count);
    buffer_clear_and_trim(&drain->bodies, BATCH_BYTES);
    progress_show(drain->moved, drain->total, -1);
    return exit_code;
}

/* ---- numbers near a job ---- */

/* Reads the body of a job. The job may be gone meanwhile, or too long for any call. */
static bool read_body(struct drain *drain, struct moved_job *job)
{
    char line[BEANSTALK_LINE_MAX];
    if (!beanstalk_peer_line(&drain->peer, line))
        return false;
    if (strcmp(line, "NOT_FOUND") == 0)
        return true;
    if (strncmp(line, "FOUND ", 6) != 0)
        return answer_fail(drain, line);
    job->at = drain->bodies.len;
    job->bytes = (size_t)bytes_of(line);
    bool is_too_long = (uint64_t)job->bytes / 3 * 4 + 2 * JOB_BYTES_MAX > drain->wish->batch_bytes;
    if (is_too_long)
        job_refuse(drain, job, "body_too_big", "it is longer than the server's limit of a batch");
    job->is_there = !is_too_long;
    if (!beanstalk_peer_body(&drain->peer, job->bytes, is_too_long ? NULL : &drain->bodies))
        return false;
    return !drain->bodies.failed || (cli_error("out of memory"), false);
}

static bool read_bodies(struct drain *drain, struct moved_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        buffer_append_format(&drain->commands, "peek %" PRIu64 "\r\n", jobs[i].number);
    if (!send_commands(drain))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!read_body(drain, &jobs[i]))
            return false;
    return true;
}

static uint64_t line_bytes_max(const struct drain *drain)
{
    return drain->job_bytes_max / 3 * 4 + JOB_BYTES_MAX;
}

/* Returns the number of bodies to request at a time, such that a batch has room for all. */
static size_t peek_count(const struct drain *drain)
{
    uint64_t fit = drain->wish->batch_bytes / 4 * 3 / line_bytes_max(drain);
    return fit < 1 ? 1 : fit < PEEK_MAX ? (size_t)fit : PEEK_MAX;
}

/* Returns the size at which a batch is pushed before more bodies are requested. */
static uint64_t batch_room(const struct drain *drain, size_t group)
{
    uint64_t most = drain->wish->batch_bytes, more = group * line_bytes_max(drain);
    uint64_t room = more < most ? most - more : 0;
    return room < BATCH_BYTES ? room : BATCH_BYTES;
}

/* Moves the jobs that were found in a block, in batches. */
static int move_jobs(struct drain *drain)
{
    size_t begin = 0, end = 0, group = peek_count(drain);
    uint64_t room = batch_room(drain, group);
    int exit_code = CLI_OK;
    while (exit_code == CLI_OK && end < drain->job_count && !interrupt_came()) {
        size_t left = drain->job_count - end, more = left < group ? left : group;
        if (!read_bodies(drain, drain->jobs + end, more))
            return CLI_REFUSED;
        end += more;
        uint64_t bytes = (uint64_t)drain->bodies.len / 3 * 4 + (end - begin) * JOB_BYTES_MAX;
        if (bytes < room && end - begin + group <= BATCH_JOBS && end < drain->job_count)
            continue;
        exit_code = move_batch(drain, drain->jobs + begin, end - begin);
        begin = end;
    }
    return exit_code;
}

/* Adds the job in the answer to stats-job to the jobs to move, if its tube is imported. */
static void add_job(struct drain *drain)
{
    struct slice state = yaml_value(drain, "state");
    struct moved_job *job = &drain->jobs[drain->job_count];
    *job = (struct moved_job){.number = yaml_number(drain, "id"),
                              .tube = find_tube(drain, yaml_value(drain, "tube")),
                              .priority = (uint32_t)yaml_number(drain, "pri"),
                              .ttr_s = yaml_number(drain, "ttr"),
                              .reserves = yaml_number(drain, "reserves")};
    while (job->kind < KINDS && !slice_is(state, kinds[job->kind]))
        job->kind++;
    if (!job->tube || job->kind == KINDS || is_refused(drain, job->number))
        return;
    /* The remaining time is in whole seconds, rounded down. */
    job->due_ms = clock_boot_ms() + milliseconds(yaml_number(drain, "time-left") + 1);
    drain->job_count++;
}

/* Moves the pending jobs in the block of numbers that contains `number`. */
static int move_block(struct drain *drain, uint64_t number)
{
    uint64_t first = number / drain->block * drain->block;
    bool is_found;
    drain->job_count = 0;
    for (uint64_t i = 0; i < drain->block; i++)
        buffer_append_format(&drain->commands, "stats-job %" PRIu64 "\r\n", first + i);
    if (!send_commands(drain))
        return CLI_REFUSED;
    for (uint64_t i = 0; i < drain->block; i++) {
        if (!read_answer(drain, &is_found))
            return CLI_REFUSED;
        if (is_found)
            add_job(drain);
    }
    if (drain->job_count > drain->block / 4 && drain->block < BLOCK_MAX)
        drain->block *= 2;
    else if (drain->job_count < drain->block / 16 && drain->block > BLOCK_MIN)
        drain->block /= 2;
    return move_jobs(drain);
}

/* ---- the complete import ---- */

/* Finds the first job of a tube's list; sets *number to 0 if it is empty. */
static bool find_head(struct drain *drain, const struct tube *tube, int kind, uint64_t *number)
{
    char line[BEANSTALK_LINE_MAX];
    bool is_found;
    *number = 0;
    if (!ask(drain, &is_found, "use %s", tube->name))
        return false;
    buffer_append_format(&drain->commands, "peek-%s\r\n", kinds[kind]);
    if (!send_commands(drain) || !beanstalk_peer_line(&drain->peer, line))
        return false;
    if (strcmp(line, "NOT_FOUND") == 0)
        return true;
    char *last = strrchr(line, ' ');
    uint64_t bytes = bytes_of(line);
    if (strncmp(line, "FOUND ", 6) != 0 || last <= line + 5)
        return answer_fail(drain, line);
    *last = '\0';
    return (text_parse_u64(slice_of(line + 6), UINT64_MAX, number) || answer_fail(drain, line)) &&
           beanstalk_peer_body(&drain->peer, bytes, NULL);
}

/* Moves one list of a tube until it is empty or its first job cannot be moved. */
static int move_list(struct drain *drain, struct tube *tube, int kind, bool *is_any)
{
    uint64_t number, before = 0;
    while (!tube->is_stuck[kind] && !interrupt_came()) {
        if (!keep_paused(drain) || !find_head(drain, tube, kind, &number))
            return CLI_REFUSED;
        if (!number)
            return CLI_OK;
        tube->is_stuck[kind] = number == before;
        before = number;
        *is_any = true;
        int exit_code = tube->is_stuck[kind] ? CLI_OK : move_block(drain, number);
        if (exit_code != CLI_OK)
            return exit_code;
    }
    return CLI_OK;
}

/* Moves jobs until no job is left; delayed jobs may become ready meanwhile. */
static int move_all(struct drain *drain)
{
    int exit_code = CLI_OK;
    bool is_any = true;
    while (is_any && exit_code == CLI_OK && !interrupt_came()) {
        is_any = false;
        for (size_t i = 0; i < drain->tubes.count; i++)
            for (int kind = 0; kind < KINDS && exit_code == CLI_OK; kind++)
                exit_code = move_list(drain, &drain->tubes.at[i], kind, &is_any);
    }
    return exit_code;
}

static void print_number(const char *key, uint64_t number, const char *before, const char *after)
{
    printf("%s\"%s\":%" PRIu64 "%s", before, key, number, after);
}

static void print_counts_json(const struct tube *tube)
{
    for (int kind = 0; kind < KINDS; kind++)
        print_number(kinds[kind], tube->counts[kind], kind ? "," : "", "");
    print_number("reserved", tube->reserved, ",", "");
}

/* Prints the jobs that would be moved. */
static void print_tubes(const struct drain *drain)
{
    static const char *const heads[] = {"TUBE", ">READY", ">DELAYED", ">BURIED", ">RESERVED", NULL};
    struct show_table table;
    char cell[SHOW_CELL_BYTES];
    show_table_init(&table, heads);
    for (size_t i = 0; i < drain->tubes.count; i++) {
        const struct tube *tube = &drain->tubes.at[i];
        if (drain->wish->has_json) {
            printf("{\"tube\":\"%s\",", tube->name);
            print_counts_json(tube);
            puts("}");
            continue;
        }
        show_table_add(&table, tube->name);
        for (int column = 0; column <= KINDS; column++) {
            snprintf(cell, sizeof cell, "%" PRIu64,
                     column < KINDS ? tube->counts[column] : tube->reserved);
            show_table_add(&table, cell);
        }
    }
    if (!drain->wish->has_json)
        show_table_print(&table);
    show_table_fini(&table);
}

static void print_counts(const struct drain *drain)
{
    fprintf(stderr,
            "imported %" PRIu64 " job%s: %" PRIu64 " created, %" PRIu64 " existed; %" PRIu64
            " refused\n",
            drain->created + drain->existed, drain->created + drain->existed == 1 ? "" : "s",
            drain->created, drain->existed, (uint64_t)drain->refused.count);
    if (!drain->wish->has_json)
        return;
    struct tube left = {.reserved = reserved(drain)};
    for (int kind = 0; kind < KINDS; kind++)
        left.counts[kind] = pending(drain, kind);
    print_number("created", drain->created, "{", ",");
    print_number("existed", drain->existed, "", ",");
    print_number("refused", drain->refused.count, "", ",\"left\":{");
    print_counts_json(&left);
    puts("}}");
}

/* Reports the jobs that remain in beanstalkd. Returns an exit code. */
static int print_rest(const struct drain *drain)
{
    uint64_t waiting =
        pending(drain, KIND_READY) + pending(drain, KIND_DELAYED) + pending(drain, KIND_BURIED);
    uint64_t held = reserved(drain);
    if (held)
        cli_error("%" PRIu64 " job%s reserved at '%s', import again once their consumers are done",
                  held, held == 1 ? " is" : "s are", drain->peer.shown);
    if (waiting)
        cli_error("%" PRIu64 " job%s left at '%s', correct the refused jobs and import again",
                  waiting, waiting == 1 ? " is" : "s are", drain->peer.shown);
    return held || waiting ? CLI_REFUSED : CLI_OK;
}

/* Ends the import. Consumers of beanstalkd get jobs again, unless those jobs may also be stored
 * in the server. Returns an exit code. */
static int drain_conclude(struct drain *drain, int exit_code)
{
    progress_clear();
    if (drain->is_in_doubt)
        cli_error("some jobs may be in both places: the tubes at '%s' stay paused for up to an "
                  "hour, import again before that",
                  drain->peer.shown);
    else if (!drain->paused_ms || resume_tubes(drain))
        exit_code = count_tubes(drain) || exit_code != CLI_OK ? exit_code : CLI_REFUSED;
    else
        exit_code = cli_error("the tubes at '%s' stay paused for up to an hour, import again, or "
                              "send 'pause-tube NAME 0' for each",
                              drain->peer.shown);
    print_counts(drain);
    if (exit_code == CLI_OK && interrupt_came())
        return cli_error("interrupted, import again to continue");
    return exit_code == CLI_OK ? print_rest(drain) : exit_code;
}

/* Reads the identity of beanstalkd and its maximum job size. */
static bool greet(struct drain *drain)
{
    bool is_found;
    if (!ask(drain, &is_found, "stats"))
        return false;
    struct slice id = yaml_value(drain, "id");
    drain->job_bytes_max = yaml_number(drain, "max-job-size");
    if (!id.len || id.len >= SERVER_ID_BYTES || !beanstalk_tube_is_valid(id) ||
        !drain->job_bytes_max)
        return answer_fail(drain, "stats without id or max-job-size");
    memcpy(drain->server_id, id.at, id.len);
    return true;
}

static int drain_run(struct drain *drain)
{
    int exit_code = greet(drain) ? find_tubes(drain) : CLI_REFUSED;
    if (exit_code != CLI_OK)
        return exit_code;
    if (drain->wish->is_dry)
        return print_tubes(drain), CLI_OK;
    for (int kind = 0; kind < KINDS; kind++)
        drain->total += pending(drain, kind);
    interrupt_catch();
    return drain_conclude(drain, move_all(drain));
}

static int parse_place(const char *from, struct url *out)
{
    char shown[CLI_URL_SHOWN_BYTES];
    bool is_place = url_parse(slice_of(from), out) == URL_OK && out->host_count == 1 &&
                    !out->has_user && !out->path.len && !out->has_query;
    cli_url_show(from, shown, sizeof shown);
    return is_place
               ? CLI_OK
               : cli_usage("bad address '%s', give one such as beanstalk://127.0.0.1:11300", shown);
}

int import_beanstalk(const struct import_beanstalk_wish *wish)
{
    static struct drain drain; /* too large for the stack */
    struct url place;
    int exit_code = parse_place(wish->from, &place);
    if (exit_code != CLI_OK)
        return exit_code;
    drain = (struct drain){.wish = wish, .retry = wish->retry, .block = BLOCK_MIN};
    buffer_init(&drain.commands, ANSWER_BYTES_MAX);
    buffer_init(&drain.answer, ANSWER_BYTES_MAX);
    buffer_init(&drain.bodies, wish->batch_bytes);
    buffer_init(&drain.lines, wish->batch_bytes);
    exit_code = beanstalk_peer_open(&drain.peer, &place.hosts[0]) ? drain_run(&drain) : CLI_REFUSED;
    beanstalk_peer_close(&drain.peer);
    buffer_fini(&drain.commands);
    buffer_fini(&drain.answer);
    buffer_fini(&drain.bodies);
    buffer_fini(&drain.lines);
    tubes_fini(&drain.tubes);
    numbers_fini(&drain.refused);
    return exit_code;
}
