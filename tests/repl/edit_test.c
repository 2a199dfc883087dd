/* The line editor over a pseudo terminal: keys in, texts out, history, ends; see
 * edit_session.h. For what is seen tests/repl/edit_screen_test.c. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "repl/edit/edit.h"
#include "tests/repl/edit_session.h"

/* ---- editing: keys in, text out ---- */

/* clang-format off */
static const struct {
  const char *name, *keys, *text;
} edits[] = {
    {"plain", "print(1)\r", "print(1)"},
    {"empty", "\r", ""},
    {"line feed ends", "a\n", "a"},
    {"home and end", "b\x01" "a\x05" "c" HOME "<" END ">\r", "<abc>"},
    {"other homes", "b\x1b[1~a\x1b[4~c\x1bOH<\x1bOF>\r", "<abc>"},
    {"left and right", "ad" LEFT "bc" RIGHT "e\x02\x02" "x\x06" "y\r", "abcxdye"},
    {"backspace", "abc\x7f\x7f" "d\x08" "e\r", "ae"},
    {"delete", "abc" HOME "\x1b[3~\x04\r", "c"},
    {"delete at the ends", HOME "\x7f\x1b[3~" "a\x1b[3~\r", "a"},
    {"kill to end, yank", "one two" HOME RIGHT RIGHT RIGHT "\x0b" HOME "\x19\r", " twoone"},
    {"kill to start", "one two\x02\x15x\r", "xo"},
    {"kill word", "f(a.b, c\x17" "d\r", "f(a.b, d"},
    {"kills gather", "one two three\x17\x17" HOME "\x19\r", "two threeone "},
    {"kill forward gathers", "a b c" HOME "\x1b" "d\x1b" "d\x05\x19\r", " ca b"},
    {"alt backspace", "foo.bar(baz)\x1b\x7f\x1b\x7f\r", "foo."},
    {"word left", "foo bar_1 baz\x1b" "b\x1b" "bX\r", "foo Xbar_1 baz"},
    {"word right", "foo bar" HOME "\x1b" "fX\r", "fooX bar"},
    {"control arrows", "foo bar\x1b[1;5DX\x1b[1;5C\x1b[1;3DY\r", "foo YXbar"},
    {"transpose", "ab\x14" "cd" LEFT "\x14\r", "badc"},
    {"transpose at the start", "ab" HOME "\x14\r", "ab"},
    {"utf-8", "\xc3\xa9" WIDE "x" LEFT "\x7f" "y\r", "\xc3\xa9" "yx"},
    {"combining marks move as one", "e" ACUTE "x" LEFT LEFT "y\r", "ye" ACUTE "x"},
    {"combining marks go as one", "ae" ACUTE "\x7f" "b\r", "ab"},
    {"bad utf-8", "a\xff" "b\xc3" "c\r", "a\xef\xbf\xbd" "b\xef\xbf\xbd" "c"},
    {"unknown sequences", "a\x1b[15~\x1b[[A\x1bOP\x1b[99;5u" "b\x1b[1;2R\r", "ab"},
    {"controls", "a\x1c\x1d\x1e" "b\r", "ab"},
    {"paste", PASTE("x = 1\ry = 2\r") "\r", "x = 1\ny = 2"},
    {"paste crlf and tab", PASTE("a\r\n\tb\n\nc") "!\r", "a\n\tb\n\nc!"},
    {"paste in the middle", "()" LEFT PASTE("1\n") "\r", "(1\n)"},
    {"paste with escapes", PASTE("a\x1b[201b\x1b\x1b[A") "\r", "a\x1b[201b\x1b\x1b[A"},
    {"paste does not run", PASTE("x\ry\rz") "\x15\x7f\x15\x7f\x15" "ok\r", "ok"},
    {"several lines", "for do\rx\rend\r", "for do\n  x\nend"},
    {"nested indentation", "do\rdo\rx\rend\rend\r", "do\n  do\n    x\n  end\nend"},
    {"function heads", "do local function f(a)\rx = do\rend\rend end\r",
     "do local function f(a)\n  x = do\n  end\nend end"},
    {"calls are no heads", "do f(x)\ry end\r", "do f(x)\ny end"},
    {"alt enter", "a\x1b\rb\r", "a\nb"},
    {"up and down inside", "do\rabcdef\r" UP UP "1" DOWN "2" DOWN "end\r", "do1\n  a2bcdef\nend"},
    {"kill line end", "a\x1b\rb" UP END "\x0b\r", "ab"},
    {"tab indents", "do\r\tx end\r", "do\n    x end"},
    {"complete one", "pri\t(1)\r", "print(1)"},
    {"complete the common part", "x = ma\tm\tx\r", "x = matmulx"},
    {"complete cuts characters", "pr\xc3\t\x7f\r", "pr"},
    {"tab walks", "me\t \r", "mean "},
    {"tab walks on", "mat\t\t\t\r\r", "matrix"},
    {"shift tab walks back", "mat\t\x1b[Z\r\r", "matrix"},
    {"ctrl-g takes back", "mat\t\t\x07\r", "mat"},
    {"nothing to complete", "zzz\t\r", "zzz"},
};
/* clang-format on */

