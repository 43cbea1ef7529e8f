/*
 * server: the whole of it, from a configuration to an exit: backend, reactors, queue, waiters,
 * fronts.
 *
 * Reactor 0 runs on the calling thread, which is the one that takes signals; each further part of
 * the backend has a thread. Push delivery is on reactor 0 as well.
 *   SIGTERM, SIGINT   no new connections; waiting takes are answered empty, requests under way are
 *                     answered, deliveries under way end or are given back; the store commits and
 *                     syncs; then it ends. After --grace at the latest, less what the store needs,
 *                     connections are cut. A second signal ends the process at once with 1
 *   SIGHUP            the log and the audit file are opened again; configuration, policy, tokens and
 *                     certificates are read again. What of the configuration can change while it
 *                     serves does so, of the rest the log says that it wants a restart
 */
#ifndef TARRY_SERVER_SERVER_H
#define TARRY_SERVER_SERVER_H

#include "server/config.h"

/* Reads every file that a good configuration names, but asks nobody: `tell` gets each fault. Returns how
 * many. */
uint32_t server_check(const struct config *config, void (*tell)(void *ctx, const char *fault),
                      void *ctx);

/* Runs until told to stop. `args` are those that the configuration was read from, to read it again. False when it could not start or not stop in good order; the log says
 * why. */
bool server_run(const struct config *config, int arg_count, char *const *args);

#endif
