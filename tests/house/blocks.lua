-- Every code block of README.md and docs/*.md runs as it stands, a page's in one go:
--   ```lua      one script, blocks one after another, under `tessera -l tessera`
--   ```console  lines behind "> " at one prompt; the other lines are what it prints, "..." any lines
--   ```sh       commands of this program, in the root of the sources
--   ```text     nothing that runs
-- A comment in the line before a block, which is not seen where the page is, says otherwise:
--   <!-- not run: why -->       with a reason of `reasons`
--   <!-- run: sim for cuda -->  on the simulated GPU
local tessera = arg[-1] or "bin/tessera"
local languages = { lua = true, console = true, sh = true, text = true }
local SIM = "sim for cuda"
local reasons = { ["it installs"] = true, ["it needs a GPU"] = true, ["it needs a model"] = true, ["it takes minutes"] = true }

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- The blocks of a page: {language =, marker =, line =, text =}, and what is wrong with how they stand.
local function blocks_of(page, text)
  local list, wrong, block, before, n = {}, {}, nil, "", 0
  for line in (text .. "\n"):gmatch "(.-)\n" do
    n = n + 1
    local fence = line:match "^%s*```(.*)$"
    if block and fence then
      list[#list + 1], block = block, nil
    elseif block then
      block.text = block.text .. line .. "\n"
    elseif fence then
      block = { language = fence, marker = before:match "^<!%-%- (.*) %-%->$", line = n, text = "" }
      if not languages[fence] then wrong[#wrong + 1] = ("%s:%d: a block of '%s'"):format(page, n, fence) end
    end
    local why = before:match "^<!%-%- not run: (.*) %-%->$"
    if why and not (fence and reasons[why]) or before:match "^<!%-%- run:" and not (fence and before:match "run: (.*) %-%->$" == SIM) then
      wrong[#wrong + 1] = ("%s:%d: %s"):format(page, n - 1, before)
    end
    before = line
  end
  return list, wrong
end

local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir " .. folder)
local program = io.popen("realpath " .. tessera):read "*l"
os.execute(("ln -s %s %s/tessera"):format(program, folder))

local function sh(command)
  local p = io.popen(("{ export HOME=%s PATH=%s:$PATH; %s; } 2>&1; echo \"exit $?\""):format(folder, folder, command))
  local out = p:read "*a"
  p:close()
  local code = out:match "exit (%d+)%s*$"
  return (out:gsub("exit %d+%s*$", "")), tonumber(code)
end

-- Whether the lines of `shown`, in which "..." stands for any lines, are those of `out`.
local function shows(shown, out)
  local pattern = ("\n" .. shown):gsub("%p", "%%%0"):gsub("\n%%%.%%%.%%%.", "\0")
  return ("\n" .. out):match("^" .. pattern:gsub("%z", ".-") .. "$") ~= nil
end

-- What is wrong of a page, and how many blocks ran.
local function run(page, text)
  local list, wrong = blocks_of(page, text)
  local lua, at, ran = "", 1, 0
  for _, b in ipairs(list) do
    local code = b.text
    if b.marker == "run: " .. SIM then code = code:gsub("cuda", "sim") end
    if b.language == "text" or b.marker and b.marker:match "^not run" then
      -- to be read
    elseif b.language == "lua" then
      lua = lua .. ("\n"):rep(b.line + 1 - at) .. code -- lines are those of the page
      at = b.line + 1 + select(2, code:gsub("\n", ""))
      ran = ran + 1
    elseif b.language == "console" then
      local input, shown = "", ""
      for line in code:gmatch "(.-)\n" do
        if line:match "^> ?" then input = input .. line:gsub("^> ?", "") .. "\n" else shown = shown .. line .. "\n" end
      end
      write(folder .. "/input", input)
      local out = sh(("cd %s && tessera -i < input"):format(folder))
      if not shows(shown, out) then wrong[#wrong + 1] = ("%s:%d: prints\n%s"):format(page, b.line, out) end
      ran = ran + 1
    elseif b.language == "sh" then
      write(folder .. "/commands", code)
      local out, code_of = sh(("sh -e %s/commands"):format(folder))
      if code_of ~= 0 then wrong[#wrong + 1] = ("%s:%d: exit %s\n%s"):format(page, b.line, code_of, out) end
      ran = ran + 1
    end
  end
  if lua ~= "" then
    write(folder .. "/page.lua", lua)
    local out, code = sh(("cd %s && tessera -l tessera page.lua"):format(folder))
    if code ~= 0 then wrong[#wrong + 1] = ("%s: exit %s\n%s"):format(page, code, out) end
    for path in lua:gmatch "/tmp/[%w._-]+" do -- what a page makes outside of its folder it takes away
      if os.rename(path, path) then wrong[#wrong + 1] = ("%s: leaves %s"):format(page, path:match "[^/]*$") end
    end
  end
  return wrong, ran
end

-- ---- the test sees what is wrong
local fence, from, to = "```", "<!-" .. "- ", " -" .. "-" .. ">"
local function small(text) return (table.concat((run("page", (text:gsub("@", fence):gsub("{", from):gsub("}", to)))), "; "):gsub("%s+$", ""):gsub("%S*/tmp/%S*/", "")) end
small "@lua\nlocal x = 1\n@\n@lua\nassert(x == 1 and op.ones)\n@" -->
small "a\n@lua\nerror 'no'\n@":match "page.lua:3: no" --> page.lua:3: no
small "@console\n> 1 + 1\n2\n> x = op.ones(2)\n> x\n...\n@" -->
small "@console\n> 1 + 1\n3\n@" --> page:1: prints
--> 2
local left = os.tmpname()
os.remove(left)
small("@lua\nio.open('" .. left .. "', 'w'):close()\n@"):match "page: leaves" --> page: leaves
os.remove(left)
small("@lua\nio.open('" .. left .. "', 'w'):close() os.remove '" .. left .. "'\n@") -->
small "@sh\ntessera -e 'os.exit(3)'\ntrue\n@" --> page:1: exit 3
small "@\nx\n@" --> page:1: a block of ''
small "{not run: it needs a GPU}\n@lua\nerror 'no'\n@" -->
small "{not run: never}\n@lua\nx\n@" --> page:1: <!-- not run: never -->
small "{not run: it installs}\n\n@lua\nlocal x\n@" --> page:1: <!-- not run: it installs -->
small "{run: sim for cuda}\n@lua\nassert(op.ones(2):to('cuda:0').device == 'sim:0')\n@" -->

-- ---- the pages
local found = 0
for page in io.popen "ls README.md docs/*.md":lines() do
  local wrong, ran = run(page, read(page))
  for _, what in ipairs(wrong) do print(what) end
  assert(#wrong == 0, page)
  found = found + ran
end
found > 10 --> true
os.execute("rm -r " .. folder)
