/* See lib/mesh.h. Made by the thread of the program alone; what is made does not change. */
#include "lib/mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- meshes */
static TsMesh **mesh;
static int nmesh;

static bool same_mesh(const TsMesh *m, int naxis, const char *const *axis, const int *size,
                      const int *index, const int *rank) {
  if (m->naxis != naxis) return false;
  for (int a = 0; a < naxis; a++)
    if (m->size[a] != size[a] || strcmp(m->axis[a], axis[a])) return false;
  for (int p = 0; p < m->n; p++)
    if (m->rank[p] != (rank ? rank[p] : -1)) return false;
  return !memcmp(m->index, index, sizeof *index * (size_t)m->n);
}

static int check_axes(int naxis, const char *const *axis, const int *size, TsError *err) {
  int64_t n = 1;
  if (naxis < 1 || naxis > TS_MESH_AXES)
    return ts_error_set(err, TS_ERR_argument, "a mesh has 1 to %d axes, not %d", TS_MESH_AXES,
                        naxis);
  for (int a = 0; a < naxis; a++) {
    size_t len = strlen(axis[a]);
    if (!len || len >= sizeof mesh[0]->axis[0] ||
        strspn(axis[a], "abcdefghijklmnopqrstuvwxyz"
                        "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789_") != len)
      return ts_error_set(err, TS_ERR_argument,
                          "'%s' is no name of a mesh axis: 1 to 15 letters, digits and _",
                          axis[a]);
    for (int b = 0; b < a; b++)
      if (!strcmp(axis[a], axis[b]))
        return ts_error_set(err, TS_ERR_argument, "the mesh has two axes '%s'", axis[a]);
    if (size[a] < 1)
      return ts_error_set(err, TS_ERR_argument, "mesh axis '%s' has size %d", axis[a], size[a]);
    if ((n *= size[a]) > TS_MESH_MOST)
      return ts_error_set(err, TS_ERR_argument, "a mesh has at most %d devices", TS_MESH_MOST);
  }
  return 0;
}

const TsMesh *ts_mesh_make(int naxis, const char *const *axis, const int *size,
                           const int *index, const int *rank, int own, TsError *err) {
  if (check_axes(naxis, axis, size, err)) return NULL;
  for (int i = 0; i < nmesh; i++)
    if (same_mesh(mesh[i], naxis, axis, size, index, rank)) return mesh[i];
  int n = 1;
  for (int a = 0; a < naxis; a++) n *= size[a];
  TsMesh **more = realloc(mesh, sizeof *mesh * (size_t)(nmesh + 1));
  if (more) mesh = more;
  TsMesh *m = more ? calloc(1, sizeof *m) : NULL;
  if (m) m->device = malloc(3 * sizeof *m->device * (size_t)n);
  if (!m || !m->device) {
    free(m);
    ts_error_memory(err);
    return NULL;
  }
  m->rank = m->device + n, m->index = m->rank + n;
  m->id = nmesh, m->naxis = naxis, m->n = n;
  for (int a = 0; a < naxis; a++) {
    snprintf(m->axis[a], sizeof m->axis[a], "%s", axis[a]);
    m->size[a] = size[a];
  }
  for (int p = 0; p < n; p++) {
    bool away = rank && rank[p] >= 0 && rank[p] != own;
    m->rank[p] = rank ? rank[p] : -1, m->index[p] = index[p];
    m->device[p] = away && index[p] >= 0 ? TS_DEVICE_AWAY : index[p];
  }
  return mesh[nmesh++] = m;
}

