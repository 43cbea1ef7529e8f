/* check: parses a topic's extension and checks that it is valid. Any thread. */
#ifndef TARRY_DELIVER_CHECK_H
#define TARRY_DELIVER_CHECK_H

#include "deliver/deliver.h"

struct extension {
    struct slice deliver, dead_letter; /* JSON objects; empty if absent */
};
/* Parses an extension. Returns false with `error`, which names the member and a valid value. */
bool extension_parse(struct slice text, struct extension *out, char error[DELIVER_ERROR_BYTES]);

/* Checks the form of a job's own callback, but not its host. */
bool check_callback_form(struct slice url, char error[DELIVER_ERROR_BYTES]);
/* Checks that all hosts of an endpoint's name are allowed. */
bool check_hosts(struct guard *guard, struct slice endpoint, char error[DELIVER_ERROR_BYTES]);
/* Checks that the policy allows a topic with these settings to deliver. */
bool check_target_setting(struct guard *guard, const struct target_setting *setting,
                          char error[DELIVER_ERROR_BYTES]);

#endif
