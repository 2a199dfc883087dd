/* The matrix unit that every processor from sm_80 on has: warps multiply by mma.sync what they
 * read from shared memory.
 *
 * Warps stand in a grid over the tile: each has up to 64 neighbouring rows, and of the columns
 * every `across`th block of 16, so that columns of a piece of the tile are of all warps alike.
 * Of sums a thread has what it has of wgmma's: 8x8 blocks, two neighbouring columns in two rows
 * (jit/emit/roles/unit.c), here in as many times 16 rows as the warp has.
 *
 * An operand is read as 8x8 matrices of 16 bits (ldmatrix): 8 rows of 16 bytes. Along k that is
 * right for elements of any size, since the unit wants 32 bytes of k at a time whatever they
 * are: 16 of 16 bits, 32 of 8, 8 of 32. Across k matrices of 16 bits are transposed on the way;
 * elements of 32 bits are read one by one. Rows of shared memory are 128 bytes, whose pieces of
 * 16 are exchanged by the row's number: the eight rows of a matrix fall into different banks.
 * With unit "rows" each warp has 16 rows and all columns, as attention wants them: a row is of
 * four threads.
 *
 * A thread's address is a sum of what it knows about itself, a constant of the place in the
 * tile, and a piece's number, in which the two are joined by exclusive or. */
#include <stdio.h>
#include <string.h>

#include "ir/tile/gpu/warp_product.h"
#include "jit/emit/roles/emit.h"

typedef LLVMValueRef V;

enum { WARP = 32, WARP_ROWS = 64, BLOCK = 16, ROW = 128, CHUNK = 16, STEP = 32 };

/* ---- layout */
static bool same_word(const TsAttr *a, const char *word) {
  return a->type == TS_ATTR_str && a->str && !strcmp(a->str, word);
}

bool ts_roles_of_warps(const TsAttr *unit) {
  return unit && (same_word(unit, "mma") || same_word(unit, "tf32") || same_word(unit, "rows"));
}

void ts_roles_warps_layout(TsRoles *m) {
  TsRolesLayout *l = &m->layout;
  const TsTileType *t = &m->mma->out[0]->type;
  bool whole = same_word(ts_tile_attr(m->mma, "unit"), "rows");
  if (t->dim[0] == TS_ROLES_TURNED && !whole) {
    ts_roles_turned_layout(m);
    return;
  }
  int rows = (int)t->dim[0], across = whole ? 1 : ts_gpu_warps_across(rows, m->warps);
  int down = across ? m->warps / across : 0;
  m->across = across;
  if (!across || across * down != m->warps || (across & (across - 1)) || across > 8 ||
      rows % (down * BLOCK) || t->dim[1] % (across * BLOCK) || m->info->cluster > 1 ||
      (whole ? rows != m->warps * BLOCK : down > 1 && rows / down != WARP_ROWS))
    ts_emit_fail(m->e, "%d warps for a tile of %d rows", m->warps, rows);
  m->warp_rows = rows / down;
  V number = ts_roles_shri(m, m->t, 5);
  m->warp_row = LLVMBuildUDiv(m->e->b, number, ts_roles_int(m, across), "");
  m->warp_col = ts_roles_andi(m, number, across - 1);
  l->row_base =
      ts_roles_add(m, ts_roles_muli(m, m->warp_row, rows / down), ts_roles_shri(m, m->lane, 2));
  l->col_base = ts_roles_add(m, ts_roles_muli(m, m->warp_col, BLOCK),
                             ts_roles_muli(m, ts_roles_andi(m, m->lane, 3), 2));
  l->nrow = rows / down / 8, l->ncol = (int)t->dim[1] / across / 4;
  if (l->nrow > 16 || l->ncol > TS_ROLES_COLS * 2) ts_emit_fail(m->e, "a warp's tile is large");
  for (int r = 0; r < l->nrow; r++) l->row[r] = r * 8;
  for (int c = 0; c < TS_ROLES_COLS * 2; c++) /* other fragments of the role may be wider */
    l->col[c] = c / 4 * BLOCK * across + c % 4 / 2 * 8 + c % 2;
}

