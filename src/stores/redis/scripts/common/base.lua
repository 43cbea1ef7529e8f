-- The base of all scripts and the first of the parts that precede them: the shard's keys, its time, its core. README.md in the parent
-- folder documents the keys. The parts run once, when the library is loaded, without arguments: `reach` fetches
-- what a call needs.

local call, pack, unpack_from, floor, sub, byte, char, format, min, max
local T, CORE, TOPICS, LEASES, LEASED, TICKET, SERVERS, UNPACKED, NOWHERE
local NONE = 2 ^ 48 - 1 -- as a time: never

local OK, CREATED, REPLACED, EXISTED, CANCELLED = 0, 1, 2, 3, 4
local NOT_FOUND, CONFLICT, IS_LEASED, IS_DEAD, LEASE_ENDED = 5, 6, 7, 8, 9
local BAD_OPTION, TOO_MANY_TOPICS = 12, 14
local DELAYED, READY, LEASED_STATE, DEAD, FINISHED = 1, 2, 3, 4, 5

local DELAY_MAX = 3653 * 24 * 3600 * 1000
local LEAF_MAX = 100 -- below Redis' own limit of the compact form (zset-max-listpack-entries 128)
local FAR_MS = 60000  -- what is due later than this from now is worth packing
local MANY = 500     -- arguments of one command, so that Lua's stack is never short

local wall -- Redis' own
local clock, now -- as it is shown; and what happens goes by `now`, which a call's window may hold back

local soonest -- the earliest end of a lease this call gave
local known_topics, met_topics -- topics of this call: by name (false: no such topic), and in the order in which they were read
local shards_topics, topics_cached, shard_topics = {}, 0, nil -- names of topics' keys, kept between calls: by shard and topic; of this shard
local found_name, found_topic, found_ticket -- values read together with the core: a topic's name, the topic, and the ticket
local last_name -- the topic that a call of this shard read last: a call without a topic in its arguments probably meets it again
local ticket_key -- of server and slot of the call's ticket; nil: no ticket

-- ---- the shard's core: one packed string (README.md), read by each call and written by those that changed it ----

-- The number of this layout, and the flags of a core. PAUSES: a topic is, or was, paused for a time. HELD: for tests, the shard's clock
-- stands still at `adjust`, which is also its wall clock (adjust.lua).
local LAYOUT = {NUMBER = 1, PAUSES = 1, HELD = 2}

function LAYOUT.is_newer(text)
    return (byte(text) or 0) > LAYOUT.NUMBER
end

local CORE_FORM = '>BBBc20I6I6i6I6I6c14Bc0'
LAYOUT.SELDOM, LAYOUT.TAIL = '>I4I4I6I6', '>Bc0Bc0'
local CORE_BYTES_MIN = 70 -- with no topic's name, whose length stands two bytes before

local sealed, core_seldom, sequence, leaf_number, adjust, next_ms, rest_ms, mover, next_topic
local core_flags
local core_tail -- false: it cannot be read
local next_before -- as this call found it
local core_is_changed
local core_kept -- the text of the core that the variables above still show after a call; nil: unknown

-- Parses the core's text; returns false if it is unreadable.
local function core_open(text)
    if text and text == core_kept then
        next_before = next_ms
        return true
    end
    core_tail, core_is_changed, core_kept = false, false, nil
    if not text or byte(text) ~= LAYOUT.NUMBER or #text < CORE_BYTES_MIN + (byte(text, CORE_BYTES_MIN - 2) or 0) then
        core_flags = 0
        adjust, next_ms, rest_ms, next_topic, next_before, sequence, leaf_number = 0, NONE, NONE, '', NONE, 0, 0
        return false
    end
    local _, at
    _, core_flags, sealed, core_seldom, sequence, leaf_number, adjust, next_ms, rest_ms, mover, next_topic, at = unpack_from(CORE_FORM, text)
    core_tail, next_before = sub(text, at), next_ms
    if core_flags >= LAYOUT.HELD then wall, adjust = adjust, 0 else core_kept = text end
    return true
end

