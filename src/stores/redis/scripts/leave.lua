#!lua flags=allow-oom
-- Returns the next page of a shard that is given up: jobs without a lease, then the rest of a topic, a page of one
-- topic at a time. A page that is on its way is returned again, word for word, until it is dropped (drop.lua): so any later server can
-- continue with it. Its jobs are not delivered, and no call changes them.
local ticket, most, bytes_most = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
begin(KEYS, ticket)
local MOVES, LEAVES = T .. ':moving', T .. ':leaving'
local NOTHING, PAGE, BUSY, EMPTY = 0, 1, 2, 3
local JOBS, IDS, TOTALS, RECORDS, KEPT, GROUPS = 1, 2, 3, 4, 5, 6 -- kinds of page: jobs, remembered ids, a topic's totals, records set aside by a repair, kept jobs, settings of groups
local MOVER_MS, TOPICS_LOOKED_AT = 1000, 200

local function leave_answer(what, page, kind, more)
    return shown(pack('>BI6I6B', what, page or 0, now, kind or 0), more)
end

if sealed ~= LEAVING then return leave_answer(sealed == CLOSED and EMPTY or NOTHING) end

-- One server is enough.
local server = sub(ticket, 1, 8)
local found = call('HMGET', MOVES, 'mover', 'seen', 'page', 'kind', 'topic')
local mover, seen, page, kind, name = found[1], tonumber(found[2] or 0), tonumber(found[3] or 0), tonumber(found[4] or 0), found[5]
if mover and mover ~= server and math.abs(clock - seen) < MOVER_MS then return leave_answer(BUSY) end
call('HSET', MOVES, 'mover', server, 'seen', text_of(clock))

