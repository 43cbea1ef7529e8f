#include "intake/kafka/consumer.h"

#include "base/clock.h"
#include "base/log.h"
#include "intake/kafka/record.h"
#include "net/thread.h"
#include "queue/status.h"
#include "targets/kafka/producer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    POLL_MS = 100,
    WAIT_MS = 200, /* for a batch, before the partitions are paused */
    AGAIN_MS = 1000,
    STOP_MS = 2000,
    CLOSE_MS = 1000,
    PAUSE_MS = 100,
    PAUSE_MS_MAX = 5000,
    PROBE_MS = 1000,
    REFUSED_MS = 5000,    /* time within which librdkafka retries a broker */
    BATCH_BYTES = 8 << 20 /* a batch of this size is full */
};

static const struct intake_lines lines = {.connected = "kafka-in connected",
                                          .not_connected = "kafka-in not connected",
                                          .paused = "kafka-in paused",
                                          .resumes = "kafka-in resumes",
                                          .rejected = "kafka-in message rejected"};

struct kafka_in_consumer { /* owned by the thread, except what the mutex guards */
    struct kafka_way way;  /* first: the opaque of librdkafka */
    const struct kafka_in_source *source;
    struct intake_consumer_options options;
    pthread_t thread;
    bool has_thread;

    rd_kafka_t *kafka;                         /* NULL: no client */
    rd_kafka_topic_partition_list_t *assigned; /* NULL: it has not joined the group yet */
    uint64_t generation;                       /* incremented with each assignment */
    bool is_paused;                            /* the partitions are */
    bool is_broken;                            /* the client must be replaced */
    char why[TARGET_ERROR_BYTES];              /* the trouble, or empty */

    struct intake_batch *open;                /* the batch being filled, or NULL */
    size_t open_records;                      /* read for it, with those that were rejected */
    size_t open_bytes;                        /* of its bodies */
    rd_kafka_topic_partition_list_t *offsets; /* after the records of the batch */
    struct list again;                        /* jobs that were refused and will be offered again */
    int64_t again_at_ms, out_since_ms;
    bool is_out; /* a batch is in the queue */

    int64_t pause_ms, next_open_ms, next_probe_ms;
    bool has_logged_loss;
    struct intake_rejections rejections;

    pthread_mutex_t mutex; /* guards the members below */
    pthread_cond_t changed;
    struct intake_batch *settled; /* the batch that came back, or NULL */
    bool is_stopping, is_cut;
};

/* ---- connection ---- */

static void log_connected(const struct kafka_in_consumer *consumer)
{
    log_event(LOG_INFO, lines.connected, LOG_TEXT("broker", consumer->source->cluster.at.origin),
              LOG_TEXT("from", consumer->source->from), LOG_TEXT("group", consumer->source->group),
              LOG_TEXT("topic", consumer->source->topic));
}

static void connection_found(struct kafka_in_consumer *consumer)
{
    consumer->pause_ms = PAUSE_MS;
    consumer->why[0] = '\0';
    if (consumer->options.counts->is_connected)
        return;
    atomic_fetch_add(&consumer->options.counts->connections, 1);
    intake_set_connected(consumer->options.counts, INTAKE_PARTY_KAFKA, true);
    log_connected(consumer);
    consumer->has_logged_loss = false;
}

static void connection_lost(struct kafka_in_consumer *consumer, const char *why)
{
    char refusal[GUARD_ERROR_BYTES];
    if (kafka_way_refusal(&consumer->way, clock_inner_ms() - REFUSED_MS, refusal))
        why = refusal;
    snprintf(consumer->why, sizeof consumer->why, "%.200s", why);
    intake_set_connected(consumer->options.counts, INTAKE_PARTY_KAFKA, false);
    if (!consumer->has_logged_loss)
        log_event(LOG_WARN, lines.not_connected,
                  LOG_TEXT("broker", consumer->source->cluster.at.origin),
                  LOG_TEXT("from", consumer->source->from), LOG_TEXT("error", consumer->why));
    consumer->has_logged_loss = true;
    consumer->next_probe_ms = clock_boot_ms() + PROBE_MS;
}

