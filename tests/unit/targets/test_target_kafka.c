/* The Kafka target against librdkafka's own mock cluster, in this process: errors that a real one
 * gives only with trouble. A real cluster: tests/e2e/delivery/brokers/test_kafka.py. */
#include "targets/kafka/producer.h"

#include "broker_rig.h"
#include "unit/claim.h"

#include <librdkafka/rdkafka_mock.h>

#define POLICY "allow-host = 127.0.0.1\nallow-network = 127.0.0.0/8\n"

enum { API_PRODUCE = 0 };

struct cluster {
    struct broker_rig rig; /* the first */
    rd_kafka_t *host;      /* the mock cluster lives in it */
    rd_kafka_mock_cluster_t *mock;
};

static struct cluster *begin(const char *policy)
{
    struct cluster *cluster = calloc(1, sizeof *cluster);
    char why[256], to[200];
    assert_non_null(cluster);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "3", why, sizeof why);
    cluster->host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    assert_non_null(cluster->host);
    cluster->mock = rd_kafka_mock_cluster_new(cluster->host, 1);
    assert_non_null(cluster->mock);
    snprintf(to, sizeof to, "kafka://%s", rd_kafka_mock_cluster_bootstraps(cluster->mock));
    broker_rig_start(&cluster->rig, policy, to);
    broker_rig_open(&cluster->rig, &target_kafka);
    return cluster;
}

static void finish(struct cluster *cluster)
{
    broker_rig_close(&cluster->rig);
    broker_rig_stop(&cluster->rig);
    rd_kafka_mock_cluster_destroy(cluster->mock);
    rd_kafka_destroy(cluster->host);
    free(cluster);
}

#define UNTIL(CLUSTER, SECONDS, CONDITION)                                                         \
    assert_true(BROKER_RIG_UNTIL(&(CLUSTER)->rig, (SECONDS), (CONDITION)))

/* ---- what arrived ---- */

static rd_kafka_t *start_reading(struct cluster *cluster, const char *topic)
{
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(cluster->mock),
                      why, sizeof why);
    rd_kafka_conf_set(conf, "group.id", "judge", why, sizeof why);
    rd_kafka_t *reader = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    assert_non_null(reader);
    rd_kafka_poll_set_consumer(reader);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
    for (int partition = 0; partition < 4; partition++)
        rd_kafka_topic_partition_list_add(list, topic, partition)->offset =
            RD_KAFKA_OFFSET_BEGINNING;
    assert_int_equal(rd_kafka_assign(reader, list), 0);
    rd_kafka_topic_partition_list_destroy(list);
    return reader;
}

static rd_kafka_message_t *read_one(rd_kafka_t *reader)
{
    for (int i = 0; i < 200; i++) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(reader, 50);
        if (message && !message->err)
            return message;
        if (message)
            rd_kafka_message_destroy(message);
    }
    fail_msg("nothing came");
    return NULL;
}

static void check_header(const rd_kafka_headers_t *headers, size_t at, const char *name,
                         const char *value)
{
    const char *found;
    const void *bytes;
    size_t len;
    assert_int_equal(rd_kafka_header_get_all(headers, at, &found, &bytes, &len), 0);
    assert_string_equal(found, name);
    assert_int_equal(len, strlen(value));
    assert_memory_equal(bytes, value, len);
}

/* ---- claims ---- */

CLAIM(a_job_arrives_with_key_headers_and_body)
{
    static const char meta[] = "content-type\0mine\0kind\0new\0tarry-callback\0http://inner/";
    char topic[] = "shop.{topic}", key[] = "{meta.kind}-{id}";
    struct cluster *cluster = begin(POLICY);
    cluster->rig.setting.topic = topic;
    cluster->rig.setting.key = key;
    rd_kafka_mock_topic_create(cluster->mock, "shop.orders", 4, 1);
    struct job job = {.topic = slice_of("orders"),
                      .id = slice_of("42"),
                      .content_type = slice_of("text/plain"),
                      .meta = slice_make(meta, sizeof meta),
                      .body = slice_make("\n\0:\\", 4),
                      .attempt = 3,
                      .due_ms = 1700000000000};
    broker_rig_send(&cluster->rig, 5, &job);
    UNTIL(cluster, 20, cluster->rig.reported == 1);
    assert_int_equal(cluster->rig.outcomes[5], TARGET_DONE);
    rd_kafka_t *reader = start_reading(cluster, "shop.orders");
    rd_kafka_message_t *message = read_one(reader);
    assert_int_equal(message->key_len, 6);
    assert_memory_equal(message->key, "new-42", 6);
    assert_int_equal(message->len, 4);
    assert_memory_equal(message->payload, "\n\0:\\", 4);
    rd_kafka_headers_t *headers = NULL;
    assert_int_equal(rd_kafka_message_headers(message, &headers), 0);
    assert_int_equal(rd_kafka_header_cnt(headers), 7);
    check_header(headers, 0, "content-type", "text/plain");
    check_header(headers, 1, "tarry-topic", "orders");
    check_header(headers, 2, "tarry-id", "42");
    check_header(headers, 3, "tarry-attempt", "3");
    check_header(headers, 4, "tarry-due-at", "2023-11-14T22:13:20.000Z");
    check_header(headers, 5, "meta-content-type", "mine");
    check_header(headers, 6, "kind", "new");
    rd_kafka_message_destroy(message);
    rd_kafka_destroy(reader);
    finish(cluster);
}

