/* libevent's server of HTTP. What it leaves open is done here: who sends a request drop by drop is cut
 * off after the same time as who is silent, and who has gone while a request waits is noticed. */
#include "net/http/http.h"

#include <errno.h>
#include <string.h>

#ifdef TS_EVENT
#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

typedef struct Request {
  struct Request *next;
  struct TsHttp *http;
  int64_t id;
  struct evhttp_request *raw; /* NULL: who asked has gone */
  bool given, answered;
} Request;

/* Of a descriptor: which connection it is, and since when its request comes; 0: none does. */
typedef struct Arrival {
  const struct bufferevent *of;
  int64_t since;
} Arrival;

enum { DESCRIPTORS = 4096 };

struct TsHttp {
  struct event_base *base;
  struct evhttp *http;
  struct evhttp_bound_socket *bound;
  struct event *timer, *pause;
  Request *first, **last;
  int64_t ids;
  int port, patience, count;
  bool refuses;
  Arrival arrival[DESCRIPTORS];
};

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec + 1;
}

/* ---- requests */
static Request *find(TsHttp *h, int64_t id) {
  for (Request *r = h->first; r; r = r->next)
    if (r->id == id) return r;
  return NULL;
}

static void forget(TsHttp *h, Request *r) {
  for (Request **at = &h->first; *at; at = &(*at)->next) {
    if (*at != r) continue;
    *at = r->next;
    if (h->last == &r->next) h->last = at;
    break;
  }
  h->count--;
  free(r);
}

/* The connection has ended; libevent frees what is its. */
static void gone(struct evhttp_connection *c, void *arg) {
  Request *r = arg;
  (void)c;
  r->raw = NULL;
  if (r->answered) forget(r->http, r);
}

static void taken(struct evhttp_request *raw, void *arg) {
  Request *r = arg;
  evhttp_connection_set_closecb(evhttp_request_get_connection(raw), NULL, NULL);
  forget(r->http, r);
}

static int descriptor(Request *r) {
  struct evhttp_connection *c = evhttp_request_get_connection(r->raw);
  return c ? bufferevent_getfd(evhttp_connection_get_bufferevent(c)) : -1;
}

static void came(struct evhttp_request *raw, void *arg) {
  TsHttp *h = arg;
  Request *r = h->refuses ? NULL : calloc(1, sizeof *r);
  if (!r) return evhttp_send_error(raw, HTTP_SERVUNAVAIL, NULL);
  *r = (Request){.http = h, .id = ++h->ids, .raw = raw};
  *h->last = r;
  h->last = &r->next;
  h->count++;
  int fd = descriptor(r);
  if (fd >= 0 && fd < DESCRIPTORS) h->arrival[fd].since = 0;
  evhttp_connection_set_closecb(evhttp_request_get_connection(raw), gone, r);
  evhttp_request_set_on_complete_cb(raw, taken, r);
}

/* ---- how requests come */
static TsHttp *open_one; /* whose connections these are: libevent gives a hook one argument */

/* Each piece of input. One that begins a request starts its time; behind it the connection ends. */
static void arrives(struct evbuffer *b, const struct evbuffer_cb_info *info, void *arg) {
  (void)b;
  int fd = bufferevent_getfd(arg);
  if (!info->n_added || !open_one || fd < 0 || fd >= DESCRIPTORS) return;
  Arrival *a = &open_one->arrival[fd];
  if (a->of != arg) *a = (Arrival){.of = arg};
  if (!a->since) a->since = now();
  if (now() - a->since > open_one->patience) shutdown(fd, SHUT_RDWR);
}

static struct bufferevent *connected(struct event_base *base, void *arg) {
  TsHttp *h = arg;
  struct bufferevent *b = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
  if (!b) return NULL;
  for (int i = 0; i < DESCRIPTORS; i++) /* an older one may have stood there */
    if (h->arrival[i].of == b) h->arrival[i] = (Arrival){0};
  if (evbuffer_add_cb(bufferevent_get_input(b), arrives, b)) return b;
  bufferevent_free(b);
  return NULL;
}

/* Too many descriptors: those that come wait until some have ended. */
static void crowded(struct evconnlistener *l, void *arg) {
  TsHttp *h = arg;
  evconnlistener_disable(l);
  event_add(h->pause, &(struct timeval){.tv_usec = 200000});
}

static void resume(evutil_socket_t fd, short what, void *arg) {
  TsHttp *h = arg;
  (void)fd, (void)what;
  if (!h->refuses) evconnlistener_enable(evhttp_bound_socket_get_listener(h->bound));
}

static void nothing(evutil_socket_t fd, short what, void *arg) {
  (void)fd, (void)what, (void)arg;
}

