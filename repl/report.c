/* Error reports:
 *
 *   model.lua:12: matmul: inner sizes differ: f32[64,128] x f32[256,10] (128 vs 256)
 *       y = h:matmul(w)
 *             ^
 *     hint: transpose the second factor
 *   stack traceback:
 *       model.lua:12: in function 'forward'
 *       model.lua:30: in main chunk
 *
 * Files are read again for the line; texts from -e and the prompt are kept by
 * repl/run.c. Frames of the library and of C are left out. */
#include "repl/report.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/text.h"
#include "repl/globals.h"
#include "repl/lua_api.h"
#include "repl/report_line.h"
#include "repl/run.h"
#include "repl/script.h"
#include "repl/tail.h"

static const char OVERFLOW[] =
    "stack overflow"; /* without a line, of code that is interpreted */

enum { LINE_ROOM = 2048, FRAMES_FIRST = 10, FRAMES_LAST = 4 };

/* The key of the function on the stack's top in op, which is below it. */
static bool name_in(lua_State *L, char *name, size_t room) {
  bool found = false;
  for (lua_pushnil(L); !found && lua_next(L, -3); lua_pop(L, found ? 2 : 1))
    if (lua_rawequal(L, -1, -3) && lua_type(L, -2) == LUA_TSTRING)
      found = snprintf(name, room, "%s", lua_tostring(L, -2)) > 0;
  return found;
}

bool ts_report_function(lua_State *L, int level, char *name, size_t room) {
  lua_Debug ar;
  bool found = false;
  int top = lua_gettop(L);
  if (!lua_checkstack(L, 8)) return false;
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(L, -1, "tessera.core");
  if (lua_istable(L, -1)) lua_getfield(L, -1, "op");
  for (; lua_istable(L, -1) && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sf", &ar); /* pushes the function */
    bool library = !strncmp(ar.source, "=tessera", 8), c = !strcmp(ar.what, "C");
    if (!library && !c) break;
    if (library) found = name_in(L, name, room) || found;
    lua_pop(L, 1);
  }
  lua_settop(L, top);
  return found;
}

/* ---- the source line */
static bool line_of_text(const char *text, size_t size, int line, char *out) {
  const char *end = text + size;
  for (; line > 1 && text < end; line--) {
    const char *next = memchr(text, '\n', (size_t)(end - text));
    if (!next) return false;
    text = next + 1;
  }
  size_t n = strcspn(text, "\r\n");
  if (n > (size_t)(end - text)) n = (size_t)(end - text);
  if (n >= LINE_ROOM) n = LINE_ROOM - 1;
  memcpy(out, text, n);
  out[n] = 0;
  return true;
}

static bool line_of_file(const char *path, int line, char *out) {
  FILE *f = ts_script_open(path);
  char *text = NULL;
  size_t room = 0;
  ssize_t size = -1;
  if (!f) return false;
  for (int i = 0; i < line && (size = getline(&text, &room, f)) >= 0; i++) continue;
  bool found = size >= 0 && line_of_text(text, (size_t)size, 1, out);
  free(text);
  fclose(f);
  return found;
}

static bool source_line(lua_State *L, const char *source, int line, char *out) {
  size_t size;
  bool kept = *source == '=' || *source == '@';
  const char *text = kept ? ts_run_text(L, source, &size) : source;
  if (*source == '@' && !text) return line_of_file(source + 1, line, out);
  if (text && !kept) size = strlen(source);
  return text && line_of_text(text, size, line, out);
}

/* ---- the mark: under the operator or the name that the message is about */
static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The word as a whole, where one of the characters `before` it stands behind. */
static const char *find_word(const char *line, const char *word, size_t n, const char *before) {
  for (const char *p = line; (p = strstr(p, word)); p++) {
    bool begins = p == line || !in_name(p[-1]) || !in_name(*word);
    bool follows = !before || strchr(before, p[n + strspn(p + n, " ")]);
    if (begins && follows && (!in_name(p[n]) || !in_name(word[n - 1]))) return p;
  }
  return NULL;
}

static const char *find_piece(const char *line, const char *from, size_t n,
                              const char *before) {
  char word[64];
  if (n == 0 || n >= sizeof word) return NULL;
  memcpy(word, from, n);
  word[n] = 0;
  const char *found = before ? find_word(line, word, n, before) : NULL;
  return found ? found : find_word(line, word, n, NULL);
}

