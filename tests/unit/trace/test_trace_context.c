#include "trace/carry.h"

#include "unit/cases.h"
#include "unit/claim.h"

#include <stdio.h>

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"
#define PARENT "00-" TRACE "-" SPAN "-01"

/* ---- traceparent ---- */

CLAIM(a_parent_is_read_strictly)
{
    static const struct {
        const char *sentence, *text;
        bool is_good, is_sampled;
    } rows[] = {
        {"sampled", PARENT, true, true},
        {"not sampled", "00-" TRACE "-" SPAN "-00", true, false},
        {"flags that nobody knows", "00-" TRACE "-" SPAN "-fe", true, false},
        {"and the known one among them", "00-" TRACE "-" SPAN "-ff", true, true},
        {"a later version", "cc-" TRACE "-" SPAN "-01", true, true},
        {"a later version that says more", "cc-" TRACE "-" SPAN "-01-what-else", true, true},
        {"a later version that runs on", "cc-" TRACE "-" SPAN "-01.what-else", false, false},
        {"version 00 that says more", PARENT "-what", false, false},
        {"version 00 with a byte behind it", PARENT "-", false, false},
        {"the version that is none", "ff-" TRACE "-" SPAN "-01", false, false},
        {"capitals", "00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01", false, false},
        {"a version in capitals", "CC-" TRACE "-" SPAN "-01", false, false},
        {"no trace", "00-00000000000000000000000000000000-" SPAN "-01", false, false},
        {"half a trace", "00-00000000000000000000000000000001-" SPAN "-01", true, true},
        {"no span", "00-" TRACE "-0000000000000000-01", false, false},
        {"a letter that is no digit", "00-" TRACE "-00f067aa0ba902bg-01", false, false},
        {"too short", "00-" TRACE "-" SPAN "-0", false, false},
        {"without flags", "00-" TRACE "-" SPAN, false, false},
        {"other dashes", "00_" TRACE "_" SPAN "_01", false, false},
        {"a blank before it", " 00-" TRACE "-" SPAN "-01", false, false},
        {"nothing", "", false, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct trace_context context = {.span = 77};
        bool is_good = trace_parent_parse(slice_of(rows[i].text), &context);
        CASE_HOLDS(rows[i].sentence, is_good == rows[i].is_good);
        CASE_HOLDS(rows[i].sentence, is_good || context.span == 77);
        CASE_HOLDS(rows[i].sentence, context.is_sampled == rows[i].is_sampled);
    }
}

CLAIM(a_parent_is_written_as_version_00)
{
    struct trace_context context;
    char text[TRACE_PARENT_BYTES];
    assert_true(trace_parent_parse(slice_of("cc-" TRACE "-" SPAN "-ff-x"), &context));
    assert_true(context.trace_high == UINT64_C(0x4bf92f3577b34da6));
    assert_true(context.trace_low == UINT64_C(0xa3ce929d0e0e4736));
    assert_true(context.span == UINT64_C(0x00f067aa0ba902b7));
    trace_parent_emit(&context, text);
    assert_memory_equal(text, PARENT, sizeof text);
    context.is_sampled = false;
    trace_parent_emit(&context, text);
    assert_memory_equal(text, "00-" TRACE "-" SPAN "-00", sizeof text);
}

/* ---- tracestate ---- */

CLAIM(a_state_is_read_strictly)
{
    static const struct {
        const char *sentence, *text, *read; /* NULL: refused */
    } rows[] = {
        {"one member", "rojo=00f067aa0ba902b7", "rojo=00f067aa0ba902b7"},
        {"two", "rojo=1,congo=t61rcWkgMzE", "rojo=1,congo=t61rcWkgMzE"},
        {"blanks and empty members", " rojo=1 ,\t, congo=2,", "rojo=1,congo=2"},
        {"a blank within a value", "a=x y", "a=x y"},
        {"a value that begins with one", "a= x", "a= x"},
        {"of a tenant", "fw529a3039@dt=FfAFvgLc,0a@b=1", "fw529a3039@dt=FfAFvgLc,0a@b=1"},
        {"all signs", "a_-*/=!~:;", "a_-*/=!~:;"},
        {"nothing", "", ""},
        {"a key that begins with a digit", "0a=1", NULL},
        {"a system that begins with one", "a@0b=1", NULL},
        {"a tenant without a system", "a@=1", NULL},
        {"two tenants", "a@b@c=1", NULL},
        {"a key in capitals", "A=1", NULL},
        {"no key", "=1", NULL},
        {"no value", "a=", NULL},
        {"neither", "a", NULL},
        {"a value with an equals sign", "a=b=c", NULL},
        {"a key twice", "a=1,b=2,a=3", NULL},
        {"beyond ASCII", "a=\xc3\xbc", NULL},
        {"a control byte", "a=\x01", NULL},
        {"a good one beside a bad one", "a=1,B=2", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct buffer out;
        buffer_init(&out, 1024);
        bool is_good = trace_state_add(slice_of(rows[i].text), &out);
        CASE_HOLDS(rows[i].sentence, is_good == (rows[i].read != NULL));
        CASE_HOLDS(rows[i].sentence,
                   slice_is(buffer_slice(&out), rows[i].read ? rows[i].read : ""));
        buffer_fini(&out);
    }
}

CLAIM(a_state_has_limits)
{
    char member[16], value[300];
    struct buffer text, out;
    buffer_init(&text, 4096);
    buffer_init(&out, 4096);
    for (int i = 0; i < TRACE_STATE_MEMBERS_MAX; i++) {
        snprintf(member, sizeof member, "%sk%d=v", i ? "," : "", i);
        buffer_append_text(&text, member);
    }
    assert_true(trace_state_add(buffer_slice(&text), &out));
    assert_false(trace_state_add(slice_of("one=more"), &out));
    assert_true(slice_equals(buffer_slice(&text), buffer_slice(&out)));

    memset(value, 'v', sizeof value);
    buffer_clear(&text);
    buffer_append_text(&text, "k=");
    buffer_append(&text, value, 256);
    buffer_append_text(&text, ",l=");
    buffer_append(&text, value, 251);
    assert_int_equal(text.len, TRACE_STATE_BYTES_MAX);
    buffer_clear(&out);
    assert_true(trace_state_add(buffer_slice(&text), &out));
    buffer_append_byte(&text, 'v');
    buffer_clear(&out);
    assert_false(trace_state_add(buffer_slice(&text), &out));
    assert_int_equal(out.len, 0);
    buffer_fini(&text);
    buffer_fini(&out);
}

/* ---- in a job's meta ---- */

CLAIM(a_bad_state_leaves_the_parent)
{
    struct trace_carry carry;
    assert_true(trace_carry_set(&carry, slice_of(PARENT), slice_of("a=1,a=2")));
    assert_int_equal(carry.state_bytes, 0);
    assert_false(trace_carry_set(&carry, slice_of("x"), slice_of("a=1")));
}

CLAIM(a_meta_that_names_a_context_keeps_it)
{
    static const char *const names[] = {JOB_META_TRACEPARENT, JOB_META_TRACESTATE};
    struct trace_carry carry;
    struct trace_context context;
    struct slice found;
    assert_true(trace_carry_set(&carry, slice_of(PARENT), slice_of("a=1")));
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        struct buffer meta;
        buffer_init(&meta, JOB_META_BYTES_MAX);
        assert_int_equal(job_meta_add(&meta, slice_of(names[i]), slice_of("mine")), JOB_META_OK);
        size_t before = meta.len;
        assert_false(trace_meta_add(&meta, &carry));
        assert_int_equal(meta.len, before);
        assert_false(trace_meta_find(buffer_slice(&meta), &context, &found));
        buffer_fini(&meta);
    }
}

CLAIM(a_full_meta_goes_without_a_context)
{
    char name[16], value[1024];
    struct trace_carry carry;
    struct buffer meta;
    memset(value, 'v', sizeof value);
    assert_true(trace_carry_set(&carry, slice_of(PARENT), slice_of("a=1")));
    buffer_init(&meta, JOB_META_BYTES_MAX);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "m%d", i);
        assert_int_equal(job_meta_add(&meta, slice_of(name), slice_make(value, i < 3 ? 1024 : 960)),
                         JOB_META_OK);
    }
    size_t before = meta.len;
    assert_false(trace_meta_add(&meta, &carry));
    assert_int_equal(meta.len, before);
    assert_false(meta.failed);
    buffer_fini(&meta);
}

