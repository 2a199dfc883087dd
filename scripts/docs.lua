-- Writes the operator reference from the operator table, the help derived from it,
-- and the measured accuracy.
--   bin/tessera scripts/docs.lua [FILE [ACCURACY...]]
-- FILE: docs/operators.md, or - for the standard output. ACCURACY: files of rows
-- "operator dtype ulp [at input]" beside tests/elem/ulp.txt.
local core = require "tessera.core"

local families = {
  pointwise = { "Pointwise operators",
    "One element of the result from one element of each input; shapes broadcast as in NumPy." },
  create = { "Creation", "Tensors from numbers, shapes and options." },
  random = { "Random numbers",
    "Counter-based: the seed and the stream say which numbers come, on every machine." },
  shape = { "Shapes and indices", "Views where strides allow it, and rearrangements." },
  reduce = { "Reductions", "Reductions and scans in the canonical order; sorting." },
  linalg = { "Linear algebra", "Products and factorisations; leading axes are a batch." },
  nn = { "Layers", "What neural networks are made of." },
  gradient = { "Gradients", "First derivatives of layers and losses, as operators of their own." },
  moe = { "Mixtures of experts", "Which experts a token goes to, its rows in their order, and back; their products are grouped_matmul's." },
  sparse = { "Sparse products", "Of matrices whose entries alone are given: by rows (CSR), as a list (COO), or as blocks (BSR)." },
  scales = { "Scales", "Numbers of few bits with scales beside them: of a tensor, of rows, of blocks, of groups." },
  loss = { "Losses", "Distances between predictions and targets." },
  spectral = { "Spectral operators", "Fourier transforms and what rests on them." },
  differential = { "Differential operators", "Differences on regular grids." },
  optim = { "Optimiser steps", "One step of an optimiser, as a function of the old state." },
}

local classes = {
  { "pointwise", "one element from one element of each input, in blocks" },
  { "reduce", "folds axes in the canonical order, which depends on lengths alone" },
  { "scan", "running results along one axis" },
  { "view", "shares the storage of its input where strides allow it" },
  { "kernel", "a function of its own" },
  { "random", "numbers from a counter-based generator" },
  { "compose", "defined by other operators; every step rounds to the storage type" },
}

-- ---- accuracy: operator -> list of {dtype, error, input}
local function read_accuracy(path, into)
  local file = assert(io.open(path))
  for line in file:lines() do
    local name, dtype, ulp, rest = line:match("^([%w_]+)%s+([%w_]+)%s+(%S+)%s*(.-)%s*$")
    if name and tonumber(ulp) and dtype ~= "exact" then
      into[name] = into[name] or {}
      table.insert(into[name], { dtype = dtype, ulp = ulp, where = rest:match("^at%s+(.*)$") })
    end
  end
  file:close()
end

local function accuracy_text(rows)
  local parts, exact = {}, true
  for _, row in ipairs(rows) do
    exact = exact and tonumber(row.ulp) == 0
    parts[#parts + 1] = ("%s %s ulp%s"):format(row.dtype, row.ulp,
      row.where and " at `" .. row.where .. "`" or "")
  end
  return exact and "exact" or table.concat(parts, "; ")
end

-- ---- the prompt's help as fields: {signature, text, inputs = {..}, returns = {..}, ...}
local function read_help(name)
  local fields, heading = {}, nil
  for line in core.help(name, 10000):gmatch("[^\n]+") do
    if not fields.signature then
      fields.signature = line
    elseif not fields.text then
      fields.text = line:match("^%s*(.-)%s*$")
    else
      local word, rest = line:match("^  (%l+)%s+(.-)%s*$")
      if word then
        heading = word
        fields[word] = {}
      else
        rest = line:match("^%s*(.-)%s*$")
      end
      table.insert(fields[heading], rest)
    end
  end
  return fields
end

-- Characters that Markdown would take for marks.
local function plain(text)
  text = text:gsub("`", "\\`"):gsub("<(%a)", "\\<%1"):gsub("%]%(", "]\\(")
  return (text:gsub("%f[%*]%*(%S)", "\\*%1"))
end

-- "true or false = false" as "true or false, default false"
local function option_text(text)
  return (text:gsub(" = ", ", default "):gsub('" | "', '" or "'))
end

