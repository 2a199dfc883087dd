/* How tensors look in a terminal.
 *
 * All shown numbers share one format, as in PyTorch: four decimals, or whole
 * numbers with a point, or an exponent where four decimals would hide a number or
 * fill the line. PyTorch and NumPy take the exponent as soon as the largest is
 * 1000 times the smallest; here it takes 10^5, so that a column of ordinary
 * values beside a small one stays readable. */
#include "repl/display.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "devices/device.h"
#include "lib/mesh.h"
#include "vm/core/mapped.h"
#include "vm/core/tape.h"

enum { MOST_ELEMENTS = 1000, MOST_LINES = 60, EDGE = 3, GAP = 1, CELL = 128 };

typedef enum Style { WHOLE, FIXED, EXPONENT } Style;

/* What is known of the numbers shown, and the style that follows. */
typedef struct Range {
  double least, greatest; /* absolute values, of finite non-zero numbers */
  bool fraction;
  Style style;
} Range;

typedef struct Display {
  TsTensor *x;
  TsDtype dtype;
  int ndim, width;
  int64_t head[TS_MAX_RANK], tail[TS_MAX_RANK]; /* shown at both ends; head = size: all */
  Range re, im;
  int cell; /* columns of the widest element */
  TsText *out;
} Display;

typedef void Visit(Display *d, int64_t index);

/* ---- one element */
static void add_to_range(Range *r, double v) {
  double a = fabs(v);
  if (!isfinite(v) || a == 0) return;
  if (r->greatest == 0 || a < r->least) r->least = a;
  if (a > r->greatest) r->greatest = a;
  r->fraction |= a != floor(a);
}

static Style style_of(const Range *r) {
  if (r->greatest >= 1e8) return EXPONENT;
  if (!r->fraction) return WHOLE;
  return r->least < 1e-4 || r->greatest > r->least * 1e5 ? EXPONENT : FIXED;
}

static int number_text(const Range *r, double v, bool plus, char *out) {
  static const char *const format[2][3] = {{"%.0f.", "%.4f", "%.4e"},
                                           {"%+.0f.", "%+.4f", "%+.4e"}};
  if (isnan(v)) return sprintf(out, plus ? "+nan" : "nan");
  if (isinf(v)) return sprintf(out, "%sinf", v < 0 ? "-" : plus ? "+" : "");
  return snprintf(out, CELL / 2, format[plus][r->style], v);
}

static int element_text(Display *d, int64_t index, char *out) {
  double part[2];
  if (ts_dtype_is(d->dtype, TS_KIND_B))
    return sprintf(out, "%s", ts_tensor_get_int(d->x, index) ? "true" : "false");
  if (ts_dtype_is(d->dtype, TS_KIND_I | TS_KIND_U))
    return sprintf(out, "%lld", (long long)ts_tensor_get_int(d->x, index));
  if (!ts_dtype_is(d->dtype, TS_KIND_C))
    return number_text(&d->re, ts_tensor_get(d->x, index), false, out);
  ts_tensor_get_complex(d->x, index, part);
  int n = number_text(&d->re, part[0], false, out);
  n += number_text(&d->im, part[1], true, out + n);
  return n + sprintf(out + n, "i");
}

/* ---- what is shown */
static bool is_cut(const Display *d, int axis) {
  return d->head[axis] + d->tail[axis] < d->x->meta.dim[axis];
}

static void visit_axis(Display *d, int axis, int64_t base, Visit *visit) {
  if (axis == d->ndim) {
    visit(d, base);
    return;
  }
  int64_t n = d->x->meta.dim[axis];
  for (int64_t i = 0; i < n; i++) {
    if (i == d->head[axis] && is_cut(d, axis)) i = n - d->tail[axis];
    if (i < n) visit_axis(d, axis + 1, base * n + i, visit);
  }
}

static void see(Display *d, int64_t index) {
  double part[2];
  if (ts_dtype_is(d->dtype, TS_KIND_C)) {
    ts_tensor_get_complex(d->x, index, part);
    add_to_range(&d->re, part[0]);
    add_to_range(&d->im, part[1]);
  } else if (!ts_dtype_is(d->dtype, TS_KIND_B | TS_KIND_I | TS_KIND_U)) {
    add_to_range(&d->re, ts_tensor_get(d->x, index));
  }
}

static void measure(Display *d, int64_t index) {
  char text[CELL];
  int n = element_text(d, index, text);
  if (n > d->cell) d->cell = n;
}

static void find_format(Display *d) {
  d->re = d->im = (Range){0};
  d->cell = 0;
  visit_axis(d, 0, 0, see);
  d->re.style = style_of(&d->re);
  d->im.style = style_of(&d->im);
  visit_axis(d, 0, 0, measure);
}

/* ---- eliding */
static void cut_axis(Display *d, int axis, int64_t head, int64_t tail) {
  int64_t n = d->x->meta.dim[axis];
  d->head[axis] = head + tail < n ? head : n;
  d->tail[axis] = head + tail < n ? tail : 0;
}

/* Lines of the rows, with one empty line between matrices. */
static int64_t count_lines(const Display *d) {
  int64_t lines = 1;
  for (int axis = d->ndim - 2; axis >= 0 && lines <= MOST_LINES; axis--) {
    int64_t parts = d->head[axis] + d->tail[axis];
    lines = parts * lines + is_cut(d, axis) + (axis < d->ndim - 2 ? parts - 1 : 0);
  }
  return lines;
}

