-- Text, tokens, batches, and the progress bar of long loops.

local core = require "tessera.core"
local lengths_of = require "tessera.nn.lengths"
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
  return core.read_file(path, "data.text")
end

-- ---- characters as tokens

local CharTokenizer = {}
CharTokenizer.__index = CharTokenizer

-- CharTokenizer(text): a tokenizer whose vocabulary are the bytes that occur in text, in order: {size}, encode(text)
-- gives an i64 vector, decode(ids) a string. A character that is not in the vocabulary is an error.
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
-- data.random_split takes rows in random order.
--   local train, test = data.split(op.arange(100), 0.9)      -- 90 and 10
function data.split(x, fraction)
  local n = need_rows("data.split", "x", x)
  need("data.split", "the fraction", options.number { least = 0, most = 1 }, fraction)
  local first = math.floor(n * fraction)
  return x:narrow(0, 0, first), x:narrow(0, first, n - first)
end

local read_windows = options.of("data.windows", { length = options.needed(COUNT), batch = options.needed(COUNT), seed = SEED,
  start = FROM }, { seed = 0, start = 0 })

-- windows(tokens, {length, batch, seed = 0, start = 0}): random windows of a token vector for language models: an
-- endless iterator of x, y [batch, length] with y one token ahead. Where they begin is a function of seed and the
-- number of the batch, of which the first is start.
--   for x, y in data.windows(op.arange(100), {length = 8, batch = 4}) do
--     print(x.shape[2], y.shape[2])      -- 8, 8
--     break
--   end
function data.windows(tokens, o)
  o = read_windows(o)
  local last = need_rows("data.windows", "tokens", tokens) - o.length - 1
  if last < 0 then core.fail("data.windows: the text is shorter than one window") end
  local offsets = op.arange(o.length):unsqueeze(0)
  local n = o.start
  return function()
    local starts = op.randint({ o.batch }, { low = 0, high = last + 1, seed = o.seed, stream = n })
    n = n + 1
    local at = starts:unsqueeze(1) + offsets
    return op.take(tokens, at), op.take(tokens, at + 1)
  end
end

-- Tensors as a list, and how many rows each of them has.
local function rows_of(what, tensors)
  if core.is_tensor(tensors) then tensors = { tensors } end
  options.tensors(what, "tensor", tensors)
  if #tensors == 0 then core.fail(what .. ": the list of tensors is empty") end
  local n = need_rows(what, "tensor 1", tensors[1])
  for i, t in ipairs(tensors) do
    local rows = need_rows(what, "tensor " .. i, t)
    if rows ~= n then core.fail(("%s: tensor %d has %d rows, the first %d"):format(what, i, rows, n)) end
  end
  return tensors, n
end

local Batches = {}
Batches.__index = Batches
Batches.__tostring = function(self) return ("data.batches(%d of %d rows, epoch %d)"):format(self.count, self.batch, self.epoch) end

-- A shuffled order is that of its seed and epoch; without a seed, one of the common generator.
-- A loop calls with what it has: nothing at its beginning. One that another loop over the same batches ended
-- has ended, too.
function Batches:__call(...)
  if select("#", ...) > 0 then
    if select(2, ...) == nil then
      if self.resumed then self.resumed = nil else self:restart() end
    elseif self.at == 0 then
      return nil
    end
  end
  if self.at == 0 and self.shuffle then
    self.order = op.permutation(self.rows, self.seed and { seed = self.seed, stream = self.epoch } or nil)
  end
  local at, order = self.at, self.order
  local n = math.min(self.batch, self.rows - at)
  if n <= 0 or (self.drop_last and n < self.batch) then
    self.at, self.epoch = 0, self.epoch + 1
    return nil
  end
  local out, rows = {}, order and order:narrow(0, at, n)
  for i, t in ipairs(self.tensors) do
    out[i] = rows and op.index_select(t, rows:to(t.device), { axis = 0 }) or t:narrow(0, at, n)
  end
  self.at = at + n
  return unpack(out)
end

--- Ends a pass in its middle, as the next loop does; the next one begins.
function Batches:restart()
  if self.at > 0 then self.at, self.epoch = 0, self.epoch + 1 end
  return self
end

--- Where it stands: {rows, batch, epoch, at, order}, order being a shuffled one that has no seed.
function Batches:state_dict()
  return { rows = self.rows, batch = self.batch, epoch = self.epoch, at = self.at,
    order = self.at > 0 and self.order and not self.seed and self.order or nil }
end

