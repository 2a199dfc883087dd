/* How attention of few queries is divided: chunks, which make bits, and parts, which make none.
 * See ir/tile/gpu/decode.h. */
#include <math.h>

#include "ir/tile/gpu/decode.h"

enum { KEYS = TS_GPU_DECODE_KEYS };

/* Scratch for a power of two of chunks, so that a few more keys need no other kernel. */
TsGpuDecode ts_gpu_decode(TsDtype dtype, int d, int rows, int64_t chunks) {
  TsGpuDecode x = {.dtype = dtype, .d = d, .queries = 1, .rows = 8, .scale = 1 / sqrt(d)};
  while (x.rows < rows) x.rows *= 2;
  x.stages = d == 64 ? 4 : 2;
  for (x.room = 64; x.room < chunks;) x.room *= 2;
  return x;
}

/* A sixteenth of the keys, so that few heads still keep all blocks busy; not so short that
 * chunks would be much of what moves. */
int64_t ts_gpu_decode_chunk(int64_t t) {
  int64_t c = 4;
  while (c < 32 && c * KEYS * 16 < t) c *= 2;
  return c;
}

static int64_t chunks_of_head(const TsGpuDecode *x, int64_t t, int64_t chunk) {
  int64_t blocks = (t + KEYS - 1) / KEYS, low = t - x->queries - x->window + 1;
  if (!x->window || x->last || low < 0) low = 0;
  return (blocks + chunk - 1) / chunk - low / KEYS / chunk;
}

int64_t ts_gpu_decode_chunks(const TsGpuDecode *x, int64_t j, int64_t t, int64_t chunk) {
  return j * chunks_of_head(x, t, chunk);
}

TsGpuDecodeSplits ts_gpu_decode_splits_of(const TsGpuDecode *x, int64_t j, int64_t t,
                                          int64_t chunk, int64_t n, int64_t longs) {
  int64_t chunks = chunks_of_head(x, t, chunk), most = (chunks + n - 1) / n;
  if (longs > most) longs = most;
  int64_t shorts = chunks - n * longs;
  return (TsGpuDecodeSplits){n, longs, j * (longs + (shorts > 0 ? shorts : 0))};
}

/* Chunks that blocks may still want when the long parts are all claimed: those that have one
 * less, and all of them one and some more, since they are not equally fast. */
static int64_t wanted(int64_t blocks, int64_t splits, int64_t n) {
  int64_t rounds = (splits + blocks - 1) / blocks;
  return (rounds * blocks - splits) * n + blocks * (1 + n / 8);
}

/* The longest long parts that leave enough short ones. */
TsGpuDecodeSplits ts_gpu_decode_splits(const TsGpuDecode *x, int64_t j, int64_t t,
                                       int64_t chunk, int64_t blocks) {
  int64_t chunks = chunks_of_head(x, t, chunk), share = j * chunks / blocks;
  for (int64_t n = chunks < share ? chunks : share; n > 1; n--)
    for (int64_t longs = chunks / n; longs > 0; longs--)
      if (j * (chunks - n * longs) >= wanted(blocks, j * longs, n))
        return ts_gpu_decode_splits_of(x, j, t, chunk, n, longs);
  return ts_gpu_decode_splits_of(x, j, t, chunk, 1, chunks);
}
