/* Rows by their numbers, and codes of mxfp4 as numbers, in the interpreter of Tile IR. */
#include <math.h>
#include <string.h>

#include "ir/tile/run/state.h"
#include "lib/convert_bits.h"

/* Rows of a tile and of memory, each as far as both have columns. */
static int move(TsTileRun *r, const TsTileStmt *s, TsTileVal tile, bool write) {
  TsTileRunPlace *m = ts_tile_run_place(r, s->in[0]), *t = ts_tile_run_place(r, tile);
  const int64_t *row = ts_tile_run_tile(r, s->in[1]);
  if (!m || !t || !row) return -1;
  int64_t size = ts_tile_run_size(tile), first = ts_tile_run_scalar(r, s->in[2]);
  int64_t lo = first < 0 ? -first : 0, hi = m->dim[1] - first;
  if (hi > t->dim[1]) hi = t->dim[1];
  if (!write && ts_tile_attr(s, "inside")->i && (lo > 0 || hi < t->dim[1]))
    return ts_tile_run_fail(r, s, TS_ERR_index, "columns %lld to %lld of %lld",
                            (long long)first, (long long)(first + t->dim[1]),
                            (long long)m->dim[1]);
  if (!write) memset(t->at, 0, (size_t)(t->n * size));
  for (int64_t i = 0; i < t->dim[0] && lo < hi; i++) {
    if (row[i] < 0 || row[i] >= m->dim[0]) continue;
    char *in = (char *)m->at + (row[i] * m->stride[0] + (first + lo) * m->stride[1]) * size;
    char *out = (char *)t->at + (i * t->dim[1] + lo) * size;
    if (write)
      ts_tile_run_line(in, m->stride[1], out, 1, hi - lo, size);
    else
      ts_tile_run_line(out, 1, in, m->stride[1], hi - lo, size);
  }
  return 0;
}

int ts_tile_do_load_rows(TsTileRun *r, const TsTileStmt *s) {
  return move(r, s, s->out[0], false);
}
int ts_tile_do_store_rows(TsTileRun *r, const TsTileStmt *s) {
  return move(r, s, s->in[3], true);
}

/* ---- blank */
int ts_tile_do_blank(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *p = ts_tile_run_place(r, s->in[0]);
  int64_t slot = ts_tile_run_scalar(r, s->in[1]), low = ts_tile_run_scalar(r, s->in[2]);
  int64_t end = ts_tile_run_scalar(r, s->in[3]);
  size_t each = ts_dtypes[s->in[0]->type.dtype].nbytes;
  if (!p) return -1;
  if (slot < 0 || slot >= p->dim[0])
    return ts_tile_run_fail(r, s, TS_ERR_index, "slot %lld of %lld", (long long)slot,
                            (long long)p->dim[0]);
  for (int64_t i = 0; i < p->dim[1]; i++)
    for (int64_t j = 0; (i < low || i >= end) && j < p->dim[2]; j++)
      memset(p->at +
                 (slot * p->stride[0] + i * p->stride[1] + j * p->stride[2]) * (int64_t)each,
             0, each);
  return 0;
}

/* ---- unpack */
static float number(uint8_t code, uint8_t scale) {
  static const float e2m1[8] = {0, .5F, 1, 1.5F, 2, 3, 4, 6};
  float x = scale == 255 ? NAN : ldexpf(e2m1[code & 7], scale - 127);
  return code & 8 ? -x : x;
}

/* Where slot `slot` begins, or NULL with the error. */
static const uint8_t *slot_of(TsTileRun *r, const TsTileStmt *s, int memory, int64_t slot) {
  TsTileRunPlace *m = ts_tile_run_place(r, s->in[memory]);
  if (!m) return NULL;
  if (slot >= 0 && slot < m->dim[0]) return (uint8_t *)m->at + slot * m->stride[0];
  ts_tile_run_fail(r, s, TS_ERR_index, "slot %lld of %lld", (long long)slot,
                   (long long)m->dim[0]);
  return NULL;
}

int ts_tile_do_unpack(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *y = ts_tile_run_place(r, s->out[0]);
  int64_t at[4];
  for (int i = 0; i < 4; i++) at[i] = ts_tile_run_scalar(r, s->in[2 + i]);
  const uint8_t *codes = slot_of(r, s, 0, at[0]), *scales = slot_of(r, s, 1, at[2]);
  if (!y || !codes || !scales) return -1;
  int64_t n = y->dim[1], wide = s->in[0]->type.dim[2], each = s->in[1]->type.dim[1] / n,
          block = ts_dtypes[TS_DT_mxfp4].block;
  if (at[1] < 0 || at[1] + y->dim[0] > 2 * wide)
    return ts_tile_run_fail(r, s, TS_ERR_index, "element %lld of %lld", (long long)at[1],
                            (long long)(2 * wide));
  if (ts_tile_attr(s, "inside")->i && at[3] + y->dim[0] / block > each)
    return ts_tile_run_fail(r, s, TS_ERR_index, "scale %lld of %lld", (long long)at[3],
                            (long long)each);
  for (int64_t i = 0; i < y->dim[0]; i++)
    for (int64_t j = 0; j < n; j++) {
      int64_t k = at[1] + i, of = at[3] + i / block;
      uint8_t byte = codes[j * wide + k / 2];
      uint8_t scale = of < each ? scales[j * each + of] : 0; /* behind the end codes are 0 */
      float x = number(k % 2 ? byte >> 4 : byte & 15, scale);
      ((uint16_t *)(void *)y->at)[i * n + j] = bf16_of_f32(x);
    }
  return 0;
}
