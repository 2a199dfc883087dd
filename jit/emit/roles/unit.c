/* Products: where a unit keeps the elements of a tile, and its instructions.
 *
 * wgmma: a group of four warps has 64 rows, each warp 16 of them; operands stay in shared
 * memory and are named by descriptors. A thread has, of each 8 columns, two neighbouring ones
 * in two rows: registers 4j .. 4j+3 are (r, 8j), (r, 8j+1), (r+8, 8j), (r+8, 8j+1), with its
 * own r and column offset.
 *
 * fma: a warp has 32 x 128 elements, a thread 8 x 16 (f64: 64 and 8), of smaller tiles 8 x 8 or
 * 4 x 4 (ir/tile/gpu/chain_tile.c). Which ones depends on how an operand lies in memory, so
 * that a thread's loads are of 16 bytes and those of a warp fall into different banks: along k,
 * four (eight) neighbouring threads read neighbouring rows, which the pattern of 64 bytes puts
 * apart; across k, they read neighbouring 16 bytes.
 *
 * When a alone lies along k, warps and threads are turned: 128 x 32 and 16 x 8, and so on.
 * Registers have two banks, the even and the odd ones, and a multiply-add whose three operands
 * are of one bank takes longer; loads of 16 bytes tie the bank of a to k and that of b to the
 * column (or both to k), sums are left to differ from both. The side with 8 across k and the
 * one with 16 along k leave most room: 3 collisions in 1024 multiply-adds, the other way round
 * 167. */
#include <stdio.h>
#include <string.h>

#include "jit/emit/roles/emit.h"

typedef LLVMValueRef V;

enum { WARP = 32, GROUP_ROWS = 64, FEW_LANES = 4, MANY_LANES = 8, FEW = 8, MOST = 16 };

/* ---- where an operand is: in shared memory, read by its product */
static const TsTileStmt *operand(TsRoles *m, TsTileVal v) {
  const TsTileStmt *s = v->stmt;
  if (!s || s->op != TS_TILE_load || s->in[0]->type.space != TS_SPACE_shared)
    ts_emit_fail(m->e, "operands of products are loads from shared memory");
  return s;
}

/* Whether the axis of k is the last one of the memory. */
static bool along_k(TsRoles *m, TsTileVal v, int k_axis) {
  const TsAttr *axes = ts_tile_attr(operand(m, v), "axes");
  bool transposed = axes->type == TS_ATTR_ints && axes->n == 2 && axes->ints[0] == 2;
  return transposed != (k_axis == 1);
}

static V address(TsRoles *m, TsTileVal v) {
  const TsTileStmt *s = operand(m, v);
  return ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[1]));
}

/* ---- layouts */
/* Rows of a block that the role at hand has. */
static int64_t rows_of_role(TsRoles *m, const TsTileRegion *r) {
  if (m->mma) return m->mma->out[0]->type.dim[0] / m->info->cluster;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == TS_TILE_store_bulk) return ts_roles_own(m, &s->in[1]->type, 1);
    for (int i = 0; i < s->nregion; i++) {
      int64_t n = rows_of_role(m, s->region[i]);
      if (n) return n;
    }
  }
  return 0;
}

/* 16 rows of a warp at a time: those that multiply have no more; others as many times 16 as
 * they need. */
static void unit_layout(TsRoles *m) {
  TsRolesLayout *l = &m->layout;
  int64_t own = rows_of_role(m, m->role->region[0]), times = own / (m->warps * 16);
  if (own % (m->warps * 16) || times > 8 || (m->mma && times != 1))
    ts_emit_fail(m->e, "%d warps for %d rows", m->warps, (int)own);
  V row = ts_roles_add(m, ts_roles_muli(m, m->group, GROUP_ROWS),
                       ts_roles_muli(m, m->warp, times * 16));
  row = ts_roles_add(m, row, ts_roles_shri(m, m->lane, 2));
  l->row_base = ts_roles_add(m, row, ts_roles_muli(m, m->rank, own));
  l->col_base = ts_roles_muli(m, ts_roles_andi(m, m->lane, 3), 2);
  l->nrow = 2 * (int)times;
  for (int r = 0; r < l->nrow; r++) l->row[r] = r * 8;
  l->ncol = m->mma ? (int)m->mma->out[0]->type.dim[1] / 4 : TS_ROLES_COLS;
  if (l->ncol > TS_ROLES_COLS) ts_emit_fail(m->e, "more than 256 columns");
  for (int c = 0; c < TS_ROLES_COLS; c++) l->col[c] = c / 2 * 8 + c % 2;
}

