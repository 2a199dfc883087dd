-- Plain code in hot loops: values carried from round to round, kept for later, written to; draws,
-- branches,
-- errors in the middle, closures and coroutines, operators that the program replaces, the tape.
local steps = dofile "tests/fuzz/programs/_steps.lua"
local words = steps.words

local function carry(W, carried)
  local R = W.R
  local c = R:pick(carried)
  local t = W:of(c)
  local v = W:pick(function(u) return u.dtype == t.dtype
    and words.list(u.shape) == words.list(t.shape) end)
  if not v then return end
  if not t.dtype:match "^b?f%d" then return W:statement(("%s = %s"):format(c, v)) end
  W:statement(R:pick { ("%s = op.clamp(%s, -3, 3)"):format(c, v),
    ("%s = %s * 0.5 + (%s * 0.5):tanh()"):format(c, c, v),
    ("%s = op.where(%s:isfinite(), op.clamp(%s, -2, 2), 0.5)"):format(c, v, v),
    ("%s:copy_(op.clamp(%s, -3, 3))"):format(c, v) })
end

local function notes(W)
  local R = W.R
  local x, k = W:pick(), R:pick { 1, 3, 7 }
  return R:pick { ('if i %% %d == 0 then note("%s", i, %s) end'):format(k, x, x),
    ('note("%s", %s)'):format(x, x), ("if i %% %d == 0 then kept[#kept + 1] = %s end"):format(k, x),
    ('if i %% %d == 0 then note("sum", %s:sum():item()) end'):format(k, x),
      ('if i %% %d == 0 then collectgarbage() end'):format(k * 3 + 2) }
end

local replaced = { "tanh", "sigmoid", "abs", "add", "mul", "softmax", "sum", "relu", "matmul", "exp",
  "where", "clamp", "neg" }

local function body(W, carried, deep)
  local R, leave = W.R, W:enter()
  for _ = 1, R:between(deep > 0 and 1 or 3, deep > 0 and 4 or 10) do
    local what = R:weighed { value = 12, write = deep == 0 and 3 or 2, carry = 3, note = 3,
      branch = deep < 2 and 1.5 or 0, inner = deep < 1 and 0.5 or 0, call = 0.7, set = 0.4, twice = 0.6,
      misuse = 0.25 }
    if what == "value" then steps.value(W)
    elseif what == "write" then steps.write(W)
    elseif what == "carry" then carry(W, carried)
    elseif what == "note" then W:line("%s", notes(W))
    elseif what == "misuse" then steps.misuse(W)
    elseif what == "twice" then -- one call, two results that are written to apart
      local x = W:pick()
      local a, b = W:value(("op.zeros_like(%s)"):format(x)), W:value(("op.zeros_like(%s)"):format(x))
      if a and b then W:statement(("%s:add_(1)"):format(a)) W:line('note("twice", %s, %s)', a, b) end
    elseif what == "branch" then
      local x = W:pick()
      W:open("if %s then", R:pick { "i % 2 == 0", "i % 5 ~= 3", "i > 9",
        ("(%s:sum():item()) == 0"):format(x), ("%s:isnan():any():item()"):format(x) })
      body(W, carried, deep + 1)
      if R:chance(0.4) then
        W:close "else"
        W.indent = W.indent .. "  "
        body(W, carried, deep + 1)
      end
      W:close "end"
    elseif what == "inner" then
      W:open("for j = 1, %d do", R:pick { 2, 5, 9 })
      W.env.j = 1
      body(W, carried, deep + 1)
      W:close "end"
    elseif what == "call" then
      local name, x = W:fresh "f", W:pick()
      local inner = steps.expression.unary(W, "a")
      W.env.a = W:of(x)
      if W:run("return (" .. inner .. ")") then
        W:line("local function %s(a, ...) return %s end", name, inner)
        W:run(("function %s(a, ...) return %s end"):format(name, inner))
        W:value(("%s(%s, i)"):format(name, x))
      end
    elseif what == "set" then
      local c = R:pick(carried)
      W:line("if i == %d then %s = %s end", R(20), c, ("op.full_like(%s, %s)"):format(c, R:pick { "1",
        "0", "-0.5" }))
    end
  end
  leave()
end

local function replace(W, n)
  local R = W.R
  local o = R:pick(replaced)
  local at = R(n - 5)
  W:line("local old, calls = op.%s, 0", o)
  return ("if i == %d then op.%s = function(...) calls = calls + 1 return old(...) end end"):format(at,
    o),
    ("if i == %d then op.%s = old end"):format(at + R(9), o), o
end

local function tape(W)
  local R = W.R
  local x = W:pick(function(t) return t.dtype == "f32" or t.dtype == "f64" end)
  if not x or W:of(x).numel == 0 then return end
  W:line("local w = T(5, %s, %q)", words.list(W:of(x).shape), W:of(x).dtype)
  W:line "w.requires_grad = true"
  return { ("local loss = ((%s * %s) * w):%s():sum() + w%s:sum()"):format(x, R:pick { "0.5",
    "(i % 3)" }, R:pick { "tanh", "sin", "square", "sigmoid", "softplus" },
    R:pick { "", '["::2"]', ":flip()", ":abs()", ":reshape(-1)", '["1:"]' }), "loss:backward()",
      'note("w", loss, w.grad)',
    R:pick { "tessera.no_grad(function() w:sub_(w.grad * 0.05) end) w.grad = nil",
      "if i % 3 == 0 then w.grad = nil end", "w.grad = nil" } }
end

return function(W)
  local R = W.R
  local sizes = words.sizes(R)
  W.errors, W.loop = R:chance(0.4) and 0.15 or 0.03, true
  W.env.i, W.env.kept = 3, {}
  if R:chance(0.25) then W:line('profile "%s"', R:pick { "strict", "fast" }) end
  W:line "local kept = {}"
  local carried = { "c1", "c2", "c3" }
  steps.inputs(W, carried, sizes)
  if R:chance(0.3) then steps.inputs(W, { "k1", "k2" }, sizes) end
  local n = R:pick { 14, 25, 40, 40, 60, 150 }
  local on, off, row = nil, nil, nil
  if R:chance(0.12) then on, off, row = replace(W, n) end
  local after = R:chance(0.15) and tape(W)
  local co = R:chance(0.08)
  W:open("for i = 1, %d do", n)
  if R:chance(0.4) then W:line("if i == %d then settle() end", math.floor(n / 2)) end
  if on then
    W:line("%s", on)
    W:line("%s", off)
    local x = W:pick()
    local arguments = ({ add = "%s, 1", mul = "%s, 0.5", where = "%s:gt(0), %s, 0",
      matmul = "%s, %s:T()" })[row] or "%s"
    W:line('fails("replaced", function() return op.%s(%s) end, true)', row, arguments:gsub("%%s", x))
    W:line 'note("calls", calls)'
  end
  if co then W:open("local step = coroutine.wrap(function(a, i)") W:line "a = coroutine.yield(a)" end
  body(W, carried, 0)
  if co then W:line "return i" W:close "end)" W:line("step(%s, i) step(%s)", "c1", "c1") end
  for _, l in ipairs(after or {}) do W:line("%s", l) end
  W:close "end"
  W:line "settle()"
  W:line('note("end", %s, kept)', table.concat(carried, ", "))
  W:line 'note("state", {rng.state()})'
end
