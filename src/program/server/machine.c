#include "server/machine.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

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
