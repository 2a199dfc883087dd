/* JSON by its grammar (RFC 8259), without making anything of it; and strings of it. */
#include "lib/json.h"

#include <stdbool.h>
#include <string.h>

enum { DEEPEST = 1000 };

/* ---- writing */
static void put_sign(TsText *t, unsigned char c) {
  static const char from[] = "\"\\\n\r\t", to[] = "\"\\nrt";
  const char *named = c ? strchr(from, c) : NULL;
  if (named)
    ts_text_format(t, "\\%c", to[named - from]);
  else if (c < 32 || c == 127)
    ts_text_format(t, "\\u%04x", c);
  else
    ts_text_char(t, (char)c);
}

static void put_all(TsText *t, const char *s, size_t n) {
  for (size_t i = 0, len; i < n; i += len) {
    int sign = ts_text_utf8(s + i);
    len = sign > 1 && (size_t)sign <= n - i ? (size_t)sign : 1;
    if (len > 1)
      ts_text_add(t, s + i, len);
    else if (sign == 1)
      put_sign(t, (unsigned char)s[i]);
    else
      ts_text_str(t, "\xef\xbf\xbd");
  }
}

void ts_json_string(TsText *t, const char *before, const char *s, size_t n) {
  ts_text_char(t, '"');
  put_all(t, before, strlen(before));
  put_all(t, s, n);
  ts_text_char(t, '"');
}

/* ---- reading */
typedef struct Reader {
  const char *s; /* a NUL behind the n bytes */
  size_t n, at;
  TsJsonFault *fault, *fraction;
} Reader;

static int fail(Reader *r, size_t at, const char *why) {
  *r->fault = (TsJsonFault){at, why};
  return -1;
}

static bool at_char(const Reader *r, char c) { return r->at < r->n && r->s[r->at] == c; }

static bool accept(Reader *r, char c) {
  bool there = at_char(r, c);
  r->at += there;
  return there;
}

static void skip_space(Reader *r) {
  while (r->at < r->n && r->s[r->at] && strchr(" \t\n\r", r->s[r->at])) r->at++;
}

static bool at_digit(const Reader *r) {
  return r->at < r->n && r->s[r->at] >= '0' && r->s[r->at] <= '9';
}

static int digits(Reader *r) {
  if (!at_digit(r)) return fail(r, r->at, "a digit is missing");
  while (at_digit(r)) r->at++;
  return 0;
}

static int number(Reader *r) {
  size_t from = r->at;
  bool more = accept(r, '-');
  size_t first = r->at;
  if (digits(r)) return -1;
  if (r->s[first] == '0' && r->at > first + 1)
    return fail(r, first, "a number does not begin with 0");
  if (accept(r, '.')) {
    more = true;
    if (digits(r)) return -1;
  }
  if (accept(r, 'e') || accept(r, 'E')) {
    more = true;
    if (!accept(r, '+')) accept(r, '-');
    if (digits(r)) return -1;
  }
  if (more && !r->fraction->why) *r->fraction = (TsJsonFault){from, "not digits alone"};
  return 0;
}

/* The four digits behind \u, or -1. */
static int hexadecimal(const Reader *r) {
  int v = 0;
  for (size_t i = r->at; i < r->at + 4; i++) {
    const char *hex = "0123456789abcdefABCDEF";
    const char *c = i < r->n && r->s[i] ? strchr(hex, r->s[i]) : NULL;
    if (!c) return -1;
    v = v * 16 + (int)(c - hex) - (c - hex > 15 ? 6 : 0);
  }
  return v;
}

static int escape(Reader *r) {
  size_t from = r->at++;
  if (r->at < r->n && r->s[r->at] && strchr("\"\\/bfnrt", r->s[r->at])) return r->at++, 0;
  int v = accept(r, 'u') ? hexadecimal(r) : -1;
  if (v < 0) return fail(r, from, "no such escape");
  r->at += 4;
  if (v >> 11 != 0x1b) return 0;
  bool first = v >> 10 == 0x36;
  if (first && accept(r, '\\') && accept(r, 'u') && (v = hexadecimal(r)) >> 10 == 0x37)
    return r->at += 4, 0;
  return fail(r, from, "half of a pair of surrogates");
}

static int string(Reader *r) {
  size_t from = r->at++;
  while (!at_char(r, '"')) {
    if (r->at >= r->n) return fail(r, from, "the string has no end");
    unsigned char c = (unsigned char)r->s[r->at];
    if (c < 32) return fail(r, r->at, "a control character in a string");
    if (c == '\\') {
      if (escape(r)) return -1;
      continue;
    }
    int bytes = c < 128 ? 1 : ts_text_sign(r->s + r->at);
    if (bytes == -1) return fail(r, r->at, "no UTF-8");
    r->at += (size_t)(bytes < 0 ? -bytes : bytes);
  }
  r->at++;
  return 0;
}

static int word(Reader *r) {
  static const char *const words[] = {"true", "false", "null"};
  for (int i = 0; i < 3; i++) {
    size_t len = strlen(words[i]);
    if (r->n - r->at < len || memcmp(r->s + r->at, words[i], len)) continue;
    r->at += len;
    return 0;
  }
  return fail(r, r->at, r->at < r->n ? "no value begins so" : "a value is missing");
}

static int name(Reader *r) {
  skip_space(r);
  if (!at_char(r, '"')) return fail(r, r->at, "a name in quotes is missing");
  if (string(r)) return -1;
  skip_space(r);
  return accept(r, ':') ? 0 : fail(r, r->at, "':' is missing");
}

int ts_json_check(const char *s, size_t n, TsJsonFault *fault, TsJsonFault *fraction) {
  char close[DEEPEST]; /* what ends the arrays and objects around */
  int depth = 0;
  Reader r = {s, n, 0, fault, fraction};
  *fault = *fraction = (TsJsonFault){0, NULL};
  for (;;) {
    skip_space(&r);
    char c = r.at < n ? s[r.at] : 0;
    bool opens = c == '{' || c == '[';
    if (opens) {
      if (depth == DEEPEST) return fail(&r, r.at, "arrays and objects stand too deep");
      close[depth++] = c == '{' ? '}' : ']';
      r.at++;
      skip_space(&r);
    } else if (c == '"' ? string(&r) : c == '-' || at_digit(&r) ? number(&r) : word(&r)) {
      return -1;
    }
    /* Behind a value, or in something that is still empty. */
    while (depth && (skip_space(&r), accept(&r, close[depth - 1]))) depth--, opens = false;
    if (!depth) break;
    if (!opens && !accept(&r, ','))
      return fail(&r, r.at,
                  close[depth - 1] == '}' ? "',' or '}' is missing" : "',' or ']' is missing");
    if (close[depth - 1] == '}' && name(&r)) return -1;
  }
  skip_space(&r);
  return r.at < n ? fail(&r, r.at, "text behind the end") : 0;
}
