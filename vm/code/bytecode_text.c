/* Checking bytecode and printing it. */
#include <stdlib.h>
#include <string.h>

#include "lib/text.h"
#include "vm/code/bytecode.h"
#include "vm/code/fused.h"

static const char *const vm_name[] = {
#define VM(name, help) #name,
#include "vm/code/vm.def"
#undef VM
};

const char *ts_code_op_name(uint32_t op) {
  return op < TS_OP_COUNT ? ts_op_info((TsOp)op)->name : vm_name[op - TS_OP_COUNT];
}

/* ---- checking */
static int bad(TsError *err, int at, const char *what) {
  return ts_error_set(err, TS_ERR_value, "bytecode: instruction %d: %s", at, what);
}

static int verify_counts(const TsCode *code, int at, TsError *err) {
  const TsInstr *i = &code->instr[at];
  if (i->op >= TS_VM_OP_END) return bad(err, at, "no such instruction");
  if ((uint64_t)i->at + i->nin + i->nout > (uint64_t)code->noperand)
    return bad(err, at, "operands outside the list");
  if (i->op >= TS_OP_COUNT) return 0;
  const TsOpInfo *o = ts_op_info((TsOp)i->op);
  if (ts_class_composed(o->cls)) return bad(err, at, "a composed operator is no instruction");
  if (i->nin < o->nrequired || (i->nin > o->nin && !o->variadic) || i->nin > TS_MAX_VARIADIC)
    return bad(err, at, "wrong number of inputs");
  if (i->nout > TS_MAX_OUT) return bad(err, at, "wrong number of outputs");
  if (i->attr != TS_CODE_NONE && (int64_t)i->attr + o->nattr > code->nattr)
    return bad(err, at, "attributes outside the pool");
  return 0;
}

static int verify_operands(const TsCode *code, int at, const bool *written, TsError *err) {
  const TsInstr *i = &code->instr[at];
  const uint32_t *r = code->operand + i->at;
  for (uint32_t k = 0; k < i->nin + i->nout; k++) {
    bool input = k < i->nin, row = i->op < TS_OP_COUNT;
    bool optional = row && input && !ts_op_info((TsOp)i->op)->variadic &&
                    !(ts_op_info((TsOp)i->op)->required >> k & 1);
    if (r[k] == TS_CODE_NONE && (optional || (!input && row))) continue;
    if (r[k] >= (uint32_t)code->nreg) return bad(err, at, "register out of range");
    if (input && !written[r[k]]) return bad(err, at, "a register is read before it is written");
    if (!input && written[r[k]]) return bad(err, at, "a register is written twice");
  }
  return 0;
}

static int verify_sub(const TsCode *code, int at, TsError *err) {
  const TsInstr *i = &code->instr[at];
  int need = i->op == TS_VM_cond || i->op == TS_VM_while_loop ? 2 : 1;
  switch (i->op) {
  case TS_VM_update:
    return i->nin == 2 && !i->nout ? 0 : bad(err, at, "update takes two inputs");
  case TS_VM_group:
    return (int64_t)at + i->sub < code->ninstr ? 0 : bad(err, at, "group is too long");
  case TS_VM_fused: return (int64_t)i->sub < code->nfused ? 0 : bad(err, at, "no such kernel");
  case TS_VM_recur: return 0;
  case TS_VM_room: return !i->nin && i->nout == 1 ? 0 : bad(err, at, "a room is one output");
  case TS_VM_custom: return (int64_t)i->sub < code->nref ? 0 : bad(err, at, "no such function");
  default: return (int64_t)i->sub + need <= code->nsub ? 0 : bad(err, at, "no such function");
  }
}

static int by_def(const void *x, const void *y) {
  const TsReg *p = *(const TsReg *const *)x, *q = *(const TsReg *const *)y;
  if (p->def != q->def) return p->def < q->def ? -1 : 1;
  return p < q ? -1 : p > q;
}

static bool overlap(const TsReg *x, const TsReg *y) {
  return x->offset < y->offset + ts_meta_nbytes(&y->meta) &&
         y->offset < x->offset + ts_meta_nbytes(&x->meta) && x->last > y->def &&
         y->last > x->def;
}

/* Values alive at the same time must not share bytes, unless the one dies where the other
 * is written over it. Each is compared with those that live where it is made, of which there are
 * many only if code is to be refused or needs many: there it is quadratic, so for small code. */
