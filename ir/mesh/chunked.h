/* Products whose sum over devices is sent in chunks of rows.
 *
 * A product that sums over a split axis gives summands, and who reads the sum waits for all of it. In
 * chunks of rows the sum of one is on its way while the next is computed; the order in which an element
 * is added up is the same, so no bit depends on it. It costs a launch and a meeting for each, and the
 * chunks are put together where they are read; so costs say whether it is done, and into how many. */
#ifndef TS_IR_MESH_CHUNKED_H
#define TS_IR_MESH_CHUNKED_H

#include "ir/mesh/slots.h"

/* A node that becomes nodes of parts (node_parts.c). */
typedef struct TsNodeCall {
  const TsNode *n;
  TsSlotReader r;
  TsShard s;
  int f, leaves, level, group;
  bool micro;        /* it is done for each micro-batch */
  int nchunk, chunk; /* of its rows: how many, and which one is done; */
  int axis;          /* the axis along which they are cut */
  int *in;           /* slots, -1 where absent, -2: a number */
  TsVal *operand;    /* of one part */
} TsNodeCall;

/* Into how many; 1: it is none, it does not pay, or nobody has looked yet who reads the sum
 * (TsSlots.chunked). Why is noted in the plan. */
int ts_chunked_count(TsSlots *a, TsNodeCall *k, const TsMeta *out);
/* Of those that might be sent in chunks the others go, whose sum somebody cuts: that is added up piece by
 * piece (slots.c), which sends less. How many are left. */
int ts_chunked_settle(TsSlots *a);
/* The operands of a part become those of the chunk. */
void ts_chunked_operands(TsNodeCall *k, TsMeshPiece *piece, TsShardPart *of);
/* Sums of chunks, in these slots, become the value where it is read. */
void ts_chunked_join(TsSlots *a, const TsNodeCall *k, const TsMeta *out, const int *made);

#endif
