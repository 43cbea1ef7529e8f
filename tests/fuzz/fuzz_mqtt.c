/* Packets of MQTT: whatever a broker sends, and however it is cut, is read the same and stays in
 * its bounds. */
#include "targets/mqtt/packet.h"

#include "frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static int read_one(char *text, size_t len, size_t *used, const char **why)
{
    struct mqtt_packet packet;
    enum mqtt_read read = mqtt_packet_read(text, len, &packet, used, why);
    if (read != MQTT_MORE && read != MQTT_BROKEN)
        CLAIM("a remark lies in the packet", lies_in(packet.remark, text, *used));
    return (int)read;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    frames_check(&(struct frames){.more = MQTT_MORE, .broken = MQTT_BROKEN, .read = read_one},
                 bytes, len);
    return 0;
}
