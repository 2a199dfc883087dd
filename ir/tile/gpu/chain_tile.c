/* Which tile a product by fused multiply-adds has: ir/tile/gpu/chain_tile.h.
 *
 * A chain cannot be cut, so a product of few rows and columns and a long k (the gradient of a
 * layer's weights over all rows of a batch) is as slow as one chain, and the machine is filled
 * by small tiles only: 256 x 256 sums are two of the large tiles, on 2 of 132
 * multiprocessors. */
#include "ir/tile/gpu/chain_tile.h"

enum { WARP = 32, SMALL = 16, MIDDLE = 64 };

/* steps: cycles of a multiprocessor for one step of k, 128 multiply-adds in each and what
 * reading its operands leaves of them. */
typedef struct Tile {
  int rows, cols;
  double steps;
} Tile;

static const Tile of_f32[] = {{128, 256, 285}, {64, 128, 80}, {32, 64, 32}};
static const Tile of_f64[] = {{128, 128, 285}, {64, 128, 160}, {32, 64, 64}};
enum { NTILE = sizeof of_f32 / sizeof *of_f32 };

static int sums_of(TsDtype sum, int rows, int cols) {
  int area = rows * cols;
  if (area <= of_f32[2].rows * of_f32[2].cols) return SMALL;
  if (area <= of_f32[1].rows * of_f32[1].cols) return MIDDLE;
  return sum == TS_DT_f64 ? MIDDLE : 2 * MIDDLE;
}

int ts_gpu_chain_warps(TsDtype sum, int rows, int cols) {
  return rows * cols / (WARP * sums_of(sum, rows, cols));
}

bool ts_gpu_chain_fits(TsDtype sum, int rows, int cols) {
  return rows > 0 && cols > 0 && rows % WARP == 0 && cols % WARP == 0 &&
         rows * cols % (WARP * sums_of(sum, rows, cols)) == 0;
}

void ts_gpu_chain_tile(TsDtype sum, int64_t m, int64_t n, int64_t batch, int nsm, int *rows,
                       int *cols) {
  const Tile *tile = sum == TS_DT_f64 ? of_f64 : of_f32;
  double least = 0;
  for (int i = 0; i < NTILE; i++) {
    const Tile *t = &tile[i];
    int64_t down = (m + t->rows - 1) / t->rows, across = (n + t->cols - 1) / t->cols;
    int64_t rounds = (down * across * batch + nsm - 1) / (nsm > 0 ? nsm : 1);
    double time = (double)rounds * t->steps;
    if (least && time >= least) continue;
    least = time, *rows = t->rows, *cols = t->cols;
  }
}
