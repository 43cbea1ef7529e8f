#!lua flags=allow-oom
-- Calls between the shards of a queue about batches (common/parts.lua), by servers.
local ticket = ARGV[1]
local JOIN, LEAVE, LEASE, REPORT, FOLLOW, FOLLOWED, FENCE = 1, 2, 3, 4, 5, 6, 7
begin(KEYS, ticket)

local kept = answered_before(ticket)
if kept then return repeated(kept) end

local function carry_out_one(text)
    local verb, at = unpack_from('>B', text)
    local a, b, c, d
    if verb == JOIN then
        a, b, at = unpack_from('>I6I2', text, at)
        return parts.join(a, b, sub(text, at))
    elseif verb == LEAVE then
        return parts.leave(unpack_from('>I6I6', text, at))
    elseif verb == LEASE then
        a, at = unpack_from('>I6', text, at)
        return parts.lease(a, sub(text, at))
    elseif verb == REPORT then
        local counts = {}
        a, b, c, d, counts[1], counts[2], counts[3], counts[4], counts[5], at = unpack_from('>I2I6I6BI4I4I4I4I4', text, at)
        return parts.report(a, b, sub(text, at), c, d == 1, counts)
    elseif verb == FOLLOW then
        a, b, c, at = unpack_from('>I6I6B', text, at)
        return parts.follow(a, sub(text, at), b, c)
    elseif verb == FOLLOWED then
        a, b, c, d, at = unpack_from('>I2I6BI6', text, at)
        return parts.followed(a, b, sub(text, at), c, d)
    elseif verb == FENCE then
        a, b, c, at = unpack_from('>I2I6I6', text, at)
        return parts.fence(a, b, c, sub(text, at))
    end
    error({err = 'ERR unknown call about a batch'})
end

local answers = {}
for i = 2, #ARGV do
    local status, number, depth, on_dead, version, orders = carry_out_one(ARGV[i])
    answers[i - 1] = pack('>BI6BBI6B', status, number or 0, depth or 0, on_dead or 0, version or 0, orders or 0)
end
return changed(ticket, table.concat(answers), nil, NOBODY)
