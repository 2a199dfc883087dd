-- same_shape(a, b): whether two lists of sizes are equal.
return function(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end