CLAIM(when_it_was_pushed_is_found_again)
{
    struct buffer meta;
    buffer_init(&meta, JOB_META_BYTES_MAX);
    assert_int_equal(trace_meta_pushed_us(buffer_slice(&meta)), 0);
    trace_meta_add_pushed(&meta, INT64_C(1764000000123456));
    assert_int_equal(trace_meta_pushed_us(buffer_slice(&meta)), INT64_C(1764000000123456));
    assert_int_equal(trace_meta_pushed_us(slice_make("tarry-pushed\0x9\0", 16)), 0);
    buffer_fini(&meta);
}

CLAIM(another_span_takes_the_place_of_the_parent)
{
    static const char before[] = "a\0one\0traceparent\0"
                                 "cc-" TRACE "-" SPAN "-01-more\0tracestate\0b=1\0";
    static const char after[] = "a\0one\0traceparent\0"
                                "00-" TRACE "-00000000000000ff-01\0tracestate\0b=1\0";
    struct trace_context context;
    struct slice meta = slice_make(before, sizeof before - 1), states;
    struct buffer out;
    assert_true(trace_meta_find(meta, &context, &states) && slice_is(states, "b=1"));
    assert_true(trace_meta_is_sampled(meta));
    context.span = 0xff;
    buffer_init(&out, JOB_META_BYTES_MAX);
    trace_meta_renew(meta, &context, &out);
    assert_int_equal(out.len, sizeof after - 1);
    assert_memory_equal(out.at, after, sizeof after - 1);
    buffer_fini(&out);
}

CLAIMS_MAIN(NULL, NULL)
