/* Fragments: from and to memory, parts of them; jit/emit/roles/cast.c has their types.
 * 16-bit floats of the matrix unit are pairs of neighbouring columns in one register. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/roles/emit.h"

typedef LLVMValueRef V;

enum {
  PATTERN = 128,
  PIECE = 32, /* bytes */
  GROUP_ROWS = 64,
  GROUP_BYTES = 64 * 128,
  WARP_BYTES = 16 * 128
};

bool ts_roles_is_pairs(const TsTileType *t) {
  return t->space == TS_SPACE_fragment && ts_dtypes[t->dtype].nbytes == 2;
}

/* Of element (r, c) of a thread whose tile has ncol columns. */
int ts_roles_register(const TsRoles *m, int ncol, int r, int c) {
  if (!ts_roles_in_blocks(m)) return r * ncol + c;
  return r / 2 * 2 * ncol + c / 2 * 4 + r % 2 * 2 + c % 2;
}

/* ---- positions */
static V wide(TsRoles *m, V x) {
  return LLVMBuildSExt(m->e->b, x, ts_emit_int_type(m->e, 64, 0), "");
}

static V row_of(TsRoles *m, V first, int r) {
  return ts_roles_addi(m, ts_roles_add(m, first, m->layout.row_base), m->layout.row[r]);
}

/* A row of a thread in a parameter, or a line of rank 1: where it begins, and what of it is
 * inside. Elements are found from there by constants. */
typedef struct Line {
  V in;    /* the row is inside; NULL: there is no row */
  V left;  /* columns (i32) from the thread's first one to the end, or less than 1 */
  V start; /* pointer to the thread's first column */
  int bytes;
} Line;

static V column_inside(TsRoles *m, const Line *l, int c) {
  LLVMBuilderRef b = m->e->b;
  V in = LLVMBuildICmp(b, LLVMIntSGT, l->left, ts_roles_int(m, m->layout.col[c]), "");
  return l->in ? LLVMBuildAnd(b, in, l->in, "") : in;
}

static V moved(TsRoles *m, V pointer, V by) {
  return LLVMBuildGEP2(m->e->b, ts_emit_int_type(m->e, 8, 0), pointer, &by, 1, "");
}

static V column_at(TsRoles *m, const Line *l, int c) {
  return moved(m, l->start, ts_emit_i64(m->e, (int64_t)m->layout.col[c] * l->bytes));
}

/* Where rows that are stored end, or NULL. */
static V end_of(TsRoles *m, const TsTileStmt *s) {
  return s->op == TS_TILE_store_below ? ts_emit_scalar(m->e, s->in[s->nin - 2]) : NULL;
}

static void end_line(TsRoles *m, Line *l, V row, V end) {
  LLVMBuilderRef b = m->e->b;
  if (end) l->in = LLVMBuildAnd(b, l->in, LLVMBuildICmp(b, LLVMIntSLT, row, end, ""), "");
}

/* row NULL: of rank 1. col: the first column of the tile. Of rank 4: of matrix `of`. */
static Line line_of(TsRoles *m, TsTileVal memory, V of, V row, V col) {
  LLVMBuilderRef b = m->e->b;
  const TsTileType *t = &memory->type;
  Line l = {.bytes = ts_dtypes[t->dtype].nbytes};
  V first = ts_roles_add(m, col, m->layout.col_base), at = wide(m, first);
  V end = ts_emit_size(m->e, t->dim[t->rank - 1]);
  l.left = LLVMBuildSub(b, LLVMBuildTrunc(b, end, ts_roles_i32(m), ""), first, "");
  if (row) {
    V rows = ts_emit_size(m->e, t->dim[t->rank - 2]), wide_row = wide(m, row);
    l.in = LLVMBuildICmp(b, LLVMIntSLT, wide_row, rows, "");
    if (of) wide_row = LLVMBuildAdd(b, wide_row, LLVMBuildMul(b, of, rows, ""), "");
    at = LLVMBuildAdd(b, at, LLVMBuildMul(b, wide_row, end, ""), "");
  }
  at = LLVMBuildMul(b, at, ts_emit_i64(m->e, l.bytes), "");
  l.start = moved(m, ts_emit_registers(m->e, memory)[0], at);
  return l;
}

