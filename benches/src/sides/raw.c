/* The C sides: two endpoints of one provider in one thread. Every function returns 0 or a negative fabric errno. Compiled with -O2,
 * twice: with libfabric's own inline functions, as a C program would use them, and with functions that are called (`shim.h`). */
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef SHIM
#include "shim.h"
#define LOOPS shim_loops
#else
#define LOOPS raw_loops
#endif

struct raw {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep[2];
	struct fid_mr *mr;
	fi_addr_t addr[2];
	uint64_t remote, key;
	char *tx, *rx, *window;
	size_t size;
	struct fi_context2 context[2], full[64];
};

#define CHECK(call) do { int ret_ = (int) (call); if (ret_) return ret_; } while (0)

static void raw_close(struct raw *raw)
{
	if (!raw)
		return;
	if (raw->mr) fi_close(&raw->mr->fid);
	if (raw->ep[0]) fi_close(&raw->ep[0]->fid);
	if (raw->ep[1]) fi_close(&raw->ep[1]->fid);
	if (raw->cq) fi_close(&raw->cq->fid);
	if (raw->av) fi_close(&raw->av->fid);
	if (raw->domain) fi_close(&raw->domain->fid);
	if (raw->fabric) fi_close(&raw->fabric->fid);
	if (raw->info) fi_freeinfo(raw->info);
	free(raw->tx);
	free(raw->rx);
	free(raw->window);
	free(raw);
}

static int open_all(struct raw *raw, const char *provider, const char *node, int atomics)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq_attr = { .size = 256, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = 2 };
	int ret, i;

	if (!hints)
		return -FI_ENOMEM;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | (atomics ? FI_ATOMIC : 0);
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	/* As loom does: with an order, RMA over shm goes through the peer's queue, where keys are checked. */
	hints->tx_attr->msg_order = FI_ORDER_WAW;
	hints->fabric_attr->prov_name = strdup(provider);
	ret = fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), node, NULL, node ? FI_SOURCE : 0, hints,
			 &raw->info);
	fi_freeinfo(hints);
	CHECK(ret);
	CHECK(fi_fabric(raw->info->fabric_attr, &raw->fabric, NULL));
	CHECK(fi_domain(raw->fabric, raw->info, &raw->domain, NULL));
	CHECK(fi_av_open(raw->domain, &av_attr, &raw->av, NULL));
	CHECK(fi_cq_open(raw->domain, &cq_attr, &raw->cq, NULL));
	for (i = 0; i < 2; i++) {
		char name[512];
		size_t len = sizeof(name);

		CHECK(fi_endpoint(raw->domain, raw->info, &raw->ep[i], NULL));
		CHECK(fi_ep_bind(raw->ep[i], &raw->av->fid, 0));
		CHECK(fi_ep_bind(raw->ep[i], &raw->cq->fid, FI_TRANSMIT | FI_RECV));
		CHECK(fi_enable(raw->ep[i]));
		CHECK(fi_getname(&raw->ep[i]->fid, name, &len));
		if (fi_av_insert(raw->av, name, 1, &raw->addr[i], 0, NULL) != 1)
			return -FI_EADDRNOTAVAIL;
	}
	CHECK(fi_mr_reg(raw->domain, raw->window, raw->size, FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 1, 0, &raw->mr, NULL));
	raw->key = fi_mr_key(raw->mr);
	raw->remote = (raw->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) ? (uint64_t) (uintptr_t) raw->window : 0;
	return 0;
}

/* The longest message that can be injected. */
static size_t raw_inject_size(const struct raw *raw)
{
	return raw->info->tx_attr->inject_size;
}

static int raw_open(const char *provider, const char *node, size_t size, int atomics, struct raw **out)
{
	struct raw *raw = calloc(1, sizeof(*raw));
	int ret;

	if (!raw)
		return -FI_ENOMEM;
	raw->size = size;
	raw->tx = calloc(1, size);
	raw->rx = calloc(1, size);
	raw->window = calloc(1, size);
	/* Written, like loom's: memory that never was is one page of zeros, which is always in the cache. */
	if (raw->tx)
		memset(raw->tx, 0x5a, size);
	ret = raw->tx && raw->rx && raw->window ? open_all(raw, provider, node, atomics) : -FI_ENOMEM;
	if (ret) {
		raw_close(raw);
		return ret;
	}
	*out = raw;
	return 0;
}

