/* A convolution as a kernel for a CPU, with pointwise rows before and behind it.
 *
 * A round makes some rows of a result for some of its maps (output channels). It lays out the
 * rows of the image that they see in memory of its own: padded, and whatever pointwise rows
 * come before the convolution done on the way. There a tap of the window is a distance:
 * elements of a result that lie side by side, rows of it included, see elements that lie side
 * by side. So a register tile is some maps times vectors of positions, each tap loads the
 * vectors from where they lie, and nothing is gathered into panels. What is computed beyond the
 * end of a row, where the padding is, is thrown away: a padded row is as long as the row and
 * its padding, so that is little. Rows and elements of a stride lie in planes of their own, as
 * many as the stride is long, so that neighbours in a result see neighbours again.
 *
 * Each element is one chain of fused multiply-adds over channels and the window in row-major
 * order, as in vm/exec/conv.c. Rejected: panels of columns as products have them (each
 * element of an image is written as often as the window has taps, and a tap of 2 loads and
 * 12 multiply-adds has room for loads that cross lines); a padded image made by a phase of
 * its own (a barrier, and the image leaves the second cache). */
#include "ir/sched/conv.h"

#include <string.h>

#include "ir/tile/position.h"
#include "ir/tile/product/product.h"

enum {
  MOST_WIDE = 1024, /* elements of a padded row */
  IMAGE = 1 << 20,  /* bytes of the image in a round, about */
  MOST_IMAGE = 8 << 20,
  SUMS = 1 << 17, /* of its sums */
  MOST_STRIDE = 4,
  MOST_TAPS = 64, /* whose planes differ: all stand in the code */
  LEAST_MAPS = 8,
  LEAST_WORK = 1 << 18, /* multiply-adds */
  SPAN = 256,           /* elements of a map in a round, about */
  MOST_MAPS = 96,
  ROUNDS = 4, /* of a thread at least, where there are so many rows */
};

/* ---- what can be one */
static int64_t largest(const TsAttr *a) {
  int64_t most = 0;
  for (int i = 0; i < a->n; i++)
    if (a->ints[i] > most) most = a->ints[i];
  return most;
}

static bool is_conv_op(int op) {
  return op == TS_OP_conv1d || op == TS_OP_conv2d || op == TS_OP_conv3d;
}

double ts_sched_conv_steps(const TsNode *n) {
  const TsMeta *w = &n->in[1]->meta;
  return (double)ts_meta_numel(&n->out[0].meta) * (double)ts_meta_numel(w) / (double)w->dim[0];
}

static TsVal input(const TsNode *n, int i) { return i < n->nin ? n->in[i] : NULL; }

static int word_of(const TsNode *conv, const char *word, size_t n) {
  static const struct {
    const char *name;
    int word, operand;
  } known[] = {{"none", TS_CONV_none, 0},         {"bias", TS_CONV_bias, 2},
               {"residual", TS_CONV_residual, 3}, {"relu", TS_OP_relu, 0},
               {"silu", TS_OP_silu, 0},           {"gelu", TS_OP_gelu_erf, 0}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strlen(known[i].name) != n || memcmp(known[i].name, word, n)) continue;
    bool missing = known[i].operand && !input(conv, known[i].operand);
    return missing ? TS_CONV_unknown : known[i].word;
  }
  return TS_CONV_unknown;
}

int ts_sched_conv_words(const TsNode *conv, int word[TS_CONV_WORDS]) {
  const TsAttr *text = &conv->attr[5];
  int n = 0, operands = 0, given = !!input(conv, 2) + !!input(conv, 3);
  if (text->type != TS_ATTR_str) {
    if (input(conv, 2)) word[n++] = TS_CONV_bias;
    if (input(conv, 3)) word[n++] = TS_CONV_residual;
    return n;
  }
  for (const char *w = text->str; *w;) {
    size_t len = strcspn(w, "_");
    int what = word_of(conv, w, len);
    bool operand = what == TS_CONV_bias || what == TS_CONV_residual;
    if (what == TS_CONV_unknown || n == TS_CONV_WORDS) return -1;
    for (int i = 0; operand && i < n; i++)
      if (word[i] == what) return -1;
    operands += operand;
    if (what != TS_CONV_none) word[n++] = what;
    w += len + (w[len] == '_');
  }
  return operands == given ? n : -1;
}

