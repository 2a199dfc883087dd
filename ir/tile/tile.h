/* Tile IR: one kernel, as what it does to tiles.
 *
 *   tile @scale<M>(%x: f32[M,768], %w: f32[768]) -> (%y: f32[M,768]) target cpu {
 *     %M = dim {index=0} : i64[]
 *     for %r in 0..%M parallel {
 *       %a = load %x[%r, 0]                : f32[768]
 *       %b = load %w[0]                    : f32[768]
 *       %c = mul %a, %b                    : f32[768]
 *       store %y[%r, 0] = %c
 *     }
 *   }
 *
 * One IR in two forms. In the block form a value is a tile of any size and an operation is any
 * pointwise row of lib/ops.def or a row of ir/tile/tile.def. In the explicit form tiles are
 * what the target holds in registers, everything else is loops and memory; TsTile.form says
 * which. Passes (ir/tile/pass) build a kernel from another and stay legal at every step; the
 * interpreter (ir/tile/run/run.c) runs both forms, so that each pass can be checked by running
 * before and after.
 *
 * Values are single-assignment; control is structured: a statement may hold regions, which see
 * the values around them. Pointwise rows take tiles of equal shape and compute types (f32, f64,
 * integers, bool): 16-bit floats are cast after a load and before a store. Attributes of a row
 * that are operands (clamp's limits) are trailing operands.
 *
 * A kernel is one or more phases: its parallel loops at the top. All rounds of one are done
 * before the next begins; memory of space scratch is what they share. Outside of them stand only
 * sizes, arithmetic on positions, constants and scratch. */
#ifndef TS_IR_TILE_H
#define TS_IR_TILE_H

#include <stdatomic.h>

#include "devices/target.h"
#include "lib/arena.h"
#include "lib/op.h"
#include "lib/text.h"

typedef enum TsTileOp {
  TS_TILE_before_first = TS_OP_COUNT - 1,
#define TILE(name, operands, regions, attrs, help) TS_TILE_##name,
#include "ir/tile/tile.def"
#undef TILE
  TS_TILE_END
} TsTileOp;

enum { TS_TILE_RANK = 8 };

/* Where a value is. Tiles are `value` (in registers, whatever their size) or `fragment` (spread
 * over the threads of a block as its matrix unit wants them); the others are memory, which only
 * memory operations touch. */
typedef enum TsSpace {
  TS_SPACE_value,
  TS_SPACE_fragment,
  TS_SPACE_global,  /* a parameter */
  TS_SPACE_scratch, /* device memory that lives as long as the kernel runs */
  TS_SPACE_local,   /* of one thread (CPU) */
  TS_SPACE_shared,  /* of one block (GPU) */
  TS_SPACE_barrier, /* dim[0] barriers in shared memory; bytes and arrivals are counted */
} TsSpace;

/* A size that is known when the kernel runs: the kernel's symbolic size k. */
static inline int64_t ts_tile_dim(int k) { return INT64_MIN + k; }
static inline bool ts_tile_dim_is(int64_t d) { return d < 0; }
static inline int ts_tile_dim_index(int64_t d) { return (int)(d - INT64_MIN); }

typedef struct TsTileType {
  uint8_t dtype, rank, space;
  bool strided;     /* memory: stride[] holds; else row-major */
  uint16_t swizzle; /* of shared memory: bytes of the pattern, 0: none */
  uint16_t count;   /* of barriers: arrivals that complete a phase */
  uint8_t
      split; /* of shared memory: the axis that the blocks of a cluster divide, 0: all have all */
  int64_t dim[TS_TILE_RANK];
  int64_t stride[TS_TILE_RANK]; /* in elements, never symbolic */
} TsTileType;

typedef struct TsTile TsTile;
typedef struct TsTileSequence TsTileSequence;
typedef struct TsTileStmt TsTileStmt;
typedef struct TsTileRegion TsTileRegion;

typedef struct TsTileValue {
  TsTileType type;
  const char *name;     /* for text, or NULL */
  TsTileStmt *stmt;     /* that makes it; NULL: a parameter */
  TsTileRegion *region; /* a parameter of this region; NULL with stmt NULL: of the kernel */
  int index;            /* among the results or parameters */
  uint32_t id;          /* dense within the kernel: for side tables */
} TsTileValue;

typedef TsTileValue *TsTileVal;

struct TsTileRegion {
  TsTileStmt *owner; /* NULL: the kernel's body */
  TsTileRegion *outer;
  int nparam;
  TsTileVal *param;
  TsTileStmt *first, *last;
};

