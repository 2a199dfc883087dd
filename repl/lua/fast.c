/* Operators in hot loops as functions that LuaJIT compiles (lib/lua/fast.lua).
 *
 * A function of Lua's C interface ends LuaJIT's compiled code, and a userdata, its stack and
 * its metatable cost more than the call that is put off. So when an operator's calls are put
 * off again and again, Lua code takes its place that calls the functions below directly and
 * keeps results in userdata that were made beforehand, many at once. They decide without
 * Lua: a call that they do not take is made again in the usual way, which also has all
 * errors. In the interpreter such calls cost more than the usual ones, and where calls are
 * not put off they are made for nothing: both are counted, and the usual functions come back
 * when it does not pay. *Rejected:* all tensors as cdata, which a program that LuaJIT does
 * not compile would pay for. */
#include "devices/cpu_pool.h"
#include "repl/lua/box.h"
#include "repl/lua/fast.h"

enum {
  WINDOW = 4096,     /* calls of the functions below that are judged together */
  FIRST_CALLS = 512, /* of an operator, put off, before its function is replaced */
  MOST_CALLS = 1 << 17,
  BOXES = 512,      /* made at once */
  GOOD_WINDOWS = 4, /* and it was right: the next loop may have it as soon */
};

static struct {
  bool on, opened, absent, installed;
  bool eager; /* replaced soon and for good: for tests */
  bool fresh; /* operators were replaced in this window */
  TsContext *c;
  uint32_t calls, misses, interpreted; /* of this window */
  uint32_t good;                       /* windows since they were put there */
  uint32_t least;                      /* calls put off, before an operator is replaced */
  uint32_t put_off[TS_OP_COUNT];
  bool replaced[TS_OP_COUNT];
  bool learning;
  const void *interpreter; /* where it calls from */
  int module;              /* tessera.fast, in the registry */
  int pool, nbox;          /* a table of empty boxes there, and how many are left */
  TsBox *box[BOXES];
} fast = {.least = FIRST_CALLS};

/* ---- what compiled code calls */
/* The window in which operators were replaced is LuaJIT's to compile what calls them. */
static void judge(void) {
  if (!fast.fresh && !fast.eager &&
      (fast.misses * 4 > fast.calls || fast.interpreted * 2 > fast.calls)) {
    uint32_t more = fast.least < MOST_CALLS ? fast.least * 4 : MOST_CALLS;
    fast.on = false;
    fast.least = fast.good >= GOOD_WINDOWS ? FIRST_CALLS : more;
    fast.good = 0;
  } else if (!fast.fresh) {
    fast.good++;
  }
  fast.fresh = false;
  fast.calls = fast.misses = fast.interpreted = 0;
}

static bool may(const void *caller) {
  if (!fast.on) return false;
  fast.interpreted += caller == fast.interpreter;
  if (++fast.calls >= WINDOW) judge();
  const TsContext *c = fast.c;
  bool plain = c->watched && !c->inside && !c->capture && !c->trap && !c->device && !c->autocast &&
               c->leaves < 2 && !c->abstract;
  fast.misses += !plain;
  return plain && !ts_lua_box_is_due(c) && !ts_cpu_interrupted();
}

/* The usual way, but nobody asks Lua where the program is. */
static bool general(TsBox *y, TsOp op, int nin, const TsWord *w, double number) {
  TsContext *c = fast.c;
  TsTensor *in[2], *out[TS_MAX_OUT], *made = NULL;
  for (int i = 0; i < nin; i++) {
    in[i] = ts_word_is_loose(w[i]) ? c->defer->show(w[i]) : ts_word_tensor(w[i]);
    if (!w[i]) in[i] = made = ts_tensor_number(c, number);
    if (in[i]) continue;
    ts_error_clear(&c->err);
    ts_tensor_unref(made);
    return false;
  }
  TsAttr preset[TS_MAX_ATTR];
  const TsOpInfo *o = ts_op_info(op);
  const char *(*where)(void *) = c->where;
  TsCall call = {.ctx = c, .op = op, .nin = nin, .nout = 1, .in = in, .out = out};
  if (o->nattr) {
    ts_op_defaults(op, preset);
    call.attr = preset;
  }
  c->where = NULL;
  bool taken = call.nin >= o->nrequired && c->defer->call(&call);
  c->where = where;
  ts_tensor_unref(made);
  if (!taken) return fast.misses++, false;
  y->word = ts_word_of(out[0]);
  return true;
}

/* The place of the result's box in the pool; 0: not taken. The collector must not run here:
 * compiled code does not show it what it holds. */
static int call(int op, int nin, const TsWord *w, double number) {
  if (!fast.nbox) return 0;
  TsContext *c = fast.c;
  TsBox *y = fast.box[fast.nbox - 1];
  void (*collect)(void *, bool) = c->collect;
  c->collect = NULL;
  bool taken = c->defer->quick(c, (TsOp)op, nin, w, number, &y->word) ||
               general(y, (TsOp)op, nin, w, number);
  c->collect = collect;
  if (!taken) return 0;
  y->key = ts_box_key(y);
  return fast.nbox--;
}

static bool is_tensor(const TsBox *b) { return b->key == ts_box_key(b); }

static int one(int op, const TsBox *a) {
  const void *caller = __builtin_return_address(0);
  if (fast.learning) return fast.interpreter = caller, 0;
  if (!may(caller) || !is_tensor(a)) return 0;
  return call(op, 1, &a->word, 0);
}

static int two(int op, const TsBox *a, const TsBox *b) {
  if (!may(__builtin_return_address(0)) || !is_tensor(a) || !is_tensor(b)) return 0;
  return call(op, 2, (TsWord[]){a->word, b->word}, 0);
}

