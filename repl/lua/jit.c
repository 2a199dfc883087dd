/* tessera.core for the tiers: what lib/lua/jit.lua stands on. */
#include <stdio.h>
#include <string.h>

#include "devices/device.h"
#include "ir/lower/lower.h"
#include "jit/jit.h"
#include "jit/level.h"
#include "jit/code/texts.h"
#include "jit/compile/llvm.h"
#include "jit/device/kernel.h"
#include "jit/eager/offload.h"
#include "jit/device/marks.h"
#include "jit/launch/profile.h"
#include "jit/launch/replay.h"
#include "jit/persistent/persistent.h"
#include "jit/trace/trace.h"
#include "jit/tune/tune.h"
#include "jit/tune/device.h"
#include "repl/lua_api.h"
#include "repl/lua/fast.h"
#include "lib/clock.h"

static TsJit *jit_of(lua_State *L) { return ts_lua_context(L)->jit; }

/* What is neither true nor false is a mistake, such as "off", which Lua takes for true. */
static bool check_on(lua_State *L, const char *function) {
  if (!lua_isboolean(L, 1))
    ts_lua_fail(L, TS_ERR_argument, "%s takes true or false, not %s", function,
                luaL_typename(L, 1));
  return lua_toboolean(L, 1);
}

/* jit(on): whether kernels run; returns what it was, and why there are none if so. */
static int jit(lua_State *L) {
  TsJit *j = jit_of(L);
  bool before = ts_jit_enabled(j);
  if (!lua_isnoneornil(L, 1)) ts_jit_enable(j, check_on(L, "jit"));
  lua_pushboolean(L, before);
  lua_pushstring(L, ts_jit_absent(j));
  return 2;
}

/* jit_overlap(on): kernels of a function side by side on a device */
static int jit_overlap(lua_State *L) {
  ts_replay_overlap(check_on(L, "jit.overlap"));
  return 0;
}

/* jit_ahead([on]): whether launches of a record begin before the one in front ends; what it was */
static int jit_ahead(lua_State *L) {
  int on = lua_isnoneornil(L, 1) ? -1 : check_on(L, "jit.ahead");
  lua_pushboolean(L, ts_replay_ahead(on));
  return 1;
}

/* jit_persistent([on [, blocks]]): whether functions on a device launch all kernels as one
 * persistent kernel; blocks: of a simulated one, for tests. Returns what it was, and how many such
 * launches there were. */
static int jit_persistent(lua_State *L) {
  TsPersistentWanted *w = ts_persistent_wanted();
  bool before = w->on;
  if (!lua_isnoneornil(L, 1)) w->on = check_on(L, "jit.persistent");
  if (!lua_isnoneornil(L, 2)) w->blocks = (int64_t)luaL_checknumber(L, 2);
  lua_pushboolean(L, before);
  lua_pushnumber(L, (double)ts_persistent_count());
  return 2;
}

/* jit_pages([on]): whether attention over pages reads them in place on GPUs; what it was. What was
 * lowered before is forgotten. */
static int jit_pages(lua_State *L) {
  int on = lua_isnoneornil(L, 1) ? -1 : check_on(L, "jit.pages");
  bool was = ts_lower_pages_in_place(on);
  if (on >= 0 && was != on) ts_jit_flush(jit_of(L));
  lua_pushboolean(L, was);
  return 1;
}

/* jit_shuffle(on): functions on a device that is simulated launch in another order; for
 * tests */
static int jit_shuffle(lua_State *L) {
  ts_replay_shuffle(check_on(L, "jit_shuffle"));
  return 0;
}

/* jit_shows(): from now on texts of kernels are made behind their compilation, as at a prompt */
static int jit_shows(lua_State *L) {
  ts_jit_shows(jit_of(L));
  return 0;
}

/* jit_texts([drop]): bytes of the texts that are kept; drop: of none from now on */
static int jit_texts(lua_State *L) {
  double bytes = (double)ts_texts_bytes();
  if (lua_toboolean(L, 1)) ts_texts_drop();
  lua_pushnumber(L, bytes);
  return 1;
}

static int jit_verbose(lua_State *L) {
  ts_jit_verbose(jit_of(L), lua_isnoneornil(L, 1) || check_on(L, "jit.v"));
  return 0;
}

