-- Runs scenarios with one thing going wrong at each point in turn, and looks whether the session
-- goes on as if it had not been.
local tessera = require "tessera"
local core, op = tessera.core, tessera.op
local upset = {}

local function text_of(list)
  local out = {}
  for i, v in ipairs(list or {}) do out[i] = core.is_tensor(v) and v:hash() or tostring(v) end
  return table.concat(out, " ")
end

local function weights_of(made) return made.weights and text_of(made.weights()) or "" end

-- Is the session what it was?
local function left_behind(before)
  if core.capturing() then return "a function is being captured" end
  if not core.recording() then return "no_grad is on" end
  if core.default_device() ~= before.device then return "the device is " .. core.default_device() end
  if core.profile() ~= before.profile then return "the profile is " .. core.profile() end
  if core.trap() then return "the trap is on" end
  if op.ones { 3 }:add(1):sum():item() ~= 6 then return "1 + 1 is not 2" end
end

-- What runs give: from the beginning, and once more.
local function reference(scenario)
  local made = scenario.make()
  local r = { [0] = { weights = weights_of(made) } }
  for i = 1, 2 do
    r[i] = { result = made.run() }
    r[i].weights = weights_of(made)
  end
  return r
end

-- One upset. kind.set(n) arranges it, kind.clear() ends it and tells whether it has come. Gives
-- what is wrong, or nil; and whether it came.
local function once(scenario, r, kind, n)
  local before = { device = core.default_device(), profile = core.profile() }
  local made = scenario.make()
  local came
  local ok, got = pcall(function()
    kind.set(n)
    local result = made.run()
    came = kind.clear()
    return result
  end)
  if not ok then came = kind.clear() or true end
  local wrong = left_behind(before)
  if wrong then return wrong, came end
  if ok and got ~= r[1].result then return "another result", came end
  if not ok and not kind.expects(tostring(got)) then return "error: " .. tostring(got), came end
  local weights = weights_of(made)
  local at = weights == r[0].weights and not (ok and r[1].weights ~= r[0].weights) and 0 or
    weights == r[1].weights and 1
  if not at then return "weights are mixed", came end
  local again, value = pcall(made.run)
  if not again then return "afterwards: " .. tostring(value), came end
  if value ~= r[at + 1].result and not (at == 0 and r[0].weights == r[1].weights and value == r[2].result) then
    return "another result afterwards", came
  end
  if weights_of(made) ~= r[at + 1].weights and made.weights then return "other weights afterwards", came end
  return nil, came
end

upset.kinds = {
  memory = {
    set = function(n) core.fail_after(n) end,
    clear = function() return core.fail_after(0) < 0 end,
    expects = function(why) return why:find "out of memory" or why:find "not enough memory" end,
  },
  -- From one point on there is none.
  full = {
    set = function(n) core.fail_after(n, "on") end,
    clear = function() return core.fail_after(0) < 0 end,
    expects = function(why) return why:find "out of memory" or why:find "not enough memory" end,
  },
  lua = {
    set = function(n) core.fail_after(n, "lua") end,
    clear = function()
      core.interrupt_after(0) -- the error waits for an instruction that is interpreted
      return core.fail_after(0, "lua") < 0
    end,
    expects = function(why) return why:find "out of memory" or why:find "not enough memory" end,
  },
  interrupt = {
    set = function(n) core.interrupt_after(n) end,
    clear = function() return core.interrupt_after(0) < 0 end,
    expects = function(why) return why:find "interrupted" and why:find ":%d+:" end,
  },
  look = {
    set = function(n) core.interrupt_after(n, "looks") end,
    clear = function() return core.interrupt_after(0, "looks") <= 0 end,
    expects = function(why) return why:find "interrupted" and why:find ":%d+:" end,
  },
  instruction = {
    set = function(n) core.interrupt_after(n, "instructions") end,
    clear = function()
      core.interrupt_after(0)
      return false
    end,
    expects = function(why) return why:find "interrupted" and why:find ":%d+:" end,
  },
}

--- One of a kind that comes when it likes: the scenario is run until it does.
function upset.once(scenario, kind, n) return (once(scenario, reference(scenario), kind, n)) end

-- Ctrl-C from outside, after some milliseconds.
function upset.kinds.signal(pid)
  return {
    set = function(n) os.execute(("(sleep 0.%03d; kill -INT %d) &"):format(1 + n * 7 % 23, pid)) end,
    clear = function()
      -- It may still be on its way.
      local ok = pcall(function()
        local t = core.now()
        while core.now() - t < 0.2 do tostring(1) end
      end)
      core.interrupt_after(0)
      return not ok
    end,
    expects = function(why) return why:find "interrupted" and why:find ":%d+:" end,
  }
end

--- Every point of a scenario, or those that next(n) gives, up to most. Gives how many and what was wrong.
function upset.walk(scenario, kind, next_point, most)
  local r, wrong, points, n = reference(scenario), {}, 0, 1
  while n <= most do
    if os.getenv "UPSET_TRACE" then io.stderr:write(scenario.name, " ", n, "\n") end
    local why, came = once(scenario, r, upset.kinds[kind], n)
    if why then wrong[#wrong + 1] = ("%s %d of %s: %s"):format(kind, n, scenario.name, why) end
    points = points + 1
    if not came or #wrong > 10 then break end
    n = next_point(n)
  end
  return points, wrong
end

return upset
