/* Products within a tile, one fused multiply-add after the other: right for any size, and fast
 * for none. Products of matrices have kernels of their own. */
#include "ir/tile/square.h"
#include "jit/emit/simt/emit.h"

typedef LLVMValueRef V;

static bool lies_in_memory(const TsGpuEmit *g, TsTileVal v) {
  const TsTileStmt *s = v->stmt;
  if (s && s->op == TS_TILE_cast) s = s->in[0]->stmt;
  return s && s->op == TS_TILE_load && ts_gpu_reads_only(g, s->in[0]);
}

static void reach(TsGpuEmit *g, TsTileVal v) {
  if (ts_gpu_resident(g, &v->type) && !(g->lean && lies_in_memory(g, v)))
    ts_gpu_home(g, v);
  else
    ts_gpu_prepare(g, v);
}

static V step(TsGpuEmit *g, const TsTileStmt *s, const TsGpuCoord *at, V k, V acc) {
  bool outer = s->op == TS_TILE_outer;
  TsDtype d = (TsDtype)s->out[0]->type.dtype;
  TsGpuCoord a[TS_TILE_RANK] = {at[0]}, b[TS_TILE_RANK] = {at[1]};
  if (!outer) a[1] = (TsGpuCoord){k, 0, 0}, b[0] = (TsGpuCoord){k, 0, 0}, b[1] = at[1];
  V x = ts_emit_cast(g->e, d, (TsDtype)s->in[0]->type.dtype, ts_gpu_elem_at(g, s->in[0], a));
  V y = ts_emit_cast(g->e, d, (TsDtype)s->in[1]->type.dtype, ts_gpu_elem_at(g, s->in[1], b));
  return ts_emit_fma(g->e, d, x, y, acc);
}

/* Of a unit that adds up blocks of k before they come to the sum: such a block. */
static int block_of(const TsTileStmt *s) {
  TsSquare unit = ts_tile_square_of(s);
  if (s->out[0]->type.dtype != TS_DT_f32) return 1; /* exact */
  return unit == TS_SQUARE_wmma ? TS_SQUARE : unit == TS_SQUARE_dpas ? TS_DPAS_PAIR : 1;
}

static V block(TsGpuEmit *g, const TsTileStmt *s, const TsGpuCoord *at, V k, V acc) {
  V sum = ts_emit_number(g->e, TS_DT_f32, 0, 0);
  for (int i = 0; i < block_of(s); i++)
    sum = step(g, s, at, ts_gpu_add(g, k, ts_gpu_i64(g, i)), sum);
  return LLVMBuildFAdd(g->e->b, sum, acc, "");
}

void ts_gpu_contract(TsGpuEmit *g, const TsTileStmt *s) {
  if (ts_gpu_matrix_product(g, s)) return;
  int size = block_of(s);
  TsGpuFrame *f = ts_gpu_frame(g, &s->out[0]->type);
  LLVMBuilderRef b = g->e->b;
  int n = f->vector * f->chunks;
  V *acc = ts_gpu_slots(g, f, s->in[2]), *out = ts_emit_take(g->e, sizeof *out * (size_t)n);
  V *now = ts_emit_take(g->e, sizeof *now * (size_t)n);
  reach(g, s->in[0]), reach(g, s->in[1]);
  V zero = ts_gpu_i64(g, 0), one = ts_gpu_i64(g, 1), by = ts_gpu_i64(g, size);
  V end = s->op == TS_TILE_outer ? one : ts_emit_size(g->e, s->in[0]->type.dim[1]);
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b), last;
  TsGpuLoop l = ts_gpu_loop(g, zero, end, by);
  for (int i = 0; i < n; i++) {
    now[i] = LLVMBuildPhi(b, LLVMTypeOf(acc[i]), "");
    LLVMAddIncoming(now[i], &acc[i], &before, 1);
  }
  for (int i = 0; i < n; i++) {
    TsGpuCoord at[TS_TILE_RANK];
    ts_gpu_slot_at(g, f, i, at);
    out[i] = (size > 1 ? block : step)(g, s, at, l.i, now[i]);
  }
  last = LLVMGetInsertBlock(b);
  for (int i = 0; i < n; i++) LLVMAddIncoming(now[i], &out[i], &last, 1);
  ts_gpu_loop_end(g, &l);
  for (int i = 0; i < n; i++) {
    V y = LLVMBuildPhi(b, LLVMTypeOf(acc[i]), "");
    LLVMAddIncoming(y, &acc[i], &before, 1);
    LLVMAddIncoming(y, &out[i], &last, 1);
    out[i] = y;
  }
  ts_gpu_define(g, s->out[0], out);
}
