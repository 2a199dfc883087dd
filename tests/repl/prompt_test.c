/* The prompt on a terminal: a pseudo terminal drives the built program. What it
 * prints is compared without escape sequences. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/repl/terminal.h"

static void test_values(void) {
  start(60, 20, "xterm");
  expect("Tessera 0.1.0");
  expect("> ");
  type("1 + 1\r");
  expect("\n2\n");
  type("local x = tessera.tensor({{1, 2}, {3, 4}})\r");
  expect("(a local is kept as a global at the prompt)");
  type("x + 1\r");
  expect("[[2. 3.]\n [4. 5.]]\nf32[2,2]");
  type("for i = 1, 2 do\rprint('n' .. i)\rend\r");
  expect("n1\nn2");
  type("x:nosuch()\r");
  expect("a tensor has no field or method 'nosuch'");
  type("? relu\r");
  expect("max(x, 0)");
  expect("> ");
  type("\x04");
  check(finish() == 0, "Ctrl-D leaves with 0");
}

static void test_completion(void) {
  start(80, 20, "xterm");
  expect("> ");
  type("x = tessera.tensor({-1})\rx:rel\t()\r");
  expect("[0.]");
  type("y = op.recip\t(x)\ry\r");
  expect("[-1.]");
  type("op.sum(x, {keepd\ttrue})\r");
  expect("keepdims = true");
  expect("f32[1]");
  type("m = nn.Linear(2, 3, {bi\tfalse})\rm\r"); /* options of functions of the library */
  expect("bias = false");
  expect("Linear(inputs = 2, outputs = 3, bias = false)");
  type("#m:par\t()\r"); /* a method of all modules */
  expect("parameters()");
  expect("\n1\n");
  type("nn.GELU{appr\t'ta\t}\r"); /* words, with the mark that they began with */
  expect("approximate = 'tanh'");
  expect("GELU(approximate = \"tanh\")");
  type("op.pad(x, {pads = {1, 0}, mode='repl\t})\r");
  expect("mode='replicate'");
  expect("[-1. -1.]");
  type("op.max(x, {axis = 0, ind\ttrue})\r");
  expect("indices = true");
  expect("f32[]");
  type("op.conv1d(op.ones{1, 1, 4}, op.ones{1, 1, 3}, {padding='sa\t})\r");
  expect("f32[1,1,4]");
  type("op.nanquantile(x, 0.5, {keep\ttrue}).ndim\r"); /* loaded when it is named */
  expect("keepdims = true");
  type("hf.batch(1, {max_b\t4})\r"); /* options that are told where the function is first called */
  expect("max_batch = 4");
  expect("must be a model");
  type("b:submit{max_\t1}\r"); /* those of a method, whatever it is called on */
  expect("max_new_tokens = 1");
  type("setmetatable(_G, nil) t = setmetatable({}, {__index = function() print('RAN') end}) "
       "print('it ' .. 'is there')\r");
  expect("it is there"); /* else the terminal itself would answer what follows */
  expect("> ");
  type("t.a\t");
  type("\x03");
  expect("^C");
  check(!strstr(seen, "RAN"), "Tab runs no code of the user");
  type(":quit 4\r");
  check(finish() == 4, ":quit gives its code");
}

static void test_interrupt(const char *term) {
  start(80, 20, term);
  expect("> ");
  type("kept = 41\r");
  expect("> ");
  type("abandoned");
  expect("abandoned");
  usleep(100000); /* it is the terminal that echoes in the second run: the reader follows */
  type("\x03");
  expect("^C");
  expect("> ");
  type("io.write('be', 'gins\\n') while true do end\r");
  expect("begins");
  type("\x03");
  expect("interrupted");
  expect("> ");
  type("kept + 1\r");
  expect("\n42\n");
  type("x = tessera.tensor({1}) io.write('ag', 'ain\\n') while true do x = x:mul(x) end\r");
  expect("again");
  type("\x03");
  expect("interrupted");
  expect("> ");
  type("x:mul(x)\r");
  expect("[1.]");
  for (int i = 0; i < 20; i++) { /* typed before the line runs */
    expect("> ");
    type("while true do end\r");
    usleep((useconds_t)(i % 5) * 1000);
    type("\x03");
    expect("^C");
  }
  expect("> ");
  type("kept + 2\r");
  expect("\n43\n");
  expect("> ");
  type("\x04");
  int code = finish();
  if (code) printf("prompt: exit code %d\n", code);
  check(code == 0, "the session goes on after Ctrl-C");
}

