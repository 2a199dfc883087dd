/* From Tile IR in block form, with pointwise rows expanded, to LLVM IR of a GPU's threads.
 * Shared by jit/emit/simt.
 *
 * A round of the parallel loop at the top belongs to a group of threads: a whole block, or one
 * of several equal parts of it (`rounds`). A tile is spread over the group by a frame, which is
 * a function of the tile's shape alone: with T threads and vectors of V elements, thread t has
 * the elements V (t + T k) + 0..V-1 in row-major order, for k below K. So tiles of one shape
 * meet element by element in registers, neighbouring threads touch neighbouring vectors of
 * memory, and nothing moves but what changes the shape: `broadcast`, `transpose`, `part` are
 * functions of the coordinates, and their operand is computed again at these where it is cheap,
 * or read from shared memory where it has been put before (a home).
 *
 * Elements are scalars of LLVM: vectors exist in memory accesses only. An element is computed
 * when somebody wants it and kept (by value and slot); loads are made where they stand, so that
 * they are under way early and memory may change after them. A tile that is too large for
 * registers has no frame: stores walk it in a loop over chunks, each of which is a frame of its
 * own, reductions ask for elements by their coordinates. What is read twice then is
 * computed twice.
 *
 * Control is the same in all threads of a group, so they may meet (ts_gpu_sync) anywhere but
 * in the blocks that guard one access. What makers of GPUs have in ways of their own is a row of
 * functions each (jit/emit/simt/maker.h); their emulation on the host is such a row too. */
#ifndef TS_JIT_EMIT_GPU_H
#define TS_JIT_EMIT_GPU_H

#include "jit/emit/cpu/emit.h"
#include "jit/emit/simt/mark.h"
#include "jit/emit/simt/maker.h"
#include "jit/gpu/gpu.h"
#include "jit/gpu/plan.h"

/* A coordinate: a number that is known, plus one that is not (NULL: none). */
typedef struct TsGpuCoord {
  LLVMValueRef base; /* i64 */
  int64_t off;
  int multiple; /* base is one of this number; 0: nothing is known */
} TsGpuCoord;

typedef struct TsGpuFrame {
  int rank;
  int64_t dim[TS_TILE_RANK];
  int vector, chunks;             /* V, K */
  LLVMValueRef *valid;            /* by chunk: whether it is inside of the tile; NULL: it is */
  TsGpuCoord (*at)[TS_TILE_RANK]; /* by slot, V to a chunk */
  LLVMValueRef **memo;            /* by value: its slots, or NULL */
  int whole;                      /* slots that are a vector of a matrix unit; 0: none */
  uint8_t whole_of;               /* in tiles of this type */
  uint8_t factor;                 /* what the unit multiplies for them */
  int squares;           /* of whole rows that a wave has, below each other; 0: parts */
  bool of_rows;          /* numbers of rows: all lanes that have one's columns */
  int high;              /* chunks that are one below the other; 0: nothing is known */
  LLVMValueRef **wholes; /* by value: those, or NULL */
  bool laned;            /* a row in the order of lanes */
  bool loose;            /* of a loop over chunks: loads belong to it */
  struct TsGpuFrame *next;
} TsGpuFrame;

/* A tile in shared memory. */
typedef struct TsGpuHome {
  TsTileVal v;
  int64_t offset; /* bytes from the group's memory */
  int pitch;      /* elements of the last axis, and what is left free behind it */
  int swizzle;    /* rows of vectors of so many elements, which lie in an order of their own */
  bool row;       /* a row that was loaded, too long for registers */
  struct TsGpuHome *next;
} TsGpuHome;

enum { TS_GPU_WRITTEN = 1, TS_GPU_READ = 2, TS_GPU_COPIED = 4 }; /* of TsGpuEmit.uses */

