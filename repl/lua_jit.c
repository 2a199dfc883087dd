/* tessera.core for the tiers: what lib/lua/jit.lua stands on. */
#include <string.h>

#include "jit/jit.h"
#include "jit/trace.h"
#include "repl/lua_api.h"

static TsJit *jit_of(lua_State *L) { return ts_lua_context(L)->jit; }

/* jit(on): whether kernels run; returns what it was, and why there are none if so. */
static int jit(lua_State *L) {
  TsJit *j = jit_of(L);
  bool before = ts_jit_enabled(j);
  if (!lua_isnoneornil(L, 1)) ts_jit_enable(j, lua_toboolean(L, 1));
  lua_pushboolean(L, before);
  lua_pushstring(L, ts_jit_absent(j));
  return 2;
}

static int jit_verbose(lua_State *L) {
  ts_jit_verbose(jit_of(L), lua_isnoneornil(L, 1) || lua_toboolean(L, 1));
  return 0;
}

static int jit_eager(lua_State *L) {
  ts_jit_eager(jit_of(L), lua_toboolean(L, 1));
  return 0;
}

/* jit_traces([eager]): statistics of hot traces; eager: everything that repeats is one. */
static int jit_traces(lua_State *L) {
  TsTracer *t = ts_jit_tracer(jit_of(L));
  if (!lua_isnoneornil(L, 1)) ts_tracer_eager(t, lua_toboolean(L, 1));
  TsTracerStats s = ts_tracer_stats(t);
  const struct {
    const char *name;
    double v;
  } row[] = {{"traces", s.traces},           {"deferred", (double)s.deferred},
             {"runs", (double)s.runs},       {"exits", (double)s.exits},
             {"observed", (double)s.observed}, {"replayed", (double)s.replayed}};
  lua_newtable(L);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    lua_pushnumber(L, row[i].v);
    lua_setfield(L, -2, row[i].name);
  }
  return 1;
}

static int jit_wait(lua_State *L) {
  ts_jit_wait(jit_of(L));
  return 0;
}

static int jit_flush(lua_State *L) {
  ts_jit_flush(jit_of(L));
  return 0;
}

static int jit_stats(lua_State *L) {
  TsJitStats s = ts_jit_stats(jit_of(L));
  const struct {
    const char *name;
    double v;
  } row[] = {{"functions", s.functions},       {"promoted", s.promoted},
             {"jobs", s.jobs},                 {"kernels", (double)s.kernels},
             {"from_disk", (double)s.cached},  {"refused", (double)s.failed},
             {"compile_ms", s.compile_msec},   {"install_ms_max", s.install_msec_max}};
  lua_newtable(L);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    lua_pushnumber(L, row[i].v);
    lua_setfield(L, -2, row[i].name);
  }
  return 1;
}

void ts_lua_open_jit(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"jit", jit},           {"jit_verbose", jit_verbose}, {"jit_eager", jit_eager},
      {"jit_wait", jit_wait}, {"jit_flush", jit_flush},     {"jit_stats", jit_stats},
      {"jit_traces", jit_traces}, {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
