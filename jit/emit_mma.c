/* The walk over a kernel with roles: see jit/emit_mma.h. */
#include "jit/emit_mma.h"

#include <stdio.h>
#include <string.h>

typedef LLVMValueRef V;

enum {
  WARP = 32,
  GROUP = 128,
  SWIZZLED = 1024 /* where a pattern may begin */,
  LINE = 128,
  GROUP_WARPS = 4
};

/* ---- small things */
LLVMTypeRef ts_mma_i32(TsMma *m) { return ts_emit_int_type(m->e, 32, 0); }
V ts_mma_int(TsMma *m, int64_t v) { return ts_emit_int(m->e, ts_mma_i32(m), v); }
V ts_mma_add(TsMma *m, V x, V y) { return LLVMBuildAdd(m->e->b, x, y, ""); }
V ts_mma_addi(TsMma *m, V x, int64_t y) { return y ? ts_mma_add(m, x, ts_mma_int(m, y)) : x; }
V ts_mma_muli(TsMma *m, V x, int64_t y) {
  return y == 1 ? x : LLVMBuildMul(m->e->b, x, ts_mma_int(m, y), "");
}
V ts_mma_andi(TsMma *m, V x, int64_t y) {
  return LLVMBuildAnd(m->e->b, x, ts_mma_int(m, y), "");
}
V ts_mma_shri(TsMma *m, V x, int y) { return LLVMBuildLShr(m->e->b, x, ts_mma_int(m, y), ""); }
V ts_mma_flag(TsMma *m, V i1) { return LLVMBuildZExt(m->e->b, i1, ts_mma_i32(m), ""); }

static V equal(TsMma *m, V x, int64_t y) {
  return LLVMBuildICmp(m->e->b, LLVMIntEQ, x, ts_mma_int(m, y), "");
}

V ts_mma_asm(TsMma *m, LLVMTypeRef type, const char *text, const char *constraints, int n,
             V *in, bool side) {
  LLVMTypeRef of[300];
  TsEmit *e = m->e;
  if (n > 300) ts_emit_fail(e, "too many operands");
  for (int i = 0; i < n; i++) of[i] = LLVMTypeOf(in[i]);
  LLVMTypeRef t =
      LLVMFunctionType(type ? type : LLVMVoidTypeInContext(e->ctx), of, (unsigned)n, 0);
  V f = LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), side, false,
                         LLVMInlineAsmDialectATT, false);
  V call = LLVMBuildCall2(e->b, t, f, in, (unsigned)n, "");
  if (!side) return call;
  unsigned convergent = LLVMGetEnumAttributeKindForName("convergent", 10);
  LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                           LLVMCreateEnumAttribute(e->ctx, convergent, 0));
  return call;
}

/* ---- memory of the block */
int64_t ts_mma_own(const TsMma *m, const TsTileType *t, int axis) {
  return t->split && t->split == axis ? t->dim[axis] / m->info->cluster : t->dim[axis];
}

int64_t ts_mma_slot_bytes(const TsMma *m, const TsTileType *t) {
  int64_t n = ts_dtypes[t->dtype].nbytes;
  for (int i = 1; i < t->rank; i++) n *= ts_mma_own(m, t, i);
  return n;
}

V ts_mma_slot(TsMma *m, TsTileVal memory, V slot) {
  const TsTileType *t = &memory->type;
  int64_t n = t->space == TS_SPACE_barrier ? 8 : ts_mma_slot_bytes(m, t);
  return ts_mma_add(m, ts_emit_parts(m->e, memory)[0], ts_mma_muli(m, slot, n));
}

int64_t ts_mma_zero(TsMma *m, TsTileVal v) {
  if (!v->stmt || v->stmt->op != TS_TILE_const)
    ts_emit_fail(m->e, "a position is not constant");
  return (int64_t)ts_tile_attr(v->stmt, "value")->f;
}

static int64_t nbytes(const TsTileType *t) {
  for (int i = 0; i < t->rank; i++)
    if (ts_tile_dim_is(t->dim[i])) return -1;
  return ts_tile_numel(t) * ts_dtypes[t->dtype].nbytes;
}

/* Bytes of the kernel's scratch, one behind the other; of as much as stands above `end`. */
static int64_t scratch_bytes(TsMma *m, const TsTileStmt *end) {
  int64_t n = 0;
  for (const TsTileStmt *s = m->e->k->body->first; s && s != end; s = s->next) {
    if (s->op != TS_TILE_alloc || s->out[0]->type.space != TS_SPACE_scratch) continue;
    const TsTileType *t = &s->out[0]->type;
    if (nbytes(t) < 0) ts_emit_fail(m->e, "scratch of unknown size");
    n += (nbytes(t) + 15) / 16 * 16;
  }
  return n;
}

