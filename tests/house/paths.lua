-- Files and folders that comments and pages name are there. A name with a slash is one from the root of the
-- sources or from a folder that the naming file stands in; one without, of a file in C, is any file's. * stands for
-- any letters of a name, ** for folders too, {a,b} for either.
local roots = { devices = true, docs = true, examples = true, ir = true, jit = true, lib = true, repl = true,
  scripts = true, tests = true, vm = true }
local sources = { c = true, h = true, inc = true, def = true }
local foreign = { ["lj_bcdump.h"] = true } -- LuaJIT's
local recipes = { ["vm/kernels/x"] = true, ["jit/emit/simt/toy"] = true, ["devices/toy"] = true, ["tests/vm/x_test"] = true, -- what pages make up
  ["vm/kernels/diagonal"] = true, ["vm/exec/trace"] = true }

local files, names, paths = {}, {}, {}
local pipe = io.popen("find . -type f -not -path './build/*' -not -path './bin/*' -not -path './.git*' | sort")
for path in pipe:lines() do
  path = path:sub(3)
  files[#files + 1], names[path:match "[^/]*$"] = path, true
  paths[path] = true
  for at in path:gmatch "()/" do paths[path:sub(1, at - 1)] = true end
end
pipe:close()

local function each_choice(name, f)
  local before, choices, rest = name:match "^(.-){([^}]*)}(.*)$"
  if not before then return f(name) end
  for choice in choices:gmatch "[^,]+" do
    if not each_choice(before .. choice .. rest, f) then return false end
  end
  return true
end

local function is_path(name)
  name = name:gsub("/$", "")
  if not name:find("*", 1, true) then return paths[name] end
  local pattern = "^" .. name:gsub("[%.%-%+]", "%%%0"):gsub("%*%*", "\1"):gsub("%*", "[^/]*"):gsub("\1", ".*") .. "$"
  for path in pairs(paths) do
    if path:find(pattern) then return true end
  end
end

-- Whether `name` is a file or folder as seen from the file `from`.
local function is_there(name, from)
  if not name:find "/" then return names[name] or foreign[name] end
  local folder = from
  repeat
    folder = folder:match "^(.*)/[^/]*$" or ""
    if each_choice(name, function(n) return is_path(folder == "" and n or folder .. "/" .. n) end) then return true end
  until folder == ""
end

-- The words of a text that look like paths.
local function each_name(text, f)
  for before, word, behind in (" " .. text .. " "):gmatch "([^%w_%.%*/{},%-])([%w_%.%*/{},%-]+)()" do
    word = word:gsub("[%.,%-{}]+$", function(s) return s:match "^}" or "" end)
    local first, ext = word:match "^([%w_%-]+)/", word:match "%.(%l+)$"
    local skip = before:find "[<>$%%~\\:@]" or recipes[word:match "^(.*)%.%l$"] or text:sub(behind - 1, behind - 1) == "<"
      or word:find "//" or word:find "^[/%.]" or word:find "^,"
    local named = first and (roots[first] and word:find "/." or sources[ext or ""] and not word:find ",[^{}]*$")
    if not skip and (named or not word:find "[/%*{},]" and sources[ext or ""] and #word > #ext + 1) then f(word) end
  end
end

-- What of a line is comment, for C with what of one goes on.
local function of_c(line, inside)
  local out, at = {}, 1
  while true do
    if inside then
      local stop = line:find("*/", at, true)
      out[#out + 1] = line:sub(at, (stop or #line + 1) - 1)
      if not stop then return table.concat(out, " "), true end
      inside, at = false, stop + 2
    else
      local start = line:find("/*", at, true)
      if not start then return table.concat(out, " "), false end
      inside, at = true, start + 2
    end
  end
end

local kinds = {
  c = of_c, h = of_c, inc = of_c, def = of_c,
  md = function(line) return line end,
  lua = function(line) return line:match "%-%-([^>!].*)$" or "" end,
  sh = function(line) return line:match "^%s*#(.*)$" or line:match "%s#%s(.*)$" or "" end,
}
kinds.mk, kinds.py = kinds.sh, kinds.sh

local missing, seen = {}, 0
for _, path in ipairs(files) do
  local kind, inside, n = kinds[path:match "%.(%w+)$" or path == "Makefile" and "mk"], false, 0
  for line in kind and io.lines(path) or function() end do
    local comment
    n = n + 1
    comment, inside = kind(line, inside)
    each_name(comment, function(name)
      seen = seen + 1
      if not is_there(name, path) then missing[#missing + 1] = ("%s:%d: %s"):format(path, n, name) end
    end)
  end
end
seen > 1000 --> true
table.concat(missing, "\n") -->