static bool same_type(const TsNode *n, TsDtype d) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] && n->in[i]->meta.dtype != d) return false;
  return n->out[0].meta.dtype == d;
}

bool ts_sched_is_conv(const TsNode *n) {
  if (!is_conv_op(n->op)) return false;
  const TsMeta *x = &n->in[0]->meta, *w = &n->in[1]->meta, *y = &n->out[0].meta;
  TsDtype d = (TsDtype)x->dtype;
  int word[TS_CONV_WORDS];
  if (ts_sched_conv_words(n, word) < 0 || n->attr[3].i != 1 || n->attr[4].i == 1) return false;
  if ((d != TS_DT_f32 && d != TS_DT_f64) || !same_type(n, d)) return false;
  const TsAttr *pad = &n->attr[1];
  int64_t taps = 1, wide = x->dim[x->ndim - 1] + 2 * pad->ints[pad->n - 1];
  for (int i = 2; i < w->ndim; i++) taps *= w->dim[i];
  int64_t stride = largest(&n->attr[0]);
  if (stride > MOST_STRIDE || (stride > 1 && taps > MOST_TAPS)) return false;
  return taps > 1 && wide <= MOST_WIDE && w->dim[0] >= LEAST_MAPS && ts_meta_numel(y) > 0 &&
         ts_sched_conv_steps(n) >= LEAST_WORK;
}

const TsNode *ts_sched_conv_of(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (is_conv_op(g->node[i]->op)) return g->node[i];
  return NULL;
}

static bool same_sizes(const TsMeta *a, const TsMeta *b) {
  return a->ndim == b->ndim && !memcmp(a->dim, b->dim, sizeof *a->dim * a->ndim);
}

bool ts_sched_conv_takes(const TsNode *conv, const TsNode *n) {
  return ts_sched_kind(n) == TS_GROUP_map && !ts_sched_draws(n) && n->nout == 1 &&
         same_sizes(&n->out[0].meta, &conv->in[0]->meta);
}

uint64_t ts_sched_conv_before(const TsGroup *g) {
  const TsNode *conv = ts_sched_conv_of(g);
  uint64_t in = 0;
  for (int i = g->nnode; conv && i-- > 0;) {
    const TsNode *n = g->node[i];
    bool read = conv->in[0]->node == n;
    for (int k = i + 1; k < g->nnode; k++)
      for (int j = 0; in >> k & 1 && j < g->node[k]->nin; j++)
        read |= g->node[k]->in[j] && g->node[k]->in[j]->node == n;
    if (read) in |= UINT64_C(1) << i;
  }
  return in;
}

/* ---- sizes */
static void list(const TsAttr *a, int nd, int64_t absent, int64_t out[3]) {
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - nd);
    out[i] = at < 0 ? absent : a->ints[a->n == 1 ? 0 : at];
  }
}

static void read_sizes(TsConvKernel *p) {
  const TsMeta *x = &p->x->meta, *w = &p->weights->meta, *y = &p->conv->out[0].meta;
  p->nd = x->ndim - 2;
  p->d = (TsDtype)x->dtype;
  p->images = x->dim[0], p->channels = x->dim[1], p->maps = w->dim[0];
  list(&p->conv->attr[0], p->nd, 1, p->stride);
  list(&p->conv->attr[1], p->nd, 0, p->before);
  list(&p->conv->attr[2], p->nd, 1, p->dilation);
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - p->nd);
    p->in[i] = at < 0 ? 1 : x->dim[2 + at];
    p->window[i] = at < 0 ? 1 : w->dim[2 + at];
    p->out[i] = at < 0 ? 1 : y->dim[2 + at];
  }
}

