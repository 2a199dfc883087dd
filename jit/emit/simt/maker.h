/* What makers of GPUs have in ways of their own, and what stands for it on the host: a row
 * each, in a file each. Who emits asks g->maker and never which one it is. A member that is
 * NULL is an instruction that this maker has not: the form that all have is emitted then. */
#ifndef TS_JIT_EMIT_GPU_MAKER_H
#define TS_JIT_EMIT_GPU_MAKER_H

#include <llvm-c/Core.h>
#include <stdbool.h>

#include "jit/emit/simt/matrix.h"

struct TsGpuEmit;

enum { TS_GPU_WARP = 32 /* lanes that shuffle and vote, on every GPU: half of a wave of 64 */ };

typedef struct TsGpuMaker {
  /* Numbers of LLVM's: address spaces, and the calling convention of kernels. `table`: of a
   * table that stands among the arguments, beside the attribute that says so. */
  int global, shared, table, constants;
  unsigned call;
  const char *by;
  const char *thread, *block; /* intrinsics: the number of either along the first axis; NULL: */
  LLVMValueRef (*place)(struct TsGpuEmit *g, bool of_block); /* the same, i32 */

  /* ---- threads. begin: the function of a phase, up to g->tid, g->block, g->shared; most
   * makers have ts_gpu_begin for it, and `kernel` for what it says of the kernel. */
  void (*begin)(struct TsGpuEmit *g, const char *name);
  void (*kernel)(struct TsGpuEmit *g);
  /* Shared memory that is the code's own, and of how many bytes it is, once they are known;
   * NULL: as much as a launch says. */
  LLVMValueRef (*memory)(struct TsGpuEmit *g);
  /* Where it begins, i32, as a number that no pass joins with others: then what is known of an
   * address stands in instructions. NULL: pointers do as well. */
  LLVMValueRef (*memory_at)(struct TsGpuEmit *g);
  void (*close_memory)(struct TsGpuEmit *g, LLVMValueRef was, int64_t nbytes);
  LLVMValueRef (*scratch)(struct TsGpuEmit *g, int i);
  LLVMValueRef (*word)(struct TsGpuEmit *g, LLVMValueRef i); /* of the table; i64 */
  void (*sync)(struct TsGpuEmit *g);                         /* all threads of the group */
  void (*warp_sync)(struct TsGpuEmit *g);
  LLVMValueRef (*shuffle)(struct TsGpuEmit *g, LLVMValueRef x, int mask); /* of i32 */
  /* Bits of lanes of whom it is true; or at once who has the same x. */
  LLVMValueRef (*vote)(struct TsGpuEmit *g, LLVMValueRef is);
  LLVMValueRef (*equals)(struct TsGpuEmit *g, LLVMValueRef x);
  /* Until this meeting of a slot is one of all n devices (`meet` of ir/tile/tile.def), whose
   * words these are; where: rank, slot, and how many it has had. NULL: no word is seen by
   * another device while kernels run. */
  void (*meet)(struct TsGpuEmit *g, int n, const LLVMValueRef *word, const LLVMValueRef *where,
               int64_t patience);
  /* Launches that begin before the one in front of them ends: at the begin of a phase, and
   * where it has to have ended. */
  void (*order)(struct TsGpuEmit *g);
  void (*await_last)(struct TsGpuEmit *g);

  /* ---- memory. Words of 32 or 64 bits, `by` bytes behind p, where c holds, else as they were;
   * an element of so many bytes; both or none. */
  LLVMValueRef (*read_guarded)(struct TsGpuEmit *g, LLVMValueRef p, int by, LLVMValueRef c,
                               int n, int bits, const LLVMValueRef *old);
  void (*write_guarded)(struct TsGpuEmit *g, LLVMValueRef p, int by, LLVMValueRef c, int nbytes,
                        LLVMValueRef x);
  /* Two or four words that all rounds read, or this one alone. */
  LLVMValueRef (*read_hinted)(struct TsGpuEmit *g, LLVMValueRef p, bool once, int n);
  /* 16 bytes to shared memory meanwhile, and until they have come; both or none. */
  void (*copy)(struct TsGpuEmit *g, LLVMValueRef to, LLVMValueRef from);
  void (*wait_copies)(struct TsGpuEmit *g);
  /* So many bytes of each lane past its registers: from a pointer that all lanes have, its own
   * and all lanes' bytes behind it (i32; below 0: zeros come) to where the wave's begin; until
   * at most so many of a thread are under way; all or none. */
  void (*direct)(struct TsGpuEmit *g, LLVMValueRef to, LLVMValueRef from, LLVMValueRef own,
                 LLVMValueRef by, int bytes);
  void (*wait_direct)(struct TsGpuEmit *g, int pending);
  /* As sync, where those that are under way stay so. */
  void (*sync_direct)(struct TsGpuEmit *g);
  LLVMValueRef (*uniform)(struct TsGpuEmit *g, LLVMValueRef x); /* i32 that all lanes have */
  /* Four numbers of 16 bits, each from another lane's place: jit/emit/simt/matrix_operand.c. */
  LLVMValueRef (*read_turned)(struct TsGpuEmit *g, LLVMValueRef p);
  /* This wave is first where a SIMD has others, or no more. */
  void (*first)(struct TsGpuEmit *g, bool is);

  /* ---- numbers: the same bits as the form for all gives, if nothing else is said. x times
   * 2^(k + far), then times 2^-far; x 2^k by two factors. */
  LLVMValueRef (*scale_far)(struct TsGpuEmit *g, LLVMValueRef x, LLVMValueRef k, int far);
  LLVMValueRef (*scale_by_two)(struct TsGpuEmit *g, LLVMValueRef x, LLVMValueRef k);
  LLVMValueRef (*inverse)(struct TsGpuEmit *g, LLVMValueRef x); /* of moderate numbers */
  /* The smaller or larger one: NaN wins, -0 is below +0. */
  LLVMValueRef (*extreme)(struct TsGpuEmit *g, bool min, LLVMValueRef x, LLVMValueRef y);
  /* Two f32 rounded to bf16 in a word; then LLVM's own truncation of one is right as well. */
  LLVMValueRef (*round_two)(struct TsGpuEmit *g, LLVMValueRef high, LLVMValueRef low);
  LLVMValueRef (*extreme_two)(struct TsGpuEmit *g, bool min, LLVMValueRef x, LLVMValueRef y);
  /* ex2, lg2, inv: the processor's own, near to the value. */
  LLVMValueRef (*function)(struct TsGpuEmit *g, int op, LLVMValueRef x);
  /* ---- profile marks, not of text: cycles of the processor, i64, of which the target says
   * how many bits count; ticks of a clock that all processors share, i64; which processor this
   * is, i32. */
  LLVMValueRef (*cycles)(struct TsGpuEmit *g);
  LLVMValueRef (*steady)(struct TsGpuEmit *g);
  LLVMValueRef (*processor)(struct TsGpuEmit *g);
  /* Four bytes of eight, by their numbers: those of low from 0 on, of high from 4 on. */
  LLVMValueRef (*bytes)(struct TsGpuEmit *g, LLVMValueRef high, LLVMValueRef low,
                        unsigned which);
  /* What multiplies tiles of d; gives NULL where the target has no such unit. */
  const TsGpuMatrix *(*matrix)(const struct TsGpuEmit *g, TsDtype d);
  /* Or, of a unit that lays out its operands in another way, what matrix.h has of these
   * names. */
  struct TsGpuFrame *(*matrix_frame)(struct TsGpuEmit *g, const TsTileType *t);
  bool (*matrix_product)(struct TsGpuEmit *g, const TsTileStmt *s);
  /* Of a unit of which nobody says how sums lie: vectors of lanes as what loops carry, which
   * stays as it is where it is no other; and back. Both or none. */
  void (*matrix_join)(struct TsGpuEmit *g, int n, LLVMValueRef *x);
  void (*matrix_split)(struct TsGpuEmit *g, LLVMTypeRef number, int n, const LLVMValueRef *x,
                       LLVMValueRef *out);
} TsGpuMaker;

