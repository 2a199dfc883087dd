-- Sudoku of any box size, 2 (4 x 4) or 3 (9 x 9): random solved grids, puzzles with one solution dug out of them, batches of
-- puzzles as tensors, and a picture in text. A grid is a list of side * side numbers row by row, 0 where nothing stands.
--
--   local game = sudoku.new(2)
--   local puzzle, solution = game:puzzle { clues = 4 }

local tessera = require "tessera"
local op, bit = tessera.op, require "bit"
local band, bor, bnot, lshift = bit.band, bit.bor, bit.bnot, bit.lshift

local sudoku = {}
local Game = {}
Game.__index = Game

function sudoku.new(box)
  local side = box * box
  local self = setmetatable({ box = box, side = side, cells = side * side, row = {}, column = {}, square = {} }, Game)
  for i = 1, side * side do
    local r, c = math.floor((i - 1) / side), (i - 1) % side
    self.row[i], self.column[i] = r + 1, c + 1
    self.square[i] = math.floor(r / box) * box + math.floor(c / box) + 1
  end
  return self
end

local function shuffled(n)
  local list = {}
  for i = 1, n do list[i] = i end
  for i = n, 2, -1 do
    local k = math.random(i)
    list[i], list[k] = list[k], list[i]
  end
  return list
end

local function bits_in(mask)
  local n = 0
  while mask ~= 0 do mask, n = band(mask, mask - 1), n + 1 end
  return n
end

-- ---- search: the empty cell with the fewest digits first

-- What stands in each row, column and box, as bits; nil where a digit stands twice.
local function used_in(self, grid)
  local rows, columns, squares = {}, {}, {}
  for i = 1, self.side do rows[i], columns[i], squares[i] = 0, 0, 0 end
  for i = 1, self.cells do
    if grid[i] ~= 0 then
      local one, r, c, s = lshift(1, grid[i]), self.row[i], self.column[i], self.square[i]
      if band(bor(rows[r], columns[c], squares[s]), one) ~= 0 then return nil end
      rows[r], columns[c], squares[s] = bor(rows[r], one), bor(columns[c], one), bor(squares[s], one)
    end
  end
  return rows, columns, squares
end

-- Solutions of grid, counted up to limit; the grid then has the last that was found. digits, cells: the orders in which they are tried.
local function count(self, grid, limit, digits, cells)
  local rows, columns, squares = used_in(self, grid)
  if not rows then return 0 end
  local empty, all = {}, lshift(1, self.side + 1) - 2
  for k = 1, self.cells do
    local i = cells and cells[k] or k
    if grid[i] == 0 then empty[#empty + 1] = i end
  end
  local found = 0
  local function search(left)
    if left == 0 then
      found = found + 1
      return found >= limit
    end
    local at, best, fewest = nil, 0, 99
    for k = 1, left do
      local i = empty[k]
      local free = band(all, bnot(bor(rows[self.row[i]], columns[self.column[i]], squares[self.square[i]])))
      local n = bits_in(free)
      if n < fewest then
        at, best, fewest = k, free, n
        if n < 2 then break end
      end
    end
    if fewest == 0 then return false end
    local i = empty[at]
    empty[at], empty[left] = empty[left], i
    local r, c, s = self.row[i], self.column[i], self.square[i]
    for k = 1, self.side do
      local one = lshift(1, digits[k])
      if band(best, one) ~= 0 then
        grid[i] = digits[k]
        rows[r], columns[c], squares[s] = bor(rows[r], one), bor(columns[c], one), bor(squares[s], one)
        local enough = search(left - 1)
        rows[r], columns[c], squares[s] = bit.bxor(rows[r], one), bit.bxor(columns[c], one), bit.bxor(squares[s], one)
        if enough then return true end
      end
    end
    grid[i] = 0
    empty[at], empty[left] = i, empty[at]
    return false
  end
  search(#empty)
  return found
end

--- A random solved grid.
function Game:solved()
  local grid = shuffled(self.side)
  for i = self.side + 1, self.cells do grid[i] = 0 end
  count(self, grid, 1, shuffled(self.side), shuffled(self.cells))
  return grid
end

--- How many solutions a grid has, counted up to two.
function Game:solutions(grid)
  local digits = {}
  for i = 1, self.side do digits[i] = i end
  return count(self, { unpack(grid) }, 2, digits)
end

--- A random puzzle with one solution, and that solution. clues: cells are emptied, in random order, until so few are left, or none can
--- be emptied without a second solution. accept(solution): whether a solution may be used; others are drawn again.
function Game:puzzle(o)
  local solution = self:solved()
  while o.accept and not o.accept(solution) do solution = self:solved() end
  local grid, left = { unpack(solution) }, self.cells
  for _, i in ipairs(shuffled(self.cells)) do
    if left <= (o.clues or 0) then break end
    grid[i] = 0
    if self:solutions(grid) == 1 then left = left - 1 else grid[i] = solution[i] end
  end
  return grid, solution
end

--- Whether a grid is full and right.
function Game:is_solved(grid)
  for i = 1, self.cells do
    if grid[i] == 0 then return false end
  end
  return used_in(self, grid) ~= nil
end

-- ---- batches

-- For each of n puzzles an order of rows (or columns) that keeps bands together, i64[n, side].
local function orders(self, n, device)
  local bands = op.argsort(op.uniform({ n, self.box, 1 }, { device = device }), { axis = 1 })
  local within = op.argsort(op.uniform({ n, self.box, self.box }, { device = device }), { axis = 2 })
  return (bands * self.box + within):reshape(n, self.side)
end

--- Each puzzle as another one, equally hard: digits renamed, bands and rows in them, stacks and columns in them in another order, half of
--- them with rows for columns. Draws from the program's random numbers, on the tensors' device.
function Game:vary(puzzles, solutions)
  local n, side, device = puzzles.shape[1], self.side, puzzles.device
  local rows = orders(self, n, device):unsqueeze(2):expand(n, side, side)
  local columns = orders(self, n, device):unsqueeze(1):expand(n, side, side)
  local turn = op.uniform({ n, 1, 1 }, { device = device }):lt(0.5)
  local names = op.argsort(op.uniform({ n, side }, { device = device }), { axis = 1 }) + 1
  names = op.pad(names, { 1, 0 }) -- nothing stays nothing
  local function varied(grids)
    local g = grids:reshape(n, side, side):gather(rows, { axis = 1 }):gather(columns, { axis = 2 })
    g = op.where(turn, g:transpose(1, 2), g)
    return names:gather(g:reshape(n, self.cells), { axis = 1 })
  end
  return varied(puzzles), varied(solutions)
end

-- ---- a picture

--- Lines of text: the grids side by side, boxes apart, "." where nothing stands; marks[i]: a list of what stands behind each cell.
function Game:draw(grids, marks)
  local lines = {}
  for r = 1, self.side do
    local parts = {}
    for k, grid in ipairs(grids) do
      local line = {}
      for c = 1, self.side do
        local i = (r - 1) * self.side + c
        line[#line + 1] = (grid[i] == 0 and "." or tostring(grid[i])) .. (marks and marks[k] and marks[k][i] or " ")
        if c % self.box == 0 and c < self.side then line[#line + 1] = " " end
      end
      parts[k] = table.concat(line)
    end
    lines[#lines + 1] = "  " .. table.concat(parts, "    ")
    if r % self.box == 0 and r < self.side then lines[#lines + 1] = "" end
  end
  return table.concat(lines, "\n")
end

return sudoku
