/* The packed way of the matrix product, for all that is neither small nor skinny.
 *
 * For each block of k (kc steps) the columns' operand is packed into panels of nr
 * columns that all workers read. Then items of mc rows by a strip of columns are
 * spread over the pool: a worker packs its own rows, keeps them while its items
 * follow each other down the same rows, and multiplies panel by panel. One panel
 * of rows stays in the L1 cache, the strip in L2. Chains go on from one block of k
 * to the next through memory: in C itself if C can hold accumulators, else in a
 * buffer, for m_chunk rows at a time so that the buffer stays small.
 *
 * A narrow product (all rows fit one item) does little with each packed column, so
 * that packing, a walk through memory, would take a third of the time. There each
 * worker has strips of columns to itself, and packs the next block between the
 * tiles of this one, piece by piece, each prefetched one tile earlier. (To prefetch
 * a whole block fails for strides of a power of two: its rows share a few sets of
 * the cache.) */
#include "vm/gemm_job.h"

/* One block of k over one chunk of rows and columns. */
typedef struct Block {
  const GemmJob *j;
  const GemmPlan *p;
  int64_t batch;
  char *y, *acc, *workers;
  int64_t m0, m, n0, n, k0, k;
  int64_t serial_no; /* of the block; tells a worker whether its rows are packed */
  bool first, last;  /* block of k */
  struct Feed *feed; /* what is packed between the tiles, or NULL */
} Block;

/* In front of a worker's buffer: the rows that it holds. */
typedef struct Worker {
  int64_t block, row;
} Worker;

enum {
  HEAD = 64,       /* bytes of a Worker */
  PACK_PANELS = 32 /* of columns in one item of packing */
};

/* Packs n rows or columns of a side from i0, in panels behind each other. Where
 * they are contiguous in memory, all panels take their part of a few steps of k
 * while those cache lines and pages are at hand. */
static void pack(const Block *b, const GemmSide *s, char *dst, int width, int64_t i0, int64_t n) {
  int nbytes = b->j->acc->nbytes;
  int64_t step = s->is == 1 && !s->fill ? TS_GEMM_PACK_STEPS : b->k;
  for (int64_t k = 0; k < b->k; k += step) {
    int64_t nk = gemm_min(step, b->k - k);
    for (int64_t i = 0; i < n; i += width) {
      ts_gemm_panel(s, b->batch, dst + (i * b->k + k * width) * nbytes, width, i0 + i,
                    gemm_min(width, n - i), b->k0 + k, nk);
    }
  }
}

static void pack_columns(void *arg, int64_t lo, int64_t hi, int worker) {
  const Block *b = arg;
  const TsGemmAcc *acc = b->j->acc;
  int64_t step = PACK_PANELS * acc->nr;
  (void)worker;
  for (int64_t col = lo * step; col < gemm_min(hi * step, b->n); col += step) {
    pack(b, &b->j->y, b->y + col * b->k * acc->nbytes, acc->nr, b->n0 + col,
         gemm_min(step, b->n - col));
  }
}

/* The next block of a narrow product, being packed. */
typedef struct Feed {
  Block block;
  int64_t done, total; /* pieces */
  int64_t tiles, tile; /* of the block being multiplied */
} Feed;

/* Steps of k and columns of one piece, about 8 KB of f32 in memory. */
static void piece_size(const Block *b, int64_t *steps, int64_t *cols) {
  const GemmSide *y = &b->j->y;
  *steps = y->fill ? b->k : y->is == 1 ? TS_GEMM_PACK_STEPS : 64;
  *cols = y->is == 1 && !y->fill ? b->n : b->j->acc->nr;
}

static int64_t count_pieces(const Block *b) {
  int64_t steps, cols;
  piece_size(b, &steps, &cols);
  return gemm_div(b->k, steps) * gemm_div(b->n, cols);
}