local function named_list(lines)
  local out = {}
  for _, line in ipairs(lines) do
    local name, rest = line:match("^(%S+)%s+(.*)$")
    out[#out + 1] = ("`%s` %s"):format(name, plain(rest))
  end
  return table.concat(out, "; ")
end

-- Where a heading is found.
local function anchor(heading)
  return (heading:lower():gsub(" ", "-"))
end

local function title(family)
  return families[family] and families[family][1] or family
end

-- ---- Markdown
local out = {}
local function put(...) out[#out + 1] = (...):format(select(2, ...)) end

local function put_operator(row, accuracy)
  local help = read_help(row.name)
  put("### %s", row.name)
  put("")
  put("    %s", help.signature)
  put("")
  put("%s", plain(help.text))
  put("")
  if help.inputs then put("- inputs: %s", named_list(help.inputs)) end
  for _, line in ipairs(help.options or {}) do
    local name, rest = line:match("^(%S+)%s+(.*)$")
    put("- option `%s`: %s", name, option_text(rest))
  end
  if help.kernel then put("- kernel: %s", plain(help.kernel[1])) end
  if help.dtypes then put("- dtypes: %s", help.dtypes[1]) end
  if help.returns and help.returns[1] ~= "" then put("- returns: %s", plain(help.returns[1])) end
  if help.autocast then put("- autocast: %s", help.autocast[1]) end
  if row.adjoint ~= "none" then put("- adjoint: `%s`", row.adjoint) end
  if accuracy[row.name] then put("- largest error: %s", accuracy_text(accuracy[row.name])) end
  put("- class: %s", row.class)
  put("- example: %s", "`" .. table.concat(help.example, "`, `") .. "`")
  put("")
end

local function put_head(rows)
  local adjoints = 0
  for _, row in ipairs(rows) do adjoints = adjoints + (row.adjoint ~= "none" and 1 or 0) end
  put("# Operators")
  put("")
  put("The %d operators of Tessera. Made by `make docs` from `lib/ops.def`: edit the table,", #rows)
  put("not this file. At the prompt, `? name` shows the same.")
  put("")
  put("How to read an entry:")
  put("")
  put("- Brackets hold what may be left out. Options stand in a table behind the tensors. With a")
  put("  tensor as first input the operator is a method too: `x:sum{axis = 1}`; where the result")
  put("  has dtype and shape of `x`, a trailing `_` writes it there: `x:mul_(2)`.")
  put("- Axes count from 0, negative ones from the end. A number beside a tensor takes its dtype.")
  put("- fp8, f16 and bf16 are computed in f32 and rounded once, those of class compose after each step")
  put("  but for losses and differential operators.")
  put("- The largest error is measured against a wider format, in units of the last place of the")
  put("  exact result, with the input where it stands, for f32 and f64 (`tests/elem/ulp.txt`).")
  put("  At most 0.5 is correctly rounded. All instruction sets give the same bits.")
  if adjoints == 0 then
    put("- No operator is differentiable yet.")
  elseif adjoints < #rows then
    put("- Operators without an adjoint are not differentiable.")
  end
  put("")
  put("| class | how it runs |")
  put("| --- | --- |")
  for _, class in ipairs(classes) do put("| %s | %s |", class[1], class[2]) end
  put("")
  put("## Choices for kernels")
  put("")
  put("What of a kernel is free, as options of the operators that it stands for (`stages = 3`), of `f:choose` and of `:choose`.")
  put("No bit of a result depends on it. A kernel has some of them; what it has not, or not so, becomes the nearest that")
  put("it has, with a remark in `:why`, `:tiles` and `-jv`. `tile_shape = {rows, columns, depth}` is the first three of a product.")
  put("")
  put("| name | what it is |")
  put("| --- | --- |")
  for _, c in ipairs(core.choices()) do put("| %s | %s |", c.name, c.help) end
  put("")
  put("## Element types")
  put("")
  put("| name | bytes | of elements | what it holds |")
  put("| --- | ---: | ---: | --- |")
  for _, d in ipairs(core.dtypes()) do put("| %s | %d | %d | %s |", d.name, d.nbytes, d.block, d.help) end
  put("")
end

local function put_contents(rows)
  put("## Contents")
  put("")
  local at, names = nil, {}
  local function flush()
    if not at then return end
    put("- [%s](#%s): %s", title(at), anchor(title(at)), table.concat(names, " "))
  end
  for _, row in ipairs(rows) do
    if row.family ~= at then
      flush()
      at, names = row.family, {}
    end
    names[#names + 1] = ("[%s](#%s)"):format(row.name, row.name)
  end
  flush()
  put("")
end

local function reference(files)
  local rows, accuracy, family = core.operators(), {}, nil
  for _, path in ipairs(files) do read_accuracy(path, accuracy) end
  put_head(rows)
  put_contents(rows)
  for _, row in ipairs(rows) do
    if row.family ~= family then
      family = row.family
      put("## %s", title(family))
      put("")
      if families[family] then
        put("%s", families[family][2])
        put("")
      end
    end
    put_operator(row, accuracy)
  end
  return (table.concat(out, "\n"):gsub("\n+$", "\n"))
end

local path = arg[1] or "docs/operators.md"
local text = reference({ "tests/elem/ulp.txt", unpack(arg, 2) })
local file = path == "-" and io.stdout or assert(io.open(path, "w"))
file:write(text)
if file ~= io.stdout then file:close() end
