/*
 * progress: the progress of a long operation, on standard error.
 *
 * On a terminal, one line is overwritten. Elsewhere, and if TERM is dumb, a line is printed every
 * second, only if requested. One thread; one progress per process.
 */
#ifndef TARRY_CLI_PROGRESS_H
#define TARRY_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Starts the display. `verb`, such as "exported", must outlive it. */
void progress_begin(const char *verb, bool is_asked);
/* Returns whether progress is displayed. */
bool progress_is_on(void);
/* Updates the display. `total` 0: unknown. `share` is the completed part of the work, from 0 to
 * 1; if negative, it is computed from the jobs. May be called at any rate. */
void progress_show(uint64_t jobs, uint64_t total, double share);
/* Updates the display of work that is counted in bytes. */
void progress_show_bytes(uint64_t bytes, uint64_t total);
/* Shows that the work is paused until `whom` is back. */
void progress_wait(const char *whom);
/* Erases the line before other output on standard error. */
void progress_clear(void);

#endif