--- Goes on there: the next loop begins with the batch that would have been next.
function Batches:load_state_dict(state)
  need("load_state_dict", "the state", options.table, state)
  for _, name in ipairs { "rows", "batch" } do
    if state[name] ~= self[name] then
      core.fail(("load_state_dict: the state is of batches with %s = %s, and here it is %d"):format(name, tostring(state[name]), self[name]))
    end
  end
  self.epoch, self.at = need("load_state_dict", "epoch", FROM, state.epoch), need("load_state_dict", "at", FROM, state.at)
  self.resumed = self.at > 0 or nil
  self.order = state.order
  if self.shuffle and self.at > 0 and self.seed then self.order = op.permutation(self.rows, { seed = self.seed, stream = self.epoch }) end
end

local read_batches = options.of("data.batches", { batch = options.needed(COUNT), shuffle = FLAG, seed = SEED, epoch = FROM, drop_last = FLAG },
  { shuffle = false, epoch = 0, drop_last = false })

-- batches(tensors, {batch, shuffle = false, seed, epoch = 0, drop_last = false}): an iterator over batches
-- of rows of a tensor, or of several of equal length. One loop is one pass, the next loop the next one;
-- with shuffle each has another order: of the common generator (rng.seed), or of the seed and the number
-- of the epoch, which begins with epoch. drop_last leaves out a last batch that is not full. batches.count
-- is how many there are. A loop that was left by break is over: the next one begins at the first batch. state_dict
-- and load_state_dict are for going on in the middle, as checkpoint.save and load do with it.
--   batches = data.batches({x, y}, {batch = 2, shuffle = true, seed = 1})
--   for epoch = 1, 2 do
--     for x, y in batches do print(loss(model, x, y)) end
--   end
function data.batches(tensors, o)
  o = read_batches(o)
  local list, n = rows_of("data.batches", tensors)
  return setmetatable({ tensors = list, rows = n, batch = o.batch, shuffle = o.shuffle, seed = o.seed, epoch = o.epoch,
    drop_last = o.drop_last, at = 0, count = o.drop_last and math.floor(n / o.batch) or math.ceil(n / o.batch) }, Batches)
end

local read_split = options.of("data.random_split", { seed = SEED })