/* ---- operands */
/* Of shared memory, as a thread reads it. */
typedef struct Side {
  const TsTileType *t;
  int bytes;     /* of an element */
  int64_t panel; /* bytes of 128-byte rows, one panel of them */
  V base;        /* what the thread knows: the slot, its row, its panel */
  V piece;       /* the piece of 16 bytes in the row, exchanged by the row's number */
  int first;     /* the constant that the fragment begins at along k, in elements */
} Side;

static V bit(TsRoles *m, V x, int n) { return ts_roles_andi(m, ts_roles_shri(m, x, n), 1); }
static V exchanged(TsRoles *m, V x, V y) { return LLVMBuildXor(m->e->b, x, y, ""); }

/* rows: the thread's row of the memory, without constants. */
static void place(TsRoles *m, Side *x, const TsTileStmt *s, V row, V piece, V by) {
  V slot = ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[1]));
  x->t = &s->in[0]->type;
  x->bytes = ts_dtypes[x->t->dtype].nbytes;
  x->panel = x->t->dim[1] * ROW;
  x->base = ts_roles_add(m, slot, ts_roles_muli(m, row, ROW));
  x->piece = exchanged(m, piece, by);
  if (x->t->rank != 3 || x->t->swizzle != ROW || x->t->dim[2] * x->bytes % ROW)
    ts_emit_fail(m->e, "operands lie in rows of 128 bytes");
}

/* Address at a row and a byte of it that are constants. */
static V address(TsRoles *m, const Side *x, int64_t row, int64_t byte) {
  V piece = exchanged(m, x->piece, ts_roles_int(m, byte % ROW / CHUNK));
  V at = ts_roles_add(m, x->base, LLVMBuildShl(m->e->b, piece, ts_roles_int(m, 4), ""));
  return ts_roles_addi(m, at, row * ROW + byte / ROW * x->panel);
}

static void four_matrices(TsRoles *m, V at, bool transposed, V *to) {
  LLVMTypeRef four[4];
  for (int i = 0; i < 4; i++) four[i] = ts_roles_i32(m);
  LLVMTypeRef type = LLVMStructTypeInContext(m->e->ctx, four, 4, false);
  V all = ts_roles_asm(
      m, type,
      transposed ? "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0, $1, $2, $3}, [$4];"
                 : "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4];",
      "=r,=r,=r,=r,r,~{memory}", 1, &at, true);
  for (int i = 0; i < 4; i++) to[i] = LLVMBuildExtractValue(m->e->b, all, (unsigned)i, "");
}

/* 16 rows (or columns) by 32 bytes of k: matrices 0 and 1 are 16 rows of A and 2, 3 the next k;
 * of B 0 and 1 are the two k of 8 columns. */
static void along_k(TsRoles *m, const TsTileStmt *s, bool a, int blocks, int steps, int apart,
                    int64_t first, V *to) {
  Side x = {.first = (int)first};
  V low = ts_roles_andi(m, m->lane, 7), high = bit(m, m->lane, 4), mid = bit(m, m->lane, 3);
  V row = ts_roles_add(m, low, ts_roles_muli(m, a ? mid : high, 8));
  V own =
      a ? ts_roles_muli(m, m->warp_row, m->warp_rows) : ts_roles_muli(m, m->warp_col, BLOCK);
  place(m, &x, s, ts_roles_add(m, row, own), a ? high : mid, low);
  for (int j = 0; j < blocks; j++)
    for (int k = 0; k < steps; k++)
      four_matrices(m, address(m, &x, (int64_t)j * apart, first * x.bytes + k * STEP), false,
                    to + (ptrdiff_t)4 * (j * steps + k));
}

