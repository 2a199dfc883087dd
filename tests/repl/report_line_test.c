/* Lines of reports: no word is broken, no line is too wide, and the mark stands under its
 * character, columns being counted by libc. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "repl/report_line.h"
#include "tests/skip.h"

static int checks, failed;

static void check(int good, const char *what, const char *text) {
  checks++;
  if (good) return;
  failed++;
  printf("report_line: %s:\n%s\n", what, text);
}

/* Columns of n bytes as libc has them. */
static int columns_of(const char *s, size_t n) {
  mbstate_t state = {0};
  int all = 0;
  wchar_t c;
  for (size_t used; n > 0; s += used, n -= used) {
    used = mbrtowc(&c, s, n, &state);
    if (used == 0 || used > n) return -1;
    all += wcwidth(c);
  }
  return all;
}

/* The mark of a line stands under the word "here" of it, in what is shown. */
static void check_mark(const char *line, int columns) {
  TsText t = {0};
  ts_report_source(&t, line, (size_t)(strstr(line, "here") - line), columns);
  const char *shown = t.at + 1, *end = strchr(shown, '\n'), *found = strstr(shown, "here");
  int limit = columns ? columns : 160;
  check(*t.at == '\n' && end && found && found < end, "the word is shown", t.at);
  if (end && found && found < end) {
    check(columns_of(shown, (size_t)(found - shown)) == (int)strlen(end + 1) - 1, "mark", t.at);
    check(columns_of(shown, (size_t)(end - shown)) <= limit, "width", t.at);
  }
  check(end && end[strlen(end) - 1] == '^', "it ends with the mark", t.at);
  ts_text_free(&t);
}

static void test_marks(void) {
  static const char *const before[] = {"",
                                       "x = ",
                                       "\t\tx =\t",
                                       "f(\"\xc3\xa4\xc3\xb6\") ",
                                       "\xe6\x97\xa5\xe6\x9c\xac = ",
                                       "e\xcc\x81\xcc\xa3 + ",
                                       "\xf0\x9f\x98\x80 .. ",
                                       "a\tb\xe6\x97\xa5\tc "};
  for (size_t i = 0; i < sizeof before / sizeof *before; i++)
    for (int times = 1; times < 60; times += 7)
      for (int behind = 0; behind < 200; behind += 60)
        for (int columns = 0; columns <= 80; columns += 20) {
          char line[4096] = "";
          for (int k = 0; k < times; k++) strcat(line, before[i]);
          strcat(line, "here");
          for (int k = 0; k < behind; k++) strcat(line, k % 7 ? "z" : "\xc3\xbc");
          check_mark(line, columns);
        }
}

/* With blanks in place of line ends it says what it said. */
static void check_words(const char *text, int columns) {
  TsText t = {0};
  ts_report_words(&t, text, strlen(text), columns);
  char again[2048] = "", *to = again;
  for (const char *p = t.at; *p; p++) {
    if (*p != '\n' || p[1] != ' ') {
      *to++ = *p;
      continue;
    }
    *to++ = ' ';
    while (p[1] == ' ') p++;
  }
  *to = 0;
  check(!strcmp(again, text), "the words are whole", t.at);
  for (const char *line = t.at; line;
       line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    size_t n = strcspn(line, "\n"), lead = strspn(line, " ");
    int one = !memchr(line + lead, ' ', n - lead);
    check(columns_of(line, n) <= columns || one, "a line is too wide", t.at);
  }
  ts_text_free(&t);
}

static void test_words(void) {
  for (int columns = 20; columns < 120; columns += 3) {
    check_words(
        "model.lua:12: matmul: inner sizes differ: f32[64,128] x f32[256,10] (128 vs 256)",
        columns);
    check_words("a.lua:1: \xc3\xa4\xc3\xb6\xc3\xbc \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e is no "
                "\xe6\x97\xa5 of it, "
                "and so on",
                columns);
    check_words("onewordthatiswiderthananyterminalofthemalliswideandgoesonandon", columns);
  }
  TsText t = {0};
  ts_report_words(&t, "a  b\n  hint: c", 14, 0);
  check(!strcmp(t.at, "a  b\n  hint: c"), "without a terminal nothing changes", t.at);
  ts_text_free(&t);
}

int main(void) {
  if (!setlocale(LC_ALL, "C.UTF-8")) return skip("there is no locale C.UTF-8"), 0;
  test_marks();
  test_words();
  printf("checks %d failed %d\n", checks, failed);
  return failed != 0;
}
