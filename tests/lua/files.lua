-- Files that are replaced, changed by others, or say what cannot be: every one is an error with a reason,
-- or as it was.
package.path = "tests/jit/?.lua;" .. package.path
local tiers = require "_tiers"
local tessera = require "tessera"
local op, core = tessera.op, tessera.core
local dir = tiers.shell "mktemp -d":gsub("%s", "")
local function sh(command) return (tiers.shell("cd " .. dir .. " && " .. command):gsub("%s+$", "")) end
local function at(name) return dir .. "/" .. name end
local x = op.arange(4096):cast "f32"
local none, failed = nil, nil
-- The message without the folder, which has another name each time.
local function try(f, ...)
  local ok, why = pcall(f, ...)
  return ok and "fine" or (tostring(why):gsub(dir:gsub("%p", "%%%0") .. "/?", ""):gsub("^[^\n]-:%d+: ", ""))
end

-- ---- what a save keeps
tessera.save(at "a.npy", x)
sh "umask 022; stat -c %a a.npy" --> 644
sh "chmod 640 a.npy"
tessera.save(at "a.npy", x)
sh "stat -c %a a.npy" --> 640
sh "mkdir d && mv a.npy d/b.npy && ln -s d/b.npy a.npy"
tessera.save(at "a.npy", x + 1)
sh "readlink a.npy; stat -c %a d/b.npy; ls -A d" --> d/b.npy
--> 640
--> b.npy
tessera.load(at "d/b.npy"):hash() == (x + 1):hash() --> true
sh "ln -s d/new.npy dangling.npy"
tessera.save(at "dangling.npy", x)
sh "readlink dangling.npy; ls -A d" --> d/new.npy
--> b.npy
--> new.npy
sh "ln -s loop.npy loop.npy"
try(tessera.save, at "loop.npy", x) --> cannot write loop.npy: Too many levels of symbolic links

