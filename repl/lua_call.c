/* Operators as Lua functions: from Lua arguments to inputs and attributes by the
 * operator's row, and back.
 *
 *   op.softmax(S, {axis = -1})   op.softmax{S, axis = -1}   S:softmax(-1)
 *
 * Tensors (and numbers, while required inputs are missing) fill the inputs in
 * order, other values the attributes in order; named values go where they are
 * named, inputs or attributes. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/device.h"
#include "lib/text.h"
#include "repl/lua_api.h"
#include "repl/lua_fast.h"
#include "repl/lua_together.h"
#include "vm/scratch.h"

enum { LIST_ROOM = 64, FEW = 8 };

/* A call being put together. Tensors made from numbers are owned until the end. */
typedef struct Args {
  lua_State *L;
  TsContext *c;
  const TsOpInfo *o;
  TsOp op;
  TsTensor **in;    /* few; more room for variadic rows */
  int nin, attr_at; /* inputs so far; next attribute to fill by position */
  int nlist, device;
  bool values; /* owned ones that are no numbers */
  bool given[TS_MAX_ATTR], owned[FEW];
  /* What stands from here on is not cleared. */
  TsTensor *few[FEW];
  TsAttr attr[TS_MAX_ATTR];
  int64_t list[LIST_ROOM];
  double reals[LIST_ROOM];
} Args;

static void begin(Args *a, lua_State *L, TsOp op) {
  memset(a, 0, offsetof(Args, few));
  a->L = L;
  a->c = ts_lua_context(L);
  a->op = op;
  a->o = ts_op_info(op);
  a->in = a->few;
  a->device = -1;
}

static int fail(Args *a, TsErrorCode code, const char *what, const char *name) {
  return ts_error_set(&a->c->err, code, "%s: %s '%s'", a->o->name, what, name);
}

/* ---- inputs */
static int too_many_tensors(Args *a) {
  ts_error_set(&a->c->err, TS_ERR_argument, "%s: too many tensors, takes %s", a->o->name,
               a->o->nin ? a->o->inputs : "none");
  return ts_error_hint(&a->c->err, "see ? %s", a->o->name);
}

static int more_room(Args *a) {
  TsTensor **in = ts_work_take(TS_MAX_VARIADIC * (int64_t)sizeof *in);
  if (!in) return ts_error_set(&a->c->err, TS_ERR_memory, "%s: out of memory", a->o->name);
  memcpy(in, a->few, sizeof a->few);
  a->in = in;
  return 0;
}

static int place_input(Args *a, TsTensor *t, bool owned) {
  if (a->nin >= (a->o->variadic ? TS_MAX_VARIADIC : a->o->nin)) return too_many_tensors(a);
  if (a->nin >= FEW && owned)
    return ts_error_set(&a->c->err, TS_ERR_argument, "%s: numbers among many tensors",
                        a->o->name);
  if (a->nin == FEW && a->in == a->few && more_room(a)) return -1;
  if (a->nin < FEW) a->owned[a->nin] = owned;
  a->in[a->nin++] = t;
  return 0;
}

/* Takes over t if it is owned. */
static int add_input(Args *a, TsTensor *t, bool owned) {
  int failed = place_input(a, t, owned);
  if (failed && owned) ts_tensor_unref(t);
  return failed;
}

/* Tables and complex numbers have the precision of the tensors around them: f32, unless one
 * of those is wider. */
static int narrow_values(Args *a) {
  for (int i = 0; i < a->nin; i++) {
    TsDtype d = !a->in[i] || (i < FEW && a->owned[i]) ? TS_DT_none : ts_tensor_dtype(a->in[i]);
    if (d == TS_DT_f64 || d == TS_DT_complex128) return 0;
  }
  for (int i = 0; i < a->nin && i < FEW; i++) {
    if (!a->owned[i] || a->in[i]->meta.weak) continue;
    TsDtype d = ts_tensor_dtype(a->in[i]);
    if (d != TS_DT_f64 && d != TS_DT_complex128) continue;
    TsTensor *t = ts_tensor_cast(a->c, a->in[i], d == TS_DT_f64 ? TS_DT_f32 : TS_DT_complex64);
    if (!t) return -1;
    ts_tensor_unref(a->in[i]);
    a->in[i] = t;
  }
  return 0;
}