/* Operators that are written with a sign, as well as by name. */
static const char *find_sign(const char *line, const char *name, size_t n) {
  static const struct {
    const char *name, *sign;
  } signs[] = {{"add", "+"},          {"sub", "-"},          {"mul", "*"},    {"div", "/"},
               {"mod", "%"},          {"pow", "^"},          {"neg", "-"},    {"#", "#"},
               {"index", "["},        {"assignment", "="},   {"select", "["}, {"slice", "["},
               {"index_select", "["}, {"masked_select", "["}};
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
    if (strlen(signs[i].name) == n && !memcmp(signs[i].name, name, n))
      return strstr(line, signs[i].sign);
  return NULL;
}

/* Words in quotes, as in: attempt to index global 'x' (a nil value). */
static const char *find_quoted(const char *line, const char *message) {
  const char *p = message, *before = NULL;
  if (strstr(message, "attempt to index")) before = ".:[";
  if (strstr(message, "attempt to call")) before = "({\"'[";
  while ((p = strchr(p, '\''))) {
    const char *end = strchr(++p, '\'');
    if (!end) return NULL;
    const char *found = find_piece(line, p, (size_t)(end - p), before);
    if (found) return found;
    p = end + 1;
  }
  return NULL;
}

static const char *find_mark(const char *line, const char *message) {
  const char *found = NULL;
  size_t n = 0;
  while (in_name(message[n])) n++;
  if (*message == '#') n = 1;
  if (n && message[n] == ':') {
    found = find_piece(line, message, n, "({");
    if (!found) found = find_sign(line, message, n);
  }
  if (!found) found = find_quoted(line, message);
  return found ? found : line + strspn(line, " \t");
}

/* ---- the calls: which name is the function's */
static const char *last_part(const char *name, size_t *n) {
  for (size_t i = *n; i > 0; i--) {
    if (in_name(name[i - 1])) continue;
    *n -= i;
    return name + i;
  }
  return name;
}

/* The name that the word `function` at this place defines: function a.b:name(, name = function(. */
static const char *defined_name(const char *line, const char *word, size_t *n) {
  const char *from = word + strlen("function");
  from += strspn(from, " \t");
  for (*n = 0; in_name(from[*n]) || from[*n] == '.' || from[*n] == ':';) (*n)++;
  if (*n) return last_part(from, n);
  const char *end = word;
  while (end > line && strchr(" \t", end[-1])) end--;
  if (end == line || *--end != '=') return NULL;
  while (end > line && strchr(" \t", end[-1])) end--;
  *n = (size_t)(end - line);
  const char *name = last_part(line, n);
  return *n ? name : NULL;
}

/* What the line where a function begins says of its name: a call's name, where it is one of those
 * that stand there, else the only one. NULL if it does not tell. */
static const char *name_by_line(const char *line, const char *called, char name[64]) {
  const char *found = NULL;
  size_t length = 0;
  int functions = 0;
  for (const char *p = line; (p = find_word(p, "function", 8, NULL)); p += 8) {
    size_t n;
    const char *own = defined_name(line, p, &n);
    if (own && strlen(called) == n && !memcmp(own, called, n)) return called;
    functions++;
    found = own, length = n;
  }
  if (functions != 1 || !found || length >= 64) return NULL;
  memcpy(name, found, length);
  name[length] = 0;
  return name;
}

/* Whether the function at this level is what the caller's variable holds by whose name it
 * was called. */
static bool holds(lua_State *L, int level, const lua_Debug *ar) {
  lua_Debug self, caller;
  int top = lua_gettop(L);
  bool same = false;
  if (*ar->namewhat == 'm' || *ar->namewhat == 'f')
    return true; /* of a table that is unknown */
  if (!lua_getstack(L, level, &self) || !lua_getstack(L, level + 1, &caller)) return false;
  lua_getinfo(L, "f", &self);
  lua_getinfo(L, "f", &caller);
  const char *name;
  for (int i = 1; *ar->namewhat == 'l' && (name = lua_getlocal(L, &caller, i)); i++) {
    if (!strcmp(name, ar->name)) same |= lua_rawequal(L, top + 1, -1);
    lua_pop(L, 1);
  }
  for (int i = 1; *ar->namewhat == 'u' && (name = lua_getupvalue(L, top + 2, i)); i++) {
    if (!strcmp(name, ar->name)) same |= lua_rawequal(L, top + 1, -1);
    lua_pop(L, 1);
  }
  if (*ar->namewhat == 'g') {
    lua_getfenv(L, top + 2);
    lua_pushstring(L, ar->name);
    lua_rawget(L, -2);
    same = lua_rawequal(L, top + 1, -1);
  }
  lua_settop(L, top);
  return same;
}