/* n rows (columns) of a thread whose place among `lanes` is at. */
static V fma_places(TsRoles *m, bool k_last, V first, V at, int lanes, int n, int *place) {
  int vector = 16 / ts_dtypes[m->mma->out[0]->type.dtype].nbytes;
  for (int i = 0; i < n; i++)
    place[i] = k_last ? i * lanes : i / vector * vector * lanes + i % vector;
  return ts_roles_add(m, first, k_last ? at : ts_roles_muli(m, at, vector));
}

/* Whether threads have more rows than columns. */
static bool is_tall(TsRoles *m) {
  return along_k(m, m->mma->in[0], 1) && !along_k(m, m->mma->in[1], 0);
}

static void fma_layout(TsRoles *m) {
  TsRolesLayout *l = &m->layout;
  const TsTileType *t = &m->mma->out[0]->type;
  bool tall = is_tall(m);
  int each = (int)(t->dim[0] * t->dim[1] / ((int64_t)m->warps * WARP));
  int few = each < FEW * FEW ? FEW / 2 : FEW, many = each / few;
  int lanes_down = tall ? MANY_LANES : FEW_LANES, lanes_across = WARP / lanes_down;
  l->nrow = tall ? many : few, l->ncol = tall ? few : many;
  int high = l->nrow * lanes_down, wide = l->ncol * lanes_across;
  int down = (int)t->dim[0] / high, across = (int)t->dim[1] / wide;
  bool fits = many % 4 == 0 && many <= MOST && few * many == each;
  if (!fits || down * across != m->warps || t->dim[0] % high || t->dim[1] % wide)
    ts_emit_fail(m->e, "%d warps for the tile", m->warps);
  V number = ts_roles_shri(m, m->t, 5);
  V wm = LLVMBuildURem(m->e->b, number, ts_roles_int(m, down), "");
  V wn = LLVMBuildUDiv(m->e->b, number, ts_roles_int(m, down), "");
  V lm = ts_roles_shri(m, m->lane, tall ? 2 : 3);
  V ln = ts_roles_andi(m, m->lane, lanes_across - 1);
  l->row_base = fma_places(m, along_k(m, m->mma->in[0], 1), ts_roles_muli(m, wm, high), lm,
                           lanes_down, l->nrow, l->row);
  l->col_base = fma_places(m, along_k(m, m->mma->in[1], 0), ts_roles_muli(m, wn, wide), ln,
                           lanes_across, l->ncol, l->col);
}

void ts_roles_layout(TsRoles *m) {
  const TsAttr *unit = m->mma ? ts_tile_attr(m->mma, "unit") : NULL;
  const char *name = !unit ? "wgmma" : unit->type == TS_ATTR_str && unit->str ? unit->str : "";
  m->unit = !strcmp(name, "wgmma")    ? TS_ROLES_wgmma
            : ts_roles_of_warps(unit) ? TS_ROLES_warps
            : !strcmp(name, "fma")    ? TS_ROLES_fma
                                      : TS_ROLES_none;
  if (m->unit == TS_ROLES_wgmma)
    unit_layout(m);
  else if (m->unit == TS_ROLES_warps)
    ts_roles_warps_layout(m);
  else if (m->unit == TS_ROLES_fma)
    fma_layout(m);
  else
    ts_emit_fail(m->e, "there is no unit %s", name);
}

/* ---- wgmma */
/* Start address, distance of blocks of 64 rows or columns, distance of 8 rows of a pattern, the
 * pattern of 128 bytes. An address of a cluster has the block's number in high bits. */