/* A tensor of a number, a boolean, a table; NULL with the error filled. */
static TsTensor *made_of(Args *a, int index) {
  if (lua_type(a->L, index) == LUA_TNUMBER)
    return ts_tensor_number(a->c, lua_tonumber(a->L, index));
  a->values = true;
  return ts_lua_operand(a->L, index, a->o->name);
}

static int add_value(Args *a, int index) {
  TsTensor *t = made_of(a, index);
  return t ? add_input(a, t, true) : -1;
}

/* ---- attributes */
static const char *type_text(TsAttrType t) {
  static const char *const text[] = {"nil",       "an integer", "a number",
                                     "a boolean", "integers",   "numbers",
                                     "a string",  "a word",     "a dtype"};
  return text[t];
}

static int wrong_type(Args *a, const TsAttrSpec *s, int index) {
  ts_error_set(&a->c->err, TS_ERR_attribute, "%s: option '%.*s' must be %s, not %s", a->o->name,
               s->namelen, s->name, type_text((TsAttrType)s->type), luaL_typename(a->L, index));
  if (s->type == TS_ATTR_choice)
    ts_error_hint(&a->c->err, "one of %.*s", s->wordslen, s->words);
  return -1;
}

static int read_int(Args *a, const TsAttrSpec *s, int index, int64_t *out) {
  if (lua_type(a->L, index) != LUA_TNUMBER) return wrong_type(a, s, index);
  double v = lua_tonumber(a->L, index);
  if (ts_lua_whole(v, out)) return 0;
  return ts_error_set(&a->c->err, TS_ERR_attribute,
                      "%s: option '%.*s' must be an integer, not %.14g", a->o->name, s->namelen,
                      s->name, v);
}

/* A list from a table, or one number as a list. */
static int read_list(Args *a, const TsAttrSpec *s, int index, TsAttr *out) {
  bool table = lua_type(a->L, index) == LUA_TTABLE;
  int n = table ? (int)lua_objlen(a->L, index) : 1;
  if (!table && lua_type(a->L, index) != LUA_TNUMBER) return wrong_type(a, s, index);
  if (a->nlist + n > LIST_ROOM)
    return fail(a, TS_ERR_attribute, "list is too long for option", s->name);
  out->n = n;
  out->ints = a->list + a->nlist;
  if (s->type == TS_ATTR_floats) out->floats = a->reals + a->nlist;
  for (int i = 0; i < n; i++) {
    if (table) lua_rawgeti(a->L, index, i + 1);
    int at = table ? -1 : index, bad = 0;
    if (s->type == TS_ATTR_floats && lua_type(a->L, at) == LUA_TNUMBER)
      a->reals[a->nlist] = lua_tonumber(a->L, at);
    else
      bad = read_int(a, s, at, &a->list[a->nlist]);
    if (table) lua_pop(a->L, 1);
    if (bad) return -1;
    a->nlist++;
  }
  return 0;
}

static int read_word(Args *a, const TsAttrSpec *s, int index, TsAttr *out) {
  if (lua_type(a->L, index) != LUA_TSTRING) return wrong_type(a, s, index);
  const char *word = lua_tostring(a->L, index);
  if (s->type == TS_ATTR_str) {
    out->str = word;
    return 0;
  }
  out->i = s->type == TS_ATTR_choice ? ts_attr_choice(s, word)
                                     : (int64_t)ts_dtype_parse(word, (int)strlen(word));
  if (s->type == TS_ATTR_choice && out->i < 0) {
    ts_error_set(&a->c->err, TS_ERR_attribute, "%s: option '%.*s' cannot be '%s'", a->o->name,
                 s->namelen, s->name, word);
    return ts_error_hint(&a->c->err, "one of %.*s", s->wordslen, s->words);
  }
  if (s->type == TS_ATTR_dtype && out->i == TS_DT_none) {
    ts_error_set(&a->c->err, TS_ERR_dtype, "%s: there is no dtype '%s'", a->o->name, word);
    return ts_error_hint(&a->c->err, "f32 f64 f16 bf16 i64 i32 i16 i8 u8 bool complex64 ...");
  }
  return 0;
}