static void alloc(TsMma *m, const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type;
  if (t->space == TS_SPACE_scratch) {
    V at = ts_emit_i64(m->e, scratch_bytes(m, s));
    *ts_mma_define(m, s->out[0], 1) =
        LLVMBuildGEP2(m->e->b, ts_emit_int_type(m->e, 8, 0), m->scratch, &at, 1, "");
    return;
  }
  bool barrier = t->space == TS_SPACE_barrier;
  if (!barrier && t->space != TS_SPACE_shared) ts_emit_fail(m->e, "memory of another space");
  bool few = t->rank < 3 && !t->swizzle;
  if (!barrier && !few && (t->rank != 3 || t->strided))
    ts_emit_fail(m->e, "shared memory has 3 axes");
  uint32_t align = barrier ? 8 : few ? LINE : SWIZZLED;
  m->shared = (m->shared + align - 1) / align * align;
  *ts_mma_define(m, s->out[0], 1) = ts_mma_addi(m, m->smem, m->shared);
  m->shared += (uint32_t)(t->dim[0] * (barrier ? 8 : ts_mma_slot_bytes(m, t)));
}

/* ---- values */
V *ts_mma_define(TsMma *m, TsTileVal v, int n) {
  TsEmitted *to = &m->e->value[v->id];
  to->split = false;
  to->part = ts_emit_take(m->e, sizeof *to->part * (size_t)n);
  memset(to->part, 0, sizeof *to->part * (size_t)n);
  return to->part;
}

/* Of fewer rows than 64 for each group the groups have parts of the columns, as warps have. */
int ts_mma_wide(const TsMma *m, const TsTileType *t) {
  int64_t wide = t->dim[t->rank - 1], rows = (int64_t)m->warps * 16;
  if (m->unit == TS_MMA_warps) return (int)(wide / m->across);
  bool few = m->unit == TS_MMA_wgmma && t->rank == 2 && t->dim[0] < rows;
  return (int)(few ? wide * t->dim[0] / rows : wide);
}

int ts_mma_count(const TsMma *m, const TsTileType *t, int axis) {
  const TsMmaLayout *l = &m->layout;
  if (t->space != TS_SPACE_fragment) return 1;
  int ncol = ts_mma_in_blocks(m) ? ts_mma_wide(m, t) / 4 : l->ncol;
  bool pairs = ts_mma_is_pairs(t) && m->unit != TS_MMA_fma;
  if (t->rank == 1) return axis == 1 ? ncol : l->nrow;
  return l->nrow * ncol / (pairs ? 2 : 1);
}

static int parts_of(TsMma *m, TsTileVal v) {
  int of = m->axis[v->id];
  if (of >= TS_MMA_LEFT) return ts_mma_warps_count(m, &v->type, of == TS_MMA_LEFT);
  return ts_mma_count(m, &v->type, m->axis[v->id] ? m->axis[v->id] - 1 : 1);
}

static V one_constant(TsMma *m, const TsTileStmt *s, TsDtype d) {
  if (s->op == TS_TILE_const) {
    double v = ts_tile_attr(s, "value")->f;
    return d == TS_DT_i64 ? ts_mma_int(m, (int64_t)v) : ts_emit_number(m->e, d, 0, v);
  }
  LLVMTypeRef t = ts_emit_elem(m->e, d);
  int bits = 8 * ts_dtypes[d].nbytes;
  if (d == TS_DT_bool || d == TS_DT_i64) t = d == TS_DT_bool ? t : ts_mma_i32(m);
  V v = ts_emit_int(m->e, ts_dtype_is(d, TS_KIND_F) ? ts_emit_int_type(m->e, bits, 0) : t,
                    ts_tile_attr(s, "value")->i);
  return ts_dtype_is(d, TS_KIND_F) ? LLVMBuildBitCast(m->e->b, v, t, "") : v;
}

static void constant(TsMma *m, const TsTileStmt *s) {
  TsTileVal v = s->out[0];
  if (ts_mma_is_pairs(&v->type)) ts_emit_fail(m->e, "constants of 16 bits");
  int n = parts_of(m, v);
  V *to = ts_mma_define(m, v, n), one = one_constant(m, s, (TsDtype)v->type.dtype);
  for (int i = 0; i < n; i++) to[i] = one;
}

