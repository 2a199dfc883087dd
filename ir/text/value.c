/* Values of IR text: numbers, strings, types, attributes. */
#include "ir/text/mesh.h"
#include "lib/mesh.h"
#include "ir/text/size.h"
#include "ir/text/value.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NUMBER = 400 };

/* ---- numbers */
/* C writes 1e-05 and 1e+30 for 1e-5 and 1e30. */
static void plain_exponent(char *s) {
  char *e = strchr(s, 'e');
  if (!e) return;
  char *to = e + 1, *from = e + 1;
  if (*from == '-') to++;
  from++;
  while (*from == '0') from++;
  memmove(to, from, strlen(from) + 1);
}

/* Up to 15 digits survive a double unharmed, so 15 print the shortest form of all that have
 * one; subnormal numbers have fewer digits than that. */
static void shortest(char *s, size_t room, double v) {
  for (int n = fabs(v) < DBL_MIN ? 1 : 15; n <= 17; n++) {
    snprintf(s, room, "%.*g", n, v);
    if (strtod(s, NULL) == v) break;
  }
  plain_exponent(s);
}

void ts_text_int(TsText *t, int64_t v) {
  if (ts_size_is(v)) {
    TsSize size = ts_size_unpack(v);
    return ts_size_text(&size, t);
  }
  char s[24], *p = s + sizeof s;
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  do *--p = (char)('0' + u % 10);
  while (u /= 10);
  if (v < 0) *--p = '-';
  ts_text_add(t, p, (size_t)(s + sizeof s - p));
}

void ts_text_number(TsText *t, double v) {
  char s[40];
  bool minus = signbit(v);
  if (ts_number_is_size(v)) {
    TsSize size = ts_number_unpack(v);
    return ts_size_text(&size, t);
  }
  if (isnan(v)) return ts_text_str(t, minus ? "-nan" : "nan");
  if (isinf(v)) return ts_text_str(t, minus ? "-inf" : "inf");
  if (v == 0) return ts_text_str(t, minus ? "-0.0" : "0");
  if (fabs(v) < 1e15 && v == floor(v)) return ts_text_int(t, (int64_t)v);
  shortest(s, sizeof s, v);
  ts_text_str(t, s);
}

static bool at_word_number(const TsReader *r) {
  return ts_read_is_word(r, "inf") || ts_read_is_word(r, "-inf") || ts_read_is_word(r, "nan") ||
         ts_read_is_word(r, "-nan");
}

static const char *symbol_at(const TsReader *r);

bool ts_read_at_number(const TsReader *r) {
  return r->now.kind == TS_TOKEN_number || at_word_number(r) || symbol_at(r);
}

static int plain_number(TsReader *r, double *out) {
  char s[LONGEST_NUMBER + 1];
  if (!ts_read_at_number(r)) return ts_read_unexpected(r, "a number");
  if (r->now.len > LONGEST_NUMBER)
    return ts_read_fail(r, r->now.at, "the number has too many digits");
  memcpy(s, r->now.at, (size_t)r->now.len);
  s[r->now.len] = 0;
  *out = strtod(s, NULL);
  if (isinf(*out) && !at_word_number(r))
    return ts_read_fail(r, r->now.at, "the number is larger than any double");
  ts_read_next(r);
  return 0;
}

static int plain_int(TsReader *r, const char *what, int64_t *out) {
  char *end;
  if (r->now.kind != TS_TOKEN_number) return ts_read_unexpected(r, what);
  errno = 0;
  *out = strtoll(r->now.at, &end, 10);
  if (end != r->now.at + r->now.len) return ts_read_unexpected(r, what);
  /* Who writes an expression does not write its bits. */
  if (errno || (r->sized && ts_size_is(*out)))
    return ts_read_fail(r, r->now.at, "the number does not fit 64 bits");
  ts_read_next(r);
  return 0;
}

/* ---- expressions of sizes: 2*B*T/4+1, with values for the symbols */
static const char *symbol_at(const TsReader *r) {
  bool minus = r->now.len == 2 && *r->now.at == '-';
  if (r->now.kind != TS_TOKEN_word || r->now.len != 1 + minus) return NULL;
  return strchr(ts_size_symbol, r->now.at[minus]);
}