/* Those that wait for an answer and have closed their end. */
static void look_for_gone(TsHttp *h) {
  for (Request *r = h->first, *next; r; r = next) {
    char c;
    next = r->next;
    if (!r->raw || r->answered) continue;
    ssize_t n = recv(descriptor(r), &c, 1, MSG_PEEK | MSG_DONTWAIT);
    bool lost = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    if (lost) evhttp_connection_free(evhttp_request_get_connection(r->raw));
  }
}

/* ---- the server */
static void say_nothing(int level, const char *text) { (void)level, (void)text; }

static int start(TsHttp *h, const TsHttpOptions *o, TsError *e) {
  event_set_log_callback(say_nothing);
  h->base = event_base_new();
  h->http = h->base ? evhttp_new(h->base) : NULL;
  h->timer = h->http ? event_new(h->base, -1, 0, nothing, NULL) : NULL;
  h->pause = h->timer ? event_new(h->base, -1, 0, resume, h) : NULL;
  if (!h->pause) return ts_error_memory(e);
  evhttp_set_bevcb(h->http, connected, h);
  evhttp_set_max_body_size(h->http, (ev_ssize_t)o->most_body);
  evhttp_set_max_headers_size(h->http, (ev_ssize_t)o->most_heads);
  evhttp_set_timeout(h->http, o->patience);
  evhttp_set_allowed_methods(h->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                          EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                                          EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
  evhttp_set_gencb(h->http, came, h);
  errno = 0;
  h->bound = evhttp_bind_socket_with_handle(h->http, o->host, (ev_uint16_t)o->port);
  if (!h->bound)
    return ts_error_set(e, TS_ERR_io, "cannot listen at %s, port %d: %s", o->host, o->port,
                        errno ? strerror(errno) : "no such address");
  evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(h->bound), crowded);
  struct sockaddr_storage at;
  socklen_t n = sizeof at;
  if (!getsockname(evhttp_bound_socket_get_fd(h->bound), (struct sockaddr *)&at, &n))
    h->port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                             : ((struct sockaddr_in *)&at)->sin_port);
  return 0;
}

TsHttp *ts_http_open(const TsHttpOptions *o, TsError *e) {
  if (open_one) {
    ts_error_set(e, TS_ERR_value, "a server is open already");
    return NULL;
  }
  TsHttp *h = calloc(1, sizeof *h);
  if (!h) {
    ts_error_memory(e);
    return NULL;
  }
  h->last = &h->first, h->patience = o->patience;
  if (start(h, o, e)) {
    ts_http_close(h);
    return NULL;
  }
  return open_one = h;
}

void ts_http_close(TsHttp *h) {
  if (!h) return;
  if (h->http) evhttp_free(h->http);
  while (h->first) forget(h, h->first);
  if (h->timer) event_free(h->timer);
  if (h->pause) event_free(h->pause);
  if (h->base) event_base_free(h->base);
  if (open_one == h) open_one = NULL;
  free(h);
}

int ts_http_port(const TsHttp *h) { return h->port; }

void ts_http_wait(TsHttp *h, int msec) {
  look_for_gone(h);
  if (msec > 0)
    event_add(h->timer,
              &(struct timeval){.tv_sec = msec / 1000, .tv_usec = msec % 1000 * 1000});
  event_base_loop(h->base, msec > 0 ? EVLOOP_ONCE : EVLOOP_NONBLOCK);
  event_del(h->timer);
}

bool ts_http_next(TsHttp *h, TsHttpRequest *out) {
  Request *r = h->first;
  while (r && (r->given || !r->raw)) {
    Request *next = r->next;
    if (!r->given) forget(h, r); /* gone before anybody saw it */
    r = next;
  }
  if (!r) return false;
  static const struct {
    enum evhttp_cmd_type type;
    const char *name;
  } methods[] = {{EVHTTP_REQ_GET, "GET"},       {EVHTTP_REQ_POST, "POST"},
                 {EVHTTP_REQ_HEAD, "HEAD"},     {EVHTTP_REQ_PUT, "PUT"},
                 {EVHTTP_REQ_DELETE, "DELETE"}, {EVHTTP_REQ_OPTIONS, "OPTIONS"},
                 {EVHTTP_REQ_PATCH, "PATCH"}};
  const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(r->raw));
  struct evbuffer *in = evhttp_request_get_input_buffer(r->raw);
  size_t n = evbuffer_get_length(in);
  const unsigned char *body = n ? evbuffer_pullup(in, -1) : NULL;
  *out = (TsHttpRequest){.id = r->id,
                         .method = "?",
                         .path = path ? path : "",
                         .body = body ? (const char *)body : "",
                         .nbody = body ? n : 0};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (methods[i].type == evhttp_request_get_command(r->raw)) out->method = methods[i].name;
  r->given = true;
  return true;
}