typedef struct TsGpuEmit {
  TsEmit *e;
  const TsGpuPlan *plan;
  const TsGpuMaker *maker; /* of the target, or the emulation */
  bool batch;              /* many runs in one launch */
  int task_from;           /* of that: the first thread */
  const char *task; /* the name of a phase that is a task of a persistent kernel; or NULL */
  bool lean;        /* operands of products are read where they lie */
  bool *crowded;    /* set where shared memory is too small; or NULL */
  bool aligned;     /* parameters begin at multiples of 16 bytes */
  const TsGpuPhasePlan *phase;
  int threads;              /* of a group: T */
  LLVMValueRef tid;         /* in the group, i32 */
  LLVMValueRef tid64, lane; /* lane of the warp, i32 */
  LLVMValueRef shared;      /* the group's shared memory */
  LLVMValueRef own_shared;  /* the block's, if it is the code's own */
  LLVMValueRef env;         /* what the emulator gives */
  LLVMValueRef group;       /* i64, of the groups of a block */
  LLVMValueRef after;       /* i64, 0 once the phase before has written; NULL: it had ended */
  bool dependent;           /* the launch before may still run */
  LLVMBasicBlockRef awaited_in; /* the last block of code that waited for it */
  bool awaited;                 /* in code that every thread comes to */
  int depth;                    /* of the region that is emitted, in others */
  LLVMValueRef held;            /* stands for the bytes of a group until they are known */
  LLVMValueRef block;           /* i64, number of the block */
  LLVMValueRef round;           /* i64, number of the round */
  LLVMValueRef *scalar;         /* by value: rank 0 */
  LLVMValueRef **memory;        /* by value: pointer, strides; of shared memory too */
  TsGpuFrame *frames;
  TsGpuHome *homes;
  int64_t shared_used, shared_most; /* bytes of a group */
  struct { /* of reductions of rows (jit/emit/simt/row.c): places, -1 or 0 bytes: none yet */
    int64_t stage, stage_bytes, acc[2], acc_bytes[2], leaf, warps[2], walk[2];
    int buffer;
    const TsTileStmt *max;     /* of a row that is walked, exponentials being taken below it */
    LLVMValueRef near;         /* whether all of the row is near to it */
    const TsTileStmt *now;     /* max, where code is for rows of which that holds */
    const TsTileStmt *else_of; /* a `where` whose third operand is asked for */
  } rows;
  bool wrote, read;              /* memory that is written, since threads last met */
  int meetings;                  /* that were emitted */
  struct TsGpuMatrixKept *kept;  /* operands that loops around do not change */
  int staged;                    /* those of them behind which memory of two stages is read */
  struct TsGpuMatrixRing *rings; /* stages that are copied */
  int copies, of_group,
      ngroup; /* of this thread: since the last group, of one, how many there were */
  struct TsGpuMatrixFetched *fetched; /* operands of the next product, or NULL */
  bool meets;  /* memory that others write meanwhile is read: no cache may keep it */
  bool once;   /* what is read now is read by no other round, and other things are */
  bool single; /* a number that is rounded now is no half of a pair */
  bool stays;  /* what is read now is read here and not where it is wanted */
  int nscratch;
  uint8_t *uses;          /* by value: of memory that is no view, what the phase does with it */
  bool *seen;             /* by value: it stands around the region that is entered */
  int *visit, visits;     /* by value: the last walk that met it */
  LLVMValueRef number[4]; /* of the round along the axes of the grid */
  int64_t shared_bytes[TS_GPU_PHASES]; /* of a group, found while emitting */
  TsGpuMarks marks;
} TsGpuEmit;

/* ---- jit/emit/simt/thread.c: threads, meeting, shuffles, shared memory */
void ts_gpu_thread_begin(TsGpuEmit *g, int phase);
void ts_gpu_thread_end(TsGpuEmit *g);   /* of one way through its code */
void ts_gpu_thread_close(TsGpuEmit *g); /* of all of them */
void ts_gpu_sync(TsGpuEmit *g);
/* Until the launch before is over; then the next one may come. */
void ts_gpu_await_last(TsGpuEmit *g);
/* x of the lane whose number differs in these bits; all threads of the group take part. */
LLVMValueRef ts_gpu_shuffle(TsGpuEmit *g, LLVMValueRef x, int mask);
/* All threads of the warp take part. */
void ts_gpu_warp_sync(TsGpuEmit *g);
/* The lanes of the warp, a bit each, whose x (i32, of so many bits) is this one's. */
LLVMValueRef ts_gpu_equals(TsGpuEmit *g, LLVMValueRef x, int bits);
/* The scratch buffer of this number. */
LLVMValueRef ts_gpu_scratch(TsGpuEmit *g, int i);
/* Bytes of the group's shared memory, at multiples of 16; given back by setting shared_used. */
int64_t ts_gpu_shared_take(TsGpuEmit *g, int64_t nbytes);
int64_t ts_gpu_shared_most(const TsGpuEmit *g); /* that a group could have */
LLVMValueRef ts_gpu_shared_at(TsGpuEmit *g, int64_t offset, LLVMTypeRef elem, LLVMValueRef i);

/* ---- jit/emit/simt/batch.c: of a kernel of many runs, its table, and whose block this is */
LLVMTypeRef ts_gpu_batch_type(TsGpuEmit *g);
void ts_gpu_batch_declare(TsGpuEmit *g);
void ts_gpu_batch_begin(TsGpuEmit *g);

