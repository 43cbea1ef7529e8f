/* runbook_texts: the pages of docs/runbooks, embedded by cmake/embed.cmake. */
#ifndef TARRY_MONITOR_RUNBOOK_TEXTS_H
#define TARRY_MONITOR_RUNBOOK_TEXTS_H

#include <stddef.h>

#define MONITOR_RUNBOOK(name)                                                                      \
    extern const char monitor_runbook_##name##_text[];                                             \
    extern const size_t monitor_runbook_##name##_bytes

MONITOR_RUNBOOK(README);
MONITOR_RUNBOOK(late);
MONITOR_RUNBOOK(stuck);
MONITOR_RUNBOOK(held);
MONITOR_RUNBOOK(dead);
MONITOR_RUNBOOK(full);
MONITOR_RUNBOOK(redis_away);
MONITOR_RUNBOOK(database_away);
MONITOR_RUNBOOK(bloat);
MONITOR_RUNBOOK(store);
MONITOR_RUNBOOK(background);
MONITOR_RUNBOOK(clock);
MONITOR_RUNBOOK(certificate);
MONITOR_RUNBOOK(down);

#undef MONITOR_RUNBOOK

#endif
