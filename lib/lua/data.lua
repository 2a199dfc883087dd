-- Text, tokens, batches, and the progress bar of long loops.

local core = require "tessera.core"
local op = core.op
local data = {}

-- The whole of a file as a string.
function data.text(path)
  local f, err = io.open(path, "rb")
  if not f then error("data.text: " .. err, 2) end
  local s = f:read("*a")
  f:close()
  return s
end

-- ---- characters as tokens

local CharTokenizer = {}
CharTokenizer.__index = CharTokenizer

-- A tokenizer whose vocabulary are the bytes that occur in text, in order.
function data.CharTokenizer(text)
  local seen, chars = {}, {}
  for i = 1, #text do seen[text:byte(i)] = true end
  for b = 0, 255 do
    if seen[b] then chars[#chars + 1] = string.char(b) end
  end
  local id = {}
  for i, c in ipairs(chars) do id[c] = i - 1 end
  return setmetatable({ chars = chars, id = id, size = #chars }, CharTokenizer)
end

-- Ids as an i64 vector. A character outside the vocabulary is an error.
function CharTokenizer:encode(text)
  local bytes = core.from_bytes(text, "u8", { #text }):cast("i64")
  self.table = self.table or self:make_table()
  local ids = op.take(self.table, bytes)
  if #text > 0 then
    local least = ids:min():item()
    if least < 0 then
      for i = 1, #text do
        if not self.id[text:sub(i, i)] then
          error(("encode: character %q at %d is not in the vocabulary"):format(text:sub(i, i), i), 2)
        end
      end
    end
  end
  return ids
end

function CharTokenizer:make_table()
  local ids = {}
  for b = 0, 255 do ids[b + 1] = self.id[string.char(b)] or -1 end
  return core.tensor(ids, { dtype = "i64" })
end

-- Text from a vector of ids, or a list of numbers.
function CharTokenizer:decode(ids)
  if core.is_tensor(ids) then ids = ids:flatten():totable() end
  local out = {}
  for i, v in ipairs(ids) do out[i] = self.chars[v + 1] end
  return table.concat(out)
end

-- ---- batches

-- Slices [0, first) and [first, n) of a vector or of the rows of a tensor.
function data.split(x, fraction)
  local n = x.shape[1]
  local first = math.floor(n * fraction)
  return x:narrow(0, 0, first), x:narrow(0, first, n - first)
end

-- Random windows of a token vector for language models: an endless iterator of
-- x, y [batch, length] with y one token ahead. Starts are f(seed, batch number).
function data.windows(tokens, o)
  local last = tokens.shape[1] - o.length - 1
  if last < 0 then error("data.windows: the text is shorter than one window", 2) end
  local offsets = op.arange(o.length):unsqueeze(0)
  local n = o.start or 0
  return function()
    local starts = op.randint({ o.batch }, { low = 0, high = last + 1, seed = o.seed or 0, stream = n })
    n = n + 1
    local at = starts:unsqueeze(1) + offsets
    return op.take(tokens, at), op.take(tokens, at + 1)
  end
end

-- Batches of rows of one or several tensors of equal length, one pass:
--   for x, y in data.batches({X, Y}, {batch = 32, shuffle = true, seed = epoch}) do
function data.batches(tensors, o)
  if core.is_tensor(tensors) then tensors = { tensors } end
  local n, at = tensors[1].shape[1], 0
  for i, t in ipairs(tensors) do
    if t.shape[1] ~= n then
      error(("data.batches: tensor %d has %d rows, the first %d"):format(i, t.shape[1], n), 2)
    end
  end
  local order = o.shuffle and op.permutation(n, { seed = o.seed or 0, stream = 0 })
  return function()
    local count = math.min(o.batch, n - at)
    if count <= 0 or (o.drop_last and count < o.batch) then return nil end
    local out = {}
    local rows = order and order:narrow(0, at, count)
    for i, t in ipairs(tensors) do
      out[i] = rows and op.index_select(t, rows, { axis = 0 }) or t:narrow(0, at, count)
    end
    at = at + count
    return unpack(out)
  end
end

-- ---- progress

local Progress = {}
Progress.__index = Progress

local function duration(s)
  if s ~= s or s == math.huge then return "?" end
  s = math.floor(s + 0.5)
  if s >= 3600 then return ("%d:%02d:%02d"):format(s / 3600, s / 60 % 60, s % 60) end
  return ("%d:%02d"):format(s / 60, s % 60)
end

local function rate(r)
  if r >= 1e6 then return ("%.1fM"):format(r / 1e6) end
  if r >= 1e4 then return ("%.1fk"):format(r / 1e3) end
  return r >= 100 and ("%.0f"):format(r) or ("%.2f"):format(r)
end

-- A bar on a terminal, plain lines now and then in a pipe, on stderr:
--   local bar = data.progress(steps, {label = "train", unit = "tok", scale = tokens_per_step})
--   bar:update(step, {loss = 1.23});  bar:finish()
function data.progress(total, o)
  o = o or {}
  local self = setmetatable({ total = total, label = o.label or "", unit = o.unit or "it",
    scale = o.scale or 1, out = o.out or io.stderr, start = core.now(), shown = 0, at = 0, next_line = 0 }, Progress)
  self.terminal = o.terminal
  if o.terminal == nil then self.terminal = core.is_terminal(2) and os.getenv("TERM") ~= "dumb" end
  return self
end

local function fields_text(fields)
  local keys, out = {}, {}
  for k in pairs(fields or {}) do keys[#keys + 1] = k end
  table.sort(keys)
  for i, k in ipairs(keys) do
    local v = fields[k]
    if core.is_tensor(v) then v = v:item() end
    out[i] = type(v) == "number" and ("%s %.4g"):format(k, v) or ("%s %s"):format(k, tostring(v))
  end
  return table.concat(out, "  ")
end

function Progress:text(now, fields, width)
  local elapsed = now - self.start
  local speed = self.at / math.max(elapsed, 1e-9)
  local left = self.total and (self.total - self.at) / speed or nil
  local head = self.label ~= "" and self.label .. " " or ""
  local count = self.total and ("%d/%d"):format(self.at, self.total) or tostring(self.at)
  local tail = ("%s  %s %s/s  %s%s"):format(count, rate(speed * self.scale), self.unit, duration(elapsed),
    left and "<" .. duration(left) or "")
  local extra = fields_text(fields)
  if extra ~= "" then tail = tail .. "  " .. extra end
  if not (self.terminal and self.total) then return head .. tail end
  local room = math.min(30, width - #head - #tail - 4)
  if room < 4 then return (head .. tail):sub(1, width - 1) end
  local full = math.floor(room * math.min(self.at / math.max(self.total, 1), 1))
  return ("%s[%s%s] %s"):format(head, ("="):rep(full), (" "):rep(room - full), tail)
end

-- at: how many steps are done. Costs nothing between two displays.
function Progress:update(at, fields)
  self.at, self.fields = at, fields or self.fields
  local now = core.now()
  if self.terminal then
    if now - self.shown < 0.1 and at ~= self.total then return end
    self.shown = now
    local width = tonumber(os.getenv("COLUMNS") or "") or 80
    self.out:write("\r", self:text(now, self.fields, width), "\27[K")
  else
    local due = self.total and at >= self.next_line or now - self.shown >= 10
    if not due and at ~= self.total then return end
    self.shown = now
    self.next_line = self.total and at + self.total / 10 or 0
    self.out:write(self:text(now, self.fields, 1000), "\n")
  end
  self.out:flush()
end

function Progress:finish()
  if self.terminal then self.out:write("\n") end
  self.out:flush()
end

-- for i in data.range(n, {label = ..}) do ... end: counts 0..n-1 with a bar.
function data.range(n, o)
  local bar, i = data.progress(n, o), -1
  return function()
    i = i + 1
    bar:update(i)
    if i < n then return i, bar end
    bar:finish()
  end
end

return data
