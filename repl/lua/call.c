/* Operators as Lua functions, methods and by name. Their arguments: repl/lua/args.c. */
#include <string.h>

#include "ir/compose/compose.h"
#include "repl/lua/args.h"
#include "repl/lua/choose.h"
#include "repl/lua/fast.h"
#include "repl/lua/out.h"
#include "repl/lua/together.h"

/* ---- the call */
static int run_into(TsLuaArgs *a) {
  if (!a->in[0] || a->owned[0])
    return ts_error_set(&a->c->err, TS_ERR_argument, "%s_: the first argument must be a tensor",
                        a->o->name);
  return ts_vm_call_into(a->c, a->op, a->nin, a->in, a->attr, a->in[0]);
}

static int move_outputs(TsLuaArgs *a, TsTensor **out, int nout) {
  for (int i = 0; i < nout && a->device >= 0; i++) {
    TsTensor *t = ts_tensor_to(a->c, out[i], a->device);
    if (!t) return -1;
    ts_tensor_unref(out[i]);
    out[i] = t;
  }
  return 0;
}

static int finish(lua_State *L, TsTensor **out, int nout) {
  luaL_checkstack(L, nout + 4, "results");
  for (int i = 0; i < nout; i++) ts_lua_push(L, out[i]);
  return nout;
}

/* One tensor or two, as many as must be given, and nothing else. */
static bool is_bare(const TsLuaArgs *a, int nargs) {
  bool any = a->device >= 0 || a->chooses || a->mesh || a->out || a->nin != nargs ||
             nargs != a->o->nrequired || nargs > 2;
  for (int i = 0; i < a->o->nattr && !any; i++) any = a->given[i];
  for (int i = 0; i < nargs && !any; i++) any = a->owned[i];
  return !any && !a->o->variadic;
}

static int call_parsed(lua_State *L, TsOp op, int first, bool into) {
  TsTensor *out[TS_MAX_VARIADIC];
  int nout = 0, last = lua_gettop(L);
  TsLuaArgs a;
  const char *skip = NULL;
  ts_lua_args_begin(&a, L, ts_lua_variant(L, op, first, last, &skip));
  a.skip = skip;
  int failed = ts_lua_args_read(&a, first, last);
  const TsLayout *want = NULL;
  if (!failed && a.out) failed = into || !(want = ts_lua_out_layout(&a)) ? -1 : 0;
  if (want && !a.c->capture) a.c->want = want, a.c->want_op = a.op;
  int device = a.c->device;
  if (a.device >= 0) a.c->device = a.device;
  bool scalar = !failed && !into && ts_lua_scalar_wants(&a);
  ts_lua_choose_begin(&a);
  if (!failed)
    failed = into     ? run_into(&a)
             : scalar ? ts_lua_scalar_call(&a, &nout, out)
                      : ts_vm_call(a.c, a.op, a.nin, a.in, a.attr, TS_MAX_VARIADIC, &nout, out);
  a.c->device = device;
  ts_lua_choose_end(&a, !failed);
  a.c->want = NULL;
  if (!failed && want) failed = ts_lua_out_move(&a, want, out);
  if (!failed && a.mesh) failed = ts_lua_out_spread(&a, out);
  if (!failed) failed = move_outputs(&a, out, nout);
  bool bare = !failed && !scalar && nout == 1 && out[0]->storage->pending && a.op == op &&
              is_bare(&a, last - first + 1);
  ts_lua_args_release(&a);
  /* Divergence shares the name of the quotient alone. */
  if (failed && a.op != op && a.op != TS_OP_divergence)
    ts_op_error_of(&a.c->err, ts_op_info(op)->name);
  if (failed) return ts_lua_raise(L);
  if (bare) ts_lua_fast_put_off(L, a.c, op);
  if (!into) return finish(L, out, nout);
  lua_pushvalue(L, first);
  return 1;
}

/* One tensor or two, or a tensor and a number, as many as the row has inputs: nothing to
 * parse. */
static int call_plain(lua_State *L, TsOp op, int first, int nargs) {
  TsTensor *in[2] = {NULL}, *out[TS_MAX_OUT], *made = NULL;
  int nout, number = -1;
  for (int i = 0; i < nargs; i++)
    if (!(in[i] = ts_lua_tensor(L, first + i))) {
      if (nargs < 2 || number >= 0 || lua_type(L, first + i) != LUA_TNUMBER) return -1;
      number = i;
    }
  TsContext *c = in[number == 0]->storage->ctx;
  c->where_arg = L;
  c->choice = NULL;
  if (number >= 0 &&
      !(in[number] = made = ts_tensor_number(c, lua_tonumber(L, first + number))))
    return ts_lua_raise(L);
  int failed = ts_vm_call(c, op, nargs, in, NULL, TS_MAX_OUT, &nout, out);
  ts_tensor_unref(made);
  if (failed) return ts_lua_raise(L);
  if (out[0]->storage->pending) ts_lua_fast_put_off(L, c, op);
  for (int i = 0; i < nout; i++) ts_lua_push(L, out[i]);
  return nout;
}

int ts_lua_call(lua_State *L, TsOp op, int first, bool into) {
  if (ts_lua_fast_asks()) ts_lua_fast_attend(L);
  const TsOpInfo *o = ts_op_info(op);
  int nargs = lua_gettop(L) - first + 1;
  if (!into && o->nattr == 0 && nargs == o->nin && nargs >= 1 && nargs <= 2 && !o->variadic) {
    int n = call_plain(L, op, first, nargs);
    if (n >= 0) return n;
  }
  return call_parsed(L, op, first, into);
}

static int call_op(lua_State *L) {
  return ts_lua_call(L, (TsOp)lua_tointeger(L, lua_upvalueindex(1)), 1, false);
}