static int left(int op, double number, const TsBox *b) {
  if (!may(__builtin_return_address(0)) || !is_tensor(b)) return 0;
  return call(op, 2, (TsWord[]){0, b->word}, number);
}

static int right(int op, const TsBox *a, double number) {
  if (!may(__builtin_return_address(0)) || !is_tensor(a)) return 0;
  return call(op, 2, (TsWord[]){a->word, 0}, number);
}

/* ---- when operators are replaced */
/* core.fast_tables(): the metatable, the methods, the operators, the functions above, and the pool
 * of boxes for results. */
static int tables(lua_State *L) {
  static void *const address[] = {(void *)one, (void *)two, (void *)left, (void *)right};
  ts_lua_push_metatable(L);
  ts_lua_push_methods(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_createtable(L, 4, 0);
  for (int i = 0; i < 4; i++) {
    lua_pushlightuserdata(L, address[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_createtable(L, BOXES, 0);
  lua_pushvalue(L, -1);
  fast.pool = luaL_ref(L, LUA_REGISTRYINDEX);
  return 5;
}

/* core.fast_is_usual(f, id): f is what the library has for the operator, or for x[key] without an
 * id. What a program put in its place stays. */
static int is_usual(lua_State *L) {
  lua_pushboolean(
      L, ts_lua_is_usual(L, 1, lua_isnoneornil(L, 2) ? -1 : (int)luaL_checkinteger(L, 2)));
  return 1;
}

static int id(lua_State *L) {
  lua_pushinteger(L, ts_op_find(ts_lua_word(L, 1)));
  return 1;
}

static void push_function(lua_State *L, const char *name) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, fast.module);
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
}

static void refill(lua_State *L) {
  luaL_checkstack(L, 8, "tensors");
  lua_rawgeti(L, LUA_REGISTRYINDEX, fast.pool);
  ts_lua_fill_boxes(L, BOXES, fast.box);
  lua_pop(L, 1);
  fast.nbox = BOXES;
}

/* Whether LuaJIT compiles anything. */
static bool compiles(lua_State *L) {
  static const char text[] = "return require('jit').status()";
  bool yes = !luaL_loadstring(L, text) && !lua_pcall(L, 0, 1, 0) && lua_toboolean(L, -1);
  lua_pop(L, 1);
  return yes;
}

static bool load(lua_State *L, TsContext *c) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "tessera.fast");
  if (!compiles(L) || lua_pcall(L, 1, 1, 0)) return false;
  fast.module = luaL_ref(L, LUA_REGISTRYINDEX);
  fast.c = c;
  ts_lua_loose_boxes(c->defer);
  push_function(L, "learn");
  fast.learning = true;
  bool learnt = !lua_pcall(L, 0, 0, 0) && fast.interpreter;
  fast.learning = false;
  return learnt;
}

static void install(lua_State *L, TsOp op) {
  const TsOpInfo *o = ts_op_info(op);
  push_function(L, "install");
  lua_pushinteger(L, op);
  lua_pushstring(L, o->name);
  lua_pushinteger(L, o->nrequired > 1 ? 2 : 1);
  lua_pushboolean(L, o->nattr == 0);
  if (lua_pcall(L, 4, 0, 0)) lua_pop(L, 1);
  fast.replaced[op] = true;
}

/* One that is called as often will be due soon: all at once, for LuaJIT compiles anew. */
static void replace(lua_State *L) {
  for (int i = 0; i < TS_OP_COUNT; i++)
    if (!fast.replaced[i] && fast.put_off[i] >= fast.least / 4) install(L, (TsOp)i);
  push_function(L, "renew");
  if (lua_pcall(L, 0, 0, 0)) lua_pop(L, 1);
  fast.installed = fast.on = fast.fresh = true;
}

void ts_lua_fast_put_off(lua_State *L, TsContext *c, TsOp op) {
  if (fast.absent || fast.replaced[op] || ++fast.put_off[op] < fast.least) return;
  int top = lua_gettop(L), held = ts_cpu_hold_interrupts(); /* errors in here are nobody's */
  luaL_checkstack(L, 8, "tensors");
  if (!fast.opened) {
    fast.opened = true;
    fast.absent = !load(L, c);
  }
  if (!fast.absent && !fast.nbox) refill(L);
  if (!fast.absent) replace(L);
  lua_settop(L, top);
  ts_cpu_let_interrupts(held);
}

void ts_lua_fast_attend(lua_State *L) {
  if (fast.on) {
    refill(L);
    return;
  }
  fast.installed = false;
  for (int i = 0; i < TS_OP_COUNT; i++) fast.replaced[i] = false, fast.put_off[i] = 0;
  luaL_checkstack(L, 4, "tensors");
  int held = ts_cpu_hold_interrupts();
  push_function(L, "remove");
  if (lua_pcall(L, 0, 0, 0)) lua_pop(L, 1);
  ts_cpu_let_interrupts(held);
}

void ts_lua_fast_eager(bool on) {
  fast.eager = on;
  fast.least = on ? 4 : FIRST_CALLS;
}

bool ts_lua_fast_asks(void) { return fast.installed && (!fast.on || !fast.nbox); }

void ts_lua_open_fast(lua_State *L) {
  lua_getfield(L, -1, "op");
  lua_pushcclosure(L, tables, 1);
  lua_setfield(L, -2, "fast_tables");
  lua_pushcfunction(L, id);
  lua_setfield(L, -2, "fast_id");
  lua_pushcfunction(L, is_usual);
  lua_setfield(L, -2, "fast_is_usual");
}
