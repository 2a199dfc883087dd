/* See lib/shard/shard.h: what rules are made of, and which axes of a mesh split which
 * factor. */
#include "lib/shard/shard.h"
#include "lib/shard/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- for rules */
int ts_shard_factor(TsShard *s, TsFactorKind kind, int64_t size) {
  if (s->nfactor == TS_FACTORS) return TS_WHOLE;
  bool filled =
      kind == TS_FACTOR_max || kind == TS_FACTOR_min; /* which of nothing are errors */
  s->factor[s->nfactor] = (TsFactor){.size = size, .kind = kind, .filled = filled};
  return s->nfactor++;
}

static bool belongs(const TsShard *s, int64_t size, int f) {
  if (f == TS_WHOLE || (size == 1 && s->factor[f].size != 1)) return false;
  return s->factor[f].size == size || (s->factor[f].size > 0 && size % s->factor[f].size == 0);
}

void ts_shard_in(TsShard *s, int i, int d, int f) {
  const TsMeta *m = i < s->nin ? s->in[i] : NULL;
  if (m && d < 0) d += m->ndim;
  if (m && belongs(s, m->dim[d], f)) s->in_axis[i][d] = (int8_t)f;
}

void ts_shard_out(TsShard *s, int o, int d, int f) {
  if (o < s->nout && d < 0) d += s->out[o].ndim;
  if (o < s->nout && belongs(s, s->out[o].dim[d], f)) s->out_axis[o][d] = (int8_t)f;
}

int ts_shard_along(TsShard *s, int i, int di, int o, int d_o) {
  const TsMeta *m = s->in[i];
  int f = ts_shard_factor(s, TS_FACTOR_along, m->dim[di < 0 ? di + m->ndim : di]);
  ts_shard_in(s, i, di, f);
  ts_shard_out(s, o, d_o, f);
  return f;
}

static int attr_index(const TsShard *s, const char *name) {
  const TsOpInfo *o = ts_op_info(s->op);
  size_t n = strlen(name);
  for (int i = 0; i < o->nattr; i++)
    if ((size_t)o->attr[i].namelen == n && !memcmp(o->attr[i].name, name, n)) return i;
  TS_BUG("%s has no option %s", o->name, name);
}

const TsAttr *ts_shard_attr(const TsShard *s, const char *name) {
  return &s->attr[attr_index(s, name)];
}

TsAttr *ts_shard_own(const TsShard *s, TsShardPart *part, const char *name) {
  return &part->attr[attr_index(s, name)];
}

int ts_shard_axis_of(const TsShard *s, const char *name, int ndim) {
  int64_t axis = ts_shard_attr(s, name)->i;
  return (int)(axis < 0 ? axis + ndim : axis);
}

void ts_shard_whole(TsShard *s) { (void)s; }

/* Input axes that are stretched are the same for all parts. */
void ts_shard_pointwise(TsShard *s) {
  for (int d = 0; d < s->out[0].ndim; d++) {
    int f = ts_shard_factor(s, TS_FACTOR_along, s->out[0].dim[d]), back = d - s->out[0].ndim;
    for (int o = 0; o < s->nout; o++) ts_shard_out(s, o, back, f);
    for (int i = 0; i < s->nin; i++)
      if (s->in[i] && s->in[i]->ndim >= -back) ts_shard_in(s, i, back, f);
  }
}

void ts_shard_others(TsShard *s) {
  int ndim = s->in[0]->ndim, axis = ndim ? ts_shard_axis_of(s, "axis", ndim) : 0;
  for (int d = 0; d < ndim; d++) {
    if (d == axis) continue;
    int f = ts_shard_factor(s, TS_FACTOR_along, s->in[0]->dim[d]);
    for (int i = 0; i < s->nin; i++)
      if (s->in[i] && s->in[i]->ndim == ndim) ts_shard_in(s, i, d, f);
    for (int o = 0; o < s->nout; o++)
      if (s->out[o].ndim == ndim) ts_shard_out(s, o, d, f);
  }
}

/* A word that does not fit was an error when the call was inferred. */
void ts_shard_reshard(TsShard *s) {
  const TsLayout *l = s->in[0]->layout ? ts_layout_of(s->in[0]) : NULL;
  if (l)
    s->forced = ts_layout_parse(l->mesh, s->in[0]->ndim, ts_shard_attr(s, "spec")->str,
                                l->leaves, "reshard", s->err);
}