/* jit_tell(what, name, place, text): a line of the log; whether anybody listens */
static int jit_tell(lua_State *L) {
  lua_pushboolean(L, ts_jit_tell(jit_of(L), luaL_checkstring(L, 1), luaL_checkstring(L, 2),
                                 luaL_checkstring(L, 3), luaL_checkstring(L, 4)));
  return 1;
}

/* jit_now(): milliseconds of a clock that never goes back */
static int jit_now(lua_State *L) {
  lua_pushnumber(L, (double)ts_clock_nsec() / 1e6);
  return 1;
}

static int jit_eager(lua_State *L) {
  lua_pushboolean(L, ts_jit_eager(jit_of(L), check_on(L, "jit.eager")));
  return 1;
}

/* jit_interpret(form or nil): kernels run by the interpreter of Tile IR, "block",
 * "explicit". */
static int jit_interpret(lua_State *L) {
  const char *form = ts_lua_word_or(L, 1, NULL);
  if (ts_jit_interpret(jit_of(L), form)) return luaL_error(L, "there is no form '%s'", form);
  return 0;
}

/* jit_traces([eager]): statistics of hot loops; eager: everything that repeats is one. */
static int jit_traces(lua_State *L) {
  TsTracer *t = ts_jit_tracer(jit_of(L));
  if (!lua_isnoneornil(L, 1)) {
    bool eager = check_on(L, "jit.traces");
    ts_tracer_eager(t, eager);
    ts_lua_fast_eager(eager);
  }
  TsTracerStats s = ts_tracer_stats(t);
  const struct {
    const char *name;
    double v;
  } row[] = {{"traces", s.traces},
             {"deferred", (double)s.deferred},
             {"quick", (double)s.quick},
             {"runs", (double)s.runs},
             {"exits", (double)s.exits},
             {"observed", (double)s.observed},
             {"replayed", (double)s.replayed}};
  lua_newtable(L);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    lua_pushnumber(L, row[i].v);
    lua_setfield(L, -2, row[i].name);
  }
  return 1;
}

enum { MOST_LOOPS = 256 };