extern const TsGpuMaker ts_gpu_nvidia, ts_gpu_amd, ts_gpu_spirv, ts_gpu_host;

/* For rows of devices: a kernel with pointers and sizes as its parameters; that of a
 * scratch. */
void ts_gpu_begin(struct TsGpuEmit *g, const char *name);
LLVMValueRef ts_gpu_shared_memory(struct TsGpuEmit *g); /* as much as a launch says */
/* Whether a launch of this code says where its records are. */
bool ts_gpu_marks_said(const struct TsGpuEmit *g);
const TsGpuMatrix *ts_gpu_amd_matrix(const struct TsGpuEmit *g,
                                     TsDtype d); /* jit/emit/simt/amd_matrix.c */
LLVMValueRef ts_gpu_scratch_argument(struct TsGpuEmit *g, int i);
/* jit/emit/simt/intel_matrix.c. Lanes of a sub-group that the unit wants; 0: it is not used. */
int ts_gpu_intel_lanes(const struct TsGpuEmit *g);
/* Whether operands of the phase's products come in boxes (jit/gpu/boxes.h). */
bool ts_gpu_intel_boxes(const struct TsGpuEmit *g);
/* Whether this is a load that products alone want, by boxes: nobody makes it. */
bool ts_gpu_intel_box(const struct TsGpuEmit *g, TsTileVal v);
struct TsGpuFrame *ts_gpu_intel_frame(struct TsGpuEmit *g, const TsTileType *t);
bool ts_gpu_intel_product(struct TsGpuEmit *g, const TsTileStmt *s);
/* A function of OpenCL's that all lanes of a sub-group call together. */
LLVMValueRef ts_gpu_spirv_call(struct TsGpuEmit *g, const char *name, LLVMTypeRef out, int nin,
                               LLVMValueRef *in);
/* Element i of a list. */
LLVMValueRef ts_gpu_read_at(struct TsGpuEmit *g, LLVMTypeRef t, LLVMValueRef list, int i);

#endif