bool ts_lua_is_usual(lua_State *L, int index, int op) {
  lua_CFunction f = lua_tocfunction(L, index);
  if (op < 0) return ts_lua_is_getter(f);
  if (!f || (f != call_op && !ts_lua_is_metamethod(f))) return false;
  lua_getupvalue(L, index, 1);
  bool same = lua_tointeger(L, -1) == op;
  lua_pop(L, 1);
  return same;
}

/* ---- by name, with inputs by place: what the library stands on */
static void begin_named(TsLuaArgs *a, lua_State *L) {
  TsOp op = ts_op_find(ts_lua_word(L, 1));
  if (op == TS_OP_COUNT) luaL_argerror(L, 1, "no such operator");
  ts_lua_args_begin(a, L, op);
}

static int list_tensors(lua_State *L, int table, int most, TsTensor **out) {
  int n = 0;
  luaL_checktype(L, table, LUA_TTABLE);
  for (int i = 0; i < most; i++) {
    lua_rawgeti(L, table, i + 1);
    if ((out[i] = ts_lua_tensor(L, -1))) n = i + 1;
    lua_pop(L, 1);
  }
  return n;
}

/* Now, or with others at their end. Rows of optimisers have no lists among their options. */
static int step_with(TsLuaArgs *a, int nout, TsTensor *const *out) {
  if (!a->c->steps || a->c->capture)
    return ts_vm_call_out(a->c, a->op, a->nin, a->in, a->attr, nout, out);
  TS_ASSERT(!a->nlist);
  return ts_lua_together_add(a->c, a->op, a->nin, a->in, a->attr, nout, out);
}

/* step(name, {inputs}, {outputs}, {options}): an operator whose results go into
 * tensors that exist (vm/core/vm.h, ts_vm_call_out). */
static int step(lua_State *L) {
  TsTensor *out[TS_MAX_OUT];
  TsLuaArgs a;
  begin_named(&a, L);
  a.nin = list_tensors(L, 2, a.o->nin, a.in);
  int nout = list_tensors(L, 3, TS_MAX_OUT, out);
  if (ts_lua_args_options(&a, 4) || step_with(&a, nout, out)) return ts_lua_raise(L);
  return 0;
}

/* run(name, {inputs}, {options}): a call with its inputs by place, any of them nil or
 * false where optional. */
static int run(lua_State *L) {
  TsTensor *in[TS_MAX_IN] = {NULL}, *out[TS_MAX_VARIADIC];
  int nout = 0;
  TsLuaArgs a;
  begin_named(&a, L);
  int nin = list_tensors(L, 2, TS_MAX_IN, in);
  int failed = ts_lua_args_options(&a, 3);
  ts_lua_choose_begin(&a);
  if (!failed) failed = ts_vm_call(a.c, a.op, nin, in, a.attr, TS_MAX_VARIADIC, &nout, out);
  ts_lua_choose_end(&a, !failed);
  return failed ? ts_lua_raise(L) : finish(L, out, nout);
}

/* vjp(name, {inputs}, {options}, {gradients of the outputs} [, {second}]): the gradients of
 * the inputs, false where there is none; with second, those of inputs and gradients of the
 * sum of second[i] * (gradient of input i). */
static int vjp(lua_State *L) {
  TsTensor *in[TS_MAX_IN + TS_MAX_OUT] = {NULL}, *second[TS_MAX_IN] = {NULL};
  TsTensor *out[TS_MAX_IN + TS_MAX_OUT];
  TsLuaArgs a;
  begin_named(&a, L);
  int nin = list_tensors(L, 2, TS_MAX_IN, in), ngrad = list_tensors(L, 4, TS_MAX_OUT, in + nin);
  bool twice = lua_istable(L, 5);
  if (twice) list_tensors(L, 5, nin, second);
  if (ts_lua_args_options(&a, 3) ||
      ts_vm_vjp(a.c, a.op, nin, ngrad, in, a.attr, twice ? second : NULL, out))
    return ts_lua_raise(L);
  int n = twice ? nin + ngrad : nin;
  luaL_checkstack(L, n + 4, "results");
  for (int i = 0; i < n; i++) {
    if (out[i])
      ts_lua_push(L, out[i]);
    else
      lua_pushboolean(L, 0);
  }
  return n;
}

/* family(name): the operators of one family, in the table's order. */
static int family(lua_State *L) {
  const char *name = ts_lua_word(L, 1);
  lua_newtable(L);
  for (int i = 0, n = 0; i < TS_OP_COUNT; i++) {
    if (strcmp(ts_op_info((TsOp)i)->family, name)) continue;
    lua_pushstring(L, ts_op_info((TsOp)i)->name);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

void ts_lua_open_ops(lua_State *L) {
  lua_newtable(L);
  ts_lua_push_methods(L);
  for (int i = 0; i < TS_OP_COUNT; i++) {
    const TsOpInfo *o = ts_op_info((TsOp)i);
    lua_pushinteger(L, i);
    lua_pushcclosure(L, call_op, 1);
    if (o->nin) {
      lua_pushvalue(L, -1);
      lua_setfield(L, -3, o->name);
    }
    lua_setfield(L, -3, o->name);
  }
  lua_pop(L, 1);
  lua_setfield(L, -2, "op");
  lua_pushcfunction(L, step);
  lua_setfield(L, -2, "step");
  lua_pushcfunction(L, run);
  lua_setfield(L, -2, "run");
  lua_pushcfunction(L, vjp);
  lua_setfield(L, -2, "vjp");
  lua_pushcfunction(L, family);
  lua_setfield(L, -2, "family");
  lua_pushinteger(L, TS_LSTM_STEPS);
  lua_setfield(L, -2, "lstm_steps");
}