/* n elements from one address on if `in`, else zeros: what is outside is not touched. In text,
 * since a choice between addresses would be more work than the load. */
static V load_if(TsRoles *m, V in, V at, LLVMTypeRef type, int bytes) {
  LLVMBuilderRef b = m->e->b;
  V list[2] = {at, ts_roles_flag(m, in)};
  char text[200];
  LLVMTypeRef bits = ts_emit_int_type(m->e, bytes < 4 ? 16 : 8 * bytes, 0);
  const char *kind = bytes == 8 ? "64" : bytes == 4 ? "32" : "16";
  snprintf(text, sizeof text,
           "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $2, 0;\n\tmov.b%s $0, 0;\n\t"
           "@p ld.global.nc.b%s $0, [$1];\n\t}",
           kind, kind);
  V x = ts_roles_asm(m, bits, text,
                     bytes == 8   ? "=&l,l,r"
                     : bytes == 4 ? "=&r,l,r"
                                  : "=&h,l,r",
                     2, list, false);
  return LLVMBuildBitCast(b, x, type, "");
}

/* ---- loads of fragments from parameters: what an epilogue reads */
static void load_pair(TsRoles *m, TsTileVal memory, const Line *l, int c, V *to, bool pairs) {
  TsDtype d = (TsDtype)memory->type.dtype;
  TsEmit *e = m->e;
  V in = column_inside(m, l, c), at = column_at(m, l, c);
  if (pairs) {
    to[0] = load_if(m, in, at, ts_roles_i32(m), 4);
    if (m->turned) to[0] = ts_roles_turned_pair(m, to[0]);
    return;
  }
  if (m->turned) ts_emit_fail(e, "turned tiles load 16 bits");
  V x = load_if(m, in, at, ts_emit_type(e, d, 2), 2 * ts_dtypes[d].nbytes);
  to[0] = ts_emit_lane(e, x, 0), to[1] = ts_emit_lane(e, x, 1);
}

static void load_unit(TsRoles *m, const TsTileStmt *s, int nrow, const Line *line, V *to) {
  bool pairs = ts_roles_is_pairs(&s->out[0]->type);
  int ncol = ts_roles_columns(m, &s->out[0]->type), each = pairs ? 1 : 2;
  for (int c = 0; c < ncol; c += 2)
    for (int r = 0; r < nrow; r++)
      load_pair(m, s->in[0], &line[r], c,
                to + (nrow == 1 ? c / 2 * each : ts_roles_register(m, ncol, r, c) * each / 2),
                pairs);
}

static void load_fma(TsRoles *m, const TsTileStmt *s, int nrow, const Line *line, V *to) {
  TsDtype d = (TsDtype)s->in[0]->type.dtype;
  int ncol = m->layout.ncol;
  for (int r = 0; r < nrow; r++)
    for (int c = 0; c < ncol; c++)
      to[r * ncol + c] = load_if(m, column_inside(m, &line[r], c), column_at(m, &line[r], c),
                                 ts_emit_elem(m->e, d), ts_dtypes[d].nbytes);
}

static void load_parameter(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  TsTileVal memory = s->in[0];
  int rank = y->type.rank, nrow = rank == 2 ? m->layout.nrow : 1;
  Line line[16];
  if (rank == 1 && m->axis[y->id] != 2) ts_emit_fail(m->e, "a fragment along rows");
  for (int r = 0; r < nrow; r++) {
    V row = rank == 2 ? row_of(m, ts_emit_scalar(m->e, s->in[1]), r) : NULL;
    line[r] = line_of(m, memory, NULL, row, ts_emit_scalar(m->e, s->in[rank]));
  }
  V *to = ts_roles_define(m, y, nrow * ts_roles_columns(m, &y->type));
  if (ts_roles_in_blocks(m))
    load_unit(m, s, nrow, line, to);
  else
    load_fma(m, s, nrow, line, to);
}

