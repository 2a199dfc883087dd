/* Which tile, how many stages, one block or two together: the numbers of a product for a
 * GPU. */
#include "ir/tile/gpu/product.h"

#include <math.h>

#include "ir/tile/gpu/build.h"
#include "ir/tile/gpu/chain_tile.h"

enum { MOST = 12 /* stages; more do not help */ };

/* As many stages as fit. */
static int stages_that_fit(const TsGpuProduct *p) {
  int bytes = (p->rows + p->cols) * TS_GPU_PATTERN,
      buffers = p->buffers * p->rows * TS_GPU_PATTERN;
  if (ts_gpu_product_prefetched(p)) buffers = p->cols * p->rows * ts_dtypes[p->out].nbytes;
  int lines = 2 * p->cols * 4 * (p->epilogue || p->bias ? 1 : 0);
  int n = (TS_GPU_SHARED - 512 - lines - buffers) / bytes,
      most = p->most && p->most < MOST ? p->most : MOST;
  return n > most ? most : n;
}

static bool reads_matrix(const TsGpuEpilogue *f) {
  for (int i = 2; i < f->block->nin; i++)
    if (f->block->param[i]->type.rank == 2) return true;
  return false;
}

/* Stages enough for what is left of the tile before: ir/tile/gpu/product_late.c. */
static int64_t least_depth(int depth, int cols) { return (int64_t)depth * 2 * cols / 64; }

static bool fits_late(int rows, int cols) {
  return rows <= 2 * TS_GPU_GROUP_ROWS || cols <= 128;
}

bool ts_gpu_product_can_be_late(const TsGpuProduct *p) {
  const TsGpuEpilogue *f = p->epilogue;
  bool light = !p->activation || p->activation == TS_OP_relu;
  bool fits = fits_late(p->rows, p->cols);
  if (ts_dtypes[p->in].nbytes > 2 || ts_dtypes[p->out].nbytes != 2 || !fits) return false;
  if (p->batch || p->residual || !light) return false;
  return !f || (f->narrow && (TsDtype)f->narrow->type.dtype == p->out &&
                f->nout <= p->buffers && !reads_matrix(f));
}

void ts_gpu_product_settle(TsGpuProduct *p, int64_t k) {
  p->late = false;
  p->late = ts_gpu_product_can_be_late(p) && k >= least_depth(p->depth, p->cols);
  if (ts_dtypes[p->in].nbytes <= 2) p->stages = stages_that_fit(p);
}

void ts_gpu_product_epilogue(TsGpuProduct *p, const TsGpuEpilogue *f, int64_t k) {
  p->epilogue = f;
  p->out = (TsDtype)f->to[0]->type.dtype;
  ts_gpu_product_settle(p, k);
}

TsGpuProduct ts_gpu_product(TsDtype in, TsDtype out, bool transposed_a, bool transposed_b,
                            int rows, int cols) {
  bool unit = ts_dtypes[in].nbytes <= 2;
  TsGpuProduct p = {
      .in = in, .out = out, .transposed_a = transposed_a, .transposed_b = transposed_b};
  p.rows = rows ? rows : 128;
  p.cols = cols ? cols : in == TS_DT_f64 ? 128 : 256;
  p.depth = (unit ? TS_GPU_PATTERN : 64) / ts_dtypes[in].nbytes;
  p.buffers = p.rows > 2 * TS_GPU_GROUP_ROWS ? 1 : 2;
  p.stages = unit ? stages_that_fit(&p) : 6;
  p.cluster = unit ? 2 : 1;
  p.group = unit ? 8 : 4;
  return p;
}

/* What was measured on an H200 (132 multiprocessors, products of 1000 to 28672): the share of
 * the matrix unit's speed that a tile reaches when it has enough stages, and microseconds that
 * a product takes beside them (start, first stages, last stores). From these follows the time
 * of a product: rounds of tiles that run at a time, as many as the largest share of a
 * multiprocessor has, each at its tile's speed; or the time that its memory takes, when the
 * last round leaves some of the machine idle. All tiles give the same bits. */
typedef struct Tile {
  int rows, cols, cluster;
  double speed, usec;
} Tile;

