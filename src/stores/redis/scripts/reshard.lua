#!lua flags=allow-oom
-- How far a shard is on its way to another generation, and the next step of it. None is taken back, and one that was taken is not
-- taken again: whoever is told another generation than it asked for came second.
local ticket, verb, target = ARGV[1], ARGV[2], ARGV[3]
begin(KEYS, ticket)

-- Up to `step`; the first one says where it goes.
local function go_on(step)
    if sealed >= step then return end
    call('HSETNX', T .. ':moving', 'target', target)
    if call('HGET', T .. ':moving', 'target') ~= target then return end
    sealed, core_is_changed = step, true
    tell('g')
end

if verb == 'prepare' then
    -- A shard of the next generation. An id that ends in the one before may be pushed again here, so its numbers begin far above the
    -- last one given out there: it gives out more while it empties, and goes on by the clock where Redis is started again.
    local more = core_more()
    more.generation = tonumber(string.match(target, '@(%d+)$'))
    core_more_set(more)
    sequence, core_is_changed = max(sequence, number_beyond(tonumber(ARGV[4])) + 2 ^ 32), true
elseif verb == 'announce' then
    go_on(ANNOUNCED)
elseif verb == 'seal' then
    go_on(SEALED)
elseif verb == 'leave' then
    go_on(LEAVING)
elseif verb == 'adopt' then
    call('ZADD', T .. ':aware', text_of(clock), sub(ticket, 1, 8))
end
write(ticket)
return shown(state_told())
