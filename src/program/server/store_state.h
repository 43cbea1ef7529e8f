/*
 * store_state: the state of the store for GET /v1/server: each shard, and the disk with the time at
 * which it will be full at the current growth.
 *
 * Life: store_state_open before the reactors run, store_state_close after they have ended.
 */
#ifndef TARRY_SERVER_STORE_STATE_H
#define TARRY_SERVER_STORE_STATE_H

#include "server/backend.h"
#include "server/disk_growth.h"

#include <pthread.h>

struct store_state {
    struct http_server_hooks hooks;
    struct backend *backend;
    pthread_mutex_t lock; /* protects `growth` */
    struct disk_growth growth;
};

void store_state_open(struct store_state *state, struct backend *backend);
/* Takes a sample if one is due; called on activity. Any thread; cheap. */
void store_state_look(struct store_state *state);
void store_state_close(struct store_state *state);

#endif
