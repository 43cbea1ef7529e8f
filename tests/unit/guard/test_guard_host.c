#include "guard/address.h"

#include "guard_rig.h"
#include "unit/claim.h"
#include "unit/seed.h"

#include <ctype.h>
#include <netdb.h>

enum { OK = GUARD_ALLOWED, NOT_NAMED = GUARD_HOST_NOT_NAMED, NET = GUARD_NETWORK_FORBIDDEN };
enum { NEITHER = GUARD_NOT_AN_ADDRESS };

/* ---- names ---- */

static const char policy[] = "allow-host = Hooks.Example.com\n"
                             "allow-host = *.shop.example\n"
                             "allow-host = final.example.\n"
                             "allow-host = 93.184.216.34\n"
                             "allow-host = 10.1.2.3\n"
                             "allow-host = 192.168.7.7\n"
                             "allow-host = 2606:4700::1111\n"
                             "allow-network = 10.1.0.0/16\n";

static const struct {
    const char *host;
    int decision;
    const char *sentence;
} rows[] = {
    {"hooks.example.com", OK, "the name"},
    {"HOOKS.EXAMPLE.COM", OK, "in capitals"},
    {"hooks.example.com.", OK, "with a final dot"},
    {"hooks.example.com..", NEITHER, "with two of them"},
    {"hooks.example.co", NOT_NAMED, "a letter less"},
    {"hooks.example.comm", NOT_NAMED, "a letter more"},
    {"xhooks.example.com", NOT_NAMED, "a letter before"},
    {"a.hooks.example.com", NOT_NAMED, "a name below it"},
    {"example.com", NOT_NAMED, "the name above it"},
    {"a.shop.example", OK, "a name below a star"},
    {"a.b.shop.example", OK, "further below"},
    {"A.Shop.Example.", OK, "in capitals with a final dot"},
    {"shop.example", NOT_NAMED, "the star's apex"},
    {".shop.example", NEITHER, "an empty name before it"},
    {"ashop.example", NOT_NAMED, "no dot before the suffix"},
    {"shop.example.evil.example", NOT_NAMED, "the suffix within"},
    {"final.example", OK, "named with a final dot"},
    {"localhost", NOT_NAMED, "this machine by its name"},
    {"", NEITHER, "nothing"},
    {".", NEITHER, "the root"},
    {"..", NEITHER, "dots"},
    {"a..b", NEITHER, "an empty label"},
    {"hooks.example.com:443", NEITHER, "with a port"},
    {"user@hooks.example.com", NEITHER, "with a user"},
    {"hooks.example.com/x", NEITHER, "with a path"},
    {"hooks.example.com#x", NEITHER, "with a fragment"},
    {"hooks.example.com\\.evil", NEITHER, "with a backslash"},
    {"hooks.example.com ", NEITHER, "with a blank"},
    {" hooks.example.com", NEITHER, "with a blank before"},
    {"hooks.example.com\n", NEITHER, "with an end of line"},
    {"hooks\t.example.com", NEITHER, "with a tabulator"},
    {"hooks%2eexample.com", NEITHER, "percent-encoded"},
    {"%68ooks.example.com", NEITHER, "percent-encoded, too"},
    {"h\xc3\xb6\xc3\xb6ks.example.com", NEITHER, "not ASCII: write xn--…"},
    {"xn--hks-tna.shop.example", OK, "what that is in ASCII"},
    {"hooks\xe3\x80\x82"
     "example.com",
     NEITHER, "an ideographic full stop"},
    {"\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1", NEITHER, "full-width digits"},
    {"\xe2\x91\xa0\xe2\x91\xa1\xe2\x91\xa6.0.0.1", NEITHER, "digits in circles"},
    {"a_b.shop.example", OK, "an underscore, as machines have"},
    {"*.shop.example", NEITHER, "a star is no name"},
    {"*", NEITHER, "nor alone"},
    /* addresses */
    {"93.184.216.34", OK, "a public address that is named"},
    {"93.184.216.34.", OK, "with a final dot"},
    {"93.184.216.35", NOT_NAMED, "its neighbour"},
    {"::ffff:93.184.216.34", OK, "mapped is the same"},
    {"::ffff:5db8:d822", OK, "and in hexadecimal"},
    {"0:0:0:0:0:FFFF:5DB8:D822", OK, "and in full"},
    {"0x5db8d822", OK, "as one hexadecimal number"},
    {"1572395042", OK, "as one decimal number"},
    {"013556154042", OK, "as one octal number"},
    {"93.12113954", OK, "in two parts"},
    {"93.184.55330", OK, "in three parts"},
    {"0135.0270.0330.042", OK, "in octal parts"},
    {"0x5d.0xb8.0xd8.0x22", OK, "in hexadecimal parts"},
    {"0X5D.184.0330.34", OK, "mixed"},
    {"0000093.184.216.34", NEITHER, "a 9 is no octal digit"},
    {"2606:4700::1111", OK, "IPv6"},
    {"2606:4700:0:0:0:0:0:1111", OK, "IPv6 in full"},
    {"2606:4700:0000::1111", OK, "IPv6 with zeros"},
    {"2606:4700::17.17", NEITHER, "IPv6 with half an IPv4"},
    {"2606:4700::0.0.17.17", OK, "IPv6 with an IPv4 at its end"},
    {"[2606:4700::1111]", NEITHER, "brackets are the URL's"},
    {"2606:4700::1111%eth0", NEITHER, "a zone"},
    {"2606:4700::1111%25eth0", NEITHER, "an encoded zone"},
    {"2606:4700:::1111", NEITHER, "three colons"},
    {"10.1.2.3", OK, "private, named twice"},
    {"10.1.2.4", NOT_NAMED, "private, named as a network alone"},
    {"192.168.7.7", NET, "private, named as a host alone"},
    {"3232237319", NET, "the same as a number"},
    {"256.1.1.1", NEITHER, "a part too large"},
    {"1.1.1.256", NEITHER, "a part too large at the end"},
    {"1.1.65536", NEITHER, "three parts, one too large"},
    {"1.16777216", NEITHER, "two parts, one too large"},
    {"4294967296", NEITHER, "a number too large"},
    {"99999999999999999999999999", NEITHER, "a number far too large"},
    {"0x100000000", NEITHER, "a hexadecimal one too large"},
    {"040000000000", NEITHER, "an octal one too large"},
    {"1.2.3.4.5", NEITHER, "five parts"},
    {"1.2.3.", NOT_NAMED, "three parts and a final dot: 1.2.0.3"},
    {"1..2.3", NEITHER, "an empty part"},
    {".1.2.3", NEITHER, "an empty part at the beginning"},
    {"0x", NEITHER, "no digit behind 0x"},
    {"1.0x", NEITHER, "no digit behind 0x at the end"},
    {"08", NEITHER, "no octal number"},
    {"1.2.3.08", NEITHER, "no octal number at the end"},
    {"0xg", NOT_NAMED, "a name after all"},
    {"1.2.3.4x", NOT_NAMED, "a name after all, though an odd one"},
    {"a.1", NEITHER, "no name ends in a number"},
    {"a.0x7f", NEITHER, "nor in a hexadecimal one"},
    {"-1", NOT_NAMED, "a name, by its letters"},
    {"+1", NEITHER, "a sign"},
    {"1e3", NOT_NAMED, "no number"},
};

