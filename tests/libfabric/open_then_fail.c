/* A libfabric whose calls fail on request. It grants the hints, under the provider's name in them. Objects are never freed, so
 * that calls on closed ones are detected.
 *
 * FAKE_PLANT in the environment plants a fault in closing, for controls: see `plant`. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct object {
	union {
		struct fid fid;
		struct fid_fabric fabric;
		struct fid_domain domain;
		struct fid_av av;
		struct fid_av_set set;
		struct fid_cq cq;
		struct fid_eq eq;
		struct fid_ep ep;
		struct fid_pep pep;
		struct fid_mr mr;
		struct fid_cntr cntr;
		struct fid_poll poll;
		struct fid_wait wait;
		struct fid_mc mc;
	};
	const char *kind;
	struct object *older, *parent, *bound[16];
	enum { OPEN, FAILED, NOT_CLOSED, CLOSED } state;
	/* `fresh`: opened since `fake_begin`. `pending`: its event was not read. */
	int fresh, pending, number;
};

static struct object *objects;
static int recording, calls, fail_at, from_then_on, error, number;
static char text[8192], fault[256], failed[64], log_of_calls[4096];
static struct fi_info *granted;

void fake_begin(int at, int all, int number_of_error)
{
	recording = 1, calls = 0, fail_at = at, from_then_on = all, error = number_of_error;
}

void fake_end(void)
{
	recording = 0;
}

/* Tab-separated: number of calls, failed call, fault, open objects, log. Forgets the objects. */
const char *fake_report(void)
{
	struct object *o;
	size_t len = snprintf(text, sizeof text, "%d\t%s\t%s\t", calls, failed, fault);

	for (o = objects; o; o = o->older)
		if (o->state != CLOSED)
			len += snprintf(text + len, sizeof text - len, "%s ", o->kind);
	snprintf(text + len, sizeof text - len, "\t%s", log_of_calls);
	objects = NULL;
	calls = 0, *failed = *fault = *log_of_calls = 0;
	return text;
}

static void wrong(const char *format, const char *a, const char *b)
{
	if (!*fault)
		snprintf(fault, sizeof fault, format, a, b);
}

static int plant(const char *name)
{
	const char *planted = getenv("FAKE_PLANT");

	return planted && !strcmp(planted, name);
}

/* Whether endpoints without an entry in their table are enabled before they are closed. */
static int has_table(void)
{
	return !strcmp(granted->fabric_attr->prov_name, "sm2");
}

/* Each call of the provider begins here: with 0, or the error that it returns. */
static int called(void *on, const char *call)
{
	static const char *states[] = { "open", "failed", "closed", "closed" };
	struct object *o = on;
	size_t len = strlen(log_of_calls);
	int closes = !strcmp(call, "close"), fails;

	snprintf(log_of_calls + len, sizeof log_of_calls - len, "%s(%s) ", call, o ? o->kind : "");
	if (o && (o->state >= NOT_CLOSED || (o->state == FAILED && !closes && !has_table()))) {
		char what[64];

		snprintf(what, sizeof what, "%s %s", states[o->state], o->kind);
		wrong("%s of a %s", call, what);
	}
	fails = recording && (++calls == fail_at || (from_then_on && fail_at && calls > fail_at));
	if (!fails)
		return 0;
	if (calls == fail_at)
		snprintf(failed, sizeof failed, "%s(%s)", call, o ? o->kind : "");
	if (o && o->fresh)
		o->state = plant("closed by a failure") ? CLOSED : FAILED;
	return -error;
}

static int is_bound(struct object *o, void *to)
{
	int i;

	for (i = 0; i < 16; i++)
		if (o->bound[i] == to)
			return 1;
	return 0;
}

