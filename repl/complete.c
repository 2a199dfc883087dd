/* Tab at the prompt. Variables are looked up without running any of the user's
 * code: plain paths through tables, and through metatables whose __index is a
 * table. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ir/sched/sched.h"
#include "repl/globals.h"
#include "repl/help.h"
#include "repl/lex.h"
#include "repl/lua_api.h"
#include "repl/prompt.h"
#include "repl/run.h"

enum { NAME_ROOM = 80, MOST_WITH_HELP = 24, DEEPEST = 8 };

typedef struct Candidate {
  char text[NAME_ROOM];
  const char *help;
} Candidate;

/* What is being completed, and what has been found. */
typedef struct Search {
  lua_State *L;
  const char *prefix; /* not terminated */
  size_t size;        /* of the prefix */
  Candidate *list;
  size_t count, room;
} Search;

static void add(Search *s, const char *name, const char *after, const char *help) {
  bool hidden = *name == '_' && !(s->size && *s->prefix == '_');
  size_t n = strlen(name);
  if (hidden || n < s->size || n + strlen(after) >= NAME_ROOM) return;
  if (memcmp(name, s->prefix, s->size)) return;
  if (s->count == s->room) {
    size_t room = s->room ? 2 * s->room : 64;
    Candidate *list = realloc(s->list, room * sizeof *list);
    if (!list) return;
    s->list = list, s->room = room;
  }
  Candidate *c = &s->list[s->count++];
  snprintf(c->text, sizeof c->text, "%s%s", name, after);
  c->help = help;
}

static int compare(const void *a, const void *b) {
  return strcmp(((const Candidate *)a)->text, ((const Candidate *)b)->text);
}

static void offer_all(Search *s, size_t start, TsCompletions *out) {
  if (s->count) qsort(s->list, s->count, sizeof *s->list, compare);
  ts_edit_offer_from(out, start);
  for (size_t i = 0; i < s->count; i++)
    ts_edit_offer(out, s->list[i].text, s->count <= MOST_WITH_HELP ? s->list[i].help : NULL);
  free(s->list);
}

static bool is_name(const char *s) {
  if (!isalpha((unsigned char)*s) && *s != '_') return false;
  while (isalnum((unsigned char)*s) || *s == '_') s++;
  return !*s;
}

/* ---- fields of values */
static const char *operator_help(const char *name) {
  TsOp op = ts_op_find(name);
  return op == TS_OP_COUNT ? NULL : ts_op_info(op)->help;
}

/* Replaces the value on the top by the table that its metatable's __index names, or, of a class of
 * modules, by the class that it extends. */
static bool to_index_table(lua_State *L) {
  lua_pushliteral(L, "parent");
  lua_rawget(L, -2);
  if (lua_istable(L, -1)) return lua_replace(L, -2), true;
  lua_pop(L, 1);
  bool found = lua_getmetatable(L, -1);
  if (found) {
    lua_pushliteral(L, "__index");
    lua_rawget(L, -2);
    lua_replace(L, -3);
    lua_pop(L, 1);
  }
  return found && lua_istable(L, -1);
}

static void add_fields(Search *s, bool functions, bool help) {
  lua_State *L = s->L;
  lua_pushvalue(L, -1);
  for (int depth = 0; lua_istable(L, -1) && depth < DEEPEST; depth++) {
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
      if (lua_type(L, -2) != LUA_TSTRING || (functions && !lua_isfunction(L, -1))) continue;
      const char *name = lua_tostring(L, -2);
      if (is_name(name)) add(s, name, "", help ? operator_help(name) : NULL);
    }
    if (!to_index_table(L)) break;
  }
  lua_pop(L, 1);
}

/* package.loaded[module][field]; pushes it, or nil. Loads nothing. */
static void push_loaded(lua_State *L, const char *module, const char *field) {
  lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
  lua_getfield(L, -1, module);
  if (lua_istable(L, -1))
    lua_getfield(L, -1, field);
  else
    lua_pushnil(L);
  lua_replace(L, -3);
  lua_pop(L, 1);
}