CLAIM(many_messages_are_in_flight_together)
{
    enum { MANY = 2000 };
    struct cluster *cluster = begin(POLICY);
    rd_kafka_mock_topic_create(cluster->mock, "orders", 4, 1);
    for (int i = 0; i < MANY; i++)
        broker_rig_send_text(&cluster->rig, (uint64_t)i, "x");
    UNTIL(cluster, 20, cluster->rig.done == MANY);
    finish(cluster);
}

CLAIM(the_broker_reply_decides)
{
    char *big = calloc(1, 200 * 1024);
    memset(big, 'b', 200 * 1024 - 1);
    const struct {
        const char *words;
        rd_kafka_resp_err_t error;
        const char *body;
        enum target_outcome outcome;
    } cases[] = {
        {"too large", RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, big, TARGET_REFUSED},
        {"too large", RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, "x", TARGET_FAILED},
        {"refused the record", RD_KAFKA_RESP_ERR_INVALID_RECORD, "x", TARGET_REFUSED},
        /* The topic is as good as gone for a second then: the last. */
        {"not allowed to write", RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, "x", TARGET_FAILED},
    };
    struct cluster *cluster = begin(POLICY);
    rd_kafka_mock_topic_create(cluster->mock, "orders", 1, 1);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        rd_kafka_mock_push_request_errors(cluster->mock, API_PRODUCE, 1, cases[i].error);
        broker_rig_send_text(&cluster->rig, i, cases[i].body);
        UNTIL(cluster, 20, cluster->rig.reported == i + 1);
        CASE_HOLDS(cases[i].words, cluster->rig.last.outcome == cases[i].outcome);
        CASE_HOLDS(cases[i].words, strstr(cluster->rig.last.error, cases[i].words));
    }
    free(big);
    finish(cluster);
}

CLAIM(a_passing_fault_is_got_over_inside)
{
    struct cluster *cluster = begin(POLICY);
    rd_kafka_mock_topic_create(cluster->mock, "orders", 1, 1);
    rd_kafka_mock_push_request_errors(cluster->mock, API_PRODUCE, 2,
                                      RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                      RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT);
    broker_rig_send_text(&cluster->rig, 0, "x");
    UNTIL(cluster, 20, cluster->rig.reported == 1);
    assert_int_equal(cluster->rig.last.outcome, TARGET_DONE);
    finish(cluster);
}

