-- A step of text that goes on as a captured function, which may turn out not to be one: where a model decides by what is in tensors, its
-- calls are made one by one from there on, and why is known. Ctrl-C and memory that ran out are nobody's fault, and no reason. What fails
-- behind the capture, while it runs, is an error: a device that is lost, an index out of range; arguments may be used up by then.

local graph = require "tessera.graph"

local Captured = {}
Captured.__index = Captured

--- Whether an error is no fault of a call, which may be made again: Ctrl-C, and memory that ran out.
function Captured.is_upset(why)
  why = tostring(why)
  return why:find "interrupted" ~= nil or why:find "out of memory" ~= nil
end

--- new(name, body, options): as graph.module takes them.
function Captured.new(name, body, o) return setmetatable({ run = graph.module(name, body, o), off = nil }, Captured) end

--- true and what the body gives; false where it cannot be captured, and nothing has been done. All else is an error.
function Captured:call(...)
  if self.off then return false end
  local failed = self.run:_failed_captures()
  local got = { pcall(self.run, ...) }
  if got[1] then return unpack(got, 1, table.maxn(got)) end
  if self.run:_failed_captures() == failed or Captured.is_upset(got[2]) then error(got[2], 0) end
  self.off = tostring(got[2])
  return false
end

--- Why calls are made one by one, a line; nil where they are captured.
function Captured:why_not() return self.off and self.off:match "^[^\n]*" or nil end

return Captured