/* Rows and maps of a round: few maps where there would not be rounds for all threads. */
static void choose_round(TsConvKernel *p) {
  int64_t line = 64 / ts_dtypes[p->d].nbytes;
  int64_t threads = p->s->threads > 1 ? p->s->threads : 1;
  p->lanes = p->s->target->vector_bytes / ts_dtypes[p->d].nbytes;
  p->wide = ts_div_up(p->in[2] + 2 * p->before[2], p->stride[2]);
  int64_t most = SPAN / p->wide > 1 ? SPAN / p->wide : 1, size = ts_dtypes[p->d].nbytes;
  int64_t planes = p->window[0] * p->stride[1] * p->stride[2];
  int64_t halo = (p->window[1] - 1) * p->dilation[1] / p->stride[1];
  int64_t row = p->channels * planes * p->wide * size;
  while (most > 1 && (most + halo) * row > IMAGE) most--;
  const TsSchedChoice *c = &p->g->choice;
  if (c->rows) most = c->rows < p->out[1] ? c->rows : p->out[1];
  int64_t parts = ts_div_up(p->out[1], most), all = p->images * p->out[0] * parts;
  int64_t least = ts_div_up(ROUNDS * threads, all), pieces = ts_div_up(p->maps, MOST_MAPS);
  int64_t sums = ts_div_up(p->maps * most * p->wide * size, SUMS);
  p->rows = ts_div_up(p->out[1], parts);
  p->span = (p->rows - 1) * p->wide + p->out[2];
  ts_tile_product_registers(p->s->target, p->lanes, p->maps, p->span, c->high, &p->mr, &p->nv);
  if (pieces < sums) pieces = sums;
  if (pieces < least) pieces = least;
  p->some = ts_round_up(ts_div_up(p->maps, pieces), p->mr);
  if (c->columns) p->some = ts_round_up(c->columns < p->maps ? c->columns : p->maps, p->mr);
  p->span = ts_round_up(p->span, (int64_t)p->nv * p->lanes);
  p->high = p->rows + halo;
  /* Vectors that are taken apart reach beyond the last row of a plane. */
  p->plane = p->high * p->wide + (p->stride[2] > 1 ? p->lanes : 0);
  /* An odd number of lines from channel to channel: they would share the sets of the first
   * cache. */
  p->pitch = (ts_div_up(planes * p->plane, line) | 1) * line;
}

int64_t ts_sched_conv_step(const TsConvKernel *p, int axis, int64_t i) {
  int64_t at = i * p->dilation[axis];
  switch (axis) {
  case 0: return i * p->stride[1] * p->stride[2] * p->plane;
  case 1: return at % p->stride[1] * p->stride[2] * p->plane + at / p->stride[1] * p->wide;
  default: return at % p->stride[2] * p->plane + at / p->stride[2];
  }
}

/* ---- operands */
/* The nodes before or behind the convolution as a group that walks all axes of m, none merged. */
static int open_part(TsConvKernel *p, TsGroup *part, TsLower *l, const TsMeta *m, bool before) {
  uint64_t mask = ts_sched_conv_before(p->g);
  *part = (TsGroup){.kind = TS_GROUP_map, .index = p->g->index, .naxis = m->ndim};
  memcpy(part->axis, m->dim, sizeof *m->dim * m->ndim);
  part->node = ts_arena_alloc(&p->k->arena, sizeof *part->node * ((size_t)p->g->nnode + 1));
  if (!part->node) return ts_error_memory(p->err);
  for (int i = 0; i < p->g->nnode; i++)
    if (p->g->node[i] != p->conv && (mask >> i & 1) == before)
      part->node[part->nnode++] = p->g->node[i];
  if (!before) part->out = p->g->out, part->nout = p->g->nout;
  *l = (TsLower){.s = p->s, .g = part, .layout = p->layout, .arg = p->arg, .err = p->err};
  l->across = -1, l->one_size = true, l->k = p->k;
  if (ts_access_find(l)) return -1;
  l->space = (TsSpaceAxes){.naxis = part->naxis};
  memcpy(l->space.axis, part->axis, sizeof part->axis);
  for (int i = 0; i < l->naccess; i++)
    memcpy(l->access[i].moves, l->access[i].from, sizeof l->access[i].from);
  /* Its sums are a value of the group. */
  if (!before) part->node[part->nnode++] = p->conv;
  l->made =
      ts_arena_alloc(&p->k->arena, sizeof *l->made * (size_t)(part->nnode + 1) * TS_MAX_OUT);
  return l->made ? 0 : ts_error_memory(p->err);
}

