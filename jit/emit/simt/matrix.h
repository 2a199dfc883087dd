/* Products of tiles by a matrix unit, in block form (ir/tile/square.h): what a unit is. */
#ifndef TS_JIT_EMIT_GPU_MATRIX_H
#define TS_JIT_EMIT_GPU_MATRIX_H

#include <llvm-c/Core.h>

#include "ir/tile/tile.h"

struct TsGpuEmit;
struct TsGpuFrame;
struct TsGpuCoord;

/* How LLVM wants a lane's numbers of an operand. */
typedef enum TsGpuMatrixWords {
  TS_MATRIX_numbers, /* as they are: f32, f64, half, bfloat */
  TS_MATRIX_shorts,  /* 16 bits each */
  TS_MATRIX_words,   /* 32 bits with several in them */
  TS_MATRIX_long,    /* one word of 64 */
} TsGpuMatrixWords;

/* How numbers lie in the lanes of a wave: a row of the table of jit/emit/simt/amd_matrix.c. The
 * unit makes Y = X W + Y with X from B and W from A, so that a lane's sums are of one row: that of
 * its number mod 16. Of a row of A, or a column of B, it has `each` numbers: runs of `run`, `far`
 * apart, from k_group times its group of 16 lanes on. Sum i is in column i * col + group *
 * col_group. */
typedef struct TsGpuMatrix {
  TsTargetMatrix unit;
  TsDtype of;       /* what is multiplied */
  const char *name; /* of the intrinsic */
  int lanes, depth;
  int each, run, far, k_group;
  int sums, col, col_group;
  TsGpuMatrixWords words;
  bool typed; /* its name has types */
  bool flags; /* three words of 0 follow the operands */
  bool signs; /* each operand stands behind a bit that says it is signed, a 0 follows */
} TsGpuMatrix;

/* Whether the phase has a product by the unit. */
bool ts_gpu_matrix_used(const struct TsGpuEmit *g);
/* The unit's way of multiplying numbers of d; NULL: there is none. */
const TsGpuMatrix *ts_gpu_matrix_of(const struct TsGpuEmit *g, TsDtype d);
/* The frame of the tile, if it is of sums that a unit of this phase makes, or of an operand that
 * it wants turned; NULL. */
struct TsGpuFrame *ts_gpu_matrix_frame(struct TsGpuEmit *g, const TsTileType *t);
/* Of a tile that has such a frame its numbers as vectors of the unit, which loops carry so that they
 * stay in their registers; NULL. And defined by them. */
LLVMValueRef *ts_gpu_matrix_wholes(struct TsGpuEmit *g, TsTileVal v, int *n);
/* One of them. */
LLVMValueRef ts_gpu_matrix_whole(struct TsGpuEmit *g, TsTileVal v, int i);
void ts_gpu_matrix_keep_wholes(struct TsGpuEmit *g, struct TsGpuFrame *f);
void ts_gpu_matrix_define(struct TsGpuEmit *g, TsTileVal v, LLVMValueRef *whole);
/* false: there is no unit, and no instruction was emitted. */
bool ts_gpu_matrix_product(struct TsGpuEmit *g, const TsTileStmt *s);

/* The operands of a product that stands behind, if they are stages of rings, come now. */
void ts_gpu_matrix_fetch(struct TsGpuEmit *g, const TsTileStmt *s);

/* Operands that a loop does not change go to shared memory before it; forget: behind it. */
void ts_gpu_matrix_before(struct TsGpuEmit *g, const TsTileRegion *r);

/* ---- jit/emit/simt/matrix_row.c: what is reduced over columns of sums */
/* Whether the phase reduces rows of tiles with as many rows: waves have whole ones then. */
bool ts_gpu_matrix_rows(const struct TsGpuEmit *g, const TsTileType *t);
struct TsGpuFrame *ts_gpu_matrix_row_frame(struct TsGpuEmit *g, const TsTileType *t);
/* The same of rows of sums in such a frame; NULL: waves do not have whole ones. */
struct TsGpuFrame *ts_gpu_matrix_rows_of(struct TsGpuEmit *g, const TsTileType *t,
                                         const struct TsGpuFrame *of);
