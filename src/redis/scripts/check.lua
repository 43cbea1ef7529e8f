#!lua flags=allow-oom
-- parts: base topics leaves jobs due ending
-- One bounded step of a check of the shard's invariants: says what is wrong and, asked to, mends it. What a step finds is
-- wrong at that instant, whatever servers do meanwhile: nothing is concluded from what two steps saw, but for the split
-- of delayed and retrying, which is walked twice. Sets lose what does not belong there, jobs are hung where they belong,
-- counts follow; a record is never dropped. A step may be repeated, and none needs the next one.
local repairs, part, name, cursor, most = ARGV[1] == 'repair', ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local MENDED, BY_HAND, NOTE = repairs and 1 or 0, 2, 3
local STATES = {'delayed', 'ready', 'leased', 'dead'}

local findings, names, looked, bytes = {}, {}, 0, 0
local touched = false -- the topic's earliest event may be another

-- Whether it is to be mended. `repair` as a participle: what is, or is to be, done.
local function find(topic, id, what, repair, how)
    how = how or MENDED
    local at = #findings
    findings[at + 1], findings[at + 2], findings[at + 3], findings[at + 4], findings[at + 5] =
        pack('>B', how), topic, id, what, repair
    return how == 1
end

-- A topic whose hash is lost is looked at all the same.
local function topic_here()
    local t = topic_find(name)
    if t then return t, true end
    t = topic_keys(name)
    t.paused, t.packed, t.ready, t.special = false, '', 0, true
    return t, false
end

-- ---- numbers given out ----

local function number_of(field)
    return tonumber(call('HGET', CORE, field) or nil) or 0
end

-- The clock is beyond any number that was counted up from 0.
local function must_be_below(field, number, what)
    local kept = number_of(field)
    if number <= kept then return end
    local raised = text_of(math.max(number, now))
    if find('', '', format("%s %d is above the shard's counter '%s', %d", what, number, field, kept), 'counter raised to ' .. raised) then
        call('HSET', CORE, field, raised)
    end
end

-- ---- jobs ----

local function is_readable(record)
    local size = #record
    if size < 15 then return false end
    local flags, at = unpack_from('>B', record), 15
    if flags > 15 then return false end
    if flags % 2 == 1 then at = at + 29 end
    if flags % 4 >= 2 then
        if size < at + 1 then return false end
        at = at + 1 + unpack_from('>B', record, at + 1)
    end
    if flags % 8 >= 4 then
        if size < at + 2 then return false end
        at = at + 2 + unpack_from('>I2', record, at + 1)
    end
    return at <= size
end

local function is_readable_try(try)
    if #try < 37 then return false end
    local state = unpack_from('>B', try)
    return state >= DELAYED and state <= DEAD
end

local function place_of(t, j)
    return pack('>I6', j.sequence) .. t.name .. '\0' .. j.id
end

-- By record and try, where they can be read; else nil.
local function job_read(t, id, record, try)
    if not record or not is_readable(record) then return nil end
    if try and not is_readable_try(try) then try = nil end
    return job_make(t, id, record, try)
end

local function job_get(t, id)
    return job_read(t, id, call('HGET', t.jobs, id), call('HGET', t.tries, id))
end