/* A piece of the columns of a pattern, from where store_piece put it: the address of the
 * warp's first row; col: the first column, in units of 16 bytes. */
static V piece_address(TsRoles *m, TsTileVal memory, const TsTileVal *at, const TsTileType *x,
                       int *first) {
  const TsTileType *t = &memory->type;
  int bytes = ts_dtypes[t->dtype].nbytes, wide = (int)x->dim[1] * bytes;
  int64_t col = ts_roles_zero(m, at[2]) * bytes;
  int64_t own = ts_roles_own(m, t, 1), each = m->layout.nrow / 2;
  bool fits = m->unit == TS_ROLES_wgmma && t->swizzle == PATTERN &&
              t->dim[2] * bytes % PATTERN == 0 && wide % PIECE == 0 &&
              col % PATTERN + wide <= PATTERN && col % PIECE == 0 && x->dim[0] == t->dim[1] &&
              own == m->warps * 16 * each;
  if (!fits || ts_roles_zero(m, at[1]))
    ts_emit_fail(m->e, "shared memory takes pieces of the columns of its pattern");
  *first = (int)(col % PATTERN) / 16;
  V to = ts_roles_slot(m, memory, ts_emit_scalar(m->e, at[0]));
  to = ts_roles_addi(m, to, col / PATTERN * PATTERN * own);
  to = ts_roles_add(m, to, ts_roles_muli(m, m->group, GROUP_BYTES));
  return ts_roles_add(m, to, ts_roles_muli(m, m->warp, WARP_BYTES * each));
}

/* Where columns 8j .. 8j+15 of the row of 16 bytes are that a thread gives the address of. */
static V matrix_at(TsRoles *m, V at, int j) {
  LLVMBuilderRef b = m->e->b;
  V place = ts_roles_andi(m, m->lane, 7), half = ts_roles_shri(m, m->lane, 4);
  V chunk = LLVMBuildXor(b, ts_roles_addi(m, half, j), place, "");
  at = ts_roles_add(m, at, ts_roles_muli(m, ts_roles_andi(m, m->lane, 15), PATTERN));
  return ts_roles_add(m, at, LLVMBuildShl(b, chunk, ts_roles_int(m, 4), ""));
}

/* By threads that do not multiply: what others put there. Four 8x8 matrices at a time. */
static void load_piece(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  int first, ncol = ts_roles_columns(m, &y->type), each = m->layout.nrow / 2;
  if (!ts_roles_is_pairs(&y->type)) ts_emit_fail(m->e, "pieces that are read have 16 bits");
  V at = piece_address(m, s->in[0], s->in + 1, &y->type, &first);
  V *to = ts_roles_define(m, y, each * ncol);
  LLVMTypeRef four[4];
  for (int i = 0; i < 4; i++) four[i] = ts_roles_i32(m);
  LLVMTypeRef type = LLVMStructTypeInContext(m->e->ctx, four, 4, false);
  for (int q = 0; q < each; q++)
    for (int j = 0; j < ncol / 2; j += 2) {
      V in = matrix_at(m, ts_roles_addi(m, at, q * WARP_BYTES), first + j);
      V all = ts_roles_asm(m, type,
                           "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4];",
                           "=r,=r,=r,=r,r,~{memory}", 1, &in, true);
      for (int i = 0; i < 4; i++)
        to[q * ncol + 2 * j + i] = LLVMBuildExtractValue(m->e->b, all, (unsigned)i, "");
    }
}

/* Columns from a slot of shared memory, two neighbours at a time. */
static void load_slot_line(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  const TsTileType *t = &s->in[0]->type;
  LLVMBuilderRef b = m->e->b;
  if (t->rank != 2 || t->dtype != TS_DT_f32 || m->unit != TS_ROLES_wgmma || m->axis[y->id] != 2)
    ts_emit_fail(m->e, "lines of shared memory are columns of f32");
  int n = ts_roles_columns(m, &y->type);
  V *to = ts_roles_define(m, y, n),
    at = ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[1]));
  at = ts_roles_addi(m, at, ts_roles_zero(m, s->in[2]) * 4);
  at = ts_roles_add(m, at, ts_roles_muli(m, m->layout.col_base, 4));
  for (int c = 0; c < n; c += 2) {
    V from = ts_roles_addi(m, at, m->layout.col[c] * 4);
    from = LLVMBuildIntToPtr(b, from, LLVMPointerTypeInContext(m->e->ctx, 3), "");
    V two = LLVMBuildLoad2(b, ts_emit_type(m->e, TS_DT_f32, 2), from, "");
    LLVMSetAlignment(two, 8);
    to[c] = ts_emit_lane(m->e, two, 0), to[c + 1] = ts_emit_lane(m->e, two, 1);
  }
}