static void add_tensor_fields(Search *s, bool methods) {
  static const char *const properties[] = {"shape", "strides", "dtype",  "ndim",
                                           "numel", "nbytes",  "device", "requires_grad"};
  if (methods) {
    push_loaded(s->L, "tessera.core", "methods");
    add_fields(s, true, true);
    lua_pop(s->L, 1);
    return;
  }
  for (size_t i = 0; i < sizeof properties / sizeof *properties; i++)
    add(s, properties[i], "", NULL);
}

static void add_value_fields(Search *s, char separator) {
  lua_State *L = s->L;
  if (ts_lua_tensor(L, -1)) {
    add_tensor_fields(s, separator == ':');
  } else if (lua_type(L, -1) == LUA_TSTRING && separator == ':') {
    lua_getglobal(L, "string");
    add_fields(s, true, false);
    lua_pop(L, 1);
  } else if (lua_istable(L, -1)) {
    push_loaded(L, "tessera.core", "op");
    bool operators = lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    add_fields(s, separator == ':', operators);
  }
}

/* ---- paths */
/* Replaces the table on the top by its field, or by nil. */
static void step_into(lua_State *L, const char *name, size_t size) {
  for (int depth = 0; lua_istable(L, -1) && depth < DEEPEST; depth++) {
    lua_pushlstring(L, name, size);
    lua_rawget(L, -2);
    if (!lua_isnil(L, -1)) {
      lua_replace(L, -2);
      return;
    }
    lua_pop(L, 1);
    if (!to_index_table(L)) break;
  }
  lua_pop(L, 1);
  lua_pushnil(L);
}

static int push_module(lua_State *L) {
  ts_globals_push(L, lua_tostring(L, 1));
  return 1;
}

static void push_variable(lua_State *L, const char *name, size_t size) {
  lua_pushlstring(L, name, size);
  lua_rawget(L, LUA_GLOBALSINDEX);
  if (!lua_isnil(L, -1)) return;
  lua_pop(L, 1);
  lua_pushcfunction(L, push_module);
  lua_pushlstring(L, name, size);
  if (!lua_pcall(L, 1, 1, 0)) return;
  lua_pop(L, 1);
  lua_pushnil(L);
}

static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static size_t name_start(const char *text, size_t end) {
  while (end > 0 && in_name(text[end - 1])) end--;
  return end;
}

/* Start of the path a.b.d that ends at `end`; it may begin behind a bracket. */
static size_t path_start(const char *text, size_t end) {
  for (;;) {
    size_t start = name_start(text, end);
    if (start == end || start == 0 || text[start - 1] != '.') return start;
    if (start > 1 && text[start - 2] == '.') return start;
    end = start - 1;
  }
}

static void push_path(lua_State *L, const char *text, size_t start, size_t end) {
  size_t at = start;
  while (at < end && in_name(text[at])) at++;
  push_variable(L, text + start, at - start);
  while (at < end) {
    size_t from = ++at;
    while (at < end && in_name(text[at])) at++;
    step_into(L, text + from, at - from);
  }
}

static void add_globals(Search *s) {
  const char *name;
  lua_pushvalue(s->L, LUA_GLOBALSINDEX);
  for (lua_pushnil(s->L); lua_next(s->L, -2); lua_pop(s->L, 1))
    if (lua_type(s->L, -2) == LUA_TSTRING && is_name(lua_tostring(s->L, -2)))
      add(s, lua_tostring(s->L, -2), "", NULL);
  lua_pop(s->L, 1);
  for (int i = 0; (name = ts_globals_name(i)); i++) {
    lua_pushstring(s->L, name);
    lua_rawget(s->L, LUA_GLOBALSINDEX);
    if (lua_isnil(s->L, -1)) add(s, name, "", NULL);
    lua_pop(s->L, 1);
  }
  for (int i = 0; (name = ts_lex_keyword(i)); i++) add(s, name, "", NULL);
}

static void add_variables(Search *s, const char *text, size_t start) {
  char separator = start > 0 ? text[start - 1] : ' ';
  bool path = separator == ':' || (separator == '.' && !(start > 1 && text[start - 2] == '.'));
  if (!path) {
    if (s->size) add_globals(s);
    return;
  }
  size_t end = start - 1, from = path_start(text, end);
  if (from == end) {
    bool value = end > 0 && (text[end - 1] == ')' || text[end - 1] == ']');
    if (value) add_tensor_fields(s, separator == ':');
    return;
  }
  push_path(s->L, text, from, end);
  add_value_fields(s, separator);
  lua_pop(s->L, 1);
}

