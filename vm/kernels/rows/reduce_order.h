/* Minimum, maximum and their indices by a total order on integer keys. A template:
 * its includer defines T, K (the integer of T's size), KEY_INF (the bits of infinity,
 * 0 for integers) and map_row.
 *
 * The key of a float is its bits, those of negative numbers turned over below the sign,
 * so that signed integer order is -inf .. -0, +0 .. inf. Hardware minima and maxima
 * disagree about NaN and the sign of zero; integers do not, and their order of
 * evaluation is free, so that the compiler may vectorise plain loops. NaN wins: it is
 * seen in the largest magnitude. For indices -0 and +0 are equal, NaN has the largest
 * key, and the lowest index of the largest key is taken. */

enum { ORDER_PANEL = 2048 / sizeof(T), ARG_BLOCK = 1024, ORDER_PREFETCH = 24 };
#define K_MAX ((K)(((uint64_t)1 << (sizeof(K) * 8 - 1)) - 1))

INLINE K bits_of(T x) {
  K k;
  memcpy(&k, &x, sizeof k);
  return k;
}

INLINE K flip(K k) { return KEY_INF ? k ^ ((k >> (sizeof(K) * 8 - 1)) & K_MAX) : k; }

INLINE T value_of(K key, K magnitude) {
  T x;
  key = flip(key);
  if (KEY_INF && magnitude > KEY_INF) key = KEY_INF | (KEY_INF >> 1); /* a quiet NaN */
  memcpy(&x, &key, sizeof x);
  return x;
}

/* For indices, but for NaN: -0 has the key of +0, and argmin turns the order round. */
INLINE K plain_key(int min, T x) {
  K k = flip(bits_of(x));
  if (KEY_INF) k += k == -1; /* only -0 has this key */
  return min ? ~k : k;
}

INLINE K arg_key(int min, T x) {
  return KEY_INF && (bits_of(x) & K_MAX) > KEY_INF ? K_MAX : plain_key(min, x);
}

INLINE void order_merge(int max, K *key, K *mag, T x) {
  K b = bits_of(x), k = flip(b), m = b & K_MAX;
  if (max)
    *key = *key > k ? *key : k;
  else
    *key = *key < k ? *key : k;
  if (KEY_INF) *mag = *mag > m ? *mag : m;
}

static T order_pick(int op, T a, T b) {
  K key = flip(bits_of(a)), mag = bits_of(a) & K_MAX;
  order_merge(op == TS_RED_MAX, &key, &mag, b);
  return value_of(key, mag);
}

/* A block's lines are asked for before it: a prefetch within the loop is one that no compiler
 * vectorises. */
INLINE T order_row(int max, const T *x, int64_t n) {
  enum { BLOCK = 1024 / sizeof(T), SOON = 8192 / sizeof(T) };
  K key = flip(bits_of(x[0])), mag = 0;
  int64_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    for (int j = 0; j < BLOCK; j += 64 / (int)sizeof(T)) __builtin_prefetch(x + i + SOON + j);
    for (int j = 0; j < BLOCK; j++) order_merge(max, &key, &mag, x[i + j]);
  }
  for (; i < n; i++) order_merge(max, &key, &mag, x[i]);
  return value_of(key, mag);
}

static void order_rows(const TsReduceRows *a) {
  T *out = a->out, buf[TS_RED_LEAF];
  for (int64_t r = 0; r < a->rows; r++) {
    const T *x = (const T *)a->x + r * a->ld;
    if (a->map) {
      map_row(a->map, buf, x, a->n, a->c ? (double)((const T *)a->c)[r * a->cstep] : 0, a->p);
      x = buf;
    }
    out[r] = a->op == TS_RED_MAX ? order_row(1, x, a->n) : order_row(0, x, a->n);
  }
}

INLINE const char *order_place(const TsReduceCols *a, int64_t i, int64_t col) {
  return (const char *)a->x + ((a->at ? a->at[i] : i * a->ld) + col) * a->esize;
}

/* Row i of a panel of n columns in the accumulator's type; through buf where needed. Asks
 * the second-level cache for a row further on, which a panel's stride hides from the
 * hardware. */
static const T *order_piece(const TsReduceCols *a, int64_t i, int64_t col, int64_t n, T *buf) {
  const char *p = order_place(a, i, col);
  const char *next = order_place(a, i + ORDER_PREFETCH < a->m ? i + ORDER_PREFETCH : i, col);
  for (int64_t j = 0; j < n * a->esize; j += 64) __builtin_prefetch(next + j, 0, 2);
  if (!a->load && !a->map) return (const T *)(const void *)p;
  if (a->load)
    a->load(n, buf, p);
  else
    memcpy(buf, p, (size_t)n * sizeof(T));
  if (a->map) map_row(a->map, buf, buf, n, 0, a->p);
  return buf;
}

