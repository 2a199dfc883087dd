/* Rows by their numbers, and codes of 4 bits as operands of a product of warps.
 *
 * The unit adds 16 products at once, so which of its registers has which of 16 neighbouring k
 * is free, if both operands agree. Here a thread has four neighbours: of a row of bf16 they
 * are one load of 8 bytes, of a row of codes one of 2. (Operands that jit/emit/roles/warp.c
 * reads have pairs, 8 apart: the two do not meet.)
 *
 * Four codes become four numbers by permutes of bytes, whose selectors they are: the upper
 * byte of the number, the lower one, and the sign, which the permute spreads over a byte.
 * Times the scale they are exact. */
#include "jit/emit/roles/emit.h"

typedef LLVMValueRef V;

enum { BLOCK = 16, STEP = 16, PATTERN = 128, CHUNK = 16 };

/* ---- small things */
static V shared_at(TsRoles *m, V at, int bits) {
  LLVMBuilderRef b = m->e->b;
  at = LLVMBuildIntToPtr(b, at, LLVMPointerTypeInContext(m->e->ctx, 3), "");
  V x = LLVMBuildLoad2(b, ts_emit_int_type(m->e, bits, 0), at, "");
  LLVMSetAlignment(x, (unsigned)bits / 8);
  return LLVMBuildZExt(b, x, ts_roles_i32(m), "");
}

static V permuted(TsRoles *m, V low, V high, V by) {
  V in[3] = {low, high, by};
  return ts_roles_asm(m, ts_roles_i32(m), "prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", 3, in, false);
}

static V i64_of(TsRoles *m, V x) {
  return LLVMBuildSExt(m->e->b, x, ts_emit_int_type(m->e, 64, 0), "");
}

static V place_in(TsRoles *m, TsTileVal memory, V element) {
  LLVMBuilderRef b = m->e->b;
  V at = LLVMBuildMul(b, element, ts_emit_i64(m->e, ts_dtypes[memory->type.dtype].nbytes), "");
  return LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0), ts_emit_registers(m->e, memory)[0], &at,
                       1, "");
}

/* ---- rows */
void ts_roles_load_numbers(TsRoles *m, const TsTileStmt *s) {
  const TsRolesLayout *l = &m->layout;
  if (m->unit != TS_ROLES_warps) ts_emit_fail(m->e, "numbers of rows are of warps");
  V *to = ts_roles_define(m, s->out[0], l->nrow);
  V first = ts_roles_add(m, ts_emit_scalar(m->e, s->in[1]), l->row_base);
  for (int r = 0; r < l->nrow; r++) {
    V at = place_in(m, s->in[0], i64_of(m, ts_roles_addi(m, first, l->row[r])));
    to[r] = LLVMBuildLoad2(m->e->b, ts_roles_i32(m), at, "");
    LLVMSetAlignment(to[r], 8);
  }
}

/* Whether there is such a row: of negative numbers, none. */
static V is_row(TsRoles *m, TsTileVal memory, V row) {
  V rows =
      LLVMBuildTrunc(m->e->b, ts_emit_size(m->e, memory->type.dim[0]), ts_roles_i32(m), "");
  return LLVMBuildICmp(m->e->b, LLVMIntULT, row, rows, "");
}

static V start_of(TsRoles *m, TsTileVal memory, V row, V col) {
  LLVMBuilderRef b = m->e->b;
  V at = LLVMBuildMul(b, i64_of(m, row), ts_emit_size(m->e, memory->type.dim[1]), "");
  return place_in(m, memory, LLVMBuildAdd(b, at, i64_of(m, col), ""));
}

static V columns_left(TsRoles *m, TsTileVal memory, V col) {
  V n = LLVMBuildTrunc(m->e->b, ts_emit_size(m->e, memory->type.dim[1]), ts_roles_i32(m), "");
  return LLVMBuildSub(m->e->b, n, col, "");
}

/* Four neighbours, of which all are inside or none is. */
static void load_four(TsRoles *m, V at, V in, V *to) {
  LLVMTypeRef two[2] = {ts_roles_i32(m), ts_roles_i32(m)};
  V list[2] = {at, ts_roles_flag(m, in)};
  V all = ts_roles_asm(m, LLVMStructTypeInContext(m->e->ctx, two, 2, false),
                       "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $3, 0;\n\tmov.b32 $0, 0;\n\t"
                       "mov.b32 $1, 0;\n\t@p ld.global.nc.v2.b32 {$0, $1}, [$2];\n\t}",
                       "=&r,=&r,l,r", 2, list, false);
  to[0] = LLVMBuildExtractValue(m->e->b, all, 0, "");
  to[2] = LLVMBuildExtractValue(m->e->b, all, 1, "");
}

