/*
 * Native methods of TarryQueue: items, takes, reads and topics. Each has its arguments in one array and its answer in another. A call may
 * come at any time until the handle is freed.
 */
#include "handle.h"
#include "pack.h"

#include <io_tarry_queue_Native.h>

enum { ERROR_BYTES = 400, TOPICS_AT_ONCE = 100 };

/* Numbered as in Native.java. */
enum look {
    LOOK_GET = 1,
    LOOK_LIST,
    TOPIC_PUT,
    TOPIC_GET,
    TOPIC_SETTINGS,
    TOPIC_DELETE,
    TOPIC_PAUSE,
    TOPIC_RESUME,
    TOPIC_PURGE,
    TOPIC_REDRIVE,
    TOPICS,
    LOOK_MEMBERS
};

static struct handle *handle_of(jlong handle)
{
    return (struct handle *)(intptr_t)handle;
}

static void throw_no_memory(JNIEnv *env)
{
    jclass class = (*env)->FindClass(env, "java/lang/OutOfMemoryError");
    if (class)
        (*env)->ThrowNew(env, class, "no memory for a call of libtarry");
}

/* ---- arguments and answers ---- */

/* The arguments as a copy, which fits on the stack as a rule. */
struct arguments {
    struct unpack from;
    char *heap;
    char stack[2048];
};

static bool arguments_copy(JNIEnv *env, jbyteArray array, jint length, struct arguments *out)
{
    out->heap = (size_t)length > sizeof out->stack ? malloc((size_t)length) : NULL;
    if ((size_t)length > sizeof out->stack && !out->heap) {
        throw_no_memory(env);
        return false;
    }
    char *at = out->heap ? out->heap : out->stack;
    (*env)->GetByteArrayRegion(env, array, 0, length, (jbyte *)at);
    out->from = (struct unpack){at, at + length};
    return true;
}

/* Writes an answer: `write` is called twice, to count and to write. NULL: an exception is pending. */
static jbyteArray answer(JNIEnv *env, void (*write)(struct pack *, const void *), const void *what)
{
    struct pack pack = {0};
    write(&pack, what);
    jbyteArray array = (*env)->NewByteArray(env, (jsize)pack.bytes);
    char *at = array ? (*env)->GetPrimitiveArrayCritical(env, array, NULL) : NULL;
    if (!at)
        return NULL;
    pack = (struct pack){.at = at};
    write(&pack, what);
    (*env)->ReleasePrimitiveArrayCritical(env, array, at, 0);
    return array;
}

/* ---- calls of items ---- */

static struct tarry_push push_read(struct unpack *from)
{
    struct tarry_push push = TARRY_PUSH_INIT;
    size_t bytes;
    push.flags = (uint32_t)unpack_int(from);
    push.topic = unpack_text(from, &bytes);
    push.id = unpack_text(from, &bytes);
    push.content_type = unpack_text(from, &bytes);
    push.meta = unpack_text(from, &push.meta_bytes);
    push.body = unpack_text(from, &push.body_bytes);
    push.delay_ms = unpack_long(from);
    push.at_ms = unpack_long(from);
    push.priority = unpack_int(from);
    push.on_conflict = (uint32_t)unpack_int(from);
    push.lease_ms = unpack_long(from);
    push.ttl_ms = unpack_long(from);
    push.max_attempts = (uint32_t)unpack_int(from);
    push.backoff = (uint32_t)unpack_int(from);
    push.backoff_first_ms = unpack_long(from);
    push.backoff_max_ms = unpack_long(from);
    push.backoff_step_count = (size_t)unpack_int(from);
    push.backoff_steps_ms =
        unpack_bytes(from, push.backoff_step_count * sizeof(uint32_t)); /* libtarry copies them */
    push.once = unpack_text(from, &bytes);
    push.once_for_ms = unpack_long(from);
    push.keep_finished_ms = unpack_long(from);
    push.batch_topic = unpack_text(from, &bytes);
    push.batch_id = unpack_text(from, &bytes);
    push.parent = unpack_text(from, &bytes);
    push.on_dead = (uint32_t)unpack_int(from);
    push.members = (uint32_t)unpack_int(from);
    push.wait_at_most_ms = unpack_long(from);
    push.close_within_ms = unpack_long(from);
    return push;
}

