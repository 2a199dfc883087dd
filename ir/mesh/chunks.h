/* Which chunk of a pipeline, and which phase of a step, a node of the graph belongs to. */
#ifndef TS_IR_MESH_CHUNKS_H
#define TS_IR_MESH_CHUNKS_H

#include "ir/mesh/partition.h"

/* By id of the node. Phases are the same without a pipeline. */
typedef struct TsChunks {
  TsPhase *phase;
  int *chunk;
  int *param; /* by parameter: the chunk that it is part of, -1: nobody reads it */
} TsChunks;

/* how's seeds say of some parameters in which chunk they are; others follow: a node of the
 * forward pass stands in the last chunk that its operands come from, a node of the backward pass where
 * the values that it needs are, an update where its parameter is. -1 with the error. */
int ts_chunks_find(TsChunks *c, const TsGraph *g, const unsigned char *live,
                   const TsMeshHow *how, TsError *err);
void ts_chunks_free(TsChunks *c);

/* What a node costs on a machine of balanced arithmetic: microseconds, by what it adds and moves. */
double ts_chunks_cost(const TsNode *n);
double ts_chunks_cost_at(const TsNode *n, double flops_a_usec, double bytes_a_usec);

#endif
