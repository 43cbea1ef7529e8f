#include "sql/mysql/libmariadb.h"

#include "base/error.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

struct libmariadb libmariadb;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;

static bool find(void *library, const char *name, void *member)
{
    void *symbol = dlsym(library, name);
    memcpy(member, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load(char *error, size_t error_bytes)
{
    void *library = dlopen("libmariadb.so.3", RTLD_NOW | RTLD_LOCAL);
    bool whole = library != NULL;
    if (!library)
        return error_text(error, error_bytes,
                          "the store needs the client library of MariaDB: %s, install libmariadb3",
                          dlerror());
#define LIBMARIADB_FIND(NAME) whole = whole && find(library, #NAME, &libmariadb.NAME);
    LIBMARIADB_FUNCTIONS(LIBMARIADB_FIND)
#undef LIBMARIADB_FIND
    if (!whole) {
        dlclose(library);
        return error_text(error, error_bytes,
                          "libmariadb.so.3 is too old, install a newer libmariadb3");
    }
    return true;
}

bool libmariadb_load(char *error, size_t error_bytes)
{
    pthread_mutex_lock(&lock);
    loaded = loaded || load(error, error_bytes);
    bool result = loaded;
    pthread_mutex_unlock(&lock);
    return result;
}
