/* The vocabulary of lib/elem over values of Tile IR: every word appends a statement. Included
 * by ir/tile/pass/expand_f32.c and f64.c, which define FLOAT, INTEGER and UNSIGNED; after it comes
 * elem_<type>.inc and then ir/tile/pass/elem_rows.inc.
 *
 * The text of lib/elem has no place for a builder among its arguments, so it stands in a
 * variable of the thread, set for the time of one row. */
#include <math.h>
#include <string.h>

#include "ir/tile/pass/expand.h"

typedef TsTileVal V, I, M;

#define FN                   static __attribute__((unused))
#define IFANY(m)             for (Rare rare_ = rare_open(m); rare_.open; rare_close(&rare_))
#define SET_V(m, var, value) rare_set(&rare_, m, &(var), value)
#define SET_I                SET_V
#define E(name)              elem_##name

static _Thread_local TsTileExpand *now;

FN TsTileVal op1(int op, TsTileVal a) { return ts_tile_op1(&now->c->b, op, a); }
FN TsTileVal op2(int op, TsTileVal a, TsTileVal b) { return ts_tile_op2(&now->c->b, op, a, b); }
FN TsTileVal op3(int op, TsTileVal a, TsTileVal b, TsTileVal c) {
  return ts_tile_op3(&now->c->b, op, a, b, c);
}

FN V v_const(double c) {
  double rounded = FLOAT == TS_DT_f32 ? (double)(float)c : c;
  uint64_t bits;
  memcpy(&bits, &rounded, sizeof bits);
  return ts_tile_expand_constant(now, TS_TILE_const, bits, FLOAT);
}
FN I i_const(uint64_t c) {
  return ts_tile_expand_constant(now, TS_TILE_bits, (UNSIGNED)c, INTEGER);
}
FN V v_of_bits(I a) { return ts_tile_bitcast(&now->c->b, a, FLOAT); }
FN I i_of_bits(V a) { return ts_tile_bitcast(&now->c->b, a, INTEGER); }
FN V v_from_int(I a) { return ts_tile_cast(&now->c->b, a, FLOAT); }

FN V v_add(V a, V b) { return op2(TS_OP_add, a, b); }
FN V v_sub(V a, V b) { return op2(TS_OP_sub, a, b); }
FN V v_mul(V a, V b) { return op2(TS_OP_mul, a, b); }
FN V v_div(V a, V b) { return op2(TS_OP_div, a, b); }
FN V v_sqrt(V a) { return op1(TS_OP_sqrt, a); }
FN V v_neg(V a) { return op1(TS_OP_neg, a); }
FN V v_abs(V a) { return op1(TS_OP_abs, a); }
FN V v_fma(V a, V b, V c) { return op3(TS_OP_fma, a, b, c); }
FN V v_fms(V a, V b, V c) { return v_fma(a, b, v_neg(c)); }
FN V v_fnma(V a, V b, V c) { return v_fma(v_neg(a), b, c); }
FN V v_floor(V a) { return op1(TS_OP_floor, a); }
FN V v_ceil(V a) { return op1(TS_OP_ceil, a); }
FN V v_trunc(V a) { return op1(TS_OP_trunc, a); }
FN V v_rint(V a) { return op1(TS_OP_round, a); }
FN M v_lt(V a, V b) { return op2(TS_OP_lt, a, b); }
FN M v_le(V a, V b) { return op2(TS_OP_le, a, b); }
FN M v_eq(V a, V b) { return op2(TS_OP_eq, a, b); }
FN V v_select(M m, V a, V b) { return op3(TS_OP_where, m, a, b); }
FN V v_scale(V a, V n) { return op2(TS_TILE_scale, a, n); }
FN V v_scale_down(V a, V n) {
  TsTileVal in[2] = {a, n};
  TsAttr attr = {.type = TS_ATTR_bool, .i = true};
  if (!a || !n) return NULL;
  return ts_tile_emit1(&now->c->b, TS_TILE_scale, 2, in, &attr, &a->type);
}
#define V_SCALE
FN V v_look(const float *table, I i) {
  TsTileType t = i ? i->type : (TsTileType){0};
  double number[32];
  if (!i) return now->c->b.k->failed = true, NULL;
  for (int k = 0; k < 32; k++) number[k] = (double)table[k];
  TsAttr attr = {.type = TS_ATTR_floats, .n = 32, .floats = number};
  t.dtype = FLOAT;
  return ts_tile_emit1(&now->c->b, TS_TILE_look, 1, &i, &attr, &t);
}
FN V v_min(V a, V b) { return v_select(v_lt(a, b), a, b); }
FN V v_max(V a, V b) { return v_select(v_lt(b, a), a, b); }

