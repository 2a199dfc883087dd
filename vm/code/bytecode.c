/* Putting bytecode together. Checking and printing: vm/code/bytecode_text.c. */
#include "vm/code/bytecode.h"

#include <stdlib.h>
#include <string.h>

#include "ir/graph/graph.h"
#include "vm/code/fused.h"

TsCode *ts_code_new(const char *name) {
  TsCode *code = calloc(1, sizeof *code);
  if (code && !(code->name = strdup(name))) {
    free(code);
    code = NULL;
  }
  if (code) code->commit = -1;
  return code;
}

static bool owns(const TsAttr *a) {
  return a->type == TS_ATTR_ints || a->type == TS_ATTR_floats || a->type == TS_ATTR_str;
}

void ts_code_free(TsCode *code) {
  if (!code) return;
  for (int i = 0; i < code->nreg && code->constant; i++) ts_tensor_unref(code->constant[i]);
  for (int i = 0; i < code->nparam && code->bound; i++) ts_tensor_unref(code->bound[i]);
  for (int i = 0; i < code->nattr; i++)
    if (owns(&code->attr[i])) free((void *)(uintptr_t)code->attr[i].ints);
  for (int i = 0; i < code->nsub; i++) ts_code_free(code->sub[i]);
  ts_graph_free(code->graph);
  for (int i = 0; i < code->nplace; i++) free(code->place[i]);
  for (int i = 0; i < code->nfused; i++) ts_fused_unref(code->fused[i]);
  free(code->fused);
  free(code->place);
  free(code->sub);
  free(code->ref);
  free(code->constant);
  free(code->bound);
  free(code->donated);
  free(code->attr);
  free(code->operand);
  free(code->instr);
  free(code->reg);
  free(code->result);
  free((char *)(uintptr_t)code->name);
  free(code);
}

/* Room for `more` elements of a growing array; false when memory runs out. */
static bool grow(TsCode *code, void *array, int n, int more, int *cap, size_t size) {
  void **at = array;
  if (n + more <= *cap) return true;
  int want = *cap * 2 > n + more ? *cap * 2 : n + more + 16;
  void *p = realloc(*at, (size_t)want * size);
  if (!p) return code->failed = true, false;
  *at = p;
  *cap = want;
  return true;
}

uint32_t ts_code_register(TsCode *code, const TsMeta *m) {
  int cap = code->capreg;
  if (!grow(code, &code->constant, code->nreg, 1, &cap, sizeof *code->constant)) return 0;
  if (!grow(code, &code->reg, code->nreg, 1, &code->capreg, sizeof *code->reg)) return 0;
  code->spread |= m->layout != 0;
  code->constant[code->nreg] = NULL;
  code->reg[code->nreg] =
      (TsReg){.meta = *m, .kind = TS_REG_slab, .of = TS_CODE_NONE, .def = -1, .last = -1};
  return (uint32_t)code->nreg++;
}

uint32_t ts_code_param(TsCode *code, const TsMeta *m, TsTensor *bound) {
  if (code->failed) return 0;
  TS_ASSERT(code->nparam == code->nreg);
  uint32_t r = ts_code_register(code, m);
  TsTensor **b = realloc(code->bound, ((size_t)code->nparam + 1) * sizeof *b);
  if (!b || code->failed) {
    if (b) code->bound = b;
    code->failed = true;
    return 0;
  }
  code->reg[r].kind = TS_REG_param;
  code->bound = b;
  b[code->nparam++] = bound ? ts_tensor_ref(bound) : NULL;
  return r;
}

uint32_t ts_code_constant(TsCode *code, TsTensor *t) {
  uint32_t r = ts_code_register(code, &t->meta);
  if (code->failed) return 0;
  code->reg[r].kind = TS_REG_const;
  code->constant[r] = ts_tensor_ref(t);
  return r;
}

static bool copy_attr(TsAttr *to, const TsAttr *from) {
  *to = *from;
  if (!owns(from)) return true;
  size_t nbytes = from->type == TS_ATTR_str ? strlen(from->str) + 1 : (size_t)from->n * 8;
  void *p = malloc(nbytes ? nbytes : 1);
  if (p && nbytes) memcpy(p, from->ints, nbytes);
  to->ints = p;
  if (!p) to->type = TS_ATTR_none;
  return p != NULL;
}

static uint32_t put_attrs(TsCode *code, int n, const TsAttr *attr) {
  if (!attr || n == 0 || !grow(code, &code->attr, code->nattr, n, &code->capattr, sizeof *attr))
    return TS_CODE_NONE;
  uint32_t at = (uint32_t)code->nattr;
  for (int i = 0; i < n; i++)
    if (!copy_attr(&code->attr[code->nattr++], &attr[i])) code->failed = true;
  return at;
}

TsInstr *ts_code_add(TsCode *code, int op, int nin, const uint32_t *in, int nattr,
                     const TsAttr *attr, int nout, const uint32_t *out, int line) {
  if (!grow(code, &code->instr, code->ninstr, 1, &code->capinstr, sizeof *code->instr) ||
      !grow(code, &code->operand, code->noperand, nin + nout, &code->capoperand, sizeof *in))
    return NULL;
  TsInstr *i = &code->instr[code->ninstr++];
  *i = (TsInstr){.op = (uint16_t)op,
                 .node = -1,
                 .nin = (uint32_t)nin,
                 .nout = (uint32_t)nout,
                 .at = (uint32_t)code->noperand,
                 .line = line,
                 .backward = code->backward};
  for (int k = 0; k < nin; k++) code->operand[code->noperand++] = in[k];
  for (int k = 0; k < nout; k++) code->operand[code->noperand++] = out[k];
  i->attr = put_attrs(code, nattr, attr);
  return i;
}

uint32_t ts_code_sub(TsCode *code, TsCode *sub) {
  if (!sub || !grow(code, &code->sub, code->nsub, 1, &code->capsub, sizeof *code->sub)) {
    code->failed = true;
    ts_code_free(sub);
    return 0;
  }
  code->spread |= sub->spread;
  code->sub[code->nsub] = sub;
  return (uint32_t)code->nsub++;
}

int ts_code_ref(TsCode *code, TsInstr *i, void *ref) {
  if (!grow(code, &code->ref, code->nref, 1, &code->capref, sizeof *code->ref)) return -1;
  i->sub = (uint32_t)code->nref;
  code->ref[code->nref++] = ref;
  return 0;
}

int ts_code_fused(TsCode *code, TsInstr *i, TsFused *f) {
  if (!grow(code, &code->fused, code->nfused, 1, &code->capfused, sizeof(TsFused *))) return -1;
  i->sub = (uint32_t)code->nfused;
  code->fused[code->nfused++] = ts_fused_ref(f);
  return 0;
}

int ts_code_finish(TsCode *code, int nresult, const uint32_t *result) {
  code->result = malloc(((size_t)nresult + 1) * sizeof *result);
  if (!code->result || code->failed) return -1;
  memcpy(code->result, result, (size_t)nresult * sizeof *result);
  code->nresult = nresult;
  return 0;
}
