/* Rows by their numbers, and codes of 4 bits as operands of a product of warps.
 *
 * The unit adds 16 products at once, so which of its registers has which of 16 neighbouring k
 * is free, if both operands agree. Here a thread has four neighbours: of a row of bf16 they
 * are one load of 8 bytes, of a row of codes one of 2. (Operands that jit/emit/roles/warp.c
 * reads have pairs, 8 apart: the two do not meet.)
 *
 * Of a turned tile (jit/emit/roles/turned.c) codes are the unit's left operand, in the same
 * order of k, and a thread has one row of bf16.
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
/* The row of a turned tile that the thread has of its operand. */
static V operand_row(TsRoles *m) { return ts_roles_shri(m, m->lane, 2); }

void ts_roles_load_numbers(TsRoles *m, const TsTileStmt *s) {
  const TsRolesLayout *l = &m->layout;
  if (m->unit != TS_ROLES_warps) ts_emit_fail(m->e, "numbers of rows are of warps");
  int n = ts_roles_count(m, &s->out[0]->type, 0);
  V *to = ts_roles_define(m, s->out[0], n);
  V first = ts_emit_scalar(m->e, s->in[1]);
  for (int r = 0; r < n; r++) {
    V row = r < l->nrow ? ts_roles_addi(m, l->row_base, l->row[r]) : operand_row(m);
    V at = place_in(m, s->in[0], i64_of(m, ts_roles_add(m, first, row)));
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
  to[1] = LLVMBuildExtractValue(m->e->b, all, 1, "");
}

void ts_roles_load_rows(TsRoles *m, const TsTileStmt *s) {
  TsTileVal memory = s->in[0], y = s->out[0];
  const TsTileType *t = &memory->type;
  int steps = (int)(y->type.dim[1] / STEP), rows = m->turned ? 1 : m->layout.nrow;
  bool inside = ts_tile_attr(s, "inside")->i;
  if (m->unit != TS_ROLES_warps || m->axis[y->id] != TS_ROLES_LEFT ||
      ts_dtypes[t->dtype].nbytes != 2 || t->space != TS_SPACE_global || t->strided ||
      y->type.dim[1] % STEP)
    ts_emit_fail(m->e, "rows by numbers are left operands of warps, of 16 bits");
  V *row = ts_emit_registers(m->e, s->in[1]) + (m->turned ? m->layout.nrow : 0);
  V *to = ts_roles_define(m, y, 2 * rows * steps);
  V own = ts_roles_muli(m, ts_roles_andi(m, m->lane, 3), 4);
  V col = ts_roles_add(m, ts_emit_scalar(m->e, s->in[2]), own),
    left = inside ? NULL : columns_left(m, memory, col);
  for (int r = 0; r < rows; r++) {
    V start = start_of(m, memory, row[r], col), there = is_row(m, memory, row[r]);
    for (int k = 0; k < steps; k++) {
      V by = ts_emit_i64(m->e, (int64_t)k * STEP * 2);
      V at = LLVMBuildGEP2(m->e->b, ts_emit_int_type(m->e, 8, 0), start, &by, 1, "");
      V in = there, four[2];
      if (left)
        in = LLVMBuildAnd(
            m->e->b, in,
            LLVMBuildICmp(m->e->b, LLVMIntSGT, left, ts_roles_int(m, (int64_t)k * STEP), ""),
            "");
      load_four(m, at, in, four);
      V *mine =
          m->turned ? to + (ptrdiff_t)2 * k : to + (ptrdiff_t)4 * (r / 2 * steps + k) + r % 2;
      mine[0] = four[0], mine[m->turned ? 1 : 2] = four[1];
    }
  }
}

/* Two neighbouring columns at a time, which are inside together or not at all. */
void ts_roles_put_rows(TsRoles *m, const TsTileStmt *s) {
  TsTileVal memory = s->in[0], x = s->in[3];
  LLVMBuilderRef b = m->e->b;
  const TsTileType *t = &memory->type;
  int ncol = ts_roles_columns(m, &x->type);
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
      V pair = reg[ts_roles_register(m, ncol, r, c) / 2];
      if (m->turned) pair = ts_roles_turned_pair(m, pair);
      V list[3] = {LLVMBuildGEP2(b, ts_emit_int_type(m->e, 8, 0), start, &by, 1, ""),
                   ts_roles_flag(m, LLVMBuildAnd(b, in, there, "")), pair};
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

/* Scales of two blocks, which lie side by side, as scale_of has them. */
static void scales_of(TsRoles *m, V two, V *to) {
  LLVMBuilderRef b = m->e->b;
  V zero = ts_roles_int(m, 0), x = permuted(m, two, zero, ts_roles_int(m, 0x4140));
  V in[2] = {LLVMBuildShl(b, x, ts_roles_int(m, 7), ""), ts_roles_int(m, 0x400040)};
  V y = ts_roles_asm(m, ts_roles_i32(m), "max.u16x2 $0, $1, $2;", "=r,r,r", 2, in, false);
  V is_nan = ts_roles_andi(m, ts_roles_shri(m, ts_roles_addi(m, x, 0x10001), 2), 0x400040);
  y = LLVMBuildOr(b, y, is_nan, "");
  to[0] = permuted(m, y, y, ts_roles_int(m, 0x1010));
  to[1] = permuted(m, y, y, ts_roles_int(m, 0x3232));
}

/* Where a thread's part of a tile of codes is. */
typedef struct Codes {
  V at, row;    /* its row of the slot, by address and by number */
  V scales;     /* address of its first row's scale */
  V there;      /* whether there are scales, or NULL: yes */
  int64_t each; /* scales of a row */
  int64_t k;    /* of the slot */
} Codes;

/* Four codes of step i, `row` rows further on. */
static V codes_at(TsRoles *m, const Codes *c, int64_t row, int i) {
  int64_t byte = c->k / 2 + (int64_t)i * STEP / 2;
  V chunk = LLVMBuildXor(m->e->b, ts_roles_andi(m, c->row, PATTERN / CHUNK - 1),
                         ts_roles_int(m, byte / CHUNK), "");
  V at = ts_roles_add(m, c->at, ts_roles_muli(m, chunk, CHUNK));
  return shared_at(m, ts_roles_addi(m, at, row * PATTERN + byte % CHUNK), 16);
}

static void scales_at(TsRoles *m, const Codes *c, int64_t row, int blocks, V *to) {
  V at = ts_roles_addi(m, c->scales, row * c->each);
  if (blocks == 2 && !c->there) {
    scales_of(m, shared_at(m, at, 16), to);
    return;
  }
  for (int i = 0; i < blocks; i++) {
    V byte = shared_at(m, ts_roles_addi(m, at, i), 8);
    if (c->there) byte = LLVMBuildSelect(m->e->b, c->there, byte, ts_roles_int(m, 0), "");
    to[i] = scale_of(m, byte);
  }
}

/* The thread's row of the first 16 columns: of the two halves that an operand of 16 has. */
static V first_row(TsRoles *m, int half) {
  if (m->turned) return ts_roles_turned_column(m, half);
  V own = ts_roles_add(m, ts_roles_shri(m, m->lane, 2), ts_roles_muli(m, m->warp_col, BLOCK));
  return ts_roles_addi(m, own, (int64_t)8 * half);
}

static Codes codes_of(TsRoles *m, const TsTileStmt *s, int half) {
  LLVMBuilderRef b = m->e->b;
  Codes c = {.row = first_row(m, half), .k = ts_roles_zero(m, s->in[3])};
  c.each = s->in[1]->type.dim[1] / s->out[0]->type.dim[1];
  c.at = ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[2]));
  c.at = ts_roles_add(m, c.at, ts_roles_muli(m, c.row, PATTERN));
  c.at = ts_roles_add(m, c.at, ts_roles_muli(m, ts_roles_andi(m, m->lane, 3), 2));
  V of = ts_emit_scalar(m->e, s->in[5]);
  if (!ts_tile_attr(s, "inside")->i) {
    c.there = LLVMBuildICmp(b, LLVMIntSLT, of, ts_roles_int(m, c.each), "");
    of = LLVMBuildSelect(b, c.there, of, ts_roles_int(m, 0), "");
  }
  c.scales = ts_roles_slot(m, s->in[1], ts_emit_scalar(m->e, s->in[4]));
  c.scales = ts_roles_add(m, ts_roles_add(m, c.scales, of), ts_roles_muli(m, c.row, c.each));
  return c;
}