static bool is_operand(const TsTileRegion *r, TsTileVal x) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool product = s->op == TS_TILE_mma || s->op == TS_TILE_outer;
    if (product && (s->in[0] == x || s->in[1] == x)) return true;
    for (int i = 0; i < s->nregion; i++)
      if (is_operand(s->region[i], x)) return true;
  }
  return false;
}

/* Columns that were copied to shared memory of one axis: a pair of neighbours at a time. */
static void load_line(TsRoles *m, const TsTileStmt *s) {
  TsTileVal memory = s->in[0], y = s->out[0];
  TsDtype d = (TsDtype)memory->type.dtype;
  int bytes = ts_dtypes[d].nbytes, ncol = ts_roles_columns(m, &y->type);
  bool pairs = ts_roles_is_pairs(&y->type);
  if (m->unit != TS_ROLES_wgmma || m->axis[y->id] != 2 || (!pairs && d != TS_DT_f32))
    ts_emit_fail(m->e, "a line of shared memory");
  V at = ts_roles_add(m, ts_emit_scalar(m->e, s->in[1]), m->layout.col_base);
  at = ts_roles_add(m, ts_emit_registers(m->e, memory)[0], ts_roles_muli(m, at, bytes));
  V *to = ts_roles_define(m, y, pairs ? ncol / 2 : ncol);
  LLVMTypeRef type = pairs ? ts_roles_i32(m) : ts_emit_type(m->e, d, 2);
  for (int c = 0; c < ncol; c += 2) {
    V from = ts_roles_addi(m, at, (int64_t)m->layout.col[c] * bytes);
    from = LLVMBuildIntToPtr(m->e->b, from, LLVMPointerTypeInContext(m->e->ctx, 3), "");
    V x = LLVMBuildLoad2(m->e->b, type, from, "");
    LLVMSetAlignment(x, (unsigned)(2 * bytes));
    LLVMSetVolatile(x, true); /* stays behind the wait for the copy */
    if (pairs)
      to[c / 2] = x;
    else
      to[c] = ts_emit_lane(m->e, x, 0), to[c + 1] = ts_emit_lane(m->e, x, 1);
  }
}

void ts_roles_load(TsRoles *m, const TsTileStmt *s) {
  const TsTileType *from = &s->in[0]->type;
  if (s->out[0]->type.space != TS_SPACE_fragment) {
    ts_roles_load_scalar(m, s);
    return;
  }
  if (from->space == TS_SPACE_shared) {
    if (m->unit == TS_ROLES_warps)
      ts_roles_warps_load(m, s);
    else if (s->out[0]->type.rank == 1 && from->rank == 2)
      load_slot_line(m, s);
    else if (from->rank == 1)
      load_line(m, s);
    else if (!is_operand(m->role->region[0], s->out[0]))
      load_piece(m, s);
    return; /* else its product reads it */
  }
  if (from->space == TS_SPACE_global && from->rank == 4) {
    ts_roles_load_whole(m, s);
    return;
  }
  if (from->space == TS_SPACE_global && from->rank == 1 && m->axis[s->out[0]->id] == 1 &&
      from->dtype == TS_DT_i64) {
    ts_roles_load_numbers(m, s);
    return;
  }
  if (from->space != TS_SPACE_global || from->strided || from->rank != s->out[0]->type.rank)
    ts_emit_fail(m->e, "a fragment from other memory");
  load_parameter(m, s);
}

