/* Libfabric's inline functions as functions that are called: what bindings give to Rust that have no others, as those of the package
 * `ofi-libfabric-sys`. */
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

ssize_t shim_fi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, void *context);
ssize_t shim_fi_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, void *context);
ssize_t shim_fi_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to);
ssize_t shim_fi_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t tag, uint64_t ignore,
	void *context);
ssize_t shim_fi_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t tag, void *context);
ssize_t shim_fi_tinject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t to, uint64_t tag);
ssize_t shim_fi_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t addr, uint64_t key,
	void *context);
ssize_t shim_fi_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to, uint64_t addr,
	uint64_t key, void *context);
ssize_t shim_fi_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t addr, uint64_t key,
	void *context);
ssize_t shim_fi_fetch_atomic(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
	void *result_desc, fi_addr_t to, uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context);
ssize_t shim_fi_cq_read(struct fid_cq *cq, void *buf, size_t count);

#ifdef SHIM
#define fi_recv shim_fi_recv
#define fi_send shim_fi_send
#define fi_inject shim_fi_inject
#define fi_trecv shim_fi_trecv
#define fi_tsend shim_fi_tsend
#define fi_tinject shim_fi_tinject
#define fi_write shim_fi_write
#define fi_writedata shim_fi_writedata
#define fi_read shim_fi_read
#define fi_fetch_atomic shim_fi_fetch_atomic
#define fi_cq_read shim_fi_cq_read
#endif
