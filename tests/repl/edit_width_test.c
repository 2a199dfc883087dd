/* The editor's UTF-8 and width functions, against libc's where it has an opinion. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "repl/edit/utf8.h"
#include "repl/edit/width.h"

int wcwidth(wchar_t c);

static int failures;

static void check(int good, const char *what, const char *text) {
  if (good) return;
  failures++;
  fprintf(stderr, "edit_width_test: %s: %s\n", what, text);
}

static void check_widths(void) {
  static const struct {
    uint32_t code;
    int width;
  } rows[] = {{'a', 1},      {0x7f, -1},     {0, -1},      {0x9b, -1},   {0xad, 1},
              {0xe9, 1},     {0x301, 0},     {0x200b, -1}, {0x200d, 0},  {0x202e, -1},
              {0x4e2d, 2},   {0xff21, 2},    {0xff71, 1},  {0xac00, 2},  {0x1160, 0},
              {0xd800, -1},  {0xfe0f, 0},    {0x1f600, 2}, {0x20000, 2}, {0xe000, 1},
              {0x10ffff, 1}, {0x110000, -1}, {0x2588, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char name[16];
    snprintf(name, sizeof name, "U+%04X", (unsigned)rows[i].code);
    check(ts_edit_width(rows[i].code) == rows[i].width, "width", name);
  }
}

/* libc and this table may have different versions of Unicode, and bridge unassigned code points
   differently; for what libc knows as printable they agree but for a few dozen. */
static void check_against_libc(void) {
  if (!setlocale(LC_CTYPE, "C.UTF-8")) return;
  int different = 0, known = 0;
  for (uint32_t code = 0x20; code < 0x110000; code++) {
    int theirs = wcwidth((wchar_t)code), ours = ts_edit_width(code);
    if (theirs < 0 || ours < 0) continue;
    known++;
    if (theirs != ours) different++;
    if (theirs != ours && getenv("VERBOSE"))
      printf("U+%04X libc %d ours %d\n", code, theirs, ours);
  }
  check(known > 100000, "libc knows", "too few code points");
  check(different <= 64, "libc differs", "in more than 64 code points");
}

static void check_round_trip(void) {
  for (uint32_t code = 1; code < 0x110000; code++) {
    if (code >= 0xd800 && code < 0xe000) continue;
    char bytes[4];
    uint32_t back;
    size_t size = ts_edit_utf8_encode(code, bytes);
    if (ts_edit_utf8_decode(bytes, size, &back) == size && back == code) continue;
    check(0, "encode and decode", "differ");
    return;
  }
}

static void check_bad_bytes(void) {
  static const char *const bad[] = {"\x80",         "\xff",         "\xc0\x80",
                                    "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                    "\xe4\xb8",     "\xc3("};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    uint32_t code;
    size_t used = ts_edit_utf8_decode(bad[i], strlen(bad[i]), &code);
    check(used == 1 && code == 0xfffd, "bad bytes", bad[i]);
  }
}

/* Clusters forwards and backwards have the same borders. */
static void check_clusters(const char *text, int expected) {
  size_t size = strlen(text), at = 0, borders[64];
  int count = 0;
  for (borders[0] = 0; at < size && count < 63; borders[++count] = at)
    at = ts_edit_utf8_next(text, size, at);
  check(count == expected, "clusters", text);
  for (int i = count; i > 0; i--)
    check(ts_edit_utf8_previous(text, size, borders[i]) == borders[i - 1], "backwards", text);
}

static void check_columns(const char *text, size_t columns) {
  check(ts_edit_utf8_columns(text, strlen(text)) == columns, "columns", text);
}

int main(void) {
  check_widths();
  check_against_libc();
  check_round_trip();
  check_bad_bytes();
  check_clusters("abc", 3);
  check_clusters("e\xcc\x81x", 2); /* e + acute */
  check_clusters("\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb!",
                 2); /* woman, joiner, laptop */
  check_clusters("\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa\xf0\x9f\x87\xab\xf0\x9f\x87\xb7",
                 2);                                      /* DE FR */
  check_clusters("\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd.", 2); /* thumb, skin tone */
  check_clusters("\xcc\x81\xcc\x81", 1);
  check_clusters("a\xff\xfe\x80z", 5);
  check_columns("a\tb", 2 + TS_EDIT_TAB_COLUMNS);
  check_columns("\x01\x7f", 4);
  check_columns("\xe4\xb8\xad\xe6\x96\x87", 4);
  check_columns("\xff\xe2\x80\xae", 2);
  if (failures == 0) printf("edit_width_test: ok\n");
  return failures != 0;
}
