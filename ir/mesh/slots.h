/* What a plan is made of while it is made: slots, pieces, joins. Only ir/mesh includes it. */
#ifndef TS_IR_MESH_SLOTS_H
#define TS_IR_MESH_SLOTS_H

#include "ir/mesh/chunks.h"

typedef struct TsSlots TsSlots;

/* Who reads a slot: a node of a group. */
typedef struct TsSlotReader {
  const TsNode *node; /* or NULL: whoever called */
  int chunk, place;
  TsPhase phase;
} TsSlotReader;

struct TsSlots {
  TsMeshPlan *p;
  int leaves; /* declared */
  int capslot, capjoin, capgroup, cappiece, nknown, capknown;
  struct TsKnown *known;
  struct TsLocal *local; /* by hash of slot, group and part */
  int nlocal, caplocal;
  int latest;         /* level of groups that read pieces brought together late; */
  int64_t late_bytes; /* of those of that level */
  int updates;        /* the first level of the update */
  bool timed;         /* there are micro-batches, or a pipeline */
  struct TsDelays *delays; /* of nodes, as they are found; or NULL */
  const int *least;        /* by node: a level that it does not come before; or NULL */
  double *rest; /* by node: microseconds of the backward pass behind it; or NULL */
  bool *chunked;      /* by node: products whose sum may be sent in chunks; NULL: not known */
  bool *could;        /* by node: such that might, once it is known who reads their sums */
  struct TsChains *chains; /* what is made with such products; or NULL */
  struct TsNodeCall **held; /* by node: those that wait for the product behind them; or NULL */
  bool unlike;        /* micro-batches turned out to need pieces of their own */
  bool failed;
  TsError *err;
};

int ts_slots_fail(TsSlots *a); /* there is no memory: -1 */
/* A list that has room for one more element of this size. */
bool ts_slots_room(TsSlots *a, void *list, int n, int *cap, size_t each);
void ts_slots_free(TsSlots *a);

int ts_slots_new(TsSlots *a, const TsMeta *m, int summand, int group, int place);
/* v lies in the slot. The first one that is known is its home: where it was made. */
void ts_slots_know(TsSlots *a, TsVal v, int slot);
int ts_slots_home(const TsSlots *a, TsVal v);
/* The slot of v under a layout of the plan's mesh, where r is: moved there if it is not. */
int ts_slots_under(TsSlots *a, const TsSlotReader *r, TsVal v, const TsLayout *to);

/* The group of this kind; made if it is new. */
int ts_slots_group(TsSlots *a, const TsSlotReader *r, bool micro, int level);
/* The first level at which a group of the kind can read the slot. */
int ts_slots_level(const TsSlots *a, int slot, const TsSlotReader *r, bool micro);
TsMeshPiece *ts_slots_piece(TsSlots *a, int group, int part);
/* The slot's value in the graph of a part: made there, or a parameter of it. */
TsVal ts_slots_local(TsSlots *a, int slot, int group, int part);
void ts_slots_set_local(TsSlots *a, int slot, int group, int part, TsVal v);
/* The slot's value where it is made, or NULL. */
TsVal ts_slots_made(const TsSlots *a, int slot, int group, int part);
/* Results of the group that makes it, for every part that has it. */
void ts_slots_give_out(TsSlots *a, int slot);
TsMeshJoin *ts_slots_join_of(const TsSlots *a, int slot); /* that gives the slot, or NULL */
TsMeshJoin *ts_slots_join(TsSlots *a, TsMeshJoinKind kind, const TsSlotReader *r, int level,
                          int from, int to);

/* Parts that have graphs: all, or where the plan is a sample those of the first device. */
static inline int ts_slots_parts(const TsSlots *a) {
  return a->p->sampled ? a->p->space.nmicro : a->p->space.mesh->n;
}

/* Parts of the plan's mesh that a group, or what is no batch, has: first, step of a loop. */
static inline int ts_slots_step(const TsSlots *a, bool micro) {
  return micro && !a->p->alike ? 1 : a->p->space.nmicro;
}

#endif
