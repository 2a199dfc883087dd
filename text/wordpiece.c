/* WordPiece: the longest token that a word begins with, and so on with its rest; a word that
 * has a rest which begins with none is unknown as a whole. WordLevel: words that are tokens. */
#include <string.h>

#include "devices/cpu_pool.h"
#include "text/char.h"
#include "text/model.h"

static int unknown(const TsModel *m, uint32_t n, TsTokens *to, TsError *err) {
  return m->unk_id < 0 ? ts_model_no_unknown(m, err) : ts_tokens_add(to, m->unk_id, 0, n, err);
}

int ts_wordpiece_tokens(TsModel *m, const char *s, uint32_t n, TsTokens *to, TsError *err) {
  if (m->kind == TS_MODEL_WordLevel) {
    int32_t id = ts_vocab_find(&m->vocab, s, n);
    return id < 0 ? unknown(m, n, to, err) : ts_tokens_add(to, id, 0, n, err);
  }
  if (ts_char_count(s, n) > m->longest_word) return unknown(m, n, to, err);
  uint32_t first = to->n;
  char *with = ts_model_room(m, 0, m->nprefix + n, err);
  if (!with) return -1;
  memcpy(with, m->prefix, m->nprefix);
  for (uint32_t from = 0, end; from < n; from = end) {
    const char *at = s + from;
    uint32_t more = from ? (uint32_t)m->nprefix : 0;
    end = n;
    if (end - from + more > m->vocab.longest) {
      end = from + (m->vocab.longest > more ? m->vocab.longest - more : 0);
      while (end > from && !ts_char_begins(s[end])) end--;
    }
    if (from) memcpy(with + more, at, end - from), at = with;
    if (ts_cpu_interrupted()) return ts_error_set(err, TS_ERR_interrupt, "interrupted");
    int32_t id = -1;
    while (end > from) {
      id = ts_vocab_find(&m->vocab, at, end - from + more);
      if (id >= 0) break;
      do end--;
      while (end > from && !ts_char_begins(s[end]));
    }
    if (id < 0) {
      to->n = first;
      return unknown(m, n, to, err);
    }
    if (ts_tokens_add(to, id, from, end, err)) return -1;
  }
  return 0;
}
