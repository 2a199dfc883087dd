-- The loop of training that examples with a set of samples share.

local tessera = require "tessera"
local data = tessera.data

--- learn(step, optimizer, tensors, {steps, batch, unit, each}): calls step with full batches of the tensors, or of one, in another order in each epoch,
--- until the optimiser has done so many steps, beside a bar that counts samples, `unit`s. each(loss) follows a step. Gives the last
--- loss, or nil if there was no step.
return function(step, optimizer, tensors, o)
  local count = (tessera.core.is_tensor(tensors) and tensors or tensors[1]).shape[1]
  assert(o.steps == 0 or o.batch >= 1 and o.batch <= count, ("--batch %d, and there are %d samples to learn from"):format(o.batch, count))
  local bar = data.progress(o.steps, { label = "train", unit = o.unit, scale = o.batch })
  local loss
  while optimizer.steps < o.steps do
    for x, y in data.batches(tensors, { batch = o.batch, shuffle = true, drop_last = true, seed = optimizer.steps }) do
      loss = step(x, y)
      bar:update(optimizer.steps, { loss = loss })
      if o.each then o.each(loss) end
      if optimizer.steps >= o.steps then break end
    end
  end
  bar:finish()
  return loss
end
