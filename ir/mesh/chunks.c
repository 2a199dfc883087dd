/* See ir/mesh/chunks.h. No node says to which part of a model it belongs; but parameters do, by their
 * names, and nodes follow from what they need. Of the backward pass that is what the forward pass
 * has kept: a node stands in the last chunk, not behind that of the gradients that it gets, in
 * which all of it is. */
#include "ir/mesh/chunks.h"

#include <stdlib.h>
#include <string.h>

#define SEEDED (UINT64_C(1) << 63) /* of a parameter, beside the chunks that have it */

typedef struct Finder {
  TsChunks *c;
  const TsGraph *g;
  const unsigned char *live;
  bool *after,
      *feeds; /* by node: it depends on the backward pass; that pass, or a result, on it */
  uint64_t *present; /* by node, then by parameter: chunks that have what it gives */
  int nchunk;
} Finder;

/* Chunks that are only counted, more than run, are in no set: the backward pass is not asked for then. */
static uint64_t bit(int chunk) { return chunk < TS_CHUNKS ? UINT64_C(1) << chunk : 0; }

static bool is_small(TsVal v) { return ts_meta_numel(&v->meta) <= 1; }

static int param_of(const Finder *f, TsVal v) {
  for (int i = 0; v->node->op == TS_NODE_param && i < f->g->nparam; i++)
    if (f->g->param[i] == v) return i;
  return -1;
}

static int chunk_of(const Finder *f, TsVal v) {
  int p = param_of(f, v);
  return p >= 0 ? f->c->param[p] : f->c->chunk[v->node->id];
}

static uint64_t *present_of(Finder *f, TsVal v) {
  int p = param_of(f, v);
  return &f->present[p >= 0 ? f->g->nnode + p : (int)v->node->id];
}

static bool counts(const Finder *f, const TsNode *n) {
  return f->live[n->id] && n->op < TS_OP_COUNT;
}

/* ---- phases */
/* Numbers that are found in the batch alone, as how many rows count, would hold up all micro-batches if
 * each of these found its own in its turn: they are found first, with what they need. */
static void find_data(Finder *f) {
  const TsGraph *g = f->g;
  bool *alone = f->after; /* what is found in the batch alone */
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    alone[i] = n->op == TS_NODE_number || (n->op < TS_OP_COUNT && !n->backward && n->nin > 0 &&
                                           ts_op_info((TsOp)n->op)->cls != TS_CLASS_RANDOM);
    for (int k = 0; k < n->nin; k++)
      if (n->in[k] && n->in[k]->node->op == TS_NODE_param)
        alone[i] &= !g->bound[param_of(f, n->in[k])];
      else if (n->in[k])
        alone[i] &= alone[n->in[k]->node->id];
  }
  for (int i = g->nnode; i-- > 0;) {
    const TsNode *n = g->node[i];
    bool number = counts(f, n) && alone[i] && is_small((TsVal)&n->out[0]);
    if (!(number || f->c->phase[i] == TS_PHASE_data) || !alone[i] || !counts(f, n)) {
      f->c->phase[i] = TS_PHASE_forward;
      continue;
    }
    f->c->phase[i] = TS_PHASE_data;
    for (int k = 0; k < n->nin; k++)
      if (n->in[k]) f->c->phase[n->in[k]->node->id] = TS_PHASE_data;
  }
}

static void find_phases(Finder *f) {
  const TsGraph *g = f->g;
  for (int i = 0; i < g->nnode; i++) f->c->phase[i] = TS_PHASE_forward;
  find_data(f);
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    f->after[i] = n->backward;
    for (int k = 0; k < n->nin; k++) f->after[i] |= n->in[k] && f->after[n->in[k]->node->id];
  }
  for (int i = 0; i < g->nresult; i++) f->feeds[g->result[i]->node->id] = true;
  for (int i = g->nnode; i-- > 0;) {
    const TsNode *n = g->node[i];
    if (!counts(f, n)) continue;
    bool feeds = f->feeds[i] || n->backward;
    for (int k = 0; k < n->nin && feeds; k++)
      if (n->in[k]) f->feeds[n->in[k]->node->id] = true;
    f->feeds[i] = feeds;
  }
  for (int i = 0; i < g->nnode; i++) {
    bool inner = false; /* a gradient of a gradient: the backward pass goes on behind it */
    for (int k = i + 1; f->after[i] && !g->node[i]->backward && k < g->nnode && !inner; k++)
      for (int a = 0; a < g->node[k]->nin && g->node[k]->backward; a++)
        inner |= g->node[k]->in[a] && g->node[k]->in[a]->node == g->node[i];
    if (g->node[i]->backward || inner)
      f->c->phase[i] = TS_PHASE_backward;
    else if (f->after[i] || !f->feeds[i])
      f->c->phase[i] = TS_PHASE_update;
  }
}