static V descriptor(TsRoles *m, V at, int64_t blocks) {
  LLVMBuilderRef b = m->e->b;
  V low = ts_roles_shri(m, ts_roles_andi(m, at, 0x3ffff), 4);
  int64_t rest = (int64_t)1 << 62 | (int64_t)64 << 32 | (blocks >> 4 ? blocks >> 4 : 1) << 16;
  return LLVMBuildOr(b, LLVMBuildZExt(b, low, ts_emit_int_type(m->e, 64, 0), ""),
                     ts_emit_i64(m->e, rest), "");
}

/* Of a slot: that of slot 0 and so many bytes. */
static V operand_descriptor(TsRoles *m, TsTileVal v, bool k_last, V offset) {
  const TsTileStmt *s = operand(m, v);
  const TsTileType *t = &s->in[0]->type;
  LLVMBuilderRef b = m->e->b;
  V base = ts_emit_registers(m->e, s->in[0])[0];
  if (offset) base = ts_roles_add(m, base, offset);
  int64_t panel = k_last ? 0 : ts_roles_own(m, t, 1) * t->swizzle;
  V slot = ts_roles_muli(m, ts_emit_scalar(m->e, s->in[1]), ts_roles_slot_bytes(m, t) / 16);
  slot = LLVMBuildZExt(b, slot, ts_emit_int_type(m->e, 64, 0), "");
  return LLVMBuildAdd(b, descriptor(m, base, panel), slot, "");
}

/* Whether it is the same in all rounds of the loop of a tile. */
static bool stays(TsTileVal slot) {
  return slot->region && slot->region->owner && slot->region->owner->op == TS_TILE_repeat;
}

/* That of memory with one slot is the same in all rounds of a loop, and so are those of all
 * steps of k: LLVM would keep every one of them in registers. */
static V made_here(TsRoles *m, TsTileVal v, V d) {
  const TsTileStmt *s = operand(m, v);
  if (s->in[0]->type.dim[0] > 1 && !stays(s->in[1])) return d;
  return ts_roles_asm(m, ts_emit_int_type(m->e, 64, 0), "mov.b64 $0, $1;", "=l,l", 1, &d, true);
}

typedef struct Text {
  char at[8192];
  size_t n;
} Text;

static void add(Text *t, const char *s) {
  size_t n = strlen(s);
  if (t->n + n >= sizeof t->at) return; /* the assembler will say so */
  memcpy(t->at + t->n, s, n + 1);
  t->n += n;
}

static void add_number(Text *t, const char *before, int i) {
  char s[96];
  snprintf(s, sizeof s, "%s%d", before, i);
  add(t, s);
}

static bool is_whole(V x) { return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMIntegerTypeKind; }

/* n results, tied to the first n operands. */
static void tie(Text *c, int n, const V *reg) {
  const char *kind = is_whole(reg[0]) ? "=r" : "=f";
  for (int i = 0; i < n; i++) add(c, i ? "," : ""), add(c, kind);
  for (int i = 0; i < n; i++) add_number(c, ",", i);
}

static LLVMTypeRef tuple(TsRoles *m, int n, const V *reg) {
  LLVMTypeRef of[TS_ROLES_COLS * 2];
  for (int i = 0; i < n; i++) of[i] = LLVMTypeOf(reg[0]);
  return LLVMStructTypeInContext(m->e->ctx, of, (unsigned)n, false);
}

static void unpack(TsRoles *m, V all, int n, V *reg) {
  for (int i = 0; i < n; i++) reg[i] = LLVMBuildExtractValue(m->e->b, all, (unsigned)i, "");
}

void ts_roles_through(TsRoles *m, int n, V *reg, const char *text) {
  Text c = {.n = 0};
  tie(&c, n, reg);
  add(&c, ",~{memory}");
  unpack(m, ts_roles_asm(m, tuple(m, n, reg), text, c.at, n, reg, true), n, reg);
}

/* One instruction: 64 rows and 16 steps of k for each group. a: a descriptor, or 4
 * registers. */
