-- Tables in tables, numbers, strings and booleans beside tensors, in files that hold tensors by name and
-- text: the tensors get their paths as names, the text says the rest, as JSON: a tensor is ["t", name], a
-- number ["n", digits], a list ["l", values], any other table ["k", [key, value, ..]]; strings and
-- booleans are themselves.

local core = require "tessera.core"
local nested = {}

local DEPTH = 100

--- Whether a table is more than tensors by name.
function nested.is_needed(value)
  for k, v in pairs(value) do
    if not core.is_tensor(v) or type(k) == "number" then return true end
  end
  return false
end

local function is_list(t)
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n == #t
end

local function in_order(a, b)
  if type(a) ~= type(b) then return type(a) == "string" end
  return a < b
end

--- The tensors of a table by name, and the text of the rest. failed(format, ...) raises.
function nested.flatten(value, encode, failed)
  local tensors, name_of, text_of = {}, {}, nil
  local open, depth, shown = {}, 0, core.shown

  local function number(v) return ('["n",%s]'):format(encode(("%.17g"):format(v))) end

  local function tensor(v, path)
    local name = name_of[v]
    if not name then
      name = path
      if tensors[name] then failed("'%s' is the name of two", shown(name)) end
      tensors[name], name_of[v] = v, name
    end
    return ('["t",%s]'):format(encode(name))
  end

  local function list(v, path)
    local out = {}
    for i, x in ipairs(v) do out[i] = text_of(x, ("%s%d"):format(path == "" and "" or path .. ".", i - 1)) end
    return '["l",[' .. table.concat(out, ",") .. "]]"
  end

  local function by_key(v, path)
    local keys, out = {}, {}
    for k in pairs(v) do
      if type(k) ~= "string" and type(k) ~= "number" then failed("'%s' has a %s as a key", shown(path), type(k)) end
      keys[#keys + 1] = k
    end
    table.sort(keys, in_order)
    for _, k in ipairs(keys) do
      local name = type(k) == "number" and ("%.17g"):format(k) or k
      out[#out + 1] = type(k) == "number" and number(k) or text_of(k, path)
      out[#out + 1] = text_of(v[k], path == "" and name or path .. "." .. name)
    end
    return '["k",[' .. table.concat(out, ",") .. "]]"
  end

  function text_of(v, path)
    local kind = core.is_tensor(v) and "tensor" or type(v)
    if kind == "tensor" then return tensor(v, path) end
    if kind == "number" then return number(v) end
    if kind == "boolean" then return tostring(v) end
    if kind == "string" then
      if not core.is_utf8(v) then failed("'%s' is no UTF-8", shown(path)) end
      return encode(v)
    end
    if kind ~= "table" or v.is_module then
      failed("'%s' is a %s%s", shown(path), v ~= nil and kind == "table" and "module" or kind,
        kind == "table" and "\n  hint: model:state_dict() is what is saved" or ", which no file holds")
    end
    if open[v] then failed("'%s' holds itself", shown(path)) end
    if depth == DEPTH then failed("more than %d tables stand in each other", DEPTH) end
    open[v], depth = true, depth + 1
    local text = is_list(v) and list(v, path) or by_key(v, path)
    open[v], depth = nil, depth - 1
    return text
  end

  return tensors, text_of(value, "")
end

--- The table again. what: the decoded text; wrong(words) raises.
function nested.unflatten(what, tensors, wrong)
  local read

  local function number(v)
    local n = type(v) == "string" and tonumber(v)
    return n or wrong "a number is none"
  end

  local readers = {
    t = function(name) return type(name) == "string" and tensors[name] or wrong "it names a tensor that is not there" end,
    n = number,
    l = function(values, depth)
      local out = {}
      for i, v in ipairs(type(values) == "table" and values or wrong "a list is none") do out[i] = read(v, depth + 1) end
      return out
    end,
    k = function(pairs_, depth)
      local out = {}
      if type(pairs_) ~= "table" or #pairs_ % 2 ~= 0 then wrong "a table is none" end
      for i = 1, #pairs_, 2 do
        local key = read(pairs_[i], depth + 1)
        if (type(key) ~= "string" and type(key) ~= "number") or key ~= key then wrong "a key is none" end
        out[key] = read(pairs_[i + 1], depth + 1)
      end
      return out
    end,
  }

  function read(v, depth)
    if depth > DEPTH then wrong "it is too deep" end
    if type(v) == "string" or type(v) == "boolean" then return v end
    local reader = type(v) == "table" and #v == 2 and type(v[1]) == "string" and readers[v[1]]
    if not reader then wrong "it has an unknown form" end
    return reader(v[2], depth)
  end

  return read(what, 0)
end

return nested
