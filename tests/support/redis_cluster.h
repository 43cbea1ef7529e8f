/*
 * redis_cluster: a real Redis Cluster for a test: masters with equal parts of the slots, and
 * replicas of the first. All of its nodes are redis_server's; what holds for those holds here.
 */
#ifndef TARRY_TESTS_REDIS_CLUSTER_H
#define TARRY_TESTS_REDIS_CLUSTER_H

#include "support/redis_server.h"

enum { REDIS_CLUSTER_NODES_MAX = 8 };

struct redis_cluster {
    struct redis_server *nodes[REDIS_CLUSTER_NODES_MAX]; /* the masters come first */
    uint32_t masters, replicas;
};

/* Ready, and agreed on by all of its nodes. `preload`: LD_PRELOAD of the replicas, or NULL. */
struct redis_cluster *redis_cluster_new(uint32_t masters, uint32_t replicas, const char *preload);
void redis_cluster_free(struct redis_cluster *cluster);

/* Returns the running server that claims the slot; NULL: no server does. */
struct redis_server *redis_cluster_master(struct redis_cluster *cluster, uint16_t slot);

/* Moves a slot in steps, each under the control of the test: begin; keys, until it returns 0 (the
 * keys it has moved, at most `max`); end. */
void redis_cluster_move_begin(struct redis_server *from, struct redis_server *to, uint16_t slot);
int redis_cluster_move_keys(struct redis_server *from, struct redis_server *to, uint16_t slot,
                            int max);
void redis_cluster_move_end(struct redis_cluster *cluster, struct redis_server *from,
                            struct redis_server *to, uint16_t slot);

#endif
