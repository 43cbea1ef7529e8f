/* stand_before: functions of a test that replace those of the system, for the whole program. */
#ifndef TARRY_TESTS_STAND_BEFORE_H
#define TARRY_TESTS_STAND_BEFORE_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

/* Returns the function of the system. */
static inline void *real(const char *name)
{
    void *at = dlsym(RTLD_NEXT, name);

    if (!at)
        abort();
    return at;
}

/* Replaces NAME: it returns FAILED if FAILS is true, else it calls the system's. */
#define STANDS_BEFORE(NAME, RESULT, FAILED, FAILS, TAKES, GIVES)                                   \
    RESULT standing_##NAME TAKES __asm__(#NAME);                                                   \
    RESULT standing_##NAME TAKES                                                                   \
    {                                                                                              \
        static RESULT(*next) TAKES;                                                                \
        if (!next)                                                                                 \
            *(void **)&next = real(#NAME);                                                         \
        return FAILS ? FAILED : next GIVES;                                                        \
    }

/* Replaces the allocation of a program that is linked for it (tests/CMakeLists.txt): without memory if FAILS is true. */
#define STANDS_BEFORE_MEMORY(FAILS)                                                                \
    void *__real_malloc(size_t bytes);                                                             \
    void *__real_calloc(size_t count, size_t bytes);                                               \
    void *__real_realloc(void *at, size_t bytes);                                                  \
    void *__wrap_malloc(size_t bytes);                                                             \
    void *__wrap_calloc(size_t count, size_t bytes);                                               \
    void *__wrap_realloc(void *at, size_t bytes);                                                  \
    void *__wrap_malloc(size_t bytes)                                                              \
    {                                                                                              \
        return FAILS ? NULL : __real_malloc(bytes);                                                \
    }                                                                                              \
    void *__wrap_calloc(size_t count, size_t bytes)                                                \
    {                                                                                              \
        return FAILS ? NULL : __real_calloc(count, bytes);                                         \
    }                                                                                              \
    void *__wrap_realloc(void *at, size_t bytes)                                                   \
    {                                                                                              \
        return FAILS ? NULL : __real_realloc(at, bytes);                                           \
    }

#endif