/* Rows of the memory are k: a thread's column is where its warp's panel begins. */
static void across_k(TsRoles *m, const TsTileStmt *s, bool a, int blocks, int steps, int apart,
                     int64_t first, V *to) {
  Side x = {.first = (int)first};
  V low = ts_roles_andi(m, m->lane, 7), high = bit(m, m->lane, 4), mid = bit(m, m->lane, 3);
  V row = ts_roles_add(m, low, ts_roles_muli(m, a ? high : mid, 8));
  V own =
      a ? mid : ts_roles_add(m, ts_roles_muli(m, ts_roles_andi(m, m->warp_col, 3), 2), high);
  V panel = a ? m->warp_row : ts_roles_shri(m, m->warp_col, 2);
  place(m, &x, s, row, own, low);
  x.base = ts_roles_add(m, x.base, ts_roles_muli(m, panel, x.panel));
  for (int j = 0; j < blocks; j++)
    for (int k = 0; k < steps; k++)
      four_matrices(m, address(m, &x, first + k * 16, (int64_t)j * apart * 2), true,
                    to + (ptrdiff_t)4 * (j * steps + k));
}

/* One element of 32 bits: k is the thread's own of four, or the one four further on. */
static V element(TsRoles *m, const Side *x, int64_t k, bool later, int64_t col) {
  V piece = exchanged(m, x->piece, ts_roles_int(m, col * 4 % ROW / CHUNK ^ (later ? 4 : 0)));
  V at = ts_roles_add(m, x->base, LLVMBuildShl(m->e->b, piece, ts_roles_int(m, 4), ""));
  at = ts_roles_addi(m, at, (k + (later ? 4 : 0)) * ROW + col * 4 / ROW * x->panel);
  return ts_roles_asm(m, ts_roles_i32(m), "ld.shared.b32 $0, [$1];", "=r,r,~{memory}", 1, &at,
                      true);
}

static void across_k_wide(TsRoles *m, const TsTileStmt *s, bool a, int blocks, int steps,
                          int apart, int64_t first, V *to) {
  Side x = {.first = (int)first};
  V l = ts_roles_andi(m, m->lane, 3), g = ts_roles_shri(m, m->lane, 2);
  V own = ts_roles_shri(m, g, 2), panel = ts_roles_muli(m, m->warp_row, 2);
  if (!a) {
    own = ts_roles_add(m, own, ts_roles_muli(m, ts_roles_andi(m, m->warp_col, 1), 4));
    panel = ts_roles_shri(m, m->warp_col, 1);
  }
  place(m, &x, s, l, own, l);
  x.base = ts_roles_add(m, x.base, ts_roles_muli(m, panel, x.panel));
  x.base = ts_roles_add(m, x.base, ts_roles_muli(m, ts_roles_andi(m, g, 3), 4));
  for (int j = 0; j < blocks; j++)
    for (int k = 0; k < steps; k++)
      for (int i = 0; i < 4; i++) {
        bool later = a ? i >= 2 : i & 1, next = a ? i & 1 : i >= 2;
        to[4 * (j * steps + k) + i] =
            element(m, &x, first + (int64_t)k * 8, later, (int64_t)j * apart + (next ? 8 : 0));
      }
}

int ts_roles_warps_count(const TsRoles *m, const TsTileType *t, bool left) {
  int steps = (int)(t->dim[left] * ts_dtypes[t->dtype].nbytes / STEP);
  if (left && m->turned) return 2 * steps;
  return 4 * steps * (left ? m->layout.nrow / 2 : (int)t->dim[1] / (BLOCK * m->across));
}

