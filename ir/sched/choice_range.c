/* The table of choices as functions: names, who has which, and in which limits. */
#include <string.h>

#include "ir/sched/sched.h"
#include "ir/tile/product/product.h"

enum { M = 1, R = 2, C = 4, P = 8, A = 16, V = 32 };
enum { ANY, POWERS };

typedef struct Row {
  const char *name;
  int families[2]; /* of CPUs, of GPUs; limits as well */
  int64_t least[2], most[2];
  bool powers;
  const char *help;
} Row;

static const Row row[] = {
#define CHOICE(name, cpu, gpu, least, most, gpu_least, gpu_most, powers, help)                 \
  {#name, {cpu, gpu}, {least, gpu_least}, {most, gpu_most}, powers, help},
#include "ir/sched/choice.def"
#undef CHOICE
};

const char *ts_choice_name(int field) { return row[field].name; }
const char *ts_choice_help(int field) { return row[field].help; }

int ts_choice_find(const char *name) {
  for (int i = 0; i < TS_CHOICE_FIELDS; i++)
    if (!strcmp(row[i].name, name)) return i;
  return -1;
}

int ts_choice_value(const TsSchedChoice *c, int field) { return ((const int *)c)[field]; }

const char *ts_choice_origin(int origin) {
  static const char *const word[] = {"default by the model",
                                     "tuned on this machine now",
                                     "tuned earlier, kept on disk",
                                     "tuned before, comes with the program",
                                     "forced by a test",
                                     "chosen by the user"};
  return word[origin];
}

/* On a GPU some groups of one node are kernels all the same (ir/lower/lower.c). */
static int family_of(const TsSched *s, const TsGroup *g) {
  static const int of[] = {
      [TS_GROUP_map] = M,    [TS_GROUP_rows] = R,      [TS_GROUP_columns] = C,
      [TS_GROUP_matmul] = P, [TS_GROUP_attention] = A, [TS_GROUP_conv] = V};
  if (g->kind != TS_GROUP_vm || !ts_target_gpu(s->target)) return of[g->kind];
  switch (g->node[0]->op) {
  case TS_OP_attention: return A;
  case TS_OP_matmul: return P;
  case TS_OP_conv1d:
  case TS_OP_conv2d:
  case TS_OP_conv3d:
  case TS_OP_conv_transpose: return V;
  default: return 0;
  }
}

const char *ts_choice_family(const TsSched *s, const TsGroup *g) {
  switch (family_of(s, g)) {
  case M: return "an element-wise kernel";
  case R: return "a kernel of rows";
  case C: return "a kernel of columns";
  case P: return "a matrix product";
  case A: return "attention";
  case V: return "a convolution";
  default: return NULL;
  }
}

unsigned ts_choice_of_op(int op) {
  const TsOpInfo *o = ts_op_info((TsOp)op);
  switch (op) {
  case TS_OP_matmul:
  case TS_OP_linear: return P;
  case TS_OP_attention: return A;
  case TS_OP_conv1d:
  case TS_OP_conv2d:
  case TS_OP_conv3d:
  case TS_OP_conv_transpose: return V;
  case TS_OP_softmax:
  case TS_OP_log_softmax:
  case TS_OP_layernorm:
  case TS_OP_rmsnorm: return R;
  case TS_OP_sum:
  case TS_OP_mean:
  case TS_OP_max:
  case TS_OP_min: return R | C;
  default: return o->cls == TS_CLASS_POINTWISE ? M : 0;
  }
}

bool ts_choice_has(int field, bool gpu, unsigned families) {
  return (unsigned)row[field].families[gpu] & families;
}

static int64_t most_high(const TsTarget *t) {
  int most = 0;
  for (int i = 0, high; (high = ts_tile_product_high(t, i)); i++)
    if (high > most) most = high;
  return most;
}

bool ts_choice_range(const TsSched *s, const TsGroup *g, int field, TsChoiceRange *r) {
  const Row *x = &row[field];
  int gpu = ts_target_gpu(s->target);
  if (!s->target || !(x->families[gpu] & family_of(s, g))) return false;
  *r = (TsChoiceRange){x->least[gpu], x->most[gpu], x->powers};
  if (!r->most)
    r->most = field == TS_CHOICE_high ? most_high(s->target) : s->target->vector_bytes;
  if (r->least > r->most) r->least = r->most;
  return r->most > 0;
}

/* Between two powers the one that is fewer times away. */
int64_t ts_choice_nearest(const TsChoiceRange *r, int64_t value) {
  int64_t v = value < r->least ? r->least : value > r->most ? r->most : value, below = 1;
  if (!r->powers) return v;
  while (below * 2 <= v) below *= 2;
  if (v * v > below * below * 2) below *= 2;
  return below < r->least ? r->least : below > r->most ? r->most : below;
}

void ts_choice_range_text(const TsChoiceRange *r, TsText *text) {
  ts_text_format(text, "%s%lld to %lld", r->powers ? "powers of two from " : "",
                 (long long)r->least, (long long)r->most);
}

void ts_choice_fields_text(const TsSched *s, const TsGroup *g, TsText *text) {
  TsChoiceRange r;
  bool any = false;
  for (int i = 0; i < TS_CHOICE_FIELDS; i++) {
    if (!ts_choice_range(s, g, i, &r)) continue;
    ts_text_format(text, "%s%s", any ? ", " : "", row[i].name);
    any = true;
  }
}