static int moves_of(TsConvKernel *p, TsVal v, int64_t *moves) {
  TsSpaceAxes a = {.naxis = v->meta.ndim};
  int64_t stride[TS_MAX_RANK];
  memcpy(a.axis, v->meta.dim, sizeof *a.axis * v->meta.ndim);
  ts_sched_strides(p->layout, p->arg, v, stride);
  if (ts_space_strides(&a, &v->meta, &v->meta, stride, moves)) return 0;
  return ts_error_set(p->err, TS_ERR_value, "the axes of an operand do not lie evenly");
}

/* Images that no row of the group makes. */
static int plain_images(TsConvKernel *p) {
  TsAccess *a = &p->pre.access[p->pre.naccess++];
  *a = (TsAccess){.v = p->x};
  if (moves_of(p, p->x, a->from)) return -1;
  memcpy(a->moves, a->from, sizeof a->from);
  return 0;
}

static TsTileVal param(TsConvKernel *p, TsVal v, const char *name) {
  const TsMeta *m = &v->meta;
  TsTileType t = ts_tile_type(p->d, m->ndim, m->dim);
  int64_t moves[TS_TILE_RANK];
  if (moves_of(p, v, moves)) return NULL;
  ts_tile_set_strides(&t, moves);
  return ts_tile_param(p->k, v->name ? v->name : name, &t, false);
}

/* Of the words of its epilogue; the residual lies as what follows sees the result. */
static int word_operands(TsConvKernel *p) {
  TsVal bias = input(p->conv, 2), residual = input(p->conv, 3);
  TsAccess *a = &p->post.access[p->post.naccess];
  p->nword = ts_sched_conv_words(p->conv, p->word);
  if ((bias && ts_access_inside(&p->post, bias)) ||
      (residual && ts_access_inside(&p->post, residual)))
    return ts_error_set(p->err, TS_ERR_value,
                        "an operand of the epilogue is made in the group");
  if (bias && !(p->bias = param(p, bias, "bias"))) return -1;
  if (!residual) return 0;
  *a = (TsAccess){.v = residual};
  if (moves_of(p, residual, a->from)) return -1;
  memcpy(a->moves, a->from, sizeof a->from);
  p->residual = p->post.naccess++;
  return 0;
}

static int operands(TsConvKernel *p) {
  if (open_part(p, &p->first, &p->pre, &p->x->meta, true)) return -1;
  if (open_part(p, &p->last, &p->post, &p->conv->out[0].meta, false)) return -1;
  if (!p->first.nnode && plain_images(p)) return -1;
  if (p->pre.naccess + p->post.naccess + 3 > TS_SCHED_PARAMS)
    return ts_error_set(p->err, TS_ERR_value, "more operands than a kernel takes");
  ts_access_params(&p->pre);
  if (!(p->w = param(p, p->weights, "w")) || word_operands(p)) return -1;
  ts_access_params(&p->post);
  return 0;
}

/* ---- the rounds: maps innermost, then rows, planes, images */
static TsTileVal next_of(TsTileBuild *b, TsTileVal *r, int64_t n, int64_t step) {
  if (n == 1) return ts_tile_index(b, 0);
  TsTileVal by = ts_tile_index(b, n), digit = ts_tile_op2(b, TS_OP_mod, *r, by);
  *r = ts_tile_op2(b, TS_OP_floordiv, *r, by);
  return step == 1 ? digit : ts_tile_op2(b, TS_OP_mul, digit, ts_tile_index(b, step));
}

