/* Growing strings and spelling distance. */
#include "lib/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int grow(TsText *t, size_t more) {
  size_t need = t->len + more + 1;
  if (need <= t->cap) return 0;
  size_t cap = t->cap ? t->cap * 2 : 64;
  while (cap < need) cap *= 2;
  char *p = realloc(t->at, cap);
  if (!p) {
    t->failed = 1;
    return -1;
  }
  t->at = p;
  t->cap = cap;
  return 0;
}

void ts_text_add(TsText *t, const char *s, size_t len) {
  if (grow(t, len)) return;
  memcpy(t->at + t->len, s, len);
  t->len += len;
  t->at[t->len] = 0;
}

void ts_text_str(TsText *t, const char *s) { ts_text_add(t, s, strlen(s)); }
void ts_text_char(TsText *t, char c) { ts_text_add(t, &c, 1); }

void ts_text_pad(TsText *t, char c, int n) {
  for (int i = 0; i < n; i++) ts_text_char(t, c);
}

void ts_text_format(TsText *t, const char *format, ...) {
  va_list ap, again;
  va_start(ap, format);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, format, ap);
  if (n >= 0 && !grow(t, (size_t)n)) {
    vsnprintf(t->at + t->len, (size_t)n + 1, format, again);
    t->len += (size_t)n;
  }
  va_end(again);
  va_end(ap);
}

void ts_text_take(TsText *t, const char *before, TsText *part) {
  if (part->len) ts_text_format(t, "%s%s", before, part->at);
  t->failed |= part->failed;
  ts_text_free(part);
}

void ts_text_free(TsText *t) {
  free(t->at);
  memset(t, 0, sizeof *t);
}

enum { LONGEST = 63 };

int ts_text_distance(const char *a, const char *b) {
  int na = (int)strlen(a), nb = (int)strlen(b);
  if (na > LONGEST || nb > LONGEST) return LONGEST + 1;
  unsigned char row[3][LONGEST + 1];
  unsigned char *two = row[0], *one = row[1], *cur = row[2];
  for (int j = 0; j <= nb; j++) one[j] = (unsigned char)j;
  for (int i = 1; i <= na; i++) {
    cur[0] = (unsigned char)i;
    for (int j = 1; j <= nb; j++) {
      int ca = tolower((unsigned char)a[i - 1]), cb = tolower((unsigned char)b[j - 1]);
      int best = one[j - 1] + (ca != cb);
      if (one[j] + 1 < best) best = one[j] + 1;
      if (cur[j - 1] + 1 < best) best = cur[j - 1] + 1;
      if (i > 1 && j > 1 && ca == tolower((unsigned char)b[j - 2]) &&
          cb == tolower((unsigned char)a[i - 2]) && two[j - 2] + 1 < best)
        best = two[j - 2] + 1;
      cur[j] = (unsigned char)best;
    }
    unsigned char *t = two;
    two = one, one = cur, cur = t;
  }
  return one[nb];
}

/* ---- for a terminal */
/* The character at s: its bytes, or 0 where that is no UTF-8. */
static int sign_at(const unsigned char *s, unsigned *c) {
  static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
  int n = *s < 0x80                 ? 1
          : *s >= 0xc2 && *s < 0xe0 ? 2
          : *s >> 4 == 0xe          ? 3
          : *s >> 3 == 0x1e         ? 4
                                    : 0;
  *c = n < 2 ? *s : *s & (0x7fu >> n);
  for (int i = 1; i < n; i++) {
    if (s[i] >> 6 != 2) return 0;
    *c = *c << 6 | (s[i] & 63u);
  }
  return n && *c >= least[n] && *c < 0x110000 && *c >> 11 != 0x1b ? n : 0;
}

int ts_text_utf8(const char *s) {
  unsigned c;
  return sign_at((const unsigned char *)s, &c);
}

int ts_text_is_utf8(const char *s, size_t len) {
  unsigned c;
  const unsigned char *p = (const unsigned char *)s, *end = p + len;
  for (int n; p < end; p += n) /* a NUL behind the end stops what begins before it */
    if (!(n = sign_at(p, &c)) || n > end - p) return 0;
  return 1;
}

/* Signs that are not seen but move others. */
static bool is_hidden(unsigned c) {
  return (c >= 0x80 && c < 0xa0) || c == 0xad || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
         (c >= 0xe0000 && c < 0xe0080);
}

int ts_text_sign(const char *s) {
  unsigned c;
  int n = sign_at((const unsigned char *)s, &c);
  bool hidden = n < 2 ? !n || c < 32 || c == 127 : is_hidden(c);
  if (!n) n = 1;
  return hidden ? -n : n;
}

const char *ts_text_shown(const char *s, char *to, size_t size) {
  size_t at = 0;
  while (*s) {
    unsigned c;
    char one[16];
    int n = ts_text_sign(s);
    sign_at((const unsigned char *)s, &c);
    if (n < -1)
      snprintf(one, sizeof one, "\\u{%x}", c);
    else if (n < 0)
      snprintf(one, sizeof one, "\\x%02x", (unsigned char)*s);
    else
      memcpy(one, s, (size_t)n), one[n] = 0;
    size_t len = strlen(one);
    if (at + len + 3 > size) {
      if (size > 3) memcpy(to + at, "..", 3);
      return to;
    }
    memcpy(to + at, one, len);
    at += len;
    s += n < 0 ? -n : n;
  }
  to[at] = 0;
  return to;
}

const char *ts_text_closest(const char *wanted, int n, const char *(*next)(const void *, int),
                            const void *arg) {
  int best = -1;
  int len = (int)strlen(wanted), limit = len <= 3 ? 1 : len <= 6 ? 2 : 3, least = 2 * limit + 1;
  for (int i = 0; i < n; i++) {
    const char *name = next(arg, i);
    int longer = (int)strlen(name) - len, d = ts_text_distance(wanted, name);
    if (d >= (int)strlen(name) || d > limit) continue;
    d = 2 * d + (abs(longer) != d); /* letters left out are likelier than wrong ones */
    if (d > least) continue;
    char own[64];
    snprintf(own, sizeof own, "%s", name);
    if (d < least || (best >= 0 && strcmp(own, next(arg, best)) < 0)) least = d, best = i;
  }
  return best < 0 ? NULL : next(arg, best);
}

uint32_t ts_text_hash(const char *s, size_t n) {
  uint32_t h = 0x811c9dc5u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 0x01000193u;
  return h ^ h >> 15;
}
