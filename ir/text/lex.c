/* Tokens of IR text, and errors that show the place. */
#include "ir/text/lex.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/text.h"

enum { QUOTE = 72, LONGEST_SHOWN = 24 };

/* ---- errors */
static int line_of(const TsReader *r, const char *at, const char **begin) {
  int line = 1;
  *begin = r->text;
  for (const char *p = r->text; p < at && (p = memchr(p, '\n', (size_t)(at - p))); p++) {
    line++;
    *begin = p + 1;
  }
  return line;
}

/* The part of the line that holds the place, and a caret under the place. */
static void quote(char *to, size_t room, const char *begin, const char *at) {
  char line[QUOTE + 1];
  int n = 0, caret = 0;
  while (begin < at && (*begin == ' ' || *begin == '\t')) begin++;
  if (at - begin > QUOTE - 8) begin = at - QUOTE / 2;
  for (const char *p = begin; n < QUOTE - 4 && *p && *p != '\n';) {
    int size = ts_text_sign(p), kept = size < 0 ? 1 : size;
    if (p < at) caret++;
    memcpy(line + n, size < 0 ? " " : p, (size_t)kept);
    n += kept, p += size < 0 ? -size : size;
  }
  line[n] = 0;
  snprintf(to, room, "\n    %s\n    %*s^", line, caret, "");
}

int ts_read_blame(TsReader *r, const char *at) {
  char shown[2 * QUOTE + 16], message[sizeof r->err->message];
  const char *begin;
  if (r->failed) return -1;
  r->failed = true;
  r->now.kind = TS_TOKEN_wrong;
  int line = line_of(r, at, &begin);
  quote(shown, sizeof shown, begin, at);
  memcpy(message, r->err->message, sizeof message);
  int room = (int)(sizeof message - strlen(shown)) - 20;
  snprintf(r->err->message, sizeof message, "line %d: %.*s%s", line, room, message, shown);
  return -1;
}

int ts_read_fail(TsReader *r, const char *at, const char *format, ...) {
  char message[sizeof r->err->message];
  va_list ap;
  if (r->failed) return -1;
  va_start(ap, format);
  vsnprintf(message, sizeof message, format, ap);
  va_end(ap);
  ts_error_set(r->err, TS_ERR_format, "%s", message);
  return ts_read_blame(r, at);
}

int ts_read_no_memory(TsReader *r) {
  ts_error_memory(r->err);
  return ts_read_blame(r, r->now.at);
}

int ts_read_unexpected(TsReader *r, const char *what) {
  const TsToken *t = &r->now;
  bool cut = t->len > LONGEST_SHOWN;
  if (t->kind == TS_TOKEN_end)
    return ts_read_fail(r, t->at, "expected %s, the text ends", what);
  return ts_read_fail(r, t->at, "expected %s, not '%.*s%s'", what, cut ? LONGEST_SHOWN : t->len,
                      t->at, cut ? "..." : "");
}

/* ---- tokens */
static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_'; }
/* A dot belongs to a name where a word goes on behind it: %lo..%hi is a range. */
static bool in_name(const char *p) { return in_word(*p) || (*p == '.' && in_word(p[1])); }

/* Blanks and comments. One that stands behind a token on its line is kept: it may say where
 * the line came from. */
static const char *skip(TsReader *r, const char *p) {
  bool same_line = p > r->text;
  r->comment = (TsToken){0};
  for (;; p++) {
    if (*p == '\n') same_line = false;
    if (p[0] == '/' && p[1] == '/') {
      size_t n = strcspn(p, "\n");
      if (same_line) r->comment = (TsToken){TS_TOKEN_string, (int)n - 2, p + 2};
      p += n;
      same_line = false;
    }
    if (!*p || !strchr(" \t\r\n", *p)) return p;
  }
}

static const char *end_of_name(TsReader *r, const char *p) {
  const char *first = p + 1, *end = first;
  while (in_name(end)) end++;
  bool digits = isdigit((unsigned char)*first);
  for (const char *c = first; c < end; c++)
    if (digits && !isdigit((unsigned char)*c))
      ts_read_fail(r, p, "a name begins with a letter or is a number");
  if (end == first || *first == '.') ts_read_fail(r, p, "a name is missing behind '%c'", *p);
  return end;
}

static const char *digits(const char *p) {
  while (isdigit((unsigned char)*p)) p++;
  return p;
}

/* A number has one text: no zeros stand in front. */
static bool is_padded(const char *p) { return *p == '0' && isdigit((unsigned char)p[1]); }

