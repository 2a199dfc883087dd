/* See jit/collective/policy.h. Measured on four GPUs of one host that all reach each other: a meeting
 * takes 2.9 us, a kernel 1.4; 16 blocks of 512 threads are near to what links carry, and more do no
 * harm. */
#include "jit/collective/policy.h"

#include "devices/flags.h"
#include "jit/collective/kernel.h"

static const TsWayRow sums[] = {
    {2, 1 << 20, TS_WAY_whole, 128,
     "two devices send each other as much in shares as whole, and meet once instead of twice"},
    {2, 0, TS_WAY_share, 128, "each element is added up once"},
    {0, 256 << 10, TS_WAY_whole, 128,
     "so little is sent whole before a share could be told of"},
    {0, 0, TS_WAY_share, 128,
     "a link carries each element twice, however many devices there are"},
};

const TsWayRow *ts_way_of_sum(int devices, int64_t bytes) {
  const TsWayRow *row = sums;
  while ((row->devices && devices > row->devices) || (row->bytes && bytes > row->bytes)) row++;
  return row;
}

const TsWayRow *ts_way_of_pieces(void) {
  static const TsWayRow row = {0, 0, TS_WAY_piece, 128,
                               "who has a summand sends each its piece"};
  return &row;
}

const TsWayRow *ts_way_of_move(void) {
  static const TsWayRow row = {0, 0, TS_WAY_share, 128, "who has it writes it"};
  return &row;
}

/* Beside other kernels few blocks: each takes a processor from these, and 16 carry what 128 do. */
enum { BESIDE = 16 };

int64_t ts_way_blocks(const TsWayRow *row, int64_t tiles) {
  int64_t most = row->blocks < TS_FLAGS_SLOTS ? row->blocks : TS_FLAGS_SLOTS;
  if (ts_flags_lane() && most > BESIDE) most = BESIDE;
  return tiles < 1 ? 1 : tiles < most ? tiles : most;
}

int ts_way_tile(const TsWayRow *row, int64_t elements) {
  return elements > (int64_t)row->blocks * TS_SUM_TILE / 2 ? TS_SUM_TILE : TS_SUM_TILE / 2;
}
