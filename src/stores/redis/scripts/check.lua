#!lua flags=allow-oom
-- parts: base topics leaves history jobs kept keeping events flow batches parts due ending findings sound
-- A step of a check of the shard itself: its core, its keys, its leases, and what it knows of topics.

-- Recreates a lost core: its numbers begin above all that were given out.
local function make_core(shards)
    if not find('', '', 'the shard has no core: it was lost, or no server has reached it yet', 'recreated, with numbers above all that were given out') then return end
    local number = number_beyond(0)
    core_make({shards = shards, generation = 0, changes = 0, deaths = 0, run = '', lease_key = ''}, number, number, 0)
    LAYOUT.note_pauses() -- there may be some
end

-- A counter from NUMBERS_END on was damaged. It begins again above all numbers that were given out; the check of jobs and leaves follows.
local function check_counters()
    local lowered = number_beyond(0)
    local what, repair = "the shard's counter '%s', %.0f, is above all numbers that a shard can give out", 'counter lowered to ' .. text_of(lowered)
    if sequence >= step.NUMBERS_END and find('', '', format(what, 'sequence', sequence), repair) then sequence, core_is_changed = lowered, true end
    if leaf_number >= step.NUMBERS_END and find('', '', format(what, 'leaf', leaf_number), repair) then leaf_number, core_is_changed = lowered, true end
end

local function check_core()
    local text, shards = call('GET', CORE), tonumber(ARGV[6])
    step.looked = 1
    if text and #text >= CORE_BYTES_MIN and LAYOUT.is_newer(text) then refuse_core(text) end
    if not text or not core_open(text) then
        make_core(shards)
        return ''
    end
    check_counters()
    local is_whole, more = pcall(core_more)
    if not is_whole then
        if find('', '', 'the end of the core is unreadable: the last master, and the key that leases are checked with', 'dropped, so open leases end') then
            local _, generation, changes, deaths = unpack_from(LAYOUT.SELDOM, core_seldom)
            core_more_set({shards = shards, generation = generation, changes = changes, deaths = deaths, run = '', lease_key = ''})
        end
        return ''
    end
    if more.shards ~= shards and find('', '', 'the number of shards in the core differs from that of the queue, ' .. ARGV[6], 'corrected') then
        more.shards = shards
        core_more_set(more)
    end
    return ''
end

-- ---- keys ----

local TYPES = {core = 'string', name = 'string', listened = 'string', topics = 'zset', leases = 'zset', leased = 'hash', servers = 'zset', unpacked = 'set',
    pauses = 'zset', arrived = 'hash', moving = 'hash', leaving = 'zset', aware = 'zset', waiting = 'string', awaited = 'zset', batches = 'hash',
    guests = 'hash', mail = 'zset', orders = 'hash', joins = 'zset', joined = 'hash', fences = 'hash', stopped = 'zset', renew = 'set', renewal = 'hash'}
local TYPES_OF_TOPIC = {topic = 'string', extension = 'string', ticket = 'string', job = 'hash', try = 'hash', fresh = 'zset', index = 'zset', priorities = 'zset', expiry = 'zset', held = 'zset',
                        dead = 'zset', finished = 'zset', history = 'hash', next = 'hash', broken = 'hash', leaf = 'zset', ready = 'zset', done = 'hash', kept = 'string', order = 'zset', page = 'list',
                        groups = 'hash', group = 'hash', wakes = 'zset', waits = 'hash', turns = 'zset'}
local TYPES_OF_BATCH = {members = 'set', parts = 'hash', guest = 'set'} -- of the keys of an open batch, which are named by a number, or a job, in place of a topic
local NUMBERED = {leaf = true, ready = true, page = true, done = true, turns = true}

-- Checks that a part of the index of kept jobs is among those that calls use. If the figures are lost, they do not know how many there are.
local function check_bucket(t, number)
    local k = kept.open(t)
    if number < k.buckets then return end
    if call('EXISTS', t.order) == 0 then
        if find(t.name, '', format('part %d of the index of kept jobs exists, but there are no such jobs', number), 'removed') then call('DEL', t.done .. text_of(number)) end
    elseif find(t.name, '', format('the index of kept jobs has part %d, but counts %d parts', number, k.buckets), 'corrected') then
        kept.buckets_put(k, number + 1)
        kept.change(t, k)
    end
end

