#include "sql/postgres/libpq.h"

#include "base/error.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

struct libpq libpq;

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
    void *library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    bool whole = library != NULL;
    if (!library)
        return error_text(error, error_bytes,
                          "the store needs PostgreSQL's client library: %s, install libpq5",
                          dlerror());
#define LIBPQ_FIND(NAME) whole = whole && find(library, #NAME, &libpq.NAME);
    LIBPQ_FUNCTIONS(LIBPQ_FIND)
#undef LIBPQ_FIND
    if (!whole) {
        dlclose(library);
        return error_text(error, error_bytes,
                          "libpq.so.5 is older than 14, install a newer libpq5");
    }
    return true;
}

bool libpq_load(char *error, size_t error_bytes)
{
    pthread_mutex_lock(&lock);
    loaded = loaded || load(error, error_bytes);
    bool result = loaded;
    pthread_mutex_unlock(&lock);
    return result;
}
