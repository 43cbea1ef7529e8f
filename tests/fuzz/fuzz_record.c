/*
 * Any bytes as a record: refused, or a record that has these bytes as its one stored form. Seeds:
 * corpus/record, one record a file.
 */
#include "job/record.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = slice_make(data, size);
    struct record record, again;
    size_t len;
    char *into;

    if (record_next(bytes) > size)
        abort();
    if (!record_decode(bytes, &record))
        return 0;
    into = malloc(record_bytes_max(&record));
    if (!into)
        return 0;
    len = record_encode(&record, into);
    if (!slice_equals(slice_make(into, len), bytes))
        abort();
    if (!record_decode(slice_make(into, len), &again))
        abort();
    free(into);
    return 0;
}
