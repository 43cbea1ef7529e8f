#!lua flags=allow-oom
-- parts: base topics leaves history jobs kept keeping events flow batches parts due ending findings sound
-- A step of a check of a topic as a whole: its settings, its counts, its next event.
local t, exists = topic_here()
local EXTENSION_BYTES_MAX = 4096

local function check_whole()
    step.looked = 1
    if step.is_gone(t) then return '' end
    if not exists and find(t.name, '', 'the topic has jobs, but its counts and settings were lost', 'recreated, not paused') then
        t.is_lost, t.is_counted, t.is_changed = false, true, true
        t.f[LISTED] = tonumber(call('ZSCORE', TOPICS, t.name) or NONE)
        t.f[NEXT] = t.f[LISTED]
        call('ZADD', TOPICS, 'NX', text_of(NONE), t.name)
    end
    local kept = exists and sub(call('GET', t.key), TOPIC_BYTES + (t.flow and flow.BYTES or 0) + 1) or ''
    if kept ~= '' and not topic_rules.settings_are_whole(kept) and find(t.name, '', 'the settings are unreadable', 'dropped') then
        t.is_changed = true
        settings_notify(NOBODY, t.name)
    end
    local extension = call('STRLEN', t.extension)
    if extension > 0 and not has(t, EXTENDED) and find(t.name, '', 'the settings have an extension, but the topic lacks the flag', 'flag set') then raise(t, EXTENDED) end
    if extension > EXTENSION_BYTES_MAX and find(t.name, '', 'the extension of the settings is too long', 'dropped') then
        call('DEL', t.extension)
        settings_notify(NOBODY, t.name)
    end
    return ''
end

-- ---- counts ----

local LIVE = {'delayed', 'retrying', 'ready', 'leased', 'dead'}
local PAST = {'pushed', 'acked', 'cancelled', 'expired'}

local function figures_of(fields)
    local out = {}
    for i = 1, #fields do out[fields[i]] = t.f[AT[fields[i]]] end
    return out
end

local function figure_put(field, number)
    t.f[AT[field]], t.is_changed, t.is_counted = number, true, true
end

local function set_figure(field, kept, found)
    if kept == found or not find(t.name, '', format('counts %d %s, but there are %d', kept, field, found), 'counted again') then return end
    figure_put(field, found)
end

local function check_waiting(kept, waiting)
    if kept.delayed + kept.retrying == waiting and kept.delayed >= 0 and kept.retrying >= 0 then return end
    local what = format('counts %d delayed and %d retrying, but there are %d of both', kept.delayed, kept.retrying, waiting)
    if find(t.name, '', what, 'counted again') then
        local retrying = min(max(0, kept.retrying), waiting)
        figure_put('delayed', waiting - retrying)
        figure_put('retrying', retrying)
    end
end

local function check_past(jobs)
    local past = figures_of(PAST)
    local accounted = jobs + past.acked + past.cancelled + past.expired
    if past.pushed == accounted then return end
    local what = format('counts %d pushed, but can account for %d', past.pushed, accounted)
    if past.pushed > accounted then what = what .. format(': %d were lost', past.pushed - accounted) end
    if find(t.name, '', what, 'counted again') then figure_put('pushed', accounted) end
end

-- Checks the counts, except the split of delayed and retrying. Every job is in one place, so a job in no other place waits for its due time.
local function check_counts()
    if not exists then return '' end
    local kept, ready = figures_of(LIVE), 0
    local priorities, held, dead = call('ZRANGE', t.priorities, 0, -1), call('ZCARD', t.held), call('ZCARD', t.dead)
    for i = 1, #priorities do ready = ready + call('ZCARD', t.ready_of .. priorities[i]) end
    step.looked = 1 + #priorities
    set_figure('ready', kept.ready, ready)
    set_figure('leased', kept.leased, held)
    set_figure('dead', kept.dead, dead)
    for i = AT.pushed - FIRST_FIGURE + 1, #FIGURES do
        set_figure(FIGURES[i], t.f[AT[FIGURES[i]]], max(0, t.f[AT[FIGURES[i]]]))
    end
    local jobs = call('HLEN', t.jobs)
    check_waiting(kept, math.max(0, jobs - ready - held - dead))
    check_past(jobs)
    return ''
