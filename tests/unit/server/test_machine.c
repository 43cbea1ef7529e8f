#include "server/limits.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GIB (UINT64_C(1) << 30)

static char root[64];

/* Writes a file, and makes its parent directories. */
static void write_file(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        (void)mkdir(whole, 0700);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

CLAIM(the_least_limit_counts)
{
    static const struct {
        const char *groups, *file, *content, *above, *above_content;
        uint64_t bytes;
        const char *sentence;
    } rows[] = {
        {"0::/\n", NULL, NULL, NULL, NULL, 8 * GIB, "no limit"},
        {"0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max", "max\n", NULL, NULL, 8 * GIB, "max is none"},
        {"0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max", "1073741824\n", NULL, NULL, GIB, "its own"},
        {"0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max", "2147483648\n",
         "/sys/fs/cgroup/a/memory.max", "1073741824\n", GIB, "of a group above"},
        {"0::/not/seen/here\n", "/sys/fs/cgroup/memory.max", "1073741824\n", NULL, NULL, GIB,
         "a container, whose group has another name outside"},
        {"3:cpu:/x\n2:hugetlb,memory:/d\n", "/sys/fs/cgroup/memory/d/memory.limit_in_bytes",
         "1073741824\n", NULL, NULL, GIB, "version 1"},
        {"2:memory:/d\n", "/sys/fs/cgroup/memory/d/memory.limit_in_bytes", "9223372036854771712\n",
         NULL, NULL, 8 * GIB, "version 1 without a limit"},
        {"2:memory_other:/d\n", "/sys/fs/cgroup/memory/d/memory.limit_in_bytes", "1073741824\n",
         NULL, NULL, 8 * GIB, "another controller"},
        {"nonsense\n", NULL, NULL, NULL, NULL, 8 * GIB, "nothing to be understood"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char command[128];
        strcpy(root, "/tmp/tarry-machine-XXXXXX");
        assert_non_null(mkdtemp(root));
        write_file("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");
        write_file("/proc/self/cgroup", rows[i].groups);
        if (rows[i].file)
            write_file(rows[i].file, rows[i].content);
        if (rows[i].above)
            write_file(rows[i].above, rows[i].above_content);
        uint64_t bytes = machine_memory_bytes(root);
        if (bytes != rows[i].bytes)
            fail_msg("%s: %llu", rows[i].sentence, (unsigned long long)bytes);
        snprintf(command, sizeof command, "rm -r %s", root);
        assert_int_equal(system(command), 0);
    }
}

CLAIM(an_unreadable_machine_has_zeros)
{
    assert_int_equal(machine_memory_bytes("/nonexistent"), 0);
    assert_true(machine_memory_bytes("") > 0);
}

CLAIMS_MAIN(NULL, NULL)
