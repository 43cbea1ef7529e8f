/*
 * setting: the delivery settings of a topic: the object `deliver` of its settings, parsed. Pure.
 *
 *   {"to": "https://shop.example/close-order",   may contain templates in path and query
 *    "callback": false,                          a push may set its own URL (http, https)
 *    "max_in_flight": 64, "rate": "100/s",       per server
 *    "timeout": "10s",
 *    "sign": "shop",                             keys of the policy file; "" or absent: "default"
 *                                                if there is such a key, else unsigned
 *    "body": "job",                              the job as JSON instead of its body; or "raw"
 *    "dead_on": [410, "400-404"],                http: statuses that make a job dead; 410 always
 *    "result": true,                             http: the body of a 2xx answer is the job's result
 *    "headers": {"x-shop": "{id}"},              http: further headers
 *    "cloudevents": {"mode": "binary",           or "structured": the message is a CloudEvent
 *                    "source": "/topics/{topic}", "type": "{topic}"},
 *    "routing_key": "{topic}.{meta.kind}"}       and other templates of a kind: see targets.txt
 *
 * Templates (targets/template.h): {topic}, {id}, {meta.NAME}; "{{" and "}}" are literal braces.
 */
#ifndef TARRY_TARGETS_SETTING_H
#define TARRY_TARGETS_SETTING_H

#include "base/buffer.h"
#include "guard/target_rows.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    TARGET_TO_BYTES_MAX = 2048,
    TARGET_TEMPLATE_BYTES_MAX = 512,
    TARGET_IN_FLIGHT = 64,
    TARGET_IN_FLIGHT_MAX = 10000,
    TARGET_TIMEOUT_MS = 10 * 1000,
    TARGET_TIMEOUT_MS_MIN = 100,
    TARGET_TIMEOUT_MS_MAX = 300 * 1000,
    TARGET_DEAD_ON_MAX = 16,
    TARGET_HEADER_LINES_MAX = 16,
    TARGET_HEADER_NAME_BYTES_MAX = 64
};

struct target_codes { /* range of HTTP statuses, inclusive */
    uint16_t from, to;
};

struct target_header {
    char *name, *value; /* the value is a template */
};

enum target_event_mode { TARGET_EVENT_OFF = 0, TARGET_EVENT_BINARY, TARGET_EVENT_STRUCTURED };

struct target_event_setting { /* see event.h */
    enum target_event_mode mode;
    char *source, *type; /* templates; NULL: the standard ones */
};

/* The settings. All zero: no delivery. */
struct target_setting {
    char *to; /* NULL: only jobs with their own callback; the struct owns all texts */
    char *sign;
/* the members of targets.txt that only some kinds have: exchange, routing_key, … */
#define TARGET_TEXT(NAME, KINDS) char *NAME;
    TARGET_TEXT_ROWS(TARGET_TEXT)
#undef TARGET_TEXT
    bool allows_callback;
    bool never_signs;  /* "sign": false */
    bool sends_job;    /* "body": "job" */
    bool takes_result; /* "result": true */
    uint32_t max_in_flight;
    double rate_per_s; /* 0: no limit */
    int64_t timeout_ms;
    struct target_event_setting event;
    struct target_codes dead_on[TARGET_DEAD_ON_MAX];
    size_t dead_on_count;
    struct target_header headers[TARGET_HEADER_LINES_MAX];
    size_t header_count;
};

/* Parses the object `json`. Returns false with `error` (TARGET_ERROR_BYTES), which names the member
 * and a valid value; *out is then zeroed. Destinations are checked by their kind. */
bool target_setting_parse(struct slice json, struct target_setting *out, char *error);
void target_setting_fini(struct target_setting *setting);

#endif