static const char *end_of_shape(const char *p) {
  while (*p == 'x' && isdigit((unsigned char)p[1]) && !is_padded(p + 1)) p = digits(p + 1);
  return p;
}

static const char *end_of_number(TsReader *r, const char *p) {
  const char *first = p + (*p == '-'), *end = digits(first), *shape = end_of_shape(end);
  if (is_padded(first)) ts_read_fail(r, p, "a number does not begin with 0");
  if (shape > end && *p != '-' && !in_word(*shape)) {
    r->now.kind = TS_TOKEN_shape;
    return shape;
  }
  if (*end == '.' && isdigit((unsigned char)end[1])) end = digits(end + 1);
  if (*end == 'e' || *end == 'E') end = digits(end + 1 + (end[1] == '-' || end[1] == '+'));
  if (in_word(*end) || (*end == '.' && end[1] != '.') || !isdigit((unsigned char)end[-1]))
    ts_read_fail(r, p, "malformed number");
  return end;
}

static const char *end_of_string(TsReader *r, const char *p) {
  const char *end = p + 1;
  for (int n = 1; *end != '"'; end += n) {
    if (*end == '\\' && end[1]) end++;
    n = 1;
    if (!*end || *end == '\n') {
      ts_read_fail(r, p, "the string does not end on its line");
      return p + 1;
    }
    if (isprint((unsigned char)*end)) continue;
    n = abs(ts_text_sign(end)); /* its other bytes, if it is UTF-8 */
    if (n > 1) continue;
    ts_read_fail(r, end, "the byte %02x in a string is written \\x%02x", (unsigned char)*end,
                 (unsigned char)*end);
    return p + 1;
  }
  return end + 1;
}

static int kind_of(const char *p, const char *after_minus) {
  if (!*p) return TS_TOKEN_end;
  if (*p == '%') return TS_TOKEN_value;
  if (*p == '@') return p[1] == '(' ? '@' : TS_TOKEN_symbol; /* "@(dp)" of a type */
  if (*p == '"') return TS_TOKEN_string;
  if (*p == '-' && p[1] == '>') return TS_TOKEN_arrow;
  if (*p == '.' && p[1] == '.') return TS_TOKEN_range;
  if (isdigit((unsigned char)*after_minus)) return TS_TOKEN_number;
  if (in_word(*after_minus)) return TS_TOKEN_word; /* also -inf and -nan */
  return strchr("(){}[]<>,;:=~*/+", *p) ? *p : TS_TOKEN_wrong;
}

int ts_read_next(TsReader *r) {
  if (r->failed) return -1;
  const char *p = skip(r, r->now.at + r->now.len), *word = p + (*p == '-'), *end = p + 1;
  int kind = kind_of(p, word);
  r->before = r->now;
  r->now = (TsToken){kind, 1, p};
  switch (kind) {
  case TS_TOKEN_end: end = p; break;
  case TS_TOKEN_value:
  case TS_TOKEN_symbol: end = end_of_name(r, p); break;
  case TS_TOKEN_number: end = end_of_number(r, p); break;
  case TS_TOKEN_string: end = end_of_string(r, p); break;
  case TS_TOKEN_arrow:
  case TS_TOKEN_range: end = p + 2; break;
  case TS_TOKEN_word:
    for (end = word; in_word(*end);) end++;
    break;
  case TS_TOKEN_wrong:
    ts_read_fail(
        r, p, isprint((unsigned char)*p) ? "unexpected character '%c'" : "unexpected byte %02x",
        (unsigned char)*p);
    break;
  default: break;
  }
  r->now.len = (int)(end - p);
  return r->failed ? -1 : 0;
}

void ts_read_open(TsReader *r, const char *text, TsArena *arena, TsError *err) {
  *r = (TsReader){.text = text, .now = {.at = text}, .arena = arena, .err = err};
  if (strlen(text) > 1u << 30) ts_read_fail(r, text, "the text is longer than 1 GiB");
  ts_read_next(r);
}

bool ts_read_is_word(const TsReader *r, const char *word) {
  return r->now.kind == TS_TOKEN_word && (size_t)r->now.len == strlen(word) &&
         !memcmp(r->now.at, word, (size_t)r->now.len);
}

bool ts_read_accept(TsReader *r, int kind) {
  if (r->now.kind != kind) return false;
  ts_read_next(r);
  return true;
}

int ts_read_expect(TsReader *r, int kind, const char *what) {
  return ts_read_accept(r, kind) && !r->failed ? 0 : ts_read_unexpected(r, what);
}
