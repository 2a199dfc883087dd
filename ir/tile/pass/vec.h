/* What the files of ts_tile_vectorise (ir/tile/pass/vectorise.c) share: the kernel being made, the
 * plan of a stretch of tile code, and the evaluation of a tile one vector at a time. Not for
 * others. The idea stands in ir/tile/pass/vectorise.c. */
#ifndef TS_IR_TILE_VEC_H
#define TS_IR_TILE_VEC_H

#include "ir/tile/tile.h"
#include "ir/tile/marks.h"

enum {
  VEC_ROW = TS_TILE_RANK, /* the axis of rows that are done one by one */
  VEC_AXES = TS_TILE_RANK + 1,
  VEC_LEAF = 4096,  /* elements of a leaf of a sum */
  VEC_CARRIED = -2, /* the segment of what a loop carries */
  VEC_MAX_PASS = 60,
  VEC_DEAR = 24,     /* an elementary function */
  VEC_HUGE = 96,     /* rows of the dearest functions */
  VEC_CHEAP = 8,     /* a value that costs no more is computed again */
  VEC_MAX_ACC = 128, /* registers of partial results of one reduction, at most */
};

/* Where an axis of a value lies: on an axis of the space that is walked, shifted. */
typedef struct VecAt {
  int8_t axis;
  int64_t plus;
} VecAt;

typedef struct VecMap {
  VecAt at[TS_TILE_RANK];
} VecMap;

/* Facts of a value of the source kernel, by its id. */
typedef struct VecVal {
  TsTileVal now;  /* scalars and memory: its counterpart */
  TsTileVal home; /* tiles: memory that holds it, or will from pass `homed` on */
  int homed;      /* -1: from the beginning */
  int uses;
  int segment;   /* the stretch that makes it */
  int level;     /* the first pass in which it can be computed */
  int cost;      /* of computing it from memory */
  int8_t row;    /* its axis of rows, -1: none */
  bool rowed;    /* row is known */
  bool rowless;  /* home holds one row */
  bool kept;     /* other stretches want it: it gets a home in any case */
  bool carried;  /* depends on values of the loop's round */
  bool tiled;    /* a scalar that depends on tiles of its stretch */
  uint64_t need; /* passes that want it */
  int memo;      /* newest entry of it, 0: none */
} VecVal;

/* A value that has been computed at some place, until the scope ends. */
typedef struct VecMemo {
  const TsTileValue *of; /* a source value; NULL: a sum of positions */
  VecMap map;
  TsTileVal a, b; /* of a sum */
  int64_t c;
  TsTileVal is;
  int next;
} VecMemo;

/* The elements being computed: index along axis i of the space is base[i] + plus[i], and the
 * next lanes - 1 ones where i is the axis of vectors. */
typedef struct VecChunk {
  int rank, vec; /* vec -1: one element */
  TsTileVal base[VEC_AXES];
  int64_t plus[VEC_AXES];
  int lanes, live; /* live < lanes: the others lie behind the tile's end */
  bool edge;       /* elements may lie outside of memory */
} VecChunk;

typedef struct VecSpace {
  int rank;
  int64_t dim[TS_TILE_RANK];
} VecSpace;

/* What a pass must do for its own sake. */
typedef enum VecRootKind { VEC_STORE, VEC_HOME, VEC_REDUCE } VecRootKind;

typedef struct VecRoot {
  VecRootKind kind;
  TsTileStmt *stmt; /* of a store or reduction */
  TsTileVal value;
  TsTileVal home; /* memory, of VEC_HOME */
  int pass;
  VecSpace space;
  VecMap map;
  TsTileVal guard; /* of a store: a bool without which nothing is stored, or NULL */
  bool done;
} VecRoot;

typedef struct TsVec {
  const TsTile *from;
  const TsTarget *target;
  TsError *err;
  bool failed; /* err is set */
  TsArena arena;
  TsTile *k;
  TsTileBuild b;
  TsTileRegion *round; /* local memory is made at its beginning */
  TsTileStmt *last_alloc;
  VecVal *val;
  VecMemo *memo;
  int nmemo, room;
  VecChunk at;
  int pass;
  /* the stretch */
  int segment;
  TsTileStmt **stmt;
  int nstmt;
  VecRoot *root;
  int nroot, npass;
  bool paced; /* rows by themselves, cheap and past the caches (ir/tile/pass/vec_prefetch.c) */
  int prefetch_pass;  /* the pass that asks for the next round's rows */
  int prefetch_shift; /* it asks for one of 2^shift lines */
  bool along;         /* the only pass asks for what it reads next */
  bool pipelined;     /* it is the stages of several rows */
  /* Stores past the caches: each asks whether it is aligned, all are, none goes past them. */
  enum { VEC_ASK, VEC_ALIGNED, VEC_CACHED } past;
  int64_t rows;   /* 0: not row by row */
  bool own_marks; /* the text says where stages are */
} TsVec;