/* LLVM's division rounds to zero. */
static V floor_of(TsMma *m, V x, V y, bool rest) {
  LLVMBuilderRef b = m->e->b;
  V q = LLVMBuildSDiv(b, x, y, ""), r = LLVMBuildSub(b, x, LLVMBuildMul(b, q, y, ""), "");
  V sign = LLVMBuildICmp(b, LLVMIntSLT, LLVMBuildXor(b, r, y, ""), ts_mma_int(m, 0), "");
  V off = LLVMBuildAnd(b, sign, LLVMBuildNot(b, equal(m, r, 0), ""), "");
  if (rest) return LLVMBuildSelect(b, off, LLVMBuildAdd(b, r, y, ""), r, "");
  return LLVMBuildSub(b, q, ts_mma_flag(m, off), "");
}

static const TsTileStmt *made_by(TsTileVal v, int op) {
  return v->stmt && v->stmt->op == op ? v->stmt : NULL;
}

/* x - x / y y. */
static bool is_rest(const TsTileStmt *s, TsTileVal *x, TsTileVal *y) {
  const TsTileStmt *times = made_by(s->in[1], TS_OP_mul);
  const TsTileStmt *by = times ? made_by(times->in[0], TS_OP_floordiv) : NULL;
  if (!by || by->in[0] != s->in[0] || by->in[1] != times->in[1]) return false;
  *x = by->in[0], *y = by->in[1];
  return true;
}

static double number_of(TsTileVal v) {
  const TsTileStmt *s = made_by(v, TS_TILE_const);
  return s ? ts_tile_attr(s, "value")->f : -1;
}

/* Positions that cannot be negative: sizes, numbers of rounds from 0 on, what is made of them. */
static bool counts(TsTileVal v, int depth) {
  enum { DEEPEST = 8 };
  const TsTileStmt *s = v->stmt;
  TsTileVal x, y;
  if (v->type.dtype != TS_DT_i64 || v->type.rank || depth > DEEPEST) return false;
  if (!s) {
    const TsTileStmt *loop = v->region ? v->region->owner : NULL;
    return loop && loop->op == TS_TILE_for && v == v->region->param[0] &&
           counts(loop->in[0], depth + 1);
  }
  switch (s->op) {
  case TS_TILE_dim: return true;
  case TS_TILE_const: return number_of(v) >= 0;
  case TS_OP_mod: return counts(s->in[1], depth + 1);
  case TS_OP_maximum: return counts(s->in[0], depth + 1) || counts(s->in[1], depth + 1);
  case TS_OP_add:
  case TS_OP_mul:
  case TS_OP_floordiv:
  case TS_OP_minimum: return counts(s->in[0], depth + 1) && counts(s->in[1], depth + 1);
  case TS_OP_sub:
    if (is_rest(s, &x, &y)) return counts(x, depth + 1) && counts(y, depth + 1);
    return number_of(s->in[1]) >= 0 && number_of(s->in[0]) >= number_of(s->in[1]);
  default: return false;
  }
}

/* Of positions, most of which need no look at the sign. */
static V divided(TsMma *m, const TsTileStmt *s, V x, V y) {
  bool rest = s->op == TS_OP_mod;
  if (!counts(s->in[0], 0) || !counts(s->in[1], 0)) return floor_of(m, x, y, rest);
  return rest ? LLVMBuildURem(m->e->b, x, y, "") : LLVMBuildUDiv(m->e->b, x, y, "");
}

static void pointwise(TsMma *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  TsDtype d = (TsDtype)s->in[s->op == TS_OP_where ? 1 : 0]->type.dtype;
  int n = parts_of(m, y);
  V *to = ts_mma_define(m, y, n), in[3];
  bool division = s->op == TS_OP_floordiv || s->op == TS_OP_mod;
  if (ts_mma_is_pairs(&y->type)) ts_emit_fail(m->e, "arithmetic of 16 bits");
  if (s->nin > 3) ts_emit_fail(m->e, "%s has %d operands", ts_tile_op_name(s->op), s->nin);
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < s->nin; k++) in[k] = ts_emit_parts(m->e, s->in[k])[i];
    to[i] = division && d == TS_DT_i64 ? divided(m, s, in[0], in[1])
                                       : ts_emit_pointwise(m->e, s->op, d, in);
  }
}

static void same_bits(TsMma *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  if (y->type.dtype == TS_DT_i64 || s->in[0]->type.dtype == TS_DT_i64)
    ts_emit_fail(m->e, "bits of 64: whole numbers with roles are positions of 32");
  int n = parts_of(m, y);
  V *to = ts_mma_define(m, y, n), *x = ts_emit_parts(m->e, s->in[0]);
  LLVMTypeRef t = ts_emit_elem(m->e, (TsDtype)y->type.dtype);
  for (int i = 0; i < n; i++) to[i] = LLVMBuildBitCast(m->e->b, x[i], t, "");
}

/* ---- loops */
/* Whether the loop has a round whatever the sizes are: a sum that products are added to while
 * it is carried must not meet another value at the end. */
