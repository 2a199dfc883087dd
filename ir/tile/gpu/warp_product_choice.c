/* Which tile, how many warps and stages: the numbers of a product for warps. */
#include "ir/tile/gpu/build.h"
#include "ir/tile/gpu/chain_tile.h"
#include "ir/tile/gpu/warp_product.h"

enum {
  KEPT = 1024, /* bytes of a multiprocessor's shared memory that each block costs */
  /* Stages, at most: of most tiles, of one that is alone, of tiles that are bound by reading. */
  USUAL = 4,
  ALONE = 8,
  READING = 16,
};

/* What of the largest tile's speed a tile reaches when its operands come in time (measured on
 * an H200), and how many blocks are side by side on a multiprocessor. Loads of operands bound
 * the smaller ones: a warp with fewer than 64 x 64 sums reads more for each. */
typedef struct Tile {
  int rows, cols, warps, beside;
  double speed;
} Tile;

static const Tile tile[] = {
    {128, 256, 8, 1, 1.0},
    {128, 128, 4, 2, 0.98},
    {64, 128, 4, 2, 0.75},
    {64, 64, 4, 3, 0.6},
    /* For few rows, which nobody else takes: see ts_gpu_warp_product_few. */
    {64, 64, 4, 2, 0},
    {64, 32, 2, 4, 0},
    {64, 16, 1, 6, 0},
    {32, 64, 4, 2, 0},
    {32, 32, 2, 4, 0},
    {32, 16, 1, 6, 0},
    {16, 64, 4, 2, 0},
    {16, 32, 2, 4, 0},
    {16, 16, 1, 8, 0},
};
enum { NTILE = sizeof tile / sizeof *tile };

static int stage_bytes(const TsGpuWarpProduct *p) {
  return (p->rows + p->cols) * p->depth * ts_dtypes[p->in].nbytes;
}

/* As many as fit beside each other. A fifth one helps only a block that is alone and small: it
 * waits for memory, and more of its operands are under way then. */
static int stages_that_fit(const TsGpuWarpProduct *p, const TsGpuMachine *gpu, int beside,
                           int most) {
  int n = (int)((gpu->target->shared_bytes / beside - KEPT) / stage_bytes(p));
  return n < 2 ? 2 : n > most ? most : n;
}

static const Tile *of_size(int rows, int cols) {
  for (int i = 0; i < NTILE; i++)
    if (tile[i].rows == rows && tile[i].cols == cols) return &tile[i];
  return NULL;
}

static TsGpuWarpProduct of_unit(TsDtype in, TsDtype out, TsGpuWarpUnit unit, bool transposed_a,
                                bool transposed_b) {
  bool fma = unit == TS_GPU_UNIT_fma;
  int row = fma ? TS_GPU_PATTERN / 2 : TS_GPU_PATTERN;
  return (TsGpuWarpProduct){.in = in,
                            .out = out,
                            .unit = unit,
                            .transposed_a = transposed_a,
                            .transposed_b = transposed_b,
                            .depth = row / ts_dtypes[in].nbytes,
                            .group = fma ? 4 : 8,
                            .bytes = 16};
}

static void chains(TsGpuWarpProduct *p, int rows, int cols, const TsGpuMachine *gpu) {
  p->rows = rows ? rows : 128, p->cols = cols ? cols : p->in == TS_DT_f64 ? 128 : 256;
  p->warps = ts_gpu_chain_warps(p->in == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32, p->rows, p->cols);
  p->stages = stages_that_fit(p, gpu, 1, p->rows * p->cols < 128 * 128 ? ALONE : USUAL);
}

TsGpuWarpProduct ts_gpu_warp_product(TsDtype in, TsDtype out, TsGpuWarpUnit unit,
                                     bool transposed_a, bool transposed_b, int rows, int cols,
                                     const TsGpuMachine *gpu) {
  TsGpuWarpProduct p = of_unit(in, out, unit, transposed_a, transposed_b);
  const Tile *t = of_size(rows, cols);
  if (unit == TS_GPU_UNIT_fma) return chains(&p, rows, cols, gpu), p;
  p.rows = rows, p.cols = cols;
  p.warps = t ? t->warps : 4;
  p.stages = stages_that_fit(&p, gpu, t ? t->beside : 1, USUAL);
  return p;
}

int ts_gpu_warp_product_blocks(const TsGpuWarpProduct *p, const TsGpuMachine *gpu) {
  int64_t n = gpu->target->shared_bytes / (p->stages * (int64_t)stage_bytes(p) + KEPT);
  int most = 8 / p->warps; /* registers: a thread takes a quarter of a thousandth */
  if (n > most) n = most;
  return gpu->processors * (int)(n < 1 ? 1 : n);
}