CLAIM(a_broken_producer_is_replaced)
{
    struct cluster *cluster = begin(POLICY);
    rd_kafka_mock_topic_create(cluster->mock, "orders", 1, 1);
    broker_rig_send_text(&cluster->rig, 0, "x");
    UNTIL(cluster, 20, cluster->rig.done == 1);
    rd_kafka_mock_push_request_errors(cluster->mock, API_PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    broker_rig_send_text(&cluster->rig, 1, "x");
    UNTIL(cluster, 20, cluster->rig.reported == 2);
    for (uint64_t tag = 2; cluster->rig.done < 2 + (cluster->rig.outcomes[1] == TARGET_DONE);
         tag++) {
        size_t before = cluster->rig.reported;
        assert_true(tag < 100);
        broker_rig_send_text(&cluster->rig, tag, "x");
        UNTIL(cluster, 20, cluster->rig.reported == before + 1);
        (void)BROKER_RIG_UNTIL(&cluster->rig, 0.05, false);
    }
    finish(cluster);
}

CLAIM(the_guard_checks_before_anything_connects)
{
    static const char *const policies[] = {NULL, "allow-host = 127.0.0.1\n",
                                           "allow-network = 127.0.0.0/8\n"};
    for (size_t i = 0; i < COUNT_OF(policies); i++) {
        struct cluster *cluster = begin(policies[i]);
        rd_kafka_mock_topic_create(cluster->mock, "orders", 1, 1);
        broker_rig_send_text(&cluster->rig, 0, "x");
        UNTIL(cluster, 20, cluster->rig.reported == 1);
        assert_int_equal(cluster->rig.last.outcome, TARGET_UNSENT);
        assert_true(cluster->rig.last.is_ailing);
        assert_non_null(strstr(cluster->rig.last.error, "'127.0.0.1'"));
        finish(cluster);
    }
}

CLAIM(messages_that_never_left_are_unsent_and_retried)
{
    struct cluster *cluster = begin(POLICY);
    rd_kafka_mock_topic_create(cluster->mock, "orders", 1, 1);
    rd_kafka_mock_broker_set_down(cluster->mock, 1);
    broker_rig_send_text(&cluster->rig, 0, "x");
    UNTIL(cluster, 20, cluster->rig.reported == 1);
    assert_int_equal(cluster->rig.last.outcome, TARGET_UNSENT);
    assert_true(cluster->rig.last.is_ailing);
    broker_rig_send_text(&cluster->rig, 1, "x"); /* in the pause */
    UNTIL(cluster, 20, cluster->rig.reported == 2);
    assert_int_equal(cluster->rig.last.outcome, TARGET_UNSENT);
    rd_kafka_mock_broker_set_up(cluster->mock, 1);
    for (uint64_t tag = 2; !cluster->rig.done; tag++) {
        assert_true(tag < 200);
        broker_rig_send_text(&cluster->rig, tag, "x");
        UNTIL(cluster, 20, cluster->rig.reported == tag + 1);
        (void)BROKER_RIG_UNTIL(&cluster->rig, 0.05, false);
    }
    finish(cluster);
}

CLAIM(a_silent_broker_costs_a_message_its_time)
{
    struct cluster *cluster = begin(POLICY);
    cluster->rig.setting.timeout_ms = 500;
    rd_kafka_mock_topic_create(cluster->mock, "orders", 1, 1);
    broker_rig_send_text(&cluster->rig, 0, "x");
    UNTIL(cluster, 20, cluster->rig.reported == 1);
    rd_kafka_mock_broker_set_rtt(cluster->mock, 1, 30000);
    int64_t began_us = clock_boot_us();
    broker_rig_send_text(&cluster->rig, 1, "x");
    UNTIL(cluster, 20, cluster->rig.reported == 2);
    assert_in_range((clock_boot_us() - began_us) / 1000, 490,
                    20000); /* not the 30 s of the broker */
    assert_int_equal(cluster->rig.last.outcome, TARGET_FAILED);
    assert_string_equal(cluster->rig.last.error, "kafka: timed out after 500 ms");
    finish(cluster);
}

CLAIM(a_topic_that_cannot_be_is_refused)
{
    static const char *const topics[] = {"a b", "..", "a/b", "{meta.none}", "\xc3\xa4"};
    struct cluster *cluster = begin(POLICY);
    for (size_t i = 0; i < COUNT_OF(topics); i++) {
        char topic[32];
        snprintf(topic, sizeof topic, "%s", topics[i]);
        cluster->rig.setting.topic = topic;
        broker_rig_send_text(&cluster->rig, i, "x");
        UNTIL(cluster, 20, cluster->rig.reported == i + 1);
        CASE_HOLDS(topics[i], cluster->rig.last.outcome == TARGET_REFUSED);
    }
    cluster->rig.setting.topic = NULL;
    finish(cluster);
}

CLAIM(closing_reports_everything_first)
{
    struct cluster *cluster = begin(POLICY);
    rd_kafka_mock_topic_create(cluster->mock, "orders", 1, 1);
    broker_rig_send_text(&cluster->rig, 0, "x");
    UNTIL(cluster, 20, cluster->rig.reported == 1);
    rd_kafka_mock_broker_set_rtt(cluster->mock, 1, 30000);
    broker_rig_send_text(&cluster->rig, 1, "x");
    (void)BROKER_RIG_UNTIL(&cluster->rig, 0.1, false);
    broker_rig_send_text(&cluster->rig, 2, "x");
    broker_rig_close(&cluster->rig);
    assert_int_equal(cluster->rig.reported, 3);
    assert_int_equal(cluster->rig.outcomes[1], TARGET_FAILED);
    broker_rig_stop(&cluster->rig);
    rd_kafka_mock_cluster_destroy(cluster->mock);
    rd_kafka_destroy(cluster->host);
    free(cluster);
}

CLAIM(errors_have_their_meaning)
{
    static const struct {
        const char *sentence;
        rd_kafka_resp_err_t error;
        rd_kafka_msg_status_t status;
        size_t bytes;
        enum target_outcome outcome;
        bool is_ailing;
    } cases[] = {
        {"stored", 0, RD_KAFKA_MSG_STATUS_PERSISTED, 1, TARGET_DONE, false},
        {"stored, whatever the error", RD_KAFKA_RESP_ERR__MSG_TIMED_OUT,
         RD_KAFKA_MSG_STATUS_PERSISTED, 1, TARGET_DONE, false},
        {"out of time, perhaps there", RD_KAFKA_RESP_ERR__MSG_TIMED_OUT,
         RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED, 1, TARGET_FAILED, true},
        {"out of time, never left", RD_KAFKA_RESP_ERR__MSG_TIMED_OUT,
         RD_KAFKA_MSG_STATUS_NOT_PERSISTED, 1, TARGET_UNSENT, true},
        {"a topic may be created yet", RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
         RD_KAFKA_MSG_STATUS_NOT_PERSISTED, 1, TARGET_FAILED, false},
        {"rights may be granted yet", RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
         RD_KAFKA_MSG_STATUS_NOT_PERSISTED, 1, TARGET_FAILED, false},
        {"alone too large", RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RD_KAFKA_MSG_STATUS_NOT_PERSISTED,
         KAFKA_BATCH_BYTES_MAX, TARGET_REFUSED, false},
        {"in a batch too large", RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
         RD_KAFKA_MSG_STATUS_NOT_PERSISTED, 100, TARGET_FAILED, false},
        {"full", RD_KAFKA_RESP_ERR__QUEUE_FULL, RD_KAFKA_MSG_STATUS_NOT_PERSISTED, 1, TARGET_UNSENT,
         false},
        {"queued, never left", RD_KAFKA_RESP_ERR__PURGE_QUEUE, RD_KAFKA_MSG_STATUS_NOT_PERSISTED, 1,
         TARGET_UNSENT, true},
        {"queued again, perhaps there", RD_KAFKA_RESP_ERR__PURGE_QUEUE,
         RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED, 1, TARGET_FAILED, true},
        {"nobody thought of", RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
         RD_KAFKA_MSG_STATUS_NOT_PERSISTED, 1, TARGET_FAILED, true},
    };
    struct target_report report;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        kafka_error_report(cases[i].error, cases[i].status, cases[i].bytes, 1000, &report);
        CASE_HOLDS(cases[i].sentence, report.outcome == cases[i].outcome);
        CASE_HOLDS(cases[i].sentence, report.is_ailing == cases[i].is_ailing);
        CASE_HOLDS(cases[i].sentence, (report.outcome == TARGET_DONE) == !report.error[0]);
    }
}