-- Checks that a numbered key belongs to something that refers to it. Returns true if more must be done with it.
local function check_numbered(family, topic, number)
    step.name = topic
    local t = topic_here()
    if family == 'ready' then
        if not call('ZSCORE', t.priorities, number) and find(topic, '', 'priority ' .. number .. ' has ready jobs but is not in the list of priorities', 'added') then
            call('ZADD', t.priorities, flow.lane_read(number), number)
        end
        return false
    end
    if family == 'turns' then
        if call('ZCOUNT', t.priorities, number, number) == 0 and find(topic, '', 'groups have their turn in priority ' .. number .. ', which has no ready jobs', 'removed') then
            call('DEL', t.turns .. number)
        end
        return false
    end
    if family == 'done' then
        check_bucket(t, tonumber(number))
        return false
    end
    if family == 'page' then
        if not call('ZSCORE', t.order, number) and find(topic, '', 'the order of kept jobs lacks page ' .. number, 'added') then
            call('ZADD', t.order, text_of(kept.ends_of(kept.page_entries(t, number)[1])), number)
            kept.forget_page(t)
        end
        must_be_below('leaf', tonumber(number), 'page')
        return false
    end
    if call('ZSCORE', t.index, number) then return false end
    must_be_below('leaf', tonumber(number), 'leaf')
    return find(topic, '', 'the index lacks leaf ' .. number, 'its jobs moved where they belong') and unravel(t, number)
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
    if not family then family, topic, number = string.match(rest, '^(ready):([^:]+):(%d+:.+)$') end
    local wanted = TYPES[rest]
    if family and (NUMBERED[family] or false) == (number ~= nil) then wanted = TYPES_OF_TOPIC[family] end
    if sub(rest, 1, 6) == 'guest:' then family = 'guest' end
    if TYPES_OF_BATCH[family] then wanted, topic, number = TYPES_OF_BATCH[family], nil, nil end
    if not wanted or kind ~= wanted then
        local what = wanted and format("the key '%s' is a %s instead of a %s", key, kind, wanted) or format("unknown key '%s'", key)
        find(topic or '', '', what, 'inspect it, then rename or delete it', 2)
        return false
    end
    if family == 'ticket' and not call('ZSCORE', SERVERS, topic) and find('', '', "the ticket '" .. topic .. "' is not in the list of servers", 'added') then
        call('ZADD', SERVERS, text_of(now), topic)
    end
    if topic and family ~= 'ticket' then step.names[#step.names + 1] = topic end
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
        local t = keys_of(page[i]).__index
        if step.is_gone(t) and find(page[i], '', 'the list of topics names a topic that does not exist', 'removed') then
            call('ZREM', TOPICS, page[i])
            shard_look()
        end
    end
    return following
end

-- Returns settings in the format of fsck.c: "": no such topic; else the pause and, if there is an extension, its `>I2` length and the
-- extension, then the packed settings.
local function settings_here()
    local t, exists = topic_here()
    if not exists then return '' end
    -- A pause for a time ends in each shard by itself: shards need not agree.
    local paused, extension = has(t, PAUSED) and not topic_rules.pause_has_end(t) and '1' or '0', call('GET', t.extension) or ''
    if t.packed == '' and extension == '' then return paused end
    return paused .. pack('>I2', #extension) .. extension .. t.packed
end

local function settings_set(t, wanted)
    local extension_bytes = #wanted > 1 and unpack_from('>I2', wanted, 2) or 0
    local extension = sub(wanted, 4, 3 + extension_bytes)
    if sub(wanted, 1, 1) == '1' then topic_rules.pause(t) elseif not topic_rules.pause_has_end(t) then lower(t, PAUSED) end
    if extension ~= '' then
        call('SET', t.extension, extension)
        raise(t, EXTENDED)
    else
        call('DEL', t.extension)
        lower(t, EXTENDED)
    end
    topic_rules.settings_put(t, sub(wanted, 4 + extension_bytes))
    settings_notify(NOBODY, t.name)
end

-- Settings and pause as other shards have them: what was seen here before, and what is wanted. Nothing is done where it has changed since.
local function check_settings()
    local seen, wanted = ARGV[6], ARGV[7]
    local here = settings_here()
    step.looked = 1
    if here ~= seen or here == wanted then return '' end
    local what = here == '' and 'the topic is missing here, but other shards have it'
        or sub(here, 2) ~= sub(wanted, 2) and 'the settings differ from those of the other shards'
        or 'the pause differs from that of the other shards'
    if not find(step.name, '', what, here == '' and 'restored' or 'copied from there') then return '' end
    local t = known_topics[step.name]
    if t.is_lost then
        call('ZADD', TOPICS, text_of(NONE), t.name)
        t.is_lost, t.is_counted = false, true
    end
    settings_set(t, wanted)
    if sub(wanted, 1, 1) == '0' and t.f[AT.ready] > 0 then notify('r' .. NOBODY .. step.name) end
    return ''
end

-- ---- leases ----

local function check_leases()
    check_next(first_score(LEASES), '')
    local page, following = scan(LEASES, 'ZSCAN', step.cursor)
    for i = 1, #page, 2 do
        local delivery = page[i]
        local j = holder_of(delivery, call('HGET', LEASED, delivery))
        step.looked = step.looked + 1
        if not j and find('', '', format("lease '%s' belongs to no job", delivery), 'dropped') then
            call('ZREM', LEASES, delivery)
        elseif j and tonumber(page[i + 1]) ~= j.lease_until
            and find('', j.id, format('its lease ends at %s instead of %d', page[i + 1], j.lease_until), 'corrected') then
            call('ZADD', LEASES, j.lease_until, delivery)
        end
    end
    return following
end

local function check_leased()
    local page, following = scan(LEASED, 'HSCAN', step.cursor)
    for i = 1, #page, 2 do
        step.looked = step.looked + 1
        if not holder_of(page[i], page[i + 1]) and find('', '', format("delivery number '%s' belongs to no leased job", page[i]), 'dropped') then
            call('HDEL', LEASED, page[i])
        end
    end
    return following
end

-- ---- batches ----

-- Counts the stored members of a batch, or of a guest, and removes those from its list that are not stored. Returns unfinished and dead ones.
local function count_members(b)
    local key, counts = batches.members_key(b), {0, 0, 0}
    for _, name in ipairs(call('SMEMBERS', key)) do
        local nul = string.find(name, '\0', 1, true)
        local t = topic_find(sub(name, 1, nul - 1))
        local j = t and job_find(t, sub(name, nul + 1))
        local found = batches.is_member(b, j) and (j.state == DEAD and 2 or 1) or 3
        counts[found] = counts[found] + 1
        if found == 3 and find('', b.id, 'the batch lists a member that is not stored', 'removed') then call('SREM', key, name) end
    end
    return counts
end

-- Corrects the counts of unfinished and dead members. A member that is gone without an outcome counts as cancelled.
local function check_counts(b, unfinished, dead)
    local counts = count_members(b)
    if counts[1] == unfinished and counts[2] == dead then return end
    if not find('', b.id, format('its batch counts %d unfinished and %d dead members instead of %d and %d', unfinished, dead, counts[1], counts[2]), 'corrected') then return end
    b[1], b[3] = b[1] + counts[1] - unfinished, b[3] + counts[2] - dead
    b[4] = b[4] + max(0, unfinished + dead - counts[1] - counts[2])
    batches.change(b)
end

-- Counts the members of batches and guests. Of one with many members only the number is compared with its list.
local COUNTED_MAX = 10000

local function check_batch(b)
    step.looked = step.looked + 1
    if b.is_stopped then return end -- its members are being cancelled, and some may be ordinary jobs
    local other_unfinished, other_dead = parts.reported(b)
    local unfinished, dead = b[1] - other_unfinished, b[3] - other_dead
    local listed = call('SCARD', batches.members_key(b))
    if listed <= COUNTED_MAX then
        check_counts(b, unfinished, dead)
    elseif listed ~= unfinished + dead then
        find('', b.id, format('its batch counts %d members that have not ended or are dead, and lists %d', unfinished + dead, listed), 'inspect it', 2)
    end
end

local function check_all_of(key, get)
    local page, following = scan(key, 'HSCAN', step.cursor)
    for i = 1, #page, 2 do
        local nul = string.find(page[i], '\0', 1, true)
        local b = nul and get(sub(page[i], 1, nul - 1), sub(page[i], nul + 1))
        if b then
            check_batch(b)
        elseif find('', '', 'a batch cannot be read', 'dropped; its job is due at the end of the wait') then
            call('HDEL', key, page[i])
        end
    end
    return following
end

local function check_batches() return check_all_of(T .. ':batches', batches.find) end
local function check_guests() return check_all_of(T .. ':guests', parts.guest) end

local PARTS = {batches = check_batches, guests = check_guests, core = check_core, keys = check_keys, topics = check_topics, settings = check_settings, leases = check_leases, leased = check_leased}
return step_end(PARTS[step.part]())
