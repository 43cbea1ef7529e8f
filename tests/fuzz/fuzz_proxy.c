/* The header of a proxy: what is whole stays so whatever follows, what is bad stays bad, and what is whole was not whole before. */
#include "net/proxy_protocol.h"

#include "claim.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct peer peer, again;
    size_t used = 0, used_again = 0;
    enum proxy_protocol_step step = proxy_protocol_read(slice_make(bytes, len), &peer, &used);
    if (step == PROXY_PROTOCOL_WHOLE) {
        CLAIM("it lies within what came", used > 0 && used <= len);
        CLAIM("it is no longer than it may be", used <= PROXY_PROTOCOL_BYTES_MAX);
        CLAIM("the header of a proxy sets it", peer.is_notified);
        CLAIM("what follows does not matter",
              proxy_protocol_read(slice_make(bytes, used), &again, &used_again) ==
                      PROXY_PROTOCOL_WHOLE &&
                  used_again == used && again.kind == peer.kind && again.port == peer.port &&
                  memcmp(&again.address, &peer.address, sizeof peer.address) == 0);
    }
    if (step == PROXY_PROTOCOL_MORE)
        CLAIM("there is an end to it", len < PROXY_PROTOCOL_BYTES_MAX);
    for (size_t part = 0; part < len && part < 300; part++) {
        char *copy = malloc(part ? part : 1);
        CLAIM("there is memory", copy);
        memcpy(copy, bytes, part);
        enum proxy_protocol_step before =
            proxy_protocol_read(slice_make(copy, part), &again, &used_again);
        free(copy);
        CLAIM("it is whole with its last byte, not before",
              step != PROXY_PROTOCOL_WHOLE || part >= used || before == PROXY_PROTOCOL_MORE);
        CLAIM("what is bad does not get better",
              before != PROXY_PROTOCOL_BAD || step == PROXY_PROTOCOL_BAD);
    }
    return 0;
}
