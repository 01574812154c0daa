/* What libfabric's providers fail at, without loom: each fault that the tests of loom pass over, in C. `faults NAME` exits
 * with 0 if the fault is there, 1 if it is not, 2 if this libfabric does not have the provider, 3 if something else went
 * wrong; `faults` lists the names. A fault that is a crash ends the program with the signal. cli/faults.txt has the results by
 * version, which `loom doctor` describes. */
#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THERE = 0, GONE = 1, NO_PROVIDER = 2, BROKEN = 3 };

#define NEED(call) do { \
	int ret_ = (int) (call); \
	if (ret_) { \
		fprintf(stderr, "%s: %s\n", #call, fi_strerror(ret_ < 0 ? -ret_ : ret_)); \
		exit(BROKEN); \
	} \
} while (0)

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_ep *ep[2];
static fi_addr_t addr[2];
static char name[512], from[1 << 19], into[4096];
/* What is left at least of a multi-receive that goes on; zero for the provider's default. */
static size_t min_multi_recv;
static int options_late;
/* What endpoints of shared memory are called, if not as the provider chooses, and how many of their numbers are passed over. */
static const char *chosen_name;
static int passed_over;
/* How endpoints are bound besides. */
static uint64_t selective;
static enum fi_ep_type type = FI_EP_RDM;
/* The order that is asked for. */
static uint64_t order;
/* What else is met of a provider's demands. */
static uint64_t mode;
/* Where endpoints tell of joins, if they do. */
static struct fid_eq *eq;
static int tells_of_joins;
/* What the first endpoint does to the second one's memory, counted there, if it is. */
static struct fid_cntr *reads, *writes;
static int counts_peers;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* Endpoints of shm that nobody closes leave their names behind. */
static void remove_names_of(pid_t process)
{
	char pattern[64];
	glob_t names;
	size_t i;

	snprintf(pattern, sizeof(pattern), "/dev/shm/%ld:*", (long)process);
	if (glob(pattern, 0, NULL, &names) != 0)
		return;
	for (i = 0; i < names.gl_pathc; i++)
		unlink(names.gl_pathv[i]);
	globfree(&names);
}

/* Two endpoints of a provider on one queue. */
static void open_all(const char *provider, uint64_t caps, enum fi_threading threading, enum fi_wait_obj wait)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq_attr = { .size = 64, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = 4 };
	int local = strcmp(provider, "shm") != 0 && strcmp(provider, "sm2") != 0, i;
	/* shm 1.17 and sm2 crash if an option is set before, and providers of 2.5 do not heed it afterwards. */
	int early = local || (fi_version() >= FI_VERSION(2, 0) && !options_late);
	static pid_t opener;

	/* shm 1.17 refuses the names of an earlier process of the same number. */
	if (opener != getpid())
		remove_names_of(opener = getpid());
	hints->caps = caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2 | mode;
	hints->ep_attr->type = type;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = threading;
	hints->fabric_attr->prov_name = strdup(provider);
	if (fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), local ? "127.0.0.1" : chosen_name, NULL,
		       local || chosen_name ? FI_SOURCE : 0, hints, &info))
		exit(NO_PROVIDER);
	/* Some provider's library has a handler of its own. */
	signal(SIGSEGV, SIG_DFL);
	NEED(fi_fabric(info->fabric_attr, &fabric, NULL));
	NEED(fi_domain(fabric, info, &domain, NULL));
	NEED(fi_av_open(domain, &av_attr, &av, NULL));
	NEED(fi_cq_open(domain, &cq_attr, &cq, NULL));
	if (tells_of_joins)
		NEED(fi_eq_open(fabric, &(struct fi_eq_attr) { .wait_obj = FI_WAIT_NONE }, &eq, NULL));
	for (i = 0; i < passed_over; i++)
		NEED(fi_endpoint(domain, info, &ep[0], NULL));
	for (i = 0; i < 2; i++) {
		size_t len = sizeof(name);

		NEED(fi_endpoint(domain, info, &ep[i], NULL));
		NEED(fi_ep_bind(ep[i], &av->fid, 0));
		NEED(fi_ep_bind(ep[i], &cq->fid, FI_TRANSMIT | FI_RECV | selective));
		if (tells_of_joins)
			NEED(fi_ep_bind(ep[i], &eq->fid, 0));
		if (counts_peers && i == 1) {
			struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE };

			NEED(fi_cntr_open(domain, &attr, &reads, NULL));
			NEED(fi_cntr_open(domain, &attr, &writes, NULL));
			NEED(fi_ep_bind(ep[i], &reads->fid, FI_REMOTE_READ));
			NEED(fi_ep_bind(ep[i], &writes->fid, FI_REMOTE_WRITE));
		}
		if (min_multi_recv && early)
			NEED(fi_setopt(&ep[i]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min_multi_recv, sizeof(size_t)));
		NEED(fi_enable(ep[i]));
		if (min_multi_recv && !early)
			NEED(fi_setopt(&ep[i]->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min_multi_recv, sizeof(size_t)));
		NEED(fi_getname(&ep[i]->fid, name, &len));
		NEED(fi_av_insert(av, name, 1, &addr[i], 0, NULL) != 1);
	}
}

/* The next completion within some seconds: 1, 0 if there is none, -1 for an error. */
static int next(struct fi_cq_tagged_entry *entry, double seconds)
{
	double end = now() + seconds;

	do {
		ssize_t ret = fi_cq_read(cq, entry, 1);

		if (ret == 1)
			return 1;
		if (ret == -FI_EAVAIL)
			return -1;
		if (ret != -FI_EAGAIN)
			NEED(ret);
	} while (now() < end);
	return 0;
}

/* Posts until it is taken. */
#define POST(call) do { \
	ssize_t post_; \
	while ((post_ = (call)) == -FI_EAGAIN) \
		fi_cq_read(cq, NULL, 0); \
	NEED(post_); \
} while (0)

static int contexts[4];
static char behind[1 << 20];

