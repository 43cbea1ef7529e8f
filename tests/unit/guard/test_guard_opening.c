#include "guard/network.h"

#include "guard_rig.h"
#include "unit/claim.h"

static const struct {
    const char *network, *address;
    bool is_open;
    const char *sentence;
} openings[] = {
    {"10.0.0.0/8", "10.1.2.3", true, "within"},
    {"10.0.0.0/8", "11.0.0.0", true, "public all the same"},
    {"10.0.0.0/8", "192.168.0.1", false, "another private network"},
    {"10.1.0.0/16", "10.1.255.255", true, "the last of it"},
    {"10.1.0.0/16", "10.2.0.0", false, "just behind it"},
    {"10.1.0.0/16", "10.0.255.255", false, "just before it"},
    {"10.1.2.3", "10.1.2.3", true, "a lone address"},
    {"10.1.2.3", "10.1.2.2", false, "its neighbour"},
    {"10.1.2.2/31", "10.1.2.3", true, "a prefix within a byte"},
    {"10.1.2.2/31", "10.1.2.4", false, "just behind a prefix within a byte"},
    {"10.0.0.0/8", "::ffff:10.1.2.3", true, "mapped is judged by what it holds"},
    {"10.0.0.0/8", "::10.1.2.3", true, "compatible, too"},
    {"10.0.0.0/8", "64:ff9b::10.1.2.3", true, "NAT64, too"},
    {"10.0.0.0/8", "2002:a01:203::1", true, "6to4, too"},
    {"10.0.0.0/8", "2001:0:808:808:0:f227:f5fe:fdfc", true, "Teredo, the client"},
    {"10.0.0.0/8", "2001:0:a01:203:0:f227:3f57:fefe", false, "Teredo, where the other one is not"},
    {"10.0.0.0/8", "2606:4700::5efe:10.1.2.3", true, "ISATAP"},
    {"10.0.0.0/8", "fd00::5efe:10.1.2.3", false, "ISATAP in a network that is not named"},
    {"::ffff:10.0.0.0/104", "10.1.2.3", true, "a mapped network is the IPv4 one"},
    {"127.0.0.0/8", "127.0.0.1", true, "this machine, where it is meant"},
    {"127.0.0.1", "::1", false, "the other this machine is named apart"},
    {"::1", "::1", true, "this machine by IPv6"},
    {"::1", "127.0.0.1", false, "the other this machine is named apart"},
    {"::", "::", true, "even that"},
    {"0.0.0.0/0", "127.0.0.1", true, "all of IPv4"},
    {"0.0.0.0/0", "255.255.255.255", true, "to its very end"},
    {"0.0.0.0/0", "::1", false, "but no IPv6"},
    {"::/0", "fd12::1", true, "all of IPv6"},
    {"::/0", "ff02::1", true, "to its very end"},
    {"::/0", "10.1.2.3", false, "but no IPv4"},
    {"::/0", "::ffff:10.1.2.3", false, "nor what is IPv4 in fact"},
    {"::/0", "64:ff9b::10.1.2.3", false, "nor what holds IPv4"},
    {"::/0", "2002:a01:203::1", false, "nor what is a tunnel to IPv4"},
    {"fc00::/7", "fd12:3456::1", true, "within"},
    {"fd12::/16", "fd13::1", false, "just behind"},
    {"64:ff9b:1::/48", "64:ff9b:1::8.8.8.8", true, "a translator of one's own, to a public one"},
    {"64:ff9b:1::/48", "64:ff9b:1::10.0.0.1", false, "to a private one"},
    {"64:ff9b:1::/48", "64:ff9b:1:a00:0:100::", false, "to a private one, from a prefix of 48"},
    {"64:ff9b:1::/48", "64:ff9b:1:a:0:1:100:0", false, "to a private one, from a prefix of 56"},
    {"64:ff9b:1::/48", "64:ff9b:1:0:a:0:800:0", false, "to a private one, from a prefix of 64"},
    {"64:ff9b:1::/48", "64:ff9b:1:1:1:1:808:808", true, "a public one behind other bits"},
    {"::ffff:0:0:0/96", "::ffff:0:8.8.8.8", true, "IPv4-translated, to a public one"},
    {"::ffff:0:0:0/96", "::ffff:0:10.0.0.1", false, "IPv4-translated, to a private one"},
    {"169.254.0.0/16", "169.254.1.1", true, "link-local"},
    {"169.254.0.0/16", "169.254.169.254", false, "metadata is not opened by a broad network"},
    {"169.254.169.254/31", "169.254.169.254", false, "nor by one of two addresses"},
    {"169.254.169.254/32", "169.254.169.254", true, "but by itself"},
    {"169.254.169.254", "::ffff:169.254.169.254", true, "in its mapped form, too"},
    {"169.254.169.254", "169.254.170.2", false, "one metadata does not open another"},
    {"0.0.0.0/0", "169.254.169.254", false, "nor by all of IPv4"},
    {"0.0.0.0/0", "100.100.100.200", false, "nor Alibaba's"},
    {"0.0.0.0/0", "192.0.0.192", false, "nor Oracle's"},
    {"0.0.0.0/0", "64:ff9b::169.254.169.254", false, "nor through NAT64"},
    {"168.63.0.0/16", "168.63.129.16", false, "nor Azure's, though it is public"},
    {"168.63.129.16", "168.63.129.16", true, "Azure's by itself"},
    {"100.64.0.0/10", "100.100.100.200", false, "Alibaba's is not a provider's customer"},
    {"fd00::/8", "fd00:ec2::254", false, "EC2's is not just any private one"},
    {"::/0", "fd20:ce::254", false, "Google's is not opened by all of IPv6"},
    {"fd00:ec2::254/127", "fd00:ec2::254", false, "nor by one of two addresses"},
    {"fd00:ec2::254/128", "fd00:ec2::254", true, "EC2's by itself"},
};

