/* See jit/collective/policy.h. Measured on four GPUs of one host that all reach each other: a
 * meeting takes 2.9 us, a kernel 1.4; 16 blocks of 512 threads are near to what links carry,
 * and more do no harm. */
#include "jit/collective/policy.h"

#include "devices/flags.h"
#include "jit/collective/kernel.h"

static const TsWayRow sums[] = {
    {2, 1 << 20, false, TS_WAY_whole, true, 128,
     "two devices send each other as much in shares as whole, and meet once instead of twice"},
    {2, 0, false, TS_WAY_share, true, 128, "each element is added up once"},
    {4, 256 << 10, false, TS_WAY_whole, true, 128,
     "so little is sent whole before a share could be told of"},
    {0, 128 << 10, false, TS_WAY_whole, true, 128,
     "of more devices each sends more copies, in the time of one more meeting"},
    {0, 0, true, TS_WAY_share, false, 128,
     "what is read passes the links while what is rounded is written, which is half of it"},
    {0, 0, false, TS_WAY_share, true, 128,
     "a link carries each element twice, however many devices there are"},
};

static const TsWayRow moves[] = {
    {0, 1 << 20, false, TS_WAY_room, true, 128,
     "so little is copied once more in less time than it is asked for whether it may come"},
    {0, 0, false, TS_WAY_share, true, 128, "who has it writes it where it belongs"},
};

/* Beside other kernels few blocks, since each takes a processor from these or lives in those
 * that are left to it (ir/mesh/overlap.def), and by reading, which 8 blocks do as fast as all;
 * pushing by 8 takes 1.6 times as long. */
enum { BESIDE = 8 };
static const TsWayRow beside[] = {
    {0, 0, false, TS_WAY_share, false, BESIDE, "8 blocks read as fast as all could"},
    {0, 0, false, TS_WAY_piece, false, BESIDE, "8 blocks read as fast as all could"},
};

static bool is_of(const TsWayRow *row, int devices, int64_t bytes, bool narrow) {
  return !(row->devices && devices > row->devices) && !(row->bytes && bytes > row->bytes) &&
         narrow >= row->narrow;
}

const TsWayRow *ts_way_of_sum(int devices, int64_t bytes, bool narrow) {
  const TsWayRow *row = sums;
  while (!is_of(row, devices, bytes, narrow)) row++;
  return row->way == TS_WAY_share && ts_flags_lane() ? &beside[0] : row;
}

const TsWayRow *ts_way_of_pieces(void) {
  static const TsWayRow row = {
      0, 0, false, TS_WAY_piece, true, 128, "who has a summand sends each its piece"};
  return ts_flags_lane() ? &beside[1] : &row;
}

const TsWayRow *ts_way_of_move(int64_t bytes) {
  const TsWayRow *row = moves;
  while (row->bytes && bytes > row->bytes) row++;
  return row;
}

int64_t ts_way_blocks(const TsWayRow *row, int64_t tiles) {
  int64_t most = row->blocks < TS_FLAGS_SLOTS ? row->blocks : TS_FLAGS_SLOTS;
  if (ts_flags_lane() && most > BESIDE) most = BESIDE;
  return tiles < 1 ? 1 : tiles < most ? tiles : most;
}

/* A vector of 16 bytes a thread, as long as blocks are few. Of little many small blocks are
 * sooner done than few large ones, whose threads also meet each other. */
TsWayTile ts_way_tile(const TsWayRow *row, int64_t elements, int nbytes) {
  enum { VECTOR = 16, LITTLE = 16 << 10, SOME = 64 << 10 };
  int64_t bytes = elements * nbytes;
  TsWayTile t = {TS_SUM_THREADS, 0};
  if (bytes <= SOME) t.threads /= bytes <= LITTLE ? 4 : 2;
  t.elements = t.threads * VECTOR / nbytes;
  while (t.elements < TS_SUM_TILE && elements > row->blocks * t.elements) t.elements *= 2;
  if (t.elements > TS_SUM_TILE) t.elements = TS_SUM_TILE;
  return t;
}
