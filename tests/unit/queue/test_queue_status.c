/* The table of what can become of a command. */
#include "queue/status.h"
#include "unit/claim.h"

#include <string.h>

CLAIM(every_status_has_a_code_of_its_own_and_a_sentence)
{
    for (int i = QUEUE_OK; i <= QUEUE_UNAVAILABLE; i++) {
        const char *code = queue_status_code((enum queue_status)i);
        const char *sentence = queue_status_sentence((enum queue_status)i);

        assert_true(strlen(code) > 1 && strlen(sentence) > 1);
        assert_int_not_equal(sentence[strlen(sentence) - 1], '.');
        for (int j = 0; j < i; j++)
            assert_string_not_equal(code, queue_status_code((enum queue_status)j));
        assert_int_equal(queue_status_is_success((enum queue_status)i), i <= QUEUE_CANCELLED);
    }
}

CLAIMS_MAIN(NULL, NULL)
