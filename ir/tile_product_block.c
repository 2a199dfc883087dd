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
void ts_tile_product_registers(const TsTarget *t, int lanes, int64_t m, int64_t n, int *mr,
                               int *nv) {
  static const int many[][2] = {{6, 4}, {8, 3}, {12, 2}}, few[][2] = {{4, 3}, {6, 2}};
  bool wide = t->registers >= 32;
  const int(*shape)[2] = wide ? many : few;
  double best = 0;
  for (int i = 0; i < (wide ? 3 : 2); i++) {
    int r = shape[i][0], v = shape[i][1];
    /* A step of a tile of r x v costs its multiply-adds and a little for its operands. */
    double full = r * v + 0.25 * r + 0.5 * v;
    double across = (double)n / (v * lanes), down = (double)div_up(m, r);
    double cost = full * down * ((int64_t)across + (n % (v * lanes) ? 0.15 : 0)) +
                  down * (r + 0.25 * r) * (double)div_up(n % (v * lanes), lanes);
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
  ts_tile_product_registers(t, lanes, s->m, s->n, &mr, &nv);
  int64_t nr = (int64_t)nv * lanes, kc = even(s->k, TS_PRODUCT_STEPS, lanes),
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