void ts_shard_besides(TsShard *s) {
  const TsOpInfo *o = ts_op_info(s->op);
  const TsAttr *axes = NULL;
  unsigned whole = 0;
  for (int i = 0; i < o->nattr; i++)
    if (!strncmp(o->attr[i].name, "axes:", 5) || !strncmp(o->attr[i].name, "axis:", 5))
      axes = &s->attr[i];
  if (axes->type == TS_ATTR_none || !s->in[0]->ndim) return;
  for (int i = 0; i < axes->n; i++)
    whole |= 1u << (axes->ints[i] < 0 ? axes->ints[i] + s->in[0]->ndim : axes->ints[i]);
  for (int d = 0; d < s->in[0]->ndim; d++)
    if (!(whole >> d & 1)) ts_shard_along(s, 0, d, 0, d);
}

void ts_shard_kept(TsShard *s) {
  for (int d = 0; d < s->in[0]->ndim && d < s->out[0].ndim; d++)
    if (s->in[0]->dim[d] == s->out[0].dim[d]) ts_shard_along(s, 0, d, 0, d);
}

/* ---- solving
 * A proposal for a factor: the mesh axes that split an operand's axis of it. */
typedef struct Proposal {
  int f, input;
  uint8_t naxis, axis[TS_MESH_AXES];
  int leaves;
  int64_t block;
  double bytes; /* of the operands that lie so */
} Proposal;

/* Pieces of the factor are pieces of this axis, whose elements it is the outer part of. */
static bool aligned(int64_t dim, int64_t size, int pieces, int leaves) {
  if (dim == size) return true;
  for (int k = 0; k < pieces; k++)
    if (ts_layout_cut(dim, pieces, leaves, k) !=
        ts_layout_cut(size, pieces, leaves, k) * (dim / size))
      return false;
  return true;
}

static bool all_aligned(const TsShard *s, const Proposal *p, int pieces) {
  int64_t size = s->factor[p->f].size;
  for (int i = 0; i < s->nin; i++)
    for (int d = 0; s->in[i] && d < s->in[i]->ndim; d++)
      if (s->in_axis[i][d] == p->f && (!aligned(s->in[i]->dim[d], size, pieces, p->leaves) ||
                                       (p->block && s->in[i]->dim[d] != size)))
        return false;
  for (int o = 0; o < s->nout; o++)
    for (int d = 0; d < s->out[o].ndim; d++)
      if (s->out_axis[o][d] == p->f && (!aligned(s->out[o].dim[d], size, pieces, p->leaves) ||
                                        (p->block && s->out[o].dim[d] != size)))
        return false;
  return true;
}

/* Pieces that are dealt out have no start, and are no leaves. */
static bool takes(const TsShard *s, const Proposal *p, const TsMesh *m) {
  int pieces = 1;
  if (p->f == TS_WHOLE) return false;
  const TsFactor *f = &s->factor[p->f];
  if (p->block && (s->local || f->kind != TS_FACTOR_along)) return false;
  for (int i = 0; i < p->naxis; i++) pieces *= m->size[p->axis[i]];
  if (f->filled && f->size < (p->leaves > pieces ? p->leaves : pieces)) return false;
  return all_aligned(s, p, pieces);
}

static bool same_way(const Proposal *a, const Proposal *b) {
  return a->naxis == b->naxis && a->leaves == b->leaves && a->block == b->block &&
         !memcmp(a->axis, b->axis, a->naxis);
}

/* a splits further what b splits. */
static bool goes_on(const Proposal *a, const Proposal *b) {
  return a->naxis > b->naxis && a->leaves == b->leaves && a->block == b->block &&
         !memcmp(a->axis, b->axis, b->naxis);
}

/* Operands split a factor that is summed over by an axis of q: the sum is scattered along
 * it. */
static bool is_summed(const TsShard *s, const Proposal *q) {
  for (int i = 0; i < s->nin; i++) {
    const TsLayout *l = s->in[i] ? ts_layout_of(s->in[i]) : NULL;
    for (int d = 0; l && d < l->ndim; d++) {
      if (s->in_axis[i][d] == TS_WHOLE) continue;
      TsFactorKind kind = s->factor[s->in_axis[i][d]].kind;
      if (kind != TS_FACTOR_sum && kind != TS_FACTOR_one) continue;
      for (int k = 0; k < l->naxis[d]; k++)
        if (memchr(q->axis, l->axis[d][k], q->naxis)) return true;
    }
  }
  return false;
}

