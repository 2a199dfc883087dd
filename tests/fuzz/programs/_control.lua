-- Control operators whose functions write to their arguments, to carries, to tensors from outside, and
-- draw.
local words = dofile "tests/fuzz/programs/_words.lua"
local M = {}

-- A statement on the local `name` with another one beside it; k stands outside.
local function statement(R, name, other)
  return (R:pick { "A:add_(1)", "A:mul_(B)", "k:add_(A:sum())", "A = A + rng.uniform(A.shape)",
    "A = op.dropout(A, 0.4)",
    'A["::2"] = 1', "A = (A * 0.5):tanh()", "A = (A * B):sin()", "A = (A * 1.1):square()", "A = -A",
      "A = A + B",
    "A = op.maximum(A, 0) + 0.1" }:gsub("%f[%w]A%f[%W]", name):gsub("%f[%w]B%f[%W]", other))
end

-- "function name(parameters) .. return results end" as lines.
local function lines_of(R, name, parameters, statements, results)
  local lines = { ("local function %s(%s)"):format(name, parameters) }
  for _, s in ipairs(statements) do lines[#lines + 1] = "  " .. s end
  lines[#lines + 1] = "  return " .. results
  lines[#lines + 1] = "end"
  return lines
end

local function some(R, a, b)
  local list = {}
  for _ = 1, R:pick { 0, 1, 1, 2 } do
    list[#list + 1] = R:chance(0.7) and statement(R, a, b) or statement(R, b, a)
  end
  return list
end

-- Each gives the lines of its functions, the call, with $f and $g for their names, x and y for its
-- tensors.
local control = {}
function control.cond(R, x, y)
  local test = R:pick { "X:sum():gt(0)", "X:max():lt(1)", "op.any(X:ne(X))" }:gsub("X", x)
  return { lines_of(R, "$f", "a, b", some(R, "a", "b"), "a, b * 2"), lines_of(R, "$g", "a, b", some(R,
    "b", "a"), "b, a") },
    ("op.cond(%s, $f, $g, %s, %s)"):format(test, x, y)
end
function control.scan(R, x, y)
  local result = R:pick { "c", "v", "c + v", "v * v", "{c, v}", "rng.uniform(c.shape)" }
  local carry = R:pick { "Y[0] * 0.5", "Y[0]", "Y[0]:clone()", "op.zeros_like(Y[0])" }:gsub("Y", y)
  return { lines_of(R, "$f", "c, v", some(R, "c", "v"), "c, " .. result) },
    ("op.scan($f, %s, %s%s)"):format(carry, R:pick { x, x, x .. '["0:0"]' },
      R:chance(0.3) and ", {reverse = true}" or "")
end
function control.map(R, x)
  local result = R:pick { "v", "v:sum()", "v * 2", "{v, v + 1}", "v + rng.normal(v.shape)" }
  local over = R:pick { x, x, x .. '["0:0"]', x .. '["::2"]', x .. '["::-1"]' }
  return { lines_of(R, "$f", "v", some(R, "v", "v"), result) }, ("op.map($f, %s)"):format(over)
end
function control.while_loop(R, x, y)
  return { { ("local function $f(a, b, n) return n:lt(%d) end"):format(R(5) - 1) },
    lines_of(R, "$g", "a, b, n", some(R, "a", "b"), "a, b, n + 1") },
    ("op.while_loop($f, $g, %s, %s, tessera.tensor(0))"):format(x, y)
end
function control.recursive(R, x)
  local list = some(R, "a", "a")
  list[#list + 1] = "local function again(a, n) return self(a, n + 1) end"
  list[#list + 1] = "local function done(a, n) return a end"
  return { lines_of(R, "$f", "self, a, n", list,
    ("op.cond(n:lt(%d), again, done, a, n)"):format(R(5) - 1)) },
    ("op.recursive($f)(%s, tessera.tensor(0))"):format(x)
end
local names = { "cond", "scan", "map", "while_loop", "recursive" }

--- One of them over values of the program, its results as new values.
function M.add(W)
  local R = W.R
  local x = W:pick(function(t) return t.ndim > 0 and t.dtype:match "^b?f%d" end)
  if not x then return end
  local shape = words.list(W:of(x).shape)
  local y = R:chance(0.3) and x or W:pick(function(t)
    return words.list(t.shape) == shape and t.dtype == W:of(x).dtype
  end) or x
  local functions, call = control[R:pick(names)](R, x, y)
  local f, g, r = W:fresh "f", W:fresh "g", W:fresh "r"
  local lines = {}
  for _, list in ipairs(functions) do
    for _, l in ipairs(list) do lines[#lines + 1] = l:gsub("%$f", f):gsub("%$g", g) end
  end
  call = call:gsub("%$f", f):gsub("%$g", g)
  local fine, v = W:run(table.concat(lines, "\n") .. "\nreturn {" .. call .. "}")
  if not fine then return end
  for _, l in ipairs(lines) do W:line("%s", l) end
  W:line("local %s = {%s}", r, call)
  W.env[r] = v
  for i, t in ipairs(v) do
    if W:fits(t) then W:value(("%s[%d]"):format(r, i)) end
  end
end

return M