const TsMesh *ts_mesh_of(const TsMesh *of, int naxis, const char *const *axis, const int *size,
                         const int *part, TsError *err) {
  int n = 1, own = -1;
  bool owned = false;
  for (int a = 0; a < naxis; a++) n *= size[a];
  int *index = malloc(2 * sizeof *index * (size_t)(n + 1)), *rank = index + n;
  if (!index) return ts_error_memory(err), NULL;
  for (int p = 0; p < of->n; p++) {
    owned |= of->rank[p] >= 0;
    if (of->rank[p] >= 0 && of->device[p] != TS_DEVICE_AWAY) own = of->rank[p];
  }
  for (int p = 0; p < n; p++) index[p] = of->index[part[p]], rank[p] = of->rank[part[p]];
  const TsMesh *m = ts_mesh_make(naxis, axis, size, index, owned ? rank : NULL, own, err);
  free(index);
  return m;
}

const TsMesh *ts_mesh_at(int id) { return id >= 0 && id < nmesh ? mesh[id] : NULL; }

int ts_mesh_coordinate(const TsMesh *m, int p, int a) {
  if (m->naxis == 1) return p;
  for (int i = m->naxis; --i > a;) p /= m->size[i];
  return p % m->size[a];
}

int ts_mesh_axis(const TsMesh *m, const char *name, int len) {
  for (int a = 0; a < m->naxis; a++)
    if ((int)strlen(m->axis[a]) == len && !memcmp(m->axis[a], name, (size_t)len)) return a;
  return -1;
}

/* ---- layouts */
static TsLayout *layout[TS_LAYOUTS];
static int nlayout = 1;
static uint16_t found[2 * TS_LAYOUTS]; /* by hash: layouts, 0 where there is none */

const TsLayout *ts_layout_at(int id) { return layout[id]; }

static bool same_layout(const TsLayout *a, const TsLayout *b) {
  if (a->mesh != b->mesh || a->ndim != b->ndim || a->partial != b->partial ||
      a->leaves != b->leaves || a->stored != b->stored || memcmp(a->pin, b->pin, sizeof a->pin))
    return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->naxis[d] != b->naxis[d] || a->block[d] != b->block[d] ||
        memcmp(a->axis[d], b->axis[d], a->naxis[d]))
      return false;
  return true;
}

static uint32_t mixed(uint32_t h, uint64_t v) {
  h = (h ^ (uint32_t)v) * 0x9e3779b1u;
  return (h ^ h >> 15 ^ (uint32_t)(v >> 32)) * 0x85ebca77u;
}

/* Of what same_layout compares: the place of this layout, or of none where it would be. */
static uint16_t *place_of(const TsLayout *l) {
  uint32_t h = mixed((uint32_t)l->mesh->id, (uint64_t)l->leaves << 32 | l->partial);
  h = mixed(h, (uint64_t)l->ndim << 1 | l->stored);
  for (int a = 0; a < TS_MESH_AXES; a++) h = mixed(h, l->pin[a]);
  for (int d = 0; d < l->ndim; d++) {
    h = mixed(h, (uint64_t)l->block[d]);
    for (int i = 0; i < l->naxis[d]; i++) h = mixed(h, l->axis[d][i]);
    h = mixed(h, l->naxis[d]);
  }
  uint16_t *at = &found[h % (2 * TS_LAYOUTS)];
  while (*at && !same_layout(layout[*at], l))
    if (++at == found + 2 * TS_LAYOUTS) at = found;
  return at;
}

int ts_leaves_check(int leaves, int pieces, const char *what, TsError *err) {
  if (leaves < 0 || leaves > TS_LEAVES_MOST)
    return ts_error_set(err, TS_ERR_layout, "sums are cut into at most %d leaves",
                        TS_LEAVES_MOST);
  if (!leaves || leaves >= pieces) return 0;
  ts_error_set(err, TS_ERR_layout, "%s in %d pieces has %d %s: a piece would have none", what,
               pieces, leaves, leaves == 1 ? "leaf" : "leaves");
  return ts_error_hint(err, "dist.leaves(%d), a multiple of it, or fewer devices along it",
                       pieces);
}

