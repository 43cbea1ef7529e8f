#include "http/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool http_fault_set(struct http_fault *fault, enum http_problem problem, uint64_t limit,
                    const char *format, ...)
{
    va_list args;
    fault->problem = problem;
    fault->limit = limit;
    fault->challenge = NULL;
    fault->limit_name = NULL;
    fault->retry_s = 0;
    fault->refusal = 0;
    va_start(args, format);
    (void)vsnprintf(fault->detail, sizeof fault->detail, format, args);
    va_end(args);
    return false;
}

const char *http_quotable(struct slice text, size_t max)
{
    static _Thread_local char kept[4][100];
    static _Thread_local unsigned next;
    char *out = kept[next++ % 4];
    size_t len = 0;
    if (max > sizeof kept[0] - 4)
        max = sizeof kept[0] - 4;
    for (; len < text.len && len < max; len++)
        out[len] = text.at[len] >= 0x20 && text.at[len] < 0x7f ? text.at[len] : '?';
    (void)memcpy(out + len, "...", 4);
    if (len == text.len)
        out[len] = 0;
    return out;
}
