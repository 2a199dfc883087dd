/* The line editor over a pseudo terminal: keys in, screens out; see edit_session.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "repl/edit/edit.h"
#include "tests/repl/edit_session.h"

static void test_screen(void) {
  subject = "screen";
  Session s = start_usual();
  expect_row(&s, 0, ">");
  expect_cursor(&s, 0, 2);
  type(&s, "hi");
  expect_row(&s, 0, "> hint shown");
  expect_cursor(&s, 0, 4);
  type(&s, LEFT);
  expect_row(&s, 0, "> hi");
  type(&s, END "\r");
  expect(&s, "hi");
  expect_row(&s, 0, "> hi");
  expect_row(&s, 1, ">");
  type(&s, "a" WIDE "e" ACUTE "1\x01\x05");
  expect_row(&s, 1, "> a" WIDE "e" ACUTE "1");
  expect_cursor(&s, 1, 7);
  if (s.model.styles[1][6] != 36) fail("colour of 1", "other", "36");
  type(&s, "\x03");
  expect(&s, "<status 2>");
  expect_row(&s, 1, "> a" WIDE "e" ACUTE "1^C");
  expect_row(&s, 2, ">");
  type(&s, "x\x0c");
  expect_row(&s, 0, "> x");
  expect_cursor(&s, 0, 3);
  type(&s, "\r");
  expect(&s, "x");
  type(&s, "io\r");
  expect(&s, "io");
  expect_row(&s, 2, "no line end%");
  expect_row(&s, 3, ">");
  end_of_input(&s);
}

static void test_wrapping(void) {
  subject = "wrapping";
  Session s = start((Setup){.columns = 10, .rows = 6, .terminal = "xterm"});
  type(&s, "12345678");
  expect_row(&s, 0, "> 12345678");
  expect_cursor(&s, 1, 0);
  type(&s, "9");
  expect_row(&s, 1, "9");
  expect_cursor(&s, 1, 1);
  type(&s, "\x7f");
  expect_row(&s, 1, "");
  expect_cursor(&s, 1, 0);
  type(&s, LEFT WIDE); /* leaves no room for the wide one: it and the 8 go to the next row */
  expect_row(&s, 0, "> 1234567");
  expect_row(&s, 1, WIDE "8");
  expect_cursor(&s, 1, 2);
  type(&s, END "\x1b\rabcdefgh\x1b\ri");
  expect_row(&s, 2, ". abcdefgh");
  expect_row(&s, 3, "");
  expect_row(&s, 4, ". i");
  type(&s, "\x1b\r" UP UP HOME);
  expect_row(&s, 5, ".");
  expect_cursor(&s, 2, 2);
  type(&s, UP HOME);
  expect_row(&s, 0, "> 1234567");
  expect_cursor(&s, 0, 2);
  type(&s, "\r");
  expect(&s, "1234567" WIDE "8\nabcdefgh\ni\n");
  expect_row(&s, 4, ".");
  expect_row(&s, 5, ">");
  expect_row(&s, 1, ". abcdefgh");
  if (s.model.scrolled != 1) fail("scrolled", "another number of rows", "1");
  end_of_input(&s);
}

static void test_high_texts(void) {
  subject = "high text";
  Session s = start((Setup){.columns = 20, .rows = 5, .terminal = "xterm"});
  type(&s, PASTE("l1\nl2\nl3\nl4\nl5\nl6\nl7\nl8"));
  expect_row(&s, 0, ". l4");
  expect_row(&s, 4, ". l8");
  type(&s, UP UP UP UP UP);
  expect_row(&s, 0, ". l3");
  expect_cursor(&s, 0, 4);
  type(&s, DOWN "x");
  expect_row(&s, 1, ". l4x");
  type(&s, "\x1b<y");
  expect_row(&s, 0, "> yl1");
  type(&s, "\r");
  expect(&s, "yl1\nl2\nl3\nl4x\nl5\nl6\nl7\nl8");
  expect_row(&s, 0, ". l5");
  expect_row(&s, 3, ". l8");
  expect_row(&s, 4, ">");
  end_of_input(&s);
}

