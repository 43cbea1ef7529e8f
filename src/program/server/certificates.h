/*
 * certificates: the server's TLS certificate and the CAs of client certificates, from the
 * configured files. The files are checked for changes every few seconds and on request.
 *
 * New files apply to new connections; existing connections are not affected. Invalid files are
 * logged once, and the previous content stays in force. The TLS context is recreated twice a day
 * even without changes, because session ticket keys have the same lifetime.
 *
 * Life: certificates_open before the reactors run, certificates_start when they do,
 * certificates_close after they have ended. All functions run on the first reactor's thread, except
 * certificates_emit_metrics, which any thread may call.
 */
#ifndef TARRY_SERVER_CERTIFICATES_H
#define TARRY_SERVER_CERTIFICATES_H

#include "base/metric.h"
#include "http/front.h"
#include "server/config.h"

#include <stdatomic.h>
#include <sys/stat.h>

enum { CERTIFICATES_FILES = 3 };

struct certificates { /* zeroed: closed */
    const struct config *config;
    struct http_shared *http;
    struct deadline *look; /* time of the next check; NULL if there is nothing to check */
    struct stat files[CERTIFICATES_FILES]; /* state when they were read */
    char complaint[TLS_ERROR_BYTES];       /* the last error, which is logged once */
    int64_t read_ms, warned_ms;            /* inner clock */
    _Atomic int64_t expires_s;             /* Unix time; 0 if there is no certificate */
};

/* Returns false with `error` (TLS_ERROR_BYTES), which names the problem and the remedy. */
bool certificates_open(struct certificates *certificates, const struct config *config,
                       struct http_shared *http, struct reactor *reactor, char *error);
void certificates_start(struct certificates *certificates);
/* Reads everything again and logs the result. */
void certificates_reload(struct certificates *certificates);
void certificates_close(struct certificates *certificates);
void certificates_emit_metrics(struct certificates *certificates, struct metric_page *page);
extern const struct metric certificates_metrics[];

/* Reads the configured files like a server, and discards the result. Calls `report` for each error.
 * Returns their number. */
uint32_t certificates_check(const struct config *config,
                            void (*report)(void *ctx, const char *fault), void *ctx);

#endif
