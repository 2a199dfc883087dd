-- Every row with an adjoint of its own has a gradient check in tests/grad.
local function read(path)
  local file = assert(io.open(path))
  local text = file:read "*a"
  file:close()
  return text
end

local function files(pattern)
  local list, pipe = {}, io.popen("ls " .. pattern)
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  return list
end

local checks = ""
for _, path in ipairs(files "tests/grad/*.lua") do checks = checks .. read(path) end

local free = { zero = true, none = true, compose = true }
local missing, rows, refused = {}, 0, {}
for _, path in ipairs(files "lib/ops/*.def") do
  for line in read(path):gmatch("[^\n]+") do
    local name, adjoint = line:match('^OP%(([%w_]+),%s*%u+,%s*[%w_]+,%s*%u+,%s*[%w_]+,%s*[%w_]+,%s*([%w_]+),')
    if name and adjoint == "none" then refused[#refused + 1] = name end
    if name and not free[adjoint] then
      rows = rows + 1
      if not checks:find('["\']' .. name .. '["\']') and not checks:find("[%s{]" .. name .. "[%s,=}]") then
        missing[#missing + 1] = name
      end
    end
  end
end
table.concat(missing, " ") --> 
rows > 150 --> true
table.concat(refused, " ") --> sgd_step adam_step lion_step adafactor_step bitcast
