/* Growable text with a cursor. A flat buffer: what a person types is small, and a redraw walks
   all of it anyway. */
#include "repl/edit/text.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "repl/edit/utf8.h"

void ts_edit_text_free(TsEditText *t) {
  free(t->data);
  *t = (TsEditText){0};
}

const char *ts_edit_text_string(const TsEditText *t) { return t->data ? t->data : ""; }

static int reserve(TsEditText *t, size_t more) {
  if (t->data && more < t->capacity - t->size) return 0;
  if (more > SIZE_MAX / 4 - t->size) return t->failed = 1, -1;
  size_t capacity = (t->size + more + 32) * 3 / 2;
  char *data = realloc(t->data, capacity);
  if (!data) return t->failed = 1, -1;
  t->data = data, t->capacity = capacity;
  t->data[t->size] = 0;
  return 0;
}

int ts_edit_text_append(TsEditText *t, const char *s, size_t size) {
  if (reserve(t, size) < 0) return -1;
  memcpy(t->data + t->size, s, size);
  t->size += size;
  t->data[t->size] = 0;
  return 0;
}

int ts_edit_text_append_string(TsEditText *t, const char *s) {
  return ts_edit_text_append(t, s, strlen(s));
}

int ts_edit_text_insert(TsEditText *t, const char *s, size_t size) {
  if (reserve(t, size) < 0) return -1;
  char *place = t->data + t->cursor;
  memmove(place + size, place, t->size - t->cursor + 1);
  memcpy(place, s, size);
  t->size += size, t->cursor += size;
  return 0;
}

int ts_edit_text_set(TsEditText *t, const char *s, size_t size) {
  if (size > t->size && reserve(t, size - t->size) < 0) return -1;
  if (t->data) {
    memmove(t->data, s, size);
    t->data[size] = 0;
  }
  t->size = t->cursor = size;
  return 0;
}

int ts_edit_text_fit(TsEditText *t, const char *s, int columns) {
  int used = 0;
  for (size_t size = strlen(s); size > 0;) {
    TsEditGlyph glyph = ts_edit_utf8_glyph(s, size);
    if (used + glyph.width > columns) break;
    ts_edit_text_append(t, glyph.bytes, (size_t)glyph.size);
    used += glyph.width, s += glyph.used, size -= glyph.used;
  }
  return used;
}

void ts_edit_text_erase(TsEditText *t, size_t from, size_t to) {
  if (from >= to) return;
  memmove(t->data + from, t->data + to, t->size - to + 1);
  t->size -= to - from;
  if (t->cursor >= to)
    t->cursor -= to - from;
  else if (t->cursor > from)
    t->cursor = from;
}

void ts_edit_text_clear(TsEditText *t) {
  t->size = t->cursor = 0;
  if (t->data) t->data[0] = 0;
}

size_t ts_edit_text_line_start(const TsEditText *t, size_t at) {
  while (at > 0 && t->data[at - 1] != '\n') at--;
  return at;
}

size_t ts_edit_text_line_end(const TsEditText *t, size_t at) {
  while (at < t->size && t->data[at] != '\n') at++;
  return at;
}

size_t ts_edit_text_next(const TsEditText *t, size_t at) {
  return ts_edit_utf8_next(t->data, t->size, at);
}

size_t ts_edit_text_previous(const TsEditText *t, size_t at) {
  return ts_edit_utf8_previous(t->data, t->size, at);
}

static int is_word(const TsEditText *t, size_t at) {
  unsigned char c = (unsigned char)t->data[at];
  return c >= 0x80 || c == '_' || isalnum(c);
}

size_t ts_edit_text_word_end(const TsEditText *t, size_t at) {
  while (at < t->size && !is_word(t, at)) at++;
  while (at < t->size && is_word(t, at)) at++;
  return at;
}

size_t ts_edit_text_word_start(const TsEditText *t, size_t at) {
  while (at > 0 && !is_word(t, at - 1)) at--;
  while (at > 0 && is_word(t, at - 1)) at--;
  return at;
}

static int is_blank(const TsEditText *t, size_t at) {
  return isspace((unsigned char)t->data[at]) != 0;
}

size_t ts_edit_text_blank_start(const TsEditText *t, size_t at) {
  while (at > 0 && is_blank(t, at - 1)) at--;
  while (at > 0 && !is_blank(t, at - 1)) at--;
  return at;
}

size_t ts_edit_text_at_column(const TsEditText *t, size_t start, size_t column) {
  size_t at = start, end = ts_edit_text_line_end(t, start);
  while (at < end) {
    size_t next = ts_edit_text_next(t, at);
    if (ts_edit_utf8_columns(t->data + start, next - start) > column) break;
    at = next;
  }
  return at;
}