static void step(TsRoles *m, const char *pattern, int n, V *reg, int na, V *a, V b, V scale) {
  V in[TS_ROLES_COLS * 2 + 6];
  Text c = {.n = 0};
  memcpy(in, reg, sizeof *in * (size_t)n);
  memcpy(in + n, a, sizeof *in * (size_t)na);
  in[n + na] = b, in[n + na + 1] = scale;
  tie(&c, n, reg);
  add(&c, na == 1 ? ",l,l,r" : ",r,r,r,r,l,r");
  unpack(m, ts_roles_asm(m, tuple(m, n, reg), pattern, c.at, n + na + 2, in, true), n, reg);
}

static void instruction(Text *t, const TsTileStmt *s, int n, int na, bool transposed_a,
                        bool transposed_b) {
  TsDtype d = (TsDtype)s->in[0]->type.dtype;
  const char *type = d == TS_DT_bf16       ? "bf16"
                     : d == TS_DT_fp8_e4m3 ? "e4m3"
                     : d == TS_DT_fp8_e5m2 ? "e5m2"
                     : d == TS_DT_i8       ? "s8"
                     : d == TS_DT_f32      ? "tf32"
                                           : "f16";
  bool along = ts_dtypes[d].nbytes != 2, whole = d == TS_DT_i8;
  int a = 2 * n; /* operands behind the results and what is tied to them */
  add_number(t, "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, $", a + na + 1);
  add_number(t, ", 0;\n\twgmma.mma_async.sync.aligned.m64n", 2 * n);
  add_number(t, "k", 32 / ts_dtypes[d].nbytes), add(t, whole ? ".s32." : ".f32.");
  add(t, type), add(t, "."), add(t, type), add(t, " {");
  for (int i = 0; i < n; i++) add_number(t, i ? ", $" : "$", i);
  add(t, na == 1 ? "}, " : "}, {");
  for (int i = 0; i < na; i++) add_number(t, i ? ", $" : "$", a + i);
  add_number(t, na == 1 ? ", $" : "}, $", a + na), add(t, whole ? ", p" : ", p, 1, 1");
  if (na == 1 && !along) add_number(t, ", ", transposed_a);
  if (!along) add_number(t, ", ", transposed_b);
  add(t, ";\n\t}");
}

static bool is_zero(TsTileVal v) {
  const TsTileStmt *s = v->stmt;
  return s && s->op == TS_TILE_const && ts_tile_attr(s, "value")->f == 0;
}

/* Whether a loop that sums come out of, which went in as nothing, has had a round. */
static V had_round(TsRoles *m, TsTileVal sums) {
  const TsTileStmt *l = sums->stmt;
  if (!l || l->op != TS_TILE_for || !is_zero(l->in[2 + sums->index])) return NULL;
  V lo = ts_emit_scalar(m->e, l->in[0]), hi = ts_emit_scalar(m->e, l->in[1]);
  return LLVMBuildICmp(m->e->b, LLVMIntSLT, lo, hi, "");
}

/* Sums that were begun as nothing: the first step of the first round replaces them. Behind a
 * loop that may have had no round they are still nothing. */
static V keeps(TsRoles *m, const TsTileStmt *s) {
  TsTileVal acc = s->in[2];
  const TsTileStmt *inside = acc->region ? acc->region->owner : NULL;
  if (is_zero(acc)) return ts_roles_int(m, 0);
  V had = had_round(m, acc);
  if (had) return ts_roles_flag(m, had);
  if (!inside || inside->op != TS_TILE_for || acc->index < 1) return ts_roles_int(m, 1);
  TsTileVal first = inside->in[1 + acc->index];
  had = had_round(m, first);
  if (!is_zero(first) && !had) return ts_roles_int(m, 1);
  V i = ts_emit_scalar(m->e, inside->region[0]->param[0]);
  V lo = ts_emit_scalar(m->e, inside->in[0]);
  V later = LLVMBuildICmp(m->e->b, LLVMIntNE, i, lo, "");
  return ts_roles_flag(m, had ? LLVMBuildOr(m->e->b, later, had, "") : later);
}

static bool in_registers(TsTileVal v) { return !v->stmt || v->stmt->op != TS_TILE_load; }

