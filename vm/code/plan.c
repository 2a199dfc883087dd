/* The memory plan: every register of a function gets a place before it runs.
 *
 * Values that leave are allocated in each run (fresh); views share the bytes of what they
 * look at; all else shares one slab. Instructions are walked in order with a list of the
 * slab's free ranges: a value takes the smallest range that holds it, where its last reader
 * stands the range returns. A pointwise result takes over the bytes of an operand of its
 * type that dies there. Against the optimum (a search; NP-hard) this loses little: the
 * printed plan has the least bytes that any order of places would need beside it. */
#include <stdlib.h>
#include <string.h>

#include "vm/code/bytecode.h"
#include "vm/code/fused.h"

enum { ALIGN = 64 };

typedef struct Range {
  int64_t at, nbytes;
} Range;

typedef struct Plan {
  TsCode *code;
  uint32_t *root; /* by register: whose bytes it has */
  Range *free;    /* ascending, never touching */
  int nfree, capfree;
  int64_t end;         /* of what was ever handed out */
  int *by_last, *next; /* roots by their last instruction: chains */
} Plan;

static int64_t room_of(const TsReg *r) {
  return (ts_meta_nbytes(&r->meta) + ALIGN - 1) & ~(int64_t)(ALIGN - 1);
}

/* ---- free ranges */
static int64_t take(Plan *p, int64_t nbytes) {
  int best = -1;
  for (int i = 0; i < p->nfree; i++)
    if (p->free[i].nbytes >= nbytes && (best < 0 || p->free[i].nbytes < p->free[best].nbytes))
      best = i;
  if (best < 0 && p->nfree &&
      p->free[p->nfree - 1].at + p->free[p->nfree - 1].nbytes == p->end) {
    Range r = p->free[--p->nfree]; /* the last range grows */
    p->end = r.at + nbytes;
    return r.at;
  }
  if (best < 0) {
    p->end += nbytes;
    return p->end - nbytes;
  }
  Range *r = &p->free[best];
  int64_t at = r->at;
  r->at += nbytes;
  r->nbytes -= nbytes;
  if (!r->nbytes) memmove(r, r + 1, sizeof *r * (size_t)(--p->nfree - best));
  return at;
}

static bool give(Plan *p, int64_t at, int64_t nbytes) {
  int i = p->nfree;
  if (p->nfree + 1 > p->capfree) {
    int cap = p->capfree ? p->capfree * 2 : 64;
    Range *more = realloc(p->free, sizeof *more * (size_t)cap);
    if (!more) return false;
    p->free = more;
    p->capfree = cap;
  }
  while (i > 0 && p->free[i - 1].at > at) i--;
  bool left = i > 0 && p->free[i - 1].at + p->free[i - 1].nbytes == at;
  bool right = i < p->nfree && at + nbytes == p->free[i].at;
  if (left && right) {
    p->free[i - 1].nbytes += nbytes + p->free[i].nbytes;
    memmove(&p->free[i], &p->free[i + 1], sizeof *p->free * (size_t)(--p->nfree - i));
  } else if (left) {
    p->free[i - 1].nbytes += nbytes;
  } else if (right) {
    p->free[i].at = at;
    p->free[i].nbytes += nbytes;
  } else {
    memmove(&p->free[i + 1], &p->free[i], sizeof *p->free * (size_t)(p->nfree++ - i));
    p->free[i] = (Range){at, nbytes};
  }
  return true;
}

/* ---- lifetimes */
static void find_lifetimes(Plan *p) {
  TsCode *code = p->code;
  for (int r = 0; r < code->nreg; r++) {
    TsReg *g = &code->reg[r];
    g->def = g->last = -1;
    p->root[r] =
        g->kind == TS_REG_view || g->kind == TS_REG_into ? p->root[g->of] : (uint32_t)r;
  }
  for (int t = 0; t < code->ninstr; t++) {
    const TsInstr *i = &code->instr[t];
    const uint32_t *v = code->operand + i->at;
    for (uint32_t k = 0; k < i->nin + i->nout; k++) {
      if (v[k] == TS_CODE_NONE) continue;
      if (k >= i->nin) code->reg[v[k]].def = t;
      code->reg[v[k]].last = t;
      code->reg[p->root[v[k]]].last = t;
    }
  }
  for (int i = 0; i < code->nresult; i++)
    code->reg[code->result[i]].last = code->reg[p->root[code->result[i]]].last = code->ninstr;
}

/* What leaves cannot live in the slab. */
static void mark_results(Plan *p) {
  for (int i = 0; i < p->code->nresult; i++) {
    TsReg *g = &p->code->reg[p->root[p->code->result[i]]];
    if (g->kind == TS_REG_slab) g->kind = TS_REG_fresh;
  }
}

