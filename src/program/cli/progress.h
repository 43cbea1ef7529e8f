/*
 * progress: how far something that takes long has come, on standard error.
 *
 * On a terminal one line that is written over; elsewhere, and where TERM is dumb, only where it was
 * asked for, a line a second. One thread; the process has one of them.
 */
#ifndef TARRY_CLI_PROGRESS_H
#define TARRY_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* `verb`: "exported"; must live on. */
void progress_begin(const char *verb, bool is_asked);
/* Whether anybody would see it. */
bool progress_is_on(void);
/* `total` 0: not known. `share` is that of the work which is done, from 0 to 1; below 0: that of
 * the jobs. May be called as often as one likes. */
void progress_show(uint64_t jobs, uint64_t total, double share);
/* The same for work that is counted in bytes. */
void progress_show_bytes(uint64_t bytes, uint64_t total);
/* Nothing goes on until `whom` is back. */
void progress_wait(const char *whom);
/* Before anything else is said there. */
void progress_clear(void);

#endif
