/* check: what a topic's extension says, and whether it would do. Any thread. */
#ifndef TARRY_DELIVER_CHECK_H
#define TARRY_DELIVER_CHECK_H

#include "deliver/deliver.h"

struct extension {
    struct slice deliver, dead_letter; /* raw objects; empty: absent */
};
/* False: `error` names the member and what would be right. */
bool extension_parse(struct slice text, struct extension *out, char error[DELIVER_ERROR_BYTES]);

/* Of the form that a job's own callback may have; nothing is said about its host. */
bool check_callback_form(struct slice url, char error[DELIVER_ERROR_BYTES]);
/* May all hosts of an endpoint's name be reached? */
bool check_hosts(struct guard *guard, struct slice endpoint, char error[DELIVER_ERROR_BYTES]);
/* Would the policy let a topic with these settings deliver? */
bool check_target_setting(struct guard *guard, const struct target_setting *setting,
                          char error[DELIVER_ERROR_BYTES]);

#endif
