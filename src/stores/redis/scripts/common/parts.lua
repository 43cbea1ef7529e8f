-- Batches whose members are in several shards (README.md, "Batches over several shards"). The rules are those of queue/batch_parts.h.
-- A guest is what a shard counts of a batch whose waiting job is in another one. The members of `parts` are filled in here, because
-- parts before this one call them.
function parts.define()

local GUEST, GUEST_BYTES = '>I6I6BBI4I4I4I4I4', 34 -- number, version, bits, on_dead, members by outcome
local STOPPED, SWEPT = 1, 2                        -- its bits, as those of a batch
local PART, PART_BYTES = '>I6I6I4I4I4I4I4I4', 36   -- version seen, version needed, pushes under way, members by outcome
local STOP, FORGET, REPORT, RENEWED = 1, 2, 4, 8   -- orders; REPORT: to report again; RENEWED: the shard named has another master, see `parts.follow`
local NO_BATCH = 0                                 -- number in an order that is not about a batch
local JOIN_MS = 10000                              -- so long a push may be under way; then it is fenced off
local CARRIED, HALF = 100, 50                      -- of each kind, by one call of mail.lua
local RENEWED_PARTS, NOTED = 100, 1000             -- by one call of mail.lua; by one command
local OWN = 0                                      -- in T:renew: this shard has a new master. Otherwise the place + 1 of the shard that has one
local UNAVAILABLE, NONE_PUSHED = 20, 0
parts.MAIL = 2 ^ 47 -- in the clock of an answer: there is mail

local function shard_count()
    return (unpack_from('>I4', core_seldom))
end

-- Returns what this call has read, by field.
local function known()
    batches.known = batches.known or {}
    return batches.known
end

-- ---- a guest ----

-- Returns the guest for a job that waits elsewhere; nil: not found. `id` as stored.
function parts.guest(topic, id)
    if shard_count() == 1 then return nil end
    local field = topic .. '\0' .. id
    local cached = known()['\0' .. field]
    if cached ~= nil then return cached or nil end
    local text = call('HGET', T .. ':guests', field)
    known()['\0' .. field] = false
    if not text or #text < GUEST_BYTES then return nil end
    local b, bits = {is_guest = true, topic = topic, id = id, field = field}, nil
    b.number, b.version, bits, b.on_dead, b[1], b[2], b[3], b[4], b[5] = unpack_from(GUEST, text)
    b.is_stopped, b.is_swept = bits % 2 >= STOPPED, bits % 4 >= SWEPT
    known()['\0' .. field] = b
    return b
end

local function guest_drop(b)
    b.is_gone, known()['\0' .. b.field] = true, false
    call('HDEL', T .. ':guests', b.field)
    call('ZREM', T .. ':mail', b.field)
    call('UNLINK', batches.members_key(b))
end

local function version_of_call()
    if not parts.version then
        sequence, core_is_changed = sequence + 1, true
        parts.version = sequence
    end
    return parts.version
end

-- Writes the guest, whose report is then due.
function parts.guest_write(b)
    b.version, parts.has_mail = version_of_call(), true
    call('HSET', T .. ':guests', b.field, pack(GUEST, b.number, b.version, (b.is_stopped and STOPPED or 0) + (b.is_swept and SWEPT or 0), b.on_dead, b[1], b[2], b[3], b[4], b[5]))
    call('ZADD', T .. ':mail', text_of(b.version), b.field)
end

-- Returns the version of the counts that this call changed, for its pushes; '' if it changed no counts.
function parts.version_packed()
    return parts.version and pack('>I6', parts.version) or ''
end

-- ---- pushes of members ----

-- Returns whether the batch of this home is gone, and was stopped while a push was under way.
local function was_stopped(number, name)
    return call('ZSCORE', T .. ':stopped', pack('>I6', number) .. name)
end

local function is_fenced(links)
    local field = text_of(links.home)
    local cached = known()['\0\0' .. field]
    if cached == nil then
        cached = tonumber(call('HGET', T .. ':fences', field) or NONE_PUSHED)
        known()['\0\0' .. field] = cached
    end
    return links.join <= cached
end

