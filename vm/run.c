/* The bytecode loop. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/bytecode.h"

static void set(TsTensor **reg, TsTensor *t) {
  ts_tensor_unref(*reg);
  *reg = t;
}

/* One operator: its inputs gathered from registers, its outputs put into them. */
static int step(TsContext *c, const TsCode *code, const uint32_t *w, TsTensor **reg) {
  TsTensor *in[256], *out[TS_MAX_VARIADIC];
  uint32_t nin = w[0] >> 16 & 0xff, nout = w[0] >> 24;
  const TsAttr *attr = w[1] == TS_CODE_NONE ? NULL : code->attr + w[1];
  int made = 0;
  for (uint32_t i = 0; i < nin; i++) in[i] = w[2 + i] == TS_CODE_NONE ? NULL : reg[w[2 + i]];
  if (ts_vm_call(c, (TsOp)(w[0] & 0xffff), (int)nin, in, attr, TS_MAX_VARIADIC, &made, out))
    return -1;
  if (made < (int)nout) TS_BUG("%s made %d of %u outputs", ts_op_info(w[0] & 0xffff)->name, made, nout);
  for (int i = 0; i < made; i++) {
    if (i < (int)nout)
      set(&reg[w[2 + nin + (uint32_t)i]], out[i]);
    else
      ts_tensor_unref(out[i]);
  }
  return 0;
}

static int loop(TsContext *c, const TsCode *code, TsTensor **reg) {
  const uint32_t *w = code->word;
  for (;;) {
    uint32_t op = w[0] & 0xffff;
    switch (op) {
      case TS_VM_ret: return 0;
      case TS_VM_move:
        set(&reg[w[1]], reg[w[2]] ? ts_tensor_ref(reg[w[2]]) : NULL);
        w += 3;
        break;
      case TS_VM_drop:
        set(&reg[w[1]], NULL);
        w += 2;
        break;
      case TS_VM_jump:
        if (ts_cpu_interrupted()) return ts_error_set(&c->err, TS_ERR_interrupt, "interrupted");
        w = code->word + w[1];
        break;
      case TS_VM_jump_if_not:
        w = ts_tensor_get_int(reg[w[1]], 0) ? w + 3 : code->word + w[2];
        break;
      default:
        if (step(c, code, w, reg)) return -1;
        w += 2 + (w[0] >> 16 & 0xff) + (w[0] >> 24);
    }
  }
}

int ts_code_run(TsContext *c, const TsCode *code, TsTensor *const *args, TsTensor **results) {
  TsTensor **reg = calloc((size_t)code->nreg + 1, sizeof *reg);
  if (!reg) return ts_error_set(&c->err, TS_ERR_memory, "out of memory");
  for (int i = 0; i < code->nparam; i++) reg[i] = ts_tensor_ref(args[i]);
  for (int i = 0; i < code->nconst; i++) reg[code->nparam + i] = ts_tensor_ref(code->constant[i]);
  int failed = loop(c, code, reg);
  for (int i = 0; !failed && i < code->nresult; i++)
    if (!reg[code->result[i]])
      failed = ts_error_set(&c->err, TS_ERR_value, "bytecode: result %d is empty", i);
  for (int i = 0; !failed && i < code->nresult; i++)
    results[i] = ts_tensor_ref(reg[code->result[i]]);
  for (int i = 0; i < code->nreg; i++) ts_tensor_unref(reg[i]);
  free(reg);
  return failed ? -1 : 0;
}
