-- What grammars are made of, whatever they were written in; rules are a table of these by name:
--   {kind = "text", text}            its bytes
--   {kind = "set", set}              a character of a set (sets.lua)
--   {kind = "seq", ...}              one behind the other; {} is nothing
--   {kind = "alt", ...}              one of them
--   {kind = "rep", node, least, most}  so many times; most nil: without end
--   {kind = "ref", name}             a rule

local nodes = {}

function nodes.text(s) return { kind = "text", text = s } end
function nodes.set(set) return { kind = "set", set = set } end
function nodes.ref(name) return { kind = "ref", name = name } end

function nodes.seq(list)
  list.kind = "seq"
  return #list == 1 and list[1] or list
end

function nodes.alt(list)
  list.kind = "alt"
  return #list == 1 and list[1] or list
end

function nodes.rep(node, least, most) return { kind = "rep", node = node, least = least, most = most } end
function nodes.maybe(node) return nodes.rep(node, 0, 1) end

--- Calls f for each rule that a node names.
function nodes.each_ref(node, f)
  if node.kind == "ref" then return f(node.name) end
  if node.kind == "rep" then return nodes.each_ref(node.node, f) end
  if node.kind == "seq" or node.kind == "alt" then
    for _, n in ipairs(node) do nodes.each_ref(n, f) end
  end
end

return nodes
