/* setting: any JSON is read within all limits or refused with the reason. */
#include "targets/target.h"
#include "targets/template.h"

#include "claim.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_text(const char *text, size_t bytes_max)
{
    char error[TARGET_ERROR_BYTES];
    if (!text)
        return;
    CLAIM("a text keeps its limit", strlen(text) <= bytes_max);
    CLAIM("a text can be filled in", template_check(slice_of(text), error));
}

static void check_setting(const struct target_setting *setting)
{
    CLAIM("there is somewhere to go", setting->to || setting->allows_callback);
    CLAIM("a window is within its limits",
          setting->max_in_flight >= 1 && setting->max_in_flight <= TARGET_IN_FLIGHT_MAX);
    CLAIM("a timeout is within its limits", setting->timeout_ms >= TARGET_TIMEOUT_MS_MIN &&
                                                setting->timeout_ms <= TARGET_TIMEOUT_MS_MAX);
    CLAIM("a rate is none or more", setting->rate_per_s >= 0 && setting->rate_per_s <= 1e6);
    CLAIM("codes are few", setting->dead_on_count <= TARGET_DEAD_ON_MAX);
    for (size_t i = 0; i < setting->dead_on_count; i++)
        CLAIM("codes are statuses", setting->dead_on[i].from >= 300 &&
                                        setting->dead_on[i].from <= setting->dead_on[i].to &&
                                        setting->dead_on[i].to <= 599);
    check_text(setting->to, TARGET_TO_BYTES_MAX);
    check_text(setting->exchange, TARGET_TEMPLATE_BYTES_MAX);
    check_text(setting->routing_key, TARGET_TEMPLATE_BYTES_MAX);
    check_text(setting->topic, TARGET_TEMPLATE_BYTES_MAX);
    check_text(setting->key, TARGET_TEMPLATE_BYTES_MAX);
    check_text(setting->destination, TARGET_TEMPLATE_BYTES_MAX);
}

/* For any job, scheme and host stay those of the setting. */
static void check_filled(const char *to)
{
    struct job job = {.topic = slice_of("t"), .id = slice_of("@evil/../%2e?#")};
    const char *host = strstr(to, "://");
    CLAIM("there is a host", host && host[3]);
    size_t until = (size_t)(host + 3 - to) + strcspn(host + 3, "/?");
    CLAIM("a host holds no user", !memchr(to, '@', until));
    struct buffer out;
    buffer_init(&out, 1 << 20);
    if (template_fill(slice_of(to), &job, TEMPLATE_URL, 1 << 19, &out)) {
        CLAIM("it still begins the same", out.len >= until && memcmp(out.at, to, until) == 0);
        CLAIM("no line ends in it",
              !memchr(out.at, '\n', out.len) && !memchr(out.at, '\r', out.len));
        CLAIM("it leads nowhere up", !template_leads_up(buffer_slice(&out)));
    }
    buffer_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const struct target_setting zero;
    struct target_setting setting;
    char error[TARGET_ERROR_BYTES] = "";
    if (target_setting_parse(slice_make(bytes, len), &setting, error)) {
        check_setting(&setting);
        if (setting.to)
            check_filled(setting.to);
        target_setting_fini(&setting);
    } else {
        CLAIM("refused: it says why", error[0] && memchr(error, 0, sizeof error));
    }
    CLAIM("nothing is left", memcmp(&setting, &zero, sizeof zero) == 0);
    return 0;
}
