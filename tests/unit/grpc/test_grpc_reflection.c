/* The answers of the reflection, from the embedded descriptors. */
#include "grpc/proto_texts.h"
#include "grpc/reflection.h"
#include "grpc/wire.h"

#include "unit/claim.h"

enum { FILES = 4, SERVICES = 6, ERROR = 7, BY_FILENAME = 3, BY_SYMBOL = 4, LIST = 7 };

/* Asks, and returns the number of items in the field `kind` of the answer: files or services. -1: another answer. */
static int asked(uint32_t how, const char *text, uint32_t kind)
{
    struct buffer request, out;
    struct wire_field field, item;
    size_t at = 0;
    int items = -1;
    buffer_init(&request, 1000);
    buffer_init(&out, 1 << 20);
    wire_text(&request, how, slice_of(text));
    assert_true(reflection_answer(slice_make(grpc_descriptors_text, grpc_descriptors_bytes),
                                  buffer_slice(&request), &out));
    assert_false(out.failed);
    while (wire_next(buffer_slice(&out), &at, &field)) {
        size_t in = 0;
        if (field.number != kind)
            continue;
        for (items = 0; wire_next(field.bytes, &in, &item);)
            items += item.number == 1;
    }
    assert_int_equal(at, out.len);
    buffer_fini(&request);
    buffer_fini(&out);
    return items;
}

CLAIM(lists_the_services)
{
    assert_int_equal(asked(LIST, "*", SERVICES), 4);
}

CLAIM(a_symbol_is_found_in_its_file_and_comes_with_its_imports)
{
    assert_int_equal(asked(BY_SYMBOL, "tarry.v1.Queue", FILES), 3);
    assert_int_equal(asked(BY_SYMBOL, "tarry.v1.Queue.Push", FILES), 3);
    assert_int_equal(asked(BY_SYMBOL, "tarry.v1.Topic.Counts", FILES), 3);
    assert_int_equal(asked(BY_SYMBOL, "tarry.v1.State", FILES), 3);
    assert_int_equal(asked(BY_SYMBOL, "grpc.health.v1.Health", FILES), 1);
    assert_int_equal(asked(BY_SYMBOL, "google.rpc.ErrorInfo", FILES), 2);
    assert_int_equal(asked(BY_FILENAME, "google/protobuf/duration.proto", FILES), 1);
}

CLAIM(an_unknown_symbol_is_an_error)
{
    static const char *const symbols[] = {"",          "tarry",         "tarry.v1",
                                          "tarry.v1.", "tarry.v1.None", "tarryXv1.Queue",
                                          "Queue",     "tarry.v1.Queu"};
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++)
        assert_int_equal(asked(BY_SYMBOL, symbols[i], ERROR), 1);
    assert_int_equal(asked(BY_FILENAME, "none.proto", ERROR), 1);
}

CLAIM(a_malformed_request_is_rejected)
{
    struct buffer out;
    buffer_init(&out, 1000);
    assert_false(reflection_answer((struct slice){0}, slice_make("\x22\x7f", 2), &out));
    buffer_fini(&out);
}

CLAIMS_MAIN(NULL, NULL)