static struct tarry_change change_read(struct unpack *from)
{
    struct tarry_change change = TARRY_CHANGE_INIT;
    size_t bytes;
    change.flags = (uint32_t)unpack_int(from);
    change.topic = unpack_text(from, &bytes);
    change.id = unpack_text(from, &bytes);
    change.delay_ms = unpack_long(from);
    change.at_ms = unpack_long(from);
    change.priority = unpack_int(from);
    return change;
}

static struct tarry_answer answer_read(struct unpack *from)
{
    struct tarry_answer one = TARRY_ANSWER_INIT;
    size_t bytes;
    one.flags = (uint32_t)unpack_int(from);
    one.lease = unpack_text(from, &bytes);
    one.delay_ms = unpack_long(from);
    one.lease_ms = unpack_long(from);
    one.error = unpack_text(from, &one.error_bytes);
    one.result = unpack_text(from, &one.result_bytes);
    one.result_type = unpack_text(from, &bytes);
    one.progress = unpack_text(from, &bytes);
    return one;
}

static struct tarry_again again_read(struct unpack *from)
{
    struct tarry_again again = TARRY_AGAIN_INIT;
    again.flags = (uint32_t)unpack_int(from);
    again.job = (const tarry_job *)(intptr_t)unpack_long(from);
    again.body = unpack_text(from, &again.body_bytes);
    again.delay_ms = unpack_long(from);
    again.at_ms = unpack_long(from);
    return again;
}

union item {
    struct tarry_push push;
    struct tarry_change change;
    struct tarry_answer answer;
    struct tarry_again again;
};

struct items {
    union item *at;
    size_t n;
    int code;
    struct tarry_result *results;
};

/* Items of one kind lie behind each other by the size of their struct. */
static void items_read(int kind, struct unpack *from, struct items *items)
{
    for (size_t i = 0; i < items->n; i++)
        switch (kind) {
        case TARRY_CALL_PUSH:
            ((struct tarry_push *)items->at)[i] = push_read(from);
            break;
        case TARRY_CALL_CANCEL:
        case TARRY_CALL_RESCHEDULE:
        case TARRY_CALL_RUN:
        case TARRY_CALL_CLOSE_BATCH:
            ((struct tarry_change *)items->at)[i] = change_read(from);
            break;
        case TARRY_CALL_AGAIN:
            ((struct tarry_again *)items->at)[i] = again_read(from);
            break;
        default:
            ((struct tarry_answer *)items->at)[i] = answer_read(from);
        }
}

static int items_call(int kind, tarry *queue, const struct items *items)
{
    switch (kind) {
    case TARRY_CALL_PUSH:
        return tarry_push(queue, &items->at->push, items->n, items->results);
    case TARRY_CALL_CANCEL:
        return tarry_cancel(queue, &items->at->change, items->n, items->results);
    case TARRY_CALL_RESCHEDULE:
        return tarry_reschedule(queue, &items->at->change, items->n, items->results);
    case TARRY_CALL_RUN:
        return tarry_run(queue, &items->at->change, items->n, items->results);
    case TARRY_CALL_CLOSE_BATCH:
        return tarry_close_batch(queue, &items->at->change, items->n, items->results);
    case TARRY_CALL_ACK:
        return tarry_ack(queue, &items->at->answer, items->n, items->results);
    case TARRY_CALL_NACK:
        return tarry_nack(queue, &items->at->answer, items->n, items->results);
    case TARRY_CALL_EXTEND:
        return tarry_extend(queue, &items->at->answer, items->n, items->results);
    case TARRY_CALL_RETURN:
        return tarry_return(queue, &items->at->answer, items->n, items->results);
    case TARRY_CALL_AGAIN:
        return tarry_again(queue, &items->at->again, items->n, items->results);
    default:
        return TARRY_BAD_OPTION;
    }
}

