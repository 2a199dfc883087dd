/* Bytecode: functions of operators over registers, and the loop that runs them.
 *
 * Code is a row of 32-bit words. A head word holds the instruction in its low 16
 * bits (an operator's number, or TS_OP_COUNT + a row of vm.def), then the number
 * of inputs (8 bits) and of outputs (8 bits). Registers hold tensors or nothing;
 * parameters arrive in registers 0..nparam-1, constants behind them. Eager calls
 * (vm/vm.h) are single instructions of the same handlers without registers. */
#ifndef TS_VM_BYTECODE_H
#define TS_VM_BYTECODE_H

#include "vm/vm.h"

enum { TS_CODE_NONE = 0xffffffff };

typedef enum TsVmOp {
  TS_VM_before_first = TS_OP_COUNT - 1,
#define VM(name, words, help) TS_VM_##name,
#include "vm/vm.def"
#undef VM
  TS_VM_OP_END
} TsVmOp;

typedef struct TsCode {
  uint32_t *word;
  int nword, capword;
  int nreg, nparam;
  TsAttr *attr; /* pool; lists and strings of attributes are owned by the code */
  int nattr, capattr;
  TsTensor **constant; /* in registers nparam.. */
  int nconst;
  uint32_t *result; /* registers */
  int nresult;
  bool failed; /* an allocation failed while it was put together */
} TsCode;

/* ---- putting code together */
TsCode *ts_code_new(int nparam);
void ts_code_free(TsCode *code);
uint32_t ts_code_register(TsCode *code);                  /* a fresh one */
uint32_t ts_code_constant(TsCode *code, TsTensor *t);     /* before any ts_code_register */
/* Appends an operator. attr NULL: the row's defaults. Copies the attributes. */
void ts_code_op(TsCode *code, TsOp op, int nin, const uint32_t *in, const TsAttr *attr, int nout,
                const uint32_t *out);
void ts_code_vm(TsCode *code, TsVmOp op, uint32_t a, uint32_t b);
int ts_code_here(const TsCode *code); /* index of the next word, a jump target */
void ts_code_patch(TsCode *code, int at, uint32_t word);
/* Ends the code with the given result registers. -1 if memory ran out. */
int ts_code_finish(TsCode *code, int nresult, const uint32_t *result);

/* Checks that every word makes sense: known instructions, registers in range,
 * counts that the row allows, jumps to instruction starts, a final ret. */
int ts_code_verify(const TsCode *code, TsError *err);

/* One line an instruction. */
struct TsText;
void ts_code_text(const TsCode *code, struct TsText *text);

/* Runs verified code. args: nparam tensors (not taken over). Results get one
 * reference each. */
int ts_code_run(TsContext *c, const TsCode *code, TsTensor *const *args, TsTensor **results);

#endif
