/* Attention: the driver around the product's tiles and vm/kernels/attention/attention.h.
 *
 * The definition, for each query row i of each head on its own, in the wide type W
 * (f32 for f32 and narrower floats, else f64); every operation is rounded once, and
 * exp is W's:
 *
 *   m = -inf; l = +0; o[..] = +0
 *   for each block of 128 keys, in order, the last of them maybe shorter, of which
 *   causal and window let the row see at least one key:
 *     for each key j of the block:
 *       s[j] = chain of fma(q[d], k[j][d], s) for d ascending from +0
 *       t[j] = s[j] * scale, + mask[j] if the mask is of floats;
 *              -inf if causal, window or a bool mask hides the key
 *     m' = max(m, max t); u = m', but 0 if m' is -inf
 *     p[j] = exp(t[j] - u); alpha = exp(m - u)
 *     l = l * alpha + sum p, the sum in the canonical order of a leaf
 *     o[c] = o[c] * alpha; then, for every key j of the block ascending,
 *     o[c] = fma(p[j], v[j][c], o[c])
 *     m = m'
 *   with a sink x: m' = max(m, x); u as above; r = exp(m - u);
 *     l = l * r + exp(x - u); o[c] = o[c] * r
 *   y[c] = o[c] * (1 / l) + 0, rounded to the storage type; +0 if l is 0
 *
 * The row's position alone says which blocks it takes part in, so neither the rows beside it
 * nor the height of a tile can change its bits, not even for a NaN in a value that is hidden
 * from it. For finite values a key that is hidden is a no-op anyway: p is +0, and adding +0 at
 * the end makes one of the two zeros; so such keys at the ends of a block are left out where
 * all of its values are finite. Query i stands at position i + t - s among the keys, or at i
 * where the triangle begins in the upper left corner: causal shows keys up to that position,
 * window w the keys after position - w. p is not rounded to 16 bits.
 *
 * The alternative, probabilities rounded to the storage type as matrix units want
 * them, would make 16-bit results a matter of the block in which a row's maximum
 * changes; here they are f32 results rounded once.
 *
 * An item of work is one kv head and some of its query rows, heads of the group one
 * after the other. A worker packs the keys and values of a kv head once for all its
 * items in a row, as long as they are not too many. Few rows (decoding) read keys and
 * values where they lie, also in pages, if these hold the type of q: chains of sums go on from
 * one page to the next. Pages of other types are widened first, a block at a time. */
#include "vm/drive/attention.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/gemm/gemm.h"
#include "vm/core/scratch.h"

enum {
  KEYS = TS_ATTENTION_KEYS,
  MOST_ROWS = 96,        /* query rows of an item */
  FEW_ROWS = 8,          /* as many as skinny products take */
  CACHE_BYTES = 4 << 20, /* packed keys and values that a worker keeps */
};

typedef struct Job {
  const TsAttention *a;
  const TsKernels *k;
  const TsGemmAcc *acc;
  TsGemmPack *pack, *pack_wide;        /* panels of b's from the storage type; of a's from W */
  TsGemmSkinny *dots, *rows;           /* for few rows, or NULL */
  TsGemmSkinny *wide_dots, *wide_rows; /* for few rows of widened keys */
  TsGemmPack *pack_read;               /* panels of b's from widened keys */
  TsConvertFn *load, *store;           /* NULL where the storage type is W */
  TsConvertFn *load_page;              /* from the type of pages; NULL where it is W */
  bool widens, rounds;                 /* pages are not of the storage type, or have scales */
  int w;                               /* index of W's kernels */
  int64_t size, wide;                  /* bytes of an element in storage, in W */
  int64_t group, item_rows, items_per_head; /* query rows of a kv head: group * s */
  int64_t slots, slot_bytes; /* packed blocks: keys, values, whether these are all finite */
  int64_t k_bytes, kv_bytes;
  int64_t worker_bytes;
  char *mem;
} Job;

/* One worker's scratch: parts of its share of job.mem. */
typedef struct Worker {
  int64_t head, packed; /* kv head whose first `packed` blocks stand in the slots */
} Worker;

typedef struct Item {
  const Job *j;
  Worker *w;
  int64_t head, first; /* kv head; first of its query rows */
  int rows;
  char *q, *qp, *s, *p, *m, *l, *o, *slot, *read;
  int64_t place, low, end; /* of query 0; keys below low and from end on nobody sees */
  bool finite;             /* the values of the block */
  int64_t lo[MOST_ROWS], hi[MOST_ROWS]; /* keys that each row sees */
} Item;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

