/* Shared by jit/emit/roles: kernels with roles as LLVM IR for NVIDIA GPUs.
 *
 * A thread of a role holds its part of each fragment as single registers. Where they are in the
 * tile, the role's unit says (TsMmaLayout): element (r, c) of a thread is row base + row[r],
 * column base + col[c] of the tile. Positions are i32: those of a tensor map have 32 bits. What
 * one thread does for its role stands behind a predicate inside of the assembly, so that a
 * round of a loop is one basic block, as ptxas wants it for asynchronous products. */
#ifndef TS_JIT_EMIT_MMA_H
#define TS_JIT_EMIT_MMA_H

#include "jit/emit/cpu/emit.h"
#include "jit/gpu/mma.h"

enum {
  TS_MMA_PENDING = 8,
  TS_MMA_COLS = 64,
  TS_MMA_LEFT = 3,
  TS_MMA_RIGHT = 4,
  TS_MMA_SWIZZLED = 1024 /* where a pattern of shared memory may begin */
};

typedef enum TsMmaUnit { TS_MMA_none, TS_MMA_wgmma, TS_MMA_warps, TS_MMA_fma } TsMmaUnit;

typedef struct TsMmaLayout {
  LLVMValueRef row_base, col_base;
  int nrow, ncol;
  int row[16], col[TS_MMA_COLS * 2];
} TsMmaLayout;

typedef struct TsMma {
  TsEmit *e;
  TsGpuMma *info;
  LLVMValueRef smem, tid, rank, scratch;
  LLVMValueRef map[TS_GPU_MAPS];
  uint32_t shared; /* bytes taken so far */
  /* By id: of a fragment of rank 1, 1 + the axis of the tile along which it lies; of an operand
   * in registers of warps TS_MMA_LEFT or TS_MMA_RIGHT. */
  uint8_t *axis;
  /* the role at hand */
  const TsTileStmt *role, *mma;
  TsMmaUnit unit;
  bool single; /* one thread does it all */
  int warps;
  LLVMValueRef t, group, lane, warp; /* thread and group of warps in the role; in the group */
  LLVMValueRef leader;               /* i32: this thread acts for its group of four warps */
  LLVMValueRef only_if;              /* i32, or NULL: around arrivals */
  int warp_rows;                     /* of unit warps: rows of one */
  int across;                        /* of unit warps: side by side, and where this one is */
  LLVMValueRef warp_row, warp_col;
  int copied; /* bytes that its rows of A, B and C are multiples of */
  TsMmaLayout layout;
  int npending, ngroup;
  TsTileVal pending[TS_MMA_PENDING]; /* sums of products under way */
  int pending_group[TS_MMA_PENDING]; /* and their groups, counted as the code goes */
} TsMma;

/* Adds the kernel to an empty module; leaves by e->out on failure. e->k, its primitive rows. */
void ts_emit_mma_module(TsEmit *e, TsGpuMma *info);
void ts_emit_mma_region(TsMma *m, const TsTileRegion *r);

