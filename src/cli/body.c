#include "cli/body.h"

#include "base/json_read.h"

const char *body_guess_type(struct slice body)
{
    struct json_value value;
    if (json_check(body, &value, NULL) && (value.kind == JSON_OBJECT || value.kind == JSON_ARRAY))
        return "application/json";
    return json_utf8_is_valid(body) ? "text/plain; charset=utf-8" : "application/octet-stream";
}