/* ---- stores of the matrix unit: a piece as wide as the pattern, to shared memory */
/* Four 8x8 matrices at a time: threads give addresses of rows, 16 of them and two columns of
 * 16 bytes. */
static void store_pairs(TsRoles *m, V at, int first, int ncol, V *pair) {
  for (int q = 0; q < m->layout.nrow / 2; q++)
    for (int j = 0; j < ncol / 2; j += 2) {
      V in[5] = {matrix_at(m, ts_roles_addi(m, at, q * WARP_BYTES), first + j)};
      memcpy(in + 1, pair + q * ncol + 2 * j, 4 * sizeof *in);
      ts_roles_asm(m, NULL, "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};",
                   "r,r,r,r,r,~{memory}", 5, in, true);
    }
}

static void store_singles(TsRoles *m, V at, int ncol, bool whole, V *reg) {
  LLVMBuilderRef b = m->e->b;
  V row = ts_roles_shri(m, m->lane, 2), odd = ts_roles_andi(m, ts_roles_shri(m, m->lane, 1), 1);
  V inner = ts_roles_muli(m, ts_roles_andi(m, m->lane, 1), 8);
  at = ts_roles_add(m, ts_roles_add(m, at, inner), ts_roles_muli(m, row, PATTERN));
  V exchange = LLVMBuildXor(b, row, odd, "");
  for (int j = 0; j < ncol / 2; j++) {
    V chunk = LLVMBuildXor(b, exchange, ts_roles_int(m, 2 * j), "");
    V to = ts_roles_add(m, at, LLVMBuildShl(b, chunk, ts_roles_int(m, 4), ""));
    for (int r = 0; r < 2; r++) {
      V in[3] = {ts_roles_addi(m, to, r * 8 * PATTERN), reg[4 * j + 2 * r],
                 reg[4 * j + 2 * r + 1]};
      ts_roles_asm(m, NULL, "st.shared.v2.b32 [$0], {$1, $2};",
                   whole ? "r,r,r,~{memory}" : "r,f,f,~{memory}", 3, in, true);
    }
  }
}

static void store_piece(TsRoles *m, const TsTileStmt *s) {
  TsTileVal memory = s->in[0], x = s->in[4];
  const TsTileType *t = &memory->type;
  int first, ncol = ts_roles_columns(m, &x->type);
  V at = piece_address(m, memory, s->in + 1, &x->type, &first);
  if (ts_dtypes[t->dtype].nbytes == 2)
    store_pairs(m, at, first, ncol, ts_emit_registers(m->e, x));
  else if ((t->dtype == TS_DT_f32 || t->dtype == TS_DT_i32) && m->layout.nrow == 2 &&
           ncol == PATTERN / 16)
    store_singles(m, at, ncol, t->dtype == TS_DT_i32, ts_emit_registers(m->e, x));
  else
    ts_emit_fail(m->e, "a matrix unit stores no %s", ts_dtype_name((TsDtype)t->dtype));
}

/* A panel of 32 columns of f32, in a loop where shared memory has no time to lose. Half a warp
 * writes 8 bytes a thread to four rows, of which two neighbours fall into the same banks in the
 * pattern; so odd rows write their columns in another order, 16 apart. */
static void store_quick(TsRoles *m, V at, V *reg) {
  LLVMBuilderRef b = m->e->b;
  V row = ts_roles_shri(m, m->lane, 2), odd = ts_roles_andi(m, ts_roles_shri(m, m->lane, 1), 1);
  V odd_row = ts_roles_andi(m, row, 1),
    inner = ts_roles_muli(m, ts_roles_andi(m, m->lane, 1), 8);
  V is = LLVMBuildICmp(b, LLVMIntNE, odd_row, ts_roles_int(m, 0), "");
  at = ts_roles_add(m, ts_roles_add(m, at, inner), ts_roles_muli(m, row, PATTERN));
  V exchange = LLVMBuildXor(b, LLVMBuildXor(b, row, odd, ""), ts_roles_muli(m, odd_row, 4), "");
  for (int j = 0; j < 4; j++) {
    V chunk = LLVMBuildXor(b, exchange, ts_roles_int(m, 2 * j), "");
    V to = ts_roles_add(m, at, LLVMBuildShl(b, chunk, ts_roles_int(m, 4), ""));
    for (int r = 0; r < 2; r++) {
      V in[3] = {ts_roles_addi(m, to, r * 8 * PATTERN)};
      for (int c = 0; c < 2; c++)
        in[1 + c] =
            LLVMBuildSelect(b, is, reg[4 * (j ^ 2) + 2 * r + c], reg[4 * j + 2 * r + c], "");
      ts_roles_asm(m, NULL, "st.shared.v2.f32 [$0], {$1, $2};", "r,f,f,~{memory}", 3, in, true);
    }
  }
}

