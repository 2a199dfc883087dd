/* Chunks whose tail calls keep their frame (repl/tail_code.c): whose calls do, and what loads
 * them. */
#include "repl/tail.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

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

void ts_tail_change(lua_State *L) {
  TsTailBytes dump = {0}, out = {0};
  int f = lua_gettop(L);
  lua_Debug ar;
  if (!known || lua_iscfunction(L, f)) return;
  luaL_checkstack(L, 6, "a chunk");
  lua_pushvalue(L, f);
  lua_getinfo(L, ">S", &ar);
  if (!strncmp(ar.source, "=tessera", 8)) return; /* the library's own lines are never told */
  give_table(L, f);                               /* of a dump that was changed before */
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
  free(dump.at), free(out.at);
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

/* Lua's own functions, but those that call others for the program. */
static void keep_library(lua_State *L) {
  static const char *const calls_back[] = {"pcall", "xpcall", "dofile", "require"};
  static const char *const libraries[] = {"_G", "math", "string", "table", "io", "os", "bit"};
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

/* ---- Lua's loaders, with the change: the function in upvalue 1 under its name, upvalue 2. */
static int load_changed(lua_State *L) {
  int n = lua_gettop(L);
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
  if (lua_isfunction(L, 1)) {
    lua_settop(L, 1);
    ts_tail_change(L);
  }
  return lua_gettop(L);
}

static int do_file(lua_State *L) {
  const char *path = luaL_optstring(L, 1, NULL);
  lua_settop(L, 0);
  if (luaL_loadfile(L, path)) return lua_error(L);
  ts_tail_change(L);
  lua_call(L, 0, LUA_MULTRET);
  return lua_gettop(L);
}

static void wrap(lua_State *L, const char *name) {
  lua_pushvalue(L, -1);
  lua_pushstring(L, name);
  lua_pushcclosure(L, load_changed, 2);
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
    wrap(L, loaders[i]);
    lua_setglobal(L, loaders[i]);
  }
  lua_pushcfunction(L, do_file);
  lua_setglobal(L, "dofile");
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaders");
  for (int i = 1; i <= (int)lua_objlen(L, -1); i++) { /* Lua's own, for files */
    lua_rawgeti(L, -1, i);
    wrap(L, "require");
    lua_rawseti(L, -2, i);
  }
  lua_settop(L, top);
  keep_library(L);
}
