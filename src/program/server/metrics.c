#include "server/metrics.h"

#include "access/access.h"
#include "access/quota.h"
#include "api/consumers.h"
#include "audit/audit.h"
#include "http/front.h"
#include "intake/intake.h"
#include "net/reactor.h"
#include "queue/lateness.h"
#include "server/backend.h"
#include "server/certificates.h"
#include "server/delivery.h"
#include "server/process.h"
#include "server/schedules.h"
#include "trace/tracer.h"

#include <assert.h>

size_t server_metric_tables(struct metric_table tables[SERVER_METRIC_TABLES_MAX])
{
    const struct metric_table all[] = {
        {"Topics and jobs", monitor_topic_metrics},
        {"Deliveries in time", lateness_metrics},
        {"Consumers", api_consumers_metrics},
        {"The store", monitor_store_metrics},
        {"The embedded store", backend_embedded.metrics},
        {"Redis", backend_redis.metrics},
        {"PostgreSQL", backend_sql.metrics},
        {"Requests and connections", monitor_metrics},
        {"Callers", access_metrics},
        {"Limits", quota_metrics},
        delivery_metrics,
        delivery_dead_metrics,
        schedules_metrics,
        {"Jobs from RabbitMQ", intake_metrics(&intake_amqp)},
        {"Jobs from Kafka", intake_metrics(&intake_kafka)},
        {"TLS", certificates_metrics},
        {"Traces", tracer_metrics},
        {"The audit", audit_metrics},
        {"The server", monitor_server_metrics},
        {"Its loops", reactor_metrics},
        {"The process", process_metrics},
    };
    size_t count = 0;
    static_assert(sizeof all / sizeof all[0] <= SERVER_METRIC_TABLES_MAX, "there is room");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].rows)
            tables[count++] = all[i];
    return count;
}