static int set_attr(Args *a, int i, int index) {
  const TsAttrSpec *s = &a->o->attr[i];
  TsAttr *out = &a->attr[i];
  a->given[i] = true;
  if (lua_isnil(a->L, index)) return 0;
  out->type = s->type;
  switch (s->type) {
  case TS_ATTR_int: return read_int(a, s, index, &out->i);
  case TS_ATTR_f:
    if (lua_type(a->L, index) != LUA_TNUMBER) return wrong_type(a, s, index);
    out->f = lua_tonumber(a->L, index);
    return 0;
  case TS_ATTR_bool:
    if (!lua_isboolean(a->L, index)) return wrong_type(a, s, index);
    out->i = lua_toboolean(a->L, index);
    return 0;
  case TS_ATTR_ints:
  case TS_ATTR_floats: return read_list(a, s, index, out);
  default: return read_word(a, s, index, out);
  }
}

/* ---- by name */
typedef struct Names {
  const TsOpInfo *o;
  char text[32];
} Names;

static const char *nth_option(const void *arg, int i) {
  Names *n = (Names *)(uintptr_t)arg;
  if (i < n->o->nin) return n->o->input[i];
  const TsAttrSpec *s = &n->o->attr[i - n->o->nin];
  snprintf(n->text, sizeof n->text, "%.*s", s->namelen, s->name);
  return n->text;
}

static int unknown_option(Args *a, const char *name) {
  Names n = {.o = a->o};
  ts_error_set(&a->c->err, TS_ERR_attribute, "%s: unknown option '%s'", a->o->name, name);
  const char *guess = ts_text_closest(name, a->o->nin + a->o->nattr, nth_option, &n);
  if (guess) return ts_error_hint(&a->c->err, "did you mean '%s'?", guess);
  char list[200] = "";
  size_t at = 0;
  for (int i = 0; i < a->o->nattr && at + 34 < sizeof list; i++)
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%.*s", i ? ", " : "",
                           a->o->attr[i].namelen, a->o->attr[i].name);
  return ts_error_hint(&a->c->err, at ? "options are %s" : "it has no options%s", list);
}

static int set_input(Args *a, int i, int index) {
  TsTensor *t = ts_lua_tensor(a->L, index);
  bool owned = !t;
  if (!t && !(t = made_of(a, index))) return -1;
  while (a->nin <= i) {
    a->owned[a->nin] = false;
    a->in[a->nin++] = NULL;
  }
  if (a->in[i]) {
    if (owned) ts_tensor_unref(t);
    return fail(a, TS_ERR_argument, "two values for input", a->o->input[i]);
  }
  a->in[i] = t;
  a->owned[i] = owned;
  return 0;
}

static int set_device(Args *a, int index) {
  TsDevice *d =
      lua_isstring(a->L, index) ? ts_device_find(lua_tostring(a->L, index), &a->c->err) : NULL;
  if (!d)
    return a->c->err.code ? -1
                          : ts_error_set(&a->c->err, TS_ERR_attribute,
                                         "%s: option 'device' must be a string", a->o->name);
  if (ts_device_use(d, &a->c->err)) return -1;
  a->device = d->index;
  return 0;
}