static int bind_to(struct fid *fid, struct fid *to, uint64_t flags)
{
	struct object *o = (void *) fid, *other = (void *) to;
	int i, code = called(fid, "bind");

	if (other->state != OPEN)
		wrong("bind of %s to a closed %s", o->kind, other->kind);
	for (i = 0; !code && i < 16 && o->bound[i]; i++)
		if (!strcmp(other->kind, "av") && !strcmp(o->bound[i]->kind, "av"))
			code = -FI_EINVAL;
	if (!code)
		o->bound[i] = other;
	if (!code && recording && plant("failed by a bind"))
		o->state = FAILED;
	return code;
}

static int close_it(struct fid *fid)
{
	struct object *o = (void *) fid, *other;
	int code = called(fid, "close");

	if (!strcmp(o->kind, "cq") && plant("open queue"))
		return 0;
	for (other = objects; other; other = other->older) {
		if (other->state == CLOSED || (other->parent != o && !is_bound(other, o)))
			continue;
		if (!from_then_on)
			wrong("close of a %s before its %s", o->kind, other->kind);
		code = -FI_EBUSY;
	}
	/* A multicast group stays as it was. */
	o->state = !code ? CLOSED : !strcmp(o->kind, "multicast group") ? OPEN : NOT_CLOSED;
	return code;
}

static int control(struct fid *fid, int command, void *arg)
{
	if (command == FI_GETWAIT)
		*(int *) arg = 0;
	return called(fid, command == FI_ENABLE ? "enable" : "control");
}

static struct fi_ops ops = { .size = sizeof ops, .close = close_it, .bind = bind_to, .control = control };

static void make(void *parent, const char *kind, void *result)
{
	struct object *o = calloc(1, sizeof *o);

	o->fid.ops = &ops;
	o->kind = kind, o->parent = parent, o->fresh = recording, o->number = ++number;
	o->older = objects;
	*(struct object **) result = objects = o;
}

static int opened(void *parent, const char *call, const char *kind, void *result)
{
	int code = called(parent, call);

	if (!code)
		make(parent, kind, result);
	return code;
}

/* A function that opens an object, and then sets it up. */
#define OPENS(name, parameters, parent, kind, result, ...) \
	static int name parameters \
	{ \
		int code = opened(parent, #name, kind, result); \
		if (!code) { __VA_ARGS__; } \
		return code; \
	}
/* A function without effects. */
#define CALLS(name, parameters, on) static int name parameters { return called(on, #name); }

static int insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
	struct object *o = (void *) av;
	int code = called(av, "insert");

	if (code)
		return code;
	*fi_addr = o->pending++;
	return 1;
}

CALLS(set_insert, (struct fid_av_set *set, fi_addr_t addr), set)
CALLS(set_addr, (struct fid_av_set *set, fi_addr_t *addr), set)

static struct fi_ops_av_set set_ops = { .size = sizeof set_ops, .insert = set_insert, .addr = set_addr };

OPENS(av_set, (struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set, void *context), av, "set", set,
      (*set)->ops = &set_ops)

static struct fi_ops_av av_ops = { .size = sizeof av_ops, .insert = insert, .av_set = av_set };

OPENS(av_open, (struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context), domain, "av", av,
      (*av)->ops = &av_ops)

static ssize_t cq_read(struct fid_cq *cq, void *buf, size_t count)
{
	called(cq, "read");
	return -FI_EAGAIN;
}

static struct fi_ops_cq cq_ops = { .size = sizeof cq_ops, .read = cq_read };

OPENS(cq_open, (struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context), domain, "cq", cq,
      (*cq)->ops = &cq_ops; ((struct object *) *cq)->bound[0] = (void *) attr->wait_set)
OPENS(cntr_open, (struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context), domain,
      "cntr", cntr)

static ssize_t eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct fi_eq_cm_entry *request = buf;
	struct object *o;
	int code = called(eq, "read");

	for (o = objects; !code && o; o = o->older) {
		if (!o->pending || o->state != OPEN || !is_bound(o, eq))
			continue;
		o->pending = 0;
		memset(buf, 0, sizeof *request);
		request->fid = &o->fid;
		*event = FI_JOIN_COMPLETE;
		if (strcmp(o->kind, "pep"))
			return sizeof(struct fi_eq_entry);
		request->info = fi_dupinfo(granted);
		make(o, "request", &request->info->handle);
		*event = FI_CONNREQ;
		return sizeof *request;
	}
	return code ? code : -FI_EAGAIN;
}