/* How the program wants the first result to lie comes before all operands. */
static int wanted(const TsShard *s, const TsMesh *m, Proposal *p) {
  const TsLayout *l = s->want;
  int n = 0;
  if (l->mesh != m || l->ndim != s->out[0].ndim) return 0;
  for (int d = 0; d < l->ndim; d++) {
    if (!l->naxis[d]) continue;
    Proposal *q = &p[n];
    *q = (Proposal){.f = s->out_axis[0][d],
                    .input = -1,
                    .naxis = l->naxis[d],
                    .leaves = l->leaves,
                    .block = l->block[d],
                    .bytes = 0x1p80};
    memcpy(q->axis, l->axis[d], l->naxis[d]);
    n += takes(s, q, m) && !is_summed(s, q);
  }
  return n;
}

/* Blocks are not split, so the rules of rows that read them leave those whole; other rows move
 * them. */
static bool has_blocks(const TsShard *s) {
  bool any = false;
  for (int i = 0; i < s->nin && !ts_op_info(s->op)->stored; i++)
    any |= s->in[i] && ts_dtype_in_blocks(s->in[i]->dtype);
  for (int o = 0; o < s->nout; o++) any |= ts_dtype_in_blocks(s->out[o].dtype);
  return any;
}

/* A step of an optimiser is done where its parameter and states are stored, wherever the
 * gradient is. */
static bool is_update(const TsShard *s) { return ts_op_info(s->op)->shard == ts_shard_step; }

/* Room for what collect finds at most. */
static Proposal *room_for_all(const TsShard *s) {
  size_t n = 2 + (s->want ? s->want->ndim : 0);
  for (int i = 0; i < s->nin; i++) n += s->in[i] ? s->in[i]->ndim : 0;
  return malloc(sizeof(Proposal) * n);
}

/* Axes of the mesh that split what is needed whole go on splitting the factor of which the rule
 * says so. */
static int spilled(const TsShard *s, const TsMesh *m, Proposal *p) {
  int i = s->spilled, f = s->spill - 1, pieces = 1;
  const TsLayout *l = s->in[i] ? ts_layout_of(s->in[i]) : NULL;
  if (!l || s->factor[f].kind != TS_FACTOR_along) return 0;
  *p = (Proposal){
      .f = f, .input = i, .leaves = l->leaves, .bytes = (double)ts_meta_nbytes(s->in[i])};
  for (int whole = 0; whole < 2; whole++) /* what splits the factor already comes first */
    for (int d = 0; d < l->ndim; d++)
      for (int k = 0; k < ts_layout_used(l, d); k++)
        if (s->in_axis[i][d] == (whole ? TS_WHOLE : f) && !(s->turns >> l->axis[d][k] & 1)) {
          if (l->block[d]) return 0;
          p->axis[p->naxis++] = l->axis[d][k], pieces *= m->size[l->axis[d][k]];
        }
  return p->naxis && s->factor[f].size >= pieces && (!p->leaves || p->leaves >= pieces) &&
         takes(s, p, m);
}

static int collect(const TsShard *s, const TsMesh *m, Proposal *p) {
  int n = 0;
  if (has_blocks(s)) return 0;
  if (s->spill) n = spilled(s, m, p);
  for (int i = 0; i < s->nin; i++) {
    const TsLayout *l = s->in[i] && !(i == 1 && is_update(s)) ? ts_layout_of(s->in[i]) : NULL;
    for (int d = 0; l && d < l->ndim; d++) {
      int naxis = is_update(s) ? l->naxis[d] : ts_layout_used(l, d);
      if (!naxis) continue;
      Proposal *q = &p[n];
      *q = (Proposal){.f = s->in_axis[i][d],
                      .input = i,
                      .naxis = (uint8_t)naxis,
                      .leaves = l->leaves,
                      .block = l->block[d],
                      .bytes = (double)ts_meta_nbytes(s->in[i])};
      memcpy(q->axis, l->axis[d], (size_t)naxis);
      n += takes(s, q, m);
    }
  }
  return n + (s->want ? wanted(s, m, p + n) : 0);
}

static void say(const TsMesh *m, const Proposal *p, char *text, size_t size) {
  size_t n = 0;
  for (int i = 0; i < p->naxis; i++)
    n += (size_t)snprintf(text + n, size - n, "%s%s", i ? "*" : "@", m->axis[p->axis[i]]);
}

