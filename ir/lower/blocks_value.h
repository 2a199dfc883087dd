/* Numbers that are stored in blocks (vm/kernels/blocks.h), in Tile IR: f32 of codes and
 * scales, with the roundings of the VM's readers, so the same bits. */
#ifndef TS_IR_LOWER_BLOCKS_VALUE_H
#define TS_IR_LOWER_BLOCKS_VALUE_H

#include "ir/tile/tile.h"

enum {
  TS_BLOCKS_SPAN = 32
}; /* elements whose scales are found together; blocks are whole spans */

/* Of one span each: where its block begins, in bytes, and which of the block's spans it is;
 * i64 tiles. */
typedef struct TsBlocksSpan {
  TsDtype d;
  TsTileVal memory; /* bytes */
  TsTileVal at, sub;
  TsTileVal scale,
      least; /* f32, of elements; least is taken away or added where the format has one */
} TsBlocksSpan;

bool ts_blocks_known(TsDtype d);
/* Span number `span`, i64, of memory. */
TsBlocksSpan ts_blocks_span(TsTileBuild *b, TsDtype d, TsTileVal memory, TsTileVal span);
/* Of mxfp4 whose codes lie without their scales, which are bytes of their own. */
TsBlocksSpan ts_blocks_span_apart(TsTileBuild *b, TsTileVal codes, TsTileVal scales,
                                  TsTileVal span);
/* Elements i of spans, an i64 tile of 0..31, as f32. */
TsTileVal ts_blocks_value(TsTileBuild *b, const TsBlocksSpan *s, TsTileVal i);

#endif