/* ---- what surrounds the cursor */
typedef struct Around {
  TsToken string;   /* the open string the cursor is in; size 0: none */
  TsToken open[32]; /* brackets open here */
  int nopen;
  TsToken before[3]; /* tokens before the string, the last one first */
} Around;

static Around look_around(const char *text, size_t cursor) {
  Around a = {.nopen = 0};
  for (size_t at = 0; at < cursor;) {
    TsToken t = ts_lex_next(text, cursor, at);
    at += t.size;
    if (t.kind == TS_LEX_SPACE || t.kind == TS_LEX_COMMENT) continue;
    if (t.kind == TS_LEX_STRING && t.open) {
      a.string = t;
      break;
    }
    char c = t.kind == TS_LEX_SYMBOL && t.size == 1 ? text[t.start] : 0;
    if ((c == '(' || c == '{' || c == '[') && a.nopen < 32) a.open[a.nopen++] = t;
    if ((c == ')' || c == '}' || c == ']') && a.nopen > 0) a.nopen--;
    a.before[2] = a.before[1], a.before[1] = a.before[0], a.before[0] = t;
  }
  return a;
}

/* The path of the function whose call f(..., {... or f{... the cursor is in, behind a . or :; its
 * last name. false: there is none. */
typedef struct Called {
  size_t path, name, end;
} Called;

static bool is_called(const char *text, const Around *a, Called *c) {
  if (a->nopen == 0 || text[a->open[a->nopen - 1].start] != '{') return false;
  for (int i = a->nopen - 1; i >= 0 && i >= a->nopen - 2; i--) {
    size_t end = a->open[i].start;
    while (end > 0 && text[end - 1] == ' ') end--;
    size_t start = name_start(text, end);
    if (start == end) continue;
    size_t path = path_start(text, end);
    if (path > 1 && text[path - 1] == ':') path = path_start(text, path - 1); /* m:f{ */
    *c = (Called){path, start, end};
    return start > 0 && (text[start - 1] == '.' || text[start - 1] == ':');
  }
  return false;
}

static bool is_last_argument(const char *text, const Around *a) {
  size_t end = a->nopen ? a->open[a->nopen - 1].start : 0;
  while (end > 0 && text[end - 1] == ' ') end--;
  return end > 0 && text[end - 1] == ',';
}

static TsOp called_operator(const char *text, const Around *a) {
  char name[40];
  Called c;
  if (!is_called(text, a, &c) || c.end - c.name >= sizeof name) return TS_OP_COUNT;
  memcpy(name, text + c.name, c.end - c.name);
  name[c.end - c.name] = 0;
  return ts_op_find(name);
}

/* The options of a function of the library, kinds by name, and whether it has some. */
static bool push_kinds(lua_State *L, const char *text, const Around *a) {
  Called c;
  if (!is_called(text, a, &c)) return false;
  push_path(L, text, c.path, c.end); /* its module is loaded */
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.comments");
  if (lua_pcall(L, 1, 1, 0)) return false;
  lua_getfield(L, -1, "kinds");
  lua_pushlstring(L, text + c.path, c.end - c.path);
  return !lua_pcall(L, 1, 1, 0) && lua_istable(L, -1);
}

static void add_kinds(Search *s) {
  lua_State *L = s->L;
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING || !lua_istable(L, -1)) continue;
    lua_getfield(L, -1, "text"); /* which stays as long as the kind */
    add(s, lua_tostring(L, -3), " = ", lua_tostring(L, -1));
    lua_pop(L, 1);
  }
}

/* Words that an option of the kinds on the top may have. */
static void add_kind_words(Search *s, const char *name, size_t size, const char *quote) {
  lua_State *L = s->L;
  lua_pushlstring(L, name, size);
  lua_rawget(L, -2);
  if (lua_istable(L, -1)) lua_getfield(L, -1, "words");
  for (int i = 1; lua_istable(L, -1) && i <= (int)lua_objlen(L, -1); i++) {
    lua_rawgeti(L, -1, i);
    if (lua_type(L, -1) == LUA_TSTRING) add(s, lua_tostring(L, -1), quote, NULL);
    lua_pop(L, 1);
  }
}

