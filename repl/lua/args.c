/* From Lua arguments to inputs and attributes by the operator's row.
 *
 *   op.softmax(S, {axis = -1})   op.softmax{S, axis = -1}   S:softmax(-1)
 *
 * Tensors (and numbers, while required inputs are missing) fill the inputs in
 * order, other values the attributes in order; named values go where they are
 * named, inputs or attributes. */
#include "repl/lua/args.h"
#include "repl/lua/out.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "devices/device.h"
#include "repl/lua/choose.h"
#include "lib/text.h"
#include "repl/lua/mesh.h"
#include "vm/core/scratch.h"

static int fail(TsLuaArgs *a, TsErrorCode code, const char *what, const char *name) {
  return ts_error_set(&a->c->err, code, "%s: %s '%s'", a->o->name, what, name);
}

/* ---- inputs */
static int too_many_tensors(TsLuaArgs *a) {
  ts_error_set(&a->c->err, TS_ERR_argument, "%s: too many tensors, takes %s", a->o->name,
               a->o->nin ? a->o->inputs : "none");
  return ts_error_hint(&a->c->err, "see ? %s", a->o->name);
}

static int more_room(TsLuaArgs *a) {
  TsTensor **in = ts_work_take(TS_MAX_VARIADIC * (int64_t)sizeof *in);
  if (!in) return ts_error_set(&a->c->err, TS_ERR_memory, "%s: out of memory", a->o->name);
  memcpy(in, a->few, sizeof a->few);
  a->in = in;
  return 0;
}

static int attr_named(const TsOpInfo *o, const char *name) {
  for (int i = 0; i < o->nattr; i++) {
    const TsAttrSpec *s = &o->attr[i];
    if (strlen(name) == (size_t)s->namelen && !memcmp(name, s->name, (size_t)s->namelen))
      return i;
  }
  return -1;
}

/* Limits are numbers or tensors, options and inputs of one name: what is given as a number is
 * no input any more. */
static void pass_given(TsLuaArgs *a) {
  while (a->nin >= a->o->nrequired && a->nin < a->o->nin && !a->o->variadic) {
    int i = attr_named(a->o, a->o->input[a->nin]);
    if (i < 0 || !a->given[i]) return;
    a->owned[a->nin] = false;
    a->in[a->nin++] = NULL;
  }
}

/* And the other way round. */
static bool is_input_given(const TsLuaArgs *a, const TsAttrSpec *s) {
  for (int i = a->o->nrequired; i < a->nin && i < a->o->nin; i++)
    if (a->in[i] && strlen(a->o->input[i]) == (size_t)s->namelen &&
        !memcmp(a->o->input[i], s->name, (size_t)s->namelen))
      return true;
  return false;
}

static int place_input(TsLuaArgs *a, TsTensor *t, bool owned) {
  pass_given(a);
  if (a->nin >= (a->o->variadic ? TS_MAX_VARIADIC : a->o->nin)) return too_many_tensors(a);
  if (a->nin >= TS_LUA_FEW && owned)
    return ts_error_set(&a->c->err, TS_ERR_argument, "%s: numbers among many tensors",
                        a->o->name);
  if (a->nin == TS_LUA_FEW && a->in == a->few && more_room(a)) return -1;
  if (a->nin < TS_LUA_FEW) a->owned[a->nin] = owned;
  a->in[a->nin++] = t;
  return 0;
}

/* Takes over t if it is owned. */
static int add_input(TsLuaArgs *a, TsTensor *t, bool owned) {
  int failed = place_input(a, t, owned);
  if (failed && owned) ts_tensor_unref(t);
  return failed;
}

/* Tables and complex numbers have the precision of the tensors around them: f32, unless one
 * of those is wider. */
