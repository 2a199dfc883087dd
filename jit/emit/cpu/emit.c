/* The walk: phases, statements, values. */
#include "jit/emit/cpu/emit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jit/code/kernel.h"

void ts_emit_fail(TsEmit *e, const char *format, ...) {
  char text[300];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  ts_error_set(e->err, TS_ERR_device, "jit: %s", text);
  longjmp(*e->out, 1);
}

void *ts_emit_take(TsEmit *e, size_t nbytes) {
  void *p = ts_arena_alloc(&e->arena, nbytes ? nbytes : 1);
  if (!p) ts_emit_fail(e, "no memory");
  return p;
}

/* ---- values */
int ts_emit_rows(const TsTileType *t) {
  return t->rank == 2 && !ts_emit_is_register(t) ? (int)t->dim[0] : 1;
}
int ts_emit_width(const TsTileType *t) { return t->rank ? (int)t->dim[t->rank - 1] : 0; }

static void check_tile(TsEmit *e, const TsTileType *t) {
  if (t->rank > 2) ts_emit_fail(e, "a tile of rank %d is no registers", t->rank);
  for (int i = 0; i < t->rank; i++)
    if (t->dim[i] < 1 || t->dim[i] > TS_EMIT_VECTOR)
      ts_emit_fail(e, "a tile with an axis of %lld elements is no registers",
                   (long long)t->dim[i]);
}

LLVMValueRef *ts_emit_define(TsEmit *e, TsTileVal v) {
  TsEmitted *m = &e->value[v->id];
  int n = 1 + v->type.rank;
  if (!ts_tile_memory(&v->type)) {
    check_tile(e, &v->type);
    n = ts_emit_rows(&v->type);
  }
  m->split = false;
  m->depth = e->loop ? e->loop->depth : 0;
  m->part = ts_emit_take(e, sizeof *m->part * (size_t)n);
  memset(m->part, 0, sizeof *m->part * (size_t)n);
  return m->part;
}

/* One whose elements are apart becomes a vector when somebody wants it whole. */
LLVMValueRef *ts_emit_registers(TsEmit *e, TsTileVal v) {
  TsEmitted *m = &e->value[v->id];
  if (!m->part) ts_emit_fail(e, "a value is used where it is not visible");
  if (!m->part[0] && ts_emit_is_register(&v->type)) {
    LLVMValueRef *zero = ts_emit_take(e, sizeof *zero);
    *zero = ts_emit_zero_register(e);
    return zero;
  }
  if (!m->split) return m->part;
  int n = ts_emit_width(&v->type);
  LLVMValueRef *one = ts_emit_take(e, sizeof *one);
  *one = LLVMGetPoison(ts_emit_type(e, v->type.dtype, n));
  for (int i = 0; i < n; i++)
    *one = LLVMBuildInsertElement(e->b, *one, m->part[i], ts_emit_i64(e, i), "");
  return one;
}

LLVMValueRef ts_emit_scalar(TsEmit *e, TsTileVal v) {
  if (v->type.rank) ts_emit_fail(e, "a scalar is wanted");
  return ts_emit_registers(e, v)[0];
}

LLVMValueRef ts_emit_size(TsEmit *e, int64_t dim) {
  return ts_tile_dim_is(dim) ? e->dim[ts_tile_dim_index(dim)] : ts_emit_i64(e, dim);
}

/* ---- statements */
static void pointwise(TsEmit *e, const TsTileStmt *s) {
  LLVMValueRef *in[3] = {0}, *out = ts_emit_define(e, s->out[0]), one[3] = {0};
  TsDtype d = s->in[s->op == TS_OP_where ? 1 : 0]->type.dtype;
  if (s->nin > 3) ts_emit_fail(e, "%s has %d operands", ts_tile_op_name(s->op), s->nin);
  for (int i = 0; i < s->nin; i++) {
    in[i] = ts_emit_registers(e, s->in[i]);
    const TsTileType *t = &s->in[i]->type, *first = &s->in[0]->type;
    if (ts_emit_rows(t) != ts_emit_rows(first) || ts_emit_width(t) != ts_emit_width(first))
      ts_emit_fail(e, "%s: shapes differ", ts_tile_op_name(s->op));
    if (t->dtype != d && !(i == 0 && s->op == TS_OP_where && t->dtype == TS_DT_bool))
      ts_emit_fail(e, "%s: types differ", ts_tile_op_name(s->op));
  }
  for (int r = 0; r < ts_emit_rows(&s->out[0]->type); r++) {
    for (int i = 0; i < s->nin; i++) one[i] = in[i][r];
    out[r] = s->op == TS_TILE_scale ? ts_emit_scale(e, s, one[0], one[1])
                                    : ts_emit_pointwise(e, s->op, d, one);
  }
  if (s->op == TS_OP_fma) ts_emit_computed(e, s->out[0]);
}

