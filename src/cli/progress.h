/* progress: one line on standard error that is written over while something takes long. Nothing
 * where standard error is no terminal. */
#ifndef TARRY_CLI_PROGRESS_H
#define TARRY_CLI_PROGRESS_H

#include <stdint.h>

/* At most some times a second; other calls do nothing. */
void progress_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Before anything else is said there. */
void progress_clear(void);

#endif