/* ---- rows */
static int64_t query_head(const Item *t, int r) {
  const TsAttention *a = t->j->a;
  int64_t b = t->head / a->kv_heads, h = t->head % a->kv_heads;
  return b * a->heads + h * t->j->group + (t->first + r) / a->s;
}

static int64_t query_index(const Item *t, int r) { return (t->first + r) % t->j->a->s; }

/* Where the text stands, and what its queries see of the keys together. */
static void find_place(Item *t) {
  const TsAttention *a = t->j->a;
  t->place = a->place, t->low = 0, t->end = a->t;
  if (!a->pages) return;
  t->place = a->pages->start[t->head / a->kv_heads];
  t->end = max64(0, min64(a->t, t->place + a->s));
  if (a->window) t->low = max64(0, min64(a->t, t->place - a->window + 1));
}

/* The rows in W, and what they see. */
static void load_rows(Item *t) {
  const TsAttention *a = t->j->a;
  for (int r = 0; r < t->rows; r++) {
    int64_t i = query_index(t, r), at = i + t->place;
    const char *q =
        (const char *)a->q + (a->q_at[query_head(t, r)] + i * a->q_step) * t->j->size;
    char *to = t->q + r * a->d * t->j->wide;
    if (t->j->load)
      t->j->load(a->d, to, q);
    else
      memcpy(to, q, (size_t)(a->d * t->j->wide));
    t->lo[r] = a->window ? max64(0, min64(a->t, at - a->window + 1)) : 0;
    t->hi[r] = a->causal ? max64(0, min64(a->t, at + 1)) : a->t;
  }
}

static void store_rows(Item *t) {
  const TsAttention *a = t->j->a;
  int64_t wide = t->j->wide;
  for (int r = 0; r < t->rows; r++) {
    int64_t head = query_head(t, r), at = (head * a->s + query_index(t, r)) * a->dv;
    char *o = t->o + r * a->dv * wide, *y = (char *)a->y + at * t->j->size;
    const char *sink = a->sink ? (const char *)a->sink + head % a->heads * wide : NULL;
    t->j->k->attention.finish[t->j->w](t->m + r * wide, t->l + r * wide, sink, o, a->dv);
    if (t->j->store)
      t->j->store(a->dv, y, o);
    else
      memcpy(y, o, (size_t)(a->dv * wide));
  }
}

static void clear_rows(Item *t) {
  for (int r = 0; r < t->rows; r++) {
    if (t->j->w)
      ((double *)(void *)t->m)[r] = -__builtin_inf();
    else
      ((float *)(void *)t->m)[r] = -__builtin_inff();
  }
  memset(t->l, 0, (size_t)(t->rows * t->j->wide));
  memset(t->o, 0, (size_t)(t->rows * t->j->a->dv * t->j->wide));
}

/* ---- one key block and some rows */
typedef struct Block {
  int64_t first; /* key */
  int n, row, rows;
  int from, to;                                         /* keys that some row sees */
  int32_t lo[TS_ATTENTION_ROWS], hi[TS_ATTENTION_ROWS]; /* within the block */
} Block;

/* What the rows see of the block; false if nothing. */
static bool look(const Item *t, Block *b) {
  b->from = KEYS, b->to = 0;
  for (int i = 0; i < b->rows; i++) {
    b->lo[i] = (int32_t)max64(0, min64(b->n, t->lo[b->row + i] - b->first));
    b->hi[i] = (int32_t)max64(0, min64(b->n, t->hi[b->row + i] - b->first));
    if (b->lo[i] >= b->hi[i]) continue;
    b->from = (int)min64(b->from, b->lo[i]), b->to = (int)max64(b->to, b->hi[i]);
  }
  return b->from < b->to;
}