static TsTileVal local(TsConvKernel *p, int rank, const int64_t *dim) {
  TsTileType t = ts_tile_type(p->d, rank, dim);
  return ts_tile_alloc(&p->b, TS_SPACE_local, &t);
}

static int put_rounds(TsConvKernel *p) {
  int64_t pieces = ts_div_up(p->maps, p->some), parts = ts_div_up(p->out[1], p->rows);
  int64_t wide =
      TS_CONV_TOGETHER * (int64_t)p->lanes; /* what a vector may reach beyond the end */
  TsTileBuild *b = &p->b;
  p->k->ntile = 2;
  p->k->tile[0] = p->some, p->k->tile[1] = p->span;
  *b = ts_tile_build(p->k);
  b->line = ts_tile_place(p->k, ts_graph_where(p->conv));
  TsTileLoop loop =
      ts_tile_for(b, ts_tile_index(b, 0),
                  ts_tile_index(b, pieces * parts * p->out[0] * p->images), 1, true, 0, NULL);
  TsTileVal r = loop.i;
  p->map = next_of(b, &r, pieces, p->some);
  p->row = next_of(b, &r, parts, p->rows);
  p->depth = next_of(b, &r, p->out[0], 1);
  p->n = p->images > 1 ? r : ts_tile_index(b, 0);
  int64_t reach = p->span + (p->window[2] - 1) * p->dilation[2] + wide;
  if (p->stride[2] > 1)
    p->line =
        local(p, 1, (int64_t[]){ts_round_up(p->in[2] + wide * p->stride[2], p->stride[2])});
  p->image = local(p, 1, (int64_t[]){ts_round_up(p->channels * p->pitch + reach, p->lanes)});
  p->sum = local(p, 2, (int64_t[]){ts_round_up(p->some, p->mr), p->span + wide});
  ts_sched_conv_image(p);
  ts_sched_conv_sums(p);
  if (ts_sched_conv_end(p)) return -1;
  ts_tile_for_end(b, &loop, NULL, NULL);
  return p->k->failed ? ts_error_memory(p->err) : 0;
}

static int lower(TsConvKernel *p) {
  p->conv = ts_sched_conv_of(p->g);
  if (!p->conv || !p->s->target || p->g->nnode > 64)
    return ts_error_set(p->err, TS_ERR_value, "no convolution");
  p->x = p->conv->in[0], p->weights = p->conv->in[1];
  if (!(p->k = ts_tile_new(p->s->g->name))) return ts_error_memory(p->err);
  p->k->target = p->s->target->name;
  p->k->form = TS_FORM_explicit;
  p->k->marks = p->s->marks;
  read_sizes(p);
  choose_round(p);
  if (p->channels * p->pitch * ts_dtypes[p->d].nbytes > MOST_IMAGE)
    return ts_error_set(p->err, TS_ERR_value, "its images are too large for a thread");
  return operands(p) || put_rounds(p) ? -1 : 0;
}

static void values_of(const TsLower *l, bool written, TsSchedKernel *out, int *n) {
  for (int i = 0; i < l->naccess; i++)
    if (l->access[i].written == written) out->value[(*n)++] = l->access[i].v;
}

int ts_sched_lower_conv(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                        TsSchedKernel *out, TsError *err) {
  TsConvKernel p = {.s = s, .g = group, .layout = layout, .arg = arg, .err = err};
  int n = 0;
  if (lower(&p) || ts_tile_cse(p.k, err) < 0) {
    ts_tile_free(p.k);
    return -1;
  }
  *out = (TsSchedKernel){.tile = p.k, .function = s->g->name, .told = true};
  out->took = (TsSchedChoice){.rows = (int)p.rows, .columns = (int)p.some, .high = p.mr};
  values_of(&p.pre, false, out, &n);
  out->value[n++] = p.weights;
  if (p.bias) out->value[n++] = p.conv->in[2];
  values_of(&p.post, false, out, &n);
  values_of(&p.post, true, out, &n);
  return 0;
}
