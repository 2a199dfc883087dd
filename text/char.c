/* Categories of characters, from utf8proc's tables. */
#include "text/char.h"

#include <utf8proc.h>

size_t ts_char_check(const char *text, size_t n) {
  const unsigned char *s = (const unsigned char *)text;
  size_t i = ts_char_ascii(text, n);
  while (i < n) {
    unsigned char c = s[i];
    uint32_t len = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (!len || len > n - i) return i;
    for (uint32_t k = 1; k < len; k++)
      if (ts_char_begins(text[i + k])) return i;
    /* Nothing in more bytes than it needs, no surrogates, nothing above U+10FFFF. */
    if ((c == 0xe0 && s[i + 1] < 0xa0) || (c == 0xed && s[i + 1] > 0x9f) ||
        (c == 0xf0 && s[i + 1] < 0x90) || (c == 0xf4 && s[i + 1] > 0x8f))
      return i;
    i += len;
  }
  return n;
}

static utf8proc_category_t category(uint32_t c) {
  return utf8proc_category((utf8proc_int32_t)c);
}

bool ts_char_is_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool ts_char_is_punctuation(uint32_t c) {
  if (c < 0x80)
    return (c > 32 && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') ||
           (c > 'z' && c < 127);
  utf8proc_category_t k = category(c);
  return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool ts_char_is_number(uint32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  utf8proc_category_t k = category(c);
  return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

bool ts_char_is_mark(uint32_t c) {
  if (c < 0x300) return false;
  utf8proc_category_t k = category(c);
  return k >= UTF8PROC_CATEGORY_MN && k <= UTF8PROC_CATEGORY_ME;
}

bool ts_char_is_nonspacing(uint32_t c) {
  return c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN;
}

bool ts_char_is_other(uint32_t c) {
  if (c < 0x80) return c < 32 || c == 127;
  utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

int ts_char_lower(uint32_t c, uint32_t to[2]) {
  if (c == 0x130) { /* the one that has two */
    to[0] = 'i';
    to[1] = 0x307;
    return 2;
  }
  to[0] = c < 0x80 ? (c >= 'A' && c <= 'Z' ? c + 32 : c)
                   : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
  return 1;
}

int ts_char_upper(uint32_t c, bool title, uint32_t to[2]) {
  utf8proc_int32_t one = (utf8proc_int32_t)c;
  if (c == 0xdf) { /* the one small letter of Latin-1 whose capital is two letters */
    to[0] = 'S';
    to[1] = title ? 's' : 'S';
    return 2;
  }
  to[0] = (uint32_t)(title ? utf8proc_totitle(one) : utf8proc_toupper(one));
  return 1;
}

/* Bytes that can be seen in Latin-1 stand for themselves, the others follow from U+0100 on. */
static bool shows(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
}

uint32_t ts_char_of_byte(unsigned char byte) {
  if (shows(byte)) return byte;
  return 0x100 + (byte <= 32u ? byte : byte == 0xad ? 67u : byte - 127u + 33u);
}

int ts_char_to_byte(uint32_t c) {
  if (c < 0x100) return shows(c) ? (int)c : -1;
  uint32_t i = c - 0x100;
  if (i > 67) return -1;
  return (int)(i <= 32 ? i : i == 67 ? 0xad : i - 33 + 127);
}
