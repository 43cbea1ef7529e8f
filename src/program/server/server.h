/*
 * server: the complete server, from the configuration to the exit: backend, reactors, queue,
 * waiters, fronts.
 *
 * Reactor 0 runs on the calling thread, which also receives signals. Each further part of the
 * backend has its own thread. Push delivery also runs on reactor 0.
 *
 *   SIGTERM, SIGINT   stops accepting connections; answers waiting takes with an empty result and
 *                     completes current requests; deliveries in progress end or are given back; the
 *                     store commits and syncs; then the process exits. Connections are closed after
 *                     --grace at the latest, less the time that the store needs. A second signal
 *                     ends the process immediately with status 1
 *   SIGHUP            reopens the log and the audit file; reads configuration, policy, tokens and
 *                     certificates again. Options that may change at run time are applied; the log
 *                     names the others as needing a restart
 */
#ifndef TARRY_SERVER_SERVER_H
#define TARRY_SERVER_SERVER_H

#include "server/config.h"

enum { SERVER_ERROR_BYTES = 1024 };

/* Checks the options of protocols. Returns false with `error`. */
bool server_check_options(const struct config *config, char error[SERVER_ERROR_BYTES]);
/* Checks what no single option shows: every file that a valid configuration names and the options
 * of protocols, without network access. Calls `report` for each
 * error. Returns their number. */
uint32_t server_check(const struct config *config, void (*report)(void *ctx, const char *fault),
                      void *ctx);

/* Runs the server until it is stopped. `args` are the arguments the configuration was read from,
 * for reloads. Returns false if it could not start or stop in good order; the reason is logged. */
bool server_run(const struct config *config, int arg_count, char *const *args);

#endif
