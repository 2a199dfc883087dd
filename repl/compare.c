/* See repl/compare.h. */
#include "repl/compare.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "repl/lex.h"
#include "repl/lua_api.h"

/* The last words of the text, the newest last; spaces and comments are none. */
enum { WORDS = 5, NAMES = 64 };

typedef struct Scan {
  const char *text;
  size_t size, at;
  TsToken last[WORDS];
} Scan;

static bool next(Scan *s) {
  TsToken t;
  do {
    t = ts_lex_next(s->text, s->size, s->at);
    if (t.kind == TS_LEX_END || !t.size) return false;
    s->at += t.size;
  } while (t.kind == TS_LEX_SPACE || t.kind == TS_LEX_COMMENT);
  memmove(s->last, s->last + 1, sizeof s->last - sizeof *s->last);
  s->last[WORDS - 1] = t;
  return true;
}

static bool is(const Scan *s, int i, const char *word) {
  return ts_lex_is(s->text, &s->last[i], word);
}
static bool is_kind(const Scan *s, int i, TsLexKind kind) {
  return s->last[i].size && s->last[i].kind == kind;
}
static bool compares(const Scan *s, int i) { return is(s, i, "==") || is(s, i, "~="); }

/* The name in "x == 0" or "0 == x" among the last words, or NULL. What stands behind a name on the
 * right is the next word, so there it is one word later. */
static const TsToken *compared(const Scan *s) {
  bool field = is(s, 1, ".") || is(s, 1, ":");
  if (compares(s, 3) && is_kind(s, 4, TS_LEX_NUMBER) && is_kind(s, 2, TS_LEX_NAME) && !field)
    return &s->last[2];
  bool more = is(s, 4, ".") || is(s, 4, ":") || is(s, 4, "[") || is(s, 4, "(");
  if (compares(s, 2) && is_kind(s, 1, TS_LEX_NUMBER) && is_kind(s, 3, TS_LEX_NAME) && !more)
    return &s->last[3];
  return NULL;
}

static int line_of(const Scan *s, size_t at) {
  int line = 1;
  for (size_t i = 0; i < at; i++) line += s->text[i] == '\n';
  return line;
}

static void tell(const Scan *s, const TsToken *name, const char *where) {
  bool equal = is(s, 3, "==") || (!is(s, 3, "~=") && is(s, 2, "=="));
  int n = (int)name->size;
  const char *x = s->text + name->start;
  fprintf(stderr,
          "%s:%d: note: %.*s is a tensor, which %s a number is %s whatever its elements are; "
          "%.*s:%s(..) compares them\n",
          where, line_of(s, name->start), n, x, equal ? "==" : "~=", equal ? "false" : "true",
          n, x, equal ? "eq" : "ne");
}

static bool is_tensor(lua_State *L, const Scan *s, const TsToken *name) {
  lua_pushlstring(L, s->text + name->start, name->size);
  lua_rawget(L, LUA_GLOBALSINDEX);
  bool tensor = ts_lua_tensor(L, -1) != NULL;
  lua_pop(L, 1);
  return tensor;
}

void ts_compare_input(lua_State *L, const char *text, size_t size) {
  Scan s = {.text = text, .size = size};
  for (bool more = true; more;) {
    if (!(more = next(&s)))
      memmove(s.last, s.last + 1, sizeof s.last - sizeof *s.last), s.last[WORDS - 1].size = 0;
    const TsToken *name = compared(&s);
    if (!name || !is_tensor(L, &s, name)) continue;
    tell(&s, name, "input");
    return;
  }
}

static int nested(const Scan *s) {
  bool in = is(s, 4, "(") || is(s, 4, "{") || is(s, 4, "[");
  return in ? 1 : -(is(s, 4, ")") || is(s, 4, "}") || is(s, 4, "]"));
}

/* Whether a call comes, of which all that it gives is taken: not op.sum(x):item(), op.eq(x, y) ==
 * z, or op.relu by itself. */
static bool is_call(Scan s) {
  static const char *const parts[] = {":", ".", "[", "(", "==", "~=", "<", ">", "and", "or"};
  if (!next(&s)) return false;
  int depth = nested(&s);
  if (depth < 1) return false;
  while (depth && next(&s)) depth += nested(&s);
  bool more = next(&s), whole = true;
  for (size_t i = 0; more && i < sizeof parts / sizeof *parts; i++)
    whole &= !is(&s, WORDS - 1, parts[i]);
  return whole;
}

/* "x = op." among the last words, and behind them a call: x, or NULL. */
static const TsToken *given(const Scan *s) {
  bool made = is(s, 4, ".") && (is(s, 3, "op") || is(s, 3, "rng"));
  bool wrapped = is(s, 4, "tensor") && is(s, 3, ".") && is(s, 2, "tessera");
  Scan behind = *s;
  if (made && is(s, 2, "=") && is_kind(s, 1, TS_LEX_NAME) && !is(s, 0, ","))
    return next(&behind) && is_call(behind) ? &s->last[1] : NULL;
  if (wrapped && is(s, 1, "=") && is_kind(s, 0, TS_LEX_NAME))
    return is_call(behind) ? &s->last[0] : NULL;
  return NULL;
}

/* Which of the names it is; -1: none. */
static int known(const Scan *s, int n, const TsToken *names, const TsToken *name) {
  while (n-- > 0)
    if (names[n].size == name->size &&
        !memcmp(s->text + names[n].start, s->text + name->start, name->size))
      break;
  return n;
}

/* Whether the last word is a name that becomes something else: x of "x = ", of function (x), of
 * for x in. in: within the names of the last two. */
static bool is_other(Scan s, bool *in) {
  if (is(&s, 4, "function") || is(&s, 4, "for")) *in = true;
  if (is(&s, 4, ")") || is(&s, 4, "in") || is(&s, 4, "=")) *in = false;
  if (!is_kind(&s, 4, TS_LEX_NAME)) return false;
  bool field = is(&s, 3, ".") || is(&s, 3, ":");
  return *in || (!field && next(&s) && (is(&s, 4, "=") || is(&s, 4, ",")));
}

void ts_compare_script(const char *text, size_t size, const char *name) {
  TsToken names[NAMES];
  int n = 0;
  bool in = false;
  Scan s = {.text = text, .size = size};
  while (next(&s)) {
    const TsToken *made = given(&s), *seen = compared(&s);
    if (made && n < NAMES && known(&s, n, names, made) < 0) names[n++] = *made;
    if (seen && known(&s, n, names, seen) >= 0) tell(&s, seen, name);
    int other = is_other(s, &in) ? known(&s, n, names, &s.last[WORDS - 1]) : -1;
    if (other >= 0) names[other] = names[--n];
  }
}
