/* 2D block loads of Intel's GPUs: a sub-group reads a box of a matrix as DPAS wants it. They are
 * functions of Intel's compiler, of old ones (of 2022) as of new ones; the extension that has names
 * for them in SPIR-V (SPV_INTEL_2d_block_io) only new ones know.
 *
 *   16 bits, 8 bits        of the left operand 8 lines, of 64 bytes of k
 *   with words along k     of the right one 16 columns: several lines in each word
 *   turned, of words       the same where k is along the lines
 *
 * What a box has outside of the matrix is 0. */
#include "jit/emit/simt/intel.h"
#include "jit/emit/simt/memory.h"
#include "jit/gpu/boxes.h"

typedef LLVMValueRef V;

enum { WORD = 4 };

static LLVMTypeRef int_type(TsGpuEmit *g, int bits) { return ts_emit_int_type(g->e, bits, 0); }
static V i32_of(TsGpuEmit *g, int64_t v) { return ts_emit_int(g->e, int_type(g, 32), v); }
static V short_of(TsGpuEmit *g, V x) { return LLVMBuildTrunc(g->e->b, x, int_type(g, 32), ""); }

static int64_t known(V x) { return LLVMConstIntGetSExtValue(x); }

/* The matrix of a batch that the operand is in begins at the other axes' positions. */
TsIntelBoxes ts_gpu_intel_boxes_of(TsGpuEmit *g, const TsTileStmt *product, int side) {
  TsGpuBox box;
  if (!ts_gpu_box_of(product, side, &box)) ts_emit_fail(g->e, "an operand that is in no boxes");
  TsGpuAccess a = ts_gpu_access(g, box.load, &box.load->out[0]->type);
  const TsTileType *m = &a.memory->type;
  TsIntelBoxes o = {.along = box.along, .nbytes = ts_dtypes[m->dtype].nbytes};
  V from = ts_gpu_i64(g, 0);
  for (int k = 0; k < m->rank; k++) {
    V position = ts_gpu_scalar(g, a.at[k]);
    if (k != box.axis[0] && k != box.axis[1])
      from = ts_gpu_add(g, from, ts_gpu_times(g, position, a.part[1 + k]));
  }
  V base = ts_gpu_moved(g, &a, a.part[0], from);
  o.base = LLVMBuildPtrToInt(g->e->b, base, int_type(g, 64), "");
  for (int i = 0; i < 2; i++) o.at[i] = ts_gpu_scalar(g, a.at[box.axis[i]]);
  o.width = i32_of(g, m->dim[box.axis[o.along]] * o.nbytes - 1);
  o.height = i32_of(g, m->dim[box.axis[!o.along]] - 1);
  o.pitch = i32_of(g, known(a.part[1 + box.axis[!o.along]]) * o.nbytes - 1);
  return o;
}

/* The box that begins in this row and column of the operand; unit: bytes of what is counted along the
 * lines. */
static V box_at(TsGpuEmit *g, const TsIntelBoxes *o, const char *name, LLVMTypeRef t, V row,
                V col, int unit) {
  V at[2] = {ts_gpu_add(g, o->at[0], row), ts_gpu_add(g, o->at[1], col)};
  V x = at[o->along], place = LLVMGetPoison(LLVMVectorType(int_type(g, 32), 2));
  if (unit > o->nbytes) x = ts_gpu_div(g, x, unit / o->nbytes);
  place = LLVMBuildInsertElement(g->e->b, place, short_of(g, x), i32_of(g, 0), "");
  place = LLVMBuildInsertElement(g->e->b, place, short_of(g, at[!o->along]), i32_of(g, 1), "");
  return ts_gpu_spirv_call(g, name, t, 5, (V[]){o->base, o->width, o->height, o->pitch, place});
}

static V half_of(TsGpuEmit *g, V x, int half) {
  V pick[TS_INTEL_RUN];
  for (int i = 0; i < TS_INTEL_RUN; i++) pick[i] = i32_of(g, half * TS_INTEL_RUN + i);
  return LLVMBuildShuffleVector(g->e->b, x, x, LLVMConstVector(pick, TS_INTEL_RUN), "");
}

static void lines(TsGpuEmit *g, const TsIntelBoxes *o, V row, V col, V out[2]) {
  const char *name = o->nbytes == 1 ? "__builtin_IB_subgroup_block_read_flat_u8_m8k32v2"
                                    : "__builtin_IB_subgroup_block_read_flat_u16_m8k16v2";
  LLVMTypeRef t = LLVMVectorType(int_type(g, 16), 2 * TS_INTEL_RUN);
  V x = box_at(g, o, name, t, row, col, o->nbytes);
  for (int i = 0; i < 2; i++) out[i] = half_of(g, x, i);
}

void ts_gpu_intel_left(TsGpuEmit *g, const TsIntelBoxes *o, V row, int64_t k, V out[2]) {
  lines(g, o, row, ts_gpu_i64(g, k), out);
}

V ts_gpu_intel_lines(TsGpuEmit *g, const TsIntelBoxes *o, int64_t k, V col) {
  LLVMTypeRef t = LLVMVectorType(int_type(g, 16), TS_INTEL_RUN);
  return box_at(g, o, "__builtin_IB_subgroup_block_read_flat_u16_m8k16v1", t, ts_gpu_i64(g, k),
                col, o->nbytes);
}

V ts_gpu_intel_words(TsGpuEmit *g, const TsIntelBoxes *o, V row, V col) {
  LLVMTypeRef t = LLVMVectorType(int_type(g, 32), TS_INTEL_RUN);
  return box_at(g, o, "__builtin_IB_subgroup_block_read_flat_transpose_u32_k8", t, row, col,
                WORD);
}

V ts_gpu_intel_right(TsGpuEmit *g, const TsIntelBoxes *o, int64_t k, V col) {
  LLVMTypeRef t = LLVMVectorType(int_type(g, 32), TS_INTEL_RUN);
  bool turned = !o->along;
  const char *name = turned ? "__builtin_IB_subgroup_block_read_flat_transpose_u32_k8"
                     : o->nbytes == 1
                         ? "__builtin_IB_subgroup_block_read_flat_transform_u8_k32"
                         : "__builtin_IB_subgroup_block_read_flat_transform_u16_k16";
  return box_at(g, o, name, t, ts_gpu_i64(g, k), col, turned ? WORD : o->nbytes);
}
