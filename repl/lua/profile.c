/* tessera.core.spans: what a function of Lua spends its time with (vm/core/profile.h). */
#include "repl/lua_api.h"
#include "vm/core/profile.h"
#include "vm/mesh/times.h"
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
 * time of the whole in microseconds, how many spans between the first and the last ones found
 * no room, and what devices sent each other (repl/lua/times.c). An error of f is raised. marks: kernels of op.kernel run with profile marks. */
static int spans(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  bool marks = lua_toboolean(L, 2);
  lua_settop(L, 1);
  if (c->spans) return luaL_error(L, "spans: a profile is being made already");
  TsSpan *span = lua_newuserdata(L, sizeof *span * MOST_SPANS);
  TsSpans s = {.span = span, .room = MOST_SPANS, .marks = marks};
  TsTimes *times = ts_times_start(c);
  if (!times) return ts_lua_fail(L, TS_ERR_memory, "out of memory for a profile");
  lua_pushvalue(L, 1);
  int64_t origin = ts_clock_nsec();
  c->spans = &s;
  int failed = lua_pcall(L, 0, 0, 0);
  c->spans = NULL;
  int64_t end = ts_clock_nsec();
  ts_times_stop(c, times);
  if (failed) return ts_times_free(times), lua_error(L);
  ts_lua_push_times(L, times);
  ts_times_free(times);
  int64_t n = atomic_load(&s.n), half = MOST_SPANS / 2,
          lost = n > MOST_SPANS ? n - MOST_SPANS : 0;
  lua_createtable(L, (int)(n - lost), 0);
  for (int64_t i = 0, k = 0; i < n; i++) {
    if (lost && i == half) i += lost;
    push_span(L, &span[i < half ? i : half + (i - half) % (MOST_SPANS - half)], origin);
    lua_rawseti(L, -2, (int)++k);
  }
  lua_pushnumber(L, (double)(end - origin) / 1e3);
  lua_pushnumber(L, (double)lost);
  lua_pushvalue(L, -4);
  return 4;
}

/* ---- all of a program (lib/activity.h) */
static void push_activity(lua_State *L, const TsActivity *a) {
  luaL_checkstack(L, 8, "a profile");
  lua_createtable(L, 0, 8);
  lua_pushstring(L, ts_activity_name(a->kind));
  lua_setfield(L, -2, "kind");
  lua_pushstring(L, a->what);
  lua_setfield(L, -2, "what");
  if (a->place) lua_pushstring(L, a->place), lua_setfield(L, -2, "place");
  set_number(L, "usec", (double)a->nsec / 1e3);
  set_number(L, "count", (double)a->count);
  set_number(L, "bytes", (double)a->nbytes);
  set_number(L, "flops", a->flops);
  int n = 0;
  for (const TsActivity *b = a->child; b; b = b->next) {
    push_activity(L, b);
    lua_rawseti(L, -2, ++n);
  }
}

/* {kind, what, place, start, usec} of those that were kept. */
static void push_event(lua_State *L, const TsActivityEvent *e) {
  lua_createtable(L, 0, 5);
  lua_pushstring(L, ts_activity_name(e->of->kind));
  lua_setfield(L, -2, "kind");
  lua_pushstring(L, e->of->what);
  lua_setfield(L, -2, "what");
  if (e->of->place) lua_pushstring(L, e->of->place), lua_setfield(L, -2, "place");
  set_number(L, "start", (double)e->start / 1e3);
  set_number(L, "usec", (double)e->nsec / 1e3);
}

static void push_events(lua_State *L, const TsActivities *t) {
  int64_t n = t->nevent, first = n < TS_ACTIVITY_FIRST ? n : TS_ACTIVITY_FIRST;
  int64_t last = n - first < TS_ACTIVITY_LAST ? n - first : TS_ACTIVITY_LAST, k = 0;
  lua_createtable(L, (int)(first + last), 0);
  for (int64_t i = 0; i < first; i++) {
    push_event(L, &t->first[i]);
    lua_rawseti(L, -2, (int)++k);
  }
  for (int64_t i = n - first - last; i < n - first; i++) {
    push_event(L, &t->last[i % TS_ACTIVITY_LAST]);
    lua_rawseti(L, -2, (int)++k);
  }
}

static TsTimes *program_times;

/* activity_start(): what the program does is recorded from now on. */
static int activity_start(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  if (!ts_activity_start())
    return ts_lua_fail(L, ts_activities ? TS_ERR_value : TS_ERR_memory,
                       ts_activities ? "a profile of the program is being made already"
                                     : "out of memory for a profile of the program");
  if ((program_times = ts_times_start(c))) return 0;
  ts_activity_free(ts_activity_stop());
  return ts_lua_fail(L, TS_ERR_memory, "out of memory for a profile of the program");
}

/* activity_stop() -> the tree, the events that were kept, and {events, lost, compiled, kernels}: how
 * many events there were, activities without room, microseconds and kernels that other threads
 * compiled; and what devices sent each other. nil where nothing is recorded. */
static int activity_stop(lua_State *L) {
  TsActivities *t = ts_activity_stop();
  if (!t) return 0;
  push_activity(L, &t->program);
  push_events(L, t);
  lua_createtable(L, 0, 4);
  set_number(L, "events", (double)t->nevent);
  set_number(L, "lost", (double)t->lost);
  set_number(L, "compiled", (double)t->compiled / 1e3);
  set_number(L, "kernels", (double)t->ncompiled);
  ts_activity_free(t);
  if (!program_times) return 3;
  ts_times_stop(ts_lua_context(L), program_times);
  ts_lua_push_times(L, program_times);
  ts_times_free(program_times);
  program_times = NULL;
  return 4;
}

void ts_lua_open_profile(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"activity_start", activity_start}, {"activity_stop", activity_stop}, {NULL, NULL}};
  luaL_register(L, NULL, functions);
  lua_pushcfunction(L, spans);
  lua_setfield(L, -2, "spans");
}
