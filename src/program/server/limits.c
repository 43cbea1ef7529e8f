#include "server/limits.h"

#include "audit/audit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"

#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LIMITS_CALM = 5 };

/* ---- machine ---- */

enum { LINE_BYTES = PATH_MAX + 64 };

/* Returns the smaller limit; 0 means no limit. */
static uint64_t least(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Reads the number in a control group file. Returns 0 if the file is missing or contains "max". */
static uint64_t read_limit(const char *path)
{
    char line[64] = "";
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (!fgets(line, sizeof line, file))
        line[0] = '\0';
    fclose(file);
    return strtoull(line, NULL, 10);
}

/* Returns the lowest limit of the group and its ancestors. In a container, the group may have its
 * name on the host, of which only the root exists here. */
static uint64_t group_limit(const char *top, const char *group, const char *file)
{
    char path[LINE_BYTES * 2], name[LINE_BYTES];
    uint64_t limit = 0;
    snprintf(name, sizeof name, "%s", group);
    for (;;) {
        snprintf(path, sizeof path, "%s%s/%s", top, name, file);
        limit = least(limit, read_limit(path));
        char *slash = strrchr(name, '/');
        if (!slash)
            return limit;
        *slash = '\0';
    }
}

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, word, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

/* Returns the limit of a line of /proc/self/cgroup: NUMBER:CONTROLLERS:GROUP. CONTROLLERS is empty
 * for version 2. */
static uint64_t line_limit(const char *root, char *line)
{
    char top[PATH_MAX];
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
        return 0;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (controllers[1] == '\0') {
        snprintf(top, sizeof top, "%s/sys/fs/cgroup", root);
        return group_limit(top, group, "memory.max");
    }
    if (!has_word(controllers + 1, "memory"))
        return 0;
    snprintf(top, sizeof top, "%s/sys/fs/cgroup/memory", root);
    return group_limit(top, group, "memory.limit_in_bytes");
}

static uint64_t groups_limit(const char *root)
{
    char line[LINE_BYTES];
    uint64_t limit = 0;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        limit = least(limit, line_limit(root, line));
    fclose(file);
    return limit;
}

static uint64_t physical_bytes(const char *root)
{
    char line[LINE_BYTES];
    unsigned long long kib = 0;
    snprintf(line, sizeof line, "%s/proc/meminfo", root);
    FILE *file = fopen(line, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemTotal: %llu kB", &kib) == 1)
            break;
    fclose(file);
    return (uint64_t)kib * 1024;
}

uint64_t machine_memory_bytes(const char *root)
{
    struct rlimit space;
    uint64_t bytes = least(physical_bytes(root), groups_limit(root));
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        bytes = least(bytes, space.rlim_cur);
    return bytes;
}

/* ---- limits ---- */

enum {
    PERIOD_MS = 100,
    LOOK_MS = 1000, /* interval of counting the callers' jobs */
    TRIM_MS = 2000, /* interval of returning memory to the system */
    PAGE_TOPICS = 1000
};

/* ---- memory ---- */

/* Returns the private memory of the process, except for reusable space in the store's index; 0 if
 * unknown. */
static uint64_t own_bytes(const struct limits *limits)
{
    char text[128];
    unsigned long long total, resident, shared;
    ssize_t got = limits->statm >= 0 ? pread(limits->statm, text, sizeof text - 1, 0) : -1;
    if (got <= 0)
        return 0;
    text[got] = '\0';
    if (sscanf(text, "%llu %llu %llu", &total, &resident, &shared) != 3 || resident < shared)
        return 0;
    struct queue_info info = {0};
    uint64_t bytes = (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (bytes >= limits->memory_bytes_max / 100 * (100 - LIMITS_CALM))
        queue_info(limits->queue, &info);
    return bytes > info.spare_bytes ? bytes - info.spare_bytes : bytes;
}

static void log_memory(const struct limits *limits, const char *event, uint64_t bytes)
{
    log_event(limits->is_spent ? LOG_WARN : LOG_INFO, event, LOG_NUMBER("bytes", bytes),
              LOG_NUMBER("max_bytes", limits->memory_bytes_max));
}

static void look_at_memory(struct limits *limits, int64_t now_ms)
{
    uint64_t bytes = own_bytes(limits), max = limits->memory_bytes_max;
    uint64_t calm = max / 100 * (100 - LIMITS_CALM);
    if (max && bytes > calm && now_ms - limits->trimmed_ms >= TRIM_MS &&
        (limits->is_spent || bytes >= max)) {
        limits->trimmed_ms = now_ms;
        (void)malloc_trim(0);
        bytes = own_bytes(limits);
    }
    if (max && !limits->is_spent && bytes >= max) {
        limits->is_spent = true;
        log_memory(limits, "memory is almost used up, pushes are rejected", bytes);
    } else if (limits->is_spent && bytes < calm) {
        limits->is_spent = false;
        log_memory(limits, "memory is available again, pushes are accepted", bytes);
    }
    http_shared_note_memory(limits->http, bytes, limits->is_spent);
    quota_note_memory(limits->quota, limits->is_spent, max);
}

/* ---- jobs of callers with a job limit ---- */

static void on_looked(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct limits *limits = owner;
    (void)tag;
    for (size_t i = 0; i < reply->topic_count; i++)
        quota_look_topic(limits->quota, reply->topics[i].name,
                         queue_counts_jobs(&reply->topics[i].counts));
    quota_look_end(limits->quota, reply->status == QUEUE_OK);
    limits->is_looking = false;
}

static void look_at_jobs(struct limits *limits, int64_t now_ms)
{
    if (limits->is_looking || now_ms - limits->looked_ms < LOOK_MS ||
        !quota_wants_look(limits->quota))
        return;
    limits->looked_ms = now_ms;
    limits->is_looking = true;
    quota_look_begin(limits->quota);
    queue_topics(limits->queue, (struct queue_reply_to){.done = on_looked, .owner = limits});
}

/* ---- topics with a push_rate ---- */

static void follow_page(struct limits *limits);
static void follow_all(struct limits *limits);

/* Handles a page of topics. A store may return all topics regardless of the request, so the end is
 * a page with nothing new. */
static void on_page(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct limits *limits = owner;
    struct slice after = slice_make(limits->after, limits->after_len), last = {0};
    (void)tag;
    for (size_t i = 0; i < reply->topic_count; i++)
        quota_topic_set(limits->quota, reply->topics[i].name, reply->topics[i].settings.push_rate);
    if (reply->topic_count)
        last = reply->topics[reply->topic_count - 1].name;
    limits->is_following = reply->topic_count == PAGE_TOPICS && !limits->is_stopped &&
                           last.len <= sizeof limits->after && slice_compare(last, after) > 0;
    if (limits->is_following) {
        memcpy(limits->after, last.at, last.len);
        limits->after_len = last.len;
        follow_page(limits);
    } else if (limits->wants_again && !limits->is_stopped) {
        follow_all(limits);
    }
}

static void follow_page(struct limits *limits)
{
    const struct queue_topics_page page = {.after = slice_make(limits->after, limits->after_len),
                                           .limit = PAGE_TOPICS};
    queue_topics_page(limits->queue, page,
                      (struct queue_reply_to){.done = on_page, .owner = limits});
}

/* Reads all topics, starting with the first. */
static void follow_all(struct limits *limits)
{
    limits->wants_again = limits->is_following;
    if (limits->is_following)
        return;
    limits->is_following = true;
    limits->after_len = 0;
    follow_page(limits);
}

/* A topic whose settings are requested. */
struct asked {
    struct limits *limits;
    size_t len;
    char name[JOB_TOPIC_BYTES_MAX];
};

static void on_topic(void *owner, uint64_t tag, const struct queue_reply *reply)
{
    struct asked *asked = owner;
    struct frequency rate = {0};
    (void)tag;
    if (reply->status == QUEUE_OK && reply->topic_count)
        rate = reply->topics[0].settings.push_rate;
    if (reply->status == QUEUE_OK || reply->status == QUEUE_NOT_FOUND)
        quota_topic_set(asked->limits->quota, slice_make(asked->name, asked->len), rate);
    free(asked);
}

static void follow_topic(struct limits *limits, struct slice name)
{
    struct asked *asked = malloc(sizeof *asked);
    if (!asked || name.len > sizeof asked->name) {
        free(asked);
        return;
    }
    asked->limits = limits;
    asked->len = name.len;
    memcpy(asked->name, name.at, name.len);
    const struct queue_topic_call call = {.verb = QUEUE_TOPIC_GET, .topic = name};
    queue_topic(limits->queue, &call, (struct queue_reply_to){.done = on_topic, .owner = asked});
}

static void on_event(void *owner, enum queue_event event, struct slice topic)
{
    struct limits *limits = owner;
    if (event == QUEUE_EVENT_TOPIC && !limits->is_stopped && topic.len)
        follow_topic(limits, topic);
    else if (event == QUEUE_EVENT_TOPIC && !limits->is_stopped)
        follow_all(limits);
    if (limits->on_event)
        limits->on_event(limits->on_event_owner, event, topic);
}

/* ---- life ---- */

/* Restarts the periodic checks on the first reactor's thread. */
static void run_woken(struct letter *letter)
{
    struct limits *limits =
        (struct limits *)(void *)((char *)letter - offsetof(struct limits, woken));
    deadline_set(limits->alarm, clock_inner_ms() + PERIOD_MS);
}

/* Wakes the periodic checks; called on the thread of the front that received bytes. */
static void wake(void *ctx)
{
    struct limits *limits = ctx;
    reactor_post(limits->reactor, &limits->woken);
}

/* Stops the periodic checks until new bytes arrive, if no bytes arrived since the last check and
 * memory is not short; otherwise continues them. */
static void fall_asleep_or_go_on(struct limits *limits, int64_t now_ms)
{
    uint64_t came = http_shared_bytes_in(limits->http);
    bool is_idle = came == limits->came;
    limits->came = came;
    if (!is_idle)
        limits->busy_ms = now_ms;
    if (limits->is_spent || limits->never_sleeps || limits->has_left_out || !is_idle ||
        limits->audited_ms <= limits->busy_ms) {
        deadline_set(limits->alarm, now_ms + PERIOD_MS);
        return;
    }
    limits->woken.run = run_woken;
    http_shared_wake_once(limits->http, wake, limits);
}

/* Writes the number of omitted audit events once a second, and before the checks stop. */
static void look_at_audit(struct limits *limits, int64_t now_ms)
{
    if (now_ms - limits->audited_ms < LOOK_MS)
        return;
    limits->audited_ms = now_ms;
    limits->has_left_out = audit_log_left_out();
}

static void on_alarm(void *ctx)
{
    struct limits *limits = ctx;
    int64_t now_ms = clock_inner_ms();
    look_at_memory(limits, now_ms);
    look_at_jobs(limits, now_ms);
    look_at_audit(limits, now_ms);
    if (limits->on_look)
        limits->on_look(limits->on_look_ctx);
    fall_asleep_or_go_on(limits, now_ms);
}

static uint32_t half_unless(uint32_t given, uint32_t all)
{
    return given ? given : (all + 1) / 2;
}

bool limits_open(struct limits *limits, const struct config *config)
{
    uint64_t eighty = machine_memory_bytes("") / 5 * 4;
    const struct quota_options options = {
        .address_rate = config->address_rate,
        .address_connections = half_unless(config->address_connections, config->max_connections),
        .address_waiting = half_unless(config->address_waiting, config->max_waiting),
        .are_local_connections_free = !config->address_connections,
        .are_local_waits_free = !config->address_waiting,
        .topics = config->max_topics,
        .seed = random_u64(),
    };
    *limits = (struct limits){.statm = -1,
                              .never_sleeps = config->amqp_in[0] || config->kafka_in[0] ||
                                              config->beanstalk[0]};
    limits->memory_bytes_max =
        config->max_memory_bytes ? (uint64_t)config->max_memory_bytes : eighty;
    limits->quota = quota_new(&options);
    return limits->quota;
}

bool limits_attach(struct limits *limits, struct http_shared *http, struct queue *queue,
                   struct reactor *reactor)
{
    limits->http = http;
    limits->queue = queue;
    limits->reactor = reactor;
    limits->alarm = deadline_new(reactor, on_alarm, limits);
    limits->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    limits->on_event = queue->on_event;
    limits->on_event_owner = queue->on_event_owner;
    queue->on_event = on_event;
    queue->on_event_owner = limits;
    http_shared_set_process_memory(http, limits->memory_bytes_max);
    return limits->alarm;
}

void limits_start(struct limits *limits)
{
    follow_all(limits);
    deadline_set(limits->alarm, clock_inner_ms() + PERIOD_MS);
}

void limits_close(struct limits *limits)
{
    limits->is_stopped = true;
    deadline_free(limits->alarm);
    if (limits->statm > 0)
        (void)close(limits->statm);
    quota_free(limits->quota);
    limits->quota = NULL;
}
