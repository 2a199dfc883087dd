/* Fragments from parameters [batches, heads, rows, columns] that are known to be inside: masks
 * of attention. Each thread of a matrix unit reads its pairs of neighbouring columns, or its
 * rows of what lies along rows, from an address a row and a constant. */
#include <stdio.h>

#include "jit/emit/roles/emit.h"

typedef LLVMValueRef V;

static V wide(TsRoles *m, V x) {
  return LLVMBuildSExt(m->e->b, x, ts_emit_int_type(m->e, 64, 0), "");
}

bool ts_roles_in_quads(const TsRoles *m) {
  return m->unit == TS_ROLES_wgmma || (m->unit == TS_ROLES_warps && m->warp_rows == 16);
}

V ts_roles_axes_at(TsRoles *m, const TsTileType *t, const TsTileVal *at, int n) {
  LLVMBuilderRef b = m->e->b;
  V off = ts_emit_i64(m->e, 0);
  for (int i = 0; i < n; i++) {
    V step = ts_emit_i64(m->e, 1), x = wide(m, ts_emit_scalar(m->e, at[i]));
    if (t->strided) step = ts_emit_i64(m->e, t->stride[i]);
    for (int k = i + 1; k < t->rank && !t->strided; k++)
      step = LLVMBuildMul(b, step, ts_emit_size(m->e, t->dim[k]), "");
    off = LLVMBuildAdd(b, off, LLVMBuildMul(b, x, step, ""), "");
  }
  return off;
}

/* The address of an element: its position on the axes before the last, and on the last one. */
static V address(TsRoles *m, const TsTileStmt *s, V row, V col) {
  const TsTileType *t = &s->in[0]->type;
  LLVMBuilderRef b = m->e->b;
  V at = wide(m, ts_emit_scalar(m->e, s->in[1])), by[3] = {NULL, row, col};
  by[0] = ts_emit_scalar(m->e, s->in[2]);
  for (int i = 0; i < 3; i++) {
    at = LLVMBuildMul(b, at, ts_emit_size(m->e, t->dim[1 + i]), "");
    at = LLVMBuildAdd(b, at, wide(m, by[i]), "");
  }
  at = LLVMBuildMul(b, at, ts_emit_i64(m->e, ts_dtypes[t->dtype].nbytes), "");
  return LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0), ts_emit_registers(m->e, s->in[0])[0],
                       &at, 1, "");
}

static V one(TsRoles *m, V at, int off) {
  char text[64];
  snprintf(text, sizeof text, "ld.global.nc.f32 $0, [$1+%d];", off);
  return ts_roles_asm(m, ts_emit_elem(m->e, TS_DT_f32), text, "=f,l", 1, &at, false);
}

/* Two columns: of 16 bits in one register. */
static void two(TsRoles *m, V at, int off, bool pairs, V *to) {
  LLVMTypeRef f32 = ts_emit_elem(m->e, TS_DT_f32);
  char text[64];
  if (pairs) {
    snprintf(text, sizeof text, "ld.global.nc.b32 $0, [$1+%d];", off);
    to[0] = ts_roles_asm(m, ts_roles_i32(m), text, "=r,l", 1, &at, false);
    return;
  }
  LLVMTypeRef both = LLVMStructTypeInContext(m->e->ctx, (LLVMTypeRef[]){f32, f32}, 2, false);
  snprintf(text, sizeof text, "ld.global.nc.v2.f32 {$0, $1}, [$2+%d];", off);
  V x = ts_roles_asm(m, both, text, "=f,=f,l", 1, &at, false);
  to[0] = LLVMBuildExtractValue(m->e->b, x, 0, "");
  to[1] = LLVMBuildExtractValue(m->e->b, x, 1, "");
}

/* Along the rows of the tile: the memory's last axis. */
static void load_rows(TsRoles *m, const TsTileStmt *s) {
  V first = ts_roles_add(m, ts_emit_scalar(m->e, s->in[4]), m->layout.row_base);
  V at = address(m, s, ts_emit_scalar(m->e, s->in[3]), first);
  V *to = ts_roles_define(m, s->out[0], m->layout.nrow);
  for (int r = 0; r < m->layout.nrow; r++) to[r] = one(m, at, 4 * m->layout.row[r]);
}

