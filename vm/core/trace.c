/* Writing the trace ring. */
#include "vm/core/trace.h"

#include <string.h>

#include "vm/core/vm.h"

static TsTraceHead unpack(uint64_t w) {
  TsTraceHead h = {(uint16_t)w, (uint8_t)(w >> 16), (uint8_t)(w >> 24), (uint8_t)(w >> 32),
                   (uint16_t)(w >> 40)};
  return h;
}

static uint64_t pack(TsTraceHead h) {
  return h.op | (uint64_t)h.nin << 16 | (uint64_t)h.nout << 24 | (uint64_t)h.nattr << 32 |
         (uint64_t)h.nwords << 40;
}

TsTraceHead ts_trace_head(const TsTrace *t, uint32_t at) { return unpack(t->word[at]); }

static int operand_words(const TsTensor *x) { return x ? 2 + x->meta.ndim : 2; }

static int attr_words(const TsAttr *a) {
  if (a->type == TS_ATTR_ints || a->type == TS_ATTR_floats) return 1 + a->n;
  if (a->type == TS_ATTR_str) return 2 + (int)strlen(a->str) / 8;
  return 2;
}

static uint64_t *put_operand(uint64_t *w, const TsTensor *x) {
  if (!x) {
    *w++ = 0;
    *w++ = 0;
    return w;
  }
  const TsMeta *m = &x->meta;
  *w++ = x->id;
  *w++ = m->dtype | (uint64_t)m->ndim << 8 | (uint64_t)m->weak << 16 |
         (uint64_t)m->device << 24 | (uint64_t)x->contiguous << 32;
  for (int i = 0; i < m->ndim; i++) *w++ = (uint64_t)m->dim[i];
  return w;
}

static uint64_t *put_attr(uint64_t *w, const TsAttr *a) {
  *w++ = a->type | (uint64_t)a->n << 8;
  if (a->type == TS_ATTR_ints || a->type == TS_ATTR_floats) {
    if (a->n) memcpy(w, a->ints, (size_t)a->n * 8);
    return w + a->n;
  }
  if (a->type == TS_ATTR_str) {
    size_t words = 1 + strlen(a->str) / 8;
    w[words - 1] = 0;
    memcpy(w, a->str, strlen(a->str));
    return w + words;
  }
  *w++ = (uint64_t)a->i;
  return w;
}

/* A record larger than a quarter of the ring (a concat of thousands) is left out. */
void ts_trace_record(TsTrace *t, const TsCall *call) {
  int nattr = call->attr ? ts_op_info(call->op)->nattr : 0, nwords = 1;
  for (int i = 0; i < call->nin; i++) nwords += operand_words(call->in[i]);
  for (int i = 0; i < call->nout; i++) nwords += operand_words(call->out[i]);
  for (int i = 0; i < nattr; i++) nwords += attr_words(&call->attr[i]);
  if (nwords > TS_TRACE_WORDS / 4 || call->nin > 255 || call->nout > 255) return;
  if (t->at + (uint32_t)nwords > TS_TRACE_WORDS) {
    if (t->at < TS_TRACE_WORDS)
      t->word[t->at] =
          pack((TsTraceHead){TS_TRACE_SKIP, 0, 0, 0, (uint16_t)(TS_TRACE_WORDS - t->at)});
    t->at = 0;
  }
  uint64_t *w = t->word + t->at;
  *w++ = pack((TsTraceHead){(uint16_t)call->op, (uint8_t)call->nin, (uint8_t)call->nout,
                            (uint8_t)nattr, (uint16_t)nwords});
  for (int i = 0; i < call->nin; i++) w = put_operand(w, call->in[i]);
  for (int i = 0; i < call->nout; i++) w = put_operand(w, call->out[i]);
  for (int i = 0; i < nattr; i++) w = put_attr(w, &call->attr[i]);
  t->last = t->at;
  t->at += (uint32_t)nwords;
  t->words += (uint64_t)nwords;
  t->count++;
}
