-- The variable `loop`: which item of how many, and those beside it.

local values = require "tessera.hf.jinja.values"
local loop = {}

local function of(l, name)
  local at, n = l.at, l.items.n
  if name == "index" then return at
  elseif name == "index0" then return at - 1
  elseif name == "revindex" then return n - at + 1
  elseif name == "revindex0" then return n - at
  elseif name == "first" then return at == 1
  elseif name == "last" then return at == n
  elseif name == "length" then return n
  elseif name == "depth" then return l.depth
  elseif name == "depth0" then return l.depth - 1 end
end

function loop.attribute(_, l, name)
  if name == "previtem" or name == "nextitem" then
    local i = name == "previtem" and l.at - 1 or l.at + 1
    if i >= 1 and i <= l.items.n then return l.items[i] end
    local why = name == "previtem" and "there is no previous item" or "there is no next item"
    return values.undefined(why, why)
  end
  if name == "cycle" then
    return values.func("cycle", function(_, args)
      if args.n == 0 then values.fail "no items for cycling given" end
      return args[(l.at - 1) % args.n + 1]
    end)
  elseif name == "changed" then
    return values.func("changed", function(_, args)
      local now = values.list(args, "tuple")
      local same = l.before ~= nil and values.equal(l.before, now)
      l.before = now
      return not same
    end)
  end
  return of(l, name)
end

return loop