static void add_options(Search *s, TsOp op) {
  static const char *const type[] = {
      "", "integer", "number", "true or false", "integers", "numbers", "string", NULL, "dtype"};
  static char words[TS_MAX_ATTR][NAME_ROOM];
  const TsOpInfo *o = ts_op_info(op);
  for (int i = 0; i < o->nattr; i++) {
    const TsAttrSpec *a = &o->attr[i];
    char name[40];
    snprintf(name, sizeof name, "%.*s", a->namelen, a->name);
    snprintf(words[i], NAME_ROOM, "%.*s", a->wordslen, a->words);
    add(s, name, " = ", type[a->type] ? type[a->type] : words[i]);
  }
  const TsMoreOption *m;
  for (int i = 0; (m = ts_help_more(o, i)); i++)
    if (ts_help_more_is_new(o, m)) add(s, m->name, " = ", m->text);
  for (int i = 0; i < TS_CHOICE_FIELDS; i++)
    if (ts_choice_has(i, false, ts_choice_of_op(op)) ||
        ts_choice_has(i, true, ts_choice_of_op(op)))
      add(s, ts_choice_name(i), " = ", "integer");
}

/* Values of an option that are words: dtypes and choices. */
static void add_words(Search *s, const TsAttrSpec *a, const char *quote) {
  char word[64];
  if (a->type == TS_ATTR_dtype)
    for (int d = 0; d < TS_DT_COUNT; d++) add(s, ts_dtypes[d].name, quote, ts_dtypes[d].help);
  for (int i = 0; a->type == TS_ATTR_choice && ts_attr_word(a, i, word); i++)
    add(s, word, quote, NULL);
}

/* "floor|trunc" */
static void add_listed(Search *s, const char *words, const char *quote) {
  for (size_t n; words && *words; words += n + (words[n] == '|')) {
    char word[32];
    n = strcspn(words, "|");
    snprintf(word, sizeof word, "%.*s", (int)n, words);
    add(s, word, quote, NULL);
  }
}

static void add_option_values(Search *s, const char *text, const Around *a) {
  TsOp op = called_operator(text, a);
  const char *name = text + a->before[1].start;
  size_t size = a->before[1].size;
  char quote[2] = {text[a->string.start], 0};
  if (quote[0] != '\'' && quote[0] != '"') quote[0] = 0; /* [[ */
  if (!ts_lex_is(text, &a->before[0], "=")) return;
  if (op == TS_OP_COUNT) {
    if (push_kinds(s->L, text, a)) add_kind_words(s, name, size, quote);
    return;
  }
  const TsOpInfo *o = ts_op_info(op);
  for (int i = 0; i < o->nattr; i++)
    if ((size_t)o->attr[i].namelen == size && !memcmp(o->attr[i].name, name, size))
      add_words(s, &o->attr[i], quote);
  const TsMoreOption *m = ts_help_more_named(o, name, (int)size);
  if (m) add_listed(s, m->words, quote);
}

