/* What attention needs beside products: rows of fragments, which four neighbouring threads
 * share, functions of the processor, scalars, counters, and turns of groups of warps. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/roles/emit.h"

typedef LLVMValueRef V;

enum { GROUP_WARPS = 4, TURNS = 8 /* the first named barrier of turns */ };

/* ---- fragments of one axis lie along rows (1) or columns (2) */
static bool is_line(TsTileVal v) {
  return v->type.space == TS_SPACE_fragment && v->type.rank == 1;
}

/* Of two of rank 2 one is an operand, and they are of one type. */
static bool is_operand(TsRoles *m, TsTileVal x, TsTileVal y) {
  bool known = m->axis[x->id] >= TS_ROLES_LEFT || m->axis[y->id] >= TS_ROLES_LEFT;
  return known && ts_tile_type_same(&x->type, &y->type);
}

/* Whether one of the two was told by the other. */
static bool same(TsRoles *m, TsTileVal x, TsTileVal y) {
  if ((!is_line(x) || !is_line(y)) && !is_operand(m, x, y)) return false;
  uint8_t *a = &m->axis[x->id], *b = &m->axis[y->id];
  if (*a == *b || (*a && *b)) return false;
  *(*a ? b : a) = *a ? *a : *b;
  return true;
}

/* What warps read from shared memory, perhaps a round before. */
static bool told_operand(TsRoles *m, TsTileVal v, int side) {
  bool loaded = !v->stmt || v->stmt->op == TS_TILE_load || v->stmt->op == TS_TILE_for ||
                v->stmt->op == TS_TILE_load_rows || v->stmt->op == TS_TILE_unpack;
  if (!loaded || m->axis[v->id]) return false;
  m->axis[v->id] = (uint8_t)side;
  return true;
}

static bool told(TsRoles *m, TsTileVal v, int axis) {
  if (!is_line(v) || m->axis[v->id]) return false;
  m->axis[v->id] = (uint8_t)axis;
  return true;
}

static bool of_carried(TsRoles *m, const TsTileStmt *s) {
  bool more = false;
  int first = s->op == TS_TILE_for ? 2 : 0, param = s->op == TS_TILE_for;
  for (int c = 0; c < s->nout; c++) {
    const TsTileRegion *r = s->region[0];
    TsTileVal y = s->out[c], next = r->last->in[r->last->nin - s->nout + c];
    more |= same(m, y, next);
    if (s->op == TS_TILE_if) {
      more |= same(m, y, s->region[1]->last->in[c]);
    } else {
      more |= same(m, y, s->in[first + c]);
      more |= same(m, y, r->param[param + c]);
    }
  }
  return more;
}

static bool of_statement(TsRoles *m, const TsTileStmt *s) {
  bool more = false;
  switch (s->op) {
  case TS_TILE_for:
  case TS_TILE_repeat:
  case TS_TILE_if: return of_carried(m, s);
  case TS_TILE_outer: more = told(m, s->in[0], 1); return told(m, s->in[1], 2) || more;
  case TS_TILE_mma:
    if (!ts_roles_of_warps(ts_tile_attr(s, "unit"))) return false;
    more = told_operand(m, s->in[0], TS_ROLES_LEFT);
    return told_operand(m, s->in[1], TS_ROLES_RIGHT) || more;
  case TS_TILE_pairs:
  case TS_TILE_row: return told(m, s->out[0], 1);
  case TS_TILE_load_rows:
  case TS_TILE_store_rows: return told(m, s->in[1], 1);
  case TS_TILE_unpack: return false;
  case TS_TILE_store: return told(m, s->in[s->nin - 1], 1);
  case TS_TILE_broadcast:
    return s->in[0]->type.rank ? told(m, s->in[0], 1 + (int)ts_tile_attr(s, "axes")->ints[0])
                               : false;
  default:
    for (int i = 0; s->nout && i < s->nin; i++) more |= same(m, s->in[i], s->out[0]);
    return more;
  }
}

static bool of_region(TsRoles *m, const TsTileRegion *r) {
  bool more = false;
  for (const TsTileStmt *s = r->last; s; s = s->prev) {
    for (int i = s->nregion; i-- > 0;) more |= of_region(m, s->region[i]);
    more |= of_statement(m, s);
  }
  return more;
}

