#include "support/redis_cluster.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 16384, AGREED_MS = 30000, LOOK_MS = 10, ID_BYTES = 41 };

static const char *const words[] = {"--cluster-enabled",
                                    "yes",
                                    "--cluster-node-timeout",
                                    "1000",
                                    "--cluster-replica-validity-factor",
                                    "0",
                                    "--repl-diskless-sync-delay",
                                    "0",
                                    NULL};

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "redis cluster: %s\n", what);
    abort();
}

static void pause_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static uint32_t count_of(const struct redis_cluster *cluster)
{
    return cluster->masters + cluster->replicas;
}

/* ---- making it ---- */

static void read_id(struct redis_server *node, char id[ID_BYTES])
{
    redisReply *reply = redis_server_ask(node, "CLUSTER MYID");
    if (!reply || reply->type != REDIS_REPLY_STRING || reply->len != ID_BYTES - 1)
        give_up("a node does not return its id");
    memcpy(id, reply->str, ID_BYTES);
    freeReplyObject(reply);
}

static bool reports(struct redis_server *node, const char *question, const char *answer,
                    uint32_t times)
{
    redisReply *reply = redis_server_ask(node, question);
    uint32_t found = 0;
    if (reply && reply->type == REDIS_REPLY_STRING)
        for (const char *at = reply->str; (at = strstr(at, answer)); at++)
            found++;
    if (reply)
        freeReplyObject(reply);
    return found == times;
}

static void await(struct redis_cluster *cluster, const char *question, const char *answer,
                  uint32_t times)
{
    int waited = 0;
    for (uint32_t i = 0; i < count_of(cluster); i++)
        for (; !reports(cluster->nodes[i], question, answer, times); waited += LOOK_MS) {
            if (waited > AGREED_MS)
                give_up(answer);
            pause_ms(LOOK_MS);
        }
}

static void share_slots(struct redis_cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->masters; i++)
        redis_server_do(cluster->nodes[i], "CLUSTER ADDSLOTSRANGE %d %d",
                        (int)(i * SLOTS / cluster->masters),
                        (int)((i + 1) * SLOTS / cluster->masters - 1));
}

static void introduce(struct redis_cluster *cluster)
{
    for (uint32_t i = 0; i < count_of(cluster); i++)
        redis_server_do(cluster->nodes[i], "CLUSTER SET-CONFIG-EPOCH %d", (int)i + 1);
    for (uint32_t i = 1; i < count_of(cluster); i++)
        redis_server_do(cluster->nodes[i], "CLUSTER MEET 127.0.0.1 %d",
                        (int)cluster->nodes[0]->port);
}

static void make_replicas(struct redis_cluster *cluster)
{
    char id[ID_BYTES];
    read_id(cluster->nodes[0], id);
    for (uint32_t i = cluster->masters; i < count_of(cluster); i++)
        redis_server_do(cluster->nodes[i], "CLUSTER REPLICATE %s", id);
    for (uint32_t i = cluster->masters; i < count_of(cluster); i++)
        while (!reports(cluster->nodes[i], "INFO replication", "master_link_status:up", 1))
            pause_ms(LOOK_MS);
    await(cluster, "CLUSTER NODES", "slave ", cluster->replicas);
}

struct redis_cluster *redis_cluster_new(uint32_t masters, uint32_t replicas, const char *preload)
{
    struct redis_cluster *cluster = calloc(1, sizeof *cluster);
    struct redis_server_options options = {.words = words};
    if (!cluster || masters + replicas > REDIS_CLUSTER_NODES_MAX)
        abort();
    cluster->masters = masters;
    cluster->replicas = replicas;
    for (uint32_t i = 0; i < masters + replicas; i++) {
        options.preload = i < masters ? NULL : preload;
        cluster->nodes[i] = redis_server_new(&options);
    }
    share_slots(cluster);
    introduce(cluster);
    await(cluster, "CLUSTER INFO", "cluster_state:ok", 1);
    await(cluster, "CLUSTER NODES", " connected", count_of(cluster));
    make_replicas(cluster);
    return cluster;
}

void redis_cluster_free(struct redis_cluster *cluster)
{
    if (!cluster)
        return;
    for (uint32_t i = 0; i < count_of(cluster); i++)
        redis_server_free(cluster->nodes[i]);
    free(cluster);
}

/* ---- who serves what ---- */

static bool is_its_own(const redisReply *range, uint16_t slot, uint16_t port)
{
    return range->element[0]->integer <= slot && range->element[1]->integer >= slot &&
           range->element[2]->element[1]->integer == port;
}

static bool serves(struct redis_server *node, uint16_t slot)
{
    redisReply *reply = redis_server_ask(node, "CLUSTER SLOTS");
    bool found = false;
    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        found |= is_its_own(reply->element[i], slot, node->port);
    if (reply)
        freeReplyObject(reply);
    return found;
}

struct redis_server *redis_cluster_master(struct redis_cluster *cluster, uint16_t slot)
{
    for (uint32_t i = 0; i < count_of(cluster); i++)
        if (cluster->nodes[i]->pid && serves(cluster->nodes[i], slot))
            return cluster->nodes[i];
    return NULL;
}

/* ---- moving ---- */

void redis_cluster_move_begin(struct redis_server *from, struct redis_server *to, uint16_t slot)
{
    char from_id[ID_BYTES], to_id[ID_BYTES];
    read_id(from, from_id);
    read_id(to, to_id);
    redis_server_do(to, "CLUSTER SETSLOT %d IMPORTING %s", (int)slot, from_id);
    redis_server_do(from, "CLUSTER SETSLOT %d MIGRATING %s", (int)slot, to_id);
}

int redis_cluster_move_keys(struct redis_server *from, struct redis_server *to, uint16_t slot,
                            int max)
{
    redisReply *keys = redis_server_ask(from, "CLUSTER GETKEYSINSLOT %d %d", (int)slot, max);
    if (!keys || keys->type != REDIS_REPLY_ARRAY)
        give_up("a node does not return its keys");
    int count = (int)keys->elements;
    for (int i = 0; i < count; i++)
        redis_server_do(from, "MIGRATE 127.0.0.1 %d %b 0 5000", (int)to->port,
                        keys->element[i]->str, (size_t)keys->element[i]->len);
    freeReplyObject(keys);
    return count;
}

void redis_cluster_move_end(struct redis_cluster *cluster, struct redis_server *from,
                            struct redis_server *to, uint16_t slot)
{
    char id[ID_BYTES];
    read_id(to, id);
    redis_server_do(to, "CLUSTER SETSLOT %d NODE %s", (int)slot, id);
    redis_server_do(from, "CLUSTER SETSLOT %d NODE %s", (int)slot, id);
    for (uint32_t i = 0; i < cluster->masters; i++)
        if (cluster->nodes[i] != to && cluster->nodes[i] != from)
            redis_server_do(cluster->nodes[i], "CLUSTER SETSLOT %d NODE %s", (int)slot, id);
}