-- Accepts a push that joined its batch before. Returns nil, or the status of its rejection.
function parts.joined(links)
    if links.joined ~= OK then return links.joined end
    if is_fenced(links) then return UNAVAILABLE end
    local b
    if links.is_home == 1 then
        b = batches.find(links.topic, links.id)
        b = b and b.number == links.number and b or nil
        if b and b.is_stopped or not b and was_stopped(links.number, links.topic .. '\0' .. links.id) then return batches.CLOSED end
        links.batch = b -- nil: the wait has ended, and it is an ordinary job
        return nil
    end
    b = parts.guest(links.topic, links.id)
    if b and b.number > links.number then return nil end
    if b and b.number == links.number and b.is_stopped then return batches.CLOSED end
    if b and b.number < links.number then
        if b[1] > 0 then -- an order to cancel its members may be on its way: report to get it, and accept no push before
            batches.change(b)
            return UNAVAILABLE
        end
        guest_drop(b)
        b = nil
    end
    if not b then
        b = {is_guest = true, topic = links.topic, id = links.id, field = links.topic .. '\0' .. links.id, number = links.number, on_dead = links.dead_member, 0, 0, 0, 0, 0}
        known()['\0' .. b.field] = b
    end
    version_of_call()
    links.batch = b
    return nil
end

-- ---- the home ----

local function parts_key(b)
    return T .. ':parts:' .. text_of(b.number)
end

local function part_read(b, shard)
    local text = call('HGET', parts_key(b), text_of(shard))
    local p = {shard = shard, version = 0, needs = 0, under_way = 0, 0, 0, 0, 0, 0}
    if text and #text >= PART_BYTES then p.version, p.needs, p.under_way, p[1], p[2], p[3], p[4], p[5] = unpack_from(PART, text) end
    return p
end

local function part_write(b, p)
    call('HSET', parts_key(b), text_of(p.shard), pack(PART, p.version, p.needs, p.under_way, p[1], p[2], p[3], p[4], p[5]))
    b.has_parts = true
end

-- Returns whether a push is under way, or was not seen.
function parts.are_open(b)
    for _, text in ipairs(call('HVALS', parts_key(b))) do
        local version, needs, under_way = unpack_from(PART, text)
        if under_way > 0 or version < needs then return true end
    end
    return false
end

-- Returns the unfinished and dead members that other shards have reported.
function parts.reported(b)
    local unfinished, dead = 0, 0
    for _, text in ipairs(b.has_parts and call('HVALS', parts_key(b)) or {}) do
        local p = {unpack_from(PART, text)}
        unfinished, dead = unfinished + p[4], dead + p[6]
    end
    return unfinished, dead
end

local function order_one(b, shard, orders)
    local field = pack('>I6I2', b.number, shard)
    if b.is_stopped then orders = orders + STOP end
    if orders == STOP and byte(call('HGET', T .. ':orders', field) or '\0') >= REPORT then orders = STOP + REPORT end
    call('HSET', T .. ':orders', field, char(orders) .. b.field)
    parts.has_mail = true
end

local function order(b, orders)
    for _, shard in ipairs(call('HKEYS', parts_key(b))) do order_one(b, tonumber(shard), orders) end
end

function parts.order_stop(b)
    order(b, 0)
end

-- The wait has ended, or its job: all parts forget the batch. A push that is under way to a stopped one is stopped when it is reported.
function parts.ended(b)
    order(b, FORGET)
    if b.is_stopped and parts.are_open(b) then call('ZADD', T .. ':stopped', text_of(now + 2 * JOIN_MS), pack('>I6', b.number) .. b.field) end
    call('UNLINK', parts_key(b))
end

local function split(name)
    local nul = string.find(name, '\0', 1, true)
    return sub(name, 1, nul - 1), sub(name, nul + 1)
end

-- Returns the batch of this number; nil: it is gone.
local function home_of(number, name)
    local b = batches.find(split(name))
    return b and b.number == number and b or nil
end

-- ---- calls between the parts (batch.lua). Each returns status, number of the batch, depth, on_dead, version, orders ----

-- Notes a push to the shard as under way, until `until_ms`. `join`: its number.
local function join_add(b, shard, until_ms, join)
    local p = part_read(b, shard)
    p.under_way = p.under_way + 1
    part_write(b, p)
    call('HSET', T .. ':joined', text_of(join), pack('>I6I2', b.number, shard) .. b.field)
    call('ZADD', T .. ':joins', text_of(until_ms), text_of(join))
    batches.change(b)
end

-- Whether a new member may join. `parent`: the number of the batch of which the push shows a lease, or 0.
function parts.join(parent, shard, name)
    local topic, id = split(name)
    local b = batches.find(topic, id)
    if not b then return batches.why_closed({topic = topic, id = id}) end
    local status = batches.may_join(b, parent == b.number)
    if status then return status, b.number, b.depth, b.on_dead end
    sequence, core_is_changed = sequence + 1, true
    join_add(b, shard, now + JOIN_MS, sequence)
    return OK, b.number, b.depth, b.on_dead, sequence
end