static int set_named(Args *a, const char *name, int index) {
  for (int i = 0; i < a->o->nattr; i++) {
    const TsAttrSpec *s = &a->o->attr[i];
    if (strlen(name) == (size_t)s->namelen && !memcmp(name, s->name, (size_t)s->namelen))
      return set_attr(a, i, index);
  }
  for (int i = 0; i < a->o->nin && !a->o->variadic; i++)
    if (!strcmp(name, a->o->input[i])) return set_input(a, i, index);
  if (!strcmp(name, "device") && a->o->nin == 0) return set_device(a, index);
  return unknown_option(a, name);
}

static int set_options(Args *a, int index) {
  lua_State *L = a->L;
  for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING) continue;
    if (set_named(a, lua_tostring(L, -2), lua_gettop(L))) return -1;
  }
  return 0;
}

/* ---- by position */
static bool accepts(const TsAttrSpec *s, int lua_type_) {
  switch (s->type) {
  case TS_ATTR_int:
  case TS_ATTR_f: return lua_type_ == LUA_TNUMBER;
  case TS_ATTR_bool: return lua_type_ == LUA_TBOOLEAN;
  case TS_ATTR_ints:
  case TS_ATTR_floats: return lua_type_ == LUA_TNUMBER || lua_type_ == LUA_TTABLE;
  default: return lua_type_ == LUA_TSTRING;
  }
}

/* The first attribute not yet given that takes such a value; -1 if none does. */
static int next_attr(Args *a, int lua_type_) {
  for (int i = a->attr_at; i < a->o->nattr; i++)
    if (!a->given[i] && accepts(&a->o->attr[i], lua_type_)) return i;
  return -1;
}

static int too_many(Args *a, int index) {
  ts_error_set(&a->c->err, TS_ERR_argument, "%s: no place for the %s in argument %d",
               a->o->name, luaL_typename(a->L, index), index);
  return ts_error_hint(&a->c->err, "see ? %s", a->o->name);
}

/* x:reshape(2, 3) and op.zeros(2, 3): numbers in a row make one list where no
 * later attribute could want them. */
static bool collects(const Args *a, int attr) {
  if (a->o->attr[attr].type != TS_ATTR_ints) return false;
  if (a->o->nin == 0) return a->op != TS_OP_full;
  for (int i = attr + 1; i < a->o->nattr; i++)
    if (accepts(&a->o->attr[i], LUA_TNUMBER)) return false;
  return true;
}

static int number_argument(Args *a, int *index, int last) {
  int i = next_attr(a, LUA_TNUMBER);
  if (a->nin < a->o->nrequired) return add_value(a, *index);
  if (i < 0) return too_many(a, *index);
  a->attr_at = i + 1;
  if (!collects(a, i)) return set_attr(a, i, *index);
  const TsAttrSpec *s = &a->o->attr[i];
  a->given[i] = true;
  a->attr[i] = ts_attr_ints(a->list + a->nlist, 0);
  for (; *index <= last && lua_type(a->L, *index) == LUA_TNUMBER; ++*index) {
    if (a->nlist == LIST_ROOM)
      return fail(a, TS_ERR_attribute, "list is too long for option", "shape");
    if (read_int(a, s, *index, &a->list[a->nlist++])) return -1;
    a->attr[i].n++;
  }
  --*index;
  return 0;
}

static bool holds_tensor(lua_State *L, int table) {
  lua_rawgeti(L, table, 1);
  bool yes = ts_lua_tensor(L, -1) != NULL;
  lua_pop(L, 1);
  return yes;
}

static int positional(Args *a, int first, int last);

/* {} is a list where one is needed, x:reshape{}, else options that name nothing. */
static bool is_empty_list(Args *a, int index) {
  lua_pushnil(a->L);
  if (lua_next(a->L, index)) {
    lua_pop(a->L, 2);
    return false;
  }
  int i = next_attr(a, LUA_TTABLE);
  return i >= 0 && !a->o->attr[i].optional && !a->o->attr[i].has_default;
}