FN I i_add(I a, I b) { return op2(TS_OP_add, a, b); }
FN I i_sub(I a, I b) { return op2(TS_OP_sub, a, b); }
FN I i_mul(I a, I b) { return op2(TS_OP_mul, a, b); }
FN I i_mulhi(I a, I b) { return op2(TS_TILE_mulhi, a, b); }
FN I i_and(I a, I b) { return op2(TS_OP_bitwise_and, a, b); }
FN I i_or(I a, I b) { return op2(TS_OP_bitwise_or, a, b); }
FN I i_xor(I a, I b) { return op2(TS_OP_bitwise_xor, a, b); }
FN I i_mulwide(I a, I b) {
  I low = i_const(0xffffffffu);
  return i_mul(i_and(a, low), i_and(b, low));
}
FN I i_shlv(I a, I n) { return op2(TS_TILE_shl, a, n); }
FN I i_shrv(I a, I n) { return op2(TS_TILE_shr, a, n); }
FN I i_shl(I a, int n) { return i_shlv(a, i_const((uint64_t)n)); }
FN I i_shr(I a, int n) { return i_shrv(a, i_const((uint64_t)n)); }
FN I i_sar(I a, int n) { return op2(TS_TILE_sar, a, i_const((uint64_t)n)); }
FN I i_select(M m, I a, I b) { return op3(TS_OP_where, m, a, b); }
FN M i_lt(I a, I b) { return op2(TS_OP_lt, a, b); }
FN M i_eq(I a, I b) { return op2(TS_OP_eq, a, b); }
FN M i_ult(I a, I b) { return op2(TS_TILE_ult, a, b); }

FN M m_and(M a, M b) { return op2(TS_OP_logical_and, a, b); }
FN M m_or(M a, M b) { return op2(TS_OP_logical_or, a, b); }
FN M m_xor(M a, M b) { return op2(TS_OP_logical_xor, a, b); }
FN M m_not(M a) { return op1(TS_OP_logical_not, a); }

/* ---- what few elements need: a branch on whether any does, or on whether this one does, where the
 * target asks for it */
typedef struct Rare {
  bool open, branches;
  TsTileStmt *mark; /* what is behind it goes into the branch */
  M any;
  int n;
  TsTileVal *var[4], before[4], after[4];
} Rare;

FN Rare rare_open(M m) {
  Rare r = {.open = true, .branches = now->branches && m && m->type.rank < 2};
  TsTileType t = ts_tile_scalar(TS_DT_bool);
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  if (!r.branches) return r;
  r.any = m->type.rank ? ts_tile_emit1(&now->c->b, TS_TILE_max, 1, &m, &axis, &t) : m;
  r.mark = now->c->b.at->last;
  return r;
}

FN void rare_set(Rare *r, M m, TsTileVal *var, TsTileVal value) {
  TsTileVal y = now->rare ? op3(TS_TILE_rare, m, *var, value) : v_select(m, value, *var);
  if (r->branches && r->n < 4)
    r->var[r->n] = var, r->before[r->n] = *var, r->after[r->n++] = y;
  else
    *var = y;
}

FN void rare_close(Rare *r) {
  r->open = false;
  if (r->branches)
    ts_tile_expand_branch(now, r->any, r->mark, r->n, r->var, r->before, r->after);
}

FN V v_copysign(V a, V sign) {
  uint64_t top = (uint64_t)1 << (sizeof(UNSIGNED) * 8 - 1);
  I magnitude = i_and(i_of_bits(a), i_const(top - 1));
  return v_of_bits(i_or(magnitude, i_and(i_of_bits(sign), i_const(top))));
}
