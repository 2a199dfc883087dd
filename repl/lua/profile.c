/* tessera.core.spans: what a function of Lua spends its time with (vm/core/profile.h). */
#include "repl/lua_api.h"
#include "vm/core/profile.h"
#include "lib/clock.h"

enum { MOST_SPANS = 1 << 15 };

static void set_number(lua_State *L, const char *key, double v) {
  lua_pushnumber(L, v);
  lua_setfield(L, -2, key);
}

static void push_span(lua_State *L, const TsSpan *s, int64_t origin) {
  lua_createtable(L, 0, 10);
  set_number(L, "start", (double)(s->start - origin) / 1e3);
  set_number(L, "usec", (double)(s->end - s->start) / 1e3);
  set_number(L, "thread", s->thread);
  set_number(L, "depth", s->depth);
  if (s->phase >= 0) set_number(L, "phase", s->phase);
  if (s->phase < 0) set_number(L, "bytes", (double)s->nbytes);
  if (s->phase < 0) set_number(L, "flops", s->flops);
  if (s->stage) set_number(L, "count", (double)s->count);
  if (s->stage) lua_pushstring(L, s->stage), lua_setfield(L, -2, "stage");
  if (s->what) lua_pushstring(L, s->what), lua_setfield(L, -2, "what");
  if (s->place) lua_pushstring(L, s->place), lua_setfield(L, -2, "place");
}

/* spans(f, marks): runs f() and gives the list of its spans, in the order of their ends, the
 * time of the whole in microseconds, and how many spans found no room. An error of f is
 * raised. marks: kernels of op.kernel run with profile marks. */
static int spans(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  bool marks = lua_toboolean(L, 2);
  lua_settop(L, 1);
  if (c->spans) return luaL_error(L, "spans: a profile is being made already");
  TsSpan *span = lua_newuserdata(L, sizeof *span * MOST_SPANS);
  TsSpans s = {.span = span, .room = MOST_SPANS, .marks = marks};
  lua_pushvalue(L, 1);
  int64_t origin = ts_clock_nsec();
  c->spans = &s;
  int failed = lua_pcall(L, 0, 0, 0);
  c->spans = NULL;
  int64_t end = ts_clock_nsec();
  if (failed) return lua_error(L);
  int n = atomic_load(&s.n), kept = n < MOST_SPANS ? n : MOST_SPANS;
  lua_createtable(L, kept, 0);
  for (int i = 0; i < kept; i++) {
    push_span(L, &span[i], origin);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushnumber(L, (double)(end - origin) / 1e3);
  lua_pushinteger(L, n - kept);
  return 3;
}

void ts_lua_open_profile(lua_State *L) {
  lua_pushcfunction(L, spans);
  lua_setfield(L, -2, "spans");
}
