/*
 * metrics: the metric tables of all rooms in page order. `tarry help metrics` and docs/metrics.md
 * are generated from them.
 */
#ifndef TARRY_SERVER_METRICS_H
#define TARRY_SERVER_METRICS_H

#include "base/metric.h"

enum { SERVER_METRIC_TABLES_MAX = 32 };

/* Collects the tables of this build; those of parts that are not built are left out. Returns their
 * number. */
size_t server_metric_tables(struct metric_table tables[SERVER_METRIC_TABLES_MAX]);

#endif
