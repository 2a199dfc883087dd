/* padding = "same" of convolutions: as much as leaves the size of the image, which only a call with
 * its window says. Where it is odd, more stands behind, as in PyTorch, and x is padded before. */
#include <string.h>

#include "repl/lua/args.h"

static const TsAttr *option(const TsLuaArgs *a, const char *name, int *at) {
  for (int i = 0; i < a->o->nattr; i++)
    if ((size_t)a->o->attr[i].namelen == strlen(name) &&
        !memcmp(a->o->attr[i].name, name, strlen(name))) {
      if (at) *at = i;
      return &a->attr[i];
    }
  return NULL;
}

int ts_lua_padding_word(TsLuaArgs *a, const TsAttrSpec *s, int index) {
  if (!a->o->convolves || s->namelen != 7 || memcmp(s->name, "padding", 7)) return 0;
  if (lua_type(a->L, index) != LUA_TSTRING) return 0;
  const char *word = lua_tostring(a->L, index);
  a->same = !strcmp(word, "same");
  if (!a->same && strcmp(word, "valid"))
    return ts_error_set(&a->c->err, TS_ERR_attribute,
                        "%s: option 'padding' must be integers, 'same' or 'valid', not '%s'",
                        a->o->name, word);
  int at;
  option(a, "padding", &at);
  a->attr[at] = s->preset;
  return 1;
}

static int64_t nth(const TsAttr *list, int i) {
  return list->ints[list->n > 1 && i < list->n ? i : 0];
}

static int pad_operand(TsLuaArgs *a, const int64_t *pads, int n) {
  TsAttr attr[TS_MAX_ATTR];
  TsTensor *out = NULL;
  int nout;
  ts_op_defaults(TS_OP_pad, attr);
  attr[0] = ts_attr_ints(pads, n);
  if (ts_vm_call(a->c, TS_OP_pad, 1, a->in, attr, 1, &nout, &out)) return -1;
  if (a->owned[0]) ts_tensor_unref(a->in[0]);
  a->in[0] = out;
  a->owned[0] = true;
  return 0;
}

int ts_lua_padding_same(TsLuaArgs *a) {
  int at, axes = a->o->convolves;
  int64_t pads[8] = {0};
  bool even = true;
  option(a, "padding", &at);
  const TsAttr *stride = option(a, "stride", NULL), *dilation = option(a, "dilation", NULL);
  bool last = option(a, "layout", NULL)->i == 1;
  if (a->nin < 2 || !a->in[0] || !a->in[1] || a->in[1]->meta.ndim != axes + 2 ||
      a->in[0]->meta.ndim != axes + 2 || !dilation->n || !stride->n)
    return 0; /* the rules of the row say what is wrong */
  for (int i = 0; i < axes; i++) {
    int64_t all = nth(dilation, i) * (a->in[1]->meta.dim[i + (last ? 1 : 2)] - 1);
    if (nth(stride, i) != 1)
      return ts_error_set(&a->c->err, TS_ERR_attribute,
                          "%s: padding 'same' has no meaning with a stride", a->o->name);
    if (all < 0) return 0;
    pads[2 * i] = all / 2, pads[2 * i + 1] = all - all / 2;
    even = even && all % 2 == 0;
    if (a->nlist == TS_LUA_LIST)
      return ts_error_set(&a->c->err, TS_ERR_argument,
                          "%s: options with more than %d numbers in all", a->o->name,
                          TS_LUA_LIST);
    a->list[a->nlist++] = all / 2;
  }
  if (!even) return pad_operand(a, pads, 2 * axes + (last ? 2 : 0));
  a->attr[at] = ts_attr_ints(a->list + a->nlist - axes, axes);
  return 0;
}