/* 64 rows whose columns the groups divide: panels of each. */
static void store_columns(TsRoles *m, const TsTileStmt *s) {
  TsTileVal memory = s->in[0], x = s->in[4];
  const TsTileType *t = &memory->type;
  int ncol = ts_roles_columns(m, &x->type), each = PATTERN / 4 / 4; /* of a panel, in a thread */
  int64_t panel = t->dim[1] * PATTERN;
  bool fits = t->dtype == TS_DT_f32 && t->swizzle == PATTERN && t->dim[1] == GROUP_ROWS &&
              t->dim[2] == x->type.dim[1] && ncol % each == 0 && !ts_roles_zero(m, s->in[2]) &&
              !ts_roles_zero(m, s->in[3]);
  if (!fits) ts_emit_fail(m->e, "columns of groups are stored whole, as f32");
  V at = ts_roles_slot(m, memory, ts_emit_scalar(m->e, s->in[1]));
  at = ts_roles_add(m, at, ts_roles_muli(m, m->group, ncol / each * panel));
  at = ts_roles_add(m, at, ts_roles_muli(m, m->warp, WARP_BYTES));
  for (int i = 0; i < ncol / each; i++)
    store_quick(m, ts_roles_addi(m, at, i * panel),
                ts_emit_registers(m->e, x) + (ptrdiff_t)(i * each * 2));
}

/* ---- stores to a parameter */
/* n neighbouring elements if `in`: rows of a matrix whose columns the copy engine can fetch are
 * whole pieces of 16 bytes, so that all of them are inside, or none. */
static void store_if(TsRoles *m, V in, V at, TsDtype d, int n, V *x) {
  bool half = ts_dtypes[d].nbytes == 2;
  const char *kind = half ? "b16" : d == TS_DT_f32 ? "f32" : "f64";
  char text[160], constraints[64];
  V list[6] = {at, ts_roles_flag(m, in)};
  int used = snprintf(text, sizeof text,
                      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $1, 0;\n\t@p st.global%s.%s [$0], ",
                      n == 4   ? ".v4"
                      : n == 2 ? ".v2"
                               : "",
                      kind);
  int c = snprintf(constraints, sizeof constraints, "l,r");
  for (int i = 0; i < n; i++) {
    list[2 + i] = x[i];
    used += snprintf(text + used, sizeof text - (size_t)used, "%s$%d",
                     i       ? ", "
                     : n > 1 ? "{"
                             : "",
                     2 + i);
    c += snprintf(constraints + c, sizeof constraints - (size_t)c,
                  half             ? ",h"
                  : d == TS_DT_f32 ? ",f"
                                   : ",d");
  }
  snprintf(text + used, sizeof text - (size_t)used, "%s;\n\t}", n > 1 ? "}" : "");
  snprintf(constraints + c, sizeof constraints - (size_t)c, ",~{memory}");
  ts_roles_asm(m, NULL, text, constraints, 2 + n, list, true);
}

/* How many columns of a thread are neighbours. Of a tall thread tile pairs are stored: with
 * vectors of four the assembler puts sums where additions collide (jit/emit/roles/unit.c). */
static int run_of(const TsRoles *m, int bytes) {
  int vector = m->layout.nrow > m->layout.ncol ? 2 : 16 / bytes;
  while (vector > 1 && vector * bytes > m->copied) vector /= 2;
  if (bytes == 2) return 1;
  return m->layout.col[1] == 1 ? vector : 1;
}

