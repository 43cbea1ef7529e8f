/*
 * alert_command: a program that is told of dead jobs: started, fed, waited for, killed when it takes
 * too long. It has a session of its own, so that what it started goes with it, and neither the
 * server's descriptors nor its environment, which may hold passwords.
 */
#ifndef TARRY_DELIVER_ALERT_COMMAND_H
#define TARRY_DELIVER_ALERT_COMMAND_H

#include "base/slice.h"
#include "net/reactor.h"

enum { ALERT_COMMAND_MS_MAX = 30 * 1000 };
enum alert_command_end { ALERT_COMMAND_WELL = 1, ALERT_COMMAND_FAILED, ALERT_COMMAND_TOO_LONG };
struct alert_command;

/* Runs `program` with `input` on its standard input and nothing but `environment` (NAME=VALUE, ends
 * by NULL); `done` once, never inside the call. NULL: out of memory. */
struct alert_command *alert_command_start(struct reactor *reactor, const char *program,
                                          const char *const *environment, struct slice input,
                                          void (*done)(void *ctx, enum alert_command_end end),
                                          void *ctx);
/* Kills it; `done` comes nevertheless. */
void alert_command_kill(struct alert_command *command);

#endif