/* Returns the meaning of an error of a consumer. */
static const char *error_words(rd_kafka_resp_err_t error)
{
    switch (error) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return "not allowed to read the topic";
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
        return "not allowed to use the consumer group";
    default:
        return kafka_error_words(error);
    }
}

/* Returns true for errors after which a client is useless: it keeps its login. The next one reads the
 * policy file again. */
static bool is_useless_after(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__AUTHENTICATION || error == RD_KAFKA_RESP_ERR__SSL ||
           error == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED ||
           error == RD_KAFKA_RESP_ERR__FATAL || error == RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED;
}

static void take_error(struct kafka_in_consumer *consumer, rd_kafka_resp_err_t error)
{
    consumer->is_broken = consumer->is_broken || is_useless_after(error);
    connection_lost(consumer, error_words(error));
}

/* Called inside of polls. The loss of a single broker is not reported, because librdkafka uses
 * another one; an error of its own reports the loss of all. */
static void on_error(rd_kafka_t *kafka, int code, const char *reason, void *opaque)
{
    struct kafka_in_consumer *consumer = opaque;
    rd_kafka_resp_err_t error = code;
    (void)kafka;
    if (error == RD_KAFKA_RESP_ERR__TRANSPORT && reason && strstr(reason, "SSL_HANDSHAKE"))
        error = RD_KAFKA_RESP_ERR__SSL;
    if (error == RD_KAFKA_RESP_ERR__TRANSPORT || error == RD_KAFKA_RESP_ERR__RESOLVE)
        return;
    take_error(consumer, error);
}

/* Forgets the batch after a change of the assignment of its partitions. It is read again. */
static void batch_forget(struct kafka_in_consumer *consumer)
{
    consumer->generation++;
    intake_batch_free(consumer->open);
    consumer->open = NULL;
    consumer->open_records = consumer->open_bytes = 0;
    while (!list_is_empty(&consumer->again)) {
        struct intake_job *job = list_entry(consumer->again.next, struct intake_job, list);
        list_remove(&job->list);
        free(job);
    }
    if (consumer->offsets)
        rd_kafka_topic_partition_list_destroy(consumer->offsets);
    consumer->offsets = NULL;
}

static void set_assigned(struct kafka_in_consumer *consumer,
                         const rd_kafka_topic_partition_list_t *partitions)
{
    if (consumer->assigned)
        rd_kafka_topic_partition_list_destroy(consumer->assigned);
    consumer->assigned = partitions ? rd_kafka_topic_partition_list_copy(partitions) : NULL;
}

/* Called inside of polls. */
static void on_rebalance(rd_kafka_t *kafka, rd_kafka_resp_err_t error,
                         rd_kafka_topic_partition_list_t *partitions, void *opaque)
{
    struct kafka_in_consumer *consumer = opaque;
    bool is_assigned = error == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    batch_forget(consumer);
    set_assigned(consumer, is_assigned ? partitions : NULL);
    rd_kafka_assign(kafka, is_assigned ? partitions : NULL); /* commits stored offsets first */
    if (is_assigned && consumer->is_paused)
        rd_kafka_pause_partitions(kafka, consumer->assigned);
    if (is_assigned)
        connection_found(consumer);
}