static int undecided(const TsShard *s, const TsMesh *m, const Proposal *a, const Proposal *b) {
  char one[120], two[120], x[TS_META_TEXT], y[TS_META_TEXT];
  const TsOpInfo *o = ts_op_info(s->op);
  int last = o->nin - 1;
  say(m, a, one, sizeof one);
  say(m, b, two, sizeof two);
  ts_error_set(s->err, TS_ERR_layout, "%s: %s %s and %s %s are equally good: %s against %s",
               o->name, o->input[a->input < last ? a->input : last],
               ts_meta_text(s->in[a->input], x), o->input[b->input < last ? b->input : last],
               ts_meta_text(s->in[b->input], y), one, two);
  return ts_error_hint(
      s->err, "say which one moves: x:reshard(spec) before the call; or how the result lies: "
              "the option out = spec");
}

/* What is proposed in the same way for one factor counts together. */
static int merge(Proposal *p, int n) {
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) {
      if (p[j].f != p[i].f) continue;
      bool same = same_way(&p[i], &p[j]), further = goes_on(&p[j], &p[i]);
      if (!same && !further && !goes_on(&p[i], &p[j])) continue;
      double bytes = p[i].bytes + p[j].bytes;
      if (further) p[i] = p[j];
      p[i].bytes = bytes;
      p[j--] = p[--n];
    }
  return n;
}

static bool overlap(const Proposal *a, const Proposal *b) {
  for (int i = 0; i < a->naxis; i++)
    if (memchr(b->axis, a->axis[i], b->naxis)) return true;
  return a->f == b->f;
}

static int heaviest(const Proposal *p, int n) {
  int best = 0;
  for (int i = 1; i < n; i++)
    if (p[i].bytes > p[best].bytes) best = i;
  return best;
}

/* What lies at one place of an axis of the mesh stays there where nothing else is needed; sums
 * and draws are those of all devices. */
static const TsLayout *pinned(const TsShard *s) {
  const TsLayout *pin = NULL;
  bool all = ts_op_info(s->op)->cls != TS_CLASS_RANDOM && !s->forced;
  for (int f = 0; f < s->nfactor; f++) all &= s->factor[f].kind == TS_FACTOR_along;
  for (int i = 0; i < s->nin && all; i++) {
    const TsLayout *l = s->in[i] ? ts_layout_of(s->in[i]) : NULL;
    if (!l || (!ts_layout_pinned(l) && ts_meta_numel(s->in[i]) <= 1)) continue;
    if (!pin) pin = l;
    all = !memcmp(pin->pin, l->pin, sizeof l->pin);
  }
  return all && pin && ts_layout_pinned(pin) ? pin : NULL;
}

/* What is stored in pieces is brought together as what it is cast to, if that has fewer
 * bytes. */
static const TsLayout *stays_stored(const TsShard *s) {
  const TsLayout *l = s->op == TS_OP_cast && s->in[0] ? ts_layout_of(s->in[0]) : NULL;
  bool smaller = l && ts_meta_nbytes(&s->out[0]) < ts_meta_nbytes(s->in[0]);
  return smaller && l->stored && !ts_dtype_in_blocks(s->out[0].dtype) ? l : NULL;
}

/* The heaviest first; of the others what is left of the mesh. */
static int decide(TsShard *s, const TsMesh *m, Proposal *p, int n) {
  while (n) {
    int best = heaviest(p, n);
    Proposal won = p[best];
    p[best] = p[--n];
    for (int i = 0; i < n && !s->settles; i++)
      if (p[i].bytes == won.bytes && overlap(&p[i], &won) && p[i].input != won.input &&
          p[i].input >= 0 && won.input >= 0)
        return undecided(s, m, &won, &p[i]);
    bool fits = true; /* a layout has one number of leaves: what has another one is gathered */
    for (int i = 0; i < s->nfactor; i++)
      fits &= !s->factor[i].naxis || s->factor[i].leaves == won.leaves;
    if (!fits) continue;
    TsFactor *f = &s->factor[won.f];
    f->naxis = won.naxis, f->leaves = won.leaves, f->block = won.block;
    memcpy(f->axis, won.axis, won.naxis);
    for (int i = 0; i < n; i++)
      if (overlap(&p[i], &won)) p[i--] = p[--n];
  }
  return 0;
}

