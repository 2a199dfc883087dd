/* Products whose sum over devices is sent in chunks of rows.
 *
 * A product that sums over a split axis gives summands, and who reads the sum waits for all of
 * it. In chunks of rows the sum of one is on its way while the next is computed, with what it
 * is made of as far as rows stay rows (chain.h); the order in which an element is added up is
 * the same, so no bit depends on it. It costs a launch and a meeting for each, and the chunks
 * are put together where they are read; so costs say whether it is done, and into how many. */
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
  int *rows;         /* slots of the chunk alone that stand for them, -1: rows are cut here */
  TsVal *operand;    /* of one part */
  int whole;         /* the slot of all chunks together */
  int made[TS_CHUNKS_MOST]; /* those of the chunks */
  const TsMeta **meta;      /* what s.in and s.out are of */
  TsMeta *type, out[TS_MAX_OUT];
} TsNodeCall;

void ts_node_call_free(TsNodeCall *k);

/* Into how many; 1: it is none, it does not pay, or nobody has looked yet who reads the sum
 * (TsSlots.chunked). Why is noted in the plan. id: the nodes that are made with it, as many as
 * TS_CHAIN_MOST at most, by rising number. */
int ts_chunked_count(TsSlots *a, TsNodeCall *k, const TsMeta *out, int *id, int *nid);
/* Of those that might be sent in chunks the others go, whose sum somebody cuts: that is added
 * up piece by piece (slots.c), which sends less. How many are left. */
int ts_chunked_settle(TsSlots *a);
/* The operands of a part become those of the chunk. */
void ts_chunked_operands(TsNodeCall *k, TsMeshPiece *piece, TsShardPart *of);
/* The chunks' slots become k's whole one, in this group. */
void ts_chunked_join(TsSlots *a, const TsNodeCall *k, int group);

#endif
