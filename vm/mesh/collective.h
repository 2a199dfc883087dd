/* What devices of a mesh send each other: found from layouts before anything runs, and noted by
 * whoever sends. */
#ifndef TS_VM_MESH_COLLECTIVE_H
#define TS_VM_MESH_COLLECTIVE_H

#include "lib/shard.h"
#include "vm/core/vm.h"

typedef enum TsCollectiveKind {
  TS_COLLECTIVE_none, /* each device has what it needs */
  TS_COLLECTIVE_all_gather,
  TS_COLLECTIVE_all_to_all,
  TS_COLLECTIVE_all_reduce,
  TS_COLLECTIVE_reduce_scatter,
  TS_COLLECTIVE_broadcast, /* from one device to all */
  TS_COLLECTIVE_permute,   /* other kinds of moves */
} TsCollectiveKind;

typedef struct TsCollective {
  TsCollectiveKind kind;
  const TsMesh *mesh;
  uint8_t axes;  /* of the mesh, along which is sent */
  int64_t bytes; /* that all devices receive from others together */
  TsMeta meta;   /* of the tensor, as it lies afterwards */
  TsOp op;       /* whose call asks for it, or TS_OP_COUNT */
  char place[64];
} TsCollective;

const char *ts_collective_name(TsCollectiveKind kind);
/* What brings a tensor of this type under another layout of its mesh. */
TsCollective ts_collective_of_move(const TsMeta *m, const TsLayout *to);
/* What adds up result o of a call that is solved. */
TsCollective ts_collective_of_sum(const TsShard *s, const TsMesh *m, int o);

/* All of a call that is solved, in the order in which they are done: each(arg, c). */
void ts_collectives_of(const TsShard *s, const TsMesh *m,
                       void (*each)(void *arg, const TsCollective *c), void *arg);

/* ---- what was sent. The last ones of this thread's program. */
enum { TS_COLLECTIVES_KEPT = 1024 };
void ts_collective_note(TsContext *c, const TsCollective *what, TsOp op);
/* Number `back` from the last one, 0 being it; NULL: none. *total: all so far. */
const TsCollective *ts_collective_noted(int back, uint64_t *total);

#endif
