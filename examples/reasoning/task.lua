-- Sudoku as a task for models that reason: puzzles to learn and to be tested by, and how a model does. No solved
-- grid of the test is ever learned (4 x 4: of its 288 grids one in nine is kept for the test).

local tessera = require "tessera"
local dist, rng, data, optim = tessera.dist, tessera.rng, tessera.data, tessera.optim
local sudoku = require "sudoku"
local supervision = require "supervision"

local task = {}

-- Whether a solved grid is for the test: one in nine, by all of its digits.
local function is_kept(grid)
  local h = 0
  for i = 1, #grid do h = (h * 31 + grid[i]) % 65521 end
  return h % 9 == 0
end

--- o: box, clues, most, batch, test, pool, seed, device. Gives the game, fresh() -> puzzles, answers to learn, i64[batch, cells] each, of
--- `clues` clues (or as many as it takes for one solution) to `most`, and the test's puzzles and answers. pool: so many puzzles are made
--- beforehand, and each time others that are as hard; or 0: puzzles are made when they are asked for.
function task.puzzles(o)
  local game = sudoku.new(o.box)
  math.randomseed(o.seed)
  local function learned(grid) return not is_kept(grid) end
  local function made(n, accept)
    local puzzles, answers = {}, {}
    for i = 1, n do puzzles[i], answers[i] = game:puzzle { clues = math.random(o.clues, o.most), accept = accept } end
    return tessera.tensor(puzzles, { dtype = "i64" }):to(o.device), tessera.tensor(answers, { dtype = "i64" }):to(o.device)
  end
  local tests, answers = made(o.test, is_kept)
  local fresh = function() return made(o.batch, learned) end
  if o.pool > 0 then
    local puzzles, solutions = made(o.pool, learned)
    fresh = function()
      local index = rng.randint({ o.batch }, { low = 0, high = o.pool, device = o.device })
      return game:vary(puzzles:index_select(index, { axis = 0 }), solutions:index_select(index, { axis = 0 }))
    end
  end
  return game, fresh, tests, answers
end

--- A mesh of n devices along "dp", or nil for 0 and 1; where there are fewer, the CPU stands for all. From 1 on sums are cut into 8, so
-- that their bits are the same for each n.
function task.mesh(n)
  if n > 0 then dist.leaves(8) end
  if n <= 1 then return nil end
  local count, devices = #tessera.core.devices(), {}
  for i = 1, n do devices[i] = count >= n and dist.range(i - 1, i)[1] or "cpu:0" end
  return dist.Mesh { axes = { "dp" }, devices = devices }
end

-- "!" behind cells of a grid that are not those of the answer.
local function wrong(grid, answer)
  local marks = {}
  for i, d in ipairs(grid) do marks[i] = d ~= answer[i] and "!" or nil end
  return marks
end

--- How a model does on the test, as text: the part that is solved, how many segments puzzles took, and one puzzle that took the most, with
--- what the model thinks of it behind the first segment and in the end. Also the part.
function task.report(game, model, segments, puzzles, answers)
  local part, mean, digits, steps = supervision.tested(supervision.solver(model, segments), puzzles, answers)
  local first = tessera.no_grad(supervision.solver(model, 1), puzzles)
  local lines = { ("%.1f%% of %d puzzles of the test are solved, in %.1f segments on average"):format(100 * part, puzzles.shape[1], mean) }
  local counts, at, most = {}, 1, 0
  for i, n in ipairs(steps:totable()) do
    counts[n] = (counts[n] or 0) + 1
    if n > most then at, most = i, n end
  end
  for n = 1, segments do
    local bar = ("#"):rep(math.ceil((counts[n] or 0) * 50 / puzzles.shape[1]))
    if counts[n] then lines[#lines + 1] = ("  %2d segments %s %d"):format(n, bar, counts[n]) end
  end
  local puzzle, answer = puzzles[at - 1]:totable(), answers[at - 1]:totable()
  local early, late = first[at - 1]:totable(), digits[at - 1]:totable()
  lines[#lines + 1] = ("a puzzle, behind 1 segment, behind %d (! is wrong)"):format(most)
  lines[#lines + 1] = game:draw({ puzzle, early, late }, { {}, wrong(early, answer), wrong(late, answer) })
  lines[#lines + 1] = game:is_solved(late) and "rows, columns and boxes have each digit once" or "rows, columns or boxes have a digit twice"
  return table.concat(lines, "\n"), part
end

-- ---- the whole: what examples/hrm.lua and examples/trm.lua do with their models

--- Learns and tests a model of class Model with the options o of the examples, prints how it does, and gives its state. With o.ema what is
--- tested, and remains, is the average of weights over the steps. Behind `enough` steps of size laptop 95 in 100 puzzles must be solved.
function task.run(o, Model, enough)
  io.stdout:setvbuf "line"
  assert(o.clues <= o.most and o.most <= o.box ^ 4, ("--clues to --most are %d to %d of %d cells"):format(o.clues, o.most, o.box ^ 4))
  assert(o.target <= 1, ("--target %g is the part of the test at which training ends, 1 at most"):format(o.target))
  rng.seed(o.seed)
  local game, fresh, tests, answers = task.puzzles(o)
  local model = tessera.no_grad(Model)
  if o.device ~= "cpu" then model:to(o.device) end
  local mesh = task.mesh(o.dp)
  if mesh then dist.shard_module(model, mesh, {}) end
  local optimizer = optim.AdamAtan2(model:parameters(), { lr = o.rate, betas = { 0.9, 0.95 }, weight_decay = o.decay })
  local ema = o.ema and optim.EMA(model:parameters(), o.ema)
  local train = supervision.trainer(model, optimizer, { batch = o.batch, cells = game.cells, segments = o.segments, explore = o.explore,
    device = o.device, mesh = mesh, ema = ema,
    schedule = optim.schedule.cosine { lr = o.rate, final = o.rate * o.final, warmup = o.warmup, steps = math.max(1, o.steps) } })
  local solve = supervision.solver(model, o.longest)
  local function tested()
    if ema then return ema:with(supervision.tested, solve, tests, answers) end
    return supervision.tested(solve, tests, answers)
  end

  print(("%d parameters, %d steps of %d puzzles, %d x %d"):format(model:num_parameters(), o.steps, o.batch, game.side, game.side))
  local bar, right = data.progress(o.steps, { label = "train", unit = "puzzle", scale = o.batch })
  for i = 1, o.steps do
    local loss = train(fresh())
    bar:update(i, { loss = loss })
    if i % o.every == 0 then
      local part, segments = tested()
      local told
      told, right = train.told()
      bar:clear()
      print(("step %5d  loss %.4f  %s  test: %5.1f%% in %.1f segments"):format(i, loss:item(), told, 100 * part, segments))
      if part >= o.target then break end
    end
  end
  bar:finish()

  if ema then ema:copy() end
  local text, part = task.report(game, model, o.longest, tests, answers)
  print(text)
  if o.box == 2 and o.steps >= 100 and right then assert(right > 0.4, "it has learned too little") end
  if o.size == "laptop" and o.steps >= enough then assert(part >= 0.95, "it solves too few puzzles") end
  return model:state_dict()
end

return task
