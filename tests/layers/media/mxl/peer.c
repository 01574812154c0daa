/* Peer of MXL's fabrics that uses libfabric alone, with connections (tcp) or without (shm): five
 * slots of 17 slices of 256 bytes, or two channels of 4-byte samples. It verifies the fields of
 * headers, and each byte behind them.
 *
 *   peer target video|audio COUNT tcp|shm      prints its info as JSON, then a line for each grain or block
 *   peer initiator video|audio COUNT tcp|shm   reads the info of a target from its standard input
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#define HEADER 8192
#define SLICES 17
#define SLICE 256
#define SLOT (HEADER + SLICES * SLICE)
#define SLOTS 5
#define BATCH 480
#define CHANNELS 2
#define ENTRY (16 + CHANNELS * BATCH * 4)
#define ENTRIES 9

#define CHECK(call)                                                                                                    \
	do {                                                                                                           \
		long result_ = (call);                                                                                 \
		if (result_ < 0) {                                                                                     \
			fprintf(stderr, "%s: %s\n", #call, fi_strerror((int)-result_));                                \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_eq *eq;
static struct fid_ep *ep;
/* Without connections. */
static struct fid_av *av;
static fi_addr_t to;
static const char *provider;
static uint8_t *memory;
static struct fid_mr *regions[64];
static time_t deadline;

static void fail(const char *text)
{
	fprintf(stderr, "%s\n", text);
	exit(1);
}

static uint8_t byte_of(uint64_t index, size_t at) { return (uint8_t)(index * 31 + at % 251); }
static uint32_t sample_of(int channel, uint64_t at) { return (uint32_t)(at << 8) | (uint32_t)channel; }

static void in_time(void)
{
	if (time(NULL) > deadline)
		fail("too late");
}

static void close_endpoint(void)
{
	if (ep)
		fi_close(&ep->fid);
	ep = NULL;
}

static int is_connectionless(void) { return !strcmp(provider, "shm"); }

static void open_fabric(uint64_t caps)
{
	/* Names of shm are of one process. */
	char node[32] = "127.0.0.1";
	if (is_connectionless())
		snprintf(node, sizeof node, "mxl-peer-%d", (int)getpid());
	struct fi_info *hints = fi_allocinfo();
	hints->caps = FI_RMA | caps;
	hints->fabric_attr->prov_name = strdup(provider);
	hints->ep_attr->type = is_connectionless() ? FI_EP_RDM : FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	CHECK(fi_getinfo(FI_VERSION(1, 17), node, NULL, FI_SOURCE, hints, &info));
	CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
	CHECK(fi_domain(fabric, info, &domain, NULL));
	struct fi_eq_attr eq_attr = {.size = 8, .wait_obj = FI_WAIT_UNSPEC};
	if (!is_connectionless())
		CHECK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
	struct fi_cq_attr cq_attr = {.size = 64, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC};
	if (is_connectionless())
		cq_attr.wait_obj = FI_WAIT_NONE;
	CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	if (!is_connectionless())
		return;
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE, .count = 4};
	CHECK(fi_av_open(domain, &av_attr, &av, NULL));
	CHECK(fi_endpoint(domain, info, &ep, NULL));
	atexit(close_endpoint);
	CHECK(fi_ep_bind(ep, &av->fid, 0));
	CHECK(fi_ep_bind(ep, &cq->fid, FI_RECV | FI_TRANSMIT));
	CHECK(fi_enable(ep));
}

static void open_regions(int count, size_t len, uint64_t access)
{
	memory = calloc((size_t)count, len);
	for (int at = 0; at < count; at++)
		CHECK(fi_mr_reg(domain, memory + (size_t)at * len, len, access, 0, 0x1000 + (uint64_t)at * 77, 0, &regions[at], NULL));
}

static uint32_t next_event(struct fi_eq_cm_entry *entry)
{
	uint32_t event;
	for (;; in_time()) {
		ssize_t read = fi_eq_read(eq, &event, entry, sizeof *entry, 0);
		if (read > 0)
			return event;
		if (read != -FI_EAGAIN)
			fail("an error event");
		struct fi_cq_data_entry unused;
		if (fi_cq_read(cq, &unused, 0) < 0)
			continue;
	}
}

static void base64(const uint8_t *in, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t at = 0; at < len; at += 3) {
		uint32_t bits = (uint32_t)in[at] << 16 | (at + 1 < len ? (uint32_t)in[at + 1] << 8 : 0) | (at + 2 < len ? in[at + 2] : 0);
		for (int digit = 0; digit < 4; digit++) {
			char c = at + (size_t)digit > len ? '=' : digits[bits >> (18 - 6 * digit) & 63];
			/* MXL's printer escapes slashes. */
			printf(c == '/' ? "\\/" : "%c", c);
		}
	}
}

