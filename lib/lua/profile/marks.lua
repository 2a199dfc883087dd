-- The words for stages of kernels in a profile: what a warp of a GPU, or a thread of the CPU, does there. `? marks` at the
-- prompt shows them, and docs/profile.md has the same rows.

local core = require "tessera.core"
local marks = {}

--- {words, meaning}; words of one row are parted by commas.
marks.rows = {
  { "load", "bring operands from memory into registers or shared memory" },
  { "load issue", "tell the copy engine what to bring, and go on" },
  { "load (pack rows, pack columns, image)", "on the CPU: put operands of a product, or of a convolution, where it reads them in order" },
  { "wait barrier", "wait for copies that were told, or for others to free room for them" },
  { "wait threads", "wait for the other threads of the block" },
  { "wait other blocks", "wait for blocks whose results this one takes" },
  { "wait stores, wait copies, wait launch before", "wait for stores or copies under way; for the kernel before this one" },
  { "mma", "multiply, with the matrix unit or with multiply-adds" },
  { "softmax, reduce, arithmetic", "what stands between products; fold rows or warps; calculate element by element" },
  { "epilogue, store", "round, add and scale results; write them" },
  { "other", "what the word in brackets names: on the CPU the reductions of a pass" },
  { "between", "what stands between all others" },
  { "not recorded", "what a warp did after its list was full" },
}

--- The page for `? marks`, in lines of a width.
function marks.text(width)
  local out = { "marks\n    " .. core.wrapped("Stages of kernels in a profile, by what warps of a GPU or threads of the CPU do:", 4, 4, width) }
  for _, row in ipairs(marks.rows) do
    out[#out + 1] = ("  %s\n    %s"):format(row[1], core.wrapped(row[2], 4, 4, width))
  end
  out[#out + 1] = "  " .. core.wrapped("Kernels of op.kernel say stages with words of their own: t:stage(\"load\", \"rows of x\", f).", 2, 2, width)
  return table.concat(out)
end

return marks
