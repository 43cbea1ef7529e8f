-- Groups, limits, rates and holds of the topics that have any: the rules of job/flow.h (README.md, "Groups"). The members of `flow` are filled in here, because
-- parts before this one call them. A call changes groups in memory; flow.settle writes them and updates the sets of runnable and waiting groups.
function flow.fill()

local TOPIC = '>I6I7I6I6BI6I6I6I6I6' -- pass, bucket, end of a hold, ready jobs of groups that may be served, bits, ready jobs of other groups by SHUT_BY
local WAS_OPEN, HAS_OWN, COUNTS = 1, 2, 4 -- bits: jobs could be delivered when the topic was written; some groups have settings of their own; the delayed jobs of each
                                    -- group are counted
local GROUP = '>BI4I4I6I7I6I4B'     -- bits, in flight, tried, pass, bucket, end of a hold, ready jobs, heads
local IN_TURNS, IN_WAKES, SHUT = 1, 2, 4 -- bits; what holds its ready jobs
local TURN, TURN_BYTES = '>I6I6I6I6', 24 -- load, pass, then the head: due and sequence of the first ready job of a priority; then the name of the group
local OWN = '>BI4I4BI4I6BI6'        -- weight, limit, count and unit of rate, burst, max_jobs, paused, its end by the wall clock
local OWN_BYTES, GROUP_BYTES, HEAD_BYTES, TRIED_AT, PASS_AT, FULL_AT, READY_AT = 27, 33, 14, 6, 10, 16, 29
local NOTHING_LEFT = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- no tried jobs, a full bucket, no hold
local NO_BUCKET = '\0\0\0\0\0\0\0\0\0\0\0\0\0' -- and no hold
local NO_DUE = '\0\0\0\0\0\0' -- of the head of a tried job (flow.score_of)
local NO_LOAD, FIRST_TURN = '\0\0\0\0\0\0', '\1\0\0\0\0\0\0\0\0' -- in turns, without jobs in flight and tried ones
local STEP = 10000
local UNIT_US = {1000000, 60000000, 3600000000}
local LIMIT, RATE, GROUP_LIMIT, GROUP_RATE, GROUP_PAUSED, GROUP_ORDER, HOLD = 1, 2, 3, 4, 5, 6, 7 -- enum flow_held
local IN_ORDER = SHUT * GROUP_ORDER -- bits of a group of a strict topic whose ready jobs wait for the end of one
local LAST_LEASE = '\24\0\0\0\1\0\0\0\0' -- the same with one job in flight and no tried jobs
local SHUT_BY = {GROUP_LIMIT, GROUP_RATE, GROUP_PAUSED, GROUP_ORDER, HOLD}
local NO_FLOW = {limit = 0, count = 0, unit = 0, burst = 0, group_limit = 0, group_count = 0, group_unit = 0, group_burst = 0, group_jobs = 0}
local NOTHING = {}

local function now_us()
    return now * 1000 + (now == clock and core_flags < LAYOUT.HELD and flow.micro or 0)
end

local function ms_after(us)
    return floor((us + 999) / 1000)
end

local function is_grouped(t)
    return t.f[1] >= flow.GROUPED
end

-- Returns whether no job of a group is delivered before the one in front of it has ended (job/flow.h). Such a topic has groups.
local function is_strict(t)
    local known = t.is_strict
    if known ~= nil then return known end
    local s = t.flow and settings_of(t).flow
    t.is_strict = s and s.is_strict or false
    return t.is_strict
end

-- ---- rules in force: this shard's share ----

local function share_of(number, shards)
    return floor((number + shards - 1) / shards)
end

local function rules_make(limit, count, unit, burst, shards)
    count = share_of(count, shards)
    local interval = count > 0 and floor((UNIT_US[unit] + count - 1) / count) or 0
    if burst == 0 then burst = interval > 0 and interval < 10000 and floor(10000 / interval) or 1 end
    return {limit = share_of(limit, shards), interval = interval, ahead = (burst - 1) * interval}
end

-- Returns the rules of the topic, and those of a group without settings of its own. They are kept with the settings.
local function rules_of(t)
    if t.rules then return t.rules, t.group_rules end
    local s = settings_of(t).flow or NO_FLOW
    local shards = topic_rules.shards_of(t)
    if s.shards ~= shards then
        s.rules, s.group_rules = rules_make(s.limit, s.count, s.unit, s.burst, shards), rules_make(s.group_limit, s.group_count, s.group_unit, s.group_burst, shards)
        s.shards = shards
    end
    t.rules, t.group_rules = s.rules, s.group_rules
    return t.rules, t.group_rules
end

local function rules_of_group(t, g)
    local o = g.own
    if not o or o.limit + o.count + o.burst == 0 then
        local _, rules = rules_of(t)
        return rules
    end
    if g.rules then return g.rules end
    local s = settings_of(t).flow or NO_FLOW
    local count, unit, burst = s.group_count, s.group_unit, s.group_burst
    if o.count > 0 then count, unit, burst = o.count, o.unit, 0 end
    if o.burst > 0 then burst = o.burst end
    g.rules = rules_make(o.limit > 0 and o.limit or s.group_limit, count, unit, burst, topic_rules.shards_of(t))
    return g.rules
end

local function weight_of(g)
    return g.own and g.own.weight > 0 and g.own.weight or 1
end

-- ---- topics ----

-- Reads the flow of a topic behind its numbers.
function flow.read(text, at)
    local w, bits, shut = {}, nil, {}
    w.pass, w.full, w.hold, w.open, bits, shut[GROUP_LIMIT], shut[GROUP_RATE], shut[GROUP_PAUSED], shut[GROUP_ORDER], shut[HOLD] = unpack_from(TOPIC, text, at)
    w.shut = shut
    w.was_open, w.has_own = bits % 2 == WAS_OPEN, bits % COUNTS >= HAS_OWN
    w.counts = bits >= COUNTS
    return w
end

