/* See repl/globals.h. */
#include "repl/globals.h"

#include <stdio.h>
#include <string.h>

#include <lauxlib.h>

#include "lib/text.h"
#include "repl/run.h"

static const char *const modules[] = {"op",   "graph",    "dist",    "nn",       "optim",
                                      "rng",  "numerics", "profile", "autotune", "checkpoint",
                                      "data", "hf",       "image"};
enum { MODULES = sizeof modules / sizeof *modules };

/* Functions and values of the prompt: Out, _1 to _9, who. */
static bool is_kept(const char *name) {
  bool last = *name == '_' && name[1] >= '1' && name[1] <= '9' && !name[2];
  return last || !strcmp(name, "Out") || !strcmp(name, "who");
}

static void push_kept(lua_State *L, const char *name) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.prompt.values");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, *name == '_' ? "last" : name);
  lua_remove(L, -2);
  if (*name != '_') return;
  lua_rawgeti(L, -1, name[1] - '0');
  lua_remove(L, -2);
}

void ts_globals_push(lua_State *L, const char *name) {
  char full[64];
  bool ours = is_kept(name) || !strcmp(name, "tessera") || !strcmp(name, "help");
  for (int i = 0; i < MODULES && !ours; i++) ours = !strcmp(modules[i], name);
  if (!ours) {
    lua_pushnil(L);
    return;
  }
  if (is_kept(name)) return push_kept(L, name);
  bool help = !strcmp(name, "help");
  lua_getglobal(L, "require");
  lua_pushstring(L, help ? "tessera.prompt" : "tessera");
  lua_call(L, 1, 1);
  if (!strcmp(name, "tessera")) return;
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
  snprintf(full, sizeof full, "tessera.%s", name);
  if (!lua_isnil(L, -1) || !ts_run_embeds(full)) return;
  lua_pop(L, 1);
  lua_getglobal(L, "require");
  lua_pushstring(L, full);
  lua_call(L, 1, 1);
}

/* op and rng are C's; some parts stand in a folder (lib/lua/init.lua). */
static bool is_there(const char *name) {
  static const char *const forms[] = {"tessera.%s", "tessera.dist.%s", "tessera.%s.mesh"};
  if (!strcmp(name, "op") || !strcmp(name, "rng")) return true;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    TsText full = {0};
    ts_text_format(&full, forms[i], name);
    bool there = full.at && ts_run_embeds(full.at);
    ts_text_free(&full);
    if (there) return true;
  }
  return false;
}

const char *ts_globals_name(int i) {
  for (int k = 0; k < MODULES; k++)
    if (is_there(modules[k]) && i-- == 0) return modules[k];
  return i == 0 ? "tessera" : i == 1 ? "help" : NULL;
}

static int load_global(lua_State *L) {
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  ts_globals_push(L, lua_tostring(L, 2));
  if (lua_isnil(L, -1) || is_kept(lua_tostring(L, 2))) return 1;
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, 1);
  return 1;
}

void ts_globals_add(lua_State *L) {
  lua_pushvalue(L, LUA_GLOBALSINDEX);
  if (!lua_getmetatable(L, -1)) lua_newtable(L);
  lua_pushcfunction(L, load_global);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}
