#include "server/issuer_keys.h"

#include "server/config.h"

#include "access/jwt_keys.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/url.h"

#include <curl/curl.h>
#include <errno.h>

enum {
    AGAIN_MS = 10 * 60 * 1000,
    AGAIN_FAILED_MS = 60 * 1000,
    AGAIN_NEVER_HAD_MS = 5 * 1000,
    WISH_MS = 60 * 1000,
    CONNECT_MS = 5 * 1000,
    ALL_MS = 10 * 1000
};

static bool is_this_machine(const struct url_host *host)
{
    return slice_is(host->name, "localhost") || slice_is(host->name, "127.0.0.1") ||
           (host->is_ipv6 && slice_is(host->name, "::1"));
}

/* Checks that the URL is https, or http to this machine. Returns false with `error`. */
static bool issuer_keys_check_url(const char *text, char *error, size_t error_bytes)
{
    struct url url;
    enum url_fault fault = url_parse(slice_of(text), &url);
    if (fault != URL_OK)
        return error_text(error, error_bytes, "bad '--jwt-keys', %s", url_fault_text(fault));
    if (url.host_count != 1 || url.has_user)
        return error_text(error, error_bytes,
                          "bad '--jwt-keys', give a URL of one host, without a user");
    if (url_scheme_is(&url, "https") ||
        (url_scheme_is(&url, "http") && is_this_machine(&url.hosts[0])))
        return true;
    return error_text(error, error_bytes,
                      "bad '--jwt-keys', keys without https:// could be forged, give https:// "
                      "(http:// only for localhost)");
}

/* ---- on the fetch's thread ---- */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    struct buffer *text = ctx;
    buffer_append(text, bytes, size * count);
    return text->failed ? 0 : size * count;
}

static int on_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct fetch *fetch = ctx;
    (void)a, (void)b, (void)c, (void)d;
    return atomic_load(&fetch->is_ending);
}

static void set_up(CURL *curl, const struct issuer_keys *keys, struct fetch *fetch)
{
    curl_easy_setopt(curl, CURLOPT_URL, keys->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)ALL_MS);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "tarry/" TARRY_VERSION);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &fetch->text);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, fetch);
    if (keys->ca_file[0])
        curl_easy_setopt(curl, CURLOPT_CAINFO, keys->ca_file);
}

static int get(void *ctx, struct fetch *fetch)
{
    const struct issuer_keys *keys = ctx;
    CURL *curl = curl_easy_init();
    long status = 0;
    if (!curl)
        return error_result(-ENOMEM, fetch->error, sizeof fetch->error, "out of memory");
    set_up(curl, keys, fetch);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    if (code != CURLE_OK)
        return error_result(-EIO, fetch->error, sizeof fetch->error,
                            "cannot fetch the keys of '%.200s', %s", keys->url,
                            fetch->text.failed ? "they are too large" : curl_easy_strerror(code));
    if (status != 200)
        return error_result(-EIO, fetch->error, sizeof fetch->error,
                            "cannot fetch the keys of '%.200s', the answer is %ld", keys->url,
                            status);
    return 0;
}

/* ---- on the reactor's thread ---- */

static void got(void *ctx, struct fetch *fetch)
{
    struct issuer_keys *keys = ctx;
    bool ok = fetch->result == 0;
    keys->has_keys = keys->has_keys || ok;
    keys->next_ms = clock_inner_ms() + (ok               ? AGAIN_MS
                                        : keys->has_keys ? AGAIN_FAILED_MS
                                                         : AGAIN_NEVER_HAD_MS);
    keys->got(keys->ctx, buffer_slice(&fetch->text), keys->url, ok ? NULL : fetch->error);
}

bool issuer_keys_open(struct issuer_keys *keys, struct reactor *reactor, const char *url,
                      const char *ca_file)
{
    keys->url = url;
    keys->ca_file = ca_file;
    keys->wished_ms = INT64_MIN / 2;
    keys->fetch = (struct fetch){.get = get, .got = got, .ctx = keys};
    return fetch_open(&keys->fetch, reactor, "issuer-keys", JWT_KEYS_BYTES_MAX);
}

void issuer_keys_look(struct issuer_keys *keys, bool is_wished)
{
    int64_t now_ms = clock_inner_ms();
    bool is_granted = is_wished && now_ms - keys->wished_ms >= WISH_MS;
    if (now_ms < keys->next_ms && !is_granted)
        return;
    if (is_granted)
        keys->wished_ms = now_ms;
    keys->next_ms = INT64_MAX; /* until this fetch completes */
    fetch_begin(&keys->fetch);
}

void issuer_keys_ask_again(struct issuer_keys *keys)
{
    keys->next_ms = 0;
}

void issuer_keys_close(struct issuer_keys *keys)
{
    fetch_close(&keys->fetch);
}

/* ---- config jwt ---- */

bool config_jwt_keys_are_remote(const struct config *config)
{
    return strstr(config->jwt_keys, "://");
}

bool config_jwt_check(const struct config *config, char *error)
{
    bool has_issuer = config->jwt_issuer[0];
    if (!has_issuer && (config->jwt_audience[0] || config->jwt_keys[0] || config->jwt_ca[0]))
        return error_text(error, CONFIG_ERROR_BYTES, "'%s' is for JWTs, also give --jwt-issuer",
                          config->jwt_audience[0] ? "--jwt-audience"
                          : config->jwt_keys[0]   ? "--jwt-keys"
                                                  : "--jwt-ca");
    if (has_issuer && (!config->jwt_audience[0] || !config->jwt_keys[0]))
        return error_text(error, CONFIG_ERROR_BYTES,
                          "'--jwt-issuer' without '%s', give --jwt-audience and --jwt-keys: the "
                          "audience of tokens, and the keys that sign them",
                          config->jwt_audience[0] ? "--jwt-keys" : "--jwt-audience");
    if (!config->jwt_scope_claim[0] || !config->jwt_topics_claim[0])
        return error_text(error, CONFIG_ERROR_BYTES, "'%s' is empty, give the name of a claim",
                          config->jwt_scope_claim[0] ? "--jwt-topics-claim" : "--jwt-scope-claim");
    return !config_jwt_keys_are_remote(config) ||
           issuer_keys_check_url(config->jwt_keys, error, CONFIG_ERROR_BYTES);
}