local core_text
do
local tail_bytes, form -- with the tail of the last core
function core_text()
    local kept = core_flags >= LAYOUT.HELD and clock or adjust
    if #core_tail ~= tail_bytes then tail_bytes, form = #core_tail, CORE_FORM .. 'c' .. #core_tail end
    return pack(form, LAYOUT.NUMBER, core_flags, sealed, core_seldom, sequence, leaf_number, kept, next_ms, rest_ms, mover, #next_topic, next_topic, core_tail)
end
end

-- Parses the members that are seldom needed: {shards, generation, changes, deaths, run, lease_key}.
local function core_more()
    local more = {}
    more.shards, more.generation, more.changes, more.deaths = unpack_from(LAYOUT.SELDOM, core_seldom)
    more.run, more.lease_key = unpack_from(LAYOUT.TAIL, core_tail)
    return more
end

local function core_more_set(more)
    core_seldom = pack(LAYOUT.SELDOM, more.shards, more.generation, more.changes, more.deaths)
    core_tail = pack(LAYOUT.TAIL, #more.run, more.run, #more.lease_key, more.lease_key)
    core_is_changed = true
end

-- A new one. `more` as above; the next event is unknown, so the first that looks for what is due finds it.
local function core_make(more, first_sequence, first_leaf, ms)
    core_flags, sealed, sequence, leaf_number, adjust = 0, 0, first_sequence, first_leaf, ms
    next_ms, rest_ms, mover, next_topic, next_before = 0, 0, '--------\0\0\0\0\0\0', '', 0
    core_more_set(more)
end

-- Above any number that was given out, also where the last of them were lost: numbers rise by less than this in a millisecond, but
-- for bursts. (The half of 48 bits that a clock may use lasts until 2109; after that only the million is left.)
local function number_beyond(number)
    local by_clock = clock * 32
    return max(number + 1000000, by_clock < 2 ^ 47 and by_clock or 0)
end

-- Stops the shard's clock at this time.
function LAYOUT.hold(ms)
    core_flags, core_is_changed = LAYOUT.HELD + core_flags % LAYOUT.HELD, true
    clock, now, wall, adjust = ms, ms, ms, 0
end

-- Raises PAUSES permanently.
function LAYOUT.note_pauses()
    if core_flags % LAYOUT.HELD == 0 then core_flags, core_is_changed = core_flags + LAYOUT.PAUSES, true end
end

-- ---- events for listening servers (README.md, "Events") ----

-- The numbers are those of job/event.h. `listened`: a server listens; else a call publishes nothing, and looks nothing up for it.
local feed = {PUSHED = 1, REPLACED = 2, DUE = 3, DELIVERED = 4, ACKED = 5, NACKED = 6, EXTENDED = 7, RETURNED = 8, LEASE_ENDED = 9, EXPIRED = 10, CANCELLED = 11,
              RESCHEDULED = 12, RUN = 13, DEAD = 14, REDRIVEN = 15, PURGED = 16, PAUSED = 17, RESUMED = 18, SETTINGS = 19, DELETED = 20, PROGRESS = 22, MANY = 500}

-- Appends an event. Only called if feed.listened. Unknown members are 0 or ''; `due` and `lease_until` are on the shard's clock.
function feed.publish(kind, topic, id, attempt, due, lease_until, count, error)
    local at = #feed.words
    if at >= feed.MANY then
        feed.lost = feed.lost + 1
        return
    end
    error = error and sub(error, 1, 256) or ''
    feed.words[at + 1] = pack('>BI4I6I6I6Bc0Bc0I2c0', kind, attempt or 0, due or 0, lease_until or 0, count or 0, #topic, topic, #id, id, #error, error)
end

-- ---- finished jobs that are kept (keeping.lua), and calls that wait for an end ----

-- `changed`: topics whose kept jobs this call changed; nil: none. `waiting`: a call waits for the end of some job, else no call looks for one.
local kept = {} -- how they are stored (kept.lua)
local keeping = {acked = 1, cancelled = 2, expired = 3, died = 4, purged = 5, moved = 6} -- outcomes

-- Batches (batches.lua). RECORD: flag of a record of a member or of a job that waits. Then statuses.
local batches = {RECORD = 16, CLOSED = 36, NO_BATCH = 37, WAITS = 38, TOO_MANY = 39, TOO_MANY_MEMBERS = 40}

-- Batches with members in several shards (parts.lua). `has_mail`: this call left something to be carried to other shards. `version`: that of the counts
-- that this call changed; nil: it changed no counts.
local parts = {}

-- Groups, limits, rates and holds (flow.lua). FLAG, GROUPED: flags of a topic that has any, and of one that has groups. RECORD: flag of a record with a group. MARK: see flow.mark.
local flow = {FLAG = 8192, GROUPED = 16384, RECORD = 64, BYTES = 56, MARK = 64}

-- ---- reaching the shard ----

local function fetch()
    call, pack, unpack_from = redis.call, struct.pack, struct.unpack
    floor, sub, byte, char, format, min, max = math.floor, string.sub, string.byte, string.char, string.format, math.min, math.max
end

-- Sets the names of all keys except the core, which derive from the core. They are built again only if the previous call was for another shard.
local function name_shard(core)
    if not call then fetch() end
    CORE = core
    T = sub(core, 1, -6) -- without ':core'
    TOPICS, LEASES, LEASED, SERVERS, UNPACKED = T .. ':topics', T .. ':leases', T .. ':leased', T .. ':servers', T .. ':unpacked'
    TICKET, NOWHERE, feed.key, keeping.waiting_key = T .. ':ticket:', T .. ':never', T .. ':listened', T .. ':waiting'
    core_kept, last_name, shard_topics = nil, nil, shards_topics[core]
    if not shard_topics then
        shard_topics = {}
        shards_topics[core] = shard_topics
    end
end

-- A topic's keys, as a metatable, so that a topic has them by name without a copy. Kept for as many topics as are in use.
LAYOUT.TOPICS_CACHED_MAX = 1000

local function keys_make(name)
    if topics_cached >= LAYOUT.TOPICS_CACHED_MAX then shards_topics, topics_cached, shard_topics = {}, 0, {} end
    shards_topics[CORE], topics_cached = shard_topics, topics_cached + 1
    local keys = {__index = {
        is_in_one_shard = sub(name, -4) == '.one' and #name > 4 or sub(name, -5) == '.fifo' and #name > 5, -- as in job/flow.h
        cache = {}, -- the figures of the topic after a call, and the text that they are in Redis (topics.lua)
        key = T .. ':topic:' .. name, extension = T .. ':extension:' .. name, jobs = T .. ':job:' .. name, tries = T .. ':try:' .. name,
        history = T .. ':history:' .. name, next = T .. ':next:' .. name, fresh = T .. ':fresh:' .. name, index = T .. ':index:' .. name, leaf = T .. ':leaf:' .. name .. ':',
        ready_of = T .. ':ready:' .. name .. ':', ready_plain = T .. ':ready:' .. name .. ':100', priorities = T .. ':priorities:' .. name,
        expiry = T .. ':expiry:' .. name, held = T .. ':held:' .. name, dead = T .. ':dead:' .. name, finished = T .. ':finished:' .. name,
        done = T .. ':done:' .. name .. ':', kept = T .. ':kept:' .. name, order = T .. ':order:' .. name, page = T .. ':page:' .. name .. ':',
        groups = T .. ':groups:' .. name, group_settings = T .. ':group:' .. name, turns = T .. ':turns:' .. name .. ':', wakes = T .. ':wakes:' .. name, waits = T .. ':waits:' .. name}}
    shard_topics[name] = keys
    return keys
end

local function keys_of(name)
    return shard_topics[name] or keys_make(name)
end

-- The shard's clock and core, a topic and a ticket, in one command. Redis Cluster refuses it, since there is nothing under one of its
-- keys, exactly while the shard's slot is moving (README.md, "A slot that moves"). Returns the core's text.
local function reach(keys, ticket, name)
    if keys[1] ~= CORE then name_shard(keys[1]) end
    known_topics, met_topics, soonest, batches.known, batches.changed, keeping.changed, parts.has_mail, parts.version, parts.renewing = {}, {}, NONE, nil, nil, nil, nil, nil, nil
    if core_is_changed then core_is_changed, core_kept = false, nil end -- a call that was killed left it so
    name = name or last_name
    local time = call('TIME')
    local us = time[2] + 0
    local micro = us % 1000
    wall, flow.micro = time[1] * 1000 + (us - micro) / 1000, micro
    ticket_key = ticket and ticket ~= '' and TICKET .. sub(ticket, 1, 9) or nil
    local found = call('MGET', CORE, name and keys_of(name).__index.key or NOWHERE, ticket_key or NOWHERE, feed.key, keeping.waiting_key, NOWHERE)
    found_name, found_topic, found_ticket = name, found[2], found[3]
    feed.listened, keeping.waiting = found[4], found[5]
    if feed.listened then feed.words, feed.lost = {}, 0 end
    core_open(found[1])
    clock = wall + adjust
    now = clock
    return found[1]
end

-- Fails with the reason why the core could not be opened. Nothing was changed yet.
local function refuse_core(text)
    if text and LAYOUT.is_newer(text) then error({err = 'VERSION the jobs were stored by a newer tarry, use that one'}) end
    if text or call('EXISTS', CORE) == 1 then
        error({err = 'BROKEN the core of this shard cannot be read, run tarry fsck --repair with the same --store'})
    end
    error({err = 'GONE the core of this shard is not there, Redis lost its data'})
end

-- Returns the time within the window that the caller derives from its own elapsed time. If the clock jumped, or a call waited for long, the
-- call uses the latest time that has certainly passed. If the clock went back, nothing is carried out.
local function clock_within(window)
    local earliest, latest = unpack_from('>I6I6', window)
    if clock < earliest then error({err = 'CLOCK it went back'}) end
    if clock == earliest then now = min(earliest + 1, latest) end -- it is behind: a due time by it would come early once it is corrected
    if clock > latest then now = latest end
    if now ~= clock then wall = now - adjust end
end

-- Begins each call of a server except hello: `ticket` (or nil), which may contain a window and after it the end of the lease
-- key of the core that the server knows, and the topic of the call (or nil).
local function begin(keys, ticket, name)
    local text = reach(keys, ticket, name)
    if not core_tail then refuse_core(text) end
    if ticket and #ticket > 33 and sub(ticket, 34) ~= sub(core_tail, -8) then
        error({err = 'GONE the core of this shard was created again, Redis lost its data'})
    end
    if ticket and #ticket > 21 then clock_within(sub(ticket, 22)) end
end

local text_of
do
local SMALL = {} -- numbers below 256 as text
for number = 0, 255 do SMALL[number] = number .. '' end
function text_of(number)
    return SMALL[number] or format('%d', number)
end

local mark_tail, mark -- of the last core that was marked

-- The shard's mark on its messages: databases of one Redis share its channels, and have the same names for them.
function LAYOUT.mark()
    if core_tail ~= mark_tail then mark_tail, mark = core_tail, sub(redis.sha1hex(core_more().lease_key), 1, 8) end
    return mark
end
end

-- Notifies the other servers. They also poll without a notification, so a failure is ignored: an error here would leave a call half done.
local function notify(message)
    redis.pcall('SPUBLISH', T .. ':notifications', '@' .. LAYOUT.mark() .. message)
end

-- ---- sending many arguments ----

-- `words` in groups of up to `MANY`, each with the same command and key.
local function call_many(command, key, words)
    local count = #words
    if count == 0 then return end
    if count <= MANY then return call(command, key, unpack(words)) end
    for from = 1, count, MANY do
        call(command, key, unpack(words, from, min(from + MANY - 1, count)))
    end
end

-- The same for a command that answers one thing per word.
local function ask_many(command, key, words)
    local count = #words
    if count == 0 then return {} end
    if count <= MANY then return call(command, key, unpack(words)) end
    local all = {}
    for from = 1, count, MANY do
        local some = call(command, key, unpack(words, from, min(from + MANY - 1, count)))
        for i = 1, #some do all[from + i - 1] = some[i] end
    end
    return all
end

