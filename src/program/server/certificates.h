/*
 * certificates: what the server shows to clients by TLS, and whom it believes, as the configuration
 * names the files: looked at again every few seconds and when told to.
 *
 * New files take effect for connections that come from then on; those there are go on as they began.
 * Files that will not do are told of once, and what was read before stays in force. What is in force
 * is made anew twice a day even where nothing changed, since keys of session tickets live as long.
 *
 * Life: certificates_open before the reactors run, certificates_start when they do,
 * certificates_close after they have ended. All of it on the first reactor's thread, but for
 * certificates_emit_metrics: any.
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
    struct deadline *look;                 /* the next one; NULL: there is nothing to look at */
    struct stat files[CERTIFICATES_FILES]; /* as they were read */
    char complaint[TLS_ERROR_BYTES];       /* the last one, said once */
    int64_t read_ms, warned_ms;            /* inner clock */
    _Atomic int64_t expires_s;             /* of Unix time; 0: there are none */
};

/* False: `error` (TLS_ERROR_BYTES) says what and what to do. */
bool certificates_open(struct certificates *certificates, const struct config *config,
                       struct http_shared *http, struct reactor *reactor, char *error);
void certificates_start(struct certificates *certificates);
/* Reads all of it again, and says what became of it. */
void certificates_reload(struct certificates *certificates);
void certificates_close(struct certificates *certificates);
void certificates_emit_metrics(struct certificates *certificates, struct metric_page *page);
extern const struct metric certificates_metrics[];

/* Reads the files as a server would, and forgets them. True also where none are named. */
bool certificates_check(const struct config *config, char *error);

#endif