/* Waits for `count` completions. */
static int reap(struct raw *raw, int count)
{
	struct fi_cq_tagged_entry entry;

	while (count) {
		ssize_t ret = fi_cq_read(raw->cq, &entry, 1);
		if (ret == 1)
			count--;
		else if (ret != -FI_EAGAIN)
			return ret < 0 ? (int) ret : -FI_EOTHER;
	}
	return 0;
}

/* Posts until it is taken. */
#define POST(raw, call) do { \
	ssize_t posted_; \
	while ((posted_ = (call)) == -FI_EAGAIN) \
		fi_cq_read((raw)->cq, NULL, 0); \
	CHECK(posted_); \
} while (0)

static int raw_tagged(struct raw *raw, size_t len, long count)
{
	while (count--) {
		POST(raw, fi_trecv(raw->ep[1], raw->rx, len, NULL, FI_ADDR_UNSPEC, 7, 0, &raw->context[1]));
		POST(raw, fi_tsend(raw->ep[0], raw->tx, len, NULL, raw->addr[1], 7, &raw->context[0]));
		CHECK(reap(raw, 2));
	}
	return 0;
}

/* The message is there before the receive. Some providers complete the send only after that. */
static int raw_unexpected(struct raw *raw, size_t len, long count)
{
	struct fi_cq_tagged_entry entry;

	while (count--) {
		ssize_t ret;

		POST(raw, fi_tsend(raw->ep[0], raw->tx, len, NULL, raw->addr[1], 7, &raw->context[0]));
		ret = fi_cq_read(raw->cq, &entry, 1);
		if (ret < 0 && ret != -FI_EAGAIN)
			return (int) ret;
		POST(raw, fi_trecv(raw->ep[1], raw->rx, len, NULL, FI_ADDR_UNSPEC, 7, 0, &raw->context[1]));
		CHECK(reap(raw, ret == 1 ? 1 : 2));
	}
	return 0;
}

static int raw_message(struct raw *raw, size_t len, long count)
{
	while (count--) {
		POST(raw, fi_recv(raw->ep[1], raw->rx, len, NULL, FI_ADDR_UNSPEC, &raw->context[1]));
		POST(raw, fi_send(raw->ep[0], raw->tx, len, NULL, raw->addr[1], &raw->context[0]));
		CHECK(reap(raw, 2));
	}
	return 0;
}

static int raw_inject(struct raw *raw, size_t len, long count)
{
	while (count--) {
		POST(raw, fi_recv(raw->ep[1], raw->rx, len, NULL, FI_ADDR_UNSPEC, &raw->context[1]));
		POST(raw, fi_inject(raw->ep[0], raw->tx, len, raw->addr[1]));
		CHECK(reap(raw, 1));
	}
	return 0;
}

static int raw_write(struct raw *raw, size_t len, long count)
{
	while (count--) {
		POST(raw, fi_write(raw->ep[0], raw->tx, len, NULL, raw->addr[1], raw->remote, raw->key, &raw->context[0]));
		CHECK(reap(raw, 1));
	}
	return 0;
}

static int raw_write_data(struct raw *raw, size_t len, long count)
{
	while (count--) {
		POST(raw, fi_writedata(raw->ep[0], raw->tx, len, NULL, 9, raw->addr[1], raw->remote, raw->key,
				       &raw->context[0]));
		CHECK(reap(raw, 2));
	}
	return 0;
}

/* A block of a list: offsets of the source and of the target, and a length. */
struct block {
	uint64_t from, to, len;
};

/* Writes a list with immediate data, up to 64 in flight, until all completions and all events of the peer have been read. */
static int raw_write_list(struct raw *raw, const struct block *blocks, long count)
{
	struct fi_cq_tagged_entry entries[16];
	long posted = 0, read = 0;

	while (read < 2 * count) {
		ssize_t ret;

		while (posted < count && posted - read / 2 < 64) {
			const struct block *block = &blocks[posted];

			ret = fi_writedata(raw->ep[0], raw->tx + block->from, block->len, NULL, 9, raw->addr[1],
					   raw->remote + block->to, raw->key, &raw->context[0]);
			if (ret == -FI_EAGAIN)
				break;
			CHECK(ret);
			posted++;
		}
		ret = fi_cq_read(raw->cq, entries, 16);
		if (ret > 0)
			read += ret;
		else if (ret != -FI_EAGAIN)
			return ret < 0 ? (int) ret : -FI_EOTHER;
	}
	return 0;
}

