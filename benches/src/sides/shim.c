/* A file of its own, so that the compiler puts nothing of it into the loops. */
#undef SHIM
#include "shim.h"

ssize_t shim_fi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, void *context)
{
	return fi_recv(ep, buf, len, desc, from, context);
}

ssize_t shim_fi_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, void *context)
{
	return fi_send(ep, buf, len, desc, to, context);
}

ssize_t shim_fi_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to)
{
	return fi_inject(ep, buf, len, to);
}

ssize_t shim_fi_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t tag, uint64_t ignore,
	void *context)
{
	return fi_trecv(ep, buf, len, desc, from, tag, ignore, context);
}

ssize_t shim_fi_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t tag, void *context)
{
	return fi_tsend(ep, buf, len, desc, to, tag, context);
}

ssize_t shim_fi_tinject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t tag)
{
	return fi_tinject(ep, buf, len, to, tag);
}

ssize_t shim_fi_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t addr, uint64_t key,
	void *context)
{
	return fi_write(ep, buf, len, desc, to, addr, key, context);
}

ssize_t shim_fi_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to, uint64_t addr,
	uint64_t key, void *context)
{
	return fi_writedata(ep, buf, len, desc, data, to, addr, key, context);
}

ssize_t shim_fi_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t addr, uint64_t key,
	void *context)
{
	return fi_read(ep, buf, len, desc, from, addr, key, context);
}

ssize_t shim_fi_fetch_atomic(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
	void *result_desc, fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
	return fi_fetch_atomic(ep, buf, count, desc, result, result_desc, to, addr, key, datatype, op, context);
}

ssize_t shim_fi_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
	return fi_cq_read(cq, buf, count);
}
