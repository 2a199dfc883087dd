-- Recurrent layers beside PyTorch's: values, gradients, states, names of parameters.
local tessera = require "tessera"
local op, nn, rng, graph = tessera.op, tessera.nn, tessera.rng, tessera.graph
local layers = dofile "tests/lua/_layers.lua"

local function with_state(m, x, ...)
  local state = { ... }
  return m(x, #state > 1 and state or state[1])
end
layers.check("rnn", nn.RNN(3, 4))
layers.check("rnn_relu", nn.RNN(3, 4, { layers = 2, activation = "relu", bias = false }), with_state)
layers.check("lstm", nn.LSTM(3, 4))
layers.check("lstm_wide", nn.LSTM(3, 4, 2, { batch_first = true, bidirectional = true }), with_state)
layers.check("lstm_single", nn.LSTM(3, 4, 1, false), with_state)
layers.check("gru", nn.GRU(3, 4))
layers.check("gru_wide", nn.GRU(3, 4, { layers = 2, bidirectional = true }), with_state)
layers.check("gru_single", nn.GRU(3, 4, { bias = false }))
layers.check("rnn_cell", nn.RNNCell(3, 4))
layers.check("lstm_cell", nn.LSTMCell(3, 4), with_state)
layers.check("gru_cell", nn.GRUCell(3, 4))

-- One loop for each layer and direction in a captured function, the products of inputs outside of it.
local lstm = nn.LSTM(3, 4, { layers = 2, bidirectional = true })
local f = graph.module("f", function(x) return lstm(x) end)
f(rng.normal { 6, 2, 3 })
local text = f:ir()
select(2, text:gsub("= scan", "")) --> 4
select(2, text:gsub("\n  %%%d+ = matmul", "")) --> 4

-- Dropout between layers, while training alone; the last state goes on where the first call ended.
local gru = nn.GRU(3, 4, { layers = 2, dropout = 0.5 })
local x = rng.normal { 6, 2, 3 }
gru(x):hash() == gru(x):hash() --> false
gru:eval()
local whole, last = gru(x)
local first, h = gru(x["0:2"])
local second, h = gru(x["2:"], h)
op.concat({ first, second }, { axis = 0 }):hash() == whole:hash() --> true
h:hash() == last:hash() --> true
tostring(gru) --> GRU(inputs = 3, hidden = 4, layers = 2, bias = true, dropout = 0.5)

-- A training step has the bits of the eager loop.
local function trained(eager)
  tessera.core.seed(3)
  local model, head = nn.LSTM(3, 8), nn.Linear(8, 1)
  local both = nn.List { model, head }
  local function loss(m, x, y) return op.mse(m[2]((select(1, m[1](x)))), y) end
  local opt = tessera.optim.Adam(both:parameters(), { lr = 0.01 })
  graph.eager = eager
  local step = graph.training_step(both, loss, opt)
  local x = rng.normal({ 7, 4, 3 }, { seed = 1, stream = 1 })
  for _ = 1, 4 do step(x, x:sum { axis = 2, keepdims = true }) end
  graph.eager = false
  return model.weight_hh_l0:hash() .. head.weight:hash()
end
trained(true) == trained(false) --> true

-- What is wrong is said.
lstm(rng.normal { 6, 2, 5 }) --! LSTM: the input is f32[6,2,5], and has to be [steps, batch, inputs] or [steps, inputs] of 3 inputs
lstm(x, op.zeros { 4, 2, 4 }) --! LSTM: the state must be a list of 2 tensors, not a tensor
lstm(x, { op.zeros { 4, 2, 4 }, op.zeros { 2, 2, 4 } }) --! LSTM: the state c is f32[2,2,4], and has to be [4,2,4]
nn.LSTM(3, 4, { num_layers = 2 }) --! LSTM: unknown option 'num_layers'
nn.LSTM(3, 4, 2, true, { layers = 3 }) --! LSTM: option 'layers' stands twice
nn.GRU(3, 4, 1, true, false, 0, false, 1) --! GRU: too many arguments; by place are layers, bias, batch_first, dropout, bidirectional
nn.RNN(3, 0) --! RNN: hidden must be a whole number >= 1, not 0

-- Sequences of unequal length end where they end, as packed ones do.
layers.check("rnn_packed", nn.RNN(3, 4), function(m, x, l) return m(x, nil, { lengths = l }) end)
layers.check("gru_packed", nn.GRU(3, 4, 2, true, true, 0, true), function(m, x, l, h) return m(x, h, { lengths = l }) end)
layers.check("lstm_packed", nn.LSTM(3, 4, 2, { bidirectional = true }), function(m, x, l, h, c) return m(x, { h, c }, { lengths = l }) end)
local data = tessera.data
layers.check("pad_sequence", nil, function(_, ...) return (data.pad_sequence({ ... }, { value = 0.5 })) end)
layers.check("pad_sequence_first", nil, function(_, ...) return (data.pad_sequence({ ... }, { batch_first = true })) end)
local padded, lengths = data.pad_sequence { op.ones { 3, 4 }, op.ones { 5, 4 } }
lengths --> [3 5]
--> i64[2]
local list = data.unpad_sequence(padded, lengths)
list[1].shape, list[2].shape --> {3, 4}, {5, 4}
nn.LSTM(4, 2)(padded, nil, { lengths = op.arange(3) }) --! LSTM: lengths is i64[3], and has to be 2 whole numbers, a list or a tensor
nn.LSTM(4, 2)(padded, nil, { length = lengths }) --! LSTM: unknown option 'length'
