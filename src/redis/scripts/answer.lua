#!lua flags=allow-oom
-- What consumers say of their leases.
local ticket = ARGV[1]
begin(KEYS, ticket)

local kept = answered_before(ticket)
if kept then return repeated(kept) end
chance_seed(ARGV[2])
local said, names = answers_carry_out(ARGV, 3, (#ARGV - 2) / 2)
return changed(ticket, said, names)