/* ---- chunks */
static void forward(Finder *f, const TsNode *n) {
  int chunk = -1;
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] && chunk_of(f, n->in[k]) > chunk) chunk = chunk_of(f, n->in[k]);
  f->c->chunk[n->id] = chunk;
}

/* Views of parameters are taken where they are read: so it is the parameter that is sent, once. */
static void move_views(Finder *f) {
  const TsGraph *g = f->g;
  for (int i = g->nnode; i-- > 0;) {
    const TsNode *n = g->node[i];
    int least = INT32_MAX;
    if (!counts(f, n) || !ts_node_is_view(n) || f->c->phase[i] > TS_PHASE_forward) continue;
    TsVal base = n->in[0];
    while (base->node->op < TS_OP_COUNT && base->node->nin == 1 && base->node->in[0])
      base = base->node->in[0];
    if (base->node->op != TS_NODE_param || !g->bound[param_of(f, base)]) continue;
    for (int k = i + 1; k < g->nnode; k++)
      for (int x = 0; x < g->node[k]->nin && f->c->phase[k] <= TS_PHASE_forward; x++)
        if (g->node[k]->in[x] && g->node[k]->in[x]->node == n && counts(f, g->node[k]) &&
            f->c->chunk[k] >= 0 && f->c->chunk[k] < least)
          least = f->c->chunk[k];
    if (least < INT32_MAX) f->c->chunk[i] = least;
  }
}

/* What a node gives is in its chunk, and in those that read it. */
static void find_present(Finder *f) {
  for (int i = 0; i < f->g->nnode; i++) {
    const TsNode *n = f->g->node[i];
    int chunk = f->c->chunk[i];
    if (!counts(f, n) || f->c->phase[i] > TS_PHASE_forward || chunk < 0) continue;
    f->present[i] |= bit(chunk);
    for (int k = 0; k < n->nin; k++)
      if (n->in[k]) *present_of(f, n->in[k]) |= bit(chunk);
  }
}

static bool is_gradient(const Finder *f, TsVal v) {
  return v->node->op < TS_OP_COUNT && f->c->phase[v->node->id] == TS_PHASE_backward;
}

static void backward(Finder *f, const TsNode *n) {
  int most = -1, own = -1;
  uint64_t there = ~UINT64_C(0);
  for (int k = 0; k < n->nin; k++) {
    int chunk = n->in[k] ? chunk_of(f, n->in[k]) : -1;
    if (chunk < 0 || is_small(n->in[k])) continue;
    if (is_gradient(f, n->in[k]))
      most = most < 0 || chunk < most ? chunk : most;
    else
      there &= *present_of(f, n->in[k]), own = chunk > own ? chunk : own;
  }
  int last = f->nchunk < TS_CHUNKS ? f->nchunk - 1 : TS_CHUNKS - 1;
  int limit = most < 0 || most > last ? last : most, chunk = -1;
  for (int c = 0; c <= limit; c++)
    if (there >> c & 1 && ~there) chunk = c;
  if (!~there) chunk = most; /* it needs nothing of the forward pass */
  if (chunk < 0 && own >= 0) chunk = own < limit ? own : limit;
  f->c->chunk[n->id] = chunk;
}