CLAIM(networks_open_only_their_addresses)
{
    for (size_t i = 0; i < COUNT_OF(openings); i++) {
        char policy[160];
        snprintf(policy, sizeof policy, "allow-host = *\nallow-network = %s\n",
                 openings[i].network);
        struct guard *guard = guard_rig_open(policy);
        bool is_open = guard_rig_evaluate(guard, openings[i].address) == GUARD_ALLOWED;
        if (is_open != openings[i].is_open)
            fail_msg("%s by %s, %s: %s", openings[i].address, openings[i].network,
                     openings[i].sentence, is_open ? "reached" : "refused");
        guard_free(guard);
    }
}

CLAIM(networks_are_written_strictly)
{
    static const struct {
        const char *text, *reports;
    } slips[] = {
        {"10.0.0.0/33", "from 0 to 32"},
        {"fd00::/129", "from 0 to 128"},
        {"10.0.0.0/", "from 0 to 32"},
        {"10.0.0.0/-1", "from 0 to 32"},
        {"10.0.0.0/8/8", "from 0 to 32"},
        {"10.0.0.1/8", "bits set behind the prefix"},
        {"fd00::1/64", "bits set behind the prefix"},
        {"10.0.0.128/24", "bits set behind the prefix"},
        {"010.0.0.0/8", "write one such as"},
        {"10/8", "write one such as"},
        {"0x0a.0.0.0/8", "write one such as"},
        {"10.0.0.0./8", "write one such as"},
        {"private", "write one such as"},
        {"[fd00::]/8", "write one such as"},
        {"fe80::1%eth0", "write one such as"},
        {"/8", "write one such as"},
        {"64:ff9b::/96", "contain IPv4 addresses, name the IPv4 network"},
        {"64:ff9b::a00:0/104", "contain IPv4 addresses, name the IPv4 network"},
        {"2002:a00::/24", "contain IPv4 addresses, name the IPv4 network"},
        {"2001::/32", "contain IPv4 addresses, name the IPv4 network"},
        {"::a00:0/104", "contain IPv4 addresses, name the IPv4 network"},
    };
    for (size_t i = 0; i < COUNT_OF(slips); i++) {
        struct guard_network network;
        char error[GUARD_NETWORK_ERROR_BYTES] = "";
        CASE_HOLDS(slips[i].text, !guard_network_parse(slice_of(slips[i].text), &network, error));
        if (!strstr(error, slips[i].reports))
            fail_msg("%s: '%s' does not say '%s'", slips[i].text, error, slips[i].reports);
    }
}

CLAIMS_MAIN(NULL, NULL)