/* ---- one instruction after the other */
static bool same_type(const TsMeta *a, const TsMeta *b) {
  return a->dtype == b->dtype && ts_meta_same_shape(a, b);
}

/* Output k of a kernel over an operand that dies there; one that is handed on is gone. */
static bool fused_in_place(Plan *p, int t, const TsInstr *i, uint32_t k) {
  TsCode *code = p->code;
  const uint32_t *v = code->operand + i->at;
  uint32_t root[TS_SCHED_PARAMS], out = v[i->nin + k];
  for (uint32_t j = 0; j < i->nin; j++) root[j] = p->root[v[j]];
  for (uint32_t j = 0; j < i->nin; j++) {
    TsReg *g = &code->reg[v[j]];
    bool dies = g->kind == TS_REG_slab && g->last == t && g->of == TS_CODE_NONE;
    if (!dies || !same_type(&g->meta, &code->reg[out].meta)) continue;
    if (!ts_fused_over(code->fused[i->sub], (int)k, (int)j, root)) continue;
    code->reg[out].offset = g->offset;
    g->of = out;
    return true;
  }
  return false;
}

/* The operand whose bytes the result may overwrite: nothing else of the instruction may
 * look at them in another way. */
static bool in_place(Plan *p, int t, const TsInstr *i, uint32_t out) {
  TsCode *code = p->code;
  const uint32_t *v = code->operand + i->at;
  if (i->op >= TS_OP_COUNT || i->nout != 1 ||
      ts_op_info((TsOp)i->op)->cls != TS_CLASS_POINTWISE)
    return false;
  for (uint32_t k = 0; k < i->nin; k++) {
    if (v[k] == TS_CODE_NONE) continue;
    TsReg *g = &code->reg[v[k]];
    if (g->kind != TS_REG_slab || g->last != t || !same_type(&g->meta, &code->reg[out].meta))
      continue;
    bool alone = true;
    for (uint32_t j = 0; j < i->nin; j++)
      alone &= v[j] == TS_CODE_NONE || v[j] == v[k] || p->root[v[j]] != v[k];
    if (!alone) continue;
    code->reg[out].offset = g->offset;
    g->of = out; /* its range is handed on */
    return true;
  }
  return false;
}

static bool release(Plan *p, int t, int64_t *live) {
  for (int r = p->by_last[t]; r >= 0; r = p->next[r]) {
    TsReg *g = &p->code->reg[r];
    if (g->of != TS_CODE_NONE) continue;
    *live -= room_of(g);
    if (room_of(g) && !give(p, g->offset, room_of(g))) return false;
  }
  return true;
}

static bool place_all(Plan *p) {
  TsCode *code = p->code;
  int64_t live = 0;
  for (int t = 0; t < code->ninstr; t++) {
    const TsInstr *i = &code->instr[t];
    for (uint32_t k = 0; k < i->nout; k++) {
      uint32_t out = code->operand[i->at + i->nin + k];
      TsReg *g = &code->reg[out];
      if (g->kind != TS_REG_slab) continue;
      if (i->op == TS_VM_fused ? fused_in_place(p, t, i, k) : in_place(p, t, i, out)) continue;
      g->offset = room_of(g) ? take(p, room_of(g)) : 0;
      live += room_of(g);
      code->sum_nbytes += room_of(g);
    }
    if (live > code->bound_nbytes) code->bound_nbytes = live;
    if (!release(p, t, &live)) return false;
  }
  code->slab_nbytes = p->end;
  return true;
}

static void chain_by_last(Plan *p) {
  for (int t = 0; t < p->code->ninstr; t++) p->by_last[t] = -1;
  for (int r = p->code->nreg; r-- > 0;) {
    const TsReg *g = &p->code->reg[r];
    if (g->kind != TS_REG_slab || g->last < 0 || g->last >= p->code->ninstr) continue;
    p->next[r] = p->by_last[g->last];
    p->by_last[g->last] = r;
  }
}

int ts_code_plan(TsCode *code, TsError *err) {
  Plan p = {.code = code};
  size_t nreg = (size_t)code->nreg + 1;
  p.root = malloc(nreg * sizeof *p.root);
  p.next = malloc(nreg * sizeof *p.next);
  p.by_last = malloc(((size_t)code->ninstr + 1) * sizeof *p.by_last);
  bool whole = p.root && p.next && p.by_last;
  if (whole) {
    find_lifetimes(&p);
    mark_results(&p);
    chain_by_last(&p);
    whole = place_all(&p);
  }
  free(p.root);
  free(p.next);
  free(p.by_last);
  free(p.free);
  if (!whole) return ts_error_memory(err);
  code->planned = true;
  for (int i = 0; i < code->nsub; i++)
    if (!code->sub[i]->planned && ts_code_plan(code->sub[i], err)) return -1;
  return 0;
}
