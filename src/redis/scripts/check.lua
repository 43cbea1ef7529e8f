#!lua flags=allow-oom
-- parts: base topics leaves history jobs due ending findings sound
-- A step of a check of the shard itself: its core, its keys, its leases, and what it knows of topics.

-- Where the version is gone, the core was lost, and numbers begin above any given out: the clock is. Servers that went on
-- counted up from 0 again.
local function make_core()
    if not find('', '', 'the shard has no core: it was lost, or no server has reached it yet', 'made anew, with numbers above any given out') then return end
    local sequence, leaf, adjust = unpack(call('HMGET', CORE, 'sequence', 'leaf', 'adjust'))
    call('HSET', CORE, 'version', '1', 'shards', ARGV[6], 'sequence', text_of(math.max(tonumber(sequence or nil) or 0, now)),
        'leaf', text_of(math.max(tonumber(leaf or nil) or 0, now)), 'adjust', text_of(tonumber(adjust or nil) or 0))
    call('HSETNX', CORE, 'run', '')
end

local function check_core()
    step.looked = 1
    local version = call('HGET', CORE, 'version')
    if not version then
        make_core()
        return ''
    end
    if version ~= '1' then error({err = 'VERSION the jobs were stored by a newer tarry, use that one'}) end
    if call('HGET', CORE, 'shards') ~= ARGV[6] and find('', '', "the number of shards in the core is not that of the queue, " .. ARGV[6], 'put right') then
        call('HSET', CORE, 'shards', ARGV[6])
    end
    for field, value in pairs({sequence = text_of(now), leaf = text_of(now), adjust = '0'}) do
        local kept = call('HGET', CORE, field)
        local wrong = not kept and 'missing' or not string.find(kept, '^%-?%d+$') and 'no number'
        if wrong and find('', '', format("the core's '%s' is %s", field, wrong), 'set to ' .. value) then call('HSET', CORE, field, value) end
    end
    for _, field in ipairs({'changes', 'deaths'}) do -- not there before the first
        if not string.find(call('HGET', CORE, field) or '0', '^%d+$') and find('', '', format("the core's '%s' is no number", field), 'counted anew') then
            call('HDEL', CORE, field)
        end
    end
    return ''
end

-- ---- keys ----

local TYPES = {core = 'hash', topics = 'zset', leases = 'zset', leased = 'hash', tickets = 'hash', unpacked = 'set'}
local TYPES_OF_TOPIC = {topic = 'hash', job = 'hash', try = 'hash', fresh = 'zset', index = 'zset', priorities = 'zset', expiry = 'zset', held = 'zset',
                        dead = 'zset', finished = 'zset', history = 'hash', broken = 'hash', leaf = 'zset', ready = 'zset'}

-- One of the numbered keys must be known where they are looked for. True: there is more to be done with it.
local function check_numbered(family, topic, number)
    step.name = topic
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

-- A key by what stands behind the tag. True: there is more to be done with it.
local function check_key(rest)
    step.looked = step.looked + 1
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
        find(topic or '', '', what, 'look at it, and rename or delete it', 2)
        return false
    end
    if topic then step.names[#step.names + 1] = topic end
    return number and check_numbered(family, topic, number)
end

-- The keys from the sixth argument on. The cursor: how many arguments are done with.
local function check_keys()
    local first = step.cursor == '' and 6 or tonumber(step.cursor)
    for i = first, #ARGV do
        if step.looked >= step.most or check_key(ARGV[i]) then return text_of(i) end
    end
    return ''
end

-- ---- topics ----

-- Every name the shard knows, to look at.
local function check_topics()
    local page, following = scan(TOPICS, 'ZSCAN', step.cursor)
    for i = 1, #page, 2 do
        step.looked = step.looked + 1
        step.names[#step.names + 1] = page[i]
        local t = topic_keys(page[i])
        local keys = call('EXISTS', t.key, t.jobs, t.tries, t.fresh, t.index, t.priorities, t.expiry, t.held, t.dead, t.finished)
        if keys == 0 and find(page[i], '', 'the shard looks at a topic that does not exist', 'forgotten') then call('ZREM', TOPICS, page[i]) end
    end
    return following
end

-- As fsck_settings.c puts it: "": no such topic; else the pause and, where there are any, `>I2` length of the extension, that, and
-- the packed settings.
local function settings_here()
    local paused, settings, extension = unpack(call('HMGET', T .. ':topic:' .. step.name, 'paused', 'settings', 'extension'))
    if not settings and not extension then return paused or '' end
    return paused and paused .. pack('>I2', #(extension or '')) .. (extension or '') .. (settings or '') or ''
end

local function set_or_drop(key, field, value)
    if value ~= '' then call('HSET', key, field, value) else call('HDEL', key, field) end
end

local function settings_set(t, wanted)
    local extension_bytes = #wanted > 1 and unpack_from('>I2', wanted, 2) or 0
    call('HSET', t.key, 'paused', sub(wanted, 1, 1))
    set_or_drop(t.key, 'extension', sub(wanted, 4, 3 + extension_bytes))
    set_or_drop(t.key, 'settings', sub(wanted, 4 + extension_bytes))
    settings_tell(NOBODY, t.name)
end

-- Settings and pause as other shards have them: what was seen here before, and what is wanted. Nothing is done where it has changed since.
local function check_settings()
    local seen, wanted = ARGV[6], ARGV[7]
    local here = settings_here()
    step.looked = 1
    if here ~= seen or here == wanted then return '' end
    local what = here == '' and 'the topic is missing here, and set up in other shards'
        or sub(here, 2) ~= sub(wanted, 2) and 'the settings are not those of the other shards'
        or 'the pause is not that of the other shards'
    if not find(step.name, '', what, here == '' and 'put back' or 'set as there') then return '' end
    local t = topic_make(step.name, NEVER)
    settings_set(t, wanted)
    if sub(wanted, 1, 1) == '0' and t.ready > 0 then tell('r' .. NOBODY .. step.name) end
    return ''
end

-- ---- leases ----

local function check_leases()
    local page, following = scan(LEASES, 'ZSCAN', step.cursor)
    for i = 1, #page, 2 do
        local delivery = page[i]
        local j = holder_of(delivery, call('HGET', LEASED, delivery))
        step.looked = step.looked + 1
        if not j and find('', '', format("lease '%s' is nobody's", delivery), 'dropped') then
            call('ZREM', LEASES, delivery)
        elseif j and tonumber(page[i + 1]) ~= j.lease_until
            and find('', j.id, format('its lease ends at %s instead of %d', page[i + 1], j.lease_until), 'put right') then
            call('ZADD', LEASES, j.lease_until, delivery)
        end
    end
    return following
end

local function check_leased()
    local page, following = scan(LEASED, 'HSCAN', step.cursor)
    for i = 1, #page, 2 do
        step.looked = step.looked + 1
        if not holder_of(page[i], page[i + 1]) and find('', '', format("delivery number '%s' is of nobody who is leased", page[i]), 'dropped') then
            call('HDEL', LEASED, page[i])
        end
    end
    return following
end

local PARTS = {core = check_core, keys = check_keys, topics = check_topics, settings = check_settings, leases = check_leases, leased = check_leased}
return step_end(PARTS[step.part]())
