/* By which way a collective goes: one table, for its size and the number of devices. No way
 * changes a bit. */
#ifndef TS_JIT_COLLECTIVE_POLICY_H
#define TS_JIT_COLLECTIVE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

typedef enum TsWay {
  TS_WAY_whole, /* each device adds up all of it for itself */
  TS_WAY_share, /* each its share, which it writes to all */
  TS_WAY_piece, /* each the piece that it is to have */
  TS_WAY_room,  /* of a move: into the room of who gets it, who brings it to its place */
} TsWay;

typedef struct TsWayRow {
  int devices;   /* at most; 0: any number */
  int64_t bytes; /* of the sum, at most; 0: any number */
  bool narrow;   /* of sums that are rounded to fewer bytes than summands have */
  TsWay way;
  bool pushes; /* what is added up is written to who adds it up; else read by that */
  int blocks;  /* at most */
  const char *why;
} TsWayRow;

/* The row of a sum that all devices get; of one of which each gets its piece. */
const TsWayRow *ts_way_of_sum(int devices, int64_t bytes, bool narrow);
const TsWayRow *ts_way_of_pieces(void);
/* Of a move that brings a device so many bytes. */
const TsWayRow *ts_way_of_move(int64_t bytes);
/* Of tiles that a device has to do, at most: so many blocks, alike on all. */
int64_t ts_way_blocks(const TsWayRow *row, int64_t tiles);
/* A block, and the elements of so many bytes that it does at a time, where a device has so many
 * of them to do. */
typedef struct TsWayTile {
  int threads, elements;
} TsWayTile;
TsWayTile ts_way_tile(const TsWayRow *row, int64_t elements, int nbytes);

#endif
