-- How kept jobs are stored (README.md, "Kept jobs"): pages in the order of the end of their time, an index by id, and the figures of both. No other part
-- reads or writes them. The members of `kept` are filled in here, because parts before this one call them.
do

local HEAD_BYTES = 28 -- of a kept job: flags, outcome, number, end of its time, finished, attempt, duration
local FIGURES = '>I6I6I6I4I4I6I6I4' -- jobs, bytes; page that grows, its entries, their bytes, its last time, first time of the page behind it; buckets
local PAGE = '%012d' -- pages with the same first time are in the order of their numbers
local PAGE_BYTES = 7800 -- of a page with several entries: Redis stores up to 8 KiB of a list in one piece
local DROP_BYTES = 2 ^ 18 -- a call reads so many to drop jobs; Redis takes some 2 ms for 1 MiB
local BUCKET_JOBS = 32 -- on average; one that waits to be split has twice as many, which is below hash-max-listpack-entries
local SLOT_MAX = 99
local HASH_PRIME, TAILS = 4294967291, {'>B', '>I2', '>I3', '>I4', '>I5'}

-- ---- the figures of a topic's kept jobs ----

-- `span`: the lowest power of two that is not below the number of buckets.
local function buckets_put(k, buckets)
    k.buckets, k.span = buckets, 1
    while k.span < buckets do k.span = 2 * k.span end
end

-- Returns the figures, read once a call. `ids`, `ends`, `entries`: of jobs that this call keeps and that are not written yet; then `places`.
function kept.open(t)
    local k = t.figures
    if k then return k end
    local text, buckets = call('GET', t.kept), 1
    k = {ids = {}, ends = {}, entries = {}, places = {}, is_changed = false, gone = 0, by_jobs = 0, by_bytes = 0, jobs = 0, bytes = 0, page = 0, size = 0, filled = 0, last = 0, bound = 0}
    if text then k.jobs, k.bytes, k.page, k.size, k.filled, k.last, k.bound, buckets = unpack_from(FIGURES, text) end
    buckets_put(k, buckets)
    t.figures = k
    return k
end

