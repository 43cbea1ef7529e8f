/*
 * program: a real broker for a rig: a program on a port and in a directory of its own.
 *
 * There is one in a process. It keeps both over stop and start; the directory is removed, and the
 * program killed, with the process.
 */
#ifndef TARRY_TESTS_TARGETS_PROGRAM_H
#define TARRY_TESTS_TARGETS_PROGRAM_H

#include <stdbool.h>

int program_port(void);
const char *program_directory(void);
/* Starts it with these words, ended by NULL. Does not wait until it listens. */
void program_start(const char *const *words);
/* Kills it. */
void program_stop(void);
/* Stops it by a signal: connections are taken by the kernel, nothing is read. */
void program_stall(bool on);
/* Returns a connection with a time limit of some seconds for each read, or -1. */
int program_connect(void);
/* "scheme://127.0.0.1:PORT"; valid until the next call. */
const char *program_url(const char *scheme);

#endif
