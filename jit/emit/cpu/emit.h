/* From Tile IR in explicit form, with pointwise rows expanded, to LLVM IR. Shared by the files
 * jit/emit/cpu; the rest of the room sees ts_emit_module alone.
 *
 * A tile is as many LLVM values as it has rows: rank 0 a scalar, rank 1 one vector, rank 2 a
 * vector for each row. Vectors have the tile's length, whatever the registers hold; LLVM splits
 * them. bool is i1 in values and a byte in memory; 16 and 8 bit floats are their bits. A
 * failure leaves through a longjmp: nothing here owns anything but what the arena and the
 * context free. */
#ifndef TS_JIT_EMIT_H
#define TS_JIT_EMIT_H

#include <llvm-c/Core.h>
#include <llvm/Config/llvm-config.h>
#include <setjmp.h>

#include "ir/tile/tile.h"
#include "jit/code/target.h"

enum { TS_EMIT_VECTOR = 4096, TS_EMIT_HELD = 16, TS_EMIT_BASES = 16 };

/* What a value has become. */
typedef struct TsEmitted {
  LLVMValueRef
      *part;        /* scalar, vector, rows; of memory the pointer, then strides in elements */
  bool split;       /* rank 1: its elements are apart, one part each */
  int uses, outers; /* uses in all, and as first operand of outer */
  int depth;        /* loops around the place where it was made */
} TsEmitted;

/* A pointer that accesses in a loop share: computed before it. */
typedef struct TsEmitBase {
  LLVMTypeRef elem;
  LLVMValueRef from, pointer, at[TS_TILE_RANK], stride[TS_TILE_RANK];
  int n;
} TsEmitBase;

/* A loop whose body is being written. */
typedef struct TsEmitLoop {
  struct TsEmitLoop *outer;
  LLVMValueRef entry; /* the branch into it */
  int depth, nbase;   /* 1 for the outermost */
  TsEmitBase base[TS_EMIT_BASES];
} TsEmitLoop;

typedef struct TsEmit {
  const TsTile *k;
  const TsTarget *target;
  LLVMContextRef ctx;
  LLVMModuleRef module;
  LLVMBuilderRef b;
  LLVMValueRef fn, dims, args, local;
  LLVMValueRef dim[TS_TILE_DIMS];
  TsEmitted *value; /* by id */
  TsArena arena;
  TsEmitLoop *loop; /* the innermost, or NULL */
  int nscratch;     /* met so far in this function */
  bool streamed;    /* stores past the caches need a fence at the end */
  bool unit;        /* registers of the matrix unit: no pass of LLVM's before its code */
  bool pairs;       /* instructions of bf16, the unit's or others */
  bool crowded;     /* in a loop that carries most of the registers */
  bool lines;       /* instructions know their lines (jit/emit/cpu/lines.c) */
  LLVMMetadataRef scope;
  int nheld; /* there: values of multiply-adds since the last place that holds them */
  TsTileVal held[TS_EMIT_HELD];
  TsError *err;
  jmp_buf *out;
} TsEmit;

/* A function begins; what follows is of place `line` of the kernel. Where e->lines is not set
 * these do nothing. */
void ts_emit_lines_begin(TsEmit *e, const char *name);
void ts_emit_line(TsEmit *e, int line);
/* LLVM's text of such a kernel, with places as comments. */
void ts_emit_lines_text(const TsTile *k, bool assembly, const char *raw, size_t n, TsText *out);

/* Adds the functions of the kernel to an empty module; leaves by e->out on failure. */
void ts_emit_module(TsEmit *e);

