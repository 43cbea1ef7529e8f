#!lua flags=allow-oom
-- Lets what is due happen, at most `most` of it: leases end, delayed jobs become ready, ready ones expire, finished ids are
-- forgotten. Any server may call it at any time; but where several do, one is enough: the mover, who came last of those
-- that came in time. It is told to others, who then come less often.
local window, server, most = ARGV[1], ARGV[2], tonumber(ARGV[4])
begin(KEYS)
if window ~= '' then clock_within(window) end
chance_seed(ARGV[3])

local MOVER_MS = 50 -- so long after its last call others count on it
local has_other = sub(mover, 1, 8) ~= server and math.abs(now - unpack_from('>I6', mover, 9)) < MOVER_MS
if not has_other then mover, core_is_changed = server .. pack('>I6', now), true end

topics_due(most - leases_due(most))
local woken = settle(server) or {}
table.insert(woken, 1, head(pack('>BB', next_ms <= now and 1 or 0, has_other and 1 or 0)))
return woken
