#include "redis/tls.h"

#include <stdio.h>
#include <string.h>

/* Returns NULL if the path is empty. */
static const char *file_of(const char *path)
{
    return path[0] ? path : NULL;
}

bool redis_tls_open(struct redis_url *url, char *error, size_t error_bytes)
{
    const struct tls_options options = {.certificate_file = file_of(url->tls.certificate_file),
                                        .key_file = file_of(url->tls.key_file),
                                        .ca_file = file_of(url->tls.ca_file)};
    if (!url->tls.is_on)
        return true;
    url->tls.context = tls_context_new(&options, error, error_bytes);
    return url->tls.context != NULL;
}

void redis_tls_close(struct redis_url *url)
{
    tls_context_release(url->tls.context);
    url->tls.context = NULL;
}

struct tls_session *redis_tls_connect(const struct redis_tls *tls,
                                      const struct redis_endpoint *endpoint, struct buffer *out)
{
    return tls_session_connect(tls->context, tls->name[0] ? tls->name : endpoint->host, out);
}

void redis_tls_explain(const struct tls_session *session, char *out, size_t out_bytes)
{
    const char *why = tls_why(session), *help = "";
    if (strstr(why, "mismatch"))
        help = "; its certificate is for another name, give that as tls-name in the URL";
    else if (strstr(why, "issuer certificate") || strstr(why, "self-signed"))
        help = "; give the file of the CA that signed its certificate as ca in the URL";
    else if (strstr(why, "no TLS"))
        help = "; this port does not use TLS, write redis://";
    else if (strstr(why, "certificate required") || strstr(why, "handshake failure"))
        help = "; it may require a certificate, give cert and key in the URL";
    (void)snprintf(out, out_bytes, "no TLS with it, %s%s", why, help);
}
