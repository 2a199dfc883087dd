/* Oniguruma's syntax of regular expressions as PCRE2's. They differ in what \s, \w, \h and \b
 * mean, in flags, in {,n}, and in a + behind an interval. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#include "text/char.h"

/* White_Space without what PCRE2 has beside it; words as Unicode has them, with the six
 * numbers of Latin-1 that Oniguruma counts among them outside of classes. */
#define SPACE "\\x{9}-\\x{d}\\x{85}\\p{Z}"
#define CLASS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORD  CLASS "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

typedef struct Translator {
  const char *s;
  size_t n, at;
  TsText *to;
  size_t atom;      /* where the last atom begins in `to` */
  size_t group[64]; /* where the open groups begin */
  int depth;
  TsError *err;
} Translator;

static int peek(const Translator *t, size_t ahead) {
  return t->at + ahead < t->n ? (unsigned char)t->s[t->at + ahead] : -1;
}

static void copy(Translator *t, size_t n) {
  if (n > t->n - t->at) n = t->n - t->at;
  ts_text_add(t->to, t->s + t->at, n);
  t->at += n;
}

/* PCRE2 takes the name of a script for all characters that are used with it, too: sc: is what
 * others mean. */
static bool is_script(Translator *t, const char *name, size_t n) {
  char pattern[40];
  int code;
  size_t at;
  if (n < 3 || n > 24) return false;
  int len = snprintf(pattern, sizeof pattern, "\\p{sc:%.*s}", (int)n, name);
  pcre2_code *c = pcre2_compile((PCRE2_SPTR)pattern, (size_t)len, PCRE2_UTF, &code, &at, NULL);
  pcre2_code_free(c);
  if (!c && code == PCRE2_ERROR_HEAP_FAILED) t->to->failed = 1;
  return c != NULL;
}

/* \p{..} */
static void property(Translator *t) {
  size_t from = t->at + 3, not = from < t->n && t->s[from] == '^';
  const char *end = memchr(t->s + t->at, '}', t->n - t->at);
  size_t name = from + not, n = end ? (size_t)(end - t->s) - name : 0;
  copy(t, 3 + not );
  if (end && is_script(t, t->s + name, n)) ts_text_str(t->to, "sc:");
  copy(t, end ? n + 1 : t->n);
}

/* Of a letter behind a backslash what stands for it, or NULL. */
static const char *class_of(int c, bool inside) {
  switch (c) {
  case 's': return inside ? SPACE : "[" SPACE "]";
  case 'S': return inside ? NULL : "[^" SPACE "]";
  case 'w': return inside ? CLASS : "[" WORD "]";
  case 'W': return inside ? NULL : "[^" WORD "]";
  case 'h': return inside ? "0-9a-fA-F" : "[0-9a-fA-F]";
  case 'H': return inside ? NULL : "[^0-9a-fA-F]";
  case 'b':
    return inside ? NULL : "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))";
  case 'B':
    return inside ? NULL : "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))";
  default: return NULL;
  }
}

static void escape(Translator *t, bool inside) {
  int c = peek(t, 1);
  const char *other = class_of(c, inside);
  if (other) {
    ts_text_str(t->to, other);
    t->at += 2;
  } else if ((c == 'p' || c == 'P') && peek(t, 2) == '{') {
    property(t);
  } else if (c == 'x' && peek(t, 2) == '{') {
    const char *end = memchr(t->s + t->at, '}', t->n - t->at);
    copy(t, end ? (size_t)(end - t->s) + 1 - t->at : t->n);
  } else if (c == 'u') { /* four digits */
    ts_text_str(t->to, "\\x{");
    t->at += 2;
    copy(t, 4);
    ts_text_char(t->to, '}');
  } else {
    copy(t, c < 0x80 ? 2 : 1 + ts_char_len((unsigned char)c));
  }
}

static int set(Translator *t) {
  size_t from = t->at;
  copy(t, peek(t, 1) == '^' ? 2 : 1);
  if (peek(t, 0) == ']') ts_text_char(t->to, '\\'), copy(t, 1);
  while (peek(t, 0) != ']') {
    int c = peek(t, 0);
    if (c < 0)
      return ts_error_set(t->err, TS_ERR_format, "the class at byte %zu has no end", from);
    if (c == '\\') {
      escape(t, true);
    } else if (c == '[' && peek(t, 1) == ':') {
      const char *end = memchr(t->s + t->at, ']', t->n - t->at);
      copy(t, end ? (size_t)(end - t->s) + 1 - t->at : t->n);
    } else if (c == '[' || (c == '&' && peek(t, 1) == '&')) {
      return ts_error_set(t->err, TS_ERR_format, "classes in classes are not read, at byte %zu",
                          t->at);
    } else {
      copy(t, 1);
    }
  }
  copy(t, 1);
  return 0;
}

/* (?<name>, (?:, (?=, (?i-m: and so on; Ruby's m is PCRE2's s. */
static int open_group(Translator *t) {
  if (t->depth == 64)
    return ts_error_set(t->err, TS_ERR_format, "groups stand more than 64 deep");
  t->group[t->depth++] = t->to->len;
  copy(t, 1);
  if (peek(t, 0) != '?') return 0;
  copy(t, 1);
  size_t end = t->at;
  while (end < t->n && strchr("imx-", t->s[end])) end++;
  if (end == t->at || end >= t->n || (t->s[end] != ':' && t->s[end] != ')')) return 0;
  for (; t->at < end; t->at++) ts_text_char(t->to, t->s[t->at] == 'm' ? 's' : t->s[t->at]);
  if (t->s[end] == ')') t->depth--;
  copy(t, 1);
  return 0;
}

/* {2,3} and {,3}; it is text where it is none. A + behind it repeats the whole in Ruby. */
static void interval(Translator *t) {
  size_t end = t->at + 1, comma = 0;
  while (end < t->n &&
         ((t->s[end] >= '0' && t->s[end] <= '9') || (t->s[end] == ',' && !comma))) {
    if (t->s[end] == ',') comma = end;
    end++;
  }
  if (end >= t->n || t->s[end] != '}' || end == t->at + 1 ||
      (comma && comma + 1 == end && comma == t->at + 1)) {
    t->atom = t->to->len;
    ts_text_str(t->to, "\\");
    copy(t, 1);
    return;
  }
  copy(t, 1);
  if (comma == t->at) ts_text_char(t->to, '0');
  copy(t, end + 1 - t->at);
  if (peek(t, 0) != '+' || t->to->failed) return;
  TsText whole = {0};
  ts_text_str(&whole, "(?:");
  ts_text_add(&whole, t->to->at + t->atom, t->to->len - t->atom);
  ts_text_char(&whole, ')');
  t->to->len = t->atom;
  ts_text_take(t->to, "", &whole);
}

int ts_pattern_translate(const char *s, size_t n, TsText *to, TsError *err) {
  Translator t = {.s = s, .n = n, .to = to, .err = err};
  while (t.at < n && !to->failed) {
    char c = s[t.at];
    if (c == '{') {
      interval(&t);
    } else if (c == ')') {
      if (t.depth) t.atom = t.group[--t.depth];
      copy(&t, 1);
    } else if (strchr("*+?|^$", c) && c) {
      copy(&t, 1);
    } else {
      t.atom = to->len;
      if (c == '\\')
        escape(&t, false);
      else if (c == '[' ? set(&t) : c == '(' ? open_group(&t) : 0)
        return -1;
      else if (c != '[' && c != '(')
        copy(&t, ts_char_len((unsigned char)c));
    }
  }
  return to->failed ? ts_error_memory(err) : 0;
}
