/*
 * recover: opens data directories as a server would after a crash, and reports their content.
 *
 * Reads paths from the standard input, a line each. For each, a process that lets fsck look at what
 * the crash left (if there is a MANIFEST), opens it, and ends as suddenly as the first life did;
 * then one that opens it again, ends in order, and lets fsck look once more. Prints
 *
 *   begin PATH
 *   fsck-first|first|second|fsck STATUS BYTES, a line feed, so many bytes of text
 *   fell STATUS 0: one of the processes did not come to its end
 *   end PATH
 *
 * STATUS: 0 well, 1 findings or it would not open (with the reason in the text); of `fell` as waitpid has it.
 * `second` has no text if it is the same as the first one's. A text of an opening: a line for
 * each topic and each job, see emit_topic and emit_job.
 */
#include "base/buffer.h"
#include "base/log.h"
#include "fsck/fsck.h"
#include "local/local.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OUT_BYTES_MAX = 256 << 20,
    SHARDS_MAX = 8,
    FILE_BYTES = 4 << 20,
    PATIENCE_S = 60,
    LOOKS = 3
};

struct opened {
    struct local *local;
    struct reactor *reactors[SHARDS_MAX];
    uint32_t shards;
    struct queue *queue;
    bool answered, stopped;
    struct buffer *out;
    char names[64][JOB_TOPIC_BYTES_MAX + 1];
    size_t topics;
    uint64_t counted, listed; /* jobs */
    char cursor[512];
    size_t cursor_bytes;
};

/* Computes a CRC-32, not the product's own hash: a fault in that would not hide here. */
static uint32_t crc32_of(struct slice bytes)
{
    static uint32_t table[256];
    uint32_t sum = ~0u;
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            table[i] = i;
            for (int bit = 0; bit < 8; bit++)
                table[i] = table[i] & 1 ? table[i] >> 1 ^ 0xedb88320u : table[i] >> 1;
        }
    for (size_t i = 0; i < bytes.len; i++)
        sum = table[(sum ^ (unsigned char)bytes.at[i]) & 255] ^ sum >> 8;
    return ~sum;
}

static void show(struct buffer *out, const char *text, int bytes)
{
    buffer_append(out, text, (size_t)bytes);
}

/* ---- what is in it ---- */

static void emit_topic(struct opened *opened, const struct queue_topic *topic)
{
    char line[512];
    const struct queue_counts *counts = &topic->counts;
    if (opened->topics == sizeof opened->names / sizeof *opened->names)
        abort();
    snprintf(opened->names[opened->topics++], sizeof *opened->names, "%.*s", (int)topic->name.len,
             topic->name.at);
    opened->counted +=
        counts->delayed + counts->retrying + counts->ready + counts->leased + counts->dead;
    show(opened->out, line,
         snprintf(line, sizeof line, "topic\t%.*s\t%d\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n",
                  (int)topic->name.len, topic->name.at, topic->paused,
                  counts->delayed + counts->retrying + counts->ready, counts->leased,
                  counts->dead));
}

/* Waiting for due or for a consumer is the same here: which one is a matter of time. */
static void emit_job(struct buffer *out, const struct job *job)
{
    char line[1024];
    const char *state = job->state == JOB_LEASED ? "leased"
                        : job->state == JOB_DEAD ? "dead"
                                                 : "waiting";
    show(out, line,
         snprintf(line, sizeof line,
                  "job\t%.*s\t%.*s\t%s\t%" PRIu32 "\t%" PRId64 "\t%zu\t%08" PRIx32 "\t%.*s\n",
                  (int)job->topic.len, job->topic.at, (int)job->id.len, job->id.at, state,
                  job->attempt, job->due_ms, job->body.len, crc32_of(job->body),
                  (int)job->error.len, job->error.at));
}

static void on_topics(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct opened *opened = owner;
    (void)tag;
    for (size_t i = 0; i < reply->topic_count; i++)
        emit_topic(opened, &reply->topics[i]);
    opened->answered = true;
}

static void on_list(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct opened *opened = owner;
    (void)tag;
    if (reply->status != QUEUE_OK)
        show(opened->out, "refused\n", 8);
    for (size_t i = 0; i < reply->job_count; i++)
        emit_job(opened->out, &reply->jobs[i].job);
    opened->listed += reply->job_count;
    opened->cursor_bytes = reply->cursor.len;
    if (reply->cursor.len > sizeof opened->cursor)
        abort();
    if (reply->cursor.len)
        memcpy(opened->cursor, reply->cursor.at, reply->cursor.len);
    opened->answered = true;
}

static void pump_until(struct opened *opened, const bool *flag)
{
    alarm(PATIENCE_S);
    while (!*flag) {
        for (uint32_t i = 0; i < opened->shards; i++)
            uv_run(reactor_loop(opened->reactors[i]), UV_RUN_NOWAIT);
        usleep(20);
    }
}

static void list_topic(struct opened *opened, const char *topic)
{
    struct queue_reply_to to = {.done = on_list, .owner = opened};
    opened->cursor_bytes = 0;
    do {
        struct queue_list list = {.topic = slice_of(topic),
                                  .limit = QUEUE_LIST_MAX,
                                  .cursor = slice_make(opened->cursor, opened->cursor_bytes),
                                  .with_body = true};
        opened->answered = false;
        queue_list(opened->queue, &list, to);
        pump_until(opened, &opened->answered);
    } while (opened->cursor_bytes);
}

static void list_once(struct opened *opened)
{
    buffer_clear(opened->out);
    opened->topics = 0;
    opened->counted = opened->listed = 0;
    opened->answered = false;
    queue_topics(opened->queue, (struct queue_reply_to){.done = on_topics, .owner = opened});
    pump_until(opened, &opened->answered);
    for (size_t i = 0; i < opened->topics; i++)
        list_topic(opened, opened->names[i]);
}

