/* The mesh of a plan. Its parts are those of the graph's mesh at one place of the pipeline, times
 * the micro-batches: these are a further, last axis, along which parts are the same devices at
 * different times. So what splits a batch over devices splits it over time as well, and sums over
 * it are sums over leaves of one tree. Axes have the numbers that they have in the graph's mesh;
 * that of the pipeline has one place here. */
#ifndef TS_IR_MESH_SPACE_H
#define TS_IR_MESH_SPACE_H

#include "ir/mesh/how.h"
#include "lib/mesh.h"

typedef struct TsMeshSpace {
  const TsMesh *real; /* of the graph, */
  const TsMesh *mesh; /* of the plan, */
  int axis;           /* along which the pipeline lies, or -1; */
  int micro;          /* the axis of micro-batches, or -1 */
  int nplace, nmicro,
      n; /* n: devices of one place; part p * nmicro + k is number k of device p */
  const TsMesh **lane; /* by place: the plan's mesh with the devices there, */
  const TsMesh **at;   /* and without micro-batches */
} TsMeshSpace;

/* how NULL: as the graph's mesh. -1 with the error. */
int ts_space_open(TsMeshSpace *s, const TsMesh *real, const TsMeshHow *how, TsError *err);
void ts_space_close(TsMeshSpace *s);

/* A layout over another of these meshes, whose axes have the same numbers; its pins go. */
const TsLayout *ts_space_onto(const TsLayout *l, const TsMesh *m, TsError *err);
/* The layout, over the graph's mesh, of what lies at one place as l says, all micro-batches of it; -1: at
 * each of them. */
const TsLayout *ts_space_real(const TsMeshSpace *s, const TsLayout *l, int place, TsError *err);
/* Number of device p of a place in the graph's mesh. */
int ts_space_part(const TsMeshSpace *s, int place, int p);
/* Which axis of a tensor micro-batches split, or -1. */
int ts_space_batch(const TsMeshSpace *s, const TsLayout *l);
/* Both split the same axis by micro-batches, and in the same way: each is moved for itself. */
bool ts_space_apart(const TsMeshSpace *s, const TsLayout *a, const TsLayout *b);

#endif
