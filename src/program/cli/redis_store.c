#include "cli/redis_store.h"

#include "cli/cli.h"
#include "server/secret.h"

#include <errno.h>
#include <string.h>

int redis_store_url(const char *store, const char *password_file, char url[REDIS_URL_BYTES_MAX])
{
    char secret[256], error[256] = "";
    int result = 0;
    if (strlen(store) >= REDIS_URL_BYTES_MAX)
        return cli_usage("'--store' is too long, give at most %d bytes", REDIS_URL_BYTES_MAX - 1);
    strcpy(url, store);
    if (password_file) {
        result = secret_read(password_file, secret, sizeof secret, error, sizeof error);
        if (result == 0)
            result = secret_into_url(store, secret, url, REDIS_URL_BYTES_MAX, error, sizeof error);
        explicit_bzero(secret, sizeof secret);
    }
    return result == 0 ? CLI_OK : cli_usage("%s", error);
}
