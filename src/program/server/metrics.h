/*
 * metrics: all rows of all rooms, in the order of the page: `tarry help metrics` and docs/metrics.md
 * are made of them.
 */
#ifndef TARRY_SERVER_METRICS_H
#define TARRY_SERVER_METRICS_H

#include "base/metric.h"

enum { SERVER_METRIC_TABLES_MAX = 32 };

/* Those of this build; one without a wing is without its rows. Returns how many. */
size_t server_metric_tables(struct metric_table tables[SERVER_METRIC_TABLES_MAX]);

#endif
