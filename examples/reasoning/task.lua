-- Sudoku as a task for models that reason: puzzles to learn and to be tested by, and how a model does. No solved
-- grid of the test is ever learned (4 x 4: of its 288 grids one in nine is kept for the test).

local tessera = require "tessera"
local op, dist, rng = tessera.op, tessera.dist, tessera.rng
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

return task