/* A table: tensors are inputs, numbers a list, names are options. */
static int table_argument(Args *a, int index) {
  lua_State *L = a->L;
  int n = (int)lua_objlen(L, index), i;
  if (n > 0 && holds_tensor(L, index)) {
    int top = lua_gettop(L);
    /* No Lua error here: it would leak what the call holds so far. */
    if (n > TS_MAX_VARIADIC || !lua_checkstack(L, n + 8)) return too_many_tensors(a);
    for (int k = 1; k <= n; k++) lua_rawgeti(L, index, k);
    if (positional(a, top + 1, top + n)) return -1;
  } else if (n > 0 && a->nin < a->o->nrequired) {
    return add_value(a, index);
  } else if (n > 0 || is_empty_list(a, index)) {
    if ((i = next_attr(a, LUA_TTABLE)) < 0) return too_many(a, index);
    a->attr_at = i + 1;
    if (set_attr(a, i, index)) return -1;
  }
  return set_options(a, index);
}

static int one_argument(Args *a, int *index, int last) {
  lua_State *L = a->L;
  TsTensor *t = ts_lua_tensor(L, *index);
  int i;
  if (t) return add_input(a, t, false);
  switch (lua_type(L, *index)) {
  case LUA_TNUMBER: return number_argument(a, index, last);
  case LUA_TTABLE: return table_argument(a, *index);
  case LUA_TNIL:
    if (a->nin < a->o->nin && !a->o->variadic) {
      a->owned[a->nin] = false;
      a->in[a->nin++] = NULL;
    }
    return 0;
  case LUA_TBOOLEAN:
    if (a->nin < a->o->nrequired) return add_value(a, *index);
    break;
  case LUA_TSTRING: break;
  default: /* cdata numbers and whatever else from_value knows */
    if (a->nin < a->o->nrequired) return add_value(a, *index);
    return too_many(a, *index);
  }
  if ((i = next_attr(a, lua_type(L, *index))) < 0) return too_many(a, *index);
  return set_attr(a, i, *index);
}

static int positional(Args *a, int first, int last) {
  for (int i = first; i <= last; i++)
    if (one_argument(a, &i, last)) return -1;
  return 0;
}

/* ---- the call */
static void release_args(Args *a) {
  for (int i = 0; i < a->nin && i < FEW; i++)
    if (a->owned[i]) ts_tensor_unref(a->in[i]);
  if (a->in != a->few) ts_work_give(a->in);
}

static int run_into(Args *a) {
  if (!a->in[0] || a->owned[0])
    return ts_error_set(&a->c->err, TS_ERR_argument, "%s_: the first argument must be a tensor",
                        a->o->name);
  return ts_vm_call_into(a->c, a->op, a->nin, a->in, a->attr, a->in[0]);
}