bool ts_gpu_matrix_reduce(struct TsGpuEmit *g,
                          const TsTileStmt *s); /* false: not of that form */
/* The frame of the operand of a broadcast along the columns of f; NULL: it is no such. */
struct TsGpuFrame *ts_gpu_matrix_spread(struct TsGpuEmit *g, const TsTileStmt *s,
                                        const struct TsGpuFrame *f);
int ts_gpu_matrix_row_of(const struct TsGpuFrame *f, int slot);

/* ---- jit/emit/simt/matrix_operand.c: operands in shared memory, as rows of A and columns of B
 * along k */
typedef struct TsGpuMatrixRows {
  int64_t at;    /* bytes from the group's memory, of one stage */
  int64_t pitch; /* bytes of a row */
  TsDtype of;
  LLVMValueRef stage; /* bytes that the stage adds, or NULL */
  bool across;        /* rows are steps of k instead, which are read turned */
  bool copied;        /* by copies that others are under way beside */
} TsGpuMatrixRows;

/* Byte `in` of a row: its address; where it lies in the row. */
LLVMValueRef ts_gpu_matrix_place(struct TsGpuEmit *g, const TsGpuMatrixRows *r,
                                 struct TsGpuCoord row, LLVMValueRef in);
LLVMValueRef ts_gpu_matrix_turned_in(struct TsGpuEmit *g, const TsGpuMatrixRows *r,
                                     struct TsGpuCoord row, LLVMValueRef in);

/* What is multiplied: the tile as it comes, and whether k is its first axis. */
TsTileVal ts_gpu_matrix_operand(const TsTileStmt *s, int side, bool *turned);
int64_t ts_gpu_matrix_pitch(TsDtype d, int64_t depth);
/* The frame in which a thread has numbers of several steps of k of a column; NULL: none. */
struct TsGpuFrame *ts_gpu_matrix_turned(struct TsGpuEmit *g, const TsTileType *t);
void ts_gpu_matrix_put(struct TsGpuEmit *g, TsTileVal v, bool turned,
                       const TsGpuMatrixRows *to);
/* A lane's numbers of a row, for the step of k that begins at `from`; of `across` the row is that of the
 * first lane, of which this is number `lane` of 16. */
LLVMValueRef ts_gpu_matrix_numbers(struct TsGpuEmit *g, const TsGpuMatrix *u,
                                   const TsGpuMatrixRows *of, struct TsGpuCoord row,
                                   LLVMValueRef lane, LLVMValueRef group, int64_t from);

/* ---- jit/emit/simt/direct.c: stages that are copied to shared memory */
typedef struct TsGpuMatrixRing {
  TsTileVal memory;
  TsGpuMatrixRows rows; /* of its first stage */
  bool unit;            /* they lie as the unit reads them; else one element behind the other */
  bool direct;          /* and come past registers */
  struct TsGpuMatrixRing *next;
} TsGpuMatrixRing;

void ts_gpu_ring_begin(struct TsGpuEmit *g, TsTileVal memory, int64_t at);
const TsGpuMatrixRing *ts_gpu_ring_of(const struct TsGpuEmit *g, TsTileVal memory);
/* Of a load of such a stage, which nobody has to do: the unit reads it; false: it is none. */
bool ts_gpu_ring_rows(struct TsGpuEmit *g, TsTileVal v, TsGpuMatrixRows *rows);
void ts_gpu_ring_copy(struct TsGpuEmit *g, const TsTileStmt *s);
void ts_gpu_ring_commit(struct TsGpuEmit *g);
void ts_gpu_ring_wait(struct TsGpuEmit *g, const TsTileStmt *s);
void ts_gpu_ring_meet(struct TsGpuEmit *g); /* `barrier` */
void ts_gpu_ring_turn(struct TsGpuEmit *g, const TsTileStmt *s);
/* Around a loop with turns: one half comes a meeting later, and in the end the other waits for it. */
void ts_gpu_ring_turns(struct TsGpuEmit *g, const TsTileStmt *loop, bool end);

#endif
