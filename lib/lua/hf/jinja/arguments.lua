-- Arguments of filters, tests and functions by place and by name.

local values = require "tessera.hf.jinja.values"
local fail = values.fail

--- read(what, args, named, {"a", "b"}, needed): the values of the parameters in their order, nil of those that are not given.
return function(what, args, named, names, needed)
  local out = {}
  if args.n > #names then fail("%s() takes at most %d arguments (%d given)", what, #names, args.n) end
  for i = 1, args.n do out[i] = args[i] end
  for _, p in ipairs(named) do
    local at
    for i, name in ipairs(names) do
      if name == p[1] then at = i end
    end
    if not at then fail("%s() got an unexpected keyword argument '%s'", what, p[1]) end
    if out[at] ~= nil then fail("%s() got multiple values for argument '%s'", what, p[1]) end
    out[at] = p[2]
  end
  for i = 1, needed or 0 do
    if out[i] == nil then fail("%s() missing a required argument: '%s'", what, names[i]) end
  end
  return unpack(out, 1, #names)
end
