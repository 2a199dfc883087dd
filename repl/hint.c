/* The call that is typed is found by tokens; its signature is that of help (repl/help.h, and
 * prompt.signature in lib/lua/prompt/hints.lua, which runs nothing of the user's). */
#include "repl/hint.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "repl/help.h"
#include "repl/lex.h"
#include "repl/prompt.h"

enum { DEEPEST = 64, NAME_ROOM = 120 };

static char rest[160], line[400];

/* The arguments behind "op.name(" and "x:name(". */
const char *ts_hint_rest(void *arg, const char *text) {
  size_t end = strlen(text), start;
  char name[40];
  (void)arg;
  if (end == 0 || text[--end] != '(') return NULL;
  start = end;
  while (start > 0 && (isalnum((unsigned char)text[start - 1]) || text[start - 1] == '_'))
    start--;
  if (start == 0 || end - start >= sizeof name) return NULL;
  bool method = text[start - 1] == ':';
  if (!method && (start < 3 || strncmp(text + start - 3, "op.", 3))) return NULL;
  memcpy(name, text + start, end - start);
  name[end - start] = 0;
  TsText t = {0};
  bool found = !ts_help_arguments(name, method, &t) && t.len;
  if (found) snprintf(rest, sizeof rest, "%s)", t.at);
  ts_text_free(&t);
  return found ? rest : NULL;
}

/* A path of names as it is read: "nn.Linear", "x:sum". */
typedef struct Path {
  size_t start, end; /* of the text; equal: none */
  bool open;         /* a name may follow */
} Path;

static void read_token(Path *p, const char *text, const TsToken *t, bool *defines) {
  bool dot = ts_lex_is(text, t, ".") || ts_lex_is(text, t, ":");
  if (t->kind == TS_LEX_NAME && p->open && p->end) {
    p->end = t->start + t->size, p->open = false;
  } else if (t->kind == TS_LEX_NAME) {
    *p = (Path){t->start, t->start + t->size, false};
  } else if (dot && p->end > p->start && !p->open) {
    p->end = t->start + t->size, p->open = true;
  } else {
    *defines = t->kind == TS_LEX_KEYWORD && ts_lex_is(text, t, "function");
    *p = (Path){0};
  }
}

/* The path of the innermost call around the cursor: of what its bracket stands behind. */
static bool find_call(const char *text, size_t cursor, char name[NAME_ROOM]) {
  Path path = {0}, around[DEEPEST];
  int depth = 0;
  bool defines = false;
  for (size_t at = 0; at < cursor;) {
    TsToken t = ts_lex_next(text, cursor, at);
    if (!t.size) break;
    at += t.size;
    if (t.kind == TS_LEX_SPACE || t.kind == TS_LEX_COMMENT) continue;
    bool opens =
        ts_lex_is(text, &t, "(") || ts_lex_is(text, &t, "{") || ts_lex_is(text, &t, "[");
    bool closes =
        ts_lex_is(text, &t, ")") || ts_lex_is(text, &t, "}") || ts_lex_is(text, &t, "]");
    if (opens && depth < DEEPEST) {
      if (defines || path.open || text[t.start] == '[') path = (Path){0};
      around[depth++] = path;
    }
    if (closes && depth) depth--;
    read_token(&path, text, &t, &defines);
  }
  while (depth && around[depth - 1].end == around[depth - 1].start) depth--;
  if (!depth) return false;
  size_t n = around[depth - 1].end - around[depth - 1].start;
  if (n >= NAME_ROOM) return false;
  memcpy(name, text + around[depth - 1].start, n);
  name[n] = 0;
  return true;
}

/* Of an operator, from the table. */
static bool of_operator(const char *name) {
  const char *colon = strrchr(name, ':');
  if (!colon && strncmp(name, "op.", 3)) return false;
  TsText t = {0};
  bool found = !ts_help_arguments(colon ? colon + 1 : name + 3, colon != NULL, &t);
  if (found) snprintf(line, sizeof line, "%s(%s)", name, t.at ? t.at : "");
  ts_text_free(&t);
  return found;
}

static int call_library(lua_State *L) {
  const char *name = lua_touserdata(L, 1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.prompt.hints");
  lua_call(L, 1, 1);
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
  snprintf(line, sizeof line, "%s", lua_isstring(L, -1) ? lua_tostring(L, -1) : "");
  return 0;
}

const char *ts_hint_signature(void *arg, const char *text, size_t cursor) {
  lua_State *L = arg;
  char name[NAME_ROOM];
  while (isspace((unsigned char)*text) && cursor) text++, cursor--;
  if (*text == '!' || *text == '?' || *text == ':') return NULL;
  if (!find_call(text, cursor, name)) return NULL;
  line[0] = 0;
  int base = lua_gettop(L);
  if (lua_cpcall(L, call_library, name)) line[0] = 0;
  lua_settop(L, base);
  if (!line[0] && !of_operator(name)) return NULL;
  return line;
}
