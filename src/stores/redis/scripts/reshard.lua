#!lua flags=allow-oom
-- Takes the next step of a shard to another generation, and returns its progress. No step is taken back or taken twice: if the answer names another
-- generation than the caller asked for, another server was first. `ask` takes no step; if the first one was not taken either, it also returns the number
-- of open batches, and the job of one.
local ticket, verb, target = ARGV[1], ARGV[2], ARGV[3]
begin(KEYS, ticket)

-- Advances to `step`; the first step sets the target.
local function go_on(step)
    if sealed >= step then return end
    call('HSETNX', T .. ':moving', 'target', target)
    if call('HGET', T .. ':moving', 'target') ~= target then return end
    sealed, core_is_changed = step, true
    notify('g')
end

if verb == 'prepare' then
    -- A shard of the next generation. An id that ends in the previous one may be pushed again here, so its numbers begin far above the
    -- last one given out there: that shard gives out more while it empties, and continues by the clock if Redis is started again.
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
if verb ~= 'ask' or sealed > 0 then return shown(move_state()) end
local waiting = T .. ':batches'
return shown(pack('>BI6I4', sealed, sequence, call('HLEN', waiting)) .. (call('HRANDFIELD', waiting) or ''))