/* Where a parameter is that is part of it, else where the largest operand is. */
static void update(Finder *f, const TsNode *n) {
  double best = -1;
  int chunk = -1;
  for (int k = 0; k < n->nin; k++) {
    int c = n->in[k] ? chunk_of(f, n->in[k]) : -1;
    if (c < 0) continue;
    double weight =
        (double)ts_meta_numel(&n->in[k]->meta) * (param_of(f, n->in[k]) >= 0 ? 1.5 : 1);
    if (weight > best) best = weight, chunk = c;
  }
  f->c->chunk[n->id] = chunk;
}

/* By node: the least and the largest chunk of those that read it. */
static void note_readers(const Finder *f, const TsNode *n, int *least, int *most) {
  int chunk = f->c->chunk[n->id];
  for (int k = 0; k < n->nin && chunk >= 0; k++) {
    int of = n->in[k] ? (int)n->in[k]->node->id : -1;
    if (of >= 0 && chunk < least[of]) least[of] = chunk;
    if (of >= 0 && chunk > most[of]) most[of] = chunk;
  }
}

static void readers(const Finder *f, int *least, int *most) {
  for (int i = 0; i < f->g->nnode; i++) least[i] = INT32_MAX, most[i] = -1;
  for (int i = 0; i < f->g->nnode; i++)
    if (counts(f, f->g->node[i])) note_readers(f, f->g->node[i], least, most);
}

/* A gradient that only earlier chunks read is made there, if what it needs is there too, or no larger:
 * so less is sent. */
static bool goes_down(Finder *f, const TsNode *n, int to, const int *least) {
  int64_t more = 0;
  for (int k = 0; k < n->nin; k++) {
    TsVal v = n->in[k];
    if (!v || is_small(v) || chunk_of(f, v) < 0) continue;
    if (!is_gradient(f, v)) {
      if (!(*present_of(f, v) & bit(to))) return false;
    } else if (chunk_of(f, v) > to && least[v->node->id] > to) {
      more += ts_meta_nbytes(&v->meta);
    }
  }
  return more <= ts_meta_nbytes(&n->out[0].meta);
}

/* From the last node on, so that those who read a gradient have gone before it. */
static void settle(Finder *f, int *least, int *most) {
  const TsGraph *g = f->g;
  for (int i = 0; i < g->nnode; i++) most[i] = -1;
  for (int i = g->nnode; i-- > 0;) {
    const TsNode *n = g->node[i];
    int *chunk = &f->c->chunk[i];
    if (!counts(f, n)) continue;
    if (f->c->phase[i] == TS_PHASE_backward && *chunk >= 0 && most[i] >= 0 &&
        most[i] < *chunk && goes_down(f, n, most[i], least))
      *chunk = most[i];
    note_readers(f, n, least, most);
  }
  readers(f, least, most);
  for (int i = g->nnode; i-- > 0;) { /* what belongs nowhere is made where it is first needed */
    const TsNode *n = g->node[i];
    if (!counts(f, n)) continue;
    if (f->c->chunk[i] < 0) f->c->chunk[i] = most[i] < 0 ? 0 : least[i];
    note_readers(f, n, least, most);
  }
}

/* A parameter that no seed names is where it is first read. */
static void place_params(Finder *f) {
  const TsGraph *g = f->g;
  for (int i = 0; i < g->nnode; i++) {
    const TsNode *n = g->node[i];
    for (int k = 0; k < n->nin && counts(f, n); k++) {
      int p = n->in[k] ? param_of(f, n->in[k]) : -1;
      if (p < 0) continue;
      bool first = f->c->phase[i] <= TS_PHASE_forward; /* a state is where it is updated */
      int *at = &f->c->param[p], chunk = f->c->chunk[i];
      uint64_t *seen = &f->present[g->nnode + p];
      if (*seen & SEEDED) continue;
      if (*at < 0 || (first && chunk < *at)) *at = chunk;
    }
  }
}

/* A parameter that lies at one place of the pipeline is of the chunk of that place, if no seed says
 * another one. */