static int narrow_values(TsLuaArgs *a) {
  for (int i = 0; i < a->nin; i++) {
    TsDtype d =
        !a->in[i] || (i < TS_LUA_FEW && a->owned[i]) ? TS_DT_none : ts_tensor_dtype(a->in[i]);
    if (d == TS_DT_f64 || d == TS_DT_complex128) return 0;
  }
  for (int i = 0; i < a->nin && i < TS_LUA_FEW; i++) {
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
static TsTensor *made_of(TsLuaArgs *a, int index) {
  if (lua_type(a->L, index) == LUA_TNUMBER)
    return ts_tensor_number(a->c, lua_tonumber(a->L, index));
  a->values = true;
  return ts_lua_operand(a->L, index, a->o->name);
}

static int add_value(TsLuaArgs *a, int index) {
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

static int wrong_type(TsLuaArgs *a, const TsAttrSpec *s, int index) {
  ts_error_set(&a->c->err, TS_ERR_attribute, "%s: option '%.*s' must be %s, not %s", a->o->name,
               s->namelen, s->name, type_text((TsAttrType)s->type), luaL_typename(a->L, index));
  if (s->type == TS_ATTR_choice)
    ts_error_hint(&a->c->err, "one of %.*s", s->wordslen, s->words);
  return -1;
}

static int read_int(TsLuaArgs *a, const TsAttrSpec *s, int index, int64_t *out) {
  if (lua_type(a->L, index) != LUA_TNUMBER) return wrong_type(a, s, index);
  double v = lua_tonumber(a->L, index);
  if (ts_lua_whole(v, out)) return 0;
  return ts_error_set(&a->c->err, TS_ERR_attribute,
                      "%s: option '%.*s' must be an integer, not %.14g", a->o->name, s->namelen,
                      s->name, v);
}

/* A list from a table, or one number as a list. */
static int read_list(TsLuaArgs *a, const TsAttrSpec *s, int index, TsAttr *out) {
  bool table = lua_type(a->L, index) == LUA_TTABLE;
  int n = table ? (int)lua_objlen(a->L, index) : 1;
  if (!table && lua_type(a->L, index) != LUA_TNUMBER) return wrong_type(a, s, index);
  if (a->nlist + n > TS_LUA_LIST)
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

static const char *dtype_name(const void *arg, int i) {
  (void)arg;
  return ts_dtype_name((TsDtype)i);
}

static int read_word(TsLuaArgs *a, const TsAttrSpec *s, int index, TsAttr *out) {
  if (lua_type(a->L, index) != LUA_TSTRING) return wrong_type(a, s, index);
  const char *word = ts_lua_word(a->L, index);
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
    const char *guess = ts_text_closest(word, TS_DT_COUNT, dtype_name, NULL);
    if (guess) return ts_error_hint(&a->c->err, "did you mean '%s'?", guess);
    return ts_error_hint(&a->c->err, "f32 f64 f16 bf16 i64 i32 i16 i8 u8 bool complex64 ...");
  }
  return 0;
}

static int set_attr(TsLuaArgs *a, int i, int index) {
  const TsAttrSpec *s = &a->o->attr[i];
  TsAttr *out = &a->attr[i];
  a->given[i] = true;
  int word = lua_isnil(a->L, index) ? 1 : ts_lua_padding_word(a, s, index);
  if (word) return word < 0 ? -1 : 0;
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
  if (i >= n->o->nin + n->o->nattr) return ts_lua_choose_name(i - n->o->nin - n->o->nattr);
  const TsAttrSpec *s = &n->o->attr[i - n->o->nin];
  snprintf(n->text, sizeof n->text, "%.*s", s->namelen, s->name);
  return n->text;
}

/* What is here for an option of another library (repl/lua/elsewhere.def): 0, or the hint. */
static int hint_elsewhere(TsLuaArgs *a, const char *name) {
  const char *row = ts_lua_elsewhere("option", name);
  for (size_t size; row && *row; row += size + (row[size] == '|')) {
    size = strcspn(row, "|");
    if (memchr(row, ' ', size)) return ts_error_hint(&a->c->err, "%.*s", (int)size, row);
    for (int i = 0; i < a->o->nattr; i++)
      if (size == (size_t)a->o->attr[i].namelen && !memcmp(row, a->o->attr[i].name, size))
        return ts_error_hint(&a->c->err, "it is '%.*s' here", (int)size, row);
  }
  return 0;
}

static int choices(void) {
  int n = 0;
  while (ts_lua_choose_name(n)) n++;
  return n;
}

/* Nearly an option of the row is meant to be that. */
static bool is_misspelt(const TsLuaArgs *a, const char *name) {
  Names n = {.o = a->o};
  return ts_text_closest(name, a->o->nin + a->o->nattr, nth_option, &n) != NULL;
}

static int unknown_option(TsLuaArgs *a, const char *name) {
  Names n = {.o = a->o};
  ts_error_set(&a->c->err, TS_ERR_attribute, "%s: unknown option '%s'", a->o->name, name);
  if (hint_elsewhere(a, name)) return -1;
  int own = a->o->nin + a->o->nattr;
  const char *guess = ts_text_closest(name, own, nth_option, &n);
  if (!guess) guess = ts_text_closest(name, own + choices(), nth_option, &n);
  if (guess) return ts_error_hint(&a->c->err, "did you mean '%s'?", guess);
  char list[200] = "";
  size_t at = 0;
  for (int i = 0; i < a->o->nattr && at + 34 < sizeof list; i++)
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%.*s", i ? ", " : "",
                           a->o->attr[i].namelen, a->o->attr[i].name);
  return ts_error_hint(&a->c->err, at ? "options are %s" : "it has no options%s", list);
}

static int set_input(TsLuaArgs *a, int i, int index) {
  int option = attr_named(a->o, a->o->input[i]);
  if (option >= 0 && a->given[option])
    return fail(a, TS_ERR_argument, "two values for input", a->o->input[i]);
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

static int set_device(TsLuaArgs *a, int index) {
  const TsMesh *mesh = ts_lua_mesh(a->L, index);
  if (mesh) return a->mesh = mesh, 0;
  TsDevice *d =
      lua_isstring(a->L, index) ? ts_device_find(ts_lua_word(a->L, index), &a->c->err) : NULL;
  if (!d)
    return a->c->err.code ? -1
                          : ts_error_set(&a->c->err, TS_ERR_attribute,
                                         "%s: option 'device' must be a string", a->o->name);
  if (ts_device_use(d, &a->c->err)) return -1;
  a->device = d->index;
  return 0;
}

/* unbiased = true is correction = 1, in a word. */
static int set_unbiased(TsLuaArgs *a, int index) {
  int i = attr_named(a->o, "correction");
  if (!lua_isboolean(a->L, index))
    return ts_error_set(&a->c->err, TS_ERR_attribute,
                        "%s: option 'unbiased' must be a boolean, not %s", a->o->name,
                        luaL_typename(a->L, index));
  if (a->given[i]) return fail(a, TS_ERR_argument, "two values for option", "correction");
  a->given[i] = a->unbiased = true;
  a->attr[i] = ts_attr_f(lua_toboolean(a->L, index));
  return 0;
}

static int set_named(TsLuaArgs *a, const char *name, int index) {
  int at = attr_named(a->o, name);
  if (a->skip && !strcmp(name, a->skip)) return 0;
  if (at >= 0 && is_input_given(a, &a->o->attr[at]))
    return fail(a, TS_ERR_argument, "two values for input", name);
  if (at >= 0 && a->unbiased && !strcmp(name, "correction"))
    return fail(a, TS_ERR_argument, "two values for option", name);
  if (at >= 0 && !ts_lua_tensor(a->L, index)) return set_attr(a, at, index);
  for (int i = 0; i < a->o->nin && !a->o->variadic; i++)
    if (!strcmp(name, a->o->input[i])) return set_input(a, i, index);
  if (!strcmp(name, "unbiased") && attr_named(a->o, "correction") >= 0)
    return set_unbiased(a, index);
  if (at >= 0) return set_attr(a, at, index); /* which says what it is not */
  if (!strcmp(name, "device") && a->o->nin == 0) return set_device(a, index);
  if (!strcmp(name, "out") && a->o->nin) return ts_lua_out_set(a, index);
  int choice = is_misspelt(a, name) ? 0 : ts_lua_choose_option(a, name, index);
  if (choice) return choice < 0 ? -1 : 0;
  return unknown_option(a, name);
}

static int set_options(TsLuaArgs *a, int index) {
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
static int next_attr(TsLuaArgs *a, int lua_type_) {
  for (int i = a->attr_at; i < a->o->nattr; i++)
    if (!a->given[i] && accepts(&a->o->attr[i], lua_type_) &&
        !is_input_given(a, &a->o->attr[i]))
      return i;
  return -1;
}

static int too_many(TsLuaArgs *a, int index) {
  ts_error_set(&a->c->err, TS_ERR_argument, "%s: no place for the %s in argument %d",
               a->o->name, luaL_typename(a->L, index), index);
  return ts_error_hint(&a->c->err, "see ? %s", a->o->name);
}

/* x:reshape(2, 3) and op.zeros(2, 3): numbers in a row make one list where no
 * later attribute could want them. */
static bool collects(const TsLuaArgs *a, int attr) {
  if (a->o->attr[attr].type != TS_ATTR_ints) return false;
  if (a->o->nin == 0) return a->op != TS_OP_full;
  for (int i = attr + 1; i < a->o->nattr; i++)
    if (accepts(&a->o->attr[i], LUA_TNUMBER)) return false;
  return true;
}

static int number_argument(TsLuaArgs *a, int *index, int last) {
  int i = next_attr(a, LUA_TNUMBER);
  if (a->nin < a->o->nrequired) return add_value(a, *index);
  if (i < 0) return too_many(a, *index);
  a->attr_at = i + 1;
  if (!collects(a, i)) return set_attr(a, i, *index);
  const TsAttrSpec *s = &a->o->attr[i];
  a->given[i] = true;
  a->attr[i] = ts_attr_ints(a->list + a->nlist, 0);
  for (; *index <= last && lua_type(a->L, *index) == LUA_TNUMBER; ++*index) {
    if (a->nlist == TS_LUA_LIST)
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

static int positional(TsLuaArgs *a, int first, int last);

/* {} is a list where one is needed, x:reshape{}, else options that name nothing. */
static bool is_empty_list(TsLuaArgs *a, int index) {
  lua_pushnil(a->L);
  if (lua_next(a->L, index)) {
    lua_pop(a->L, 2);
    return false;
  }
  int i = next_attr(a, LUA_TTABLE);
  return i >= 0 && !a->o->attr[i].optional && !a->o->attr[i].has_default;
}

/* A table: tensors are inputs, numbers a list, names are options. */
static int table_argument(TsLuaArgs *a, int index) {
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

static int one_argument(TsLuaArgs *a, int *index, int last) {
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

static int positional(TsLuaArgs *a, int first, int last) {
  for (int i = first; i <= last; i++)
    if (one_argument(a, &i, last)) return -1;
  return 0;
}

/* ---- a call's arguments */
void ts_lua_args_begin(TsLuaArgs *a, lua_State *L, TsOp op) {
  memset(a, 0, offsetof(TsLuaArgs, few));
  a->L = L;
  a->c = ts_lua_context(L);
  a->op = op;
  a->o = ts_op_info(op);
  a->in = a->few;
  a->device = -1;
  ts_op_defaults(op, a->attr);
}

int ts_lua_args_read(TsLuaArgs *a, int first, int last) {
  return positional(a, first, last) || (a->values && narrow_values(a)) ||
                 ts_op_check_attrs(a->op, a->attr, &a->c->err) ||
                 (a->same && ts_lua_padding_same(a))
             ? -1
             : 0;
}

int ts_lua_args_options(TsLuaArgs *a, int table) {
  luaL_checktype(a->L, table, LUA_TTABLE);
  return set_options(a, table) || ts_op_check_attrs(a->op, a->attr, &a->c->err) ? -1 : 0;
}

void ts_lua_args_release(TsLuaArgs *a) {
  ts_lua_out_release(a);
  for (int i = 0; i < a->nin && i < TS_LUA_FEW; i++)
    if (a->owned[i]) ts_tensor_unref(a->in[i]);
  if (a->in != a->few) ts_work_give(a->in);
}
