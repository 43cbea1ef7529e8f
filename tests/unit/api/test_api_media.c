#include "api/media.h"

#include "unit/cases.h"
#include "unit/claim.h"

static const struct {
    const char *accept;
    bool is_open;
} rows[] = {
    {"", false},
    {"*/*", false},
    {"text/plain", false},
    {"application/openmetrics-text", true},
    {"application/openmetrics-text; version=1.0.0", true},
    {"application/openmetrics-text;version=\"1.0.0\"", true},
    {"application/openmetrics-text;version=0.0.1", false},
    {"Application/OpenMetrics-Text ; Version=1.0.0 ; charset=utf-8", true},
    {"application/openmetrics-text;version=1.0.0;q=0", false},
    {"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.6", false},
    {"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.5", true},
    {"text/plain;q=0.3, application/openmetrics-text;version=1.0.0;q=0.31", true},
    {"application/openmetrics-textual", false},
    {"application/openmetrics-text;q=x", false},
    {",;,=;q", false},
    /* Prometheus 2.42 */
    {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
     "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
     true},
    /* Prometheus 3 */
    {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
     "application/openmetrics-text;version=0.0.1;q=0.5,"
     "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,"
     "*/*;q=0.2",
     true},
};

CLAIM(a_client_gets_the_type_it_would_rather_have)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        CASE_HOLDS(rows[i].accept,
                   api_media_prefers(slice_of(rows[i].accept), "application/openmetrics-text",
                                     "1.0.0", "text/plain", "0.0.4") == rows[i].is_open);
}

CLAIMS_MAIN(NULL, NULL)