/* ---- emit_mma_value.c: small things, memory of the block, values */
LLVMTypeRef ts_mma_i32(TsMma *m);
LLVMValueRef ts_mma_int(TsMma *m, int64_t v);
LLVMValueRef ts_mma_add(TsMma *m, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef ts_mma_addi(TsMma *m, LLVMValueRef x, int64_t y);
LLVMValueRef ts_mma_muli(TsMma *m, LLVMValueRef x, int64_t y);
LLVMValueRef ts_mma_andi(TsMma *m, LLVMValueRef x, int64_t y);
LLVMValueRef ts_mma_shri(TsMma *m, LLVMValueRef x, int y);
LLVMValueRef ts_mma_flag(TsMma *m, LLVMValueRef i1); /* as i32 */
LLVMValueRef ts_mma_equal(TsMma *m, LLVMValueRef x, int64_t y);
/* type NULL: nothing comes back. side: it does more than compute. */
LLVMValueRef ts_mma_asm(TsMma *m, LLVMTypeRef type, const char *text, const char *constraints,
                        int n, LLVMValueRef *in, bool side);
/* Parts of a shared memory: what a block has of an axis, bytes of a slot of the first axis. */
int64_t ts_mma_own(const TsMma *m, const TsTileType *t, int axis);
int64_t ts_mma_slot_bytes(const TsMma *m, const TsTileType *t);
LLVMValueRef ts_mma_slot(TsMma *m, TsTileVal memory, LLVMValueRef slot); /* address, i32 */
int64_t ts_mma_zero(TsMma *m, TsTileVal v); /* a constant's value; fails if it is none */
LLVMValueRef *ts_mma_define(TsMma *m, TsTileVal v, int n);
int ts_mma_count(const TsMma *m, const TsTileType *t, int axis); /* registers of a fragment */
/* Columns of a fragment that a group of warps has: all, if the groups divide its rows. */
int ts_mma_wide(const TsMma *m, const TsTileType *t);
int ts_mma_parts(TsMma *m, TsTileVal v); /* registers of a value */
/* Bytes of the kernel's scratch, one behind the other; of as much as stands above `end`. */
int64_t ts_mma_scratch_bytes(TsMma *m, const TsTileStmt *end);
void ts_mma_alloc(TsMma *m, const TsTileStmt *s);
void ts_mma_constant(TsMma *m, const TsTileStmt *s);
void ts_mma_pointwise(TsMma *m, const TsTileStmt *s);
void ts_mma_same_bits(TsMma *m, const TsTileStmt *s);

/* ---- emit_mma_loop.c: loops and branches */
LLVMBasicBlockRef ts_mma_block(TsMma *m); /* a new one at the end of the function */
void ts_mma_loop(TsMma *m, const TsTileStmt *s);
void ts_mma_repeat(TsMma *m, const TsTileStmt *s);
void ts_mma_branch(TsMma *m, const TsTileStmt *s);

/* ---- emit_mma_role.c */
/* The first statement of a kind, inside of others too, or NULL. */
const TsTileStmt *ts_mma_find(const TsTileRegion *r, int op);
/* All roles from s on; then the code goes to `end`. */
void ts_mma_roles(TsMma *m, const TsTileStmt *s, LLVMBasicBlockRef end);

/* ---- emit_mma_sync.c: barriers */
void ts_mma_barriers(TsMma *m, const TsTileRegion *block);
/* A role whose first thread does it all: others have fragments. */
bool ts_mma_is_single(const TsTileStmt *role);
void ts_mma_await(TsMma *m, const TsTileStmt *s);
void ts_mma_arrive(TsMma *m, const TsTileStmt *s);
void ts_mma_expect(TsMma *m, const TsTileStmt *s);
void ts_mma_commit(TsMma *m, const TsTileStmt *s);
void ts_mma_wait(TsMma *m, const TsTileStmt *s);
void ts_mma_sync(TsMma *m);
void ts_mma_barrier(TsMma *m, const TsTileStmt *s);
void ts_mma_until(TsMma *m, const TsTileStmt *s);
void ts_mma_signal(TsMma *m, const TsTileStmt *s);
void ts_mma_pace(TsMma *m, const TsTileStmt *s);
void ts_mma_meet(TsMma *m); /* all blocks of a cluster */

/* ---- emit_mma_copy.c */
void ts_mma_copy_bulk(TsMma *m, const TsTileStmt *s);
void ts_mma_copy_async(TsMma *m, const TsTileStmt *s);
void ts_mma_store_bulk(TsMma *m, const TsTileStmt *s);

/* ---- emit_mma_unit.c: products */
void ts_mma_layout(TsMma *m);              /* of the role at hand */
bool ts_mma_is_pairs(const TsTileType *t); /* 16 bits, two columns in a register */
/* Two matrix units have sums in blocks of 8x8; those of multiply-adds are single numbers. */
static inline bool ts_mma_in_blocks(const TsMma *m) {
  return m->unit == TS_MMA_wgmma || m->unit == TS_MMA_warps;
}
void ts_mma_product(TsMma *m, const TsTileStmt *s);
void ts_mma_outer(TsMma *m, const TsTileStmt *s);
/* Registers pass through an instruction that waits: nothing that uses them comes before. */
void ts_mma_through(TsMma *m, int n, LLVMValueRef *reg, const char *text);

/* ---- emit_mma_warp.c: warps that copy and multiply */
bool ts_mma_of_warps(const TsAttr *unit);
int ts_mma_warps_count(const TsMma *m, const TsTileType *t, bool left); /* of an operand */
void ts_mma_warps_layout(TsMma *m);
void ts_mma_warps_load(TsMma *m, const TsTileStmt *s); /* an operand */
void ts_mma_warps_product(TsMma *m, const TsTileStmt *s);
void ts_mma_warps_part(TsMma *m, const TsTileStmt *s);
void ts_mma_copy_tile(TsMma *m, const TsTileStmt *s);

/* ---- emit_mma_move.c: fragments and memory */
void ts_mma_load(TsMma *m, const TsTileStmt *s);
void ts_mma_store(TsMma *m, const TsTileStmt *s);
void ts_mma_cast(TsMma *m, const TsTileStmt *s);
void ts_mma_part(TsMma *m, const TsTileStmt *s);
void ts_mma_broadcast(TsMma *m, const TsTileStmt *s);
int ts_mma_register(const TsMma *m, int ncol, int r, int c);

/* ---- emit_mma_whole.c */
void ts_mma_load_whole(TsMma *m, const TsTileStmt *s);  /* of rank 4 in memory, all inside */
void ts_mma_store_heads(TsMma *m, const TsTileStmt *s); /* rows of heads, to memory of rank 4 */
/* Whether a row of a fragment is of four neighbouring threads, each of which has two rows. */
bool ts_mma_in_quads(const TsMma *m);
/* i64: where positions on the first n axes are, in elements. */
LLVMValueRef ts_mma_axes_at(TsMma *m, const TsTileType *t, const TsTileVal *at, int n);

/* ---- emit_mma_lanes.c: roles whose threads have lanes, what is written for other blocks */
bool ts_mma_has_lanes(const TsTileStmt *role);
void ts_mma_lanes_layout(TsMma *m);
bool ts_mma_of_lanes(TsMma *m, const TsTileStmt *s); /* false: another file emits it */

/* ---- emit_mma_row.c: what attention needs: rows of fragments, scalars, counters, turns */
void ts_mma_axes(TsMma *m, const TsTileRegion *body);
void ts_mma_function_of(TsMma *m, const TsTileStmt *s); /* ex2, lg2, larger */
void ts_mma_iota(TsMma *m, const TsTileStmt *s);
void ts_mma_quarter(TsMma *m, const TsTileStmt *s);
void ts_mma_row(TsMma *m, const TsTileStmt *s);
void ts_mma_claim(TsMma *m, const TsTileStmt *s);
void ts_mma_first_turn(TsMma *m);
void ts_mma_turn(TsMma *m, const TsTileStmt *s);
void ts_mma_own_of(TsMma *m, const TsTileStmt *s); /* this group's operand */
void ts_mma_load_scalar(TsMma *m, const TsTileStmt *s);
void ts_mma_store_scalar(TsMma *m, const TsTileStmt *s);
void ts_mma_store_rows(TsMma *m, const TsTileStmt *s); /* rank 1, to a parameter */

#endif