static int read_symbol(TsReader *r, int64_t *out) {
  const char *name = symbol_at(r);
  TsToken t = r->now;
  if (!r->symbol || !r->symbol[name - ts_size_symbol]) {
    ts_read_fail(r, t.at, "the size %c has no value", *name);
    return ts_error_hint(r->err, "give it one: graph.load(path, {%c = 8})", *name);
  }
  *out = r->symbol[name - ts_size_symbol];
  if (*t.at == '-') *out = -*out;
  ts_read_next(r);
  return 0;
}

/* What may follow the first factor v. */
static int read_terms(TsReader *r, int64_t v, int64_t *out) {
  const char *at = r->now.at;
  int64_t n = 1;
  while (ts_read_accept(r, '*')) {
    if (symbol_at(r) ? read_symbol(r, &n) : plain_int(r, "a size", &n)) return -1;
    if (__builtin_mul_overflow(v, n, &v))
      return ts_read_fail(r, at, "the size does not fit 64 bits");
  }
  if (ts_read_accept(r, '/')) {
    if (plain_int(r, "a divisor", &n)) return -1;
    if (n <= 0 || v % n) return ts_read_fail(r, at, "the size is not whole for these symbols");
    v /= n;
  }
  n = 0;
  if (ts_read_accept(r, '+') || (r->now.kind == TS_TOKEN_number && *r->now.at == '-'))
    if (plain_int(r, "a number", &n)) return -1;
  if (__builtin_add_overflow(v, n, out))
    return ts_read_fail(r, at, "the size does not fit 64 bits");
  return r->failed ? -1 : 0;
}

int ts_read_int(TsReader *r, const char *what, int64_t *out) {
  int64_t v;
  if (symbol_at(r)) return read_symbol(r, &v) || read_terms(r, v, out) ? -1 : 0;
  if (plain_int(r, what, out)) return -1;
  return r->now.kind == '*' ? read_terms(r, *out, out) : 0;
}

int ts_read_number(TsReader *r, double *out) {
  int64_t v;
  if (symbol_at(r)) {
    if (ts_read_int(r, "a size", &v)) return -1;
    *out = (double)v;
    return 0;
  }
  TsToken t = r->now;
  if (plain_number(r, out)) return -1;
  if (r->now.kind == '*') {
    if (*out != floor(*out) || fabs(*out) > 0x1p53)
      return ts_read_fail(r, t.at, "a factor of a size is a whole number");
    if (read_terms(r, (int64_t)*out, &v)) return -1;
    *out = (double)v;
  } else if (r->now.kind == '/') { /* 1/(64*B) */
    ts_read_next(r);
    if (ts_read_expect(r, '(', "'('") || ts_read_int(r, "a size", &v) ||
        ts_read_expect(r, ')', "')'"))
      return -1;
    *out /= (double)v;
  }
  return 0;
}

/* A place in a comment: what cannot be shown, or would end the line, becomes a question mark. */
void ts_text_place_text(TsText *t, const char *where) {
  while (*where) {
    int n = *where == '\n' || *where == '\r' ? -1 : ts_text_sign(where);
    ts_text_add(t, n < 0 ? "?" : where, n < 0 ? 1 : (size_t)n);
    where += n < 0 ? -n : n;
  }
}

/* ---- strings */
static const char letters[] = "n\nt\tr\r\"\"\\\\"; /* pairs: how it is written, what it is */

void ts_text_quoted(TsText *t, const char *s) {
  ts_text_char(t, '"');
  for (int left = 0, n = 0; *s; s++, left--) {
    if (!left) n = ts_text_sign(s), left = n < 0 ? -n : n;
    const char *p = letters;
    while (*p && p[1] != *s) p += 2;
    if (*p)
      ts_text_char(t, '\\'), ts_text_char(t, *p);
    else if (n < 0)
      ts_text_format(t, "\\x%02x", (unsigned char)*s);
    else
      ts_text_char(t, *s);
  }
  ts_text_char(t, '"');
}

