#!lua flags=allow-oom
-- parts: base topics leaves history jobs due ending findings sound
-- A step of a check of a topic as a whole: its hash, its counts, its next event.
local t, exists = topic_here()
local EXTENSION_BYTES_MAX = 4096

local function check_hash()
    step.looked = 1
    if call('EXISTS', t.key, t.jobs, t.tries, t.fresh, t.index, t.priorities, t.expiry, t.held, t.dead, t.finished) == 0 then return '' end -- it was deleted
    local paused = call('HGET', t.key, 'paused')
    if not exists or paused ~= '0' and paused ~= '1' then
        local what = exists and 'neither paused nor not' or 'jobs, and no counts and settings: they were lost'
        if find(t.name, '', 'the topic has ' .. what, 'set up anew, not paused') then
            call('HSET', t.key, 'paused', '0')
            call('ZADD', TOPICS, 'NX', '+inf', t.name)
        end
    end
    local packed = call('HGET', t.key, 'settings') or ''
    if packed ~= '' and #packed ~= SETTINGS_BYTES and find(t.name, '', 'the settings cannot be read', 'dropped') then
        call('HDEL', t.key, 'settings')
        settings_tell(NOBODY, t.name)
    end
    if call('HSTRLEN', t.key, 'extension') > EXTENSION_BYTES_MAX and find(t.name, '', 'the extension of the settings is too long', 'dropped') then
        call('HDEL', t.key, 'extension')
        settings_tell(NOBODY, t.name)
    end
    local figures = call('HMGET', t.key, unpack(FIGURES))
    for i = 1, #FIGURES do
        if figures[i] and not string.find(figures[i], '^%-?%d+$') and find(t.name, '', format("the count '%s' is no number", FIGURES[i]), 'counted anew') then
            call('HSET', t.key, FIGURES[i], 0)
        end
    end
    return ''
end

-- ---- counts ----

local LIVE = {'delayed', 'retrying', 'ready', 'leased', 'dead'}
local PAST = {'pushed', 'acked', 'cancelled', 'expired'}

local function figures_of(fields)
    local out = {}
    for i, value in ipairs(call('HMGET', t.key, unpack(fields))) do out[fields[i]] = tonumber(value or nil) or 0 end
    return out
end

local function set_figure(field, kept, found)
    if kept == found or not find(t.name, '', format('counts %d %s, there are %d', kept, field, found), 'counted anew') then return end
    call('HSET', t.key, field, text_of(found))
end

local function check_waiting(kept, waiting)
    if kept.delayed + kept.retrying == waiting and kept.delayed >= 0 and kept.retrying >= 0 then return end
    local what = format('counts %d delayed and %d retrying, there are %d of both', kept.delayed, kept.retrying, waiting)
    if find(t.name, '', what, 'counted anew') then
        local retrying = math.min(math.max(0, kept.retrying), waiting)
        call('HSET', t.key, 'delayed', text_of(waiting - retrying), 'retrying', text_of(retrying))
    end
end

local function check_past(jobs)
    local past = figures_of(PAST)
    local accounted = jobs + past.acked + past.cancelled + past.expired
    if past.pushed == accounted then return end
    local what = format('counts %d pushed and can account for %d', past.pushed, accounted)
    if past.pushed > accounted then what = what .. format(': %d were lost', past.pushed - accounted) end
    if find(t.name, '', what, 'counted anew') then call('HSET', t.key, 'pushed', text_of(accounted)) end
end

-- All but the split of delayed and retrying. Every job hangs in one place, so who is in no other waits for its due.
local function check_counts()
    if not exists then return '' end
    local kept, ready = figures_of(LIVE), 0
    local priorities, held, dead = call('ZRANGE', t.priorities, 0, -1), call('ZCARD', t.held), call('ZCARD', t.dead)
    for i = 1, #priorities do ready = ready + call('ZCARD', t.ready_of .. priorities[i]) end
    step.looked = 1 + #priorities
    set_figure('ready', kept.ready, ready)
    if step.repairs and kept.ready <= 0 and ready > 0 and not t.paused then tell('r' .. NOBODY .. t.name) end
    set_figure('leased', kept.leased, held)
    set_figure('dead', kept.dead, dead)
    local jobs = call('HLEN', t.jobs)
    check_waiting(kept, math.max(0, jobs - ready - held - dead))
    check_past(jobs)
    return ''
end

-- ---- what takes a walk: how delayed and retrying are split, what the dead take ----