CLAIM(hosts_are_classified_by_their_form)
{
    struct guard *guard = guard_rig_open(policy);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int decision = (int)guard_check_host(guard, slice_of(rows[i].host));
        if (decision != rows[i].decision)
            fail_msg("'%s', %s: %s", rows[i].host, rows[i].sentence,
                     guard_decision_name((enum guard_decision)decision));
    }
    guard_free(guard);
}

CLAIM(a_star_names_all_and_opens_no_network)
{
    struct guard *guard = guard_rig_open("allow-host = *\n");
    assert_int_equal(guard_check_host(guard, slice_of("any.example")), OK);
    assert_int_equal(guard_check_host(guard, slice_of("localhost")), OK);
    assert_int_equal(guard_check_host(guard, slice_of("8.8.8.8")), OK);
    assert_int_equal(guard_check_host(guard, slice_of("127.1")), NET);
    assert_int_equal(guard_check_host(guard, slice_of("::1")), NET);
    assert_int_equal(guard_check_host(guard, slice_of("a b")), NEITHER);
    guard_free(guard);
}

CLAIM(names_have_their_limits)
{
    struct guard *guard = guard_rig_open("allow-host = *\n");
    char name[300];
    memset(name, 'a', sizeof name);
    assert_int_equal(guard_check_host(guard, slice_make(name, 63)), OK);
    assert_int_equal(guard_check_host(guard, slice_make(name, 64)), NEITHER);
    for (size_t i = 63; i < sizeof name; i += 64)
        name[i] = '.';
    assert_int_equal(guard_check_host(guard, slice_make(name, 253)), OK);
    assert_int_equal(guard_check_host(guard, slice_make(name, 254)), NEITHER);
    name[253] = '.';
    assert_int_equal(guard_check_host(guard, slice_make(name, 254)), OK);
    name[252] = 0;
    assert_int_equal(guard_check_host(guard, slice_make(name, 253)), NEITHER);
    guard_free(guard);
}