static void check_edits(Session *s) {
  for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
    subject = edits[i].name;
    type(s, edits[i].keys);
    expect(s, edits[i].text);
  }
  end_of_input(s);
}

static void test_edits(void) {
  Session s = start((Setup){.columns = 40, .rows = 12, .terminal = "xterm"});
  check_edits(&s);
}

/* The same on screens hardly wider than a character: texts are right, and nothing breaks. */
static void test_small_screens(void) {
  static const int sizes[][2] = {{10, 3}, {3, 2}, {2, 1}, {1, 1}, {5, 1}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    Session s =
        start((Setup){.columns = sizes[i][0], .rows = sizes[i][1], .terminal = "xterm"});
    if (s.model.columns < 2) s.model.columns = 2; /* the editor writes for two */
    check_edits(&s);
  }
}

/* ---- history ---- */

static const char *temporary(const char *name) {
  static char folder[64], path[128];
  if (!folder[0]) {
    strcpy(folder, "/tmp/edit_test.XXXXXX");
    if (!mkdtemp(folder)) abort();
  }
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static char *contents(const char *path) {
  char *text = calloc(1, 1 << 20);
  FILE *f = fopen(path, "r");
  size_t size = f ? fread(text, 1, (1 << 20) - 1, f) : 0;
  if (f) fclose(f);
  text[size] = 0;
  return text;
}

static void expect_file(const char *path, const char *wanted) {
  char *text = contents(path);
  if (strcmp(text, wanted) != 0) fail("file", text, wanted);
  free(text);
}

static void test_history(void) {
  char path[128];
  strcpy(path, temporary("new/folder/history"));
  Setup setup = {.columns = 40, .rows = 10, .terminal = "xterm", .history = path};
  subject = "history";
  Session s = start(setup);
  type(&s, "one\rtwo\rtwo\rdo\rx\\n\rend\rthree\r");
  expect(&s, "one"), expect(&s, "two"), expect(&s, "two"), expect(&s, "do\n  x\\n\nend");
  expect(&s, "three");
  type(&s, UP "!\r");
  expect(&s, "three!");
  type(&s, "draft" HOME "\x10\x10\x10\x0e\x0e\x0e.\r");
  expect(&s, "draft.");
  type(&s,
       "t" UP UP UP UP UP DOWN "\r"); /* three! three two, and nothing older begins with t */
  expect(&s, "three");
  type(&s, "nothing" UP DOWN "\r");
  expect(&s, "nothing");
  end_of_input(&s);
  expect_file(path, "one\ntwo\ndo\\n  x\\\\n\\nend\nthree\nthree!\ndraft.\nthree\nnothing\n");

  subject = "history is loaded";
  s = start(setup);
  type(&s, UP "\x10\x10\x10\x10\r"); /* nothing three draft. three! three */
  expect(&s, "three");
  type(&s, "\x12"
           "x\\\r");
  expect(&s, "do\n  x\\n\nend");
  type(&s, "\x12two\x7f\x7f\x7fone\r");
  expect(&s, "one");
  type(&s, "keep\x12three\x07\r");
  expect(&s, "keep");
  type(&s, "\x12thr");
  expect_row(&s, s.model.row, "(search) 'thr': three");
  type(&s, "\x12");
  expect_row(&s, s.model.row, "(search) 'thr': three!");
  type(&s, "zz");
  expect_row(&s, s.model.row, "(no match) 'thrzz': three!");
  type(&s, "\x05?\r");
  expect(&s, "three!?");
  type(&s, "\x12thr\x03");
  expect(&s, "<status 2>");
  end_of_input(&s);
}

/* Processes that write at once: nothing is lost, no line is torn. */
static void test_shared_history(void) {
  enum { PROCESSES = 6, LINES = 25 };
  subject = "shared history";
  char path[128];
  strcpy(path, temporary("shared"));
  for (int p = 0; p < PROCESSES; p++) {
    if (fork() != 0) continue;
    TsEdit *e = ts_edit_open(0, 1, path);
    for (int i = 0; i < LINES; i++) {
      char line[64];
      snprintf(line, sizeof line, "process %d\nline %d", p, i);
      ts_edit_remember(e, line);
    }
    ts_edit_close(e);
    _exit(0);
  }
  while (wait(NULL) > 0) {
  }
  char *text = contents(path);
  for (int p = 0; p < PROCESSES; p++)
    for (int i = 0; i < LINES; i++) {
      char line[64];
      snprintf(line, sizeof line, "process %d\\nline %d\n", p, i);
      if (count_of(text, line) != 1) fail("entry", "not there once", line);
    }
  free(text);
  struct stat state;
  if (stat(path, &state) < 0 || (state.st_mode & 0777) != 0600) fail("mode", "other", "0600");
}

static void test_bounded_history(void) {
  subject = "bounded history";
  char path[128], line[32];
  strcpy(path, temporary("bounded"));
  FILE *f = fopen(path, "w");
  for (int i = 0; i < 30000; i++) fprintf(f, "line %d\n", i);
  fprintf(f, "no line end");
  fclose(f);
  TsEdit *e = ts_edit_open(0, 1, path);
  if (ts_edit_history_size(e) != 10000) fail("loaded", "other", "10000");
  for (int i = 0; i < 1500; i += 100) {
    snprintf(line, sizeof line, "new %d", i);
    ts_edit_remember(e, line);
  }
  if (ts_edit_history_size(e) != 10000) fail("kept", "other", "10000");
  if (strcmp(ts_edit_history_entry(e, 9999), "new 1400") != 0)
    fail("newest", "other", "new 1400");
  if (ts_edit_history_entry(e, 10000)) fail("beyond", "an entry", "NULL");
  ts_edit_close(e);
  char *text = contents(path);
  if (count_of(text, "\n") != 10000) fail("saved", "other", "10000 lines");
  if (!strstr(text, "no line end\nnew 0\n")) fail("saved", "other", "the end of the old file");
  free(text);
}

/* ---- ends, signals, memory ---- */

static void test_signals(void) {
  static const struct {
    int number;
    const char *end;
  } rows[] = {{SIGTERM, "signal 15"}, {SIGHUP, "signal 1"}, {SIGQUIT, "signal 3"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    subject = rows[i].end;
    Session s = start_usual();
    type(&s, "half a line");
    expect_row(&s, 0, "> half a line");
    kill(s.child, rows[i].number);
    finish(&s, rows[i].end);
  }
  subject = "SIGINT";
  Session s = start_usual();
  type(&s, "half");
  expect_row(&s, 0, "> half");
  kill(s.child, SIGINT);
  expect(&s, "<status 2>");
  type(&s, "exit\r");
  expect(&s, "exit");
  finish(&s, "exit 3");

  subject = "stop and continue";
  s = start_usual();
  type(&s, "half");
  expect_row(&s, 0, "> half");
  kill(s.child, SIGSTOP);
  struct termios mode = s.before;
  tcsetattr(s.terminal, TCSANOW, &mode); /* as a shell does */
  kill(s.child, SIGCONT);
  expect_row(&s, 1, "> half");
  s.reads += 2; /* the editor enters once more now, and once more after Ctrl-Z */
  type_bytes(&s, "\x1a way\r", 6); /* a session without a shell is not stopped */
  expect(&s, "half way");
  end_of_input(&s);
}

static void test_hangup(void) {
  subject = "terminal gone";
  Session s = start_usual();
  type(&s, "half");
  expect_row(&s, 0, "> half");
  close(s.terminal);
  int state;
  waitpid(s.child, &state, 0);
  if (!WIFSIGNALED(state) || WTERMSIG(state) != SIGHUP) fail("end", "other", "SIGHUP");
  close(s.results);
}

static void test_memory(void) {
  subject = "memory";
  if (!allocations_can_fail()) return;
  signal(SIGINT, SIG_IGN); /* for the child, should Ctrl-C find it outside of a read */
  char path[128];
  strcpy(path, temporary("memory"));
  for (int n = 1; n < 120; n++) {
    Session s = start((Setup){
        .columns = 20, .rows = 5, .terminal = "xterm", .history = path, .allocations = n});
    type(&s, "do\rmat\t\t\rx\x17\x19 end\rone" UP DOWN "\x12o\r");
    type(&s, PASTE("a\nb") "\r\x04\x04\x04\x04");
    int state;
    int64_t end = now_ms() + PATIENCE_MS;
    while (waitpid(s.child, &state, WNOHANG) == 0) {
      listen_for(&s, 5);
      if (now_ms() > end) kill(s.child, SIGKILL);
      type(&s, "\x03\x04");
    }
    struct termios after;
    tcgetattr(s.terminal, &after);
    if (WIFSIGNALED(state) || (WEXITSTATUS(state) != 0 && WEXITSTATUS(state) != 4)) {
      char number[32];
      snprintf(number, sizeof number, "%d: state %x", n, (unsigned)state);
      fail("allocation", number, "a clean end");
    }
    if (!same_mode(&s.before, &after)) fail("terminal mode", "changed", "restored");
    close(s.terminal), close(s.results);
  }
}

/* ---- plain reading ---- */

static void test_pipe(void) {
  subject = "pipe";
  static const char input[] = "one\r\n\ntwo\0nul\ndo\nx\nend\ndo\nlast";
  static const char nul[] = "two\0nul";
  int in[2], results[2];
  if (pipe(in) < 0 || pipe(results) < 0) abort();
  size_t huge = 200000;
  char *line = malloc(huge + 1);
  memset(line, 'x', huge), line[huge] = '\n';
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    close(in[1]), close(results[0]);
    Setup setup = {.terminal = "xterm"};
    int out = open("/dev/null", O_WRONLY);
    edit_until_end(&setup, in[0], out, results[1]);
    exit(0);
  }
  close(in[0]), close(results[1]);
  pid_t writer = fork();
  if (writer == 0) {
    if (write(in[1], line, huge + 1) < 0 || write(in[1], input, sizeof input - 1) < 0) _exit(1);
    _exit(0);
  }
  close(in[1]);
  Session s = {.results = results[0], .terminal = -1};
  size_t size = 0;
  char *text = result(&s, &size);
  if (size != huge || memcmp(text, line, huge) != 0) fail("huge line", "other", "as written");
  free(text);
  expect(&s, "one"), expect(&s, "");
  text = result(&s, &size);
  if (size != sizeof nul - 1 || memcmp(text, nul, size) != 0) fail("NUL", text, "two\\0nul");
  free(text);
  expect(&s, "do\nx\nend"), expect(&s, "do\nlast"), expect(&s, "<status 1>");
  waitpid(child, NULL, 0), waitpid(writer, NULL, 0);
  close(results[0]);
  free(line);
}

/* The terminal echoes; the editor adds prompts and nothing else. */
static void test_dumb(void) {
  static const char *const terminals[] = {"dumb", NULL};
  for (size_t i = 0; i < 2; i++) {
    subject = "dumb terminal";
    Session s = start((Setup){.columns = 40, .rows = 10, .terminal = terminals[i]});
    expect_row(&s, 0, ">");
    type(&s, "do\n");
    expect_row(&s, 1, ".");
    type(&s, "end\n");
    expect(&s, "do\nend");
    expect_row(&s, 1, ". end");
    end_of_input(&s);
  }
}

int main(void) {
  begin_tests();
  static void (*const tests[])(void) = {
      test_edits,           test_small_screens, test_history, test_shared_history, test_signals,
      test_bounded_history, test_hangup,        test_memory,  test_pipe,           test_dumb};
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tests[i]();
  char command[128];
  snprintf(command, sizeof command, "rm -rf %.*s", (int)strlen("/tmp/edit_test.XXXXXX"),
           temporary(""));
  if (system(command) != 0) fail("cleaning", "failed", "done");
  return end_tests("edit_test");
}
