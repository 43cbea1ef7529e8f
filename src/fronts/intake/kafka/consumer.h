/*
 * consumer: the thread that reads the records of a topic of Kafka as a member of a consumer group,
 * passes them on in batches, and commits their offsets after they are stored.
 *
 * One batch is on its way at a time; its offsets are stored when all of it is settled, and committed
 * each second, when partitions are revoked, and at the end. If the queue accepts no jobs, the
 * partitions are paused, so the member stays in its group. A record that can never be accepted is
 * counted and logged with its place, because Kafka has no dead letters; it stays in its topic until
 * Kafka removes it. Records that are read again, after a rebalance or a crash, have the same job ids.
 */
#ifndef TARRY_INTAKE_KAFKA_CONSUMER_H
#define TARRY_INTAKE_KAFKA_CONSUMER_H

#include "intake/kafka/source.h"
#include "intake/kind.h"

struct kafka_in_consumer;

/* Creates a consumer. Returns NULL when out of memory. The source and the options must outlive it. */
struct kafka_in_consumer *kafka_in_consumer_new(const struct kafka_in_source *source,
                                                const struct intake_consumer_options *options);
/* See struct intake_kind. */
bool kafka_in_consumer_start(struct kafka_in_consumer *consumer);
void kafka_in_consumer_settle(struct kafka_in_consumer *consumer, struct intake_batch *batch);
void kafka_in_consumer_stop(struct kafka_in_consumer *consumer, bool at_once);
void kafka_in_consumer_free(struct kafka_in_consumer *consumer);

#endif
