/* Chunks whose tail calls keep their frame (repl/tail_code.c): whose calls do, and what loads
 * them. */
#include "repl/tail.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"
#include "repl/lua_api.h"
#include "repl/script.h"
#include "repl/tail_code.h"

/* ---- chunks */
static bool known; /* LuaJIT's instructions are */
static char kept_key;

void ts_tail_push_kept(lua_State *L) {
  lua_pushlightuserdata(L, &kept_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (lua_istable(L, -1)) return;
  lua_pop(L, 1);
  lua_pushlightuserdata(L, &kept_key);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_insert(L, -3);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

static int write_bytes(lua_State *L, const void *from, size_t n, void *to) {
  (void)L;
  ts_tail_put(to, from, n);
  return ((TsTailBytes *)to)->failed;
}

/* The upvalue is the last of the chunk's. */
static void give_table(lua_State *L, int f) {
  int n = 0;
  const char *last = NULL, *name;
  for (; (name = lua_getupvalue(L, f, n + 1)); n++) {
    last = name;
    lua_pop(L, 1);
  }
  if (!last || strcmp(last, "(tail)")) return;
  ts_tail_push_kept(L);
  lua_setupvalue(L, f, n);
}

static void tell_unknown(lua_State *L) {
  static bool told;
  if (!told)
    told =
        ts_jit_tell(ts_lua_context(L)->jit, "refused", "tail calls", "",
                    "the instructions of this LuaJIT are not known; errors behind them do not "
                    "name the line of the call");
}

/* The library's own lines are never told, but errors name its functions of op, which are in these
 * modules (lib/lua/named_functions.lua, ts_report_function). */
static bool is_told_of(const char *source) {
  static const char *const told[] = {"functions", "tensors", "matrices", "places", "losses"};
  if (strncmp(source, "=tessera", 8)) return true;
  for (size_t i = 0; source[8] == '.' && i < sizeof told / sizeof *told; i++)
    if (!strcmp(source + 9, told[i])) return true;
  return false;
}

void ts_tail_change(lua_State *L) {
  uint8_t few[1024], more[1536];
  TsTailBytes dump = TS_TAIL_BYTES(few), out = TS_TAIL_BYTES(more);
  int f = lua_gettop(L);
  lua_Debug ar;
  if (!known) tell_unknown(L);
  if (!known || lua_iscfunction(L, f)) return;
  luaL_checkstack(L, 6, "a chunk");
  lua_pushvalue(L, f);
  lua_getinfo(L, ">S", &ar);
  if (!is_told_of(ar.source)) return;
  give_table(L, f); /* of a dump that was changed before */
  bool done = !lua_getupvalue(L, f, 1) && !lua_dump(L, write_bytes, &dump) &&
              ts_tail_rewrite(&dump, &out);
  lua_settop(L, f);
  if (done && !luaL_loadbuffer(L, (const char *)out.at, out.n, "=?")) {
    give_table(L, f + 1);
    lua_getfenv(L, f);
    lua_setfenv(L, f + 1);
    lua_replace(L, f);
  }
  lua_settop(L, f);
  ts_tail_free(&dump), ts_tail_free(&out);
}

/* ---- texts without tail calls, which are most, stay as they are loaded */
static bool goes_on(unsigned char c) { return isalnum(c) || c == '_' || c >= 0x80; }

static const char *skip_space(const char *at, const char *end) {
  while (at < end && isspace((unsigned char)*at)) at++;
  return at;
}

/* Whether what stands behind a `return` may be a call, and nothing behind it. */
static bool is_call(const char *at, const char *end) {
  static const char *const others[] = {"nil", "true", "false", "not", "function"};
  for (bool first = true;; first = false) {
    const char *name = at = skip_space(at, end);
    while (at < end && goes_on((unsigned char)*at)) at++;
    size_t n = (size_t)(at - name);
    for (size_t i = 0; first && i < sizeof others / sizeof *others; i++)
      if (n == strlen(others[i]) && !memcmp(name, others[i], n)) return false;
    at = skip_space(at, end);
    if (at == end) return false;
    if (n && *at == '.' && end - at > 1 && at[1] != '.') { /* a field of what it names */
      at++;
      continue;
    }
    if (*at == '-')
      return end - at > 1 && at[1] == '-'; /* behind a comment anything may come */
    return *at == '(' || (n && strchr(":[{\"'", *at));
  }
}

static bool may_have_tail_calls(const char *text, size_t n) {
  static const char word[] = "return";
  if (n && *text == LUA_SIGNATURE[0]) return true; /* a dump */
  for (const char *end = text + n, *at = text;
       (at = memmem(at, (size_t)(end - at), word, sizeof word - 1));) {
    at += sizeof word - 1;
    if (is_call(at, end)) return true;
  }
  return false;
}

/* ---- who is kept */
static void keep(lua_State *L, int kept, int value) {
  lua_pushvalue(L, value);
  lua_pushboolean(L, 1);
  lua_rawset(L, kept);
}

static bool is_callable(lua_State *L, int value) {
  if (lua_isfunction(L, value)) return true;
  if (lua_type(L, value) != LUA_TTABLE || !luaL_getmetafield(L, value, "__call")) return false;
  lua_pop(L, 1);
  return true;
}

void ts_tail_keep(lua_State *L, int value, bool all) {
  luaL_checkstack(L, 8, "tail calls");
  if (value < 0) value += lua_gettop(L) + 1;
  ts_tail_push_kept(L);
  int kept = lua_gettop(L);
  if (is_callable(L, value)) keep(L, kept, value);
  if (all) {
    for (lua_pushnil(L); lua_next(L, value); lua_pop(L, 1))
      if (is_callable(L, kept + 2)) keep(L, kept, kept + 2);
  }
  lua_settop(L, kept - 1);
}

/* Lua's own functions, but those whose callee is a chunk, with lines of its own. pcall and coroutines
 * call back, but a loop through them takes stack as it is, and an operator that they call has no
 * line but theirs. */
static void keep_library(lua_State *L) {
  static const char *const calls_back[] = {"dofile", "require"};
  static const char *const libraries[] = {"_G", "math", "string", "table",
                                          "io", "os",   "bit",    "coroutine"};
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaded");
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    lua_getfield(L, -1, libraries[i]);
    if (lua_istable(L, -1)) ts_tail_keep(L, -1, true);
    lua_pop(L, 1);
  }
  ts_tail_push_kept(L);
  for (size_t i = 0; i < sizeof calls_back / sizeof *calls_back; i++) {
    lua_getglobal(L, calls_back[i]);
    lua_pushnil(L);
    lua_rawset(L, -3);
  }
  lua_pop(L, 3);
}

/* ---- coroutine.wrap of who is kept gives what is kept, and known. Others add no line to errors in
 * tail position, as Lua has it: those of a function have their own. */
enum { WRAPPED = 2 }; /* a number in the table of those that are kept; others have true */

static int wrap_coroutine(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_settop(L, 1);
  ts_tail_push_kept(L);
  lua_pushvalue(L, 1);
  lua_rawget(L, 2);
  bool kept = lua_toboolean(L, 3);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_call(L, 1, 1);
  if (!kept) return 1;
  lua_pushvalue(L, 4);
  lua_pushinteger(L, WRAPPED);
  lua_rawset(L, 2);
  return 1;
}

bool ts_tail_is_wrapped(lua_State *L, int value) {
  lua_pushvalue(L, value);
  ts_tail_push_kept(L);
  lua_insert(L, -2);
  lua_rawget(L, -2);
  bool wrapped = lua_tointeger(L, -1) == WRAPPED;
  lua_pop(L, 2);
  return wrapped;
}

static void keep_coroutines(lua_State *L) {
  lua_getglobal(L, "coroutine");
  lua_getfield(L, -1, "wrap");
  lua_pushcclosure(L, wrap_coroutine, 1);
  lua_setfield(L, -2, "wrap");
  lua_pop(L, 1);
}

/* ---- Lua's loaders, with the change: the function in upvalue 1 under its name, upvalue 2. 3: its
 * argument may be the text itself. */
static int load_changed(lua_State *L) {
  int n = lua_gettop(L);
  size_t size;
  bool same = lua_toboolean(L, lua_upvalueindex(3)) && lua_type(L, 1) == LUA_TSTRING;
  if (same) {
    const char *chunk = lua_tolstring(L, 1, &size);
    same = !may_have_tail_calls(chunk, size);
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  if (lua_pcall(L, n, LUA_MULTRET, 0)) {
    const char *text = lua_tostring(L, -1), *name = lua_tostring(L, lua_upvalueindex(2));
    if (!text || !strstr(text, "to '?'")) return lua_error(L);
    luaL_where(L, 1);
    luaL_gsub(L, text, "to '?'", lua_pushfstring(L, "to '%s'", name));
    lua_remove(L, -2);
    lua_concat(L, 2);
    return lua_error(L);
  }
  if (lua_isfunction(L, 1) && !same) {
    lua_settop(L, 1);
    ts_tail_change(L);
  }
  return lua_gettop(L);
}

static int do_file(lua_State *L) {
  const char *path = luaL_optstring(L, 1, NULL);
  lua_settop(L, 0);
  int status = ts_script_load(L, path);
  if (status == LUA_ERRFILE) luaL_where(L, 1), lua_insert(L, -2), lua_concat(L, 2);
  if (status) return lua_error(L);
  ts_tail_change(L);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L);
}

/* loadfile(path [, mode [, environment]]); upvalue 1 is Lua's. */
static int load_file(lua_State *L) {
  const char *path = luaL_optstring(L, 1, NULL);
  bool environment = !lua_isnone(L, 3);
  if (!path || !lua_isnoneornil(L, 2)) { /* standard input, and modes, are Lua's */
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  if (ts_script_load(L, path)) return lua_pushnil(L), lua_insert(L, -2), 2;
  if (environment) lua_pushvalue(L, 3), lua_setfenv(L, -2);
  return 1;
}

static void wrap(lua_State *L, const char *name, bool text) {
  lua_pushvalue(L, -1);
  lua_pushstring(L, name);
  lua_pushboolean(L, text);
  lua_pushcclosure(L, load_changed, 3);
  lua_replace(L, -2);
}

void ts_tail_open(lua_State *L) {
  static const char *const loaders[] = {"load", "loadstring", "loadfile"};
  int top = lua_gettop(L);
  known = ts_tail_learn(L);
  lua_settop(L, top);
  lua_getfield(L, LUA_REGISTRYINDEX,
               "_LOADED"); /* many texts, for the collector to walk over */
  lua_pushnil(L);
  lua_setfield(L, -2, "jit.vmdef");
  lua_settop(L, top);
  for (size_t i = 0; i < sizeof loaders / sizeof *loaders; i++) {
    lua_getglobal(L, loaders[i]);
    if (i == 2) lua_pushcclosure(L, load_file, 1);
    wrap(L, loaders[i], i < 2);
    lua_setglobal(L, loaders[i]);
  }
  lua_pushcfunction(L, do_file);
  lua_setglobal(L, "dofile");
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaders");
  for (int i = 1; i <= (int)lua_objlen(L, -1); i++) { /* Lua's own, for files */
    lua_rawgeti(L, -1, i);
    wrap(L, "require", false);
    lua_rawseti(L, -2, i);
  }
  lua_settop(L, top);
  keep_coroutines(L);
  keep_library(L);
}
