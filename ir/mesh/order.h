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

/* ---- the check (check.c), which knows no more than the list: 0, or -1 and why, with the steps' names
 * and lines. Without memory to look why->failed is set. */
/* A value that is read before it is there or after it is gone, a step that is missing or done twice. */
int ts_mesh_check_steps(const TsMeshPlan *p, TsText *why);
/* What each device does, in its order: numbers of steps of the plan. By place of the pipeline, then by
 * part; parts 1: one stands for all at its place. */
typedef struct TsMeshProgram {
  int n, *step;
} TsMeshProgram;
TsMeshProgram *ts_mesh_programs(const TsMeshPlan *p, int parts); /* NULL: out of memory */
void ts_mesh_programs_free(const TsMeshPlan *p, int parts, TsMeshProgram *of);
/* Devices that wait for each other for ever, where each sends and receives only when all that take part
 * have come there: one meets what is sent in another order, or lacks a step. */
int ts_mesh_check_programs(const TsMeshPlan *p, int parts, const TsMeshProgram *of, TsText *why);
/* The same of the plan's own list. */
int ts_mesh_check_places(const TsMeshPlan *p, TsText *why);

/* Slots that a step reads, and writes; how many. out NULL: only counted. As slot * micro-batches +
 * number. What a join reads it has until it is done, and what it writes is there from then on. */
int ts_step_reads(const TsMeshPlan *p, const TsMeshStep *s, int *out);
int ts_step_writes(const TsMeshPlan *p, const TsMeshStep *s, int *out);
int ts_step_most(const TsMeshPlan *p, const TsMeshStep *s); /* room for either */

/* Starts of joins go forward in the list (flight.c). cost: microseconds by step. 0, or -1: no memory. */
int ts_mesh_fly(TsMeshPlan *p, const double *cost);

/* ---- what is known before it runs (weigh.c) */
int ts_mesh_weigh(TsMeshPlan *p, TsError *err);
/* Microseconds of each step, by what operators cost on devices of the plan's row; NULL: no memory. */
double *ts_mesh_step_costs(const TsMeshPlan *p);

#endif
