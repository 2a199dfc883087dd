/* Values of a kernel with roles: the words of its files, memory of a block, registers of fragments,
 * constants and pointwise rows. See jit/emit/roles/emit.h. */
#include "jit/emit/roles/emit.h"

#include <string.h>

typedef LLVMValueRef V;

enum { LINE = 128 };

/* ---- small things */
LLVMTypeRef ts_roles_i32(TsRoles *m) { return ts_emit_int_type(m->e, 32, 0); }
V ts_roles_int(TsRoles *m, int64_t v) { return ts_emit_int(m->e, ts_roles_i32(m), v); }
V ts_roles_add(TsRoles *m, V x, V y) { return LLVMBuildAdd(m->e->b, x, y, ""); }
V ts_roles_addi(TsRoles *m, V x, int64_t y) {
  return y ? ts_roles_add(m, x, ts_roles_int(m, y)) : x;
}
V ts_roles_muli(TsRoles *m, V x, int64_t y) {
  return y == 1 ? x : LLVMBuildMul(m->e->b, x, ts_roles_int(m, y), "");
}
V ts_roles_andi(TsRoles *m, V x, int64_t y) {
  return LLVMBuildAnd(m->e->b, x, ts_roles_int(m, y), "");
}
V ts_roles_shri(TsRoles *m, V x, int y) {
  return LLVMBuildLShr(m->e->b, x, ts_roles_int(m, y), "");
}
V ts_roles_flag(TsRoles *m, V i1) { return LLVMBuildZExt(m->e->b, i1, ts_roles_i32(m), ""); }

V ts_roles_equal(TsRoles *m, V x, int64_t y) {
  return LLVMBuildICmp(m->e->b, LLVMIntEQ, x, ts_roles_int(m, y), "");
}

/* In a persistent kernel others write meanwhile what a kernel by itself only reads: loads go by
 * no cache that does not see that, and stay where they are. */
static const char *coherent(TsRoles *m, const char *text) {
  static const char word[] = ".nc";
  char *own = ts_emit_take(m->e, strlen(text) + 1);
  char *at = strcpy(own, text);
  size_t n = strlen(word);
  while ((at = strstr(at, word))) memmove(at, at + n, strlen(at + n) + 1);
  return own;
}

