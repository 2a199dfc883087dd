-- Text, tokens, batches, and the progress bar of long loops.

local core = require "tessera.core"
local options = require "tessera.options"
local op = core.op
local data = {}

local need, FLAG, COUNT = options.argument, options.flag, options.whole { least = 1 }
local SEED, FROM = options.whole(), options.whole { least = 0 }

-- Rows of a tensor, or elements of a vector.
local function need_rows(what, name, x)
  need(what, name, options.tensor, x)
  if x.ndim == 0 then core.fail(("%s: %s is %s, without an axis"):format(what, name, core.type_text(x))) end
  return x.shape[1]
end

-- The whole of a file as a string; a file that cannot be read is an error.
--   local ok, text = pcall(data.text, "book.txt")
function data.text(path)
  need("data.text", "the path", options.text, path)
  local f, err = io.open(path, "rb")
  if not f then core.fail("data.text: " .. err) end
  local s = f:read("*a")
  f:close()
  return s
end

-- ---- characters as tokens

local CharTokenizer = {}
CharTokenizer.__index = CharTokenizer

-- A tokenizer whose vocabulary are the bytes that occur in text, in order: {size}, encode(text) gives an i64 vector,
-- decode(ids) a string. A character that is not in the vocabulary is an error.
--   local tok = data.CharTokenizer "some text"
--   local ids = tok:encode "text"      -- i64[4]
function data.CharTokenizer(text)
  need("data.CharTokenizer", "the text", options.text, text)
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
  need("encode", "the text", options.text, text)
  local bytes = core.from_bytes(text, "u8", { #text }):cast("i64")
  self.table = self.table or self:make_table()
  local ids = op.take(self.table, bytes)
  if #text > 0 then
    local least = ids:min():item()
    if least < 0 then
      for i = 1, #text do
        if not self.id[text:sub(i, i)] then
          core.fail(("encode: character %q at %d is not in the vocabulary"):format(text:sub(i, i), i))
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
  need("decode", "the ids", options.table, ids)
  local out = {}
  for i, v in ipairs(ids) do
    out[i] = type(v) == "number" and self.chars[v + 1] or
      core.fail(("decode: id %s at %d is not in the vocabulary of %d"):format(tostring(v), i, self.size))
  end
  return table.concat(out)
end

-- ---- batches

-- Slices [0, first) and [first, n) of a vector or of the rows of a tensor, first being n * fraction, rounded down.
--   local train, test = data.split(op.arange(100), 0.9)      -- 90 and 10
function data.split(x, fraction)
  local n = need_rows("data.split", "x", x)
  need("data.split", "the fraction", options.number { least = 0, most = 1 }, fraction)
  local first = math.floor(n * fraction)
  return x:narrow(0, 0, first), x:narrow(0, first, n - first)
end

local read_windows = options.of("data.windows", { length = options.needed(COUNT), batch = options.needed(COUNT), seed = SEED,
  start = FROM }, { seed = 0, start = 0 })

-- Random windows of a token vector for language models: an endless iterator of
-- x, y [batch, length] with y one token ahead. Starts are f(seed, batch number).
--   for x, y in data.windows(op.arange(100), {length = 8, batch = 4}) do
--     print(x.shape[2], y.shape[2])      -- 8, 8
--     break
--   end
function data.windows(tokens, o)
  o = read_windows(o)
  local last = need_rows("data.windows", "tokens", tokens) - o.length - 1
  if last < 0 then core.fail("data.windows: the text is shorter than one window") end
  local offsets = op.arange(o.length):unsqueeze(0)
  local n = o.start or 0
  return function()
    local starts = op.randint({ o.batch }, { low = 0, high = last + 1, seed = o.seed or 0, stream = n })
    n = n + 1
    local at = starts:unsqueeze(1) + offsets
    return op.take(tokens, at), op.take(tokens, at + 1)
  end
end

local read_batches = options.of("data.batches", { batch = options.needed(COUNT), shuffle = FLAG, seed = SEED, drop_last = FLAG },
  { shuffle = false, seed = 0, drop_last = false })

-- Batches of rows of one or several tensors of equal length, one pass:
--   for x, y in data.batches({X, Y}, {batch = 32, shuffle = true}) do end
function data.batches(tensors, o)
  o = read_batches(o)
  if core.is_tensor(tensors) then tensors = { tensors } end
  options.tensors("data.batches", "tensor", tensors)
  if #tensors == 0 then core.fail "data.batches: the list of tensors is empty" end
  local n, at = need_rows("data.batches", "tensor 1", tensors[1]), 0
  for i, t in ipairs(tensors) do
    local rows = need_rows("data.batches", "tensor " .. i, t)
    if rows ~= n then core.fail(("data.batches: tensor %d has %d rows, the first %d"):format(i, rows, n)) end
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

local read_progress = options.of("data.progress", { label = options.text, unit = options.text, scale = options.number { above = 0 },
  out = options.any, terminal = FLAG }, { unit = "it", scale = 1 })
local TOTAL = options.number { least = 0 }

-- A bar on a terminal, plain lines now and then in a pipe, on stderr:
--   local bar = data.progress(steps, {label = "train", unit = "tok"})
--   bar:update(step, {loss = 1.23});  bar:finish()
function data.progress(total, o)
  o = read_progress(o)
  if total ~= nil then need("data.progress", "total", TOTAL, total) end
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
--   for i in data.range(100, {label = "train"}) do print(i) end
function data.range(n, o)
  need("data.range", "n", options.whole { least = 0 }, n)
  local bar, i = data.progress(n, o), -1
  return function()
    i = i + 1
    bar:update(i)
    if i < n then return i, bar end
    bar:finish()
  end
end

return data
