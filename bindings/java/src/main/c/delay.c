/*
 * Native methods of TarryDelayQueue: jobs without a body whose id is a number. Every call holds the lock of its Java object
 * and no call waits.
 */
#include "handle.h"

#include <io_tarry_queue_Timers.h>

enum { ID_BYTES = 8, POP_MAX = 256 };

static const char *const topics[] = {"t"};

static struct handle *handle_of(jlong handle)
{
    return (struct handle *)(intptr_t)handle;
}

/* Writes six bits a character, from '0' on: all are printable, and no id is a lone dot. */
static void id_write(char id[ID_BYTES], uint32_t number)
{
    for (int i = 0; i < ID_BYTES - 1; i++, number >>= 6)
        id[i] = (char)('0' + (number & 63));
    id[ID_BYTES - 1] = '\0';
}

static jint id_read(const char *id)
{
    uint32_t number = 0;
    for (int i = ID_BYTES - 2; i >= 0; i--)
        number = number << 6 | (uint32_t)(id[i] - '0');
    return (jint)number;
}

JNIEXPORT jlong JNICALL Java_io_tarry_queue_Timers_open(JNIEnv *env, jclass class)
{
    struct handle *handle;
    (void)env, (void)class;
    return handle_open(NULL, &handle, NULL, 0) ? 0 : (jlong)(intptr_t)handle;
}

JNIEXPORT void JNICALL Java_io_tarry_queue_Timers_free(JNIEnv *env, jclass class, jlong handle)
{
    (void)env, (void)class;
    handle_free(handle_of(handle));
}

JNIEXPORT jint JNICALL Java_io_tarry_queue_Timers_push(JNIEnv *env, jclass class, jlong handle,
                                                       jint number, jlong delay_ms)
{
    char id[ID_BYTES];
    struct tarry_push push = TARRY_PUSH_INIT;
    (void)env, (void)class;
    id_write(id, (uint32_t)number);
    push.topic = topics[0];
    push.id = id;
    push.delay_ms = delay_ms;
    return tarry_push(handle_of(handle)->queue, &push, 1, NULL);
}

JNIEXPORT jint JNICALL Java_io_tarry_queue_Timers_cancel(JNIEnv *env, jclass class, jlong handle,
                                                         jint number)
{
    char id[ID_BYTES];
    struct tarry_change change = TARRY_CHANGE_INIT;
    (void)env, (void)class;
    id_write(id, (uint32_t)number);
    change.topic = topics[0];
    change.id = id;
    return tarry_cancel(handle_of(handle)->queue, &change, 1, NULL);
}

/* The numbers of those that are due; how many, or a code below 0. */
JNIEXPORT jint JNICALL Java_io_tarry_queue_Timers_pop(JNIEnv *env, jclass class, jlong handle,
                                                      jintArray out)
{
    tarry_job *jobs[POP_MAX];
    jint numbers[POP_MAX];
    struct tarry_take take = TARRY_TAKE_INIT;
    size_t n;
    (void)class;
    take.max = (uint32_t)(*env)->GetArrayLength(env, out);
    if (take.max > POP_MAX)
        take.max = POP_MAX;
    take.topics = topics;
    take.topic_count = 1;
    int code = tarry_pop(handle_of(handle)->queue, &take, 0, jobs, &n);
    if (code)
        return -code;
    for (size_t i = 0; i < n; i++) {
        numbers[i] = id_read(tarry_job_id(jobs[i]));
        tarry_job_free(jobs[i]);
    }
    if (n)
        (*env)->SetIntArrayRegion(env, out, 0, (jsize)n, numbers);
    return (jint)n;
}

JNIEXPORT jlong JNICALL Java_io_tarry_queue_Timers_nextMs(JNIEnv *env, jclass class, jlong handle)
{
    (void)env, (void)class;
    return tarry_next_ms(handle_of(handle)->queue);
}

JNIEXPORT jint JNICALL Java_io_tarry_queue_Timers_clear(JNIEnv *env, jclass class, jlong handle)
{
    (void)env, (void)class;
    int code = tarry_topic_delete(handle_of(handle)->queue, topics[0], NULL);
    return code == TARRY_NOT_FOUND ? TARRY_OK : code;
}