V ts_roles_asm(TsRoles *m, LLVMTypeRef type, const char *text, const char *constraints, int n,
               V *in, bool side) {
  LLVMTypeRef of[300];
  TsEmit *e = m->e;
  if (m->task && strstr(text, ".global")) text = coherent(m, text), side = true;
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
int64_t ts_roles_own(const TsRoles *m, const TsTileType *t, int axis) {
  return t->split && t->split == axis ? t->dim[axis] / m->info->cluster : t->dim[axis];
}

int64_t ts_roles_slot_bytes(const TsRoles *m, const TsTileType *t) {
  int64_t n = ts_dtypes[t->dtype].nbytes;
  for (int i = 1; i < t->rank; i++) n *= ts_roles_own(m, t, i);
  return n;
}

V ts_roles_slot(TsRoles *m, TsTileVal memory, V slot) {
  const TsTileType *t = &memory->type;
  int64_t n = t->space == TS_SPACE_barrier ? 8 : ts_roles_slot_bytes(m, t);
  return ts_roles_add(m, ts_emit_registers(m->e, memory)[0], ts_roles_muli(m, slot, n));
}

int64_t ts_roles_zero(TsRoles *m, TsTileVal v) {
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
int64_t ts_roles_scratch_bytes(TsRoles *m, const TsTileStmt *end) {
  int64_t n = 0;
  for (const TsTileStmt *s = m->e->k->body->first; s && s != end; s = s->next) {
    if (s->op != TS_TILE_alloc || s->out[0]->type.space != TS_SPACE_scratch) continue;
    const TsTileType *t = &s->out[0]->type;
    if (nbytes(t) < 0) ts_emit_fail(m->e, "scratch of unknown size");
    n += (nbytes(t) + 15) / 16 * 16;
  }
  return n;
}

void ts_roles_alloc(TsRoles *m, const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type;
  if (t->space == TS_SPACE_scratch) {
    V at = ts_emit_i64(m->e, ts_roles_scratch_bytes(m, s));
    *ts_roles_define(m, s->out[0], 1) =
        LLVMBuildGEP2(m->e->b, ts_emit_int_type(m->e, 8, 0), m->scratch, &at, 1, "");
    return;
  }
  bool barrier = t->space == TS_SPACE_barrier;
  if (!barrier && t->space != TS_SPACE_shared) ts_emit_fail(m->e, "memory of another space");
  bool few = t->rank < 3 && !t->swizzle;
  if (!barrier && !few && (t->rank != 3 || t->strided))
    ts_emit_fail(m->e, "shared memory has 3 axes");
  uint32_t align = barrier ? 8 : few ? LINE : TS_ROLES_SWIZZLED;
  m->shared = (m->shared + align - 1) / align * align;
  *ts_roles_define(m, s->out[0], 1) = ts_roles_addi(m, m->smem, m->shared);
  m->shared += (uint32_t)(t->dim[0] * (barrier ? 8 : ts_roles_slot_bytes(m, t)));
}

/* ---- values */
V *ts_roles_define(TsRoles *m, TsTileVal v, int n) {
  TsEmitted *to = &m->e->value[v->id];
  to->split = false;
  to->part = ts_emit_take(m->e, sizeof *to->part * (size_t)n);
  memset(to->part, 0, sizeof *to->part * (size_t)n);
  return to->part;
}

/* Of fewer rows than 64 for each group the groups have parts of the columns, as warps have. */
int ts_roles_wide(const TsRoles *m, const TsTileType *t) {
  int64_t wide = t->dim[t->rank - 1], rows = (int64_t)m->warps * 16;
  if (m->unit == TS_ROLES_warps) return (int)(wide / m->across);
  bool few = m->unit == TS_ROLES_wgmma && t->rank == 2 && t->dim[0] < rows;
  return (int)(few ? wide * t->dim[0] / rows : wide);
}

int ts_roles_columns(const TsRoles *m, const TsTileType *t) {
  if (!ts_roles_in_blocks(m)) return m->layout.ncol;
  return ts_roles_wide(m, t) / (m->turned ? 8 : 4);
}

/* Along rows of a turned tile the row of the operand comes behind those of the sums. */
int ts_roles_count(const TsRoles *m, const TsTileType *t, int axis) {
  const TsRolesLayout *l = &m->layout;
  if (t->space != TS_SPACE_fragment) return 1;
  int ncol = ts_roles_columns(m, t);
  bool pairs = ts_roles_is_pairs(t) && m->unit != TS_ROLES_fma;
  if (t->rank == 1) return axis == 1 ? ncol : l->nrow + (m->turned ? 1 : 0);
  return l->nrow * ncol / (pairs ? 2 : 1);
}

int ts_roles_registers(TsRoles *m, TsTileVal v) {
  int of = m->axis[v->id];
  if (of >= TS_ROLES_LEFT) return ts_roles_warps_count(m, &v->type, of == TS_ROLES_LEFT);
  return ts_roles_count(m, &v->type, m->axis[v->id] ? m->axis[v->id] - 1 : 1);
}

static V one_constant(TsRoles *m, const TsTileStmt *s, TsDtype d) {
  if (s->op == TS_TILE_const) {
    double v = ts_tile_attr(s, "value")->f;
    if (d == TS_DT_i64 && (v < INT32_MIN || v > INT32_MAX))
      ts_emit_fail(m->e, "positions have 32 bits, not %g", v);
    return d == TS_DT_i64 ? ts_roles_int(m, (int64_t)v) : ts_emit_number(m->e, d, 0, v);
  }
  LLVMTypeRef t = ts_emit_elem(m->e, d);
  int bits = 8 * ts_dtypes[d].nbytes;
  if (d == TS_DT_bool || d == TS_DT_i64) t = d == TS_DT_bool ? t : ts_roles_i32(m);
  V v = ts_emit_int(m->e, ts_dtype_is(d, TS_KIND_F) ? ts_emit_int_type(m->e, bits, 0) : t,
                    ts_tile_attr(s, "value")->i);
  return ts_dtype_is(d, TS_KIND_F) ? LLVMBuildBitCast(m->e->b, v, t, "") : v;
}

void ts_roles_constant(TsRoles *m, const TsTileStmt *s) {
  TsTileVal v = s->out[0];
  if (ts_roles_is_pairs(&v->type)) ts_emit_fail(m->e, "constants of 16 bits");
  int n = ts_roles_registers(m, v);
  V *to = ts_roles_define(m, v, n), one = one_constant(m, s, (TsDtype)v->type.dtype);
  for (int i = 0; i < n; i++) to[i] = one;
}

/* LLVM's division rounds to zero. */
static V floor_of(TsRoles *m, V x, V y, bool rest) {
  LLVMBuilderRef b = m->e->b;
  V q = LLVMBuildSDiv(b, x, y, ""), r = LLVMBuildSub(b, x, LLVMBuildMul(b, q, y, ""), "");
  V sign = LLVMBuildICmp(b, LLVMIntSLT, LLVMBuildXor(b, r, y, ""), ts_roles_int(m, 0), "");
  V off = LLVMBuildAnd(b, sign, LLVMBuildNot(b, ts_roles_equal(m, r, 0), ""), "");
  if (rest) return LLVMBuildSelect(b, off, LLVMBuildAdd(b, r, y, ""), r, "");
  return LLVMBuildSub(b, q, ts_roles_flag(m, off), "");
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
static V divided(TsRoles *m, const TsTileStmt *s, V x, V y) {
  bool rest = s->op == TS_OP_mod;
  if (!counts(s->in[0], 0) || !counts(s->in[1], 0)) return floor_of(m, x, y, rest);
  return rest ? LLVMBuildURem(m->e->b, x, y, "") : LLVMBuildUDiv(m->e->b, x, y, "");
}

void ts_roles_pointwise(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  TsDtype d = (TsDtype)s->in[s->op == TS_OP_where ? 1 : 0]->type.dtype;
  int n = ts_roles_registers(m, y);
  V *to = ts_roles_define(m, y, n), in[3];
  bool division = s->op == TS_OP_floordiv || s->op == TS_OP_mod;
  if (ts_roles_is_pairs(&y->type)) ts_emit_fail(m->e, "arithmetic of 16 bits");
  if (s->nin > 3) ts_emit_fail(m->e, "%s has %d operands", ts_tile_op_name(s->op), s->nin);
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < s->nin; k++) in[k] = ts_emit_registers(m->e, s->in[k])[i];
    to[i] = division && d == TS_DT_i64 ? divided(m, s, in[0], in[1])
            : s->op == TS_TILE_look    ? ts_emit_look(m->e, s, in[0], 1)
            : s->op == TS_TILE_scale   ? ts_emit_scale(m->e, s, in[0], in[1])
                                       : ts_emit_pointwise(m->e, s->op, d, in);
  }
}

void ts_roles_same_bits(TsRoles *m, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  if (y->type.dtype == TS_DT_i64 || s->in[0]->type.dtype == TS_DT_i64)
    ts_emit_fail(m->e, "bits of 64: whole numbers with roles are positions of 32");
  int n = ts_roles_registers(m, y);
  V *to = ts_roles_define(m, y, n), *x = ts_emit_registers(m->e, s->in[0]);
  LLVMTypeRef t = ts_emit_elem(m->e, (TsDtype)y->type.dtype);
  for (int i = 0; i < n; i++) to[i] = LLVMBuildBitCast(m->e->b, x[i], t, "");
}