static void load_columns(TsRoles *m, const TsTileStmt *s, int nrow) {
  const TsTileType *y = &s->out[0]->type;
  bool pairs = ts_roles_is_pairs(y);
  int bytes = ts_dtypes[y->dtype].nbytes, each = pairs ? 1 : 2;
  int ncol = ts_roles_wide(m, y) / 4;
  V first = ts_roles_add(m, ts_emit_scalar(m->e, s->in[4]), m->layout.col_base);
  V *to = ts_roles_define(m, s->out[0], nrow * ncol * each / 2);
  for (int r = 0; r < nrow; r++) {
    V row = ts_emit_scalar(m->e, s->in[3]);
    if (y->rank == 2)
      row = ts_roles_addi(m, ts_roles_add(m, row, m->layout.row_base), m->layout.row[r]);
    V at = address(m, s, row, first);
    for (int c = 0; c < ncol; c += 2) {
      int i = y->rank == 2 ? ts_roles_register(m, ncol, r, c) : c;
      two(m, at, m->layout.col[c] * bytes, pairs, to + i * each / 2);
    }
  }
}

void ts_roles_load_whole(TsRoles *m, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type, *y = &s->out[0]->type;
  bool rows = y->rank == 1 && m->axis[s->out[0]->id] == 1;
  bool fits = ts_roles_in_quads(m) && !t->strided && !ts_tile_attr(s, "edge")->i &&
              ts_tile_attr(s, "axes")->type != TS_ATTR_ints &&
              (t->dtype == TS_DT_f32 || (y->rank == 2 && ts_roles_is_pairs(y)));
  if (!fits) ts_emit_fail(m->e, "a fragment from memory of four axes");
  if (rows)
    load_rows(m, s);
  else
    load_columns(m, s, y->rank == 2 ? m->layout.nrow : 1);
}

/* Two neighbouring columns at a time, where the row is inside. */
void ts_roles_store_heads(TsRoles *m, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type, *x = &s->in[5]->type;
  LLVMBuilderRef b = m->e->b;
  V *reg = ts_emit_registers(m->e, s->in[5]);
  int ncol = ts_roles_wide(m, x) / 4;
  if (!ts_roles_in_quads(m) || !ts_roles_is_pairs(x) || t->rank != 4 ||
      ts_roles_zero(m, s->in[4]) || (t->strided && t->stride[3] != 1))
    ts_emit_fail(m->e, "rows of 16 bits go to heads");
  V head = ts_roles_axes_at(m, t, s->in + 1, 2), end = ts_emit_size(m->e, t->dim[2]);
  V pitch = t->strided ? ts_emit_i64(m->e, t->stride[2]) : ts_emit_size(m->e, t->dim[3]);
  end = LLVMBuildTrunc(b, end, ts_roles_i32(m), "");
  for (int r = 0; r < m->layout.nrow; r++) {
    V row = ts_roles_add(m, ts_emit_scalar(m->e, s->in[3]), m->layout.row_base);
    row = ts_roles_addi(m, row, m->layout.row[r]);
    V in = ts_roles_flag(m, LLVMBuildICmp(b, LLVMIntSLT, row, end, ""));
    V at = LLVMBuildAdd(b, head, LLVMBuildMul(b, wide(m, row), pitch, ""), "");
    at = LLVMBuildAdd(b, at, wide(m, m->layout.col_base), "");
    at = LLVMBuildMul(b, at, ts_emit_i64(m->e, 2), "");
    at = LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0), ts_emit_registers(m->e, s->in[0])[0],
                       &at, 1, "");
    for (int c = 0; c < ncol; c += 2) {
      char text[120];
      V list[3] = {at, in, reg[ts_roles_register(m, ncol, r, c) / 2]};
      snprintf(text, sizeof text,
               "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $1, 0;\n\t"
               "@p st.global.b32 [$0+%d], $2;\n\t}",
               m->layout.col[c] * 2);
      ts_roles_asm(m, NULL, text, "l,r,r,~{memory}", 3, list, true);
    }
  }
}
