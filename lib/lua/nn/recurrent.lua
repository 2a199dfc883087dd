-- Recurrent layers and their cells: RNN, LSTM, GRU. Parameters have PyTorch's names, order of gates
-- and shapes, so that states of its models load. The products of all steps with their inputs are one
-- matmul; op.scan walks over the rest, so that a captured function has one loop for a layer.

local core = require "tessera.core"
local lengths_of = require "tessera.nn.lengths"
local Module = require "tessera.module"
local options = require "tessera.options"
local op, rng = core.op, core.op

local recurrent = {}

local FLAG, DTYPE, need = options.flag, options.dtype, options.argument
local SIZE, COUNT = options.whole { least = 1 }, options.whole { least = 1 }
local SHARE, KIND = options.number { least = 0, most = 1 }, options.one_of("tanh", "relu")

-- ---- one step: step(state, x, hidden product) of what each kind has
--
-- gates: how many products a step has. step(w, x, state): the next state, of which the first tensor
-- is the output; x holds the step's input product with both biases, but for what a bias may not be
-- added to before: the hidden part of the GRU's candidate is scaled by a gate.

local function part(x, i, n) return x:narrow(-1, i * n, n) end

local kinds = {}

kinds.RNN = { gates = 1, states = { "h" } }
function kinds.RNN.step(w, x, h)
  local a = x + op.linear(h, w.hidden)
  return w.relu and op.relu(a) or op.tanh(a)
end

kinds.LSTM = { gates = 4, states = { "h", "c" } }
function kinds.LSTM.step(w, x, h, c)
  local _, h1, c1 = op.lstm(x:unsqueeze(0), w.hidden, h, c)
  return h1, c1
end

kinds.GRU = { gates = 3, states = { "h" }, apart = true }
function kinds.GRU.step(w, x, h)
  local a, n = op.linear(h, w.hidden, w.bias), w.size
  local r = op.sigmoid(part(x, 0, n) + part(a, 0, n))
  local z = op.sigmoid(part(x, 1, n) + part(a, 1, n))
  local c = op.tanh(part(x, 2, n) + r * part(a, 2, n))
  return (h - c) * z + c
end

-- Weights as step has them, and the product of all inputs.
local function weights(self, kind, ih, hh, bih, bhh)
  return { input = ih, hidden = hh, size = self.hidden, relu = self.activation == "relu",
    input_bias = bih and not kind.apart and bih + bhh or bih, bias = kind.apart and bhh or nil }
end

local function make_weights(self, kind, inputs, suffix, bias, dtype)
  local bound, rows = 1 / math.sqrt(self.hidden), kind.gates * self.hidden
  local function drawn(shape) return rng.uniform(shape, { low = -bound, high = bound, dtype = dtype }) end
  self["weight_ih" .. suffix] = drawn { rows, inputs }
  self["weight_hh" .. suffix] = drawn { rows, self.hidden }
  if not bias then return end
  self["bias_ih" .. suffix], self["bias_hh" .. suffix] = drawn { rows }, drawn { rows }
end

local function weights_of(self, kind, suffix)
  return weights(self, kind, self["weight_ih" .. suffix], self["weight_hh" .. suffix], self["bias_ih" .. suffix],
    self["bias_hh" .. suffix])
end

-- ---- states: a tensor, or a table of as many as the kind has

