#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t calls_request_bytes(struct peer_talk *talk)
{
    char *end = memmem(talk->bytes, talk->len, "\r\n\r\n", 4);
    if (!end)
        return 0;
    end[2] = '\0'; /* the body is not searched */
    const char *field = strcasestr(talk->bytes, "\r\ncontent-length:");
    end[2] = '\r';
    size_t bytes = (size_t)(end - talk->bytes) + 4 + (field ? strtoul(field + 17, NULL, 10) : 0);
    return bytes <= talk->len ? bytes : 0;
}

bool calls_write(const struct peer_talk *talk, const char *body)
{
    char text[8192];
    int len = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s",
                       strlen(body), body);
    return peer_write(talk, text, (size_t)len);
}