int ts_shard_solve(TsShard *s, const TsMesh *m) {
  if (s->op == TS_OP_reshard && !s->forced) return -1;
  s->pin = pinned(s);
  if (!s->forced && (s->forced = stays_stored(s))) return 0;
  Proposal *p = room_for_all(s);
  if (!p) return ts_error_memory(s->err);
  int failed = decide(s, m, p, merge(p, collect(s, m, p)));
  free(p);
  return failed;
}

/* ---- what follows */
static const TsLayout *lying(const TsShard *s, const TsMesh *m, const int8_t *axis, int ndim) {
  TsLayout l = {.mesh = m, .ndim = (uint8_t)ndim};
  for (int d = 0; d < ndim; d++) {
    if (axis[d] == TS_WHOLE) continue;
    const TsFactor *f = &s->factor[axis[d]];
    bool used = false; /* a matrix by its own transpose: the first axis has it */
    for (int e = 0; e < d; e++) used |= axis[e] == axis[d];
    if (!f->naxis || used) continue;
    l.naxis[d] = f->naxis, l.block[d] = f->block;
    memcpy(l.axis[d], f->axis, f->naxis);
    if (f->leaves) l.leaves = f->leaves;
  }
  if (s->pin) memcpy(l.pin, s->pin->pin, sizeof l.pin);
  return ts_layout_make(&l, s->err);
}

const TsLayout *ts_shard_needs(const TsShard *s, const TsMesh *m, int i) {
  if (s->forced && !i) return s->forced;
  return lying(s, m, s->in_axis[i], s->in[i]->ndim);
}

const TsLayout *ts_shard_gives(const TsShard *s, const TsMesh *m, int o) {
  if (s->forced) return s->forced;
  return lying(s, m, s->out_axis[o], s->out[o].ndim);
}

TsFactorKind ts_shard_combines(const TsShard *s, int o, uint8_t *axes) {
  TsFactorKind kind = TS_FACTOR_along;
  *axes = 0;
  for (int f = 0; f < s->nfactor; f++) {
    if (!s->factor[f].naxis || memchr(s->out_axis[o], f, s->out[o].ndim)) continue;
    kind = s->factor[f].kind;
    for (int i = 0; i < s->factor[f].naxis; i++) *axes |= (uint8_t)(1u << s->factor[f].axis[i]);
  }
  return kind;
}

int ts_shard_leaves(const TsShard *s, const TsMesh *m, int declared, int *f) {
  *f = -1;
  for (int i = 0; i < s->nfactor; i++) {
    const TsFactor *g = &s->factor[i];
    if (g->kind == TS_FACTOR_along || !g->size) continue;
    int pieces = 1;
    for (int a = 0; a < g->naxis; a++) pieces *= m->size[g->axis[a]];
    int leaves = g->leaves ? g->leaves : declared % pieces ? pieces : declared;
    if (pieces > 1 && !leaves) leaves = pieces;
    if (g->kind == TS_FACTOR_sum && !g->leaves &&
        ts_leaves_check(declared, pieces, "what is summed", s->err))
      return -1;
    if (pieces == 1 && g->kind != TS_FACTOR_sum) continue; /* in any order the same */
    if (leaves < 2) continue;
    *f = i;
    return leaves;
  }
  return 0;
}

TsOp ts_factor_operator(TsFactorKind kind) {
  static const TsOp by_kind[] = {
      [TS_FACTOR_sum] = TS_OP_add,         [TS_FACTOR_max] = TS_OP_maximum,
      [TS_FACTOR_min] = TS_OP_minimum,     [TS_FACTOR_any] = TS_OP_logical_or,
      [TS_FACTOR_all] = TS_OP_logical_and, [TS_FACTOR_one] = TS_OP_add};
  return by_kind[kind];
}

int ts_shard_axis(const TsShard *s, int o, int f) {
  for (int d = 0; d < s->out[o].ndim; d++)
    if (s->out_axis[o][d] == f) return d;
  return -1;
}

bool ts_shard_is_narrow(const TsMeta *m) {
  return !m->weak && ts_dtype_is((TsDtype)m->dtype, TS_KIND_F) &&
         ts_dtypes[m->dtype].nbytes < 4;
}

