/* Products of complex numbers along the tree of reduce_tree.h. A template over T and
 * LANES. (1, 0) is no exact identity of the complex product (0 * inf), so that a chain
 * starts with its first element and lanes that do not exist are skipped. */

/* The asm keeps the products apart from the sums: gcc 12 makes a fused fmaddsub of the
 * pair, -ffp-contract=off or not. */
INLINE void cmul(T *a, const T *b) {
  T p = a[0] * b[0], q = a[1] * b[1], r = a[0] * b[1], s = a[1] * b[0];
  __asm__("" : "+x"(p), "+x"(q), "+x"(r), "+x"(s));
  a[0] = p - q, a[1] = r + s;
}

static void cprod_leaf(const void *x_, int64_t n, int64_t step, void *out) {
  const T *x = x_;
  T acc[LANES][2];
  int64_t lanes = n < LANES ? n : LANES, w = LANES;
  while (w / 2 >= lanes) w /= 2;
  for (int64_t i = 0; i < lanes; i++) memcpy(acc[i], x + 2 * i * step, sizeof acc[i]);
  for (int64_t i = LANES; i < n; i++) cmul(acc[i % LANES], x + 2 * i * step);
  for (int64_t h = w / 2; h >= 1; h /= 2)
    for (int64_t l = 0; l < h && l + h < lanes; l++) cmul(acc[l], acc[l + h]);
  memcpy(out, acc[0], sizeof acc[0]);
}

static void cprod_tree(void *s_, int64_t m) {
  T(*s)[2] = s_;
  for (; m > 1; m = (m + 1) / 2) {
    for (int64_t i = 0; i < m / 2; i++) {
      T t[2] = {s[2 * i][0], s[2 * i][1]};
      cmul(t, s[2 * i + 1]);
      memcpy(s[i], t, sizeof t);
    }
    if (m % 2) memmove(s[m / 2], s[m - 1], sizeof s[0]);
  }
}
