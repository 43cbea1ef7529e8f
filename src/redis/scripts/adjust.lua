#!lua flags=allow-oom
-- The shard's clock jumped: one of the servers sets it right; the others find it done.
local ticket, expected, new = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
begin(KEYS, ticket)

local kept = answered_before(ticket)
if kept then return repeated(kept) end
if adjust == expected then
    adjust, core_is_changed = new, true
    now = wall + new
end
return changed(ticket)
