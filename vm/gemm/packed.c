/* The packed way of the matrix product, for operands that are dear to pack: rules and complex
 * numbers. Each element is packed once.
 *
 * For each block of k (kc steps) the columns' operand is packed into panels of nr columns.
 * Then items of mc rows by a group of columns are spread over the pool, all rows of a group
 * after each other: a worker begins with the columns that it packed itself, so that cores
 * exchange packed columns only where one helps another. (To write a line that another core
 * has read costs ten times as much as to pack it.) The worker packs the rows of its item and
 * multiplies panel by panel. One panel of rows stays in the L1 cache, a strip of columns in
 * L2. Chains go on from one block of k to the next through memory: in C itself if C can hold
 * accumulators, else in a buffer, for m_chunk rows at a time so that the buffer stays small. */
#include "vm/gemm/job.h"

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
static void pack(const Block *b, const GemmSide *s, char *dst, int width, int64_t i0,
                 int64_t n) {
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
  int64_t end = gemm_min(hi * step, b->n);
  for (int64_t col = lo * step; col < end && !ts_cpu_interrupted(); col += step) {
    pack(b, &b->j->y, b->y + col * b->k * acc->nbytes, acc->nr, b->n0 + col,
         gemm_min(step, b->n - col));
  }
}

/* The rows of an item, packed as panels of mr rows. */
static const char *item_rows(const Block *b, int64_t row, int64_t rows, char *mem) {
  Worker *w = (Worker *)mem;
  if (w->block != b->serial_no || w->row != row) {
    pack(b, &b->j->x, mem + HEAD, b->j->acc->mr, b->m0 + row, rows);
    *w = (Worker){b->serial_no, row};
  }
  return mem + HEAD;
}

/* One panel of rows (at most mr) times a strip of columns. */
static void multiply(const Block *b, const char *panel, int rows, int64_t col, int64_t cols,
                     char *c, int64_t ld) {
  const TsGemmAcc *acc = b->j->acc;
  int mr = acc->mr, nr = acc->nr;
  const char *y = b->y + col * b->k * acc->nbytes;
  for (int64_t j = 0; j < cols; j += nr, c += nr * acc->nbytes, y += nr * b->k * acc->nbytes) {
    int w = (int)gemm_min(nr, cols - j);
    TsGemmTile *tile = rows < mr || w < nr ? acc->tile : acc->full;
    tile(rows, w, b->k, panel, 1, mr, y, nr, c, ld, !b->first);
  }
}

/* All rows of an item times a strip of its columns. */
static void strip(const Block *b, const char *x, int64_t row, int64_t rows, int64_t col,
                  int64_t cols, char *own) {
  const GemmJob *j = b->j;
  int nbytes = j->acc->nbytes, mr = j->acc->mr;
  for (int64_t i = 0; i < rows; i += mr, x += mr * b->k * nbytes) {
    int h = (int)gemm_min(mr, rows - i);
    char *c = own;
    int64_t ld = b->p->strip;
    if (j->direct) {
      c = ts_gemm_at(j, b->batch, b->m0 + row + i, b->n0 + col);
      ld = j->c_rs * j->reals;
    } else if (b->acc) {
      ld = b->p->nc;
      c = b->acc + ((row + i) * ld + col) * nbytes;
    }
    multiply(b, x, h, col, cols, c, ld);
    if (b->last && j->ends)
      ts_gemm_end(j, b->batch, b->m0 + row + i, h, b->n0 + col, cols, c, ld);
  }
}

static int64_t items_of_group(const Block *b) { return gemm_div(b->m, b->p->mc); }

/* The panels of rows are dealt out evenly to the items of a group. */
static void items(void *arg, int64_t lo, int64_t hi, int worker) {
  const Block *b = arg;
  char *mem = b->workers + (size_t)worker * b->p->worker_bytes;
  char *own = mem + b->p->worker_bytes - b->p->own_bytes;
  int64_t mr = b->j->acc->mr, count = items_of_group(b), panels = gemm_div(b->m, mr);
  for (int64_t i = lo; i < hi; i++) {
    int64_t row = i % count * panels / count * mr;
    int64_t rows = gemm_min((i % count + 1) * panels / count * mr, b->m) - row;
    int64_t col = i / count * b->p->group, end = gemm_min(col + b->p->group, b->n);
    const char *x = item_rows(b, row, rows, mem);
    for (; col < end && !ts_cpu_interrupted(); col += b->p->strip) {
      strip(b, x, row, rows, col, gemm_min(b->p->strip, end - col), own);
    }
  }
}

static void set_block(Block *b, int64_t k0) {
  b->k0 = k0;
  b->k = gemm_min(b->p->kc, b->j->k - k0);
  b->first = k0 == 0 && !b->j->g->resume;
  b->last = k0 + b->p->kc >= b->j->k;
  b->serial_no++;
}

static void blocks_of_k(Block *b) {
  const GemmJob *j = b->j;
  const GemmPlan *p = b->p;
  int64_t n_items = items_of_group(b) * gemm_div(b->n, p->group);
  for (int64_t k = 0; (k == 0 || k < j->k) && !ts_cpu_interrupted(); k += p->kc) {
    set_block(b, k);
    gemm_spread(p->serial, gemm_div(b->n, p->pack_columns), 1, pack_columns, b);
    gemm_spread(p->serial, n_items, 1, items, b);
  }
}

void ts_gemm_packed(const GemmJob *j, const GemmPlan *p, int64_t batch, char *mem) {
  Block b = {
      .j = j, .p = p, .batch = batch, .y = mem, .workers = mem + p->y_bytes + p->acc_bytes};
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