static void softmax_step(Item *t, const Block *b) {
  const TsAttention *a = t->j->a;
  int64_t wide = t->j->wide;
  TsAttentionRows r = {.s = t->s,
                       .rows = b->rows,
                       .n = b->n,
                       .lo = b->lo,
                       .hi = b->hi,
                       .scale = a->scale,
                       .step = a->mask_key_step,
                       .m = t->m + b->row * wide,
                       .l = t->l + b->row * wide,
                       .o = t->o + b->row * a->dv * wide,
                       .ldo = a->dv,
                       .dv = a->dv};
  for (int i = 0; i < b->rows && a->mask_at; i++) {
    int64_t at = a->mask_at[query_head(t, b->row + i)] +
                 query_index(t, b->row + i) * a->mask_step + b->first * a->mask_key_step;
    if (a->bias) r.bias[i] = (const char *)a->bias + at * wide;
    if (a->seen) r.seen[i] = a->seen + at;
  }
  t->j->k->attention.block[t->j->w](&r);
}

/* Runs of rows that take part: values join their o. */
typedef void AddValues(Item *t, const Block *b, int row, int rows);

static void add_values(Item *t, const Block *b, AddValues *add) {
  for (int i = 0, n; i < b->rows; i += n) {
    n = 1;
    if (b->lo[i] >= b->hi[i]) continue;
    while (i + n < b->rows && b->lo[i + n] < b->hi[i + n]) n++;
    add(t, b, i, n);
  }
}

/* ---- pages */
enum { OF_KEYS, OF_VALUES };

static int64_t width_of(const TsAttention *a, int of) { return of == OF_KEYS ? a->d : a->dv; }

/* The row of a key among all rows of its kv head and those before. */
static int64_t row_of(const Item *t, int64_t key) {
  const TsAttention *a = t->j->a;
  const TsAttentionPages *p = a->pages;
  int64_t page = p->table[t->head / a->kv_heads * p->count + key / p->size];
  return (t->head % a->kv_heads * p->all + page) * p->size + key % p->size;
}

/* How many of the keys lie side by side, to - at at most. */
static int64_t run_of(const Item *t, int64_t at, int64_t to) {
  int64_t size = t->j->a->pages->size;
  return min64(to - at, size - at % size);
}

static const char *row_at(const Item *t, int of, int64_t row) {
  const TsAttention *a = t->j->a;
  const char *x = of == OF_KEYS ? a->k : a->v;
  return x + row * width_of(a, of) * ts_dtypes[a->pages->dtype].nbytes;
}

/* Products are f32's, whatever W is. */
static void scale_rows(const Job *j, char *to, int64_t n, int64_t width, const float *scale) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t at = i * width, end = at + width; at < end; at++) {
      double *d = (double *)(void *)to + at;
      float *f = (float *)(void *)to + at;
      if (j->w)
        *d = (double)((float)*d * scale[i]);
      else
        *f *= scale[i];
    }
}

/* To numbers of q's type. */
static void round_rows(const Job *j, char *to, int64_t n) {
  enum { SOME = 128 };
  _Alignas(64) char narrow[SOME * 8];
  for (int64_t i = 0, some; i < n; i += some, to += some * j->wide) {
    some = min64(SOME, n - i);
    j->store(some, narrow, to);
    j->load(some, to, narrow);
  }
}

/* Keys or values [first, first + n) in W, one behind the other; zeros where nobody looks. */
static void read_rows(const Item *t, int of, int64_t first, int64_t n, char *to) {
  const Job *j = t->j;
  const float *scale = j->a->pages->scale[of];
  int64_t width = width_of(j->a, of), end = first + n;
  for (int64_t at = first, some; at < end; at += some, to += some * width * j->wide) {
    bool below = at < t->low;
    some = below ? min64(end, t->low) - at : run_of(t, at, end);
    if (below || at >= t->end) {
      memset(to, 0, (size_t)(some * width * j->wide));
      continue;
    }
    int64_t row = row_of(t, at);
    if (j->load_page)
      j->load_page(some * width, to, row_at(t, of, row));
    else
      memcpy(to, row_at(t, of, row), (size_t)(some * width * j->wide));
    if (scale) scale_rows(j, to, some, width, scale + row);
    if (j->rounds) round_rows(j, to, some * width);
  }
}

/* ---- few rows in pages: products of the keys that some row sees, and their values */
static void page_dots(Item *t, const Block *b) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  char *s = t->s + b->from * j->wide;
  if (j->widens) {
    read_rows(t, OF_KEYS, b->first + b->from, b->to - b->from, t->read);
    j->wide_dots(t->rows, b->to - b->from, a->d, t->qp, t->read, a->d, s, KEYS, false);
    return;
  }
  int64_t to = b->first + b->to;
  for (int64_t at = b->first + b->from, n; at < to; at += n, s += n * j->wide) {
    n = run_of(t, at, to);
    j->dots(t->rows, n, a->d, t->qp, row_at(t, OF_KEYS, row_of(t, at)), a->d, s, KEYS, false);
  }
}