CLAIM(nothing_is_allowed_without_a_policy)
{
    char error[GUARD_ERROR_BYTES] = "";
    struct guard *guard;
    struct guard_key keys[GUARD_KEYS_MAX];
    assert_int_equal(guard_open("", &guard, error), 0);
    assert_false(guard_is_on(guard));
    assert_int_equal(guard_check_host(guard, slice_of("8.8.8.8")), GUARD_OFF);
    assert_int_equal(guard_rig_evaluate(guard, "8.8.8.8"), GUARD_OFF);
    assert_int_equal(guard_find_keys(guard, slice_of("default"), keys), 0);
    assert_int_equal(guard_reload(guard, error), 0);
    guard_free(guard);
    assert_int_equal(guard_open(NULL, &guard, error), 0);
    assert_false(guard_is_on(guard));
    guard_free(guard);
}

CLAIM(an_empty_policy_allows_nothing)
{
    struct guard *guard = guard_rig_open("# nothing yet\n\n");
    assert_true(guard_is_on(guard));
    assert_int_equal(guard_check_host(guard, slice_of("hooks.example.com")), NOT_NAMED);
    assert_int_equal(guard_check_host(guard, slice_of("8.8.8.8")), NOT_NAMED);
    guard_free(guard);
}

/* ---- by chance: every spelling is the same address ---- */

static void spell_part(struct random *random, uint32_t part, char *out, size_t bytes)
{
    static const char zeros[] = "000000";
    int zero_count = (int)random_below(random, 5);
    switch (random_below(random, 4)) {
    case 0:
        snprintf(out, bytes, "0%.*s%o", zero_count, zeros, part);
        break;
    case 1:
        snprintf(out, bytes, "0x%.*s%x", zero_count, zeros, part);
        break;
    case 2:
        snprintf(out, bytes, "0X%X", part);
        break;
    default:
        snprintf(out, bytes, "%u", part);
        break;
    }
}

/* Spells an address in one to four parts, each its own way, perhaps with a final dot. */
static void spell_v4(struct random *random, uint32_t address, char *out, size_t bytes)
{
    unsigned parts = 1 + (unsigned)random_below(random, 4);
    size_t len = 0;
    for (unsigned i = 0; i < parts; i++) {
        uint32_t part = i + 1 < parts ? address >> (24 - 8 * i) & 255
                                      : address & (uint32_t)(UINT64_C(0xffffffff) >> (8 * i));
        spell_part(random, part, out + len, bytes - len);
        len += strlen(out + len);
        if (i + 1 < parts || random_below(random, 4) == 0)
            out[len++] = '.';
        out[len] = 0;
    }
}