static int check_leaves(const TsLayout *l, TsError *err) {
  char what[40];
  int pieces = 1;
  for (int d = 0; d < l->ndim; d++) {
    snprintf(what, sizeof what, "axis %d", d);
    if (!l->block[d] && ts_leaves_check(l->leaves, ts_layout_pieces(l, d), what, err))
      return -1;
  }
  for (int a = 0; a < l->mesh->naxis; a++)
    if (l->partial >> a & 1) pieces *= l->mesh->size[a];
  return ts_leaves_check(l->leaves, pieces, "a sum", err);
}

const TsLayout *ts_layout_make(const TsLayout *like, TsError *err) {
  uint16_t *at = place_of(like);
  if (*at) return layout[*at];
  if (check_leaves(like, err)) return NULL;
  if (nlayout == TS_LAYOUTS) {
    ts_error_set(err, TS_ERR_layout, "there are %d layouts, and a process has no more of them",
                 nlayout - 1);
    ts_error_hint(err,
                  "each that was ever made is kept: other blocks, leaves, axes or meshes are "
                  "other layouts");
    return NULL;
  }
  TsLayout *l = malloc(sizeof *l);
  if (!l) return ts_error_memory(err), NULL;
  *l = *like;
  l->id = *at = (uint16_t)nlayout;
  return layout[nlayout++] = l;
}

const TsLayout *ts_layout_replicated(const TsMesh *m, int ndim, TsError *err) {
  TsLayout l = {.mesh = m, .ndim = (uint8_t)ndim};
  return ts_layout_make(&l, err);
}

bool ts_layout_pinned(const TsLayout *l) {
  for (int a = 0; a < l->mesh->naxis; a++)
    if (l->pin[a]) return true;
  return false;
}

bool ts_layout_has(const TsLayout *l, int p) {
  for (int a = 0; a < l->mesh->naxis; a++)
    if (l->pin[a] && ts_mesh_coordinate(l->mesh, p, a) != l->pin[a] - 1) return false;
  return true;
}

const TsLayout *ts_layout_pin(const TsLayout *l, const TsLayout *as, TsError *err) {
  static const uint16_t none[TS_MESH_AXES];
  TsLayout made = *l;
  memcpy(made.pin, as ? as->pin : none, sizeof made.pin);
  return ts_layout_make(&made, err);
}

int ts_layout_pieces(const TsLayout *l, int d) {
  int n = 1;
  for (int i = 0; i < l->naxis[d]; i++) n *= l->mesh->size[l->axis[d][i]];
  return n;
}

int ts_layout_piece(const TsLayout *l, int p, int d) {
  int k = 0;
  for (int i = 0; i < l->naxis[d]; i++)
    k = k * l->mesh->size[l->axis[d][i]] + ts_mesh_coordinate(l->mesh, p, l->axis[d][i]);
  return k;
}

int64_t ts_layout_cut(int64_t n, int pieces, int leaves, int i) {
  int64_t g = leaves ? leaves : pieces, leaf = g == pieces ? i : i * g / pieces;
  return n / g * leaf + n % g * leaf / g; /* floor(leaf n / g) without a product of both */
}

bool ts_layout_run(const TsLayout *l, int d, int64_t n, int p, int i, int64_t *start,
                   int64_t *count) {
  if (!ts_layout_has(l, p)) return false;
  if (!l->naxis[d]) return *start = 0, *count = n, !i && n > 0;
  int pieces = ts_layout_pieces(l, d), k = ts_layout_piece(l, p, d);
  if (l->block[d]) {
    *start = (i * (int64_t)pieces + k) * l->block[d];
    if (*start >= n) return false;
    *count = n - *start < l->block[d] ? n - *start : l->block[d];
    return true;
  }
  if (i) return false;
  *start = ts_layout_cut(n, pieces, l->leaves, k);
  *count = ts_layout_cut(n, pieces, l->leaves, k + 1) - *start;
  return *count > 0;
}

int64_t ts_layout_count(const TsLayout *l, int d, int64_t n, int p) {
  int64_t sum = 0, start, count;
  for (int i = 0; ts_layout_run(l, d, n, p, i, &start, &count); i++) sum += count;
  return sum;
}