/* Ctrl-C just as a prompt appears is that prompt's, and never that of the input typed behind it. */
static void test_interrupt_at_prompt(const char *term) {
  enum { ROUNDS = 40 };
  start(60, 20, term);
  expect("> ");
  for (int i = 0; i < ROUNDS; i++) {
    char line[40], want[40];
    snprintf(line, sizeof line, "print('n' .. %d)\r", i);
    type("1 + 1\r");
    expect("\n2\n");
    expect("> ");
    type("\x03");
    expect("^C");
    expect("> "); /* a terminal forgets what was typed before the program hears of Ctrl-C */
    snprintf(want, sizeof want, "\nn%d\n", i);
    type(line);
    expect(want);
    expect("> ");
  }
  type("\x04");
  check(finish() == 0, "the session goes on after Ctrl-C at its prompts");
}

/* A loop that catches errors hears the first Ctrl-C as an error, and is left by the second. */
static void test_stubborn(void) {
  start(80, 20, "xterm");
  expect("> ");
  type("n, w = 0, tessera.op.ones{3}\r");
  expect("> ");
  type("f = function() n = n + 1; for i = 1, 1e4 do tostring(i) end "
       "io.write('round ', n, '\\n') io.flush() while true do w:add_(1) end end\r");
  expect("> ");
  type("while true do pcall(f) end\r");
  expect("round 1\n");
  type("\x03");
  expect("round 2\n");
  usleep(300000); /* one that follows at once is the same */
  type("\x03");
  expect("interrupted");
  expect("> ");
  type("(w:max() - w:min()):item()\r");
  expect("\n0\n");
  expect("> ");
  type("\x04");
  check(finish() == 0, "the session goes on after a loop that catches Ctrl-C");
}

/* Does the program wait until it can write? -1: the system does not say. */
static int is_writing(void) {
  char path[40], text[32] = "", *end;
  snprintf(path, sizeof path, "/proc/%d/syscall", (int)child);
  FILE *f = fopen(path, "r");
  if (!f) return -1;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  if (!n) return -1;
  return strtol(text, &end, 10) == SYS_write && !strncmp(end, " 0x1 ", 5);
}

/* Ctrl-C behind the banner, whose writing waits for a terminal that is stopped. */
static void test_banner(void) {
  int state;
  start(80, 20, "xterm");
  type("\x13");
  while (!(state = is_writing())) usleep(1000);
  type(state > 0 ? "\x03" : "\x11"); /* it goes on with either */
  expect("to leave\n");
  expect("> ");
  type("6 * 7\r");
  expect("42");
  expect("> ");
  type("\x04");
  check(finish() == 0, "the session begins after Ctrl-C behind the banner");
}

static void test_history(void) {
  start(80, 20, "xterm");
  expect("> ");
  type("'first' .. 'line'\r");
  expect("\"firstline\"");
  expect("> ");
  type("\x04");
  finish();
  start(80, 20, "xterm");
  expect("> ");
  type("\x1b[A\r");
  expect("\"firstline\"");
  expect("> ");
  type("\x04");
  finish();
}

