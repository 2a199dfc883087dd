/* Layout and drawing.

   One walk over prompt and text moves a pen over rows and columns; the first walk finds the
   height and the cursor, the second emits the rows that fit. Rows wrap through the terminal's
   own margin, not through line ends of ours: then the terminal can join them in a selection,
   and on a resize it wraps them anew exactly as the walk does for the new width. A row that is
   full leaves the terminal's cursor waiting at the margin while the pen stands on the next row
   already: `waiting`, which settle() ends. Each redraw is one string and no cell is erased
   before it is overwritten, so nothing flickers. */
#include "repl/edit/screen.h"

#include <stdio.h>
#include <string.h>

#include "repl/edit/edit.h"
#include "repl/edit/utf8.h"

typedef struct Pen {
  TsEditText *out; /* NULL: only measure */
  int columns;
  int row, column; /* of the next glyph */
  int first, end;  /* rows that are emitted */
  int waiting, dim;
  int cursor_row, cursor_column;
  unsigned char attribute;
} Pen;

static void emit(Pen *p, const char *bytes, size_t size) {
  if (p->out && p->row >= p->first && p->row < p->end) ts_edit_text_append(p->out, bytes, size);
}

static void emit_string(Pen *p, const char *string) { emit(p, string, strlen(string)); }

/* Makes the terminal's cursor follow the pen to the row after a full one. */
static void settle(Pen *p) {
  if (p->waiting) emit_string(p, " \r");
  p->waiting = 0;
}

static void emit_attribute(Pen *p) {
  static const char *const codes[] = {
      [TS_EDIT_PLAIN] = "0",     [TS_EDIT_KEYWORD] = "0;35", [TS_EDIT_STRING] = "0;32",
      [TS_EDIT_NUMBER] = "0;36", [TS_EDIT_COMMENT] = "0;90", [TS_EDIT_NAME] = "0;34",
      [TS_EDIT_ERROR] = "0;31",  [TS_EDIT_MATCH] = "0;1;4"};
  emit_string(p, "\x1b[");
  emit_string(p, codes[p->attribute < sizeof codes / sizeof *codes ? p->attribute : 0]);
  emit_string(p, "m");
}

static void next_row(Pen *p, int full) {
  int visible = p->row >= p->first && p->row < p->end;
  p->row++, p->column = 0;
  p->waiting = full && visible && p->row < p->end;
  if (p->row == p->first && p->attribute) emit_attribute(p); /* it was set out of sight */
}

static void put(Pen *p, const char *bytes, int size, int width) {
  if (p->column + width > p->columns) {
    emit_string(p, "\x1b[K");
    next_row(p, 0);
  }
  if (width == 0 && p->waiting) { /* a mark on the last column's character */
    ts_edit_text_append(p->out, bytes, (size_t)size);
    return;
  }
  emit(p, bytes, (size_t)size);
  if (width > 0) p->waiting = 0;
  p->column += width;
  if (p->column >= p->columns) next_row(p, 1);
}

static void put_glyph(Pen *p, const TsEditGlyph *glyph) {
  if (!glyph->cells) {
    put(p, glyph->bytes, glyph->size, glyph->width);
    return;
  }
  for (int i = 0; i < glyph->size; i++) put(p, glyph->bytes + i, 1, 1);
}

static void line_end(Pen *p) {
  settle(p);
  emit_string(p, "\x1b[K");
  if (p->row + 1 < p->end) emit_string(p, "\r\n");
  next_row(p, 0);
}

/* Bytes of an escape sequence at s, or 0. */
static size_t escape_size(const char *s) {
  if (s[0] != 0x1b) return 0;
  if (s[1] != '[') return s[1] ? 2 : 1;
  size_t at = 2;
  while (s[at] >= 0x20 && s[at] < 0x40) at++;
  return s[at] ? at + 1 : at;
}

static void put_prompt(Pen *p, const char *prompt) {
  for (size_t size = strlen(prompt); size > 0;) {
    size_t used = escape_size(prompt);
    if (used) {
      emit(p, prompt, used);
    } else {
      TsEditGlyph glyph = ts_edit_utf8_glyph(prompt, size);
      put_glyph(p, &glyph);
      used = glyph.used;
    }
    prompt += used, size -= used;
  }
}

static void set_attribute(Pen *p, unsigned char attribute) {
  if (attribute == p->attribute) return;
  p->attribute = attribute;
  emit_attribute(p);
}

static void mark_cursor(Pen *p) { p->cursor_row = p->row, p->cursor_column = p->column; }

static void put_text(Pen *p, const TsEditView *view, int colours) {
  for (size_t at = 0; at < view->size;) {
    TsEditGlyph glyph = ts_edit_utf8_glyph(view->text + at, view->size - at);
    if (view->cursor - at < glyph.used) mark_cursor(p);
    if (view->text[at] == '\n') {
      set_attribute(p, TS_EDIT_PLAIN);
      line_end(p);
      put_prompt(p, view->continuation);
    } else {
      set_attribute(p, colours && view->attributes ? view->attributes[at] : TS_EDIT_PLAIN);
      put_glyph(p, &glyph);
    }
    at += glyph.used;
  }
  set_attribute(p, TS_EDIT_PLAIN);
  if (view->cursor >= view->size) mark_cursor(p);
}