/* From one 16 of k to the next, in units of 16 bytes: along k in panels of 64, else rows. */
static int64_t k_step(TsRoles *m, TsTileVal v, bool k_last, int k) {
  const TsTileType *t = &operand(m, v)->in[0]->type;
  int64_t panel = ts_roles_own(m, t, 1) * t->swizzle / 16;
  return k_last ? k / 4 * panel + k % 4 * 2 : k * 128;
}

static void begin_sums(TsRoles *m, const TsTileStmt *s, int n, V *reg) {
  if (is_zero(s->in[2]))
    for (int i = 0; i < n; i++)
      reg[i] = LLVMGetPoison(ts_emit_elem(m->e, (TsDtype)s->out[0]->type.dtype));
  else
    memcpy(reg, ts_emit_registers(m->e, s->in[2]), sizeof *reg * (size_t)n);
}

/* Where the rows of a group begin, in bytes: 64 rows, or a panel of 64 columns. */
static V rows_of_group(TsRoles *m, const TsTileStmt *s, bool k_last) {
  const TsTileType *t = &operand(m, s->in[0])->in[0]->type;
  int64_t panel = ts_roles_own(m, t, 1) * t->swizzle;
  return ts_roles_muli(m, m->group, k_last ? GROUP_ROWS * t->swizzle : panel);
}

/* Where its columns begin: a part of a panel, or panels. */
static V columns_of_group(TsRoles *m, const TsTileStmt *s, bool k_last) {
  const TsTileType *t = &operand(m, s->in[1])->in[0]->type;
  int64_t cols = ts_roles_wide(m, &s->out[0]->type), panel = t->swizzle / 2;
  if (k_last || (cols < panel ? panel % cols : cols % panel))
    ts_emit_fail(m->e, "groups of warps cannot divide these columns");
  if (cols >= panel)
    return ts_roles_muli(m, m->group, cols / panel * ts_roles_own(m, t, 1) * t->swizzle);
  V in = ts_roles_muli(m, ts_roles_andi(m, m->group, panel / cols - 1), cols * 2);
  V whole = LLVMBuildUDiv(m->e->b, m->group, ts_roles_int(m, panel / cols), "");
  return ts_roles_add(m, in, ts_roles_muli(m, whole, ts_roles_own(m, t, 1) * t->swizzle));
}

/* Sums that are under way already go on as those of the later group. */
static void under_way(TsRoles *m, TsTileVal was, TsTileVal now) {
  int i = 0;
  while (i < m->npending && m->pending[i] != was) i++;
  if (i == TS_ROLES_PENDING) ts_emit_fail(m->e, "too many products under way");
  if (i == m->npending) m->npending++;
  m->pending_group[i] = m->ngroup;
  m->pending[i] = now;
}

static void unit_product(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  bool regs = in_registers(s->in[0]), ka = regs || along_k(m, s->in[0], 1);
  bool kb = along_k(m, s->in[1], 0);
  int n = ts_roles_count(m, &s->out[0]->type, 1), depth = (int)s->in[0]->type.dim[1];
  V *reg = ts_roles_define(m, s->out[0], n), scale = keeps(m, s), from = NULL, one[1];
  begin_sums(m, s, n, reg);
  bool few = ts_roles_wide(m, &s->out[0]->type) < s->out[0]->type.dim[1];
  if (!regs) from = operand_descriptor(m, s->in[0], ka, few ? NULL : rows_of_group(m, s, ka));
  V d = operand_descriptor(m, s->in[1], kb, few ? columns_of_group(m, s, kb) : NULL);
  if (from) from = made_here(m, s->in[0], from);
  d = made_here(m, s->in[1], d);
  Text t = {.n = 0};
  instruction(&t, s, n, regs ? 4 : 1, !ka, !kb);
  ts_roles_asm(m, NULL, "wgmma.fence.sync.aligned;", "~{memory}", 0, NULL, true);
  int each = 32 / ts_dtypes[s->in[1]->type.dtype].nbytes; /* of k, in 32 bytes */
  if (each != 16 && (regs || !ka || !kb))
    ts_emit_fail(m->e, "products of other than 16 bits lie along k");
  for (int k = 0; k < depth / each; k++) {
    V bk = LLVMBuildAdd(b, d, ts_emit_i64(m->e, k_step(m, s->in[1], kb, k)), "");
    if (!regs)
      one[0] = LLVMBuildAdd(b, from, ts_emit_i64(m->e, k_step(m, s->in[0], ka, k)), "");
    step(m, t.at, n, reg, regs ? 4 : 1, regs ? ts_emit_registers(m->e, s->in[0]) + 4 * k : one,
         bk, k ? ts_roles_int(m, 1) : scale);
  }
  under_way(m, s->in[2], s->out[0]);
}