function kept.change(t, k)
    if k.is_changed then return end
    k.is_changed, keeping.changed = true, keeping.changed or {}
    keeping.changed[#keeping.changed + 1] = t
end

function kept.packed(k)
    return pack(FIGURES, max(0, k.jobs), max(0, k.bytes), k.page, max(0, k.size), max(0, k.filled), k.last, k.bound, k.buckets)
end

-- ---- entries of pages: `>B` length of the id, the id, the kept job ----

local function id_of(entry)
    return sub(entry, 2, 1 + (byte(entry) or 0))
end

function kept.value_of(entry)
    return sub(entry, 2 + (byte(entry) or 0))
end

-- Returns the number of the job and the end of its time; 0, 0: the entry is damaged.
local function place_of(entry)
    local length = byte(entry) or 0
    if #entry < 1 + length + HEAD_BYTES then return 0, 0 end
    return unpack_from('>I6I6', entry, length + 4)
end

local function ends_of(entry)
    return (select(2, place_of(entry)))
end

-- Returns what the limits count.
local function bytes_of(entry)
    return #entry - 1
end

-- ---- the index: hashes of id → number of the page and, in two digits, where in it the job was written ----

-- Returns a number below 2^32 that spreads ids evenly: a polynomial of words of six bytes, without the cost of a SHA-1.
local function hash_of(id)
    local size, hash, at = #id, #id, 1
    while at + 5 <= size do
        hash, at = (hash * 65599 + unpack_from('>I6', id, at)) % HASH_PRIME, at + 6
    end
    if at <= size then hash = (hash * 65599 + unpack_from(TAILS[size - at + 1], id, at)) % HASH_PRIME end
    return hash * 1048573 % HASH_PRIME
end

-- The buckets grow one by one with the jobs: number `buckets` takes its jobs from the one half a span below it (linear hashing).
local function bucket_of(k, id)
    local bucket = hash_of(id) % k.span
    return bucket < k.buckets and bucket or bucket - k.span / 2
end

-- Adds ids to the index (`places`; the last one of an id counts), or removes them. One command for each bucket.
local function index_change(t, k, command, ids, places)
    if k.buckets > #ids then -- hardly any two are in one bucket
        for i = 1, #ids do
            local id = ids[i]
            local key = t.done .. text_of(bucket_of(k, id))
            if places then call(command, key, id, places[i]) else call(command, key, id) end
        end
        return
    end
    local words = {}
    for i = 1, #ids do
        local bucket = bucket_of(k, ids[i])
        local some = words[bucket] or {}
        local at = #some + 1
        words[bucket], some[at] = some, ids[i]
        if places then some[at + 1] = places[i] end
    end
    for bucket, some in pairs(words) do call_many(command, t.done .. text_of(bucket), some) end
end

-- Adds buckets, at most `most`, until there are enough.
local function index_grow(t, k, most)
    while most > 0 and k.jobs > BUCKET_JOBS * k.buckets do
        buckets_put(k, k.buckets + 1)
        local new = k.buckets - 1
        local old = new - k.span / 2
        local entries, ids, words = call('HGETALL', t.done .. old), {}, {}
        for i = 1, #entries, 2 do
            if bucket_of(k, entries[i]) == new then
                local at = #words
                ids[#ids + 1], words[at + 1], words[at + 2] = entries[i], entries[i], entries[i + 1]
            end
        end
        call_many('HDEL', t.done .. old, ids)
        call_many('HSET', t.done .. new, words)
        most = most - 1
    end
end

local function place_text(page, slot)
    return format('%d%02d', page, min(slot, SLOT_MAX))
end

local function page_name(number)
    return format(PAGE, number)
end

-- Returns the entry of this id at a place, and the name of its page; nil: it is not there.
local function entry_at(t, id, place)
    local number, slot = tonumber(sub(place, 1, -3)), tonumber(sub(place, -2))
    if not number or not slot then return nil end
    local name = page_name(number)
    local key = t.page .. name
    local entry = call('LINDEX', key, text_of(slot))
    if entry and id_of(entry) == id then return entry, name end
    for _, other in ipairs(call('LRANGE', key, '0', '-1')) do -- jobs before it have left
        if id_of(other) == id then return other, name end
    end
    return nil
end

-- Returns the entry of the kept job of this id, also if its time has ended, and the name of its page; nil: it does not exist.
local function find(t, k, id)
    if k.jobs <= 0 then return nil end
    local place = call('HGET', t.done .. text_of(bucket_of(k, id)), id)
    if not place then return nil end
    return entry_at(t, id, place)
end

-- ---- pages ----

-- Returns the first page, and a time before which none of its jobs end.
local function first_page(t)
    local first = call('ZRANGE', t.order, '0', '0', 'WITHSCORES')
    return first[1], tonumber(first[2] or NONE)
end

-- Begins a page behind the one that grows, or in place of it.
local function page_begin(t, k, ends)
    leaf_number, core_is_changed = leaf_number + 1, true
    call('ZADD', t.order, text_of(ends), page_name(leaf_number))
    k.page, k.size, k.filled = leaf_number, 0, 0
end

-- Makes the page that a job of this end belongs to the one that grows. Returns its entries.
local function page_open(t, k, ends)
    local name = call('ZREVRANGEBYSCORE', t.order, ends, '-inf', 'LIMIT', '0', '1')[1]
    if not name then
        name = first_page(t)
        if name then call('ZADD', t.order, text_of(ends), name) end
    end
    local behind = call('ZRANGE', t.order, '(' .. text_of(ends), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
    k.page, k.size, k.filled, k.last, k.bound = 0, 0, 0, 0, tonumber(behind[2] or NONE)
    if not name then
        buckets_put(k, 1)
        return {}
    end
    local entries = call('LRANGE', t.page .. name, '0', '-1')
    k.page, k.size = tonumber(name), #entries
    for i = 1, #entries do k.filled = k.filled + #entries[i] end
    k.last = k.size > 0 and ends_of(entries[k.size]) or 0
    return entries
end

local function has_room(k, entry)
    return k.size < LEAF_MAX and k.filled + #entry <= PAGE_BYTES
end

-- Moves the entries before the number `at` of a page to a new page, which grows from then on. Their new places are written with those of the jobs that
-- this call keeps, some of which may be among them.
local function page_cut(t, k, others, at)
    local old, moved, known = page_name(k.page), {}, #k.ids
    k.page, k.last, k.bound = 0, 0, ends_of(others[at])
    call('ZADD', t.order, text_of(k.bound), old)
    if at == 1 then return end
    call('LTRIM', t.page .. old, text_of(at - 1), '-1')
    page_begin(t, k, ends_of(others[1]))
    for i = 1, at - 1 do
        moved[i], k.filled = others[i], k.filled + #others[i]
        k.ids[known + i], k.places[known + i] = id_of(others[i]), place_text(k.page, i - 1)
    end
    k.size, k.last = at - 1, ends_of(others[at - 1])
    call_many('RPUSH', t.page .. page_name(k.page), moved)
end

-- Adds the jobs that this call keeps to the pages. Those that end in order fill one after another; one that was kept with a shorter time goes before
-- the first that ends later, or ends the page that begins before it.
local function pages_add(t, k)
    local words = {}
    local function send()
        call_many('RPUSH', t.page .. page_name(k.page), words)
        words = {}
    end
    for i = 1, #k.ids do
        local ends, entry, others, at = k.ends[i], k.entries[i], nil, 1
        if k.page == 0 or ends < k.last or ends >= k.bound then
            send()
            others = page_open(t, k, ends)
        end
        local is_inserted = k.page > 0 and ends < k.last
        if is_inserted then
            while ends_of(others[at]) <= ends do at = at + 1 end
            is_inserted = has_room(k, entry)
            if not is_inserted then page_cut(t, k, others, at) end
        end
        if is_inserted then
            call('LINSERT', t.page .. page_name(k.page), 'BEFORE', others[at], entry)
            k.places[i] = place_text(k.page, at - 1)
        else
            if k.page == 0 or k.size > 0 and not has_room(k, entry) then
                send()
                page_begin(t, k, ends)
            end
            k.places[i], k.last = place_text(k.page, k.size), ends
            words[#words + 1] = entry
        end
        k.size, k.filled = k.size + 1, k.filled + #entry
    end
    send()
end

-- Notes that a page has lost entries.
local function page_shrunk(t, k, name, entries, bytes)
    local grows = tonumber(name) == k.page
    if grows then k.size, k.filled = k.size - entries, k.filled - bytes end
    if call('EXISTS', t.page .. name) == 1 then return end
    call('ZREM', t.order, name)
    if grows then k.page = 0 end
end

-- ---- for keeping.lua ----

-- Adds a job. It is written at the end of the call.
function kept.add(t, id, ends, value)
    local k = kept.open(t)
    local entry = char(#id) .. id .. value
    local at = #k.ids + 1
    k.ids[at], k.ends[at], k.entries[at] = id, ends, entry
    k.jobs, k.bytes = k.jobs + 1, k.bytes + bytes_of(entry)
    kept.change(t, k)
end

-- Writes the jobs that this call keeps. Returns how many.
function kept.flush(t, k)
    local added = #k.ids
    if added == 0 then return 0 end
    pages_add(t, k)
    index_change(t, k, 'HSET', k.ids, k.places)
    k.ids, k.ends, k.entries, k.places = {}, {}, {}, {}
    index_grow(t, k, added)
    return added
end

-- Returns the kept job of this id, also if its time has ended; nil: it does not exist.
function kept.find(t, id)
    local entry = find(t, kept.open(t), id)
    return entry and kept.value_of(entry)
end

-- Removes the kept job of this id. Returns true if there was one.
function kept.remove(t, id)
    local k = kept.open(t)
    local entry, page = find(t, k, id)
    if not entry then return false end
    index_change(t, k, 'HDEL', {id})
    call('LREM', t.page .. page, '1', entry)
    page_shrunk(t, k, page, 1, #entry)
    k.jobs, k.bytes = k.jobs - 1, k.bytes - bytes_of(entry)
    kept.change(t, k)
    return true
end

-- Removes up to `most` jobs from the front as long as `reason(k, ends)` names one. Returns how many, and true if there may be more but these were long.
function kept.drop(t, k, most, reason)
    local dropped, read = 0, 0
    while dropped < most do
        if read >= DROP_BYTES then return dropped, true end
        local page, first = first_page(t)
        if not page or not reason(k, first) then break end
        local key, ids, bytes = t.page .. page, {}, 0
        local entries = call('LRANGE', key, '0', text_of(min(most - dropped, LEAF_MAX) - 1))
        for i = 1, #entries do
            local why = reason(k, ends_of(entries[i]))
            if not why then break end
            k.jobs, k.bytes, k[why] = k.jobs - 1, k.bytes - bytes_of(entries[i]), k[why] + 1
            ids[i], bytes = id_of(entries[i]), bytes + #entries[i]
        end
        if #ids > 0 then
            kept.change(t, k)
            index_change(t, k, 'HDEL', ids)
            call('LTRIM', key, text_of(#ids), '-1')
        end
        page_shrunk(t, k, page, #ids, bytes)
        dropped, read = dropped + #ids, read + bytes
        if #ids < #entries then
            if first <= now then call('ZADD', t.order, text_of(ends_of(entries[#ids + 1])), page) end -- else its event comes again
            break
        end
    end
    return dropped, false
end

-- Returns when the time of the first job ends, or an earlier time; also of one that is not written yet. A drop at that time corrects it.
function kept.first_end(t, k)
    local _, first = first_page(t)
    for i = 1, #k.ends do first = min(first, k.ends[i]) end
    return first
end

-- Returns how many jobs are still stored although their time has ended. Those of a page have ended when the next page begins.
function kept.over(t)
    local over, pages = 0, call('ZRANGE', t.order, '-inf', now, 'BYSCORE', 'LIMIT', '0', '20')
    for i = 1, #pages - 1 do over = over + call('LLEN', t.page .. pages[i]) end
    local entries, at = #pages > 0 and kept.page_entries(t, pages[#pages]) or {}, 1
    while entries[at] and ends_of(entries[at]) <= now do at = at + 1 end
    return over + at - 1
end

-- Calls `each(id, value)` for the newest jobs first, from those whose (end, number) is below the cursor's, until it returns false.
function kept.walk(t, ends, number, each)
    local page = call('ZREVRANGEBYSCORE', t.order, ends, '-inf', 'LIMIT', '0', '1')[1]
    local rank = page and call('ZRANK', t.order, page) or -1
    while rank >= 0 do
        local entries = call('LRANGE', t.page .. call('ZRANGE', t.order, rank, rank)[1], '0', '-1')
        for i = #entries, 1, -1 do
            local entry = entries[i]
            local is, by = place_of(entry)
            if by <= now then return end
            if by < ends or by == ends and is < number then
                if not each(id_of(entry), kept.value_of(entry)) then return end
            end
        end
        rank = rank - 1
    end
end

-- ---- for a shard that is given up ----

-- Takes the first page out of the order, so that it leaves. Returns its name and its ids; nil: it does not exist.
function kept.leave(t)
    local page, k = first_page(t), kept.open(t)
    if not page then return nil, {} end
    local ids = {}
    for i, entry in ipairs(kept.page_entries(t, page)) do ids[i] = id_of(entry) end
    call('ZREM', t.order, page)
    k.page = 0
    kept.change(t, k)
    if #ids == 0 then return kept.leave(t) end
    return page, ids
end

-- Returns the kept jobs of a page that leaves, by id.
function kept.leaving(t, page)
    local values = {}
    for _, entry in ipairs(kept.page_entries(t, page)) do values[id_of(entry)] = kept.value_of(entry) end
    return values
end

-- Removes a page that has left.
function kept.left(t, page)
    local k, ids = kept.open(t), {}
    for i, entry in ipairs(kept.page_entries(t, page)) do
        ids[i], k.jobs, k.bytes = id_of(entry), k.jobs - 1, k.bytes - bytes_of(entry)
    end
    index_change(t, k, 'HDEL', ids)
    call('DEL', t.page .. page)
    call('ZREM', t.order, page)
    kept.change(t, k)
end

-- ---- for a check ----

kept.id_of, kept.place_of, kept.ends_of, kept.bytes_of, kept.buckets_put = id_of, place_of, ends_of, bytes_of, buckets_put

function kept.page_entries(t, page)
    return call('LRANGE', t.page .. page, '0', '-1')
end

-- Notes that the check has changed pages.
function kept.forget_page(t)
    local k = kept.open(t)
    k.page = 0
    kept.change(t, k)
end

-- Returns whether the bucket may have the id, and whether the id is at this place.
function kept.is_indexed(t, bucket, id, place)
    return bucket_of(kept.open(t), id) == bucket, entry_at(t, id, place) ~= nil
end

-- Returns the page that has the entry of an id by the index; nil: it does not exist.
function kept.page_of(t, id)
    local k = kept.open(t)
    local place = call('HGET', t.done .. text_of(bucket_of(k, id)), id)
    return place and select(2, entry_at(t, id, place))
end

-- Writes the id of an entry of this page to the index.
function kept.index_put(t, page, slot, id)
    index_change(t, kept.open(t), 'HSET', {id}, {place_text(tonumber(page), slot)})
end

-- Removes an entry of a page, the last of several equal ones. `is_only`: and its id from the index, if it leads to this page. The figures are counted later.
function kept.drop_entry(t, page, entry, is_only)
    local id = id_of(entry)
    if is_only and kept.page_of(t, id) == page then index_change(t, kept.open(t), 'HDEL', {id}) end
    call('LREM', t.page .. page, '-1', entry)
    if call('EXISTS', t.page .. page) == 0 then call('ZREM', t.order, page) end
    kept.forget_page(t)
end

end