function flow.text(t)
    local w, shut = t.flow, {}
    local bits = (w.was_open and WAS_OPEN or 0) + (w.has_own and HAS_OWN or 0) + (w.counts and COUNTS or 0)
    for i = 1, #SHUT_BY do shut[i] = max(0, w.shut[SHUT_BY[i]]) end
    return pack(TOPIC, w.pass, w.full, w.hold, max(0, w.open), bits, unpack(shut))
end

-- The topic has limits, a rate or a hold, or groups.
function flow.begin(t)
    if t.flow then return end
    raise(t, flow.FLAG)
    t.flow = {pass = 0, full = 0, hold = 0, open = 0, was_open = t.f[AT.ready] > 0, has_own = false, counts = false, shut = flow.none_shut()}
    t.is_changed = true
end

-- Returns why no job of the topic is delivered, and until when if that is known; nil: jobs are delivered.
local function topic_held(t)
    local w, rules = t.flow, rules_of(t)
    if w.hold > now then return HOLD, w.hold end
    if rules.limit > 0 and t.f[AT.leased] >= rules.limit then return LIMIT end
    if rules.interval > 0 and w.full - rules.ahead > now_us() then return RATE, ms_after(w.full - rules.ahead) end
end

-- Returns how many ready jobs of the topic can be delivered now, as far as groups were settled.
function flow.open_of(t)
    if topic_held(t) then return 0 end
    return is_grouped(t) and t.flow.open or t.f[AT.ready]
end

function flow.none_shut()
    return {[GROUP_LIMIT] = 0, [GROUP_RATE] = 0, [GROUP_PAUSED] = 0, [GROUP_ORDER] = 0, [HOLD] = 0}
end