/* Lua names a function by the instruction that called it: behind a tail call that is another's. */
static const char *own_name(lua_State *L, int level, const lua_Debug *ar, char name[64]) {
  char line[LINE_ROOM];
  if (!*ar->namewhat || !ar->name) return NULL;
  const char *own = source_line(L, ar->source, ar->linedefined, line)
                        ? name_by_line(line, ar->name, name)
                        : NULL;
  return own ? own : holds(L, level, ar) ? ar->name : NULL;
}

static void put_frame(lua_State *L, int level, TsText *out, const lua_Debug *ar) {
  char room[64];
  ts_text_format(out, "\n    %s:%d: in ", ar->short_src, ar->currentline);
  const char *name = own_name(L, level, ar, room);
  if (name)
    ts_text_format(out, "function '%s'", name);
  else if (*ar->what == 'm')
    ts_text_str(out, "main chunk");
  else
    ts_text_format(out, "function <%s:%d>", ar->short_src, ar->linedefined);
}

static bool user_frame(lua_State *L, int level, lua_Debug *ar) {
  if (!lua_getstack(L, level, ar)) return false;
  lua_getinfo(L, "Sln", ar);
  bool command = !strncmp(ar->source, "=:", 2); /* which everybody knows was typed */
  return ts_report_is_users(ar) && ar->currentline > 0 && !command;
}

/* How many levels the stack has. Finding a level takes as many steps as there are above it. */
static int depth_of(lua_State *L) {
  lua_Debug ar;
  int low = 0, high = 64;
  while (lua_getstack(L, high, &ar)) low = high, high *= 2;
  while (low + 1 < high) {
    int middle = low + (high - low) / 2;
    *(lua_getstack(L, middle, &ar) ? &low : &high) = middle;
  }
  return low + 1;
}

/* Of a stack that an endless recursion filled, what stands between is not looked at: all count. */
static int frames_between(lua_State *L, int from, int to) {
  enum { FEW = 1000 };
  lua_Debug ar;
  int n = 0;
  if (to - from > FEW) return to - from;
  for (int level = from; level < to; level++) n += user_frame(L, level, &ar);
  return n;
}

static void put_traceback(lua_State *L, TsText *out) {
  lua_Debug ar;
  int first[FRAMES_FIRST], last[FRAMES_LAST], nfirst = 0, nlast = 0, from = 1, to = depth_of(L);
  for (; from < to && nfirst < FRAMES_FIRST; from++)
    if (user_frame(L, from, &ar)) first[nfirst++] = from;
  for (; from < to && nlast < FRAMES_LAST; to--)
    if (user_frame(L, to - 1, &ar)) last[nlast++] = to - 1;
  if (nfirst + nlast < 2) return;
  int between = frames_between(L, from, to);
  ts_text_str(out, "\nstack traceback:");
  for (int i = 0; i < nfirst; i++)
    if (user_frame(L, first[i], &ar)) put_frame(L, first[i], out, &ar);
  if (between) ts_text_format(out, "\n    ... (%d more)", between);
  while (nlast > 0)
    if (user_frame(L, last[--nlast], &ar)) put_frame(L, last[nlast], out, &ar);
}

/* The text; where there was no memory for it, the message behind our name. */
static void push_text(lua_State *L, TsText *t, const char *message) {
  if (message && (t->failed || !t->at))
    lua_pushfstring(L, "tessera: %s", message);
  else
    lua_pushlstring(L, t->at ? t->at : "", t->len);
  ts_text_free(t);
}

/* ---- errors that the library hands on: their calls are gone when the report is made */
static char calls_key;

int ts_report_keep(lua_State *L) {
  TsText out = {0};
  if (!lua_isstring(L, 1)) return 1;
  lua_settop(L, 1);
  lua_pushlightuserdata(L, &calls_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (lua_istable(L, 2)) lua_rawgeti(L, 2, 1);
  bool again = lua_gettop(L) > 2 && lua_rawequal(L, 1, 3);
  lua_settop(L, 1);
  if (again) return 1; /* handed on once more */
  put_traceback(L, &out);
  lua_pushlightuserdata(L, &calls_key);
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, 1);
  push_text(L, &out, NULL);
  lua_rawseti(L, -2, 2);
  lua_rawset(L, LUA_REGISTRYINDEX);
  lua_settop(L, 1);
  return 1;
}