static int hex(char c) {
  if (isdigit((unsigned char)c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The character behind a backslash; moves behind it. */
static int escape(TsReader *r, const char **s, char *out) {
  const char *at = *s, *p = letters;
  if (*at == 'x') {
    int high = hex(at[1]), low = high < 0 ? -1 : hex(at[2]);
    if (low < 0 || high + low == 0)
      return ts_read_fail(r, at - 1, "\\x needs two digits of 0-9a-f, not 00");
    *out = (char)(high * 16 + low);
    *s += 3;
    return 0;
  }
  while (*p && *p != *at) p += 2;
  if (!*p)
    return ts_read_fail(r, at - 1, "unknown escape '\\%c'",
                        isprint((unsigned char)*at) ? *at : '?');
  *out = p[1];
  *s += 1;
  return 0;
}

int ts_read_string(TsReader *r, const char **out) {
  if (r->now.kind != TS_TOKEN_string) return ts_read_unexpected(r, "a string");
  char *to = ts_arena_alloc(r->arena, (size_t)r->now.len);
  if (!to) return ts_read_no_memory(r);
  *out = to;
  for (const char *p = r->now.at + 1, *end = r->now.at + r->now.len - 1; p < end; to++) {
    if (*p != '\\')
      *to = *p++;
    else if (p++, escape(r, &p, to))
      return -1;
  }
  return ts_read_next(r);
}

/* ---- types */
void ts_text_size(TsText *t, int64_t size) { ts_text_int(t, size); }

void ts_text_type(TsText *t, const TsMeta *m) {
  ts_text_str(t, ts_dtype_name((TsDtype)m->dtype));
  ts_text_char(t, '[');
  for (int i = 0; i < m->ndim; i++) {
    if (i) ts_text_char(t, ',');
    ts_text_size(t, m->dim[i]);
    if (m->layout) ts_layout_axis_text(ts_layout_of(m), i, t);
  }
  ts_text_char(t, ']');
  if (m->layout) ts_layout_sum_text(ts_layout_of(m), t);
  if (m->weak) ts_text_str(t, m->weak == TS_WEAK_minus_zero ? "~~" : "~");
}

int ts_read_size(TsReader *r, int64_t *out) {
  const char *at = r->now.at;
  if (ts_read_int(r, "a size", out)) return -1;
  return *out < 0 ? ts_read_fail(r, at, "a size is not negative") : 0;
}

int ts_read_dtype(TsReader *r, TsDtype *out) {
  TsToken t = r->now;
  if (t.kind != TS_TOKEN_word) return ts_read_unexpected(r, "a dtype");
  *out = ts_dtype_parse(t.at, t.len);
  if (*out != TS_DT_none) return ts_read_next(r);
  ts_error_set(r->err, TS_ERR_dtype, "there is no dtype '%.*s'", t.len > 24 ? 24 : t.len, t.at);
  ts_error_hint(r->err, "f32 f64 f16 bf16 i64 i32 i16 i8 u8 bool complex64 ...");
  return ts_read_blame(r, t.at);
}

int ts_read_type(TsReader *r, TsMeta *out) {
  TsDtype d;
  TsLayout l = {0};
  *out = (TsMeta){0};
  if (ts_read_dtype(r, &d) || ts_read_expect(r, '[', "'[' behind the dtype")) return -1;
  out->dtype = (uint8_t)d;
  while (r->now.kind != ']') {
    if (out->ndim == TS_MAX_RANK)
      return ts_read_fail(r, r->now.at, "a type has at most %d axes", TS_MAX_RANK);
    if (ts_read_size(r, &out->dim[out->ndim++]) || ts_read_split(r, &l, out->ndim - 1)) return -1;
    if (!ts_read_accept(r, ',')) break;
    if (r->now.kind == ']') return ts_read_unexpected(r, "a size");
  }
  if (ts_read_expect(r, ']', "',' or ']'")) return -1;
  if (ts_read_summands(r, &l)) return -1;
  if (l.mesh) {
    l.ndim = out->ndim;
    const TsLayout *made = ts_layout_make(&l, r->err);
    if (!made) return ts_read_blame(r, r->now.at);
    out->layout = made->id;
  }
  if (r->now.kind == '~')
    return ts_read_fail(r, r->now.at, "only bare numbers have such a type");
  return r->failed ? -1 : 0;
}

/* ---- attributes */
void ts_text_attr(TsText *t, const TsAttrSpec *s, const TsAttr *a) {
  char word[64];
  const char *w;
  switch (a->type) {
  case TS_ATTR_int: ts_text_int(t, a->i); break;
  case TS_ATTR_f: ts_text_number(t, a->f); break;
  case TS_ATTR_bool: ts_text_str(t, a->i ? "true" : "false"); break;
  case TS_ATTR_dtype: ts_text_str(t, ts_dtype_name((TsDtype)a->i)); break;
  case TS_ATTR_choice: ts_text_str(t, (w = ts_attr_word(s, (int)a->i, word)) ? w : "?"); break;
  case TS_ATTR_str: ts_text_quoted(t, a->str); break;
  case TS_ATTR_ints:
  case TS_ATTR_floats:
    ts_text_char(t, '[');
    for (int i = 0; i < a->n; i++) {
      if (i) ts_text_char(t, ',');
      if (a->type == TS_ATTR_ints)
        ts_text_int(t, a->ints[i]);
      else
        ts_text_number(t, a->floats[i]);
    }
    ts_text_char(t, ']');
    break;
  default: ts_text_str(t, "none");
  }
}

void ts_text_attrs(TsText *t, const TsAttrSpec *spec, int n, const TsAttr *attr) {
  const char *before = " {";
  for (int i = 0; i < n; i++) {
    if (ts_attr_same(&attr[i], &spec[i].preset)) continue;
    ts_text_str(t, before);
    ts_text_add(t, spec[i].name, (size_t)spec[i].namelen);
    ts_text_char(t, '=');
    ts_text_attr(t, &spec[i], &attr[i]);
    before = " ";
  }
  if (before[1] == 0) ts_text_char(t, '}');
}

static int read_bool(TsReader *r, int64_t *out) {
  if (!ts_read_is_word(r, "true") && !ts_read_is_word(r, "false"))
    return ts_read_unexpected(r, "true or false");
  *out = *r->now.at == 't';
  return ts_read_next(r);
}

static int read_choice(TsReader *r, const TsAttrSpec *s, int64_t *out) {
  char word[64];
  TsToken t = r->now;
  if (t.kind != TS_TOKEN_word) return ts_read_unexpected(r, "a word");
  int n = t.len < 63 ? t.len : 63;
  memcpy(word, t.at, (size_t)n);
  word[n] = 0;
  *out = ts_attr_choice(s, word);
  if (*out >= 0) return ts_read_next(r);
  ts_error_set(r->err, TS_ERR_attribute, "option '%.*s' cannot be '%s'", s->namelen, s->name,
               word);
  ts_error_hint(r->err, "one of %.*s", s->wordslen, s->words);
  return ts_read_blame(r, t.at);
}

/* The list doubles in the arena; what it leaves behind is as much again. */
static int read_list(TsReader *r, TsAttr *a) {
  union Item {
    int64_t i;
    double f;
  } *item = NULL;
  int cap = 0;
  if (ts_read_expect(r, '[', "'[' of a list")) return -1;
  for (a->n = 0; r->now.kind != ']'; a->n++) {
    if (a->n == cap) {
      union Item *more =
          ts_arena_alloc(r->arena, sizeof *item * (size_t)(cap = cap ? cap * 2 : 8));
      if (!more) return ts_read_no_memory(r);
      if (a->n) memcpy(more, item, sizeof *item * (size_t)a->n);
      item = more;
    }
    if (a->n && ts_read_expect(r, ',', "',' or ']'")) return -1;
    if (a->type == TS_ATTR_ints ? ts_read_int(r, "a whole number", &item[a->n].i)
                                : ts_read_number(r, &item[a->n].f))
      return -1;
  }
  if (!item && !(item = ts_arena_alloc(r->arena, sizeof *item))) return ts_read_no_memory(r);
  if (a->type == TS_ATTR_ints)
    a->ints = &item->i;
  else
    a->floats = &item->f;
  return ts_read_next(r);
}

static int read_attr(TsReader *r, const TsAttrSpec *s, TsAttr *a) {
  TsDtype d = TS_DT_none;
  *a = (TsAttr){.type = s->type};
  switch (s->type) {
  case TS_ATTR_int: return ts_read_int(r, "a whole number", &a->i);
  case TS_ATTR_f: return ts_read_number(r, &a->f);
  case TS_ATTR_bool: return read_bool(r, &a->i);
  case TS_ATTR_str: return ts_read_string(r, &a->str);
  case TS_ATTR_choice: return read_choice(r, s, &a->i);
  case TS_ATTR_dtype:
    if (ts_read_dtype(r, &d)) return -1;
    a->i = d;
    return 0;
  default: return read_list(r, a);
  }
}

typedef struct Options {
  const TsAttrSpec *spec;
  char text[32];
} Options;

static const char *nth_option(const void *arg, int i) {
  Options *o = (Options *)(uintptr_t)arg;
  snprintf(o->text, sizeof o->text, "%.*s", o->spec[i].namelen, o->spec[i].name);
  return o->text;
}

static int unknown_option(TsReader *r, const TsToken *of, const TsAttrSpec *spec, int n) {
  Options o = {.spec = spec};
  char name[32];
  snprintf(name, sizeof name, "%.*s", r->now.len, r->now.at);
  ts_error_set(r->err, TS_ERR_attribute, "%.*s: unknown option '%s'", of->len, of->at, name);
  const char *guess = ts_text_closest(name, n, nth_option, &o);
  if (guess) ts_error_hint(r->err, "did you mean '%s'?", guess);
  return ts_read_blame(r, r->now.at);
}

static int find_option(const TsReader *r, const TsAttrSpec *spec, int n) {
  for (int i = 0; i < n; i++)
    if (spec[i].namelen == r->now.len && !memcmp(spec[i].name, r->now.at, (size_t)r->now.len))
      return i;
  return -1;
}

int ts_read_attrs(TsReader *r, const TsToken *of, const TsAttrSpec *spec, int n, TsAttr *attr) {
  unsigned given = 0;
  if (!ts_read_accept(r, '{')) return 0;
  while (r->now.kind != '}') {
    if (r->now.kind != TS_TOKEN_word) return ts_read_unexpected(r, "an option or '}'");
    int i = find_option(r, spec, n);
    if (i < 0) return unknown_option(r, of, spec, n);
    if (given >> i & 1)
      return ts_read_fail(r, r->now.at, "%.*s: an option stands twice", of->len, of->at);
    given |= 1u << i;
    ts_read_next(r);
    if (ts_read_expect(r, '=', "'=' behind the option") || read_attr(r, &spec[i], &attr[i]))
      return -1;
  }
  return ts_read_next(r);
}

/* ---- comparing */
bool ts_number_same(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) && !signbit(a) == !signbit(b);
  return !memcmp(&a, &b, sizeof a);
}

bool ts_attr_same(const TsAttr *a, const TsAttr *b) {
  if (a->type != b->type) return false;
  switch (a->type) {
  case TS_ATTR_none: return true;
  case TS_ATTR_f: return ts_number_same(a->f, b->f);
  case TS_ATTR_str: return !strcmp(a->str, b->str);
  case TS_ATTR_ints:
    return a->n == b->n && (!a->n || !memcmp(a->ints, b->ints, 8 * (size_t)a->n));
  case TS_ATTR_floats:
    for (int i = 0; a->n == b->n && i < a->n; i++)
      if (!ts_number_same(a->floats[i], b->floats[i])) return false;
    return a->n == b->n;
  default: return a->i == b->i;
  }
}

bool ts_type_same(const TsMeta *a, const TsMeta *b) {
  return a->dtype == b->dtype && a->weak == b->weak && ts_meta_same_shape(a, b);
}

bool ts_attr_legal(const TsAttrSpec *s, const TsAttr *a) {
  char word[64];
  if (a->type == TS_ATTR_none) return s->optional;
  if (a->type != s->type) return false;
  if (a->type == TS_ATTR_choice)
    return a->i >= 0 && a->i < 64 && ts_attr_word(s, (int)a->i, word);
  if (a->type == TS_ATTR_dtype) return a->i >= 0 && a->i < TS_DT_COUNT;
  return a->type != TS_ATTR_bool || a->i == 0 || a->i == 1;
}
