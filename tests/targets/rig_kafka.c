/* librdkafka's own mock cluster of one broker: it speaks the protocol, idempotence included. */
#include "rig.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { BROKER = 1, STALLED_MS = 60 * 1000, ANSWER_MS = 10 * 1000 };

static struct {
    rd_kafka_t *home, *reader; /* the cluster lives in `home` */
    rd_kafka_mock_cluster_t *mock;
} peer;

static rd_kafka_t *new_client(rd_kafka_type_t type, const char *servers)
{
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "2", why, sizeof why);
    if (servers)
        rd_kafka_conf_set(conf, "bootstrap.servers", servers, why, sizeof why);
    rd_kafka_t *client = rd_kafka_new(type, conf, why, sizeof why);
    assert_non_null(client);
    return client;
}

static void stall(bool on)
{
    assert_int_equal(rd_kafka_mock_broker_set_rtt(peer.mock, BROKER, on ? STALLED_MS : -1), 0);
}

static void start(void)
{
    if (peer.mock) {
        stall(false);
        assert_int_equal(rd_kafka_mock_broker_set_up(peer.mock, BROKER), 0);
        return;
    }
    peer.home = new_client(RD_KAFKA_PRODUCER, NULL);
    peer.mock = rd_kafka_mock_cluster_new(peer.home, 1);
    assert_non_null(peer.mock);
    assert_int_equal(rd_kafka_mock_topic_create(peer.mock, "orders", 1, 1), 0);
    peer.reader = new_client(RD_KAFKA_PRODUCER, rd_kafka_mock_cluster_bootstraps(peer.mock));
}

/* The cluster stays: it is what keeps the port. */
static void stop(void)
{
    assert_int_equal(rd_kafka_mock_broker_set_down(peer.mock, BROKER), 0);
}

static size_t count(void)
{
    int64_t low = 0, high = 0;
    assert_int_equal(
        rd_kafka_query_watermark_offsets(peer.reader, "orders", 0, &low, &high, ANSWER_MS), 0);
    return (size_t)high;
}

static const char *to(void)
{
    static char text[128];
    snprintf(text, sizeof text, "kafka://%s", rd_kafka_mock_cluster_bootstraps(peer.mock));
    return text;
}

const struct target_rig rig_kafka = {.name = "kafka",
                                     .start = start,
                                     .stop = stop,
                                     .stall = stall,
                                     .count = count,
                                     .to = to,
                                     .setting = "",
                                     .back_ms = 10000};