static struct fi_ops_eq eq_ops = { .size = sizeof eq_ops, .read = eq_read };

OPENS(eq_open, (struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context), fabric, "eq", eq,
      (*eq)->ops = &eq_ops)

static int getname(fid_t fid, void *addr, size_t *len)
{
	struct object *o = (void *) fid;
	struct sockaddr_in in = { AF_INET, htons(o->number), { htonl(INADDR_LOOPBACK) } };

	if (granted->addr_format == FI_ADDR_STR)
		*len = snprintf(addr, *len, "fi_shm://%d", o->number) + 1;
	else
		memcpy(addr, &in, *len = sizeof in);
	return called(fid, "getname");
}

CALLS(connect_to, (struct fid_ep *ep, const void *addr, const void *data, size_t len), ep)
CALLS(accept_it, (struct fid_ep *ep, const void *data, size_t len), ep)

static int listen_at(struct fid_pep *pep)
{
	int code = called(pep, "listen");

	((struct object *) pep)->pending = !code;
	return code;
}

/* An endpoint that is opened, or a rejection. */
static void use_up(fid_t handle)
{
	struct object *o = (void *) handle;

	if (o->state == CLOSED)
		wrong("second use of a %s%s", o->kind, "");
	o->state = CLOSED;
}

static int reject(struct fid_pep *pep, fid_t handle, const void *data, size_t len)
{
	use_up(handle);
	return called(pep, "reject");
}

/* Like `udp`, a join of a multicast group that fails may leave the group open. */
static int join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context)
{
	const struct fi_collective_addr *collective = addr;
	int i, code = called(ep, "join");
	struct object *group, *o = (void *) ep;

	if (code && flags & FI_COLLECTIVE)
		return code;
	if (flags & FI_COLLECTIVE)
		make((void *) collective->set, "collective group", mc);
	else
		make(ep, "multicast group", mc);
	group = (void *) *mc;
	for (i = 0; i < 16; i++)
		if (o->bound[i] && !strcmp(o->bound[i]->kind, "eq"))
			group->bound[0] = o->bound[i];
	group->pending = 1;
	return code;
}

static struct fi_ops_cm cm_ops = {
	.size = sizeof cm_ops, .getname = getname, .connect = connect_to, .listen = listen_at, .accept = accept_it,
	.reject = reject, .join = join,
};

static int getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
	memset(value, 1, *len);
	return called(fid, "getopt");
}

CALLS(setopt, (fid_t fid, int level, int name, const void *value, size_t len), fid)

#define SET_UP(ep) ((*(ep))->ops = &ep_ops, (*(ep))->cm = &cm_ops)

static struct fi_ops_ep ep_ops;

OPENS(tx_ctx, (struct fid_ep *ep, int index, struct fi_tx_attr *attr, struct fid_ep **ctx, void *context), ep, "tx context",
      ctx, SET_UP(ctx))
OPENS(rx_ctx, (struct fid_ep *ep, int index, struct fi_rx_attr *attr, struct fid_ep **ctx, void *context), ep, "rx context",
      ctx, SET_UP(ctx))
OPENS(scalable_ep, (struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context), domain,
      "scalable ep", ep, SET_UP(ep))
OPENS(srx_ctx, (struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep, void *context), domain, "shared rx",
      ep, SET_UP(ep))
OPENS(endpoint, (struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context), domain, "ep", ep,
      SET_UP(ep); if (info->handle) use_up(info->handle))
OPENS(passive_ep, (struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context), fabric, "pep", pep,
      SET_UP(pep))
OPENS(mr_reg, (struct fid *domain, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
	       struct fid_mr **mr, void *context), domain, "mr", mr, (*mr)->key = key)