/* Values that are stored side by side are in neighbouring registers. Copies, which the
 * assembler cannot see to be copies (the grid has no third axis), keep that from deciding where
 * sums are while they are added to. */
static void copy_out(TsRoles *m, TsDtype d, int n, const V *reg, V *out) {
  LLVMBuilderRef b = m->e->b;
  LLVMTypeRef bits = ts_emit_int_type(m->e, 8 * ts_dtypes[d].nbytes, 0);
  V zero = ts_roles_asm(m, ts_roles_i32(m), "mov.u32 $0, %ctaid.z;", "=r", 0, NULL, false);
  zero = LLVMBuildIntCast2(b, zero, bits, false, "");
  for (int i = 0; i < n; i++) {
    V x = LLVMBuildXor(b, LLVMBuildBitCast(b, reg[i], bits, ""), zero, "");
    out[i] = LLVMBuildBitCast(b, x, ts_emit_elem(m->e, d), "");
  }
}

/* Which matrix of a batch, of a parameter of rank 4. */
static V matrix_of(TsRoles *m, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  if (t->rank < 4) return NULL;
  V at[2] = {wide(m, ts_emit_scalar(m->e, s->in[1])), wide(m, ts_emit_scalar(m->e, s->in[2]))};
  V all = LLVMBuildMul(m->e->b, at[0], ts_emit_size(m->e, t->dim[1]), "");
  return LLVMBuildAdd(m->e->b, all, at[1], "");
}

static void store_fma(TsRoles *m, const TsTileStmt *s) {
  TsTileVal memory = s->in[0], x = s->in[s->nin - 1];
  const TsTileType *t = &memory->type;
  V of = matrix_of(m, s);
  int n = run_of(m, ts_dtypes[t->dtype].nbytes), ncol = m->layout.ncol;
  V *reg = ts_emit_registers(m->e, x), out[4];
  for (int r = 0; r < m->layout.nrow; r++) {
    V row = row_of(m, ts_emit_scalar(m->e, s->in[t->rank - 1]), r);
    Line l = line_of(m, memory, of, row, ts_emit_scalar(m->e, s->in[t->rank]));
    end_line(m, &l, row, end_of(m, s));
    for (int c = 0; c < ncol; c += n) {
      copy_out(m, (TsDtype)t->dtype, n, reg + r * ncol + c, out);
      store_if(m, column_inside(m, &l, c), column_at(m, &l, c), (TsDtype)t->dtype, n, out);
    }
  }
}

/* Of warps: two neighbouring columns at a time, which are inside together or not at all. */
static void store_blocks(TsRoles *m, const TsTileStmt *s) {
  TsTileVal memory = s->in[0], x = s->in[s->nin - 1];
  bool pairs = ts_roles_is_pairs(&x->type);
  int ncol = ts_roles_columns(m, &x->type);
  V *reg = ts_emit_registers(m->e, x);
  if (!pairs && x->type.dtype != TS_DT_f32 && x->type.dtype != TS_DT_i32)
    ts_emit_fail(m->e, "warps store no such fragment");
  for (int r = 0; r < m->layout.nrow; r++) {
    V row = row_of(m, ts_emit_scalar(m->e, s->in[1]), r);
    Line l = line_of(m, memory, NULL, row, ts_emit_scalar(m->e, s->in[2]));
    end_line(m, &l, row, end_of(m, s));
    for (int c = 0; c < ncol; c += 2) {
      int i = ts_roles_register(m, ncol, r, c);
      V in = column_inside(m, &l, c), at = column_at(m, &l, c);
      V list[4] = {at, ts_roles_flag(m, in), reg[pairs ? i / 2 : i],
                   reg[pairs ? i / 2 : i + 1]};
      ts_roles_asm(m, NULL,
                   pairs ? "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $1, 0;\n\t"
                           "@p st.global.b32 [$0], $2;\n\t}"
                         : "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $1, 0;\n\t"
                           "@p st.global.v2.b32 [$0], {$2, $3};\n\t}",
                   pairs                        ? "l,r,r,~{memory}"
                   : x->type.dtype == TS_DT_i32 ? "l,r,r,r,~{memory}"
                                                : "l,r,f,f,~{memory}",
                   pairs ? 3 : 4, list, true);
    }
  }
}

