#include "targets/http_trust.h"

#include <dirent.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>

/* Has the directory names by hash, "5ad8a5d6.0"? */
static bool is_hashed(const char *path)
{
    DIR *dir = opendir(path);
    bool found = false;
    if (!dir)
        return false;
    for (struct dirent *entry; !found && (entry = readdir(dir));) {
        size_t len = strlen(entry->d_name);
        found = len > 2 && strcmp(entry->d_name + len - 2, ".0") == 0;
    }
    closedir(dir);
    return found;
}

static bool add_system(SSL_CTX *tls)
{
    const char *path = getenv(X509_get_default_cert_dir_env());
    const char *file = getenv(X509_get_default_cert_file_env());
    if (!path)
        path = X509_get_default_cert_dir();
    if (file || !is_hashed(path))
        return SSL_CTX_set_default_verify_paths(tls) == 1;
    return SSL_CTX_load_verify_locations(tls, NULL, path) == 1;
}

bool target_trust_add(SSL_CTX *tls, struct guard *guard)
{
    char ca_file[GUARD_PATH_BYTES_MAX];
    if (!add_system(tls))
        return false;
    return !guard_ca_file(guard, ca_file) || SSL_CTX_load_verify_locations(tls, ca_file, NULL) == 1;
}
