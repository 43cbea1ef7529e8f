#!lua flags=allow-oom
-- parts: base topics leaves history jobs kept keeping events flow batches parts due ending findings sound
-- A step of a check of a topic's jobs: can each be read, and does it hang where it belongs?
local t = topic_here()

-- A delayed or ready job hangs in one of three places.
local function waiting_is_wrong(j, in_fresh, in_ready, in_expiry)
    local leaf = leaf_of(t, text_of(j.due))
    local in_leaf = leaf and call('ZSCORE', t.leaf .. leaf, j.member)
    if (in_fresh or in_leaf) and in_ready then return 'both delayed and ready' end
    if in_fresh and in_leaf then return 'both fresh and packed' end
    if not in_fresh and not in_leaf and not in_ready then
        return format('%s, due %d, and in no set', shown_state(j) == READY and 'ready' or 'delayed', j.due)
    end
    if in_ready and own_ttl(j) > 0 and not in_expiry then return 'ready, but not in the set of expiries' end
end

local function what_is_wrong(j, place)
    if j.state == DEAD then return not place.dead and 'dead, but not in the set of dead jobs' or nil end
    if j.state ~= LEASED_STATE then return waiting_is_wrong(j, place.fresh, place.ready, place.expiry) end
    if not place.held then return 'leased, but not in the set of held jobs' end
    local delivery = text_of(j.delivery)
    if tonumber(call('ZSCORE', LEASES, delivery) or 0) ~= j.lease_until then return 'leased, but its lease has no end or another one' end
    if call('HGET', LEASED, delivery) ~= place_of(t, j) then return 'leased, but its delivery number leads to another job' end
end

-- Checks the members of the try besides the state.
local function check_try(j)
    local wrong
    if j.state == LEASED_STATE then
        if j.attempt < 1 then wrong, j.attempt = 'is leased at attempt 0', 1 end
    elseif j.lease_until > 0 then
        wrong, j.lease_until = 'is not leased, but has the end of a lease', 0
    end
    if j.next and call('HEXISTS', t.next, j.id) == 0 then wrong, j.next = 'waits for a successor that does not exist', nil end
    if wrong and find(t.name, j.id, wrong, 'corrected') then try_write(t, j) end
end

local function check_job(j, place)
    if not has(t, SPECIAL) and (j.flags % 2 == 1 or j.priority ~= 100)
        and find(t.name, j.id, 'has its own priority or policy, but the topic lacks the flag', 'flag set') then raise(t, SPECIAL) end
    if not has(t, TRIED) and j.tried and j.state == DELAYED and find(t.name, j.id, 'was tried and waits, but the topic lacks the flag', 'flag set') then raise(t, TRIED) end
    if flow.group_of(j) ~= '' and not has(t, flow.GROUPED) and find(t.name, j.id, 'is of a group, but the topic lacks the flag', 'flag set') then flow.group_all(t) end
    check_try(j)
    local wrong = what_is_wrong(j, place)
    if wrong and find(t.name, j.id, 'is ' .. wrong, 'moved where it belongs') then rehang(t, j) end
end

-- A record that no call could read would stop every take: it is kept aside.
local function set_aside(id, record)
    local broken = T .. ':broken:' .. t.name
    if not find(t.name, id, 'has an unreadable record', format("moved to '%s'", broken)) then return end
    call('HSET', broken, call('HEXISTS', broken, id) == 1 and id .. '@' .. text_of(now) or id, record)
    call('HDEL', t.jobs, id)
    call('HDEL', t.tries, id)
end

-- Returns the readable jobs of a page of ids and records.
local function jobs_of(page)
    local ids, jobs = {}, {}
    for i = 1, #page, 2 do ids[#ids + 1] = page[i] end
    local tries = ask_many('HMGET', t.tries, ids)
    for i = 1, #ids do
        local record = page[2 * i]
        step.bytes, step.looked = step.bytes + #record, step.looked + 1
        if not is_readable(record) then
            set_aside(ids[i], record)
        else
            if tries[i] and not is_readable_try(tries[i]) and find(t.name, ids[i], 'has an unreadable try', 'dropped; the job begins again with its first attempt') then
                call('HDEL', t.tries, ids[i])
            end
            jobs[#jobs + 1] = job_read(t, ids[i], record, tries[i])
        end
    end
    return jobs
end

-- Returns the place of each job, except leaves: {set = score or false} each.
local function places_of(jobs)
    local members, places, of_priority = {}, {}, {}
    for i = 1, #jobs do
        members[i], places[i] = jobs[i].member, {}
        local lane = flow.lane_of(jobs[i])
        local group = of_priority[lane] or {at = {}, members = {}}
        of_priority[lane] = group
        group.at[#group.at + 1], group.members[#group.members + 1] = i, members[i]
    end
    for _, set in ipairs({'held', 'dead', 'expiry', 'fresh'}) do
        for i, score in ipairs(ask_many('ZMSCORE', t[set], members)) do places[i][set] = score end
    end
    for lane, group in pairs(of_priority) do
        for i, score in ipairs(ask_many('ZMSCORE', t.ready_of .. lane, group.members)) do places[group.at[i]].ready = score end
    end
    return places
end

local page, following = scan(t.jobs, 'HSCAN', step.cursor)
local jobs = jobs_of(page)
local places, highest = places_of(jobs), 0
for i = 1, #jobs do
    highest = max(highest, jobs[i].sequence, jobs[i].delivery)
    check_job(jobs[i], places[i])
    local b, name = batches.unlisted(t, jobs[i])
    if b and find(t.name, jobs[i].id, 'is not in the list of members of its batch', 'added') then call('SADD', batches.members_key(b), name) end
end
must_be_below('sequence', highest, 'number')
return step_end(following)