_Noreturn void ts_emit_fail(TsEmit *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void *ts_emit_take(TsEmit *e, size_t nbytes);

/* ---- jit/emit/cpu/value.c: types, constants, pointwise rows. lanes: 0 for a scalar */
LLVMTypeRef ts_emit_elem(TsEmit *e, TsDtype d);
LLVMTypeRef ts_emit_type(TsEmit *e, TsDtype d, int lanes);
LLVMTypeRef ts_emit_int_type(TsEmit *e, int bits, int lanes);
int ts_emit_lanes(LLVMValueRef x);
LLVMValueRef ts_emit_int(TsEmit *e, LLVMTypeRef type, int64_t v);  /* every lane */
LLVMValueRef ts_emit_float(TsEmit *e, LLVMTypeRef type, double v); /* every lane */
LLVMValueRef ts_emit_number(TsEmit *e, TsDtype d, int lanes, double v);
LLVMValueRef ts_emit_iota(TsEmit *e, int bits, int lanes);
LLVMValueRef ts_emit_i64(TsEmit *e, int64_t v);
LLVMValueRef ts_emit_splat(TsEmit *e, LLVMValueRef x, int lanes);
LLVMValueRef ts_emit_lane(TsEmit *e, LLVMValueRef x, int lane);
/* Elements by index of x, then y (or NULL); negative: unspecified. */
LLVMValueRef ts_emit_shuffle(TsEmit *e, LLVMValueRef x, LLVMValueRef y, int n,
                             const int *index);
LLVMValueRef ts_emit_span(TsEmit *e, LLVMValueRef x, int start, int n);
LLVMValueRef ts_emit_join(TsEmit *e, LLVMValueRef x, LLVMValueRef y);
/* An intrinsic that is overloaded on these types. */
LLVMValueRef ts_emit_call(TsEmit *e, const char *name, int ntype, LLVMTypeRef *type, int nin,
                          LLVMValueRef *in);
LLVMValueRef ts_emit_call1(TsEmit *e, const char *name, LLVMValueRef x); /* T(T, ..) */
LLVMValueRef ts_emit_call2(TsEmit *e, const char *name, LLVMValueRef x, LLVMValueRef y);
void ts_emit_attribute(TsEmit *e, const char *name, const char *value); /* of the function */
/* A number that a kernel says of its launches, "nvvm.maxntid". LLVM before 21 wants it as an
 * annotation of the module, "maxntidx", and passes over the attribute. */
void ts_emit_launch(TsEmit *e, const char *attribute, const char *annotation, int value);
/* The same of parameters that are read where they lie, `first` and n - 1 behind it. */
void ts_emit_grid_constants(TsEmit *e, int first, int n);
LLVMValueRef ts_emit_fma(TsEmit *e, TsDtype d, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z);
LLVMValueRef ts_emit_fdiv(TsEmit *e, LLVMValueRef x, LLVMValueRef y); /* rounded once */
LLVMValueRef ts_emit_less(TsEmit *e, TsDtype d, bool or_equal, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef ts_emit_pointwise(TsEmit *e, int op, TsDtype d, LLVMValueRef *in);

/* ---- jit/emit/cpu/integer.c: division, which vectors of integers have no instruction for */
LLVMValueRef ts_emit_floordiv(TsEmit *e, TsDtype d, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef ts_emit_mod(TsEmit *e, TsDtype d, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef ts_emit_mulhi(TsEmit *e, LLVMValueRef x, LLVMValueRef y);

/* ---- jit/emit/cpu/look.c: of a table of 32 numbers, which is constant memory of this
 * address space where no shuffle serves */
LLVMValueRef ts_emit_look(TsEmit *e, const TsTileStmt *s, LLVMValueRef index, int space);
/* The statement on a CPU, perhaps with others by the same index. */
void ts_emit_looks(TsEmit *e, const TsTileStmt *s);

/* ---- jit/emit/cpu/scale.c: x 2^n */
LLVMValueRef ts_emit_scale(TsEmit *e, const TsTileStmt *s, LLVMValueRef x, LLVMValueRef n);

/* ---- jit/emit/cpu/cast.c */
LLVMValueRef ts_emit_cast(TsEmit *e, TsDtype to, TsDtype from, LLVMValueRef x);
LLVMValueRef ts_emit_narrow_bf16(TsEmit *e, LLVMValueRef x); /* of integers, for any number */
/* f32 to the nearest bf16, as f32. */
LLVMValueRef ts_emit_round_bf16(TsEmit *e, LLVMValueRef x);

/* ---- whole statements; jit/emit/cpu/shape.c, jit/emit/cpu/reduce.c, jit/emit/cpu/memory.c,
 * jit/emit/cpu/loop.c */
void ts_emit_shape(TsEmit *e, const TsTileStmt *s);
void ts_emit_reduce(TsEmit *e, const TsTileStmt *s);
void ts_emit_contract(TsEmit *e, const TsTileStmt *s);
void ts_emit_memory(TsEmit *e, const TsTileStmt *s);
/* Of the element of a memory at a position (jit/emit/cpu/address.c). */
LLVMValueRef ts_emit_address(TsEmit *e, TsTileVal memory, const TsTileVal *at,
                             LLVMTypeRef elem);
void ts_emit_memory_begin(TsEmit *e, TsTileVal memory, LLVMValueRef pointer);
void ts_emit_loop(TsEmit *e, const TsTileStmt *s);
/* The rounds of a loop that carries nothing, between these bounds. */
void ts_emit_rounds(TsEmit *e, const TsTileStmt *s, LLVMValueRef lo, LLVMValueRef hi);
void ts_emit_if(TsEmit *e, const TsTileStmt *s);

void ts_emit_mark(TsEmit *e, const TsTileStmt *s); /* jit/emit/cpu/mark.c */

/* ---- jit/emit/cpu/pairs.c: products of bf16 by instructions for them */
bool ts_emit_uses_unit(const TsTile *k);
bool ts_emit_uses_pairs(const TsTile *k);
const char *ts_emit_more_features(const TsEmit *e); /* ",+amx-tile", for the target's */
bool ts_emit_unit(TsEmit *e, const TsTileStmt *s);  /* whether s is about its registers */
void ts_emit_dot2(TsEmit *e, const TsTileStmt *s);
bool ts_emit_is_register(const TsTileType *t);                     /* of the unit */
LLVMTypeRef ts_emit_register_type(TsEmit *e, const TsTileType *t); /* of a part of a tile */
LLVMValueRef ts_emit_zero_register(TsEmit *e);
/* f32 to bf16 by the processor's instruction, where a kernel has others of its set. */
bool ts_emit_rounds_itself(const TsEmit *e, LLVMValueRef x);
LLVMValueRef ts_emit_round_itself(TsEmit *e, LLVMValueRef x);

/* ---- jit/emit/cpu/order.c: the order of loads and multiply-adds where registers are few */
bool ts_emit_is_crowded(const TsTileStmt *loop);
void ts_emit_computed(TsEmit *e, TsTileVal v); /* by a multiply-add */
/* What was computed stays before this place, loads that come stay behind it. */
void ts_emit_hold(TsEmit *e);
/* Statements of a region; gives the values of its yield in yields[] if it has one. */
void ts_emit_region(TsEmit *e, const TsTileRegion *r, LLVMValueRef **yields);

/* ---- emit.c: the parts of values */
int ts_emit_rows(const TsTileType *t);  /* parts of a tile */
int ts_emit_width(const TsTileType *t); /* lanes of a part */
LLVMValueRef *ts_emit_registers(TsEmit *e, TsTileVal v);
LLVMValueRef ts_emit_scalar(TsEmit *e, TsTileVal v);
LLVMValueRef *ts_emit_define(TsEmit *e, TsTileVal v); /* zeroed parts, to be filled */
LLVMValueRef ts_emit_size(TsEmit *e, int64_t dim);    /* of TsTileType.dim */

#endif
