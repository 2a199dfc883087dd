/* The tile of a product by multiply-adds: as large as the machine is filled by. */
#include "ir/tile/gpu/chain_tile.h"

#include <stdio.h>

typedef struct Case {
  TsDtype sum;
  int64_t m, n, batch;
  int rows, cols, warps;
} Case;

int main(void) {
  enum { PROCESSORS = 132 };
  static const Case all[] = {
      {TS_DT_f32, 256, 256, 1, 32, 64, 4},     /* a layer's weights, over all rows of a batch */
      {TS_DT_f32, 2, 256, 1, 32, 64, 4},       /* of the first layer */
      {TS_DT_f32, 256, 256, 1000, 128, 256, 8}, /* many of them fill the machine */
      {TS_DT_f32, 4096, 4096, 1, 128, 256, 8},
      {TS_DT_f32, 131072, 256, 1, 128, 256, 8},
      {TS_DT_f32, 768, 768, 1, 64, 128, 4},
      {TS_DT_f64, 256, 256, 1, 32, 64, 4},
      {TS_DT_f64, 4096, 4096, 1, 128, 128, 8},
  };
  int failed = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const Case *c = &all[i];
    int rows = 0, cols = 0;
    ts_gpu_chain_tile(c->sum, c->m, c->n, c->batch, PROCESSORS, &rows, &cols);
    int warps = ts_gpu_chain_warps(c->sum, rows, cols);
    if (rows == c->rows && cols == c->cols && warps == c->warps &&
        ts_gpu_chain_fits(c->sum, rows, cols))
      continue;
    failed++, printf("%lld x %lld: %d x %d, %d warps\n", (long long)c->m, (long long)c->n, rows,
                     cols, warps);
  }
  return failed != 0;
}