/* A block, or two of which there are all scales, in an even number a row. */
void ts_roles_unpack(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  const TsTileType *codes = &s->in[0]->type;
  int block = ts_dtypes[TS_DT_mxfp4].block, steps = (int)(y->type.dim[0] / STEP);
  int deep = (int)(y->type.dim[0] / block), blocks = (int)y->type.dim[1] / (BLOCK * m->across);
  int64_t each = s->in[1]->type.dim[1] / y->type.dim[1];
  if (m->unit != TS_ROLES_warps || m->axis[y->id] != TS_ROLES_RIGHT ||
      ts_roles_zero(m, s->in[3]) % y->type.dim[0] || codes->swizzle != PATTERN ||
      codes->dim[2] != PATTERN || deep > 2 ||
      (deep == 2 && (each % 2 || !ts_tile_attr(s, "inside")->i)))
    ts_emit_fail(m->e, "codes are right operands of warps, one block of them or two");
  V *to = ts_roles_define(m, y, 4 * blocks * steps), scale[2], pair[2];
  for (int half = 0; half < 2; half++) {
    Codes c = codes_of(m, s, half);
    for (int j = 0; j < blocks; j++) {
      int64_t row = (int64_t)j * BLOCK * m->across;
      scales_at(m, &c, row, deep, scale);
      for (int i = 0; i < steps; i++) {
        V *four = to + (ptrdiff_t)4 * (j * steps + i);
        numbers_of(m, codes_at(m, &c, row, i), scale[i * STEP / block], pair);
        four[m->turned ? half : 2 * half] = pair[0];
        four[m->turned ? 2 + half : 2 * half + 1] = pair[1];
      }
    }
  }
}
