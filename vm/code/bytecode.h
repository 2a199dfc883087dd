/* Bytecode: functions of operators over registers. vm/code/lower.c makes it of a graph,
 * vm/code/plan.c gives the registers their places in memory, vm/code/frame.c runs it. Eager
 * calls (vm/core/vm.h) are single instructions of the same handlers without registers.
 *
 * Registers hold one value each, written once: parameters first, then constants, then what
 * instructions make. */
#ifndef TS_VM_BYTECODE_H
#define TS_VM_BYTECODE_H

#include "vm/core/vm.h"

enum { TS_CODE_NONE = 0xffffffff };

typedef enum TsVmOp {
  TS_VM_before_first = TS_OP_COUNT - 1,
#define VM(name, help) TS_VM_##name,
#include "vm/code/vm.def"
#undef VM
  TS_VM_OP_END
} TsVmOp;

/* Where a register's bytes are. */
typedef enum TsRegKind {
  TS_REG_param, /* of the caller, or bound to a captured tensor */
  TS_REG_const, /* the same in every run */
  TS_REG_slab,  /* at an offset of the function's slab */
  TS_REG_fresh, /* allocated in each run: a result */
  TS_REG_view,  /* shares the bytes of register `of` */
  TS_REG_into,  /* written over `of`: a parameter whose old value nobody needs, or a room */
} TsRegKind;

typedef struct TsReg {
  TsMeta meta;
  uint8_t kind;
  uint32_t of;
  int64_t offset; /* slab: bytes from its start */
  int def, last; /* instruction that writes it (-1: before the first), last one that reads it */
} TsReg;

typedef struct TsInstr {
  uint16_t op; /* TsOp or TsVmOp */
  uint16_t as; /* of its node */
  uint32_t nin, nout;
  uint32_t at;   /* operands: inputs, then outputs, in code->operand */
  uint32_t attr; /* in code->attr, or NONE for the row's defaults */
  uint32_t sub;  /* first function of a control instruction; length of a group */
  int line;      /* in code->place */
  int node;      /* of the graph it comes from, a kernel's first one; -1: none */
  bool backward; /* of the reverse pass: the line is that of the operator differentiated */
} TsInstr;

typedef struct TsCode {
  const char *name;
  TsReg *reg;
  int nreg, capreg, nparam;
  TsInstr *instr;
  int ninstr, capinstr;
  uint32_t *operand;
  int noperand, capoperand;
  TsAttr *attr; /* pool; lists and strings of attributes are owned by the code */
  int nattr, capattr;
  TsTensor **constant; /* by register; NULL but for constants */
  TsTensor **bound;    /* by parameter: the captured tensor, or NULL */
  bool *donated;       /* by parameter: a result takes over its bytes; or NULL */
  struct TsCode **sub;
  int nsub, capsub;
  void **ref; /* of custom instructions, by instr->sub */
  int nref, capref;
  struct TsFused **fused; /* of fused instructions, by instr->sub; a reference each */
  int nfused, capfused;
  uint32_t *result; /* registers */
  int nresult;
  char **place; /* "file.lua:12", by line number */
  int nplace;
  int64_t nrandom;      /* streams that a run uses */
  int64_t slab_nbytes;  /* of the plan */
  int64_t bound_nbytes; /* the least that any plan needs: most bytes alive at once */
  int64_t sum_nbytes;   /* of all values that have a place of their own */
  int commit; /* the first instruction that changes a parameter, as all from there on; -1: none */
  struct TsGraph *graph; /* of a region: what it was made of, a reference; else NULL */
  bool spread;          /* some value lies over a mesh (vm/code/frame_spread.c) */
  bool region;          /* runs inside another: random calls count from there */
  bool backward;        /* the instructions to come are of the reverse pass */
  bool planned, failed; /* failed: an allocation failed while it was put together */
} TsCode;

/* ---- putting code together: parameters first, then constants, then the rest */
TsCode *ts_code_new(const char *name);
void ts_code_free(TsCode *code);
uint32_t ts_code_param(TsCode *code, const TsMeta *m, TsTensor *bound);
uint32_t ts_code_constant(TsCode *code, TsTensor *t);
uint32_t ts_code_register(TsCode *code, const TsMeta *m);
/* Appends an instruction. attr NULL: the row's defaults. Copies the attributes. */
TsInstr *ts_code_add(TsCode *code, int op, int nin, const uint32_t *in, int nattr,
                     const TsAttr *attr, int nout, const uint32_t *out, int line);
uint32_t ts_code_sub(TsCode *code, TsCode *sub);                /* takes it over */
int ts_code_ref(TsCode *code, TsInstr *i, void *ref);           /* of a custom instruction */
int ts_code_fused(TsCode *code, TsInstr *i, struct TsFused *f); /* of a fused one */
/* Ends the code with the given result registers. -1 if memory ran out. */
int ts_code_finish(TsCode *code, int nresult, const uint32_t *result);

/* Checks that everything makes sense: known instructions, registers in range and written
 * before they are read, counts that the row allows, places inside the slab that overlap
 * nothing alive. */
int ts_code_verify(const TsCode *code, TsError *err);

/* One line an instruction, the plan in front. */
struct TsText;
const char *ts_code_op_name(uint32_t op); /* of an operator or a row of vm.def */
void ts_code_text(const TsCode *code, struct TsText *text);

/* Gives registers their places (vm/code/plan.c). Once, after ts_code_finish. */
int ts_code_plan(TsCode *code, TsError *err);

/* ---- running */
typedef struct TsFrame TsFrame; /* code bound to tensors, ready to run again and again */
TsFrame *ts_frame_new(TsContext *c, const TsCode *code); /* the code must outlive it */
void ts_frame_free(TsFrame *f);
/* Where a run with these arguments happens: the device with kernels on which one of them, or a
 * captured tensor, is; else 0. -1 with the error: on two. */
int ts_frame_place(TsContext *c, const TsCode *code, TsTensor *const *args);
/* f's code bound to a device: its own frame, which f keeps. Run by itself, it runs there wherever
 * its arguments are, and gives results that belong where they do. */
TsFrame *ts_frame_there(TsFrame *f, int device);
int ts_frame_device(const TsFrame *f);
/* What its device remembers of its launches (vm/core/offload.h), or NULL. */
void *ts_frame_launches(const TsFrame *f);
/* While on, the shortest time of each instruction of a run is kept. -1: no memory. */
int ts_frame_measure(TsFrame *f, bool on);
/* Nanoseconds of the instructions of a node, 0 where it has none; -1: not all have been
 * measured. */
int64_t ts_frame_shortest(const TsFrame *f, int node);
/* args: nparam tensors (not taken over; NULL where bound). Results get one reference each.
 * A run inside a run of the same frame is possible and binds anew. */
int ts_frame_run(TsFrame *f, TsTensor *const *args, TsTensor **results);

#endif
