#!lua flags=allow-oom
-- Moves a page that left a shard of the previous generation (leave.lua) into its new shard, unchanged: history and order are kept. Pages of a
-- shard arrive in the order of their numbers; a page that arrived before changes nothing. `shift`: this shard's clock minus that shard's.
local ticket, source, page, kind, name, shift = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
begin(KEYS, ticket, name)
local ARRIVED, IDS, TOTALS, RECORDS, KEPT, GROUPS = T .. ':arrived', 2, 3, 4, 5, 6
if tonumber(call('HGET', ARRIVED, source) or 0) >= page then return shown('') end

local t = topic_make(name, 1 / 0)
local records, tries, histories = {}, {}, {}

local function add(words, id, text)
    local at = #words
    words[at + 1], words[at + 2] = id, text
end

local function job_arrives(id, record, try, history)
    if #record < 15 or call('HEXISTS', t.jobs, id) == 1 then return end
    local flags, priority, number, due, at = unpack_from('>BI2I6I6', record)
    sequence, core_is_changed = sequence + 1, true -- jobs of two shards may have had the same
    record = pack('>BI2I6I6', flags, priority, sequence, max(0, due + shift)) .. sub(record, at)
    local j = job_make(t, id, record, try ~= '' and try or nil)
    if j.tried then
        j.due, j.first = max(0, j.due + shift), max(0, j.first + shift)
        if j.state ~= DEAD then j.state, j.lease_until = DELAYED, 0 end
        if j.state == DELAYED then raise(t, TRIED) end
        add(tries, id, try_of(j))
    end
    if #history > 6 and unpack_from('>I6', history) == number then
        raise(t, HISTORIC)
        add(histories, id, pack('>I6', sequence) .. sub(history, 7))
    end
    if j.priority ~= 100 or flags % 2 == 1 then raise(t, SPECIAL) end
    if flags % 64 >= 32 then raise(t, keeping.FLAG) end
    if flags >= flow.RECORD then flow.group_all(t) end
    sequence = max(sequence, j.delivery)
    add(records, id, record)
    count(t, 'pushed', 1)
    hang(t, j)
end

local function totals_arrive(totals)
    for i = AT.pushed, AT.redriven do
        t.f[i] = t.f[i] + unpack_from('>I6', totals, 6 * (i - AT.pushed) + 1)
    end
    t.is_changed = true
end

local function arrive(id, text, try, history)
    if kind == IDS then
        local until_ms = unpack_from('>I6', text) + shift
        call('ZADD', t.finished, text_of(until_ms), id)
        raise(t, REMEMBERING)
        event_at(t, until_ms)
    elseif kind == TOTALS then
        totals_arrive(text)
    elseif kind == GROUPS then
        flow.own_put(t, id, text)
    elseif kind == KEPT then
        keeping.arrive(t, id, text, shift)
    elseif kind == RECORDS then
        call('HSET', T .. ':broken:' .. name, id, text)
    else
        job_arrives(id, text, try, history)
    end
end

for i = 7, #ARGV, 4 do arrive(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]) end
call_many('HSET', t.jobs, records)
call_many('HSET', t.tries, tries)
call_many('HSET', t.history, histories)
call('HSET', ARRIVED, source, text_of(page))
settle(NOBODY, '', nil)
return shown('')