/* ---- fma */
/* One of the two operands in the threads' view: n rows (columns) of a stage. */
typedef struct Side {
  TsDtype d, sum; /* of an element, of sums: 16 bits are widened when they are read */
  bool k_last, rows;
  V base, row; /* address of the slot; where the thread's first row begins in it, or column */
  V pattern;   /* what the pattern exchanges pieces of 16 bytes by */
  int n;
  const int *place;
  int64_t pitch; /* bytes of a row of the memory */
} Side;

static V pointer(TsRoles *m, V at) {
  return LLVMBuildIntToPtr(m->e->b, at, LLVMPointerTypeInContext(m->e->ctx, 3), "");
}

static V load_at(TsRoles *m, LLVMTypeRef t, V at, unsigned align) {
  V v = LLVMBuildLoad2(m->e->b, t, pointer(m, at), "");
  LLVMSetAlignment(v, align);
  return v;
}

static Side side_of(TsRoles *m, TsTileVal v, V base, bool rows, bool k_last) {
  const TsTileType *t = &operand(m, v)->in[0]->type;
  Side x = {.d = (TsDtype)t->dtype, .k_last = k_last, .rows = rows, .base = base};
  x.sum = (TsDtype)m->mma->out[0]->type.dtype;
  V at = rows ? m->layout.row_base : m->layout.col_base;
  int bytes = ts_dtypes[t->dtype].nbytes;
  x.place = rows ? m->layout.row : m->layout.col;
  x.n = rows ? m->layout.nrow : m->layout.ncol;
  x.pitch = t->dim[2] * bytes;
  x.row = ts_roles_muli(m, at, k_last ? x.pitch : bytes);
  if (k_last && t->swizzle != 64) ts_emit_fail(m->e, "rows along k are 64 bytes, exchanged");
  if (k_last) x.pattern = ts_roles_andi(m, ts_roles_shri(m, at, 1), 3);
  return x;
}

/* Where 16 bytes of row i begin, piece number k of it. The pattern of a later row differs by
 * what its distance adds to bits 1 and 2 of the row's number. */
static V piece_at(TsRoles *m, const Side *x, int i, int byte) {
  int k = byte / 16;
  int other = k ^ (x->place[i] >> 1 & 3);
  V in = LLVMBuildXor(m->e->b, x->pattern, ts_roles_int(m, other), "");
  V at = ts_roles_add(m, x->row, LLVMBuildShl(m->e->b, in, ts_roles_int(m, 4), ""));
  return ts_roles_addi(m, ts_roles_add(m, x->base, at), x->place[i] * x->pitch + byte % 16);
}

/* Elements that are read at a time, and as so many bytes. */
static int vector_of(const Side *x) { return 16 / ts_dtypes[x->sum].nbytes; }
static int vector_bytes(const Side *x) { return vector_of(x) * ts_dtypes[x->d].nbytes; }

static V lane_of(TsRoles *m, const Side *x, V v, int i) {
  V y = ts_emit_lane(m->e, v, i);
  return x->d == x->sum ? y : ts_emit_cast(m->e, x->sum, x->d, y);
}

/* Row i along k: so many k as 16 bytes have. */
static void fetch_row(TsRoles *m, const Side *x, int i, int k, V *out) {
  int n = vector_of(x);
  V at = piece_at(m, x, i, k * ts_dtypes[x->d].nbytes);
  V v = load_at(m, ts_emit_type(m->e, x->d, n), at, (unsigned)vector_bytes(x));
  for (int j = 0; j < n; j++) out[j] = lane_of(m, x, v, j);
}

