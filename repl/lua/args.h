/* Arguments of operators from Lua: what was given becomes inputs and attributes by the row. */
#ifndef TS_REPL_LUA_ARGS_H
#define TS_REPL_LUA_ARGS_H

#include "ir/sched/sched.h"
#include "repl/lua_api.h"

enum { TS_LUA_LIST = 64, TS_LUA_FEW = 8 };

/* A call being put together. Tensors made from numbers are owned until the end. */
typedef struct TsLuaArgs {
  lua_State *L;
  TsContext *c;
  const TsOpInfo *o;
  TsOp op;
  TsTensor **in;    /* few; more room for variadic rows */
  int nin, attr_at; /* inputs so far; next attribute to fill by position */
  int nlist, device;
  const struct TsMesh *mesh; /* given as the device, or NULL */
  int out;          /* how the result lies: a reference, or 0 (repl/lua/out.h) */
  const char *skip; /* an option that chose the row */
  bool same;        /* padding is "same" */
  bool unbiased;    /* given in place of a correction */
  bool chooses;     /* something for its kernel: choice */
  bool values;      /* owned ones that are no numbers */
  bool given[TS_MAX_ATTR], owned[TS_LUA_FEW];
  /* What stands from here on is not cleared. */
  TsTensor *few[TS_LUA_FEW];
  TsAttr attr[TS_MAX_ATTR];
  int64_t list[TS_LUA_LIST];
  double reals[TS_LUA_LIST];
  TsSchedChoice choice;
} TsLuaArgs;

void ts_lua_args_begin(TsLuaArgs *a, lua_State *L, TsOp op);
/* The arguments from first to last; of a table only its options. -1 with the error: what a holds
 * is released all the same. */
int ts_lua_args_read(TsLuaArgs *a, int first, int last);
int ts_lua_args_options(TsLuaArgs *a, int table);
void ts_lua_args_release(TsLuaArgs *a);
/* The row that a call of op with such arguments means, and the option that says so, or NULL. */
TsOp ts_lua_variant(lua_State *L, TsOp op, int first, int last, const char **skip);

/* Whether a row that takes scalars as rows of one element is called with one and an axis; that
 * call, as ts_vm_call (repl/lua/scalar.c). */
bool ts_lua_scalar_wants(const TsLuaArgs *a);
int ts_lua_scalar_call(TsLuaArgs *a, int *nout, TsTensor **out);

/* 1 if the option s, padding of a convolution, is the word "same" or "valid", which is taken; 0 if it
 * is no word, -1 with the error if another one;
 * padding or a padded x in place of "same", when all is read (repl/lua/padding.c). */
int ts_lua_padding_word(TsLuaArgs *a, const TsAttrSpec *s, int index);
int ts_lua_padding_same(TsLuaArgs *a);

#endif
