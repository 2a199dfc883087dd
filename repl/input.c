/* See repl/input.h. An input is tried as an expression first, then as statements. `local` at top level
 * would end with its input, so that it is made global there. */
#include "repl/input.h"

#include <ctype.h>
#include <string.h>

#include "lib/text.h"
#include "repl/lex.h"
#include "repl/run.h"

/* ---- locals: "local x, y = 1" at top level becomes "      x, y = 1", and
 * "local x" becomes "      x = nil;". Columns stay what they were. */
static size_t skip_blanks(const char *text, size_t size, size_t at, TsToken *t) {
  for (;; at += t->size) {
    *t = ts_lex_next(text, size, at);
    if (t->kind != TS_LEX_SPACE && t->kind != TS_LEX_COMMENT) return at;
  }
}

static size_t put_local(const char *text, size_t size, size_t at, TsText *out) {
  TsToken t;
  size_t start = at + strlen("local"), end = start;
  ts_text_pad(out, ' ', (int)strlen("local"));
  for (at = skip_blanks(text, size, start, &t); t.kind == TS_LEX_NAME;) {
    end = at + t.size;
    at = skip_blanks(text, size, end, &t);
    if (!ts_lex_is(text, &t, ",")) break;
    at = skip_blanks(text, size, at + 1, &t);
  }
  ts_text_add(out, text + start, end - start);
  if (end > start && !ts_lex_is(text, &t, "="))
    ts_text_str(out, ts_lex_is(text, &t, ";") ? " = nil" : " = nil;");
  return end;
}

static int depth_change(const char *text, const TsToken *t) {
  static const char *const opens[] = {"function", "do", "if", "repeat", "{", "("};
  static const char *const closes[] = {"end", "until", "}", ")"};
  for (size_t i = 0; i < sizeof opens / sizeof *opens; i++)
    if (ts_lex_is(text, t, opens[i])) return 1;
  for (size_t i = 0; i < sizeof closes / sizeof *closes; i++)
    if (ts_lex_is(text, t, closes[i])) return -1;
  return 0;
}

static bool without_locals(const char *text, size_t size, TsText *out) {
  int depth = 0, found = 0;
  for (size_t at = 0; at < size;) {
    TsToken t = ts_lex_next(text, size, at);
    bool word = t.kind == TS_LEX_KEYWORD || t.kind == TS_LEX_SYMBOL;
    if (word && depth == 0 && ts_lex_is(text, &t, "local")) {
      found++;
      at = put_local(text, size, at, out);
      continue;
    }
    if (word) depth += depth_change(text, &t);
    ts_text_add(out, text + at, t.size);
    at += t.size;
  }
  return found > 0 && !out->failed;
}

/* ---- compiling */
static int load_prefixed(lua_State *L, const char *prefix, const char *text, size_t size,
                         const char *name) {
  TsText t = {0};
  ts_text_str(&t, prefix);
  ts_text_add(&t, text, size);
  int status = ts_run_compile(L, t.at, t.len, name);
  ts_text_free(&t);
  return status;
}

/* A first line that begins with # would be left out, as of a script. */
static const char *statements_prefix(const char *text) { return *text == '#' ? " " : ""; }

static int load_statements(lua_State *L, const char *text, size_t size, const char *name,
                           bool *locals) {
  TsText changed = {0};
  *locals = without_locals(text, size, &changed);
  int status = *locals ? ts_run_compile(L, changed.at, changed.len, name) : 1;
  ts_text_free(&changed);
  if (!status) return 0;
  if (*locals) lua_pop(L, 1);
  *locals = false;
  return load_prefixed(L, statements_prefix(text), text, size, name);
}

/* Is the message on the top about the end of the text? Then more text could complete it. */
static bool is_about_end(lua_State *L) {
  static const char mark[] = "'<eof>'";
  size_t n;
  const char *message = lua_tolstring(L, -1, &n);
  return message && n >= sizeof mark - 1 && !strcmp(message + n - (sizeof mark - 1), mark);
}

/* How far the compiler reads a text that it refuses: it asks for one byte after the other. */
typedef struct Fed {
  const char *prefix, *text;
  size_t size, at;
} Fed;

static const char *feed(lua_State *L, void *data, size_t *n) {
  Fed *fed = data;
  (void)L;
  *n = 1;
  if (*fed->prefix) return fed->prefix++;
  if (fed->at == fed->size) *n = 0;
  return fed->at < fed->size ? &fed->text[fed->at++] : NULL;
}

static size_t reach(lua_State *L, const char *prefix, const char *text, size_t size) {
  Fed fed = {prefix, text, size, 0};
  lua_load(L, feed, &fed, "=input");
  size_t end =
      is_about_end(L) ? size + 1 : fed.at; /* a sign's end is seen by what follows it */
  lua_pop(L, 1);
  return end;
}

/* A Lua status. The nil keeps a single call from being a tail call, whose frame, and
 * with it the line of an error, would be gone. Of two messages, that of the reading that got
 * furthest is about what was meant. */
int ts_input_load(lua_State *L, const char *text, size_t size, const char *name, TsInput *in) {
  static const char values[] = "return nil, ";
  *in = (TsInput){.values = !load_prefixed(L, values, text, size, name)};
  if (in->values) return 0;
  int status = load_statements(L, text, size, name, &in->locals);
  if (status && reach(L, values, text, size) > reach(L, statements_prefix(text), text, size))
    lua_pop(L, 1);
  else
    lua_remove(L, -2);
  return status;
}

bool ts_input_is_command(const char *text) {
  return *text == '?' || *text == '!' || (*text == ':' && text[1] != ':');
}

const char *ts_input_skip_spaces(const char *s) {
  while (isspace((unsigned char)*s)) s++;
  return s;
}

/* A string in quotes that its line does not end is a mistake, not a beginning. */
static bool breaks_string(const char *text, size_t size) {
  TsToken t = {.size = 0};
  for (size_t at = 0; at < size; at += t.size) t = ts_lex_next(text, size, at);
  bool quotes = t.size && (text[t.start] == '"' || text[t.start] == '\'');
  return quotes && t.open && text[size - 1] != '\\';
}

int ts_input_is_incomplete(void *arg, const char *text, size_t size) {
  lua_State *L = arg;
  const char *start = ts_input_skip_spaces(text);
  size_t skipped = (size_t)(start - text);
  if (ts_input_is_command(start) || skipped >= size || breaks_string(text, size)) return 0;
  if (*start == '=') start++, skipped++;
  TsInput in;
  if (!ts_input_load(L, start, size - skipped, "=input", &in)) {
    lua_pop(L, 1);
    return 0;
  }
  bool more = is_about_end(L);
  lua_pop(L, 1);
  return more;
}

bool ts_input_is_silenced(const char *text, size_t size) {
  size_t last = 0;
  for (size_t at = 0; at < size;) {
    TsToken t = ts_lex_next(text, size, at);
    if (t.kind != TS_LEX_SPACE && t.kind != TS_LEX_COMMENT) last = t.start;
    at += t.size;
  }
  return size > 0 && text[last] == ';';
}
