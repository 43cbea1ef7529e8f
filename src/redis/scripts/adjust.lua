#!lua flags=allow-oom
-- The shard's clock jumped: one of the servers sets it right; the others find it done.
local ticket, expected, new = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local kept = answered_before(ticket)
if kept then return repeated(kept) end
if adjust == expected then
    call('HSET', CORE, 'adjust', text_of(new))
    now, adjust = wall + new, new
end
return changed(ticket)
