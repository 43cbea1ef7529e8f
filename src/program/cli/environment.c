#include "cli/environment.h"

#include "base/text.h"
#include "cli/cli.h"
#include "server/config.h"

#include <string.h>

/* Variables that are not options of the server. */
static const char *const others[] = {
    "TARRY_URL",
    "TARRY_PROFILE",
    "TARRY_CA",
    "TARRY_CERT",
    "TARRY_KEY",
    "TARRY_TOKEN",
    "TARRY_TOKEN_FILE",
    /* set for commands by `tarry work` and by alerts; such a command may call tarry */
    "TARRY_TOPIC",
    "TARRY_ID",
    "TARRY_ATTEMPT",
    "TARRY_LEASE",
    "TARRY_CONTENT_TYPE",
    "TARRY_ALERT_TOPIC",
    "TARRY_ALERT_DIED",
    "TARRY_ALERT_DEAD",
    /* read by the Makefile and the tests of the sources */
    "TARRY_BIN",
    "TARRY_NO_SETUP",
};

enum { OTHERS = sizeof others / sizeof others[0], NAMES_MAX = CONFIG_OPTIONS_MAX + OTHERS };

static const char prefix[] = "TARRY_", reserved[] = "TARRY_TEST_"; /* reserved for tests */

struct names {
    char options[CONFIG_OPTIONS_MAX][CONFIG_VARIABLE_BYTES];
    const char *at[NAMES_MAX + 1];
};

static void collect_variables(struct names *names)
{
    size_t count, n = 0;
    const struct option *options = config_options(&count);
    for (size_t i = 0; i < count; i++) {
        config_variable(&options[i], names->options[i]);
        names->at[n++] = names->options[i];
    }
    for (size_t i = 0; i < OTHERS; i++)
        names->at[n++] = others[i];
    names->at[n] = NULL;
}

static bool is_known(const struct names *names, const char *name)
{
    for (const char *const *at = names->at; *at; at++)
        if (strcmp(*at, name) == 0)
            return true;
    return strncmp(name, reserved, sizeof reserved - 1) == 0;
}

int environment_check(char *const *environment)
{
    struct names names;
    char name[CONFIG_VARIABLE_BYTES];
    collect_variables(&names);
    for (; *environment; environment++) {
        size_t len = strcspn(*environment, "=");
        if (strncmp(*environment, prefix, sizeof prefix - 1) != 0 || !(*environment)[len] ||
            !(*environment)[len + 1]) /* an empty variable counts as unset, even if it is known */
            continue;
        snprintf(name, sizeof name, "%.*s", (int)len, *environment);
        if (is_known(&names, name))
            continue;
        /* All names share the prefix, so only the rest is compared. */
        const char *rests[NAMES_MAX + 1];
        size_t n = 0;
        for (; names.at[n]; n++)
            rests[n] = names.at[n] + sizeof prefix - 1;
        rests[n] = NULL;
        const char *nearest = text_nearest(name + sizeof prefix - 1, rests);
        if (nearest)
            return cli_usage("unknown variable '%s', did you mean %s%s", name, prefix, nearest);
        return cli_usage("unknown variable '%s', unset it; 'tarry help serve' names the options",
                         name);
    }
    return -1;
}
