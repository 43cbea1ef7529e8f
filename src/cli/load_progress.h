/* load_progress: one line on standard error that is written over while a run goes on. */
#ifndef TARRY_CLI_LOAD_PROGRESS_H
#define TARRY_CLI_LOAD_PROGRESS_H

#include "cli/load.h"

void load_progress_print(const struct load_plan *plan, const struct load_result *result,
                         int64_t elapsed_us);
void load_progress_clear(void);

#endif
