/* Attention of few queries whose keys lie in pages: whose keys a part is of, where they are, and
 * what of a page nobody sees. See ir/tile/gpu/decode.h. */
#include "ir/tile/gpu/decode_state.h"

enum { KEYS = TS_GPU_DECODE_KEYS };

typedef TsTileVal V;
typedef TsGpuDecoding Decode;

static V load(Decode *a, V memory, const V *at) {
  TsTileType scalar = ts_tile_scalar(TS_DT_i64);
  return ts_tile_load(&a->b, memory, at, &scalar, NULL);
}

/* Key heads of a batch: its query rows by those of a key head. */
static V heads_of_batch(Decode *a) {
  return op2(a, TS_OP_floordiv, by(a, TS_OP_mul, a->h, a->x.queries), a->e);
}

void ts_gpu_decode_text_of(Decode *a) {
  a->seen = a->t;
  if (!a->x.last && !a->x.mask.some) return;
  a->batch = ts_gpu_named(op2(a, TS_OP_floordiv, a->head, heads_of_batch(a)), "batch");
  if (!a->x.last) return;
  V last = load(a, a->last, &a->batch);
  a->seen = ts_gpu_named(by(a, TS_OP_add, last, 1), "seen");
  if (!a->x.pages.size) return;
  if (a->x.window) a->low = ts_gpu_named(by(a, TS_OP_sub, a->seen, a->x.window), "low");
  a->seen = ts_gpu_named(op2(a, TS_OP_minimum, a->seen, a->t), "there");
}

/* ---- fetching */
/* Where rows are that begin at a key of the batch; behind the last row of all pages, where the
 * query sees none of them, so that zeros come and nothing is read. Pages may count from the end. */
static V row_of(Decode *a, V key, int64_t n) {
  const TsGpuPages *p = &a->x.pages;
  V index = by(a, TS_OP_floordiv, key, p->size);
  V sees = op2(a, TS_OP_lt, key, a->seen);
  sees = op2(a, TS_OP_logical_and, sees, by(a, TS_OP_lt, index, p->count));
  if (a->low)
    sees = op2(a, TS_OP_logical_and, sees, op2(a, TS_OP_gt, by(a, TS_OP_add, key, n), a->low));
  V page = load(a, a->table, (V[]){a->batch, by(a, TS_OP_minimum, index, p->count - 1)});
  V wraps = by(a, TS_OP_add, page, p->rows / p->size);
  page = ts_gpu_decode_choose(a, by(a, TS_OP_lt, page, 0), wraps, page);
  V row = by(a, TS_OP_mul, page, p->size);
  if (p->size > KEYS) row = op2(a, TS_OP_add, row, by(a, TS_OP_mod, key, p->size));
  return ts_gpu_decode_choose(a, sees, row, number(a, p->rows));
}

/* The first places are asked for before memory is waited for; more than a few of them have no
 * registers. */
void ts_gpu_decode_fetch_pages(Decode *a, V to, V from, V full, V empty,
                               const TsGpuDecodeRing *r, V block) {
  enum { FEW = 4 };
  int rows = a->x.pages.size < KEYS ? a->x.pages.size : KEYS, n = KEYS / rows;
  V k0 = ts_gpu_decode_keys_at(a, block), row[FEW];
  V own = op2(a, TS_OP_mul, a->batch, heads_of_batch(a)),
    head = op2(a, TS_OP_sub, a->head, own);
  for (int p = 0; p < n; p += FEW) {
    int end = p + FEW < n ? p + FEW : n;
    for (int i = p; i < end; i++) row[i - p] = row_of(a, by(a, TS_OP_add, k0, i * rows), rows);
    if (!p) ts_gpu_await(&a->b, empty, r->slot, r->parity);
    if (!p) ts_gpu_expect(&a->b, full, r->slot, to);
    for (int i = p; i < end; i++)
      ts_gpu_fetch_rows(&a->b, to, from, full, r->slot, i * rows, rows, head, row[i - p]);
  }
}

/* ---- what is not seen */
/* Products of probabilities that are 0 with what is no number would be none. */
void ts_gpu_decode_blank(Decode *a, V slot, V i) {
  if (!a->x.pages.size) return;
  V k0 = ts_gpu_decode_keys_at(a, i), low = number(a, 0);
  TsTileRegion *before = ts_gpu_when(&a->b, ts_gpu_decode_is_partial(a, k0));
  V end = op2(a, TS_OP_sub, a->seen, k0);
  if (a->low) low = op2(a, TS_OP_sub, a->low, k0);
  ts_gpu_say(&a->b, TS_TILE_blank, TS_GPU_IN(a->sv, slot, low, end), TS_GPU_PLAIN, NULL);
  ts_gpu_async_fence(&a->b);
  ts_gpu_plain(&a->b, TS_TILE_sync);
  a->b.at = before;
}
