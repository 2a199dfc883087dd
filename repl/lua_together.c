/* Changes of several tensors that are done together or not at all: an optimiser's step over all
 * parameters, a state that is loaded. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "repl/lua_guard.h"
#include "repl/lua_together.h"

static struct {
  TsTogether *step; /* with references to their tensors */
  int n, cap;
  bool open;
} waiting;

bool ts_lua_together_open(void) { return waiting.open; }

static void drop(void) {
  for (int i = 0; i < waiting.n; i++) {
    TsTogether *s = &waiting.step[i];
    for (int k = 0; k < s->nin; k++) ts_tensor_unref(s->in[k]);
    for (int k = 0; k < s->nout; k++) ts_tensor_unref(s->out[k]);
  }
  waiting.n = 0;
  waiting.open = false;
}

int ts_lua_together_add(TsContext *c, const TsTogether *step) {
  if (waiting.n == waiting.cap) {
    int cap = waiting.cap ? waiting.cap * 2 : 64;
    TsTogether *more = realloc(waiting.step, sizeof *more * (size_t)cap);
    if (!more) return ts_error_memory(&c->err);
    waiting.step = more, waiting.cap = cap;
  }
  TsTogether *s = &waiting.step[waiting.n++];
  *s = *step;
  for (int k = 0; k < s->nin; k++)
    if (s->in[k]) ts_tensor_ref(s->in[k]);
  for (int k = 0; k < s->nout; k++)
    if (s->out[k]) ts_tensor_ref(s->out[k]);
  return 0;
}

/* together(f, ...): f(...), whose core.step calls wait for its end and are then run together. */
static int together(lua_State *L) {
  TsLuaState state = ts_lua_guard_begin(L);
  TsContext *c = ts_lua_context(L);
  if (waiting.open || c->capture) {
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  waiting.open = true;
  int status = ts_lua_guard(L, lua_gettop(L) - 1, &state);
  int failed = status ? 0 : ts_vm_together(c, waiting.n, waiting.step);
  drop();
  if (status) return ts_lua_guard_raise(L);
  return failed ? ts_lua_raise(L) : lua_gettop(L);
}

/* assign_all({to...}, {from...}): all of them, or an error and none. */
static int assign_all(lua_State *L) {
  TsTensor **to, **from;
  int n = ts_lua_list(L, 1, "assign_all", &to), m = ts_lua_list(L, 2, "assign_all", &from);
  if (n != m) return luaL_error(L, "assign_all: %d tensors for %d", m, n);
  return ts_vm_assign_all(ts_lua_context(L), n, to, from) ? ts_lua_raise(L) : 0;
}

/* ---- snapshots */
typedef struct Snapshot {
  int n;
  TsTensor **t; /* tensors, then copies of them */
} Snapshot;

static int forget(lua_State *L) {
  Snapshot *s = lua_touserdata(L, 1);
  for (int i = 0; s->t && i < 2 * s->n; i++) ts_tensor_unref(s->t[i]);
  free(s->t);
  *s = (Snapshot){0, NULL};
  return 0;
}

/* Needs no memory: it may be called because there is none. */
static int restore(lua_State *L) {
  Snapshot *s = lua_touserdata(L, lua_upvalueindex(1));
  TsContext *c = ts_lua_context(L);
  int failed = 0, held = ts_cpu_hold_interrupts();
  c->no_grad++;
  for (int i = 0; i < s->n && !failed; i++) failed = ts_vm_assign(c, s->t[i], s->t[s->n + i]);
  c->no_grad--;
  ts_cpu_let_interrupts(held);
  return failed ? ts_lua_raise(L) : 0;
}

/* snapshot({tensor...}) -> a function that gives them back the elements that they have now */
static int snapshot(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor **t;
  int n = ts_lua_list(L, 1, "snapshot", &t);
  Snapshot *s = lua_newuserdata(L, sizeof *s);
  *s = (Snapshot){0, NULL};
  lua_newtable(L);
  lua_pushcfunction(L, forget);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  if (!(s->t = calloc((size_t)n * 2 + 1, sizeof *s->t)))
    return ts_lua_fail(L, TS_ERR_memory, "out of memory");
  s->n = n;
  for (int i = 0; i < n; i++) {
    s->t[i] = ts_tensor_ref(t[i]);
    if (!(s->t[n + i] = ts_tensor_copy(c, t[i]))) return ts_lua_raise(L);
  }
  lua_pushcclosure(L, restore, 1);
  return 1;
}

/* commits(): how often such changes were made, captured functions that change something too. */
static int commits(lua_State *L) {
  lua_pushnumber(L, (double)ts_lua_context(L)->commits);
  return 1;
}

void ts_lua_open_together(lua_State *L) {
  static const luaL_Reg functions[] = {{"together", together},
                                       {"assign_all", assign_all},
                                       {"snapshot", snapshot},
                                       {"commits", commits},
                                       {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