struct TsTileStmt {
  uint16_t op; /* a POINTWISE TsOp, or TsTileOp */
  uint16_t nattr, nregion;
  int nin, nout;
  int line; /* index into the kernel's places, 0: unknown */
  TsTileVal *in;
  const TsAttr
      *attr; /* all attributes of the row of ir/tile/tile.def; NULL for pointwise rows */
  TsTileRegion **region;
  TsTileRegion *in_region;
  TsTileStmt *prev, *next;
  TsTileVal *out;
};

typedef enum TsTileForm { TS_FORM_block, TS_FORM_explicit } TsTileForm;

enum { TS_TILE_DIMS = 9, TS_TILE_ROLES = 4 };

struct TsTile {
  TsArena arena;
  const char *name;
  TsTileForm form;
  const char *target; /* "cpu", "avx512", "avx2", "base", "sm_90a", .. */
  int ntile;
  int64_t tile[4]; /* the tile shape that the schedule chose, for people */
  /* 0: unsaid. Of a GPU's ring of buffers; of rows on a CPU, see
   * ir/tile/pass/vec_pipeline.c. Threads are those of a GPU's block. */
  int stages, threads;
  /* Blocks that do one round of the grid together, 0: one. They divide its tiles: fragments along
   * their first axis, shared memory as its type says. */
  int cluster;
  /* 0: the passes choose. Vectors of a turn of a loop over elements, bytes of a vector, rounds
   * that a thread takes at a time. */
  int unroll, vector, grain;
  /* The same of a product on a CPU: rows of its register tile, steps of k between two visits of a
   * sum, rows of A: 1 read where they lie, 2 packed. */
  int high, depth, pack;
  bool marks; /* profile marks are code (ir/tile/marks.h) */
  const char
      *order; /* of the tiles on the grid, "bands:4" of a product, "heads"; NULL: unsaid */
  int ndim;
  const char *dim[TS_TILE_DIMS]; /* names of the symbolic sizes */
  int nparam, nin;               /* the first nin are read, the others written */
  TsTileVal *param;
  TsTileRegion *body;
  const char **place; /* "file.lua:12" by line number; [0] is "" */
  int nplace;
  int *place_slot, nplace_slot; /* their hash table; 0: free */
  uint32_t nvalue;
  TsTileSequence *sequence; /* NULL; else kernels that do the work of this one */
  bool failed;              /* memory ran out; every later call does nothing */
  atomic_int shares;        /* how many hold it beside who made it */
};

/* ---- building. A builder stands at the end of a region. After a failure statements are NULL and
 * values are lost ones, which have a type and belong to nothing: who builds a kernel looks at the
 * end. */
typedef struct TsTileBuild {
  TsTile *k;
  TsTileRegion *at;
  int line;
} TsTileBuild;

TsTile *ts_tile_new(const char *name); /* NULL: out of memory */
/* One that nobody changes any more, held once more: any thread. Each holder frees it. */
TsTile *ts_tile_share(const TsTile *k);
void ts_tile_free(TsTile *k);
/* Parameters: inputs first. The type's space is set to global. */
TsTileVal ts_tile_param(TsTile *k, const char *name, const TsTileType *type, bool written);
/* A symbolic size: its code for TsTileType.dim. */
int64_t ts_tile_size(TsTile *k, const char *name);
int ts_tile_place(TsTile *k, const char *place);

TsTileBuild ts_tile_build(TsTile *k); /* at the end of the body */

/* The general form: a statement with nout results of the given types. attr: all of the row
 * (copied), or NULL for the defaults. */
TsTileStmt *ts_tile_emit(TsTileBuild *b, int op, int nin, const TsTileVal *in,
                         const TsAttr *attr, int nout, const TsTileType *out);
/* One result. */
TsTileVal ts_tile_emit1(TsTileBuild *b, int op, int nin, const TsTileVal *in,
                        const TsAttr *attr, const TsTileType *out);

/* A parameter more of a region; for whoever makes regions without the short forms. */
TsTileVal ts_tile_region_param(TsTile *k, TsTileRegion *r, const TsTileType *type);

