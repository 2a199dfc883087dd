/* How a program wants a graph to run over a mesh in time: in micro-batches, and by a pipeline of
 * chunks along one axis of the mesh. Without it a graph runs as it is, on all devices at once. */
#ifndef TS_IR_MESH_HOW_H
#define TS_IR_MESH_HOW_H

#include <stdbool.h>

enum { TS_CHUNKS = 60 }; /* of a pipeline, at most */

typedef enum TsTurns {
  TS_TURNS_gpipe,       /* all micro-batches forward, then all backward */
  TS_TURNS_1f1b,        /* one backward as soon as there is one */
  TS_TURNS_interleaved, /* the same where a device has several chunks */
} TsTurns;

/* A parameter of the graph whose chunk is known, by the tensor that it is bound to. */
typedef struct TsMeshSeed {
  const void *bound;
  int chunk;
} TsMeshSeed;

typedef struct TsMeshHow {
  int micro;  /* micro-batches, 1 at least */
  int chunks; /* of the pipeline; 0: there is none */
  int axis;   /* of the mesh, along which chunks lie: chunk c at place c mod its size */
  TsTurns turns;
  bool again[TS_CHUNKS]; /* the backward pass of a chunk computes its forward pass once more */
  int nseed;
  TsMeshSeed *seed;
} TsMeshHow;

#endif
