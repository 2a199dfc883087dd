/* UTF-8 as the editor sees it: decoding that survives any bytes, clusters the cursor moves
   over, and glyphs as they are put on the screen. */
#ifndef TS_EDIT_UTF8_H
#define TS_EDIT_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define TS_EDIT_TAB_COLUMNS 4

/* What one code point looks like on the screen. A tab is spaces, a control is ^X, a bad byte or
   hidden character is U+FFFD. `cells` is 1 if the bytes are single columns each, which may wrap
   anywhere, else 0: the glyph is one piece. */
typedef struct TsEditGlyph {
  char bytes[8];
  int size, width, cells;
  size_t used; /* bytes of the text */
} TsEditGlyph;

/* Decodes the code point at s[0..size), size > 0, and returns its length. A byte that begins no
   valid sequence gives *code = 0xfffd and length 1. */
size_t ts_edit_utf8_decode(const char *s, size_t size, uint32_t *code);
/* Writes 1 to 4 bytes; a code point that UTF-8 cannot hold is written as U+FFFD. */
size_t ts_edit_utf8_encode(uint32_t code, char out[4]);

/* The borders of the cluster (a base with its combining marks, a joined emoji, a flag) after
   and before `at`. */
size_t ts_edit_utf8_next(const char *s, size_t size, size_t at);
size_t ts_edit_utf8_previous(const char *s, size_t size, size_t at);

TsEditGlyph ts_edit_utf8_glyph(const char *s, size_t size);
/* Columns of s on an endless row. */
size_t ts_edit_utf8_columns(const char *s, size_t size);

#endif
