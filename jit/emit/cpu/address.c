/* Where an access begins: pointer + sum of position times stride, taken apart by the loops in
 * which its terms change.
 *
 * What a loop does not change is computed before it, and constants are added last. LLVM selects
 * instructions block by block and looks at every addition of a block again and again, to the
 * depth of what it adds: addresses computed in full where they are used were a fifth of the
 * time that a normalisation of rows took to compile, and its loop computed them in full each
 * time. A pointer that comes from another block is a register, to which a constant is added for
 * free. */
#include "jit/emit/cpu/emit.h"

typedef LLVMValueRef V;

enum { TERMS = 12, DEEP = 8 };

typedef struct Term {
  V at, stride;
  int depth; /* of the loop that it changes in */
} Term;

typedef struct Address {
  Term term[TERMS];
  int n;
  int64_t constant; /* elements */
  V loose;          /* constants times strides that are no constants; or NULL */
} Address;

static bool known(V x, int64_t *value) {
  if (!LLVMIsAConstantInt(x)) return false;
  *value = LLVMConstIntGetSExtValue(x);
  return true;
}

static void add_constant(TsEmit *e, Address *a, int64_t c, V stride) {
  int64_t step;
  if (!c) return;
  if (known(stride, &step)) {
    a->constant = (int64_t)((uint64_t)a->constant + (uint64_t)c * (uint64_t)step);
    return;
  }
  V more = LLVMBuildMul(e->b, stride, ts_emit_i64(e, c), "");
  a->loose = a->loose ? LLVMBuildAdd(e->b, a->loose, more, "") : more;
}

static void add_term(TsEmit *e, Address *a, V at, V stride, int depth) {
  if (a->n == TERMS) ts_emit_fail(e, "a position of more than %d terms", TERMS);
  a->term[a->n++] = (Term){at, stride, depth};
}

/* The terms of a position; what an unrolled loop adds to its counter is among them. */
static void take_apart(TsEmit *e, Address *a, TsTileVal v, V stride, int deep) {
  const TsTileStmt *s = v->stmt;
  int64_t c;
  if (s && s->op == TS_OP_add && deep < DEEP && a->n < TERMS / 2) {
    take_apart(e, a, s->in[0], stride, deep + 1);
    take_apart(e, a, s->in[1], stride, deep + 1);
    return;
  }
  V x = ts_emit_scalar(e, v);
  while (LLVMIsAInstruction(x) && LLVMGetInstructionOpcode(x) == LLVMAdd &&
         known(LLVMGetOperand(x, 1), &c)) {
    add_constant(e, a, c, stride);
    x = LLVMGetOperand(x, 0);
  }
  if (known(x, &c))
    add_constant(e, a, c, stride);
  else
    add_term(e, a, x, stride, e->value[v->id].depth);
}

/* p plus the terms that change at this depth, at the builder's place. */
static V plus_terms(TsEmit *e, const Address *a, LLVMTypeRef elem, V p, int lo, int hi) {
  V sum = NULL;
  int64_t one;
  for (int i = 0; i < a->n; i++) {
    const Term *t = &a->term[i];
    if (t->depth < lo || t->depth > hi) continue;
    V x = known(t->stride, &one) && one == 1 ? t->at : LLVMBuildMul(e->b, t->at, t->stride, "");
    sum = sum ? LLVMBuildAdd(e->b, sum, x, "") : x;
  }
  return sum ? LLVMBuildGEP2(e->b, elem, p, &sum, 1, "") : p;
}

static bool same(const TsEmitBase *b, const Address *a, LLVMTypeRef elem, V p, int lo, int hi) {
  int n = 0;
  if (b->from != p || b->elem != elem) return false;
  for (int i = 0; i < a->n; i++) {
    if (a->term[i].depth < lo || a->term[i].depth > hi) continue;
    if (n == b->n || b->at[n] != a->term[i].at || b->stride[n] != a->term[i].stride)
      return false;
    n++;
  }
  return n == b->n;
}

/* The same before the loop; made once for all accesses in it that begin there. */
static V before_loop(TsEmit *e, TsEmitLoop *loop, const Address *a, LLVMTypeRef elem, V p,
                     int lo, int hi) {
  for (int i = 0; i < loop->nbase; i++)
    if (same(&loop->base[i], a, elem, p, lo, hi)) return loop->base[i].pointer;
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  LLVMMetadataRef line = LLVMGetCurrentDebugLocation2(e->b);
  LLVMPositionBuilderBefore(e->b, loop->entry);
  V made = plus_terms(e, a, elem, p, lo, hi);
  LLVMPositionBuilderAtEnd(e->b, here);
  LLVMSetCurrentDebugLocation2(e->b, line);
  if (loop->nbase == TS_EMIT_BASES) return made;
  TsEmitBase *b = &loop->base[loop->nbase];
  *b = (TsEmitBase){.from = p, .elem = elem, .pointer = made};
  for (int i = 0; i < a->n; i++) {
    if (a->term[i].depth < lo || a->term[i].depth > hi) continue;
    if (b->n == TS_TILE_RANK) return made;
    b->at[b->n] = a->term[i].at;
    b->stride[b->n++] = a->term[i].stride;
  }
  loop->nbase++;
  return made;
}

V ts_emit_address(TsEmit *e, TsTileVal memory, const TsTileVal *at, LLVMTypeRef elem) {
  Address a = {.n = 0};
  V *part = ts_emit_registers(e, memory), p = part[0];
  TsEmitLoop *loop[DEEP * 2];
  int depth = e->loop ? e->loop->depth : 0, from = e->value[memory->id].depth, lo = 0;
  for (int k = 0; k < memory->type.rank; k++) take_apart(e, &a, at[k], part[1 + k], 0);
  if (depth >= DEEP * 2) ts_emit_fail(e, "loops of depth %d", depth);
  for (TsEmitLoop *l = e->loop; l; l = l->outer) loop[l->depth] = l;
  if (memory->type.rank == 1) from = depth; /* a sum that all memories at this place share */
  for (int d = from; d < depth; lo = ++d) p = before_loop(e, loop[d + 1], &a, elem, p, lo, d);
  p = plus_terms(e, &a, elem, p, lo, depth);
  if (a.loose) p = LLVMBuildGEP2(e->b, elem, p, &a.loose, 1, "");
  if (!a.constant) return p;
  V by = ts_emit_i64(e, a.constant);
  return LLVMBuildGEP2(e->b, elem, p, &by, 1, "");
}
