/* The prompt cell by cell: libvterm, a terminal that we did not write, shows what the program prints
 * while keys are typed. Without libvterm-dev it says so and is skipped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/repl/terminal.h"
#include "tests/skip.h"

#ifndef TS_VTERM

int main(void) { return skip("libvterm is not here (apt-get install libvterm-dev)"); }

#else

#include <vterm.h>

static VTerm *vt;
static VTermScreen *screen;

static void feed(const char *bytes, size_t size) { vterm_input_write(vt, bytes, size); }

static void open_screen(int columns, int rows) {
  if (vt) vterm_free(vt);
  vt = vterm_new(rows, columns);
  vterm_set_utf8(vt, 1);
  screen = vterm_obtain_screen(vt);
  vterm_screen_reset(screen, 1);
  on_bytes = feed;
}

static size_t put(char *to, uint32_t c) {
  if (c < 0x80) return to[0] = (char)c, 1;
  if (c < 0x800) return to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 63)), 2;
  if (c < 0x10000)
    return to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 63)),
           to[2] = (char)(0x80 | (c & 63)), 3;
  return to[0] = (char)(0xf0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 63)),
         to[2] = (char)(0x80 | (c >> 6 & 63)), to[3] = (char)(0x80 | (c & 63)), 4;
}

/* A row without the blanks at its end. */
static const char *row(int r) {
  static char text[2048];
  int rows, columns;
  size_t n = 0;
  vterm_get_size(vt, &rows, &columns);
  for (int c = 0; c < columns && n + 32 < sizeof text;) {
    VTermScreenCell cell;
    vterm_screen_get_cell(screen, (VTermPos){r, c}, &cell);
    if (!cell.chars[0]) text[n++] = ' ';
    for (int i = 0; i < VTERM_MAX_CHARS_PER_CELL && cell.chars[i]; i++)
      if (cell.chars[i] != (uint32_t)-1) n += put(text + n, cell.chars[i]);
    c += cell.width > 1 ? cell.width : 1;
  }
  while (n && text[n - 1] == ' ') n--;
  text[n] = 0;
  return text;
}

static int dim_at(int r, int c) {
  VTermScreenCell cell;
  vterm_screen_get_cell(screen, (VTermPos){r, c}, &cell);
#if defined VTERM_ATTR_DIM_MASK
  return cell.attrs.dim;
#else
  return 1; /* this libvterm knows no dim */
#endif
}

static int find_row(const char *text) {
  int rows, columns;
  vterm_get_size(vt, &rows, &columns);
  for (int r = 0; r < rows; r++)
    if (!strcmp(row(r), text)) return r;
  return -1;
}

/* Waits until a row is that text. */
static int see(const char *text) {
  int r;
  while ((r = find_row(text)) < 0 && more()) continue;
  if (r < 0) {
    char what[400];
    snprintf(what, sizeof what, "a row \"%s\"", text);
    check(0, what);
    for (int i = 0; i < 20; i++) printf("  %2d |%s\n", i, row(i));
  }
  return r;
}

static void cursor_at(int r, int c, const char *what) {
  VTermPos at;
  for (;;) {
    vterm_state_get_cursorpos(vterm_obtain_state(vt), &at);
    if ((at.row == r && at.col == c) || !more()) break;
  }
  if (at.row != r || at.col != c)
    printf("  cursor at %d,%d, not %d,%d\n", at.row, at.col, r, c);
  check(at.row == r && at.col == c, what);
}

static void begin(int columns, int rows, const char *option) {
  open_screen(columns, rows);
  start_with(columns, rows, "xterm", option);
  see(">");
}

/* Enter, with what stands in the row; until the next line is edited. */
static void enter(const char *text) {
  see(text);
  type("\r");
  see(">");
  expect_editor();
}

static void leave(void) {
  expect_editor();
  type("\x15\x0b"); /* whatever is typed goes */
  type("\x04");
  check(finish() == 0, "it ends");
}

static void resize(int columns, int rows) {
  struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
  vterm_set_size(vt, rows, columns);
  ioctl(terminal, TIOCSWINSZ, &size);
}

static void test_wrapping(void) {
  begin(20, 10, "--no-hints");
  type("abcdefghijklmnopqrstuvwxyz");
  int r = see("> abcdefghijklmnopqr");
  check(!strcmp(row(r + 1), "stuvwxyz"), "the rest on the next row");
  cursor_at(r + 1, 8, "the cursor behind it");
  type("\x01");
  cursor_at(r, 2, "Ctrl-A goes to the first row");
  type("X");
  see("> Xabcdefghijklmnopq");
  type("\x1f");
  see("> abcdefghijklmnopqr");
  leave();
}

