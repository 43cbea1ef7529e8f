#!lua flags=allow-oom
-- Greets a server that has reached the shard's master: creates the shard if it is new, and returns its state.
local run, shards, name, drawn, held = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4], tonumber(ARGV[5]) -- held: the time of a new, stopped clock
local known = ARGV[6] or '' -- the end of the lease key of the core that the server used before; empty: none
local place = tonumber(ARGV[7])
local DAY_MS, TICKETS_LOOKED_AT = 86400000, 64

-- Where jobs are left of a shard whose core was lost, numbers begin above any given out.
local text = reach(KEYS)
local is_new = not text
if is_new then
    if call('EXISTS', CORE) == 1 then refuse_core() end -- of another type
    local number = call('EXISTS', TOPICS) == 1 and number_beyond(0) or 0
    core_make({shards = shards, generation = 0, changes = 0, deaths = 0, run = run, lease_key = drawn}, number, number, 0)
    if held then LAYOUT.hold(held) end
elseif not core_open(text) then
    refuse_core(text)
end

-- Another process serves the shard, and may have lost its last writes: numbers given out by the one before must not come again.
local more = core_more()
if more.run ~= run then
    more.run = run
    core_more_set(more)
    sequence = number_beyond(sequence)
    parts.report_all(place)
end

-- The server used another core before, with numbers that this one does not know.
if known ~= '' and more.lease_key ~= '' and sub(more.lease_key, -8) ~= known then
    core_more_set(more)
    sequence = number_beyond(sequence)
    parts.report_all(place)
end

-- Servers check leases with this key. The first server that greets has drawn it, for all of them; a core that a check made has no key.
if more.lease_key == '' then
    more.lease_key = drawn
    core_more_set(more)
end
shard_look()

-- The queue's name, in its first shard: drawn once, by whichever server came first.
if name ~= '' then
    call('SET', T .. ':name', name, 'NX')
    name = call('GET', T .. ':name')
end

-- Servers come and go: a ticket that is older than a day belongs to no call in progress.
local old = call('ZRANGE', SERVERS, '-inf', text_of(clock - DAY_MS), 'BYSCORE', 'LIMIT', '0', TICKETS_LOOKED_AT)
for i = 1, #old do
    local ticket = call('GET', TICKET .. old[i])
    local used = ticket and unpack_from('>I6', ticket, 13) or 0
    if used > clock - DAY_MS then
        call('ZADD', SERVERS, text_of(used), old[i])
    else
        call('DEL', TICKET .. old[i])
        call('ZREM', SERVERS, old[i])
    end
end

write('')
return shown(pack('>BI4I6', is_new and 1 or 0, more.shards, sequence) .. more.lease_key .. LAYOUT.mark() .. name)