static void fetch(const Block *b, int64_t k, int64_t nk, int64_t col, int64_t cols) {
  const GemmSide *y = &b->j->y;
  if (y->fill || (y->is != 1 && y->ks != 1)) return;
  int64_t at = (y->batch ? y->batch[b->batch] : 0) + (b->n0 + col) / y->i_parts * y->is +
               (b->k0 + k) / y->k_parts * y->ks;
  int64_t rows = y->is == 1 ? nk / y->k_parts : cols / y->i_parts;
  int64_t bytes = (y->is == 1 ? cols / y->i_parts : nk / y->k_parts) * y->size;
  int64_t stride = (y->is == 1 ? y->ks : y->is) * y->size;
  const char *p = y->p + at * y->size;
  for (int64_t i = 0; i < rows; i++, p += stride) {
    for (int64_t o = 0; o < bytes; o += 64) __builtin_prefetch(p + o);
  }
}

/* Packs piece i of a block, or only prefetches it. */
static void piece(const Block *b, int64_t i, bool only_fetch) {
  const TsGemmAcc *acc = b->j->acc;
  int64_t steps, cols;
  piece_size(b, &steps, &cols);
  int64_t across = gemm_div(b->n, cols), k = i / across * steps, col = i % across * cols;
  int64_t nk = gemm_min(steps, b->k - k), last = gemm_min(col + cols, b->n);
  if (only_fetch) {
    fetch(b, k, nk, col, last - col);
    return;
  }
  for (; col < last; col += acc->nr) {
    ts_gemm_panel(&b->j->y, b->batch, b->y + (col * b->k + k * acc->nr) * acc->nbytes, acc->nr,
                  b->n0 + col, gemm_min(acc->nr, last - col), b->k0 + k, nk);
  }
}

/* After a tile: packs the pieces that are due and prefetches those after them. */
static void feed(Feed *f) {
  int64_t due = f->total * ++f->tile / f->tiles;
  int64_t then = gemm_min(f->total * (f->tile + 1) / f->tiles, f->total);
  while (f->done < due) piece(&f->block, f->done++, false);
  for (int64_t i = due; i < then; i++) piece(&f->block, i, true);
}

/* Rows of one panel (at most mr) times a strip of columns. */
static void multiply(const Block *b, const char *x, int rows, int64_t col, int64_t cols, char *c,
                     int64_t ld) {
  const TsGemmAcc *acc = b->j->acc;
  int mr = acc->mr, nr = acc->nr;
  const char *y = b->y + col * b->k * acc->nbytes;
  for (int64_t j = 0; j < cols; j += nr) {
    int w = (int)gemm_min(nr, cols - j);
    TsGemmTile *tile = rows == mr && w == nr ? acc->full : acc->tile;
    tile(rows, w, b->k, x, 1, mr, y + j * b->k * acc->nbytes, nr, c + j * acc->nbytes, ld,
         !b->first);
    if (b->feed) feed(b->feed);
  }
}

static void item(const Block *b, int64_t row, int64_t col, char *mem) {
  const GemmJob *j = b->j;
  int64_t rows = gemm_min(b->p->mc, b->m - row), cols = gemm_min(b->p->strip, b->n - col);
  int nbytes = j->acc->nbytes, mr = j->acc->mr;
  Worker *w = (Worker *)mem;
  char *x = mem + HEAD, *own = x + b->p->mc * b->p->kc * nbytes;
  if (w->block != b->serial_no || w->row != row) {
    pack(b, &j->x, x, mr, b->m0 + row, rows);
    *w = (Worker){b->serial_no, row};
  }
  for (int64_t i = 0; i < rows; i += mr, x += mr * b->k * nbytes) {
    int h = (int)gemm_min(mr, rows - i);
    char *c = own;
    int64_t ld = b->p->strip;
    if (j->direct) {
      c = ts_gemm_at(j, b->batch, b->m0 + row + i, b->n0 + col);
      ld = j->c_rs * j->parts;
    } else if (b->acc) {
      ld = b->p->nc;
      c = b->acc + ((row + i) * ld + col) * nbytes;
    }
    multiply(b, x, h, col, cols, c, ld);
    if (b->last && j->ends) ts_gemm_end(j, b->batch, b->m0 + row + i, h, b->n0 + col, cols, c, ld);
  }
}