-- The tensors of a state of the given shape, zeros where none is given.
local function read_state(name, kind, given, shape, like)
  local list = {}
  if given ~= nil and #kind.states > 1 then
    need(name, "the state", options.list(options.tensor, #kind.states), given)
    for i = 1, #kind.states do list[i] = given[i] end
  elseif given ~= nil then
    list[1] = need(name, "the state", options.tensor, given)
  end
  for i, word in ipairs(kind.states) do
    local t = list[i]
    if not t then
      list[i] = op.zeros(shape, { dtype = like.dtype, device = like.device })
    elseif table.concat(t.shape, ",") ~= table.concat(shape, ",") then
      core.fail(("%s: the state %s is %s, and has to be [%s]"):format(name, word, core.type_text(t), table.concat(shape, ",")))
    end
  end
  return list
end

local function need_input(name, x, ranks, width, what)
  need(name, "the input", options.tensor, x)
  if (x.ndim == ranks or x.ndim == ranks - 1) and x.shape[x.ndim] == width then return end
  core.fail(("%s: the input is %s, and has to be %s of %d inputs"):format(name, core.type_text(x), what, width))
end

-- ---- layers

-- Whether a step is one of its sequence: [S, B, 1], of lengths [B].
local read_calls = {}
local function steps_of(name, given, steps, batch, single, device)
  read_calls[name] = read_calls[name] or options.of(name, { lengths = options.any })
  local lengths = read_calls[name](given).lengths
  if not lengths then return nil end
  if single then core.fail(name .. ": lengths are of a batch, and the input has none") end
  lengths = lengths_of(name, "lengths", lengths, batch, steps):to(device)
  return op.arange(steps, { device = lengths.device }):unsqueeze(1):lt(lengths:unsqueeze(0)):unsqueeze(-1)
end

-- The steps of an LSTM that run at once are one call, of so many steps at most.
local TOGETHER = core.lstm_steps

local function run_lstm(w, x, first, reverse)
  local steps, h, c, parts = x.shape[1], first[1], first[2], {}
  local count = math.ceil(steps / TOGETHER)
  for i = 1, count do
    local at = (reverse and count - i or i - 1) * TOGETHER
    local part = count == 1 and x or x:narrow(0, at, math.min(TOGETHER, steps - at))
    parts[at / TOGETHER + 1], h, c = op.lstm(part, w.hidden, h, c, { reverse = reverse })
  end
  return count == 1 and parts[1] or op.concat(parts), { h, c }
end

-- One direction of one layer: x [S, B, E] and its first state; the outputs [S, B, H], and the last state.
-- Steps that are none of a sequence keep the state, and give zeros.
local function run(kind, w, x, first, reverse, real)
  local product = op.linear(x, w.input, w.input_bias)
  if real then
    local last, y = op.scan(function(state, at)
      local h, c = kind.step(w, at[1], state[1], state[2])
      return { op.where(at[2], h, state[1]), c and op.where(at[2], c, state[2]) }, op.where(at[2], h, h * 0)
    end, first, { product, real }, { reverse = reverse })
    return y, last
  end
  if kind == kinds.LSTM and product.numel > 0 and not core.capturing() then return run_lstm(w, product, first, reverse) end
  local last, y = op.scan(function(state, p)
    local h, c = kind.step(w, p, state[1], state[2])
    return { h, c }, h
  end, first, product, { reverse = reverse })
  return y, last
end

local function forward(self, kind, x, given, call)
  local name = self.class
  need_input(name, x, 3, self.inputs, self.batch_first and "[batch, steps, inputs] or [steps, inputs]"
    or "[steps, batch, inputs] or [steps, inputs]")
  local single = x.ndim == 2
  local turned = self.batch_first and not single
  if single then x = x:unsqueeze(1) end
  if turned then x = x:permute(1, 0, 2) end
  local ways, batch = self.bidirectional and 2 or 1, x.shape[2]
  local shape = single and { self.layers * ways, self.hidden } or { self.layers * ways, batch, self.hidden }
  local real = steps_of(name, call, x.shape[1], batch, single, x.device)
  local states, last = read_state(name, kind, given, shape, x), {}
  for i in ipairs(states) do
    if single then states[i] = states[i]:unsqueeze(1) end
    last[i] = {}
  end
  for layer = 0, self.layers - 1 do
    local outs = {}
    for way = 0, ways - 1 do
      local first, at = {}, layer * ways + way
      for i, s in ipairs(states) do first[i] = s:select(0, at) end
      local w = weights_of(self, kind, ("_l%d%s"):format(layer, way == 1 and "_reverse" or ""))
      local y, ends = run(kind, w, x, first, way == 1, real)
      outs[way + 1] = y
      for i = 1, #states do last[i][at + 1] = ends[i] end
    end
    x = ways == 1 and outs[1] or op.concat(outs, { axis = -1 })
    if self.dropout > 0 and self.training and layer < self.layers - 1 then x = op.dropout(x, { p = self.dropout }) end
  end
  for i in ipairs(states) do
    last[i] = op.stack(last[i], { axis = 0 })
    if single then last[i] = last[i]:squeeze(1) end
  end
  if single then x = x:squeeze(1) end
  if turned then x = x:permute(1, 0, 2) end
  return x, #last == 1 and last[1] or last
end

local layer_kinds = { layers = COUNT, bias = FLAG, batch_first = FLAG, dropout = SHARE, bidirectional = FLAG, dtype = DTYPE }
local layer_defaults = { layers = 1, bias = true, batch_first = false, dropout = 0, bidirectional = false }
local places = { "layers", "bias", "batch_first", "dropout", "bidirectional" }
local rnn_places = { "layers", "activation", unpack(places, 2) }

local function with_activation(of, v)
  local more = { activation = v }
  for name, k in pairs(of) do more[name] = k end
  return more
end

local function init_layer(self, kind, o, inputs, hidden)
  local name = self.class
  self.inputs, self.hidden = need(name, "inputs", SIZE, inputs), need(name, "hidden", SIZE, hidden)
  self._told = options.told(name, o, "inputs", inputs, "hidden", hidden)
  self.layers, self.dropout = o.layers, o.dropout
  self.batch_first, self.bidirectional, self.activation = o.batch_first, o.bidirectional, o.activation
  local ways = self.bidirectional and 2 or 1
  for layer = 0, self.layers - 1 do
    for way = 1, ways do
      make_weights(self, kind, layer == 0 and inputs or hidden * ways, ("_l%d%s"):format(layer, way == 2 and "_reverse" or ""),
        o.bias, o.dtype)
    end
  end
end

local RNN = Module:extend "RNN"
local read_rnn = options.placed("RNN", with_activation(layer_kinds, KIND), with_activation(layer_defaults, "tanh"), rnn_places)

-- RNN(inputs, hidden, {layers = 1, activation = "tanh", bias = true, batch_first = false, dropout = 0,
-- bidirectional = false, dtype}): h = tanh(W x + b + U h + c), or relu. rnn(x, h) gives all outputs and
-- the last state; x, the state, and what comes back are as in ? nn.LSTM, but that there is no c.
--   y, h = nn.RNN(8, 16)(rng.normal{5, 3, 8})      -- f32[5,3,16], f32[1,3,16]
function RNN:init(inputs, hidden, ...) init_layer(self, kinds.RNN, read_rnn(...), inputs, hidden) end
function RNN:forward(x, h, o) return forward(self, kinds.RNN, x, h, o) end

local LSTM = Module:extend "LSTM"
local read_lstm = options.placed("LSTM", layer_kinds, layer_defaults, places)

-- LSTM(inputs, hidden, {layers = 1, bias = true, batch_first = false, dropout = 0, bidirectional = false,
-- dtype}): long short-term memory, as PyTorch computes it and with its names of parameters.
-- y, state = lstm(x, state): x [steps, batch, inputs], [batch, steps, inputs] if batch_first, or
-- [steps, inputs]; y the same with hidden numbers at the end, 2 hidden if bidirectional. The state is
-- {h, c}, both [layers, batch, hidden] ([2 layers, ..] if bidirectional: forward and backward of the
-- first layer, of the second ..), zeros if it is not given. Dropout acts between layers, while training.
-- lstm(x, state, {lengths = l}), l a whole number for each of the batch, a list or a tensor: sequences end there, as packed
-- ones do in PyTorch: outputs behind are 0, states are those at the end, and backward begins there.
--   lstm = nn.LSTM(8, 16, {layers = 2})
--   y, state = lstm(rng.normal{5, 3, 8})        -- f32[5,3,16]
--   y, state = lstm(rng.normal{5, 3, 8}, state) -- goes on from there
--   y, state = lstm(rng.normal{5, 3, 8}, nil, {lengths = {5, 3, 4}})
function LSTM:init(inputs, hidden, ...) init_layer(self, kinds.LSTM, read_lstm(...), inputs, hidden) end
function LSTM:forward(x, state, o) return forward(self, kinds.LSTM, x, state, o) end

local GRU = Module:extend "GRU"
local read_gru = options.placed("GRU", layer_kinds, layer_defaults, places)

-- GRU(inputs, hidden, {layers = 1, bias = true, batch_first = false, dropout = 0, bidirectional = false,
-- dtype}): gated recurrent units, as PyTorch computes them and with its names of parameters.
-- y, h = gru(x, h); x, the state and what comes back are as in ? nn.LSTM, but that there is no c.
--   y, h = nn.GRU(8, 16)(rng.normal{5, 3, 8})      -- f32[5,3,16], f32[1,3,16]
function GRU:init(inputs, hidden, ...) init_layer(self, kinds.GRU, read_gru(...), inputs, hidden) end
function GRU:forward(x, h, o) return forward(self, kinds.GRU, x, h, o) end

-- ---- cells: one step

local cell_kinds = { bias = FLAG, dtype = DTYPE }

local function init_cell(self, kind, o, inputs, hidden)
  self.inputs, self.hidden = need(self.class, "inputs", SIZE, inputs), need(self.class, "hidden", SIZE, hidden)
  self._told = options.told(self.class, o, "inputs", inputs, "hidden", hidden)
  self.activation = o.activation
  make_weights(self, kind, inputs, "", o.bias, o.dtype)
end

local function cell_forward(self, kind, x, given)
  need_input(self.class, x, 2, self.inputs, "[batch, inputs] or [inputs]")
  local shape = x.ndim == 1 and { self.hidden } or { x.shape[1], self.hidden }
  local w, s = weights_of(self, kind, ""), read_state(self.class, kind, given, shape, x)
  local single = x.ndim == 1
  if single then
    x = x:unsqueeze(0)
    for i, t in ipairs(s) do s[i] = t:unsqueeze(0) end
  end
  local h, c = kind.step(w, op.linear(x, w.input, w.input_bias), s[1], s[2])
  if single then h, c = h:squeeze(0), c and c:squeeze(0) end
  return h, c
end

local RNNCell = Module:extend "RNNCell"
local read_rnncell = options.placed("RNNCell", with_activation(cell_kinds, KIND), { bias = true, activation = "tanh" }, { "bias", "activation" })

-- RNNCell(inputs, hidden, {bias = true, activation = "tanh", dtype}): one step of ? nn.RNN.
-- h = cell(x, h): x [batch, inputs] or [inputs]; zeros if there is no h.
--   h = nn.RNNCell(8, 16)(rng.normal{3, 8})      -- f32[3,16]
function RNNCell:init(inputs, hidden, ...) init_cell(self, kinds.RNN, read_rnncell(...), inputs, hidden) end
function RNNCell:forward(x, h) return cell_forward(self, kinds.RNN, x, h) end

local LSTMCell = Module:extend "LSTMCell"
local read_lstmcell = options.placed("LSTMCell", cell_kinds, { bias = true }, { "bias" })

-- LSTMCell(inputs, hidden, {bias = true, dtype}): one step of ? nn.LSTM.
-- h, c = cell(x, {h, c}): x [batch, inputs] or [inputs]; zeros if there is no state.
--   h, c = nn.LSTMCell(8, 16)(rng.normal{3, 8})      -- f32[3,16], f32[3,16]
function LSTMCell:init(inputs, hidden, ...) init_cell(self, kinds.LSTM, read_lstmcell(...), inputs, hidden) end
function LSTMCell:forward(x, state) return cell_forward(self, kinds.LSTM, x, state) end

local GRUCell = Module:extend "GRUCell"
local read_grucell = options.placed("GRUCell", cell_kinds, { bias = true }, { "bias" })

-- GRUCell(inputs, hidden, {bias = true, dtype}): one step of ? nn.GRU.
-- h = cell(x, h): x [batch, inputs] or [inputs]; zeros if there is no h.
--   h = nn.GRUCell(8, 16)(rng.normal{3, 8})      -- f32[3,16]
function GRUCell:init(inputs, hidden, ...) init_cell(self, kinds.GRU, read_grucell(...), inputs, hidden) end
function GRUCell:forward(x, h) return cell_forward(self, kinds.GRU, x, h) end

for _, class in ipairs { RNN, LSTM, GRU, RNNCell, LSTMCell, GRUCell } do recurrent[class.class] = class end

return recurrent
