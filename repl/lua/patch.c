/* Edited kernels of captured functions in Lua: what lib/lua/debug/edit.lua stands on. */
#include <string.h>

#include "jit/code/patches.h"
#include "jit/patch/patch.h"
#include "lib/text.h"
#include "repl/lua/text.h"
#include "repl/lua/graph.h"

static const char *const TYPE = "tessera.patch";

static TsPatch *check(lua_State *L) {
  TsPatch **p = luaL_checkudata(L, 1, TYPE);
  if (!*p) luaL_error(L, "the edit is closed");
  return *p;
}

/* g:kernel_text(level, [kernel], usual, [target]) */
static int kernel_text(lua_State *L) {
  TsText t = {0};
  TsJitFunction *f = ts_lua_graph_hot(L, 1);
  const char *level = ts_lua_word(L, 2), *kernel = ts_lua_word_or(L, 3, NULL);
  const TsTarget *target = ts_lua_target(L, 5);
  if (ts_patch_text(f, level, kernel, lua_toboolean(L, 4), target, &t)) {
    ts_text_free(&t);
    return ts_lua_raise(L);
  }
  ts_lua_push_text(L, &t);
  return 1;
}

/* g:patch(level, [kernel], text) -> patch; nil, message, hint where the text is not good. */
static int patch(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsJitFunction *f = ts_lua_graph_hot(L, 1);
  const char *level = ts_lua_word(L, 2), *kernel = ts_lua_word_or(L, 3, NULL);
  size_t len;
  const char *text = luaL_checklstring(L, 4, &len);
  TsPatch **p = lua_newuserdata(L, sizeof *p);
  *p = NULL;
  luaL_getmetatable(L, TYPE);
  lua_setmetatable(L, -2);
  if (!ts_lua_text_whole(text, len, &c->err))
    *p = ts_patch_open(f, level, kernel, text, &c->err);
  if (*p) return 1;
  lua_pushnil(L);
  lua_pushstring(L, c->err.message);
  lua_pushstring(L, c->err.hint);
  ts_error_clear(&c->err);
  return 3;
}

/* p:look(f) -> came, error: calls f, in whose run the kernel is looked at. */
static int look(lua_State *L) {
  TsPatch *p = check(L);
  const TsCatch *own = ts_catch;
  ts_catch = ts_patch_catch(p);
  lua_pushvalue(L, 2);
  int bad = lua_pcall(L, 0, 0, 0);
  ts_catch = own;
  lua_pushboolean(L, ts_patch_seen(p)->came);
  if (!bad) return 1;
  lua_pushvalue(L, -2);
  return 2;
}

static void field(lua_State *L, const char *name, const char *text) {
  lua_pushstring(L, text);
  lua_setfield(L, -2, name);
}

static void number(lua_State *L, const char *name, double v) {
  lua_pushnumber(L, v);
  lua_setfield(L, -2, name);
}

/* p:seen() -> a table */
static int seen(lua_State *L) {
  const TsPatchSeen *s = ts_patch_seen(check(L));
  lua_newtable(L);
  field(L, "kernel", s->name);
  field(L, "number", s->number);
  field(L, "what", s->what);
  field(L, "target", s->target);
  field(L, "level", s->schedule ? "schedule" : "tile");
  field(L, "first", s->first);
  field(L, "remarks", s->remarks);
  number(L, "alike", s->alike);
  number(L, "was_usec", s->was_usec);
  number(L, "usec", s->usec);
  number(L, "elements", (double)s->elements);
  number(L, "differing", (double)s->differing);
  lua_pushboolean(L, s->unchanged);
  lua_setfield(L, -2, "unchanged");
  if (s->failed.code) {
    field(L, "failed", s->failed.message);
    field(L, "hint", s->failed.hint);
  }
  return 1;
}

/* p:keep(on_disk); message, hint where that is not so. */
static int keep(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  if (!ts_patch_keep(check(L), lua_toboolean(L, 2), &c->err)) return 0;
  lua_pushstring(L, c->err.message);
  lua_pushstring(L, c->err.hint);
  ts_error_clear(&c->err);
  return 2;
}

static int collect(lua_State *L) {
  TsPatch **p = luaL_checkudata(L, 1, TYPE);
  ts_patch_free(*p);
  *p = NULL;
  return 0;
}

/* g:unpatch([kernel]) -> whether there was something; its level, whether it was on disk */
static int unpatch(lua_State *L) {
  TsJitFunction *f = ts_lua_graph_hot(L, 1);
  TsPatchEntry was;
  int dropped = ts_patch_without(f, ts_lua_word_or(L, 2, NULL), &was);
  if (dropped < 0) return ts_lua_raise(L);
  lua_pushboolean(L, dropped);
  if (!dropped) return 1;
  lua_pushstring(L, was.schedule ? "schedule" : "tile");
  lua_pushboolean(L, was.on_disk);
  return 3;
}

/* g:renew(): its kernels are made again */
static int renew(lua_State *L) {
  return ts_patch_renew(ts_lua_graph_hot(L, 1)) ? ts_lua_raise(L) : 0;
}

static int forget(lua_State *L) {
  (void)L;
  ts_patches_forget();
  return 0;
}

void ts_lua_open_patch(lua_State *L) {
  static const luaL_Reg methods[] = {
      {"look", look}, {"seen", seen}, {"keep", keep}, {"__gc", collect}, {NULL, NULL}};
  static const luaL_Reg functions[] = {{"patches_forget", forget}, {NULL, NULL}};
  ts_lua_metatable(L, TYPE, methods);
  luaL_register(L, NULL, functions);
}

const luaL_Reg ts_lua_patch_methods[] = {{"kernel_text", kernel_text},
                                         {"patch", patch},
                                         {"unpatch", unpatch},
                                         {"renew", renew},
                                         {NULL, NULL}};
