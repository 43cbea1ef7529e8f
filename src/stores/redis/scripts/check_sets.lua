#!lua flags=allow-oom
-- parts: base topics leaves history jobs kept keeping events flow batches parts due ending findings sound
-- A step of a check of the sets a topic's jobs hang in: does each entry belong to a job that agrees?

local function by_due(j, score)
    if score ~= j.due then return format(' by %d instead of its due %d', score, j.due) end
end

local function state_fits(state)
    return function(j, score)
        if j.state ~= state then return '' end
        return by_due(j, score)
    end
end

local function waits(j, score)
    if j.state == LEASED_STATE or j.state == DEAD then return '' end
    return by_due(j, score)
end

local function check_one_set(key, where, fits)
    return function(t)
        local members, following = scan(t[key], 'ZSCAN', step.cursor)
        check_members(t, t[key], where, members, fits)
        return following
    end
end

-- Checks that jobs in the set of expiries are ready. (Only a ttl of the job's own determines the time: the topic's may have changed.)
local function check_expiry(t)
    local members, following = scan(t.expiry, 'ZSCAN', step.cursor)
    check_members(t, t.expiry, 'expiry', members, function(j, score)
        if j.state == LEASED_STATE or j.state == DEAD or not call('ZSCORE', t.ready_of .. flow.lane_of(j), j.member) then return '' end
        local ttl = own_ttl(j)
        if ttl > 0 and score ~= j.first + ttl then return format(' by %d instead of %d', score, j.first + ttl) end
    end)
    return following
end

-- ---- ready jobs ----

-- Checks one priority a step. The cursor: "score priority cursor", with "-" as the last part once the priority is finished.
local function check_ready(t)
    local score, priority, inside = string.match(step.cursor, '^(%S+) (.*) (%S+)$')
    if not inside or inside == '-' then
        priority, score = entry_after(t.priorities, priority, score)
        inside = '0'
    end
    if not priority then return '' end
    local key = t.ready_of .. priority
    local exists = call('EXISTS', key) == 1
    local number = flow.lane_read(priority)
    if number ~= tonumber(score) or not exists then
        local what = format("priority '%s' is in the list as %s%s", priority, score, exists and '' or ', without ready jobs')
        if find(t.name, '', what, 'corrected') then
            call('ZREM', t.priorities, priority)
            if exists and number then call('ZADD', t.priorities, number, priority) end
            return 'again' -- from the start: their order has changed
        end
    end
    local members, following = scan(key, 'ZSCAN', inside)
    check_members(t, key, 'ready of priority ' .. priority, members, function(j, by)
        if tostring(flow.lane_of(j)) ~= priority then return format(', its own is %s', flow.lane_of(j)) end
        if j.state == LEASED_STATE or j.state == DEAD then return '' end
        local score_of = t.flow and flow.score_of(t, j) or j.due
        if by ~= score_of then return format(' by %d instead of %d', by, score_of) end
    end)
    if step.repairs and exists then ready_is_empty(t, priority) end
    return score .. ' ' .. priority .. ' ' .. (following == '' and '-' or following)
end

-- ---- leaves ----

-- Returns true if the leaf was found unsound and is to be taken apart now.
local function leaf_is_spoiled(t, leaf, low)
    if not string.find(leaf, '^%d+$') then
        return find(t.name, '', 'the index names a leaf without a number', 'its jobs moved where they belong')
    end
    must_be_below('leaf', tonumber(leaf), 'leaf')
    local key = t.leaf .. leaf
    local first, last = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2], call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
    if not first then
        if find(t.name, '', format('the index names leaf %s, which is missing', leaf), 'dropped from the index') then
            call('ZREM', t.index, leaf)
        end
        return false
    end
    local above = tonumber(call('ZRANGE', t.index, '(' .. low, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2] or '+inf') or NONE
    local twins = call('ZCOUNT', t.index, low, low)
    if tonumber(first) >= tonumber(low) and tonumber(last) < above and twins == 1 then return false end
    local what = twins > 1 and format('leaf %s begins at %s, like another leaf', leaf, low)
        or format('leaf %s spans %s to %s, but holds %s to %s', leaf, low, above == NONE and 'the end' or text_of(above), first, last)
    return find(t.name, '', what, 'its jobs moved where they belong')