static bool runs(const TsTileStmt *s) {
  const TsTileStmt *lo = s->in[0]->stmt, *hi = s->in[1]->stmt;
  if (!lo || !hi || lo->op != TS_TILE_const) return false;
  if (hi->op == TS_TILE_const)
    return ts_tile_attr(hi, "value")->f > ts_tile_attr(lo, "value")->f;
  if (hi->op != TS_OP_maximum) return false;
  for (int i = 0; i < 2; i++) {
    const TsTileStmt *x = hi->in[i]->stmt;
    if (x && x->op == TS_TILE_const &&
        ts_tile_attr(x, "value")->f > ts_tile_attr(lo, "value")->f)
      return true;
  }
  return false;
}

/* Sums that begin as zero begin as nothing: the first product does not read them. */
static bool begins_empty(const TsMma *m, TsTileVal v) {
  return m->unit == TS_MMA_wgmma && v->type.space == TS_SPACE_fragment && v->stmt &&
         v->stmt->op == TS_TILE_const && ts_tile_attr(v->stmt, "value")->f == 0;
}

static void swap_pending(TsMma *m, TsTileVal was, TsTileVal now) {
  for (int i = 0; i < m->npending; i++)
    if (m->pending[i] == was) m->pending[i] = now;
}

static LLVMBasicBlockRef block(TsMma *m) {
  return LLVMAppendBasicBlockInContext(m->e->ctx, m->e->fn, "");
}

/* One phi for every register of a carried value. */
static V *enter_phis(TsMma *m, TsTileVal param, TsTileVal first, LLVMBasicBlockRef from) {
  int n = parts_of(m, param);
  V *in = ts_emit_parts(m->e, first), *now = ts_mma_define(m, param, n);
  V *phi = ts_emit_take(m->e, sizeof *phi * (size_t)n);
  for (int i = 0; i < n; i++) {
    phi[i] = LLVMBuildPhi(m->e->b, LLVMTypeOf(in[i]), "");
    V v = begins_empty(m, first) ? LLVMGetPoison(LLVMTypeOf(in[i])) : in[i];
    LLVMAddIncoming(phi[i], &v, &from, 1);
    now[i] = phi[i]; /* until a wait replaces it */
  }
  return phi;
}

static void close_phis(TsMma *m, V *phi, TsTileVal last, LLVMBasicBlockRef from) {
  V *in = ts_emit_parts(m->e, last);
  for (int i = 0, n = parts_of(m, last); i < n; i++) LLVMAddIncoming(phi[i], &in[i], &from, 1);
}

static void define_as(TsMma *m, TsTileVal to, TsTileVal from) {
  int n = parts_of(m, to);
  V *in = ts_emit_parts(m->e, from);
  memcpy(ts_mma_define(m, to, n), in, sizeof *in * (size_t)n);
}

/* A loop that runs tests behind its body, others before it. */
static void loop(TsMma *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  const TsTileRegion *r = s->region[0];
  bool behind = runs(s);
  V lo = ts_emit_scalar(m->e, s->in[0]), hi = ts_emit_scalar(m->e, s->in[1]);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), head = block(m),
                    body = behind ? head : block(m), after = block(m);
  LLVMBuildBr(b, head);
  LLVMPositionBuilderAtEnd(b, head);
  V i = LLVMBuildPhi(b, ts_mma_i32(m), "");
  LLVMAddIncoming(i, &lo, &before, 1);
  *ts_mma_define(m, r->param[0], 1) = i;
  V **phi = ts_emit_take(m->e, sizeof *phi * (size_t)(s->nout + 1));
  for (int c = 0; c < s->nout; c++) {
    phi[c] = enter_phis(m, r->param[1 + c], s->in[2 + c], before);
    if (behind) swap_pending(m, s->in[2 + c], r->param[1 + c]);
  }
  if (!behind) {
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, i, hi, ""), body, after);
    LLVMPositionBuilderAtEnd(b, body);
  }
  ts_emit_mma_region(m, r);
  V next = ts_mma_addi(m, i, ts_tile_attr(s, "step")->i);
  LLVMBasicBlockRef last = LLVMGetInsertBlock(b);
  if (behind)
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, hi, ""), head, after);
  else
    LLVMBuildBr(b, head);
  LLVMAddIncoming(i, &next, &last, 1);
  for (int c = 0; c < s->nout; c++) {
    TsTileVal y = r->last->in[c];
    close_phis(m, phi[c], y, last);
    define_as(m, s->out[c], behind ? y : r->param[1 + c]);
    swap_pending(m, y, s->out[c]);
  }
  LLVMPositionBuilderAtEnd(b, after);
}