end

-- ---- what takes a walk: how delayed and retrying are split, what the dead take ----

-- The same between two looks: nothing was moved in between.
local function signature()
    local figures = {}
    for i = 1, #FIGURES do figures[i] = t.f[AT[FIGURES[i]]] end
    figures[#figures + 1] = call('HLEN', t.jobs)
    figures[#figures + 1] = call('HLEN', t.tries)
    figures[#figures + 1] = call('ZCARD', t.fresh)
    figures[#figures + 1] = call('ZCARD', t.dead)
    figures[#figures + 1] = call('GET', t.kept) or ''
    return table.concat(figures, ' ')
end

-- Returns the bytes of a page of dead jobs.
local function dead_bytes_of(page)
    local bytes = 0
    for i = 1, #page, 2 do
        local id = sub(page[i], 7)
        bytes = bytes + call('HSTRLEN', t.jobs, id) + #id
    end
    step.looked = step.looked + #page / 2
    return bytes
end

-- Counts, in a page of tries, the jobs that failed and wait for their due time.
local function retrying_of(page)
    local ids, found = {}, 0
    for i = 1, #page, 2 do
        if is_readable_try(page[i + 1]) then
            local state, _, attempt = unpack_from(TRY, page[i + 1])
            if state == DELAYED and attempt > 0 then ids[#ids + 1] = page[i] end
        end
    end
    for _, j in ipairs(jobs_get(t, ids)) do
        if j and not call('ZSCORE', t.ready_of .. flow.lane_of(j), j.member) then found = found + 1 end
    end
    step.looked = step.looked + #page / 2
    return found
end

local function check_split_figure(found)
    local kept = figures_of({'delayed', 'retrying'})
    if kept.retrying == found then return end
    if find(t.name, '', format('counts %d retrying, but there are %d', kept.retrying, found), 'counted again') then
        figure_put('retrying', found)
        figure_put('delayed', kept.delayed + kept.retrying - found)
    end
end

local function check_dead_bytes(found)
    local kept = figures_of({'dead_bytes'}).dead_bytes
    if kept ~= found and find(t.name, '', format('counts %d bytes of dead jobs, but there are %d', kept, found), 'counted again') then
        figure_put('dead_bytes', found)
    end
end

-- The cursor holds the walk: a walk of a single step is exact; a longer one counts if nothing moved meanwhile and a second walk finds the
-- same, or the stored count.
local WALKS_MAX = 6
local function walk_through(w)
    if not exists then return '' end
    local walk = step.cursor ~= '' and cmsgpack.unpack(step.cursor) or {walks = 0}
    if not walk.signature then
        walk.signature, walk.found, walk.jobs, walk.steps, walk.walks, walk.inside = signature(), 0, 0, 0, walk.walks + 1, ''
    end
    local page, following = (w.scan or scan)(w.key, w.command, walk.inside)
    walk.steps, walk.found, walk.inside = walk.steps + 1, walk.found + w.found_in(page, walk), following
    if following ~= '' then return cmsgpack.pack(walk) end

    local is_still = walk.steps == 1 or signature() == walk.signature
    if is_still and (walk.steps == 1 or walk.before == walk.found or walk.found == (w.stored and w.stored() or w.figure and figures_of({w.figure})[w.figure])) then
        w.check(walk.found, walk.jobs)
    elseif walk.walks < WALKS_MAX then
        return cmsgpack.pack({walks = walk.walks, before = is_still and walk.found or nil})
    else
        find(t.name, '', format('changed during the check, so %s could not be counted', w.what), 'run it again at a quieter time', 3)
    end
    return ''
end

local function check_split()
    return walk_through({key = t.tries, command = 'HSCAN', found_in = retrying_of, figure = 'retrying', check = check_split_figure,
                         what = 'the split of delayed and retrying'})
end

-- Reads pages of kept jobs: the entries of some, and the name of the last one.
local function kept_scan(key, _, from)
    local name, score, entries = from ~= '' and string.match(from, '%S+$') or nil, string.match(from, '^%S+'), {}
    repeat
        name, score = entry_after(key, name, score)
        for _, entry in ipairs(name and kept.page_entries(t, name) or {}) do entries[#entries + 1] = entry end
    until not name or #entries >= step.most
    return entries, name and score .. ' ' .. name or ''
end

-- Returns the bytes of kept jobs, and counts them. Their numbers must not be above the shard's counter.
local function kept_bytes_of(entries, walk)
    local bytes, highest = 0, 0
    for i = 1, #entries do
        bytes = bytes + kept.bytes_of(entries[i])
        highest = max(highest, (kept.place_of(entries[i])))
    end
    must_be_below('sequence', highest, 'number of a kept job')
    walk.jobs = walk.jobs + #entries
    step.looked, step.bytes = step.looked + #entries, step.bytes + bytes
    return bytes
end

local function check_kept_figures(bytes, jobs)
    local k = kept.open(t)
    if k.jobs == jobs and k.bytes == bytes then return end
    local what = format('counts %d kept jobs of %d bytes, but there are %d of %d', k.jobs, k.bytes, jobs, bytes)
    if find(t.name, '', what, 'counted again') then
        k.jobs, k.bytes = jobs, bytes
        kept.change(t, k)
    end
end

local function check_kept()
    return walk_through({key = t.order, scan = kept_scan, found_in = kept_bytes_of, stored = function() return kept.open(t).bytes end, check = check_kept_figures,
                         what = 'the bytes of kept jobs'})
end

local function check_bytes()
    return walk_through({key = t.dead, command = 'ZSCAN', found_in = dead_bytes_of, figure = 'dead_bytes', check = check_dead_bytes,
                         what = 'the bytes of dead jobs'})
end

-- ---- successors ----

-- A successor that no leased job waits for becomes the job: it is the newer state.
local function start_successor(j, id, due)
    if j then unhang(t, j) end
    holding.start_next(t, {id = id, next = due})
end

local function check_successor(j, id, record)
    if not is_readable(record) then
        local broken = T .. ':broken:' .. t.name
        if find(t.name, id, 'has an unreadable successor', format("moved to '%s'", broken)) then
            call('HSET', broken, id .. '@' .. text_of(now), record)
            holding.drop_next(t, id)
            if j and j.next then
                j.next = nil
                try_write(t, j)
            end
        end
        return
    end
    local due = job_make(t, id, record).due
    if not j or j.state ~= LEASED_STATE then
        local what = j and 'has a successor, but is not leased' or 'is a successor without its job'
        if find(t.name, id, what, 'started in place of the job') then start_successor(j, id, due) end
    elseif j.next ~= due and find(t.name, id, 'has a successor of which its lease does not know', 'corrected') then
        j.next = due
        try_write(t, j)
    end
end

local function check_successors()
    local page, following = scan(t.next, 'HSCAN', step.cursor)
    local ids = {}
    for i = 1, #page, 2 do ids[#ids + 1] = page[i] end
    for i, j in ipairs(jobs_get(t, ids)) do check_successor(j, ids[i], page[2 * i]) end
    return following
end

-- ---- groups ----

local GROUPS_MAX = 100000 -- groups, lines of ready jobs and leases that one call counts

-- Returns how many jobs of each group are in flight.
local function in_flight_found()
    local members, found = call('ZRANGE', t.held, '0', '-1'), {}
    for from = 1, #members, 64 do
        local ids = {}
        for i = from, min(from + 63, #members) do ids[#ids + 1] = sub(members[i], 7) end
        for _, record in ipairs(call('HMGET', t.jobs, unpack(ids))) do
            if record and is_readable(record) then
                local name = flow.group_in(record)
                found[name] = (found[name] or 0) + 1
            end
        end
    end
    step.looked = step.looked + #members
    return found
end

-- Returns how many tried jobs of each group wait, if the topic is strict.
local function tried_found()
    local tries, found, ids = flow.is_strict(t) and call('HGETALL', t.tries) or {}, {}, {}
    for i = 1, #tries, 2 do
        if is_readable_try(tries[i + 1]) then
            local state, _, attempt = unpack_from(TRY, tries[i + 1])
            if state == DELAYED and attempt > 0 then ids[#ids + 1] = tries[i] end
        end
    end
    for _, j in ipairs(jobs_get(t, ids)) do
        if j then found[flow.group_of(j)] = (found[flow.group_of(j)] or 0) + 1 end
    end
    return found
end

-- Returns of each group how many jobs are ready, and the first of each priority; and the priorities.
local function ready_found()
    local found, priorities = {}, {}
    for _, lane in ipairs(call('ZRANGE', t.priorities, '0', '-1')) do
        local priority, name = flow.lane_read(lane)
        local first = call('ZRANGE', t.ready_of .. lane, '0', '0', 'WITHSCORES')
        local one = found[name] or {ready = 0, heads = {}}
        found[name], priorities[priority] = one, true
        if first[1] then
            one.ready = one.ready + call('ZCARD', t.ready_of .. lane)
            one.heads[priority] = flow.head(first[1], tonumber(first[2]))
        end
        step.looked = step.looked + 1
    end
    return found, priorities
end

local function heads_agree(a, b)
    for priority, head in pairs(a) do
        if b[priority] ~= head then return false end
    end
    for priority in pairs(b) do
        if not a[priority] then return false end
    end
    return true
end

local function check_group(g, in_flight, found, tried)
    if g.tried ~= tried and find(t.name, '', format("the group '%s' counts %d tried jobs, but there are %d", g.name, g.tried, tried), 'counted again') then
        flow.touch(t, g)
        g.tried = tried
    end
    local is_wrong = g.in_flight ~= in_flight or g.ready ~= found.ready or not heads_agree(g.heads, found.heads)
    if is_wrong then
        local what = format("the group '%s' counts %d in flight and %d ready, but there are %d and %d", g.name, g.in_flight, g.ready, in_flight, found.ready)
        if g.in_flight == in_flight and g.ready == found.ready then what = format("the group '%s' has another first job than it knows of", g.name) end
        if find(t.name, '', what, 'counted again') then
            flow.touch(t, g)
            g.in_flight, g.ready, g.heads = in_flight, found.ready, found.heads
        end
    end
    local wakes = call('ZSCORE', t.wakes, g.name)
    if (wakes and true or false) ~= (g.in_wakes or false) and find(t.name, '', format("the group '%s' and the list of groups to wake disagree", g.name), 'corrected') then
        flow.touch(t, g)
        g.in_wakes = true
    elseif is_wrong or g.ready == 0 then
        return -- what follows is decided again, or there is nothing to decide
    elseif (g.open > 0) == (g.by > 0) then
        if find(t.name, '', format("the group '%s' is served and held, or neither", g.name), 'decided again') then flow.touch(t, g) end
    elseif g.open == 0 and not wakes and flow.may_go_on(t, g)
        and find(t.name, '', format("the group '%s' may be served, but has no turn", g.name), 'its turn added') then
        flow.touch(t, g)
    end
end

-- Checks that the turns of a priority are those that the groups know of.
local function check_turns(priority, wanted)
    local key, is_wrong, count = t.turns .. priority, false, 0
    for _, member in ipairs(call('ZRANGE', key, '0', '-1')) do
        count = count + 1
        if not wanted[member] then is_wrong = true end
    end
    for _ in pairs(wanted) do count = count - 1 end
    if (is_wrong or count ~= 0) and find(t.name, '', format('the turns of priority %d are not those of its groups', priority), 'made again') then
        call('DEL', key)
        for _, g in pairs(wanted) do
            flow.touch(t, g)
            g.places[priority] = nil
        end
    end
end

-- Returns whether the topic must count the delayed jobs of its groups. `settings`: of its groups, {name, settings, …}.
local function must_count(settings)
    local of_topic = settings_of(t).flow
    if of_topic and of_topic.group_jobs > 0 then return true end
    for i = 2, #settings, 2 do
        if flow.own_is_whole(settings[i]) and flow.own_max_jobs(settings[i]) > 0 then return true end
    end
    return false
end

local function check_delayed(settings)
    if not t.flow.counts then
        if must_count(settings) then
            if not flow.may_count(t) then
                find(t.name, '', 'has too many delayed jobs to count those of each group in one step', 'run it again when there are fewer', 3)
            elseif find(t.name, '', 'does not count the delayed jobs of its groups, which have a maximum of jobs', 'counted') then flow.count_all(t) end
        elseif call('EXISTS', t.waits) == 1 and find(t.name, '', 'has counts of delayed jobs of groups, and nothing asks for them', 'dropped') then
            call('DEL', t.waits)
        end
        return
    end
    local found, kept = flow.delayed_found(t), call('HGETALL', t.waits)
    for i = 1, #kept, 2 do
        local name, count = kept[i], tonumber(kept[i + 1])
        local real = found[name] or 0
        found[name] = nil
        if count ~= real and find(t.name, '', format("the group '%s' counts %s delayed jobs, but there are %d", name, kept[i + 1], real), 'counted again') then
            if real > 0 then call('HSET', t.waits, name, text_of(real)) else call('HDEL', t.waits, name) end
        end
    end
    for name, real in pairs(found) do
        if find(t.name, '', format("the group '%s' counts no delayed job, but there are %d", name, real), 'counted again') then call('HSET', t.waits, name, text_of(real)) end
    end
end

local function check_groups()
    step.looked = 1
    if not exists then return '' end
    if not has(t, flow.GROUPED) then
        if call('EXISTS', t.groups, t.group_settings, t.wakes, t.waits) > 0 and find(t.name, '', 'has groups, but lacks the flag', 'flag set') then flow.group_all(t) end
        if not has(t, flow.GROUPED) then return '' end
    end
    local to_count = call('HLEN', t.groups) + call('ZCARD', t.priorities) + call('ZCARD', t.held) + (flow.is_strict(t) and call('HLEN', t.tries) or 0)
    if t.flow.counts then to_count = to_count + t.f[AT.delayed] + t.f[AT.retrying] end
    if to_count > GROUPS_MAX then
        find(t.name, '', 'has too many groups, leases, tried or delayed jobs to count them in one step', 'run it again when there are fewer', 3)
        return ''
    end
    if call('EXISTS', t.group_settings) == 1 and not t.flow.has_own
        and find(t.name, '', 'some groups have settings, but the topic does not know of them', 'corrected') then
        t.flow.has_own, t.is_changed = true, true
    end
    local settings = call('HGETALL', t.group_settings)
    for i = 1, #settings, 2 do
        if not flow.own_is_whole(settings[i + 1]) and find(t.name, '', format("the settings of the group '%s' are unreadable", settings[i]), 'dropped') then
            call('HDEL', t.group_settings, settings[i])
        end
    end
    check_delayed(settings)
    local in_flight, tried, ready, priorities = in_flight_found(), tried_found(), ready_found()
    local stored, names, wanted, open = call('HGETALL', t.groups), {}, {}, 0
    local shut = flow.none_shut()
    for i = 1, #stored, 2 do
        if flow.group_is_whole(stored[i + 1]) then
            names[#names + 1] = stored[i]
        elseif find(t.name, '', format("what is kept of the group '%s' is unreadable", stored[i]), 'dropped') then
            call('HDEL', t.groups, stored[i])
        end
    end
    for name in pairs(in_flight) do names[#names + 1] = name end
    for name in pairs(ready) do names[#names + 1] = name end
    for name in pairs(tried) do names[#names + 1] = name end
    flow.load(t, names)
    for priority in pairs(priorities) do wanted[priority] = {} end
    for name, g in pairs(t.known_groups) do
        open = open + g.open
        if g.shut > 0 and shut[g.by] then shut[g.by] = shut[g.by] + g.shut end
        for priority, member in pairs(g.places) do
            wanted[priority] = wanted[priority] or {}
            wanted[priority][member] = g
        end
        check_group(g, in_flight[name] or 0, ready[name] or {ready = 0, heads = {}}, tried[name] or 0)
    end
    for priority, members in pairs(wanted) do check_turns(priority, members) end
    if t.flow.open ~= open and find(t.name, '', format('counts %d jobs that may be delivered, but its groups have %d', t.flow.open, open), 'counted again') then
        t.flow.open, t.is_changed = open, true
    end
    for by, count in pairs(shut) do
        if t.flow.shut[by] ~= count and find(t.name, '', format('counts %d jobs that are held for reason %d, but its groups have %d', t.flow.shut[by], by, count), 'counted again') then
            t.flow.shut[by], t.is_changed = count, true
        end
    end
    for _, name in ipairs(call('ZRANGE', t.wakes, '0', '-1')) do
        if not t.known_groups[name] and find(t.name, '', format("the list of groups to wake names '%s', which has nothing to wake for", name), 'removed') then
            call('ZREM', t.wakes, name)
        end
    end
    return ''
end

-- ---- what is to happen next ----

-- Fresh jobs stay below the bound that others pack by until time passes; twice that leaves room for a clock that was put right.
local function check_unpacked()
    local last = tonumber(call('ZRANGE', t.fresh, -1, -1, 'WITHSCORES')[2] or '0')
    if last <= now + 2 * FAR_MS or call('SISMEMBER', UNPACKED, t.name) == 1 and has(t, UNPACKED_TOO) then return end
    if find(t.name, '', 'has fresh jobs due far from now, but is not in the list of topics to pack', 'added') then
        call('SADD', UNPACKED, t.name)
        raise(t, UNPACKED_TOO)
    end
end

-- Sets that no flag refers to.
local function check_flags()
    local optional = {{PACKED, t.index, 'packed jobs'}, {EXPIRING, t.expiry, 'expiring jobs'}, {REMEMBERING, t.finished, 'finished ids'},
        {topic_rules.SUCCEEDING, t.next, 'successors'}, {keeping.FLAG, t.order, 'kept jobs'}}
    for _, set in ipairs(optional) do
        if call('EXISTS', set[2]) == 1 and not has(t, set[1]) and find(t.name, '', format('has %s, but lacks the flag', set[3]), 'flag set') then raise(t, set[1]) end
    end
    if has(t, UNPACKED_TOO) and call('SISMEMBER', UNPACKED, t.name) == 0 and find(t.name, '', 'has the flag of topics to pack, but is not in their list', 'corrected') then
        lower(t, UNPACKED_TOO)
    end
end

-- Drops what a deleted topic left: a topic of that name that is created later would begin with it.
local function check_remains()
    if step.is_gone(t) and call('EXISTS', t.extension, t.kept, t.groups, t.group_settings, t.wakes, t.waits) > 0 and find(t.name, '', 'the topic does not exist, but a part of its settings or figures does', 'dropped') then
        call('DEL', t.extension, t.kept, t.groups, t.group_settings, t.wakes, t.waits)
    end
    return ''
end

local function check_event()
    step.looked = 1
    if not exists then return check_remains() end
    check_unpacked()
    check_flags()
    local real, kept = min(delayed_first(t), first_score(t.expiry), first_score(t.finished), first_score(t.wakes), keeping.first_event(t)), tonumber(call('ZSCORE', TOPICS, t.name) or nil)
    local looks_at = kept and max(kept, t.f[LISTED], t.f[NEXT])
    if not kept or looks_at > real or kept ~= t.f[LISTED] or kept > t.f[NEXT] then
        local what = kept and format('has the topic at %d, but its next event is at %d', looks_at, real) or 'lacks the topic'
        if find(t.name, '', 'the shard ' .. what, 'corrected') then
            t.f[NEXT], t.f[LISTED], t.is_changed = real, real, true
            call('ZADD', TOPICS, text_of(real), t.name)
        end
    end
    check_next(real, t.name)
    return ''
end

local PARTS = {topic = check_whole, counts = check_counts, split = check_split, bytes = check_bytes, kept = check_kept, successors = check_successors, groups = check_groups, event = check_event}
return step_end(PARTS[step.part]())