static bool items_looked_at(const struct items *items)
{
    for (size_t i = 0; i < items->n; i++)
        if (items->results[i].code)
            return true;
    return !items->code;
}

static void items_write(struct pack *into, const void *what)
{
    const struct items *items = what;
    size_t n = items_looked_at(items) ? items->n : 0;
    pack_int(into, items->code);
    pack_int(into, (int32_t)n);
    for (size_t i = 0; i < n; i++) {
        const struct tarry_result *result = &items->results[i];
        pack_int(into, result->code);
        pack_int(into, result->state);
        pack_int(into, result->cancel_requested);
        pack_long(into, result->due_ms);
        pack_long(into, result->lease_until_ms);
        pack_text(into, result->detail ? result->detail : "",
                  result->detail ? strlen(result->detail) : 0);
        pack_text(into, result->id, strlen(result->id));
    }
}

JNIEXPORT jbyteArray JNICALL Java_io_tarry_queue_Native_call(JNIEnv *env, jclass class,
                                                             jlong handle, jint kind,
                                                             jbyteArray packed, jint length,
                                                             jint count)
{
    struct tarry_result one_result;
    union item one_item;
    struct items items = {.at = &one_item, .n = (size_t)count, .results = &one_result};
    struct arguments arguments;
    jbyteArray out = NULL;
    (void)class;
    if (!arguments_copy(env, packed, length, &arguments))
        return NULL;
    if (items.n != 1) {
        items.at = malloc((items.n + 1) * sizeof *items.at);
        items.results = malloc((items.n + 1) * sizeof *items.results);
    }
    if (items.at && items.results) {
        memset(items.results, 0, (items.n ? items.n : 1) * sizeof *items.results);
        items.results[0].size = sizeof *items.results;
        items_read(kind, &arguments.from, &items);
        items.code = TARRY_STOPPING;
        if (handle_enter(handle_of(handle))) {
            items.code = items_call(kind, handle_of(handle)->queue, &items);
            handle_leave(handle_of(handle));
        }
        out = answer(env, items_write, &items);
    } else {
        throw_no_memory(env);
    }
    if (items.n != 1) {
        free(items.at);
        free(items.results);
    }
    free(arguments.heap);
    return out;
}

/* ---- jobs ---- */

struct jobs {
    tarry_job **at;
    size_t n;
    int code;
    bool keeps; /* Java has the jobs themselves, too, and frees them */
    const char *cursor;
};

static void history_write(struct pack *into, const tarry_job *job)
{
    struct tarry_attempt attempt = TARRY_ATTEMPT_INIT;
    int32_t count = 0;
    while (tarry_job_history(job, (size_t)count, &attempt) == TARRY_OK)
        count++;
    pack_int(into, count);
    for (int32_t i = 0; i < count; i++) {
        tarry_job_history(job, (size_t)i, &attempt);
        pack_int(into, (int32_t)attempt.number);
        pack_int(into, attempt.outcome);
        pack_long(into, attempt.started_ms);
        pack_long(into, attempt.duration_ms);
        pack_text(into, attempt.error, attempt.error_bytes);
    }
}

static void batch_write(struct pack *into, const tarry_job *job)
{
    struct tarry_batch batch = {.size = sizeof batch};
    const bool has = tarry_job_batch(job, &batch) == TARRY_OK;
    pack_int(into, has);
    if (!has)
        return;
    const uint32_t numbers[] = {batch.waits_for, batch.unfinished, batch.acked,
                                batch.dead,      batch.cancelled,  batch.expired};
    pack_text(into, batch.topic, strlen(batch.topic));
    pack_text(into, batch.id, strlen(batch.id));
    pack_int(into, batch.has_own);
    pack_int(into, batch.is_closed);
    pack_int(into, batch.has_ended);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        pack_int(into, (int32_t)numbers[i]);
}

