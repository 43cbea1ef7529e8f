/*
 * kafka_way: what every client of a Kafka cluster has: its address, its login, and the guard between
 * librdkafka and the network.
 *
 * The guard checks each name that librdkafka looks up, from the URL or the cluster's own list, and
 * each address that it connects to. A way is the opaque of its client, and used by librdkafka's
 * threads. It must outlive the client.
 */
#ifndef TARRY_TARGETS_KAFKA_WAY_H
#define TARRY_TARGETS_KAFKA_WAY_H

#include "guard/guard.h"
#include "targets/place.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>

enum { KAFKA_SERVERS_BYTES = URL_HOSTS_MAX * (URL_HOST_BYTES_MAX + sizeof "[]:65535,") };

/* The address of a cluster: kafka://host[:9092][,host[:9092]…], or kafkas://host[:9093][,…] with
 * TLS. */
struct kafka_place {
    struct target_place at;            /* the first broker; its origin selects the credential */
    char servers[KAFKA_SERVERS_BYTES]; /* "host:port,host:port" */
};

/* Parses an address. `query` receives that of the URL; NULL: it must not have one. Returns false
 * with `error` (TARGET_ERROR_BYTES), which names the problem and a valid form. */
bool kafka_place_parse(struct slice to, struct kafka_place *out, struct slice *query, char *error);

struct kafka_way {
    struct guard *guard;
    pthread_mutex_t mutex;
    char why[GUARD_ERROR_BYTES]; /* description of the last refusal, or empty */
    int64_t refused_ms;          /* time of the refusal; inner clock */
    uint64_t policy;             /* the guard's generation when it allowed the open connections */
    struct kafka_connection *connections;
};

void kafka_way_init(struct kafka_way *way, struct guard *guard);
void kafka_way_fini(struct kafka_way *way);
/* Copies the last refusal since that time. Returns false if there was none. */
bool kafka_way_refusal(struct kafka_way *way, int64_t since_ms, char out[GUARD_ERROR_BYTES]);
/* Checks open connections against a new policy, and ends those that it forbids. */
void kafka_way_evaluate(struct kafka_way *way);

struct kafka_option {
    const char *name, *value;
};
/* Returns false with `error` (TARGET_ERROR_BYTES). */
bool kafka_option_set(rd_kafka_conf_t *conf, const char *name, const char *value, char *error);
/* Makes a configuration with the address, the login and the CAs of the policy file, and the guard.
 * Returns NULL with `error` (TARGET_ERROR_BYTES). */
rd_kafka_conf_t *kafka_way_conf(struct kafka_way *way, const struct kafka_place *place,
                                char *error);

#endif
