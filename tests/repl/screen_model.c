/* See screen_model.h. */
#include "tests/repl/screen_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

int wcwidth(wchar_t c);

void model_reset(Model *m, int columns, int rows) {
  memset(m, 0, sizeof *m);
  m->columns = columns, m->rows = rows;
}

static void line_feed(Model *m) {
  m->waiting = 0;
  if (m->row + 1 < m->rows) {
    m->row++;
    return;
  }
  memmove(m->cells[0], m->cells[1], sizeof m->cells - sizeof m->cells[0]);
  memmove(m->styles[0], m->styles[1], sizeof m->styles - sizeof m->styles[0]);
  memset(m->cells[m->rows - 1], 0, sizeof m->cells[0]);
  m->scrolled++;
}

static void print(Model *m, const char *bytes, int size, int width) {
  if (width == 0) { /* joins the character before the cursor */
    int column = m->waiting ? m->columns - 1 : m->column - 1;
    if (column > 0 && m->cells[m->row][column][0] == 1) column--;
    size_t used = column < 0 ? 24 : strlen(m->cells[m->row][column]);
    if (used + (size_t)size < 24) {
      memcpy(m->cells[m->row][column] + used, bytes, (size_t)size);
      m->cells[m->row][column][used + (size_t)size] = 0;
    }
    return;
  }
  if (m->waiting || m->column + width > m->columns) m->column = 0, line_feed(m);
  char *cell = m->cells[m->row][m->column];
  memcpy(cell, bytes, (size_t)size);
  cell[size] = 0;
  for (int i = 0; i < width; i++) m->styles[m->row][m->column + i] = (unsigned char)m->style;
  if (width == 2) strcpy(m->cells[m->row][m->column + 1], "\1");
  m->column += width;
  if (m->column >= m->columns) m->column = m->columns - 1, m->waiting = 1;
}

static void erase(Model *m, int row, int from) {
  memset(m->cells[row][from], 0, sizeof m->cells[0][0] * (size_t)(MODEL_COLUMNS - from));
}

static int clamp(int value, int limit) {
  return value < 0 ? 0 : value >= limit ? limit - 1 : value;
}

/* A control sequence: ESC [ parameters final. */
static void control(Model *m, const char *parameters, char final) {
  int number = atoi(parameters), count = number ? number : 1;
  if (strchr("ABCDHJK", final)) {
    if (final == 'J' || final == 'K') {
      if (number == 2)
        memset(m->cells, 0, sizeof m->cells), m->cleared++;
      else
        erase(m, m->row, m->column);
      for (int row = m->row + 1; final == 'J' && row < m->rows; row++) erase(m, row, 0);
      return;
    }
    m->waiting = 0;
  }
  switch (final) {
  case 'A': m->row = clamp(m->row - count, m->rows); return;
  case 'B': m->row = clamp(m->row + count, m->rows); return;
  case 'C': m->column = clamp(m->column + count, m->columns); return;
  case 'D': m->column = clamp(m->column - count, m->columns); return;
  case 'H': m->row = m->column = 0; return;
  case 'm':
    m->style = atoi(strrchr(parameters, ';') ? strrchr(parameters, ';') + 1 : parameters);
    return;
  case 'h':
  case 'l':
    if (strcmp(parameters, "?2004") == 0)
      m->paste = final == 'h', m->entered += m->paste;
    else if (strcmp(parameters, "?25") == 0)
      m->hidden = final == 'l';
    else
      m->errors++;
    return;
  }
  m->errors++;
}

static int utf8_size(unsigned char c) { return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4; }

static int is_whole(const unsigned char *s, int size) {
  if (s[0] != 0x1b) return size >= utf8_size(s[0]);
  if (size < 2 || s[1] != '[') return size >= 2;
  return size > 2 && s[size - 1] >= 0x40;
}

static void character(Model *m, const char *bytes, int size) {
  unsigned char c = (unsigned char)bytes[0];
  wchar_t wide = 0;
  if (c == '\r')
    m->column = 0, m->waiting = 0;
  else if (c == '\n')
    line_feed(m);
  else if (c < 0x20 || mbtowc(&wide, bytes, (size_t)size) <= 0 || wcwidth(wide) < 0)
    m->errors++;
  else
    print(m, bytes, size, wcwidth(wide));
}

void model_feed(Model *m, const char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    m->held[m->held_size++] = (unsigned char)bytes[i];
    if (!is_whole(m->held, m->held_size) && m->held_size < (int)sizeof m->held - 1) continue;
    char *text = (char *)m->held, final = text[m->held_size - 1];
    if (text[0] != 0x1b) {
      character(m, text, m->held_size);
    } else {
      text[m->held_size - 1] = 0;
      if (m->held_size > 2)
        control(m, text + 2, final);
      else
        m->errors++;
    }
    m->held_size = 0;
  }
}

const char *model_row(const Model *m, int row) {
  static char text[MODEL_COLUMNS * 24];
  size_t size = 0, end = 0;
  for (int i = 0; i < m->columns; i++) {
    const char *cell = m->cells[row][i];
    if (cell[0] == 1) continue;
    size += (size_t)sprintf(text + size, "%s", cell[0] ? cell : " ");
    if (cell[0] && strcmp(cell, " ") != 0) end = size;
  }
  text[end] = 0;
  return text;
}
