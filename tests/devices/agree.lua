-- Every row on a device against the CPU, bit by bit: the cases of tests/vectors and larger ones,
-- row-major and as views, eagerly. The device is simulated, or that of `make check DEV=cuda`.
package.path = "tests/agree/?.lua;tests/devices/?.lua;" .. package.path
local tessera = require "tessera"
local core = tessera.core
local cases = require "_cases"
local device = require "_device"
local op = core.op
local name = device.name
if not name then return print(device.skipped) end

local function moved(x)
  local y = {}
  for i, t in ipairs(x) do y[i] = t and t:to(name) end
  return y
end

local function views(x)
  local y = {}
  for i, t in ipairs(x) do
    y[i] = t
    if t and t.ndim >= 2 and t.dtype ~= "mxfp4" then
      local perm = {}
      for k = 1, t.ndim do perm[k] = t.ndim - k end
      y[i] = op.clone(t:permute(perm)):permute(perm)
    end
  end
  return y
end

-- Contents of empty tensors are anything.
local unspecified = { empty = true, empty_like = true }

local function outputs(c, x, where)
  core.seed(17)
  local ok, out = pcall(function()
    if #c.x > 0 or not where then return cases.call(c, x) end
    return tessera.device(where, cases.call, c, x)
  end)
  if not ok then return nil, (tostring(out):gsub("^[^:]*:%d+: ", "")) end
  return out
end

-- On a matrix unit, where there is one.
local sums = { matmul = true, attention = true }

local function text(c, y)
  local shape = y.dtype .. "[" .. table.concat(y.shape, ",") .. "] "
  return unspecified[c.row] and shape or shape .. y:hash()
end

-- Results belong to the device, but for those of operators that give numbers.
local function compare(c, what, x)
  local want, error_want = outputs(c, x)
  local got, error_got = outputs(c, moved(x), name)
  local same, why = error_want == error_got, tostring(error_got)
  for i, y in ipairs(got and want or {}) do
    if core.is_tensor(y) then
      local a, b = text(c, got[i]), text(c, y)
      same = same and got[i].device == name and (a == b or (sums[c.row] and device.same(got[i], y, x)))
      why = ("output %d is %s on %s, not %s"):format(i, a, got[i].device, b)
    end
    if not same then break end
  end
  cases.expect(cases.name(c) .. what, same, why)
end

-- SAMPLE=n: each n-th case, from SAMPLE_AT on.
local sample, number = tonumber(os.getenv "SAMPLE") or os.getenv "LONG" and 1 or 2, 0
local first = tonumber(os.getenv "SAMPLE_AT") or 0
for c in cases.each() do
  number = number + 1
  local x = number % sample == first and cases.inputs(c)
  if x then
    compare(c, "", x)
    compare(c, " of views", views(x))
  end
end
local s = core.jit_device()
assert(s.calls > 1000 / sample, "kernels ran")
io.stderr:write(("%d calls on %s, %d by the CPU, %d kernels\n"):format(s.calls, name, s.fallback, s.kernels))