TsMeta ts_layout_part(const TsLayout *l, const TsMeta *m, int p) {
  TsMeta part = {.dtype = m->dtype, .ndim = m->ndim};
  if (l->mesh->device[p] > 0) part.device = (uint8_t)l->mesh->device[p];
  for (int d = 0; d < m->ndim; d++) part.dim[d] = ts_layout_count(l, d, m->dim[d], p);
  return part;
}

/* Coordinates along axes that split nothing and hold no summands do not matter. Of those that
 * have nothing there is no other one. */
int ts_layout_first(const TsLayout *l, int p) {
  const TsMesh *m = l->mesh;
  unsigned matters = l->partial;
  int first = 0;
  if (!ts_layout_has(l, p)) return p;
  for (int d = 0; d < l->ndim; d++)
    for (int i = 0; i < l->naxis[d]; i++) matters |= 1u << l->axis[d][i];
  for (int a = 0; a < m->naxis; a++)
    first =
        first * m->size[a] + (matters >> a & 1 || l->pin[a] ? ts_mesh_coordinate(m, p, a) : 0);
  return first;
}

int ts_layout_used(const TsLayout *l, int d) {
  int n = 0;
  while (n < l->naxis[d] && !(l->stored >> l->axis[d][n] & 1)) n++;
  return n;
}

void ts_layout_axis_text(const TsLayout *l, int d, TsText *t) {
  if (!l->naxis[d]) return;
  int used = ts_layout_used(l, d);
  ts_text_char(t, '@');
  for (int i = 0; i < l->naxis[d]; i++)
    ts_text_format(t, "%s%s%s", i ? "*" : "", i == used ? "(" : "",
                   l->mesh->axis[l->axis[d][i]]);
  if (used < l->naxis[d]) ts_text_char(t, ')');
  if (l->block[d]) ts_text_format(t, "/%lld", (long long)l->block[d]);
}

void ts_layout_sum_text(const TsLayout *l, TsText *t) {
  for (int a = 0; a < l->mesh->naxis; a++)
    if (l->partial >> a & 1) ts_text_format(t, " sum@%s", l->mesh->axis[a]);
  for (int a = 0; a < l->mesh->naxis; a++)
    if (l->pin[a]) ts_text_format(t, " %s=%d", l->mesh->axis[a], l->pin[a] - 1);
}

void ts_layout_spec_text(const TsLayout *l, TsText *t) {
  int last = l->ndim;
  const char *before = "";
  int64_t block = 0;
  while (last && !l->naxis[last - 1]) last--;
  ts_text_char(t, '{');
  for (int d = 0; d < last; d++, before = ", ") {
    const char *open = l->naxis[d] > 1 ? "{" : "", *shut = l->naxis[d] > 1 ? "}" : "";
    ts_text_format(t, "%s%s%s", before, l->naxis[d] ? open : "nil", "");
    for (int i = 0; i < l->naxis[d]; i++)
      ts_text_format(t, "%s\"%s\"", i ? ", " : "", l->mesh->axis[l->axis[d][i]]);
    ts_text_str(t, shut);
    if (l->block[d]) block = l->block[d];
  }
  if (block) ts_text_format(t, "%sblock = %lld", before, (long long)block), before = ", ";
  if (l->leaves) ts_text_format(t, "%sleaves = %d", before, l->leaves), before = ", ";
  if (l->partial) {
    ts_text_format(t, "%sreduce = \"sum\", over = {", before);
    before = "";
    for (int a = 0; a < l->mesh->naxis; a++)
      if (l->partial >> a & 1)
        ts_text_format(t, "%s\"%s\"", before, l->mesh->axis[a]), before = ", ";
    ts_text_char(t, '}');
    before = ", ";
  }
  if (ts_layout_pinned(l)) {
    ts_text_format(t, "%sat = {", before);
    before = "";
    for (int a = 0; a < l->mesh->naxis; a++)
      if (l->pin[a])
        ts_text_format(t, "%s%s = %d", before, l->mesh->axis[a], l->pin[a] - 1), before = ", ";
    ts_text_char(t, '}');
  }
  ts_text_char(t, '}');
}

