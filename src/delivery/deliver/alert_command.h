/*
 * alert_command: runs a program as an alert about dead jobs: starts it, writes its input, waits for
 * it, and kills it after a timeout. The program runs in its own session, so that its child
 * processes are killed with it. It inherits neither the server's descriptors nor its environment,
 * which may contain passwords.
 */
#ifndef TARRY_DELIVER_ALERT_COMMAND_H
#define TARRY_DELIVER_ALERT_COMMAND_H

#include "base/slice.h"
#include "net/reactor.h"

enum { ALERT_COMMAND_MS_MAX = 30 * 1000 };
enum alert_command_end { ALERT_COMMAND_WELL = 1, ALERT_COMMAND_FAILED, ALERT_COMMAND_TOO_LONG };
struct alert_command;

/* Runs `program` with `input` on its standard input and only the variables in `environment`
 * (NAME=VALUE, terminated by NULL). `done` is called once, never inside the call. Returns NULL when
 * out of memory. */
struct alert_command *alert_command_start(struct reactor *reactor, const char *program,
                                          const char *const *environment, struct slice input,
                                          void (*done)(void *ctx, enum alert_command_end end),
                                          void *ctx);
/* Kills the program; `done` is still called. */
void alert_command_kill(struct alert_command *command);

#endif