static void seed(Finder *f, const TsMeshHow *how) {
  for (int i = 0; i < f->g->nparam; i++) {
    const TsLayout *l = ts_layout_of(&f->g->param[i]->meta);
    f->c->param[i] = -1;
    if (how->chunks && l && l->pin[how->axis]) {
      f->c->param[i] = l->pin[how->axis] - 1;
      f->present[f->g->nnode + i] = SEEDED | bit(f->c->param[i]);
    }
    for (int k = 0; k < how->nseed; k++)
      if (f->g->bound[i] && f->g->bound[i] == how->seed[k].bound) {
        f->c->param[i] = how->seed[k].chunk;
        f->present[f->g->nnode + i] = SEEDED | bit(how->seed[k].chunk);
      }
  }
}

int ts_chunks_find(TsChunks *c, const TsGraph *g, const unsigned char *live,
                   const TsMeshHow *how, TsError *err) {
  size_t n = (size_t)g->nnode + 1;
  int *readers_of = calloc(2 * n, sizeof *readers_of);
  Finder f = {.c = c, .g = g, .live = live, .nchunk = how && how->chunks ? how->chunks : 1};
  *c = (TsChunks){calloc(n, sizeof *c->phase), calloc(n, sizeof *c->chunk),
                  calloc((size_t)g->nparam + 1, sizeof *c->param)};
  f.after = calloc(2 * n, sizeof *f.after);
  f.feeds = f.after ? f.after + n : NULL;
  f.present = calloc(n + (size_t)g->nparam, sizeof *f.present);
  bool there = readers_of && c->phase && c->chunk && c->param && f.after && f.present;
  if (!there) ts_error_memory(err);
  if (there && how) {
    find_phases(&f);
    seed(&f, how);
    for (int i = 0; i < g->nnode; i++) c->chunk[i] = -1;
    for (int phase = TS_PHASE_data; phase <= TS_PHASE_update; phase++) {
      if (phase == TS_PHASE_backward) {
        move_views(&f);
        find_present(&f);
      }
      for (int i = 0; i < g->nnode; i++)
        if (counts(&f, g->node[i]) && (int)c->phase[i] == phase)
          (phase <= TS_PHASE_forward    ? forward
           : phase == TS_PHASE_backward ? backward
                                        : update)(&f, g->node[i]);
    }
    readers(&f, readers_of, readers_of + n);
    settle(&f, readers_of, readers_of + n);
    place_params(&f);
  }
  free(readers_of);
  free(f.after);
  free(f.present);
  if (there) return 0;
  ts_chunks_free(c);
  return -1;
}

void ts_chunks_free(TsChunks *c) {
  free(c->phase);
  free(c->chunk);
  free(c->param);
  *c = (TsChunks){NULL, NULL, NULL};
}

/* ---- cost */
/* Elements of its results are sums of products. */
static bool contracts(const char *name) {
  static const char *const word[] = {"matmul", "attention", "conv", "grouped_matmul", "gemm"};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++)
    if (!strncmp(name, word[i], strlen(word[i]))) return true;
  return false;
}

double ts_chunks_cost(const TsNode *n) { return ts_chunks_cost_at(n, 1e5, 1e4); }

double ts_chunks_cost_at(const TsNode *n, double flops_a_usec, double bytes_a_usec) {
  if (n->op >= TS_OP_COUNT || ts_node_is_view(n)) return 0;
  const TsOpInfo *o = ts_op_info((TsOp)n->op);
  double bytes = 0, out = 0, flops, each = 0;
  for (int i = 0; i < n->nout; i++) {
    bytes += (double)ts_meta_nbytes(&n->out[i].meta);
    out += (double)ts_meta_numel(&n->out[i].meta);
  }
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]) bytes += (double)ts_meta_nbytes(&n->in[i]->meta);
  flops = out;
  if (contracts(o->name) && n->nin > 1 && n->in[0] && n->in[1]) {
    const TsMeta *x = &n->in[0]->meta, *y = &n->in[1]->meta; /* each element is such a sum */
    if (x->ndim) each = (double)x->dim[x->ndim - 1];
    if (y->ndim > 1 && (double)y->dim[y->ndim - 2] > each) each = (double)y->dim[y->ndim - 2];
    flops = 2 * out * each;
  }
  double a = flops / flops_a_usec, b = bytes / bytes_a_usec;
  return a > b ? a : b;
}