void ts_roles_load_rows(TsRoles *m, const TsTileStmt *s) {
  TsTileVal memory = s->in[0], y = s->out[0];
  const TsTileType *t = &memory->type;
  int steps = (int)(y->type.dim[1] / STEP), blocks = m->layout.nrow / 2;
  if (m->unit != TS_ROLES_warps || m->axis[y->id] != TS_ROLES_LEFT ||
      ts_dtypes[t->dtype].nbytes != 2 || t->space != TS_SPACE_global || t->strided ||
      y->type.dim[1] % STEP)
    ts_emit_fail(m->e, "rows by numbers are left operands of warps, of 16 bits");
  V *row = ts_emit_registers(m->e, s->in[1]), *to = ts_roles_define(m, y, 4 * blocks * steps);
  V own = ts_roles_muli(m, ts_roles_andi(m, m->lane, 3), 4);
  V col = ts_roles_add(m, ts_emit_scalar(m->e, s->in[2]), own),
    left = columns_left(m, memory, col);
  for (int r = 0; r < 2 * blocks; r++) {
    V start = start_of(m, memory, row[r], col), there = is_row(m, memory, row[r]);
    for (int k = 0; k < steps; k++) {
      V by = ts_emit_i64(m->e, (int64_t)k * STEP * 2);
      V at = LLVMBuildGEP2(m->e->b, ts_emit_int_type(m->e, 8, 0), start, &by, 1, "");
      V in = LLVMBuildICmp(m->e->b, LLVMIntSGT, left, ts_roles_int(m, (int64_t)k * STEP), "");
      in = LLVMBuildAnd(m->e->b, in, there, "");
      load_four(m, at, in, to + (ptrdiff_t)4 * (r / 2 * steps + k) + r % 2);
    }
  }
}

/* Two neighbouring columns at a time, which are inside together or not at all. */
void ts_roles_put_rows(TsRoles *m, const TsTileStmt *s) {
  TsTileVal memory = s->in[0], x = s->in[3];
  LLVMBuilderRef b = m->e->b;
  const TsTileType *t = &memory->type;
  int ncol = ts_roles_wide(m, &x->type) / 4;
  if (m->unit != TS_ROLES_warps || !ts_roles_is_pairs(&x->type) ||
      t->space != TS_SPACE_global || t->strided)
    ts_emit_fail(m->e, "rows by numbers are of warps, of 16 bits");
  V *row = ts_emit_registers(m->e, s->in[1]), *reg = ts_emit_registers(m->e, x);
  V col = ts_roles_add(m, ts_emit_scalar(m->e, s->in[2]), m->layout.col_base),
    left = columns_left(m, memory, col);
  for (int r = 0; r < m->layout.nrow; r++) {
    V start = start_of(m, memory, row[r], col), there = is_row(m, memory, row[r]);
    for (int c = 0; c < ncol; c += 2) {
      V by = ts_emit_i64(m->e, (int64_t)m->layout.col[c] * ts_dtypes[t->dtype].nbytes);
      V in = LLVMBuildICmp(b, LLVMIntSGT, left, ts_roles_int(m, m->layout.col[c]), "");
      V list[3] = {LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0), start, &by, 1, ""),
                   ts_roles_flag(m, LLVMBuildAnd(b, in, there, "")),
                   reg[ts_roles_register(m, ncol, r, c) / 2]};
      ts_roles_asm(m, NULL,
                   "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $1, 0;\n\t@p st.global.b32 [$0], "
                   "$2;\n\t}",
                   "l,r,r,~{memory}", 3, list, true);
    }
  }
}

/* ---- codes */
/* 2^(scale - 127) twice: the exponent; half the least normal number for 0, NaN for 255. */
static V scale_of(TsRoles *m, V byte) {
  LLVMBuilderRef b = m->e->b;
  V half = ts_roles_int(m, 0x40), x = LLVMBuildShl(b, byte, ts_roles_int(m, 7), "");
  V low = LLVMBuildICmp(b, LLVMIntULT, x, half, "");
  x = LLVMBuildSelect(b, low, half, x, "");
  V is_nan = ts_roles_andi(m, ts_roles_shri(m, ts_roles_addi(m, byte, 1), 2), 0x40);
  x = LLVMBuildOr(b, x, is_nan, "");
  return permuted(m, x, x, ts_roles_int(m, 0x1010));
}