/* ---- ir/tile/pass/vectorise.c */
int ts_tile_vec_fail(TsVec *v, const TsTileStmt *s, const char *what);
VecVal *ts_tile_vec_of(TsVec *v, TsTileVal x);
/* Local memory of a whole round, the last axis padded to whole vectors. */
TsTileVal ts_tile_vec_local(TsVec *v, TsDtype d, int rank, const int64_t *dim);
/* For a tile; of one row if the stretch goes row by row and nobody else wants it. */
TsTileVal ts_tile_vec_home(TsVec *v, TsTileVal x);

/* ---- ir/tile/pass/vec_plan.c: levels, roots, homes of the stretch in v->stmt */
int ts_tile_vec_plan(TsVec *v);
VecSpace ts_tile_vec_space(TsVec *v, TsTileVal x);
VecMap ts_tile_vec_map(TsVec *v, TsTileVal x);
bool ts_tile_vec_reduces(int op);
int ts_tile_vec_cost(int op);
/* Rank without the axis of rows. */
int ts_tile_vec_rank(TsVec *v, TsTileVal x);

/* ---- ir/tile/pass/vec_eval.c */
TsTileVal ts_tile_vec_eval(TsVec *v, TsTileVal x, const VecMap *map);
int ts_tile_vec_mark(TsVec *v);
void ts_tile_vec_drop(TsVec *v, int mark);
void ts_tile_vec_seen(TsVec *v, TsTileVal x, const VecMap *map, TsTileVal is);
TsTileVal ts_tile_vec_int(TsVec *v, int64_t c);
/* a + b + c; a and b may be NULL. */
TsTileVal ts_tile_vec_sum(TsVec *v, TsTileVal a, TsTileVal b, int64_t c);
TsTileVal ts_tile_vec_size(TsVec *v, int64_t dim);
TsTileType ts_tile_vec_type(TsVec *v, TsDtype d);
TsTileVal ts_tile_vec_spread(TsVec *v, TsTileVal scalar);
/* x, with `other` in the lanes that are not live. */
TsTileVal ts_tile_vec_live(TsVec *v, TsTileVal x, TsTileVal other);
void ts_tile_vec_put(TsVec *v, const VecRoot *r, TsTileVal x);
void ts_tile_vec_line(TsVec *v, const VecRoot *r); /* what follows is of r's place */
/* Operand i of statement s is seen where? The map of the operand from that of the result. */
bool ts_tile_vec_through(const TsTileStmt *s, const VecMap *map, VecMap *operand);
/* Calls back for each statement that evaluation in this pass would visit. */
typedef void VecVisit(TsVec *v, TsTileStmt *s, const VecMap *map, void *arg);
void ts_tile_vec_visit(TsVec *v, TsTileVal x, const VecMap *map, VecVisit *fn, void *arg);
/* A VecVisit: a hint that a load's elements are wanted soon; far: in the second cache. */
void ts_tile_vec_ask(TsVec *v, TsTileStmt *s, const VecMap *map, void *far);
/* Whether an element of the result is made of its operands' elements at the same place. */
bool ts_tile_vec_elementwise(const TsTileStmt *s);
/* The row that says the same as a statement's, by what is known of its operands. */
int ts_tile_vec_row(const TsTileStmt *s);
/* Whether x is a number: NULL is 0. */
bool ts_tile_vec_known(TsTileVal x, int64_t *c);
/* The index along an axis of a value. */
TsTileVal ts_tile_vec_index(TsVec *v, VecAt at, TsTileVal from);
/* The axis of a value along which vectors lie; -1: one element. */
int ts_tile_vec_axis(TsVec *v, int rank, const VecMap *map);
/* The axis of a load's or store's tile that is that one of its memory; -1: none. */
int ts_tile_vec_tile_axis(const TsTileStmt *s, int rank, int memory);

/* ---- ir/tile/pass/vec_edge.c */
/* Before a walk: what says whether the store's row is inside of its memory. */
void ts_tile_vec_guard(TsVec *v, VecRoot *r);
/* How many elements along the axis of vectors are surely inside of memory; NULL: all. */
TsTileVal ts_tile_vec_inside(TsVec *v, int nroot, VecRoot *const *root, int64_t n);
/* How many of them any store wants; NULL: all. */
TsTileVal ts_tile_vec_wanted(TsVec *v, int nroot, VecRoot *const *root, int64_t n);