-- Returns the groups with ready or leased jobs, and the ready jobs by what holds them, as a topic is shown.
function flow.figures(t)
    local by, packed = topic_held(t), {}
    local shut = by and {[by] = t.f[AT.ready]} or is_grouped(t) and t.flow.shut or {}
    for reason = 1, HOLD do
        if (shut[reason] or 0) > 0 then packed[#packed + 1] = pack('>BI6', reason, shut[reason]) end
    end
    return pack('>I4B', is_grouped(t) and call('HLEN', t.groups) or 0, #packed) .. table.concat(packed)
end

-- Returns how many jobs the topic's limit and rate allow now.
function flow.allowed(t)
    if topic_held(t) then return 0 end
    local rules, allowed = rules_of(t), 1 / 0
    if rules.limit > 0 then allowed = rules.limit - t.f[AT.leased] end
    if rules.interval > 0 then
        local us = now_us()
        allowed = min(allowed, floor((us + rules.ahead - max(us, t.flow.full)) / rules.interval) + 1)
    end
    return allowed
end

-- `jobs` of the topic were delivered.
function flow.spend(t, jobs)
    local rules = rules_of(t)
    if rules.interval > 0 and jobs > 0 then t.flow.full, t.is_changed = max(t.flow.full, now_us()) + jobs * rules.interval, true end
end

-- Returns a lower bound of the topic's next event that has to do with its flow.
function flow.first_event(t)
    local ms = is_grouped(t) and first_score(t.wakes) or NONE
    if t.f[AT.ready] > 0 then
        local _, until_ms = topic_held(t)
        ms = min(ms, until_ms or NONE)
    end
    return ms
end

-- ---- groups ----

local function own_read(text)
    local o, paused = {}, nil
    o.weight, o.limit, o.count, o.unit, o.burst, o.max_jobs, paused, o.paused_until = unpack_from(OWN, text)
    o.paused = paused == 1
    return o
end

function flow.own_max_jobs(text)
    return own_read(text).max_jobs
end

function flow.own_is_whole(text)
    return #text == OWN_BYTES
end

function flow.group_is_whole(text)
    return #text >= GROUP_BYTES and #text == GROUP_BYTES + HEAD_BYTES * byte(text, GROUP_BYTES)
end

local function list_of(lists, priority)
    local list = lists[priority]
    if not list then
        list = {}
        lists[priority] = list
    end
    return list
end

local function load_of(g)
    return floor(g.in_flight * STEP / weight_of(g))
end

-- Returns the head of a line of ready jobs from its first job: member and due.
function flow.head(member, due)
    return pack('>I6', due) .. sub(member, 1, 6)
end

local function turn_of(g, head)
    return pack('>I6I6', load_of(g), g.pass) .. head .. g.name
end

-- Returns the priority of the first job of a strict group: a tried one, else that of the first priority. nil: no job is ready.
local function first_priority(g)
    local first, tried = nil, nil
    for priority, head in pairs(g.heads) do
        if sub(head, 1, 6) == NO_DUE then
            if not tried or unpack_from('>I6', head, 7) < unpack_from('>I6', g.heads[tried], 7) then tried = priority end
        elseif not first or priority < first then
            first = priority
        end
    end
    return tried or first, tried ~= nil
end

-- Returns the heads of the group that have a turn if it may be served: of a strict group only its first job.
local function heads_in_turn(t, g)
    if not is_strict(t) then return g.heads end
    local first = first_priority(g)
    return first and {[first] = g.heads[first]} or NOTHING
end

-- Makes a group from what is stored of it, if anything. `heads`: by priority; `places`: its entries in T:turns by priority. `turn`: one that is known, or nil.
local function group_make(t, name, text, own, turn)
    local g
    if text and flow.group_is_whole(text) then
        local bits, in_flight, tried, pass, full, hold, ready, count, at = unpack_from(GROUP, text)
        local heads = {}
        g = {name = name, in_flight = in_flight, tried = tried, pass = pass, full = full, hold = hold, ready = ready, heads = heads, places = NOTHING, open = 0,
             is_stored = true, in_wakes = bits % SHUT >= IN_WAKES, by = floor(bits / SHUT), shut = bits >= SHUT and ready or 0}
        for from = at, at + HEAD_BYTES * (count - 1), HEAD_BYTES do
            local high, low = byte(text, from, from + 1)
            heads[256 * high + low] = sub(text, from + 2, from + HEAD_BYTES - 1)
        end
        if own and flow.own_is_whole(own) then g.own = own_read(own) end -- else it was spoiled: a check finds it
        if bits % 2 == IN_TURNS then
            g.places, g.open = {}, ready
            for priority, head in pairs(heads_in_turn(t, g)) do g.places[priority] = turn and count == 1 and turn or turn_of(g, head) end
        end
        return g
    end
    g = {name = name, in_flight = 0, tried = 0, pass = 0, full = 0, hold = 0, ready = 0, heads = {}, places = NOTHING, open = 0, by = 0, shut = 0, is_stored = text and true or false}
    if own and flow.own_is_whole(own) then g.own = own_read(own) end
    return g
end

local function group_text(g)
    local text, count = '', 0
    for priority, head in pairs(g.heads) do
        text, count = text .. char(floor(priority / 256), priority % 256) .. head, count + 1
    end
    return pack(GROUP, (g.open > 0 and IN_TURNS or 0) + (g.in_wakes and IN_WAKES or 0) + SHUT * g.by, g.in_flight, g.tried, g.pass, g.full, g.hold, g.ready, count) .. text
end

-- Reads groups that this call has not read yet. `turns`: an entry of each in T:turns, or nil.
function flow.load(t, names, turns)
    local known, missing, places = t.known_groups or {}, {}, {}
    t.known_groups = known
    for i = 1, #names do
        if known[names[i]] == nil then
            known[names[i]], missing[#missing + 1] = false, names[i]
            if turns then places[#missing] = turns[i] end
        end
    end
    local texts, owns = ask_many('HMGET', t.groups, missing), t.flow.has_own and ask_many('HMGET', t.group_settings, missing)
    for i = 1, #missing do known[missing[i]] = group_make(t, missing[i], texts[i], owns and owns[i], places[i]) end
end

function flow.group(t, name)
    local g = t.known_groups and t.known_groups[name]
    if g then return g end
    flow.load(t, {name})
    return t.known_groups[name]
end

local function touch(t, g)
    if g.is_dirty then return g end
    local dirty = t.dirty or {}
    g.is_dirty, t.dirty, dirty[#dirty + 1] = true, dirty, g
    return g
end

-- From now on the topic has groups. Its jobs so far are those of the group without a name.
function flow.group_all(t)
    flow.begin(t)
    if is_grouped(t) then return end
    raise(t, flow.GROUPED)
    raise(t, SPECIAL)
    t.flow.open, t.is_changed = 0, true
    local g = touch(t, flow.group(t, ''))
    g.in_flight, g.ready = max(0, t.f[AT.leased]), max(0, t.f[AT.ready])
    g.stale = {}
    for _, lane in ipairs(call('ZRANGE', t.priorities, '0', '-1')) do
        local priority, name = flow.lane_read(lane)
        if name == '' then g.stale[priority] = true end
    end
end

-- Returns the name that T:priorities and T:ready have for the ready jobs of a priority and a group.
function flow.lane(priority, group)
    return group == '' and priority or text_of(priority) .. ':' .. group
end

function flow.lane_read(lane)
    local priority, group = string.match(lane, '^(%d+):(.+)$')
    return tonumber(priority or lane), group or ''
end

function flow.lane_of(j)
    return flow.lane(j.priority, flow.group_of(j))
end

-- Returns the group in a record; '': no group.
function flow.group_in(record)
    local flags = byte(record)
    if flags < flow.RECORD then return '' end
    local at = (flags % 2 == 1 and topic_rules.policy_end(record) or 16) + (flags % 64 >= 32 and 6 or 0)
    return sub(record, at + 1, at + (byte(record, at) or 0))
end

function flow.group_of(j)
    j.group = j.group or flow.group_in(j.record)
    return j.group
end

-- A place in T:leased: `>I6` sequence, topic, then \1 and the group if there is one, NUL, id. Returns topic, id and group.
function flow.split(place)
    local nul = string.find(place, '\0', 7, true)
    local name, id = sub(place, 7, nul - 1), sub(place, nul + 1)
    local at = string.find(name, '\1', 1, true)
    if at then return sub(name, 1, at - 1), id, sub(name, at + 1) end
    return name, id, ''
end

-- Returns the beginning of the places of a group's jobs, behind the sequence.
function flow.place(t, group)
    return group == '' and t.name .. '\0' or t.name .. '\1' .. group .. '\0'
end

-- ---- what happens to a group's jobs; nothing in a topic without groups ----

-- `words`: {due, member, …} were added to its ready jobs.
function flow.ready_added(t, priority, name, words)
    if not is_grouped(t) then return end
    local g, head = touch(t, flow.group(t, name)), nil
    priority = tonumber(priority)
    head = g.heads[priority]
    if g.ready <= 0 then g.pass = max(g.pass, t.flow.pass) end
    g.ready = max(0, g.ready) + #words / 2
    local first, number, at = NONE, NONE, nil
    if head then first, number = unpack_from('>I6I6', head) end
    for i = 1, #words, 2 do
        local due = tonumber(words[i])
        if due < first or due == first and unpack_from('>I6', words[i + 1]) < number then
            first, number, at = due, unpack_from('>I6', words[i + 1]), i + 1
        end
    end
    if at then g.heads[priority] = flow.head(words[at], first) end
end

-- Returns the text of a group whose line of ready jobs grows behind its first job, and what holds it (0: nothing); nil: its first job may be another one.
local function text_grown(text, line)
    local bits, ready, priority, due = byte(text), unpack_from('>I4xI2I6', text, READY_AT)
    if priority ~= line.priority or due > line.due or bits < SHUT and bits % 2 == 0 then return nil end
    return sub(text, 1, READY_AT - 1) .. pack('>I4', ready + #line / 2) .. sub(text, GROUP_BYTES), bits % 2 == 0 and floor(bits / SHUT) or 0
end

-- Returns the text of a group that had no ready job, what holds it (0: nothing), and its turn; nil: more may hold it. `text`: false: it is new.
local function text_begun(t, text, line)
    local by, before, load = 0, FIRST_TURN .. pack('>I6', t.flow.pass), NO_LOAD
    if text then
        local _, rules = rules_of(t)
        local in_flight, _, pass = unpack_from('>I4I4I6', text, 2)
        if byte(text) > 0 or in_flight == 0 or sub(text, FULL_AT, READY_AT - 1) ~= NO_BUCKET then return nil end
        if is_strict(t) then by = GROUP_ORDER elseif rules.limit > 0 then return nil end
        before = char(by > 0 and SHUT * by or IN_TURNS) .. sub(text, 2, PASS_AT - 1) .. pack('>I6', max(pass, t.flow.pass))
        load = pack('>I6', in_flight * STEP)
    end
    local head = flow.head(line[2], line.due)
    local turn = by == 0 and load .. sub(before, PASS_AT) .. head .. line.group
    return before .. NO_BUCKET .. pack('>I4BI2', #line / 2, 1, line.priority) .. head, by, turn
end

-- Adds new jobs to lines of ready jobs, of groups without settings for which that needs no tables. `lines`: by lane {due, member, …} with `priority`, `group`, and
-- `due`, the same for all: a new job is behind those that have the same due. Returns the others.
function flow.ready_added_all(t, lines)
    if not is_grouped(t) then return lines end
    local names, lane_of, others, left, known = {}, {}, {}, {}, t.known_groups or NOTHING
    for lane, line in pairs(lines) do
        local name = line.group
        if not name or known[name] or lane_of[name] then
            others[lane] = line
        else
            lane_of[name], names[#names + 1] = lane, name
        end
    end
    local texts, owns = ask_many('HMGET', t.groups, names), t.flow.has_own and ask_many('HMGET', t.group_settings, names)
    local stored, turns, lanes, jobs, open, shut = {}, {}, {}, 0, t.flow.open, t.flow.shut
    for i = 1, #names do
        local name, text, at = names[i], texts[i], #stored
        local lane = lane_of[name]
        local line, new, by, turn = lines[lane], nil, nil, nil
        if owns and owns[i] then
            new = nil
        elseif text and #text == GROUP_BYTES + HEAD_BYTES then
            new, by = text_grown(text, line)
        elseif not text or #text == GROUP_BYTES then
            new, by, turn = text_begun(t, text, line)
            if new then lanes[#lanes + 1], lanes[#lanes + 2] = text_of(line.priority), lane end
        end
        if new then
            local added = #line / 2
            stored[at + 1], stored[at + 2], jobs = name, new, jobs + added
            if by > 0 then shut[by] = shut[by] + added else open = open + added end
            if turn then
                local to = list_of(turns, line.priority)
                at = #to
                to[at + 1], to[at + 2] = '0', turn
            end
            call_many('ZADD', t.ready_of .. lane, line)
        else
            others[lane], left[#left + 1] = line, name
        end
    end
    for priority, words in pairs(turns) do call_many('ZADD', t.turns .. priority, words) end
    call_many('ZADD', t.priorities, lanes)
    call_many('HSET', t.groups, stored)
    count(t, 'ready', jobs)
    t.flow.open = open
    flow.load(t, left)
    return others
end

-- `count` ready jobs were removed; `number`: the sequence of the only one, or nil.
function flow.ready_removed(t, priority, name, count, number)
    if not is_grouped(t) then return end
    local g = touch(t, flow.group(t, name))
    local head = g.heads[priority]
    g.ready = max(0, g.ready - count)
    if not number or not head or select(2, unpack_from('>I6I6', head)) == number then
        g.stale = g.stale or {}
        g.stale[priority] = true
    end
end

-- Returns the score of a job in its line of ready jobs: its due, but 0 of a tried job of a strict topic, which comes before all others.
function flow.score_of(t, j)
    return j.attempt > 0 and is_strict(t) and 0 or j.due
end

-- Returns the due of the first job of a line of ready jobs from its member and score.
function flow.due_of(t, member, score)
    if score > 0 or not is_strict(t) then return score end
    local try = call('HGET', t.tries, sub(member, 7))
    return try and select(4, unpack_from(TRY, try)) or score
end

-- A job that waits, ready or not, was added to (1) or removed from (-1) the tried ones of its group, if it was tried.
function flow.tried(t, j, step)
    if j.attempt == 0 or not is_strict(t) then return end
    local g = touch(t, flow.group(t, flow.group_of(j)))
    g.tried = max(0, g.tried + step)
end

-- These waiting jobs are about to be forgotten.
function flow.purged(t, members, are_delayed)
    local counts = are_delayed and t.flow.counts
    for i = 1, (counts or is_strict(t)) and #members or 0 do
        local j = job_find(t, sub(members[i], 7))
        if j then
            flow.tried(t, j, -1)
            if counts then flow.delayed(t, flow.group_of(j), -1) end
        end
    end
end

-- Returns the tried jobs at the beginning of a line of ready jobs: {member, due, …}. They are listed by their due.
function flow.tried_first(t, key)
    local members = is_strict(t) and call('ZRANGE', key, '0', '0', 'BYSCORE') or NOTHING
    local found = {}
    for i = 1, #members do found[2 * i - 1], found[2 * i] = members[i], flow.due_of(t, members[i], 0) end
    return found
end

-- ---- how many jobs a group has, where group_max_jobs or max_jobs limits them ----

local COUNTED_MAX, READ_MAX = 100000, 256 * 2 ^ 20 -- delayed jobs, and bytes of their records, that one call reads to count them

-- A delayed job of the group was added (1) or removed (-1), if they are counted.
function flow.delayed(t, name, step)
    if not t.flow.counts then return end
    local steps = t.delayed_steps or {}
    t.delayed_steps, steps[name] = steps, (steps[name] or 0) + step
end

-- Writes what this call did to the counts of delayed jobs.
local function delayed_settle(t)
    local steps = t.delayed_steps
    t.delayed_steps = nil
    for name, step in pairs(steps) do
        if step ~= 0 and call('HINCRBY', t.waits, name, text_of(step)) <= 0 then call('HDEL', t.waits, name) end
    end
end

-- Calls `act` with the ids of the delayed jobs, 64 at a time, until it returns true. Returns whether it did.
local function delayed_each(t, act)
    local function visit(key)
        local members = call('ZRANGE', key, '0', '-1')
        for from = 1, #members, 64 do
            local ids = {}
            for i = from, min(from + 63, #members) do ids[#ids + 1] = sub(members[i], 7) end
            if act(ids) then return true end
        end
        return false
    end
    if visit(t.fresh) then return true end
    for _, leaf in ipairs(call('ZRANGE', t.index, '0', '-1')) do
        if visit(t.leaf .. leaf) then return true end
    end
    return false
end

-- Returns how many delayed jobs each group has, by their records.
function flow.delayed_found(t)
    local found = {}
    delayed_each(t, function(ids)
        for _, record in ipairs(call('HMGET', t.jobs, unpack(ids))) do
            if record then
                local name = flow.group_in(record)
                found[name] = (found[name] or 0) + 1
            end
        end
    end)
    return found
end

-- Returns whether the topic counts the jobs of its groups, or may begin to.
function flow.may_count(t)
    if t.flow and t.flow.counts then return true end
    if t.f[AT.delayed] + t.f[AT.retrying] > COUNTED_MAX then return false end
    local bytes = 0
    return not delayed_each(t, function(ids)
        for i = 1, #ids do bytes = bytes + call('HSTRLEN', t.jobs, ids[i]) end
        return bytes > READ_MAX
    end)
end

-- From now on the delayed jobs of each group are counted; the ready and the leased ones are known.
function flow.count_all(t)
    flow.group_all(t)
    if t.flow.counts then return end
    local words = {}
    for name, count in pairs(flow.delayed_found(t)) do words[#words + 1], words[#words + 2] = name, text_of(count) end
    call('DEL', t.waits)
    call_many('HSET', t.waits, words)
    t.flow.counts, t.is_changed = true, true
end

-- Returns how many new jobs the group may have; nil: any number.
function flow.room_of(t, name)
    if not t.flow.counts then return nil end
    local g = flow.group(t, name)
    local most = g.own and g.own.max_jobs or 0
    if most == 0 then most = (settings_of(t).flow or NO_FLOW).group_jobs end
    if most == 0 then return nil end
    if t.delayed_steps then delayed_settle(t) end
    return share_of(most, topic_rules.shards_of(t)) - tonumber(call('HGET', t.waits, name) or 0) - g.ready - g.in_flight
end

-- The lease of a job ended, in whatever way.
function flow.released(t, name)
    if not is_grouped(t) then return end
    local g = touch(t, flow.group(t, name))
    g.in_flight = max(0, g.in_flight - 1)
end

-- Returns the entry of a group in T:turns, from its text with one head.
local function turn_in(load, text, name)
    return load .. sub(text, PASS_AT, PASS_AT + 5) .. sub(text, GROUP_BYTES + 3) .. name
end

-- Moves entries of T:turns, by priority. They are added first: a key that is never empty does not take Redis' compact form again (flow.swell).
local function turns_move(t, out, into)
    for priority, words in pairs(into) do call_many('ZADD', t.turns .. priority, words) end
    for priority, members in pairs(out) do call_many('ZREM', t.turns .. priority, members) end
end

-- Releases jobs of groups without settings that have their turn and ready jobs of one priority, or no ready jobs and nothing to wait for, or that get their turn
-- in a strict topic: this needs no tables. `times`: jobs of each. Returns the names of the others.
local function release_open(t, names, times)
    local texts, owns = ask_many('HMGET', t.groups, names), t.flow.has_own and ask_many('HMGET', t.group_settings, names)
    local others, stored, gone, out, into, loads, flights, opened = {}, {}, {}, {}, {}, {}, {}, 0
    for i = 1, #names do
        local name, text = names[i], texts[i]
        if not text or owns and owns[i] then
            others[#others + 1] = name
        elseif #text == GROUP_BYTES + HEAD_BYTES and sub(text, 1, PASS_AT - 1) == LAST_LEASE and sub(text, FULL_AT, READY_AT - 1) == NO_BUCKET then
            local ready, _, priority = unpack_from('>I4BI2', text, READY_AT)
            local to, at = list_of(into, priority), #stored
            stored[at + 1], stored[at + 2], opened = name, FIRST_TURN .. sub(text, PASS_AT), opened + ready
            at = #to
            to[at + 1], to[at + 2] = '0', turn_in(NO_LOAD, text, name)
        elseif #text == GROUP_BYTES and byte(text) == 0 then
            local left = max(0, unpack_from('>I4', text, 2) - times[name])
            if left > 0 then
                local at = #stored
                stored[at + 1], stored[at + 2] = name, pack('>BI4', 0, left) .. sub(text, 6)
            elseif sub(text, 6, 9) .. sub(text, FULL_AT, READY_AT - 1) == NOTHING_LEFT then
                gone[#gone + 1] = name
            else
                others[#others + 1] = name
            end
        elseif #text == GROUP_BYTES + HEAD_BYTES and byte(text) == IN_TURNS then
            local in_flight, high, low = unpack_from('>I4', text, 2), byte(text, GROUP_BYTES + 1, GROUP_BYTES + 2)
            local left, priority = max(0, in_flight - times[name]), 256 * high + low
            local from, to = list_of(out, priority), list_of(into, priority)
            loads[in_flight] = loads[in_flight] or pack('>I6', in_flight * STEP)
            if not flights[left] then loads[left], flights[left] = loads[left] or pack('>I6', left * STEP), pack('>BI4', IN_TURNS, left) end
            local at = #to
            if left < in_flight then from[#from + 1], to[at + 1], to[at + 2] = turn_in(loads[in_flight], text, name), '0', turn_in(loads[left], text, name) end
            at = #stored
            stored[at + 1], stored[at + 2] = name, flights[left] .. sub(text, 6)
        else
            others[#others + 1] = name
        end
    end
    turns_move(t, out, into)
    call_many('HSET', t.groups, stored)
    call_many('HDEL', t.groups, gone)
    t.flow.open, t.flow.shut[GROUP_ORDER] = t.flow.open + opened, t.flow.shut[GROUP_ORDER] - opened
    return others
end

function flow.released_all(t, names)
    if not is_grouped(t) then return end
    local known, times, others, unknown = t.known_groups or NOTHING, {}, {}, {}
    for i = 1, #names do
        local name = names[i]
        if not times[name] then
            local list = known[name] and others or unknown
            list[#list + 1] = name
        end
        times[name] = (times[name] or 0) + 1
    end
    unknown = release_open(t, unknown, times)
    flow.load(t, unknown)
    for _, list in ipairs({others, unknown}) do
        for i = 1, #list do
            local g = touch(t, flow.group(t, list[i]))
            g.in_flight = max(0, g.in_flight - times[list[i]])
        end
    end
end

-- The first job of the group's line is leased. Returns whether it was tried.
function flow.untry(t, g)
    if g.due > 0 or not is_strict(t) then return false end
    g.tried = max(0, g.tried - 1)
    return true
end

-- Counts a delivery of the group in its order.
function flow.serve(t, g)
    local rules = rules_of_group(t, g)
    t.flow.pass = g.pass
    g.pass = g.pass + floor(STEP / weight_of(g))
    g.in_flight = g.in_flight + 1
    g.load = load_of(g)
    if rules.interval > 0 then g.full = max(g.full, now_us()) + rules.interval end
end

-- A job was leased by its id: limits and order do not hold for it. It is in flight, but spends no token.
function flow.leased_by_id(t, name)
    if not is_grouped(t) then return end
    local g = touch(t, flow.group(t, name))
    g.in_flight = g.in_flight + 1
end

-- Returns why no job of the group is delivered, and until when if that is known; nil: jobs are delivered.
local function group_held(t, g)
    local o, rules = g.own, g.own and rules_of_group(t, g) or t.group_rules or select(2, rules_of(t))
    if o and o.paused and (o.paused_until == 0 or o.paused_until > wall) then
        return GROUP_PAUSED, o.paused_until > 0 and o.paused_until + adjust or nil
    end
    if g.hold > now then return HOLD, g.hold end
    if is_strict(t) and (g.in_flight > 0 or g.tried > 0 and not select(2, first_priority(g))) then return GROUP_ORDER end
    if rules.limit > 0 and g.in_flight >= rules.limit then return GROUP_LIMIT end
    if rules.interval > 0 and g.full - rules.ahead > now_us() then return GROUP_RATE, ms_after(g.full - rules.ahead) end
end

-- Returns whether the group may have a further job in the take that is being carried out.
function flow.may_go_on(t, g)
    return not group_held(t, g)
end

flow.touch, flow.is_strict = touch, is_strict -- for a check

-- Returns why a ready job is held, and until when; 0 and 0: it is not.
function flow.held_of(t, name)
    if not t.flow then return 0, 0 end
    local by, until_ms = topic_held(t)
    if not by and is_grouped(t) then by, until_ms = group_held(t, flow.group(t, name)) end
    return by or 0, until_ms or 0
end

-- The same as packed words of an answer; '': it is not held.
function flow.held_packed(t, name)
    local by, until_ms = flow.held_of(t, name)
    return by > 0 and pack('>BI6', by, until_ms) or ''
end

-- Holds the group, or without a group the topic, for so long.
function flow.hold(t, name, ms)
    local until_ms = now + 1 + ms
    if name ~= '' and not is_grouped(t) then flow.group_all(t) end
    flow.begin(t)
    local held = name ~= '' and touch(t, flow.group(t, name)) or t.flow
    held.hold, t.is_changed = max(held.hold, until_ms), true
end

-- Marks an answer about a ready job: it does not mean that a job of the topic can be delivered.
function flow.mark(answer)
    return byte(answer, 2) == READY and sub(answer, 1, 1) .. char(READY + flow.MARK) .. sub(answer, 3) or answer
end

-- ---- turns ----

-- Leaves Redis' compact form of the groups, and of the turns of the first priority, if there are `many` groups: each of their jobs changes both. Redis takes the form again once
-- the key is empty. `long`: too long for that form.
function flow.swell(t, long, many)
    if not is_grouped(t) or call('HLEN', t.groups) < many then return end
    call('HSET', t.groups, long, '')
    call('HDEL', t.groups, long)
    local first = call('ZRANGE', t.priorities, '0', '0', 'WITHSCORES')[2]
    if not first then return end
    call('ZADD', t.turns .. first, '0', long)
    call('ZREM', t.turns .. first, long)
end

-- Returns the first entries of T:turns of a priority, up to `most`.
function flow.turns_read(t, priority, most)
    return call('ZRANGE', t.turns .. priority, '0', text_of(most - 1))
end

-- Returns the groups of these entries, in their order.
function flow.turns_of(t, priority, members)
    local names = {}
    for i = 1, #members do names[i] = sub(members[i], TURN_BYTES + 1) end
    flow.load(t, names, members)
    local groups = {}
    for i = 1, #names do
        local g = t.known_groups[names[i]]
        local head = g.heads[priority]
        if head then
            g.load, g.due, g.number = load_of(g), unpack_from('>I6I6', head)
            groups[#groups + 1] = g
        end
    end
    return groups
end

-- ---- rounds: one job of each group, for groups that need no tables (takes.lua) ----

local ROUND_MIN = 16

-- Returns a round: the first of the groups with these entries of T:turns, as many as have equal loads, ready jobs of one priority, and no limits. Each of them is
-- served once before any is served again; in a strict topic, which serves no group with a job in flight, that is all. nil: there are too few of them.
function flow.round(t, turns, most)
    local _, rules = rules_of(t)
    local least = min(most, is_strict(t) and 1 or ROUND_MIN)
    if t.flow.has_own or rules.limit > 0 and not is_strict(t) or rules.interval > 0 or #turns < least or #turns == 0 then return nil end
    local names, load, known = {}, sub(turns[1], 1, 6), t.known_groups or NOTHING
    for i = 1, #turns do
        local name = sub(turns[i], TURN_BYTES + 1)
        if sub(turns[i], 1, 6) ~= load or known[name] then break end
        names[i] = name
    end
    local texts = ask_many('HMGET', t.groups, names)
    local form = char(IN_TURNS) .. pack('>I4', unpack_from('>I6', load) / STEP)
    for i = 1, #names do
        local text = texts[i]
        if not text or #text ~= GROUP_BYTES + HEAD_BYTES or sub(text, 1, 5) ~= form then
            for at = #names, i, -1 do names[at] = nil end
            break
        end
    end
    if #names < least or #names == 0 then return nil end
    return {names = names, texts = texts, turns = turns, load = load}
end

-- Notes that the first `count_of` groups of a round were served: they are in the next one of their loads, or wait for the end of their job in a strict topic.
-- `keys`: of their lines of ready jobs, of which `lines` are the first two jobs: {member, due, member, due}. `places[i]` is false if the record of the job was lost.
function flow.round_end(t, priority, round, keys, lines, count_of, places)
    local in_flight, strict = unpack_from('>I6', round.load) / STEP, is_strict(t)
    local flights, load = pack('>I4', in_flight + 1), pack('>I6', (in_flight + 1) * STEP)
    local begun = char(strict and IN_ORDER or IN_TURNS) .. flights
    local out, into, stored, emptied, lanes, open, shut = {}, {}, {}, {}, {}, 0, 0
    for i = 1, count_of do
        local name, text, line = round.names[i], round.texts[i], lines[i]
        local tried, pass, rest, ready = unpack_from('>c4I6c13I4', text, TRIED_AT)
        local following, left, at = line[3], 0, 2 * i
        if strict and line[2] == '0' then tried = pack('>I4', max(0, unpack_from('>I4', tried) - 1)) end
        t.flow.pass, out[i] = pass, round.turns[i]
        if following then
            left = ready > 1 and ready - 1 or 1
            local later = pack('>I6c13I4c3I6c6', pass + STEP, rest, left, sub(text, GROUP_BYTES, GROUP_BYTES + 2), line[4] + 0, following) -- from PASS_AT on
            stored[at] = begun .. tried .. later
            if not strict then
                local to = #into
                into[to + 1], into[to + 2] = '0', load .. sub(later, 1, 6) .. sub(later, 27) .. name
            end
            call('ZREMRANGEBYRANK', keys[i], '0', '0')
        else
            stored[at] = '\0' .. flights .. tried .. pack('>I6', pass + STEP) .. rest .. '\0\0\0\0\0'
            emptied[#emptied + 1], lanes[#lanes + 1] = keys[i], flow.lane(priority, name)
        end
        stored[at - 1], open, shut = name, open - ready, shut + left
    end
    call_many('ZADD', t.turns .. priority, into)
    call_many('ZREM', t.turns .. priority, out)
    call_many('HSET', t.groups, stored)
    if #emptied > 0 then call('DEL', unpack(emptied)) end
    call_many('ZREM', t.priorities, lanes)
    if strict then t.flow.shut[GROUP_ORDER] = t.flow.shut[GROUP_ORDER] + shut else open = open + shut end
    t.flow.open = t.flow.open + open
    count(t, 'ready', -count_of)
    for i = 1, count_of do
        if not places[i] then flow.released(t, round.names[i]) end
    end
end

-- Returns priority, due and sequence of the job that is delivered next; nil: no job is ready.
function flow.peek(t)
    flow.settle(t)
    if flow.open_of(t) <= 0 then return nil end
    local priority = -1
    repeat
        priority = call('ZRANGE', t.priorities, '(' .. priority, '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')[2]
        local first = priority and call('ZRANGE', t.turns .. priority, '0', '0')[1]
        if first then
            local _, _, due, number = unpack_from(TURN, first)
            return tonumber(priority), due, number
        end
    until not priority
end

-- Notes what a take has done with the group: `jobs` of the priority were leased; `head`: of the next job, nil: no job, false: unknown.
function flow.taken(t, g, priority, jobs, head)
    touch(t, g)
    g.ready = max(0, g.ready - jobs)
    if head == false then
        g.stale = g.stale or {}
        g.stale[priority] = true
    else
        g.heads[priority] = head
    end
end

-- ---- writing ----

local function heads_refresh(t, g)
    for priority in pairs(g.stale or NOTHING) do
        local first = g.ready > 0 and call('ZRANGE', t.ready_of .. flow.lane(priority, g.name), '0', '0', 'WITHSCORES') or NOTHING
        g.heads[priority] = first[1] and flow.head(first[1], tonumber(first[2])) or nil
    end
    g.stale = nil
    if not next(g.heads) then g.ready = 0 else g.ready = max(1, g.ready) end
end

-- Moves the group's entries in T:turns from where they were to where they belong.
local function places_move(t, g, is_open, out, into)
    local before, places = g.places, NOTHING
    if is_open then
        places = {}
        for priority, head in pairs(heads_in_turn(t, g)) do
            local member = turn_of(g, head)
            places[priority] = member
            if before[priority] ~= member then
                local list = list_of(into, priority)
                local at = #list
                list[at + 1], list[at + 2] = '0', member
            end
        end
    end
    for priority, member in pairs(before) do
        if places[priority] ~= member then
            local list = list_of(out, priority)
            list[#list + 1] = member
        end
    end
    g.places = places
end

-- Returns when the group must be looked at again; nil: not before something else happens to it.
local function wake_of(g, by, until_ms)
    if g.ready > 0 then return by and until_ms end
    if g.in_flight > 0 then return nil end
    local rest = max(g.hold, ms_after(g.full))
    return rest > now and rest or nil
end

-- Counts the ready jobs of a group by what holds them; 0: nothing.
local function shut_move(t, g, by)
    local shut, count = t.flow.shut, by > 0 and g.ready or 0
    if by == g.by and count == g.shut then return end
    if g.shut > 0 and shut[g.by] then shut[g.by] = shut[g.by] - g.shut end
    if by > 0 then shut[by] = shut[by] + count end
    g.by, g.shut, t.is_changed = by, count, true
end

local function groups_settle(t)
    local dirty, out, into, stored, gone, asleep, awake = t.dirty, {}, {}, {}, {}, {}, {}
    local open = t.flow.open
    t.dirty = nil
    for i = 1, #dirty do
        local g = dirty[i]
        g.is_dirty = false
        if g.stale then heads_refresh(t, g) elseif not next(g.heads) then g.ready = 0 elseif g.ready <= 0 then g.ready = 1 end
        local by, until_ms = group_held(t, g)
        local is_open = not by and g.ready > 0
        places_move(t, g, is_open, out, into)
        open, g.open = open + (is_open and g.ready or 0) - g.open, is_open and g.ready or 0
        shut_move(t, g, g.ready > 0 and by or 0)
        local wake = wake_of(g, by, until_ms)
        if wake then
            asleep[#asleep + 1], asleep[#asleep + 2] = text_of(wake), g.name
            event_at(t, wake)
        elseif g.in_wakes then
            awake[#awake + 1] = g.name
        end
        g.in_wakes = wake and true or false
        if g.ready > 0 or g.in_flight > 0 or g.tried > 0 or wake then
            stored[#stored + 1], stored[#stored + 2] = g.name, group_text(g)
            g.is_stored = true
        elseif g.is_stored then
            gone[#gone + 1], g.is_stored = g.name, false
        end
    end
    turns_move(t, out, into)
    call_many('HSET', t.groups, stored)
    call_many('HDEL', t.groups, gone)
    call_many('ZADD', t.wakes, asleep)
    call_many('ZREM', t.wakes, awake)
    if open ~= t.flow.open then t.flow.open, t.is_changed = open, true end
end

-- Writes what this call did to the topic's groups, and notes what is to happen next.
function flow.settle(t)
    if t.delayed_steps then delayed_settle(t) end
    if t.dirty then groups_settle(t) end
    local is_open = flow.open_of(t) > 0
    if is_open ~= t.flow.was_open then t.flow.was_open, t.is_changed = is_open, true end
    if not is_open and t.f[AT.ready] > 0 then
        local _, until_ms = topic_held(t)
        if until_ms then event_at(t, until_ms) end
    end
end

function flow.settle_all()
    for i = 1, #met_topics do
        local t = met_topics[i]
        if t.flow and not t.is_deleted then flow.settle(t) end
    end
end

-- Looks at up to `most` groups whose time has come. Returns how many.
function flow.wake_some(t, most)
    if not is_grouped(t) then return 0 end
    local names = call('ZRANGE', t.wakes, '-inf', text_of(now), 'BYSCORE', 'LIMIT', '0', text_of(most))
    flow.load(t, names)
    for i = 1, #names do
        local g = touch(t, t.known_groups[names[i]])
        g.in_wakes = true
    end
    flow.settle(t)
    return #names
end

-- Returns the bucket after its rate or burst was changed: it owes no more than a burst at the new rate.
local function fit(full, rules)
    return min(full, now_us() + rules.ahead + rules.interval)
end

-- The settings of the topic have changed: all its groups are looked at.
function flow.settings_changed(t)
    local s = settings_of(t).flow
    t.rules, t.is_strict = nil, nil
    if s and s.is_set then flow.begin(t) end
    if s and (s.is_of_groups or s.is_strict) then flow.group_all(t) end
    if s and s.group_jobs > 0 then flow.count_all(t) end
    if not t.flow then return end
    t.flow.full, t.is_changed = fit(t.flow.full, (rules_of(t))), true
    if not is_grouped(t) then return end
    local names = call('HKEYS', t.groups)
    flow.load(t, names)
    for i = 1, #names do
        local g = touch(t, t.known_groups[names[i]])
        g.rules = nil
        g.full = fit(g.full, rules_of_group(t, g))
    end
end

-- ---- settings of groups ----

-- Gives the group settings of its own ('': no settings).
function flow.own_put(t, name, text)
    flow.group_all(t)
    local g = touch(t, flow.group(t, name))
    if text == '' then
        call('HDEL', t.group_settings, name)
        g.own, g.hold = nil, 0
    else
        call('HSET', t.group_settings, name, text)
        g.own = own_read(text)
        if g.own.max_jobs > 0 then flow.count_all(t) end
        if not t.flow.has_own then t.flow.has_own, t.is_changed = true, true end
    end
    g.rules = nil
    g.full = fit(g.full, rules_of_group(t, g))
end

-- The group as answers show it.
function flow.shown(t, g)
    local by, until_ms = 0, 0
    if g.ready > 0 or g.hold > now or g.own and g.own.paused then by, until_ms = flow.held_of(t, g.name) end
    local oldest = 0
    for priority, head in pairs(g.heads) do
        local due = unpack_from('>I6', head)
        if due == 0 then due = flow.due_of(t, call('ZRANGE', t.ready_of .. flow.lane(priority, g.name), '0', '0')[1] or head, 0) end
        oldest = oldest > 0 and min(oldest, due) or due
    end
    local own = ''
    if g.own then
        local o = g.own
        local is_paused = o.paused and (o.paused_until == 0 or o.paused_until > wall)
        own = pack(OWN, o.weight, o.limit, o.count, o.unit, o.burst, o.max_jobs, is_paused and 1 or 0, is_paused and o.paused_until or 0)
    end
    return pack('>I6I6BI6I6', g.ready, g.in_flight, by, until_ms, oldest) .. own
end

-- Returns all groups of the topic.
function flow.all(t)
    if not t.flow or not is_grouped(t) then return {} end
    local names = call('HKEYS', t.groups)
    if t.flow.has_own then
        for _, name in ipairs(call('HKEYS', t.group_settings)) do names[#names + 1] = name end
    end
    flow.load(t, names)
    local groups = {}
    for _, g in pairs(t.known_groups) do groups[#groups + 1] = g end
    return groups
end

end -- fill

flow.fill()