static const Tile tile[] = {
    {128, 256, 2, 1.000, 4.4}, {128, 256, 1, 0.985, 2.9}, {192, 192, 2, 0.97, 4.4},
    {192, 192, 1, 0.955, 2.9}, {128, 192, 2, 0.96, 4.4},  {128, 192, 1, 0.95, 2.9},
    {192, 128, 1, 0.95, 3.0},  {128, 128, 2, 0.95, 4.4},  {128, 128, 1, 0.955, 3.0},
    {128, 64, 2, 0.74, 3.7},   {128, 64, 1, 0.79, 3.0},   {64, 64, 1, 0.5, 3.0},
};

/* What holds up a tile that is not late, in usec: its pieces, one after the other. A tile's
 * speed was measured where it has DEEP numbers along k, and includes them there. */
static double end_of(const Tile *t, int64_t k, bool late) {
  enum { DEEP = 4096, DEPTH = 64 };
  const double piece = 0.3;
  if (k >= DEEP || (late && fits_late(t->rows, t->cols) && k >= least_depth(DEPTH, t->cols)))
    return 0;
  return piece * t->cols / 64 * (1 - (double)k / DEEP);
}

static double usec_of(const Tile *t, int64_t m, int64_t n, int64_t k, int64_t batch, int nsm,
                      bool late) {
  const double flop = 6.15e6, memory = 4.0e6; /* of one multiprocessor, of all, in a usec */
  int64_t rows = (int64_t)t->rows * t->cluster, at_a_time = nsm / t->cluster;
  if (!at_a_time) return HUGE_VAL; /* fewer multiprocessors than a cluster has */
  int64_t tiles = ((m + rows - 1) / rows) * ((n + t->cols - 1) / t->cols) * batch;
  int64_t rounds = (tiles + at_a_time - 1) / at_a_time;
  double work = (double)rounds * (double)k * 2.0 * t->rows * t->cols / (flop * t->speed);
  work += (double)rounds * end_of(t, k, late);
  double full = (double)tiles / (double)(rounds * at_a_time);
  double bytes = 2.0 * (double)batch *
                 ((double)m * (double)k + (double)k * (double)n + (double)m * (double)n);
  double moved = bytes / (memory * (rounds > 1 ? full : 1));
  const double overlap = 0.15; /* what either costs beside the other */
  return t->usec + (work > moved ? work + overlap * moved : moved + overlap * work);
}

/* Whether what blocks read at a time is too much for the second cache: their tiles form a
 * square of the result, as far as it has one. With no full round nobody keeps step. */
static bool drifts(const Tile *t, int64_t m, int64_t n, int64_t k, int nsm) {
  const double cache = 96e6;
  double area = (double)nsm * t->rows * t->cols, rows = 8.0 * t->rows * t->cluster;
  if (rows > (double)m) rows = (double)m;
  double cols = area / rows;
  if (cols > (double)n) cols = (double)n, rows = area / cols;
  return area < (double)m * (double)n && 2.0 * (rows + cols) * (double)k > cache;
}

TsGpuProduct ts_gpu_product_for(TsDtype in, TsDtype out, bool transposed_a, bool transposed_b,
                                int64_t m, int64_t n, int64_t k, int64_t batch, int nsm,
                                bool late) {
  const Tile *best = &tile[0];
  k = k * ts_dtypes[in].nbytes / 2; /* eight bits take half as long */
  if (ts_dtypes[in].nbytes > 2) {
    int rows = 0, cols = 0;
    ts_gpu_chain_tile(in, m, n, batch, nsm, &rows, &cols);
    return ts_gpu_product(in, out, transposed_a, transposed_b, rows, cols);
  }
  for (size_t i = 1; i < sizeof tile / sizeof *tile; i++)
    if (usec_of(&tile[i], m, n, k, batch, nsm, late) < usec_of(best, m, n, k, batch, nsm, late))
      best = &tile[i];
  TsGpuProduct p = ts_gpu_product(in, out, transposed_a, transposed_b, best->rows, best->cols);
  p.cluster = best->cluster;
  if (batch == 1 && drifts(best, m, n, k, nsm)) p.limit = 32;
  return p;
}

/* Bytes of a stage, and its time, are those of twice as many numbers of 16 bits. */
TsGpuProduct ts_gpu_product_tf32(int64_t m, int64_t n, int64_t k, int nsm) {
  TsGpuProduct p =
      ts_gpu_product_for(TS_DT_bf16, TS_DT_f32, false, true, m, n, 2 * k, 1, nsm, false);
  p.in = TS_DT_f32;
  p.depth /= 2;
  p.tf32 = true;
  return p;
}