/* A message, so that what follows meets a connection that is up. */
static void warm_up(void)
{
	struct fi_cq_tagged_entry entry;

	POST(fi_recv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	POST(fi_send(ep[0], from, 8, NULL, addr[1], &contexts[1]));
	NEED(next(&entry, 20) != 1);
	NEED(next(&entry, 20) != 1);
}

static int rma(uint64_t access, int write, size_t len)
{
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mr;
	uint64_t remote;

	open_all("udp;ofi_rxd", FI_MSG | FI_RMA, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	NEED(fi_mr_reg(domain, into, sizeof(into), access, 0, 1, 0, &mr, NULL));
	remote = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) ? (uint64_t) (uintptr_t) into : 0;
	if (write)
		POST(fi_write(ep[0], from, len, NULL, addr[1], remote, fi_mr_key(mr), &contexts[2]));
	else
		POST(fi_read(ep[0], from, len, NULL, addr[1], remote, fi_mr_key(mr), &contexts[2]));
	return next(&entry, 3) == 0 ? THERE : GONE;
}

/* An eight-byte number that a peer changes, and what to change it by and get back. */
static uint64_t target[2] = { 40, 40 }, operand = 2, results[2] = { 7, 7 };

static uint64_t atomic_target(const char *provider, struct fid_mr **mr)
{
	open_all(provider, FI_MSG | FI_ATOMIC | (counts_peers ? FI_RMA_EVENT : 0), FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	NEED(fi_mr_reg(domain, target, sizeof(target), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, mr, NULL));
	return (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) ? (uint64_t) (uintptr_t) target : 0;
}

static int two_atomics_crash(void)
{
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mr;
	uint64_t remote = atomic_target("udp;ofi_rxd", &mr);
	int i;

	for (i = 0; i < 2; i++)
		POST(fi_fetch_atomic(ep[0], &operand, 1, NULL, &results[i], NULL, addr[1], remote, fi_mr_key(mr), FI_UINT64, FI_SUM,
				     &contexts[2 + i]));
	for (i = 0; i < 2; i++)
		if (next(&entry, 3) != 1)
			return THERE;
	return GONE;
}

static int injected_atomic_at_an_offset_is_never_taken(void)
{
	struct fid_mr *mr;
	uint64_t remote = atomic_target("udp;ofi_rxd", &mr);
	double end = now() + 3;
	ssize_t ret;

	do {
		ret = fi_inject_atomic(ep[0], &operand, 1, addr[1], remote + 8, fi_mr_key(mr), FI_UINT64, FI_SUM);
		fi_cq_read(cq, NULL, 0);
	} while (ret == -FI_EAGAIN && now() < end);
	return ret == -FI_EAGAIN ? THERE : GONE;
}

static int net_atomics_are_not_there(void)
{
	struct fi_atomic_attr attr;
	struct fid_mr *mr;

	atomic_target("net", &mr);
	return fi_query_atomic(domain, FI_UINT64, FI_SUM, &attr, 0) ? THERE : GONE;
}

static int sm2_atomic_read_brings_nothing(void)
{
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mr;
	uint64_t remote = atomic_target("sm2", &mr);

	POST(fi_fetch_atomic(ep[0], NULL, 1, NULL, &results[0], NULL, addr[1], remote, fi_mr_key(mr), FI_UINT64, FI_ATOMIC_READ,
			     &contexts[2]));
	NEED(next(&entry, 20) != 1);
	return results[0] == 7 ? THERE : GONE;
}

/* Whether a counter has counted something within some seconds. */
static int counted(struct fid_cntr *counter)
{
	double end = now() + 3;

	while (!fi_cntr_read(counter) && now() < end)
		fi_cq_read(cq, NULL, 0);
	return fi_cntr_read(counter) != 0;
}

static int write_of_a_peer_is_not_counted(const char *provider)
{
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mr;
	uint64_t remote;

	counts_peers = 1;
	open_all(provider, FI_MSG | FI_RMA | FI_RMA_EVENT, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	NEED(fi_mr_reg(domain, into, sizeof(into), FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	remote = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) ? (uint64_t) (uintptr_t) into : 0;
	POST(fi_write(ep[0], from, 8, NULL, addr[1], remote, fi_mr_key(mr), &contexts[2]));
	NEED(next(&entry, 20) != 1);
	return counted(writes) ? GONE : THERE;
}

static int net_write_of_a_peer_is_not_counted(void)
{
	return write_of_a_peer_is_not_counted("net");
}

static int tcp_write_of_a_peer_is_not_counted(void)
{
	return write_of_a_peer_is_not_counted("tcp");
}

static int fetching_atomic_of_a_peer_is_not_counted(void)
{
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mr;
	uint64_t remote;

	counts_peers = 1;
	remote = atomic_target("sockets", &mr);
	POST(fi_fetch_atomic(ep[0], &operand, 1, NULL, &results[0], NULL, addr[1], remote, fi_mr_key(mr), FI_UINT64, FI_SUM,
			     &contexts[2]));
	NEED(next(&entry, 20) != 1);
	return counted(reads) ? GONE : THERE;
}

static int read_of_no_bytes_never_ends(void)
{
	return rma(FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0);
}

static int write_not_allowed_never_ends(void)
{
	return rma(FI_REMOTE_READ, 1, 16);
}

/* With the order that makes shm look at keys. */
static int read_not_allowed_is_not_refused(void)
{
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mr;

	order = FI_ORDER_WAW;
	open_all("shm", FI_MSG | FI_RMA, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	NEED(fi_mr_reg(domain, from, sizeof(from), FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	POST(fi_read(ep[0], into, 8, NULL, addr[1],
		     (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) ? (uint64_t) (uintptr_t) from : 0, fi_mr_key(mr),
		     &contexts[2]));
	/* In 2.5 it succeeds, in 1.17 it never ends. */
	return next(&entry, 3) < 0 ? GONE : THERE;
}

static int truncated_message_is_whole(const char *provider)
{
	struct fi_cq_tagged_entry entry = { 0 };
	int i;

	open_all(provider, FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	POST(fi_recv(ep[1], into, 16, NULL, FI_ADDR_UNSPEC, &contexts[2]));
	POST(fi_send(ep[0], from, 64, NULL, addr[1], &contexts[3]));
	for (i = 0; i < 2; i++) {
		int ret = next(&entry, 5);

		if (ret < 0)
			return GONE;
		NEED(ret != 1);
		if (entry.op_context == &contexts[2])
			return entry.len == 16 ? THERE : GONE;
	}
	return BROKEN;
}

static int rxd_truncated_message_is_whole(void)
{
	return truncated_message_is_whole("udp;ofi_rxd");
}

static int udp_truncated_message_is_whole(void)
{
	type = FI_EP_DGRAM;
	return truncated_message_is_whole("udp");
}

/* Returns 1 if the operation ends before the queue is silent for this number of seconds, with an error or not. */
static int ends(void *context, double seconds)
{
	struct fi_cq_err_entry error;
	struct fi_cq_tagged_entry entry;
	int ret;

	while ((ret = next(&entry, seconds)) != 0) {
		memset(&error, 0, sizeof(error));
		if (ret < 0)
			NEED(fi_cq_readerr(cq, &error, 0) != 1);
		if ((ret < 0 ? error.op_context : entry.op_context) == context)
			return 1;
	}
	return 0;
}

/* Two segments, and two receives: the second segment is matched as a message of its own. */
static int segments_of_a_truncated_message_use_up_receives(void)
{
	open_all("tcp;ofi_rxm", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	POST(fi_recv(ep[1], into, 4, NULL, FI_ADDR_UNSPEC, &contexts[2]));
	POST(fi_recv(ep[1], into, 16, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	POST(fi_send(ep[0], from, 20000, NULL, addr[1], &contexts[3]));
	return ends(&contexts[0], 3) ? THERE : GONE;
}

static int nothing_arrives_after_a_truncated_message(void)
{
	open_all("tcp;ofi_rxm", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	POST(fi_recv(ep[1], into, 16, NULL, FI_ADDR_UNSPEC, &contexts[2]));
	POST(fi_send(ep[0], from, 64, NULL, addr[1], &contexts[3]));
	NEED(!ends(&contexts[2], 5));
	POST(fi_recv(ep[1], into, 16, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	POST(fi_send(ep[0], from, 16, NULL, addr[1], &contexts[1]));
	return ends(&contexts[0], 3) ? GONE : THERE;
}

static int message_for_a_receive_of_no_bytes_never_ends(void)
{
	open_all("tcp", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	POST(fi_recv(ep[1], into, 0, NULL, FI_ADDR_UNSPEC, &contexts[2]));
	POST(fi_send(ep[0], from, 8, NULL, addr[1], &contexts[3]));
	return ends(&contexts[2], 3) ? GONE : THERE;
}

/* The connection is shut down, with what was sent through it. */
static int message_behind_a_truncated_one_is_lost(void)
{
	open_all("net", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	POST(fi_recv(ep[1], into, 4, NULL, FI_ADDR_UNSPEC, &contexts[2]));
	POST(fi_recv(ep[1], into, 16, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	POST(fi_inject(ep[0], from, 8, addr[1]));
	POST(fi_inject(ep[0], from, 8, addr[1]));
	return ends(&contexts[0], 3) ? GONE : THERE;
}

static int address_inserted_again_is_another(void)
{
	fi_addr_t again;

	open_all("sockets", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	NEED(fi_av_insert(av, name, 1, &again, 0, NULL) != 1);
	return again == addr[1] ? GONE : THERE;
}

/* The source of the next message that the first endpoint receives, from an endpoint that sends it now, or from none if it was
 * sent before. */
static fi_addr_t source_of_message(struct fid_ep *from_ep)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t source = FI_ADDR_UNSPEC;
	double end = now() + 5;
	int said = from_ep == NULL;

	POST(fi_recv(ep[0], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	while (now() < end) {
		if (!said)
			said = fi_inject(from_ep, from, 8, addr[0]) == 0;
		if (fi_cq_readfrom(cq, &entry, 1, &source) == 1 && entry.op_context == &contexts[0])
			return source;
	}
	exit(BROKEN);
}

/* One more endpoint, and its address in `name`. */
static void open_one_more(void)
{
	struct fid_ep *later;
	size_t len = sizeof(name);

	NEED(fi_endpoint(domain, info, &later, NULL));
	NEED(fi_ep_bind(later, &av->fid, 0));
	NEED(fi_ep_bind(later, &cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(fi_enable(later));
	NEED(fi_getname(&later->fid, name, &len));
}

/* A message of a removed peer after another address was inserted. */
static int removed_peer_has_the_next_ones_index(const char *provider)
{
	fi_addr_t there;

	open_all(provider, FI_MSG | FI_SOURCE, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	NEED(source_of_message(ep[1]) != addr[1]);
	open_one_more();
	NEED(fi_av_remove(av, &addr[1], 1, 0));
	NEED(fi_av_insert(av, name, 1, &there, 0, NULL) != 1);
	NEED(there != addr[1]);
	return source_of_message(ep[1]) == there ? THERE : GONE;
}

static int rxm_removed_peer_has_the_next_ones_index(void)
{
	return removed_peer_has_the_next_ones_index("tcp;ofi_rxm");
}

static int net_removed_peer_has_the_next_ones_index(void)
{
	return removed_peer_has_the_next_ones_index("net");
}

static int tcp_removed_peer_has_the_next_ones_index(void)
{
	return removed_peer_has_the_next_ones_index("tcp");
}

/* Polls for a while. */
static void poll_for(double seconds)
{
	struct fi_cq_tagged_entry entry;
	double end;

	for (end = now() + seconds; now() < end;)
		NEED(next(&entry, 0) != 0);
}

/* A message waits for its receive; its sender is closed, and a connection to another peer takes the memory of the sender's. */
static int source_of_a_closed_peer_is_another_peer(void)
{
	fi_addr_t another, source;

	open_all("tcp;ofi_rxm", FI_MSG | FI_SOURCE, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	NEED(source_of_message(ep[1]) != addr[1]);
	open_one_more();
	NEED(fi_av_insert(av, name, 1, &another, 0, NULL) != 1);
	from[0] = 1;
	POST(fi_inject(ep[1], from, 8, addr[0]));
	poll_for(0.2);
	NEED(fi_close(&ep[1]->fid));
	poll_for(0.2);
	POST(fi_inject(ep[0], from, 8, another));
	source = source_of_message(NULL);
	NEED(into[0] != 1);
	return source == another ? THERE : GONE;
}

static int idle_descriptor_is_readable(void)
{
	struct fi_cq_tagged_entry entry;
	struct fid *fid;
	double end;
	int fd;

	open_all("net", FI_MSG | FI_TAGGED, FI_THREAD_DOMAIN, FI_WAIT_FD);
	warm_up();
	NEED(fi_control(&cq->fid, FI_GETWAIT, &fd));
	fid = &cq->fid;
	for (end = now() + 3; now() < end;) {
		struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

		if (fi_trywait(fabric, &fid, 1) == 0 && poll(&poll_fd, 1, 20) == 0)
			return GONE;
		NEED(next(&entry, 0) != 0);
	}
	return THERE;
}

static int delivery_of_nothing_is_not_reported(void)
{
	struct fi_cq_tagged_entry entry;
	struct iovec iov = { .iov_base = from, .iov_len = 0 };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .context = &contexts[3] };
	int i;

	open_all("shm", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	msg.addr = addr[1];
	POST(fi_recv(ep[1], into, 16, NULL, FI_ADDR_UNSPEC, &contexts[2]));
	POST(fi_sendmsg(ep[0], &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
	for (i = 0; next(&entry, 3) == 1; i++)
		if (entry.op_context == &contexts[3])
			return GONE;
	return i == 1 ? THERE : BROKEN;
}

/* A long message waits for its receive; its sender is closed. */
static int receive_of_a_closed_peers_long_message_crashes(void)
{
	struct fi_cq_tagged_entry entry;

	open_all("tcp;ofi_rxm", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	POST(fi_send(ep[0], from, sizeof(from), NULL, addr[1], &contexts[1]));
	poll_for(0.2);
	NEED(fi_close(&ep[0]->fid));
	poll_for(0.2);
	POST(fi_recv(ep[1], behind, sizeof(behind), NULL, FI_ADDR_UNSPEC, &contexts[2]));
	next(&entry, 1);
	return GONE;
}

static void it_never_ends(int signal)
{
	(void) signal;
	_exit(THERE);
}

/* The call that reads completions does not return, or the receive does not end. */
static int long_message_for_a_short_buffer_never_ends(const char *provider)
{
	struct fi_cq_tagged_entry entry;
	int ret;

	open_all(provider, FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	POST(fi_recv(ep[1], into, 16, NULL, FI_ADDR_UNSPEC, &contexts[2]));
	POST(fi_send(ep[0], from, 1 << 17, NULL, addr[1], &contexts[3]));
	signal(SIGALRM, it_never_ends);
	alarm(5);
	while ((ret = next(&entry, 3)) == 1)
		NEED(entry.op_context != &contexts[3]);
	return ret == 0 ? THERE : GONE;
}

static int shm_long_message_for_a_short_buffer_never_ends(void)
{
	return long_message_for_a_short_buffer_never_ends("shm");
}

static int sm2_long_message_for_a_short_buffer_never_ends(void)
{
	return long_message_for_a_short_buffer_never_ends("sm2");
}

static int close_after_a_truncated_long_message_crashes(void)
{
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_tagged_entry entry;
	int i, ret, ended = 0;

	open_all("tcp;ofi_rxm", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	POST(fi_recv(ep[1], into, 16, NULL, FI_ADDR_UNSPEC, &contexts[2]));
	POST(fi_send(ep[0], from, 17000, NULL, addr[1], &contexts[3]));
	while (ended < 2) {
		ret = next(&entry, 5);
		NEED(ret == 0);
		if (ret < 0) {
			NEED(fi_cq_readerr(cq, &error, 0) != 1);
			NEED(error.err != FI_ETRUNC);
		}
		ended++;
	}
	for (i = 1; i >= 0; i--)
		NEED(fi_close(&ep[i]->fid));
	return GONE;
}

/* As when a peer is started again. */
static int endpoint_at_a_used_address_crashes_its_peer(void)
{
	struct fi_cq_tagged_entry entry;
	size_t len = sizeof(name);

	open_all("udp;ofi_rxd", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	NEED(fi_getname(&ep[1]->fid, name, &len));
	NEED(len != info->src_addrlen);
	NEED(fi_close(&ep[1]->fid));
	memcpy(info->src_addr, name, len);
	NEED(fi_endpoint(domain, info, &ep[1], NULL));
	NEED(fi_ep_bind(ep[1], &av->fid, 0));
	NEED(fi_ep_bind(ep[1], &cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(fi_enable(ep[1]));
	POST(fi_recv(ep[1], into, 16, NULL, FI_ADDR_UNSPEC, &contexts[2]));
	POST(fi_send(ep[0], from, 16, NULL, addr[1], &contexts[3]));
	NEED(next(&entry, 20) != 1);
	NEED(next(&entry, 20) != 1);
	return GONE;
}

/* A null pointer is followed. */
static int option_of_an_endpoint_that_is_not_enabled_crashes(void)
{
	min_multi_recv = 64;
	open_all("sm2", FI_MSG | FI_TAGGED, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	return GONE;
}

/* Nor is it closed. A user's processes have 256 endpoints together, so that enabling one may fail. */
static int closing_what_was_not_enabled_crashes(void)
{
	struct fid_ep *another;

	open_all("sm2", FI_MSG | FI_TAGGED, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	NEED(fi_endpoint(domain, info, &another, NULL));
	NEED(fi_ep_bind(another, &av->fid, 0));
	NEED(fi_ep_bind(another, &cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(fi_close(&another->fid));
	return GONE;
}

/* As when one thread opens an endpoint, and another inserts into its vector: the endpoint's messages are walked. */
static int insertion_beside_what_was_not_enabled_crashes(void)
{
	struct fid_ep *another;
	size_t len = sizeof(name);
	fi_addr_t again;

	open_all("sm2", FI_MSG | FI_TAGGED, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	NEED(fi_getname(&ep[1]->fid, name, &len));
	NEED(fi_endpoint(domain, info, &another, NULL));
	NEED(fi_ep_bind(another, &av->fid, 0));
	NEED(fi_av_insert(av, name, 1, &again, 0, NULL) != 1);
	return GONE;
}

/* Memory that the process has freed reads as another value, so that what follows a pointer there crashes. */
static int sleep_after_an_endpoint_was_closed_crashes(const char *provider)
{
	struct fid *fid;
	int i;

	mallopt(M_PERTURB, 0x5a);
	open_all(provider, FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_FD);
	fid = &cq->fid;
	for (i = 0; i < 10; i++)
		fi_trywait(fabric, &fid, 1);
	NEED(fi_close(&ep[0]->fid));
	fi_trywait(fabric, &fid, 1);
	return GONE;
}

static int rxm_sleep_after_an_endpoint_was_closed_crashes(void)
{
	return sleep_after_an_endpoint_was_closed_crashes("tcp;ofi_rxm");
}

static int rxd_sleep_after_an_endpoint_was_closed_crashes(void)
{
	return sleep_after_an_endpoint_was_closed_crashes("udp;ofi_rxd");
}

static int queue_for_sleeping_crashes(void)
{
	open_all("tcp", FI_MSG | FI_TAGGED | FI_RMA, FI_THREAD_COMPLETION, FI_WAIT_FD);
	return GONE;
}


/* A multi-receive of so many bytes on the second endpoint. */
static void multi_receive(size_t len)
{
	struct iovec iov = { behind, len };
	struct fi_msg message = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[2] };

	NEED(fi_recvmsg(ep[1], &message, FI_MULTI_RECV));
}

/* Sends so many messages, and polls for a while. */
static void send_some(size_t len, int count)
{
	struct fi_cq_tagged_entry entry;
	double end;

	while (count--)
		POST(fi_send(ep[0], from, len, NULL, addr[1], &contexts[1]));
	for (end = now() + 0.5; now() < end;) {
		struct fi_cq_err_entry error = { 0 };

		if (fi_cq_read(cq, &entry, 1) == -FI_EAVAIL)
			fi_cq_readerr(cq, &error, 0);
	}
}

static size_t bytes_behind(size_t len)
{
	size_t i, count = 0;

	for (i = len; i < sizeof(behind); i++)
		count += behind[i] != 0;
	return count;
}

/* A message that is longer than what is left, and one that comes after it. */
static int multi_receive_writes_behind_its_buffer(const char *provider)
{
	uint64_t rma = strcmp(provider, "sm2") == 0 ? 0 : FI_RMA;

	min_multi_recv = 64;
	options_late = !rma;
	open_all(provider, FI_MSG | FI_TAGGED | rma | FI_MULTI_RECV, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	memset(from, 1, sizeof(from));
	warm_up();
	multi_receive(4000);
	send_some(1500, 2);
	send_some(1200, 1);
	send_some(100, 1);
	return bytes_behind(4000) ? THERE : GONE;
}

static int shm_multi_receive_writes_behind_its_buffer(void)
{
	return multi_receive_writes_behind_its_buffer("shm");
}

static int sm2_multi_receive_writes_behind_its_buffer(void)
{
	return multi_receive_writes_behind_its_buffer("sm2");
}

static int rxm_multi_receive_writes_behind_its_buffer(void)
{
	return multi_receive_writes_behind_its_buffer("tcp;ofi_rxm");
}

static int rxd_multi_receive_writes_behind_its_buffer(void)
{
	return multi_receive_writes_behind_its_buffer("udp;ofi_rxd");
}

/* Messages that were there before it, and are too many. */
static int sockets_multi_receive_writes_behind_its_buffer(void)
{
	min_multi_recv = 64;
	open_all("sockets", FI_MSG | FI_TAGGED | FI_RMA | FI_MULTI_RECV, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	memset(from, 1, sizeof(from));
	warm_up();
	send_some(1000, 10);
	multi_receive(4500);
	send_some(1, 0);
	return bytes_behind(4500) ? THERE : GONE;
}

/* A long message, and short ones which use the buffer up. */
static int multi_receive_is_released_too_early(void)
{
	enum { LONG = 16 << 20 };
	char *bytes = calloc(1, LONG), *room = calloc(1, LONG + 4000);
	struct iovec iov = { room, LONG + 4000 };
	struct fi_msg message = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[2] };
	struct fi_cq_tagged_entry entry;
	int i;

	min_multi_recv = 1000;
	open_all("tcp;ofi_rxm", FI_MSG | FI_TAGGED | FI_RMA | FI_MULTI_RECV, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	memset(bytes, 1, LONG);
	warm_up();
	NEED(fi_recvmsg(ep[1], &message, FI_MULTI_RECV));
	POST(fi_send(ep[0], bytes, LONG, NULL, addr[1], &contexts[1]));
	for (i = 0; i < 4; i++)
		POST(fi_send(ep[0], from, 1000, NULL, addr[1], &contexts[1]));
	do {
		NEED(next(&entry, 10) != 1);
	} while (!(entry.flags & FI_MULTI_RECV));
	return memcmp(room, bytes, LONG) ? THERE : GONE;
}

static int multi_receive_is_written_after_it_was_cancelled(void)
{
	enum { LONG = 64 << 20 };
	char *bytes = calloc(1, LONG), *room = calloc(1, LONG + 65536);
	struct iovec iov = { room, LONG + 65536 };
	struct fi_msg message = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[2] };
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_tagged_entry entry;
	double end;
	int ended;

	open_all("net", FI_MSG | FI_TAGGED | FI_RMA | FI_MULTI_RECV, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	memset(bytes, 1, LONG);
	warm_up();
	NEED(fi_recvmsg(ep[1], &message, FI_MULTI_RECV));
	POST(fi_send(ep[0], bytes, LONG, NULL, addr[1], &contexts[1]));
	for (end = now() + 10; room[0] == 0 && now() < end;)
		fi_cq_read(cq, NULL, 0);
	NEED(fi_cancel(&ep[1]->fid, &contexts[2]));
	/* The sender's may be over by now. */
	while ((ended = next(&entry, 10)) == 1)
		if (entry.op_context == &contexts[2])
			return GONE;
	NEED(ended != -1);
	NEED(fi_cq_readerr(cq, &error, 0) != 1);
	NEED(error.err != FI_ECANCELED);
	if (room[LONG - 1])
		return BROKEN;
	for (end = now() + 10; room[LONG - 1] == 0 && now() < end;)
		fi_cq_read(cq, &entry, 1);
	return room[LONG - 1] ? THERE : GONE;
}

/* The second endpoint waits for a message of its own, and the first sends. */
static int directed_receive_takes_anybodys(const char *provider)
{
	struct fi_cq_tagged_entry entry;

	open_all(provider, FI_MSG | FI_TAGGED | FI_RMA | FI_DIRECTED_RECV, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	POST(fi_recv(ep[1], into, 8, NULL, addr[1], &contexts[2]));
	POST(fi_send(ep[0], from, 8, NULL, addr[1], &contexts[1]));
	do {
		if (next(&entry, 2) != 1)
			return GONE;
	} while (entry.op_context != &contexts[2]);
	return THERE;
}

static int net_directed_receive_takes_anybodys(void)
{
	return directed_receive_takes_anybodys("net");
}

static int tcp_directed_receive_takes_anybodys(void)
{
	return directed_receive_takes_anybodys("tcp");
}

/* One of anybody's messages, and then one of the first endpoint's. */
static int two_receives(const char *provider, int tagged)
{
	struct fi_cq_tagged_entry entry;

	open_all(provider, FI_MSG | FI_TAGGED | FI_DIRECTED_RECV, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	if (tagged) {
		POST(fi_trecv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[2]));
		POST(fi_trecv(ep[1], into, 8, NULL, addr[0], 1, 0, &contexts[3]));
		POST(fi_tsend(ep[0], from, 8, NULL, addr[1], 1, &contexts[1]));
	} else {
		POST(fi_recv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[2]));
		POST(fi_recv(ep[1], into, 8, NULL, addr[0], &contexts[3]));
		POST(fi_send(ep[0], from, 8, NULL, addr[1], &contexts[1]));
	}
	do {
		NEED(next(&entry, 20) != 1);
	} while (!(entry.flags & FI_RECV));
	return entry.op_context == &contexts[3] ? THERE : GONE;
}

static int shm_directed_receive_crashes(void)
{
	return two_receives("shm", 0);
}

static int rxm_directed_receive_crashes(void)
{
	return two_receives("tcp;ofi_rxm", 0);
}

static int sm2_directed_receive_crashes(void)
{
	return two_receives("sm2", 0);
}

static int sm2_directed_receive_goes_first(void)
{
	return two_receives("sm2", 1);
}

static int shm_directed_receive_goes_first(void)
{
	return two_receives("shm", 1);
}

static int rxm_directed_receive_goes_first(void)
{
	return two_receives("tcp;ofi_rxm", 1);
}

/* The second endpoint sends, and not the first. */
static int source_is_always_the_first(void)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t source = FI_ADDR_NOTAVAIL;
	double end = now() + 20;

	open_all("udp;ofi_rxd", FI_MSG | FI_SOURCE, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	POST(fi_recv(ep[0], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[2]));
	POST(fi_send(ep[1], from, 8, NULL, addr[0], &contexts[1]));
	entry.op_context = NULL;
	while (entry.op_context != &contexts[2] && now() < end)
		if (fi_cq_readfrom(cq, &entry, 1, &source) < 1)
			entry.op_context = NULL;
	NEED(entry.op_context != &contexts[2]);
	return source == addr[0] ? THERE : GONE;
}

static struct fi_context2 claims[2];

/* Asks for messages of tag 1 with these flags, until there is one; or takes one that was claimed. */
static void ask(uint64_t flags, struct fi_context2 *context)
{
	struct iovec iov = { into, 8 };
	struct fi_msg_tagged message = { .msg_iov = &iov, .addr = FI_ADDR_UNSPEC, .tag = 1, .context = context };
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	double end = now() + 10;
	int ended;

	message.iov_count = !(flags & FI_PEEK);
	do {
		NEED(now() > end);
		NEED(fi_trecvmsg(ep[1], &message, flags));
		do {
			ended = next(&entry, 5);
			NEED(ended == 0);
			if (ended < 0)
				NEED(fi_cq_readerr(cq, &error, 0) != 1);
		} while (ended == 1 && entry.op_context != context);
	} while (ended < 0);
}

static int closing_after_claims_crashes(void)
{
	int i;

	open_all("udp;ofi_rxd", FI_MSG | FI_TAGGED | FI_RMA, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	for (i = 0; i < 2; i++)
		POST(fi_tsend(ep[0], from, 8, NULL, addr[1], 1, &contexts[1]));
	ask(FI_PEEK | FI_CLAIM, &claims[0]);
	ask(FI_PEEK | FI_CLAIM, &claims[1]);
	ask(FI_CLAIM, &claims[1]);
	ask(FI_CLAIM, &claims[0]);
	NEED(fi_close(&ep[1]->fid));
	NEED(fi_close(&ep[0]->fid));
	return GONE;
}

static int peek_receives(void)
{
	struct fi_msg_tagged message = { .addr = FI_ADDR_UNSPEC, .tag = 1, .context = &contexts[2] };
	struct fi_cq_tagged_entry entry;

	open_all("shm", FI_MSG | FI_TAGGED | FI_RMA, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	NEED(fi_trecvmsg(ep[1], &message, FI_PEEK));
	return next(&entry, 1) == 0 ? THERE : GONE;
}

/* Messages of these tags, which arrive before their receives. */
static void let_tags_arrive(const uint64_t *tags, int count)
{
	struct fi_cq_tagged_entry entry;
	int i;

	for (i = 0; i < count; i++) {
		from[0] = (char) tags[i];
		POST(fi_tinject(ep[0], from, 8, addr[1], tags[i]));
	}
	NEED(next(&entry, 0.2));
}

/* The tag of the message that a receive takes, or 0. */
static uint64_t tag_taken(uint64_t tag, uint64_t ignore)
{
	struct fi_cq_tagged_entry entry;

	POST(fi_trecv(ep[1], into, sizeof(into), NULL, FI_ADDR_UNSPEC, tag, ignore, &contexts[2]));
	return next(&entry, 2) == 1 ? (uint64_t) (unsigned char) into[0] : 0;
}

static int masked_receive_misses_what_has_arrived(void)
{
	static const uint64_t tag = 0x11;

	open_all("shm", FI_MSG | FI_TAGGED, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	let_tags_arrive(&tag, 1);
	return tag_taken(0x10, 0xf) == 0x11 ? GONE : THERE;
}

static int receive_after_a_masked_one_takes_another_tag(void)
{
	static const uint64_t tags[2] = { 0x11, 0x12 };
	struct fi_cq_tagged_entry entry;

	open_all("shm", FI_MSG | FI_TAGGED, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	/* One that is posted in time. */
	POST(fi_trecv(ep[1], into, sizeof(into), NULL, FI_ADDR_UNSPEC, 0x10, 0xf, &contexts[2]));
	POST(fi_tinject(ep[0], from, 8, addr[1], 0x11));
	NEED(next(&entry, 20) != 1);
	let_tags_arrive(tags, 2);
	return tag_taken(0x12, 0) == 0x12 ? GONE : THERE;
}

static int send_of_a_discarded_message_never_ends(const char *provider)
{
	struct fi_cq_tagged_entry entry;
	double end;

	open_all(provider, FI_MSG | FI_TAGGED, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	POST(fi_tsend(ep[0], behind, sizeof(behind), NULL, addr[1], 1, &contexts[1]));
	ask(FI_PEEK | FI_DISCARD, &claims[0]);
	for (end = now() + 2; now() < end;)
		if (fi_cq_read(cq, &entry, 1) == 1 && entry.op_context == &contexts[1])
			return GONE;
	return THERE;
}

static int rxm_send_of_a_discarded_message_never_ends(void)
{
	return send_of_a_discarded_message_never_ends("tcp;ofi_rxm");
}

static int sm2_send_of_a_discarded_message_never_ends(void)
{
	return send_of_a_discarded_message_never_ends("sm2");
}

/* Of a message that has waited for its receive, or of any. */
static int immediate_data_is_not_told(const char *provider, int waits)
{
	struct fi_cq_tagged_entry entry;
	double end;

	open_all(provider, FI_MSG | FI_TAGGED, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	NEED(info->domain_attr->cq_data_size < 4);
	warm_up();
	if (!waits)
		POST(fi_trecv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[2]));
	POST(fi_tsenddata(ep[0], from, 8, NULL, 7, addr[1], 1, &contexts[1]));
	for (end = now() + 0.5; waits && now() < end;)
		fi_cq_read(cq, NULL, 0);
	if (waits)
		POST(fi_trecv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, 1, 0, &contexts[2]));
	do {
		NEED(next(&entry, 10) != 1);
	} while (entry.op_context != &contexts[2]);
	return entry.flags & FI_REMOTE_CQ_DATA ? GONE : THERE;
}

static int sockets_immediate_data_is_not_told(void)
{
	return immediate_data_is_not_told("sockets", 1);
}

static int sm2_immediate_data_is_not_told(void)
{
	return immediate_data_is_not_told("sm2", 0);
}

/* A socket that is connected to the first endpoint's port, of somebody who does not speak the provider's language. */
static int stranger(int kind)
{
	struct sockaddr_in port;
	size_t len = sizeof(port);
	int fd = socket(AF_INET, kind, 0);

	NEED(fi_getname(&ep[0]->fid, &port, &len));
	NEED(fd < 0 || connect(fd, (struct sockaddr *) &port, sizeof(port)));
	return fd;
}

static int stranger_of_a_closed_endpoint_crashes(const char *provider)
{
	int strangers[8], i;

	open_all(provider, FI_MSG | FI_TAGGED | FI_RMA, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	for (i = 0; i < 8; i++)
		strangers[i] = stranger(SOCK_STREAM);
	poll_for(0.1);
	NEED(fi_close(&ep[0]->fid));
	/* Memory that was freed is somebody else's. */
	for (i = 0; i < 4096; i++)
		memset(malloc(16 * (i % 128 + 1)), 0x5a, 16 * (i % 128 + 1));
	/* Unless it has been hung up on. */
	for (i = 0; i < 8; i++)
		NEED(send(strangers[i], from, 64, MSG_NOSIGNAL) != 64 && errno != ECONNRESET && errno != EPIPE);
	poll_for(0.5);
	return GONE;
}

static int net_stranger_of_a_closed_endpoint_crashes(void)
{
	return stranger_of_a_closed_endpoint_crashes("net");
}

static int tcp_stranger_of_a_closed_endpoint_crashes(void)
{
	return stranger_of_a_closed_endpoint_crashes("tcp");
}

/* The stranger has gone by then. */
static int message_after_garbage_never_comes(void)
{
	struct fi_cq_tagged_entry entry;
	int round, i, fd;

	open_all("sockets", FI_MSG | FI_TAGGED | FI_RMA, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	memset(from, 'x', 35);
	for (round = 0; round < 20; round++) {
		fd = stranger(SOCK_STREAM);
		NEED(write(fd, from, 35) != 35);
		poll_for(0.01 * (round % 3));
		NEED(close(fd));
		for (i = 0; i < 2; i++) {
			POST(fi_recv(ep[!i], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
			POST(fi_send(ep[i], from, 8, NULL, addr[!i], &contexts[1]));
			if (next(&entry, 5) != 1 || next(&entry, 5) != 1)
				return THERE;
		}
	}
	return GONE;
}

static int foreign_datagram_crashes(void)
{
	int fd;

	open_all("udp;ofi_rxd", FI_MSG | FI_TAGGED | FI_RMA, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	fd = stranger(SOCK_DGRAM);
	memset(from, 0xff, 64);
	NEED(write(fd, "GET / HTTP/1.1\r\n\r\n", 18) != 18);
	poll_for(0.2);
	NEED(write(fd, from, 64) != 64);
	poll_for(0.2);
	return GONE;
}

static struct fid_mc *group;

/* An endpoint of udp joins: the length of the event that says so, which comes at once. */
static ssize_t join_of_udp(uint64_t caps, const char *address, struct fi_eq_err_entry *entry)
{
	struct fi_eq_attr eq_attr = { .size = 4, .wait_obj = FI_WAIT_NONE };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct fid_eq *eq;
	uint32_t event = 0;
	ssize_t len;

	type = FI_EP_DGRAM;
	open_all("udp", caps | FI_MULTICAST, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	NEED(fi_close(&ep[0]->fid));
	NEED(fi_eq_open(fabric, &eq_attr, &eq, NULL));
	NEED(fi_endpoint(domain, info, &ep[0], NULL));
	NEED(fi_ep_bind(ep[0], &av->fid, 0));
	NEED(fi_ep_bind(ep[0], &eq->fid, 0));
	NEED(fi_ep_bind(ep[0], &cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(fi_enable(ep[0]));
	NEED(inet_pton(AF_INET, address, &to.sin_addr) != 1);
	NEED(fi_join(ep[0], &to, 0, &group, NULL));
	len = fi_eq_read(eq, &event, entry, sizeof(*entry), 0);
	NEED(len >= 0 && event != FI_JOIN_COMPLETE);
	return len;
}

/* Not the address of a group, which the system refuses. */
static const char nobody[] = "10.1.2.3";

static int failed_join_is_told_like_one_that_went_well(void)
{
	struct fi_eq_err_entry entry = { 0 };
	ssize_t len = join_of_udp(FI_MSG, nobody, &entry);

	if (len == -FI_EAVAIL)
		return GONE;
	NEED(len != sizeof(entry) || entry.err != -FI_EINVAL);
	return THERE;
}

static int endpoint_of_a_failed_join_cannot_be_closed(void)
{
	struct fi_eq_err_entry entry;

	join_of_udp(FI_MSG, nobody, &entry);
	if (fi_close(&group->fid) == 0)
		return GONE;
	return fi_close(&ep[0]->fid) == -FI_EBUSY ? THERE : GONE;
}

static int endpoint_that_only_sends_cannot_leave(void)
{
	struct fi_eq_err_entry entry;

	NEED(join_of_udp(FI_MSG | FI_SEND, "239.77.7.1", &entry) != sizeof(struct fi_eq_entry));
	if (fi_close(&group->fid) == 0)
		return GONE;
	return fi_close(&ep[0]->fid) == -FI_EBUSY ? THERE : GONE;
}

/* Another process opens endpoints, receives a short message and is killed, when a long one is under way
 * that it does not receive, or before. */
static int message_to_a_killed_peer_never_ends(const char *provider, int before)
{
	struct fi_cq_tagged_entry entry;
	int pair[2], status;
	pid_t peer;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	peer = fork();
	NEED(peer < 0);
	if (peer == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_all(provider, FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	if (peer == 0) {
		POST(fi_recv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
		NEED(write(pair[1], name, sizeof(name)) != sizeof(name));
		for (;;)
			fi_cq_read(cq, &entry, 1);
	}
	NEED(read(pair[0], name, sizeof(name)) != sizeof(name));
	NEED(fi_av_insert(av, name, 1, &addr[1], 0, NULL) != 1);
	POST(fi_send(ep[0], from, 8, NULL, addr[1], &contexts[1]));
	NEED(next(&entry, 20) != 1);
	if (before) {
		POST(fi_send(ep[0], from, sizeof(from), NULL, addr[1], &contexts[2]));
		poll_for(0.3);
	}
	NEED(kill(peer, SIGKILL) || waitpid(peer, &status, 0) != peer);
	if (!before)
		POST(fi_send(ep[0], from, sizeof(from), NULL, addr[1], &contexts[2]));
	return next(&entry, 5) == 0 ? THERE : GONE;
}

/* A forked child closes its copies of the objects. The next message of the parent does not arrive, or the child crashes or hangs. */
static int close_in_a_forked_child_cuts_the_parent_off(const char *provider)
{
	struct fi_cq_tagged_entry entry;
	int status, arrived = 0;
	pid_t child;

	open_all(provider, FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	child = fork();
	NEED(child < 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(5);
		fi_close(&ep[0]->fid);
		fi_close(&ep[1]->fid);
		fi_close(&cq->fid);
		fi_close(&av->fid);
		fi_close(&domain->fid);
		fi_close(&fabric->fid);
		_exit(0);
	}
	NEED(waitpid(child, &status, 0) != child);
	if (status != 0)
		return THERE;
	if (fi_recv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[2]) || fi_send(ep[0], from, 8, NULL, addr[1], &contexts[3]))
		return THERE;
	while (!arrived && next(&entry, 3) == 1)
		arrived = entry.op_context == &contexts[2];
	return arrived ? GONE : THERE;
}

static int rxm_close_in_a_forked_child_cuts_the_parent_off(void)
{
	return close_in_a_forked_child_cuts_the_parent_off("tcp;ofi_rxm");
}

static int tcp_close_in_a_forked_child_cuts_the_parent_off(void)
{
	return close_in_a_forked_child_cuts_the_parent_off("tcp");
}

static int net_close_in_a_forked_child_cuts_the_parent_off(void)
{
	return close_in_a_forked_child_cuts_the_parent_off("net");
}

static int sockets_close_in_a_forked_child_cuts_the_parent_off(void)
{
	return close_in_a_forked_child_cuts_the_parent_off("sockets");
}

/* A forked child closes its copy of an endpoint, or is ended by a signal. */
static int name_is_removed_by_a_forked_child(int closes)
{
	char file[600];
	int status;
	pid_t child;

	open_all("shm", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	snprintf(file, sizeof(file), "/dev/shm/%s", name + strlen("fi_shm://"));
	NEED(access(file, F_OK));
	child = fork();
	NEED(child < 0);
	if (child == 0 && closes) {
		fi_close(&ep[1]->fid);
		_exit(0);
	} else if (child == 0) {
		raise(SIGTERM);
	}
	NEED(waitpid(child, &status, 0) != child);
	return access(file, F_OK) ? THERE : GONE;
}

static int shm_close_in_a_forked_child_removes_the_parents_name(void)
{
	return name_is_removed_by_a_forked_child(1);
}

static int shm_signal_to_a_forked_child_removes_the_parents_names(void)
{
	return name_is_removed_by_a_forked_child(0);
}

/* A process removes the address of another one, which sends a long message then. */
static int message_of_a_removed_peer_crashes(void)
{
	struct fi_cq_tagged_entry entry;
	char here[512], there[512];
	int pair[2];
	pid_t peer;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	peer = fork();
	NEED(peer < 0);
	if (peer == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_all("shm", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	memcpy(here, name, sizeof(name));
	NEED(write(pair[peer == 0], here, sizeof(here)) != sizeof(here));
	NEED(read(pair[peer == 0], there, sizeof(there)) != sizeof(there));
	NEED(fi_av_insert(av, there, 1, &addr[0], 0, NULL) != 1);
	if (peer == 0) {
		POST(fi_send(ep[1], from, 8, NULL, addr[0], &contexts[0]));
		NEED(next(&entry, 20) != 1);
		NEED(read(pair[1], there, 1) != 1);
		POST(fi_send(ep[1], from, sizeof(from), NULL, addr[0], &contexts[1]));
		for (;;)
			fi_cq_read(cq, &entry, 1);
	}
	POST(fi_recv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	NEED(next(&entry, 20) != 1);
	NEED(fi_av_remove(av, &addr[0], 1, 0));
	POST(fi_recv(ep[1], from, sizeof(from), NULL, FI_ADDR_UNSPEC, &contexts[1]));
	NEED(write(pair[0], here, 1) != 1);
	return next(&entry, 5) == 0 ? THERE : GONE;
}

static void child_ended(int number)
{
	int status;

	(void) number;
	if (wait(&status) > 0 && WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
}

/* A process asks for a name that another one has, is refused, and sends a message to it. */
static int shm_name_that_was_refused_crashes(void)
{
	struct fi_cq_tagged_entry entry;
	struct fid_domain *again;
	struct fid_ep *refused[2];
	char number[16];
	int pair[2], i;
	pid_t peer;

	/* Names that begin with the process's number are removed afterwards. */
	snprintf(number, sizeof(number), "%d", getpid());
	chosen_name = number;
	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	signal(SIGCHLD, child_ended);
	peer = fork();
	NEED(peer < 0);
	if (peer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		NEED(read(pair[1], into, sizeof(name)) != sizeof(name));
		passed_over = 2;
	}
	open_all("shm", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	if (peer) {
		POST(fi_recv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
		NEED(write(pair[0], name, sizeof(name)) != sizeof(name));
		return next(&entry, 5) == 0 ? THERE : GONE;
	}
	/* Numbers begin again. */
	NEED(fi_domain(fabric, info, &again, NULL));
	for (i = 0; i < 2; i++)
		NEED(fi_endpoint(again, info, &refused[i], NULL));
	NEED(fi_ep_bind(refused[1], &cq->fid, FI_TRANSMIT | FI_RECV));
	fi_enable(refused[1]);
	NEED(fi_av_insert(av, into, 1, &addr[1], 0, NULL) != 1);
	for (;;) {
		fi_inject(ep[0], from, 8, addr[1]);
		poll_for(0.1);
	}
}

static int rxm_long_message_to_a_killed_peer_never_ends(void)
{
	return message_to_a_killed_peer_never_ends("tcp;ofi_rxm", 1);
}

static int rxd_message_to_a_killed_peer_never_ends(void)
{
	return message_to_a_killed_peer_never_ends("udp;ofi_rxd", 0);
}

/* Another process is killed; messages are injected to it until none is taken any more, and one is sent to somebody else. */
static int messages_injected_to_a_killed_peer_hold_up_others(void)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t killed;
	int pair[2], status, ended = 0;
	double end;
	pid_t peer;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	peer = fork();
	NEED(peer < 0);
	if (peer == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_all("udp;ofi_rxd", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	if (peer == 0) {
		POST(fi_recv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
		NEED(write(pair[1], name, sizeof(name)) != sizeof(name));
		for (;;)
			fi_cq_read(cq, &entry, 1);
	}
	warm_up();
	NEED(read(pair[0], name, sizeof(name)) != sizeof(name));
	NEED(fi_av_insert(av, name, 1, &killed, 0, NULL) != 1);
	POST(fi_send(ep[0], from, 8, NULL, killed, &contexts[2]));
	NEED(next(&entry, 20) != 1);
	NEED(kill(peer, SIGKILL) || waitpid(peer, &status, 0) != peer);
	for (end = now() + 2; now() < end;) {
		fi_inject(ep[0], from, 8, killed);
		fi_cq_read(cq, NULL, 0);
	}
	POST(fi_recv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	for (end = now() + 5; now() < end && fi_send(ep[0], from, 8, NULL, addr[1], &contexts[1]) == -FI_EAGAIN;)
		fi_cq_read(cq, NULL, 0);
	while (ended < 2 && next(&entry, 5) == 1)
		ended++;
	return ended == 2 ? GONE : THERE;
}

/* What ends a multi-receive: that it is told so, or what is told of one that is cancelled. */
static int multi_receive_is_over(double seconds, int cancelled)
{
	double end = now() + seconds;

	while (now() < end) {
		struct fi_cq_tagged_entry entry = { 0 };
		struct fi_cq_err_entry error = { 0 };
		ssize_t ret = fi_cq_read(cq, &entry, 1);

		if (ret == -FI_EAVAIL && fi_cq_readerr(cq, &error, 0) == 1 && cancelled && error.err == FI_ECANCELED)
			return 1;
		if ((entry.flags | error.flags) & FI_MULTI_RECV)
			return 1;
	}
	return 0;
}

/* Another process is killed in the middle of a long message that comes into the buffer of a multi-receive. */
static int multi_receive_of_a_killed_sender_is_never_over(void)
{
	enum { LONG = 64 << 20 };
	volatile char *room = calloc(1, 2 * LONG);
	struct iovec iov = { (void *)room, 2 * LONG };
	struct fi_msg message = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &contexts[2] };
	struct fi_cq_tagged_entry entry;
	int pair[2], status;
	double end;
	pid_t peer;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	peer = fork();
	NEED(peer < 0);
	if (peer == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	min_multi_recv = LONG;
	open_all("tcp;ofi_rxm", FI_MSG | FI_MULTI_RECV, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	if (peer == 0) {
		char *bytes = malloc(LONG);

		memset(bytes, 1, LONG);
		NEED(read(pair[1], name, sizeof(name)) != sizeof(name));
		NEED(fi_av_insert(av, name, 1, &addr[1], 0, NULL) != 1);
		POST(fi_send(ep[0], bytes, LONG, NULL, addr[1], &contexts[1]));
		for (;;)
			fi_cq_read(cq, &entry, 1);
	}
	NEED(fi_recvmsg(ep[1], &message, FI_MULTI_RECV));
	NEED(write(pair[0], name, sizeof(name)) != sizeof(name));
	for (end = now() + 10; room[0] == 0 && now() < end;)
		fi_cq_read(cq, NULL, 0);
	NEED(kill(peer, SIGKILL) || waitpid(peer, &status, 0) != peer);
	NEED(room[0] == 0 || room[LONG - 1]);
	if (multi_receive_is_over(2, 0))
		return GONE;
	fi_cancel(&ep[1]->fid, &contexts[2]);
	return multi_receive_is_over(1, 1) ? GONE : THERE;
}

/* Another process has a region, and is killed among what is written to it. */
static int injected_write_to_a_killed_peer_crashes(void)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	struct { char name[sizeof(name)]; uint64_t at, key; } there;
	struct fid_mr *mr;
	int pair[2], status, written;
	double end;
	pid_t peer;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	peer = fork();
	NEED(peer < 0);
	if (peer == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_all("tcp;ofi_rxm", FI_MSG | FI_RMA, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	if (peer == 0) {
		NEED(fi_mr_reg(domain, into, sizeof(into), FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
		memcpy(there.name, name, sizeof(name));
		there.at = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)into : 0;
		there.key = fi_mr_key(mr);
		NEED(write(pair[1], &there, sizeof(there)) != sizeof(there));
		for (;;)
			fi_cq_read(cq, &entry, 1);
	}
	NEED(read(pair[0], &there, sizeof(there)) != sizeof(there));
	NEED(fi_av_insert(av, there.name, 1, &addr[1], 0, NULL) != 1);
	for (written = 0; written < 100; written++)
		POST(fi_inject_write(ep[0], from, 64, addr[1], there.at, there.key));
	/* It answers no more, so that writes are in flight when it is killed. */
	NEED(kill(peer, SIGSTOP) || waitpid(peer, &status, WUNTRACED) != peer);
	for (written = 0; written < 100; written++)
		fi_inject_write(ep[0], from, 64, addr[1], there.at, there.key);
	NEED(kill(peer, SIGKILL) || waitpid(peer, &status, 0) != peer);
	for (end = now() + 2; now() < end;) {
		fi_inject_write(ep[0], from, 64, addr[1], there.at, there.key);
		if (fi_cq_read(cq, &entry, 1) == -FI_EAVAIL)
			fi_cq_readerr(cq, &error, 0);
	}
	return GONE;
}

/* Another process is killed in the middle of a long write with immediate data into a region of this one. */
static int killed_writer_with_immediate_data_crashes(void)
{
	enum { LONG = 64 << 20 };
	volatile char *room = calloc(1, LONG);
	struct { char name[sizeof(name)]; uint64_t at, key; } here;
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	struct fid_mr *mr;
	int pair[2], status;
	double end;
	pid_t peer;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	peer = fork();
	NEED(peer < 0);
	if (peer == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_all("tcp;ofi_rxm", FI_MSG | FI_RMA, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	if (peer == 0) {
		char *bytes = malloc(LONG);

		memset(bytes, 1, LONG);
		NEED(read(pair[1], &here, sizeof(here)) != sizeof(here));
		NEED(fi_av_insert(av, here.name, 1, &addr[1], 0, NULL) != 1);
		POST(fi_writedata(ep[0], bytes, LONG, NULL, 7, addr[1], here.at, here.key, &contexts[1]));
		for (;;)
			fi_cq_read(cq, &entry, 1);
	}
	NEED(fi_mr_reg(domain, (void *)room, LONG, FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
	memcpy(here.name, name, sizeof(name));
	here.at = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t)room : 0;
	here.key = fi_mr_key(mr);
	NEED(write(pair[0], &here, sizeof(here)) != sizeof(here));
	for (end = now() + 10; room[0] == 0 && now() < end;)
		fi_cq_read(cq, NULL, 0);
	NEED(kill(peer, SIGKILL) || waitpid(peer, &status, 0) != peer);
	NEED(room[0] == 0 || room[LONG - 1]);
	for (end = now() + 2; now() < end;)
		if (fi_cq_read(cq, &entry, 1) == -FI_EAVAIL)
			fi_cq_readerr(cq, &error, 0);
	return GONE;
}

/* An endpoint of a connection, which receives through a shared context if there is one. */
static struct fid_ep *connected_endpoint(struct fi_info *of, struct fid_eq *eq, struct fid_ep *srx)
{
	struct fid_ep *endpoint;

	NEED(fi_endpoint(domain, of, &endpoint, NULL));
	NEED(fi_ep_bind(endpoint, &eq->fid, 0));
	NEED(fi_ep_bind(endpoint, &cq->fid, FI_TRANSMIT | selective));
	NEED(fi_ep_bind(endpoint, &cq->fid, FI_RECV));
	if (srx)
		NEED(fi_ep_bind(endpoint, &srx->fid, 0));
	NEED(fi_enable(endpoint));
	return endpoint;
}

/* Two endpoints that are connected with each other, and the context through which they receive, if they share one. */
static struct fid_ep *connect_all(const char *provider, uint64_t caps, int shared)
{
	struct fi_info *hints = fi_allocinfo(), *client;
	struct fi_cq_attr cq_attr = { .size = 64, .format = FI_CQ_FORMAT_TAGGED };
	struct fi_eq_attr eq_attr = { .size = 16 };
	struct fi_eq_cm_entry event;
	struct fid_ep *srx = NULL;
	struct fid_pep *listener;
	struct fid_eq *eq;
	size_t len = sizeof(name);
	uint32_t kind;
	int connected = 0;
	double end = now() + 20;

	hints->caps = caps;
	hints->ep_attr->type = FI_EP_MSG;
	if (shared)
		hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(provider);
	if (fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), "127.0.0.1", NULL, FI_SOURCE, hints, &info))
		exit(NO_PROVIDER);
	signal(SIGSEGV, SIG_DFL);
	if (selective)
		/* By default, which the calls with flags are to override. */
		info->tx_attr->op_flags = FI_COMPLETION;
	NEED(fi_fabric(info->fabric_attr, &fabric, NULL));
	NEED(fi_domain(fabric, info, &domain, NULL));
	NEED(fi_eq_open(fabric, &eq_attr, &eq, NULL));
	NEED(fi_cq_open(domain, &cq_attr, &cq, NULL));
	if (shared) {
		NEED(fi_srx_context(domain, info->rx_attr, &srx, NULL));
		NEED(fi_ep_bind(srx, &cq->fid, FI_RECV));
	}
	NEED(fi_passive_ep(fabric, info, &listener, NULL));
	NEED(fi_pep_bind(listener, &eq->fid, 0));
	NEED(fi_listen(listener));
	NEED(fi_getname(&listener->fid, name, &len));
	client = fi_dupinfo(info);
	free(client->src_addr);
	client->src_addr = NULL;
	client->src_addrlen = 0;
	client->dest_addr = memcpy(malloc(len), name, len);
	client->dest_addrlen = len;
	ep[0] = connected_endpoint(client, eq, srx);
	NEED(fi_connect(ep[0], name, NULL, 0));
	while (connected < 2) {
		NEED(now() > end);
		fi_cq_read(cq, NULL, 0);
		if (fi_eq_read(eq, &kind, &event, sizeof(event), 0) < (ssize_t) sizeof(event))
			continue;
		if (kind == FI_CONNREQ) {
			if (selective)
				event.info->tx_attr->op_flags = FI_COMPLETION;
			ep[1] = connected_endpoint(event.info, eq, srx);
			NEED(fi_accept(ep[1], NULL, 0));
		} else if (kind == FI_CONNECTED) {
			connected++;
		}
	}
	return srx;
}

/* The one who reads ends the connection in the middle of the answer. Whether the provider then keeps two receives in the place
 * of one: an endpoint that is closed gives back both. */
static int cut_read_is_freed_twice(const char *provider, int (*end)(void))
{
	struct fi_eq_attr eq_attr = { .size = 16 };
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_tagged_entry entry;
	struct fid_ep *other;
	struct fid_eq *eq;
	struct fid_mr *mr;
	uint64_t remote;
	int i, polls, given_back;

	for (polls = 0; polls < 10; polls++) {
		connect_all(provider, FI_MSG | FI_RMA, 0);
		NEED(fi_mr_reg(domain, from, sizeof(from), FI_REMOTE_READ, 0, 1, 0, &mr, NULL));
		remote = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) ? (uint64_t) (uintptr_t) from : 0;
		POST(fi_read(ep[0], behind, sizeof(from), NULL, 0, remote, fi_mr_key(mr), &contexts[2]));
		for (i = 0; i < polls; i++)
			fi_cq_read(cq, NULL, 0);
		NEED(end());
		for (i = 0; i < 1000; i++)
			if (fi_cq_read(cq, &entry, 1) == -FI_EAVAIL)
				fi_cq_readerr(cq, &error, 0);
		NEED(fi_eq_open(fabric, &eq_attr, &eq, NULL));
		other = connected_endpoint(info, eq, NULL);
		POST(fi_recv(other, into, 8, NULL, 0, &contexts[0]));
		POST(fi_recv(other, into + 8, 8, NULL, 0, &contexts[1]));
		NEED(fi_close(&other->fid));
		for (given_back = 0; next(&entry, 0.1) == -1; given_back++)
			NEED(fi_cq_readerr(cq, &error, 0) != 1);
		if (given_back < 2)
			return THERE;
	}
	return GONE;
}

static int closes(void)
{
	return fi_close(&ep[0]->fid);
}

static int shuts_down(void)
{
	return fi_shutdown(ep[0], 0);
}

static int net_read_that_is_cut_by_closing_is_freed_twice(void)
{
	return cut_read_is_freed_twice("net", closes);
}

static int net_read_that_is_cut_by_shutting_down_is_freed_twice(void)
{
	return cut_read_is_freed_twice("net", shuts_down);
}

static int tcp_read_that_is_cut_by_closing_is_freed_twice(void)
{
	return cut_read_is_freed_twice("tcp", closes);
}

static int tcp_read_that_is_cut_by_shutting_down_is_freed_twice(void)
{
	return cut_read_is_freed_twice("tcp", shuts_down);
}

/* A tagged message comes that nobody waits for. */
static int tagged_message_to_shared_receives_crashes(const char *provider)
{
	struct fid_ep *srx = connect_all(provider, FI_MSG | FI_TAGGED, 1);
	struct fi_cq_tagged_entry entry;
	double end;

	POST(fi_trecv(srx, into, 8, NULL, 0, 1, 0, &contexts[0]));
	POST(fi_tsend(ep[0], from, 8, NULL, 0, 2, &contexts[1]));
	POST(fi_tsend(ep[0], from, 8, NULL, 0, 1, &contexts[2]));
	for (end = now() + 1; now() < end;)
		fi_cq_read(cq, &entry, 1);
	return GONE;
}

static int net_tagged_message_to_shared_receives_crashes(void)
{
	return tagged_message_to_shared_receives_crashes("net");
}

static int tcp_tagged_message_to_shared_receives_crashes(void)
{
	return tagged_message_to_shared_receives_crashes("tcp");
}

/* An endpoint is closed so many steps after a peer began to connect to it, and progress goes on. */
static void close_while_connecting(int steps)
{
	int i;

	open_all("net", FI_MSG, FI_THREAD_SAFE, FI_WAIT_NONE);
	/* What is freed is not what it was. */
	mallopt(M_PERTURB, 0x5a);
	for (i = 0; i < steps; i++) {
		fi_send(ep[0], from, 8, NULL, addr[1], &contexts[1]);
		fi_cq_read(cq, NULL, 0);
	}
	NEED(fi_close(&ep[1]->fid));
	for (i = 0; i < 1000; i++)
		fi_cq_read(cq, NULL, 0);
}

static int net_close_while_a_peer_connects_crashes(void)
{
	int steps, status;
	pid_t process;

	for (steps = 0; steps < 20; steps++) {
		process = fork();
		if (process == 0) {
			close_while_connecting(steps);
			_exit(GONE);
		}
		if (process < 0 || waitpid(process, &status, 0) != process)
			return BROKEN;
		if (WIFSIGNALED(status))
			return 128 + WTERMSIG(status);
		if (WEXITSTATUS(status) != GONE)
			return WEXITSTATUS(status);
	}
	return GONE;
}

/* A peer goes that an endpoint has begun to connect to, and the endpoint sends to it again. */
static int peer_that_goes_while_one_connects_crashes(void)
{
	int i;

	open_all("tcp", FI_MSG, FI_THREAD_SAFE, FI_WAIT_NONE);
	fi_send(ep[0], from, 8, NULL, addr[1], &contexts[0]);
	NEED(fi_close(&ep[1]->fid));
	for (i = 0; i < 1000; i++) {
		fi_send(ep[0], from, 8, NULL, addr[1], &contexts[0]);
		fi_cq_read(cq, NULL, 0);
	}
	return GONE;
}

/* A region that a peer is writing to is closed after so many polls, and progress goes on. */
static void close_region_while_it_is_written(int polls)
{
	enum { LENGTH = 8 << 20 };
	char *source = calloc(1, LENGTH), *target = calloc(1, LENGTH);
	struct fid_mr *mr;
	uint64_t remote;
	int i;

	order = FI_ORDER_WAW;
	open_all("shm", FI_MSG | FI_RMA, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	NEED(fi_mr_reg(domain, target, LENGTH, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	remote = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) ? (uint64_t) (uintptr_t) target : 0;
	POST(fi_write(ep[0], source, LENGTH, NULL, addr[1], remote, fi_mr_key(mr), &contexts[2]));
	for (i = 0; i < polls; i++)
		fi_cq_read(cq, NULL, 0);
	NEED(fi_close(&mr->fid));
	/* What was freed is somebody else's now. */
	for (i = 0; i < 64; i++)
		memset(malloc(16 * (i % 8 + 1)), 0x5a, 16 * (i % 8 + 1));
	for (i = 0; i < 1000; i++)
		fi_cq_read(cq, NULL, 0);
}

/* After each number of polls, in a process of its own. */
static int crashes_after_some_polls(void (*run)(int))
{
	int polls, status;
	pid_t process;

	for (polls = 0; polls < 20; polls++) {
		process = fork();
		if (process == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run(polls);
			_exit(GONE);
		}
		NEED(process < 0 || waitpid(process, &status, 0) != process);
		remove_names_of(process);
		if (WIFSIGNALED(status))
			return 128 + WTERMSIG(status);
		if (WEXITSTATUS(status) != GONE)
			return WEXITSTATUS(status);
	}
	return GONE;
}

static int shm_region_closed_while_it_is_written_crashes(void)
{
	return crashes_after_some_polls(close_region_while_it_is_written);
}

/* A message that is neither short (16 KiB) nor fetched by its receiver (from 128 KiB on): of its segments some are there. No
 * receive waits for it. With FI_OFI_RXM_SAR_LIMIT=16384 at the sender there are no such messages, and no crash. */
static void close_in_the_middle_of_segments(int polls)
{
	open_all("tcp;ofi_rxm", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	warm_up();
	POST(fi_send(ep[0], from, 1 << 16, NULL, addr[1], &contexts[2]));
	while (polls--)
		fi_cq_read(cq, NULL, 0);
	NEED(fi_close(&ep[1]->fid));
}

static int rxm_close_in_the_middle_of_segments_crashes(void)
{
	return crashes_after_some_polls(close_in_the_middle_of_segments);
}

/* Scalable endpoints over sockets, with two contexts of each kind. */
static struct fid_ep *tx[2][2], *rx[2][2];

static void open_scalable(enum fi_progress progress, int bits)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq_attr = { .size = 256, .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = 4, .rx_ctx_bits = bits };
	int i, j;

	hints->caps = FI_MSG | FI_RMA | FI_NAMED_RX_CTX;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->data_progress = progress;
	hints->fabric_attr->prov_name = strdup("sockets");
	if (fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), "127.0.0.1", NULL, FI_SOURCE, hints, &info))
		exit(NO_PROVIDER);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
	info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = 2;
	NEED(fi_fabric(info->fabric_attr, &fabric, NULL));
	NEED(fi_domain(fabric, info, &domain, NULL));
	NEED(fi_av_open(domain, &av_attr, &av, NULL));
	NEED(fi_cq_open(domain, &cq_attr, &cq, NULL));
	for (i = 0; i < 2; i++) {
		size_t len = sizeof(name);

		NEED(fi_scalable_ep(domain, info, &ep[i], NULL));
		NEED(fi_scalable_ep_bind(ep[i], &av->fid, 0));
		NEED(fi_enable(ep[i]));
		for (j = 0; j < 2; j++) {
			NEED(fi_tx_context(ep[i], j, NULL, &tx[i][j], NULL));
			NEED(fi_ep_bind(tx[i][j], &cq->fid, FI_TRANSMIT));
			NEED(fi_enable(tx[i][j]));
			NEED(fi_rx_context(ep[i], j, NULL, &rx[i][j], NULL));
			NEED(fi_ep_bind(rx[i][j], &cq->fid, FI_RECV));
			NEED(fi_enable(rx[i][j]));
		}
		NEED(fi_getname(&ep[i]->fid, name, &len));
		NEED(fi_av_insert(av, name, 1, &addr[i], 0, NULL) != 1);
	}
}

/* Closes a context; somebody else uses its memory. */
static void close_and_reuse(struct fid_ep *context)
{
	size_t size;
	int i;

	NEED(fi_close(&context->fid));
	for (size = 16; size < 4096; size += 16)
		for (i = 0; i < 8; i++)
			memset(malloc(size), 0x5a, size);
}

/* A message from a context to one of the other endpoint: how many completions there are within some seconds. */
static int context_exchange(int from_context, int to_context, double seconds)
{
	struct fi_cq_tagged_entry entry;
	int ended;

	POST(fi_recv(rx[1][to_context], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	POST(fi_send(tx[0][from_context], from, 8, NULL, fi_rx_addr(addr[1], to_context, 1), &contexts[1]));
	for (ended = 0; ended < 2 && next(&entry, seconds) == 1;)
		ended += entry.op_context == &contexts[0] || entry.op_context == &contexts[1];
	return ended;
}

/* Operations of a context go to another process, which is stopped and answers when the context is closed. */
static void answer_to_a_closed_context(int writes)
{
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mr;
	int pair[2], i;
	pid_t peer;

	NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	peer = fork();
	NEED(peer < 0);
	if (peer == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_scalable(FI_PROGRESS_AUTO, 1);
	if (peer == 0) {
		NEED(fi_mr_reg(domain, into, sizeof(into), FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
		for (i = 0; i < 2; i++)
			POST(fi_recv(rx[1][i], into, sizeof(into), NULL, FI_ADDR_UNSPEC, &contexts[0]));
		NEED(write(pair[1], name, sizeof(name)) != sizeof(name));
		for (;;)
			pause();
	}
	NEED(read(pair[0], name, sizeof(name)) != sizeof(name));
	NEED(fi_av_insert(av, name, 1, &addr[1], 0, NULL) != 1);
	POST(fi_send(tx[0][0], from, 8, NULL, fi_rx_addr(addr[1], 0, 1), &contexts[1]));
	NEED(next(&entry, 20) != 1);
	NEED(kill(peer, SIGSTOP));
	for (i = 0; i < 30 && writes; i++)
		POST(fi_inject_write(tx[0][0], from, 8, fi_rx_addr(addr[1], 1, 1), 0, 7));
	if (!writes)
		POST(fi_send(tx[0][0], from, 8, NULL, fi_rx_addr(addr[1], 1, 1), &contexts[2]));
	/* Until it is on its way. */
	usleep(200000);
	close_and_reuse(tx[0][0]);
	NEED(kill(peer, SIGCONT));
	usleep(1000000);
}

/* More than once: whose memory it is then is chance. */
static int answers_to_a_closed_context_crash(int writes)
{
	int attempt, status;
	pid_t process;

	for (attempt = 0; attempt < 12; attempt++) {
		process = fork();
		if (process == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			answer_to_a_closed_context(writes);
			_exit(GONE);
		}
		NEED(process < 0 || waitpid(process, &status, 0) != process);
		if (WIFSIGNALED(status))
			return 128 + WTERMSIG(status);
		if (WEXITSTATUS(status) != GONE)
			return WEXITSTATUS(status);
	}
	return GONE;
}

/* On an endpoint that was bound with FI_SELECTIVE_COMPLETION, a send without FI_COMPLETION reports nothing; here it does. */
static int selective_completion_reports_everything(void)
{
	struct fi_cq_tagged_entry entry;
	struct iovec iov = { from, 8 };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .context = &contexts[1], .addr = addr[1] };

	POST(fi_recv(ep[1], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	POST(fi_sendmsg(ep[0], &msg, 0));
	/* The receive may report nothing, either. */
	while (next(&entry, 2) == 1)
		if (entry.op_context == &contexts[1])
			return THERE;
	return GONE;
}

static int net_selective_completion_reports_everything(void)
{
	selective = FI_SELECTIVE_COMPLETION;
	open_all("net", FI_MSG, FI_THREAD_SAFE, FI_WAIT_NONE);
	return selective_completion_reports_everything();
}

static int tcp_selective_completion_reports_everything(void)
{
	selective = FI_SELECTIVE_COMPLETION;
	connect_all("tcp", FI_MSG, 0);
	return selective_completion_reports_everything();
}

static volatile int rounds_begun;

/* Signals once in each round, a little later from round to round. */
static void *signals(void *unused)
{
	int round, spin;

	for (round = 1; ; round++) {
		while (rounds_begun < round)
			;
		for (spin = 0; spin < round % 300 * 50; spin++)
			__asm__ volatile ("");
		NEED(fi_cq_signal(cq));
	}
	return unused;
}

/* A signal that comes when a sleep begins, before or after, ends it; here it goes on for as long as it may. */
static int signal_is_lost_when_a_sleep_begins(const char *provider)
{
	struct fi_cq_tagged_entry entry;
	pthread_t thread;
	double end, begin;

	open_all(provider, FI_MSG, FI_THREAD_COMPLETION, FI_WAIT_FD);
	NEED(pthread_create(&thread, NULL, signals, NULL));
	for (end = now() + 20; (begin = now()) < end; ) {
		rounds_begun++;
		fi_cq_sread(cq, &entry, 1, NULL, 500);
		if (now() - begin > 0.4)
			return THERE;
	}
	return GONE;
}

static int rxm_signal_is_lost_when_a_sleep_begins(void)
{
	return signal_is_lost_when_a_sleep_begins("tcp;ofi_rxm");
}

static int rxd_signal_is_lost_when_a_sleep_begins(void)
{
	return signal_is_lost_when_a_sleep_begins("udp;ofi_rxd");
}

static int net_signal_is_lost_when_a_sleep_begins(void)
{
	return signal_is_lost_when_a_sleep_begins("net");
}

/* Between two endpoints of one process: one way all is well, and the first that goes back is not. */
static int longer_messages_both_ways_crash(void)
{
	struct fi_cq_tagged_entry entry;
	int i;

	open_all("shm", FI_MSG, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	for (i = 0; i < 4; i++) {
		POST(fi_recv(ep[1 - i % 2], into, 1024, NULL, FI_ADDR_UNSPEC, &contexts[0]));
		POST(fi_send(ep[i % 2], from, 1024, NULL, addr[1 - i % 2], &contexts[1]));
		NEED(next(&entry, 20) != 1);
		NEED(next(&entry, 20) != 1);
	}
	return GONE;
}

/* A region of several ranges, of which the info says that there can be eight: peers reach the first only. */
static int second_range_of_a_region_is_not_reached(void)
{
	static char ranges[3][64];
	struct iovec iov[2] = { { ranges[0], sizeof(ranges[0]) }, { ranges[2], sizeof(ranges[2]) } };
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mr;

	open_all("sockets", FI_MSG | FI_RMA, FI_THREAD_SAFE, FI_WAIT_NONE);
	if (info->domain_attr->mr_iov_limit < 2)
		return GONE;
	NEED(fi_mr_regv(domain, iov, 2, FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
	warm_up();
	POST(fi_write(ep[0], from, 8, NULL, addr[1], 8, fi_mr_key(mr), &contexts[0]));
	NEED(next(&entry, 20) != 1);
	POST(fi_write(ep[0], from, 8, NULL, addr[1], sizeof(ranges[0]), fi_mr_key(mr), &contexts[0]));
	return next(&entry, 20) < 0 ? THERE : GONE;
}

/* Without members, to be inserted one by one; under valgrind it reads before the begin of an array. */
static int empty_set_of_addresses_is_refused(void)
{
	struct fi_av_set_attr attr = {
		.count = 4, .start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL, .stride = 1,
	};
	struct fid_av_set *set;

	open_all("tcp;ofi_rxm", FI_MSG | FI_COLLECTIVE, FI_THREAD_SAFE, FI_WAIT_NONE);
	return fi_av_set(av, &attr, &set, NULL) == -FI_ENOMEM ? THERE : GONE;
}

/* A send that starts with a counter, which nobody changes. */
static int deferred_work_cannot_be_taken_back(int command)
{
	static struct fi_deferred_work work;
	static struct fi_op_msg send;
	static struct iovec piece;
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE };
	struct fid_cntr *counter, *ended;

	open_all("sockets", FI_MSG | FI_TRIGGER, FI_THREAD_SAFE, FI_WAIT_NONE);
	NEED(fi_cntr_open(domain, &attr, &counter, NULL));
	NEED(fi_cntr_open(domain, &attr, &ended, NULL));
	piece.iov_base = from;
	piece.iov_len = 8;
	send.ep = ep[0];
	send.msg.msg_iov = &piece;
	send.msg.iov_count = 1;
	send.msg.addr = addr[1];
	send.msg.context = &work.context;
	work.threshold = 1;
	work.triggering_cntr = counter;
	work.completion_cntr = ended;
	work.op_type = FI_OP_SEND;
	work.op.msg = &send;
	NEED(fi_control(&domain->fid, FI_QUEUE_WORK, &work));
	return fi_control(&domain->fid, command, command == FI_CANCEL_WORK ? &work : NULL) ? THERE : GONE;
}

static int deferred_work_is_not_cancelled(void)
{
	return deferred_work_cannot_be_taken_back(FI_CANCEL_WORK);
}

static int deferred_work_is_not_flushed(void)
{
	return deferred_work_cannot_be_taken_back(FI_FLUSH_WORK);
}

/* Both endpoints join a group; its address for each. */
static void join_all(fi_addr_t group[2])
{
	struct fi_av_set_attr attr = { .count = 2, .stride = 1 };
	struct fi_eq_entry entry;
	struct fid_av_set *set;
	struct fid_mc *mc[2];
	fi_addr_t all;
	uint32_t event;
	int i, joined = 0;
	double end = now() + 20;

	tells_of_joins = 1;
	open_all("tcp;ofi_rxm", FI_MSG | FI_TAGGED | FI_COLLECTIVE, FI_THREAD_SAFE, FI_WAIT_NONE);
	attr.start_addr = addr[0];
	attr.end_addr = addr[1];
	for (i = 0; i < 2; i++) {
		NEED(fi_av_set(av, &attr, &set, NULL));
		NEED(fi_av_set_addr(set, &all));
		NEED(fi_join_collective(ep[i], all, set, 0, &mc[i], NULL));
	}
	while (joined < 2 && now() < end) {
		fi_cq_read(cq, NULL, 0);
		if (fi_eq_read(eq, &event, &entry, sizeof(entry), 0) > 0 && event == FI_JOIN_COMPLETE)
			joined++;
	}
	NEED(joined < 2);
	for (i = 0; i < 2; i++)
		group[i] = fi_mc_addr(mc[i]);
}

/* A tagged message whose tag has the highest bit: its context is taken for a pointer of the provider's own. */
static int tag_beside_collectives_crashes(void)
{
	struct fi_cq_tagged_entry entry;
	uint64_t tag = 1ULL << 63 | 5;

	open_all("tcp;ofi_rxm", FI_MSG | FI_TAGGED | FI_COLLECTIVE, FI_THREAD_SAFE, FI_WAIT_NONE);
	POST(fi_trecv(ep[1], into, 64, NULL, FI_ADDR_UNSPEC, tag, 0, (void *) 0x100000003));
	POST(fi_tsend(ep[0], from, 64, NULL, addr[1], tag, (void *) 0x100000004));
	NEED(next(&entry, 20) != 1);
	NEED(next(&entry, 20) != 1);
	return GONE;
}

/* Bytes that a thousand barriers leave behind. */
static int collectives_keep_memory(void)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t group[2];
	size_t before = 0;
	int i, round;

	join_all(group);
	for (round = 0; round < 2000; round++) {
		if (round == 1000)
			before = mallinfo2().uordblks;
		for (i = 0; i < 2; i++)
			POST(fi_barrier(ep[i], group[i], &contexts[i]));
		for (i = 0; i < 2; i++)
			NEED(next(&entry, 20) != 1);
	}
	fprintf(stderr, "%zu bytes\n", mallinfo2().uordblks - before);
	return mallinfo2().uordblks - before > 10000 ? THERE : GONE;
}

/* A member's address is removed after the members have joined. */
static int collective_with_a_removed_member_crashes(void)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t group[2];
	int i;

	join_all(group);
	NEED(fi_av_remove(av, &addr[1], 1, 0));
	for (i = 0; i < 2; i++)
		POST(fi_barrier(ep[i], group[i], &contexts[i]));
	for (i = 0; i < 2; i++)
		if (next(&entry, 5) != 1)
			return THERE;
	return GONE;
}

/* Three bytes for two members: chunks of two, and so four. */
static int broadcast_writes_behind_its_buffer(void)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t group[2];
	int i;

	join_all(group);
	memset(into, 0xee, 8);
	memset(from, 0x11, 8);
	POST(fi_broadcast(ep[0], from, 3, NULL, group[0], 0, FI_UINT8, 0, &contexts[0]));
	POST(fi_broadcast(ep[1], into, 3, NULL, group[1], 0, FI_UINT8, 0, &contexts[1]));
	for (i = 0; i < 2; i++)
		NEED(next(&entry, 20) != 1);
	return into[3] == (char) 0xee ? GONE : THERE;
}

/* What is told is the end of a message of its own, with a context of its own. */
static int collective_of_more_than_16_kib_never_ends(void)
{
	struct fi_cq_tagged_entry entry;
	static char results[2][64 << 10];
	fi_addr_t group[2];
	int i;

	join_all(group);
	for (i = 0; i < 2; i++)
		POST(fi_allgather(ep[i], from, 20 << 10, NULL, results[i], NULL, group[i], FI_UINT8, 0, &contexts[i]));
	for (i = 0; i < 2; i++)
		if (next(&entry, 5) != 1 || (entry.op_context != &contexts[0] && entry.op_context != &contexts[1]))
			return THERE;
	return GONE;
}

/* By an endpoint that is opened when both have closed. */
static int message_to_an_endpoint_that_was_closed_crashes(void)
{
	struct fi_cq_tagged_entry entry;
	struct fid_ep *later;
	double end;

	open_all("shm", FI_MSG | FI_TAGGED, FI_THREAD_DOMAIN, FI_WAIT_NONE);
	NEED(fi_close(&ep[1]->fid));
	NEED(fi_close(&ep[0]->fid));
	NEED(fi_endpoint(domain, info, &later, NULL));
	NEED(fi_ep_bind(later, &av->fid, 0));
	NEED(fi_ep_bind(later, &cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(fi_enable(later));
	for (end = now() + 0.5; now() < end; next(&entry, 0.01))
		fi_send(later, from, 8, NULL, addr[1], &contexts[0]);
	return GONE;
}

/* What a stranger says to a listener, whose thread takes it for a request. */
static int garbage_crashes_a_listener(void)
{
	int i, fd;

	connect_all("sockets", FI_MSG, 0);
	memset(from, 3, 64);
	for (i = 0; i < 8; i++) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		NEED(fd < 0 || connect(fd, (struct sockaddr *) name, sizeof(struct sockaddr_in)));
		NEED(write(fd, from, 64) != 64);
		poll_for(0.1);
		NEED(close(fd));
	}
	return GONE;
}

/* Headers of libfabric 2.6 have no buffered receives any more; -DWITHOUT_BUFFERED_RECV compiles as with those. */
static int claim_of_a_buffered_message_never_ends(void)
{
#if !defined(FI_BUFFERED_RECV) || defined(WITHOUT_BUFFERED_RECV)
	return GONE;
#else
	struct iovec iov = { into, 64 };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC };
	struct fi_cq_tagged_entry entry;
	struct fi_recv_context *buffered;

	mode = FI_BUFFERED_RECV;
	open_all("tcp;ofi_rxm", FI_MSG, FI_THREAD_SAFE, FI_WAIT_NONE);
	POST(fi_send(ep[0], from, 64, NULL, addr[1], &contexts[0]));
	do
		NEED(next(&entry, 20) != 1);
	while (entry.op_context == &contexts[0]);
	buffered = entry.op_context;
	buffered->context = &contexts[1];
	msg.context = buffered;
	NEED(fi_recvmsg(ep[1], &msg, FI_CLAIM));
	while (next(&entry, 3) == 1)
		if (entry.op_context == &contexts[1])
			return GONE;
	return THERE;
#endif
}

static int answer_to_a_closed_context_crashes(void)
{
	return answers_to_a_closed_context_crash(0);
}

static int answer_to_an_injected_write_of_a_closed_context_crashes(void)
{
	return answers_to_a_closed_context_crash(1);
}

/* With manual progress, a queue is polled that has another context of the endpoint. */
static int closed_context_is_driven_on(void)
{
	struct fi_cq_tagged_entry entry;

	open_scalable(FI_PROGRESS_MANUAL, 1);
	NEED(context_exchange(0, 0, 20) != 2);
	close_and_reuse(tx[0][0]);
	next(&entry, 1);
	return GONE;
}

/* What comes for another context after a message for one that was closed. */
static int message_to_a_closed_context_holds_up_others(void)
{
	open_scalable(FI_PROGRESS_AUTO, 1);
	NEED(context_exchange(0, 0, 20) != 2);
	NEED(fi_close(&rx[1][1]->fid));
	POST(fi_send(tx[0][0], from, 8, NULL, fi_rx_addr(addr[1], 1, 1), &contexts[2]));
	usleep(10000);
	return context_exchange(1, 0, 3) == 0 ? THERE : GONE;
}

/* A number that the bits hold. */
static int context_256_is_context_0(void)
{
	struct fi_cq_tagged_entry entry;
	int ended;

	open_scalable(FI_PROGRESS_AUTO, 16);
	POST(fi_recv(rx[1][0], into, 8, NULL, FI_ADDR_UNSPEC, &contexts[0]));
	POST(fi_send(tx[0][0], from, 8, NULL, fi_rx_addr(addr[1], 256, 16), &contexts[1]));
	for (ended = 0; ended < 2 && next(&entry, 3) == 1;)
		ended++;
	return ended == 2 ? THERE : GONE;
}

/* A send that waits for its receive is cancelled, and goes on waiting. */
static int send_is_not_cancelled(const char *provider)
{
	enum { LENGTH = 64 << 20 };
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_tagged_entry entry;
	char *source = calloc(1, LENGTH);
	int told;

	open_all(provider, FI_TAGGED | FI_MSG, FI_THREAD_SAFE, FI_WAIT_NONE);
	warm_up();
	POST(fi_tsend(ep[0], source, LENGTH, NULL, addr[1], 7, &contexts[2]));
	fi_cq_read(cq, &entry, 0);
	fi_cancel(&ep[0]->fid, &contexts[2]);
	told = next(&entry, 1);
	if (told < 0)
		NEED(fi_cq_readerr(cq, &error, 0) != 1);
	return told < 0 && error.err == FI_ECANCELED ? GONE : THERE;
}

static int shm_send_is_not_cancelled(void)
{
	return send_is_not_cancelled("shm");
}

static int sm2_send_is_not_cancelled(void)
{
	return send_is_not_cancelled("sm2");
}

static int rxm_send_is_not_cancelled(void)
{
	return send_is_not_cancelled("tcp;ofi_rxm");
}

static int net_send_is_not_cancelled(void)
{
	return send_is_not_cancelled("net");
}

static int tcp_send_is_not_cancelled(void)
{
	return send_is_not_cancelled("tcp");
}

static int sockets_send_is_not_cancelled(void)
{
	return send_is_not_cancelled("sockets");
}

static int rxd_send_is_not_cancelled(void)
{
	return send_is_not_cancelled("udp;ofi_rxd");
}

static const struct {
	const char *name;
	int (*run)(void);
} faults[] = {
	{ "rxd-read-of-no-bytes-never-ends", read_of_no_bytes_never_ends },
	{ "rxd-two-atomics-crash", two_atomics_crash },
	{ "rxd-injected-atomic-at-an-offset-is-never-taken", injected_atomic_at_an_offset_is_never_taken },
	{ "net-atomics-are-not-there", net_atomics_are_not_there },
	{ "sm2-atomic-read-brings-nothing", sm2_atomic_read_brings_nothing },
	{ "net-write-of-a-peer-is-not-counted", net_write_of_a_peer_is_not_counted },
	{ "tcp-write-of-a-peer-is-not-counted", tcp_write_of_a_peer_is_not_counted },
	{ "sockets-fetching-atomic-of-a-peer-is-not-counted", fetching_atomic_of_a_peer_is_not_counted },
	{ "rxd-write-not-allowed-never-ends", write_not_allowed_never_ends },
	{ "shm-read-not-allowed-is-not-refused", read_not_allowed_is_not_refused },
	{ "rxd-truncated-message-is-whole", rxd_truncated_message_is_whole },
	{ "udp-truncated-message-is-whole", udp_truncated_message_is_whole },
	{ "rxm-segments-of-a-truncated-message-use-up-receives", segments_of_a_truncated_message_use_up_receives },
	{ "rxm-nothing-arrives-after-a-truncated-message", nothing_arrives_after_a_truncated_message },
	{ "tcp-message-for-a-receive-of-no-bytes-never-ends", message_for_a_receive_of_no_bytes_never_ends },
	{ "net-message-behind-a-truncated-one-is-lost", message_behind_a_truncated_one_is_lost },
	{ "sockets-address-inserted-again-is-another", address_inserted_again_is_another },
	{ "rxm-removed-peer-has-the-next-ones-index", rxm_removed_peer_has_the_next_ones_index },
	{ "net-removed-peer-has-the-next-ones-index", net_removed_peer_has_the_next_ones_index },
	{ "tcp-removed-peer-has-the-next-ones-index", tcp_removed_peer_has_the_next_ones_index },
	{ "rxm-source-of-a-closed-peer-is-another-peer", source_of_a_closed_peer_is_another_peer },
	{ "shm-message-of-a-removed-peer-crashes", message_of_a_removed_peer_crashes },
	{ "net-idle-descriptor-is-readable", idle_descriptor_is_readable },
	{ "shm-delivery-of-nothing-is-not-reported", delivery_of_nothing_is_not_reported },
	{ "shm-long-message-for-a-short-buffer-never-ends", shm_long_message_for_a_short_buffer_never_ends },
	{ "sm2-long-message-for-a-short-buffer-never-ends", sm2_long_message_for_a_short_buffer_never_ends },
	{ "rxm-close-after-a-truncated-long-message-crashes", close_after_a_truncated_long_message_crashes },
	{ "rxd-endpoint-at-a-used-address-crashes-its-peer", endpoint_at_a_used_address_crashes_its_peer },
	{ "rxm-close-in-the-middle-of-segments-crashes", rxm_close_in_the_middle_of_segments_crashes },
	{ "rxm-sleep-after-an-endpoint-was-closed-crashes", rxm_sleep_after_an_endpoint_was_closed_crashes },
	{ "rxd-sleep-after-an-endpoint-was-closed-crashes", rxd_sleep_after_an_endpoint_was_closed_crashes },
	{ "tcp-queue-for-sleeping-crashes", queue_for_sleeping_crashes },
	{ "sm2-option-of-an-endpoint-that-is-not-enabled-crashes", option_of_an_endpoint_that_is_not_enabled_crashes },
	{ "sm2-insertion-beside-what-was-not-enabled-crashes", insertion_beside_what_was_not_enabled_crashes },
	{ "sm2-closing-what-was-not-enabled-crashes", closing_what_was_not_enabled_crashes },
	{ "shm-multi-receive-writes-behind-its-buffer", shm_multi_receive_writes_behind_its_buffer },
	{ "sm2-multi-receive-writes-behind-its-buffer", sm2_multi_receive_writes_behind_its_buffer },
	{ "rxm-multi-receive-writes-behind-its-buffer", rxm_multi_receive_writes_behind_its_buffer },
	{ "rxd-multi-receive-writes-behind-its-buffer", rxd_multi_receive_writes_behind_its_buffer },
	{ "sockets-multi-receive-writes-behind-its-buffer", sockets_multi_receive_writes_behind_its_buffer },
	{ "rxm-multi-receive-is-released-too-early", multi_receive_is_released_too_early },
	{ "net-multi-receive-is-written-after-it-was-cancelled", multi_receive_is_written_after_it_was_cancelled },
	{ "rxd-closing-after-claims-crashes", closing_after_claims_crashes },
	{ "shm-peek-receives", peek_receives },
	{ "shm-masked-receive-misses-what-has-arrived", masked_receive_misses_what_has_arrived },
	{ "shm-receive-after-a-masked-one-takes-another-tag", receive_after_a_masked_one_takes_another_tag },
	{ "rxm-send-of-a-discarded-message-never-ends", rxm_send_of_a_discarded_message_never_ends },
	{ "sm2-send-of-a-discarded-message-never-ends", sm2_send_of_a_discarded_message_never_ends },
	{ "sockets-immediate-data-is-not-told", sockets_immediate_data_is_not_told },
	{ "sm2-immediate-data-is-not-told", sm2_immediate_data_is_not_told },
	{ "rxd-source-is-always-the-first", source_is_always_the_first },
	{ "net-directed-receive-takes-anybodys", net_directed_receive_takes_anybodys },
	{ "tcp-directed-receive-takes-anybodys", tcp_directed_receive_takes_anybodys },
	{ "shm-directed-receive-crashes", shm_directed_receive_crashes },
	{ "sm2-directed-receive-crashes", sm2_directed_receive_crashes },
	{ "rxm-directed-receive-crashes", rxm_directed_receive_crashes },
	{ "shm-directed-receive-goes-before-older-ones", shm_directed_receive_goes_first },
	{ "sm2-directed-receive-goes-before-older-ones", sm2_directed_receive_goes_first },
	{ "rxm-directed-receive-goes-before-older-ones", rxm_directed_receive_goes_first },
	{ "net-close-while-a-peer-connects-crashes", net_close_while_a_peer_connects_crashes },
	{ "tcp-peer-that-goes-while-one-connects-crashes", peer_that_goes_while_one_connects_crashes },
	{ "net-tagged-message-to-shared-receives-crashes", net_tagged_message_to_shared_receives_crashes },
	{ "tcp-tagged-message-to-shared-receives-crashes", tcp_tagged_message_to_shared_receives_crashes },
	{ "net-read-that-is-cut-by-closing-is-freed-twice", net_read_that_is_cut_by_closing_is_freed_twice },
	{ "net-read-that-is-cut-by-shutting-down-is-freed-twice", net_read_that_is_cut_by_shutting_down_is_freed_twice },
	{ "tcp-read-that-is-cut-by-closing-is-freed-twice", tcp_read_that_is_cut_by_closing_is_freed_twice },
	{ "tcp-read-that-is-cut-by-shutting-down-is-freed-twice", tcp_read_that_is_cut_by_shutting_down_is_freed_twice },
	{ "net-stranger-of-a-closed-endpoint-crashes", net_stranger_of_a_closed_endpoint_crashes },
	{ "tcp-stranger-of-a-closed-endpoint-crashes", tcp_stranger_of_a_closed_endpoint_crashes },
	{ "sockets-second-range-of-a-region-is-not-reached", second_range_of_a_region_is_not_reached },
	{ "rxm-empty-set-of-addresses-is-refused", empty_set_of_addresses_is_refused },
	{ "sockets-deferred-work-is-not-cancelled", deferred_work_is_not_cancelled },
	{ "sockets-deferred-work-is-not-flushed", deferred_work_is_not_flushed },
	{ "rxm-tag-beside-collectives-crashes", tag_beside_collectives_crashes },
	{ "rxm-collectives-keep-memory", collectives_keep_memory },
	{ "rxm-collective-with-a-removed-member-crashes", collective_with_a_removed_member_crashes },
	{ "rxm-broadcast-writes-behind-its-buffer", broadcast_writes_behind_its_buffer },
	{ "rxm-collective-of-more-than-16-kib-never-ends", collective_of_more_than_16_kib_never_ends },
	{ "rxm-claim-of-a-buffered-message-never-ends", claim_of_a_buffered_message_never_ends },
	{ "sockets-message-after-garbage-never-comes", message_after_garbage_never_comes },
	{ "shm-message-to-an-endpoint-that-was-closed-crashes", message_to_an_endpoint_that_was_closed_crashes },
	{ "sockets-garbage-crashes-a-listener", garbage_crashes_a_listener },
	{ "rxd-foreign-datagram-crashes", foreign_datagram_crashes },
	{ "udp-failed-join-is-told-like-one-that-went-well", failed_join_is_told_like_one_that_went_well },
	{ "udp-endpoint-of-a-failed-join-cannot-be-closed", endpoint_of_a_failed_join_cannot_be_closed },
	{ "udp-endpoint-that-only-sends-cannot-leave", endpoint_that_only_sends_cannot_leave },
	{ "sockets-answer-to-a-closed-context-crashes", answer_to_a_closed_context_crashes },
	{ "sockets-answer-to-an-injected-write-of-a-closed-context-crashes",
	  answer_to_an_injected_write_of_a_closed_context_crashes },
	{ "sockets-closed-context-is-driven-on", closed_context_is_driven_on },
	{ "sockets-context-256-is-context-0", context_256_is_context_0 },
	{ "sockets-message-to-a-closed-context-holds-up-others", message_to_a_closed_context_holds_up_others },
	{ "shm-name-that-was-refused-crashes", shm_name_that_was_refused_crashes },
	{ "rxm-receive-of-a-closed-peers-long-message-crashes", receive_of_a_closed_peers_long_message_crashes },
	{ "rxm-long-message-to-a-killed-peer-never-ends", rxm_long_message_to_a_killed_peer_never_ends },
	{ "rxd-message-to-a-killed-peer-never-ends", rxd_message_to_a_killed_peer_never_ends },
	{ "rxd-messages-injected-to-a-killed-peer-hold-up-others", messages_injected_to_a_killed_peer_hold_up_others },
	{ "rxm-injected-write-to-a-killed-peer-crashes", injected_write_to_a_killed_peer_crashes },
	{ "rxm-killed-writer-with-immediate-data-crashes", killed_writer_with_immediate_data_crashes },
	{ "rxm-close-in-a-forked-child-cuts-the-parent-off", rxm_close_in_a_forked_child_cuts_the_parent_off },
	{ "tcp-close-in-a-forked-child-cuts-the-parent-off", tcp_close_in_a_forked_child_cuts_the_parent_off },
	{ "net-close-in-a-forked-child-cuts-the-parent-off", net_close_in_a_forked_child_cuts_the_parent_off },
	{ "sockets-close-in-a-forked-child-cuts-the-parent-off", sockets_close_in_a_forked_child_cuts_the_parent_off },
	{ "shm-close-in-a-forked-child-removes-the-parents-name", shm_close_in_a_forked_child_removes_the_parents_name },
	{ "shm-signal-to-a-forked-child-removes-the-parents-names", shm_signal_to_a_forked_child_removes_the_parents_names },
	{ "rxm-multi-receive-of-a-killed-sender-is-never-over", multi_receive_of_a_killed_sender_is_never_over },
	{ "shm-send-is-not-cancelled", shm_send_is_not_cancelled },
	{ "sm2-send-is-not-cancelled", sm2_send_is_not_cancelled },
	{ "rxm-send-is-not-cancelled", rxm_send_is_not_cancelled },
	{ "net-send-is-not-cancelled", net_send_is_not_cancelled },
	{ "tcp-send-is-not-cancelled", tcp_send_is_not_cancelled },
	{ "sockets-send-is-not-cancelled", sockets_send_is_not_cancelled },
	{ "rxd-send-is-not-cancelled", rxd_send_is_not_cancelled },
	{ "shm-region-closed-while-it-is-written-crashes", shm_region_closed_while_it_is_written_crashes },
	{ "net-selective-completion-reports-everything", net_selective_completion_reports_everything },
	{ "tcp-selective-completion-reports-everything", tcp_selective_completion_reports_everything },
	{ "shm-longer-messages-both-ways-crash", longer_messages_both_ways_crash },
	{ "rxm-signal-is-lost-when-a-sleep-begins", rxm_signal_is_lost_when_a_sleep_begins },
	{ "rxd-signal-is-lost-when-a-sleep-begins", rxd_signal_is_lost_when_a_sleep_begins },
	{ "net-signal-is-lost-when-a-sleep-begins", net_signal_is_lost_when_a_sleep_begins },
};

/* In a process of its own, which may crash; what a shell would say of how it ended. */
static int run_apart(int (*run)(void))
{
	int status;
	pid_t process = fork();

	if (process == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Closing is not what this is about. */
		_exit(run());
	}
	if (process < 0 || waitpid(process, &status, 0) != process)
		return BROKEN;
	remove_names_of(process);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int count, char **arguments)
{
	size_t i;

	for (i = 0; i < sizeof(faults) / sizeof(*faults); i++) {
		if (count < 2)
			puts(faults[i].name);
		else if (strcmp(arguments[1], faults[i].name) == 0)
			return run_apart(faults[i].run);
	}
	return count < 2 ? 0 : BROKEN;
}
