/*
 * server: the whole of it, from a configuration to an exit: backend, reactors, queue, waiters,
 * fronts.
 *
 * Reactor 0 runs on the calling thread, which is the one that takes signals; each further part of
 * the backend has a thread. Push delivery is on reactor 0 as well.
 *   SIGTERM, SIGINT   no new connections; waiting takes are answered empty, requests under way are
 *                     answered, deliveries under way end or are given back; the store commits and
 *                     syncs; then it ends. After DRAIN_MS at the latest connections are cut. A
 *                     second signal ends the process at once with 1
 *   SIGHUP            the log file is opened again, the policy file is read again
 */
#ifndef TARRY_SERVER_SERVER_H
#define TARRY_SERVER_SERVER_H

#include "server/config.h"

/* Runs until told to stop. False when it could not start or not stop in good order; the log says
 * why. */
bool server_run(const struct config *config);

#endif