/* The body, and a test behind it. */
static void repeat(TsMma *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  const TsTileRegion *r = s->region[0];
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), body = block(m), after = block(m);
  LLVMBuildBr(b, body);
  LLVMPositionBuilderAtEnd(b, body);
  V **phi = ts_emit_take(m->e, sizeof *phi * (size_t)(s->nout + 1));
  for (int c = 0; c < s->nout; c++) phi[c] = enter_phis(m, r->param[c], s->in[c], before);
  ts_emit_mma_region(m, r);
  LLVMBasicBlockRef last = LLVMGetInsertBlock(b);
  LLVMBuildCondBr(b, ts_emit_scalar(m->e, r->last->in[0]), body, after);
  for (int c = 0; c < s->nout; c++) {
    close_phis(m, phi[c], r->last->in[1 + c], last);
    define_as(m, s->out[c], r->last->in[1 + c]);
  }
  LLVMPositionBuilderAtEnd(b, after);
}

static bool only_arrives(const TsTileStmt *s) {
  for (const TsTileStmt *x = s->region[0]->first; x; x = x->next)
    if (x->op != TS_TILE_arrive) return false;
  return !s->region[1]->first;
}

/* One way or the other, for all threads of a group; never products. */
static void choice(TsMma *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  LLVMBasicBlockRef way[2] = {block(m), block(m)}, end[2], after = block(m);
  LLVMBuildCondBr(b, ts_emit_scalar(m->e, s->in[0]), way[0], way[1]);
  for (int i = 0; i < 2; i++) {
    LLVMPositionBuilderAtEnd(b, way[i]);
    ts_emit_mma_region(m, s->region[i]);
    end[i] = LLVMGetInsertBlock(b);
    LLVMBuildBr(b, after);
  }
  LLVMPositionBuilderAtEnd(b, after);
  for (int c = 0; c < s->nout; c++) {
    int n = parts_of(m, s->out[c]);
    V *to = ts_mma_define(m, s->out[c], n);
    V *x = ts_emit_parts(m->e, s->region[0]->last->in[c]);
    V *y = ts_emit_parts(m->e, s->region[1]->last->in[c]);
    for (int i = 0; i < n; i++) {
      to[i] = LLVMBuildPhi(b, LLVMTypeOf(x[i]), "");
      LLVMAddIncoming(to[i], (V[]){x[i], y[i]}, end, 2);
    }
  }
}

/* A branch that only arrives is a predicate. */
static void branch(TsMma *m, const TsTileStmt *s) {
  if (!only_arrives(s)) {
    choice(m, s);
    return;
  }
  m->only_if = ts_mma_flag(m, ts_emit_scalar(m->e, s->in[0]));
  ts_emit_mma_region(m, s->region[0]);
  m->only_if = NULL;
}

/* ---- statements */
static void size(TsMma *m, const TsTileStmt *s) {
  V d = m->e->dim[ts_tile_attr(s, "index")->i];
  *ts_mma_define(m, s->out[0], 1) = LLVMBuildTrunc(m->e->b, d, ts_mma_i32(m), "");
}

/* The next launch relies on all before this one being over, so it may come behind the wait. */
static void follow(TsMma *m) {
  if (!m->info->ahead) return;
  ts_mma_asm(m, NULL, "griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;", "~{memory}",
             0, NULL, true);
}

