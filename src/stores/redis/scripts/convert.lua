#!lua flags=allow-oom
-- A step of making a shard as servers of before kept it (layout 1) one of this layout. Several servers may take steps side by side, each
-- from the start on: what is converted is passed over. The first step locks servers of before out: their every call begins with a read
-- of the core as a hash. Until the last, the core says that it is not done, so no call of this layout is carried out either.
local cursor, most, shards, drawn = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local DONE, MORE, AT_WORK = 0, 1, 2
local SETTINGS_BYTES = 40

local function number_of(text)
    return tonumber(text or nil)
end

-- How many servers of before listen, who are not to be locked out unawares; 0: it is done.
local function lock()
    local listening = redis.pcall('SPUBLISH', T .. ':news', '')
    if type(listening) == 'table' then
        error({err = "DENIED this user may not publish on '" .. T .. ":news', so nobody can tell whether servers of before are at work (docs/redis.md has the ACL rule)"})
    end
    if listening > 0 then return listening end
    local f = call('HMGET', CORE, 'version', 'shards', 'sequence', 'leaf', 'adjust', 'run', 'changes', 'deaths', 'lease_key', 'name')
    if f[1] and f[1] ~= '1' then refuse_core('') end
    core_make({shards = number_of(f[2]) or shards, generation = 0, changes = number_of(f[7]) or 0, deaths = number_of(f[8]) or 0, run = f[6] or '',
               lease_key = f[9] or drawn}, number_of(f[3]) or number_beyond(0), number_of(f[4]) or number_beyond(0), number_of(f[5]) or 0)
    call('SET', CORE, char(LAYOUT.CONVERTING) .. sub(core_text(), 2))
    if f[10] then call('SET', T .. ':name', f[10]) end
    call('DEL', T .. ':tickets') -- of calls that are not repeated any more
    return 0
end

-- What may be in a topic's sets.
local function flag_sets(t)
    local optional = {{HISTORIC, t.history}, {PACKED, t.index}, {EXPIRING, t.expiry}, {REMEMBERING, t.finished}, {TRIED, t.tries}}
    for i = 1, #optional do
        if call('EXISTS', optional[i][2]) == 1 then raise(t, optional[i][1]) end
    end
    if call('SADD', UNPACKED, t.name) == 0 then raise(t, UNPACKED_TOO) else call('SREM', UNPACKED, t.name) end
end

-- What takes and the shard go by now.
local function look_into_sets(t)
    if not has(t, SPECIAL) then t.f[AT.ready] = call('ZCARD', t.ready_plain) end
    topic_refresh(t)
end

-- False where it is one of this layout, or there is none.
local function topic_convert(name)
    local key = keys_of(name).__index.key
    local kept = redis.pcall('HMGET', key, 'paused', 'settings', 'special', 'extension', unpack(FIGURES))
    if kept.err or not kept[1] and call('EXISTS', key) == 0 then return false end
    local t = topic_open(name, TOPIC_NEW)
    for i = 1, #FIGURES do t.f[i + FIRST_FIGURE - 1] = number_of(kept[i + 4]) or 0 end
    t.f[AT.dead_bytes] = max(0, t.f[AT.dead_bytes]) -- versions before did not count them
    if kept[1] == '1' then raise(t, PAUSED) end
    if kept[2] and #kept[2] == SETTINGS_BYTES then t.packed = kept[2] end
    if kept[4] then
        call('SET', t.extension, kept[4])
        raise(t, EXTENDED)
    end
    if kept[3] == '1' then raise(t, SPECIAL) end
    flag_sets(t)
    if not pcall(look_into_sets, t) then t.f[NEXT] = 0 end -- one of them is no sorted set: a check names it
    call('ZADD', TOPICS, text_of(t.f[NEXT]), name)
    t.f[LISTED] = t.f[NEXT]
    return true
end

local function convert_some()
    local page, count = call('ZSCAN', TOPICS, cursor, 'COUNT', most), 0
    for i = 1, #page[2], 2 do
        if topic_convert(page[2][i]) then count = count + 1 end
    end
    core_is_changed = false
    write('')
    if page[1] ~= '0' then return {MORE, page[1], count} end
    core_open(char(LAYOUT.PLAIN) .. sub(call('GET', CORE), 2)) -- no topic of before has limits
    core_is_changed = true
    write('')
    return {DONE, '0', count}
end

local text = reach(KEYS)
if not text then
    local listening = lock()
    return listening > 0 and {AT_WORK, text_of(listening), 0} or {MORE, '0', 0}
end
if byte(text) == LAYOUT.CONVERTING then
    local is_done, answer = pcall(convert_some)
    if is_done then return answer end
    met_topics, core_is_changed = {}, false -- a call that breaks writes what it changed; this one has no core to write
    error(answer, 0)
end
if not LAYOUT.is_ours(text) then refuse_core(text) end
return {DONE, '0', 0}
