/* The units of ir/tile/square.h. */
#include "ir/tile/square.h"

#include <math.h>
#include <string.h>

TsSquare ts_tile_square_of(const TsTileStmt *s) {
  const TsAttr *unit = s->op == TS_TILE_mma ? ts_tile_attr(s, "unit") : NULL;
  if (!unit || unit->type != TS_ATTR_str || !unit->str) return TS_SQUARE_none;
  if (!strcmp(unit->str, "mfma")) return TS_SQUARE_mfma;
  if (!strcmp(unit->str, "dpas")) return TS_SQUARE_dpas;
  if (!strcmp(unit->str, "cooperative")) return TS_SQUARE_cooperative;
  return !strcmp(unit->str, "wmma") ? TS_SQUARE_wmma : TS_SQUARE_none;
}

bool ts_tile_square_takes(TsSquare unit, TsDtype d) {
  bool half = d == TS_DT_bf16 || d == TS_DT_f16;
  switch (d) {
  case TS_DT_f32:
  case TS_DT_f64: return unit == TS_SQUARE_mfma;
  case TS_DT_i8: return unit != TS_SQUARE_none;
  case TS_DT_fp8_e4m3:
  case TS_DT_fp8_e5m2: return unit == TS_SQUARE_mfma || unit == TS_SQUARE_wmma;
  default: return half && unit != TS_SQUARE_none;
  }
}

int ts_tile_square_steps(TsSquare unit, TsDtype d) {
  if (unit == TS_SQUARE_dpas || unit == TS_SQUARE_cooperative)
    return 2 * TS_SQUARE / ts_dtypes[d].nbytes;
  return ts_dtypes[d].nbytes < 4 ? TS_SQUARE : 4;
}

static int64_t stride_of(const TsTileType *m, int axis) {
  int64_t n = 1;
  if (m->strided) return m->stride[axis];
  for (int i = axis + 1; i < m->rank; i++) n *= m->dim[i];
  return n;
}

/* As Intel's description of the loads has it (cl_intel_subgroup_2d_block_io). */
bool ts_tile_dpas_boxes(const TsTileType *m, int rows, int cols, int side, int *which) {
  enum { ALIGN = 16, LEAST = 64, MOST = 1 << 24 };
  const int64_t box = TS_BOX_ALIGN;
  int64_t size = ts_dtypes[m->dtype].nbytes;
  for (int i = 0; i < m->rank; i++) { /* how many matrices there are may be a size */
    bool first = i == 0 && rows && cols;
    if (ts_tile_dim_is(m->dim[i]) && !first) return false;
  }
  bool across = side && stride_of(m, cols) != 1;
  int along = across ? rows : cols, other = across ? cols : rows;
  *which = !across;
  for (int i = 0; i < m->rank; i++)
    if (i != rows && i != cols && m->dim[i] != 1 && stride_of(m, i) * size % box) return false;
  int64_t pitch = stride_of(m, other) * size, width = m->dim[along] * size;
  return stride_of(m, along) == 1 && width >= LEAST && width % 4 == 0 && pitch >= width &&
         pitch % ALIGN == 0 && pitch <= MOST && m->dim[other] <= MOST;
}

static void run_blocks(int64_t by, int64_t m, int64_t n, int64_t k, const float *a,
                       const float *b, float *acc) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++)
      for (int64_t from = 0; from < k; from += by) {
        float sum = 0;
        for (int64_t s = from; s < from + by && s < k; s++)
          sum = fmaf(a[i * k + s], b[s * n + j], sum);
        acc[i * n + j] += sum;
      }
}

void ts_tile_run_wmma(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                      float *acc) {
  run_blocks(TS_SQUARE, m, n, k, a, b, acc);
}

void ts_tile_run_dpas(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                      float *acc) {
  run_blocks(TS_DPAS_PAIR, m, n, k, a, b, acc);
}
