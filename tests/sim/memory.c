/* The allocator, which refuses on command, and the log, which is kept. */
#include "machine.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct memory_fault memory_fault;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__real_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);

static bool refuses(void)
{
    if (!memory_fault.counts)
        return false;
    memory_fault.allocations++;
    if (!memory_fault.fail_at || memory_fault.allocations < memory_fault.fail_at ||
        (!memory_fault.for_ever && memory_fault.allocations > memory_fault.fail_at))
        return false;
    memory_fault.failed++;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t bytes)
{
    return refuses() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return refuses() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return refuses() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return refuses() ? NULL : __real_aligned_alloc(alignment, bytes);
}

void *__wrap_mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return refuses() ? MAP_FAILED : __real_mmap(at, bytes, prot, flags, fd, offset);
}

/* ---- the log ---- */

enum { LINES = 24, LINE_BYTES = 400 };
static char lines[LINES][LINE_BYTES];
static uint32_t line_count;

void __wrap_log_fields(enum log_level level, const char *event, const struct log_field *fields);

void __wrap_log_fields(enum log_level level, const char *event, const struct log_field *fields)
{
    char *line = lines[line_count++ % LINES];
    int at = snprintf(line, LINE_BYTES, "%d %s", (int)level, event);

    for (; fields->key && at < LINE_BYTES; fields++)
        at += fields->text ? snprintf(line + at, (size_t)(LINE_BYTES - at), " %s=%s", fields->key,
                                      fields->text)
                           : snprintf(line + at, (size_t)(LINE_BYTES - at), " %s=%lld", fields->key,
                                      (long long)fields->number);
}

void machine_log_show(void)
{
    for (uint32_t i = line_count > LINES ? line_count - LINES : 0; i < line_count; i++)
        printf("  log: %s\n", lines[i % LINES]);
}

bool machine_log_has(const char *event)
{
    for (uint32_t i = line_count > LINES ? line_count - LINES : 0; i < line_count; i++)
        if (strstr(lines[i % LINES], event))
            return true;
    return false;
}

void machine_log_clear(void)
{
    line_count = 0;
}
