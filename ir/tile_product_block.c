/* How a product is cut for the CPU: the register tile, and the block of a round
 * (ir/tile_product.c). */
#include "ir/tile_product.h"

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

void ts_tile_product_block(const TsTarget *t, TsDtype d, const TsProductSize *s,
                           int64_t block[2]) {
  int lanes = t->vector_bytes / ts_dtypes[d].nbytes, mr, nv, size = ts_dtypes[d].nbytes;
  ts_tile_product_registers(t, lanes, s->m, s->n, s->high, &mr, &nv);
  int64_t most_k = s->steps ? s->steps : TS_PRODUCT_STEPS;
  int64_t nr = (int64_t)nv * lanes, kc = even(s->k, most_k, lanes),
          pieces = div_up(s->m, MOST_BLOCK);
  int64_t few = div_up(s->n, round_up(STRIP / (kc * size), nr)), most = 4L * s->threads;
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
  int lanes = t->vector_bytes / ts_dtypes[d].nbytes, mr, nv;
  ts_tile_product_registers(t, lanes, s->m, s->n, s->high, &mr, &nv);
  int64_t nr = (int64_t)nv * lanes;
  ts_tile_product_block(t, d, s, block);
  if (rows) block[0] = round_up(rows < s->m ? rows : s->m, mr);
  if (columns) block[1] = round_up(columns < s->n ? columns : s->n, nr);
  if (block[0] == block[1]) block[0] += mr; /* ts_tile_is_product tells them apart so */
}

double ts_tile_product_cost(const TsTarget *t, TsDtype d, const TsProductSize *s,
                            const int64_t block[2]) {
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
