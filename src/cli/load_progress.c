#include "cli/load_progress.h"

#include <inttypes.h>
#include <stdio.h>

void load_progress_print(const struct load_plan *plan, const struct load_result *result,
                         int64_t elapsed_us)
{
    fprintf(stderr, "\r\033[K%.1f s  pushed %" PRIu64, (double)elapsed_us / 1e6, result->pushed);
    if (plan->jobs)
        fprintf(stderr, " of %" PRIu64, plan->jobs);
    if (result->push_failed)
        fprintf(stderr, "  refused %" PRIu64, result->push_failed);
    if (plan->consumers)
        fprintf(stderr, "  delivered %" PRIu64 "  acked %" PRIu64 "  late p99 %.1f ms",
                result->delivered, result->acked,
                (double)histogram_at(&result->late_us, 0.99) / 1000);
    fflush(stderr);
}

void load_progress_clear(void)
{
    fputs("\r\033[K", stderr);
    fflush(stderr);
}
