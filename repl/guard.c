/* Functions of Lua that leave nothing set behind, whatever ends them: an error, memory that runs
 * out, Ctrl-C at any instruction, a coroutine that yields.
 *
 *   core.guarded(leave, f, ...)   f(...); then leave(fine), which is not interrupted
 *   core.no_grad(f, ...)          f(...), and what it calls is not recorded
 *   core.autocast(dtype, f, ...)  f(...), with casts to f16 or bf16; false: without
 *   core.held(f, ...)             f(...) without interrupts: it is short, and done whole
 *   core.unrecorded()             until the innermost of these ends, calls are not recorded
 *
 * All restore what the context itself was set to (TsLuaState), so a function that switches
 * something needs no care, and what lies in Lua's hands is `leave`'s. The protected call is one of
 * C: it begins and ends between two instructions, where no hook runs, and nobody can yield across
 * it and never come back. *Rejected:* pcall with a pair of calls around it in Lua: an interrupt
 * between the pair and the pcall leaves things half done. */
#include "repl/guard.h"

#include <string.h>

#include "devices/cpu_pool.h"
#include "repl/report.h"

TsLuaState ts_lua_state(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsLuaState s = {.no_grad = c->no_grad,
                  .autocast = c->autocast,
                  .capture = c->capture,
                  .region = c->region,
                  .stream_depth = c->stream_depth};
  if (c->capture) s.mark = ts_capture_mark(c);
  return s;
}

void ts_lua_restore(lua_State *L, const TsLuaState *s) {
  TsContext *c = ts_lua_context(L);
  c->no_grad = s->no_grad;
  c->autocast = s->autocast;
  c->region = s->region;
  c->stream_depth = s->stream_depth;
  if (c->capture != s->capture)
    ts_capture_abort(c);
  else if (c->capture && ts_capture_mark(c).g != s->mark.g)
    ts_capture_reset(c, s->mark);
}

TsLuaState ts_lua_guard_begin(lua_State *L) {
  luaL_checkstack(L, 8, "results");
  return ts_lua_state(L);
}

int ts_lua_guard_raise(lua_State *L) {
  static const char boundary[] = "attempt to yield across C-call boundary";
  const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
  if (text && strstr(text, boundary))
    luaL_gsub(
        L, text, boundary,
        "a coroutine yields inside of a function that is captured, that a control operator "
        "runs, or that has set something (no_grad, autocast, device, ..) meanwhile\n"
        "  hint: yield outside of it");
  return lua_error(L);
}

int ts_lua_guard(lua_State *L, int n, const TsLuaState *s) {
  int at = lua_gettop(L) - n;
  lua_pushcfunction(L, ts_report_keep);
  lua_insert(L, at);
  int status = lua_pcall(L, n, LUA_MULTRET, at);
  lua_remove(L, at);
  ts_lua_restore(L, s);
  return status;
}

static int guarded(lua_State *L) {
  TsLuaState s = ts_lua_guard_begin(L);
  int status = ts_lua_guard(L, lua_gettop(L) - 2, &s);
  if (lua_toboolean(L, 1)) {
    int held = ts_cpu_hold_interrupts();
    lua_pushvalue(L, 1);
    lua_pushboolean(L, !status);
    int failed = lua_pcall(L, 1, 0, 0);
    ts_cpu_let_interrupts(held);
    if (failed && !status) return lua_error(L);
    if (failed) lua_pop(L, 1); /* what happened first is told */
  }
  return status ? ts_lua_guard_raise(L) : lua_gettop(L) - 1;
}

/* Functions, and what has __call as captured functions and layers have. */
static bool is_callable(lua_State *L, int index) {
  if (lua_isfunction(L, index)) return true;
  if (!luaL_getmetafield(L, index, "__call")) return false;
  lua_pop(L, 1);
  return true;
}

static int no_grad(lua_State *L) {
  TsLuaState s = ts_lua_guard_begin(L);
  if (!is_callable(L, 1))
    return ts_lua_fail(L, TS_ERR_argument, "no_grad: a function is needed, not a %s",
                       luaL_typename(L, 1));
  luaL_checkstack(L, 8, "results");
  ts_lua_context(L)->no_grad++;
  int status = ts_lua_guard(L, lua_gettop(L) - 1, &s);
  return status ? ts_lua_guard_raise(L) : lua_gettop(L);
}

static int autocast(lua_State *L) {
  TsLuaState s = ts_lua_guard_begin(L);
  TsDtype d = TS_DT_none;
  if (lua_type(L, 1) == LUA_TSTRING)
    d = ts_dtype_parse(lua_tostring(L, 1), (int)strlen(lua_tostring(L, 1)));
  bool off = lua_type(L, 1) == LUA_TBOOLEAN && !lua_toboolean(L, 1);
  if (!off && d != TS_DT_f16 && d != TS_DT_bf16)
    return ts_lua_fail(L, TS_ERR_argument,
                       "autocast: the dtype is 'bf16' or 'f16', or false for no casts, not %s",
                       lua_isnoneornil(L, 1)           ? "nothing"
                       : lua_type(L, 1) != LUA_TSTRING ? luaL_typename(L, 1)
                                                       : lua_tostring(L, 1));
  if (!is_callable(L, 2))
    return ts_lua_fail(L, TS_ERR_argument, "autocast: a function is needed, not a %s",
                       luaL_typename(L, 2));
  ts_lua_context(L)->autocast = off ? 0 : (uint8_t)d;
  int status = ts_lua_guard(L, lua_gettop(L) - 2, &s);
  return status ? ts_lua_guard_raise(L) : lua_gettop(L) - 1;
}

/* autocast_dtype(): the word, or nil where no casts are made. */
static int autocast_dtype(lua_State *L) {
  TsDtype d = (TsDtype)ts_lua_context(L)->autocast;
  if (!d) return 0;
  lua_pushstring(L, ts_dtype_name(d));
  return 1;
}

static int held(lua_State *L) {
  TsLuaState s = ts_lua_guard_begin(L);
  luaL_checkany(L, 1);
  int before = ts_cpu_hold_interrupts();
  int status = ts_lua_guard(L, lua_gettop(L) - 1, &s);
  ts_cpu_let_interrupts(before);
  return status ? ts_lua_guard_raise(L) : lua_gettop(L);
}

static int unrecorded(lua_State *L) {
  ts_lua_context(L)->no_grad++;
  return 0;
}

/* callable(f) */
static int callable(lua_State *L) {
  lua_pushboolean(L, is_callable(L, 1));
  return 1;
}

/* need_function(f, "op.map"): f, or an error at the program's line; who: what it is for. */
static int need_function(lua_State *L) {
  if (!is_callable(L, 1))
    return ts_lua_fail(L, TS_ERR_argument, "%s: a function is needed, not %s",
                       luaL_checkstring(L, 2),
                       lua_isnoneornil(L, 1) ? "nothing"
                       : ts_lua_tensor(L, 1) ? "a tensor"
                                             : lua_pushfstring(L, "a %s", luaL_typename(L, 1)));
  lua_settop(L, 1);
  return 1;
}

void ts_lua_open_guard(lua_State *L) {
  static const luaL_Reg functions[] = {{"guarded", guarded},
                                       {"no_grad", no_grad},
                                       {"autocast", autocast},
                                       {"autocast_dtype", autocast_dtype},
                                       {"held", held},
                                       {"unrecorded", unrecorded},
                                       {"callable", callable},
                                       {"need_function", need_function},
                                       {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
