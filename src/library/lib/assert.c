/*
 * Failed asserts: the hook is called with the message, then the process ends. The linker redirects
 * the asserts of the whole library here (--wrap, cmake/library.cmake). Programs that link the rooms
 * directly, such as the server, use the C library's handler.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <tarry.h>

static _Atomic(tarry_assert_hook *) assert_hook;
static void *_Atomic assert_hook_ctx;

_Noreturn void __wrap___assert_fail(const char *condition, const char *file, unsigned line,
                                    const char *function);

void tarry_on_assert(tarry_assert_hook *hook, void *ctx)
{
    atomic_store(&assert_hook_ctx, ctx);
    atomic_store(&assert_hook, hook);
}

/* Reports a failed assert and ends the process. The hook is removed first, so that an assert
 * that fails inside it, or on another thread meanwhile, also ends the process. */
_Noreturn void __wrap___assert_fail(const char *condition, const char *file, unsigned line,
                                    const char *function)
{
    char text[512];
    snprintf(text, sizeof text, "%s:%u: %s: assertion '%s' failed", file, line, function,
             condition);
    tarry_assert_hook *hook = atomic_exchange(&assert_hook, NULL);
    if (hook)
        hook(atomic_load(&assert_hook_ctx), text);
    else
        fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
    abort();
}