-- A push that joined has ended. The home must see this version of the counts of its shard.
function parts.leave(join, version)
    local text = call('HGET', T .. ':joined', text_of(join))
    if not text then return OK end
    call('HDEL', T .. ':joined', text_of(join))
    call('ZREM', T .. ':joins', text_of(join))
    local number, shard, at = unpack_from('>I6I2', text)
    local b = home_of(number, sub(text, at))
    if not b then return OK end
    local p = part_read(b, shard)
    p.under_way, p.needs = max(0, p.under_way - 1), max(p.needs, version)
    part_write(b, p)
    batches.change(b)
    return OK
end

function parts.lease(delivery, name)
    local number = batches.number_by_lease(delivery, split(name))
    if not number then return LEASE_ENDED end
    return OK, number
end

local function count_part(b, p, version, counts)
    for i = 1, 5 do
        b[i], p[i] = b[i] + counts[i] - p[i], counts[i]
    end
    p.version = version
    batches.close_if_full(b)
    part_write(b, p)
    batches.change(b)
end

-- Returns the orders to a shard about a batch that is gone.
local function last_orders(shard, number, name)
    local pending = call('HGET', T .. ':orders', pack('>I6I2', number, shard))
    local is_stop = pending and byte(pending) % 2 >= STOP or was_stopped(number, name)
    return FORGET + (is_stop and STOP or 0)
end

-- Takes a report into the counts of the batch, unless a newer one was seen. `counts`: its version, whether it is stopped, and the members by outcome.
function parts.report(shard, number, name, version, is_stopped, counts)
    local b = home_of(number, name)
    if not b then return NOT_FOUND, number, 0, 0, 0, last_orders(shard, number, name) end
    local p = part_read(b, shard)
    if version > p.version then count_part(b, p, version, counts) end
    if is_stopped and not b.is_stopped then batches.stop(b) end
    return OK, number, 0, 0, 0, b.is_stopped and not is_stopped and STOP or 0
end