/* ---- files */
static void add_files(Search *s, const char *path, size_t size) {
  char folder[1024], full[1400];
  const char *home = getenv("HOME");
  size_t cut = size;
  while (cut > 0 && path[cut - 1] != '/') cut--;
  if (cut >= sizeof folder) return;
  if (cut > 1 && path[0] == '~' && path[1] == '/' && home)
    snprintf(folder, sizeof folder, "%s%.*s", home, (int)cut - 1, path + 1);
  else
    snprintf(folder, sizeof folder, "%.*s", (int)cut, cut ? path : "");
  s->prefix = path + cut, s->size = size - cut;
  DIR *d = opendir(*folder ? folder : ".");
  for (struct dirent *e; d && (e = readdir(d));) {
    struct stat st;
    bool hidden = e->d_name[0] == '.' && !(s->size && *s->prefix == '.');
    if (hidden || !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    snprintf(full, sizeof full, "%s%s", folder, e->d_name);
    add(s, e->d_name, !stat(full, &st) && S_ISDIR(st.st_mode) ? "/" : "", NULL);
  }
  if (d) closedir(d);
}

static bool takes_file(const char *text, const Around *a) {
  static const char *const names[] = {"dofile", "loadfile", "load", "save", "open", "lines"};
  const TsToken *t = ts_lex_is(text, &a->before[0], "(") ? &a->before[1] : &a->before[0];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (t->kind == TS_LEX_NAME && ts_lex_is(text, t, names[i])) return true;
  return false;
}

/* ---- commands and topics */
static void add_topics(Search *s) {
  const char *name;
  for (int i = 0; i < TS_OP_COUNT; i++)
    add(s, ts_op_info((TsOp)i)->name, "", ts_op_info((TsOp)i)->help);
  for (int i = 0; (name = ts_globals_name(i)); i++) add(s, name, "", NULL);
  add(s, "dtypes", "", "names and ranges of element types");
}

static void add_commands(Search *s) {
  lua_getglobal(s->L, "require");
  lua_pushliteral(s->L, "tessera.prompt");
  if (!lua_pcall(s->L, 1, 1, 0)) {
    lua_getfield(s->L, -1, "commands");
    for (lua_pushnil(s->L); lua_istable(s->L, -2) && lua_next(s->L, -2); lua_pop(s->L, 1))
      if (lua_type(s->L, -2) == LUA_TSTRING)
        add(s, lua_tostring(s->L, -2), "", lua_tostring(s->L, -1));
    lua_pop(s->L, 1);
  }
  lua_pop(s->L, 1);
}

/* A line of the form ":command argument" or "? topic"; gives where the word starts. */
static size_t complete_command(Search *s, const char *text, size_t first, size_t cursor) {
  size_t n = first + 1;
  while (n < cursor && in_name(text[n])) n++;
  if (text[first] == ':' && n == cursor) {
    s->prefix = text + first + 1, s->size = cursor - first - 1;
    add_commands(s);
    return first + 1;
  }
  bool load = text[first] == ':' && n - first == 5 && !memcmp(text + first, ":load", 5);
  bool help = text[first] == '?' || (n - first == 5 && !memcmp(text + first, ":help", 5));
  size_t start = load ? cursor : name_start(text, cursor);
  while (load && start > n && text[start - 1] != ' ') start--;
  s->prefix = text + start, s->size = cursor - start;
  if (load) {
    add_files(s, text + start, cursor - start);
    return cursor - s->size;
  }
  if (help && (start == 0 || text[start - 1] != '.'))
    add_topics(s);
  else
    add_variables(s, text, start);
  return start;
}

void ts_complete(void *arg, const char *text, size_t cursor, TsCompletions *out) {
  Search s = {.L = arg};
  size_t first = strspn(text, " \t\n"), start;
  int top = lua_gettop(s.L);
  if (!lua_checkstack(s.L, 40)) return;
  if (first < cursor &&
      (text[first] == '?' || (text[first] == ':' && text[first + 1] != ':'))) {
    start = complete_command(&s, text, first, cursor);
  } else {
    Around a = look_around(text, cursor);
    start = a.string.size ? a.string.start + 1 : name_start(text, cursor);
    s.prefix = text + start, s.size = cursor - start;
    if (a.string.size && takes_file(text, &a)) {
      add_files(&s, text + start, cursor - start);
      start = cursor - s.size;
    } else if (a.string.size) {
      add_option_values(&s, text, &a);
    } else {
      TsOp op = called_operator(text, &a);
      bool key = ts_lex_is(text, &a.before[0], "{") || ts_lex_is(text, &a.before[0], ",") ||
                 a.before[0].kind == TS_LEX_NAME;
      bool path = start > 0 && (text[start - 1] == '.' || text[start - 1] == ':');
      if (key && !path && op != TS_OP_COUNT) add_options(&s, op);
      if (key && !path && op == TS_OP_COUNT && push_kinds(s.L, text, &a)) add_kinds(&s);
      lua_settop(s.L, top);
      /* Behind other arguments, f(x, {..}, stand names of options alone. */
      bool alone = s.count && s.size && is_last_argument(text, &a);
      if (!alone) add_variables(&s, text, start);
    }
  }
  lua_settop(s.L, top);
  offer_all(&s, start, out);
}