static void statement(TsMma *m, const TsTileStmt *s) {
  if (ts_mma_of_lanes(m, s)) return;
  if (s->op < TS_OP_COUNT) {
    pointwise(m, s);
    return;
  }
  switch (s->op) {
  case TS_TILE_for: loop(m, s); return;
  case TS_TILE_repeat: repeat(m, s); return;
  case TS_TILE_if: branch(m, s); return;
  case TS_TILE_alloc: alloc(m, s); return;
  case TS_TILE_dim: size(m, s); return;
  case TS_TILE_const:
  case TS_TILE_bits: constant(m, s); return;
  case TS_TILE_load: ts_mma_load(m, s); return;
  case TS_TILE_store:
  case TS_TILE_store_below: ts_mma_store(m, s); return;
  case TS_TILE_cast: ts_mma_cast(m, s); return;
  case TS_TILE_part: ts_mma_part(m, s); return;
  case TS_TILE_broadcast: ts_mma_broadcast(m, s); return;
  case TS_TILE_mma: ts_mma_product(m, s); return;
  case TS_TILE_outer: ts_mma_outer(m, s); return;
  case TS_TILE_await: ts_mma_await(m, s); return;
  case TS_TILE_arrive: ts_mma_arrive(m, s); return;
  case TS_TILE_expect: ts_mma_expect(m, s); return;
  case TS_TILE_copy_bulk: ts_mma_copy_bulk(m, s); return;
  case TS_TILE_copy_async: ts_mma_copy_async(m, s); return;
  case TS_TILE_store_bulk: ts_mma_store_bulk(m, s); return;
  case TS_TILE_commit: ts_mma_commit(m, s); return;
  case TS_TILE_wait: ts_mma_wait(m, s); return;
  case TS_TILE_sync: ts_mma_sync(m); return;
  case TS_TILE_pace: ts_mma_pace(m, s); return;
  case TS_TILE_ex2:
  case TS_TILE_lg2:
  case TS_TILE_inv:
  case TS_TILE_larger: ts_mma_function_of(m, s); return;
  case TS_TILE_iota: ts_mma_iota(m, s); return;
  case TS_TILE_quarter: ts_mma_quarter(m, s); return;
  case TS_TILE_row: ts_mma_row(m, s); return;
  case TS_TILE_claim: ts_mma_claim(m, s); return;
  case TS_TILE_own: ts_mma_own_of(m, s); return;
  case TS_TILE_turn: ts_mma_turn(m, s); return;
  case TS_TILE_barrier: ts_mma_barrier(m, s); return;
  case TS_TILE_until: ts_mma_until(m, s); return;
  case TS_TILE_signal: ts_mma_signal(m, s); return;
  case TS_TILE_follow: follow(m); return;
  case TS_TILE_fence:
    ts_mma_asm(m, NULL, "fence.proxy.async.shared::cta;", "~{memory}", 0, NULL, true);
    return;
  case TS_TILE_bitcast: same_bits(m, s); return;
  case TS_TILE_shl:
  case TS_TILE_shr:
  case TS_TILE_sar:
  case TS_TILE_mulhi:
  case TS_TILE_scale:
  case TS_TILE_ult: pointwise(m, s); return;
  case TS_TILE_registers: /* at the beginning of the role */
  case TS_TILE_yield:
  case TS_TILE_mark: return;
  default: ts_emit_fail(m->e, "%s has no code with roles", ts_tile_op_name(s->op));
  }
}

void ts_emit_mma_region(TsMma *m, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) statement(m, s);
}

/* ---- roles */
static const TsTileStmt *find(const TsTileRegion *r, int op) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == op) return s;
    for (int i = 0; i < s->nregion; i++) {
      const TsTileStmt *inner = find(s->region[i], op);
      if (inner) return inner;
    }
  }
  return NULL;
}

/* The pool has what threads get at the start; a role that wants fewer gives some back. */
static void set_registers(TsMma *m) {
  const TsTileStmt *s = find(m->role->region[0], TS_TILE_registers);
  char text[80];
  if (!s) return;
  int64_t count = ts_tile_attr(s, "count")->i;
  snprintf(text, sizeof text, "setmaxnreg.%s.sync.aligned.u32 %d;",
           count < 65536 / m->info->threads ? "dec" : "inc", (int)count);
  ts_mma_asm(m, NULL, text, "~{memory}", 0, NULL, true);
}

static void begin_role(TsMma *m, const TsTileStmt *s, int first) {
  m->role = s;
  m->warps = (int)ts_tile_attr(s, "warps")->i;
  m->mma = find(s->region[0], TS_TILE_mma);
  m->single = ts_mma_is_single(s);
  m->npending = m->ngroup = 0;
  m->copied = 16;
  m->t = ts_mma_addi(m, m->tid, -(int64_t)first * WARP);
  m->group = ts_mma_shri(m, m->t, 7);
  m->lane = ts_mma_andi(m, m->t, WARP - 1);
  m->warp = ts_mma_andi(m, ts_mma_shri(m, m->t, 5), 3);
  m->leader = ts_mma_flag(m, equal(m, ts_mma_andi(m, m->t, GROUP - 1), 0));
  m->unit = TS_MMA_none;
  if (m->warps % GROUP_WARPS == 0) set_registers(m);
}

static void role(TsMma *m, const TsTileStmt *s, int first, LLVMBasicBlockRef end) {
  LLVMBuilderRef b = m->e->b;
  begin_role(m, s, first);
  if (m->single) {
    LLVMBasicBlockRef body = block(m);
    LLVMBuildCondBr(b, equal(m, m->t, 0), body, end);
    LLVMPositionBuilderAtEnd(b, body);
  } else {
    if (ts_mma_has_lanes(s))
      ts_mma_lanes_layout(m);
    else
      ts_mma_layout(m);
    if (find(s->region[0], TS_TILE_turn)) ts_mma_first_turn(m);
  }
  ts_emit_mma_region(m, s->region[0]);
  LLVMBuildBr(b, end);
}