/* The calls of the error in slot 1. */
static void put_calls(lua_State *L, TsText *out) {
  lua_pushlightuserdata(L, &calls_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  int kept = lua_gettop(L);
  if (lua_istable(L, kept)) {
    lua_rawgeti(L, kept, 1);
    lua_rawgeti(L, kept, 2);
    if (lua_rawequal(L, 1, kept + 1)) ts_text_str(out, lua_tostring(L, kept + 2));
    bool same = lua_rawequal(L, 1, kept + 1);
    lua_settop(L, kept - 1);
    lua_pushlightuserdata(L, &calls_key);
    lua_pushnil(L);
    lua_rawset(L, LUA_REGISTRYINDEX);
    if (same) return;
  }
  put_traceback(L, out);
}

/* ---- together */
typedef struct Place {
  char source[LINE_ROOM]; /* as in lua_Debug: "@file", "=name" or text; "" if unknown */
  int line;
  size_t prefix; /* length of "file:line: " in the message */
} Place;

/* A position that the message begins with and no call that is left has. */
static Place place_in_text(lua_State *L, const char *message) {
  Place place = {.line = 0};
  size_t n = strcspn(message, "\n");
  for (const char *p = message; (p = memchr(p, ':', n - (size_t)(p - message))); p++) {
    char *end, line[LINE_ROOM];
    long number = strtol(p + 1, &end, 10);
    if (end == p + 1 || number <= 0 || strncmp(end, ": ", 2)) continue;
    size_t size = (size_t)(p - message);
    if (size + 2 > sizeof place.source) break;
    memcpy(place.source + 1, message, size);
    for (const char *kind = "@="; *kind && !place.prefix; kind++) {
      place.source[0] = *kind;
      if (source_line(L, place.source, (int)number, line))
        place.line = (int)number, place.prefix = (size_t)(end + 2 - message);
    }
    break;
  }
  if (!place.prefix) place.source[0] = 0;
  return place;
}

/* The frame whose position the message begins with. */
static Place find_place(lua_State *L, const char *message) {
  Place place = {.line = 0};
  lua_Debug ar;
  char prefix[LUA_IDSIZE + 24];
  for (int level = 1; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0) continue;
    int n = snprintf(prefix, sizeof prefix, "%s:%d: ", ar.short_src, ar.currentline);
    if (strncmp(message, prefix, (size_t)n)) continue;
    place.line = ar.currentline;
    place.prefix = (size_t)n;
    if (strlen(ar.source) < sizeof place.source) strcpy(place.source, ar.source);
    return place;
  }
  return place_in_text(L, message);
}

/* What is called and is not there: modules of the program's own have methods that nobody knows, so
 * that a name that one of them lacks is only found here. */
static void put_method_hint(TsText *out, const char *message) {
  static const char mark[] = "attempt to call method '";
  char name[40];
  const char *at = strstr(message, mark),
             *end = at ? strchr(at += sizeof mark - 1, '\'') : NULL;
  size_t n = end ? (size_t)(end - at) : sizeof name;
  if (n >= sizeof name) return;
  memcpy(name, at, n);
  name[n] = 0;
  const char *hint = ts_lua_elsewhere("module", name);
  if (strstr(end, "(a number value)") || strstr(end, "(a string value)"))
    ts_text_format(out, "\n  hint: it is a value, not a function: x.%s", name);
  else if (hint)
    ts_text_format(out, "\n  hint: %s", hint);
}

/* Hints on errors of Lua's own: a tensor beside a number with < has no metamethod; nor is it a table
 * of rows; a module's name is no global in scripts. */
static void put_lua_hint(TsText *out, const char *message) {
  static const char mark[] = "attempt to index global '";
  const char *name = strstr(message, mark), *known;
  if (strstr(message, "attempt to compare userdata with number") ||
      strstr(message, "attempt to compare number with userdata"))
    ts_text_str(out, "\n  hint: tensors are compared by x:lt(y), x:le(y), x:gt(y), x:ge(y)");
  if (strstr(message, "'ipairs' (table expected, got userdata)") ||
      strstr(message, "'pairs' (table expected, got userdata)"))
    ts_text_str(out, "\n  hint: rows of a tensor are x[0] to x[#x - 1], or {x:unbind()}");
  if (strstr(message, "attempt to compare number with table") ||
      strstr(message, "attempt to compare table with number"))
    ts_text_str(out,
                "\n  hint: tiles of a kernel are compared by x:lt(y), x:gt(y), and chosen by "
                "t:where or t:when; Lua compares two numbers");
  put_method_hint(out, message);
  if (!name) return;
  name += sizeof mark - 1;
  for (int i = 0; (known = ts_globals_name(i)); i++) {
    size_t n = strlen(known);
    if (strncmp(name, known, n) || strcmp(name + n, "' (a nil value)")) continue;
    if (!strcmp(known, "tessera"))
      ts_text_str(out, "\n  hint: scripts write: local tessera = require \"tessera\"");
    else
      ts_text_format(out,
                     "\n  hint: scripts write: local %s = require(\"tessera\").%s; with -l "
                     "tessera it is a global",
                     known, known);
    return;
  }
}

