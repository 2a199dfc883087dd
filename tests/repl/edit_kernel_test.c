/* :edit and :diff on a terminal: an editor that is a command of sed changes the text of a kernel. What
 * is wrong with it is told with its line, and the same text opened again; what was tried is kept
 * and taken back. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/repl/terminal.h"

static void begin(const char *editor) {
  setenv("VISUAL", editor, 1);
  start(120, 50, "xterm");
  expect("> ");
  type("if not tessera.jit.status() then print 'no' .. ' code' os.exit(0) end\r");
  expect("> ");
  type("f = graph.module('f', function(x) return op.softmax(x * 2) end)\r");
  expect("> ");
  type("x = rng.normal{64, 160}\r");
  expect("> ");
  type("y = f(x)\r");
  expect("> ");
}

static void end(const char *what) {
  type("\x04");
  check(finish() == 0, what);
  unsetenv("VISUAL");
}

static void test_keeps(void) {
  begin("sed -i 's/mul \\(%[0-9]*\\), \\(%[0-9]*\\) : f32.160./mul \\2, \\1 : f32[160]/'");
  type(":edit f tile 0\r");
  expect("edited at level tile");
  expect("bits    equal, of 10240 elements");
  expect(":edit keep keeps it for this session, :edit keep disk for later ones too");
  type(":edit keep\r");
  expect("kept for this session; :edit drop f 0 takes it back");
  type(":why f\r");
  expect("edited by the user");
  type(":diff f tile 0\r");
  expect("--- f tile as the passes make it\n+++ f tile as it runs\n");
  type("q\r");                   /* of the pager, where the text is longer than the terminal */
  type(":choose f 0 grain=2\r"); /* which the edit stands in front of */
  expect("edited by the user");
  expect("remark: grain 2 has no effect: the kernel was edited");
  type(":choose f 0 default\r");
  expect("edited by the user");
  type(":edit drop f\r");
  expect("the edit of kernel 0 of f at level tile is dropped; it is its own kernel again");
  type(":edit drop f\r");
  expect("no kernel of f is edited, so there is nothing to take back");
  type(":edit drop f 0\r");
  expect("nothing was kept of kernel 0 of f");
  type(":edit drop\r");
  expect(":edit drop is followed by a function");
  type(":diff f tile 0\r");
  expect("no difference: f runs as the passes make it");
  expect("> ");
  end("a kernel edited and kept");
}

static void test_mistakes(void) {
  begin("sed -i -e 's/ = expp / = exq /' -e 's/ = exp / = expp /'");
  type(":edit f tile 0\r");
  expect("line 13, column 11: there is no operation 'expp' in Tile IR");
  expect(":edit opens the text again");
  type(":edit\r"); /* what was written is still there */
  expect("there is no operation 'exq'");
  type(":edit keep\r");
  expect("the last :edit tried nothing");
  type(":edit nosuch tile\r");
  expect("there is no 'nosuch'");
  type(":edit f llvm 0\r");
  expect("the levels are schedule and tile, not 'llvm'");
  type(":edit f tile 9\r");
  expect("there is no kernel 9");
  expect("> ");
  end("a kernel with a mistake");
}

/* What was tried before an :edit that failed is not what was shown last. */
static void test_keeps_the_last(void) {
  begin("sed -i 's/mul \\(%[0-9]*\\), \\(%[0-9]*\\) : f32.160./mul \\2, \\1 : f32[160]/'");
  type(":edit f tile 0\r");
  expect("bits    equal");
  expect("> ");
  type(":edit f nosuch 0\r");
  expect("the levels are schedule and tile");
  type(":edit keep\r");
  expect(
      "the last :edit tried nothing, so there is nothing to keep; :edit opens its text again");
  type(":edit\r");
  expect("unchanged");
  type(":edit keep\r");
  expect("the last :edit tried nothing");
  expect("> ");
  end("what failed is not kept");
}

static void test_unchanged(void) {
  begin("true");
  type(":edit f schedule\r");
  expect("unchanged");
  expect("> ");
  end("an editor that changes nothing");
  begin("false");
  type(":edit f schedule\r");
  expect("the editor 'false' ended with an error");
  expect("> ");
  end("an editor that fails");
}

static void another_editor(void) {
  type("ffi = require 'ffi'; ffi.cdef 'int setenv(const char *, const char *, int);'\r");
  expect("> ");
  type("ffi.C.setenv('VISUAL', 'tail -n 1', 1)\r");
  expect("> ");
}

/* What was written is opened again, however the editor ended, and its file is gone. */
static void test_keeps_what_was_written(void) {
  char folder[512], editor[600];
  snprintf(folder, sizeof folder, "%s/texts", home_folder());
  mkdir(folder, 0700);
  setenv("TMPDIR", folder, 1);
  begin("sh -c 'echo be''gun >> $0; echo begun; exec sleep 30'");
  type(":edit f tile 0\r");
  expect("begun\n");
  usleep(100000);
  type("\x03");
  expect("> ");
  type("os.execute('ls $TMPDIR | wc -l')\r");
  expect("\n0\n");
  another_editor(); /* which shows it */
  type(":edit\r");
  expect("begun\n");
  expect("> ");
  end("an editor that Ctrl-C ends");
  snprintf(editor, sizeof editor, "sh -c 'echo more >> $0; exit 1'");
  begin(editor);
  type(":edit f tile 0\r");
  expect("what it wrote was not tried; :edit");
  another_editor();
  type(":edit\r");
  expect("\nmore\n");
  expect("> ");
  end("an editor that writes and fails");
  unsetenv("TMPDIR");
}

int main(int argc, char **argv) {
  (void)argc;
  if (!open_terminals(argv[0], "edit_kernel")) return 1;
  test_keeps();
  test_mistakes();
  test_keeps_the_last();
  test_unchanged();
  test_keeps_what_was_written();
  return close_terminals();
}