static void alloc(TsEmit *e, const TsTileStmt *s) {
  TsTileVal v = s->out[0];
  LLVMValueRef at;
  if (v->type.space == TS_SPACE_local) {
    int64_t offset = ts_kernel_local_at(e->k, v);
    LLVMValueRef by = ts_emit_i64(e, offset);
    at = LLVMBuildInBoundsGEP2(e->b, ts_emit_int_type(e, 8, 0), e->local, &by, 1, "local");
  } else if (v->type.space == TS_SPACE_scratch) {
    LLVMTypeRef p = LLVMPointerTypeInContext(e->ctx, 0);
    LLVMValueRef i = ts_emit_i64(e, e->k->nparam + e->nscratch++);
    at = LLVMBuildLoad2(e->b, p, LLVMBuildInBoundsGEP2(e->b, p, e->args, &i, 1, ""), "scratch");
  } else {
    ts_emit_fail(e, "a CPU has no such memory");
  }
  ts_emit_memory_begin(e, v, at);
}

static void statement(TsEmit *e, const TsTileStmt *s) {
  ts_emit_line(e, s->line);
  if (s->op < TS_OP_COUNT) {
    pointwise(e, s);
    return;
  }
  if (ts_emit_unit(e, s)) return;
  switch (s->op) {
  case TS_TILE_for: ts_emit_loop(e, s); return;
  case TS_TILE_if: ts_emit_if(e, s); return;
  case TS_TILE_alloc: alloc(e, s); return;
  case TS_TILE_view:
    ts_emit_memory_begin(e, s->out[0], ts_emit_registers(e, s->in[0])[0]);
    return;
  case TS_TILE_load:
  case TS_TILE_store:
  case TS_TILE_gather:
  case TS_TILE_scatter:
  case TS_TILE_aligned:
  case TS_TILE_prefetch: ts_emit_memory(e, s); return;
  case TS_TILE_dim:
    *ts_emit_define(e, s->out[0]) =
        ts_emit_size(e, ts_tile_dim((int)ts_tile_attr(s, "index")->i));
    return;
  case TS_TILE_sum:
  case TS_TILE_pairs:
  case TS_TILE_prod:
  case TS_TILE_max:
  case TS_TILE_min:
  case TS_TILE_argmax:
  case TS_TILE_argmin: ts_emit_reduce(e, s); return;
  case TS_TILE_mma:
  case TS_TILE_outer: ts_emit_contract(e, s); return;
  case TS_TILE_dot2: ts_emit_dot2(e, s); return;
  case TS_TILE_shl:
  case TS_TILE_shr:
  case TS_TILE_sar:
  case TS_TILE_mulhi:
  case TS_TILE_scale:
  case TS_TILE_ult: pointwise(e, s); return;
  case TS_TILE_look: ts_emit_looks(e, s); return;
  case TS_TILE_mark: ts_emit_mark(e, s); return; /* nothing where nobody asked for them */
  default: ts_emit_shape(e, s); return;
  }
}

void ts_emit_region(TsEmit *e, const TsTileRegion *r, LLVMValueRef **yields) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op != TS_TILE_yield) {
      statement(e, s);
      continue;
    }
    for (int i = 0; i < s->nin && yields; i++) yields[i] = ts_emit_registers(e, s->in[i]);
  }
}

/* ---- functions */
static void count_uses(TsEmit *e, const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nin; i++) {
      TsEmitted *m = &e->value[s->in[i]->id];
      m->uses++;
      m->outers += i == 0 && (s->op == TS_TILE_outer || s->op == TS_TILE_mma);
    }
    for (int i = 0; i < s->nregion; i++) count_uses(e, s->region[i]);
  }
}

static void begin_function(TsEmit *e, const char *name, int nin, LLVMTypeRef *in) {
  LLVMTypeRef type = LLVMFunctionType(ts_emit_int_type(e, 64, 0), in, (unsigned)nin, 0);
  e->fn = LLVMAddFunction(e->module, name, type);
  unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
  LLVMAddAttributeAtIndex(e->fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(e->ctx, nounwind, 0));
  char width[16], features[200];
  snprintf(width, sizeof width, "%d", e->target->vector_bytes * 8);
  snprintf(features, sizeof features, "%s%s", e->target->features, ts_emit_more_features(e));
  ts_emit_attribute(e, "target-cpu", e->target->cpu);
  ts_emit_attribute(e, "target-features", features);
  ts_emit_attribute(e, "prefer-vector-width", width);
  ts_emit_attribute(e, "min-legal-vector-width", width);
  LLVMPositionBuilderAtEnd(e->b, LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""));
  ts_emit_lines_begin(e, name);
}

static void read_dims(TsEmit *e) {
  LLVMTypeRef i64 = ts_emit_int_type(e, 64, 0);
  for (int i = 0; i < e->k->ndim; i++) {
    LLVMValueRef at = ts_emit_i64(e, i);
    at = LLVMBuildInBoundsGEP2(e->b, i64, e->dims, &at, 1, "");
    e->dim[i] = LLVMBuildLoad2(e->b, i64, at, e->k->dim[i]);
  }
}