/* Elements k of all rows, which lie side by side. */
static void fetch_line(TsRoles *m, const Side *x, int k, V *out) {
  int n = vector_of(x);
  V line = ts_roles_addi(m, ts_roles_add(m, x->base, x->row), k * x->pitch);
  for (int i = 0; i < x->n; i += n) {
    V at = ts_roles_addi(m, line, (int64_t)x->place[i] * ts_dtypes[x->d].nbytes);
    V v = load_at(m, ts_emit_type(m->e, x->d, n), at, (unsigned)vector_bytes(x));
    for (int j = 0; j < n; j++) out[i + j] = lane_of(m, x, v, j);
  }
}

/* Sum of element i of the side with few and c of the other. */
static V *sum_of(const TsRoles *m, V *acc, const Side *x, int i, int c) {
  return x->rows ? &acc[i * m->layout.ncol + c] : &acc[c * m->layout.ncol + i];
}

static void add_product(TsRoles *m, const Side *x, V *sum, V a, V b) {
  *sum = ts_emit_fma(m->e, x->sum, b, a, *sum);
}

/* All of the side with few elements for so many k; then the other, of which few are in
 * registers at a time: along k one element, else one k. */
static void few_steps(TsRoles *m, const Side *x, const Side *y, int k, V *acc) {
  int n = vector_of(x);
  V a[4][FEW], by_row[4], b[MOST];
  for (int i = 0; i < x->n && x->k_last; i++) {
    fetch_row(m, x, i, k, by_row);
    for (int j = 0; j < n; j++) a[j][i] = by_row[j];
  }
  for (int j = 0; j < n && !x->k_last; j++) fetch_line(m, x, k + j, a[j]);
  for (int c = 0; c < y->n && y->k_last; c++) {
    fetch_row(m, y, c, k, b);
    for (int j = 0; j < n; j++)
      for (int i = 0; i < x->n; i++) add_product(m, x, sum_of(m, acc, x, i, c), a[j][i], b[j]);
  }
  for (int j = 0; j < n && !y->k_last; j++) {
    fetch_line(m, y, k + j, b);
    for (int i = 0; i < x->n; i++)
      for (int c = 0; c < y->n; c++) add_product(m, x, sum_of(m, acc, x, i, c), a[j][i], b[c]);
  }
}

static V *sums(TsRoles *m, const TsTileStmt *s) {
  int n = m->layout.nrow * m->layout.ncol;
  V *acc = ts_roles_define(m, s->out[0], n);
  memcpy(acc, ts_emit_registers(m->e, s->in[2]), sizeof *acc * (size_t)n);
  return acc;
}

/* The stage from step `k` (i32) on, of which the emitted code has the next ones. */
static Side from_step(TsRoles *m, Side x, V k, int steps) {
  LLVMBuilderRef b = m->e->b;
  if (x.k_last)
    x.pattern =
        LLVMBuildXor(b, x.pattern, ts_roles_muli(m, k, steps * ts_dtypes[x.d].nbytes / 16), "");
  else
    x.base = ts_roles_add(m, x.base, ts_roles_muli(m, k, steps * x.pitch));
  return x;
}

/* A loop over half stages, of 16 bits over quarters: longer code would not be faster, and take
 * longer to make. */
