/* The results of a run as text and as JSON (load.h). */
#include "load/load.h"
#include "load/protocol.h"

#include <inttypes.h>
#include <stdio.h>

enum { BAR_COLUMNS = 50 };

static double rate_of(uint64_t count, double seconds)
{
    return seconds > 0 ? (double)count / seconds : 0;
}

static const double steps_ms[] = {0.1, 0.2, 0.5, 1,    2,    5,    10,    20,   50,
                                  100, 200, 500, 1000, 2000, 5000, 10000, 60000};
enum { STEPS = sizeof steps_ms / sizeof *steps_ms };

static const struct percentile {
    const char *name;
    double fraction;
} percentiles[] = {{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"max", 1}};
enum { PERCENTILES = sizeof percentiles / sizeof *percentiles };

/* Returns the number of values in step `i`; the last step holds all values beyond the table. */
static uint64_t count_in(const struct histogram *histogram, int i)
{
    uint64_t to = i < STEPS ? histogram_count_to(histogram, (uint64_t)(steps_ms[i] * 1000))
                            : histogram->count;
    uint64_t below = i > 0 ? histogram_count_to(histogram, (uint64_t)(steps_ms[i - 1] * 1000)) : 0;
    return to - below;
}

static void print_bar(const struct histogram *histogram, int i)
{
    uint64_t count = count_in(histogram, i);
    double share = (double)count / (double)histogram->count;
    int columns = (int)(share * BAR_COLUMNS + 0.5);
    if (i < STEPS)
        printf("  up to %7g ms  ", steps_ms[i]);
    else
        printf("  more             ");
    printf("%7.3f %%  ", share * 100);
    for (int c = 0; c < columns; c++)
        putchar('#');
    puts(count > 0 && columns == 0 ? "." : "");
}

static void print_histogram(const char *title, const struct histogram *histogram)
{
    if (histogram->count == 0)
        return;
    int first = 0, last = STEPS;
    while (first < last && count_in(histogram, first) == 0)
        first++;
    while (last > first && count_in(histogram, last) == 0)
        last--;
    printf("\n%s\n", title);
    for (int i = first; i <= last; i++)
        print_bar(histogram, i);
}

static void print_percentiles(const char *name, const struct histogram *histogram)
{
    if (histogram->count == 0)
        return;
    printf("%-14s", name);
    for (int i = 0; i < PERCENTILES; i++)
        printf("%s %.3f ms%s", percentiles[i].name,
               (double)histogram_at(histogram, percentiles[i].fraction) / 1000,
               i + 1 < PERCENTILES ? "   " : "\n");
}

static void print_rate(const char *name, uint64_t count, const char *what, double seconds)
{
    printf("%-14s%" PRIu64 " %s in %.2f s: %.0f/s\n", name, count, what, seconds,
           rate_of(count, seconds));
}

void load_report(const struct load_plan *plan, const struct load_result *result)
{
    if (plan->connections) {
        print_rate("pushes", result->pushed, "jobs", result->push_s);
        if (result->push_failed)
            printf("%-14s%" PRIu64 "\n", "refused", result->push_failed);
    }
    if (plan->consumers) {
        print_rate("deliveries", result->delivered, "jobs", result->take_s);
        print_rate("acks", result->acked, "jobs", result->take_s);
        print_rate("whole lives", result->acked, "jobs", result->life_s);
        printf("%-14s%" PRIu64 " early, %" PRIu64 " twice, %" PRIu64 " missing, %" PRIu64
               " acks refused\n",
               "faults", result->early, result->duplicates, result->missing, result->ack_failed);
        if (result->foreign)
            printf("%-14s%" PRIu64
                   " jobs of other users were taken and left until their leases end\n",
                   "foreign", result->foreign);
        print_percentiles("lateness", &result->late_us);
    }
    print_percentiles("push latency", &result->push_us);
    print_histogram("lateness (received minus due)", &result->late_us);
    print_histogram("push latency (answered minus sent), by request", &result->push_us);
}