-- Begins a page of these ids of the topic. A job is counted as pushed where it is, so that each shard's counts add up.
local function begin_page(t, is, ids)
    if is == JOBS then count(t, 'pushed', -#ids) end
    if is == JOBS and keeping.waiting then keeping.note_gone(t, ids, keeping.moved) end
    local words = {}
    for i = 1, #ids do words[2 * i - 1], words[2 * i] = i, ids[i] end
    call('DEL', LEAVES)
    call_many('ZADD', LEAVES, words)
    page, kind, name = page + 1, is, t.name
    call('HSET', MOVES, 'page', text_of(page), 'kind', text_of(kind), 'topic', name)
    return true
end

-- The first set of the topic's that has waiting jobs; and its first members.
local function waiting_of(t)
    local function first_of(key)
        local members = call('ZRANGE', key, '0', text_of(most - 1))
        return members[1] and members
    end
    local members = first_of(t.fresh)
    if members then return t.fresh, members end
    local leaf = call('ZRANGE', t.index, '0', '0')[1]
    if leaf then
        members = first_of(t.leaf .. leaf)
        if members then return t.leaf .. leaf, members end
        call('ZREM', t.index, leaf)
    end
    for _, priority in ipairs(call('ZRANGE', t.priorities, '0', '-1')) do
        members = first_of(t.ready_of .. priority)
        if members then return t.ready_of .. priority, members end
    end
    members = first_of(t.dead)
    return members and t.dead, members
end

-- Returns a page of waiting jobs; false if the topic has no such job.
local function page_of_jobs(t)
    local key, members = waiting_of(t)
    if not key then return false end
    local ids, bytes = {}, 0
    for i = 1, #members do
        local id = sub(members[i], 7)
        local j = job_find(t, id)
        if j and j.member == members[i] and j.state ~= LEASED_STATE then
            bytes = bytes + #j.record
            if #ids > 0 and bytes > bytes_most then break end
            unhang(t, j)
            ids[#ids + 1] = id
        end
        call('ZREM', key, members[i]) -- also one that no job agrees with, as Redis may leave it behind
    end
    topic_refresh(t)
    return #ids == 0 or begin_page(t, JOBS, ids)
end

-- Jobs that hang nowhere, as Redis may leave them behind: they are hung where they go.
local function page_of_strays(t)
    local page_found, ids = call('HSCAN', t.jobs, '0', 'COUNT', most)[2], {}
    for i = 1, #page_found, 2 do ids[#ids + 1] = page_found[i] end
    if #ids == 0 then ids[1] = call('HRANDFIELD', t.jobs) end
    return #ids > 0 and begin_page(t, JOBS, ids)
end

local function topic_end(t)
    local totals = {}
    for i = AT.pushed, AT.redriven do totals[#totals + 1] = pack('>I6', max(0, t.f[i])) end
    call('HSET', MOVES, 'totals', table.concat(totals))
    call('DEL', t.key, t.extension, t.expiry, t.priorities, t.index, t.kept, t.order, t.groups, t.wakes, t.waits)
    call('ZREM', TOPICS, t.name)
    call('SREM', UNPACKED, t.name)
    t.is_deleted = true
    if next_topic == t.name then shard_look() end
    return begin_page(t, TOTALS, {''})
end

-- Returns true if something of the topic can leave now.
local function page_of(t)
    if page_of_jobs(t) then return true end
    if call('ZCARD', t.held) > 0 then return false end -- they leave once their leases have ended
    if call('HLEN', t.jobs) > 0 then return page_of_strays(t) end
    local ids = call('ZRANGE', t.finished, '0', text_of(most - 1))
    if #ids > 0 then return begin_page(t, IDS, ids) end
    if has(t, keeping.FLAG) then
        local leaf, left = kept.leave(t)
        if leaf then call('HSET', MOVES, 'leaf', leaf) end
        if #left > 0 then return begin_page(t, KEPT, left) end
    end
    local broken = call('HSCAN', T .. ':broken:' .. t.name, '0', 'COUNT', '10')[2]
    for i = 1, #broken, 2 do ids[#ids + 1] = broken[i] end
    if #ids > 0 then return begin_page(t, RECORDS, ids) end
    ids = t.flow and call('HKEYS', t.group_settings) or ids
    if #ids > 0 then return begin_page(t, GROUPS, ids) end
    return topic_end(t)
end

-- The next topic that has something; where all have been looked at, from the first again.
local function look_for_page()
    local from = tonumber(call('HGET', MOVES, 'rank') or 0)
    local names = call('ZRANGE', TOPICS, text_of(from), text_of(from + TOPICS_LOOKED_AT - 1))
    for i = 1, #names do
        local t = topic_find(names[i])
        if not t then
            call('ZREM', TOPICS, names[i])
        elseif page_of(t) then
            call('HSET', MOVES, 'rank', text_of(from))
            return true
        end
    end
    call('HSET', MOVES, 'rank', text_of(#names == TOPICS_LOOKED_AT and from + #names or 0))
    return false
end

local function shard_end()
    sealed, core_is_changed = CLOSED, true
    next_ms, rest_ms, next_topic = NONE, NONE, ''
    call('DEL', LEASED, UNPACKED, LEAVES, T .. ':arrived')
    call('HDEL', MOVES, 'mover', 'seen', 'rank', 'totals', 'leaf')
end

local kept_leaving -- kept jobs of the page, by id

local function element_of(t, id)
    if kind == TOTALS then return call('HGET', MOVES, 'totals'), '', '' end
    if kind == KEPT then return kept_leaving[id] or '', '', '' end
    if kind == GROUPS then return call('HGET', keys_of(t.name).__index.group_settings, id) or '', '', '' end
    if kind == IDS then return pack('>I6', tonumber(call('ZSCORE', t.finished, id) or 0)), '', '' end
    if kind == RECORDS then return call('HGET', T .. ':broken:' .. t.name, id) or '', '', '' end
    local record = call('HGET', t.jobs, id) or ''
    return record, call('HGET', t.tries, id) or '', call('HGET', t.history, id) or ''
end

if kind == 0 then
    look_for_page()
    if kind == 0 and call('ZCARD', TOPICS) == 0 and call('ZCARD', LEASES) == 0 then shard_end() end
    settle(server, '', nil)
end
if kind == 0 then return leave_answer(sealed == CLOSED and EMPTY or NOTHING) end

local more, keys = {name}, keys_of(name).__index
if kind == KEPT then kept_leaving = kept.leaving(keys, call('HGET', MOVES, 'leaf') or '') end
for _, id in ipairs(call('ZRANGE', LEAVES, '0', '-1')) do
    local at = #more
    more[at + 1], more[at + 2], more[at + 3], more[at + 4] = id, element_of({name = name, finished = keys.finished, jobs = keys.jobs, tries = keys.tries, history = keys.history}, id)
end
return leave_answer(PAGE, page, kind, more)
