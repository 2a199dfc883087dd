/* How a product is cut for the CPU: the register tile, and the block of a round
 * (ir/tile/product/product.c). */
#include "ir/tile/product/product.h"

enum {
  STRIP = 512 << 10, /* bytes of packed columns */
  MOST_BLOCK = 1024  /* rows of a block whose sums wait in memory */
};

static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return div_up(a, b) * b; }

static int64_t even(int64_t n, int64_t most, int64_t unit) {
  int64_t pieces = div_up(n, most > unit ? most : unit);
  return round_up(div_up(n, pieces), unit);
}

/* The register tile: 24 or 12 sums, the rest holds operands. Few rows by many vectors measure
 * best: each row of A is a stream of its own. The other shapes are for columns that would leave
 * much of the first at an edge. */
static const int of_32[][2] = {{6, 4}, {8, 3}, {12, 2}}, of_16[][2] = {{6, 2}, {4, 3}};

static const int (*shapes(const TsTarget *t, int *n))[2] {
  bool wide = t->registers >= 32;
  *n = wide ? 3 : 2;
  return wide ? of_32 : of_16;
}

int ts_tile_product_high(const TsTarget *t, int i) {
  int n;
  const int(*shape)[2] = shapes(t, &n);
  return i < n ? shape[i][0] : 0;
}

/* A step of a tile of r x v costs its multiply-adds and a little for its operands. */
static double registers_cost(int r, int v, int lanes, int64_t m, int64_t n) {
  double full = r * v + 0.25 * r + 0.5 * v;
  double across = (double)n / (v * lanes), down = (double)div_up(m, r);
  return full * down * ((int64_t)across + (n % (v * lanes) ? 0.15 : 0)) +
         down * (r + 0.25 * r) * (double)div_up(n % (v * lanes), lanes);
}

void ts_tile_product_registers(const TsTarget *t, int lanes, int64_t m, int64_t n, int high,
                               int *mr, int *nv) {
  int count;
  const int(*shape)[2] = shapes(t, &count);
  double best = 0;
  for (int i = 0; i < count; i++) {
    int r = shape[i][0], v = shape[i][1];
    double cost = registers_cost(r, v, lanes, m, n);
    if (high && r == high) return (void)(*mr = r, *nv = v);
    if (i == 0 || cost < best * 0.9) best = cost, *mr = r, *nv = v;
  }
}

/* Time of all rounds, in steps of one element: the busiest thread's. A round reads its rows and
 * packs its columns, which costs as much as some columns and rows more. Several rounds a thread
 * even out what the machine does besides. */
static double cost(const TsProductSize *s, int64_t rows, int64_t cols) {
  int64_t rounds = s->batch * div_up(s->m, rows) * div_up(s->n, cols);
  double most = (double)div_up(rounds, s->threads > 1 ? s->threads : 1);
  return ((double)(rows * cols) + 2.0 * (double)cols + 4.0 * (double)rows) * most *
         (1 + 0.02 / most);
}

/* ---- for the matrix unit: sizes as in vm/gemm/amx.c, which tells what was measured */
enum {
  AMX_WHOLE = 512, /* steps of k that are one part, */
  AMX_STEPS = 256, /* of more of them those of one */
  AMX_ROWS = 512,
  AMX_COLUMNS = 512,
  AMX_UNIT = 32 /* steps of a register */
};

int64_t ts_tile_product_amx_steps(int64_t k, int64_t most) {
  if (!most) most = k <= AMX_WHOLE ? AMX_WHOLE : AMX_STEPS;
  int64_t steps = even(k, round_up(most, AMX_UNIT), AMX_UNIT);
  return steps < k ? steps : k;
}

/* n in equal pieces, of whole units: at most `most`, and `want` of them if they are not smaller
 * than `few`. */
static int64_t piece(int64_t n, int64_t most, int64_t unit, int64_t want, int64_t few) {
  int64_t pieces = div_up(n, most);
  if (pieces < want) pieces = want < n / few ? want : n / few;
  if (pieces < 1) pieces = 1;
  return round_up(div_up(n, pieces), unit);
}

/* Two rounds a thread, columns first. */
static void amx_block(const TsProductSize *s, int64_t block[2]) {
  int64_t want = s->threads > 1 ? div_up(2L * s->threads, s->batch) : 1;
  int64_t blocks = div_up(s->m, piece(s->m, AMX_ROWS, TS_PRODUCT_AMX_HIGH, 1, 1));
  block[1] = piece(s->n, AMX_COLUMNS, TS_PRODUCT_AMX_WIDE, div_up(want, blocks),
                   2 * TS_PRODUCT_AMX_WIDE);
  want = div_up(want, div_up(s->n, block[1]));
  block[0] = piece(s->m, AMX_ROWS, TS_PRODUCT_AMX_HIGH, blocks < want ? want : 1,
                   2 * TS_PRODUCT_AMX_HIGH);
}