static void read_args(TsEmit *e) {
  LLVMTypeRef p = LLVMPointerTypeInContext(e->ctx, 0);
  for (int i = 0; i < e->k->nparam; i++) {
    LLVMValueRef at = ts_emit_i64(e, i);
    at = LLVMBuildInBoundsGEP2(e->b, p, e->args, &at, 1, "");
    ts_emit_memory_begin(e, e->k->param[i], LLVMBuildLoad2(e->b, p, at, ""));
  }
}

/* What stands at the top before `end` (NULL: everything) and is no phase. */
static void emit_top(TsEmit *e, const TsTileStmt *end, bool memory) {
  e->nscratch = 0;
  for (const TsTileStmt *s = e->k->body->first; s && s != end; s = s->next)
    if (s->op != TS_TILE_for && (memory || s->op != TS_TILE_alloc)) statement(e, s);
}

static void end_function(TsEmit *e) {
  if (e->streamed) ts_emit_call(e, "llvm.x86.sse.sfence", 0, NULL, 0, NULL);
  LLVMBuildRet(e->b, ts_emit_i64(e, 0));
}

static LLVMValueRef count_rounds(TsEmit *e, const TsTileStmt *loop) {
  if (!ts_tile_attr(loop, "parallel")->i) return ts_emit_i64(e, 1);
  int64_t step = ts_tile_attr(loop, "step")->i;
  if (step < 1) ts_emit_fail(e, "a loop with step %lld", (long long)step);
  LLVMValueRef lo = ts_emit_scalar(e, loop->in[0]), hi = ts_emit_scalar(e, loop->in[1]);
  LLVMValueRef n =
      LLVMBuildAdd(e->b, LLVMBuildSub(e->b, hi, lo, ""), ts_emit_i64(e, step - 1), "");
  n = LLVMBuildSDiv(e->b, n, ts_emit_i64(e, step), "");
  return ts_emit_call2(e, "llvm.smax", n, ts_emit_i64(e, 0));
}

/* Without arguments the answer is the number of rounds. Sizes are there in both cases, and so
 * are scalars at the top; memory is not. */
static void answer_rounds(TsEmit *e, const TsTileStmt *loop) {
  LLVMBasicBlockRef ask = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMBasicBlockRef work = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
  LLVMBuildCondBr(e->b, LLVMBuildIsNull(e->b, e->args, ""), ask, work);
  LLVMPositionBuilderAtEnd(e->b, ask);
  emit_top(e, loop, false);
  LLVMBuildRet(e->b, count_rounds(e, loop));
  LLVMPositionBuilderAtEnd(e->b, work);
}

/* The rounds of a parallel loop are the caller's to deal out; another loop is one round. */
static void emit_phase(TsEmit *e, const TsTileStmt *loop, int index) {
  LLVMTypeRef p = LLVMPointerTypeInContext(e->ctx, 0), i64 = ts_emit_int_type(e, 64, 0);
  char name[24];
  snprintf(name, sizeof name, "rounds%d", index);
  begin_function(e, name, 5, (LLVMTypeRef[]){p, p, i64, i64, p});
  e->args = LLVMGetParam(e->fn, 0);
  e->dims = LLVMGetParam(e->fn, 1);
  e->local = LLVMGetParam(e->fn, 4);
  e->streamed = false;
  e->loop = NULL;
  read_dims(e);
  answer_rounds(e, loop);
  read_args(e);
  emit_top(e, loop, true);
  if (!ts_tile_attr(loop, "parallel")->i) {
    ts_emit_loop(e, loop);
    end_function(e);
    return;
  }
  if (loop->nout) ts_emit_fail(e, "a parallel loop carries nothing");
  LLVMValueRef lo = ts_emit_scalar(e, loop->in[0]);
  LLVMValueRef step = ts_emit_i64(e, ts_tile_attr(loop, "step")->i), bound[2];
  for (int i = 0; i < 2; i++)
    bound[i] = LLVMBuildNSWAdd(
        e->b, lo, LLVMBuildNSWMul(e->b, LLVMGetParam(e->fn, 2u + (unsigned)i), step, ""), "");
  ts_emit_rounds(e, loop, bound[0], bound[1]);
  end_function(e);
}

void ts_emit_module(TsEmit *e) {
  TsTileStmt *phase[TS_KERNEL_PHASES];
  int n = ts_kernel_phases(e->k, phase);
  TsError many = {0};
  if (ts_kernel_check_phases(e->k, n, &many))
    ts_emit_fail(e, "%s; %s", many.message, many.hint);
  if (e->k->failed) ts_emit_fail(e, "the kernel was not built completely");
  e->value = ts_emit_take(e, sizeof *e->value * (e->k->nvalue + 1));
  memset(e->value, 0, sizeof *e->value * (e->k->nvalue + 1));
  count_uses(e, e->k->body);
  e->unit = ts_emit_uses_unit(e->k);
  e->pairs = ts_emit_uses_pairs(e->k);
  for (int i = 0; i < n; i++) emit_phase(e, phase[i], i);
}
