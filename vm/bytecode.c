/* Putting bytecode together, checking and printing it. The loop is in vm/run.c. */
#include "vm/bytecode.h"

#include <stdlib.h>
#include <string.h>

#include "lib/text.h"

static const struct {
  const char *name;
  int words;
} vm_op[] = {
#define VM(name, words, help) {#name, words},
#include "vm/vm.def"
#undef VM
};

/* ---- building */
TsCode *ts_code_new(int nparam) {
  TsCode *code = calloc(1, sizeof *code);
  if (code) code->nreg = code->nparam = nparam;
  return code;
}

static void free_attr(TsAttr *a) {
  if (a->type == TS_ATTR_ints || a->type == TS_ATTR_floats || a->type == TS_ATTR_str)
    free((void *)(uintptr_t)a->ints);
}

void ts_code_free(TsCode *code) {
  if (!code) return;
  for (int i = 0; i < code->nconst; i++) ts_tensor_unref(code->constant[i]);
  for (int i = 0; i < code->nattr; i++) free_attr(&code->attr[i]);
  free(code->constant);
  free(code->attr);
  free(code->result);
  free(code->word);
  free(code);
}

/* Room for `more` elements of a growing array; the array's new address or NULL. */
static void *grown(TsCode *code, void *array, int n, int more, int *cap, size_t size) {
  if (n + more <= *cap) return array;
  int want = *cap * 2 > n + more ? *cap * 2 : n + more + 16;
  void *p = realloc(array, (size_t)want * size);
  if (p)
    *cap = want;
  else
    code->failed = true;
  return p;
}

static void put(TsCode *code, uint32_t w) {
  uint32_t *p = grown(code, code->word, code->nword, 1, &code->capword, sizeof *p);
  if (!p) return;
  code->word = p;
  p[code->nword++] = w;
}

uint32_t ts_code_register(TsCode *code) { return (uint32_t)code->nreg++; }

uint32_t ts_code_constant(TsCode *code, TsTensor *t) {
  TsTensor **p = realloc(code->constant, ((size_t)code->nconst + 1) * sizeof *p);
  if (!p) {
    code->failed = true;
    return TS_CODE_NONE;
  }
  code->constant = p;
  p[code->nconst++] = ts_tensor_ref(t);
  return ts_code_register(code);
}

static bool copy_attr(TsAttr *to, const TsAttr *from) {
  *to = *from;
  size_t nbytes = from->type == TS_ATTR_str ? strlen(from->str) + 1 : (size_t)from->n * 8;
  if (from->type != TS_ATTR_ints && from->type != TS_ATTR_floats && from->type != TS_ATTR_str)
    return true;
  void *p = malloc(nbytes ? nbytes : 1);
  if (p) memcpy(p, from->ints, nbytes);
  to->ints = p;
  if (!p) to->type = TS_ATTR_none;
  return p != NULL;
}

static uint32_t put_attrs(TsCode *code, TsOp op, const TsAttr *attr) {
  int n = ts_op_info(op)->nattr;
  if (!attr || n == 0) return TS_CODE_NONE;
  TsAttr *p = grown(code, code->attr, code->nattr, n, &code->capattr, sizeof *p);
  if (!p) return TS_CODE_NONE;
  code->attr = p;
  uint32_t at = (uint32_t)code->nattr;
  for (int i = 0; i < n; i++)
    if (!copy_attr(&p[code->nattr++], &attr[i])) code->failed = true;
  return at;
}

void ts_code_op(TsCode *code, TsOp op, int nin, const uint32_t *in, const TsAttr *attr, int nout,
                const uint32_t *out) {
  put(code, (uint32_t)op | (uint32_t)nin << 16 | (uint32_t)nout << 24);
  put(code, put_attrs(code, op, attr));
  for (int i = 0; i < nin; i++) put(code, in[i]);
  for (int i = 0; i < nout; i++) put(code, out[i]);
}

void ts_code_vm(TsCode *code, TsVmOp op, uint32_t a, uint32_t b) {
  int words = vm_op[op - TS_OP_COUNT].words;
  put(code, op);
  if (words > 0) put(code, a);
  if (words > 1) put(code, b);
}

int ts_code_here(const TsCode *code) { return code->nword; }
void ts_code_patch(TsCode *code, int at, uint32_t word) { code->word[at] = word; }

int ts_code_finish(TsCode *code, int nresult, const uint32_t *result) {
  ts_code_vm(code, TS_VM_ret, 0, 0);
  code->result = malloc(((size_t)nresult + 1) * sizeof *result);
  if (!code->result || code->failed) return -1;
  memcpy(code->result, result, (size_t)nresult * sizeof *result);
  code->nresult = nresult;
  return 0;
}

/* ---- walking */
static int instruction_words(const TsCode *code, int at) {
  uint32_t w = code->word[at], op = w & 0xffff;
  if (op >= TS_VM_OP_END) return -1;
  if (op >= TS_OP_COUNT) return 1 + vm_op[op - TS_OP_COUNT].words;
  return 2 + (int)(w >> 16 & 0xff) + (int)(w >> 24);
}