static void amx_near(const TsProductSize *s, int64_t rows, int64_t columns, int64_t block[2]) {
  int64_t high = TS_PRODUCT_AMX_HIGH, wide = TS_PRODUCT_AMX_WIDE;
  amx_block(s, block);
  if (rows) block[0] = round_up(rows < s->m ? rows : s->m, high);
  if (columns) block[1] = round_up(columns < s->n ? columns : s->n, wide);
  if (block[0] == block[1]) block[0] += high; /* ts_tile_is_product tells them apart so */
}

/* Rows are read once for a block of columns and columns packed once for one of rows; a part of k
 * is a visit of the sums. In steps of one element of f32. */
static double amx_cost(const TsProductSize *s, const int64_t block[2]) {
  enum { STEPS_A_CYCLE = 32, READ = 2, PACK = 4, VISIT = 4 };
  double m = (double)s->m, n = (double)s->n, k = (double)s->k;
  double rounds = (double)(s->batch * div_up(s->m, block[0]) * div_up(s->n, block[1]));
  double steps =
      m * n * k / STEPS_A_CYCLE + READ * m * k * (double)div_up(s->n, block[1]) +
      PACK * n * k * (double)div_up(s->m, block[0]) +
      VISIT * m * n * (double)div_up(s->k, ts_tile_product_amx_steps(s->k, s->steps));
  double most = (double)div_up((int64_t)rounds, s->threads > 1 ? s->threads : 1);
  return steps * (double)s->batch / rounds * most;
}

/* Words of two steps take as much room as steps of f32. */
static TsProductSize packed(const TsProductSize *s) {
  TsProductSize w = *s;
  if (s->pairs == TS_PAIRS_avx512_bf16)
    w.k = div_up(s->k, 2), w.steps = (int)div_up(s->steps, 2);
  return w;
}

void ts_tile_product_block(const TsTarget *t, TsDtype d, const TsProductSize *size,
                           int64_t block[2]) {
  const TsProductSize own = packed(size), *s = &own;
  if (s->pairs == TS_PAIRS_amx_bf16) {
    amx_near(s, 0, 0, block);
    return;
  }
  int lanes = t->vector_bytes / ts_dtypes[d].nbytes, mr, nv, bytes = ts_dtypes[d].nbytes;
  ts_tile_product_registers(t, lanes, s->m, s->n, s->high, &mr, &nv);
  int64_t most_k = s->steps ? s->steps : TS_PRODUCT_STEPS;
  int64_t nr = (int64_t)nv * lanes, kc = even(s->k, most_k, lanes),
          pieces = div_up(s->m, MOST_BLOCK);
  int64_t few = div_up(s->n, round_up(STRIP / (kc * bytes), nr)), most = 4L * s->threads;
  double best = 0;
  if (s->k <= kc) pieces = 1; /* no sums that wait */
  for (int64_t c = few; c <= few + s->threads; c++)
    for (int64_t r = pieces; r <= pieces + most; r++) {
      int64_t rows = round_up(div_up(s->m, r), mr), cols = round_up(div_up(s->n, c), nr);
      if ((r > pieces && rows < 4 * mr) || (c > few && c * nr > s->n + nr - 1)) continue;
      double x = cost(s, rows, cols < s->n ? cols : s->n);
      if (best == 0 || x < best) best = x, block[0] = rows, block[1] = cols;
    }
  if (block[0] == block[1]) block[0] += mr;
}

void ts_tile_product_near(const TsTarget *t, TsDtype d, const TsProductSize *s, int64_t rows,
                          int64_t columns, int64_t block[2]) {
  if (s->pairs == TS_PAIRS_amx_bf16) {
    amx_near(s, rows, columns, block);
    return;
  }
  int lanes = t->vector_bytes / ts_dtypes[d].nbytes, mr, nv;
  ts_tile_product_registers(t, lanes, s->m, s->n, s->high, &mr, &nv);
  int64_t nr = (int64_t)nv * lanes;
  ts_tile_product_block(t, d, s, block);
  if (rows) block[0] = round_up(rows < s->m ? rows : s->m, mr);
  if (columns) block[1] = round_up(columns < s->n ? columns : s->n, nr);
  if (block[0] == block[1]) block[0] += mr; /* ts_tile_is_product tells them apart so */
}

double ts_tile_product_cost(const TsTarget *t, TsDtype d, const TsProductSize *size,
                            const int64_t block[2]) {
  const TsProductSize own = packed(size), *s = &own;
  if (s->pairs == TS_PAIRS_amx_bf16) return amx_cost(s, block);
  int lanes = t->vector_bytes / ts_dtypes[d].nbytes, mr, nv;
  ts_tile_product_registers(t, lanes, s->m, s->n, s->high, &mr, &nv);
  double tile = registers_cost(mr, nv, lanes, s->m, s->n) / ((double)s->m * (double)s->n);
  int64_t kc = even(s->k, s->steps ? s->steps : TS_PRODUCT_STEPS, lanes);
  double packed = (double)(block[1] * kc * ts_dtypes[d].nbytes);
  double visits = (double)div_up(s->k, kc);
  double x = cost(s, block[0], block[1] < s->n ? block[1] : s->n) * tile * (double)s->k;
  if (packed > STRIP) x *= 1 + 0.1 * (packed / STRIP - 1);
  return x * (1 + 0.01 * (visits - 1));
}
