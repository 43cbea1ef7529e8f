#include "guard/network.h"

#include "guard_rig.h"
#include "unit/claim.h"
#include "unit/seed.h"

/* ---- without any allow-network ---- */

static const struct {
    const char *address;
    bool is_public;
    const char *sentence;
} rows[] = {
    {"1.1.1.1", true, "a public address"},
    {"8.8.8.8", true, "another"},
    {"93.184.216.34", true, "and one more"},
    {"0.0.0.0", false, "the first of 0.0.0.0/8, which Linux takes for this machine"},
    {"0.255.255.255", false, "the last of 0.0.0.0/8, which Linux takes for this machine"},
    {"1.0.0.0", true, "just behind 0.0.0.0/8"},
    {"0.0.0.1", false, "an address of this network"},
    {"10.0.0.0", false, "the first of 10.0.0.0/8, private"},
    {"10.255.255.255", false, "the last of 10.0.0.0/8, private"},
    {"9.255.255.255", true, "just before 10.0.0.0/8"},
    {"11.0.0.0", true, "just behind 10.0.0.0/8"},
    {"100.64.0.0", false, "the first of 100.64.0.0/10, a provider's own"},
    {"100.127.255.255", false, "the last of 100.64.0.0/10, a provider's own"},
    {"100.63.255.255", true, "just before 100.64.0.0/10"},
    {"100.128.0.0", true, "just behind 100.64.0.0/10"},
    {"127.0.0.0", false, "the first of 127.0.0.0/8, this machine"},
    {"127.255.255.255", false, "the last of 127.0.0.0/8, this machine"},
    {"126.255.255.255", true, "just before 127.0.0.0/8"},
    {"128.0.0.0", true, "just behind 127.0.0.0/8"},
    {"127.0.0.1", false, "this machine"},
    {"127.0.0.53", false, "this machine's resolver"},
    {"169.254.0.0", false, "the first of 169.254.0.0/16, link-local"},
    {"169.254.255.255", false, "the last of 169.254.0.0/16, link-local"},
    {"169.253.255.255", true, "just before 169.254.0.0/16"},
    {"169.255.0.0", true, "just behind 169.254.0.0/16"},
    {"172.16.0.0", false, "the first of 172.16.0.0/12, private"},
    {"172.31.255.255", false, "the last of 172.16.0.0/12, private"},
    {"172.15.255.255", true, "just before 172.16.0.0/12"},
    {"172.32.0.0", true, "just behind 172.16.0.0/12"},
    {"192.0.0.0", false, "the first of 192.0.0.0/24, protocol assignments"},
    {"192.0.0.255", false, "the last of 192.0.0.0/24, protocol assignments"},
    {"191.255.255.255", true, "just before 192.0.0.0/24"},
    {"192.0.1.0", true, "just behind 192.0.0.0/24"},
    {"192.0.2.0", false, "the first of 192.0.2.0/24, documentation"},
    {"192.0.2.255", false, "the last of 192.0.2.0/24, documentation"},
    {"192.0.1.255", true, "just before 192.0.2.0/24"},
    {"192.0.3.0", true, "just behind 192.0.2.0/24"},
    {"192.31.196.0", false, "the first of 192.31.196.0/24, a sink of look-ups"},
    {"192.31.196.255", false, "the last of 192.31.196.0/24, a sink of look-ups"},
    {"192.31.195.255", true, "just before 192.31.196.0/24"},
    {"192.31.197.0", true, "just behind 192.31.196.0/24"},
    {"192.52.193.0", false, "the first of 192.52.193.0/24, multicast tunnels"},
    {"192.52.193.255", false, "the last of 192.52.193.0/24, multicast tunnels"},
    {"192.52.192.255", true, "just before 192.52.193.0/24"},
    {"192.52.194.0", true, "just behind 192.52.193.0/24"},
    {"192.88.99.0", false, "the first of 192.88.99.0/24, 6to4 relays"},
    {"192.88.99.255", false, "the last of 192.88.99.0/24, 6to4 relays"},
    {"192.88.98.255", true, "just before 192.88.99.0/24"},
    {"192.88.100.0", true, "just behind 192.88.99.0/24"},
    {"192.168.0.0", false, "the first of 192.168.0.0/16, private"},
    {"192.168.255.255", false, "the last of 192.168.0.0/16, private"},
    {"192.167.255.255", true, "just before 192.168.0.0/16"},
    {"192.169.0.0", true, "just behind 192.168.0.0/16"},
    {"192.175.48.0", false, "the first of 192.175.48.0/24, a sink of look-ups"},
    {"192.175.48.255", false, "the last of 192.175.48.0/24, a sink of look-ups"},
    {"192.175.47.255", true, "just before 192.175.48.0/24"},
    {"192.175.49.0", true, "just behind 192.175.48.0/24"},
    {"198.18.0.0", false, "the first of 198.18.0.0/15, benchmarks"},
    {"198.19.255.255", false, "the last of 198.18.0.0/15, benchmarks"},
    {"198.17.255.255", true, "just before 198.18.0.0/15"},
    {"198.20.0.0", true, "just behind 198.18.0.0/15"},
    {"198.51.100.0", false, "the first of 198.51.100.0/24, documentation"},
    {"198.51.100.255", false, "the last of 198.51.100.0/24, documentation"},
    {"198.51.99.255", true, "just before 198.51.100.0/24"},
    {"198.51.101.0", true, "just behind 198.51.100.0/24"},
    {"203.0.113.0", false, "the first of 203.0.113.0/24, documentation"},
    {"203.0.113.255", false, "the last of 203.0.113.0/24, documentation"},
    {"203.0.112.255", true, "just before 203.0.113.0/24"},
    {"203.0.114.0", true, "just behind 203.0.113.0/24"},
    {"224.0.0.0", false, "the first of 224.0.0.0/4, multicast"},
    {"239.255.255.255", false, "the last of 224.0.0.0/4, multicast"},
    {"223.255.255.255", true, "just before 224.0.0.0/4"},
    {"224.0.0.1", false, "all hosts"},
    {"239.1.2.3", false, "multicast of an organisation"},
    {"240.0.0.0", false, "the first of 240.0.0.0/4, reserved"},
    {"255.255.255.254", false, "the last but one, reserved"},
    {"255.255.255.255", false, "broadcast"},
    {"169.254.169.254", false, "metadata of nearly every cloud"},
    {"169.254.170.2", false, "credentials of ECS"},
    {"169.254.170.23", false, "credentials of EKS"},
    {"169.254.42.42", false, "metadata of Scaleway"},
    {"169.254.0.23", false, "metadata of Tencent Cloud"},
    {"100.100.100.200", false, "metadata of Alibaba Cloud"},
    {"192.0.0.192", false, "metadata of Oracle Cloud Classic"},
    {"168.63.129.16", false, "Azure's wire server"},
    {"168.63.129.15", true, "just before Azure's wire server"},
    {"168.63.129.17", true, "just behind it"},
    {"2606:4700:4700::1111", true, "a public IPv6 address"},
    {"2a00:1450:4001:80b::200e", true, "another"},
    {"2000::1", true, "the first that are global"},
    {"3ffd:ffff:ffff:ffff::1", true, "just before 3ffe::/16"},
    {"::", false, "unspecified, which Linux takes for this machine"},
    {"::1", false, "this machine"},
    {"::2", false, "compatible with 0.0.0.2"},
    {"0:0:1::", false, "just behind ::/96's like"},
    {"1::", false, "not global unicast"},
    {"1fff:ffff::1", false, "just before 2000::/3"},
    {"4000::", false, "just behind 2000::/3"},
    {"5f00::1", false, "segment routing"},
    {"5eff:ffff::1", false, "not global unicast"},
    {"8000::1", false, "not global unicast"},
    {"c000::1", false, "not global unicast"},
    {"e000::1", false, "not global unicast"},
    {"f000::1", false, "not global unicast"},
    {"fbff:ffff::1", false, "just before fc00::/7"},
    {"fc00::", false, "the first of fc00::/7"},
    {"fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, "the last of fc00::/7"},
    {"fe00::1", false, "between private and link-local"},
    {"fe80::", false, "the first of fe80::/10"},
    {"fe80::1", false, "link-local"},
    {"febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, "the last of fe80::/10"},
    {"fec0::1", false, "site-local"},
    {"feff:ffff::1", false, "the end of site-local"},
    {"ff00::1", false, "multicast"},
    {"ff02::1", false, "all nodes of the link"},
    {"ff05::2", false, "all routers of the site"},
    {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, "the very last"},
    {"100::", false, "discarded"},
    {"100::ffff:ffff:ffff:ffff", false, "discarded, its end"},
    {"100:0:0:1::1", false, "dummy prefix"},
    {"101::1", false, "not global unicast"},
    {"2001:0001::1", false, "protocol assignments: port control"},
    {"2001:1::2", false, "protocol assignments: TURN"},
    {"2001:1ff:ffff::1", false, "the end of 2001::/23"},
    {"2001:2::", false, "benchmarks"},
    {"2001:2:0:ffff::1", false, "benchmarks, their end"},
    {"2001:3::1", false, "multicast tunnels"},
    {"2001:4:112::1", false, "a sink of look-ups"},
    {"2001:10::1", false, "ORCHID"},
    {"2001:1f:ffff::1", false, "ORCHID, its end"},
    {"2001:20::1", false, "ORCHIDv2"},
    {"2001:2f:ffff::1", false, "ORCHIDv2, its end"},
    {"2001:30::1", false, "remote ids of drones"},
    {"2001:db8::", false, "documentation"},
    {"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", false, "documentation, its end"},
    {"2620:4f:8000::1", false, "a sink of look-ups"},
    {"3ffe::1", false, "6bone"},
    {"3ffe:ffff::1", false, "6bone, its end"},
    {"3fff::1", false, "documentation"},
    {"3fff:fff:ffff::1", false, "documentation, its end"},
    {"fd00:ec2::254", false, "metadata of EC2"},
    {"fd00:ec2::23", false, "credentials of EKS"},
    {"fd20:ce::254", false, "metadata of Google Cloud"},
    {"fd00:42::42", false, "metadata of Scaleway"},
    {"fe80::a9fe:a9fe", false, "metadata of OpenStack"},
    {"2001:200::1", true, "just behind 2001::/23"},
    {"2001:db7:ffff::1", true, "just before the documentation"},
    {"2001:db9::1", true, "just behind the documentation"},
    {"2620:4f:7fff::1", true, "just before a sink"},
    {"2620:4f:8001::1", true, "just behind a sink"},
    {"3fff:1000::1", true, "just behind 3fff::/20"},
    {"::ffff:8.8.8.8", true, "mapped: a public address"},
    {"::8.8.8.8", true, "compatible: a public address"},
    {"64:ff9b::8.8.8.8", true, "NAT64: a public address"},
    {"2002:808:808::1", true, "6to4: a public address"},
    {"2001:0:808:808:0:f227:f7f7:f7f7", true, "Teredo, client: a public address"},
    {"2001:0:808:808:0:f227:f7f7:fbfb", true, "Teredo, server: a public address"},
    {"2606:4700::5efe:8.8.8.8", true, "ISATAP: a public address"},
    {"2606:4700:1:2:200:5efe:8.8.8.8", true, "ISATAP, a global id: a public address"},
    {"::ffff:0:8.8.8.8", false, "IPv4-translated is closed: a public address"},
    {"64:ff9b:1::8.8.8.8", false, "NAT64 of a local network is closed: a public address"},
    {"::ffff:127.0.0.1", false, "mapped: this machine"},
    {"::127.0.0.1", false, "compatible: this machine"},
    {"64:ff9b::127.0.0.1", false, "NAT64: this machine"},
    {"2002:7f00:1::1", false, "6to4: this machine"},
    {"2001:0:808:808:0:f227:80ff:fffe", false, "Teredo, client: this machine"},
    {"2001:0:7f00:1:0:f227:f7f7:fbfb", false, "Teredo, server: this machine"},
    {"2606:4700::5efe:127.0.0.1", false, "ISATAP: this machine"},
    {"2606:4700:1:2:200:5efe:127.0.0.1", false, "ISATAP, a global id: this machine"},
    {"::ffff:0:127.0.0.1", false, "IPv4-translated is closed: this machine"},
    {"64:ff9b:1::127.0.0.1", false, "NAT64 of a local network is closed: this machine"},
    {"::ffff:10.0.0.1", false, "mapped: a private one"},
    {"::10.0.0.1", false, "compatible: a private one"},
    {"64:ff9b::10.0.0.1", false, "NAT64: a private one"},
    {"2002:a00:1::1", false, "6to4: a private one"},
    {"2001:0:808:808:0:f227:f5ff:fffe", false, "Teredo, client: a private one"},
    {"2001:0:a00:1:0:f227:f7f7:fbfb", false, "Teredo, server: a private one"},
    {"2606:4700::5efe:10.0.0.1", false, "ISATAP: a private one"},
    {"2606:4700:1:2:200:5efe:10.0.0.1", false, "ISATAP, a global id: a private one"},
    {"::ffff:0:10.0.0.1", false, "IPv4-translated is closed: a private one"},
    {"64:ff9b:1::10.0.0.1", false, "NAT64 of a local network is closed: a private one"},
    {"::ffff:192.168.1.1", false, "mapped: a private one"},
    {"::192.168.1.1", false, "compatible: a private one"},
    {"64:ff9b::192.168.1.1", false, "NAT64: a private one"},
    {"2002:c0a8:101::1", false, "6to4: a private one"},
    {"2001:0:808:808:0:f227:3f57:fefe", false, "Teredo, client: a private one"},
    {"2001:0:c0a8:101:0:f227:f7f7:fbfb", false, "Teredo, server: a private one"},
    {"2606:4700::5efe:192.168.1.1", false, "ISATAP: a private one"},
    {"2606:4700:1:2:200:5efe:192.168.1.1", false, "ISATAP, a global id: a private one"},
    {"::ffff:0:192.168.1.1", false, "IPv4-translated is closed: a private one"},
    {"64:ff9b:1::192.168.1.1", false, "NAT64 of a local network is closed: a private one"},
    {"::ffff:172.16.0.1", false, "mapped: a private one"},
    {"::172.16.0.1", false, "compatible: a private one"},
    {"64:ff9b::172.16.0.1", false, "NAT64: a private one"},
    {"2002:ac10:1::1", false, "6to4: a private one"},
    {"2001:0:808:808:0:f227:53ef:fffe", false, "Teredo, client: a private one"},
    {"2001:0:ac10:1:0:f227:f7f7:fbfb", false, "Teredo, server: a private one"},
    {"2606:4700::5efe:172.16.0.1", false, "ISATAP: a private one"},
    {"2606:4700:1:2:200:5efe:172.16.0.1", false, "ISATAP, a global id: a private one"},
    {"::ffff:0:172.16.0.1", false, "IPv4-translated is closed: a private one"},
    {"64:ff9b:1::172.16.0.1", false, "NAT64 of a local network is closed: a private one"},
    {"::ffff:169.254.169.254", false, "mapped: the metadata"},
    {"::169.254.169.254", false, "compatible: the metadata"},
    {"64:ff9b::169.254.169.254", false, "NAT64: the metadata"},
    {"2002:a9fe:a9fe::1", false, "6to4: the metadata"},
    {"2001:0:808:808:0:f227:5601:5601", false, "Teredo, client: the metadata"},
    {"2001:0:a9fe:a9fe:0:f227:f7f7:fbfb", false, "Teredo, server: the metadata"},
    {"2606:4700::5efe:169.254.169.254", false, "ISATAP: the metadata"},
    {"2606:4700:1:2:200:5efe:169.254.169.254", false, "ISATAP, a global id: the metadata"},
    {"::ffff:0:169.254.169.254", false, "IPv4-translated is closed: the metadata"},
    {"64:ff9b:1::169.254.169.254", false, "NAT64 of a local network is closed: the metadata"},
    {"::ffff:0.0.0.0", false, "mapped: nothing"},
    {"64:ff9b::0.0.0.0", false, "NAT64: nothing"},
    {"2002:0:0::1", false, "6to4: nothing"},
    {"2001:0:808:808:0:f227:ffff:ffff", false, "Teredo, client: nothing"},
    {"2001:0:0:0:0:f227:f7f7:fbfb", false, "Teredo, server: nothing"},
    {"2606:4700::5efe:0.0.0.0", false, "ISATAP: nothing"},
    {"2606:4700:1:2:200:5efe:0.0.0.0", false, "ISATAP, a global id: nothing"},
    {"::ffff:0:0.0.0.0", false, "IPv4-translated is closed: nothing"},
    {"64:ff9b:1::0.0.0.0", false, "NAT64 of a local network is closed: nothing"},
    {"::ffff:100.100.100.200", false, "mapped: Alibaba's metadata"},
    {"::100.100.100.200", false, "compatible: Alibaba's metadata"},
    {"64:ff9b::100.100.100.200", false, "NAT64: Alibaba's metadata"},
    {"2002:6464:64c8::1", false, "6to4: Alibaba's metadata"},
    {"2001:0:808:808:0:f227:9b9b:9b37", false, "Teredo, client: Alibaba's metadata"},
    {"2001:0:6464:64c8:0:f227:f7f7:fbfb", false, "Teredo, server: Alibaba's metadata"},
    {"2606:4700::5efe:100.100.100.200", false, "ISATAP: Alibaba's metadata"},
    {"2606:4700:1:2:200:5efe:100.100.100.200", false, "ISATAP, a global id: Alibaba's metadata"},
    {"::ffff:0:100.100.100.200", false, "IPv4-translated is closed: Alibaba's metadata"},
    {"64:ff9b:1::100.100.100.200", false, "NAT64 of a local network is closed: Alibaba's metadata"},
    {"::ffff:168.63.129.16", false, "mapped: Azure's wire server"},
    {"::168.63.129.16", false, "compatible: Azure's wire server"},
    {"64:ff9b::168.63.129.16", false, "NAT64: Azure's wire server"},
    {"2002:a83f:8110::1", false, "6to4: Azure's wire server"},
    {"2001:0:808:808:0:f227:57c0:7eef", false, "Teredo, client: Azure's wire server"},
    {"2001:0:a83f:8110:0:f227:f7f7:fbfb", false, "Teredo, server: Azure's wire server"},
    {"2606:4700::5efe:168.63.129.16", false, "ISATAP: Azure's wire server"},
    {"2606:4700:1:2:200:5efe:168.63.129.16", false, "ISATAP, a global id: Azure's wire server"},
    {"::ffff:0:168.63.129.16", false, "IPv4-translated is closed: Azure's wire server"},
    {"64:ff9b:1::168.63.129.16", false, "NAT64 of a local network is closed: Azure's wire server"},
    {"::ffff:224.0.0.1", false, "mapped: multicast"},
    {"::224.0.0.1", false, "compatible: multicast"},
    {"64:ff9b::224.0.0.1", false, "NAT64: multicast"},
    {"2002:e000:1::1", false, "6to4: multicast"},
    {"2001:0:808:808:0:f227:1fff:fffe", false, "Teredo, client: multicast"},
    {"2001:0:e000:1:0:f227:f7f7:fbfb", false, "Teredo, server: multicast"},
    {"2606:4700::5efe:224.0.0.1", false, "ISATAP: multicast"},
    {"2606:4700:1:2:200:5efe:224.0.0.1", false, "ISATAP, a global id: multicast"},
    {"::ffff:0:224.0.0.1", false, "IPv4-translated is closed: multicast"},
    {"64:ff9b:1::224.0.0.1", false, "NAT64 of a local network is closed: multicast"},
    {"::ffff:255.255.255.255", false, "mapped: broadcast"},
    {"::255.255.255.255", false, "compatible: broadcast"},
    {"64:ff9b::255.255.255.255", false, "NAT64: broadcast"},
    {"2002:ffff:ffff::1", false, "6to4: broadcast"},
    {"2001:0:808:808:0:f227:0:0", false, "Teredo, client: broadcast"},
    {"2001:0:ffff:ffff:0:f227:f7f7:fbfb", false, "Teredo, server: broadcast"},
    {"2606:4700::5efe:255.255.255.255", false, "ISATAP: broadcast"},
    {"2606:4700:1:2:200:5efe:255.255.255.255", false, "ISATAP, a global id: broadcast"},
    {"::ffff:0:255.255.255.255", false, "IPv4-translated is closed: broadcast"},
    {"64:ff9b:1::255.255.255.255", false, "NAT64 of a local network is closed: broadcast"},
    {"64:ff9b:0:0:0:1:808:808", false, "just behind NAT64's 96 bits"},
    {"64:ff9b:2::8.8.8.8", false, "just behind NAT64 of a local network"},
    {"::fffe:8.8.8.8", false, "nearly mapped"},
    {"::1:ffff:8.8.8.8", false, "nearly mapped, too"},
};

CLAIM(only_public_addresses_are_reached)
{
    struct guard *guard = guard_rig_open("allow-host = *\n");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool is_allowed = guard_rig_evaluate(guard, rows[i].address) == GUARD_ALLOWED;
        if (is_allowed != rows[i].is_public)
            fail_msg("%s, %s: %s", rows[i].address, rows[i].sentence,
                     is_allowed ? "reached" : "refused");
    }
    guard_free(guard);
}

CLAIM(other_address_families_are_rejected)
{
    struct guard *guard = guard_rig_open("allow-host = *\nallow-network = ::/0\n");
    struct sockaddr_storage other = {.ss_family = AF_UNIX};
    assert_int_equal(guard_check_address(guard, (struct sockaddr *)&other), GUARD_NOT_AN_ADDRESS);
    guard_free(guard);
}

/* ---- the table itself ---- */

CLAIM(each_network_has_its_rule_and_reason)
{
    size_t count = 0;
    for (const struct guard_network_row *row = guard_network_rows; row->network; row++, count++) {
        char address[GUARD_NETWORK_TEXT_BYTES], *slash;
        snprintf(address, sizeof address, "%s", row->network);
        slash = strchr(address, '/');
        CASE_HOLDS(row->network, slash && row->what && row->source);
        CASE_HOLDS(row->network, row->kind >= GUARD_NETWORK_PUBLIC);
        CASE_HOLDS(row->network, row->kind <= GUARD_NETWORK_RELAYS);
        bool is_whole = strcmp(slash, "/32") == 0 && !strchr(address, ':');
        is_whole = is_whole || strcmp(slash, "/128") == 0;
        CASE_HOLDS(row->network, row->kind != GUARD_NETWORK_METADATA || is_whole);
        for (const struct guard_network_row *other = guard_network_rows; other != row; other++)
            CASE_HOLDS(row->network, strcmp(other->network, row->network) != 0);
    }
    assert_true(count > 50);
}

/* ---- by chance ---- */

/* The naive judge of IPv4: the table's own words, one by one. */
static bool is_public_v4(uint32_t a)
{
    static const struct {
        uint32_t from, to;
    } closed[] = {
        {0x00000000, 0x00ffffff}, {0x0a000000, 0x0affffff}, {0x64400000, 0x647fffff},
        {0x7f000000, 0x7fffffff}, {0xa83f8110, 0xa83f8110}, {0xa9fe0000, 0xa9feffff},
        {0xac100000, 0xac1fffff}, {0xc0000000, 0xc00000ff}, {0xc0000200, 0xc00002ff},
        {0xc01fc400, 0xc01fc4ff}, {0xc034c100, 0xc034c1ff}, {0xc0586300, 0xc05863ff},
        {0xc0a80000, 0xc0a8ffff}, {0xc0af3000, 0xc0af30ff}, {0xc6120000, 0xc613ffff},
        {0xc6336400, 0xc63364ff}, {0xcb007100, 0xcb0071ff}, {0xe0000000, 0xffffffff},
    };
    for (size_t i = 0; i < COUNT_OF(closed); i++)
        if (a >= closed[i].from && a <= closed[i].to)
            return false;
    return true;
}

/* Near the edges rather than anywhere. */
static uint32_t random_v4(struct random *random)
{
    static const uint32_t edges[] = {0x01000000, 0x0a000000, 0x0b000000, 0x64400000, 0x64800000,
                                     0x7f000000, 0x80000000, 0xa83f8110, 0xa9fe0000, 0xa9ff0000,
                                     0xac100000, 0xac200000, 0xc0000000, 0xc0000100, 0xc0000200,
                                     0xc0586300, 0xc0a80000, 0xc0a90000, 0xc6120000, 0xc6140000,
                                     0xc6336400, 0xcb007100, 0xe0000000, 0xf0000000};
    if (random_below(random, 3) == 0)
        return (uint32_t)random_next(random);
    return edges[random_below(random, COUNT_OF(edges))] + (uint32_t)random_below(random, 5) - 2;
}

CLAIM(an_address_is_judged_alike_wherever_it_is_held)
{
    static const char *const forms[] = {"%u.%u.%u.%u", "::ffff:%u.%u.%u.%u", "64:ff9b::%u.%u.%u.%u",
                                        "2a00::5efe:%u.%u.%u.%u"};
    struct random random = seed_random("an_address_is_judged_alike_wherever_it_is_held");
    struct guard *guard = guard_rig_open("allow-host = *\n");
    for (int round = 0; round < 20000; round++) {
        uint32_t a = random_v4(&random);
        bool is_public = is_public_v4(a);
        for (size_t i = 0; i < COUNT_OF(forms); i++) {
            char address[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(address, sizeof address, forms[i], a >> 24, a >> 16 & 255, a >> 8 & 255,
                     a & 255);
#pragma GCC diagnostic pop
            if ((guard_rig_evaluate(guard, address) == GUARD_ALLOWED) != is_public)
                fail_msg("%s: %s", address, is_public ? "refused" : "reached");
        }
    }
    guard_free(guard);
}

CLAIMS_MAIN(NULL, NULL)
