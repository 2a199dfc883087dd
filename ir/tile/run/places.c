/* The row `places` of the interpreter of Tile IR: a stable sort by counting. */
#include <string.h>

#include "ir/tile/run/state.h"

/* Elements in the order of axes 1, 0, 2. */
static int64_t next_element(const TsTileRunPlace *x, int64_t i) {
  int64_t chunks = x->dim[0], groups = x->dim[1], lanes = x->dim[2];
  int64_t lane = i % lanes, chunk = i / lanes % chunks, group = i / lanes / chunks;
  return (chunk * groups + group) * lanes + lane;
}

int ts_tile_do_places(TsTileRun *r, const TsTileStmt *s) {
  TsTileRunPlace *x = ts_tile_run_place(r, s->in[0]);
  int32_t *place = ts_tile_run_tile(r, s->out[0]), *start = ts_tile_run_tile(r, s->out[1]);
  int32_t *count = ts_tile_run_tile(r, s->out[2]);
  int64_t bins = ts_tile_attr(s, "bins")->i;
  int32_t *seen = ts_tile_run_work(r, s, bins * (int64_t)sizeof *seen), sum = 0;
  if (!x || !place || !start || !count || !seen) return -1;
  const int32_t *digit = (const int32_t *)(const void *)x->at;
  memset(count, 0, sizeof *count * (size_t)bins);
  for (int64_t i = 0; i < x->n; i++) {
    if (digit[i] < 0 || digit[i] >= bins)
      return ts_tile_run_fail(r, s, TS_ERR_value, "digit %d is none of %lld", (int)digit[i],
                              (long long)bins);
    count[digit[i]]++;
  }
  for (int64_t d = 0; d < bins; d++) seen[d] = start[d] = sum, sum += count[d];
  for (int64_t i = 0; i < x->n; i++) {
    int64_t e = next_element(x, i);
    place[e] = seen[digit[e]]++;
  }
  return 0;
}