/* "name: what is wrong", or what tells where Lua's stack ends. */
static bool is_named(const char *text, const char *name) {
  size_t n = strlen(name);
  return (!strncmp(text, name, n) && text[n] == ':') || !strcmp(text, OVERFLOW);
}

/* A line of the library is none of the program's: the message gets that of the call that led there,
 * and the name of what was called. Pushes it; the old one stays on the stack. */
static const char *at_users_line(lua_State *L, const char *message, Place *place) {
  lua_Debug ar;
  const char *called = NULL;
  for (int level = 1; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sln", &ar);
    if (ar.currentline <= 0 || !ts_report_is_users(&ar)) {
      called = ar.name && strncmp(ar.name, "__", 2) ? ar.name : NULL; /* no user wrote __index */
      continue;
    }
    const char *text = message + place->prefix;
    if (called && !is_named(text, called)) text = lua_pushfstring(L, "%s: %s", called, text);
    place->source[0] = 0;
    if (strlen(ar.source) < sizeof place->source) strcpy(place->source, ar.source);
    place->line = ar.currentline;
    message = lua_pushfstring(L, "%s:%d: %s", ar.short_src, ar.currentline, text);
    place->prefix = strlen(message) - strlen(text);
    return message;
  }
  return message;
}

static void put_report(lua_State *L, TsText *out, const char *message, const Place *place) {
  static const char hint_mark[] = "\n  hint: ";
  char line[LINE_ROOM];
  const char *hint = strstr(message, hint_mark);
  size_t n = hint ? (size_t)(hint - message) : strlen(message);
  int columns = ts_report_columns();
  TsText head = {0}, tail = {0};
  ts_text_format(&head, "%s%.*s", place->prefix ? "" : "tessera: ", (int)n, message);
  ts_report_words(out, head.at ? head.at : "", head.len, columns);
  if (place->source[0] && source_line(L, place->source, place->line, line))
    ts_report_source(out, line, (size_t)(find_mark(line, message + place->prefix) - line),
                     columns);
  if (hint)
    ts_text_str(&tail, hint);
  else
    put_lua_hint(&tail, message);
  ts_report_words(out, tail.at ? tail.at : "", tail.len, columns);
  out->failed |= head.failed || tail.failed;
  ts_text_free(&head);
  ts_text_free(&tail);
}

int ts_report_handler(lua_State *L) {
  TsText out = {0};
  ts_report_note_chain(L);
  if (!lua_isstring(L, 1)) {
    if (luaL_callmeta(L, 1, "__tostring") && lua_isstring(L, -1)) {
      lua_replace(L, 1);
      lua_settop(L, 1);
    } else {
      lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
      lua_replace(L, 1);
      lua_settop(L, 1);
    }
  }
  const char *message = lua_tostring(L, 1);
  Place place = find_place(L, message);
  if (!strncmp(place.source, "=tessera", 8) || !strcmp(message, OVERFLOW))
    message = at_users_line(L, message, &place);
  ts_report_note_parts(L, message, place.prefix);
  put_report(L, &out, message, &place);
  put_calls(L, &out);
  push_text(L, &out, message);
  return 1;
}

/* "file:12: message" of the compiler: the name is the chunk's. */
void ts_report_load(lua_State *L, const char *chunkname) {
  TsText out = {0};
  const char *message = lua_tostring(L, -1), *colon = message;
  Place place = {.line = 0};
  while ((colon = strchr(colon, ':'))) {
    char *end;
    long line = strtol(colon + 1, &end, 10);
    if (end > colon + 1 && !strncmp(end, ": ", 2)) {
      place.line = (int)line;
      place.prefix = (size_t)(end + 2 - message);
      break;
    }
    colon++;
  }
  if (place.prefix && strlen(chunkname) < sizeof place.source) strcpy(place.source, chunkname);
  put_report(L, &out, message, &place);
  push_text(L, &out, message);
  lua_remove(L, -2);
}