static struct fi_ops_ep ep_ops = {
	.size = sizeof ep_ops, .getopt = getopt, .setopt = setopt, .tx_ctx = tx_ctx, .rx_ctx = rx_ctx,
};

OPENS(poll_open, (struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set), domain, "poll set", set)
OPENS(wait_open, (struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set), fabric, "wait set", set)

static struct fi_ops_mr mr_ops = { .size = sizeof mr_ops, .reg = mr_reg };
static struct fi_ops_domain domain_ops = {
	.size = sizeof domain_ops, .av_open = av_open, .cq_open = cq_open, .endpoint = endpoint, .scalable_ep = scalable_ep,
	.cntr_open = cntr_open, .poll_open = poll_open, .srx_ctx = srx_ctx,
};

OPENS(domain_open, (struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context), fabric,
      "domain", domain, (*domain)->ops = &domain_ops; (*domain)->mr = &mr_ops)

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof fabric_ops, .domain = domain_open, .passive_ep = passive_ep, .eq_open = eq_open, .wait_open = wait_open,
};

OPENS(fabric_open, (struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context), NULL, "fabric", fabric,
      (*fabric)->ops = &fabric_ops)

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	return fabric_open(attr, fabric, context);
}

/* An info and its parts, in one allocation. */
struct whole {
	struct fi_info info;
	struct fi_tx_attr tx;
	struct fi_rx_attr rx;
	struct fi_ep_attr ep;
	struct fi_domain_attr domain;
	struct fi_fabric_attr fabric;
	char provider[64];
};

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	struct whole *whole = calloc(1, sizeof *whole);

	if (info) {
		whole->info = *info;
		whole->tx = *info->tx_attr;
		whole->rx = *info->rx_attr;
		whole->ep = *info->ep_attr;
		whole->domain = *info->domain_attr;
		whole->fabric = *info->fabric_attr;
		if (info->fabric_attr->prov_name)
			whole->fabric.prov_name = strcpy(whole->provider, info->fabric_attr->prov_name);
	}
	whole->info.tx_attr = &whole->tx;
	whole->info.rx_attr = &whole->rx;
	whole->info.ep_attr = &whole->ep;
	whole->info.domain_attr = &whole->domain;
	whole->info.fabric_attr = &whole->fabric;
	return &whole->info;
}

void fi_freeinfo(struct fi_info *info)
{
	free(info);
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
	       struct fi_info **info)
{
	struct fi_info *it = *info = fi_dupinfo(hints);

	it->mode = 0;
	it->addr_format = it->addr_format ? it->addr_format : FI_SOCKADDR_IN;
	it->tx_attr->caps = it->rx_attr->caps = it->caps;
	it->tx_attr->size = it->rx_attr->size = 64;
	it->tx_attr->iov_limit = it->rx_attr->iov_limit = 4;
	it->ep_attr->max_msg_size = 1 << 20;
	it->ep_attr->tx_ctx_cnt = it->ep_attr->rx_ctx_cnt = 1;
	it->domain_attr->control_progress = it->domain_attr->data_progress = FI_PROGRESS_AUTO;
	it->domain_attr->mr_mode &= it->caps & FI_RMA_EVENT ? FI_MR_ENDPOINT | FI_MR_RMA_EVENT : 0;
	it->domain_attr->mr_key_size = 8;
	it->domain_attr->max_ep_tx_ctx = it->domain_attr->max_ep_rx_ctx = 4;
	it->domain_attr->max_ep_srx_ctx = 1;
	it->domain_attr->name = it->fabric_attr->name = "fake";
	it->fabric_attr->prov_version = FI_VERSION(205, 10);
	granted = fi_dupinfo(it);
	return 0;
}

uint32_t fi_version(void)
{
	return FI_VERSION(2, 5);
}

int fi_getparams(struct fi_param **params, int *count)
{
	*params = NULL, *count = 0;
	return 0;
}

void fi_freeparams(struct fi_param *params)
{
}

char *fi_tostr_r(char *buf, size_t len, const void *data, enum fi_type type)
{
	return strncpy(buf, "", len);
}
