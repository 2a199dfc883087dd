/* What is sent beside what is computed: what it is worth, and what the program says about
 * it. */
#ifndef TS_IR_MESH_OVERLAP_H
#define TS_IR_MESH_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>

/* By the program; 0: as costs say. */
typedef struct TsOverlapAsked {
  int on;          /* 1: on any device; -1: never */
  int64_t bucket;  /* bytes of sums of gradients behind which a piece ends; */
  int64_t ahead;   /* bytes that are brought together before they are needed; */
  int chunks;      /* of a product whose sum is sent in chunks; 1: none */
  int64_t engines; /* bytes of a sum from which on copy engines bring the summands */
} TsOverlapAsked;

/* Of a plan. */
typedef struct TsOverlap {
  bool on;
  int64_t bucket, ahead, engines;    /* engines 0: kernels bring all */
  int chunks;                        /* that were asked for, 0: as costs say */
  int spare;                         /* processors that what is computed leaves alone */
  int tiles;                         /* of products, that are computed at a time */
  double meets, link, flops, memory; /* of the row (overlap.def) */
  double least; /* microseconds of computing beside which it is worth to start early */
} TsOverlap;

enum { TS_CHUNKS_MOST = 8 };                              /* of one product */
enum { TS_OVERLAP_ROWS = 128, TS_OVERLAP_COLUMNS = 256 }; /* of such a tile */

/* For devices of a kind. */
TsOverlap ts_overlap_of(const char *kind, const TsOverlapAsked *asked);

#endif