static int move_outputs(Args *a, TsTensor **out, int nout) {
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

/* Divergence shares its name with the quotient: one tensor, not two. */
static TsOp real_operator(TsOp op, int nargs, lua_State *L, int first) {
  bool one = nargs == 1 || (nargs == 2 && lua_istable(L, first + 1));
  return op == TS_OP_div && one && ts_lua_tensor(L, first) ? TS_OP_divergence : op;
}

/* One tensor or two, as many as must be given, and nothing else. */
static bool is_bare(const Args *a, int nargs) {
  bool any = a->device >= 0 || a->nin != nargs || nargs != a->o->nrequired || nargs > 2;
  for (int i = 0; i < a->o->nattr && !any; i++) any = a->given[i];
  for (int i = 0; i < nargs && !any; i++) any = a->owned[i];
  return !any && !a->o->variadic;
}

static int call_parsed(lua_State *L, TsOp op, int first, bool into) {
  TsTensor *out[TS_MAX_VARIADIC];
  int nout = 0, last = lua_gettop(L);
  Args a;
  begin(&a, L, real_operator(op, last - first + 1, L, first));
  ts_op_defaults(a.op, a.attr);
  int failed = positional(&a, first, last) || (a.values && narrow_values(&a)) ||
               ts_op_check_attrs(a.op, a.attr, &a.c->err);
  int device = a.c->device;
  if (a.device >= 0) a.c->device = a.device;
  if (!failed)
    failed = into ? run_into(&a)
                  : ts_vm_call(a.c, a.op, a.nin, a.in, a.attr, TS_MAX_VARIADIC, &nout, out);
  a.c->device = device;
  if (!failed) failed = move_outputs(&a, out, nout);
  bool bare = !failed && nout == 1 && out[0]->storage->pending && a.op == op &&
              is_bare(&a, last - first + 1);
  release_args(&a);
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
static int step_with(Args *a, int nout, TsTensor *const *out) {
  if (!a->c->steps || a->c->capture)
    return ts_vm_call_out(a->c, a->op, a->nin, a->in, a->attr, nout, out);
  TS_ASSERT(!a->nlist);
  return ts_lua_together_add(a->c, a->op, a->nin, a->in, a->attr, nout, out);
}

/* step(name, {inputs}, {outputs}, {options}): an operator whose results go into
 * tensors that exist (vm/vm.h, ts_vm_call_out). */
static int step(lua_State *L) {
  TsTensor *out[TS_MAX_OUT];
  TsOp op = ts_op_find(luaL_checkstring(L, 1));
  Args a;
  if (op == TS_OP_COUNT) return luaL_argerror(L, 1, "no such operator");
  begin(&a, L, op);
  a.nin = list_tensors(L, 2, a.o->nin, a.in);
  int nout = list_tensors(L, 3, TS_MAX_OUT, out);
  luaL_checktype(L, 4, LUA_TTABLE);
  ts_op_defaults(a.op, a.attr);
  if (set_options(&a, 4) || ts_op_check_attrs(a.op, a.attr, &a.c->err) ||
      step_with(&a, nout, out))
    return ts_lua_raise(L);
  return 0;
}

/* run(name, {inputs}, {options}): a call with its inputs by place, any of them nil or
 * false where optional. */
static int run(lua_State *L) {
  TsTensor *in[TS_MAX_IN] = {NULL}, *out[TS_MAX_VARIADIC];
  int nout = 0;
  TsOp op = ts_op_find(luaL_checkstring(L, 1));
  Args a;
  if (op == TS_OP_COUNT) return luaL_argerror(L, 1, "no such operator");
  begin(&a, L, op);
  int nin = list_tensors(L, 2, TS_MAX_IN, in);
  luaL_checktype(L, 3, LUA_TTABLE);
  ts_op_defaults(a.op, a.attr);
  if (set_options(&a, 3) || ts_op_check_attrs(a.op, a.attr, &a.c->err) ||
      ts_vm_call(a.c, a.op, nin, in, a.attr, TS_MAX_VARIADIC, &nout, out))
    return ts_lua_raise(L);
  return finish(L, out, nout);
}

/* vjp(name, {inputs}, {options}, {gradients of the outputs} [, {second}]): the gradients of
 * the inputs, false where there is none; with second, those of inputs and gradients of the
 * sum of second[i] * (gradient of input i). */
static int vjp(lua_State *L) {
  TsTensor *in[TS_MAX_IN + TS_MAX_OUT] = {NULL}, *second[TS_MAX_IN] = {NULL};
  TsTensor *out[TS_MAX_IN + TS_MAX_OUT];
  TsOp op = ts_op_find(luaL_checkstring(L, 1));
  Args a;
  if (op == TS_OP_COUNT) return luaL_argerror(L, 1, "no such operator");
  begin(&a, L, op);
  int nin = list_tensors(L, 2, TS_MAX_IN, in), ngrad = list_tensors(L, 4, TS_MAX_OUT, in + nin);
  bool twice = lua_istable(L, 5);
  if (twice) list_tensors(L, 5, nin, second);
  luaL_checktype(L, 3, LUA_TTABLE);
  ts_op_defaults(a.op, a.attr);
  if (set_options(&a, 3) || ts_op_check_attrs(a.op, a.attr, &a.c->err) ||
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
  const char *name = luaL_checkstring(L, 1);
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
}
