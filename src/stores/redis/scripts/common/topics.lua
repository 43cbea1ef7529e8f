-- Topics: one packed string each (README.md), read when a call meets it and written if the call changed it.
local TOPIC_BYTES, TOPIC_NEW, FIGURES, FIRST_FIGURE, NEXT, LISTED, PAUSED, SPECIAL, HISTORIC, EXTENDED, PACKED, EXPIRING, REMEMBERING, UNPACKED_TOO, LARGE, TRIED, AT, has, raise, lower,
    topic_figures, topic_open, topic_text, topic_find, topic_make, settings_of, topic_rules, policy_of_settings, topic_packed, count, event_at = (function()

-- The numbers of a topic `t` are t.f: its flags, its figures, its next event, the one it is listed by in T:topics.
local FORM = '>I2i6i6i6i6i6i6i6i6i6i6i6i6i6i6i6i6I6I6'
local NUMBERS, BYTES = 19, 110
local NEXT, LISTED = 18, 19

local FIGURES = {'delayed', 'retrying', 'ready', 'leased', 'dead', 'dead_bytes', 'pushed', 'acked', 'cancelled', 'expired', 'replaced',
                 'delivered', 'nacked', 'lease_ended', 'died', 'redriven'}
local FIRST_FIGURE = 2
local AT = {} -- where each stands
for i = 1, #FIGURES do AT[FIGURES[i]] = i + FIRST_FIGURE - 1 end

-- Flags: it is paused; some of its jobs have a priority or policy of their own; some may have a history; it has an extension; some
-- may be in leaves; some may expire; some ids may be remembered; it is in T:unpacked; the keys that change with every job were
-- made large; some jobs that wait may have been tried, or moved; the pause has an end (T:pauses); some leased jobs may have a successor;
-- keeping.FLAG: finished jobs are kept, or may be; flow.FLAG: it has limits, a rate or a hold; flow.GROUPED: it has groups (flow.lua).
local PAUSED, SPECIAL, HISTORIC, EXTENDED, PACKED, EXPIRING, REMEMBERING, UNPACKED_TOO, LARGE, TRIED =
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512

local function has(t, flag)
    return t.f[1] % (2 * flag) >= flag
end

local function raise(t, flag)
    if has(t, flag) then return end
    t.f[1], t.is_changed = t.f[1] + flag, true
end

local function lower(t, flag)
    if not has(t, flag) then return end
    t.f[1], t.is_changed = t.f[1] - flag, true
end

keeping.FLAG = 4096

-- ---- pauses ----

local TIMED = 1024
local topic_rules = {FULL = 23, GROUP_FULL = 34, SUCCEEDING = 2048} -- of limits, pauses and successors; FULL, GROUP_FULL: statuses of a push; SUCCEEDING: a flag

function topic_rules.pause_has_end(t)
    return has(t, TIMED)
end

-- Pauses the topic, whether it was paused or not. `until_ms`: nil: for ever.
function topic_rules.pause(t, until_ms)
    raise(t, PAUSED)
    if until_ms then
        call('ZADD', T .. ':pauses', text_of(until_ms), t.name)
        raise(t, TIMED)
        soonest = min(soonest, until_ms)
        LAYOUT.note_pauses()
    elseif has(t, TIMED) then
        call('ZREM', T .. ':pauses', t.name)
        lower(t, TIMED)
    end
end

function topic_rules.resume(t)
    if has(t, TIMED) then call('ZREM', T .. ':pauses', t.name) end
    lower(t, TIMED)
    lower(t, PAUSED)
end

-- Returns the end of the pause; 0: it has no end.
function topic_rules.pause_end_of(t)
    return has(t, TIMED) and tonumber(call('ZSCORE', T .. ':pauses', t.name) or 0) or 0
end

-- Returns the earliest end of all pauses.
function topic_rules.first_pause_end()
    if core_flags % LAYOUT.HELD == 0 then return NONE end
    local first = call('ZRANGE', T .. ':pauses', '0', '0', 'WITHSCORES')
    return tonumber(first[2] or NONE)
end

-- The numbers of its text, and where they end.
local function topic_figures(text)
    return {unpack_from(FORM, text)}
end

-- Parses a topic; `packed` are its settings. Members for the call: how many jobs were ready; whether the topic was changed, and if they are true is_deleted;
-- has_dead: jobs died; is_exact: its counts and flags are unreliable (a check).
local function topic_open(name, text)
    local keys = keys_of(name)
    local cache = keys.__index.cache
    local f = text == cache.text and cache.figures or topic_figures(text)
    cache.text = nil
    local t = {name = name, text = text, f = f, packed = #text > BYTES and sub(text, f[NUMBERS + 1]) or '', ready_before = f[4], is_changed = false}
    if f[1] >= flow.FLAG then
        t.flow, t.packed = flow.read(t.packed, 1), sub(t.packed, flow.BYTES + 1)
        t.ready_before = t.flow.was_open and 1 or 0
    end
    known_topics[name], met_topics[#met_topics + 1] = t, t
    return setmetatable(t, keys)
end

local function topic_text(t)
    local numbers = pack(FORM, unpack(t.f, 1, NUMBERS))
    return t.flow and numbers .. flow.text(t) .. t.packed or numbers .. t.packed
end

-- Returns the topic, or nil if it does not exist.
local function topic_find(name)
    local t = known_topics[name]
    if t ~= nil then return t or nil end
    local text
    if name == found_name then text = found_topic else text = call('GET', keys_of(name).__index.key) end
    last_name = name
    if text and #text >= BYTES then return topic_open(name, text) end -- else it was lost, or spoiled: a check finds it
    known_topics[name] = false
    return nil
end

-- nil where that would be one too many.
local NEW = '\0\0' .. '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    .. '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    .. '\255\255\255\255\255\255\255\255\255\255\255\255'

local function topic_make(name, topics_max)
    local t = topic_find(name)
    if t then return t, false end
    if call('ZCARD', TOPICS) >= tonumber(topics_max) then return nil end
    t = topic_open(name, NEW)
    t.is_changed = true
    call('ZADD', TOPICS, text_of(NONE), name)
    return t, true
end

-- ---- settings ----

local SETTINGS, SETTINGS_BYTES = '>I6I6BI6I6I4BBI2BI6', 40
local LIMITS, LIMITED_BYTES = '>I6I4B', 51 -- optional members behind them: max_jobs, push_rate (which servers apply);
local LIST = 4 -- a backoff that is a list of waits: behind the policy of a record, and behind the limits of settings
local KEEPS, KEEPS_BYTES = '>I6I6I6B', 19 -- and at the end: keep_finished, keep_finished_max, keep_finished_bytes, keep_body
local FLOW, FLOW_BYTES = '>I4I4BI4I4I4BI4I6B', 33 -- behind these: limit, rate, burst; the same of each group; group_max_jobs, bits (job/flow.h)
local DEFAULT = {max_jobs = 0, lease = 0, ttl = 0, backoff = 0, first = 0, max = 0, attempts = 0, on_conflict = 0, priority = 100, dead_letter_expired = false, dedup = 0,
                 keep = 0, keep_jobs = 0, keep_bytes = 0, keep_body = false}
local known_settings, settings_cached, SETTINGS_CACHED_MAX = {}, 0, 1000 -- by what they are packed to, kept between calls

-- Returns the waits of a list: their number, and each.
local function steps_read(packed, at)
    local steps = {}
    for i = 1, byte(packed, at) do steps[i] = unpack_from('>I4', packed, at + 4 * i - 3) end
    return steps
end

-- Returns the position behind the policy that a record has.
function topic_rules.policy_end(record)
    return byte(record, 28) == LIST and 46 + 4 * (byte(record, 45) or 0) or 45
end

-- Reads limits and rates, and what they are for.
function topic_rules.flow_read(packed, at)
    local s = {}
    local bits
    s.limit, s.count, s.unit, s.burst, s.group_limit, s.group_count, s.group_unit, s.group_burst, s.group_jobs, bits = unpack_from(FLOW, packed, at)
    s.is_strict, s.has_one_shard = bits % 2 == 1, bits >= 2
    s.is_of_groups = s.group_limit > 0 or s.group_count > 0 or s.group_jobs > 0
    s.is_set = s.is_of_groups or s.limit > 0 or s.count > 0
    return s
end

local function settings_read(packed)
    local s, has_priority, priority, dead_letter = {}, nil, nil, nil
    s.lease, s.ttl, s.backoff, s.first, s.max, s.attempts, s.on_conflict, has_priority, priority, dead_letter, s.dedup = unpack_from(SETTINGS, packed)
    s.priority = has_priority == 1 and priority or 100
    s.dead_letter_expired = dead_letter == 1
    if s.backoff == LIST then s.steps = steps_read(packed, LIMITED_BYTES + 1) end
    s.max_jobs = #packed >= LIMITED_BYTES and unpack_from(LIMITS, packed, SETTINGS_BYTES + 1) or 0
    local keeps_at = LIMITED_BYTES + (s.steps and 1 + 4 * #s.steps or 0) + 1
    s.keep, s.keep_jobs, s.keep_bytes, s.keep_body = 0, 0, 0, 0
    if #packed >= keeps_at + KEEPS_BYTES - 1 then s.keep, s.keep_jobs, s.keep_bytes, s.keep_body = unpack_from(KEEPS, packed, keeps_at) end
    s.keep_body = s.keep_body == 1
    if #packed >= keeps_at + KEEPS_BYTES then s.flow = topic_rules.flow_read(packed, keeps_at + KEEPS_BYTES) end
    if settings_cached >= SETTINGS_CACHED_MAX then known_settings, settings_cached = {}, 0 end
    known_settings[packed], settings_cached = s, settings_cached + 1
    return s
end


function topic_rules.settings_are_whole(packed)
    local size, is_list, at = #packed, byte(packed, 13) == LIST, LIMITED_BYTES
    if size == SETTINGS_BYTES then return not is_list end
    if is_list then
        local steps = byte(packed, at + 1) or 0
        if steps < 1 or steps > 16 then return false end
        at = at + 1 + 4 * steps
    end
    return size == at or size == at + KEEPS_BYTES or size == at + KEEPS_BYTES + FLOW_BYTES
end

-- Returns the settings, which callers do not change.
local function settings_of(t)
    if t.packed == '' then return DEFAULT end
    return known_settings[t.packed] or settings_read(t.packed)
end

-- Returns whether a topic may get these settings: the order of its groups changes only while no job waits or is leased, and a topic with more jobs than
-- one call may count does not begin to count those of its groups.
function topic_rules.may_be_set(t, packed)
    local before, f = settings_of(t).flow, t.f
    local after = packed ~= '' and (known_settings[packed] or settings_read(packed)).flow
    local is_changed = (before and before.is_strict or false) ~= (after and after.is_strict or false)
    if after and after.group_jobs > 0 and not flow.may_count(t) then return false end
    return not is_changed or f[AT.delayed] + f[AT.retrying] + f[AT.ready] + f[AT.leased] == 0
end

function topic_rules.settings_put(t, packed)
    t.packed, t.is_changed = packed, true
    if settings_of(t).keep > 0 then raise(t, keeping.FLAG) end
    if has(t, keeping.FLAG) then keeping.check_limits(t) end
    if t.flow or settings_of(t).flow then flow.settings_changed(t) end
end

-- Returns the number of shards that share the limits of a topic.
function topic_rules.shards_of(t)
    return t.is_in_one_shard and 1 or core_more().shards
end

-- Returns how many new jobs may come: the shard's share of the topic's max_jobs, rounded up, minus the present jobs. nil: any number.
function topic_rules.room_of(t)
    local most = settings_of(t).max_jobs
    if most == 0 then return nil end
    local f, shards = t.f, topic_rules.shards_of(t)
    return floor((most + shards - 1) / shards) - f[AT.delayed] - f[AT.retrying] - f[AT.ready] - f[AT.leased] - f[AT.dead]
end

-- Fills in the defaults of a policy, or of settings (job/policy.h).
local function policy_fill(p)
    if p.lease == 0 then p.lease = 60000 end
    if p.backoff == 0 then p.backoff, p.first, p.max = 2, 1000, 600000 end
    if p.attempts == 0 then p.attempts = 16 end
    return p
end

local function policy_of_settings(s, own)
    local p = {lease = s.lease, ttl = s.ttl, backoff = s.backoff, first = s.first, max = s.max, attempts = s.attempts, steps = s.steps}
    if own then
        local lease, ttl, backoff, first, most, attempts = unpack_from('>I6I6BI6I6I4', own, 16)
        if lease > 0 then p.lease = lease end
        if ttl > 0 then p.ttl = ttl end
        if backoff > 0 then p.backoff, p.first, p.max = backoff, first, most end
        if backoff == LIST then p.steps = steps_read(own, 45) end
        if attempts > 0 then p.attempts = attempts end
        return policy_fill(p)
    end
    s.policy = policy_fill(p)
    return p
end

local LANES_LOOKED_AT = 200

-- Returns the due time of the ready job that comes first; 0: no job is ready. Reads only some groups.
local function oldest_of(t)
    local lanes, oldest = call('ZRANGE', t.priorities, '0', t.flow and text_of(LANES_LOOKED_AT - 1) or '0'), NONE
    for i = 1, #lanes do
        local first = call('ZRANGE', t.ready_of .. lanes[i], '0', '0', 'WITHSCORES')
        if first[1] then oldest = min(oldest, t.flow and flow.due_of(t, first[1], tonumber(first[2])) or tonumber(first[2])) end
    end
    return oldest < NONE and oldest or 0
end

-- A topic as it is shown to people.
local function topic_packed(t)
    local f, figures = t.f, t.flow and flow.figures(t) or ''
    local packed = {pack('>BI6', (has(t, PAUSED) and 1 or 0) + (has(t, keeping.FLAG) and 2 or 0) + (t.flow and 4 or 0), topic_rules.pause_end_of(t))}
    for i = 1, #FIGURES do packed[i + 1] = pack('>I6', max(0, f[i + FIRST_FIGURE - 1])) end
    packed[#packed + 1] = pack('>I6', oldest_of(t)) .. (has(t, keeping.FLAG) and keeping.count_of(t) or '') .. figures
    return table.concat(packed) .. pack('>B', #t.packed) .. t.packed .. (has(t, EXTENDED) and call('GET', t.extension) or '')
end

local function count(t, figure, step)
    local f, at = t.f, AT[figure]
    f[at], t.is_changed = f[at] + step, true
end

-- Returns the due time of a new or moved job, and whether it came as wall clock; nil: it is more than ten years away.
function topic_rules.due_of(when, ms)
    local WHEN_DELAY, WHEN_AT = 2, 3
    if when == WHEN_DELAY and ms > 0 then return now + 1 + ms end
    if when == WHEN_AT and ms > wall then
        if ms - wall > DELAY_MAX then return nil end
        return ms + adjust, true
    end
    return now
end

-- Something is to happen in the topic at this time.
local function event_at(t, ms)
    if ms < t.f[NEXT] then t.f[NEXT], t.is_changed = ms, true end
end

return BYTES, NEW, FIGURES, FIRST_FIGURE, NEXT, LISTED, PAUSED, SPECIAL, HISTORIC, EXTENDED, PACKED, EXPIRING, REMEMBERING, UNPACKED_TOO, LARGE, TRIED, AT, has, raise, lower,
    topic_figures, topic_open, topic_text, topic_find, topic_make, settings_of, topic_rules, policy_of_settings, topic_packed, count, event_at

end)()

