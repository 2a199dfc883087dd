/* Elements at positions that are computed. See jit/emit/simt/memory.h. */
#include "jit/emit/simt/memory.h"

typedef LLVMValueRef V;
typedef TsGpuAccess Access;
typedef TsGpuMerge Merge;

static V reach(TsGpuEmit *g, const TsTileStmt *s, V at, V *in) {
  TsTileVal memory = s->in[0];
  const V *part = g->memory[memory->id];
  TsDtype d = (TsDtype)s->in[1]->type.dtype;
  if (!part) ts_emit_fail(g->e, "%s: memory that a GPU has not", ts_tile_op_name(s->op));
  at = ts_emit_cast(g->e, TS_DT_i64, d, at);
  *in = ts_gpu_below(g, at, ts_emit_size(g->e, memory->type.dim[0]));
  V by = ts_gpu_times(g, at, part[1]);
  return LLVMBuildGEP2(g->e->b, ts_gpu_stored(g, (TsDtype)memory->type.dtype), part[0], &by, 1,
                       "");
}

static V gathered(TsGpuEmit *g, const TsTileStmt *s, V valid, V at) {
  TsDtype d = (TsDtype)s->in[0]->type.dtype;
  V in, p = reach(g, s, at, &in);
  if (!ts_tile_attr(s, "edge")->i && !valid) {
    V y = LLVMBuildLoad2(g->e->b, ts_gpu_stored(g, d), p, "");
    LLVMSetAlignment(y, ts_dtypes[d].nbytes);
    return ts_gpu_from_stored(g, d, y);
  }
  V fill = ts_gpu_to_stored(g, d, ts_emit_number(g->e, d, 0, ts_tile_attr(s, "fill")->f)), x;
  Access a = {.memory = s->in[0], .d = d, .width = 1};
  if (ts_gpu_guards(g, &a)) {
    ts_gpu_read_guarded(g, &a, p, 0, ts_gpu_and(g, valid, in), 1, &fill);
    return ts_gpu_from_stored(g, d, fill);
  }
  Merge m = {.end = ts_gpu_block(g)};
  LLVMBasicBlockRef yes, no;
  ts_gpu_branch(g, ts_gpu_and(g, valid, in), &yes, &no);
  x = LLVMBuildLoad2(g->e->b, ts_gpu_stored(g, d), p, "");
  LLVMSetAlignment(x, ts_dtypes[d].nbytes);
  ts_gpu_come(g, &m, 1, &x);
  LLVMPositionBuilderAtEnd(g->e->b, no);
  ts_gpu_come(g, &m, 1, &fill);
  ts_gpu_merge(g, &m, 1, &x);
  return ts_gpu_from_stored(g, d, x);
}

void ts_gpu_gather(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal y = s->out[0];
  ts_gpu_before_read(g, s->in[0]);
  if (!y->type.rank) {
    V x = gathered(g, s, NULL, ts_gpu_scalar(g, s->in[1]));
    ts_gpu_define(g, y, &x);
    return;
  }
  TsGpuFrame *f = ts_gpu_frame(g, &y->type);
  V *at = ts_gpu_slots(g, f, s->in[1]);
  V *list = ts_emit_take(g->e, sizeof *list * (size_t)(f->vector * f->chunks));
  for (int i = 0; i < f->vector * f->chunks; i++)
    list[i] = gathered(g, s, f->valid[i / f->vector], at[i]);
  ts_gpu_define(g, y, list);
}

static void scattered(TsGpuEmit *g, const TsTileStmt *s, V valid, V at, V x) {
  TsDtype d = (TsDtype)s->in[0]->type.dtype;
  V in, p = reach(g, s, at, &in);
  LLVMBasicBlockRef after = ts_gpu_if(g, ts_gpu_and(g, valid, in));
  LLVMSetAlignment(LLVMBuildStore(g->e->b, ts_gpu_to_stored(g, d, x), p), ts_dtypes[d].nbytes);
  ts_gpu_if_end(g, after);
}

void ts_gpu_scatter(TsGpuEmit *g, const TsTileStmt *s) {
  TsTileVal x = s->in[2];
  if (!x->type.rank) {
    ts_gpu_before_write(g, s->in[0]);
    V first =
        LLVMBuildICmp(g->e->b, LLVMIntEQ, g->tid, ts_emit_int(g->e, LLVMTypeOf(g->tid), 0), "");
    scattered(g, s, first, ts_gpu_scalar(g, s->in[1]), ts_gpu_scalar(g, x));
    return;
  }
  TsGpuFrame *f = ts_gpu_frame(g, &x->type);
  V *at = ts_gpu_slots(g, f, s->in[1]), *list = ts_gpu_slots(g, f, x);
  ts_gpu_before_write(g, s->in[0]);
  for (int i = 0; i < f->vector * f->chunks; i++)
    scattered(g, s, f->valid[i / f->vector], at[i], list[i]);
}