/* ---- small pieces */
LLVMValueRef ts_gpu_i64(TsGpuEmit *g, int64_t v);
LLVMValueRef ts_gpu_add(TsGpuEmit *g, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef ts_gpu_mul(TsGpuEmit *g, LLVMValueRef x, int64_t by);
LLVMValueRef ts_gpu_div(TsGpuEmit *g, LLVMValueRef x, int64_t by); /* x >= 0, below 2^31 */
LLVMValueRef ts_gpu_mod(TsGpuEmit *g, LLVMValueRef x, int64_t by);
LLVMValueRef ts_gpu_below(TsGpuEmit *g, LLVMValueRef x, LLVMValueRef y); /* as unsigned */
LLVMValueRef ts_gpu_and(TsGpuEmit *g, LLVMValueRef x, LLVMValueRef y);   /* NULL: true */
LLVMValueRef ts_gpu_coord(TsGpuEmit *g, TsGpuCoord c);
/* A loop: i from lo, by step, below hi. */
typedef struct TsGpuLoop {
  LLVMBasicBlockRef head, body, after;
  LLVMValueRef i, hi, step;
} TsGpuLoop;
TsGpuLoop ts_gpu_loop(TsGpuEmit *g, LLVMValueRef lo, LLVMValueRef hi, LLVMValueRef step);
void ts_gpu_loop_end(TsGpuEmit *g, TsGpuLoop *l);
/* `if (c)` without an else. */
LLVMBasicBlockRef ts_gpu_if(TsGpuEmit *g, LLVMValueRef c);
void ts_gpu_if_end(TsGpuEmit *g, LLVMBasicBlockRef after);

/* ---- jit/emit/simt/frame.c: how tiles are spread over threads */
bool ts_gpu_is_tile(const TsTileValue *v);
bool ts_gpu_resident(const TsGpuEmit *g, const TsTileType *t);
void ts_gpu_frames_make(TsGpuEmit *g, const TsTileRegion *r);
TsGpuFrame *ts_gpu_frame(TsGpuEmit *g, const TsTileType *t);
TsGpuFrame *ts_gpu_frame_found(TsGpuEmit *g, const TsTileType *t); /* or NULL */
bool ts_gpu_frame_fits(const TsGpuFrame *f, const TsTileType *t);
/* With these vectors and chunks, all valid, without coordinates. */
TsGpuFrame *ts_gpu_frame_of(TsGpuEmit *g, const TsTileType *t, int vector, int chunks);
/* Without coordinates. */
TsGpuFrame *ts_gpu_frame_new(TsGpuEmit *g, const TsTileType *t, int chunks);
/* Chunk number `chunk` (i64) of a tile that has no frame. */
TsGpuFrame *ts_gpu_frame_loose(TsGpuEmit *g, const TsTileType *t, LLVMValueRef chunk);
/* One vector that begins at these coordinates, whole and inside. */
TsGpuFrame *ts_gpu_frame_at(TsGpuEmit *g, const TsTileType *t, const TsGpuCoord *at);
/* `vector` elements of a row, from `first` on. */
TsGpuFrame *ts_gpu_frame_row(TsGpuEmit *g, const TsTileType *t, LLVMValueRef first, int vector);
/* Where the element of a slot lies, for reading other tiles there; of a slot beyond the tile,
 * the first element: what lies in memory ends with the tile. */
void ts_gpu_slot_at(TsGpuEmit *g, const TsGpuFrame *f, int slot, TsGpuCoord *at);
int64_t ts_gpu_frame_span(const TsGpuEmit *g, const TsGpuFrame *f); /* elements of a chunk */
/* Coordinates of element `linear` of the row-major order. */
void ts_gpu_split(TsGpuEmit *g, const TsTileType *t, LLVMValueRef linear, TsGpuCoord *at);

/* ---- jit/emit/simt/value.c: elements */
LLVMValueRef ts_gpu_elem(TsGpuEmit *g, TsGpuFrame *f, TsTileVal v, int slot);
LLVMValueRef *ts_gpu_slots(TsGpuEmit *g, TsGpuFrame *f, TsTileVal v); /* made if missing */
/* Before elements of v are made one by one in its frame, where threads can meet. */
void ts_gpu_slots_begin(TsGpuEmit *g, TsTileVal v);
void ts_gpu_force(TsGpuEmit *g, TsTileVal v);
/* Whether elements of v can be computed in f where the code stands, without shared memory. */
bool ts_gpu_ready(const TsGpuEmit *g, TsGpuFrame *f, TsTileVal v);
/* The element at coordinates that have nothing to do with a frame. */
LLVMValueRef ts_gpu_elem_at(TsGpuEmit *g, TsTileVal v, const TsGpuCoord *at);
LLVMValueRef ts_gpu_scalar(TsGpuEmit *g, TsTileVal v);
/* Values that elements at free coordinates will be wanted of get their homes: before loops and
 * guards, where threads can meet. */
void ts_gpu_prepare(TsGpuEmit *g, TsTileVal v);
TsGpuHome *ts_gpu_home(TsGpuEmit *g, TsTileVal v);

/* What a row makes of its operands; and in fewer instructions (short.c), NULL: none known. */
LLVMValueRef ts_gpu_compute(TsGpuEmit *g, const TsTileStmt *s, LLVMValueRef *in);
LLVMValueRef ts_gpu_short_form(TsGpuEmit *g, const TsTileStmt *s, LLVMValueRef *in);
/* The statement of the largest of a row, if v is the difference from it; NULL. */
const TsTileStmt *ts_gpu_row_max(const TsTileValue *v);
/* ex2, inv: the processor's own. */
LLVMValueRef ts_gpu_function(TsGpuEmit *g, int op, LLVMValueRef x);
/* Two elements of stored bf16 in a word, where one instruction rounds both; NULL. */
LLVMValueRef ts_gpu_short_pair(TsGpuEmit *g, LLVMValueRef low, LLVMValueRef high);

/* ---- jit/emit/simt/access.c: who reads and writes */
void ts_gpu_note_uses(TsGpuEmit *g); /* once a phase, for those that follow */
bool ts_gpu_reads_only(const TsGpuEmit *g, TsTileVal memory);        /* nobody writes it */
bool ts_gpu_for_all_rounds(const TsGpuEmit *g, const TsTileStmt *s); /* reads the same */

/* ---- jit/emit/simt/memory.c: elements in memory */
void ts_gpu_memory_begin(TsGpuEmit *g, TsTileVal memory, LLVMValueRef pointer);
LLVMTypeRef ts_gpu_stored(TsGpuEmit *g, TsDtype d);
LLVMValueRef ts_gpu_to_stored(TsGpuEmit *g, TsDtype d, LLVMValueRef x);
LLVMValueRef ts_gpu_from_stored(TsGpuEmit *g, TsDtype d, LLVMValueRef x);

/* A read of stages that are copied, or a copy to them: neither is of what the other is. */
void ts_gpu_apart(TsGpuEmit *g, LLVMValueRef instruction, bool copies);

/* ---- jit/emit/simt/load.c */
void ts_gpu_load(TsGpuEmit *g, const TsTileStmt *s);
/* A load's elements: a chunk of a frame, or one. */
void ts_gpu_load_chunk(TsGpuEmit *g, TsGpuFrame *f, const TsTileStmt *s, int chunk,
                       LLVMValueRef *out);
LLVMValueRef ts_gpu_load_at(TsGpuEmit *g, const TsTileStmt *s, const TsGpuCoord *at);
/* Where the row that s loads begins, if it lies in vectors of 16 bytes; NULL. */
LLVMValueRef ts_gpu_row_at(TsGpuEmit *g, const TsTileStmt *s);
/* n elements of a row from p on, a multiple of as many bytes or of 16. */
void ts_gpu_read_row(TsGpuEmit *g, TsDtype d, LLVMValueRef p, int n, LLVMValueRef *out);

/* ---- jit/emit/simt/store.c, jit/emit/simt/gather.c */
void ts_gpu_store(TsGpuEmit *g, const TsTileStmt *s);
void ts_gpu_store_chunk(TsGpuEmit *g, const TsTileStmt *s, TsGpuFrame *f);
void ts_gpu_gather(TsGpuEmit *g, const TsTileStmt *s);
void ts_gpu_scatter(TsGpuEmit *g, const TsTileStmt *s);

/* ---- jit/emit/simt/reduce.c, jit/emit/simt/row.c */
void ts_gpu_reduce(TsGpuEmit *g, const TsTileStmt *s);
bool ts_gpu_reduce_row(TsGpuEmit *g, const TsTileStmt *s); /* false: not of that form */
/* jit/emit/simt/walk.c: rows too long for registers; false: not of that form */
bool ts_gpu_walk_reduce(TsGpuEmit *g, const TsTileStmt *s);
bool ts_gpu_walk_store(TsGpuEmit *g, const TsTileStmt *s);
void ts_gpu_walk_load(TsGpuEmit *g, const TsTileStmt *s); /* to shared memory, if it pays */
void ts_gpu_pairs(TsGpuEmit *g, const TsTileStmt *s);
void ts_gpu_contract(TsGpuEmit *g, const TsTileStmt *s);
LLVMValueRef ts_gpu_combine(TsGpuEmit *g, int op, TsDtype d, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef ts_gpu_identity(TsGpuEmit *g, int op, TsDtype d);

/* ---- jit/emit/simt/places.c */
void ts_gpu_places(TsGpuEmit *g, const TsTileStmt *s);

/* ---- jit/emit/simt/emit.c */
void ts_gpu_region(TsGpuEmit *g, const TsTileRegion *r);
void ts_gpu_define(TsGpuEmit *g, TsTileVal v, LLVMValueRef *slots); /* a tile's, or a scalar */

#endif
