#include "server/certificates.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file_mode.h"
#include "base/log.h"
#include "base/timestamp.h"
#include "base/trouble.h"
#include "http/http2.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { LOOK_MS = 2000, DAY_S = 24 * 3600, WARN_DAYS = 14, TICKETS_MS = DAY_S / 2 * 1000 };

static const char *file_at(const struct config *config, int i)
{
    const char *const files[CERTIFICATES_FILES] = {config->tls_cert, config->tls_key,
                                                   config->tls_client_ca};
    return files[i];
}

static const char *const option_names[CERTIFICATES_FILES] = {"tls-cert", "tls-key",
                                                             "tls-client-ca"};

static bool is_asked(const struct config *config)
{
    return config->tls_cert[0];
}

/* Checks the permissions of the key file. A key that all users can read is not secret, and a user
 * who can write it can impersonate the server. The owner's group may read it, because services may
 * share a key through a group. */
static bool check_key(const char *path, char *error)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return error_text(error, TLS_ERROR_BYTES, "cannot read the key '%.200s', %s", path,
                          strerror(errno));
    bool is_open = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                   file_mode_of_others(fd, info.st_mode) & (S_IRWXO | S_IWGRP);
    close(fd);
    return !is_open || error_text(error, TLS_ERROR_BYTES,
                                  "others may read the key '%.200s', run: chmod 600", path);
}

/* Loads the files. Returns NULL with `error` on failure. */
static struct tls_context *read_files(const struct config *config, char *error)
{
    bool has_ca = config->tls_client_ca[0];
    const struct tls_options options = {
        .is_server = true,
        .wants_tls_1_3 = config->tls_min == CONFIG_TLS_1_3,
        .offers_http2 = http2_is_offered(),
        .certificate_file = config->tls_cert,
        .key_file = config->tls_key,
        .ca_file = has_ca ? config->tls_client_ca : NULL,
        .client_auth =
            has_ca ? (enum tls_client_auth)(config->tls_client_auth - 1) : TLS_CLIENT_AUTH_OFF,
    };
    if (!check_key(config->tls_key, error))
        return NULL;
    return tls_context_new(&options, error, TLS_ERROR_BYTES);
}

uint32_t certificates_check(const struct config *config,
                            void (*report)(void *ctx, const char *fault), void *ctx)
{
    char error[TLS_ERROR_BYTES];
    uint32_t faults = 0;
    if (!is_asked(config))
        return 0;
    for (int i = 0; i < CERTIFICATES_FILES; i++)
        if (file_at(config, i)[0] && access(file_at(config, i), R_OK) != 0) {
            (void)error_text(error, sizeof error, "cannot read '%.200s' of '--%s', %s",
                             file_at(config, i), option_names[i], strerror(errno));
            report(ctx, error);
            faults++;
        }
    if (faults)
        return faults;
    struct tls_context *context = read_files(config, error);
    if (!context)
        report(ctx, error);
    tls_context_release(context);
    return !context;
}

static void stat_files(const struct config *config, struct stat files[CERTIFICATES_FILES])
{
    for (int i = 0; i < CERTIFICATES_FILES; i++)
        if (!file_at(config, i)[0] || stat(file_at(config, i), &files[i]) != 0)
            files[i] = (struct stat){0};
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_mode == b->st_mode;
}

static bool have_changed(const struct certificates *certificates)
{
    struct stat files[CERTIFICATES_FILES];
    stat_files(certificates->config, files);
    for (int i = 0; i < CERTIFICATES_FILES; i++)
        if (!is_same_file(&files[i], &certificates->files[i]))
            return true;
    return false;
}

/* Warns once a day when the certificate is about to expire. */
static void warn_of_end(struct certificates *certificates)
{
    int64_t left_s = certificates->expires_s - clock_wall_ms() / 1000, now_ms = clock_inner_ms();
    if (left_s >= WARN_DAYS * DAY_S ||
        (certificates->warned_ms && now_ms - certificates->warned_ms < DAY_S * 1000))
        return;
    certificates->warned_ms = now_ms;
    log_event(LOG_WARN, left_s < 0 ? "certificate expired" : "certificate expires soon",
              LOG_TEXT("file", certificates->config->tls_cert),
              LOG_NUMBER("days_left", left_s < 0 ? 0 : left_s / DAY_S));
}

