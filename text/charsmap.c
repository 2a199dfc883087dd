/* Reading and applying a map of characters. Its trie is Darts': a unit has a label, the
 * distance to its children, and whether a string ends there. */
#include "text/charsmap.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

struct TsCharsmap {
  uint32_t *unit, nunit;
  char *to; /* what strings become, with a NUL behind each */
  size_t nto;
};

void ts_charsmap_free(TsCharsmap *m) {
  if (!m) return;
  free(m->unit);
  free(m->to);
  free(m);
}

static int value_of(char c) {
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const char *at = c ? strchr(digits, c) : NULL;
  return at ? (int)(at - digits) : -1;
}

/* The bytes, or NULL: no base64, or no memory. */
static unsigned char *decode(const char *s, size_t n, size_t *out) {
  unsigned char *bytes = malloc(n + 1);
  uint32_t bits = 0;
  int nbit = 0;
  *out = 0;
  while (n && s[n - 1] == '=') n--;
  for (size_t i = 0; bytes && i < n; i++) {
    int v = value_of(s[i]);
    if (v < 0) return free(bytes), NULL;
    bits = bits << 6 | (uint32_t)v;
    nbit += 6;
    if (nbit < 8) continue;
    nbit -= 8;
    bytes[(*out)++] = (unsigned char)(bits >> nbit);
  }
  return bytes;
}

TsCharsmap *ts_charsmap_read(const char *base64, size_t n, TsError *err) {
  size_t size;
  uint32_t trie = 0;
  unsigned char *bytes = decode(base64, n, &size);
  if (bytes && size >= 4) memcpy(&trie, bytes, 4);
  TsCharsmap *m = calloc(1, sizeof *m);
  if (!m || !bytes || size < 4 || trie % 4 || trie > size - 4 || trie < 4) {
    free(bytes);
    free(m);
    return ts_error_set(err, TS_ERR_format, "precompiled_charsmap is no map of characters"),
           NULL;
  }
  m->nunit = trie / 4;
  m->nto = size - 4 - trie;
  m->unit = malloc(trie);
  m->to = malloc(m->nto + 1);
  if (!m->unit || !m->to) {
    free(bytes);
    ts_charsmap_free(m);
    return ts_error_memory(err), NULL;
  }
  memcpy(m->unit, bytes + 4, trie);
  memcpy(m->to, bytes + 4 + trie, m->nto);
  m->to[m->nto] = 0;
  free(bytes);
  if (ts_char_check(m->to, m->nto) == m->nto) return m;
  ts_charsmap_free(m);
  return ts_error_set(err, TS_ERR_format, "precompiled_charsmap is no UTF-8"), NULL;
}

static uint32_t children(uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }

/* What the shortest, or longest, string at s becomes that the map has, and how long it is; or
 * NULL. */
static const char *find(const TsCharsmap *m, const char *s, size_t n, bool longest,
                        size_t *len) {
  const char *found = NULL;
  uint32_t at = children(m->unit[0]);
  for (size_t i = 0; i < n && s[i]; i++) {
    unsigned char c = (unsigned char)s[i];
    at ^= c;
    if (at >= m->nunit || (m->unit[at] & (1u << 31 | 0xff)) != c) break;
    uint32_t unit = m->unit[at];
    at ^= children(unit);
    if (!(unit >> 8 & 1)) continue;
    if (at >= m->nunit) break;
    uint32_t to = m->unit[at] & 0x7fffffff;
    /* A place in the middle of a character is no string. */
    if (to < m->nto && ts_char_begins(m->to[to])) found = m->to + to, *len = i + 1;
    if (!longest) break;
  }
  return found;
}

/* The last character is held back: where nothing comes in place of a string, it takes that in.
 * In front of all nothing does, and what follows has places that are too early, as tokenizers
 * has it. */
typedef struct Writer {
  TsEdit *to;
  bool holds;
  uint32_t c;
  int change;
} Writer;

static void put(Writer *w, uint32_t c, int change) {
  if (w->holds) ts_edit_put(w->to, w->c, w->change);
  w->holds = true;
  w->c = c;
  w->change = change;
}

static void replace(Writer *w, const char *from, size_t n, const char *to) {
  int was = (int)ts_char_count(from, n), is = (int)ts_char_count(to, strlen(to)), i = 0;
  for (uint32_t len; *to; to += len, i++) put(w, ts_char_get(to, &len), i >= was);
  if (is < was) w->change -= was - is;
}

static uint32_t grapheme(const char *s, uint32_t n) {
  uint32_t len, next;
  utf8proc_int32_t state = 0, c = (utf8proc_int32_t)ts_char_get(s, &len);
  while (len < n) {
    utf8proc_int32_t d = (utf8proc_int32_t)ts_char_get(s + len, &next);
    if (utf8proc_grapheme_break_stateful(c, d, &state)) break;
    c = d;
    len += next;
  }
  return len;
}

int ts_charsmap_apply(const TsCharsmap *m, bool longest, const char *s, uint32_t n, TsEdit *e) {
  size_t len;
  Writer w = {.to = e};
  for (uint32_t i = 0, end; i < n && !e->failed; i = end) {
    const char *to;
    if (longest) {
      if ((to = find(m, s + i, n - i, true, &len))) {
        replace(&w, s + i, len, to);
        end = i + (uint32_t)len;
      } else {
        uint32_t one, c = ts_char_get(s + i, &one);
        put(&w, c, 0);
        end = i + one;
      }
      continue;
    }
    end = i + grapheme(s + i, n - i);
    if (end - i < 6 && (to = find(m, s + i, end - i, false, &len))) {
      replace(&w, s + i, end - i, to);
      continue;
    }
    for (uint32_t k = i, one; k < end; k += one) {
      uint32_t c = ts_char_get(s + k, &one);
      if ((to = find(m, s + k, one, false, &len)))
        replace(&w, s + k, one, to);
      else
        put(&w, c, 0);
    }
  }
  if (w.holds) ts_edit_put(e, w.c, w.change);
  return ts_edit_end(e);
}