/* Their users say which; what is carried or computed with them lies alike. */
void ts_roles_axes(TsRoles *m, const TsTileRegion *body) {
  while (of_region(m, body)) continue;
}

/* ---- functions of the processor, one element at a time */
static V function_of(TsRoles *m, int op, V x, V y) {
  LLVMTypeRef f32 = ts_emit_elem(m->e, TS_DT_f32);
  V in[2] = {x, y};
  if (op == TS_TILE_larger)
    return ts_roles_asm(m, f32, "max.f32 $0, $1, $2;", "=f,f,f", 2, in, false);
  if (op == TS_TILE_inv)
    return ts_roles_asm(m, f32, "rcp.approx.ftz.f32 $0, $1;", "=f,f", 1, in, false);
  return ts_roles_asm(
      m, f32, op == TS_TILE_ex2 ? "ex2.approx.ftz.f32 $0, $1;" : "lg2.approx.ftz.f32 $0, $1;",
      "=f,f", 1, in, false);
}

void ts_roles_function_of(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  int n = ts_roles_count(m, &y->type, m->axis[y->id] ? m->axis[y->id] - 1 : 1);
  V *x = ts_emit_registers(m->e, s->in[0]), *z = ts_emit_registers(m->e, s->in[s->nin - 1]);
  V *to = ts_roles_define(m, y, n);
  bool nan = s->op == TS_TILE_larger && ts_tile_attr(s, "nan")->i;
  for (int i = 0; i < n && nan; i++) {
    V in[2] = {x[i], z[i]};
    to[i] = ts_roles_asm(m, ts_emit_elem(m->e, TS_DT_f32), "max.NaN.f32 $0, $1, $2;", "=f,f,f",
                         2, in, false);
  }
  for (int i = 0; i < n && !nan; i++) to[i] = function_of(m, s->op, x[i], z[i]);
}

/* Where positions are wanted they are made again: outside of a loop they would be so many
 * registers. */
static V made_here(TsRoles *m, V base) {
  return ts_roles_asm(m, ts_roles_i32(m), "mov.b32 $0, $1;", "=r,r", 1, &base, true);
}

void ts_roles_iota(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  const TsRolesLayout *l = &m->layout;
  bool line = y->type.rank == 1;
  bool cols = line ? m->axis[y->id] == 2 : ts_tile_attr(s, "axis")->i == 1;
  int n = ts_roles_count(m, &y->type, m->axis[y->id] - 1), wide = n / (line ? 1 : l->nrow);
  V *to = ts_roles_define(m, y, n);
  if (m->single || y->type.dtype != TS_DT_i64 || (cols && m->turned))
    ts_emit_fail(m->e, "positions are of fragments");
  V base = made_here(m, cols ? l->col_base : l->row_base);
  for (int i = 0; i < n && line; i++)
    to[i] = cols || i < l->nrow ? ts_roles_addi(m, base, cols ? l->col[i] : l->row[i])
                                : ts_roles_shri(m, m->lane, 2); /* of a turned operand */
  for (int r = 0; r < l->nrow && !line; r++)
    for (int c = 0; c < wide; c++)
      to[ts_roles_register(m, wide, r, c)] =
          ts_roles_addi(m, base, cols ? l->col[c] : l->row[r]);
}

/* ---- rows */
static V joined(TsRoles *m, const TsTileStmt *s, V x, V y) {
  if (ts_tile_attr(s, "of")->i) return function_of(m, TS_TILE_larger, x, y);
  return LLVMBuildFAdd(m->e->b, x, y, "");
}

static void of_unit(TsRoles *m) {
  if (!ts_roles_in_quads(m)) ts_emit_fail(m->e, "rows of fragments are of the matrix unit");
}

void ts_roles_quarter(TsRoles *m, const TsTileStmt *s) {
  V *x = ts_emit_registers(m->e, s->in[0]), *to = ts_roles_define(m, s->out[0], 2);
  of_unit(m);
  for (int r = 0; r < 2; r++) {
    to[r] = joined(m, s, x[2 * r], x[2 * r + 1]);
    for (int j = 1; j < s->in[0]->type.dim[1] / 8; j++)
      to[r] = joined(m, s, to[r], joined(m, s, x[4 * j + 2 * r], x[4 * j + 2 * r + 1]));
  }
}