static void add_pages(Item *t, const Block *b, int row, int rows) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  char *o = t->o + (b->row + row) * a->dv * j->wide;
  int64_t to = b->first + b->to;
  for (int64_t at = b->first + b->from, n; at < to; at += n) {
    const char *s = t->s + (row * KEYS + at - b->first) * j->wide;
    n = j->widens ? to - at : run_of(t, at, to);
    j->pack_wide(t->p, ts_gemm_skinny_width(rows), s, KEYS, 1, rows, n);
    if (j->widens)
      j->wide_rows(rows, a->dv, n, t->p, t->read, a->dv, o, a->dv, true);
    else
      j->rows(rows, a->dv, n, t->p, row_at(t, OF_VALUES, row_of(t, at)), a->dv, o, a->dv, true);
  }
}

/* ---- few rows: keys and values stay where they lie */
static void add_few(Item *t, const Block *b, int row, int rows) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  if (a->pages) {
    add_pages(t, b, row, rows);
    return;
  }
  const char *v = (const char *)a->v + (a->v_at[t->head] + b->first * a->v_step) * j->size;
  char *o = t->o + (b->row + row) * a->dv * j->wide;
  j->pack_wide(t->p, ts_gemm_skinny_width(rows), t->s + row * KEYS * j->wide, KEYS, 1, rows,
               b->n);
  j->rows(rows, a->dv, b->n, t->p, v, a->v_step, o, a->dv, true);
}

static void few_rows(Item *t, Block *b) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  b->row = 0, b->rows = t->rows;
  if (!look(t, b)) return;
  if (a->pages) {
    page_dots(t, b);
  } else {
    const char *k = (const char *)a->k + (a->k_at[t->head] + b->first * a->k_step) * j->size;
    j->dots(t->rows, b->n, a->d, t->qp, k, a->k_step, t->s, KEYS, false);
  }
  softmax_step(t, b);
  if (j->widens) read_rows(t, OF_VALUES, b->first + b->from, b->to - b->from, t->read);
  add_values(t, b, add_few);
}

/* ---- many rows: packed panels */
/* n rows of keys or of values from `first` on as they are packed: where they lie, or read into
 * t->read, from one to the next *step elements of *size bytes. */
static const char *rows_at(const Item *t, int of, int64_t first, int64_t n, int64_t *step,
                           int64_t *size) {
  const TsAttention *a = t->j->a;
  *size = t->j->size;
  if (a->pages) {
    read_rows(t, of, first, n, t->read);
    *step = width_of(a, of), *size = t->j->wide;
    return t->read;
  }
  const int64_t *at = of == OF_KEYS ? a->k_at : a->v_at;
  const char *x = of == OF_KEYS ? a->k : a->v;
  *step = of == OF_KEYS ? a->k_step : a->v_step;
  return x + (at[t->head] + first * *step) * t->j->size;
}

static void pack_block(const Item *t, int64_t first, char *to) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  TsGemmPack *pack = a->pages ? j->pack_read : j->pack;
  int64_t n = min64(KEYS, t->end - first), nr = j->acc->nr, step, size;
  const char *k = rows_at(t, OF_KEYS, first, n, &step, &size);
  for (int64_t i = 0; i < n; i += nr)
    pack(to + i * a->d * j->wide, (int)nr, k + i * step * size, step, 1, min64(nr, n - i),
         a->d);
  char *values = to + j->k_bytes;
  const char *v = rows_at(t, OF_VALUES, first, n, &step, &size);
  bool finite = true;
  for (int64_t c = 0; c < a->dv; c += nr) {
    char *panel = values + c * KEYS * j->wide;
    pack(panel, (int)nr, v + c * size, 1, step, min64(nr, a->dv - c), n);
    finite = finite && j->k->attention.finite[j->w](panel, n * nr);
  }
  to[j->kv_bytes] = finite;
}

/* The packed block, made now if it is not there. */
static char *packed_block(Item *t, int64_t first) {
  const Job *j = t->j;
  int64_t i = first / KEYS;
  if (j->slots * KEYS < j->a->t) {
    pack_block(t, first, t->slot);
    return t->slot;
  }
  if (t->w->head != t->head) t->w->head = t->head, t->w->packed = 0;
  for (; t->w->packed <= i; t->w->packed++)
    pack_block(t, t->w->packed * KEYS, t->slot + t->w->packed * j->slot_bytes);
  return t->slot + i * j->slot_bytes;
}

