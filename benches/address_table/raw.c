/* The C side of the benchmark of address tables: the address vector of one provider, with libfabric's own inline functions, as a C
 * program would use them. Compiled by the benchmark with -O2. */
#include <malloc.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

struct raw {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	fi_addr_t *peers;
};

#define CHECK(call) do { int ret_ = (int) (call); if (ret_) return ret_; } while (0)

void raw_close(struct raw *raw)
{
	if (!raw)
		return;
	if (raw->av) fi_close(&raw->av->fid);
	if (raw->domain) fi_close(&raw->domain->fid);
	if (raw->fabric) fi_close(&raw->fabric->fid);
	if (raw->info) fi_freeinfo(raw->info);
	free(raw->peers);
	free(raw);
}

static int open_all(struct raw *raw, const char *provider, const char *node, size_t count)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .count = count };
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->fabric_attr->prov_name = strdup(provider);
	ret = fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), node, NULL, node ? FI_SOURCE : 0, hints,
			 &raw->info);
	fi_freeinfo(hints);
	CHECK(ret);
	CHECK(fi_fabric(raw->info->fabric_attr, &raw->fabric, NULL));
	CHECK(fi_domain(raw->fabric, raw->info, &raw->domain, NULL));
	return fi_av_open(raw->domain, &attr, &raw->av, NULL);
}

int raw_open(const char *provider, const char *node, size_t count, struct raw **out)
{
	struct raw *raw = calloc(1, sizeof(*raw));
	int ret;

	if (!raw)
		return -FI_ENOMEM;
	raw->peers = calloc(count, sizeof(*raw->peers));
	ret = raw->peers ? open_all(raw, provider, node, count) : -FI_ENOMEM;
	if (ret) {
		raw_close(raw);
		return ret;
	}
	*out = raw;
	return 0;
}

/* Inserts addresses one by one, up to the first that is refused; returns how many are in. */
long raw_insert(struct raw *raw, const char *addresses, size_t stride, long count)
{
	long at;

	for (at = 0; at < count; at++)
		if (fi_av_insert(raw->av, addresses + at * stride, 1, &raw->peers[at], 0, NULL) != 1)
			break;
	return at;
}

/* Looks peers up; returns how many addresses begin with the byte that they have to. */
long raw_lookup(struct raw *raw, const unsigned *order, long count, const char *addresses, size_t stride)
{
	long at, good = 0;

	for (at = 0; at < count; at++) {
		char address[512];
		size_t len = sizeof(address);

		if (!fi_av_lookup(raw->av, raw->peers[order[at]], address, &len) &&
		    address[0] == addresses[order[at] * stride])
			good++;
	}
	return good;
}

/* Removes peers one by one; returns how many were there. */
long raw_remove(struct raw *raw, const unsigned *order, long count)
{
	long at, good = 0;

	for (at = 0; at < count; at++)
		good += !fi_av_remove(raw->av, &raw->peers[order[at]], 1, 0);
	return good;
}

/* How many bytes the program has from malloc. */
size_t raw_heap(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}