void ts_roles_row(TsRoles *m, const TsTileStmt *s) {
  V *x = ts_emit_registers(m->e, s->in[0]), *to = ts_roles_define(m, s->out[0], 2);
  char text[64];
  of_unit(m);
  memcpy(to, x, 2 * sizeof *to);
  for (int by = 1; by < 4; by *= 2)
    for (int r = 0; r < 2; r++) {
      snprintf(text, sizeof text, "shfl.sync.bfly.b32 $0, $1, %d, 31, -1;", by);
      to[r] =
          joined(m, s, to[r],
                 ts_roles_asm(m, ts_emit_elem(m->e, TS_DT_f32), text, "=f,f", 1, &to[r], true));
    }
}

/* ---- memory */
static V address_in(TsRoles *m, TsTileVal memory, V index, int64_t each) {
  LLVMBuilderRef b = m->e->b;
  V wide = LLVMBuildSExt(b, index, ts_emit_int_type(m->e, 64, 0), "");
  wide = LLVMBuildMul(b, wide, ts_emit_i64(m->e, each), "");
  return LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0), ts_emit_registers(m->e, memory)[0],
                       &wide, 1, "");
}

/* Of memory of one axis, or a table of positions. Numbers of 64 bits are positions, of which 32
 * bits are kept. */
void ts_roles_load_scalar(TsRoles *m, const TsTileStmt *s) {
  TsTileVal memory = s->in[0];
  V *to = ts_roles_define(m, s->out[0], 1);
  TsDtype d = (TsDtype)memory->type.dtype;
  if (memory->type.rank == 0 && memory->type.space == TS_SPACE_global && d == TS_DT_f32) {
    V zero = ts_roles_int(m, 0);
    *to = LLVMBuildLoad2(m->e->b, ts_emit_elem(m->e, d), address_in(m, memory, zero, 4), "");
    LLVMSetAlignment(*to, 4);
    return;
  }
  bool table = memory->type.rank == 2 && memory->type.space == TS_SPACE_global &&
               d == TS_DT_i64 && !memory->type.strided && !ts_tile_dim_is(memory->type.dim[1]);
  if ((memory->type.rank != 1 && !table) || s->out[0]->type.rank)
    ts_emit_fail(m->e, "a load of no fragment");
  V at = ts_emit_scalar(m->e, s->in[1]);
  if (table)
    at = ts_roles_add(m, ts_roles_muli(m, at, memory->type.dim[1]),
                      ts_emit_scalar(m->e, s->in[2]));
  if (memory->type.space == TS_SPACE_shared && d == TS_DT_i64) {
    V from = ts_roles_slot(m, memory, at);
    *to = ts_roles_asm(m, ts_roles_i32(m), "ld.shared.b32 $0, [$1];", "=r,r,~{memory}", 1,
                       &from, true);
  } else if (memory->type.space == TS_SPACE_global && d == TS_DT_f32) {
    *to = LLVMBuildLoad2(m->e->b, ts_emit_elem(m->e, d), address_in(m, memory, at, 4), "");
    LLVMSetAlignment(*to, 4);
  } else if (memory->type.space == TS_SPACE_global && d == TS_DT_i64) {
    *to = LLVMBuildLoad2(m->e->b, ts_roles_i32(m), address_in(m, memory, at, 8), "");
    LLVMSetAlignment(*to, 8);
  } else {
    ts_emit_fail(m->e, "a scalar of %s", ts_dtype_name(d));
  }
}

void ts_roles_store_scalar(TsRoles *m, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  if (t->rank != 1 || t->space != TS_SPACE_shared || t->dtype != TS_DT_i64 || !m->single)
    ts_emit_fail(m->e, "a store of no fragment");
  V in[2] = {ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[1])),
             ts_emit_scalar(m->e, s->in[2])};
  ts_roles_asm(m, NULL, "st.shared.b32 [$0], $1;", "r,r,~{memory}", 2, in, true);
}

/* To the last axis of a matrix or of several, by the first of the four threads that have the
 * row. */