static void test_lists(void) {
  subject = "list with help";
  Session s = start_usual();
  type(&s, "m\t");
  expect_row(&s, 0, "> m");
  expect_row(&s, 1, "matmul  product of two matrices");
  expect_row(&s, 2, "matrix  two axes");
  expect_row(&s, 3, "mean    average");
  expect_cursor(&s, 0, 3);
  type(&s, "\t");
  expect_row(&s, 0, "> matmul");
  expect_cursor(&s, 0, 8);
  type(&s, "\x1b"); /* Escape alone: known as such when nothing follows */
  expect_row(&s, 0, "> m");
  expect_row(&s, 1, "");
  type(&s, "\t\t" DOWN);
  expect_row(&s, 0, "> matrix");
  type(&s, "!");
  expect_row(&s, 0, "> matrix!");
  expect_row(&s, 1, "");
  expect_row(&s, 3, "");
  type(&s, "\r");
  expect(&s, "matrix!");
  end_of_input(&s);

  subject = "list in columns";
  s = start((Setup){
      .columns = 30, .rows = 8, .terminal = "xterm", .plain_words = 1, .many_words = 1});
  type(&s, "m\t");
  expect_row(&s, 1, "matmul  matrix  mean");
  type(&s, "\x15w\t");
  expect_row(&s, 0, "> word");
  expect_row(&s, 1, "word000  word167  word334");
  expect_row(&s, 7, "(1-6 of 167 rows)");
  type(&s, "\x1b[Z");
  expect_row(&s, 0, "> word499");
  expect_row(&s, 6, "word165  word332  word499");
  type(&s, "\r\r");
  expect(&s, "word499");
  end_of_input(&s);
}

static void test_resize(void) {
  subject = "resize";
  Session s = start_usual();
  type(&s, "a line of text");
  expect_row(&s, 0, "> a line of text");
  struct winsize size = {.ws_col = 60, .ws_row = 12};
  s.model.columns = 60, s.model.rows = 12;
  ioctl(s.terminal, TIOCSWINSZ, &size);
  type(&s, " that goes on and on behind column forty");
  expect_row(&s, 0, "> a line of text that goes on and on behind column forty");
  expect_cursor(&s, 0, 56);
  type(&s, "\r");
  expect(&s, "a line of text that goes on and on behind column forty");
  end_of_input(&s);
}

static void test_messages(void) {
  subject = "message while editing";
  Session s = start_usual();
  type(&s, "later\r");
  expect(&s, "later");
  type(&s, "abc");
  expect_row(&s, 1, "a message");
  expect_row(&s, 2, "of two lines");
  expect_row(&s, 3, "> abc");
  type(&s, "\r");
  expect(&s, "abc");
  end_of_input(&s);
}

/* Is the cursor behind a Q, which no key but the last one types? */
static int at_mark(const Model *m) {
  int row = m->column ? m->row : m->row - 1, column = m->column ? m->column : m->columns;
  return row >= 0 && !m->hidden && strcmp(m->cells[row][column - 1], "Q") == 0;
}

/* Ctrl-L moves the drawing to the first row, and must change nothing else. */
static void compare_redraw(Session *s) {
  listen_until(s, at_mark(&s->model));
  Model *before = malloc(sizeof *before);
  *before = s->model;
  type(s, "\x0c");
  listen_until(s, s->model.cleared > before->cleared && at_mark(&s->model));
  int shift = before->row - s->model.row;
  if (shift < 0 || before->column != s->model.column) fail("cursor", "moved", "kept");
  for (int row = 0; shift >= 0 && row + shift < s->model.rows; row++) {
    char *old = strdup(model_row(before, row + shift));
    if (strcmp(old, model_row(&s->model, row)) != 0)
      fail("redraw", old, model_row(&s->model, row));
    free(old);
  }
  free(before);
}

/* Whatever was typed, the screen that grew by redraws equals one drawn afresh: Ctrl-L. */
static void test_random_keys(void) {
  /* clang-format off */
  static const char *const keys[] = {
      "a", "b ", "12345 ", WIDE, WIDE WIDE, "e" ACUTE, "m", "long words ", "\xff", "\xe2\x80\xae",
      LEFT, RIGHT, HOME, END, UP, DOWN, "\x1b" "b", "\x1b>", "\x7f", "\x1b[3~", "\x0b", "\x19",
      "\x14", "\x17", "\x15", "\x1b\r", "\t", "\x1b[Z", "\x12", PASTE("x\n\ty")};
  /* clang-format on */
  subject = "random keys";
  unsigned seed = getenv("EDIT_TEST_SEED") ? (unsigned)atoi(getenv("EDIT_TEST_SEED")) : 12345;
  for (int round = 0; round < 150; round++) {
    Session s =
        start((Setup){.columns = 4 + round % 20, .rows = 2 + round % 9, .terminal = "xterm"});
    for (int i = 0; i < 40; i++) {
      seed = seed * 1103515245 + 12345;
      type(&s, keys[seed / 65536 % (sizeof keys / sizeof *keys)]);
      if (i % 4 == 0) listen_for(&s, 2);
    }
    type(&s, RIGHT "Q"); /* the arrow ends lists and searches */
    compare_redraw(&s);
    type(&s, "\x03");
    expect(&s, "<status 2>");
    end_of_input(&s);
  }
}

int main(void) {
  static void (*const tests[])(void) = {test_random_keys, test_screen, test_wrapping,
                                        test_high_texts,  test_lists,  test_resize,
                                        test_messages};
  begin_tests();
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tests[i]();
  return end_tests("edit_screen_test");
}
