-- What all scripts stand on, first of seven parts that stand in front of them. README.md one folder up says what the keys hold.
-- The parts are run once, when the library is loaded, and Redis gives them nothing then: `begin` fetches what a call needs.

local call, pack, unpack_from, floor, sub, byte, char, format
local ARGV
local T, CORE, TOPICS, LEASES, LEASED, TICKETS, UNPACKED
local NONE, NEVER = 2 ^ 48 - 1, 1 / 0

local OK, CREATED, REPLACED, EXISTED, CANCELLED = 0, 1, 2, 3, 4
local NOT_FOUND, CONFLICT, IS_LEASED, IS_DEAD, LEASE_ENDED = 5, 6, 7, 8, 9
local BAD_OPTION, TOO_MANY_TOPICS = 12, 14
local DELAYED, READY, LEASED_STATE, DEAD, FINISHED = 1, 2, 3, 4, 5
local WHEN_NOW, WHEN_DELAY, WHEN_AT = 1, 2, 3

local DELAY_MAX = 3653 * 24 * 3600 * 1000
local LEAF_MAX = 100 -- below Redis' own limit of the compact form (zset-max-listpack-entries 128)
local FAR_MS = 60000  -- what is due later than this from now is worth packing
local MANY = 500     -- arguments of one command, so that Lua's stack is never short

-- ---- time ----

local wall, adjust
local clock, now -- as it is shown; and what happens goes by `now`, which a call's window may hold back

local soonest -- the earliest event this call brought about
local known_topics -- those this call has to do with, by name

-- Each call begins with it. `wants_core`: refused, before anything was changed, where the shard's core is not there (any more).
local function begin(keys, arguments, wants_core)
    call, pack, unpack_from = redis.call, struct.pack, struct.unpack
    floor, sub, byte, char, format = math.floor, string.sub, string.byte, string.char, string.format
    ARGV = arguments
    CORE = keys[1]
    T = sub(CORE, 1, -6) -- without ':core'
    TOPICS, LEASES, LEASED, TICKETS, UNPACKED = T .. ':topics', T .. ':leases', T .. ':leased', T .. ':tickets', T .. ':unpacked'

    -- Refused by a cluster exactly while the shard's slot is moving (README.md, "A slot that moves").
    call('EXISTS', T .. ':never:1', T .. ':never:2')

    local time = call('TIME')
    wall = time[1] * 1000 + floor(time[2] / 1000)
    local core = call('HMGET', CORE, 'version', 'adjust')
    if wants_core and not core[1] then error({err = 'GONE the core of this shard is not there, Redis lost its data'}) end
    adjust = tonumber(core[2] or 0) or 0
    clock = wall + adjust
    now, soonest, known_topics = clock, NEVER, {}
end

local function text_of(number)
    return format('%d', number)
end

-- To the other servers. They look by themselves where nothing comes, so nothing fails of it: an error here would leave a call half done.
local function tell(news)
    redis.pcall('SPUBLISH', T .. ':news', news)
end

-- ---- sending many arguments ----

-- `words` in groups of up to `MANY`, each with the same command and key.
local function call_many(command, key, words)
    local count = #words
    if count == 0 then return end
    if count <= MANY then return call(command, key, unpack(words)) end
    for from = 1, count, MANY do
        call(command, key, unpack(words, from, math.min(from + MANY - 1, count)))
    end
end

-- The same for a command that answers one thing per word.
local function ask_many(command, key, words)
    local count = #words
    if count == 0 then return {} end
    if count <= MANY then return call(command, key, unpack(words)) end
    local all = {}
    for from = 1, count, MANY do
        local some = call(command, key, unpack(words, from, math.min(from + MANY - 1, count)))
        for i = 1, #some do all[from + i - 1] = some[i] end
    end
    return all
end

