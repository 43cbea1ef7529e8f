/* Packets of MQTT: whatever a broker sends, and however it is cut, is read the same and stays in
 * its bounds. */
#include "targets/mqtt/packet.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* Reads all packets of the text, with `step` bytes coming at a time. Returns how far it was
 * understood. */
static size_t read_all(const uint8_t *bytes, size_t len, size_t step, enum mqtt_read *last)
{
    char *text = malloc(len + 1);
    size_t at = 0, here = step < len ? step : len;
    if (!text)
        abort();
    if (len)
        memcpy(text, bytes, len);
    for (;;) {
        struct mqtt_packet packet;
        const char *why = NULL;
        size_t used = 0;
        *last = mqtt_packet_read(text + at, here - at, &packet, &used, &why);
        if (*last == MQTT_BROKEN) {
            CLAIM("what cannot be read is explained", why && *why);
            break;
        }
        if (*last == MQTT_MORE && here == len)
            break;
        if (*last == MQTT_MORE) {
            here = here + step < len ? here + step : len;
            continue;
        }
        CLAIM("something was used, no more than there is", used > 0 && used <= here - at);
        CLAIM("a remark lies in the packet",
              packet.remark.len == 0 || (packet.remark.at >= text + at &&
                                         packet.remark.at + packet.remark.len <= text + at + used));
        at += used;
    }
    free(text);
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    enum mqtt_read whole, cut;
    size_t once = read_all(bytes, len, len ? len : 1, &whole);
    size_t again = read_all(bytes, len, len > 4096 ? 4001 : 1, &cut);
    CLAIM("cut anywhere it is understood as far", once == again);
    CLAIM("and ends the same", whole == cut);
    return 0;
}
