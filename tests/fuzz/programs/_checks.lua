-- The second part of what every program begins with: functions that find faults without a second way.
-- Read on: _prelude.lua, which is the first.

-- ---- comparing
local function near(a, b, scale)
  if a.dtype ~= b.dtype or show(a.shape) ~= show(b.shape) then return false end
  if a.numel == 0 or a:hash() == b:hash() then return true end
  if not a.dtype:match "^b?f%d" then return true end -- a comparison may have come out otherwise
  local eps = ({ f64 = 1e-9, f32 = 1e-3, f16 = 0.06, bf16 = 0.3 })[a.dtype]
  local p, q = a:cast "f64", b:cast "f64"
  if p:isnan():hash() ~= q:isnan():hash() then return false, "NaN elsewhere" end
  local fine = op.logical_and(p:isfinite(), q:isfinite())
  local size = op.where(fine, q:abs(), 0):max():item() + (scale or 1)
  return op.where(fine, (p - q):abs(), 0):max():item() <= eps * size
end

local function words(e)
  return (tostring(e):gsub("\n.*", ""):gsub("^[^:]*:%d+: ", ""):gsub(" %([ia][nt] .*", ""))
end

local function texts(r)
  if not r[1] then return "error " .. words(r[2]) end
  local parts = {}
  for i = 2, r.n do parts[#parts + 1] = show(r[i]) end
  return table.concat(parts, " | ")
end

local function operator_of(r) return words(r[2]):match "^[%w_.]+" end

local function shown(args)
  local parts = {}
  for i = 1, args.n do parts[i] = show(args[i]) end
  return table.concat(parts, " | ")
end

-- Which tensors change when each result is written to; all are as before afterwards.
local function aliases(r, args)
  local all, found = {}, {}
  for i = 2, r.n do all[#all + 1] = { "result " .. i - 1, r[i] } end
  for i = 1, args.n do all[#all + 1] = { "argument " .. i, args[i] } end
  for i = 2, r.n do
    local y = r[i]
    if core.is_tensor(y) and y.numel > 0 and y.dtype ~= "mxfp4" then
      local before, kept = {}, y:clone()
      for k, t in ipairs(all) do before[k] = core.is_tensor(t[2]) and t[2]:hash() end
      local moved = y.dtype == "bool" and y:logical_not() or op.where(y:ne(3), op.full_like(y, 3),
        op.zeros_like(y))
      if pcall(function() y:copy_(moved) end) then
        for k, t in ipairs(all) do
          if k ~= i - 1 and before[k] and t[2]:hash() ~= before[k] then found[("%d %s"):format(i - 1,
            t[1])] = true end
        end
        y:copy_(kept)
      end
    end
  end
  return found
end

-- Whether arguments have elements in common.
local function shared(args)
  for i = 1, args.n do
    for what in pairs(aliases({ args[i], args[i], n = 2 }, args)) do
      if what:match "argument (%d+)" ~= tostring(i) then return true end
    end
  end
end

local function finite(args)
  for i = 1, args.n do
    if core.is_tensor(args[i]) and args[i].numel > 0
      and not args[i]:isfinite():all():item() then return false end
  end
  return true
end

local refusals = { "changed in place", "recursion deeper", "changes a tensor from outside",
  "it should be",
  "a view is changed in place", "a view of a tensor that was changed", "depends on data",
  "not known while",
  "cannot be captured", "is captured", "while a function" }
local function refused(text)
  for _, words in ipairs(refusals) do
    if text:find(words, 1, true) then return true end
  end
end

-- build() makes a function and the tensors that it keeps; sets: functions that make arguments. The
-- function
-- and its captured twin do the same, call by call, to the bit (rounding rules aside), and what they
-- return shares memory alike.
local function same(label, build, sets, rounds)
  local f, body = build(), build()
  local g = graph.module(label:gsub("%W", "_"), body)
  for round = 1, rounds or 3 do
    for k, make in ipairs(sets) do
      rng.seed(100 + k)
      local a = pack(make())
      local r = pack(pcall(f, unpack(a, 1, a.n)))
      local state = show { rng.state() }
      rng.seed(100 + k)
      local b = pack(make())
      local s = pack(pcall(g, unpack(b, 1, b.n)))
      local want, got, place = texts(r) .. " of " .. shown(a), texts(s) .. " of " .. shown(b),
        label .. " " .. k
      note(place, got)
      if s[1] and r[1] and show { rng.state() } ~= state then wrong("the generator stands elsewhere",
        place) end
      local rounding = s[1] and g.current and core.profile() ~= "strict"
        and g:rewrites():find "(rounding)" ~= nil
      if not s[1] and (refused(got) or (got:find "share elements" and shared(b))) then
        note(place .. " is refused")
        return g -- the other one may have written before
      elseif r[1] and s[1] and rounding then
        for i = 2, r.n do
          local fine, why = true, nil
          if core.is_tensor(r[i]) then fine, why = near(s[i], r[i]) end
          -- Angles of zeros jump with their signs.
          if not why and g:ir "graph":find " = atan2 " then fine = true end
          -- Of what is finite a rule keeps what is a number.
          if why and not (finite(a) and finite(b)) then fine = true end
          if not fine and core.profile() ~= "fast" then wrong("a rounding rule goes " .. (why or "far"),
            place, r[i], s[i]) end
        end
      elseif not r[1] and not s[1] and (texts(r) == texts(s) or operator_of(r) ~= operator_of(s)) then
        return -- what was written before the error is not compared; shapes are looked at before values
      elseif want ~= got and not (core.profile() == "fast" and r[1] and s[1]) then
        wrong("captured is not eager", place, "eager: " .. want, "captured: " .. got)
        break
      end
      if r[1] and s[1] and round ~= 2 then
        local one, two = aliases(r, a), aliases(s, b)
        local more = {}
        for what in pairs(two) do
          if not one[what] then more[#more + 1] = what end
        end
        table.sort(more)
        if more[1] then wrong("captured shares memory", place, table.concat(more, ", ")) end
      end
    end
    if round == 1 then settle() end
  end
  return g
end

-- f(x...) is one number in f64. Gradients by graph.grad along a direction beside differences, the tape
-- beside graph.grad, hvp beside differences of gradients. Where differences of two steps disagree
-- (a kink is near), they say nothing.
local function steps(value,
  h) return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h) end

local function believed(value)
  local a, b, at, h = steps(value, 2e-4), steps(value, 7e-5), value(0), 1e-5
  local left, right = (at - value(-h)) / h, (value(h) - at) / h
  if not (math.abs(left - right) <= 1e-3 * math.max(1, math.abs(a))) then return nil end
  if a ~= a or math.abs(at) > 1e4 or math.abs(a) > 1e6 or math.abs(a - b) > 1e-6 * math.max(1,
    math.abs(a)) then return nil end
  return b
end

local function slopes(label, f, second, ...)
  local args, wrt = pack(...), {}
  for i = 1, args.n do wrt[i] = i end
  local d = graph.grad(f, wrt)
  local elements = 1
  for i = 1, args.n do elements = elements * args[i].numel end
  local function at(x) rng.seed(5) return f(unpack(x, 1, args.n)) end
  rng.seed(5)
  local g = pack(pcall(d, unpack(args, 1, args.n)))
  note(label .. " gradient", texts(g))
  if not g[1] then return end
  for round = 1, 2 do
    settle()
    rng.seed(5)
    local again = texts(pack(pcall(d, unpack(args, 1, args.n))))
    if again ~= texts(g) then wrong("another gradient", again, texts(g)) end
  end
  for i = 1, args.n do
    local v = T(70 + i, args[i].shape, "f64")
    local function moved(t)
      local x = { unpack(args, 1, args.n) }
      x[i] = x[i] + v * t
      return x
    end
    -- Of nothing, 0 times what is no number may be either.
    local want = elements > 0 and believed(function(t) return at(moved(t)):item() end)
    local got = (g[i + 1] * v):sum():item()
    if want and not (math.abs(got - want) <= 1e-5 * math.max(1, math.abs(want))) then
      wrong("gradient", i, got, want)
    end
    if second then
      local h = graph.hvp(function(x)
        local list = { unpack(args, 1, args.n) }
        list[i] = x
        return f(unpack(list, 1, args.n))
      end)
      rng.seed(5)
      local fine, hv = pcall(h, args[i], v)
      note(label .. " hvp " .. i, fine and hv or words(hv))
      local w = T(80 + i, args[i].shape, "f64")
      local far = fine and believed(function(t)
        rng.seed(5)
        return (({ d(unpack(moved(t), 1, args.n)) })[i] * w):sum():item()
      end)
      if far then
        local p = (hv * w):sum():item()
        if not (math.abs(p - far) <= 1e-4 * math.max(1, math.abs(far))) then wrong("second derivative",
          i, p, far) end
      end
    end
  end
  local leaves = {}
  for i = 1, args.n do
    leaves[i] = args[i]:clone()
    leaves[i].requires_grad = true
  end
  if core.profile() == "fast" then return end -- rules of fast are no rules of the tape
  rng.seed(5)
  local fine, why = pcall(function() f(unpack(leaves, 1, args.n)):backward() end)
  if not fine then return note(label .. " tape", words(why)) end
  for i = 1, args.n do
    local a, b = leaves[i].grad, g[i + 1]
    note(label .. " tape " .. i, a or "none")
    if a and b.numel > 0 and not near(a, b, 1e-3) then wrong("tape", i, a, b) end
    if not a and b.numel > 0 and b:abs():max():item() > 0 then wrong("tape gives none", i) end
  end
end

-- The elements are these numbers, to the bit but for NaN.
local function expect(label, x, dtype, shape, list)
  local text = core.is_tensor(x) and core.type_text(x):gsub(" .*", "") or show(x)
  local want = dtype .. "[" .. table.concat(shape, ",") .. "]"
  if text ~= want then return wrong("type", label, text, want) end
  note(label, x)
  if x.numel == 0 then return end
  local flat = x:contiguous():reshape(-1)
  if dtype ~= "bool" then flat = flat:cast(dtype == "i64" and "i64" or "f64") end
  for i = 1, #list do
    local v, w = flat[i - 1]:item(), list[i]
    if type(v) == "cdata" then v = tonumber(v) end
    local alike = v == w and (v ~= 0 or type(v) ~= "number" or 1 / v == 1 / w) or (v ~= v and w ~= w)
    if not alike then return wrong("element", ("%s[%d]"):format(label, i - 1), v, w) end
  end
end

-- Writing to elements that stand for one another is an error, as in NumPy.
local overlapped
local function overlaps(f)
  if not pcall(f) then return end
  overlapped = true -- and what follows is anything
  wrong("elements that overlap are written to", debug.getinfo(2, "l").currentline)
end

-- The results of f(make()) are these, {name, dtype, shape, elements}: at once, captured, and in a loop.
local function known(f, make, wants)
  local g = graph.module("known", f)
  for round = 1, 14 do
    local captured = round == 2 or round == 3
    local r = pack(pcall(captured and g or f, make()))
    if overlapped then return end
    if not r[1] then
      if captured
        and refused(tostring(r[2])) then note "refused" else return wrong("a valid program fails",
        r[2]) end
    else
      local how = captured and " captured" or round > 3 and " in a loop" or ""
      for i, w in ipairs(wants) do
        for k = 2, r.n do
          if k == i + 1 then expect(w[1] .. how, r[k], w[2], w[3], w[4]) end
        end
      end
    end
    if round == 2 then settle() end
  end
end

-- A result beside its meaning, computed in f64: NaN and infinite alike, else within roundings of the
-- type.
local function means(label, got, want)
  note(label, got)
  local eps = ({ f64 = 1e-11, f32 = 2e-5, f16 = 6e-3, bf16 = 5e-2 })[got.dtype]
  local same_shape = table.concat(got.shape, ",") == table.concat(want.shape, ",")
  if not same_shape then return wrong(label .. ", shape", got, want) end
  local p, q = got:cast "f64", (eps and want:cast(got.dtype) or want):cast "f64"
  if got.numel == 0 then return end
  if p:isnan():hash() ~= q:isnan():hash() or op.where(p:isinf(), p, 0):hash() ~= op.where(q:isinf(), q,
    0):hash() then return wrong(label .. ", NaN or infinite elsewhere", p, q) end
  local function finite(t) return op.where(op.logical_and(p:isfinite(), q:isfinite()), t, 0) end
  local far, size = finite((p - q):abs()):max():item(), finite(q:abs()):max():item()
  if far > (eps or 0) * (size + (eps and 2^-8 or 0)) then wrong(label, far, size) end
end

local function pollute(byte)
  local kept = {}
  for _, n in ipairs { 1, 4, 16, 64, 256, 1024 } do
    for k = 1, 6 do kept[#kept + 1] = op.full({ n * k }, byte, { dtype = "u8" }) end
  end
  kept = nil
  collectgarbage()
end

local function contents(f)
  local r = pack(pcall(f))
  return texts(r), r
end

-- f(x...) of tensors that lie otherwise in memory, of copies of what is given twice, after other things
-- lay in memory, captured, and in a hot loop: always the bits of the first time.
local function steady(label, f, ...)
  local x = pack(...)
  local function call(list) return contents(function() rng.seed(9) return f(unpack(list, 1,
    x.n)) end) end
  pollute(171)
  local want = call(x)
  note(label, want)
  pollute(63)
  local got = call(x)
  if got ~= want then wrong(label .. " from what lay in memory", want, got) end
  local function each(what, change)
    local list = {}
    for i = 1, x.n do list[i] = core.is_tensor(x[i]) and change(x[i]) or x[i] end
    local now = call(list)
    if now ~= want and not (now:match "^error" and want:match "^error") then wrong(label .. " " .. what,
      want, now) end
  end
  each("of copies", function(t) return t:clone() end)
  each("of steps", function(t)
    if t.ndim == 0 then return t:clone() end
    return op.repeat_interleave(t, 2, { axis = t.ndim - 1 })[("...,::2"):gsub("%.%.%.,",
      (":,"):rep(t.ndim - 1))]
  end)
  each("turned", function(t) return t.ndim < 2 and t:flip():contiguous():flip()
    or t:T():contiguous():T() end)
  local g = graph.module("captured", function(...)
    return f(...)
  end)
  for _ = 1, 2 do
    local now = contents(function() rng.seed(9) return g(unpack(x, 1, x.n)) end)
    if now ~= want and not refused(now) and core.profile() == "strict" then wrong(label .. " captured",
      want, now) end
    note(label .. " captured", now)
    settle()
  end
  for i = 1, 12 do
    local now = call(x)
    if now ~= want then return wrong(label .. " in a loop", i, want, now) end
  end
end
