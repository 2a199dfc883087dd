/* Characters of UTF-8 text that is known to be some, and what Unicode says of them. */
#ifndef TS_TEXT_CHAR_H
#define TS_TEXT_CHAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The bytes of the character that begins with this byte. */
static inline uint32_t ts_char_len(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

static inline uint32_t ts_char_get(const char *text, uint32_t *len) {
  const unsigned char *s = (const unsigned char *)text;
  *len = ts_char_len(s[0]);
  switch (*len) {
  case 1: return s[0];
  case 2: return (s[0] & 31u) << 6 | (s[1] & 63u);
  case 3: return (s[0] & 15u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u);
  default: return (s[0] & 7u) << 18 | (s[1] & 63u) << 12 | (s[2] & 63u) << 6 | (s[3] & 63u);
  }
}

/* Writes 1 to 4 bytes, and gives how many. */
static inline uint32_t ts_char_put(char *to, uint32_t c) {
  if (c < 0x80) return to[0] = (char)c, 1;
  if (c < 0x800) {
    to[0] = (char)(0xc0 | c >> 6);
    to[1] = (char)(0x80 | (c & 63));
    return 2;
  }
  uint32_t n = c < 0x10000 ? 3 : 4;
  to[0] = (char)(n == 3 ? 0xe0 | c >> 12 : 0xf0 | c >> 18);
  if (n == 4) to[1] = (char)(0x80 | (c >> 12 & 63));
  to[n - 2] = (char)(0x80 | (c >> 6 & 63));
  to[n - 1] = (char)(0x80 | (c & 63));
  return n;
}

/* Begins a character? */
static inline bool ts_char_begins(char c) { return ((unsigned char)c & 0xc0) != 0x80; }

static inline size_t ts_char_count(const char *s, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += ts_char_begins(s[i]);
  return count;
}

/* Where the first byte stands that is none of ASCII, or n. */
static inline size_t ts_char_ascii(const char *s, size_t n) {
  size_t i = 0;
  for (uint64_t v; i + 8 <= n; i += 8) {
    memcpy(&v, s + i, 8);
    if (v & UINT64_C(0x8080808080808080)) break;
  }
  while (i < n && (unsigned char)s[i] < 0x80) i++;
  return i;
}

/* Where the first byte stands that begins no character of Unicode, or n. */
size_t ts_char_check(const char *s, size_t n);

/* White_Space of Unicode. */
bool ts_char_is_space(uint32_t c);
/* What WordPiece calls punctuation: categories P, and all signs of ASCII. */
bool ts_char_is_punctuation(uint32_t c);
/* Categories Nd, Nl, No. */
bool ts_char_is_number(uint32_t c);
/* Categories M; Mn alone. */
bool ts_char_is_mark(uint32_t c);
bool ts_char_is_nonspacing(uint32_t c);
/* Categories C without surrogates: control, format, private use, and what is not assigned. */
bool ts_char_is_other(uint32_t c);
/* The small letters of c into to, and how many they are: 1 or 2. */
int ts_char_lower(uint32_t c, uint32_t to[2]);
/* Its capital letters, or with `title` those that begin a word. */
int ts_char_upper(uint32_t c, bool title, uint32_t to[2]);

/* GPT-2's characters for bytes, and back: -1 where there is none. */
uint32_t ts_char_of_byte(unsigned char byte);
int ts_char_to_byte(uint32_t c);

#endif