static int verify_slab(const TsCode *code, int n, const TsReg **slab, TsError *err) {
  enum { MOST = 4000 };
  int alive = 0; /* slab[0, alive), others fall out */
  qsort(slab, (size_t)n, sizeof *slab, by_def);
  for (int i = 0; i < n; i++) {
    const TsReg *x = slab[i];
    int kept = 0;
    for (int k = 0; k < alive; k++) {
      if (slab[k]->last <= x->def) continue;
      if (overlap(x, slab[k]))
        return ts_error_set(err, TS_ERR_value, "bytecode: registers %d and %d overlap",
                            (int)(slab[k] - code->reg), (int)(x - code->reg));
      slab[kept++] = slab[k];
    }
    alive = kept;
    if (alive < MOST) slab[alive++] = x;
  }
  return 0;
}

static int verify_plan(const TsCode *code, TsError *err) {
  const TsReg **slab = malloc(sizeof *slab * ((size_t)code->nreg + 1));
  int n = 0, failed = slab ? 0 : ts_error_memory(err);
  for (int a = 0; a < code->nreg && !failed; a++) {
    const TsReg *x = &code->reg[a];
    if (x->kind == TS_REG_view && x->of >= (uint32_t)code->nreg)
      failed = ts_error_set(err, TS_ERR_value, "bytecode: register %d: a view of nothing", a);
    if (x->kind != TS_REG_slab || failed) continue;
    if (x->offset < 0 || x->offset + ts_meta_nbytes(&x->meta) > code->slab_nbytes)
      failed = ts_error_set(err, TS_ERR_value, "bytecode: register %d: outside the slab", a);
    slab[n++] = x;
  }
  if (!failed) failed = verify_slab(code, n, slab, err);
  free(slab);
  return failed;
}

int ts_code_verify(const TsCode *code, TsError *err) {
  bool *written = calloc((size_t)code->nreg + 1, 1);
  int failed = 0;
  if (!written) return ts_error_memory(err);
  for (int r = 0; r < code->nreg; r++)
    written[r] = code->reg[r].kind == TS_REG_param || code->reg[r].kind == TS_REG_const;
  for (int at = 0; at < code->ninstr && !failed; at++) {
    const TsInstr *i = &code->instr[at];
    failed = verify_counts(code, at, err) || verify_operands(code, at, written, err);
    if (!failed && i->op >= TS_OP_COUNT) failed = verify_sub(code, at, err);
    for (uint32_t k = 0; !failed && k < i->nout; k++)
      if (code->operand[i->at + i->nin + k] != TS_CODE_NONE)
        written[code->operand[i->at + i->nin + k]] = true;
  }
  for (int i = 0; i < code->nresult && !failed; i++)
    if (code->result[i] >= (uint32_t)code->nreg || !written[code->result[i]])
      failed = bad(err, code->ninstr, "a result is never written");
  free(written);
  if (!failed && code->planned) failed = verify_plan(code, err);
  for (int i = 0; i < code->nsub && !failed; i++) failed = ts_code_verify(code->sub[i], err);
  return failed ? -1 : 0;
}

/* ---- printing */
static void attr_text(const TsAttrSpec *s, const TsAttr *a, TsText *t) {
  char word[64];
  ts_text_format(t, " %.*s=", s->namelen, s->name);
  switch (a->type) {
  case TS_ATTR_int: ts_text_format(t, "%lld", (long long)a->i); break;
  case TS_ATTR_f: ts_text_format(t, "%.17g", a->f); break;
  case TS_ATTR_bool: ts_text_str(t, a->i ? "true" : "false"); break;
  case TS_ATTR_choice: ts_text_str(t, ts_attr_word(s, (int)a->i, word)); break;
  case TS_ATTR_dtype: ts_text_str(t, ts_dtype_name((TsDtype)a->i)); break;
  case TS_ATTR_str: ts_text_format(t, "\"%s\"", a->str); break;
  default:
    ts_text_char(t, '[');
    for (int i = 0; i < a->n; i++) {
      if (a->type == TS_ATTR_ints)
        ts_text_format(t, "%s%lld", i ? "," : "", (long long)a->ints[i]);
      else
        ts_text_format(t, "%s%.17g", i ? "," : "", a->floats[i]);
    }
    ts_text_char(t, ']');
  }
}