void ts_roles_store(TsRoles *m, const TsTileStmt *s) {
  const TsTileType *t = &s->in[0]->type;
  const TsTileType *x = &s->in[s->nin - 1]->type;
  if (m->turned)
    ts_emit_fail(m->e, "turned tiles store rows by their numbers");
  else if (s->op == TS_TILE_store_below && (x->rank != 2 || t->rank != 2))
    ts_emit_fail(m->e, "only rows of a matrix have an end");
  else if (x->space != TS_SPACE_fragment)
    ts_roles_store_scalar(m, s);
  else if (x->rank == 1)
    ts_roles_store_rows(m, s);
  else if (t->space == TS_SPACE_shared && m->unit == TS_ROLES_wgmma &&
           ts_roles_wide(m, x) < x->dim[1])
    store_columns(m, s);
  else if (t->space == TS_SPACE_shared && t->rank == 3)
    store_piece(m, s);
  else if (t->space == TS_SPACE_global && t->rank % 2 == 0 && !t->strided &&
           m->unit == TS_ROLES_fma)
    store_fma(m, s);
  else if (t->space == TS_SPACE_global && t->rank == 2 && !t->strided &&
           (m->unit == TS_ROLES_warps ||
            (m->unit == TS_ROLES_wgmma && ts_roles_wide(m, x) == x->dim[1])))
    store_blocks(m, s);
  else if (t->space == TS_SPACE_global && t->rank == 4 && m->unit == TS_ROLES_warps)
    ts_roles_store_heads(m, s);
  else
    ts_emit_fail(m->e, "a fragment to other memory");
}

/* ---- shapes */
/* Columns in whole blocks of 8, which are one behind the other in the registers. */
void ts_roles_part(TsRoles *m, const TsTileStmt *s) {
  if (m->unit == TS_ROLES_warps) {
    ts_roles_warps_part(m, s);
    return;
  }
  TsTileVal x = s->in[0], y = s->out[0];
  const int64_t *start = ts_tile_attr(s, "start")->ints;
  bool fits = m->unit == TS_ROLES_wgmma && y->type.rank == 2 && !start[0] &&
              start[1] % 8 == 0 && y->type.dim[1] % 8 == 0 && x->type.dim[0] == y->type.dim[0];
  if (!fits) ts_emit_fail(m->e, "parts of fragments are whole blocks of columns");
  int n = ts_roles_count(m, &y->type, 1);
  V *in = ts_emit_registers(m->e, x), *to = ts_roles_define(m, y, n);
  memcpy(to, in + start[1] / (ts_roles_is_pairs(&x->type) ? 4 : 2), sizeof *to * (size_t)n);
}

/* A scalar, or rows or columns. A quarter has one register for each row. */
void ts_roles_broadcast(TsRoles *m, const TsTileStmt *s) {
  TsTileVal x = s->in[0], y = s->out[0];
  int rank = x->type.rank, wide = ts_roles_columns(m, &y->type);
  if (rank > 1 || ts_roles_is_pairs(&x->type))
    ts_emit_fail(m->e, "a broadcast that is not to a tile");
  V *in = ts_emit_registers(m->e, x);
  bool line = y->type.rank == 1, single = line || wide == 1;
  int nrow = m->layout.nrow, axis = rank ? (int)ts_tile_attr(s, "axes")->ints[0] : 0;
  int n = line ? ts_roles_count(m, &y->type, m->axis[y->id] - 1) : nrow * wide;
  V *to = ts_roles_define(m, y, n);
  for (int i = 0; i < n && single; i++) to[i] = in[!rank ? 0 : axis == 1 ? 0 : i];
  for (int r = 0; r < nrow && !single; r++)
    for (int c = 0; c < wide; c++)
      to[ts_roles_register(m, wide, r, c)] = in[!rank ? 0 : axis == 1 ? c : r];
}
