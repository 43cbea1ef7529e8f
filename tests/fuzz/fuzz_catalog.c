/*
 * Any bytes as a catalog: refused, or they are its one stored form. A wrong checksum
 * is corrected first, so that the code behind it is also reached. Seeds: corpus/catalog, catalogs as
 * they are written.
 */
#include "base/hash.h"
#include "fuzz/claim.h"
#include "store/catalog.h"

#include <errno.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(struct slice bytes)
{
    struct catalog catalog;
    struct buffer again;
    int result = catalog_decode(bytes, &catalog);

    CLAIM("it is damaged, newer or right",
          result == 0 || result == -EBADMSG || result == -EPROTONOSUPPORT);
    if (result < 0)
        return;
    buffer_init(&again, 1 << 24);
    CLAIM("it can be written", catalog_encode(&catalog, &again));
    CLAIM("it has one stored form", slice_equals(bytes, buffer_slice(&again)));
    for (uint32_t i = 0; i < catalog.run_count; i++)
        CLAIM("no more are alive than there are",
              catalog.runs[i].alive_count <= catalog.runs[i].slots &&
                  catalog.runs[i].number < catalog.next_run);
    buffer_fini(&again);
    catalog_fini(&catalog);
}

/* The length in the head, and the checksum at the end. */
static void set_right(char *bytes, size_t size)
{
    uint64_t length = size, sum;

    memcpy(bytes + 12, &length, sizeof length);
    sum = hash_64(bytes, size - sizeof sum);
    memcpy(bytes + size - sizeof sum, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy;

    judge(slice_make(data, size));
    if (size < 28)
        return 0;
    copy = malloc(size);
    CLAIM("there is memory", copy != NULL);
    memcpy(copy, data, size);
    set_right(copy, size);
    judge(slice_make(copy, size));
    free(copy);
    return 0;
}