static void spell_mapped(struct random *random, uint32_t address, char *out, size_t bytes)
{
    static const char *const heads[] = {
        "::ffff:", "::FFFF:", "0:0:0:0:0:ffff:", "0000:0::0:ffff:", "0::0:fFfF:"};
    const char *head = heads[random_below(random, COUNT_OF(heads))];
    if (random_below(random, 2))
        snprintf(out, bytes, "%s%x:%04x", head, address >> 16, address & 0xffff);
    else
        snprintf(out, bytes, "%s%u.%u.%u.%u", head, address >> 24, address >> 16 & 255,
                 address >> 8 & 255, address & 255);
}

static uint32_t random_v4(struct random *random)
{
    static const uint32_t some[] = {0x7f000001, 0x0a010203, 0x0a020203, 0xa9fea9fe, 0xc0a80001,
                                    0x00000000, 0x08080808, 0xac1fffff, 0xac200000, 0xffffffff};
    return random_below(random, 2) ? some[random_below(random, COUNT_OF(some))]
                                   : (uint32_t)random_next(random);
}

CLAIM(every_spelling_gets_the_same_decision)
{
    struct random random = seed_random("every_spelling_gets_the_same_decision");
    struct guard *guard = guard_rig_open("allow-host = *\nallow-network = 10.1.0.0/16\n");
    for (int round = 0; round < 20000; round++) {
        uint32_t address = random_v4(&random);
        char plain[64], odd[128];
        snprintf(plain, sizeof plain, "%u.%u.%u.%u", address >> 24, address >> 16 & 255,
                 address >> 8 & 255, address & 255);
        if (random_below(&random, 4) == 0)
            spell_mapped(&random, address, odd, sizeof odd);
        else
            spell_v4(&random, address, odd, sizeof odd);
        enum guard_decision decision = guard_check_host(guard, slice_of(odd));
        if (decision != guard_rig_evaluate(guard, plain))
            fail_msg("'%s' for %s: %s", odd, plain, guard_decision_name(decision));
    }
    guard_free(guard);
}

/* Whatever the system's resolver takes for an address is the same one here, or is refused. */
CLAIM(no_address_of_the_system_passes_for_a_name)
{
    static const char alphabet[] = "0123456789abcdefx.:%X ";
    struct random random = seed_random("no_address_of_the_system_passes_for_a_name");
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
    size_t taken = 0;
    for (int round = 0; round < 60000; round++) {
        char text[64];
        struct guard_address ours, theirs;
        size_t len = 0;
        if (round % 2) {
            spell_v4(&random, random_v4(&random), text, sizeof text);
            len = strlen(text);
            text[random_below(&random, len)] = alphabet[random_below(&random, sizeof alphabet - 1)];
        } else {
            len = 1 + random_below(&random, 12);
            for (size_t i = 0; i < len; i++)
                text[i] = alphabet[random_below(&random, sizeof alphabet - 1)];
            text[len] = 0;
        }
        if (getaddrinfo(text, NULL, &hints, &found) != 0)
            continue;
        taken++;
        CASE_HOLDS(text, guard_address_of(found->ai_addr, &theirs));
        freeaddrinfo(found);
        enum guard_spelling spelling = guard_address_parse(slice_of(text), &ours);
        CASE_HOLDS(text, spelling != GUARD_SPELLS_NAME);
        if (spelling == GUARD_SPELLS_ADDRESS)
            CASE_HOLDS(text, memcmp(&ours, &theirs, sizeof ours) == 0);
    }
    assert_true(taken > 1000);
}

CLAIMS_MAIN(NULL, NULL)