/* Reads the files and applies them to new connections. */
static bool take_files(struct certificates *certificates, char *error)
{
    char ends[TIMESTAMP_BYTES + 1] = "";
    struct stat files[CERTIFICATES_FILES];
    int64_t former_s = certificates->expires_s;
    stat_files(certificates->config, files);
    /* also if they are invalid, so that the error is logged once */
    memcpy(certificates->files, files, sizeof files);
    struct tls_context *context = read_files(certificates->config, error);
    if (!context)
        return false;
    certificates->read_ms = clock_inner_ms();
    certificates->expires_s = tls_context_expires_s(context);
    http_shared_note_certificate(certificates->http, certificates->expires_s);
    http_shared_set_tls(certificates->http, context);
    tls_context_release(context);
    if (former_s != certificates->expires_s)
        certificates->warned_ms = 0;
    timestamp_write(ends, certificates->expires_s * 1000);
    log_event(LOG_INFO, "certificate read", LOG_TEXT("file", certificates->config->tls_cert),
              LOG_TEXT("expires", ends));
    warn_of_end(certificates);
    return true;
}

static void look(struct certificates *certificates, bool is_forced)
{
    char error[TLS_ERROR_BYTES] = "";
    bool is_old = clock_inner_ms() - certificates->read_ms >= TICKETS_MS;
    if (!is_forced && !is_old && !have_changed(certificates)) {
        warn_of_end(certificates);
        return;
    }
    bool is_read = take_files(certificates, error);
    trouble_note(TROUBLE_CERTIFICATE, 0, !is_read);
    if (is_read) {
        certificates->complaint[0] = '\0';
        return;
    }
    if (is_forced || strcmp(certificates->complaint, error) != 0)
        log_event(LOG_ERROR, "certificate not read", LOG_TEXT("error", error),
                  LOG_TEXT("result", "what was read before stays in force"));
    snprintf(certificates->complaint, sizeof certificates->complaint, "%s", error);
}

static void on_look(void *ctx)
{
    struct certificates *certificates = ctx;
    look(certificates, false);
    certificates_start(certificates);
}

void certificates_start(struct certificates *certificates)
{
    if (certificates->look)
        deadline_set(certificates->look, clock_inner_ms() + LOOK_MS);
}

void certificates_reload(struct certificates *certificates)
{
    if (certificates->look)
        look(certificates, true);
}

bool certificates_open(struct certificates *certificates, const struct config *config,
                       struct http_shared *http, struct reactor *reactor, char *error)
{
    *certificates = (struct certificates){.config = config, .http = http};
    if (!is_asked(config))
        return true;
    if (!take_files(certificates, error))
        return false;
    certificates->look = deadline_new(reactor, on_look, certificates);
    return certificates->look || error_text(error, TLS_ERROR_BYTES, "out of memory");
}

void certificates_close(struct certificates *certificates)
{
    deadline_free(certificates->look);
    certificates->look = NULL;
}

void certificates_emit_metrics(struct certificates *certificates, struct metric_page *page)
{
    if (!certificates->expires_s)
        return;
    metric_begin(page, &certificates_metrics[0]);
    metric_sample_time(page, NULL, certificates->expires_s, 1);
}

const struct metric certificates_metrics[] = {
    {.name = "tarry_tls_certificate_expiry_timestamp_seconds",
     .type = PROMETHEUS_GAUGE,
     .help = "Expiry of the certificate shown to clients, in seconds of Unix time.",
     .meaning = "Less than two weeks ahead of `time()`: it was not renewed. Install the new one; "
                "the server reads it automatically.",
     .when = "with `--tls-certificate`"},
    METRIC_END};
