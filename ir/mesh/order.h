/* The steps of a plan in their order: one list, in which everything that a step needs stands before
 * it. Whoever runs it from front to back, on all devices or on some, so waits for nothing that
 * comes later: it cannot come to a stop, and all devices meet what is sent in the same order. */
#ifndef TS_IR_MESH_ORDER_H
#define TS_IR_MESH_ORDER_H

#include "ir/mesh/partition.h"

/* A turn of a place of the pipeline: one chunk, forward or backward, for one micro-batch. */
typedef struct TsTurn {
  TsPhase phase;
  int chunk, k;
} TsTurn;

/* The turns of a place, 2 * micro * chunks of it, in the order of the schedule. */
int ts_turns_count(const TsMeshHow *how, int nplace, int place);
void ts_turns_fill(const TsMeshHow *how, int nplace, int place, TsTurn *turn);

/* Fills the steps of the plan, what dies behind each, and what is known of them. Errors are of
 * memory, else our own: the list is checked. */
int ts_mesh_order(TsMeshPlan *p, TsError *err);
/* What is wrong with the steps of a plan, or NULL: a value that is read before it is there or after
 * it is gone, a step that is missing or done twice. */
const char *ts_mesh_order_check(const TsMeshPlan *p);

/* Slots that a step reads, and writes; how many. out NULL: only counted. As slot * micro-batches +
 * number. */
int ts_step_reads(const TsMeshPlan *p, const TsMeshStep *s, int *out);
int ts_step_writes(const TsMeshPlan *p, const TsMeshStep *s, int *out);

/* ---- what is known before it runs (weigh.c) */
int ts_mesh_weigh(TsMeshPlan *p, TsError *err);

#endif