/* ---- short forms. Result types follow from the operands. */
TsTileType ts_tile_type(TsDtype d, int rank, const int64_t *dim); /* of a value */
TsTileType ts_tile_vector(TsDtype d, int64_t n);
TsTileType ts_tile_scalar(TsDtype d);
void ts_tile_set_strides(TsTileType *t, const int64_t *stride); /* memory of it lies so */
TsTileVal ts_tile_index(TsTileBuild *b, int64_t i);             /* i64[] constant */
TsTileVal ts_tile_const(TsTileBuild *b, double value, const TsTileType *type);
TsTileVal ts_tile_bits(TsTileBuild *b, uint64_t bits, const TsTileType *type);
TsTileVal ts_tile_op1(TsTileBuild *b, int op, TsTileVal x);
/* Comparisons give bool. */
TsTileVal ts_tile_op2(TsTileBuild *b, int op, TsTileVal x, TsTileVal y);
TsTileVal ts_tile_op3(TsTileBuild *b, int op, TsTileVal x, TsTileVal y, TsTileVal z);
TsTileVal ts_tile_cast(TsTileBuild *b, TsTileVal x, TsDtype d); /* x itself if it has d */
TsTileVal ts_tile_bitcast(TsTileBuild *b, TsTileVal x, TsDtype d);
TsTileVal ts_tile_alloc(TsTileBuild *b, TsSpace space, const TsTileType *type);
/* A scalar, or a tile of lower rank whose axes are `axes` of the result, to type's shape. */
TsTileVal ts_tile_transposed(TsTileBuild *b, TsTileVal x); /* a tile of two axes */
TsTileVal ts_tile_broadcast(TsTileBuild *b, TsTileVal x, const TsTileType *type,
                            const int64_t *axes);

typedef struct TsTileAccess {
  bool edge, stream, aligned;
  double fill;
  int naxis;
  const int64_t *axes;
} TsTileAccess;
/* at: one position for each axis of the memory. access NULL: the defaults. */
TsTileVal ts_tile_load(TsTileBuild *b, TsTileVal memory, const TsTileVal *at,
                       const TsTileType *type, const TsTileAccess *access);
void ts_tile_store(TsTileBuild *b, TsTileVal memory, const TsTileVal *at, TsTileVal x,
                   const TsTileAccess *access);

/* Opens a loop and moves b into it; carried values by ncarry, i and carry[] get the values inside.
 * _end yields, moves b behind the loop and stores its results in out (may be NULL). */
typedef struct TsTileLoop {
  TsTileStmt *stmt;
  TsTileVal i;
  TsTileVal *carry;
  TsTileRegion *before;
  int ncarry;
} TsTileLoop;
TsTileLoop ts_tile_for(TsTileBuild *b, TsTileVal lo, TsTileVal hi, int64_t step, bool parallel,
                       int ncarry, const TsTileVal *carry);
void ts_tile_for_end(TsTileBuild *b, TsTileLoop *l, const TsTileVal *yield, TsTileVal *out);

/* Values of a kernel that failed, the last ones of a thread: one of a type, and what a loop
 * carries. */
TsTileVal ts_tile_lost(const TsTileType *type);
TsTileVal *ts_tile_lost_carry(int n, const TsTileVal *carry);

/* The attribute of a row of ir/tile/tile.def by name. */
const TsAttr *ts_tile_attr(const TsTileStmt *s, const char *name);
/* "for", "exp"; and back, TS_TILE_END if there is none. */
const char *ts_tile_op_name(int op);
int ts_tile_op_find(const char *word, int len);
const TsAttrSpec *ts_tile_op_attrs(int op, int *n);
int ts_tile_op_regions(int op);
/* How many operands it takes, or at least takes. */
int ts_tile_op_operands(int op, bool *more);
bool ts_tile_memory(const TsTileType *t); /* not a tile */
int64_t ts_tile_numel(const TsTileType *t);
/* A size of a type, where dim has the symbolic ones. */
static inline int64_t ts_tile_extent(const TsTileType *t, int axis, const int64_t *dim) {
  int64_t n = t->dim[axis];
  return ts_tile_dim_is(n) ? dim[ts_tile_dim_index(n)] : n;
}
int64_t ts_tile_dense_bytes(const TsTileType *t,
                            const int64_t *dim); /* of its elements alone */
/* Bytes that memory has before its first element, as strides may be negative, and from it on. */
void ts_tile_reach(const TsTileType *t, const int64_t *dim, int64_t *below, int64_t *above);
bool ts_tile_type_same(const TsTileType *a, const TsTileType *b);

/* ---- text (ir/tile/text.c, ir/tile/parse.c): parse(print(k)) is k */
void ts_tile_text(const TsTile *k, TsText *text);
/* With "// model.lua:12" at line ends. */
void ts_tile_text_places(const TsTile *k, TsText *text);
TsTile *ts_tile_parse(const char *text, TsError *err);
/* For people who have the text before them: all values keep the names that they have there, and
 * places are its lines, "12", or "12 model.lua:3" where the line has a place. */
TsTile *ts_tile_parse_lines(const char *text, TsError *err);
bool ts_tile_equal(const TsTile *a, const TsTile *b, TsText *why);
/* What of their heads is free (ir/sched/choice.def). */
bool ts_tile_same_choice(const TsTile *a, const TsTile *b);

/* ir/tile/check.c: types, shapes, dominance, what each form allows; messages quote the line. */
int ts_tile_check(const TsTile *k, const TsTarget *target, TsError *err);

