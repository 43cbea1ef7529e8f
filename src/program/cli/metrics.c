/* Prints a metric as a row of Markdown: for `tarry help metrics`, from which docs/metrics.md is
 * made. */
#include "cli/commands.h"

#include "base/metric.h"
#include "server/metrics.h"

#include <stdio.h>

static void print_row(const struct metric *row)
{
    const char *unit = prometheus_unit(row->name);
    printf("| `%s` | %s", row->name, prometheus_type_name(row->type));
    if (unit)
        printf(", %s", unit);
    for (size_t i = 0; i < METRIC_LABELS_MAX && row->labels[i]; i++)
        printf("%s`%s`", i ? ", " : "; by ", row->labels[i]);
    printf(" | %s", row->help);
    if (row->when)
        printf(" *Only %s.*", row->when);
    printf(" | %s |\n", row->meaning);
}

void cli_print_metrics(void)
{
    struct metric_table tables[SERVER_METRIC_TABLES_MAX];
    size_t count = server_metric_tables(tables);
    for (size_t i = 0; i < count; i++) {
        printf("%s## %s\n\n", i ? "\n" : "", tables[i].title);
        puts("| metric | type | meaning | what to do |\n|---|---|---|---|");
        for (const struct metric *row = tables[i].rows; row->name; row++)
            print_row(row);
    }
}