static void elide_lines(Display *d) {
  for (int edge = EDGE; edge > 0 && count_lines(d) > MOST_LINES; edge--)
    for (int axis = 0; axis < d->ndim - 1; axis++) cut_axis(d, axis, edge, edge);
  for (int axis = 0; axis < d->ndim - 1 && count_lines(d) > MOST_LINES; axis++)
    cut_axis(d, axis, 1, 0);
}

/* Cuts the last axis to what fits a line between its brackets; needs the format. */
static void elide_columns(Display *d) {
  int axis = d->ndim - 1;
  int64_t shown = d->head[axis] + d->tail[axis], room = d->width - 2 * d->ndim;
  int64_t need = shown * (d->cell + GAP) - GAP + (is_cut(d, axis) ? 3 + GAP : 0);
  if (need <= room) return;
  int64_t fit = (room - 3) / (d->cell + GAP);
  if (fit < 2) fit = 2;
  if (fit > shown) fit = shown;
  cut_axis(d, axis, (fit + 1) / 2, fit / 2);
  find_format(d);
}

static void choose(Display *d) {
  bool large = ts_tensor_numel(d->x) > MOST_ELEMENTS;
  for (int axis = 0; axis < d->ndim; axis++) {
    int64_t n = d->x->meta.dim[axis], edge = large && d->width > 0 ? EDGE : n;
    cut_axis(d, axis, edge, edge);
  }
  if (d->width > 0) elide_lines(d);
  find_format(d);
  if (d->width > 0 && d->ndim > 0) elide_columns(d);
}

/* ---- writing */
static void put_element(Display *d, int64_t index) {
  char text[CELL];
  int n = element_text(d, index, text);
  ts_text_pad(d->out, ' ', d->cell - n);
  ts_text_add(d->out, text, (size_t)n);
}

/* Between two parts of an axis: blanks in a row, else line ends and indentation. */
static void put_gap(Display *d, int axis) {
  int deep = d->ndim - 1 - axis;
  ts_text_pad(d->out, deep ? '\n' : ' ', deep > 1 ? 2 : deep ? 1 : GAP);
  if (deep) ts_text_pad(d->out, ' ', axis + 1);
}

static void put_axis(Display *d, int axis, int64_t base) {
  if (axis == d->ndim) {
    put_element(d, base);
    return;
  }
  int64_t n = d->x->meta.dim[axis];
  ts_text_char(d->out, '[');
  for (int64_t i = 0; i < n; i++) {
    if (i) put_gap(d, axis);
    if (i == d->head[axis] && is_cut(d, axis)) {
      ts_text_str(d->out, "...");
      if ((i = n - d->tail[axis]) == n) break;
      put_gap(d, axis);
    }
    put_axis(d, axis + 1, base * n + i);
  }
  ts_text_char(d->out, ']');
}

/* What the type does not say: that all devices of a mesh have all of it. */
static void put_mesh(const TsTensor *x, TsText *out) {
  const TsLayout *l = ts_layout_of(&x->meta);
  bool split = l->partial != 0;
  for (int d = 0; d < l->ndim; d++) split |= l->naxis[d] > 0;
  if (split) return;
  ts_text_str(out, " on");
  for (int a = 0; a < l->mesh->naxis; a++)
    ts_text_format(out, " %s=%d", l->mesh->axis[a], l->mesh->size[a]);
}

static void put_type(TsContext *c, TsTensor *x, TsText *out) {
  char meta[TS_META_TEXT];
  ts_text_str(out, ts_meta_text(&x->meta, meta));
  if (x->meta.layout) put_mesh(x, out);
  if (x->meta.device != c->device && !x->meta.layout)
    ts_text_format(out, " %s", ts_device_at(x->meta.device)->name);
  if (ts_tape_asks(x)) ts_text_str(out, " requires_grad");
}

void ts_display_tensor(TsContext *c, TsTensor *x, int width, TsText *text) {
  Display d = {
      .x = x, .dtype = ts_tensor_dtype(x), .ndim = x->meta.ndim, .width = width, .out = text};
  bool one_line = d.ndim == 0 || ts_tensor_numel(x) == 0;
  if (ts_tensor_is_planned(x)) {
    ts_text_str(text, "planned"), one_line = true;
  } else if (ts_tensor_numel(x) == 0) {
    ts_text_str(text, "[]");
  } else if (!ts_tensor_read(x)) {
    ts_text_format(text, "(%s)", c->err.message);
    ts_error_clear(&c->err);
  } else {
    size_t before = text->len;
    choose(&d);
    put_axis(&d, 0, 0);
    if (ts_mapped_changed() && ts_mapped_check(c, 1, &x)) {
      text->len = before;
      ts_text_format(text, "(%s)", c->err.message);
      ts_error_clear(&c->err);
    }
  }
  ts_text_char(text, one_line ? ' ' : '\n');
  put_type(c, x, text);
}

int ts_display_width(void) {
  struct winsize size = {0};
  if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
    return size.ws_col;
  const char *columns = getenv("COLUMNS");
  int n = columns ? atoi(columns) : 0;
  return n > 0 && n < 100000 ? n : 80;
}