static void job_write(struct pack *into, tarry_job *job, bool keeps)
{
    size_t bytes;
    const char *text;
    pack_long(into, keeps ? (int64_t)(intptr_t)job : 0);
    pack_int(into, tarry_job_state(job));
    pack_int(into, (int32_t)tarry_job_attempt(job));
    pack_int(into, tarry_job_priority(job));
    pack_int(into, tarry_job_cancel_requested(job));
    pack_long(into, (int64_t)tarry_job_delivery(job));
    pack_long(into, tarry_job_due_ms(job));
    pack_long(into, tarry_job_lease_until_ms(job));
    pack_text(into, tarry_job_topic(job), strlen(tarry_job_topic(job)));
    pack_text(into, tarry_job_id(job), strlen(tarry_job_id(job)));
    pack_text(into, tarry_job_content_type(job), strlen(tarry_job_content_type(job)));
    text = tarry_job_meta(job, &bytes);
    pack_text(into, text, bytes);
    text = tarry_job_error(job, &bytes);
    pack_text(into, text, bytes);
    text = tarry_job_consumer(job, &bytes);
    pack_text(into, text, bytes);
    text = tarry_job_lease(job);
    pack_text(into, text, strlen(text));
    text = tarry_job_body(job, &bytes);
    pack_text(into, text, bytes);
    history_write(into, job);
    text = tarry_job_progress(job, &bytes);
    pack_text(into, text, bytes);
    pack_int(into, tarry_job_outcome(job));
    pack_long(into, tarry_job_finished_ms(job));
    pack_long(into, tarry_job_duration_ms(job));
    text = tarry_job_result(job, &bytes);
    pack_text(into, text, bytes);
    text = tarry_job_result_type(job);
    pack_text(into, text, strlen(text));
    batch_write(into, job);
}

static void jobs_write(struct pack *into, const void *what)
{
    const struct jobs *jobs = what;
    pack_int(into, jobs->code);
    pack_int(into, (int32_t)jobs->n);
    for (size_t i = 0; i < jobs->n; i++)
        job_write(into, jobs->at[i], jobs->keeps);
    pack_text(into, jobs->cursor ? jobs->cursor : "", jobs->cursor ? strlen(jobs->cursor) : 0);
}

/* Returns the answer and frees the jobs that Java does not keep. */
static jbyteArray jobs_answer(JNIEnv *env, const struct jobs *jobs)
{
    jbyteArray out = answer(env, jobs_write, jobs);
    for (size_t i = 0; i < jobs->n; i++)
        if (!out || !jobs->keeps)
            tarry_job_free(jobs->at[i]);
    return out;
}

/* Returns taken jobs to the queue if Java has no memory for them; their attempts do not count. */
static void jobs_return(struct handle *handle, const struct jobs *jobs)
{
    if (!handle_enter(handle))
        return;
    for (size_t i = 0; i < jobs->n; i++) {
        struct tarry_answer one = TARRY_ANSWER_INIT;
        one.job = jobs->at[i];
        tarry_return(handle->queue, &one, 1, NULL);
    }
    handle_leave(handle);
}