void ts_roles_store_rows(TsRoles *m, const TsTileStmt *s) {
  TsTileVal memory = s->in[0], x = s->in[s->nin - 1];
  LLVMBuilderRef b = m->e->b;
  const TsTileType *t = &memory->type;
  int rank = t->rank;
  if (rank < 2 || rank > 3 || t->space != TS_SPACE_global || t->dtype != TS_DT_f32 ||
      t->strided)
    ts_emit_fail(m->e, "rows go to matrices of f32");
  of_unit(m);
  V end = LLVMBuildTrunc(b, ts_emit_size(m->e, t->dim[rank - 1]), ts_roles_i32(m), "");
  V line = ts_emit_scalar(m->e, s->in[1]);
  if (rank == 3) {
    V rows = LLVMBuildTrunc(b, ts_emit_size(m->e, t->dim[1]), ts_roles_i32(m), "");
    line = LLVMBuildAdd(b, LLVMBuildMul(b, line, rows, ""), ts_emit_scalar(m->e, s->in[2]), "");
  }
  line = LLVMBuildMul(b, line, end, "");
  V mine = LLVMBuildICmp(b, LLVMIntEQ, ts_roles_andi(m, m->lane, 3), ts_roles_int(m, 0), "");
  for (int r = 0; r < 2; r++) {
    V at =
        ts_roles_addi(m, ts_roles_add(m, ts_emit_scalar(m->e, s->in[rank]), m->layout.row_base),
                      m->layout.row[r]);
    V in = LLVMBuildAnd(b, mine, LLVMBuildICmp(b, LLVMIntSLT, at, end, ""), "");
    V list[3] = {address_in(m, memory, ts_roles_add(m, line, at), 4),
                 ts_emit_registers(m->e, x)[r], ts_roles_flag(m, in)};
    ts_roles_asm(
        m, NULL,
        "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $2, 0;\n\t@p st.global.f32 [$0], $1;\n\t}",
        "l,f,r,~{memory}", 3, list, true);
  }
}

/* ---- counters */
void ts_roles_claim(TsRoles *m, const TsTileStmt *s) {
  if (!m->single || s->in[0]->type.rank != 1) ts_emit_fail(m->e, "one thread claims");
  V in[2] = {address_in(m, s->in[0], ts_emit_scalar(m->e, s->in[1]), 4),
             ts_roles_addi(m, ts_emit_scalar(m->e, s->in[2]), -1)};
  *ts_roles_define(m, s->out[0], 1) = ts_roles_asm(
      m, ts_roles_i32(m), "atom.global.inc.u32 $0, [$1], $2;", "=r,l,r,~{memory}", 2, in, true);
}

/* ---- turns: a barrier for each group, of its threads and those of the group before */
static V is_last(TsRoles *m) {
  return LLVMBuildICmp(m->e->b, LLVMIntEQ, m->group,
                       ts_roles_int(m, m->warps / GROUP_WARPS - 1), "");
}

void ts_roles_first_turn(TsRoles *m) {
  V last = ts_roles_flag(m, is_last(m));
  ts_roles_asm(m, NULL,
               "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $0, 0;\n\t@p bar.arrive 8, 256;\n\t}",
               "r,~{memory}", 1, &last, true);
}

void ts_roles_own_of(TsRoles *m, const TsTileStmt *s) {
  V *to = ts_roles_define(m, s->out[0], 1), x = ts_emit_scalar(m->e, s->in[0]);
  if (m->single || s->nin != m->warps / GROUP_WARPS)
    ts_emit_fail(m->e, "%d numbers for %d warps", s->nin, m->warps);
  for (int i = 1; i < s->nin; i++) {
    V mine = LLVMBuildICmp(m->e->b, LLVMIntEQ, m->group, ts_roles_int(m, i), "");
    x = LLVMBuildSelect(m->e->b, mine, ts_emit_scalar(m->e, s->in[i]), x, "");
  }
  *to = x;
}

void ts_roles_turn(TsRoles *m, const TsTileStmt *s) {
  bool end = ts_tile_attr(s, "end")->i;
  V next = LLVMBuildSelect(m->e->b, is_last(m), ts_roles_int(m, 0),
                           ts_roles_addi(m, m->group, 1), "");
  V which = ts_roles_addi(m, end ? next : m->group, TURNS);
  if (m->single) ts_emit_fail(m->e, "a turn of one thread");
  ts_roles_asm(m, NULL, end ? "bar.arrive $0, 256;" : "bar.sync $0, 256;", "r,~{memory}", 1,
               &which, true);
}