-- ---- what is no file
sh "mkfifo pipe.npy; mkdir folder.npy; ln -s /dev/full full.npy"
try(tessera.load, at "pipe.npy") --> cannot open pipe.npy: not a plain file
try(tessera.save, at "pipe.npy", x) --> cannot write pipe.npy: it is no plain file
try(tessera.save, at "full.npy", x) --> cannot write full.npy: it is no plain file
try(tessera.load, at "folder.npy") --> cannot open folder.npy: it is a folder
try(tessera.save, at "folder.npy", x) --> cannot write folder.npy: it is a folder
try(tessera.load, at "d/b.npy\0.npy") --> load: a zero byte stands in the path, behind 'd/b.npy'
try(tessera.save, at "d/b.npy\0.npy", x) --> save: a zero byte stands in the path, behind 'd/b.npy'
try(tessera.load) --> load: a path is needed, not nothing
try(tessera.load, {}) --> load: a path is needed, not a table
try(tessera.load, "/nowhere/\27[31m\226\128\174x.npy") --> cannot open /nowhere/\x1b[31m\u{202e}x.npy: No such file or directory

-- ---- what killed saves leave behind goes with the next one; other files, and those that somebody writes, stay
sh "touch .tessera-new-0123456789abcdef .tessera-new-0123456789abcdeg other; ln -s other .tessera-new-0000000000000000"
sh "touch .tessera-new-ffffffffffffffff"
local busy = io.popen(("cd %s && exec 9< .tessera-new-ffffffffffffffff && flock 9 && echo $$ && exec sleep 100"):format(dir))
local child = busy:read "*l"
tessera.save(at "plain.npy", x)
sh "ls -A | grep tessera-new | LC_ALL=C sort" --> .tessera-new-0000000000000000
--> .tessera-new-0123456789abcdeg
--> .tessera-new-ffffffffffffffff
sh("kill " .. child)
busy:close()
tessera.save(at "plain.npy", x)
sh "ls -A | grep -c tessera-new" --> 2
-- A save that fails leaves nothing.
try(tessera.save, at "plain.npy", "x") --> plain.npy: a string is not a tensor
try(core.write_file, at "plain.npy", { "x", {} }):match "^cannot write" --> cannot write
sh "ls -A | grep -c tessera-new" --> 2
tessera.load(at "plain.npy"):hash() == x:hash() --> true

-- ---- a loaded file that somebody cuts: pages that are gone, and bytes within a page
local LOST = "was changed by another program while it was in use"
local function lost(f)
  local ok, why = pcall(f)
  return not ok and why:find(LOST, 1, true) ~= nil
end
tessera.save(at "big.safetensors", { first = op.ones { 100000 }, last = op.ones { 100000 } })
local big = tessera.load(at "big.safetensors")
big.last:sum():item() --> 100000
sh "truncate -s 300000 big.safetensors"
lost(function() return big.last:sum():item() end) --> true
lost(function() return (big.last * 2):sum():item() end) --> true
lost(function() return big.last:hash() end) --> true
lost(function() return big.last:bytes() end) --> true
lost(function() return big.last[99999]:item() end) --> true
lost(function() big.last:add_(1) end) --> true
lost(function() return op.ones { 100000 }:copy_(big.last) end) --> true
lost(function() tessera.save(at "copy.npy", big.last) end) --> true
tostring(big.last):find(LOST, 1, true) ~= nil --> true
op.ones { 3 }:sum():item() --> 3
sh "ls copy.npy" --> ls: cannot access 'copy.npy': No such file or directory
for _, way in ipairs { "item", "hash", "bytes", "save", "function", "print" } do
  tessera.save(at "big.safetensors", { first = op.ones { 100000 }, last = op.ones { 100000 } })
  local again = tessera.load(at "big.safetensors").last
  sh "truncate -s 0 big.safetensors"
  local f = tessera.graph.module("f", function(v) return v + 1 end)
  local good = lost(({ item = function() return again[99999]:item() end, hash = function() return again:hash() end,
    bytes = function() return again:bytes() end, save = function() tessera.save(at "copy.npy", again) end,
    ["function"] = function() return f(again) end, print = function() error(tostring(again)) end })[way])
  if not good or not lost(function() return again:sum() end) then failed = failed or way end
end
failed --> nil
-- Within a page no signal comes; what tells of it may take a moment.
for _, how in ipairs { "truncate -s 400010 page.npy", "printf xx | dd of=page.npy bs=1 seek=200 conv=notrunc" } do
  tessera.save(at "page.npy", op.ones { 100000 })
  local page = tessera.load(at "page.npy")
  page:sum():item()
  sh(how)
  local found
  for _ = 1, 100 do
    found = found or lost(function() return page:sum():item() end)
    if found then break end
    sh "sleep 0.05"
  end
  if not found then failed = failed or how end
end
failed --> nil
-- The file as it is now, loaded again, is not lost with the older mapping.
lost(function() return tessera.load(at "page.npy"):sum():item() end) --> false
-- Files that are replaced, and those that only are read, are as they were; small ones are read at once.
for _, n in ipairs { 100, 100000 } do
  tessera.save(at "kept.npy", op.ones { n })
  local kept = tessera.load(at "kept.npy")
  tessera.save(at "kept.npy", op.zeros { n })
  if kept:sum():item() ~= n then failed = failed or n end
  sh "cat kept.npy > /dev/null; touch kept.npy; rm kept.npy"
  if kept:sum():item() ~= n then failed = failed or n end
end
failed --> nil
tessera.save(at "small.npy", op.ones { 100 })
local small = tessera.load(at "small.npy")
sh "truncate -s 200 small.npy; sleep 0.1"
small:sum():item() --> 100
-- As many files as one likes stay loaded, however few may be open.
tessera.save(at "big.npy", op.ones { 100000 })
local many = "local t = {} for i = 1, 200 do t[i] = require 'tessera'.load '%s' end io.write(t[1]:sum():item() + t[200]:sum():item())"
(tiers.run(many:format(at "big.npy"), nil, "ulimit -n 64;")) --> 200000

-- ---- safetensors that say what cannot be
local function safetensors(json, data)
  local f = io.open(at "bad.safetensors", "wb")
  f:write(string.char(#json % 256, math.floor(#json / 256), 0, 0, 0, 0, 0, 0), json, data or ("\0"):rep(16))
  f:close()
  return try(tessera.load, at "bad.safetensors")
end
local function two(a, b)
  return safetensors(('{"a":{"dtype":"U8","shape":[%s],"data_offsets":[%s]},"b":{"dtype":"U8","shape":[%s],"data_offsets":[%s]}}'):format(
    a[1], a[2], b[1], b[2]))
end
two({ "8", "0,8" }, { "8", "8,16" }) --> fine
two({ "8", "0,8" }, { "0", "8,8" }) --> bad.safetensors: the last 8 bytes belong to no tensor
two({ "12", "0,12" }, { "8", "8,16" }) --> bad.safetensors: entry 'b' overlaps entry 'a'
two({ "16", "0,16" }, { "16", "0,16" }):match "overlaps" --> overlaps
two({ "4", "0,4" }, { "8", "8,16" }) --> bad.safetensors: bytes 4 to 8, before entry 'b', belong to no tensor
two({ "8", "-1,7" }, { "8", "8,16" }) --> bad.safetensors: entry 'a' lies outside the file: data_offsets are -1 and 7 of 16 bytes
two({ "8", "0.5,8.5" }, { "8", "8,16" }) --> bad.safetensors: entry 'a' lies outside the file: data_offsets are 0.5 and 8.5 of 16 bytes
two({ "8", "0,8,9" }, { "8", "8,16" }) --> bad.safetensors: entry 'a' has no dtype, shape and data_offsets
two({ '"8"', "0,8" }, { "8", "8,16" }) --> bad.safetensors: entry 'a' has a bad shape
two({ "9", "0,8" }, { "8", "8,16" }):match "^[^.]+.%a+: entry 'a' needs 9" --> bad.safetensors: entry 'a' needs 9
local entry = '{"dtype":"U8","shape":[16],"data_offsets":[0,16]}'
safetensors('{"a":' .. entry .. ',"\\u0061":' .. entry .. "}") --> bad.safetensors: 'a' stands twice in the header
safetensors('{"a":{"dtype":"U8","dtype":"I8","shape":[16],"data_offsets":[0,16]}}') --> bad.safetensors: 'dtype' stands twice in the header
safetensors('{"shape\\\\":' .. entry:gsub("16]}", '16],"\\\\":0,"x":["\\\\"]}') .. "}") --> fine
safetensors('{"\\u001b[31m":{"dtype":"X"}}') --> bad.safetensors: entry '\x1b[31m' has no dtype, shape and data_offsets
safetensors('{"__metadata__":{"a":1},"a":' .. entry .. "}") --> bad.safetensors: __metadata__ is no table of strings
safetensors('{"a":{"dtype":"MXFP4","shape":[4,2,1],"data_offsets":[0,0]}}', "") --> bad.safetensors: entry 'a': load: mxfp4 needs a last axis of a multiple of 32 elements, not mxfp4[4,2,1]
safetensors('{"a":{"dtype":"MXFP4","shape":[],"data_offsets":[0,0]}}', "") --> bad.safetensors: entry 'a': load: mxfp4 needs a last axis of a multiple of 32 elements, not mxfp4[]
safetensors('{"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}', "\0\1\2") --> fine
tessera.load(at "bad.safetensors").a --> [false  true  true]
--> bool[3]
core.from_bytes("\1\7\0", "bool", { 3 }) --> [ true  true false]
--> bool[3]
safetensors('{"a":{"dtype":"U16","shape":[2],"data_offsets":[0,4]}}', "\255\255\1\0") --> fine
tessera.load(at "bad.safetensors").a --> [65535     1]
--> i32[2]
safetensors('{"a":{"dtype":"U64","shape":[1],"data_offsets":[0,8]}}', ("\255"):rep(8)) --> bad.safetensors: entry 'a': element 0 is 18446744073709551615, which i64 cannot hold

-- The header is JSON, and nothing that only looks like it. Every text here is refused by Python's
-- json with allow_nan off, or (halves of surrogates) by encoding what it gives as UTF-8.
local function header(shape, tail)
  return (safetensors(('{"a":{"dtype":"U8","shape":[%s],"data_offsets":[0,16]}}%s'):format(shape, tail or "")):gsub("^bad.safetensors: ", ""))
end
header "16" --> fine
header("16", "  ") --> fine
header "0x10" --> the header is no JSON: line 1, byte 30: ',' or ']' is missing
header "+16" --> the header is no JSON: line 1, byte 29: no value begins so
header "016" --> the header is no JSON: line 1, byte 29: a number does not begin with 0
header "1.6e1" --> a number of the header is not digits alone: line 1, byte 29
header "16.0" --> a number of the header is not digits alone: line 1, byte 29
header "16." --> the header is no JSON: line 1, byte 32: a digit is missing
header "16," --> the header is no JSON: line 1, byte 32: no value begins so
header "NaN" --> the header is no JSON: line 1, byte 29: no value begins so
header "0,9007199254740993" --> entry 'a' has a bad shape
header("16", "x") --> the header is no JSON: line 1, byte 56: text behind the end
header("16", "\0") --> the header is no JSON: line 1, byte 56: text behind the end
local function named(name)
  return (safetensors(('{"%s":%s}'):format(name, entry)):gsub("^bad.safetensors: the header is no JSON: ", ""))
end
named "\195\169\\u00e9\\ud83d\\ude00\240\159\152\128" --> fine
named "\1" --> line 1, byte 3: a control character in a string
named "a\n" --> line 1, byte 4: a control character in a string
named "\255" --> line 1, byte 3: no UTF-8
named "\237\160\128" --> line 1, byte 3: no UTF-8
named "\192\175" --> line 1, byte 3: no UTF-8
named "\\ud83d" --> line 1, byte 3: half of a pair of surrogates
named "\\ud83d\\n" --> line 1, byte 3: half of a pair of surrogates
named "\\ude00" --> line 1, byte 3: half of a pair of surrogates
named "\\x41" --> line 1, byte 3: no such escape
named "\\u12g4" --> line 1, byte 3: no such escape
safetensors "" --> bad.safetensors: the header is no JSON: line 1, byte 1: a value is missing
safetensors "[]" --> bad.safetensors: the header is no object of JSON that begins at once
safetensors(' {"a":' .. entry .. "}") --> bad.safetensors: the header is no object of JSON that begins at once
local function json(text)
  core.write_file(at "c.json", { text })
  local ok, value = pcall(require "tessera.io".load_json, at "c.json")
  return ok and value or try(require "tessera.io".load_json, at "c.json")
end
json '{"n": [1, -0, 2.5e+3]}'.n[3] --> 2500
json '{"n": 1,\n "m": 01}' --> c.json: no JSON: line 2, byte 7: a number does not begin with 0
json '{"n": 1, "n": 2}' --> c.json: 'n' stands twice in an object
json '{"n": 1,}' --> c.json: no JSON: line 1, byte 9: a name in quotes is missing
json "{'n': 1}" --> c.json: no JSON: line 1, byte 2: a name in quotes is missing
json '{"n": Infinity}' --> c.json: no JSON: line 1, byte 7: no value begins so
json '{"n": 1} // one' --> c.json: no JSON: line 1, byte 10: text behind the end
json '\239\187\191{"n": 1}' --> c.json: no JSON: line 1, byte 1: no value begins so
json(("["):rep(1001) .. ("]"):rep(1001)) --> c.json: no JSON: line 1, byte 1001: arrays and objects stand too deep
json '[1' --> c.json: no JSON: line 1, byte 3: ',' or ']' is missing

-- So is the header of NumPy's files: a dict with three fields, each once.
local function npy(fields, version)
  local text = fields .. (" "):rep(-(#fields + 11) % 64) .. "\n"
  core.write_file(at "bad.npy", { "\147NUMPY" .. (version or "\1\0") .. string.char(#text, 0) .. text .. ("\0"):rep(64) })
  return (try(tessera.load, at "bad.npy"):gsub("^bad.npy: ", ""))
end
local function shaped(shape) return npy(("{'descr': '<f4', 'fortran_order': False, 'shape': %s, }"):format(shape)) end
npy '{"shape":(2,3,),"descr":"=f4","fortran_order":True}' --> fine
shaped "(2L, 3L)" --> fine
shaped "()" --> fine
shaped "(2)" --> the header, byte 54: shape is no tuple
shaped "[2]" --> the header, byte 51: shape is no tuple
shaped "(2,, 3)" --> the header, byte 54: a size is no whole number
shaped "(2 3)" --> the header, byte 54: ',' or ')' is missing in shape
shaped "(02,)" --> the header, byte 52: a size begins with 0
shaped "(-2,)" --> the header, byte 52: a size is no whole number
shaped "(0x2,)" --> the header, byte 53: ',' or ')' is missing in shape
shaped "(2.0,)" --> the header, byte 53: ',' or ')' is missing in shape
shaped "(0, 9007199254740993)" --> the header, byte 55: the size 9007199254740993 is too large
local rest = "'fortran_order': False, 'shape': (2,)"
npy("{'descr': '<f4', 'descr': '<i4', " .. rest .. "}") --> the header, byte 18: descr stands twice in it
npy("{'descr': '<f4', 'other': 1, " .. rest .. "}") --> the header, byte 18: there is no field 'other'
npy("{'descr': 4, " .. rest .. "}") --> the header, byte 11: descr is no string
npy("{'descr': [('a', '<f4')], " .. rest .. "}") --> the dtype is a record, not a number
npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}") --> the header, byte 35: fortran_order is neither True nor False
npy("{'descr': '<f4', 'shape': (2,)}") --> the header lacks fortran_order
npy("{'descr': '<f4' " .. rest .. "}") --> the header, byte 17: ',' or '}' is missing
npy("{'descr': '<f4', " .. rest .. "} + {}") --> the header, byte 57: text behind its end
npy(rest) --> the header, byte 1: '{' is missing
npy("{'descr': '<f4', " .. rest .. "}", "\1\1") --> unknown .npy version 1.1

-- ---- and those that are not written
local function save(...) return try(tessera.save, at "new.safetensors", ...) end
save { __metadata__ = x } --> new.safetensors: '__metadata__' is no name of a tensor: the format uses it
save { ["\255"] = x } --> new.safetensors: the name '\xff' is no UTF-8
save { [1] = x, ["1"] = x + 1 } --> new.safetensors: '1' is the name of two
save { [true] = x } --> new.safetensors: a name is a string, not a boolean
save({ a = x }, { k = "\192\128" }) --> new.safetensors: the metadata 'k' is no UTF-8
save({ a = x }, { k = ("x"):rep(100 * 2 ^ 20) }):match "^(.-) %d" --> new.safetensors: names and metadata take
save { ["\27é\"\\/"] = x } --> fine
next((tessera.load(at "new.safetensors"))) == "\27é\"\\/" --> true
sh "ls new.safetensors" --> new.safetensors

-- ---- NumPy's, written by tests/fuzz/make_files.py
for name, dtype in pairs { turned = "f64", turned_complex = "complex64", turned_half = "f16", turned_long = "i64", u2 = "i32", u4 = "i64", u8 = "i64" } do
  local t = tessera.load("tests/fuzz/" .. name .. ".npy")
  if t.dtype ~= dtype or t:hash() ~= op.arange(6):reshape(2, 3):cast(dtype):hash() then failed = failed or name end
end
failed --> nil
try(tessera.load, "tests/fuzz/u8_large.npy") --> tests/fuzz/u8_large.npy: element 1 is 9223372036854775808, which i64 cannot hold
local stored, packed = tessera.load "tests/fuzz/stored.npz", tessera.load "tests/fuzz/packed.npz"
stored.a:hash() == op.arange(6):reshape(2, 3):cast "f64":hash() and packed.a:hash() == stored.a:hash() --> true
stored.b:hash() == op.arange(6):reshape(2, 3):cast "f32":hash() --> true
stored.c --> [    1 65535]
--> i32[2]
packed.big.dtype, #packed.big.shape, packed.big:abs():sum():item() --> i32, 2, 0
packed.d --> [[0 1 2]
-->  [3 4 5]]
--> i16[2,3]
packed.e --> [ true false]
--> bool[2]
local function damaged(name, from, to)
  local text = core.read_file("tests/fuzz/" .. name)
  local changed = text:gsub(from, to, 1)
  core.write_file(at "bad.npz", { changed })
  return try(tessera.load, at "bad.npz")
end
damaged("packed.npz", "big%.npy", "big.txt") --> bad.npz: 'big.npy' has another name where it stands
damaged("stored.npz", "'fortran_order'", "'descr' : '<u1'") --> bad.npz: 'a.npy': the header, byte 18: descr stands twice in it
damaged("stored.npz", "'fortran_order'", "'fortran_ordre'") --> bad.npz: 'a.npy': the header, byte 18: there is no field 'fortran_ordre'
damaged("stored.npz", "PK\5\6", "PK\5\7") --> bad.npz: not a .npz file: it has no directory
damaged("stored.npz", "PK\3\4", "PK\3\5") --> bad.npz: 'a.npy' is not where the directory says
damaged("packed.npz", "\147NUMPY", "\147NUMPY"):match "fine" --> fine
sh "head -c 400 /dev/zero > z.npz"
try(tessera.load, at "z.npz") --> z.npz: not a .npz file: it has no directory
try(tessera.save, at "z.npz", { x = x }) --> z.npz: the name must end in .safetensors or .npy

-- ---- text of graphs
tessera.graph.load "graph @f(%x: f32[2]) -> %0 { %0 = neg %x }"(op.ones { 2 }) --> [-1. -1.]
--> f32[2]
try(tessera.graph.load, "/") --> cannot open /: it is a folder
try(tessera.graph.load) --> graph.load: a path or the text of a graph is needed, not a nil
try(op.pipeline, print):match "^[^\n]+" --> op.pipeline: a list is needed, of a value and functions or of functions, not a function
try(op.pipeline, { x, 3 }) --> op.pipeline: stage 2 is a number, not a function
try(op.rearrange):match "^[^\n]+" --> rearrange: a tensor is needed, not nothing
try(op.rearrange, x):match "^[^\n]+" --> rearrange: a pattern is needed, not nothing
try(op.rearrange, x, "a -> a", { a = "x" }) --> rearrange: "a -> a": the size of 'a' is x
try(tessera.rng.seed, {}) --> rng.seed: a number is needed, not table
try(tessera.rng.seed, 1.5) --> rng.seed: a seed has at most 64 bits and no fraction, not 1.5

-- ---- what is printed arrives, or the program fails
for _, code in ipairs { "print(1)", "io.write(1)", "io.write(1) os.exit(0)", "io.stdout:setvbuf('no') print(1)", "for i = 1, 9999 do print(i) end",
  "print(1) os.exit(true, true)" } do
  local _, status = tiers.shell(("%s -e \"%s\" > /dev/full 2>&1"):format(tiers.program, code))
  if status ~= 1 then failed = failed or code .. " " .. tostring(status) end
end
select(2, tiers.shell(tiers.program .. " --version > /dev/full 2>&1")) --> 1
select(2, tiers.shell(tiers.program .. " -e 'print(1) os.exit(3)' > /dev/full 2>&1")) --> 3
failed --> nil
sh("rm -rf " .. dir)