-- The same between two looks: nothing was moved in between.
local function signature()
    local figures = call('HMGET', t.key, unpack(FIGURES))
    for i = 1, #figures do figures[i] = figures[i] or '' end
    figures[#figures + 1] = call('HLEN', t.jobs)
    figures[#figures + 1] = call('HLEN', t.tries)
    figures[#figures + 1] = call('ZCARD', t.fresh)
    figures[#figures + 1] = call('ZCARD', t.dead)
    return table.concat(figures, ' ')
end

-- What a page of the dead takes.
local function dead_bytes_of(page)
    local bytes = 0
    for i = 1, #page, 2 do
        local id = sub(page[i], 7)
        bytes = bytes + call('HSTRLEN', t.jobs, id) + #id
    end
    step.looked = step.looked + #page / 2
    return bytes
end

-- How many of a page of tries are of jobs that failed and wait for their due.
local function retrying_of(page)
    local ids, found = {}, 0
    for i = 1, #page, 2 do
        if is_readable_try(page[i + 1]) then
            local state, _, attempt = unpack_from(TRY, page[i + 1])
            if state == DELAYED and attempt > 0 then ids[#ids + 1] = page[i] end
        end
    end
    for _, j in ipairs(jobs_get(t, ids)) do
        if j and not call('ZSCORE', t.ready_of .. j.priority, j.member) then found = found + 1 end
    end
    step.looked = step.looked + #page / 2
    return found
end

local function judge_split(found)
    local kept = figures_of({'delayed', 'retrying'})
    if kept.retrying == found then return end
    if find(t.name, '', format('counts %d retrying, there are %d', kept.retrying, found), 'counted anew') then
        call('HSET', t.key, 'retrying', text_of(found), 'delayed', text_of(kept.delayed + kept.retrying - found))
    end
end

local function judge_dead_bytes(found)
    local kept = figures_of({'dead_bytes'}).dead_bytes
    if kept ~= found and find(t.name, '', format('counts %d bytes of dead jobs, there are %d', kept, found), 'counted anew') then
        call('HSET', t.key, 'dead_bytes', text_of(found))
    end
end

-- The cursor holds the walk: one that took a single step is exact; a longer one counts where nothing moved meanwhile and a
-- second one finds the same, or what is counted.
local WALKS_MAX = 6
local function walk_through(w)
    if not exists then return '' end
    local walk = step.cursor ~= '' and cmsgpack.unpack(step.cursor) or {walks = 0}
    if not walk.signature then
        walk.signature, walk.found, walk.steps, walk.walks, walk.inside = signature(), 0, 0, walk.walks + 1, ''
    end
    local page, following = scan(w.key, w.command, walk.inside)
    walk.steps, walk.found, walk.inside = walk.steps + 1, walk.found + w.found_in(page), following
    if following ~= '' then return cmsgpack.pack(walk) end

    local is_still = walk.steps == 1 or signature() == walk.signature
    if is_still and (walk.steps == 1 or walk.before == walk.found or walk.found == figures_of({w.figure})[w.figure]) then
        w.judge(walk.found)
    elseif walk.walks < WALKS_MAX then
        return cmsgpack.pack({walks = walk.walks, before = is_still and walk.found or nil})
    else
        find(t.name, '', format('changes all the time, so %s could not be counted', w.what), 'run it again in a quieter moment', 3)
    end
    return ''
end

local function check_split()
    return walk_through({key = t.tries, command = 'HSCAN', found_in = retrying_of, figure = 'retrying', judge = judge_split,
                         what = 'how delayed and retrying are split'})
end

local function check_bytes()
    return walk_through({key = t.dead, command = 'ZSCAN', found_in = dead_bytes_of, figure = 'dead_bytes', judge = judge_dead_bytes,
                         what = 'what dead jobs take'})
end

-- ---- what is to happen next ----

-- Fresh jobs stay below the bound that others pack by until time passes; twice that leaves room for a clock that was put right.
local function check_unpacked()
    local last = tonumber(call('ZRANGE', t.fresh, -1, -1, 'WITHSCORES')[2] or '0')
    if last <= now + 2 * FAR_MS or call('SISMEMBER', UNPACKED, t.name) == 1 then return end
    if find(t.name, '', 'has fresh jobs due far from now that nobody packs', 'noted') then call('SADD', UNPACKED, t.name) end
end

local function check_event()
    step.looked = 1
    if not exists then return '' end
    check_unpacked()
    local real, kept = math.min(delayed_first(t), first_score(t.expiry), first_score(t.finished)), call('ZSCORE', TOPICS, t.name)
    if kept and tonumber(kept) <= real then return '' end
    local what = kept and format('looks at the topic at %s, and its next event is at %d', kept, real) or 'does not know of the topic'
    if find(t.name, '', 'the shard ' .. what, 'put right') then
        topic_refresh(t)
        if real < NEVER then tell('d' .. text_of(real)) end
    end
    return ''
end

local PARTS = {topic = check_hash, counts = check_counts, split = check_split, bytes = check_bytes, event = check_event}
return step_end(PARTS[step.part]())
