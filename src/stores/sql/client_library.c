#include "sql/client_library.h"

#include "base/error.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool load(struct sql_client_library *library, char *error, size_t error_bytes)
{
    void *opened = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        return error_text(error, error_bytes,
                          "the store needs the client library of %s: %s, install %s",
                          library->database, dlerror(), library->package);
    for (size_t i = 0; i < library->count; i++) {
        void *symbol = dlsym(opened, library->functions[i].name);
        memcpy(library->functions[i].into, &symbol, sizeof symbol);
        if (!symbol) {
            dlclose(opened);
            return error_text(error, error_bytes, "%s is too old, install a newer %s",
                              library->file, library->package);
        }
    }
    library->is_loaded = true;
    return true;
}

bool sql_client_library_load(struct sql_client_library *library, char *error, size_t error_bytes)
{
    pthread_mutex_lock(&lock);
    bool is_loaded = library->is_loaded || load(library, error, error_bytes);
    pthread_mutex_unlock(&lock);
    return is_loaded;
}