static int bad(TsError *err, int at, const char *what) {
  return ts_error_set(err, TS_ERR_value, "bytecode: word %d: %s", at, what);
}

static int verify_op(const TsCode *code, int at, TsError *err) {
  uint32_t w = code->word[at], nin = w >> 16 & 0xff, nout = w >> 24;
  const TsOpInfo *o = ts_op_info((TsOp)(w & 0xffff));
  uint32_t attrs = code->word[at + 1];
  if (nin < o->nrequired || (nin > o->nin && !o->variadic)) return bad(err, at, "wrong number of inputs");
  if (attrs != TS_CODE_NONE && (int64_t)attrs + o->nattr > code->nattr)
    return bad(err, at, "attributes outside the pool");
  for (uint32_t i = 0; i < nin + nout; i++) {
    uint32_t r = code->word[(uint32_t)at + 2 + i];
    bool absent = r == TS_CODE_NONE && i < nin && !(o->required >> i & 1) && !o->variadic;
    if (!absent && r >= (uint32_t)code->nreg) return bad(err, at, "register out of range");
  }
  return 0;
}

static int verify_vm(const TsCode *code, int at, const bool *start, TsError *err) {
  const uint32_t *w = code->word + at;
  bool jumps = w[0] == TS_VM_jump || w[0] == TS_VM_jump_if_not;
  uint32_t target = w[0] == TS_VM_jump ? w[1] : jumps ? w[2] : 0;
  if (jumps && (target >= (uint32_t)code->nword || !start[target]))
    return bad(err, at, "jump into nowhere");
  int nreg = w[0] == TS_VM_move ? 2 : w[0] == TS_VM_drop || w[0] == TS_VM_jump_if_not ? 1 : 0;
  for (int i = 0; i < nreg; i++)
    if (w[1 + i] >= (uint32_t)code->nreg) return bad(err, at, "register out of range");
  return 0;
}

int ts_code_verify(const TsCode *code, TsError *err) {
  bool *start = calloc((size_t)code->nword + 1, 1);
  int failed = 0, last = -1;
  if (!start) return ts_error_set(err, TS_ERR_memory, "out of memory");
  for (int at = 0, n; at < code->nword && !failed; at += n) {
    start[at] = true;
    last = at;
    n = instruction_words(code, at);
    if (n < 0 || at + n > code->nword) failed = bad(err, at, "no such instruction");
  }
  if (!failed && (last < 0 || code->word[last] != TS_VM_ret)) failed = bad(err, last, "no final ret");
  for (int at = 0; at < code->nword && !failed; at += instruction_words(code, at))
    failed = (code->word[at] & 0xffff) < TS_OP_COUNT ? verify_op(code, at, err)
                                                     : verify_vm(code, at, start, err);
  for (int i = 0; i < code->nresult && !failed; i++)
    if (code->result[i] >= (uint32_t)code->nreg) failed = bad(err, last, "result out of range");
  free(start);
  return failed;
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

static void registers_text(const uint32_t *r, uint32_t n, TsText *t) {
  for (uint32_t i = 0; i < n; i++) {
    ts_text_str(t, i ? ", " : "");
    if (r[i] == TS_CODE_NONE)
      ts_text_char(t, '-');
    else
      ts_text_format(t, "r%u", r[i]);
  }
}

static void op_text(const TsCode *code, int at, TsText *t) {
  const uint32_t *w = code->word + at;
  uint32_t nin = w[0] >> 16 & 0xff, nout = w[0] >> 24;
  const TsOpInfo *o = ts_op_info((TsOp)(w[0] & 0xffff));
  registers_text(w + 2 + nin, nout, t);
  ts_text_format(t, " = %s ", o->name);
  registers_text(w + 2, nin, t);
  for (int i = 0; w[1] != TS_CODE_NONE && i < o->nattr; i++) {
    const TsAttr *a = &code->attr[w[1] + (uint32_t)i];
    if (!attr_equal(a, &o->attr[i].preset)) attr_text(&o->attr[i], a, t);
  }
}

void ts_code_text(const TsCode *code, TsText *t) {
  for (int at = 0; at < code->nword; at += instruction_words(code, at)) {
    const uint32_t *w = code->word + at;
    ts_text_format(t, "%4d  ", at);
    if ((w[0] & 0xffff) < TS_OP_COUNT) {
      op_text(code, at, t);
    } else {
      ts_text_str(t, vm_op[w[0] - TS_OP_COUNT].name);
      for (int i = 0; i < vm_op[w[0] - TS_OP_COUNT].words; i++) {
        bool target = w[0] == TS_VM_jump || (w[0] == TS_VM_jump_if_not && i == 1);
        ts_text_format(t, target ? " %u" : " r%u", w[1 + i]);
      }
    }
    ts_text_char(t, '\n');
  }
}
