/* Protocol mykit-delay: --mykit. */
#include "base/error.h"
#include "mykit/mykit.h"
#include "server/protocol.h"

#include <stdlib.h>

static void *on_open(const struct config *config, struct http_shared *shared, char *error)
{
    struct mykit_options *options = malloc(sizeof *options);
    if (!options) {
        (void)error_text(error, PROTOCOL_ERROR_BYTES, "out of memory");
        return NULL;
    }
    *options =
        (struct mykit_options){.protocol = CONFIG_PROTOCOL_MYKIT, .clears = config->mykit_clear};
    mykit_add(shared, options);
    return options;
}

const struct protocol_ops protocol_mykit = {.open = on_open, .free = free};