JNIEXPORT jbyteArray JNICALL Java_io_tarry_queue_Native_take(JNIEnv *env, jclass class,
                                                             jlong handle, jbyteArray packed,
                                                             jint length, jboolean pops,
                                                             jlong wait_ms, jlong tag)
{
    const char *topics[TARRY_TAKE_TOPICS_MAX + 1];
    struct tarry_take take = TARRY_TAKE_INIT;
    tarry_job *one_job;
    struct jobs jobs = {.at = &one_job, .keeps = !pops};
    struct arguments arguments;
    size_t bytes;
    jbyteArray out = NULL;
    (void)class;
    if (!arguments_copy(env, packed, length, &arguments))
        return NULL;
    take.max = (uint32_t)unpack_int(&arguments.from);
    take.lease_ms = unpack_long(&arguments.from);
    take.consumer = unpack_text(&arguments.from, &bytes);
    take.topic_count = (uint32_t)unpack_int(&arguments.from);
    take.topics = topics;
    take.tag = (uint64_t)tag;
    for (uint32_t i = 0; i < take.topic_count && i <= TARRY_TAKE_TOPICS_MAX; i++)
        topics[i] = unpack_text(&arguments.from, &bytes);
    if (take.max > 1)
        jobs.at = malloc(take.max * sizeof *jobs.at);
    if (jobs.at) {
        jobs.code = handle_take(handle_of(handle), &take, wait_ms, pops, jobs.at, &jobs.n);
        out = answer(env, jobs_write, &jobs);
        if (!out && jobs.keeps)
            jobs_return(handle_of(handle), &jobs);
        for (size_t i = 0; i < jobs.n; i++)
            if (!out || !jobs.keeps)
                tarry_job_free(jobs.at[i]);
    } else {
        throw_no_memory(env);
    }
    if (take.max > 1)
        free((void *)jobs.at);
    free(arguments.heap);
    return out;
}

/* The packed names of the job, or a push in their place. */
JNIEXPORT jbyteArray JNICALL Java_io_tarry_queue_Native_await(JNIEnv *env, jclass class,
                                                              jlong handle, jbyteArray packed,
                                                              jint length, jboolean pushes,
                                                              jlong wait_ms, jlong tag)
{
    struct tarry_await await = TARRY_AWAIT_INIT;
    struct tarry_push push;
    tarry_job *job;
    struct jobs jobs = {.at = &job};
    struct arguments arguments;
    size_t bytes;
    (void)class;
    if (!arguments_copy(env, packed, length, &arguments))
        return NULL;
    await.tag = (uint64_t)tag;
    if (pushes) {
        push = push_read(&arguments.from);
        await.push = &push;
    } else {
        await.topic = unpack_text(&arguments.from, &bytes);
        await.id = unpack_text(&arguments.from, &bytes);
    }
    jobs.code = handle_await(handle_of(handle), &await, wait_ms, &job);
    jobs.n = job ? 1 : 0;
    free(arguments.heap);
    return jobs_answer(env, &jobs);
}

JNIEXPORT jboolean JNICALL Java_io_tarry_queue_Native_interrupt(JNIEnv *env, jclass class,
                                                                jlong handle, jlong tag)
{
    (void)env, (void)class;
    return handle_interrupt(handle_of(handle), (uint64_t)tag);
}

JNIEXPORT void JNICALL Java_io_tarry_queue_Native_freeJob(JNIEnv *env, jclass class, jlong job)
{
    (void)env, (void)class;
    tarry_job_free((tarry_job *)(intptr_t)job);
}

/* ---- looks ---- */

static jbyteArray get(JNIEnv *env, struct handle *handle, struct unpack *from)
{
    tarry_job *job;
    size_t bytes;
    const char *topic = unpack_text(from, &bytes), *id = unpack_text(from, &bytes);
    struct jobs jobs = {.at = &job, .code = TARRY_STOPPING};
    if (handle_enter(handle)) {
        jobs.code = tarry_get(handle->queue, topic, id, &job);
        handle_leave(handle);
    }
    jobs.n = jobs.code ? 0 : 1;
    return jobs_answer(env, &jobs);
}

