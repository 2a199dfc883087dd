-- Single rows of the operator table with every attribute, dtype and special value: does a result
-- depend on
-- where its inputs lie, on what lay in memory, on how often it is computed?
local steps = dofile "tests/fuzz/programs/_steps.lua"
local words, calls = steps.words, steps.calls

return function(W)
  local R = W.R
  W:line('profile "%s"', R:pick { "strict", "strict", "deterministic" })
  local made = 0
  for _ = 1, 40 do
    local row = calls.row(R)
    local c = calls.call(R, row, R:chance(0.8))
    local params, given, holes, by = {}, {}, {}, {}
    for i, x in ipairs(c.inputs) do
      local key = words.list(x.shape) .. x.dtype
      if by[key] and R:chance(0.3) then
        holes[i] = by[key]
      else
        params[#params + 1] = "x" .. #params + 1
        given[#given + 1], holes[i], by[key] = calls.data(R, x), params[#params], params[#params]
        W:run(params[#params] .. " = " .. given[#given])
      end
    end
    local text = c.text:format(unpack(holes))
    local fine, y = W:run("return " .. text)
    if (fine and (not W.env.core.is_tensor(y) or y.numel < 3000)) or (not fine and R:chance(0.1)) then
      W:open("steady(%q, function(%s)", row.name, table.concat(params, ", "))
      W:line("return %s", text)
      W:close("end%s)", #given > 0 and ", " .. table.concat(given, ", ") or "")
      made = made + 1
      if made >= 3 then return end
    end
  end
end