/* ---- leaves */
int ts_leaves_end(int n, int level, int place) {
  int64_t end = ((int64_t)place + 1) << level;
  return end < n ? (int)end : n;
}

int ts_leaves_subtrees(int n, int lo, int hi, int *level, int *place) {
  int k = 0;
  while (lo < hi) {
    int l = 0;
    while (!(lo & ((1 << (l + 1)) - 1)) && (1 << l) < n &&
           ts_leaves_end(n, l + 1, lo >> (l + 1)) <= hi)
      l++;
    level[k] = l, place[k++] = lo >> l;
    lo = ts_leaves_end(n, l, lo >> l);
  }
  return k;
}

/* ---- layouts as words */
static int parse_axis(TsLayout *l, int d, const char *s, size_t len, const char *op,
                      TsError *err) {
  for (const char *end = s + len; s < end;) {
    size_t n = strcspn(s, "*,/;");
    int a = ts_mesh_axis(l->mesh, s, (int)n);
    bool used = false;
    for (int e = 0; a >= 0 && e <= d; e++) used |= memchr(l->axis[e], a, l->naxis[e]) != NULL;
    if (a < 0)
      return ts_error_set(err, TS_ERR_layout, "%s: the mesh has no axis '%.*s'", op,
                          (int)(n < 40 ? n : 40), s);
    if (used)
      return ts_error_set(err, TS_ERR_layout, "%s: mesh axis '%s' splits two axes", op,
                          l->mesh->axis[a]);
    l->axis[d][l->naxis[d]++] = (uint8_t)a;
    s += n;
    if (s < end && *s == '/') {
      l->block[d] = strtoll(s + 1, NULL, 10);
      if (l->block[d] < 1)
        return ts_error_set(err, TS_ERR_layout, "%s: a block has 1 element at least", op);
      return 0;
    }
    s += s < end;
  }
  return 0;
}

const TsLayout *ts_layout_parse(const TsMesh *m, int ndim, const char *spec, int leaves,
                                const char *op, TsError *err) {
  TsLayout l = {.mesh = m, .ndim = (uint8_t)ndim, .leaves = leaves};
  int d = 0;
  for (const char *s = spec;; d++) {
    size_t n = strcspn(s, ",;");
    if (n && d >= ndim) {
      ts_error_set(err, TS_ERR_layout, "%s: '%.60s' splits axis %d of a tensor of %d axes", op,
                   spec, d, ndim);
      return NULL;
    }
    if (n && parse_axis(&l, d, s, n, op, err)) return NULL;
    s += n;
    if (*s != ',') {
      if (*s) l.leaves = (uint16_t)strtol(s + 1, NULL, 10);
      break;
    }
    s++;
  }
  return ts_layout_make(&l, err);
}

const char *ts_layout_spec(const TsLayout *l, char text[TS_SPEC_TEXT]) {
  int n = 0;
  text[0] = 0;
  for (int d = 0; d < l->ndim; d++) {
    if (d) n += snprintf(text + n, (size_t)(TS_SPEC_TEXT - n), ",");
    for (int i = 0; i < l->naxis[d]; i++)
      n += snprintf(text + n, (size_t)(TS_SPEC_TEXT - n), "%s%s", i ? "*" : "",
                    l->mesh->axis[l->axis[d][i]]);
    if (l->naxis[d] && l->block[d])
      n += snprintf(text + n, (size_t)(TS_SPEC_TEXT - n), "/%lld", (long long)l->block[d]);
  }
  if (l->leaves) snprintf(text + n, (size_t)(TS_SPEC_TEXT - n), ";%d", l->leaves);
  return text;
}