static jbyteArray list(JNIEnv *env, struct handle *handle, struct unpack *from)
{
    struct tarry_list where = TARRY_LIST_INIT;
    struct jobs jobs = {.code = TARRY_STOPPING, .cursor = where.cursor};
    size_t bytes;
    where.topic = unpack_text(from, &bytes);
    where.state = unpack_int(from);
    where.limit = (uint32_t)unpack_int(from);
    where.flags = (uint32_t)unpack_int(from);
    const char *cursor = unpack_text(from, &bytes);
    memcpy(where.cursor, cursor, bytes < sizeof where.cursor ? bytes : sizeof where.cursor - 1);
    jobs.at = malloc((where.limit + 1) * sizeof *jobs.at);
    if (!jobs.at) {
        throw_no_memory(env);
        return NULL;
    }
    if (handle_enter(handle)) {
        jobs.code = tarry_list(handle->queue, &where, jobs.at, &jobs.n);
        handle_leave(handle);
    }
    jbyteArray out = jobs_answer(env, &jobs);
    free((void *)jobs.at);
    return out;
}

static jbyteArray members(JNIEnv *env, struct handle *handle, struct unpack *from)
{
    struct tarry_members where = TARRY_MEMBERS_INIT;
    struct jobs jobs = {.code = TARRY_STOPPING, .cursor = where.cursor};
    size_t bytes;
    where.topic = unpack_text(from, &bytes);
    where.id = unpack_text(from, &bytes);
    where.outcome = unpack_int(from);
    where.limit = (uint32_t)unpack_int(from);
    where.flags = (uint32_t)unpack_int(from);
    const char *cursor = unpack_text(from, &bytes);
    memcpy(where.cursor, cursor, bytes < sizeof where.cursor ? bytes : sizeof where.cursor - 1);
    jobs.at = malloc((where.limit + 1) * sizeof *jobs.at);
    if (!jobs.at) {
        throw_no_memory(env);
        return NULL;
    }
    if (handle_enter(handle)) {
        jobs.code = tarry_list_members(handle->queue, &where, jobs.at, &jobs.n);
        handle_leave(handle);
    }
    jbyteArray out = jobs_answer(env, &jobs);
    free((void *)jobs.at);
    return out;
}

/* ---- topics ---- */

struct topics {
    int code;
    uint64_t affected;
    struct tarry_settings settings;
    struct tarry_topic *at;
    size_t n;
};

static struct tarry_settings settings_read(struct unpack *from)
{
    struct tarry_settings settings = TARRY_SETTINGS_INIT;
    settings.flags = (uint32_t)unpack_int(from);
    settings.lease_ms = unpack_long(from);
    settings.ttl_ms = unpack_long(from);
    settings.max_attempts = (uint32_t)unpack_int(from);
    settings.backoff = (uint32_t)unpack_int(from);
    settings.backoff_first_ms = unpack_long(from);
    settings.backoff_max_ms = unpack_long(from);
    settings.backoff_step_count = (uint32_t)unpack_int(from);
    for (uint32_t i = 0; i < settings.backoff_step_count; i++) {
        uint32_t step_ms = (uint32_t)unpack_int(from);
        if (i < TARRY_BACKOFF_STEPS_MAX)
            settings.backoff_steps_ms[i] = step_ms;
    }
    settings.priority = unpack_int(from);
    settings.on_conflict = (uint32_t)unpack_int(from);
    settings.dedup_window_ms = unpack_long(from);
    settings.max_jobs = (uint64_t)unpack_long(from);
    settings.keep_finished_ms = unpack_long(from);
    settings.keep_finished_max = (uint64_t)unpack_long(from);
    settings.keep_finished_bytes = (uint64_t)unpack_long(from);
    return settings;
}

