-- Makes a program that fails smaller: lines left out, values in place of expressions, smaller numbers.
-- fails(lines) says whether it still does.
local function valid(lines) return loadstring(table.concat(lines, "\n")) ~= nil end

local function without(lines, first, n)
  local t = {}
  for i, l in ipairs(lines) do
    if i < first or i >= first + n then t[#t + 1] = l end
  end
  return t
end

local function with(lines, at, text)
  local t = { unpack(lines) }
  t[at] = text
  return t
end

return function(lines, fails, seconds)
  local stop, tried = os.time() + (seconds or 30), {}
  local function better(candidate)
    local key = table.concat(candidate, "\n")
    if tried[key] or os.time() > stop or not valid(candidate) then return false end
    tried[key] = true
    if fails(candidate) then
      lines = candidate
      return true
    end
  end
  local function fewer()
    local n, any = math.max(1, math.floor(#lines / 2)), false
    while n >= 1 and os.time() <= stop do
      local at = 1
      while at <= #lines do
        if better(without(lines, at, n)) then any = true else at = at + 1 end
      end
      n = math.floor(n / 2)
    end
    return any
  end
  local function simpler()
    local any = false
    for i = #lines, 1, -1 do
      local head, tail = (lines[i] or ""):match "^(%s*local t%d+ = )(.+)$"
      if head then
        for _, v in ipairs { "x1", "c1", "t1", "x2" } do
          if tail ~= v and table.concat(lines, "\n"):find("%f[%w]" .. v .. "%f[%W]")
            and better(with(lines, i, head .. v)) then
            any = true
            break
          end
        end
      end
      -- a result or a part of a list less
      for _, pattern in ipairs { "^(%s*return .*), [^,(){}]+$", "^(%s*return )[^,(){}]+, (.*)$",
        "^(.*):%l[%w_]*%b()([^()]*)$" } do
        local a, b = (lines[i] or ""):match(pattern)
        if a and better(with(lines, i, a .. (b or ""))) then any = true end
      end
    end
    return any
  end
  local function smaller() -- one number everywhere
    local seen, any = {}, false
    for n in table.concat(lines, "\n"):gmatch "%f[%w.]%d+%f[^%w.]" do seen[tonumber(n)] = true end
    local numbers = {}
    for n in pairs(seen) do
      if n > 1 then numbers[#numbers + 1] = n end
    end
    table.sort(numbers, function(a, b) return a > b end)
    for _, n in ipairs(numbers) do
      for _, m in ipairs { 1, 2, 3, math.floor(n / 2), n - 1 } do
        local t = {}
        for i, l in ipairs(lines) do t[i] = l:find "means%(" and l or l:gsub("%f[%w.]" .. n ..
          "%f[^%w.]", tostring(m)) end
        if m < n and better(t) then
          any = true
          break
        end
      end
    end
    return any
  end
  repeat
    local a = fewer()
    local b = simpler()
    local c = smaller()
  until not (a or b or c) or os.time() > stop
  return lines
end