INLINE void order_panel(int max, const TsReduceCols *a, int64_t col, int64_t n) {
  enum { ROWS = 4 }; /* at a time, while keys are in registers */
  T buf[ROWS][ORDER_PANEL], *out = (T *)a->out + col;
  K key[ORDER_PANEL], mag[ORDER_PANEL];
  const T *x[ROWS] = {order_piece(a, 0, col, n, buf[0])};
  for (int64_t j = 0; j < n; j++) key[j] = flip(bits_of(x[0][j])), mag[j] = 0;
  int64_t i = 0;
  for (; i + ROWS <= a->m; i += ROWS) {
    for (int r = 0; r < ROWS; r++) x[r] = order_piece(a, i + r, col, n, buf[r]);
    for (int64_t j = 0; j < n; j++) {
      K k = key[j], m = mag[j];
      for (int r = 0; r < ROWS; r++) order_merge(max, &k, &m, x[r][j]);
      key[j] = k, mag[j] = m;
    }
  }
  for (; i < a->m; i++) {
    x[0] = order_piece(a, i, col, n, buf[0]);
    for (int64_t j = 0; j < n; j++) order_merge(max, &key[j], &mag[j], x[0][j]);
  }
  for (int64_t j = 0; j < n; j++) out[j] = value_of(key[j], mag[j]);
}

static void order_cols(const TsReduceCols *a) {
  for (int64_t col = 0; col < a->n; col += ORDER_PANEL) {
    int64_t n = a->n - col < ORDER_PANEL ? a->n - col : ORDER_PANEL;
    if (a->op == TS_RED_MAX)
      order_panel(1, a, col, n);
    else
      order_panel(0, a, col, n);
  }
}

INLINE void arg_row_of(int min, const T *x, int64_t n, int64_t base, TsReduceArg *best) {
  K key = 0;
  int64_t at = -1;
  for (int64_t i = 0; i < n; i += ARG_BLOCK) {
    int64_t k = n - i < ARG_BLOCK ? n - i : ARG_BLOCK;
    K m = plain_key(min, x[i]), magnitude = 0;
    for (int64_t j = 0; j < k; j++) {
      K next = plain_key(min, x[i + j]), size = KEY_INF ? bits_of(x[i + j]) & K_MAX : 0;
      m = m > next ? m : next;
      magnitude = magnitude > size ? magnitude : size;
    }
    if (KEY_INF && magnitude > KEY_INF) m = K_MAX;
    if (at < 0 || m > key) key = m, at = i;
  }
  if (at < 0 || (best->index >= 0 && key <= best->key)) return;
  while (arg_key(min, x[at]) != key) at++;
  *best = (TsReduceArg){key, base + at};
}

static void arg_row(int min, const void *x, int64_t n, int64_t base, TsReduceArg *best) {
  if (min)
    arg_row_of(1, x, n, base, best);
  else
    arg_row_of(0, x, n, base, best);
}

INLINE void arg_panel(int min, const TsReduceCols *a, int64_t col, int64_t n, int64_t base,
                      TsReduceArg *best) {
  T buf[ORDER_PANEL];
  K key[ORDER_PANEL], at[ORDER_PANEL];
  const T *x = order_piece(a, 0, col, n, buf);
  for (int64_t j = 0; j < n; j++) key[j] = arg_key(min, x[j]), at[j] = 0;
  for (int64_t i = 1; i < a->m; i++) {
    x = order_piece(a, i, col, n, buf);
    for (int64_t j = 0; j < n; j++) {
      K k = arg_key(min, x[j]);
      at[j] = k > key[j] ? (K)i : at[j];
      key[j] = k > key[j] ? k : key[j];
    }
  }
  for (int64_t j = 0; j < n; j++)
    if (best[j].index < 0 || key[j] > best[j].key)
      best[j] = (TsReduceArg){key[j], base + at[j]};
}

static void arg_cols(int min, const TsReduceCols *a, int64_t base, TsReduceArg *best) {
  for (int64_t col = 0; col < a->n; col += ORDER_PANEL) {
    int64_t n = a->n - col < ORDER_PANEL ? a->n - col : ORDER_PANEL;
    if (min)
      arg_panel(1, a, col, n, base, best + col);
    else
      arg_panel(0, a, col, n, base, best + col);
  }
}