static void settings_write(struct pack *into, const struct tarry_settings *settings)
{
    pack_int(into, (int32_t)settings->flags);
    pack_long(into, settings->lease_ms);
    pack_long(into, settings->ttl_ms);
    pack_int(into, (int32_t)settings->max_attempts);
    pack_int(into, (int32_t)settings->backoff);
    pack_long(into, settings->backoff_first_ms);
    pack_long(into, settings->backoff_max_ms);
    pack_int(into, (int32_t)settings->backoff_step_count);
    pack_bytes(into, settings->backoff_steps_ms, settings->backoff_step_count * sizeof(uint32_t));
    pack_int(into, settings->priority);
    pack_int(into, (int32_t)settings->on_conflict);
    pack_long(into, settings->dedup_window_ms);
    pack_long(into, (int64_t)settings->max_jobs);
    pack_long(into, settings->keep_finished_ms);
    pack_long(into, (int64_t)settings->keep_finished_max);
    pack_long(into, (int64_t)settings->keep_finished_bytes);
}

static void topic_write(struct pack *into, const struct tarry_topic *topic)
{
    const uint64_t counts[] = {
        topic->delayed, topic->retrying, topic->ready,       topic->leased,
        topic->dead,    topic->pushed,   topic->replaced,    topic->delivered,
        topic->acked,   topic->nacked,   topic->lease_ended, topic->cancelled,
        topic->expired, topic->died,     topic->redriven,    topic->finished};
    pack_text(into, topic->name, strlen(topic->name));
    pack_int(into, topic->is_paused);
    pack_long(into, topic->paused_until_ms);
    pack_long(into, topic->oldest_ready_due_ms);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        pack_long(into, (int64_t)counts[i]);
}

static void topics_write(struct pack *into, const void *what)
{
    const struct topics *topics = what;
    pack_int(into, topics->code);
    pack_long(into, (int64_t)topics->affected);
    settings_write(into, &topics->settings);
    pack_int(into, (int32_t)topics->n);
    for (size_t i = 0; i < topics->n; i++)
        topic_write(into, &topics->at[i]);
}

static int topic_call(enum look look, tarry *queue, struct unpack *from, struct topics *out)
{
    size_t bytes, n = TOPICS_AT_ONCE;
    const char *topic = unpack_text(from, &bytes), *id;
    struct tarry_settings settings;
    int code;
    switch (look) {
    case TOPIC_PUT:
        settings = settings_read(from);
        return tarry_topic_put(queue, topic, &settings);
    case TOPIC_GET:
        code = tarry_topic_get(queue, topic, out->at);
        out->n = code ? 0 : 1;
        return code;
    case TOPIC_SETTINGS:
        return tarry_topic_settings(queue, topic, &out->settings);
    case TOPIC_DELETE:
        return tarry_topic_delete(queue, topic, &out->affected);
    case TOPIC_PAUSE:
        return tarry_topic_pause(queue, topic, unpack_long(from));
    case TOPIC_RESUME:
        return tarry_topic_resume(queue, topic);
    case TOPIC_PURGE:
        return tarry_topic_purge(queue, topic, unpack_int(from), &out->affected);
    case TOPIC_REDRIVE:
        id = unpack_text(from, &bytes);
        return tarry_topic_redrive(queue, topic, id, (uint64_t)unpack_long(from), &out->affected);
    default:
        code = tarry_topics(queue, topic, out->at, &n);
        out->n = code ? 0 : n;
        return code;
    }
}

static jbyteArray topics(JNIEnv *env, enum look look, struct handle *handle, struct unpack *from)
{
    struct topics found = {.code = TARRY_STOPPING, .settings = TARRY_SETTINGS_INIT};
    found.at = calloc(TOPICS_AT_ONCE, sizeof *found.at);
    if (!found.at) {
        throw_no_memory(env);
        return NULL;
    }
    found.at[0].size = sizeof *found.at;
    if (handle_enter(handle)) {
        found.code = topic_call(look, handle->queue, from, &found);
        handle_leave(handle);
    }
    jbyteArray out = answer(env, topics_write, &found);
    free(found.at);
    return out;
}