static void items(void *arg, int64_t lo, int64_t hi, int worker) {
  const Block *b = arg;
  int64_t strips = gemm_div(b->n, b->p->strip);
  for (int64_t i = lo; i < hi; i++) {
    item(b, i / strips * b->p->mc, i % strips * b->p->strip,
         b->workers + (size_t)worker * b->p->worker_bytes);
  }
}

static void set_block(Block *b, int64_t k0) {
  b->k0 = k0;
  b->k = gemm_min(b->p->kc, b->j->k - k0);
  b->first = k0 == 0;
  b->last = k0 + b->p->kc >= b->j->k;
  b->serial_no++;
}

static void set_strip(Block *b, int64_t strip) {
  b->n0 = strip * b->p->strip;
  b->n = gemm_min(b->p->strip, b->j->n - b->n0);
}

/* Each strip goes through all of k; the feed is one block ahead. */
static void narrow_strips(void *arg, int64_t lo, int64_t hi, int worker) {
  Block b = *(const Block *)arg;
  const GemmJob *j = b.j;
  const GemmPlan *p = b.p;
  int64_t k_blocks = j->k > 0 ? gemm_div(j->k, p->kc) : 1, steps = (hi - lo) * k_blocks;
  char *mem = b.workers + (size_t)worker * p->worker_bytes;
  char *y = mem + p->worker_bytes - 2 * p->y_bytes;
  if (p->acc_bytes) b.acc = y - p->acc_bytes;
  *(Worker *)mem = (Worker){-1, -1};
  Feed f = {.block = b};
  for (int64_t s = -1; s < steps; s++) {
    b = f.block; /* which the last round packed */
    f.total = f.done = 0;
    if (s + 1 < steps) {
      f.block.y = y + (size_t)((s + 1) % 2) * p->y_bytes;
      set_strip(&f.block, lo + (s + 1) / k_blocks);
      set_block(&f.block, (s + 1) % k_blocks * p->kc);
      f.total = count_pieces(&f.block);
    }
    if (s >= 0) {
      f.tile = 0, f.tiles = gemm_div(b.m, j->acc->mr) * gemm_div(b.n, j->acc->nr);
      b.feed = &f;
      item(&b, 0, 0, mem);
    }
    while (f.done < f.total) piece(&f.block, f.done++, false);
  }
}

static void blocks_of_k(Block *b) {
  const GemmJob *j = b->j;
  const GemmPlan *p = b->p;
  int64_t n_items = gemm_div(b->m, p->mc) * gemm_div(b->n, p->strip);
  for (int64_t k = 0; k == 0 || k < j->k; k += p->kc) {
    set_block(b, k);
    gemm_spread(p->serial, gemm_div(b->n, PACK_PANELS * j->acc->nr), 1, pack_columns, b);
    gemm_spread(p->serial, n_items, 1, items, b);
  }
}

void ts_gemm_packed(const GemmJob *j, const GemmPlan *p, int64_t batch, char *mem) {
  Block b = {.j = j, .p = p, .batch = batch, .m = j->m, .workers = mem};
  if (p->narrow) {
    gemm_spread(p->serial, gemm_div(j->n, p->strip), 1, narrow_strips, &b);
    return;
  }
  b.y = mem;
  if (p->acc_bytes) b.acc = mem + p->y_bytes;
  b.workers = mem + p->y_bytes + p->acc_bytes;
  int n_workers = p->serial ? 1 : ts_cpu_threads();
  for (int i = 0; i < n_workers; i++) {
    *(Worker *)(b.workers + (size_t)i * p->worker_bytes) = (Worker){-1, -1};
  }
  for (b.m0 = 0; b.m0 < j->m; b.m0 += p->m_chunk) {
    b.m = gemm_min(p->m_chunk, j->m - b.m0);
    for (b.n0 = 0; b.n0 < j->n; b.n0 += p->nc) {
      b.n = gemm_min(p->nc, j->n - b.n0);
      blocks_of_k(&b);
    }
  }
}