static V scaled(TsRoles *m, V x, V scale) {
  V in[3] = {x, scale, ts_roles_int(m, 0x80008000)}; /* -0 keeps zeros as they are */
  return ts_roles_asm(m, ts_roles_i32(m), "fma.rn.bf16x2 $0, $1, $2, $3;", "=r,r,r,r", 3, in,
                      false);
}

/* Codes 0 .. 3 as two registers of two numbers: 0 0.5 1 1.5 2 3 4 6, and the sign. */
static void numbers_of(TsRoles *m, V codes, V scale, V *to) {
  LLVMBuilderRef b = m->e->b;
  V bare = ts_roles_andi(m, codes, 0x7777), ones = ts_roles_int(m, 0x80808080);
  V high = permuted(m, ts_roles_int(m, 0x3f3f3f00), ts_roles_int(m, 0x40404040), bare);
  V low = permuted(m, ts_roles_int(m, 0xc0800000), ts_roles_int(m, 0xc0804000), bare);
  V sign = permuted(m, ones, ones, codes); /* 0x80, or 0xff where the selector spreads it */
  sign = LLVMBuildAnd(b, LLVMBuildShl(b, sign, ts_roles_int(m, 1), ""), ones, "");
  high = LLVMBuildOr(b, high, sign, "");
  to[0] = scaled(m, permuted(m, low, high, ts_roles_int(m, 0x5140)), scale);
  to[1] = scaled(m, permuted(m, low, high, ts_roles_int(m, 0x7362)), scale);
}

void ts_roles_unpack(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  LLVMBuilderRef b = m->e->b;
  const TsTileType *codes = &s->in[0]->type, *scales = &s->in[1]->type;
  int block = ts_dtypes[TS_DT_mxfp4].block, steps = (int)(y->type.dim[0] / STEP);
  int64_t k = ts_roles_zero(m, s->in[3]), each = scales->dim[1] / y->type.dim[1];
  int blocks = (int)y->type.dim[1] / (BLOCK * m->across);
  if (m->unit != TS_ROLES_warps || m->axis[y->id] != TS_ROLES_RIGHT || k % block ||
      codes->swizzle != PATTERN || codes->dim[2] != PATTERN || y->type.dim[0] != block)
    ts_emit_fail(m->e, "codes are right operands of warps, a block of them");
  V *to = ts_roles_define(m, y, 4 * blocks * steps);
  V own = ts_roles_shri(m, m->lane, 2), lane = ts_roles_andi(m, m->lane, 3);
  V first = ts_roles_add(m, own, ts_roles_muli(m, m->warp_col, BLOCK));
  V chunk = LLVMBuildXor(b, own, ts_roles_int(m, k / 2 / CHUNK), "");
  V at = ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[2]));
  at = ts_roles_add(m, at, ts_roles_muli(m, first, PATTERN));
  at = ts_roles_add(m, at, ts_roles_muli(m, chunk, CHUNK));
  at = ts_roles_add(m, at, ts_roles_muli(m, lane, 2));
  V of = ts_emit_scalar(m->e, s->in[5]);
  V there = LLVMBuildICmp(b, LLVMIntSLT, of, ts_roles_int(m, each), "");
  of = LLVMBuildSelect(b, there, of, ts_roles_int(m, 0), "");
  V by = ts_roles_slot(m, s->in[1], ts_emit_scalar(m->e, s->in[4]));
  by = ts_roles_add(m, ts_roles_add(m, by, of), ts_roles_muli(m, first, each));
  for (int j = 0; j < blocks; j++)
    for (int half = 0; half < 2; half++) {
      int64_t row = (int64_t)j * BLOCK * m->across + 8 * half;
      V scale = shared_at(m, ts_roles_addi(m, by, row * each), 8);
      scale = scale_of(m, LLVMBuildSelect(b, there, scale, ts_roles_int(m, 0), ""));
      for (int i = 0; i < steps; i++) {
        V four = shared_at(m, ts_roles_addi(m, at, row * PATTERN + i * STEP / 2), 16);
        numbers_of(m, four, scale, to + (ptrdiff_t)4 * (j * steps + i) + 2 * half);
      }
    }
}