/* Pages continue by due time on the wall clock: if that steps between two of them, or seems
 * to, jobs of one due time may be left out. A job that is not stored stays missing however often the list is read. */
static void list_all(struct opened *opened)
{
    int times = 0;
    do
        list_once(opened);
    while (opened->listed != opened->counted && ++times < LOOKS);
}

/* ---- one life of a directory ---- */

static void on_stopped(void *ctx)
{
    ((struct opened *)ctx)->stopped = true;
}

static bool attach(struct opened *opened, char *error, size_t error_bytes)
{
    for (uint32_t i = 0; i < opened->shards; i++) {
        struct queue *queue;
        opened->reactors[i] = reactor_new(i);
        if (!opened->reactors[i] ||
            local_attach(opened->local, i, opened->reactors[i], &queue, error, error_bytes) != 0)
            return false;
        opened->queue = queue;
    }
    return true;
}

static int live(const char *path, bool in_order, struct buffer *out)
{
    static struct opened opened;
    char error[1024] = "out of descriptors";
    struct local_options options = {.data_dir = path,
                                    .sync = WAL_SYNC_ALWAYS,
                                    .wal_file_bytes = FILE_BYTES,
                                    .body_bytes_max = 1 << 20,
                                    .topics_max = 1000};
    opened.out = out;
    if (local_open(&options, &opened.local, &opened.shards, error, sizeof error) != 0 ||
        opened.shards > SHARDS_MAX || !attach(&opened, error, sizeof error)) {
        show(out, error, (int)strlen(error));
        return 1;
    }
    list_all(&opened);
    if (in_order) {
        local_stop(opened.local, on_stopped, &opened);
        pump_until(&opened, &opened.stopped);
        local_free(opened.local);
    }
    return 0;
}

static int check(const char *path, struct buffer *out)
{
    static struct fsck_report report;
    int result = fsck_run(path, &report);
    if (result != 0)
        show(out, report.error, (int)strlen(report.error));
    else if (report.finding_count)
        fsck_emit_text(out, &report);
    return result != 0 || report.finding_count;
}

/* ---- processes ---- */

static void write_whole(int fd, const char *at, size_t len)
{
    while (len) {
        ssize_t put = write(fd, at, len);
        if (put <= 0)
            _exit(3);
        at += put;
        len -= (size_t)put;
    }
}

static void report(int fd, const char *name, int status, const struct buffer *text)
{
    char line[64];
    size_t len = text ? text->len : 0;
    int bytes = snprintf(line, sizeof line, "%s %d %zu\n", name, status, len);
    write_whole(fd, line, (size_t)bytes);
    if (len)
        write_whole(fd, text->at, len);
}

/* Returns false if the first start did not come so far: then there is nothing to check. */
static bool has_manifest(const char *path)
{
    char name[4096];
    snprintf(name, sizeof name, "%s/MANIFEST", path);
    return access(name, F_OK) == 0;
}

static void check_and_report(int fd, const char *name, const char *path)
{
    struct buffer text;
    buffer_init(&text, OUT_BYTES_MAX);
    int status = check(path, &text);
    report(fd, name, status, &text);
    buffer_fini(&text);
}

/* Checks, opens, and falls. */
static void first_life(int fd, const char *path)
{
    struct buffer text;
    buffer_init(&text, OUT_BYTES_MAX);
    if (has_manifest(path))
        check_and_report(fd, "fsck-first", path);
    int status = live(path, false, &text);
    report(fd, "first", status, &text);
}

/* `first`: what the first life reported, its text at the end. */
static void second_life(int fd, const char *path, const struct buffer *first)
{
    struct buffer text;
    buffer_init(&text, OUT_BYTES_MAX);
    int status = live(path, true, &text);
    bool same = text.len <= first->len &&
                (!text.len || memcmp(first->at + first->len - text.len, text.at, text.len) == 0);
    report(fd, "second", status, same ? NULL : &text);
    if (status == 0) /* else it still has the lock */
        check_and_report(fd, "fsck", path);
    buffer_fini(&text);
}

/* Runs a process and collects its whole report. */
static void run(const char *path, const struct buffer *first, struct buffer *out)
{
    int ends[2], status;
    char section[65536];
    ssize_t got;
    if (pipe(ends) != 0)
        abort();
    pid_t child = fork();
    if (child == 0) {
        if (first)
            second_life(ends[1], path, first);
        else
            first_life(ends[1], path);
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], section, sizeof section)) > 0)
        buffer_append(out, section, (size_t)got);
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        abort();
    if (!WIFEXITED(status) || WEXITSTATUS(status)) {
        char line[64];
        show(out, line, snprintf(line, sizeof line, "fell %d 0\n", status));
    }
}

static void recover(const char *path)
{
    char line[4096];
    struct buffer first, second;
    buffer_init(&first, OUT_BYTES_MAX);
    buffer_init(&second, OUT_BYTES_MAX);
    write_whole(STDOUT_FILENO, line, (size_t)snprintf(line, sizeof line, "begin %s\n", path));
    run(path, NULL, &first);
    run(path, &first, &second);
    write_whole(STDOUT_FILENO, first.at, first.len);
    write_whole(STDOUT_FILENO, second.at, second.len);
    write_whole(STDOUT_FILENO, line, (size_t)snprintf(line, sizeof line, "end %s\n", path));
    buffer_fini(&first);
    buffer_fini(&second);
}

int main(void)
{
    char path[4000];
    log_open(NULL, LOG_ERROR, false);
    while (fgets(path, sizeof path, stdin)) {
        path[strcspn(path, "\n")] = '\0';
        recover(path);
    }
    return 0;
}