end

-- The cursor: "lowest leaf cursor", the last "-" where the leaf is done with, "*" where it is being taken apart.
local function check_leaves(t)
    local low, leaf, inside = string.match(step.cursor, '^(%S+) (.*) (%S+)$')
    repeat
        if inside == '*' then
            if unravel(t, leaf) then return low .. ' ' .. leaf .. ' *' end
            inside = '-'
        end
        if not inside or inside == '-' then
            leaf, low = entry_after(t.index, leaf, low)
            inside = '0'
            if not leaf then return '' end
            if leaf_is_spoiled(t, leaf, low) then
                call('ZREM', t.index, leaf)
                inside = '*'
            end
        end
        if inside ~= '*' then
            local members, following = scan(t.leaf .. leaf, 'ZSCAN', inside)
            check_members(t, t.leaf .. leaf, 'leaf ' .. leaf, members, waits)
            if step.repairs and call('EXISTS', t.leaf .. leaf) == 0 then call('ZREM', t.index, leaf) end
            inside = following == '' and '-' or following
        end
    until step.looked >= step.most
    return low .. ' ' .. leaf .. ' ' .. inside
end

-- ---- what is left of jobs ----

local function check_tries(t)
    local page, following = scan(t.tries, 'HSCAN', step.cursor)
    for i = 1, #page, 2 do
        step.looked = step.looked + 1
        if call('HEXISTS', t.jobs, page[i]) == 0 and find(t.name, page[i], 'has a try without a job', 'dropped') then call('HDEL', t.tries, page[i]) end
    end
    return following
end

local function check_finished(t)
    local page, following = scan(t.finished, 'ZSCAN', step.cursor)
    for i = 1, #page, 2 do
        step.looked = step.looked + 1
        if call('HEXISTS', t.jobs, page[i]) == 1 and find(t.name, page[i], 'exists and is also remembered as finished', 'removed from the finished ids') then
            call('ZREM', t.finished, page[i])
        end
    end
    return following
end