int ts_shard_leaf(const TsShard *s, const TsShardPart *part, int f, int leaves, int i,
                  TsShardPart *leaf) {
  int64_t size = s->factor[f].size;
  *leaf = *part;
  leaf->summand = true;
  leaf->start[f] = ts_layout_cut(size, leaves, leaves, i);
  leaf->count[f] = ts_layout_cut(size, leaves, leaves, i + 1) - leaf->start[f];
  if (s->attr) memcpy(leaf->attr, s->attr, sizeof *s->attr * ts_op_info(s->op)->nattr);
  return s->local ? s->local(s, leaf) : 0;
}

int ts_shard_part(const TsShard *s, const TsMesh *m, int p, TsShardPart *part) {
  for (int i = 0; i < s->nfactor; i++) {
    const TsFactor *f = &s->factor[i];
    part->start[i] = 0, part->count[i] = f->size;
    if (!f->naxis) continue;
    TsLayout l = {.mesh = m, .ndim = 1, .naxis = {f->naxis}, .leaves = f->leaves};
    memcpy(l.axis[0], f->axis, f->naxis);
    int pieces = ts_layout_pieces(&l, 0), k = ts_layout_piece(&l, p, 0);
    part->start[i] = ts_layout_cut(f->size, pieces, f->leaves, k);
    part->count[i] = ts_layout_cut(f->size, pieces, f->leaves, k + 1) - part->start[i];
    if (f->block) l.block[0] = f->block, part->count[i] = ts_layout_count(&l, 0, f->size, p);
  }
  part->summand = false;
  if (s->attr) memcpy(part->attr, s->attr, sizeof *s->attr * ts_op_info(s->op)->nattr);
  return s->local ? s->local(s, part) : 0;
}

/* ---- types */
enum { MOST_INPUTS = 1024 }; /* of concat */

static const char *mesh_text(const TsMesh *m, char *text, size_t size) {
  size_t n = 0;
  text[0] = 0;
  for (int a = 0; a < m->naxis && n < size; a++)
    n += (size_t)snprintf(text + n, size - n, "%s%s=%d", a ? " " : "", m->axis[a], m->size[a]);
  return text;
}

int ts_shard_two_meshes(TsError *err, const char *who, const char *what, const TsMeta *x,
                        const TsMeta *y) {
  char a[TS_META_TEXT], b[TS_META_TEXT], one[200], two[200];
  ts_error_set(err, TS_ERR_layout, "%s: %s lie on two meshes: %s over %s, %s over %s", who,
               what, ts_meta_text(x, a), mesh_text(ts_layout_of(x)->mesh, one, sizeof one),
               ts_meta_text(y, b), mesh_text(ts_layout_of(y)->mesh, two, sizeof two));
  return ts_error_hint(err, "x:reshard(spec, mesh) brings one to the mesh of the other");
}

int ts_shard_mesh(TsOp op, int nin, const TsMeta *const *in, const TsMesh **mesh,
                  TsError *err) {
  const TsMeta *first = NULL;
  *mesh = NULL;
  for (int i = 0; i < nin; i++) {
    const TsLayout *l = in[i] && in[i]->layout ? ts_layout_of(in[i]) : NULL;
    if (!l || l->mesh == *mesh) continue;
    if (*mesh) return ts_shard_two_meshes(err, ts_op_info(op)->name, "operands", first, in[i]);
    *mesh = l->mesh, first = in[i];
  }
  return 0;
}

int ts_shard_infer(TsInfer *inf) {
  const TsMesh *m;
  for (int i = 0; i < inf->nout; i++) inf->out[i].layout = 0;
  if (ts_shard_mesh(inf->op, inf->nin, inf->in, &m, inf->err)) return -1;
  if (!m) return 0;
  int8_t in_axis[MOST_INPUTS][TS_MAX_RANK];
  TS_ASSERT(inf->nin <= MOST_INPUTS);
  TsShard s = {.op = inf->op,
               .nin = inf->nin,
               .nout = inf->nout,
               .in = inf->in,
               .out = inf->out,
               .attr = inf->attr,
               .in_axis = in_axis,
               .want = inf->want,
               .settles = inf->settles,
               .err = inf->err};
  memset(in_axis, TS_WHOLE, sizeof *in_axis * (size_t)inf->nin);
  memset(s.out_axis, TS_WHOLE, sizeof s.out_axis);
  ts_op_info(inf->op)->shard(&s);
  if (ts_shard_solve(&s, m)) return -1;
  for (int i = 0; i < inf->nout; i++) {
    const TsLayout *l = ts_shard_gives(&s, m, i);
    if (!l) return -1;
    inf->out[i].layout = l->id;
  }
  return 0;
}