static rd_kafka_conf_t *make_conf(struct kafka_in_consumer *consumer, char *error)
{
    const struct kafka_option options[] = {
        {"group.id", consumer->source->group},
        {"enable.auto.commit", "true"},
        {"auto.commit.interval.ms", "1000"},
        {"enable.auto.offset.store", "false"},
        {"auto.offset.reset", "earliest"},
        {"session.timeout.ms", "10000"},
        {"topic.metadata.refresh.interval.ms", "10000"},
        {"queued.max.messages.kbytes", "16384"},
    };
    rd_kafka_conf_t *conf = kafka_way_conf(&consumer->way, &consumer->source->cluster, error);
    bool good = conf;
    for (size_t i = 0; good && i < sizeof options / sizeof options[0]; i++)
        good = kafka_option_set(conf, options[i].name, options[i].value, error);
    if (good) {
        rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
        rd_kafka_conf_set_error_cb(conf, on_error);
        return conf;
    }
    if (conf)
        rd_kafka_conf_destroy(conf);
    return NULL;
}

static bool client_subscribe(struct kafka_in_consumer *consumer, char *error)
{
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_poll_set_consumer(consumer->kafka);
    rd_kafka_topic_partition_list_add(topics, consumer->source->from, RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t failed = rd_kafka_subscribe(consumer->kafka, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    if (failed)
        snprintf(error, TARGET_ERROR_BYTES, "%s", error_words(failed));
    return !failed;
}

/* Leaves the group, if that is possible within a second, and ends the client. */
static void client_close(struct kafka_in_consumer *consumer)
{
    int64_t until_ms = clock_boot_ms() + CLOSE_MS;
    if (!consumer->kafka)
        return;
    rd_kafka_queue_t *queue = rd_kafka_queue_new(consumer->kafka);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(consumer->kafka, queue);
    while (!error && !rd_kafka_consumer_closed(consumer->kafka) && clock_boot_ms() < until_ms)
        rd_kafka_queue_poll_callback(queue, POLL_MS);
    rd_kafka_error_destroy(error);
    rd_kafka_queue_destroy(queue);
    rd_kafka_destroy_flags(consumer->kafka, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    consumer->kafka = NULL;
    batch_forget(consumer);
    set_assigned(consumer, NULL);
    consumer->is_paused = consumer->is_broken = false;
}

static bool client_open(struct kafka_in_consumer *consumer, char *error)
{
    char why[128];
    rd_kafka_conf_t *conf = make_conf(consumer, error);
    if (!conf)
        return false;
    consumer->kafka = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    if (!consumer->kafka) {
        rd_kafka_conf_destroy(conf);
        snprintf(error, TARGET_ERROR_BYTES, "%s", why);
        return false;
    }
    if (client_subscribe(consumer, error))
        return true;
    client_close(consumer);
    return false;
}

static void client_replace_later(struct kafka_in_consumer *consumer)
{
    client_close(consumer);
    consumer->next_open_ms = clock_boot_ms() + consumer->pause_ms;
    consumer->pause_ms =
        consumer->pause_ms * 2 < PAUSE_MS_MAX ? consumer->pause_ms * 2 : PAUSE_MS_MAX;
}

/* Finds out whether brokers that were away answer again: a client reports their loss only. */
static void connection_probe(struct kafka_in_consumer *consumer)
{
    const struct rd_kafka_metadata *found = NULL;
    rd_kafka_topic_t *topic;
    if (!consumer->why[0] || !consumer->assigned || clock_boot_ms() < consumer->next_probe_ms)
        return;
    consumer->next_probe_ms = clock_boot_ms() + PROBE_MS;
    topic = rd_kafka_topic_new(consumer->kafka, consumer->source->from, NULL);
    if (!topic)
        return;
    if (!rd_kafka_metadata(consumer->kafka, 0, topic, &found, PROBE_MS)) {
        if (found->topic_cnt == 1 && !found->topics[0].err)
            connection_found(consumer);
        rd_kafka_metadata_destroy(found);
    }
    rd_kafka_topic_destroy(topic);
}

/* ---- records ---- */

/* Notes that the record belongs to the batch. Returns false when out of memory. */
static bool offset_note(struct kafka_in_consumer *consumer, const rd_kafka_message_t *record)
{
    if (!consumer->offsets && !(consumer->offsets = rd_kafka_topic_partition_list_new(4)))
        return false;
    rd_kafka_topic_partition_t *at = rd_kafka_topic_partition_list_find(
        consumer->offsets, consumer->source->from, record->partition);
    if (!at)
        at = rd_kafka_topic_partition_list_add(consumer->offsets, consumer->source->from,
                                               record->partition);
    at->offset = record->offset + 1;
    return true;
}

static void record_reject(struct kafka_in_consumer *consumer, const char *place,
                          enum intake_refusal refusal, const char *why)
{
    intake_reject(&consumer->rejections, &lines, consumer->options.counts, refusal, "record", place,
                  why);
}

static void record_take(struct kafka_in_consumer *consumer, const rd_kafka_message_t *record)
{
    struct intake_job *job = NULL;
    char why[INTAKE_ERROR_BYTES], place[KAFKA_IN_NAME_BYTES + 48];
    if (!consumer->open && !(consumer->open = calloc(1, sizeof *consumer->open))) {
        consumer->is_broken = true;
        return;
    }
    enum intake_refusal refusal =
        kafka_in_record_take(consumer->source, record, clock_wall_ms(), &job, why);
    if (refusal == INTAKE_NO_MEMORY || !offset_note(consumer, record)) {
        free(job);
        consumer->is_broken = true; /* read again from the last committed offset */
        return;
    }
    atomic_fetch_add(&consumer->options.counts->received, 1);
    consumer->open_records++;
    if (job) {
        consumer->open->jobs[consumer->open->count++] = job;
        consumer->open_bytes += job->body.len;
        return;
    }
    snprintf(place, sizeof place, "%s partition %d offset %lld", consumer->source->from,
             (int)record->partition, (long long)record->offset);
    record_reject(consumer, place, refusal, why);
}

/* Serves librdkafka for at most `wait_ms`. Returns true if it took a record. */
static bool poll_once(struct kafka_in_consumer *consumer, int wait_ms)
{
    rd_kafka_message_t *record = rd_kafka_consumer_poll(consumer->kafka, wait_ms);
    if (!record)
        return false;
    bool is_taken = !record->err && !consumer->is_out && list_is_empty(&consumer->again);
    if (record->err)
        take_error(consumer, record->err);
    else if (is_taken)
        record_take(consumer, record);
    else
        consumer->is_broken = true; /* nothing comes from paused partitions: read it again */
    rd_kafka_message_destroy(record);
    return is_taken;
}

/* ---- batches ---- */

static void batch_pass_on(struct kafka_in_consumer *consumer)
{
    struct intake_batch *batch = consumer->open;
    consumer->open = NULL;
    consumer->open_records = consumer->open_bytes = 0;
    batch->generation = consumer->generation;
    consumer->is_out = true;
    consumer->out_since_ms = clock_boot_ms();
    consumer->options.events->batch(consumer->options.ctx, batch);
}

/* Stores the offsets after the batch, for the next commit. */
static void batch_finish(struct kafka_in_consumer *consumer)
{
    consumer->open_records = 0;
    if (!consumer->offsets)
        return;
    (void)rd_kafka_offsets_store(consumer->kafka, consumer->offsets);
    rd_kafka_topic_partition_list_destroy(consumer->offsets);
    consumer->offsets = NULL;
}

/* Reads what is there, at most one batch of records, and passes on the jobs. */
static void batch_read(struct kafka_in_consumer *consumer)
{
    bool more = poll_once(consumer, POLL_MS);
    while (more && !consumer->is_broken && consumer->open_records < INTAKE_BATCH &&
           consumer->open_bytes < BATCH_BYTES)
        more = poll_once(consumer, 0);
    if (consumer->open && consumer->open->count > 0)
        batch_pass_on(consumer);
    else
        batch_finish(consumer); /* all of it was rejected */
}

static void job_settle(struct kafka_in_consumer *consumer, struct intake_job *job)
{
    struct intake_counts *counts = consumer->options.counts;
    enum queue_status status = job->status;
    if (queue_status_is_for_later(status)) {
        intake_set_refused(counts, INTAKE_PARTY_KAFKA, &lines, true, queue_status_sentence(status));
        atomic_fetch_add(&counts->again, 1);
        list_add_last(&consumer->again, &job->list);
        return;
    }
    if (queue_status_is_success(status)) {
        atomic_fetch_add(&counts->taken, 1);
    } else {
        char place[JOB_ID_BYTES_MAX + 1];
        snprintf(place, sizeof place, "%.*s", (int)job->id.len, job->id.at);
        record_reject(consumer, place,
                      status == QUEUE_BODY_TOO_BIG ? INTAKE_BODY_TOO_BIG : INTAKE_BAD_JOB,
                      queue_status_sentence(status));
    }
    free(job);
}

static void batch_settle(struct kafka_in_consumer *consumer, struct intake_batch *batch)
{
    bool is_current = batch->generation == consumer->generation && consumer->kafka;
    consumer->is_out = false;
    for (size_t i = 0; is_current && i < batch->count; i++) {
        job_settle(consumer, batch->jobs[i]);
        batch->jobs[i] = NULL;
    }
    intake_batch_free(batch);
    consumer->again_at_ms = clock_boot_ms() + AGAIN_MS;
    if (!is_current || !list_is_empty(&consumer->again))
        return;
    intake_set_refused(consumer->options.counts, INTAKE_PARTY_KAFKA, &lines, false, NULL);
    batch_finish(consumer);
}

static void batch_offer_again(struct kafka_in_consumer *consumer)
{
    if (!consumer->open && !(consumer->open = calloc(1, sizeof *consumer->open)))
        return;
    while (!list_is_empty(&consumer->again) && consumer->open->count < INTAKE_BATCH) {
        struct intake_job *job = list_entry(consumer->again.next, struct intake_job, list);
        list_remove(&job->list);
        consumer->open->jobs[consumer->open->count++] = job;
    }
    batch_pass_on(consumer);
}

/* Waits for the batch that is in the queue. Returns it, or NULL after `wait_ms` or a stop. */
static struct intake_batch *batch_await(struct kafka_in_consumer *consumer, int64_t wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(wait_ms / 1000);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&consumer->mutex);
    int result = 0;
    while (!consumer->settled && result == 0)
        result = pthread_cond_timedwait(&consumer->changed, &consumer->mutex, &until);
    struct intake_batch *batch = consumer->settled;
    consumer->settled = NULL;
    pthread_mutex_unlock(&consumer->mutex);
    return batch;
}

static void partitions_pause(struct kafka_in_consumer *consumer, bool is_paused)
{
    if (is_paused == consumer->is_paused)
        return;
    consumer->is_paused = is_paused;
    if (!consumer->assigned)
        return;
    if (is_paused)
        rd_kafka_pause_partitions(consumer->kafka, consumer->assigned);
    else
        rd_kafka_resume_partitions(consumer->kafka, consumer->assigned);
}

/* Waits for the queue, and stays in the group meanwhile. */
static void batch_wait(struct kafka_in_consumer *consumer)
{
    bool waits = consumer->is_out && !consumer->is_paused;
    struct intake_batch *batch =
        consumer->is_out ? batch_await(consumer, waits ? WAIT_MS : 0) : NULL;
    if (batch) {
        batch_settle(consumer, batch);
        return;
    }
    partitions_pause(consumer, true);
    if (!consumer->is_out && clock_boot_ms() >= consumer->again_at_ms) {
        batch_offer_again(consumer);
        return;
    }
    (void)poll_once(consumer, POLL_MS);
}

/* ---- the thread ---- */

static bool is_stopping(struct kafka_in_consumer *consumer, bool *is_cut)
{
    pthread_mutex_lock(&consumer->mutex);
    bool stopping = consumer->is_stopping;
    *is_cut = consumer->is_cut;
    pthread_mutex_unlock(&consumer->mutex);
    return stopping;
}

static void client_step(struct kafka_in_consumer *consumer)
{
    kafka_way_evaluate(&consumer->way);
    if (consumer->is_out || !list_is_empty(&consumer->again)) {
        batch_wait(consumer);
    } else {
        partitions_pause(consumer, false);
        batch_read(consumer);
    }
    connection_probe(consumer);
    if (consumer->is_broken)
        client_replace_later(consumer);
}

static void client_try(struct kafka_in_consumer *consumer)
{
    char error[TARGET_ERROR_BYTES];
    int64_t left_ms = consumer->next_open_ms - clock_boot_ms();
    if (left_ms > 0 || consumer->is_out) {
        struct intake_batch *batch =
            batch_await(consumer, left_ms > 0 && left_ms < POLL_MS ? left_ms : POLL_MS);
        if (batch)
            batch_settle(consumer, batch);
        return;
    }
    if (client_open(consumer, error))
        return;
    connection_lost(consumer, error);
    client_replace_later(consumer);
}

/* Stores the offsets of the last batch before the end. */
static void consumer_finish(struct kafka_in_consumer *consumer, bool is_cut)
{
    struct intake_batch *batch =
        consumer->is_out && !is_cut ? batch_await(consumer, STOP_MS) : NULL;
    if (batch)
        batch_settle(consumer, batch);
    client_close(consumer);
    atomic_store(&consumer->options.counts->is_connected, false);
}

static void consumer_run(void *ctx)
{
    struct kafka_in_consumer *consumer = ctx;
    bool is_cut;
    while (!is_stopping(consumer, &is_cut)) {
        if (consumer->kafka)
            client_step(consumer);
        else
            client_try(consumer);
    }
    consumer_finish(consumer, is_cut);
    consumer->options.events->ended(consumer->options.ctx);
}

/* ---- life ---- */

struct kafka_in_consumer *kafka_in_consumer_new(const struct kafka_in_source *source,
                                                const struct intake_consumer_options *options)
{
    pthread_condattr_t attributes;
    struct kafka_in_consumer *consumer = calloc(1, sizeof *consumer);
    if (!consumer)
        return NULL;
    consumer->source = source;
    consumer->options = *options;
    consumer->pause_ms = PAUSE_MS;
    list_init(&consumer->again);
    kafka_way_init(&consumer->way, options->guard);
    pthread_mutex_init(&consumer->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&consumer->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return consumer;
}

void kafka_in_consumer_free(struct kafka_in_consumer *consumer)
{
    if (!consumer)
        return;
    if (consumer->has_thread) {
        kafka_in_consumer_stop(consumer, true);
        thread_join(consumer->thread);
    }
    intake_batch_free(consumer->settled);
    batch_forget(consumer);
    kafka_way_fini(&consumer->way);
    pthread_cond_destroy(&consumer->changed);
    pthread_mutex_destroy(&consumer->mutex);
    free(consumer);
}

bool kafka_in_consumer_start(struct kafka_in_consumer *consumer)
{
    consumer->has_thread = thread_start(&consumer->thread, "kafka-in", consumer_run, consumer) == 0;
    return consumer->has_thread;
}

/* ---- any thread ---- */

void kafka_in_consumer_settle(struct kafka_in_consumer *consumer, struct intake_batch *batch)
{
    pthread_mutex_lock(&consumer->mutex);
    consumer->settled = batch;
    pthread_cond_signal(&consumer->changed);
    pthread_mutex_unlock(&consumer->mutex);
}

void kafka_in_consumer_stop(struct kafka_in_consumer *consumer, bool at_once)
{
    pthread_mutex_lock(&consumer->mutex);
    consumer->is_stopping = true;
    consumer->is_cut = consumer->is_cut || at_once;
    pthread_cond_signal(&consumer->changed);
    pthread_mutex_unlock(&consumer->mutex);
}