/* What is longer than the screen comes by pages; of kernels one can be picked. */
static void test_pager(void) {
  start(80, 12, "xterm");
  expect("> ");
  type("f = graph.module('f', function(x, w) return op.softmax(op.matmul(x, w)) end) "
       "f(op.ones{64, 64}, op.ones{64, 64});\r");
  expect("> ");
  type(":ir f tile\r");
  expect("group 0: matmul");
  expect("0-1 or a name: that kernel, l: their list, q: end: ");
  type("l\r");
  expect("  0  matmul");
  expect("  1  softmax");
  type("soft\r");
  expect("group 1: softmax");
  type("q\r");
  expect("lines; ");
  type("q\r");
  expect("> ");
  type(":ir f explicit\r"); /* each kernel is made when it is shown */
  expect("group 0: matmul");
  expect("in kernel 0, the 1. of 2; Enter: on, 0-1 or a name: that kernel, l: their list, q: "
         "end: ");
  type("1\r");
  expect("group 1: softmax");
  type("q\r");
  expect("in kernel 0");
  type("\r");
  expect(" lines, in kernel 0");
  type("q\r");
  expect("> ");
  type(":ir f explicit 1\r");
  expect("group 1: softmax");
  expect("lines; Enter: on, q: end: ");
  type("q\r");
  expect("> ");
  type("('line\\n'):rep(30) .. 'end'\r");
  expect("-- 11 of 31 lines; Enter: on, q: end: ");
  type("nosuch\r");
  expect("there is no part 'nosuch' here");
  expect("q: end: ");
  type(":device\r"); /* an input, which ends the text */
  expect("auto\n");
  expect("> ");
  type("('line\\n'):rep(30) .. 'end'\r");
  expect("q: end: ");
  type("seven = 6 + 1\r");
  expect("> ");
  type("seven * 3\r");
  expect("\n21\n");
  type(":why f\r"); /* its words are whole */
  expect("stores tiles as they are\n");
  type("('line\\n'):rep(30) .. 'end'\r");
  expect("-- 11 of 31 lines; Enter: on, q: end: ");
  type("\r");
  expect("22 of 31");
  type("\r");
  expect("\nend\n");
  type(":pager off\r");
  expect("off");
  type("('line\\n'):rep(30) .. 'end'\r");
  expect("\nend\n");
  expect("> ");
  type("\x04");
  check(finish() == 0, "pages");
}

/* Commands of the shell; Ctrl-C ends one, and not the prompt. Values of inputs are kept. */
static void test_session(void) {
  start(80, 24, "xterm");
  expect("> ");
  type("!exit 3\r");
  expect("exit status 3");
  type("!echo be''gun; sleep 30\r");
  expect("begun\n");
  usleep(100000);
  type("\x03");
  expect("> ");
  type("20 + 1\r");
  expect("\n21\n");
  type("Out[1] * 2\r");
  expect("\n42\n");
  type("_1 + _2\r");
  expect("\n63\n");
  type("x = op.ones{2, 3}\r");
  expect("> ");
  type("who()\r");
  expect("x     f32   [2,3]     24  cpu:0\n");
  type("x:matmul(x)\r");
  expect("hint:");
  type(":err\r");
  expect("inner sizes differ");
  expect("every call, the last one first:");
  expect("in main chunk");
  expect("> ");
  type("\x04");
  check(finish() == 0, "the session");
}

/* Ctrl-X Ctrl-E opens what is typed in $VISUAL. */
static void test_editor(void) {
  setenv("VISUAL", "sed -i s/one/six/", 1);
  start(80, 24, "xterm");
  expect("> ");
  type("'twenty' .. 'one'\x18\x05");
  expect("six");
  type("\r");
  expect("\"twentysix\"");
  expect("> ");
  type("\x04");
  check(finish() == 0, "another editor");
  unsetenv("VISUAL");
}

/* On a narrow terminal no word is cut: of messages, of help, and of the line that a mark
 * stands under. */
static void test_narrow(void) {
  start(40, 10, "xterm");
  expect("> ");
  type("x = op.ones{2, 3}\r");
  expect("> ");
  type("f = function() return 1, 2, 3, 4, 5, 6, 7, 8, 9, x:matmul(x) end\r");
  expect("> ");
  type("f()\r");
  expect("input 2:1: matmul: inner sizes differ (3\n    vs 2): f32[2,3] x f32[2,3]\n");
  expect("    ...4, 5, 6, 7, 8, 9, x:matmul(x) ...\n                           ^\n");
  expect("  hint: the second operand fits\n");
  type("? softmax\r");
  expect("op.softmax(x [, {axis}])\n    e^(x - max) / sum(e^(x - max)) along\n    axis\n");
  expect("q: end: ");
  type("q\r");
  expect("> ");
  type("\x04");
  check(finish() == 0, "a narrow terminal");
}

int main(int argc, char **argv) {
  (void)argc;
  if (!open_terminals(argv[0], "prompt")) return 1;
  test_values();
  test_completion();
  test_interrupt("xterm");
  test_interrupt("dumb");
  test_interrupt_at_prompt("xterm");
  test_interrupt_at_prompt("dumb");
  test_stubborn();
  test_banner();
  test_history();
  test_narrow();
  test_pager();
  test_session();
  test_editor();
  return close_terminals();
}