/* As much of the hint as the row holds, so that it never changes the layout. */
static void put_hint(Pen *p, const char *hint) {
  settle(p);
  emit_string(p, "\x1b[2m");
  for (size_t size = strlen(hint); size > 0;) {
    TsEditGlyph glyph = ts_edit_utf8_glyph(hint, size);
    if ((unsigned char)*hint < 0x20 || p->column + glyph.width >= p->columns) break;
    put_glyph(p, &glyph);
    hint += glyph.used, size -= glyph.used;
  }
  emit_string(p, "\x1b[0m");
}

static void walk(Pen *p, const TsEditScreen *s, const TsEditView *view) {
  put_prompt(p, view->prompt);
  put_text(p, view, s->colours);
}

static Pen measure(const TsEditScreen *s, const TsEditView *view) {
  Pen pen = {.columns = s->columns, .end = 0};
  walk(&pen, s, view);
  return pen;
}

int ts_edit_screen_height(const TsEditScreen *s, const TsEditView *view) {
  return measure(s, view).row + 1;
}

static void move(TsEditScreen *s, int count, char direction) {
  char text[24];
  if (count > 0) snprintf(text, sizeof text, "\x1b[%d%c", count, direction);
  if (count > 0) ts_edit_text_append_string(&s->out, text);
}

static void to_first_row(TsEditScreen *s) {
  move(s, s->cursor_row, 'A');
  ts_edit_text_append(&s->out, "\r", 1);
  s->cursor_row = 0;
}

/* Scrolls as little as needed to show the cursor. */
static void choose_top(TsEditScreen *s, int height, int cursor_row, int shown) {
  if (s->top > cursor_row) s->top = cursor_row;
  if (s->top <= cursor_row - shown) s->top = cursor_row - shown + 1;
  if (s->top > height - shown) s->top = height - shown;
  if (s->top < 0) s->top = 0;
}

static void draw_below(TsEditScreen *s, const TsEditView *view) {
  for (const char *line = view->below; *line;) {
    size_t size = strcspn(line, "\n");
    ts_edit_text_append_string(&s->out, "\r\n");
    ts_edit_text_append(&s->out, line, size);
    ts_edit_text_append_string(&s->out, "\x1b[0m\x1b[K");
    line += size + (line[size] == '\n');
  }
}

void ts_edit_screen_draw(TsEditScreen *s, const TsEditView *view) {
  Pen size = measure(s, view);
  int height = size.row + 1, below = view->below ? view->below_rows : 0;
  int shown = s->rows - below < height ? s->rows - below : height;
  if (shown < 1) shown = 1;
  choose_top(s, height, size.cursor_row, shown);

  ts_edit_text_append_string(&s->out, "\x1b[?25l");
  to_first_row(s);
  Pen pen = {.out = &s->out, .columns = s->columns, .first = s->top, .end = s->top + shown};
  walk(&pen, s, view);
  int whole = pen.row < pen.end;
  if (whole && view->hint) put_hint(&pen, view->hint);
  if (whole)
    settle(&pen);
  else
    ts_edit_text_append_string(&s->out, "\x1b[0m");
  if (below) draw_below(s, view);
  /* A text cut off below ends at the margin or the screen's last cell: nothing stands
   * behind. */
  if (whole || below) ts_edit_text_append_string(&s->out, "\x1b[J");

  s->cursor_row = pen.cursor_row - s->top;
  move(s, shown - 1 + below - s->cursor_row, 'A');
  ts_edit_text_append(&s->out, "\r", 1);
  move(s, pen.cursor_column, 'C');
  ts_edit_text_append_string(&s->out, "\x1b[?25h");
}

void ts_edit_screen_finish(TsEditScreen *s, const TsEditView *view, const char *tail) {
  to_first_row(s);
  Pen pen = {.out = &s->out, .columns = s->columns, .end = measure(s, view).row + 1};
  walk(&pen, s, view);
  if (!pen.waiting) emit_string(&pen, "\x1b[K");
  emit_string(&pen, tail);
  ts_edit_text_append_string(&s->out, "\r\n\x1b[J");
  s->top = 0;
}

void ts_edit_screen_erase(TsEditScreen *s) {
  to_first_row(s);
  ts_edit_text_append_string(&s->out, "\x1b[J");
}

void ts_edit_screen_resize(TsEditScreen *s, const TsEditView *view, int columns, int rows) {
  int cut_off = s->top > 0;
  s->columns = columns, s->rows = rows;
  s->cursor_row = measure(s, view).cursor_row;
  if (cut_off || s->cursor_row >= rows) s->cursor_row = rows - 1;
  s->top = 0;
}