static void print_info(fid_t of, int count, size_t len, int audio)
{
	uint8_t address[64];
	size_t address_len = sizeof address;
	CHECK(fi_getname(of, address, &address_len));
	printf("{\"addressFormat\":%u,", info->addr_format);
	if (audio)
		printf("\"bounceBufferInfo\":{\"entryCount\":\"%d\",\"entrySize\":\"%zu\"},", count, len);
	printf("\"fabricAddress\":\"");
	base64(address, address_len);
	printf("\",\"id\":\"17\",\"provider\":\"%s\",\"regions\":[", provider);
	for (int at = 0; at < count; at++) {
		int is_virtual = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
		unsigned long long addr = is_virtual ? (unsigned long long)(uintptr_t)(memory + (size_t)at * len) : 0;
		printf("%s{\"addr\":\"%llu\",\"len\":\"%zu\",\"rkey\":\"%llu\"}", at ? "," : "", addr, len,
		       (unsigned long long)fi_mr_key(regions[at]));
	}
	printf("]}\n");
	fflush(stdout);
}

static void verify_grain(uint32_t data, int number)
{
	uint32_t slot = data & 0xffff, end = data >> 16;
	if (slot >= SLOTS || end > SLICES)
		fail("bad immediate data");
	uint8_t *grain = memory + slot * SLOT;
	uint64_t index;
	memcpy(&index, grain + 8, 8);
	if (index % SLOTS != slot || *(uint32_t *)grain != 1 || *(uint32_t *)(grain + 4) != 4096 || *(uint16_t *)(grain + 24) != SLICES)
		fail("bad header");
	if (end == 0 && !(grain[16] & 1))
		fail("no mark of an invalid grain");
	for (size_t at = 0; at < end * SLICE; at++)
		if (grain[HEADER + at] != byte_of(index, at))
			fail("a wrong byte");
	printf("%d: grain %llu, %u slices\n", number, (unsigned long long)index, end);
}

static void verify_block(uint32_t data, int number)
{
	if (data >= ENTRIES || data != (uint32_t)number % ENTRIES)
		fail("entries are not used in turn");
	uint8_t *entry = memory + data * ENTRY;
	uint64_t head, count;
	memcpy(&head, entry, 8);
	memcpy(&count, entry + 8, 8);
	if (count < 1 || count > BATCH)
		fail("a bad number of samples");
	for (int channel = 0; channel < CHANNELS; channel++)
		for (uint64_t at = 0; at < count; at++) {
			uint32_t sample;
			memcpy(&sample, entry + 16 + ((uint64_t)channel * count + at) * 4, 4);
			if (sample != sample_of(channel, head - count + at))
				fail("a wrong sample");
		}
	printf("%d: samples %llu to %llu\n", number, (unsigned long long)(head - count), (unsigned long long)head);
}

static void accept_initiator(int audio)
{
	struct fid_pep *pep;
	CHECK(fi_passive_ep(fabric, info, &pep, NULL));
	CHECK(fi_pep_bind(pep, &eq->fid, 0));
	CHECK(fi_listen(pep));
	print_info(&pep->fid, audio ? ENTRIES : SLOTS, audio ? ENTRY : SLOT, audio);
	struct fi_eq_cm_entry event;
	if (next_event(&event) != FI_CONNREQ)
		fail("not a request");
	CHECK(fi_endpoint(domain, event.info, &ep, NULL));
	CHECK(fi_ep_bind(ep, &cq->fid, FI_RECV | FI_TRANSMIT));
	CHECK(fi_ep_bind(ep, &eq->fid, 0));
	uint8_t zero = 0;
	CHECK(fi_accept(ep, &zero, 1));
	if (next_event(&event) != FI_CONNECTED)
		fail("not connected");
}

static void run_target(int audio, int count)
{
	open_fabric(FI_REMOTE_WRITE);
	open_regions(audio ? ENTRIES : SLOTS, audio ? ENTRY : SLOT, FI_REMOTE_WRITE);
	if (is_connectionless())
		print_info(&ep->fid, audio ? ENTRIES : SLOTS, audio ? ENTRY : SLOT, audio);
	else
		accept_initiator(audio);
	for (int number = 0; number < count; in_time()) {
		struct fi_cq_data_entry entry;
		ssize_t read = fi_cq_read(cq, &entry, 1);
		if (read == -FI_EAGAIN)
			continue;
		CHECK(read);
		if (!(entry.flags & FI_REMOTE_CQ_DATA))
			continue;
		if (audio)
			verify_block((uint32_t)entry.data, number);
		else
			verify_grain((uint32_t)entry.data, number);
		fflush(stdout);
		number++;
	}
	struct fi_eq_cm_entry event;
	/* The peer disconnects, or closes the standard input. */
	struct pollfd input = {.fd = 0, .events = POLLIN};
	for (; is_connectionless(); in_time()) {
		struct fi_cq_data_entry unused;
		fi_cq_read(cq, &unused, 0);
		if (poll(&input, 1, 0) != 0)
			return;
	}
	if (next_event(&event) != FI_SHUTDOWN)
		fail("not a shutdown");
}

