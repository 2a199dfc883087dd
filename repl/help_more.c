/* Options that calls from Lua take beside those of the operator's row, or as more than it: which rows stand for
 * them says repl/lua/variant.c, words of padding repl/lua/padding.c. */
#include <string.h>

#include "ir/sched/sched.h"
#include "repl/help.h"

static const TsMoreOption of_rows[] = {
    {"max", "indices", "true or false = false", NULL, "places as a second result"},
    {"min", "indices", "true or false = false", NULL, "places as a second result"},
    {"median", "indices", "true or false = false", NULL, "places as a second result"},
    {"div", "rounding_mode", "\"floor\" | \"trunc\", optional", "floor|trunc", NULL},
    {"quantile", "q", "number, or a list of them, needed", NULL, NULL},
    {"quantile", "method",
     "\"linear\" | \"lower\" | \"higher\" | \"midpoint\" | \"nearest\" = \"linear\"",
     "linear|lower|higher|midpoint|nearest", NULL},
    {"clamp", "min", "number or tensor, optional", NULL, NULL},
    {"clamp", "max", "number or tensor, optional", NULL, NULL},
    {"cross_entropy", "weight", "tensor of a number for each class, optional", NULL, NULL},
    {"repeat_interleave", "count", "integer, or a tensor of one for each element, needed", NULL,
     NULL},
    {"conv1d", "padding", "integers, \"same\" or \"valid\" = 0", "same|valid", NULL},
    {"conv2d", "padding", "integers, \"same\" or \"valid\" = 0", "same|valid", NULL},
    {"conv3d", "padding", "integers, \"same\" or \"valid\" = 0", "same|valid", NULL},
    {"depthwise_conv2d", "padding", "integers, \"same\" or \"valid\" = 0", "same|valid", NULL},
};

static const TsMoreOption unbiased = {"", "unbiased",
                                      "true or false: correction 1 or 0, optional", NULL, NULL};
static const TsMoreOption device = {"", "device", "string, optional", NULL, NULL};

static bool has(const TsOpInfo *o, const char *name) {
  for (int i = 0; i < o->nattr; i++)
    if (strlen(name) == (size_t)o->attr[i].namelen &&
        !memcmp(name, o->attr[i].name, strlen(name)))
      return true;
  return false;
}

const TsMoreOption *ts_help_more(const TsOpInfo *o, int nth) {
  for (size_t i = 0; i < sizeof of_rows / sizeof *of_rows; i++)
    if (!strcmp(of_rows[i].row, o->name) && nth-- == 0) return &of_rows[i];
  if (has(o, "correction") && nth-- == 0) return &unbiased;
  if (o->nin == 0 && nth-- == 0) return &device;
  return NULL;
}

const TsMoreOption *ts_help_more_named(const TsOpInfo *o, const char *name, int size) {
  const TsMoreOption *m;
  for (int i = 0; (m = ts_help_more(o, i)); i++)
    if (strlen(m->name) == (size_t)size && !memcmp(m->name, name, (size_t)size)) return m;
  return NULL;
}

bool ts_help_more_is_new(const TsOpInfo *o, const TsMoreOption *m) { return !has(o, m->name); }
