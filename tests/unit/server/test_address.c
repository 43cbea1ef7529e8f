/* Addresses to listen on, as people write them. */
#include "server/address.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>

CLAIM(each_form_is_read)
{
    static const struct {
        const char *text, *place;
        struct listener_options expected;
    } rows[] = {
        {"127.0.0.1:8279", "127.0.0.1:8279", {.kind = LISTENER_TCP}},
        {"localhost:0", "127.0.0.1:0", {.kind = LISTENER_TCP}},
        {"[::]:80", "[::]:80", {.kind = LISTENER_TCP}},
        {"0.0.0.0:8443,tls,require-token",
         "0.0.0.0:8443",
         {.kind = LISTENER_TCP, .tls = true, .token = LISTENER_TOKEN_REQUIRED}},
        {"192.0.2.1:80,plain,proxy-protocol",
         "192.0.2.1:80",
         {.kind = LISTENER_TCP, .plain = true, .proxy_protocol = true}},
        {"unix:/run/tarry/tarry.sock,mode=0660,group=tarry,no-token",
         "unix:/run/tarry/tarry.sock",
         {.kind = LISTENER_UNIX, .mode = 0660, .group = "tarry", .token = LISTENER_TOKEN_NONE}},
        {"unix:here,mode=666", "unix:here", {.kind = LISTENER_UNIX, .mode = 0666}},
        {"fd:web,tls", "fd:web", {.kind = LISTENER_INHERITED, .tls = true}},
        {"fd:3", "fd:3", {.kind = LISTENER_INHERITED}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *text = rows[i].text;
        const struct listener_options *expected = &rows[i].expected;
        struct listener_options options;
        char error[ADDRESS_ERROR_BYTES], place[ADDRESS_TEXT_BYTES];
        CASE_HOLDS(text, address_parse(slice_of(text), &options, error));
        address_emit(&options, place);
        CASE_HOLDS(text, strcmp(place, rows[i].place) == 0);
        CASE_HOLDS(text, options.kind == expected->kind && options.tls == expected->tls &&
                             options.plain == expected->plain &&
                             options.proxy_protocol == expected->proxy_protocol &&
                             options.token == expected->token && options.mode == expected->mode);
        CASE_HOLDS(text, strcmp(options.group, expected->group) == 0);
    }
}

CLAIM(rejects_invalid_addresses_with_advice)
{
    static const char address[] = "give an address and a port";
    static const char *const rows[][2] = {
        {"", address},
        {"8279", address},
        {"example.org:80", address},
        {"127.0.0.1", address},
        {"127.0.0.1:65536", address},
        {"::1:80", address},
        {"[127.0.0.1]:80", address},
        {"/run/tarry.sock", address},
        {"unix:", "give a path of 1 to 107 bytes"},
        {"unix:/"
         "0123456789012345678901234567890123456789012345678901234567890123456789"
         "0123456789012345678901234567890123456789",
         "give a path of 1 to 107 bytes"},
        {"fd:", "give the name of a socket"},
        {"127.0.0.1:80,TLS", "give after the address, separated by commas: tls,"},
        {"127.0.0.1:80,tsl", "did you mean tls"},
        {"127.0.0.1:80,proxy-protocl", "did you mean proxy-protocol"},
        {"127.0.0.1:80,,tls", "give after the address, separated by commas: tls,"},
        {"127.0.0.1:80,tls,plain", "give tls or plain, not both"},
        {"127.0.0.1:80,no-token,require-token", "give require-token or no-token, not both"},
        {"127.0.0.1:80,mode=0660", "mode and group are for unix:PATH"},
        {"fd:a,group=x", "mode and group are for unix:PATH"},
        {"unix:a,plain", "plain is for addresses that other machines can reach"},
        {"unix:a,mode=rw", "give the mode as chmod takes it"},
        {"unix:a,mode=0000", "give the mode as chmod takes it"},
        {"unix:a,mode=1777", "give the mode as chmod takes it"},
        {"unix:a,mode=668", "give the mode as chmod takes it"},
        {"unix:a,group=", "give the name of a group"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct listener_options options = {.path = "untouched"};
        char error[ADDRESS_ERROR_BYTES] = "";
        CASE_HOLDS(rows[i][0], !address_parse(slice_of(rows[i][0]), &options, error));
        CASE_HOLDS(rows[i][0], strncmp(error, rows[i][1], strlen(rows[i][1])) == 0);
        CASE_HOLDS(rows[i][0], strcmp(options.path, "untouched") == 0);
    }
}

CLAIM(reads_addresses)
{
    static const struct {
        const char *text;
        const char *emitted; /* NULL: refused */
        bool is_loopback;
        const char *sentence;
    } rows[] = {
        {"127.0.0.1:8279", "127.0.0.1:8279", true, "loopback"},
        {"127.255.0.9:0", "127.255.0.9:0", true, "all of 127 is loopback"},
        {"localhost:65535", "127.0.0.1:65535", true, "the one name"},
        {"[::1]:8279", "[::1]:8279", true, "loopback of version 6"},
        {"[::ffff:127.0.0.1]:1", "127.0.0.1:1", true, "mapped loopback"},
        {"[::ffff:10.0.0.1]:1", "10.0.0.1:1", false, "mapped, not loopback"},
        {"0.0.0.0:8279", "0.0.0.0:8279", false, "all addresses"},
        {"[::]:8279", "[::]:8279", false, "all addresses of version 6"},
        {"128.0.0.1:1", "128.0.0.1:1", false, "next to 127"},
        {"127.0.0.1:65536", NULL, false, "a port too high"},
        {"127.0.0.1:", NULL, false, "no port"},
        {"127.0.0.1", NULL, false, "no colon"},
        {":8279", NULL, false, "no address"},
        {"::1:8279", NULL, false, "version 6 without brackets"},
        {"[127.0.0.1]:1", NULL, false, "version 4 in brackets"},
        {"[localhost]:1", NULL, false, "a name in brackets"},
        {"127.0.0.1:80x", NULL, false, "letters in the port"},
        {"127.0.0.1:+80", NULL, false, "a sign in the port"},
        {"", NULL, false, "nothing"},
        {":", NULL, false, "a colon"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct listener_options options;
        char text[ADDRESS_TEXT_BYTES], error[ADDRESS_ERROR_BYTES];
        bool good = address_parse(slice_of(rows[i].text), &options, error);
        CASE_HOLDS(rows[i].sentence, good == (rows[i].emitted != NULL));
        if (!good)
            continue;
        const struct peer address = peer_of_socket(&options.address);
        address_emit(&options, text);
        CASE_HOLDS(rows[i].sentence, strcmp(text, rows[i].emitted) == 0);
        CASE_HOLDS(rows[i].sentence, peer_is_loopback(&address) == rows[i].is_loopback);
    }
}

CLAIMS_MAIN(NULL, NULL)