static void fma_product(TsRoles *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  V *acc = sums(m, s), first[FEW * MOST];
  int n = m->layout.nrow * m->layout.ncol, depth = (int)s->in[0]->type.dim[1];
  int steps = depth > 16 ? depth / 4 : depth / 2;
  Side x = side_of(m, s->in[0], address(m, s->in[0]), true, along_k(m, s->in[0], 1));
  Side y = side_of(m, s->in[1], address(m, s->in[1]), false, along_k(m, s->in[1], 0));
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
  LLVMBasicBlockRef body = LLVMAppendBasicBlockInContext(m->e->ctx, m->e->fn, "");
  LLVMBasicBlockRef after = LLVMAppendBasicBlockInContext(m->e->ctx, m->e->fn, "");
  LLVMBuildBr(b, body);
  LLVMPositionBuilderAtEnd(b, body);
  V k = LLVMBuildPhi(b, ts_roles_i32(m), ""), zero = ts_roles_int(m, 0);
  LLVMAddIncoming(k, &zero, &before, 1);
  for (int q = 0; q < n; q++) {
    first[q] = LLVMBuildPhi(b, LLVMTypeOf(acc[q]), "");
    LLVMAddIncoming(first[q], &acc[q], &before, 1);
    acc[q] = first[q];
  }
  Side xk = from_step(m, x, k, steps), yk = from_step(m, y, k, steps);
  bool tall = is_tall(m);
  for (int i = 0; i < steps; i += vector_of(&x))
    few_steps(m, tall ? &yk : &xk, tall ? &xk : &yk, i, acc);
  V next = ts_roles_addi(m, k, 1);
  V more = LLVMBuildICmp(b, LLVMIntSLT, next, ts_roles_int(m, depth / steps), "");
  LLVMBuildCondBr(b, more, body, after);
  LLVMAddIncoming(k, &next, &body, 1);
  for (int i = 0; i < n; i++) LLVMAddIncoming(first[i], &acc[i], &body, 1);
  LLVMPositionBuilderAtEnd(b, after);
}

void ts_roles_product(TsRoles *m, const TsTileStmt *s) {
  if (m->unit == TS_ROLES_wgmma)
    unit_product(m, s);
  else if (m->unit == TS_ROLES_warps)
    ts_roles_warps_product(m, s);
  else
    fma_product(m, s);
}

/* ---- one step, whose k is known when the kernel runs */
static void fetch_one(TsRoles *m, TsTileVal v, bool rows, V *out) {
  const TsTileStmt *s = operand(m, v);
  const TsTileType *t = &s->in[0]->type;
  const TsAttr *axes = ts_tile_attr(s, "axes");
  bool k_last = axes->type == TS_ATTR_ints && axes->ints[0] == 1;
  int bytes = ts_dtypes[t->dtype].nbytes, vector = 16 / bytes;
  int shift = vector == 8 ? 3 : vector == 4 ? 2 : 1;
  V k = ts_emit_scalar(m->e, s->in[k_last ? 3 : 2]);
  Side x =
      side_of(m, v, ts_roles_slot(m, s->in[0], ts_emit_scalar(m->e, s->in[1])), rows, k_last);
  for (int i = 0; i < x.n; i++) {
    V at;
    if (k_last) {
      V piece = LLVMBuildXor(m->e->b, ts_roles_shri(m, k, shift),
                             ts_roles_int(m, x.place[i] >> 1 & 3), "");
      piece = LLVMBuildShl(m->e->b, LLVMBuildXor(m->e->b, piece, x.pattern, ""),
                           ts_roles_int(m, 4), "");
      V in = ts_roles_muli(m, ts_roles_andi(m, k, vector - 1), bytes);
      at = ts_roles_addi(m, ts_roles_add(m, x.row, ts_roles_add(m, piece, in)),
                         x.place[i] * x.pitch);
    } else {
      at = ts_roles_addi(m, ts_roles_add(m, x.row, ts_roles_muli(m, k, x.pitch)),
                         x.place[i] * bytes);
    }
    out[i] = load_at(m, ts_emit_elem(m->e, x.d), ts_roles_add(m, x.base, at), (unsigned)bytes);
    if (x.d != x.sum) out[i] = ts_emit_cast(m->e, x.sum, x.d, out[i]);
  }
}

void ts_roles_outer(TsRoles *m, const TsTileStmt *s) {
  if (m->unit != TS_ROLES_fma) ts_emit_fail(m->e, "a step of a matrix unit");
  V *acc = sums(m, s), a[MOST], b[MOST];
  int ncol = m->layout.ncol;
  fetch_one(m, s->in[0], true, a);
  fetch_one(m, s->in[1], false, b);
  for (int i = 0; i < m->layout.nrow; i++)
    for (int c = 0; c < ncol; c++)
      acc[i * ncol + c] =
          ts_emit_fma(m->e, (TsDtype)s->out[0]->type.dtype, a[i], b[c], acc[i * ncol + c]);
}
