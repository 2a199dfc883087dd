/* Calls of one row that mean another: what they are given says which. */
#include <string.h>

#include "repl/lua/args.h"

/* ---- what a call is given */
typedef struct Given {
  lua_State *L;
  int first, last;
} Given;

static bool is_tensor(lua_State *L, int index) { return ts_lua_tensor(L, index) != NULL; }

/* The named value on the stack, if one of the tables has it. */
static bool push_named(const Given *g, const char *name) {
  for (int i = g->first; i <= g->last; i++) {
    if (lua_type(g->L, i) != LUA_TTABLE) continue;
    lua_pushstring(g->L, name);
    lua_rawget(g->L, i);
    if (!lua_isnil(g->L, -1)) return true;
    lua_pop(g->L, 1);
  }
  return false;
}

static bool named_is(const Given *g, const char *name, const char *word) {
  if (!push_named(g, name)) return false;
  bool yes = word ? lua_type(g->L, -1) == LUA_TSTRING && !strcmp(lua_tostring(g->L, -1), word)
                  : lua_toboolean(g->L, -1);
  lua_pop(g->L, 1);
  return yes;
}

static bool named_has(const Given *g, const char *name, bool (*is)(lua_State *, int)) {
  if (!push_named(g, name)) return false;
  bool yes = is(g->L, -1);
  lua_pop(g->L, 1);
  return yes;
}

/* Tensors by position, also those in a table. */
static int tensors(const Given *g) {
  int n = 0;
  for (int i = g->first; i <= g->last; i++) {
    n += is_tensor(g->L, i);
    if (lua_type(g->L, i) != LUA_TTABLE) continue;
    for (int k = 1; k <= (int)lua_objlen(g->L, i); k++) {
      lua_rawgeti(g->L, i, k);
      n += is_tensor(g->L, -1);
      lua_pop(g->L, 1);
    }
  }
  return n;
}

static bool is_list(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TTABLE || lua_objlen(L, index) == 0) return false;
  lua_rawgeti(L, index, 1);
  bool yes = lua_type(L, -1) == LUA_TNUMBER;
  lua_pop(L, 1);
  return yes;
}

static bool has_list(const Given *g) {
  for (int i = g->first + 1; i <= g->last; i++)
    if (is_list(g->L, i)) return true;
  return false;
}

/* ---- the rows */
static TsOp of_div(const Given *g, const char **skip) {
  int n = g->last - g->first + 1;
  bool one = n == 1 || (n == 2 && lua_istable(g->L, g->first + 1));
  *skip = "rounding_mode";
  if (named_is(g, *skip, "floor")) return TS_OP_floordiv;
  if (named_is(g, *skip, "trunc")) return TS_OP_truncdiv;
  if (push_named(g, *skip)) *skip = NULL, lua_pop(g->L, 1); /* is no option */
  /* Divergence shares its name with the quotient: one tensor, not two. */
  return one && is_tensor(g->L, g->first) ? TS_OP_divergence : TS_OP_div;
}

static TsOp with_indices(const Given *g, TsOp op, TsOp other, const char **skip) {
  *skip = "indices";
  return named_is(g, *skip, NULL) ? other : op;
}

TsOp ts_lua_variant(lua_State *L, TsOp op, int first, int last, const char **skip) {
  Given g = {L, first, last};
  switch ((int)op) {
  case TS_OP_div: return of_div(&g, skip);
  case TS_OP_max: return with_indices(&g, op, TS_OP_max_indices, skip);
  case TS_OP_min: return with_indices(&g, op, TS_OP_min_indices, skip);
  case TS_OP_median: return with_indices(&g, op, TS_OP_median_indices, skip);
  case TS_OP_clamp:
    return tensors(&g) > 1 || named_has(&g, "min", is_tensor) || named_has(&g, "max", is_tensor)
               ? TS_OP_clip
               : op;
  case TS_OP_quantile:
    return has_list(&g) || named_has(&g, "q", is_list) || named_is(&g, "method", NULL)
               ? TS_OP_quantiles
               : op;
  case TS_OP_cross_entropy:
    return tensors(&g) > 2 || named_has(&g, "weight", is_tensor) ? TS_OP_weighted_cross_entropy
                                                                 : op;
  case TS_OP_repeat_interleave:
    return tensors(&g) > 1 || named_has(&g, "count", is_tensor) ? TS_OP_repeat_counts : op;
  default: return op;
  }
}