/* ---- ir/tile/pass/vec_pass.c */
typedef struct VecPass {
  VecRoot *root[64];
  int nroot;
  VecSpace space;
  int lanes, cost; /* of one chunk: elements; rows */
  int wide;        /* vectors of a chunk */
} VecPass;
int ts_tile_vec_emit(TsVec *v);
/* Whether all that a pass does is done in one walk. */
bool ts_tile_vec_one_walk(TsVec *v, int pass);
/* Loops over the first axes of a space; v->at stands in the innermost. */
typedef struct VecNest {
  TsTileLoop loop[TS_TILE_RANK];
  int n, mark;
} VecNest;
void ts_tile_vec_open(TsVec *v, VecNest *nest, const VecSpace *s, int naxis);
void ts_tile_vec_close(TsVec *v, VecNest *nest);
/* Places the chunk along the axis of vectors. */
void ts_tile_vec_at(TsVec *v, TsTileVal base, int64_t plus, int live, bool edge);
/* Constants and broadcasts, which are the same in every chunk. */
void ts_tile_vec_hoist(TsVec *v, const VecPass *p);
void ts_tile_vec_stores(TsVec *v, const VecPass *p);

/* ---- ir/tile/pass/vec_fold.c: reductions, as partial results in registers and memory */
typedef enum VecFoldKind { VEC_TREE, VEC_FREE, VEC_ORDER, VEC_ARG } VecFoldKind;

typedef struct VecFold {
  VecRoot *root;
  VecFoldKind kind;
  int op;        /* of the statement */
  TsDtype dtype; /* of the partial results */
  TsDtype bits;  /* the integer of its size */
  int nregister; /* vectors of one partial result */
  int copies;    /* partial results */
  TsTileVal part[3][VEC_MAX_ACC];
  TsTileVal lanes;  /* memory of VEC_TREE's lanes, or NULL: in part[0] */
  TsTileVal leaves; /* memory of the sums of leaves, or NULL */
} VecFold;

int ts_tile_vec_fold_lanes(TsDtype d);
void ts_tile_vec_fold_of(TsVec *v, VecFold *f, VecRoot *r);
TsTileVal ts_tile_vec_fold_start(TsVec *v, const VecFold *f, int part, const TsTileType *t);
/* One more vector x (or element) into part[..][slot]; index: of its first lane, for VEC_ARG. */
void ts_tile_vec_fold_step(TsVec *v, VecFold *f, int slot, TsTileVal x, TsTileVal index);
/* a and b together, along lanes. */
TsTileVal ts_tile_vec_fold_two(TsVec *v, const VecFold *f, TsTileVal a, TsTileVal b);
/* All slots to one: part[..][0]. */
void ts_tile_vec_fold_slots(TsVec *v, VecFold *f, int used);
/* part[..][0], a vector, to the scalar result; across: false where each lane is a result. */
TsTileVal ts_tile_vec_fold_end(TsVec *v, VecFold *f, bool across);

/* ---- ir/tile/pass/vec_reduce.c, ir/tile/pass/vec_columns.c */
void ts_tile_vec_reduce(TsVec *v, VecPass *p);
void ts_tile_vec_pairs(TsVec *v, VecPass *p);
/* The result of a reduction without its axis, at the place v->at. */
void ts_tile_vec_result(TsVec *v, const VecRoot *r, TsTileVal x);
void ts_tile_vec_columns(TsVec *v, VecPass *p);

/* ---- ir/tile/pass/vec_counter.c: a binary counter of subtrees, in memory */
typedef struct VecCounter {
  const VecFold *fold;
  TsTileVal level; /* [levels, width] */
  TsTileType type; /* of one node: a vector or a scalar */
  int n;           /* nodes side by side */
} VecCounter;
VecCounter ts_tile_vec_counter(TsVec *v, const VecFold *f, int n);
/* The q-th subtree, x[0..n). */
void ts_tile_vec_counter_push(TsVec *v, VecCounter *c, TsTileVal q, const TsTileVal *x);
/* The tree of the first `count` of them. */
void ts_tile_vec_counter_end(TsVec *v, VecCounter *c, TsTileVal count, TsTileVal *x);
void ts_tile_vec_counter_at(TsVec *v, VecCounter *c, TsTileVal level, TsTileVal *x);
/* Number of trailing ones of q. */
TsTileVal ts_tile_vec_ones(TsVec *v, TsTileVal q);
/* log2 of a power of two. */
TsTileVal ts_tile_vec_log2(TsVec *v, TsTileVal power);

/* ---- ir/tile/pass/vec_prefetch.c: one pass asks for what the next round reads */
void ts_tile_vec_pace(TsVec *v);
void ts_tile_vec_prefetch_plan(TsVec *v);
void ts_tile_vec_prefetch(TsVec *v);

/* ---- ir/tile/pass/vec_product.c: mma and outer */
void ts_tile_vec_product(TsVec *v, TsTileStmt *s);

#endif