JNIEXPORT jbyteArray JNICALL Java_io_tarry_queue_Native_look(JNIEnv *env, jclass class,
                                                             jlong handle, jint look,
                                                             jbyteArray packed, jint length)
{
    struct arguments arguments;
    (void)class;
    if (!arguments_copy(env, packed, length, &arguments))
        return NULL;
    jbyteArray out = look == LOOK_GET    ? get(env, handle_of(handle), &arguments.from)
                     : look == LOOK_LIST ? list(env, handle_of(handle), &arguments.from)
                     : look == LOOK_MEMBERS
                         ? members(env, handle_of(handle), &arguments.from)
                         : topics(env, (enum look)look, handle_of(handle), &arguments.from);
    free(arguments.heap);
    return out;
}

/* ---- the queue ---- */

struct opened {
    int code;
    struct handle *handle;
    char error[ERROR_BYTES];
};

static void opened_write(struct pack *into, const void *what)
{
    const struct opened *opened = what;
    pack_int(into, opened->code);
    pack_long(into, (int64_t)(intptr_t)opened->handle);
    pack_text(into, opened->error, strlen(opened->error));
}

JNIEXPORT jbyteArray JNICALL Java_io_tarry_queue_Native_open(JNIEnv *env, jclass class,
                                                             jbyteArray packed, jint length)
{
    struct tarry_options options = TARRY_OPTIONS_INIT;
    struct opened opened = {0};
    struct arguments arguments;
    size_t bytes;
    (void)class;
    if (!arguments_copy(env, packed, length, &arguments))
        return NULL;
    options.flags = (uint32_t)unpack_int(&arguments.from);
    options.memory_max = (uint64_t)unpack_long(&arguments.from);
    options.body_max = (uint64_t)unpack_long(&arguments.from);
    options.topics_max = (uint32_t)unpack_int(&arguments.from);
    options.test_clock_ms = unpack_long(&arguments.from);
    options.dir = unpack_text(&arguments.from, &bytes);
    options.sync = (uint32_t)unpack_int(&arguments.from);
    options.sync_interval_ms = unpack_long(&arguments.from);
    options.shards = (uint32_t)unpack_int(&arguments.from);
    opened.code = handle_open(&options, &opened.handle, opened.error, sizeof opened.error);
    free(arguments.heap);
    jbyteArray out = answer(env, opened_write, &opened);
    if (!out)
        handle_free(opened.handle);
    return out;
}

JNIEXPORT jint JNICALL Java_io_tarry_queue_Native_close(JNIEnv *env, jclass class, jlong handle)
{
    (void)env, (void)class;
    return handle_close(handle_of(handle));
}

JNIEXPORT void JNICALL Java_io_tarry_queue_Native_free(JNIEnv *env, jclass class, jlong handle)
{
    (void)env, (void)class;
    handle_free(handle_of(handle));
}

JNIEXPORT jint JNICALL Java_io_tarry_queue_Native_advance(JNIEnv *env, jclass class, jlong handle,
                                                          jlong ms)
{
    (void)env, (void)class;
    HANDLE_CALL(handle_of(handle), tarry_advance(handle_of(handle)->queue, ms));
}

JNIEXPORT jlong JNICALL Java_io_tarry_queue_Native_nowMs(JNIEnv *env, jclass class, jlong handle)
{
    (void)env, (void)class;
    if (!handle_enter(handle_of(handle)))
        return -1;
    int64_t now_ms = tarry_now_ms(handle_of(handle)->queue);
    handle_leave(handle_of(handle));
    return now_ms;
}

JNIEXPORT jstring JNICALL Java_io_tarry_queue_Native_codeName(JNIEnv *env, jclass class, jint code)
{
    (void)class;
    return (*env)->NewStringUTF(env, tarry_code_name(code));
}

JNIEXPORT jstring JNICALL Java_io_tarry_queue_Native_sentence(JNIEnv *env, jclass class, jint code)
{
    (void)class;
    return (*env)->NewStringUTF(env, tarry_strerror(code));
}
