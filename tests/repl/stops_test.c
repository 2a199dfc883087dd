/* Ctrl-C at random moments of a training at the prompt: each ends in one message with a line, and in a
 * prompt that works; the weights are then those of so many whole steps, to the bit, as another model
 * makes them without any Ctrl-C. Argument: how many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/repl/terminal.h"

static const char setup[] = "function made() rng.seed(3) local m = nn.Sequential(nn.Linear(24, "
                            "48), nn.GELU(), nn.Linear(48, 24)) "
                            "local o = optim.AdamW(m:parameters(), {lr = 1e-2}) "
                            "return m, o, graph.training_step(m, function(m, x, y) return "
                            "(m(x) - y):square():mean() end, o) end\r"
                            "x, y = rng.normal({32, 24}, {seed = 1, stream = 0}), "
                            "rng.normal({32, 24}, {seed = 2, stream = 0});\r"
                            "m, o, step = made() r, ro, rstep = made()\r"
                            "function bits(m) local t = {} for i, p in ipairs(m:parameters()) "
                            "do t[i] = p:hash() end return table.concat(t) end\r"
                            "function eager(m, o) local l = (m(x) - y):square():mean() "
                            "o:zero_grad() l:backward() o:step() end\r"
                            "function agree() local h = bits(m) for i = 0, 100000 do if "
                            "bits(r) == h then return 'the same after ' .. i end "
                            "rstep(x, y) end return 'OTHER bits' end\r"
                            "io.write('pre', 'pared\\n')\r";

/* Of a loop, until it says that it runs. */
static void stop_once(int i, unsigned *seed) {
  char text[160];
  snprintf(text, sizeof text, "io.write('go', 'es %d\\n') while true do step(x, y) end\r", i);
  expect("> ");
  type(text);
  snprintf(text, sizeof text, "goes %d\n", i);
  expect(text);
  usleep((useconds_t)(rand_r(seed) % 30000));
  type("\x03");
  expect("^C");
  expect("input ");
  expect(":1: ");
  expect("interrupted");
  expect("> ");
  type("agree()\r");
  expect("agree()");
  expect("\"the same after ");
}

int main(int argc, char **argv) {
  int stops = argc > 1 ? atoi(argv[1]) : 20;
  unsigned seed = 7;
  if (!open_terminals(argv[0], "stops")) return 1;
  start(200, 30, "xterm");
  expect("> ");
  type(setup);
  expect("\nprepared\n");
  for (int i = 0; i < stops; i++) stop_once(i, &seed);
  expect("> ");
  type("6 * 7\r");
  expect("\n42\n");
  expect("> ");
  type("\x04");
  check(finish() == 0, "the session ends as any other");
  return close_terminals();
}