static void add_many(Item *t, const Block *b, int row, int rows) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  int64_t nr = j->acc->nr;
  char *o = t->o + (b->row + row) * a->dv * j->wide;
  int64_t from = 0, to = b->n;
  if (t->finite) {
    for (int i = row; i < row + rows; i++)
      from = i == row ? b->lo[i] : min64(from, b->lo[i]),
      to = i == row ? b->hi[i] : max64(to, b->hi[i]);
  }
  for (int64_t c = 0; c < a->dv; c += nr)
    j->acc->tile(rows, (int)min64(nr, a->dv - c), to - from,
                 t->s + (row * KEYS + from) * j->wide, KEYS, 1,
                 t->p + (c * KEYS + from * nr) * j->wide, nr, o + c * j->wide, a->dv, true);
}

static void many_rows(Item *t, Block *b) {
  const Job *j = t->j;
  const TsGemmAcc *acc = j->acc;
  const TsAttention *a = j->a;
  char *packed = NULL;
  for (b->row = 0; b->row < t->rows; b->row += acc->mr) {
    b->rows = (int)min64(acc->mr, t->rows - b->row);
    if (!look(t, b)) continue;
    if (!packed) packed = packed_block(t, b->first);
    TsGemmTile *tile = b->rows == acc->mr ? acc->full : acc->tile;
    for (int64_t i = b->from / acc->nr * acc->nr; i < b->to; i += acc->nr)
      tile(b->rows, acc->nr, a->d, t->qp + b->row * a->d * j->wide, 1, acc->mr,
           packed + i * a->d * j->wide, acc->nr, t->s + i * j->wide, KEYS, false);
    softmax_step(t, b);
    t->p = packed + j->k_bytes;
    t->finite = packed[j->kv_bytes];
    add_values(t, b, add_many);
  }
}

/* ---- items */
static void run_item(Item *t) {
  const Job *j = t->j;
  const TsAttention *a = j->a;
  int64_t lo = a->t, hi = 0;
  find_place(t);
  load_rows(t);
  clear_rows(t);
  for (int r = 0; r < t->rows; r++) lo = min64(lo, t->lo[r]), hi = max64(hi, t->hi[r]);
  bool few =
      t->rows <= FEW_ROWS && (j->widens ? j->wide_dots && j->wide_rows : j->dots && j->rows);
  int64_t width = few ? ts_gemm_skinny_width(t->rows) : j->acc->mr;
  for (int r = 0; r < t->rows; r += (int)width)
    j->pack_wide(t->qp + r * a->d * j->wide, (int)width, t->q + r * a->d * j->wide, a->d, 1,
                 min64(width, t->rows - r), a->d);
  for (int64_t first = lo / KEYS * KEYS; first < hi && !ts_cpu_interrupted(); first += KEYS) {
    Block b = {.first = first, .n = (int)min64(KEYS, t->end - first)};
    if (few)
      few_rows(t, &b);
    else
      many_rows(t, &b);
  }
  store_rows(t);
}

/* Lays out a worker's scratch; from NULL, its size. */
static int64_t lay_out(const Job *j, char *mem, Item *t) {
  const TsAttention *a = j->a;
  char *start = mem;
  int64_t rows = up(up(j->item_rows, FEW_ROWS), j->acc->mr); /* packed by either width */
  t->w = (Worker *)(void *)ts_scratch_carve(&mem, (int64_t)sizeof(Worker));
  t->q = ts_scratch_carve(&mem, rows * a->d * j->wide);
  t->qp = ts_scratch_carve(&mem, rows * a->d * j->wide + 64); /* packing stores whole vectors */
  t->s = ts_scratch_carve(&mem, TS_ATTENTION_ROWS * KEYS * j->wide);
  t->p = ts_scratch_carve(&mem, FEW_ROWS * KEYS * j->wide + 64);
  t->m = ts_scratch_carve(&mem, rows * j->wide);
  t->l = ts_scratch_carve(&mem, rows * j->wide);
  t->o = ts_scratch_carve(&mem, rows * a->dv * j->wide);
  t->slot = ts_scratch_carve(&mem, j->slots * j->slot_bytes);
  t->read = ts_scratch_carve(&mem, a->pages ? KEYS * max64(a->d, a->dv) * j->wide : 0);
  return mem - start;
}

