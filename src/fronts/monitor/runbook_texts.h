/* runbook_texts: the pages of docs/runbooks, embedded by cmake/embed.cmake. */
#ifndef TARRY_MONITOR_RUNBOOK_TEXTS_H
#define TARRY_MONITOR_RUNBOOK_TEXTS_H

#include <stddef.h>

#define HTTP_RUNBOOK(name)                                                                         \
    extern const char http_runbook_##name##_text[];                                                \
    extern const size_t http_runbook_##name##_bytes

HTTP_RUNBOOK(README);
HTTP_RUNBOOK(late);
HTTP_RUNBOOK(stuck);
HTTP_RUNBOOK(dead);
HTTP_RUNBOOK(full);
HTTP_RUNBOOK(redis_away);
HTTP_RUNBOOK(store);
HTTP_RUNBOOK(background);
HTTP_RUNBOOK(clock);
HTTP_RUNBOOK(certificate);
HTTP_RUNBOOK(down);

#undef HTTP_RUNBOOK

#endif
