-- How sums are cut, and what may be moved without being asked for.

local core = require "tessera.core"
local grid = require "tessera.dist.grid"
local options = require "tessera.options"
local modes = {}

-- leaves([n]): cuts each axis that is summed over into n leaves, whose sums are added pairwise: a program with leaves
-- has the same bits on any mesh whose devices have whole leaves, and on one device. dist.leaves() asks; 0: as many
-- as there are devices. Each piece of an axis has a leaf at least, and there are at most 4096. dist.leaves(n, f, ...) sets it
-- while f(...) runs.
--   dist.leaves(8)
function modes.leaves(n, f, ...)
  if n ~= nil and (type(n) ~= "number" or n % 1 ~= 0 or n < 0 or n > core.MOST_LEAVES) then
    core.fail(("dist.leaves: a number of leaves is from 0 to %d, not %s"):format(core.MOST_LEAVES, core.shown(tostring(n), 40)))
  end
  if f == nil then return core.mesh_leaves(n) end
  core.need_function(f, "dist.leaves")
  local before = core.mesh_leaves(n)
  return core.guarded(function() core.mesh_leaves(before) end, f, ...)
end

local BYTES = options.whole { least = 1 }
local read_overlap = options.some("dist.overlap", { bucket = BYTES, ahead = BYTES, chunks = options.whole { least = 1, most = 8 }, engines = BYTES })
local ON, STATE = { [true] = 1, [false] = -1 }, { [-1] = false, [1] = true }

-- overlap([how]): whether captured functions send while devices compute. false: never, and each sum and move stands in its
-- place; true: also where it brings nothing, as on virtual CPUs; {bucket = bytes, ahead = bytes, chunks = n} says as well behind
-- how many bytes of gradients a piece of the backward pass ends, how many bytes are brought together before they are needed, and
-- into how many chunks a product is cut whose sum is sent; engines = bytes: the summands of such a sum, and of larger ones, are
-- brought by copy engines, so that no kernel waits for them beside those that compute. "auto", as at first: by what devices of this kind cost. Gives what
-- it was before; dist.overlap() asks. No bit depends on it. dist.overlap(how, f, ...) sets it while f(...) runs.
--   dist.overlap(false)
--   dist.overlap {bucket = 2^20, ahead = 2^24, chunks = 4}
function modes.overlap(how, f, ...)
  local on, o = nil, {}
  if how == "auto" then on = 0 end
  if type(how) == "boolean" then on = ON[how] end
  if type(how) == "table" then on, o = 1, read_overlap(how) end
  if how ~= nil and on == nil then
    local given = core.shown(tostring(how), 40)
    if type(how) == "string" then given = "'" .. given .. "'" end
    core.fail(("dist.overlap: it is true, false, \"auto\" or a table such as {bucket = 2^20}, not %s"):format(given))
  end
  local was, bucket, ahead, chunks, engines = core.mesh_overlap(on, o.bucket or 0, o.ahead or 0, o.chunks or 0, o.engines or 0)
  local function said(n) return n > 0 and n or nil end
  if f == nil then
    if bucket + ahead + chunks + engines > 0 then
      return { bucket = said(bucket), ahead = said(ahead), chunks = said(chunks), engines = said(engines) }
    end
    if was == 0 then return "auto" end
    return STATE[was]
  end
  core.need_function(f, "dist.overlap")
  return core.guarded(function() core.mesh_overlap(was, bucket, ahead, chunks, engines) end, f, ...)
end

local WORDS = { allow = false, error = true }

-- hidden([word]): what happens where operands have to be moved between devices although the program did not write reshard or
-- gather: "allow" moves them, "error" is an error that says which operand, from which layout to which, how many bytes, and
-- what to write. Gives the word before; without one it asks. dist.hidden(word, f, ...) sets it while f(...) runs.
--   dist.hidden("error")
function modes.hidden(word, f, ...)
  if word ~= nil and WORDS[word] == nil then
    core.fail(("dist.hidden: it is \"allow\" or \"error\", not '%s'"):format(core.shown(tostring(word), 40)))
  end
  local before
  if word == nil then before = core.mesh_hidden() else before = core.mesh_hidden(WORDS[word]) end
  if f == nil then return before and "error" or "allow" end
  core.need_function(f, "dist.hidden")
  return core.guarded(function() core.mesh_hidden(before) end, f, ...)
end

-- explicit(f, ...): f(...), where hidden moves are errors (? dist.hidden). Gives what f gives. Sums that an operator is
-- defined by, as those of a product over a split axis, are asked for.
--   dist.explicit(function() return op.matmul(x, w) end)
function modes.explicit(f, ...) return modes.hidden("error", f, ...) end

-- abstract(mesh, f, ...): f(...), where what is made (op.zeros, op.normal, modules with their parameters) has a type and lies
-- on all of the mesh, but has no elements: models of any size are planned with, for devices that are not there. Gives what f
-- gives.
--   local mesh = dist.Mesh {axes = {"dp"}, devices = dist.range(1000, 1008)}
--   local w = dist.abstract(mesh, function() return op.zeros{1e6, 1e6} end)
function modes.abstract(mesh, f, ...)
  grid.need_mesh(mesh, "dist.abstract")
  core.need_function(f, "dist.abstract")
  local before = core.mesh_abstract(mesh.id)
  return core.guarded(function() core.mesh_abstract(before) end, f, ...)
end

return modes
