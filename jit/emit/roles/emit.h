/* Shared by jit/emit/roles: kernels with roles as LLVM IR for NVIDIA GPUs.
 *
 * A thread of a role holds its part of each fragment as single registers. Where they are in the
 * tile, the role's unit says (TsRolesLayout): element (r, c) of a thread is row base + row[r],
 * column base + col[c] of the tile. Positions are i32: those of a tensor map have 32 bits. What
 * one thread does for its role stands behind a predicate inside of the assembly, so that a
 * round of a loop is one basic block, as ptxas wants it for asynchronous products. */
#ifndef TS_JIT_EMIT_ROLES_H
#define TS_JIT_EMIT_ROLES_H

#include "jit/emit/cpu/emit.h"
#include "jit/emit/simt/mark.h"
#include "jit/gpu/roles.h"

enum {
  TS_ROLES_PENDING = 8,
  TS_ROLES_COLS = 64,
  TS_ROLES_LEFT = 3,
  TS_ROLES_RIGHT = 4,
  TS_ROLES_SWIZZLED = 1024 /* where a pattern of shared memory may begin */
};

typedef enum TsRolesUnit {
  TS_ROLES_none,
  TS_ROLES_wgmma,
  TS_ROLES_warps,
  TS_ROLES_fma
} TsRolesUnit;

typedef struct TsRolesLayout {
  LLVMValueRef row_base, col_base;
  int nrow, ncol;
  int row[16], col[TS_ROLES_COLS * 2];
} TsRolesLayout;

typedef struct TsRoles {
  TsEmit *e;
  TsGpuRoles *info;
  LLVMValueRef smem, tid, rank, scratch;
  int task; /* threads of the persistent kernel that this is a function of, or 0 */
  int part; /* of that: the group of four warps whose code this is; -1: all of them */
  LLVMValueRef map[TS_GPU_MAPS];
  uint32_t shared; /* bytes taken so far */
  /* By id: of a fragment of rank 1, 1 + the axis of the tile along which it lies; of an operand
   * in registers of warps TS_ROLES_LEFT or TS_ROLES_RIGHT. */
  uint8_t *axis;
  /* the role at hand */
  const TsTileStmt *role, *mma;
  TsRolesUnit unit;
  bool single; /* one thread does it all */
  int warps;
  LLVMValueRef t, group, lane, warp; /* thread and group of warps in the role; in the group */
  LLVMValueRef leader;               /* i32: this thread acts for its group of four warps */
  LLVMValueRef only_if;              /* i32, or NULL: around arrivals */
  int warp_rows;                     /* of unit warps: rows of one */
  int across;                        /* of unit warps: side by side, and where this one is */
  LLVMValueRef warp_row, warp_col;
  bool turned; /* a tile of 8 rows, whose columns are the unit's rows */
  int copied;  /* bytes that its rows of A, B and C are multiples of */
  TsRolesLayout layout;
  int npending, ngroup;
  TsTileVal pending[TS_ROLES_PENDING]; /* sums of products under way */
  int pending_group[TS_ROLES_PENDING]; /* and their groups, counted as the code goes */
  TsGpuMarks marks;
} TsRoles;

/* Adds the kernel to an empty module; leaves by e->out on failure. e->k, its primitive rows. */
void ts_roles_module(TsEmit *e, TsGpuRoles *info);
/* The same as a function of a persistent kernel (jit/emit/simt/task.h), whose blocks have so many
 * threads: bytes of shared memory. part: of one group of four warps, whose registers the kernel has
 * set; -1: of all. */
int64_t ts_roles_task(TsEmit *e, TsGpuRoles *info, const char *name, int threads, int part);
void ts_roles_region(TsRoles *m, const TsTileRegion *r);