CLAIM(places_are_read)
{
    static const struct {
        const char *url, *servers, *origin;
    } good[] = {
        {"kafka://a", "a:9092", "kafka://a:9092"},
        {"kafka://a/", "a:9092", "kafka://a:9092"},
        {"kafka://a:1,b,[::1]:3", "a:1,b:9092,[::1]:3", "kafka://a:1"},
        {"kafkas://[::1]", "[::1]:9093", "kafkas://[::1]:9093"},
        {"kafkas://a.example.,b.:1", "a.example:9093,b:1", "kafkas://a.example:9093"},
    };
    static const char *const bad[] = {"kafka:a",     "kafka://",      "kafka://a,",  "kafka://,a",
                                      "kafka://a:0", "kafka://a:x",   "kafka://a/t", "kafka://a?x",
                                      "kafka://u@a", "kafka://a:1:2", "kafka://[a",  "kafka://[]",
                                      "kafka://a b", "kafka://a:"};
    struct kafka_place place;
    char error[TARGET_ERROR_BYTES] = "";
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        CASE_HOLDS(good[i].url, kafka_place_parse(slice_of(good[i].url), &place, NULL, error));
        CASE_HOLDS(good[i].url, !strcmp(place.servers, good[i].servers));
        CASE_HOLDS(good[i].url, !strcmp(place.at.origin, good[i].origin));
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CASE_HOLDS(bad[i], !kafka_place_parse(slice_of(bad[i]), &place, NULL, error));
}

CLAIMS_MAIN(NULL, NULL)
