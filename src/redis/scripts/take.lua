#!lua flags=allow-oom
-- Leases up to `most` ready jobs of a topic: by priority, due, push order.
local ticket, name, most, bytes_max, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
begin(KEYS, ticket, name)

local more = {}
local kept = answered_before(ticket)
if kept then
    local first, last = unpack_from('>I6I6', kept)
    take_again(first, last, more)
    return shown('', more)
end
local t = topic_find(name)
if not t or has(t, PAUSED) then return shown('') end
local before = sequence
local taken = take(t, most, bytes_max, lease_ms, more)
settle(NOBODY, ticket, taken > 0 and pack('>I6I6', before + 1, sequence) or nil) -- what fell due and was not taken is news to the caller, too
return shown('', more)