local function history_is_whole(kept)
    if #kept < 19 then return false end
    local _, _, _, attempts, at = unpack_from('>I6I6I6B', kept)
    local size = at + attempts - 1
    for i = at, min(size, #kept) do size = size + byte(kept, i) end
    return attempts <= 8 and size == #kept
end

-- Older servers leave the histories of finished jobs.
local function check_histories(t)
    local page, following = scan(t.history, 'HSCAN', step.cursor)
    if #page > 0 and not t.is_lost and not has(t, HISTORIC) and find(t.name, '', 'has histories, but lacks the flag', 'flag set') then raise(t, HISTORIC) end
    for i = 1, #page, 2 do
        local id, kept = page[i], page[i + 1]
        local record = call('HGET', t.jobs, id)
        local wrong = not record and 'a history without a job' or not history_is_whole(kept) and 'an unreadable history'
            or is_readable(record) and unpack_from('>I6', record, 4) ~= unpack_from('>I6', kept) and 'the history of another job'
        step.looked, step.bytes = step.looked + 1, step.bytes + (record and #record or 0)
        if wrong and find(t.name, id, 'has ' .. wrong, 'dropped') then call('HDEL', t.history, id) end
    end
    return following
end

-- ---- kept jobs ----

-- The index, part by part. The cursor: "part cursor".
local function check_done(t)
    local k, part, inside = kept.open(t), 0, ''
    if step.cursor ~= '' then
        part, inside = string.match(step.cursor, '^(%d+) (%d*)$')
        part = tonumber(part)
    end
    while part < k.buckets and step.looked < step.most do
        local key = t.done .. text_of(part)
        local page, following = scan(key, 'HSCAN', inside)
        step.looked = step.looked + 1 + #page / 2
        for i = 1, #page, 2 do
            local id = page[i]
            local fits, exists = kept.is_indexed(t, part, id, page[i + 1])
            if not exists then
                if find(t.name, id, 'is in the index of kept jobs, but is in no page', 'dropped') then call('HDEL', key, id) end
            elseif not fits and find(t.name, id, 'is in the wrong part of the index of kept jobs', 'dropped there') then
                call('HDEL', key, id)
            end
        end
        inside = following
        if following == '' then part = part + 1 end
    end
    return part < k.buckets and text_of(part) .. ' ' .. inside or ''
end

-- Checks an entry of a page. `seen`: the ids before it. Returns false if it was dropped.
local function check_kept_job(t, name, slot, entry, seen)
    local id, value = kept.id_of(entry), kept.value_of(entry)
    local page = kept.page_of(t, id)
    local wrong, repair = nil, 'dropped'
    if not keeping.is_readable(value) then
        wrong = 'is kept as finished, but cannot be read'
    elseif call('HEXISTS', t.jobs, id) == 1 then
        wrong, repair = 'exists and is also kept as finished', 'removed from the kept jobs'
    elseif seen[id] or page and page ~= name then
        wrong, repair = 'is kept as finished twice', 'one of them removed'
    end
    step.looked, step.bytes = step.looked + 1, step.bytes + #entry
    if wrong then
        if not find(t.name, id, wrong, repair) then return true end
        kept.drop_entry(t, name, entry, not seen[id])
        return false
    end
    seen[id] = true
    if not page and find(t.name, id, 'is kept as finished, but is not in the index', 'added') then kept.index_put(t, name, slot, id) end
    return true
end

local function is_before(one, other)
    local number, ends = kept.place_of(one)
    local other_number, other_ends = kept.place_of(other)
    return ends < other_ends or ends == other_ends and number < other_number
end

-- Checks that the jobs of a page are by the end of their time, and that the page is where its first one belongs.
local function check_page_order(t, name, begins, entries)
    local first, is_sorted = entries[1], true
    for i = 2, #entries do is_sorted = is_sorted and not is_before(entries[i], entries[i - 1]) end
    if not is_sorted and find(t.name, '', format('page %s of kept jobs is not in order', name), 'sorted') then
        table.sort(entries, is_before)
        call('DEL', t.page .. name)
        call_many('RPUSH', t.page .. name, entries)
        kept.forget_page(t)
        first = entries[1]
    end
    local ends = kept.ends_of(first)
    if ends < tonumber(begins) and find(t.name, '', format('page %s of kept jobs begins at %s, but holds %d', name, begins, ends), 'corrected') then
        call('ZADD', t.order, text_of(ends), name)
        kept.forget_page(t)
    end
end

-- Some pages a step. The cursor: "end page".
local function check_order(t)
    local ends, name = string.match(step.cursor, '^(%S+) (.*)$')
    repeat
        name, ends = entry_after(t.order, name, ends)
        if not name then return '' end
        local entries, left, seen = kept.page_entries(t, name), {}, {}
        if #entries == 0 and find(t.name, '', format('the order of kept jobs names page %s, which is missing', name), 'removed') then
            call('ZREM', t.order, name)
            kept.forget_page(t)
        end
        for i = 1, #entries do
            if check_kept_job(t, name, i - 1, entries[i], seen) then left[#left + 1] = entries[i] end
        end
        if #left > 0 then check_page_order(t, name, ends, left) end
    until step.looked >= step.most
    return ends .. ' ' .. name
end

local PARTS = {fresh = check_one_set('fresh', 'fresh', waits), held = check_one_set('held', 'held', state_fits(LEASED_STATE)),
               dead = check_one_set('dead', 'dead', state_fits(DEAD)), expiry = check_expiry, ready = check_ready, leaves = check_leaves,
               tries = check_tries, finished = check_finished, histories = check_histories,
               order = check_order, done = check_done}
return step_end(PARTS[step.part]((topic_here())))
