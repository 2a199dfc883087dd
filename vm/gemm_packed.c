/* The packed way of the matrix product, for all that is neither small nor skinny.
 *
 * For each block of k (kc steps) the columns' operand is packed into panels of nr
 * columns that all workers read. Then items of mc rows by a strip of columns are
 * spread over the pool: a worker packs its own rows, keeps them while its items
 * follow each other down the same rows, and multiplies panel by panel. One panel
 * of rows stays in the L1 cache, the strip in L2. Chains go on from one block of k
 * to the next through memory: in C itself if C can hold accumulators, else in a
 * buffer, for m_chunk rows at a time so that the buffer stays small. */
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
} Block;

/* In front of a worker's buffer: the rows that it holds. */
typedef struct Worker {
  int64_t block, row;
} Worker;

enum {
  HEAD = 64,     /* bytes of a Worker */
  PACK_STEPS = 8 /* of k at once, see pack */
};

/* Packs n rows or columns of a side from i0, in panels behind each other. Where
 * they are contiguous in memory, all panels take their part of a few steps of k
 * while those cache lines and pages are at hand. */
static void pack(const Block *b, const GemmSide *s, char *dst, int width, int64_t i0, int64_t n) {
  int nbytes = b->j->acc->nbytes;
  int64_t step = s->is == 1 && !s->fill ? PACK_STEPS : b->k;
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
  int64_t step = b->p->pack_columns;
  (void)worker;
  for (int64_t col = lo * step; col < gemm_min(hi * step, b->n); col += step) {
    pack(b, &b->j->y, b->y + col * b->k * acc->nbytes, acc->nr, b->n0 + col,
         gemm_min(step, b->n - col));
  }
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

static void blocks_of_k(Block *b) {
  const GemmJob *j = b->j;
  const GemmPlan *p = b->p;
  int64_t n_items = gemm_div(b->m, p->mc) * gemm_div(b->n, p->strip);
  for (int64_t k = 0; k == 0 || k < j->k; k += p->kc) {
    set_block(b, k);
    gemm_spread(p->serial, gemm_div(b->n, p->pack_columns), 1, pack_columns, b);
    gemm_spread(p->serial, n_items, p->grain, items, b);
  }
}

void ts_gemm_packed(const GemmJob *j, const GemmPlan *p, int64_t batch, char *mem) {
  Block b = {.j = j, .p = p, .batch = batch, .y = mem, .workers = mem + p->y_bytes + p->acc_bytes};
  if (p->acc_bytes) b.acc = mem + p->y_bytes;
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
