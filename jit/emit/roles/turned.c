/* Products of warps of a tile of 8 rows: the unit takes 16 rows of its left operand and 8
 * columns of its right one, so the two change places: columns of the tile are rows of the unit.
 * A row costs half of the unit's steps that way, and the rows' numbers are two registers a
 * step, as one load of 8 bytes brings them.
 *
 * Of sums a thread has two neighbouring columns of each 16 in two neighbouring rows. Which of
 * the two columns is the unit's row g and which is row g + 8 differs between the upper and
 * lower half of the threads: so the eight rows of shared memory that a warp reads at a time are
 * all different modulo 8, as its banks want it. Fragments keep that order; pairs are exchanged
 * where they come from memory and go there. The chain of an element is the same: the unit adds
 * 16 products, whichever factor comes first. */
#include "jit/emit/roles/emit.h"

typedef LLVMValueRef V;

enum { BLOCK = 16, STEP = 16, GROUP = 4 /* threads that share a column */ };

void ts_roles_turned_layout(TsRoles *m) {
  TsRolesLayout *l = &m->layout;
  const TsTileType *t = &m->mma->out[0]->type;
  int across = m->warps;
  if (across < 1 || across > 8 || (across & (across - 1)) || t->dim[1] % (across * BLOCK) ||
      m->info->cluster > 1 || m->mma->in[0]->type.dtype != TS_DT_bf16)
    ts_emit_fail(m->e, "%d warps for a turned tile of %d columns", m->warps, (int)t->dim[1]);
  m->turned = true;
  m->across = across, m->warp_rows = TS_ROLES_TURNED;
  m->warp_row = ts_roles_int(m, 0);
  m->warp_col = ts_roles_andi(m, ts_roles_shri(m, m->t, 5), across - 1);
  l->row_base = ts_roles_muli(m, ts_roles_andi(m, m->lane, GROUP - 1), 2);
  l->col_base = ts_roles_add(m, ts_roles_muli(m, m->warp_col, BLOCK),
                             ts_roles_muli(m, ts_roles_shri(m, m->lane, 2), 2));
  l->nrow = 2, l->row[0] = 0, l->row[1] = 1;
  l->ncol = (int)t->dim[1] / across / 8;
  for (int c = 0; c < TS_ROLES_COLS * 2; c++) l->col[c] = c / 2 * BLOCK * across + c % 2;
}

/* Whether the thread is in the upper half of its warp: i32. */
static V upper(TsRoles *m) { return ts_roles_shri(m, m->lane, 4); }

V ts_roles_turned_column(TsRoles *m, int half) {
  V second = LLVMBuildXor(m->e->b, upper(m), ts_roles_int(m, half), "");
  return ts_roles_add(m, m->layout.col_base, second);
}

V ts_roles_turned_pair(TsRoles *m, V pair) {
  V by = LLVMBuildSelect(m->e->b, ts_roles_equal(m, upper(m), 1), ts_roles_int(m, 0x1032),
                         ts_roles_int(m, 0x3210), "");
  V in[3] = {pair, pair, by};
  return ts_roles_asm(m, ts_roles_i32(m), "prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", 3, in, false);
}

static void multiply(TsRoles *m, V *sum, const V *codes, const V *rows) {
  LLVMTypeRef f = ts_emit_elem(m->e, TS_DT_f32), of[4] = {f, f, f, f};
  V in[10] = {codes[0], codes[1], codes[2], codes[3], rows[0],
              rows[1],  sum[0],   sum[2],   sum[1],   sum[3]};
  V all = ts_roles_asm(m, LLVMStructTypeInContext(m->e->ctx, of, 4, false),
                       "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {$0, $1, $2, $3}, "
                       "{$4, $5, $6, $7}, {$8, $9}, {$0, $1, $2, $3};",
                       "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3", 10, in, false);
  static const int at[4] = {0, 2, 1, 3}; /* the unit has a column's two rows side by side */
  for (int i = 0; i < 4; i++) sum[at[i]] = LLVMBuildExtractValue(m->e->b, all, (unsigned)i, "");
}

void ts_roles_turned_product(TsRoles *m, const TsTileStmt *s) {
  int blocks = ts_roles_wide(m, &s->out[0]->type) / BLOCK;
  int steps = (int)s->in[0]->type.dim[1] / STEP;
  V *rows = ts_emit_registers(m->e, s->in[0]), *codes = ts_emit_registers(m->e, s->in[1]);
  V *old = ts_emit_registers(m->e, s->in[2]), *to = ts_roles_define(m, s->out[0], 4 * blocks);
  for (int j = 0; j < blocks; j++) {
    V *sum = to + (ptrdiff_t)4 * j;
    for (int i = 0; i < 4; i++) sum[i] = old[4 * j + i];
    for (int k = 0; k < steps; k++)
      multiply(m, sum, codes + (ptrdiff_t)4 * (j * steps + k), rows + (ptrdiff_t)2 * k);
  }
}
