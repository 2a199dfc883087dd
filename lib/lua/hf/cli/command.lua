-- Models at the command line: tessera --generate, --embed, --chat, --serve. Each command is a file with its options and what it does; errors are
-- one line and a hint, as of every option of the program.

local words = require "tessera.arguments.words"

local command = {}

-- The message of an error as the shell's: without the place in the library and the method there, and options as words.
local function told(name, why)
  local text = tostring(why):gsub("^%S-:%d+: ", ""):gsub("^m:%a+: ", "")
  local known, kinds = pcall(function() return (require("tessera.hf.cli." .. name).kinds()) end)
  return known and words.told(text, kinds) or text
end

local function is_interrupt(why) return tostring(why):find "interrupted" ~= nil end

-- Tells what is wrong, as of every option of the program; Ctrl-C goes on.
local function try(name, f, ...)
  local got = { pcall(f, ...) }
  if got[1] then return unpack(got, 2, 3) end
  if is_interrupt(got[2]) then error(got[2], 0) end
  io.stdout:flush()
  io.stderr:write("tessera: --", name, ": ", told(name, got[2]), "\n")
  return 1
end

local function run(own, path, given, others)
  local kinds, defaults, theirs = own.kinds()
  for _, g in ipairs(given) do
    if g[1] and (g[2] == "--help" or g[2] == "-h") then
      print(("usage: %s\n\n%s\n\n%s"):format(own.usage, own.about, words.help(kinds, defaults)))
      return 0
    end
  end
  local o, texts = words.read(given, kinds, { many = own.many, files = own.files, others = others })
  for option, v in pairs(defaults) do
    if o[option] == nil and not (theirs and theirs[option] == v) then o[option] = v end -- theirs they know, and that nobody gave it
  end
  local on = own.run(path, o, texts)
  if not on then return 0 end
  return nil, function(line) return try("chat", on.turn, on, line) end
end

--- run(name, path, given, others): given are pairs {is_option, word}. The exit code; or nil, and a function of a line of a conversation,
--- which gives true at its end and 1 where something was wrong with the line.
function command.run(name, path, given, others) return try(name, run, require("tessera.hf.cli." .. name), path, given, others) end

return command
