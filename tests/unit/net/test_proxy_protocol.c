/* The header of a proxy: valid ones, piece by piece, and invalid ones. */
#include "net/proxy_protocol.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define V4 "\xc0\0\2\1\xc6\x33\x64\2\xdc\4\1\xbb" /* 192.0.2.1:56324 to 198.51.100.2:443 */
#define V6                                                                                         \
    "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1"                                                       \
    "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\2"                                                       \
    "\xdc\4\1\xbb"
#define BYTES(TEXT) (TEXT), sizeof(TEXT) - 1

static const struct {
    const char *sentence, *bytes;
    size_t len;
    const char *peer;
} good[] = {
    {"version 1", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\n"), "192.0.2.1:56324"},
    {"version 1 of IPv6", BYTES("PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n"),
     "[2001:db8::1]:1"},
    {"version 1, port 0", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2 0 0\r\n"), "192.0.2.1:0"},
    {"version 1, the longest",
     BYTES("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
           "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"),
     "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"},
    {"version 1 that does not say", BYTES("PROXY UNKNOWN\r\n"), ""},
    {"version 1 that does not say, but more",
     BYTES("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n"), ""},
    {"version 2", BYTES(SIGNATURE "\x21\x11\0\x0c" V4), "192.0.2.1:56324"},
    {"version 2 with a value", BYTES(SIGNATURE "\x21\x11\0\x11" V4 "\x04\0\2ab"),
     "192.0.2.1:56324"},
    {"version 2 of IPv6", BYTES(SIGNATURE "\x21\x21\0\x24" V6), "[2001:db8::1]:56324"},
    {"version 2, the proxy itself", BYTES(SIGNATURE "\x20\0\0\0"), ""},
    {"version 2, the proxy itself, with what is not looked at",
     BYTES(SIGNATURE "\x20\x11\0\x0c" V4), ""},
    {"version 2 that does not say", BYTES(SIGNATURE "\x21\0\0\3abc"), ""},
};

CLAIM(returns_the_client_address)
{
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        const char *sentence = good[i].sentence;
        struct peer peer = {0};
        size_t used = 0;
        char text[PEER_TEXT_BYTES];
        for (size_t len = 0; len < good[i].len; len++) {
            char *part = malloc(len ? len : 1); /* so that a read beyond it is seen */
            memcpy(part, good[i].bytes, len);
            CASE_HOLDS(sentence, proxy_protocol_read(slice_make(part, len), &peer, &used) ==
                                     PROXY_PROTOCOL_MORE);
            free(part);
        }
        char more[400];
        memcpy(more, good[i].bytes, good[i].len);
        memcpy(more + good[i].len, "GET /", 5);
        CASE_HOLDS(sentence, proxy_protocol_read(slice_make(more, good[i].len + 5), &peer, &used) ==
                                 PROXY_PROTOCOL_WHOLE);
        CASE_HOLDS(sentence, used == good[i].len);
        CASE_HOLDS(sentence, peer.is_notified && (peer.kind == PEER_UNKNOWN) == !good[i].peer[0]);
        peer_emit(&peer, text);
        CASE_HOLDS(sentence, strcmp(text, good[i].peer) == 0);
    }
}

CLAIM(other_bytes_are_rejected)
{
    static const struct {
        const char *sentence, *bytes;
        size_t len;
    } rows[] = {
        {"a request", BYTES("GET / HTTP/1.1\r\n")},
        {"a handshake of TLS", BYTES("\x16\3\1\2\0\1")},
        {"a request that begins alike", BYTES("PROXYX")},
        {"small letters", BYTES("proxy ")},
        {"a line end like people's", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2 1 2\n\r\n")},
        {"half a line end", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2 1 2\rx")},
        {"no family", BYTES("PROXY \r\n")},
        {"another family", BYTES("PROXY UDP4 192.0.2.1 198.51.100.2 1 2\r\n")},
        {"two blanks", BYTES("PROXY  TCP4 192.0.2.1 198.51.100.2 1 2\r\n")},
        {"a blank at the end", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2 1 2 \r\n")},
        {"a word too few", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2 1\r\n")},
        {"a word too many", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2 1 2 3\r\n")},
        {"the wrong family", BYTES("PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n")},
        {"a name", BYTES("PROXY TCP4 localhost 198.51.100.2 1 2\r\n")},
        {"a short address", BYTES("PROXY TCP4 127.1 198.51.100.2 1 2\r\n")},
        {"a NUL in the client's address", BYTES("PROXY TCP4 192.0.2.1\0zz 198.51.100.2 1 2\r\n")},
        {"a NUL in the server's address", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2\0 1 2\r\n")},
        {"a NUL in an address of version 6",
         BYTES("PROXY TCP6 2001:db8::1\0zz 2001:db8::2 1 2\r\n")},
        {"a NUL in a port", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2 1\0 2\r\n")},
        {"a port too high", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2 65536 2\r\n")},
        {"a port with a zero before it", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2 01 2\r\n")},
        {"a port with a sign", BYTES("PROXY TCP4 192.0.2.1 198.51.100.2 +1 2\r\n")},
        {"a line without end",
         BYTES("PROXY UNKNOWN "
               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")},
        {"another version", BYTES(SIGNATURE "\x31\x11\0\x0c" V4)},
        {"another command", BYTES(SIGNATURE "\x22\x11\0\x0c" V4)},
        {"datagrams", BYTES(SIGNATURE "\x21\x12\0\x0c" V4)},
        {"another family, binary", BYTES(SIGNATURE "\x21\x41\0\x0c" V4)},
        {"a family without transport", BYTES(SIGNATURE "\x21\x10\0\x0c" V4)},
        {"too short for its addresses", BYTES(SIGNATURE "\x21\x21\0\x0c" V4)},
        {"longer than anybody needs", BYTES(SIGNATURE "\x21\x11\x10\0")},
        {"a value longer than the rest", BYTES(SIGNATURE "\x21\x11\0\x11" V4 "\x04\0\3ab")},
        {"half a value", BYTES(SIGNATURE "\x21\x11\0\x0e" V4 "\x04\0")},
        {"a damaged signature", BYTES("\r\n\r\n\0\r\nQUIX")},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct peer peer = {.port = 77};
        size_t used = 77;
        CASE_HOLDS(rows[i].sentence, proxy_protocol_read(slice_make(rows[i].bytes, rows[i].len),
                                                         &peer, &used) == PROXY_PROTOCOL_BAD);
        CASE_HOLDS(rows[i].sentence, peer.port == 77 && used == 77);
    }
}

CLAIM(a_local_proxy_connection_is_marked)
{
    char bytes[16 + 216] = SIGNATURE "\x21\x31\0\xd8/run/client";
    struct peer peer = {0};
    size_t used = 0;
    char text[PEER_TEXT_BYTES];
    assert_int_equal(proxy_protocol_read(slice_make(bytes, sizeof bytes), &peer, &used),
                     PROXY_PROTOCOL_WHOLE);
    assert_int_equal(used, sizeof bytes);
    peer_emit(&peer, text);
    assert_string_equal(text, "unix");
}

CLAIMS_MAIN(NULL, NULL)
