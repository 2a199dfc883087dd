/* Changes of several tensors that are done together or not at all: an optimiser's step over all
 * parameters, a state that is loaded. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "repl/guard.h"
#include "repl/lua/together.h"
#include "vm/core/defer.h"

/* Calls that wait for the end of core.together, with references to their tensors. */
typedef struct TsSteps {
  TsTogether *step;
  int n, cap;
} TsSteps;

static void drop(TsSteps *w) {
  for (int i = 0; i < w->n; i++) {
    TsTogether *s = &w->step[i];
    for (int k = 0; k < s->nin; k++) ts_tensor_unref(s->in[k]);
    for (int k = 0; k < s->nout; k++) ts_tensor_unref(s->out[k]);
  }
  free(w->step);
}

static void take(int n, TsTensor *const *from, TsTensor **to) {
  for (int i = 0; i < n; i++) to[i] = from[i] ? ts_tensor_ref(from[i]) : NULL;
}

int ts_lua_together_add(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                        int nout, TsTensor *const *out) {
  TsSteps *w = c->steps;
  if (w->n == w->cap) {
    int cap = w->cap ? w->cap * 2 : 64;
    TsTogether *more = realloc(w->step, sizeof *more * (size_t)cap);
    if (!more) return ts_error_memory(&c->err);
    w->step = more, w->cap = cap;
  }
  TsTogether *s = &w->step[w->n++];
  TS_ASSERT(nin <= TS_MAX_IN && nout <= TS_MAX_OUT);
  s->op = op, s->nin = nin, s->nout = nout;
  take(nin, in, s->in);
  take(nout, out, s->out);
  memcpy(s->attr, attr, sizeof *attr * ts_op_info(op)->nattr);
  return 0;
}

/* together(f, ...): f(...), whose core.step calls wait for its end and are then run together. */
static int together(lua_State *L) {
  TsLuaState state = ts_lua_guard_begin(L);
  TsContext *c = ts_lua_context(L);
  TsSteps waiting = {NULL, 0, 0};
  if (c->steps || c->capture) {
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
  }
  c->steps = &waiting;
  int status = ts_lua_guard(L, lua_gettop(L) - 1, &state);
  c->steps = NULL;
  int failed = status ? 0 : ts_vm_together(c, waiting.n, waiting.step);
  drop(&waiting);
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

/* fill_numbers(t, number...): its elements. */
static int fill_numbers(lua_State *L) {
  TsContext *c = ts_lua_context(L);
  TsTensor *t = ts_lua_check_tensor(L, 1, "fill_numbers");
  int n = lua_gettop(L) - 1;
  TsMeta m = {.dtype = TS_DT_f64, .ndim = 1, .dim = {n}};
  TsTensor *numbers = ts_tensor_new(c, &m);
  if (!numbers) return ts_lua_raise(L);
  double *to = numbers->storage->host;
  for (int i = 0; i < n; i++) to[i] = lua_tonumber(L, i + 2);
  int failed = ts_vm_assign(c, t, numbers);
  ts_tensor_unref(numbers);
  return failed ? ts_lua_raise(L) : 0;
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

/* What was put off reads first. -1 with the error. */
static int all_move(TsTensor *const *t, int n, bool *fine) {
  *fine = true;
  for (int i = 0; i < n && *fine; i++) {
    if (t[i]->storage->held != TS_HELD_NEVER && ts_defer_touch(t[i]->storage)) return -1;
    *fine = ts_tensor_moves(t[i]);
  }
  return 0;
}

/* movable({t...}): whether nothing but these tensors sees their memory. */
static int movable(lua_State *L) {
  TsTensor **t;
  bool fine;
  int n = ts_lua_list(L, 1, "movable", &t);
  if (all_move(t, n, &fine)) return ts_lua_raise(L);
  lua_pushboolean(L, fine);
  return 1;
}

/* move_all({t...}, {at...}): each t lies where its `at` does from now on, a view of its type with what t
 * holds; false, and none does, where something else sees the memory of one. */
static int move_all(lua_State *L) {
  TsTensor **t, **at;
  int n = ts_lua_list(L, 1, "move_all", &t), m = ts_lua_list(L, 2, "move_all", &at);
  bool fine;
  if (all_move(t, n < m ? n : m, &fine)) return ts_lua_raise(L);
  fine &= n == m;
  for (int i = 0; i < n && fine; i++)
    fine = !at[i]->origin && !at[i]->storage->pending && at[i]->storage != t[i]->storage &&
           at[i]->meta.dtype == t[i]->meta.dtype && at[i]->meta.device == t[i]->meta.device &&
           ts_meta_same_shape(&at[i]->meta, &t[i]->meta);
  for (int i = 0; i < n && fine; i++) ts_tensor_move(t[i], at[i]);
  lua_pushboolean(L, fine);
  return 1;
}

/* assignments(): of tensors so far whose elements were assigned, how many were copied, and how many were given. */
static int assignments(lua_State *L) {
  lua_pushnumber(L, (double)ts_lua_context(L)->assigned);
  lua_pushnumber(L, (double)ts_lua_context(L)->exchanged);
  return 2;
}

void ts_lua_open_together(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"together", together}, {"assign_all", assign_all},     {"movable", movable},
      {"move_all", move_all}, {"fill_numbers", fill_numbers}, {"snapshot", snapshot},
      {"commits", commits},   {"assignments", assignments},   {NULL, NULL}};
  luaL_register(L, NULL, functions);
}
