/* What devices of a mesh send each other: found from layouts before anything runs, and noted by
 * whoever sends. */
#ifndef TS_VM_MESH_COLLECTIVE_H
#define TS_VM_MESH_COLLECTIVE_H

#include "lib/shard/shard.h"
#include "net/world.h"
#include "vm/core/vm.h"

typedef enum TsCollectiveKind {
  TS_COLLECTIVE_none, /* each device has what it needs */
  TS_COLLECTIVE_all_gather,
  TS_COLLECTIVE_all_to_all,
  TS_COLLECTIVE_all_reduce,
  TS_COLLECTIVE_reduce_scatter,
  TS_COLLECTIVE_broadcast, /* from one device to all */
  TS_COLLECTIVE_scatter,   /* its pieces */
  TS_COLLECTIVE_reduce,    /* from all to one, added up */
  TS_COLLECTIVE_gather,    /* from all to one */
  TS_COLLECTIVE_permute,   /* other kinds of moves */
  TS_COLLECTIVE_COUNT,
} TsCollectiveKind;

typedef struct TsCollective {
  TsCollectiveKind kind;
  const TsMesh *mesh;
  uint8_t axes;     /* of the mesh, along which is sent */
  int64_t bytes;    /* that all devices receive from others together */
  TsMeta before;    /* the tensor as it lay, */
  TsMeta meta;      /* and as it lies afterwards */
  TsOp op;          /* whose call asks for it, or TS_OP_COUNT */
  const char *asks; /* what the program wrote: an operator, "reshard" .. */
  char place[64];
  int64_t count;    /* planned: how often, or 0: once */
  const char *when; /* planned: on what it depends whether, or how often; or NULL */
} TsCollective;

const char *ts_collective_name(TsCollectiveKind kind);
/* What brings a tensor of this type under another layout, of its mesh or another one; what is on
 * one device is sent from there. */
TsCollective ts_collective_of_move(const TsMeta *m, const TsLayout *to);
/* What brings it to one device. */
TsCollective ts_collective_of_gather(const TsMeta *m, int device);
/* What adds up a tensor of summands: its layout without them (NULL: with the error). */
TsCollective ts_collective_of_summands(const TsMeta *m);
const TsLayout *ts_layout_summed(const TsLayout *l, TsError *err);
/* What makes a tensor `to` of summands that lie as `from`, along these axes of the mesh. */
TsCollective ts_collective_of_summed(const TsMeta *to, const TsMeta *from, uint8_t axes);
/* What adds up result o of a call that is solved. */
TsCollective ts_collective_of_sum(const TsShard *s, const TsMesh *m, int o);
/* Summands along these axes, whose sum would lie as l, become a sum that lies as `want`, a piece of l's:
 * each device gets the summands of its piece alone. */
bool ts_layout_scatters(const TsLayout *l, uint8_t axes, const TsLayout *want);
/* Result o of a call that is solved is a sum of which each device is to have what it has under
 * `want`: it gets the summands of that alone. */
bool ts_collective_scatters(const TsShard *s, const TsMesh *m, int o, const TsLayout *want);

/* ---- what was sent. The last ones of this thread's program. */
enum { TS_COLLECTIVES_KEPT = 1024 };
/* Nothing is noted of kind none. */
void ts_collective_note(TsContext *c, const TsCollective *what);
/* Several processes: what the next exchanges between them are for, as all of them know it. What is
 * noted is; else what is said here. */
void ts_collective_about(TsContext *c, const char *asks, const TsMeta *m);
const TsWorldWhat *ts_collective_current(void);
/* Number `back` from the last one, 0 being it; NULL: none. *total: all so far. */
const TsCollective *ts_collective_noted(int back, uint64_t *total);
/* What is planned (vm/mesh/planned.h) is noted apart, all of it: begins anew; number i. */
void ts_collective_plan_begin(void);
const TsCollective *ts_collective_planned(int i);
/* A tensor of type m comes under `to`: its summands are added up, and it is moved. */
void ts_collective_note_move(TsContext *c, const TsMeta *m, const TsLayout *to,
                             const char *asks);
/* Where dist.hidden("error") stands, an operand that has to be moved is an error: 0, or -1. */
int ts_collective_hidden(TsContext *c, const TsCollective *what, const char *operand);

#endif