static bool attr_equal(const TsAttr *a, const TsAttr *b) {
  if (a->type != b->type || a->n != b->n) return false;
  if (a->type == TS_ATTR_str) return !strcmp(a->str, b->str);
  if (a->type == TS_ATTR_ints || a->type == TS_ATTR_floats)
    return !memcmp(a->ints, b->ints, (size_t)a->n * 8);
  return a->type == TS_ATTR_none || a->i == b->i;
}

static void place_text(const TsCode *code, uint32_t r, TsText *t) {
  static const char *const kind[] = {"param", "const", "slab", "fresh", "view", "into"};
  const TsReg *g = &code->reg[r];
  char type[TS_META_TEXT];
  ts_text_format(t, " : %s", ts_meta_text(&g->meta, type));
  if (!code->planned) return;
  ts_text_format(t, " %s", kind[g->kind]);
  if (g->kind == TS_REG_slab) ts_text_format(t, "+%lld", (long long)g->offset);
  if (g->kind == TS_REG_view || g->kind == TS_REG_into) ts_text_format(t, " r%u", g->of);
}

static void registers_text(const uint32_t *r, uint32_t n, TsText *t) {
  for (uint32_t i = 0; i < n; i++) {
    ts_text_str(t, i ? ", " : "");
    if (r[i] == TS_CODE_NONE)
      ts_text_char(t, '_');
    else
      ts_text_format(t, "r%u", r[i]);
  }
}

static bool has_function(const TsInstr *i) {
  return i->op != TS_VM_update && i->op != TS_VM_custom && i->op != TS_VM_recur &&
         i->op != TS_VM_fused && i->op != TS_VM_room;
}

static void instr_text(const TsCode *code, int at, TsText *t) {
  const TsInstr *i = &code->instr[at];
  const uint32_t *in = code->operand + i->at, *out = in + i->nin;
  ts_text_format(t, "  %4d  ", at);
  registers_text(out, i->nout, t);
  ts_text_format(t, "%s%s", i->nout ? " = " : "", ts_code_op_name(i->op));
  ts_text_str(t, i->nin ? " " : "");
  registers_text(in, i->nin, t);
  if (i->op < TS_OP_COUNT) {
    const TsOpInfo *o = ts_op_info((TsOp)i->op);
    for (int k = 0; i->attr != TS_CODE_NONE && k < o->nattr; k++) {
      const TsAttr *a = &code->attr[i->attr + (uint32_t)k];
      if (a->type != TS_ATTR_none && !attr_equal(a, &o->attr[k].preset))
        attr_text(&o->attr[k], a, t);
    }
  } else if (i->op == TS_VM_group) {
    ts_text_format(t, " of %u", i->sub);
  } else if (has_function(i)) {
    ts_text_format(t, " @%s", code->sub[i->sub]->name);
  }
  for (uint32_t k = 0; k < i->nout; k++)
    if (out[k] != TS_CODE_NONE) place_text(code, out[k], t);
  if (i->op == TS_VM_fused && code->fused[i->sub]->what)
    ts_text_format(t, "  // %s", code->fused[i->sub]->what);
  else if (i->line > 0 && i->line < code->nplace)
    ts_text_format(t, "  // %s", code->place[i->line]);
  ts_text_char(t, '\n');
}

void ts_code_text(const TsCode *code, TsText *t) {
  for (int i = 0; i < code->nsub; i++) ts_code_text(code->sub[i], t);
  ts_text_format(t, "function @%s(", code->name);
  for (int i = 0; i < code->nparam; i++) {
    ts_text_format(t, "%sr%d", i ? ", " : "", i);
    place_text(code, (uint32_t)i, t);
  }
  ts_text_str(t, ") -> ");
  registers_text(code->result, (uint32_t)code->nresult, t);
  if (code->planned)
    ts_text_format(t, "  // slab %lld bytes, at least %lld, unshared %lld",
                   (long long)code->slab_nbytes, (long long)code->bound_nbytes,
                   (long long)code->sum_nbytes);
  ts_text_char(t, '\n');
  for (int r = code->nparam; r < code->nreg; r++) {
    if (!code->constant[r]) continue;
    ts_text_format(t, "        r%d = const", r);
    place_text(code, (uint32_t)r, t);
    if (code->constant[r]->meta.ndim == 0)
      ts_text_format(t, " = %.17g", ts_tensor_get(code->constant[r], 0));
    ts_text_char(t, '\n');
  }
  for (int i = 0; i < code->ninstr; i++) instr_text(code, i, t);
}