/* Roles that make up whole groups of four warps from s on: their warps. */
static int together(const TsTileStmt *s, int *count) {
  int warps = 0;
  for (*count = 0; s && s->op == TS_TILE_role; s = s->next) {
    warps += (int)ts_tile_attr(s, "warps")->i, ++*count;
    if (warps % GROUP_WARPS == 0) break;
  }
  return warps;
}

static void roles(TsMma *m, const TsTileStmt *s, LLVMBasicBlockRef end) {
  LLVMBuilderRef b = m->e->b;
  V warp = ts_mma_shri(m, m->tid, 5);
  int first = 0, count;
  while (s && s->op == TS_TILE_role) {
    int behind = first + together(s, &count);
    LLVMBasicBlockRef mine = block(m), next = block(m);
    V in = LLVMBuildICmp(b, LLVMIntULT, warp, ts_mma_int(m, behind), "");
    LLVMBuildCondBr(b, in, mine, next);
    LLVMPositionBuilderAtEnd(b, mine);
    m->role = s;
    if (count > 1) set_registers(m); /* by the whole group */
    for (; count > 0; count--, s = s->next) {
      int warps = (int)ts_tile_attr(s, "warps")->i;
      LLVMBasicBlockRef one = block(m), others = count > 1 ? block(m) : end;
      in = LLVMBuildICmp(b, LLVMIntULT, warp, ts_mma_int(m, first + warps), "");
      LLVMBuildCondBr(b, in, one, others);
      LLVMPositionBuilderAtEnd(b, one);
      role(m, s, first, end);
      LLVMPositionBuilderAtEnd(b, others);
      first += warps;
    }
    LLVMPositionBuilderAtEnd(b, next);
  }
  if (s) ts_emit_fail(m->e, "%s stands behind the roles", ts_tile_op_name(s->op));
  if (first * WARP != m->info->threads) ts_emit_fail(m->e, "roles of %d warps", first);
  LLVMBuildBr(b, end);
}

/* ---- the kernel */
static V special(TsMma *m, const char *name) {
  char text[64];
  snprintf(text, sizeof text, "mov.u32 $0, %%%s;", name);
  return ts_mma_asm(m, ts_mma_i32(m), text, "=r", 0, NULL, false);
}

/* A round of the grid's loop. */
static void block_of(TsMma *m, const TsTileStmt *s) {
  LLVMBuilderRef b = m->e->b;
  V number = LLVMBuildUDiv(b, special(m, "ctaid.x"), ts_mma_int(m, m->info->cluster), "");
  V step = ts_mma_muli(m, number, ts_tile_attr(s, "step")->i);
  *ts_mma_define(m, s->region[0]->param[0], 1) =
      ts_mma_add(m, ts_emit_scalar(m->e, s->in[0]), step);
  const TsTileStmt *x = s->region[0]->first;
  for (; x && x->op != TS_TILE_role; x = x->next) statement(m, x);
  ts_mma_barriers(m, s->region[0]);
  LLVMBasicBlockRef end = block(m);
  roles(m, x, end);
  LLVMPositionBuilderAtEnd(b, end);
}

static void attribute(TsMma *m, const char *name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  LLVMAttributeRef a = LLVMCreateStringAttribute(m->e->ctx, name, (unsigned)strlen(name), text,
                                                 (unsigned)strlen(text));
  LLVMAddAttributeAtIndex(m->e->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void map_parameter(TsMma *m, unsigned index) {
  LLVMContextRef ctx = m->e->ctx;
  LLVMTypeRef bytes = LLVMArrayType2(LLVMInt8TypeInContext(ctx), 128);
  LLVMAttributeRef list[3] = {
      LLVMCreateTypeAttribute(ctx, LLVMGetEnumAttributeKindForName("byval", 5), bytes),
      LLVMCreateEnumAttribute(ctx, LLVMGetEnumAttributeKindForName("align", 5), 64),
      LLVMCreateStringAttribute(ctx, "nvvm.grid_constant", 18, "", 0)};
  for (int i = 0; i < 3; i++) LLVMAddAttributeAtIndex(m->e->fn, index + 1, list[i]);
}

enum { PTX_KERNEL = 71 };

/* How many maps there are is known when the copies were seen: room for all, a first walk
 * counts. */
static void function(TsMma *m, int nmap) {
  TsEmit *e = m->e;
  const TsTile *k = e->k;
  LLVMTypeRef type[40], global = LLVMPointerTypeInContext(e->ctx, 1);
  unsigned n = 0, first = (unsigned)k->nparam + (m->info->scratch > 0);
  for (unsigned i = 0; i < first; i++) type[n++] = global;
  for (int i = 0; i < nmap; i++) type[n++] = LLVMPointerTypeInContext(e->ctx, 0);
  for (int i = 0; i < k->ndim; i++) type[n++] = ts_emit_int_type(e, 64, 0);
  e->fn = LLVMAddFunction(e->module, m->info->name,
                          LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), type, n, 0));
  LLVMSetFunctionCallConv(e->fn, PTX_KERNEL);
  attribute(m, "nvvm.maxntid", m->info->threads);
  attribute(m, "nvvm.minctasm", 1);
  if (m->info->cluster > 1) attribute(m, "nvvm.cluster_dim", m->info->cluster);
  for (int i = 0; i < nmap; i++) {
    map_parameter(m, first + (unsigned)i);
    m->map[i] = LLVMGetParam(e->fn, first + (unsigned)i);
  }
  for (int i = 0; i < k->ndim; i++)
    e->dim[i] = LLVMGetParam(e->fn, first + (unsigned)(nmap + i));
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""));
  for (int i = 0; i < k->nparam; i++)
    *ts_mma_define(m, k->param[i], 1) = LLVMGetParam(e->fn, (unsigned)i);
  if (m->info->scratch) m->scratch = LLVMGetParam(e->fn, (unsigned)k->nparam);
}