/* Registers: by block of 16 rows (columns), then by step of k, four each. */
void ts_roles_warps_load(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  int side = m->axis[y->id], bytes = ts_dtypes[y->type.dtype].nbytes;
  const TsAttr *axes = ts_tile_attr(s, "axes");
  if (side < TS_ROLES_LEFT || y->type.rank != 2)
    ts_emit_fail(m->e, "what is read from shared memory is multiplied");
  bool a = side == TS_ROLES_LEFT, transposed = axes->type == TS_ATTR_ints && axes->ints[0] == 2;
  bool k_last = transposed != a; /* of A rows by k, of B k by columns */
  int64_t deep = y->type.dim[a];
  int steps = (int)(deep * bytes / STEP), apart = a ? BLOCK : BLOCK * m->across;
  int blocks = ts_roles_warps_count(m, &y->type, a) / (4 * (steps ? steps : 1));
  int64_t first = ts_roles_zero(m, s->in[k_last ? 3 : 2]);
  if (deep * bytes % STEP || ts_roles_zero(m, s->in[k_last ? 2 : 3]) ||
      first * bytes % (k_last ? STEP : 1) || (!k_last && bytes != 2 && bytes != 4))
    ts_emit_fail(m->e, "operands are whole steps of the unit");
  V *to = ts_roles_define(m, y, 4 * blocks * steps);
  (k_last       ? along_k
   : bytes == 2 ? across_k
                : across_k_wide)(m, s, a, blocks, steps, apart, first, to);
}

/* ---- products */
static const char *instruction(TsRoles *m, const TsTileStmt *s) {
  switch (s->in[0]->type.dtype) {
  case TS_DT_bf16: return "m16n8k16.row.col.f32.bf16.bf16.f32";
  case TS_DT_f16: return "m16n8k16.row.col.f32.f16.f16.f32";
  case TS_DT_i8: return "m16n8k32.row.col.s32.s8.s8.s32";
  case TS_DT_f32: return "m16n8k8.row.col.f32.tf32.tf32.f32";
  default: ts_emit_fail(m->e, "the unit multiplies no such numbers");
  }
}

/* Sums of 16 rows and 8 columns. */
static void multiply(TsRoles *m, const char *text, bool whole, V *sum, const V *a, const V *b) {
  LLVMTypeRef of[4];
  V in[10] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  memcpy(in + 6, sum, 4 * sizeof *in);
  for (int i = 0; i < 4; i++) of[i] = whole ? ts_roles_i32(m) : ts_emit_elem(m->e, TS_DT_f32);
  V all = ts_roles_asm(m, LLVMStructTypeInContext(m->e->ctx, of, 4, false), text,
                       whole ? "=r,=r,=r,=r,r,r,r,r,r,r,0,1,2,3"
                             : "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3",
                       10, in, false);
  for (int i = 0; i < 4; i++) sum[i] = LLVMBuildExtractValue(m->e->b, all, (unsigned)i, "");
}

void ts_roles_warps_product(TsRoles *m, const TsTileStmt *s) {
  const TsTileType *y = &s->out[0]->type;
  if (m->turned) {
    ts_roles_turned_product(m, s);
    return;
  }
  int rows = m->layout.nrow / 2, cols = ts_roles_wide(m, y) / 8;
  int steps = (int)(s->in[0]->type.dim[1] * ts_dtypes[s->in[0]->type.dtype].nbytes / STEP);
  bool whole = y->dtype == TS_DT_i32;
  char text[200];
  V *a = ts_emit_registers(m->e, s->in[0]), *b = ts_emit_registers(m->e, s->in[1]);
  V *sum = ts_roles_define(m, s->out[0], rows * cols * 4);
  memcpy(sum, ts_emit_registers(m->e, s->in[2]), sizeof *sum * (size_t)(rows * cols * 4));
  snprintf(text, sizeof text,
           "mma.sync.aligned.%s {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, "
           "{$0, $1, $2, $3};",
           instruction(m, s));
  for (int k = 0; k < steps; k++)
    for (int r = 0; r < rows; r++)
      for (int c = 0; c < cols; c++)
        multiply(m, text, whole, sum + (ptrdiff_t)4 * (r * cols + c),
                 a + (ptrdiff_t)4 * (r * steps + k),
                 b + (ptrdiff_t)4 * (c / 2 * steps + k) + c % 2 * 2);
}