static void write_part(struct fid_mr *mr, void *from, size_t len, uint64_t addr, uint64_t key, int last, uint64_t data)
{
	struct iovec iov = {from, len};
	struct fi_rma_iov range = {addr, len, key};
	void *desc = fi_mr_desc(mr);
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = to, .rma_iov = &range, .rma_iov_count = 1, .data = data};
	ssize_t posted;
	struct fi_cq_data_entry entry;
	while ((posted = fi_writemsg(ep, &msg, FI_DELIVERY_COMPLETE | (last ? FI_REMOTE_CQ_DATA : 0))) == -FI_EAGAIN) {
		fi_cq_read(cq, &entry, 0);
		in_time();
	}
	CHECK(posted);
	while ((posted = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		in_time();
	CHECK(posted);
}

static void run_initiator(int audio, int count)
{
	static char json[1 << 20];
	uint64_t addr[64], key[64];
	uint8_t address[64] = {0};
	size_t address_len = 0;
	int targets = 0;
	if (!fgets(json, sizeof json, stdin))
		fail("no info");
	char *text = strstr(json, "\"fabricAddress\":\"") + 17;
	uint32_t bits = 0;
	for (int digits = 0; *text != '"' && *text != '='; text++) {
		static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
		if (*text == '\\')
			continue;
		bits = bits << 6 | (uint32_t)(strchr(all, *text) - all);
		if (++digits % 4 != 1)
			address[address_len++] = (uint8_t)(bits >> (digits % 4 == 2 ? 4 : digits % 4 == 3 ? 2 : 0));
	}
	for (text = strstr(json, "\"regions\""); (text = strstr(text, "\"addr\":\"")); targets++) {
		addr[targets] = strtoull(text + 8, &text, 10);
		text = strstr(text, "\"rkey\":\"");
		key[targets] = strtoull(text + 8, &text, 10);
	}
	open_fabric(FI_WRITE);
	open_regions(1, audio ? ENTRY : SLOT, FI_WRITE);
	if (is_connectionless()) {
		if (address[address_len - 1] != 0 || fi_av_insert(av, address, 1, &to, 0, NULL) != 1)
			fail("the address is not inserted");
	} else {
		CHECK(fi_endpoint(domain, info, &ep, NULL));
		CHECK(fi_ep_bind(ep, &cq->fid, FI_RECV | FI_TRANSMIT));
		CHECK(fi_ep_bind(ep, &eq->fid, 0));
		CHECK(fi_connect(ep, address, NULL, 0));
		struct fi_eq_cm_entry event;
		if (next_event(&event) != FI_CONNECTED)
			fail("not connected");
	}
	uint64_t head = 1000;
	for (int number = 0; number < count; number++) {
		if (audio) {
			uint64_t samples = number % 3 == 2 ? 7 : BATCH;
			head += samples;
			memcpy(memory, &head, 8);
			memcpy(memory + 8, &samples, 8);
			for (int channel = 0; channel < CHANNELS; channel++)
				for (uint64_t at = 0; at < samples; at++) {
					uint32_t sample = sample_of(channel, head - samples + at);
					memcpy(memory + 16 + ((uint64_t)channel * samples + at) * 4, &sample, 4);
				}
			int entry = number % targets;
			write_part(regions[0], memory, 16 + CHANNELS * 4 * samples, addr[entry], key[entry], 1, (uint64_t)entry);
			continue;
		}
		uint64_t index = 1000 + (uint64_t)number;
		int invalid = number % 4 == 3, slot = (int)(index % (uint64_t)targets);
		memset(memory, 0, HEADER);
		*(uint32_t *)memory = 1;
		*(uint32_t *)(memory + 4) = 4096;
		memcpy(memory + 8, &index, 8);
		*(uint32_t *)(memory + 16) = (uint32_t)invalid;
		*(uint32_t *)(memory + 20) = SLICES * SLICE;
		*(uint16_t *)(memory + 24) = SLICES;
		*(uint16_t *)(memory + 26) = invalid ? 0 : SLICES;
		for (size_t at = 0; at < SLICES * SLICE; at++)
			memory[HEADER + at] = byte_of(index, at);
		if (invalid) {
			write_part(regions[0], memory, HEADER, addr[slot], key[slot], 1, (uint64_t)slot);
		} else if (number % 4 == 1) {
			write_part(regions[0], memory, HEADER + 5 * SLICE, addr[slot], key[slot], 1, (uint64_t)slot | 5 << 16);
			write_part(regions[0], memory + HEADER + 5 * SLICE, 12 * SLICE, addr[slot] + HEADER + 5 * SLICE, key[slot], 1,
				   (uint64_t)slot | SLICES << 16);
		} else {
			write_part(regions[0], memory, SLOT, addr[slot], key[slot], 1, (uint64_t)slot | SLICES << 16);
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 5)
		fail("peer target|initiator video|audio COUNT tcp|shm");
	provider = argv[4];
	deadline = time(NULL) + 30;
	int audio = !strcmp(argv[2], "audio"), count = atoi(argv[3]);
	if (!strcmp(argv[1], "target"))
		run_target(audio, count);
	else
		run_initiator(audio, count);
	close_endpoint();
	return 0;
}