-- random_split(tensors, parts, {seed}): the rows in random order, in parts: shares that add up to 1, or
-- numbers of rows that add up to all. For each part a tensor, or a list where several of equal length
-- were given.
--   training, test = data.random_split({x, y}, {0.5, 0.5}, {seed = 1})
--   x_test, y_test = unpack(test)
function data.random_split(tensors, parts, o)
  o = read_split(o)
  local list, n = rows_of("data.random_split", tensors)
  need("data.random_split", "the parts", options.list(options.number { least = 0 }, nil, 1), parts)
  local sum, sizes = 0, {}
  for _, p in ipairs(parts) do sum = sum + p end
  local shares = math.abs(sum - 1) < 1e-6 and n ~= 1
  if not shares and sum ~= n then
    core.fail(("data.random_split: the parts add up to %g, and have to be 1, or all %d rows"):format(sum, n))
  end
  local left = n
  for i, p in ipairs(parts) do
    sizes[i] = shares and math.floor(n * p + 1e-9) or p
    if sizes[i] % 1 ~= 0 then core.fail(("data.random_split: part %d is %g rows"):format(i, p)) end
    left = left - sizes[i]
  end
  for i = 1, left do sizes[(i - 1) % #sizes + 1] = sizes[(i - 1) % #sizes + 1] + 1 end -- what shares leave over
  local order, at, out = op.permutation(n, o.seed and { seed = o.seed, stream = 0 } or nil), 0, {}
  for k, size in ipairs(sizes) do
    local rows, part = order:narrow(0, at, size), {}
    for i, t in ipairs(list) do part[i] = op.index_select(t, rows:to(t.device), { axis = 0 }) end
    out[k], at = core.is_tensor(tensors) and part[1] or part, at + size
  end
  return unpack(out)
end

-- ---- sequences of unequal length

local read_pad = options.of("data.pad_sequence", { batch_first = FLAG, value = options.number() }, { batch_first = false, value = 0 })

-- pad_sequence(list, {batch_first = false, value = 0}): tensors [steps, ...] of unequal length as one
-- [most steps, batch, ...], or [batch, most steps, ...], with value behind their ends, and their lengths,
-- as nn.LSTM takes them.
--   padded, lengths = data.pad_sequence{op.ones{3, 4}, op.ones{5, 4}}
--   y = nn.LSTM(4, 8)(padded, nil, {lengths = lengths})
function data.pad_sequence(list, o)
  o = read_pad(o)
  options.tensors("data.pad_sequence", "sequence", list)
  if #list == 0 then core.fail "data.pad_sequence: the list of sequences is empty" end
  local most, lengths, rows = 0, {}, {}
  local function rest(t) return table.concat(t.shape, ",", 2) end
  for i, t in ipairs(list) do
    lengths[i] = need_rows("data.pad_sequence", "sequence " .. i, t)
    if rest(t) ~= rest(list[1]) or t.dtype ~= list[1].dtype then
      core.fail(("data.pad_sequence: sequence %d is %s, the first %s: they differ in their lengths alone, axis 0"):format(
        i, core.type_text(t), core.type_text(list[1])))
    end
    most = math.max(most, lengths[i])
  end
  for i, t in ipairs(list) do
    local pads = { 0, most - lengths[i] }
    for _ = 2, t.ndim do pads[#pads + 1], pads[#pads + 2] = 0, 0 end
    rows[i] = lengths[i] < most and op.pad(t, { pads = pads, value = o.value }) or t
  end
  return op.stack(rows, { axis = o.batch_first and 0 or 1 }), core.tensor(lengths, { dtype = "i64" })
end

local read_unpad = options.of("data.unpad_sequence", { batch_first = FLAG }, { batch_first = false })

-- unpad_sequence(padded, lengths, {batch_first = false}): the list that data.pad_sequence was given; lengths are a tensor
-- or a list of whole numbers.
--   padded, lengths = data.pad_sequence{op.ones{3, 4}, op.ones{5, 4}}
--   list = data.unpad_sequence(padded, lengths)
function data.unpad_sequence(padded, lengths, o)
  o = read_unpad(o)
  need("data.unpad_sequence", "padded", options.tensor, padded)
  if padded.ndim < 2 then core.fail(("data.unpad_sequence: padded is %s, without axes of steps and batch"):format(core.type_text(padded))) end
  local steps, batch = padded.shape[o.batch_first and 2 or 1], padded.shape[o.batch_first and 1 or 2]
  local out = {}
  for i, n in ipairs(lengths_of("data.unpad_sequence", "lengths", lengths, batch, steps):totable()) do
    out[i] = padded:select(o.batch_first and 0 or 1, i - 1):narrow(0, 0, n)
  end
  return out
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

-- progress(total, {label, unit = "it", scale = 1, out, terminal}): a bar on a terminal, plain lines now and
-- then in a pipe, on stderr, or out. scale: units of a step; terminal says what out is. bar:clear() stands before what
-- the program prints between.
--   bar = data.progress(steps, {label = "train", unit = "tok"})
--   bar:update(step, {loss = 1.23})
--   bar:clear() print "a line"
--   bar:finish()
function data.progress(total, o)
  o = read_progress(o)
  if total ~= nil then need("data.progress", "total", TOTAL, total) end
  local self = setmetatable({ total = total, label = o.label or "", unit = o.unit,
    scale = o.scale, out = o.out or io.stderr, start = core.now(), shown = 0, at = 0, next_line = 0 }, Progress)
  self.terminal = o.terminal
  if o.terminal == nil then self.terminal = core.is_terminal(2) and os.getenv("TERM") ~= "dumb" end
  return self
end

-- What the program's user says, or the terminal.
local function columns_of(out)
  local known = out == io.stderr and core.columns() or 0
  return tonumber(os.getenv "COLUMNS" or "") or (known > 0 and known or 80)
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
  local room = math.min(self.room or 30, width - #head - #tail - 6) -- what follows may grow; "^C" has room behind it
  if room < 4 then return (head .. tail):sub(1, width - 3) end
  self.room = room
  local full = math.floor(room * math.min(self.at / math.max(self.total, 1), 1))
  return ("%s[%s%s] %s"):format(head, ("="):rep(full), (" "):rep(room - full), tail)
end

-- Makes room for a line of the program's own, which in a pipe stands for the next one.
function Progress:clear()
  if self.terminal then
    io.stdout:flush()
    self.out:write "\r\27[K"
    self.out:flush()
    if self.out == io.stderr then core.open_line(false) end
  else
    self.next_line = self.total and self.at + self.total / 10 or 0
  end
  self.shown = self.terminal and 0 or core.now()
end

-- at: how many steps are done. Costs nothing between two displays.
function Progress:update(at, fields)
  self.at, self.fields = at, fields or self.fields
  local now = core.now()
  if self.terminal then
    if now - self.shown < 0.1 and at ~= self.total then return end
    self.shown = now
    if self.out == io.stderr then core.open_line(true) end
    self.out:write("\r", self:text(now, self.fields, columns_of(self.out)), "\27[K")
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
  if self.out == io.stderr then core.open_line(false) end
  self.out:flush()
end

-- range(n, {label, unit = "it", scale = 1, out, terminal}): counts 0..n-1 with a bar, data.progress.
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

for _, class in ipairs { CharTokenizer, Batches, Progress } do core.keep_line(class, true) end
return require("tessera.named")("tessera.data", data)