/* Columns of all warps alike: of each 16 rows those of the piece are neighbours. */
void ts_roles_warps_part(TsRoles *m, const TsTileStmt *s) {
  TsTileVal x = s->in[0], y = s->out[0];
  const int64_t *start = ts_tile_attr(s, "start")->ints;
  int each = BLOCK * m->across;
  if (y->type.rank != 2 || start[0] || start[1] % each || y->type.dim[1] % each ||
      ts_roles_is_pairs(&x->type) || x->type.dim[0] != y->type.dim[0])
    ts_emit_fail(m->e, "parts are of all warps alike");
  int from = ts_roles_wide(m, &x->type) / 2, n = ts_roles_wide(m, &y->type) / 2;
  V *in = ts_emit_registers(m->e, x), *to = ts_roles_define(m, y, n * m->layout.nrow / 2);
  for (int r = 0; r < m->layout.nrow / 2; r++)
    memcpy(to + (ptrdiff_t)r * n, in + (ptrdiff_t)r * from + start[1] / m->across / 2,
           sizeof *to * (size_t)n);
}

/* ---- copies: rows of a matrix to rows of a stage, so many bytes a thread at a time */
typedef struct Copy {
  int each, elem;           /* bytes of a copy, of an element */
  int across, down, passes; /* threads on a row, rows at a time */
  V row, col;               /* of the thread: row, column in elements */
} Copy;

static Copy divide(TsRoles *m, const TsTileStmt *s) {
  const TsAttr *shape = ts_tile_attr(s, "shape"), *bytes = ts_tile_attr(s, "bytes");
  const TsTileType *t = &s->in[0]->type;
  Copy c = {.each = bytes->type == TS_ATTR_int ? (int)bytes->i : 16,
            .elem = ts_dtypes[t->dtype].nbytes};
  if (shape->type != TS_ATTR_ints || shape->n != 2 || shape->ints[1] != t->dim[2] ||
      s->nin != 5 + s->in[1]->type.rank || m->single || m->info->cluster > 1)
    ts_emit_fail(m->e, "threads copy whole rows of a stage");
  int threads = m->warps * WARP;
  m->copied = c.each;
  c.across = (int)(t->dim[2] * c.elem / c.each);
  c.down = c.across > threads ? 1 : threads / c.across;
  c.passes = (int)shape->ints[0] * c.across / threads;
  if (!c.across || threads % c.across || (c.down & (c.down - 1)) || shape->ints[0] % c.down ||
      ts_roles_zero(m, s->in[4]))
    ts_emit_fail(m->e, "%d threads for %d copies a row", threads, c.across);
  c.row = LLVMBuildUDiv(m->e->b, m->t, ts_roles_int(m, c.across), "");
  c.col = ts_roles_muli(m, LLVMBuildURem(m->e->b, m->t, ts_roles_int(m, c.across), ""),
                        c.each / c.elem);
  return c;
}

/* By what pieces of 16 bytes of a row are exchanged. */
static int pattern_of(const TsTileType *t, int row) {
  return t->swizzle == ROW ? row & 7 : t->swizzle == ROW / 2 ? row >> 1 & 3 : 0;
}

static V thread_pattern(TsRoles *m, const TsTileType *t, V row) {
  if (t->swizzle == ROW) return ts_roles_andi(m, row, 7);
  if (t->swizzle == ROW / 2) return ts_roles_andi(m, ts_roles_shri(m, row, 1), 3);
  return ts_roles_int(m, 0);
}

/* Where the thread's bytes of row `row` (a constant behind its own) go. */
static V target_of(TsRoles *m, const Copy *c, const TsTileType *t, V slot, int row) {
  LLVMBuilderRef b = m->e->b;
  V byte = ts_roles_muli(m, c->col, c->elem);
  int64_t wide = t->swizzle ? t->swizzle : t->dim[2] * c->elem;
  V in = t->swizzle ? ts_roles_andi(m, byte, wide - 1) : byte;
  V piece = exchanged(m, thread_pattern(m, t, c->row), ts_roles_int(m, pattern_of(t, row)));
  in = exchanged(m, in, LLVMBuildShl(b, piece, ts_roles_int(m, 4), ""));
  V at = ts_roles_add(m, ts_roles_add(m, slot, ts_roles_muli(m, c->row, wide)), in);
  if (t->swizzle && t->dim[2] * c->elem > wide) {
    V panel = LLVMBuildUDiv(b, byte, ts_roles_int(m, wide), "");
    at = ts_roles_add(m, at, ts_roles_muli(m, panel, t->dim[1] * wide));
  }
  return ts_roles_addi(m, at, row * wide);
}

