-- What every generated program begins with. WAY in the environment says how it runs: vm (as the
-- options say), eager, traces, interp; DEV the device. Lines with WRONG are faults that show without
-- a second way; all other lines are the same in every way.
local tessera = require "tessera"
local core = require "tessera.core"
local op, rng, jit, graph, nn, optim = tessera.op, tessera.rng, tessera.jit, tessera.graph, tessera.nn,
  tessera.optim
local way, device = os.getenv "WAY" or "vm", os.getenv "DEV" or ""
-- The reference is told as well what it is compared with.
local real_gpu = (os.getenv "BESIDE" or device):match "^cuda" ~= nil
graph.verbose = false
if way == "eager" or way == "interp" then jit.eager(true) end
if way ~= "vm" and way ~= "plain" then jit.traces(true) end
if way == "interp" then core.jit_interpret(os.getenv "FORM" or "explicit") end
if device ~= "" then
  jit.later(false)
  tessera.device(device)
end
io.stdout:setvbuf "full"

local function profile(name)
  -- 16-bit products of a matrix unit have other bits, but in strict; in fast only what is a number is
  -- the same.
  if real_gpu and name == "deterministic" then name = "strict" end
  return tessera.numerics.profile(name)
end
profile "deterministic"

local function settle()
  if way ~= "vm" then jit.wait() end
end

local function pack(...) return { n = select("#", ...), ... } end

-- ---- what is printed of a value
local function show(v, deep)
  if core.is_tensor(v) then
    if real_gpu and core.profile() == "fast" then v = v:isnan() end
    return core.type_text(v) .. " " .. v:hash()
  end
  if v ~= v then return "nan" end
  if type(v) == "number" then return ("%.17g"):format(v) end
  if type(v) == "string" then return (v:gsub("\n", "\\n")) end
  if type(v) ~= "table" then return type(v) == "boolean" and tostring(v) or type(v) end
  local keys, parts = {}, {}
  for k in pairs(v) do keys[#keys + 1] = k end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, k in ipairs(keys) do parts[i] = tostring(k) .. "=" .. ((deep or 0) < 4 and show(v[k],
    (deep or 0) + 1) or "..") end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function note(label, ...)
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = show((select(i, ...))) end
  io.stdout:write(label, ": ", table.concat(parts, " | "), "\n")
end

local function wrong(what, ...) -- what: as general as the fault; the rest: this instance
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = show((select(i, ...))) end
  io.stdout:write("WRONG ", what, " -- ", table.concat(parts, " | "), "\n")
  io.stdout:flush()
end

-- Of indices that a device has made the error comes when somebody waits for it, with the call's place
-- behind it.
local at_once = pcall
local function pcall(...)
  local r = pack(at_once(...))
  if device ~= "" and r[1] then
    local fine, why = at_once(tessera.synchronize)
    if not fine then return false, why end
  end
  return unpack(r, 1, r.n)
end

-- As it reads where the error comes at once.
local function message(e)
  local text, place = tostring(e), tostring(e):match "%(at ([^\n]*:%d+)%)"
  if not place then return text end
  return place .. ": " .. text:gsub("^[^\n:]*:%d+: ", ""):gsub(" %(at [^\n]*", "")
end

-- The message, and whether it names a line of f (or of another function of the program), and is in
-- words of the program.
local function fails(label, f, anywhere)
  local r = pack(pcall(f))
  if r[1] then return note(label, unpack(r, 2, r.n)) end
  local text = message(r[2])
  note(label .. " fails", text)
  local info = debug.getinfo(f, "S")
  local line = tonumber(text:match "^[^\n:]*:(%d+): ")
  if anywhere then line = info.linedefined end
  if not line or line < info.linedefined
    or line > info.lastlinedefined then wrong("an error names another line", label, line or "none",
    text) end
  if text:find "cdata" or text:find "struct %d" then wrong("not a message for users", label, text) end
end

-- ---- data: a function of seed and shape alone
local special = {
  f64 = { 0, -0.0, 1, -1, 0 / 0, 1 / 0, -1 / 0, 5e-324, -2.2e-308, 1.7e308, 0.1, 3, -2.5, 1e19, 65504,
    4503599627370497 },
  f32 = { 0, -0.0, 1, -1, 0 / 0, 1 / 0, -1 / 0, 1e-45, -1e-42, 3.4e38, 0.1, 3, -2.5, 1e19, 65504,
    16777217 },
  f16 = { 0, -0.0, 1, -1, 0 / 0, 1 / 0, -1 / 0, 6e-8, -3e-5, 65504, 0.1, 3, -2.5, 2049, 0.5, 100 },
  bf16 = { 0, -0.0, 1, -1, 0 / 0, 1 / 0, -1 / 0, 1e-40, -1e-39, 3.3e38, 0.1, 3, -2.5, 257, 0.5, 100 },
  i64 = { 0, 1, -1, -2 ^ 63, 2 ^ 62, 16777217, 7, -8, 3, 2 ^ 53, -2 ^ 31, 255 },
  i32 = { 0, 1, -1, -2 ^ 31, 2 ^ 31 - 1, 16777217, 7, -8, 3, 255, -128, 65536 },
  i16 = { 0, 1, -1, -2 ^ 15, 2 ^ 15 - 1, 7, -8, 3, 255, -128 },
  i8 = { 0, 1, -1, -128, 127, 7, -8, 3, 100 },
  u8 = { 0, 1, 255, 128, 127, 7, 3, 200 },
  bool = { true, false, true },
}

local function T(seed, shape, dtype, kind, low, high)
  local n, part, narrow = 1, dtype:match "^complex" ~= nil, dtype:match "^fp8" ~= nil
  for _, d in ipairs(shape) do n = n * d end
  if n == 0 then return op.zeros(shape, { dtype = dtype }) end
  local state, list = (seed * 40503 + 12345) % 2147483648, {}
  local function unit()
    state = (state * 1103515245 + 12345) % 2147483648
    return math.floor(state / 32768) / 65536
  end
  local base = part and "f64" or narrow and "f32" or dtype
  local pool = special[base]
  local whole = base:match "^[iu]%d" ~= nil
  for i = 1, part and 2 * n or n do
    local u, v = unit(), nil
    if low then v = low + (high - low) * u
    elseif kind == "ties" then v = math.floor(u * 7 - 3) / 2
    elseif kind == "special" and pool then v = pool[math.floor(u * #pool) + 1]
    elseif kind == "pos" then v = 0.1 + 1.9 * u
    elseif kind == "wide" then v = (u - 0.5) * 10 ^ math.floor(unit() * 8)
    else v = u * 2 - 1 + (unit() - 0.5) / 65536 end
    if whole and v == v then
      if kind ~= "special" then v = low and math.floor(low + (high - low + 1) * u)
        or math.floor(v * 9) end
      local width = ({ u8 = 8, i8 = 8, i16 = 16 })[base]
      if base == "u8" then v = v % 256 elseif width then v = (v + 2 ^ (width - 1)) % 2 ^ width - 2 ^ (width - 1) end
    end
    if base == "bool" then v = u < 0.5 end
    list[i] = v
  end
  local x = tessera.tensor(list, { dtype = base })
  if part then
    x = x:reshape(n, 2)
    x = op.complex(x:select(1, 0), x:select(1, 1))
  end
  if part or narrow then x = x:cast(dtype) end
  return x:reshape(shape)
end