static void items(void *arg, int64_t lo, int64_t hi, int worker) {
  const Job *j = arg;
  int64_t rows = j->group * j->a->s;
  Item t = {.j = j};
  lay_out(j, j->mem + worker * j->worker_bytes, &t);
  char *few_p = t.p;
  for (int64_t i = lo; i < hi && !ts_cpu_interrupted(); i++) {
    t.p = few_p;
    t.head = i / j->items_per_head;
    t.first = i % j->items_per_head * j->item_rows;
    t.rows = (int)min64(j->item_rows, rows - t.first);
    run_item(&t);
  }
}

static void set_kernels(Job *j) {
  TsDtype d = j->a->dtype, wide = (TsDtype)ts_dtypes[d].accum;
  TsGemmType type = ts_gemm_type(d), wide_type = ts_gemm_type(wide);
  j->w = wide == TS_DT_f64;
  j->acc = j->w ? j->k->gemm.f64 : j->k->gemm.f32;
  j->pack = j->acc->pack_b[type], j->pack_wide = j->acc->pack_a[wide_type];
  j->dots = j->acc->skinny_dots[type], j->rows = j->acc->skinny_rows[type];
  j->size = ts_dtypes[d].nbytes, j->wide = ts_dtypes[wide].nbytes;
  j->pack_read = j->acc->pack_b[wide_type];
  j->wide_dots = j->acc->skinny_dots[wide_type], j->wide_rows = j->acc->skinny_rows[wide_type];
  if (d != wide) {
    j->load = j->k->convert.convert[d][wide];
    j->store = j->k->convert.convert[wide][d];
  }
}

static void set_pages(Job *j) {
  const TsAttentionPages *p = j->a->pages;
  TsDtype wide = (TsDtype)ts_dtypes[j->a->dtype].accum;
  if (!p) return;
  j->widens = p->dtype != j->a->dtype || p->scale[OF_KEYS] || p->scale[OF_VALUES];
  j->rounds = j->widens && j->store;
  if (p->dtype != wide) j->load_page = j->k->convert.convert[p->dtype][wide];
}

/* Rows of an item and blocks that stay packed: few enough rows that the pool is busy. */
static void set_blocks(Job *j, int threads) {
  const TsAttention *a = j->a;
  int64_t rows = j->group * a->s, heads = a->batch * a->kv_heads, nr = j->acc->nr;
  j->item_rows = min64(MOST_ROWS, rows);
  while (j->item_rows > 24 && threads > 1 &&
         heads * ((rows + j->item_rows - 1) / j->item_rows) < 4 * threads)
    j->item_rows /= 2;
  j->items_per_head = (rows + j->item_rows - 1) / j->item_rows;
  j->k_bytes = up(KEYS * a->d * j->wide, 64);
  j->kv_bytes = j->k_bytes + up(KEYS * up(a->dv, nr) * j->wide, 64);
  j->slot_bytes = j->kv_bytes + 64;
  int64_t blocks = (a->t + KEYS - 1) / KEYS;
  j->slots = blocks * j->slot_bytes <= CACHE_BYTES ? blocks : 1;
}

int ts_attention(const TsAttention *a, const TsKernels *k) {
  Job j = {.a = a, .k = k, .group = a->kv_heads ? a->heads / a->kv_heads : 0};
  Item t;
  int threads = ts_cpu_threads();
  if (a->batch * a->heads * a->s * a->dv == 0) return 0;
  set_kernels(&j);
  set_pages(&j);
  set_blocks(&j, threads);
  j.worker_bytes = up(lay_out(&j, NULL, &t), 64);
  j.mem = ts_work_take(threads * j.worker_bytes);
  if (!j.mem) return -1;
  for (int i = 0; i < threads; i++)
    *(Worker *)(void *)(j.mem + i * j.worker_bytes) = (Worker){-1, 0};
  int64_t n = a->batch * a->kv_heads * j.items_per_head;
  double work = (double)j.item_rows * (double)a->t * (double)(a->d + a->dv);
  ts_cpu_parallel(n, work > 1e6 ? 1 : (int64_t)(1e6 / (work + 1)) + 1, items, &j);
  ts_work_give(j.mem);
  return 0;
}