/* ---- jit/emit/roles/value.c: small things, memory of the block, values */
LLVMTypeRef ts_roles_i32(TsRoles *m);
LLVMValueRef ts_roles_int(TsRoles *m, int64_t v);
LLVMValueRef ts_roles_add(TsRoles *m, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef ts_roles_addi(TsRoles *m, LLVMValueRef x, int64_t y);
LLVMValueRef ts_roles_muli(TsRoles *m, LLVMValueRef x, int64_t y);
LLVMValueRef ts_roles_andi(TsRoles *m, LLVMValueRef x, int64_t y);
LLVMValueRef ts_roles_shri(TsRoles *m, LLVMValueRef x, int y);
LLVMValueRef ts_roles_flag(TsRoles *m, LLVMValueRef i1); /* as i32 */
LLVMValueRef ts_roles_equal(TsRoles *m, LLVMValueRef x, int64_t y);
/* type NULL: nothing comes back. side: it does more than compute. */
LLVMValueRef ts_roles_asm(TsRoles *m, LLVMTypeRef type, const char *text,
                          const char *constraints, int n, LLVMValueRef *in, bool side);
/* Parts of a shared memory: what a block has of an axis, bytes of a slot of the first axis. */
int64_t ts_roles_own(const TsRoles *m, const TsTileType *t, int axis);
int64_t ts_roles_slot_bytes(const TsRoles *m, const TsTileType *t);
LLVMValueRef ts_roles_slot(TsRoles *m, TsTileVal memory, LLVMValueRef slot); /* address, i32 */
int64_t ts_roles_zero(TsRoles *m, TsTileVal v); /* a constant's value; fails if it is none */
LLVMValueRef *ts_roles_define(TsRoles *m, TsTileVal v, int n);
int ts_roles_count(const TsRoles *m, const TsTileType *t,
                   int axis); /* registers of a fragment */
/* Columns of a fragment that a group of warps has: all, if the groups divide its rows. */
int ts_roles_wide(const TsRoles *m, const TsTileType *t);
/* Of these a thread's own. */
int ts_roles_columns(const TsRoles *m, const TsTileType *t);
int ts_roles_registers(TsRoles *m, TsTileVal v); /* registers of a value */
/* Bytes of the kernel's scratch, one behind the other; of as much as stands above `end`. */
int64_t ts_roles_scratch_bytes(TsRoles *m, const TsTileStmt *end);
void ts_roles_alloc(TsRoles *m, const TsTileStmt *s);
void ts_roles_constant(TsRoles *m, const TsTileStmt *s);
void ts_roles_pointwise(TsRoles *m, const TsTileStmt *s);
void ts_roles_same_bits(TsRoles *m, const TsTileStmt *s);

/* ---- jit/emit/roles/loop.c: loops and branches */
LLVMBasicBlockRef ts_roles_block(TsRoles *m); /* a new one at the end of the function */
void ts_roles_loop(TsRoles *m, const TsTileStmt *s);
void ts_roles_repeat(TsRoles *m, const TsTileStmt *s);
void ts_roles_branch(TsRoles *m, const TsTileStmt *s);

/* ---- jit/emit/roles/role.c */
/* The first statement of a kind, inside of others too, or NULL. */
const TsTileStmt *ts_roles_find(const TsTileRegion *r, int op);
/* All roles from s on; then the code goes to `end`. */
void ts_roles_emit(TsRoles *m, const TsTileStmt *s, LLVMBasicBlockRef end);

/* ---- jit/emit/roles/sync.c: barriers */
void ts_roles_barriers(TsRoles *m, const TsTileRegion *block);
/* All threads of the roles meet; their barriers may be memory for others. */
void ts_roles_barriers_end(TsRoles *m, const TsTileRegion *block);
/* A role whose first thread does it all: others have fragments. */
bool ts_roles_is_single(const TsTileStmt *role);
void ts_roles_await(TsRoles *m, const TsTileStmt *s);
void ts_roles_arrive(TsRoles *m, const TsTileStmt *s);
void ts_roles_expect(TsRoles *m, const TsTileStmt *s);
void ts_roles_commit(TsRoles *m, const TsTileStmt *s);
void ts_roles_wait(TsRoles *m, const TsTileStmt *s);
void ts_roles_sync(TsRoles *m);
void ts_roles_barrier(TsRoles *m, const TsTileStmt *s);
void ts_roles_until(TsRoles *m, const TsTileStmt *s);
void ts_roles_signal(TsRoles *m, const TsTileStmt *s);
void ts_roles_pace(TsRoles *m, const TsTileStmt *s);
void ts_roles_meet(TsRoles *m); /* all blocks of a cluster */

/* ---- jit/emit/roles/copy.c */
void ts_roles_copy_bulk(TsRoles *m, const TsTileStmt *s);
/* What it brings: a slot, as far as it is this block's, or some rows of one. */
int64_t ts_roles_copied_bytes(TsRoles *m, const TsTileStmt *s);
void ts_roles_copy_async(TsRoles *m, const TsTileStmt *s);
void ts_roles_store_bulk(TsRoles *m, const TsTileStmt *s);

/* ---- jit/emit/roles/blank.c: rows that become zeros */
void ts_roles_blank(TsRoles *m, const TsTileStmt *s);

/* ---- jit/emit/roles/unit.c: products */
void ts_roles_layout(TsRoles *m);            /* of the role at hand */
bool ts_roles_is_pairs(const TsTileType *t); /* 16 bits, two columns in a register */
/* Two matrix units have sums in blocks of 8x8; those of multiply-adds are single numbers. */
static inline bool ts_roles_in_blocks(const TsRoles *m) {
  return m->unit == TS_ROLES_wgmma || m->unit == TS_ROLES_warps;
}
void ts_roles_product(TsRoles *m, const TsTileStmt *s);
void ts_roles_outer(TsRoles *m, const TsTileStmt *s);
/* Registers pass through an instruction that waits: nothing that uses them comes before. */
void ts_roles_through(TsRoles *m, int n, LLVMValueRef *reg, const char *text);

/* ---- jit/emit/roles/warp.c: warps that copy and multiply */
bool ts_roles_of_warps(const TsAttr *unit);
int ts_roles_warps_count(const TsRoles *m, const TsTileType *t, bool left); /* of an operand */
void ts_roles_warps_layout(TsRoles *m);
void ts_roles_warps_load(TsRoles *m, const TsTileStmt *s); /* an operand */
void ts_roles_warps_product(TsRoles *m, const TsTileStmt *s);
void ts_roles_warps_part(TsRoles *m, const TsTileStmt *s);
void ts_roles_copy_tile(TsRoles *m, const TsTileStmt *s);

/* ---- jit/emit/roles/turned.c: of unit warps, tiles of 8 rows */
enum { TS_ROLES_TURNED = 8 };
void ts_roles_turned_layout(TsRoles *m);
void ts_roles_turned_product(TsRoles *m, const TsTileStmt *s);
/* A thread's column of the tile among each 16: the first or the second of what it reads. */
LLVMValueRef ts_roles_turned_column(TsRoles *m, int half);
/* Two columns of 16 bits, from the order of memory to that of the thread, or back. */
LLVMValueRef ts_roles_turned_pair(TsRoles *m, LLVMValueRef pair);

/* ---- jit/emit/roles/indexed.c: of unit warps: rows by their numbers, codes as numbers */
void ts_roles_load_numbers(TsRoles *m, const TsTileStmt *s); /* i64 along rows */
void ts_roles_load_rows(TsRoles *m, const TsTileStmt *s);    /* a left operand */
void ts_roles_put_rows(TsRoles *m, const TsTileStmt *s);
void ts_roles_unpack(TsRoles *m, const TsTileStmt *s); /* a right operand */

/* ---- jit/emit/roles/move.c: fragments and memory */
void ts_roles_load(TsRoles *m, const TsTileStmt *s);
void ts_roles_store(TsRoles *m, const TsTileStmt *s);
void ts_roles_part(TsRoles *m, const TsTileStmt *s);
void ts_roles_broadcast(TsRoles *m, const TsTileStmt *s);
int ts_roles_register(const TsRoles *m, int ncol, int r, int c);

/* ---- jit/emit/roles/cast.c */
void ts_roles_cast(TsRoles *m, const TsTileStmt *s);

/* ---- jit/emit/roles/whole.c */
void ts_roles_load_whole(TsRoles *m, const TsTileStmt *s); /* of rank 4 in memory, all inside */
void ts_roles_store_heads(TsRoles *m,
                          const TsTileStmt *s); /* rows of heads, to memory of rank 4 */
/* Whether a row of a fragment is of four neighbouring threads, each of which has two rows. */
bool ts_roles_in_quads(const TsRoles *m);
/* i64: where positions on the first n axes are, in elements. */
LLVMValueRef ts_roles_axes_at(TsRoles *m, const TsTileType *t, const TsTileVal *at, int n);

/* ---- jit/emit/roles/lanes.c: roles whose threads have lanes, what is written for other blocks */
bool ts_roles_has_lanes(const TsTileStmt *role);
void ts_roles_lanes_layout(TsRoles *m);
bool ts_roles_of_lanes(TsRoles *m, const TsTileStmt *s); /* false: another file emits it */

/* ---- jit/emit/roles/row.c: what attention needs: rows of fragments, scalars, counters, turns */
void ts_roles_axes(TsRoles *m, const TsTileRegion *body);
void ts_roles_function_of(TsRoles *m, const TsTileStmt *s); /* ex2, lg2, larger */
void ts_roles_iota(TsRoles *m, const TsTileStmt *s);
void ts_roles_quarter(TsRoles *m, const TsTileStmt *s);
void ts_roles_row(TsRoles *m, const TsTileStmt *s);
void ts_roles_claim(TsRoles *m, const TsTileStmt *s);
void ts_roles_first_turn(TsRoles *m);
void ts_roles_turn(TsRoles *m, const TsTileStmt *s);
void ts_roles_own_of(TsRoles *m, const TsTileStmt *s); /* this group's operand */
void ts_roles_load_scalar(TsRoles *m, const TsTileStmt *s);
void ts_roles_store_scalar(TsRoles *m, const TsTileStmt *s);
void ts_roles_store_rows(TsRoles *m, const TsTileStmt *s); /* rank 1, to a parameter */

#endif