-- The jobs of these ids; false where there is none. Few records at a time: their bodies come with them.
local function jobs_get(t, ids)
    local jobs, tries = {}, ask_many('HMGET', t.tries, ids)
    for from = 1, #ids, 16 do
        local to = math.min(from + 15, #ids)
        local records = call('HMGET', t.jobs, unpack(ids, from, to))
        for i = from, to do
            local record = records[i - from + 1]
            bytes = bytes + (record and #record or 0)
            jobs[i] = job_read(t, ids[i], record, tries[i]) or false
        end
    end
    looked = looked + #ids
    return jobs
end

-- The job that a delivery number belongs to, by its place; nil where it does not agree.
local function holder_of(delivery, place)
    local split = place and #place > 7 and string.find(place, '\0', 7, true)
    if not split then return nil end
    local t = topic_find(sub(place, 7, split - 1))
    local j = t and job_get(t, sub(place, split + 1))
    if j and j.state == LEASED_STATE and text_of(j.delivery) == delivery and place_of(t, j) == place then return j, t end
    return nil
end

local function own_ttl(j)
    if j.flags % 2 == 0 then return 0 end
    local _, ttl = unpack_from('>I6I6', j.record, 16)
    return ttl
end

-- Out of every place a job of this state, priority and due could hang in; then where it belongs.
local function rehang(t, j)
    call('ZREM', t.held, j.member)
    call('ZREM', t.dead, j.member)
    call('ZREM', t.expiry, j.member)
    ready_remove(t, j.priority, j.member)
    delayed_remove(t, j.due, j.member)
    touched = true
    local delivery = text_of(j.delivery)
    if j.state == LEASED_STATE then
        local other = call('HGET', LEASED, delivery)
        if not other or other == place_of(t, j) or not holder_of(delivery, other) then
            call('ZADD', t.held, j.due, j.member)
            call('ZADD', LEASES, j.lease_until, delivery)
            call('HSET', LEASED, delivery, place_of(t, j))
            soonest = math.min(soonest, j.lease_until)
            return
        end
        j.state, j.lease_until = DELAYED, 0 -- its number is another's: it goes round again
        try_write(t, j)
    end
    hang(t, j)
end

-- ---- sets: does each member belong to a job that agrees? ----

-- `members` with scores, of the sorted set `key`; `fits(j, score)`: nil, or what is wrong.
local function check_members(t, key, where, members, fits)
    local ids = {}
    for i = 1, #members, 2 do ids[#ids + 1] = sub(members[i], 7) end
    local jobs = jobs_get(t, ids)
    for i = 1, #ids do
        local member, score, j = members[2 * i - 1], tonumber(members[2 * i]), jobs[i]
        if not j or j.member ~= member then
            if find(name, ids[i], where .. ' holds an entry of no job', 'dropped') then call('ZREM', key, member) end
        else
            local wrong = fits(j, score)
            if wrong and find(name, j.id, format('is %s and hangs in %s%s', STATES[j.state], where, wrong), 'hung where it belongs') then
                call('ZREM', key, member)
                rehang(t, j)
            end
        end
    end
end

local function scan(key, command, from)
    local page = call(command, key, from == '' and '0' or from, 'COUNT', most)
    return page[2], page[1] == '0' and '' or page[1]
end

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

local function check_held(t)
    local members, following = scan(t.held, 'ZSCAN', cursor)
    check_members(t, t.held, 'held', members, state_fits(LEASED_STATE))
    return following
end

local function check_dead(t)
    local members, following = scan(t.dead, 'ZSCAN', cursor)
    check_members(t, t.dead, 'dead', members, state_fits(DEAD))
    return following
end

-- Whoever is to expire is ready. (By when, only a ttl of its own tells: the topic's may have been another.)
local function check_expiry(t)
    local members, following = scan(t.expiry, 'ZSCAN', cursor)
    check_members(t, t.expiry, 'expiry', members, function(j, score)
        if j.state == LEASED_STATE or j.state == DEAD or not call('ZSCORE', t.ready_of .. j.priority, j.member) then return '' end
        local ttl = own_ttl(j)
        if ttl > 0 and score ~= j.first + ttl then return format(' by %d instead of %d', score, j.first + ttl) end
    end)
    return following
end

-- The cursor: "priority cursor". One priority a step.
local function check_ready(t)
    local from, inside = string.match(cursor, '^(%S+) (%S+)$')
    local entry = call('ZRANGE', t.priorities, from or '-inf', '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    local priority, score = entry[1], tonumber(entry[2])
    looked = looked + 1
    if not priority then return '' end
    local key = t.ready_of .. priority
    local exists = call('EXISTS', key) == 1
    if tonumber(priority) ~= score or not exists then
        if find(name, '', format("priority '%s' is noted by %s%s", priority, entry[2], exists and '' or ' and has no ready jobs'), 'put right') then
            call('ZREM', t.priorities, priority)
            if exists then call('ZADD', t.priorities, priority, priority) end
        end
    end
    if text_of(score) ~= from then inside = '' end
    local members, following = scan(key, 'ZSCAN', inside or '')
    check_members(t, key, 'ready of priority ' .. priority, members, function(j, by)
        if j.priority ~= tonumber(priority) then return format(', its own is %d', j.priority) end
        return waits(j, by)
    end)
    if repairs and exists then ready_is_empty(t, priority) end
    if following ~= '' then return text_of(score) .. ' ' .. following end
    return '(' .. entry[2] .. ' 0'
end

-- ---- leaves ----

-- Takes a leaf that no index leads to apart, up to `most` jobs. Whether there is more of it.
local function unravel(t, leaf)
    local key = t.leaf .. leaf
    local members, ids = call('ZRANGE', key, 0, most - 1), {}
    for i = 1, #members do ids[i] = sub(members[i], 7) end
    local jobs = jobs_get(t, ids)
    call_many('ZREM', key, members)
    for i = 1, #ids do
        local j = jobs[i]
        if j and j.member == members[i] then rehang(t, j) end
    end
    return call('EXISTS', key) == 1
end

-- Whether the leaf was found unsound and is to be taken apart.
local function leaf_is_spoiled(t, leaf, low)
    must_be_below('leaf', tonumber(leaf) or 0, 'leaf')
    local key = t.leaf .. leaf
    local first, last = call('ZRANGE', key, 0, 0, 'WITHSCORES')[2], call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
    if not first then
        if find(name, '', format('the index names leaf %s, which is missing', leaf), 'dropped from the index') then
            call('ZREM', t.index, leaf)
        end
        return false
    end
    local above = tonumber(call('ZRANGE', t.index, '(' .. low, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2] or '+inf') or NEVER
    local twins = call('ZCOUNT', t.index, low, low)
    if tonumber(first) >= tonumber(low) and tonumber(last) < above and twins == 1 then return false end
    local what = twins > 1 and format('leaf %s begins at %s, as another does', leaf, low)
        or format('leaf %s spans %s to %s and holds %s to %s', leaf, low, above == NEVER and 'the end' or text_of(above), first, last)
    return find(name, '', what, 'its jobs hung where they belong')
end

-- The cursor: "lowest leaf cursor", the last "-" where the leaf is done with, "*" where it is being taken apart.
local function check_leaves(t)
    local low, leaf, inside = string.match(cursor, '^(%S+) (%S+) (%S+)$')
    repeat
        if inside == '*' then
            if unravel(t, leaf) then return cursor end
            inside = '-'
        end
        if not inside or inside == '-' then
            local rank = leaf and call('ZRANK', t.index, leaf)
            rank = rank and rank + 1 or low and call('ZCOUNT', t.index, '-inf', '(' .. low) or 0
            local entry = call('ZRANGE', t.index, rank, rank, 'WITHSCORES')
            if not entry[1] then return '' end
            leaf, low, inside = entry[1], entry[2], '0'
            looked = looked + 1
            if leaf_is_spoiled(t, leaf, low) then
                call('ZREM', t.index, leaf)
                inside = '*'
            end
        end
        if inside ~= '*' then
            local members, following = scan(t.leaf .. leaf, 'ZSCAN', inside)
            check_members(t, t.leaf .. leaf, 'leaf ' .. leaf, members, waits)
            if repairs and call('EXISTS', t.leaf .. leaf) == 0 then call('ZREM', t.index, leaf) end
            inside = following == '' and '-' or following
        end
    until looked >= most
    return low .. ' ' .. leaf .. ' ' .. inside
end

-- ---- jobs: does each hang where it belongs? ----

local function what_is_wrong(t, j, in_held, in_dead, in_expiry)
    if j.state == LEASED_STATE then
        if not in_held then return 'leased and not among the held' end
        local delivery = text_of(j.delivery)
        if tonumber(call('ZSCORE', LEASES, delivery) or 0) ~= j.lease_until then return 'leased, and its lease has no end or another' end
        if call('HGET', LEASED, delivery) ~= place_of(t, j) then return 'leased, and its delivery number leads elsewhere' end
        return nil
    end
    if j.state == DEAD then return not in_dead and 'dead and not among the dead' or nil end
    local leaf = leaf_of(t, text_of(j.due))
    local is_delayed = leaf and call('ZSCORE', t.leaf .. leaf, j.member)
    local is_ready = (j.due <= now or not is_delayed) and call('ZSCORE', t.ready_of .. j.priority, j.member)
    if is_delayed and is_ready then return 'delayed and ready at once' end
    if not is_delayed and not is_ready then return format('%s, due %d, and hangs nowhere', STATES[shown_state(j)], j.due) end
    local ttl = is_ready and own_ttl(j) or 0
    if ttl > 0 and not in_expiry then return 'ready and does not expire by its ttl' end
end

-- What the try says beside the state.
local function check_try(t, j)
    local wrong
    if j.state == LEASED_STATE then
        if j.attempt < 1 then wrong, j.attempt = 'is leased at attempt 0', 1 end
    elseif j.lease_until > 0 then
        wrong, j.lease_until = 'is not leased and has the end of a lease', 0
    end
    if wrong and find(name, j.id, wrong, 'put right') then try_write(t, j) end
end

local function check_job(t, j, in_held, in_dead, in_expiry)
    must_be_below('sequence', math.max(j.sequence, j.delivery), 'number')
    if not t.special and (j.flags % 2 == 1 or j.priority ~= 100) then
        t.special = true
        if find(name, j.id, 'has a priority or policy of its own, which the topic does not know of', 'noted') then call('HSET', t.key, 'special', '1') end
    end
    check_try(t, j)
    local wrong = what_is_wrong(t, j, in_held, in_dead, in_expiry)
    if wrong and find(name, j.id, 'is ' .. wrong, 'hung where it belongs') then rehang(t, j) end
end

-- A record that no call could read would stop every take: it is kept aside.
local function set_aside(t, id, record)
    if not find(name, id, 'has a record that cannot be read', format("kept in '%s:broken:%s', where nobody trips over it", T, name)) then return end
    local field = call('HEXISTS', T .. ':broken:' .. name, id) == 1 and id .. '@' .. text_of(now) or id
    call('HSET', T .. ':broken:' .. name, field, record)
    call('HDEL', t.jobs, id)
    call('HDEL', t.tries, id)
end

local function check_jobs(t)
    local page, following = scan(t.jobs, 'HSCAN', cursor)
    local ids = {}
    for i = 1, #page, 2 do ids[#ids + 1] = page[i] end
    local tries, jobs, members = ask_many('HMGET', t.tries, ids), {}, {}
    for i = 1, #ids do
        local record = page[2 * i]
        bytes, looked = bytes + #record, looked + 1
        if not is_readable(record) then
            set_aside(t, ids[i], record)
        else
            if tries[i] and not is_readable_try(tries[i]) then
                if find(name, ids[i], 'has a try that cannot be read', 'dropped, it begins again at the first') then call('HDEL', t.tries, ids[i]) end
            end
            jobs[#jobs + 1] = job_read(t, ids[i], record, tries[i])
            members[#members + 1] = jobs[#jobs].member
        end
    end
    local held, dead, expiry = ask_many('ZMSCORE', t.held, members), ask_many('ZMSCORE', t.dead, members), ask_many('ZMSCORE', t.expiry, members)
    for i = 1, #jobs do check_job(t, jobs[i], held[i], dead[i], expiry[i]) end
    return following
end

local function check_tries(t)
    local page, following = scan(t.tries, 'HSCAN', cursor)
    for i = 1, #page, 2 do
        looked = looked + 1
        if call('HEXISTS', t.jobs, page[i]) == 0 and find(name, page[i], 'has a try and no job', 'dropped') then call('HDEL', t.tries, page[i]) end
    end
    return following
end

local function check_finished(t)
    local page, following = scan(t.finished, 'ZSCAN', cursor)
    for i = 1, #page, 2 do
        looked = looked + 1
        if call('HEXISTS', t.jobs, page[i]) == 1 and find(name, page[i], 'is remembered as finished and there', 'forgotten as finished') then
            call('ZREM', t.finished, page[i])
        end
    end
    return following
end

-- ---- leases of the shard ----

local function check_leases()
    local page, following = scan(LEASES, 'ZSCAN', cursor)
    for i = 1, #page, 2 do
        local delivery = page[i]
        local j = holder_of(delivery, call('HGET', LEASED, delivery))
        looked = looked + 1
        if not j and find('', '', format("lease '%s' is nobody's", delivery), 'dropped') then
            call('ZREM', LEASES, delivery)
        elseif j and tonumber(page[i + 1]) ~= j.lease_until and find('', j.id, format('its lease ends at %s instead of %d', page[i + 1], j.lease_until), 'put right') then
            call('ZADD', LEASES, j.lease_until, delivery)
        end
    end
    return following
end

local function check_leased()
    local page, following = scan(LEASED, 'HSCAN', cursor)
    for i = 1, #page, 2 do
        looked = looked + 1
        if not holder_of(page[i], page[i + 1]) and find('', '', format("delivery number '%s' is of nobody who is leased", page[i]), 'dropped') then
            call('HDEL', LEASED, page[i])
        end
    end
    return following
end

-- ---- the topic ----

local function has_keys(t)
    return call('EXISTS', t.key, t.jobs, t.tries, t.index, t.priorities, t.expiry, t.held, t.dead, t.finished) > 0
end

local function check_topic(t, exists)
    looked = 1
    if not has_keys(t) then return '' end -- it was deleted
    local paused = call('HGET', t.key, 'paused')
    if not exists or paused ~= '0' and paused ~= '1' then
        local what = exists and 'neither paused nor not' or 'jobs, and no counts and settings: they were lost'
        if find(name, '', 'the topic has ' .. what, 'set up anew, not paused') then
            call('HSET', t.key, 'paused', '0')
            call('ZADD', TOPICS, 'NX', '+inf', name)
        end
    end
    local packed = call('HGET', t.key, 'settings') or ''
    if packed ~= '' and #packed ~= 40 and find(name, '', 'the settings cannot be read', 'dropped') then call('HDEL', t.key, 'settings') end
    local figures = call('HMGET', t.key, unpack(FIGURES))
    for i = 1, #FIGURES do
        if figures[i] and not string.find(figures[i], '^%-?%d+$') then
            if find(name, '', format("the count '%s' is no number", FIGURES[i]), 'counted anew') then call('HSET', t.key, FIGURES[i], 0) end
        end
    end
    return ''
end

local LIVE = {'delayed', 'retrying', 'ready', 'leased', 'dead'}
local GONE = {'acked', 'cancelled', 'expired'}

local function figures_of(t, fields)
    local out = {}
    for i, value in ipairs(call('HMGET', t.key, unpack(fields))) do out[fields[i]] = tonumber(value or nil) or 0 end
    return out
end

local function set_figure(t, field, kept, found)
    if kept[field] == found then return end
    if not find(name, '', format('counts %d %s, there are %d', kept[field], field, found), 'counted anew') then return end
    call('HSET', t.key, field, text_of(found))
    kept[field] = found
end

-- All but the split of delayed and retrying. Every job hangs in one place, so who is in no other waits in a leaf.
local function check_counts(t, exists)
    if not exists then return '' end
    local kept, ready = figures_of(t, LIVE), 0
    local priorities = call('ZRANGE', t.priorities, 0, -1)
    for i = 1, #priorities do ready = ready + call('ZCARD', t.ready_of .. priorities[i]) end
    looked = 1 + #priorities
    local was_ready = kept.ready
    set_figure(t, kept and 'ready', kept, ready)
    if repairs and was_ready <= 0 and ready > 0 and not t.paused then call('SPUBLISH', T .. ':news', 'r' .. NOBODY .. name) end
    set_figure(t, 'leased', kept, call('ZCARD', t.held))
    set_figure(t, 'dead', kept, call('ZCARD', t.dead))
    local jobs = call('HLEN', t.jobs)
    local waiting = math.max(0, jobs - ready - call('ZCARD', t.held) - call('ZCARD', t.dead))
    if kept.delayed + kept.retrying ~= waiting or kept.delayed < 0 or kept.retrying < 0 then
        if find(name, '', format('counts %d delayed and %d retrying, there are %d of both', kept.delayed, kept.retrying, waiting), 'counted anew') then
            local retrying = math.min(math.max(0, kept.retrying), waiting)
            call('HSET', t.key, 'delayed', text_of(waiting - retrying), 'retrying', text_of(retrying))
        end
    end
    local gone, pushed = figures_of(t, GONE), figures_of(t, {'pushed'}).pushed
    local accounted = jobs + gone.acked + gone.cancelled + gone.expired
    if pushed ~= accounted then
        local what = format('counts %d pushed and can account for %d', pushed, accounted)
        if pushed > accounted then what = what .. format(': %d were lost', pushed - accounted) end
        if find(name, '', what, 'counted anew') then call('HSET', t.key, 'pushed', text_of(accounted)) end
    end
    return ''
end

-- The same between two looks: nothing was moved in between.
local function signature_of(t)
    local figures = call('HMGET', t.key, unpack(FIGURES))
    for i = 1, #figures do figures[i] = figures[i] or '' end
    figures[#figures + 1] = call('HLEN', t.jobs)
    figures[#figures + 1] = call('HLEN', t.tries)
    figures[#figures + 1] = call('ZCARD', t.index)
    return table.concat(figures, ' ')
end

-- How many of a leaf's members were tried.
local function tried_of(t, members)
    local ids, tried = {}, 0
    for i = 1, #members, 2 do ids[#ids + 1] = sub(members[i], 7) end
    for _, try in ipairs(ask_many('HMGET', t.tries, ids)) do
        if try and is_readable_try(try) then
            local _, _, attempt = unpack_from(TRY, try)
            if attempt > 0 then tried = tried + 1 end
        end
    end
    looked = looked + #ids
    return tried
end

local function split_judge(t, found)
    local kept = figures_of(t, {'delayed', 'retrying'})
    if kept.retrying == found then return end
    if find(name, '', format('counts %d retrying, there are %d', kept.retrying, found), 'counted anew') then
        call('HSET', t.key, 'retrying', text_of(found), 'delayed', text_of(kept.delayed + kept.retrying - found))
    end
end

-- delayed and retrying. The cursor holds the walk: one that took a single step is exact; a longer one counts where nothing
-- moved meanwhile and a second one finds the same.
local WALKS_MAX = 6
local function check_split(t, exists)
    if not exists then return '' end
    local walk = cursor ~= '' and cmsgpack.unpack(cursor) or {walks = 0}
    if not walk.signature then
        if call('EXISTS', t.tries) == 0 then
            looked = 1
            split_judge(t, 0)
            return ''
        end
        walk.signature, walk.found, walk.steps, walk.walks = signature_of(t), 0, 0, walk.walks + 1
    end
    walk.steps = walk.steps + 1
    local is_over
    repeat
        if not walk.inside then
            local rank = walk.leaf and call('ZRANK', t.index, walk.leaf)
            rank = rank and rank + 1 or walk.low and call('ZCOUNT', t.index, '-inf', '(' .. walk.low) or 0
            local entry = call('ZRANGE', t.index, rank, rank, 'WITHSCORES')
            looked = looked + 1
            walk.leaf, walk.low, walk.inside, is_over = entry[1], entry[2], '', not entry[1]
        end
        if not is_over then
            local members, following = scan(t.leaf .. walk.leaf, 'ZSCAN', walk.inside)
            walk.found = walk.found + tried_of(t, members)
            walk.inside = following ~= '' and following or nil
        end
    until is_over or looked >= most
    if not is_over then return cmsgpack.pack(walk) end

    local is_still = walk.steps == 1 or signature_of(t) == walk.signature
    if is_still and (walk.steps == 1 or walk.before == walk.found or walk.found == figures_of(t, {'retrying'}).retrying) then
        split_judge(t, walk.found)
    elseif walk.walks < WALKS_MAX then
        return cmsgpack.pack({walks = walk.walks, before = is_still and walk.found or nil})
    else
        find(name, '', 'changes all the time, so how delayed and retrying are split could not be counted', 'run it again in a quieter moment', NOTE)
    end
    return ''
end

local function check_event(t, exists)
    looked = 1
    if not exists then return '' end
    local real, kept = math.min(delayed_first(t), first_score(t.expiry), first_score(t.finished)), call('ZSCORE', TOPICS, name)
    if kept and tonumber(kept) <= real then return '' end
    local what = kept and format('looks at the topic at %s, and its next event is at %d', kept, real) or 'does not know of the topic'
    if find(name, '', 'the shard ' .. what, 'put right') then
        topic_refresh(t)
        if real < NEVER then call('SPUBLISH', T .. ':news', 'd' .. text_of(real)) end
    end
    return ''
end

-- Settings and pause as other shards have them: what was seen here before, and what is wanted ("": no such topic, else
-- the pause and the packed settings). Nothing is done where it has changed since.
local function check_settings()
    local seen, wanted = ARGV[6], ARGV[7]
    local kept = call('HMGET', T .. ':topic:' .. name, 'paused', 'settings')
    local here = kept[1] and kept[1] .. (kept[2] or '') or ''
    looked = 1
    if here ~= seen or here == wanted then return '' end
    local what = here == '' and 'the topic is missing here, and set up in other shards'
        or sub(here, 2) ~= sub(wanted, 2) and 'the settings are not those of the other shards'
        or 'the pause is not that of the other shards'
    if not find(name, '', what, here == '' and 'put back' or 'set as there') then return '' end
    local t = topic_make(name, NEVER)
    call('HSET', t.key, 'paused', sub(wanted, 1, 1))
    if #wanted > 1 then call('HSET', t.key, 'settings', sub(wanted, 2)) end
    if sub(wanted, 1, 1) == '0' and t.ready > 0 then call('SPUBLISH', T .. ':news', 'r' .. NOBODY .. name) end
    return ''
end

-- ---- the shard ----

local function check_core()
    looked = 1
    local shards = ARGV[6]
    local version = call('HGET', CORE, 'version')
    if version and version ~= '1' then return error({err = 'VERSION the jobs were stored by a newer tarry, use that one'}) end
    if not version then
        if not find('', '', 'the shard has no core: it was lost, or no server has reached it yet', 'made anew, with numbers above any given out') then return '' end
        call('HSET', CORE, 'version', '1')
        call('HSETNX', CORE, 'run', '')
    end
    if call('HGET', CORE, 'shards') ~= shards and (not version and repairs or find('', '', "the number of shards in the core is not that of the queue, " .. shards, 'put right')) then
        call('HSET', CORE, 'shards', shards)
    end
    for field, value in pairs({sequence = text_of(now), leaf = text_of(now), adjust = '0'}) do
        local kept = call('HGET', CORE, field)
        if not kept or not string.find(kept, '^%-?%d+$') then
            if not version and repairs or find('', '', format("the core's '%s' is %s", field, kept and 'no number' or 'missing'), 'set to ' .. value) then
                call('HSET', CORE, field, value)
            end
        end
    end
    return ''
end

-- Every name the shard knows, to look at.
local function check_topics()
    local page, following = scan(TOPICS, 'ZSCAN', cursor)
    for i = 1, #page, 2 do
        looked = looked + 1
        names[#names + 1] = page[i]
        if not has_keys(topic_keys(page[i])) and find(page[i], '', 'the shard looks at a topic that does not exist', 'forgotten') then
            call('ZREM', TOPICS, page[i])
        end
    end
    return following
end

local TYPES = {core = 'hash', topics = 'zset', leases = 'zset', leased = 'hash', tickets = 'hash'}
local TYPES_OF_TOPIC = {topic = 'hash', job = 'hash', try = 'hash', index = 'zset', priorities = 'zset', expiry = 'zset', held = 'zset',
                        dead = 'zset', finished = 'zset', broken = 'hash', leaf = 'zset', ready = 'zset'}

-- A key by what stands behind the tag. True: there is more to be done with it.
local function check_key(rest)
    looked = looked + 1
    local key = T .. ':' .. rest
    local kind = call('TYPE', key).ok
    if kind == 'none' then return false end
    local family, topic = string.match(rest, '^(%l+):([^:]+)$')
    local number
    if not family then family, topic, number = string.match(rest, '^(%l+):([^:]+):(%d+)$') end
    local wanted = TYPES[rest]
    if family and (family == 'leaf' or family == 'ready') == (number ~= nil) then wanted = TYPES_OF_TOPIC[family] end
    if not wanted or kind ~= wanted then
        local what = wanted and format("the key '%s' is a %s instead of a %s", key, kind, wanted) or format("nobody knows the key '%s'", key)
        find(topic or '', '', what, 'look at it, and rename or delete it', BY_HAND)
        return false
    end
    if topic then names[#names + 1] = topic end
    if not number then return false end
    name = topic
    local t = topic_here()
    if family == 'ready' then
        if not call('ZSCORE', t.priorities, number) and find(topic, '', 'ready jobs of priority ' .. number .. ' are not noted', 'noted') then
            call('ZADD', t.priorities, number, number)
        end
        return false
    end
    if call('ZSCORE', t.index, number) then return false end
    must_be_below('leaf', tonumber(number), 'leaf')
    return find(topic, '', 'the index does not know leaf ' .. number, 'its jobs hung where they belong') and unravel(t, number)
end

-- The cursor: how many of the keys are done with.
local function check_keys()
    local first = cursor == '' and 6 or tonumber(cursor)
    for i = first, #ARGV do
        if looked >= most then return text_of(i) end
        if check_key(ARGV[i]) then return text_of(i) end
    end
    return ''
end

-- ---- the step ----

local OF_SHARD = {core = check_core, keys = check_keys, topics = check_topics, leases = check_leases, leased = check_leased, settings = check_settings}
local OF_TOPIC = {topic = check_topic, leaves = check_leaves, ready = check_ready, held = check_held, dead = check_dead, expiry = check_expiry,
                  finished = check_finished, tries = check_tries, jobs = check_jobs, counts = check_counts, split = check_split, event = check_event}

local following
if OF_SHARD[part] then
    following = OF_SHARD[part]()
else
    local t, exists = topic_here()
    following = OF_TOPIC[part](t, exists)
end

-- Counts are made right as a whole (check_counts), not step by step.
for _, t in pairs(known_topics) do t.change = {} end
if touched then settle(NOBODY) end

local answer = {head(next_event(), pack('>I4I4I4', looked, bytes, #names)), following}
for i = 1, #names do answer[#answer + 1] = names[i] end
for i = 1, #findings do answer[#answer + 1] = findings[i] end
return answer