bool ts_http_is_gone(TsHttp *h, int64_t id) {
  Request *r = find(h, id);
  return !r || !r->raw;
}

int ts_http_open_count(const TsHttp *h) { return h->count; }

/* ---- answers */
/* The request that can be answered; one whose asker has gone is forgotten when it ends. */
static Request *answerable(TsHttp *h, int64_t id, bool ends) {
  Request *r = find(h, id);
  if (r && !r->raw && ends) forget(h, r), r = NULL;
  return r && r->raw && !r->answered ? r : NULL;
}

static int drop(Request *r) {
  r->answered = true;
  evhttp_connection_free(evhttp_request_get_connection(r->raw));
  return -1;
}

static bool set_type(Request *r, const char *type) {
  return !evhttp_add_header(evhttp_request_get_output_headers(r->raw), "Content-Type", type);
}

static const char *reason(int status) {
  switch (status) {
  case 200: return "OK";
  case 400: return "Bad Request";
  case 404: return "Not Found";
  case 405: return "Method Not Allowed";
  case 429: return "Too Many Requests";
  case 500: return "Internal Server Error";
  case 503: return "Service Unavailable";
  case 504: return "Gateway Timeout";
  default: return "Error";
  }
}

int ts_http_reply(TsHttp *h, int64_t id, int status, const char *type, const char *body,
                  size_t n) {
  Request *r = answerable(h, id, true);
  if (!r) return 0;
  struct evbuffer *out = evbuffer_new();
  if (!out || !set_type(r, type) || evbuffer_add(out, body, n)) {
    if (out) evbuffer_free(out);
    return drop(r);
  }
  r->answered = true;
  evhttp_send_reply(r->raw, status, reason(status), out);
  evbuffer_free(out);
  return 0;
}

int ts_http_begin(TsHttp *h, int64_t id, const char *type) {
  Request *r = answerable(h, id, false);
  if (!r) return 0;
  if (!set_type(r, type)) return drop(r);
  evhttp_add_header(evhttp_request_get_output_headers(r->raw), "Cache-Control", "no-cache");
  evhttp_send_reply_start(r->raw, 200, "OK");
  return 0;
}

int ts_http_send(TsHttp *h, int64_t id, const char *piece, size_t n) {
  Request *r = answerable(h, id, false);
  if (!r || !n) return 0;
  struct evbuffer *out = evbuffer_new();
  if (!out || evbuffer_add(out, piece, n)) {
    if (out) evbuffer_free(out);
    return drop(r);
  }
  evhttp_send_reply_chunk(r->raw, out);
  evbuffer_free(out);
  return 0;
}

int ts_http_end(TsHttp *h, int64_t id) {
  Request *r = answerable(h, id, true);
  if (!r) return 0;
  r->answered = true;
  evhttp_send_reply_end(r->raw);
  return 0;
}

void ts_http_refuse(TsHttp *h) {
  h->refuses = true;
  if (h->bound) evhttp_del_accept_socket(h->http, h->bound);
  h->bound = NULL;
}

#else /* without libevent */
static int missing(TsError *e) {
  ts_error_set(e, TS_ERR_device, "this program was built without libevent");
  return ts_error_hint(e, "install libevent-dev (scripts/setup.sh does), then make");
}

TsHttp *ts_http_open(const TsHttpOptions *o, TsError *e) {
  (void)o;
  missing(e);
  return NULL;
}
void ts_http_close(TsHttp *h) { (void)h; }
int ts_http_port(const TsHttp *h) { return (void)h, 0; }
void ts_http_wait(TsHttp *h, int msec) { (void)h, (void)msec; }
bool ts_http_next(TsHttp *h, TsHttpRequest *r) { return (void)h, (void)r, false; }
bool ts_http_is_gone(TsHttp *h, int64_t id) { return (void)h, (void)id, true; }
int ts_http_open_count(const TsHttp *h) { return (void)h, 0; }
int ts_http_reply(TsHttp *h, int64_t id, int status, const char *type, const char *body,
                  size_t n) {
  return (void)h, (void)id, (void)status, (void)type, (void)body, (void)n, 0;
}
int ts_http_begin(TsHttp *h, int64_t id, const char *type) {
  return (void)h, (void)id, (void)type, 0;
}
int ts_http_send(TsHttp *h, int64_t id, const char *piece, size_t n) {
  return (void)h, (void)id, (void)piece, (void)n, 0;
}
int ts_http_end(TsHttp *h, int64_t id) { return (void)h, (void)id, 0; }
void ts_http_refuse(TsHttp *h) { (void)h; }
#endif
