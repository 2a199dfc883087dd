-- JSON as trees: read, changed by what a tokenizer.json may have wrong, written again with its order and with names that stand twice.
local fuzz = dofile "tests/fuzz/_text.lua"
local M = {}

local random, pick = fuzz.random, fuzz.pick
--- Another generator, so that one seed governs all.
function M.by(other) random, pick = other.random, other.pick end

-- ---- reading: what is read is well-formed
--- A tree: {list = {..}}, {names = {..}, values = {..}}, or {text = as it stands}.
function M.read(s)
  local at = 1
  local function skip() at = s:find("[^ \t\r\n]", at) or #s + 1 end
  local function scalar()
    local from = at
    if s:sub(at, at) == '"' then
      at = at + 1
      while s:sub(at, at) ~= '"' do at = at + (s:sub(at, at) == "\\" and 2 or 1) end
      at = at + 1
    else
      at = s:find("[,%]}%s]", at) or #s + 1
    end
    return s:sub(from, at - 1)
  end
  local function value()
    skip()
    local c = s:sub(at, at)
    if c ~= "[" and c ~= "{" then return { text = scalar() } end
    local v = c == "[" and { list = {} } or { names = {}, values = {} }
    at = at + 1
    skip()
    while not s:find("^[%]}]", at) do
      if v.names then
        v.names[#v.names + 1] = scalar()
        skip()
        at = at + 1 -- the colon
      end
      local into = v.list or v.values
      into[#into + 1] = value()
      skip()
      if s:sub(at, at) == "," then at = at + 1 end
      skip()
    end
    at = at + 1
    return v
  end
  return value()
end

-- ---- writing
local function add(out, v)
  if v.text then
    out[#out + 1] = v.text
  elseif v.list then
    out[#out + 1] = "["
    for i, x in ipairs(v.list) do
      if i > 1 then out[#out + 1] = "," end
      add(out, x)
    end
    out[#out + 1] = "]"
  else
    out[#out + 1] = "{"
    for i, x in ipairs(v.values) do
      out[#out + 1] = (i > 1 and "," or "") .. v.names[i] .. ":"
      add(out, x)
    end
    out[#out + 1] = "}"
  end
end

function M.write(v)
  local out = {}
  add(out, v)
  return table.concat(out)
end

local function copy(v)
  if v.text then return { text = v.text } end
  local from, to = v.list or v.values, {}
  for i, x in ipairs(from) do to[i] = copy(x) end
  if v.list then return { list = to } end
  local names = {}
  for i, name in ipairs(v.names) do names[i] = name end
  return { names = names, values = to }
end

--- The tree with at most so many entries in each list and object.
function M.short(v, most)
  local all = v.list or v.values or {}
  for i = #all, most + 1, -1 do
    all[i] = nil
    if v.names then v.names[i] = nil end
  end
  for _, x in ipairs(all) do M.short(x, most) end
  return v
end

-- ---- changes
local SCALARS = { "null", "true", "false", "0", "-1", "1", "2", "7", "0.5", "-0.0", "1e308", "-1e308", "1e-400", "255", "65536", "2147483647", "2147483648",
  "4294967295", "4294967296", "9007199254740993", "18446744073709551616", ("9"):rep(400), '""', '"a"', '" "', '"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"',
  '"\\u00e9"', '"\226\150\129"', '"##"', '"<0x41>"', '"<0xFF>"', '"[UNK]"', '"A"', '"' .. ("a"):rep(5000) .. '"', '"' .. ("\228\189\160"):rep(700) .. '"' }
local REGEX = { '"(a+)+$"', '"(a|a)*b"', '"(?R)"', '"((((((((((a?){9}){9}){9}){9}){9}){9}){9}){9}){9}){9}"', '"\\\\p{L}+|\\\\p{N}{1,3}"', '"(?<=a)b"', '"(?i:\'s|\'t)"', '"[^\\\\s"',
  '"\\\\"', '"(?:"', '""', '"a{0,65535}"', '"a{2,1}"', '"(?<n>a)\\\\k<n>"', '"(*COMMIT)a"', '"\\\\C"', '".*.*.*.*x"', '"\\\\X"', '"[[:foo:]]"', '"(?=(a*))\\\\1"', '"\\\\s+(?!\\\\S)"', '"(?C1)"',
  '"' .. ("("):rep(300) .. ("a)"):rep(300) .. '"', '"' .. ("a|"):rep(3000) .. 'b"', '"[\\\\x{10ffff}-\\\\x{110000}]"' }
local TYPES = { "BPE", "Unigram", "WordPiece", "WordLevel", "Sequence", "ByteLevel", "Metaspace", "Replace", "Split", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits", "BertPreTokenizer",
  "BertNormalizer", "NFC", "NFKC", "NFD", "NFKD", "Lowercase", "Strip", "StripAccents", "Prepend", "Precompiled", "Nmt", "TemplateProcessing", "BertProcessing", "RobertaProcessing",
  "ByteFallback", "Fuse", "CTC", "FixedLength", "CharDelimiterSplit", "UnicodeScripts" }

-- All nodes but the first few thousand of them are reached by chance.
local function node_of(v)
  local parent, at
  for _ = 1, 12 do
    local all = v.list or v.values
    if not all or #all == 0 or (parent and random(4) == 0) then break end
    parent, at = v, 1 + random(#all)
    v = all[at]
  end
  return parent, at, v
end

local CHANGES = {}
local function change(times, f)
  for _ = 1, times do CHANGES[#CHANGES + 1] = f end
end
local function put(parent, at, v) (parent.list or parent.values)[at] = v end

change(6, function(p, at) put(p, at, { text = pick(SCALARS) }) end)
change(2, function(p, at, _, other) -- a node from another file, or this one
  local _, _, v = node_of(other)
  put(p, at, copy(v))
end)
change(2, function(p, at)
  table.remove(p.list or p.values, at)
  if p.names then table.remove(p.names, at) end
end)
change(1, function(p, at, v) -- again
  table.insert(p.list or p.values, at, copy(v))
  if p.names then table.insert(p.names, at, p.names[at]) end
end)
change(2, function(p, at)
  if p.names then p.names[at] = pick { p.names[1 + random(#p.names)], '"type"', '""', '"\\u0000"', '"pattern"', '"Regex"', '"String"', '"normalizers"', '"content"', '"ab"' } end
end)
change(1, function(p, at, v) -- deep
  local depth, open, close = pick { 2, 20, 300, 999, 1001, 3000 }, "[", "]"
  local kind = random(4)
  if kind == 1 then open, close = '{"type":"Sequence","normalizers":[', "]}"
  elseif kind == 2 then open, close = '{"type":"Sequence","pretokenizers":[', "]}"
  elseif kind == 3 then open, close = '{"type":"Sequence","decoders":[', "]}" end
  put(p, at, { text = open:rep(depth) .. M.write(v) .. close:rep(depth) })
end)
change(1, function(p, at, v) -- many
  local all = v.list
  if not all or #all == 0 then return end
  for _ = 1, pick { 2, 30, 400 } do all[#all + 1] = copy(all[1 + random(#all)]) end
end)
-- By name, in the whole tree.
local function named(name, found, v)
  for i, x in ipairs(v.list or v.values or {}) do
    if v.names and v.names[i]:find(name) then found[#found + 1] = { v, i } end
    named(name, found, x)
  end
  return found
end
local function at_names(times, pattern, f)
  change(times, function(_, _, _, _, tree)
    local found = named(pattern, {}, tree)
    if not found[1] then return end
    local e = found[1 + random(#found)]
    e[1].values[e[2]] = f(e[1].values[e[2]])
  end)
end
at_names(3, '^"type"$', function() return { text = '"' .. pick(TYPES) .. '"' } end)
at_names(2, '^"Regex"$', function() return { text = pick(REGEX) } end)
at_names(2, '^"pattern"$', function() return M.read('{"Regex":' .. pick(REGEX) .. "}") end)
at_names(2, 'content"$', function() return { text = pick { '""', '"a"', '"' .. ("a"):rep(400) .. '"', '" "', '"\\n"', '"<s>"', "null" } } end)
at_names(2, '^"id"$', function() return { text = pick(SCALARS) } end)
at_names(2, '_id"$', function() return { text = pick(SCALARS) } end)
at_names(2, '^"merges"$', function(v)
  if v.list and v.list[1] then v.list[1 + random(#v.list)] = pick { { text = '"a b"' }, { text = '["a","b"]' }, { text = '" "' }, { text = '"a"' }, { list = {} }, copy(v.list[1]), { text = '"a b c"' } } end
  return v
end)
at_names(2, '^"vocab"$', function(v) -- a token or an id more than once, or far away
  local all = v.values or v.list
  if not all or not all[1] then return v end
  local i = 1 + random(#all)
  if v.names then
    all[i] = random(2) == 0 and copy(all[1 + random(#all)]) or { text = pick(SCALARS) }
  else
    all[i] = pick { copy(all[1 + random(#all)]), { list = { { text = pick(SCALARS) }, { text = pick(SCALARS) } } } }
  end
  return v
end)
local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
at_names(3, 'charsmap"$', function(v) -- units of its trie
  local s = v.text or '""'
  for _ = 1, 1 + random(6) do
    local at, d = 2 + random(math.max(1, #s - 2)), 1 + random(64)
    s = s:sub(1, at - 1) .. DIGITS:sub(d, d) .. s:sub(at + 1)
  end
  return { text = s }
end)
at_names(1, 'charsmap"$', function()
  local s = {}
  for i = 1, 4 * (1 + random(40)) do
    local d = random(3) == 0 and 1 or 1 + random(64)
    s[i] = DIGITS:sub(d, d)
  end
  return { text = '"' .. pick { "QAAA", "BAAA", "CAAA" } .. table.concat(s) .. '"' }
end)

--- Text of the tree after one to four changes; other: a tree from which pieces come.
function M.changed(tree, other)
  local t = copy(tree)
  for _ = 1, pick { 1, 1, 2, 2, 3, 4 } do
    local parent, at, v = node_of(t)
    if parent then pick(CHANGES)(parent, at, v, other, t) end
  end
  return M.write(t)
end

return M