-- Notes batches in T:renew, for calls of mail.lua.
local function renew_later(who, names)
    for from = 1, #names, NOTED do
        local some = {unpack(names, from, min(from + NOTED - 1, #names))}
        for i = 1, #some do some[i] = pack('>I2', who) .. some[i] end
        call('SADD', T .. ':renew', unpack(some))
    end
    parts.has_mail = parts.has_mail or #names > 0
end

-- Follows the orders of the home, which has seen the report of this version. Returns a version if it must report, and has nothing to count.
function parts.follow(number, name, version, orders)
    if orders == RENEWED then -- the batches of this home report what the other shard has of them, which may have lost members
        renew_later(tonumber(name) + 1, call('HKEYS', T .. ':batches'))
        return OK
    end
    local b = parts.guest(split(name))
    if not b then call('ZREM', T .. ':mail', name) end
    if not b or b.number ~= number then return OK, number, 0, 0, orders >= REPORT and version_of_call() or 0 end
    if b.version == version then call('ZREM', T .. ':mail', name) end
    if orders % 2 >= STOP and not b.is_stopped then batches.stop(b) end
    if orders >= REPORT then batches.change(b) end
    if orders % REPORT >= FORGET then
        if b.is_stopped then
            repeat until not batches.sweep(b)
        end
        guest_drop(b)
    end
    return OK
end

-- A shard has followed these orders. `version`: since then it has no member that has not ended; 0: it has reported.
function parts.followed(shard, number, name, orders, version)
    local field = pack('>I6I2', number, shard)
    if call('HGET', T .. ':orders', field) == char(orders) .. name then call('HDEL', T .. ':orders', field) end
    local b = version > 0 and home_of(number, name)
    local p = b and part_read(b, shard)
    if p and version > p.version then count_part(b, p, version, {0, p[2], 0, p[4], p[5]}) end
    return OK
end

-- Rejects the pushes with this join of a home, and those with earlier ones, from now on. Returns the version of the counts that they made so far.
function parts.fence(home, join, number, name)
    local field = text_of(home)
    if tonumber(call('HGET', T .. ':fences', field) or NONE_PUSHED) < join then call('HSET', T .. ':fences', field, text_of(join)) end
    local b = parts.guest(split(name))
    return OK, number, 0, 0, b and b.number == number and b.version or 0
end

-- ---- mail: what a server carries to other shards (mail.lua) ----

-- Returns some of the first `count` members of a sorted set. If they are too many for a call: the last ones, and others that change from call
-- to call, so that letters to a shard that does not answer do not keep back the rest.
local function some_of(key, count)
    if count <= CARRIED then return count > 0 and call('ZRANGE', key, '0', text_of(count - 1)) or {} end
    local others = count - HALF
    local from = HALF * ((wall % 1000000 * 1000 + flow.micro) % math.ceil(others / HALF))
    local found = call('ZRANGE', key, text_of(others), text_of(count - 1))
    for _, member in ipairs(call('ZRANGE', key, text_of(from), text_of(min(from + HALF, others) - 1))) do found[#found + 1] = member end
    return found
end

local function reports_collect(out)
    for _, name in ipairs(some_of(T .. ':mail', call('ZCARD', T .. ':mail'))) do
        local b = parts.guest(split(name))
        if not b then
            call('ZREM', T .. ':mail', name)
        elseif b.is_swept then
            b.is_swept = batches.sweep(b)
            batches.change(b) -- it is reported by the next call
        else
            out[#out + 1] = 'r' .. pack('>I6I6BI4I4I4I4I4', b.number, b.version, b.is_stopped and 1 or 0, b[1], b[2], b[3], b[4], b[5]) .. name
        end
    end
end

local function orders_collect(out)
    local some = call('HRANDFIELD', T .. ':orders', CARRIED, 'WITHVALUES') -- random ones, for the same reason
    for i = 1, #some, 2 do
        out[#out + 1] = 'o' .. some[i] .. some[i + 1]
    end
end

local function joins_collect(out)
    for _, join in ipairs(some_of(T .. ':joins', call('ZCOUNT', T .. ':joins', '-inf', now))) do
        local text = call('HGET', T .. ':joined', join)
        if text then out[#out + 1] = 'j' .. pack('>I6', tonumber(join)) .. text else call('ZREM', T .. ':joins', join) end
    end
end

-- Has all other shards report on the batch, which waits until earlier joins are fenced off there.
local function renew_batch(b)
    local own = tonumber(call('HGET', T .. ':renewal', 'place'))
    for shard = 0, shard_count() - 1 do
        if shard ~= own then
            join_add(b, shard, 0, call('HINCRBY', T .. ':renewal', 'join', 1))
            order_one(b, shard, REPORT)
        end
    end
end

local function renewal_end()
    if call('EXISTS', T .. ':renew') == 0 then call('UNLINK', T .. ':renewal') end
end

-- Renews the batch before a decision about it, if that is still to be done.
function parts.renew(b)
    if b.is_guest or shard_count() == 1 then return end
    if parts.renewing == nil then parts.renewing = call('EXISTS', T .. ':renewal') == 1 end
    if parts.renewing and call('SREM', T .. ':renew', pack('>I2', OWN) .. b.field) == 1 then
        renew_batch(b)
        renewal_end()
    end
end

-- Renews some of the batches that are noted.
local function renew_some()
    local some = call('SPOP', T .. ':renew', math.ceil(RENEWED_PARTS / shard_count()))
    for _, entry in ipairs(some) do
        local who, at = unpack_from('>I2', entry)
        local topic, id = split(sub(entry, at))
        local b, guest = batches.find(topic, id), who == OWN and parts.guest(topic, id)
        if guest then batches.change(guest) end
        if b and who == OWN then
            renew_batch(b)
        elseif b and b.has_parts and call('HEXISTS', parts_key(b), text_of(who - 1)) == 1 then
            order_one(b, who - 1, REPORT)
        end
    end
    if #some == 0 then return end
    renewal_end()
    parts.has_mail = true
end

-- This master may have lost its last writes. So all counts of this shard are reported again, and those of its batches in all other shards. A
-- join may be lost too, with the push still to come: all earlier joins are fenced off first, and no wait ends before. This is done in pieces,
-- by `renew_some`, and at once for a batch about which something is decided. The joins of this have numbers of now, so that they fence off no
-- later one. `own`: the place of this shard.
function parts.report_all(own)
    if shard_count() == 1 then return end
    local names = call('HKEYS', T .. ':batches')
    if #names > 0 then call('HSET', T .. ':renewal', 'place', text_of(own), 'join', text_of(sequence)) end
    sequence, core_is_changed = sequence + #names * (shard_count() - 1), true
    renew_later(OWN, names)
    renew_later(OWN, call('HKEYS', T .. ':guests'))
    for shard = 0, shard_count() - 1 do
        if shard ~= own then call('HSET', T .. ':orders', pack('>I6I2', NO_BATCH, shard), char(RENEWED) .. text_of(own)) end
    end
end

function parts.collect()
    local out = {}
    renew_some()
    reports_collect(out)
    orders_collect(out)
    joins_collect(out)
    call('ZREMRANGEBYSCORE', T .. ':stopped', '-inf', now)
    if #out >= CARRIED then parts.has_mail = true end
    return out
end

-- Notes for the answer whether there is mail, which a server left behind.
function parts.look()
    if shard_count() == 1 then return end
    parts.has_mail = call('EXISTS', T .. ':mail', T .. ':orders', T .. ':renew') > 0 or call('ZCOUNT', T .. ':joins', '-inf', now) > 0
end

end

parts.define()