/* How many bytes are inside: all, none, or those before the end of the row. */
static V inside(TsRoles *m, const Copy *c, V left, V in_row) {
  LLVMBuilderRef b = m->e->b;
  V zero = ts_roles_int(m, 0), most = ts_roles_int(m, c->each);
  V bytes = ts_roles_muli(m, left, c->elem);
  bytes = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSLT, bytes, most, ""), bytes, most, "");
  bytes = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntSGT, bytes, zero, ""), bytes, zero, "");
  return LLVMBuildSelect(b, in_row, bytes, zero, "");
}

/* Where the matrix begins, in elements, of memory with two axes before. */
static V matrix_at(TsRoles *m, const TsTileStmt *s) {
  const TsTileType *t = &s->in[1]->type;
  if (t->rank != 4) ts_emit_fail(m->e, "copies are of matrices, or of heads of batches");
  return ts_roles_axes_at(m, t, s->in + 5, 2);
}

/* A stage, or rows of it. Addresses of later rows are the first one and so many rows. Nothing
 * is read where no byte is inside, whatever the address is. */
void ts_roles_copy_tile(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  const TsTileType *t = &s->in[0]->type, *from = &s->in[1]->type;
  int first_axis = from->rank - 2;
  if (from->rank < 2 || from->space != TS_SPACE_global || (from->strided && first_axis == 0))
    ts_emit_fail(m->e, "copies are of matrices that are parameters");
  Copy c = divide(m, s);
  LLVMTypeRef i64 = ts_emit_int_type(m->e, 64, 0), i8 = ts_emit_int_type(m->e, 8, 0);
  V rows = LLVMBuildTrunc(b, ts_emit_size(m->e, from->dim[first_axis]), ts_roles_i32(m), "");
  V width = ts_emit_size(m->e, from->dim[first_axis + 1]), pitch = width,
    cols = LLVMBuildTrunc(b, width, ts_roles_i32(m), "");
  if (from->strided) pitch = ts_emit_i64(m->e, from->stride[first_axis]);
  V row = ts_roles_add(m, ts_emit_scalar(m->e, s->in[5 + first_axis]), c.row);
  V col = ts_roles_add(m, ts_emit_scalar(m->e, s->in[6 + first_axis]), c.col);
  V left = LLVMBuildSub(b, cols, col, "");
  V off = LLVMBuildMul(b, LLVMBuildSExt(b, row, i64, ""), pitch, "");
  off = LLVMBuildAdd(b, off, LLVMBuildSExt(b, col, i64, ""), "");
  if (first_axis) off = LLVMBuildAdd(b, off, matrix_at(m, s), "");
  off = LLVMBuildMul(b, off, ts_emit_i64(m->e, c.elem), "");
  V at = LLVMBuildGEP2(b, i8, ts_emit_registers(m->e, s->in[1])[0], &off, 1, "");
  V slot = ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[2]));
  int first = (int)ts_roles_zero(m, s->in[3]);
  for (int i = 0; i < c.passes; i++) {
    V by = LLVMBuildMul(b, pitch, ts_emit_i64(m->e, (int64_t)i * c.down * c.elem), "");
    V here = ts_roles_addi(m, row, (int64_t)i * c.down);
    V in[3] = {target_of(m, &c, t, slot, first + i * c.down),
               LLVMBuildGEP2(b, i8, at, &by, 1, ""),
               inside(m, &c, left, LLVMBuildICmp(b, LLVMIntSLT, here, rows, ""))};
    char text[80];
    snprintf(text, sizeof text, "cp.async.%s.shared.global [$0], [$1], %d, $2;",
             c.each == 16 ? "cg" : "ca", c.each);
    ts_roles_asm(m, NULL, text, "r,l,r,~{memory}", 3, in, true);
  }
}
