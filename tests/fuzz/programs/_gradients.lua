-- Smooth functions in f64 and what they say of their derivatives: differences, the tape, second
-- derivatives,
-- inputs that are given twice; also rows of the table one at a time.
local steps = dofile "tests/fuzz/programs/_steps.lua"
local words, calls = steps.words, steps.calls

local smooth = { infix = 8, number = 6, unary = 9, binary = 5, ternary = 2, reduce = 5, slice = 6,
  view = 6, move = 9, row = 8, rule = 3, layer = 4 }
local ends = { ":sin():sum()", ":square():sum()", ":tanh():sum()", ":sum()" }

-- Of a size that differences can tell: 2^43 + h is rounded, x % 1e-10 has an edge in each step.
local function moderate(t)
  if t.numel == 0 or t.dtype ~= "f64" then return t.numel == 0 or t:isfinite():all():item() end
  local most = t:abs():max():item()
  return most == 0 or (most >= 1e-4 and most <= 1e4)
end

return function(W)
  local R = W.R
  W.gradient = true
  if R:chance(0.3) then W:line('profile "%s"', R:pick { "strict", "fast" }) end
  local params, given = {}, {}
  if R:chance(0.45) then -- one row
    for _ = 1, 20 do
      local row = calls.row(R)
      local c = calls.call(R, row, R:chance(0.5), true)
      local texts, holes, by = {}, {}, {}
      for i, x in ipairs(c.inputs) do
        local key = words.list(x.shape)
        if x.index or x.dtype ~= "f64" then
          holes[i] = calls.data(R, x)
        elseif by[key] and R:chance(0.5) then
          holes[i] = by[key]
        else
          holes[i] = "x" .. #texts + 1
          texts[#texts + 1], by[key] = words.data(R, x.shape, "f64", R:pick { "unit", "pos" }, true),
            holes[i]
          W:run(holes[i] .. " = " .. texts[#texts])
        end
      end
      local text = c.text:format(unpack(holes))
      local fine, y = W:run("return " .. text)
      if fine and #texts > 0 and W:fits(y) and y.numel < 400 and steps.differentiable(row)
        and (y.dtype == "f64" or y.dtype == "complex128") then
        for i = 1, #texts do params[i] = "x" .. i end
        given = texts
        local fin = ":cast('f64')" .. R:pick(ends)
        if y.dtype:match "^complex" then fin = ":abs()" .. fin end
        W:open("local function f(%s)", table.concat(params, ", "))
        W:line("local y = %s", text)
        W:line("return y%s", fin)
        W:close "end"
        break
      end
    end
  end
  if #params == 0 then
    local count, shape = R:pick { 1, 1, 2 }, words.shape(R, R:pick { 1, 2, 2, 3 }, { 2, 3, 4, 5 })
    for i = 1, count do
      params[i], given[i] = "x" .. i, words.data(R, shape, "f64", R:pick { "unit", "unit", "pos" },
        true)
      W:run(params[i] .. " = " .. given[i])
      W.values[i] = params[i]
    end
    W:open("local function f(%s)", table.concat(params, ", "))
    for _ = 1, R:between(1, 5) do
      local name = steps.value(W, smooth)
      local t = name and W:of(name)
      if t and (t.dtype ~= "f64" or t.numel > 300 or not moderate(t)) then table.remove(W.values) end
    end
    local parts = {}
    for i = math.max(1, #W.values - 1),
      #W.values do parts[#parts + 1] = ("(%s * 0.3)%s"):format(W.values[i], R:pick(ends)) end
    W:line("return %s", table.concat(parts, " + "))
    W:close "end"
  end
  W:line('slopes("f", f, %s, %s)', R:chance(0.6) and "true" or "false", table.concat(given, ", "))
  if #params == 1 and R:chance(0.3) then
    W:line "local d = graph.grad(f)"
    W:line('slopes("d", function(x) return (d.body(x) * 0.7):sin():sum() end, false, %s)', given[1])
  end
end
