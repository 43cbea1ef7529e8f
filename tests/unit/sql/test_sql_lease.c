/* Leases of the SQL store: what is emitted is parsed, and nothing else is. */
#include "sql/lease.h"

#include "unit/cases.h"
#include "unit/claim.h"

static const struct mac_key key = {1, 2};
static const struct sql_lease lease = {
    .topic = UINT32_MAX,
    .level = 65535,
    .due_ms = 1700000000123,
    .taken_ms = 1700000000456,
    .sequence = (1ULL << 48) - 1,
    .delivery = 1234567890123,
    .row = (1ULL << 48) - 2,
};

CLAIM(a_lease_survives_writing_and_reading)
{
    char text[SQL_LEASE_TEXT_BYTES];
    struct sql_lease out;
    sql_lease_emit(text, &key, &lease);
    assert_true(sql_lease_parse(slice_make(text, sizeof text), &key, &out));
    assert_int_equal(out.topic, lease.topic);
    assert_int_equal(out.level, lease.level);
    assert_int_equal(out.due_ms, lease.due_ms);
    assert_int_equal(out.taken_ms, lease.taken_ms);
    assert_int_equal(out.sequence, lease.sequence);
    assert_int_equal(out.delivery, lease.delivery);
    assert_int_equal(out.row, lease.row);
}

CLAIM(a_lease_with_one_changed_letter_is_invalid)
{
    char text[SQL_LEASE_TEXT_BYTES];
    struct sql_lease out;
    sql_lease_emit(text, &key, &lease);
    for (size_t i = 0; i < sizeof text; i++) {
        char before = text[i];
        for (const char *letter = "A9-_ \n"; *letter; letter++) {
            text[i] = *letter;
            if (*letter != before)
                assert_false(sql_lease_parse(slice_make(text, sizeof text), &key, &out));
        }
        text[i] = before;
    }
    assert_false(sql_lease_parse(slice_make(text, sizeof text - 1), &key, &out));
    assert_false(sql_lease_parse(slice_of(""), &key, &out));
}

CLAIM(a_lease_of_another_store_is_invalid)
{
    const struct mac_key other = {1, 3};
    char text[SQL_LEASE_TEXT_BYTES];
    struct sql_lease out;
    sql_lease_emit(text, &key, &lease);
    assert_false(sql_lease_parse(slice_make(text, sizeof text), &other, &out));
}

CLAIMS_MAIN(NULL, NULL)