static V dynamic_memory(TsMma *m) {
  TsEmit *e = m->e;
  LLVMTypeRef t = LLVMArrayType2(LLVMInt8TypeInContext(e->ctx), 0);
  V memory = LLVMAddGlobalInAddressSpace(e->module, t, "shared_memory", 3);
  LLVMSetLinkage(memory, LLVMExternalLinkage);
  LLVMSetAlignment(memory, SWIZZLED);
  return LLVMBuildPtrToInt(e->b, memory, ts_mma_i32(m), "");
}

static const TsTileStmt *grid_of(TsMma *m) {
  const TsTileStmt *grid = NULL;
  for (const TsTileStmt *s = m->e->k->body->first; s; s = s->next) {
    if (s->op != TS_TILE_for) continue;
    if (grid) ts_emit_fail(m->e, "one phase, not two");
    grid = s;
  }
  if (!grid || !find(grid->region[0], TS_TILE_role)) ts_emit_fail(m->e, "no roles");
  return grid;
}

/* Views that copies need, each once: of a parameter one for fetching, one for storing. */
static int count_maps(const TsTileRegion *r, bool *known) {
  int n = 0;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    bool fetch = s->op == TS_TILE_copy_bulk;
    bool line = fetch && s->in[0]->type.rank == 2; /* needs none */
    if ((fetch && !line) || s->op == TS_TILE_store_bulk) {
      bool *is = &known[2 * s->in[fetch]->index + fetch];
      n += !*is;
      *is = true;
    }
    for (int i = 0; i < s->nregion; i++) n += count_maps(s->region[i], known);
  }
  return n;
}

void ts_emit_mma_module(TsEmit *e, TsGpuMma *info) {
  TsMma m = {.e = e, .info = info};
  const TsTile *k = e->k;
  *info = (TsGpuMma){.threads = k->threads, .cluster = k->cluster > 1 ? k->cluster : 1};
  info->nparam = k->nparam, info->ndim = k->ndim;
  snprintf(info->name, sizeof info->name, "%s", k->name);
  e->value = ts_emit_take(e, sizeof *e->value * (k->nvalue + 1));
  memset(e->value, 0, sizeof *e->value * (k->nvalue + 1));
  m.axis = ts_emit_take(e, k->nvalue + 1);
  memset(m.axis, 0, k->nvalue + 1);
  ts_mma_axes(&m, k->body);
  bool *known = ts_emit_take(e, 2 * (size_t)k->nparam + 1);
  memset(known, 0, 2 * (size_t)k->nparam + 1);
  int nmap = count_maps(k->body, known);
  info->scratch = scratch_bytes(&m, NULL);
  info->ahead = find(k->body, TS_TILE_follow) && !strncmp(k->target, "sm_9", 4);
  if (nmap > TS_GPU_MAPS || k->nparam + nmap + k->ndim > 39) ts_emit_fail(e, "too many views");
  function(&m, nmap);
  m.smem = dynamic_memory(&m);
  m.tid = special(&m, "tid.x");
  m.rank = info->cluster > 1 ? special(&m, "cluster_ctarank") : ts_mma_int(&m, 0);
  const TsTileStmt *grid = grid_of(&m);
  for (const TsTileStmt *s = k->body->first; s != grid; s = s->next) statement(&m, s);
  block_of(&m, grid);
  if (info->nmap != nmap) ts_emit_fail(e, "%d views, not %d", info->nmap, nmap);
  if (info->cluster > 1) ts_mma_meet(&m); /* others still write into this block's memory */
  LLVMBuildRetVoid(e->b);
  info->shared = m.shared;
}