/* Rounds of blocks that run at a time, each as long as its sums take. */
static double time_of(const Tile *t, const TsGpuWarpProduct *p, int64_t m, int64_t n,
                      const TsGpuMachine *gpu) {
  int64_t tiles = ((m + t->rows - 1) / t->rows) * ((n + t->cols - 1) / t->cols);
  int64_t at_a_time = ts_gpu_warp_product_blocks(p, gpu);
  int64_t rounds = (tiles + at_a_time - 1) / at_a_time;
  double beside = (double)at_a_time / gpu->processors;
  if (tiles < at_a_time) beside = (double)((tiles + gpu->processors - 1) / gpu->processors);
  return (double)rounds * beside * t->rows * t->cols / t->speed;
}

/* It fits, and rows of a transposed A are whole patterns. */
static bool is_possible(const TsGpuWarpProduct *p, const TsGpuMachine *gpu) {
  int row = p->rows * ts_dtypes[p->in].nbytes;
  if (p->stages * (int64_t)stage_bytes(p) > gpu->target->shared_bytes) return false;
  return !p->transposed_a || row % TS_GPU_PATTERN == 0;
}

TsGpuWarpProduct ts_gpu_warp_product_for(TsDtype in, TsDtype out, TsGpuWarpUnit unit,
                                         bool transposed_a, bool transposed_b, int64_t m,
                                         int64_t n, const TsGpuMachine *gpu) {
  TsGpuWarpProduct best = of_unit(in, out, unit, transposed_a, transposed_b);
  double least = 0;
  if (unit == TS_GPU_UNIT_fma) {
    int rows = 0, cols = 0;
    ts_gpu_chain_tile(in == TS_DT_f64 ? in : TS_DT_f32, m, n, 1, gpu->processors, &rows, &cols);
    return chains(&best, rows, cols, gpu), best;
  }
  for (int i = 0; i < NTILE; i++) {
    TsGpuWarpProduct p = ts_gpu_warp_product(in, out, unit, transposed_a, transposed_b,
                                             tile[i].rows, tile[i].cols, gpu);
    if (!tile[i].speed || !is_possible(&p, gpu)) continue;
    double time = time_of(&tile[i], &p, m, n, gpu);
    if (least && time >= least) continue;
    best = p, least = time;
  }
  int64_t tiles = ((m + best.rows - 1) / best.rows) * ((n + best.cols - 1) / best.cols);
  if (tiles <= gpu->processors) best.stages = stages_that_fit(&best, gpu, 1, ALONE);
  return best;
}

bool ts_gpu_warp_product_few(TsGpuWarpProduct *p, int64_t m, int64_t n,
                             const TsGpuMachine *gpu) {
  const Tile *best = NULL;
  for (int i = 0; i < NTILE; i++) {
    const Tile *t = &tile[i];
    if (t->speed || t->rows < m) continue;
    bool narrow = (n + t->cols - 1) / t->cols <= gpu->processors;
    if (!best || t->rows < best->rows || (t->rows == best->rows && narrow)) best = t;
  }
  if (!best) return false;
  *p = ts_gpu_warp_product(p->in, p->out, p->unit, p->transposed_a, p->transposed_b, best->rows,
                           best->cols, gpu);
  int64_t blocks = (n + best->cols - 1) / best->cols, beside = blocks / gpu->processors + 1;
  if (beside > best->beside) beside = best->beside;
  if (beside == 1) beside = 2; /* the next launch's stages come while this one ends */
  p->stages = stages_that_fit(p, gpu, (int)beside, READING);
  return true;
}

/* How many times larger or smaller one number is than another. */
static double times_away(int have, int want) {
  if (!want) return 1;
  return have > want ? (double)have / want : (double)want / have;
}

void ts_gpu_warp_product_near(TsGpuWarpProduct *p, int rows, int cols, int stages,
                              const TsGpuMachine *gpu) {
  TsGpuWarpProduct best = *p;
  double least = 0;
  for (int i = 0; i < NTILE && (rows || cols) && p->unit != TS_GPU_UNIT_fma; i++) {
    TsGpuWarpProduct q = ts_gpu_warp_product(p->in, p->out, p->unit, p->transposed_a,
                                             p->transposed_b, tile[i].rows, tile[i].cols, gpu);
    double away =
        times_away(q.rows, rows ? rows : p->rows) * times_away(q.cols, cols ? cols : p->cols);
    q.bytes = p->bytes, q.group = p->group;
    if (!is_possible(&q, gpu) || (least && away >= least)) continue;
    best = q, least = away;
  }
  *p = best;
  int fit = stages_that_fit(p, gpu, 1, READING);
  if (stages) p->stages = stages < 2 ? 2 : stages < fit ? stages : fit;
}
