/* Lines of a report. See repl/report_line.h. */
#include "repl/report_line.h"

#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "repl/edit/utf8.h"

enum { INDENT = 4, NARROW = 20, WIDE = 160, DOTS = 3 }; /* WIDE: where there is no terminal */

int ts_report_columns(void) {
  struct winsize size = {0};
  bool known = isatty(STDERR_FILENO) && !ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
  return !known || !size.ws_col ? 0 : size.ws_col < NARROW ? NARROW : size.ws_col;
}

static bool open_line;

void ts_report_set_open_line(bool open) { open_line = open; }

bool ts_report_open_line(void) { return open_line; }

/* ---- words */
static void put_broken(TsText *out, const char *line, size_t n, int columns) {
  size_t lead = 0;
  while (lead < n && line[lead] == ' ') lead++;
  int column = (int)lead, indent = (int)lead + INDENT;
  ts_text_add(out, line, lead);
  for (size_t at = lead; at < n;) {
    size_t blanks = at, end;
    while (blanks < n && line[blanks] == ' ') blanks++;
    for (end = blanks; end < n && line[end] != ' ';) end++;
    int width = (int)ts_edit_utf8_columns(line + blanks, end - blanks);
    if (at > lead && column + (int)(blanks - at) + width > columns) {
      ts_text_char(out, '\n');
      ts_text_pad(out, ' ', column = indent);
    } else {
      ts_text_add(out, line + at, blanks - at);
      column += (int)(blanks - at);
    }
    ts_text_add(out, line + blanks, end - blanks);
    column += width;
    at = end;
  }
}

void ts_report_words(TsText *out, const char *text, size_t n, int columns) {
  if (!columns) return ts_text_add(out, text, n);
  for (size_t at = 0; at < n;) {
    const char *end = memchr(text + at, '\n', n - at);
    size_t size = end ? (size_t)(end - text) - at : n - at;
    put_broken(out, text + at, size, columns);
    if (end) ts_text_char(out, '\n');
    at += size + (end != NULL);
  }
}

/* ---- a line of source */
/* A cluster of characters: its bytes and columns as they are shown. Blanks take a tab's
 * place: where it would end depends on the column. */
static size_t cluster(const char *s, size_t n, TsText *out, int *width) {
  size_t used = ts_edit_utf8_next(s, n, 0);
  *width = 0;
  for (size_t at = 0; at < used;) {
    TsEditGlyph g = ts_edit_utf8_glyph(s + at, used - at);
    bool control = (unsigned char)s[at] < ' ';
    if (out) ts_text_add(out, control ? " " : g.bytes, control ? 1 : (size_t)g.size);
    *width += control ? 1 : g.width;
    at += g.used;
  }
  return used;
}

static int columns_of(const char *s, size_t n) {
  int all = 0, width;
  for (size_t at = 0; at < n; all += width) at += cluster(s + at, n - at, NULL, &width);
  return all;
}

/* Columns [from, to) of the line; the first one that is shown, as a wide character may begin
 * before. */
static int put_part(TsText *out, const char *s, size_t n, int from, int to) {
  int column = 0, first = to, width;
  for (size_t at = 0; at < n && column < to; column += width) {
    TsText one = {0};
    at += cluster(s + at, n - at, &one, &width);
    if (column >= from && column + width <= to) {
      ts_text_add(out, one.at, one.len);
      if (column < first) first = column;
    }
    ts_text_free(&one);
  }
  return first;
}

/* The first column of `room` ones that are shown, so that the mark stands in the last third
 * at most. */
static int first_shown(int all, int mark, int room) {
  int first = mark - room * 2 / 3;
  if (first > all - room) first = all - room;
  return first > 0 ? first : 0;
}

void ts_report_source(TsText *out, const char *line, size_t mark, int columns) {
  size_t lead = strspn(line, " \t");
  const char *s = line + lead;
  size_t n = strlen(s), at = mark > lead ? mark - lead : 0;
  int room = (columns ? columns : WIDE) - INDENT, all = columns_of(s, n);
  int column = columns_of(s, at), from = 0, to = all;
  if (all > room && column < room - 2 * DOTS) {
    to = room - DOTS;
  } else if (all > room) {
    from = first_shown(all, column, room - 2 * DOTS);
    to = from + room - 2 * DOTS;
  }
  ts_text_char(out, '\n');
  ts_text_pad(out, ' ', INDENT);
  if (from) ts_text_str(out, "...");
  int first = put_part(out, s, n, from, to);
  if (to < all) ts_text_str(out, "...");
  ts_text_char(out, '\n');
  ts_text_pad(out, ' ', INDENT + (from ? DOTS : 0) + column - first);
  ts_text_char(out, '^');
}