static void print_json_histogram(const char *name, const struct histogram *histogram)
{
    printf(",\"%s\":{\"count\":%" PRIu64, name, histogram->count);
    for (int i = 0; i < PERCENTILES; i++)
        printf(",\"%s\":%.3f", percentiles[i].name,
               (double)histogram_at(histogram, percentiles[i].fraction) / 1000);
    printf(",\"steps\":[");
    for (int i = 0, printed = 0; i <= STEPS; i++) {
        uint64_t count = count_in(histogram, i);
        if (count == 0)
            continue;
        printf("%s{\"up_to\":", printed++ ? "," : "");
        if (i < STEPS)
            printf("%g,\"count\":%" PRIu64 "}", steps_ms[i], count);
        else
            printf("null,\"count\":%" PRIu64 "}", count);
    }
    printf("]}");
}

static void print_json_text(const char *name, const char *text)
{
    printf(",\"%s\":\"", name);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text >= ' ' && *text < 127 ? *text : ' ');
    }
    putchar('"');
}

void load_report_json(const struct load_plan *plan, const struct load_result *result)
{
    printf("{\"protocol\":\"%s\"", plan->protocol->name);
    print_json_text("topic", plan->topic);
    printf(",\"run\":\"%08" PRIx32 "\",\"began_us\":%" PRIi64, result->run, result->began_us);
    printf(",\"pushed\":%" PRIu64 ",\"push_failed\":%" PRIu64
           ",\"push_seconds\":%.3f,\"pushes_per_s\":%.0f",
           result->pushed, result->push_failed, result->push_s,
           rate_of(result->pushed, result->push_s));
    printf(",\"delivered\":%" PRIu64 ",\"acked\":%" PRIu64 ",\"ack_failed\":%" PRIu64,
           result->delivered, result->acked, result->ack_failed);
    printf(",\"take_seconds\":%.3f,\"deliveries_per_s\":%.0f,\"acks_per_s\":%.0f", result->take_s,
           rate_of(result->delivered, result->take_s), rate_of(result->acked, result->take_s));
    printf(",\"life_seconds\":%.3f,\"lives_per_s\":%.0f", result->life_s,
           rate_of(result->acked, result->life_s));
    printf(",\"takes\":%" PRIu64 ",\"takes_empty\":%" PRIu64, result->takes, result->takes_empty);
    printf(",\"early\":%" PRIu64 ",\"early_max_ms\":%.3f,\"duplicates\":%" PRIu64
           ",\"missing\":%" PRIu64 ",\"foreign\":%" PRIu64,
           result->early, (double)result->early_max_us / 1000, result->duplicates, result->missing,
           result->foreign);
    print_json_histogram("push_ms", &result->push_us);
    print_json_histogram("late_ms", &result->late_us);
    if (result->late_by_due_us.count)
        print_json_histogram("late_by_due_ms", &result->late_by_due_us);
    if (*result->problem)
        print_json_text("problem", result->problem);
    puts("}");
}

static void print_progress(const struct load_plan *plan, const struct load_result *result,
                           int64_t elapsed_us)
{
    fprintf(stderr, "%.1f s  pushed %" PRIu64, (double)elapsed_us / 1e6, result->pushed);
    if (plan->jobs)
        fprintf(stderr, " of %" PRIu64, plan->jobs);
    if (result->push_failed)
        fprintf(stderr, "  refused %" PRIu64, result->push_failed);
    if (plan->consumers)
        fprintf(stderr, "  delivered %" PRIu64 "  acked %" PRIu64 "  late p99 %.1f ms",
                result->delivered, result->acked,
                (double)histogram_at(&result->late_us, 0.99) / 1000);
}

void load_progress_print(const struct load_plan *plan, const struct load_result *result,
                         int64_t elapsed_us)
{
    fputs("\r\033[K", stderr);
    if (result)
        print_progress(plan, result, elapsed_us);
    fflush(stderr);
}