/* ---- passes: each gives a new kernel, or NULL with the error */
/* Pointwise rows in terms of primitive ones, through the one definition in lib/elem
 * (ir/tile/pass/expand.c). Keeps the form. Primitive are: add sub mul neg; of floats div
 * sqrt fma abs floor ceil trunc round; comparisons; where; the logical rows on bool, the
 * bitwise rows on integers and bool; of integers minimum maximum floordiv mod; the rows of
 * ir/tile/tile.def. */
bool ts_tile_primitive(int op, TsDtype operand);
TsTile *ts_tile_expand(const TsTile *k, TsError *err);
/* Numbers of the host in f32, rounded without f64 (ir/tile/pass/single.c). */
TsTile *ts_tile_single(const TsTile *k, TsError *err);
/* Symbolic sizes as numbers: dim[i] of each, -1 where it stays (ir/tile/pass/fix.c). */
TsTile *ts_tile_fix(const TsTile *k, const int64_t *dim, TsError *err);
/* Which sizes are extents of tiles; others are only of memory and bounds of loops. */
void ts_tile_sizes_of_tiles(const TsTile *k, bool used[TS_TILE_DIMS]);
/* Removes what has no effect and whose results nobody uses, in place; how many statements went, or
 * -1: out of memory, and k is legal, and does what it did (ir/tile/pass/dce.c). */
int ts_tile_dce(TsTile *k, TsError *err);
/* Removes statements that say what others before them say; gives their number, or -1 as dce does
 * (ir/tile/pass/cse.c). */
int ts_tile_cse(TsTile *k, TsError *err);
/* Whether a statement does more than make its results. */
bool ts_tile_effect(const TsTileStmt *s);
/* Loops over rows with the stages of several rows in one walk, for a CPU
 * (ir/tile/pass/vec_pipeline.c). Keeps the block form; NULL without an error where there is
 * no such loop. */
TsTile *ts_tile_pipeline(const TsTile *k, const TsTarget *target, TsError *err);
/* Block form to explicit form for a CPU with vectors, behind ts_tile_pipeline
 * (ir/tile/pass/vectorise.c). */
TsTile *ts_tile_vectorise(const TsTile *k, const TsTarget *target, TsError *err);

/* ir/tile/run/run.c: runs any kernel. arg: the memory of each parameter, row-major or as its
 * strides say; dim: the symbolic sizes. Positions outside of memory are errors. */
int ts_tile_run(const TsTile *k, void *const *arg, const int64_t *dim, TsError *err);

/* Calls task on disjoint ranges that cover [0, n), of at least grain each, at once or not; some
 * may be left out, which is an error of the run. */
typedef void TsTileSpread(int64_t n, int64_t grain,
                          void (*task)(void *arg, int64_t lo, int64_t hi, int worker),
                          void *arg);

/* What a target defines, and not the rows of Tile IR. */
typedef struct TsTileRunAs {
  bool unit; /* products of bf16 and f16 are those of compute capability 9.0's matrix unit; else
              * chains of fused multiply-adds */
  /* ex2, inv, lg2 of n elements; NULL: those of the C library. */
  int (*function)(void *with, int op, int64_t n, const float *x, float *y, TsError *err);
  void *with;
  TsTileSpread *spread; /* of a unit's products; NULL: no other threads */
  /* Sees the marks of a kernel: in which block, by its number, and role, and how many statements
   * had run. NULL: nobody does. */
  void (*mark)(void *marks, int64_t block, int role, const TsTileStmt *s, int64_t step);
  void *marks;
  /* Arithmetic that no position and no way depends on is left out: what is run for is where memory
   * is touched. Only of a kernel in which data decides nothing (ts_tile_data_decides). */
  bool dry;
  int64_t every; /* of the rounds of the outermost parallel loop only each so many-th, and the
                  * last; 0: all */
  bool (*stop)(
      void *stopper); /* asked at each round of each loop: true ends the run; or NULL */
  void *stopper;
  /* A meeting of `meet`: words of n devices, the rank of this one, the slot. NULL: there is nobody
   * to meet, which is an error where n is not 1. */
  int (*meet)(void *meeting, int n, int32_t *const *word, int rank, int64_t slot, TsError *err);
  void *meeting;
  /* One round of one phase, by number, of a kernel whose other rounds run elsewhere; each scratch,
   * in the order of its statements, is memory of the caller's, which stays as it is. NULL: all of
   * it. */
  const struct TsTileRunOne *one;
} TsTileRunAs;

typedef struct TsTileRunOne {
  int phase;
  int64_t round;
  void *const *scratch;
} TsTileRunOne;

/* As that target would. as NULL: ts_tile_run. */
int ts_tile_run_as(const TsTile *k, void *const *arg, const int64_t *dim, const TsTileRunAs *as,
                   TsError *err);

#endif
