/* UTF-8 for the line editor; widths are in repl/edit/width.c. */
#include "repl/edit/utf8.h"

#include <string.h>

#include "repl/edit/width.h"

#define JOINER 0x200d

static int sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

static int overlong_or_surrogate(uint32_t code, int length) {
  if (length == 3) return code < 0x800 || (code >= 0xd800 && code < 0xe000);
  return length == 4 && (code < 0x10000 || code > 0x10ffff);
}

size_t ts_edit_utf8_decode(const char *s, size_t size, uint32_t *code) {
  static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  int length = sequence_length((unsigned char)s[0]);
  *code = 0xfffd;
  if (length == 0 || (size_t)length > size) return 1;
  uint32_t value = (unsigned char)s[0] & lead_bits[length];
  for (int i = 1; i < length; i++) {
    if (((unsigned char)s[i] & 0xc0) != 0x80) return 1;
    value = value << 6 | ((unsigned char)s[i] & 0x3f);
  }
  if (overlong_or_surrogate(value, length)) return 1;
  *code = value;
  return (size_t)length;
}

size_t ts_edit_utf8_encode(uint32_t code, char out[4]) {
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
  if (code < 0x80) return out[0] = (char)code, 1;
  size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
  out[0] = (char)(lead[length] | code);
  return length;
}

static int regional(uint32_t code) { return code >= 0x1f1e6 && code <= 0x1f1ff; }
static int skin_tone(uint32_t code) { return code >= 0x1f3fb && code <= 0x1f3ff; }

size_t ts_edit_utf8_next(const char *s, size_t size, size_t at) {
  if (at >= size) return size;
  uint32_t code, before;
  at += ts_edit_utf8_decode(s + at, size - at, &code);
  if (ts_edit_width(code) < 0) return at;
  int flag = regional(code);
  for (before = code; at < size; before = code) {
    size_t used = ts_edit_utf8_decode(s + at, size - at, &code);
    int joins = before == JOINER && ts_edit_width(code) > 0;
    int pair = flag && regional(code);
    if (ts_edit_width(code) != 0 && !joins && !pair && !skin_tone(code)) break;
    if (pair) flag = 0;
    at += used;
  }
  return at;
}

/* Clusters are only defined forwards, so this starts at a place that surely is a border: a line
   start or an ASCII character at most 256 bytes back. */
size_t ts_edit_utf8_previous(const char *s, size_t size, size_t at) {
  if (at == 0) return 0;
  size_t from = at - 1, limit = at > 256 ? at - 256 : 0;
  while (from > limit && (unsigned char)s[from] >= 0x80) from--;
  while (from > 0 && ((unsigned char)s[from] & 0xc0) == 0x80) from--;
  for (;;) {
    size_t next = ts_edit_utf8_next(s, size, from);
    if (next >= at) return from;
    from = next;
  }
}

static TsEditGlyph cells(const char *bytes, int size, size_t used) {
  TsEditGlyph glyph = {.size = size, .width = size, .cells = 1, .used = used};
  memcpy(glyph.bytes, bytes, (size_t)size);
  return glyph;
}

TsEditGlyph ts_edit_utf8_glyph(const char *s, size_t size) {
  uint32_t code;
  size_t used = ts_edit_utf8_decode(s, size, &code);
  if (code == '\t') return cells("        ", TS_EDIT_TAB_COLUMNS, used);
  if (code < 0x20 || code == 0x7f) return cells((char[]){'^', (char)(code ^ 0x40)}, 2, used);
  TsEditGlyph glyph = {.width = ts_edit_width(code), .used = used};
  if (glyph.width < 0) code = 0xfffd, glyph.width = 1;
  glyph.size = (int)ts_edit_utf8_encode(code, glyph.bytes);
  return glyph;
}

size_t ts_edit_utf8_columns(const char *s, size_t size) {
  size_t columns = 0;
  for (size_t at = 0; at < size;) {
    TsEditGlyph glyph = ts_edit_utf8_glyph(s + at, size - at);
    columns += (size_t)glyph.width, at += glyph.used;
  }
  return columns;
}
