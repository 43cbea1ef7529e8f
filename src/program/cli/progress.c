#include "cli/progress.h"

#include "base/clock.h"
#include "base/duration.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <unistd.h>

enum {
    TERMINAL_PAUSE_US = 150 * 1000,
    FILE_PAUSE_US = 1000 * 1000,
    SECOND_US = 1000 * 1000,
    MIB = 1 << 20
};

static struct {
    const char *verb;
    bool is_on, is_terminal;
    bool is_shown; /* and the line is not ended yet */
    bool has_first;
    bool is_waiting; /* and this was reported */
    int64_t began_us, printed_us;
    uint64_t first_jobs; /* count at the start; the speed is measured from there */
    double first_share;
    uint64_t jobs;
} progress;

void progress_begin(const char *verb, bool is_asked)
{
    progress.verb = verb;
    progress.is_terminal = terminal_can_erase(STDERR_FILENO);
    progress.is_on = is_asked || progress.is_terminal;
    progress.has_first = false;
}

bool progress_is_on(void)
{
    return progress.is_on;
}

static bool is_time(int64_t now_us)
{
    int64_t pause_us = progress.is_terminal ? TERMINAL_PAUSE_US : FILE_PAUSE_US;
    if (!progress.is_on || now_us - progress.printed_us < pause_us)
        return false;
    progress.printed_us = now_us;
    return true;
}

static void print_progress(struct buffer *line)
{
    if (progress.is_terminal)
        fputs("\r\033[K", stderr);
    fwrite(line->at, 1, line->len, stderr);
    if (!progress.is_terminal)
        fputc('\n', stderr);
    fflush(stderr);
    progress.is_shown = progress.is_terminal;
}

static void write_left(struct buffer *line, double share, double elapsed_us)
{
    double done = share - progress.first_share;
    if (share < 0)
        return;
    buffer_append_format(line, ", %d %%", (int)(share * 100));
    if (done <= 0 || elapsed_us < SECOND_US)
        return;
    buffer_append_text(line, ", ");
    duration_emit(line, (int64_t)(elapsed_us * (1 - share) / done / SECOND_US + 1) * 1000);
    buffer_append_text(line, " left");
}

static void print_state(uint64_t jobs, uint64_t total, double share, int64_t elapsed_us)
{
    struct buffer line;
    buffer_init(&line, 256);
    buffer_append_format(&line, "%s %llu", progress.verb, (unsigned long long)jobs);
    if (total)
        buffer_append_format(&line, " of %llu", (unsigned long long)total);
    buffer_append_text(&line, " jobs");
    if (elapsed_us > 0)
        buffer_append_format(&line, ", %.0f/s",
                             (double)(jobs - progress.first_jobs) * SECOND_US / (double)elapsed_us);
    write_left(&line, share, (double)elapsed_us);
    print_progress(&line);
    buffer_fini(&line);
}

void progress_show(uint64_t jobs, uint64_t total, double share)
{
    int64_t now_us = clock_boot_us();
    if (share < 0 && total)
        share = jobs < total ? (double)jobs / (double)total : 1;
    if (!progress.has_first) {
        progress.has_first = true;
        progress.began_us = progress.printed_us = now_us;
        progress.first_jobs = jobs;
        progress.first_share = share;
    }
    progress.is_waiting = progress.is_waiting && jobs == progress.jobs;
    progress.jobs = jobs;
    if (!progress.is_waiting && is_time(now_us))
        print_state(jobs, total, share, now_us - progress.began_us);
}

void progress_show_bytes(uint64_t bytes, uint64_t total)
{
    int64_t now_us = clock_boot_us();
    double share = !total ? -1 : bytes < total ? (double)bytes / (double)total : 1;
    struct buffer line;
    if (!progress.has_first) {
        progress.has_first = true;
        progress.began_us = progress.printed_us = now_us;
        progress.first_share = share;
    }
    if (!is_time(now_us))
        return;
    buffer_init(&line, 256);
    buffer_append_format(&line, "%s %.1f", progress.verb, (double)bytes / MIB);
    if (total)
        buffer_append_format(&line, " of %.1f", (double)total / MIB);
    buffer_append_text(&line, " MiB");
    write_left(&line, share, (double)(now_us - progress.began_us));
    print_progress(&line);
    buffer_fini(&line);
}

void progress_wait(const char *whom)
{
    struct buffer line;
    if (progress.is_waiting || !progress.is_on)
        return;
    progress.is_waiting = true;
    buffer_init(&line, 256);
    buffer_append_format(&line, "%s %llu jobs, waiting for %s", progress.verb,
                         (unsigned long long)progress.jobs, whom);
    print_progress(&line);
    buffer_fini(&line);
}

void progress_clear(void)
{
    if (progress.is_shown)
        fputs("\r\033[K", stderr);
    progress.is_shown = false;
}
