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
    -- A shard of the next generation: its numbers begin above those of jobs that come from the one before.
    local more = core_more()
    local generation = tonumber(string.match(target, '@(%d+)$'))
    if more.generation ~= generation then
        more.generation = generation
        core_more_set(more)
        sequence = number_beyond(sequence)
    end
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
