/* Pages, on kernels whose pages have 4, 16 and 64 KiB: calls of the kernel are as strict here as there. */
#include "base/pages.h"

#include "unit/claim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE_BYTES = 2 << 20, ROUNDS = 20 };

static size_t page_bytes;

static size_t whole_pages(size_t bytes)
{
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

static bool is_page(const void *at)
{
    return (uintptr_t)at % page_bytes == 0;
}

static long strict_sysconf(int name)
{
    return name == _SC_PAGESIZE ? (long)page_bytes : sysconf(name);
}

/* Maps whole pages at a multiple of their size. */
static void *strict_mmap(void *hint, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    bytes = whole_pages(bytes);
    char *at = mmap(hint, bytes + page_bytes, prot, flags, fd, offset);
    assert_ptr_not_equal(at, MAP_FAILED);
    size_t before = (page_bytes - (uintptr_t)at % page_bytes) % page_bytes;
    if (before)
        munmap(at, before);
    munmap(at + before + bytes, page_bytes - before);
    return at + before;
}

static int strict_munmap(void *at, size_t bytes)
{
    if (is_page(at))
        return munmap(at, whole_pages(bytes));
    errno = EINVAL;
    return -1;
}

static int strict_madvise(void *at, size_t bytes, int advice)
{
    if (is_page(at))
        return madvise(at, whole_pages(bytes), advice);
    errno = EINVAL;
    return -1;
}

#define sysconf strict_sysconf
#define mmap strict_mmap
#define munmap strict_munmap
#define madvise strict_madvise
#include "base/pages.c"
#undef sysconf
#undef mmap
#undef munmap
#undef madvise

static const size_t sizes[] = {1,
                               4096,
                               4097,
                               3 * 4096,
                               65536,
                               HUGE_PAGE_BYTES - 1,
                               HUGE_PAGE_BYTES + 4096,
                               3 * HUGE_PAGE_BYTES + 5000};

/* Returns the size of everything that this process has mapped. */
static uint64_t mapped_bytes(void)
{
    uint64_t bytes = 0, start, end;
    char line[512];
    FILE *file = fopen("/proc/self/maps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2)
            bytes += end - start;
    fclose(file);
    return bytes;
}

static void take_and_give(void)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int huge = 0; huge < 2; huge++) {
            char *at = pages_take(sizes[i], huge);
            assert_non_null(at);
            at[0] = at[sizes[i] - 1] = 1;
            pages_give(at, sizes[i], huge);
        }
}

static void gives_all_back(void)
{
    take_and_give();
    uint64_t before = mapped_bytes();
    for (int round = 0; round < ROUNDS; round++)
        take_and_give();
    assert_in_range(mapped_bytes(), 0, before + HUGE_PAGE_BYTES);
}

static void forgets_its_own(void)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *first = pages_take(sizes[i], false), *second = pages_take(sizes[i], true);
        assert_non_null(first);
        assert_non_null(second);
        memset(first, 1, sizes[i]);
        memset(second, 2, sizes[i]);
        pages_forget(first, sizes[i]);
        for (size_t at = 0; at < sizes[i]; at += 509 < sizes[i] - at ? 509 : 1) {
            assert_int_equal(first[at], 0);
            assert_int_equal(second[at], 2);
        }
        pages_give(first, sizes[i], false);
        pages_give(second, sizes[i], true);
    }
}

static void aligns_huge(void)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *at = pages_take(sizes[i], true);
        assert_non_null(at);
        assert_int_equal((uintptr_t)at % HUGE_PAGE_BYTES, 0);
        pages_give(at, sizes[i], true);
    }
}

/* Runs a check with each size of pages. */
static void with_all_pages(void (*check)(void))
{
    for (page_bytes = 4096; page_bytes <= 65536; page_bytes *= 4)
        check();
}

CLAIM(gives_back_everything_that_it_took)
{
    with_all_pages(gives_all_back);
}

CLAIM(forgets_its_own_bytes_and_no_others)
{
    with_all_pages(forgets_its_own);
}

CLAIM(aligns_huge_pages)
{
    with_all_pages(aligns_huge);
}

CLAIMS_MAIN(NULL, NULL)