/* jit_loops() -> {{id, where, calls, runs, live}, ..} of hot loops */
static int jit_loops(lua_State *L) {
  TsTracerLoop loop[MOST_LOOPS];
  int n = ts_tracer_loops(ts_jit_tracer(jit_of(L)), loop, MOST_LOOPS);
  lua_newtable(L);
  for (int i = 0; i < n && i < MOST_LOOPS; i++) {
    lua_newtable(L);
    lua_pushnumber(L, loop[i].id), lua_setfield(L, -2, "id");
    lua_pushstring(L, loop[i].where), lua_setfield(L, -2, "where");
    lua_pushnumber(L, loop[i].calls), lua_setfield(L, -2, "calls");
    lua_pushnumber(L, loop[i].runs), lua_setfield(L, -2, "runs");
    lua_pushboolean(L, ts_jit_live(loop[i].hot)), lua_setfield(L, -2, "live");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

const TsTarget *ts_lua_target(lua_State *L, int at) {
  if (lua_isnoneornil(L, at)) return NULL;
  const TsTarget *t = ts_level_target(ts_lua_word(L, at), &ts_lua_context(L)->err);
  if (!t) ts_lua_raise(L);
  return t;
}

/* "function", "loop", "kernel", "call", "part" */
static TsLevelOf level_of(lua_State *L, int at) {
  static const char *const of[] = {"function", "loop", "kernel", "call", "part", NULL};
  return (TsLevelOf)(1 << luaL_checkoption(L, at, NULL, of));
}

/* jit_levels(of) -> {{name, help, targets}, ..}, in the order in which they are made */
static int jit_levels(lua_State *L) {
  const TsLevel *row;
  TsLevelOf of = level_of(L, 1);
  lua_newtable(L);
  for (int i = 0, n = 0; (row = ts_level_at(i)); i++) {
    if (!(row->of & of)) continue;
    lua_createtable(L, 0, 3);
    lua_pushstring(L, row->name), lua_setfield(L, -2, "name");
    lua_pushstring(L, row->help), lua_setfield(L, -2, "help");
    lua_pushboolean(L, row->targets), lua_setfield(L, -2, "targets");
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* jit_targets() -> the names of the targets */
static int jit_targets(lua_State *L) {
  lua_newtable(L);
  for (int i = 0; ts_target_at(i); i++)
    lua_pushstring(L, ts_target_at(i)->name), lua_rawseti(L, -2, i + 1);
  return 1;
}

/* jit_level(of, level, [target]): an error where there is no such level, or target */
static int jit_level(lua_State *L) {
  const TsTarget *target = ts_lua_target(L, 3);
  TsError *err = &ts_lua_context(L)->err;
  return ts_level_check(level_of(L, 1), ts_lua_word(L, 2), target, err) ? ts_lua_raise(L) : 0;
}

/* The loop whose id stands at 1; false: there is no such loop any more. */
static bool find_loop(lua_State *L, TsTracerLoop *out) {
  TsTracerLoop loop[MOST_LOOPS];
  int n = ts_tracer_loops(ts_jit_tracer(jit_of(L)), loop, MOST_LOOPS), i = 0;
  while (i < n && i < MOST_LOOPS && loop[i].id != luaL_checknumber(L, 1)) i++;
  if (i == n || i == MOST_LOOPS) return false;
  *out = loop[i];
  return true;
}

/* jit_loop_facts(id, level, [target]): as JSON; nil if there is no such loop any more */
static int jit_loop_facts(lua_State *L) {
  TsTracerLoop loop;
  const char *level = ts_lua_word(L, 2);
  const TsTarget *target = ts_lua_target(L, 3);
  TsText t = {0};
  if (!find_loop(L, &loop)) return 0;
  if (ts_jit_facts(loop.hot, level, target, &t)) {
    ts_text_free(&t);
    return ts_lua_raise(L);
  }
  ts_lua_push_text(L, &t);
  return 1;
}

/* jit_loop_text(id, level, [target]): nil if there is no such loop any more */
static int jit_loop_text(lua_State *L) {
  TsTracerLoop loop, *l = &loop;
  const char *level = ts_lua_word(L, 2);
  const TsTarget *target = ts_lua_target(L, 3);
  TsText t = {0};
  if (!find_loop(L, l)) return 0;
  if (!strcmp(level, "graph")) {
    ts_graph_text_places(l->g, &t);
  } else if (ts_jit_text(l->hot, level, target, &t)) {
    ts_text_free(&t);
    return ts_lua_raise(L);
  } else if (!strcmp(level, "bytecode") && !target && !ts_jit_live(l->hot)) {
    ts_code_text(l->code, &t);
    ts_text_str(&t, "// tier 0\n");
  }
  ts_lua_push_text(L, &t);
  return 1;
}

/* jit_show([level]): calls on devices keep the text of the kernels that they launch;
 * without, they no longer do, and it is given: nil if they did not */
static int jit_show(lua_State *L) {
  TsOffloader *o = ts_jit_offloader(jit_of(L));
  if (lua_isnoneornil(L, 1)) {
    ts_offload_shows(o, NULL);
    ts_lua_push_text(L, ts_offload_shown(o));
    return 1;
  }
  ts_offload_shows(o, ts_lua_word(L, 1));
  return 0;
}

/* jit_watch(on): whether the names of kernels that devices run are kept; without, a list of them */
static int jit_watch(lua_State *L) {
  enum { MOST = 512 };
  static uint8_t key[MOST][32];
  if (!lua_isnoneornil(L, 1)) return ts_device_kernel_watch(check_on(L, "jit.watch")), 0;
  int n = ts_device_kernel_watched(key, MOST);
  lua_newtable(L);
  for (int i = 0; i < n; i++) {
    char text[17];
    for (int b = 0; b < 8; b++) snprintf(text + 2 * b, 3, "%02x", key[i][b]);
    lua_pushstring(L, text), lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* jit_device([on]): statistics of eager calls on devices; on: whether they run there. */
static int jit_device(lua_State *L) {
  TsOffloader *o = ts_jit_offloader(jit_of(L));
  if (!lua_isnoneornil(L, 1)) ts_offload_enable(o, check_on(L, "jit.device"));
  TsOffloadStats s = ts_offload_stats(o);
  TsReplayStats r = ts_replay_stats();
  const struct {
    const char *name;
    double v;
  } row[] = {{"calls", (double)s.calls},         {"fallback", (double)s.fallback},
             {"kernels", (double)s.kernels},     {"from_disk", (double)s.cached},
             {"refused", (double)s.refused},     {"compile_ms", s.compile_msec},
             {"meanwhile", (double)s.meanwhile}, {"replays", (double)r.runs},
             {"replayed", (double)r.launches},   {"early", (double)r.early}};
  lua_newtable(L);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    lua_pushnumber(L, row[i].v);
    lua_setfield(L, -2, row[i].name);
  }
  return 1;
}

/* jit_later(on): small calls on devices run on the CPU while their kernels are compiled. */
static int jit_later(lua_State *L) {
  ts_offload_later(ts_jit_offloader(jit_of(L)), check_on(L, "jit.later"));
  return 0;
}

/* jit_prepare(on): calls on devices ask for their kernels and do nothing else. */
static int jit_prepare(lua_State *L) {
  ts_offload_prepare(ts_jit_offloader(jit_of(L)), check_on(L, "jit.prepare"));
  return 0;
}

/* jit_profile(on): kernels of devices are measured from now on; off: what was measured, the
 * dearest first. */
static int jit_profile(lua_State *L) {
  int n = 0;
  if (lua_toboolean(L, 1)) return ts_profile_start(), 0;
  ts_profile_stop();
  const TsProfileRow *r = ts_profile_rows(&n);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_createtable(L, 0, 5);
    lua_pushstring(L, r[i].name), lua_setfield(L, -2, "name");
    lua_pushnumber(L, (double)r[i].count), lua_setfield(L, -2, "count");
    lua_pushnumber(L, r[i].usec), lua_setfield(L, -2, "us");
    lua_pushnumber(L, r[i].bytes), lua_setfield(L, -2, "bytes");
    lua_pushnumber(L, r[i].flops), lua_setfield(L, -2, "flops");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static void set_field(lua_State *L, const char *name, double x) {
  lua_pushnumber(L, x);
  lua_setfield(L, -2, name);
}

static void push_stages(lua_State *L, const TsMarkedLaunch *m) {
  lua_createtable(L, m->nstage, 0);
  for (int i = 0; i < m->nstage; i++) {
    const TsMarkedStage *s = &m->stage[i];
    lua_createtable(L, 0, 3);
    lua_pushstring(L, s->stage), lua_setfield(L, -2, "stage");
    lua_pushstring(L, s->what), lua_setfield(L, -2, "what");
    lua_pushstring(L, s->place), lua_setfield(L, -2, "place");
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "stages");
}

/* jit_marks("stages" or "warps"): launches of kernels on devices are measured, and record marks from
 * now on, or only when their warps begin and end; jit_marks(nil): what they recorded, in their order. records:
 * of jit/gpu/marks.h. */
static int jit_marks(lua_State *L) {
  int n = 0;
  const char *of = ts_lua_word_or(L, 1, NULL);
  if (of)
    return ts_marks_collect(!strcmp(of, "warps") ? TS_MARKS_warps : TS_MARKS_stages),
           ts_profile_start(), 0;
  ts_profile_stop();
  const TsMarkedLaunch *m = ts_marks_launches(&n);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++, m++) {
    lua_createtable(L, 0, 16);
    lua_pushstring(L, m->label), lua_setfield(L, -2, "name");
    lua_pushstring(L, m->kernel), lua_setfield(L, -2, "kernel");
    set_field(L, "bytes", m->bytes), set_field(L, "flops", m->flops);
    set_field(L, "far", m->far), set_field(L, "most_far", m->most_far);
    set_field(L, "grid", m->grid), set_field(L, "threads", m->threads);
    set_field(L, "warps", m->warps), set_field(L, "every", m->every);
    set_field(L, "registers", m->facts.registers);
    set_field(L, "spilled", (double)m->facts.spilled);
    set_field(L, "shared", (double)m->facts.shared);
    set_field(L, "blocks", m->facts.blocks);
    set_field(L, "threads_most", m->facts.threads_most);
    lua_pushstring(L, m->device->name), lua_setfield(L, -2, "device");
    set_field(L, "processors", m->processors), set_field(L, "clock", m->clock);
    set_field(L, "tick_nsec", m->ticks ? ts_marks_tick_nsec(m->device) : 1);
    lua_pushboolean(L, m->placed), lua_setfield(L, -2, "placed");
    set_field(L, "most_bytes", m->most_bytes), set_field(L, "most_flops", m->most_flops);
    lua_createtable(L, m->nrole, 0);
    for (int r = 0; r < m->nrole; r++) {
      lua_createtable(L, 0, 2);
      lua_pushstring(L, m->role[r].name), lua_setfield(L, -2, "name");
      set_field(L, "warps", m->role[r].warps);
      lua_rawseti(L, -2, r + 1);
    }
    lua_setfield(L, -2, "roles");
    set_field(L, "turns", m->turns), set_field(L, "apart", m->apart);
    push_stages(L, m);
    lua_pushlstring(L, m->record, m->record_bytes);
    lua_setfield(L, -2, "records");
    lua_rawseti(L, -2, i + 1);
  }
  ts_marks_collect(TS_MARKS_off);
  return 1;
}

/* jit_move(device or nil): functions of the CPU go there at once, for tests. */
static int jit_move(lua_State *L) {
  static char name[24];
  const char *d = ts_lua_word_or(L, 1, NULL);
  if (d && !ts_device_find(d, &ts_lua_context(L)->err)) return ts_lua_raise(L);
  if (d) snprintf(name, sizeof name, "%s", d);
  ts_jit_move_to(jit_of(L), d ? name : NULL);
  return 0;
}

/* jit_returns(n): every n-th kernel goes back to operators at once, for tests; 0: none. */
static int jit_returns(lua_State *L) {
  ts_jit_returns(jit_of(L), (int)luaL_checkinteger(L, 1));
  return 0;
}

/* jit_break(n): the next n compiles end within LLVM, for tests */
static int jit_break(lua_State *L) {
  ts_llvm_break((int)luaL_checkinteger(L, 1));
  return 0;
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
  } row[] = {{"functions", s.functions},
             {"promoted", s.promoted},
             {"jobs", s.jobs},
             {"kernels", (double)s.kernels},
             {"from_disk", (double)s.cached},
             {"refused", (double)s.failed},
             {"compile_ms", s.compile_msec},
             {"install_ms_max", s.install_msec_max}};
  lua_newtable(L);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    lua_pushnumber(L, row[i].v);
    lua_setfield(L, -2, row[i].name);
  }
  return 1;
}

/* ---- the tuner: what lib/lua/autotune.lua stands on */
static TsTuner *tuner_of(lua_State *L) { return ts_jit_tuner(jit_of(L)); }

/* autotune_mode([mode]) -> mode */
static int autotune_mode(lua_State *L) {
  static const char *const modes[] = {"off", "cached", "on", NULL};
  TsTuner *t = tuner_of(L);
  if (!lua_isnoneornil(L, 1))
    ts_tuner_set_mode(t, (TsTuneMode)luaL_checkoption(L, 1, NULL, modes));
  lua_pushstring(L, modes[ts_tuner_mode(t)]);
  return 1;
}

/* Any number as one of 0 to `most`. */
static double within(double v, double most) { return v >= 0 ? (v < most ? v : most) : 0; }

/* autotune_budget([ms, total_ms, bytes, candidates]) -> the same, and what is spent of the total; nil
 * keeps one */
static int autotune_budget(lua_State *L) {
  TsTuner *t = tuner_of(L);
  TsTuneBudget b = ts_tuner_budget(t);
  bool any = false;
  for (int i = 1; i <= 4; i++) any |= !lua_isnoneornil(L, i);
  b.group_msec = luaL_optnumber(L, 1, b.group_msec);
  b.total_msec = luaL_optnumber(L, 2, b.total_msec);
  b.bytes = (int64_t)within(luaL_optnumber(L, 3, (double)b.bytes), 0x1p53);
  b.candidates = (int)within(luaL_optnumber(L, 4, b.candidates), 1 << 20);
  if (any) ts_tuner_set_budget(t, b);
  lua_pushnumber(L, b.group_msec);
  lua_pushnumber(L, b.total_msec);
  lua_pushnumber(L, (double)b.bytes);
  lua_pushnumber(L, b.candidates);
  lua_pushnumber(L, ts_tuner_spent(t));
  return 5;
}

static void push_record(lua_State *L, const TsTuneRecord *r) {
  lua_newtable(L);
  lua_pushstring(L, r->what);
  lua_setfield(L, -2, "kernel");
  if (*r->why) lua_pushstring(L, r->why), lua_setfield(L, -2, "why");
  lua_pushinteger(L, r->differing);
  lua_setfield(L, -2, "differing");
  if (r->share > 0) lua_pushnumber(L, r->share), lua_setfield(L, -2, "share");
  if (r->msec > 0) lua_pushnumber(L, r->msec), lua_setfield(L, -2, "ms");
  for (int i = 0; i < r->n; i++) {
    TsText t = {0};
    ts_sched_choice_text(&r->at[i].choice, &t);
    lua_newtable(L);
    lua_pushstring(L, t.len ? t.at : "as it was");
    ts_text_free(&t);
    lua_setfield(L, -2, "choice");
    if (*r->at[i].why) lua_pushstring(L, r->at[i].why), lua_setfield(L, -2, "why");
    if (r->at[i].usec > 0) lua_pushnumber(L, r->at[i].usec), lua_setfield(L, -2, "us");
    if (i == r->best && !*r->why) lua_pushboolean(L, true), lua_setfield(L, -2, "best");
    lua_rawseti(L, -2, i + 1);
  }
}

/* autotune_records(from) -> list of what was measured, from number `from` on (0 is the
 * first) */
static int autotune_records(lua_State *L) {
  int from = (int)luaL_optinteger(L, 1, 0);
  TsTuneRecord *r = lua_newuserdata(L, sizeof *r);
  lua_newtable(L);
  for (int i = 0; ts_tune_records(tuner_of(L), from + i, 1, r); i++) {
    push_record(L, r);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* autotune_force([i]): every kernel is candidate i from then on; for tests. */
static int autotune_force(lua_State *L) {
  ts_tuner_force(tuner_of(L), (int)luaL_optinteger(L, 1, -1));
  return 0;
}

/* autotune_device(name) -> how the program's table calls the device */
static int autotune_device(lua_State *L) {
  TsError err = {0};
  TsText kind = {0};
  TsDevice *d = ts_device_find(ts_lua_word(L, 1), &err);
  if (!d || ts_device_use(d, &err)) return luaL_error(L, "%s", err.message);
  ts_tune_device_kind(d, &kind);
  ts_lua_push_text(L, &kind);
  return 1;
}

static int autotune_clear(lua_State *L) {
  ts_tuner_clear(tuner_of(L));
  return 0;
}

void ts_lua_open_jit(lua_State *L) {
  static const luaL_Reg functions[] = {{"jit", jit},
                                       {"jit_verbose", jit_verbose},
                                       {"jit_shows", jit_shows},
                                       {"jit_texts", jit_texts},
                                       {"jit_tell", jit_tell},
                                       {"jit_now", jit_now},
                                       {"jit_eager", jit_eager},
                                       {"jit_wait", jit_wait},
                                       {"jit_flush", jit_flush},
                                       {"jit_stats", jit_stats},
                                       {"jit_traces", jit_traces},
                                       {"jit_loops", jit_loops},
                                       {"jit_loop_text", jit_loop_text},
                                       {"jit_levels", jit_levels},
                                       {"jit_targets", jit_targets},
                                       {"jit_level", jit_level},
                                       {"jit_show", jit_show},
                                       {"jit_watch", jit_watch},
                                       {"jit_device", jit_device},
                                       {"jit_later", jit_later},
                                       {"jit_prepare", jit_prepare},
                                       {"jit_loop_facts", jit_loop_facts},
                                       {"jit_overlap", jit_overlap},
                                       {"jit_ahead", jit_ahead},
                                       {"jit_persistent", jit_persistent},
                                       {"jit_pages", jit_pages},
                                       {"jit_shuffle", jit_shuffle},
                                       {"jit_profile", jit_profile},
                                       {"jit_marks", jit_marks},
                                       {"jit_move", jit_move},
                                       {"jit_returns", jit_returns},
                                       {"jit_break", jit_break},
                                       {"jit_interpret", jit_interpret},
                                       {"autotune_mode", autotune_mode},
                                       {"autotune_budget", autotune_budget},
                                       {"autotune_records", autotune_records},
                                       {"autotune_clear", autotune_clear},
                                       {"autotune_force", autotune_force},
                                       {"autotune_device", autotune_device},
                                       {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