/* CJK take two cells, and do not straddle the margin; combining marks take none. */
static void test_wide(void) {
  begin(20, 10, "--no-hints");
  type("s='"
       "\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0"
       "\xe5\xa5\xbd");
  int r = see(
      "> "
      "s='"
      "\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xbd\xa0");
  check(!strcmp(row(r + 1), "\xe5\xa5\xbd"), "the last one on its own row");
  cursor_at(r + 1, 2, "two cells wide");
  type("\x7f\x7f");
  cursor_at(r, 17, "deleting goes by characters");
  type("\x15"
       "e\xcc\x81x");
  see("> e\xcc\x81x");
  cursor_at(r, 4, "a combining mark takes no cell");
  type("\x1b[D\x1b[D\x7f");
  cursor_at(r, 2, "and goes with its letter");
  leave();
}

static void test_resizing(void) {
  begin(40, 12, "--no-hints");
  type("return 'aaaaaaaaaabbbbbbbbbbcccccccccc'");
  see("> return 'aaaaaaaaaabbbbbbbbbbcccccccccc");
  resize(20, 12);
  type("\x01\x05");
  see("> return 'aaaaaaaaaa");
  see("bbbbbbbbbbcccccccccc");
  resize(60, 12);
  type("\x01\x05");
  see("> return 'aaaaaaaaaabbbbbbbbbbcccccccccc'");
  leave();
}

static void test_search_and_lists(void) {
  begin(60, 16, "--no-hints");
  type("first_line = 1");
  enter("> first_line = 1");
  type("other = 2");
  enter("> other = 2");
  type("\x12"
       "first");
  while (!strstr(seen, "first_line = 1"))
    if (!more()) break;
  type("\x05"); /* what is found is taken, with the cursor at its end */
  see("> first_line = 1");
  type("\x15"
       "x = op.sig");
  see("> x = op.sig");
  type("\t\t");
  int r = find_row("> x = op.sigmoid");
  while ((r = find_row("> x = op.sigmoid(")) < 0 && (r = find_row("> x = op.sigmoid")) < 0)
    if (!more()) break;
  check(r >= 0, "Tab completes");
  leave();
}

static void test_hints(void) {
  begin(60, 16, NULL);
  type("x = op.softmax(y, ");
  int r = see("> x = op.softmax(y,");
  int h = see("op.softmax(x [, {axis}])");
  check(h == r + 1, "the signature stands under the text");
  check(dim_at(h, 0), "and is dim");
  cursor_at(r, 20, "the cursor stays in the text");
  type("{axis = 0}");
  see("op.softmax(x [, {axis}])");
  type(")");
  while (find_row("op.softmax(x [, {axis}])") >= 0 && more()) continue;
  check(find_row("op.softmax(x [, {axis}])") < 0, "it goes when the call is whole");
  type("\x15"
       "function mine(first, second) return first end");
  enter("> function mine(first, second) return first end");
  type("mine(1, ");
  see("mine(first, second)");
  type("2)");
  enter("> mine(1, 2)");
  see("1");
  check(find_row("mine(first, second)") < 0, "it goes with Enter");
  type(":hints off");
  enter("> :hints off");
  see("off");
  type("op.softmax(y, ");
  see("> op.softmax(y,");
  check(find_row("op.softmax(x [, {axis}])") < 0, ":hints off");
  leave();
}

static void test_undo(void) {
  begin(60, 16, "--no-hints");
  type("one two three");
  see("> one two three");
  type("\x1f");
  see("> one two");
  type("\x18\x15");
  see("> one");
  type("2\x17\x1f");
  see("> one 2");
  type("\x15\x1f");
  see("> one 2");
  leave();
}

static void test_lines(void) {
  begin(30, 12, "--no-hints");
  type("for i = 1, 2 do\r");
  int r = see("> for i = 1, 2 do");
  check(r + 1 == see("."), "another row");
  type("print(i * 10)\r"
       "end");
  see(".   print(i * 10)");
  see(".   end");
  type("\x1b[A\x1b[A\x05\x7f\x7f"
       "DO");
  see("> for i = 1, 2 DO");
  type("\x1f\x1f");
  enter("> for i = 1, 2 d"); /* an error */
  leave();
}

static void test_small(void) {
  begin(20, 5, NULL);
  type("x = op.softmax(abcdefghijklmnopqrstuvwxyz, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, "
       "14, 15");
  see("6, 7, 8, 9, 10, 11,");
  check(find_row("op.softmax(x [, {ax") == 4, "the signature is cut to the screen");
  type("\x01");
  see("> x = op.softmax(abc");
  cursor_at(0, 2, "the first row is shown for the cursor");
  type("\x0b");
  see(">");
  type("1 + 1");
  enter("> 1 + 1");
  see("2");
  leave();
}

int main(int argc, char **argv) {
  (void)argc;
  if (!open_terminals(argv[0], "cells")) return 1;
  test_wrapping();
  test_wide();
  test_resizing();
  test_search_and_lists();
  test_hints();
  test_undo();
  test_lines();
  test_small();
  vterm_free(vt);
  return close_terminals();
}

#endif
