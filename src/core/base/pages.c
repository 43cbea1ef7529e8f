#include "base/pages.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)

static size_t to_unit(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Rounds up the size to whole pages, which have 4 to 64 KiB on arm64. The end gets a large page only if little of it
 * stays unused. */
static size_t round_up(size_t bytes, bool huge)
{
    size_t whole = to_unit(bytes, HUGE_BYTES);
    return huge && whole - bytes <= bytes / 8 ? whole
                                              : to_unit(bytes, (size_t)sysconf(_SC_PAGESIZE));
}

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void *pages_take(size_t bytes, bool huge)
{
    bytes = round_up(bytes, huge);
    if (!huge)
        return map(bytes);
    /* Map more than needed, then unmap the parts outside the alignment. */
    char *at = map(bytes + HUGE_BYTES);
    if (!at)
        return NULL;
    size_t before = (HUGE_BYTES - (uintptr_t)at % HUGE_BYTES) % HUGE_BYTES;
    if (before)
        munmap(at, before);
    if (before < HUGE_BYTES)
        munmap(at + before + bytes, HUGE_BYTES - before);
    madvise(at + before, bytes, MADV_HUGEPAGE); /* a hint: small pages work as well */
    return at + before;
}

void pages_give(void *pages, size_t bytes, bool huge)
{
    if (pages)
        munmap(pages, round_up(bytes, huge));
}

void pages_forget(void *pages, size_t bytes)
{
    /* This fails only for locked memory. */
    if (madvise(pages, bytes, MADV_DONTNEED) != 0)
        memset(pages, 0, bytes);
}