static int raw_read(struct raw *raw, size_t len, long count)
{
	while (count--) {
		POST(raw, fi_read(raw->ep[0], raw->rx, len, NULL, raw->addr[1], raw->remote, raw->key, &raw->context[0]));
		CHECK(reap(raw, 1));
	}
	return 0;
}

/* The first word of the window. */
static int raw_fetch_add(struct raw *raw, size_t len, long count)
{
	uint64_t one = 1, before = 0, last = 0;

	(void) len;
	while (count--) {
		POST(raw, fi_fetch_atomic(raw->ep[0], &one, 1, NULL, &before, NULL, raw->addr[1], raw->remote, raw->key,
					  FI_UINT64, FI_SUM, &raw->context[0]));
		CHECK(reap(raw, 1));
		if (last && before != last + 1)
			return -FI_EOTHER;
		last = before;
	}
	return 0;
}

/* `len` is not used: all operations are called alike. */
static int raw_poll_empty(struct raw *raw, size_t len, long count)
{
	struct fi_cq_tagged_entry entry;

	(void) len;
	while (count--) {
		ssize_t ret = fi_cq_read(raw->cq, &entry, 1);
		if (ret != -FI_EAGAIN)
			return ret < 0 ? (int) ret : -FI_EOTHER;
	}
	return 0;
}

/* What `raw_poll_full` has to poll each time. */
#define FULL 64

static int fill(struct raw *raw)
{
	int i;

	for (i = 0; i < FULL; i++)
		POST(raw, fi_trecv(raw->ep[1], raw->rx, 8, NULL, FI_ADDR_UNSPEC, 7, 0, &raw->full[i]));
	for (i = 0; i < FULL; i++)
		POST(raw, fi_tinject(raw->ep[0], raw->tx, 8, raw->addr[1], 7));
	return 0;
}

static long nanoseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

/* Reads 64 completions, at most `batch` with one call, `count` times; says how many nanoseconds the reading took. */
static int raw_poll_full(struct raw *raw, size_t batch, long count, long *took)
{
	struct fi_cq_tagged_entry entries[FULL];

	*took = 0;
	while (count--) {
		long begin;
		ssize_t missing = FULL;

		CHECK(fill(raw));
		begin = nanoseconds();
		while (missing) {
			ssize_t ret = fi_cq_read(raw->cq, entries, batch);
			if (ret > 0)
				missing -= ret;
			else if (ret != -FI_EAGAIN)
				return ret < 0 ? (int) ret : -FI_EOTHER;
		}
		*took += nanoseconds() - begin;
	}
	return 0;
}

/* What the Rust side calls: `Loops` in c.rs. */
const struct {
	int (*open)(const char *provider, const char *node, size_t size, int atomics, struct raw **out);
	void (*close)(struct raw *raw);
	size_t (*inject_size)(const struct raw *raw);
	int (*poll_full)(struct raw *raw, size_t batch, long count, long *took);
	int (*inject)(struct raw *raw, size_t len, long count);
	int (*message)(struct raw *raw, size_t len, long count);
	int (*tagged)(struct raw *raw, size_t len, long count);
	int (*unexpected)(struct raw *raw, size_t len, long count);
	int (*write)(struct raw *raw, size_t len, long count);
	int (*write_data)(struct raw *raw, size_t len, long count);
	int (*read)(struct raw *raw, size_t len, long count);
	int (*fetch_add)(struct raw *raw, size_t len, long count);
	int (*poll_empty)(struct raw *raw, size_t len, long count);
	int (*write_list)(struct raw *raw, const struct block *blocks, long count);
} LOOPS = {
	raw_open, raw_close, raw_inject_size, raw_poll_full,
	raw_inject, raw_message, raw_tagged, raw_unexpected, raw_write, raw_write_data, raw_read, raw_fetch_add,
	raw_poll_empty, raw_write_list,
};
