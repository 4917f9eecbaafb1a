#include "net/xdp_program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/error.h"

/* Offsets in a frame: Ethernet 14, IPv4 20, UDP 8. */
enum { TYPE = 12, VERSION = 14, FRAGMENT = 20, PROTOCOL = 23, TO = 30, PORT = 36, HEADS = 42 };
enum { R0, R1, R2, R3, R4, R5, R6 };

#define LOAD(size, to, from, at)                                                                             \
    (struct bpf_insn) {                                                                                      \
        BPF_LDX | BPF_MEM | (size), to, from, at, 0                                                          \
    }
#define MOVE(to, from)                                                                                       \
    (struct bpf_insn) {                                                                                      \
        BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0                                                          \
    }
#define SET(to, value)                                                                                       \
    (struct bpf_insn) {                                                                                      \
        BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value                                                         \
    }
#define ADD(to, value)                                                                                       \
    (struct bpf_insn) {                                                                                      \
        BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value                                                         \
    }
#define AND(to, value)                                                                                       \
    (struct bpf_insn) {                                                                                      \
        BPF_ALU64 | BPF_AND | BPF_K, to, 0, 0, value                                                         \
    }
/* Leave for the end of the program (the jump's length is filled in below). */
#define UNLESS_EQUAL(reg, value)                                                                             \
    (struct bpf_insn) {                                                                                      \
        BPF_JMP32 | BPF_JNE | BPF_K, reg, 0, PASS, value                                                     \
    }
#define IF_ABOVE(reg, other)                                                                                 \
    (struct bpf_insn) {                                                                                      \
        BPF_JMP | BPF_JGT | BPF_X, reg, other, PASS, 0                                                       \
    }
#define CALL(function)                                                                                       \
    (struct bpf_insn) {                                                                                      \
        BPF_JMP | BPF_CALL, 0, 0, 0, function                                                                \
    }
#define EXIT                                                                                                 \
    (struct bpf_insn) {                                                                                      \
        BPF_JMP | BPF_EXIT, 0, 0, 0, 0                                                                       \
    }

enum { PASS = INT16_MAX, MOST = 32 };

static long bpf(int command, union bpf_attr *attr) {
    return syscall(SYS_bpf, command, attr, sizeof *attr);
}

/* Write the program; return its length. */
static uint32_t assemble(struct bpf_insn *code, const struct sockaddr_in *address, int map) {
    uint32_t n = 0;
    code[n++] = MOVE(R6, R1);
    code[n++] = LOAD(BPF_W, R2, R1, offsetof(struct xdp_md, data));
    code[n++] = LOAD(BPF_W, R3, R1, offsetof(struct xdp_md, data_end));
    code[n++] = MOVE(R4, R2);
    code[n++] = ADD(R4, HEADS);
    code[n++] = IF_ABOVE(R4, R3);
    code[n++] = LOAD(BPF_H, R5, R2, TYPE);
    code[n++] = UNLESS_EQUAL(R5, htons(0x0800)); /* IPv4 */
    code[n++] = LOAD(BPF_B, R5, R2, VERSION);
    code[n++] = UNLESS_EQUAL(R5, 0x45); /* no options */
    code[n++] = LOAD(BPF_H, R5, R2, FRAGMENT);
    code[n++] = AND(R5, htons(0x3fff)); /* more fragments, or not the first */
    code[n++] = UNLESS_EQUAL(R5, 0);
    code[n++] = LOAD(BPF_B, R5, R2, PROTOCOL);
    code[n++] = UNLESS_EQUAL(R5, IPPROTO_UDP);
    if (address->sin_addr.s_addr != htonl(INADDR_ANY)) {
        code[n++] = LOAD(BPF_W, R5, R2, TO);
        code[n++] = UNLESS_EQUAL(R5, (int32_t)address->sin_addr.s_addr);
    }
    code[n++] = LOAD(BPF_H, R5, R2, PORT);
    code[n++] = UNLESS_EQUAL(R5, address->sin_port);
    /* A queue without a socket passes its frames on: the third argument. */
    code[n++] = LOAD(BPF_W, R2, R6, offsetof(struct xdp_md, rx_queue_index));
    code[n++] = (struct bpf_insn){BPF_LD | BPF_DW, R1, BPF_PSEUDO_MAP_FD, 0, map};
    code[n++] = (struct bpf_insn){0}; /* the upper half of that number */
    code[n++] = SET(R3, XDP_PASS);
    code[n++] = CALL(BPF_FUNC_redirect_map);
    code[n++] = EXIT;
    const uint32_t pass = n;
    code[n++] = SET(R0, XDP_PASS);
    code[n++] = EXIT;
    for (uint32_t i = 0; i < pass; i++)
        if (code[i].off == PASS)
            code[i].off = (int16_t)(pass - i - 1);
    return n;
}

int ae_xdp_program_load(ae_xdp_program *p, const struct sockaddr_in *address, uint32_t queues,
                        aether_error *err) {
    *p = (ae_xdp_program){-1, -1, -1};
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.map_type = BPF_MAP_TYPE_XSKMAP;
    attr.key_size = attr.value_size = sizeof(uint32_t);
    attr.max_entries = queues;
    p->map = (int)bpf(BPF_MAP_CREATE, &attr);
    if (p->map < 0)
        return ae_error_os(err, errno, "a map of AF_XDP sockets");

    struct bpf_insn code[MOST];
    memset(&attr, 0, sizeof attr);
    attr.prog_type = BPF_PROG_TYPE_XDP;
    attr.expected_attach_type = BPF_XDP;
    attr.insn_cnt = assemble(code, address, p->map);
    attr.insns = (uint64_t)(uintptr_t)code;
    attr.license = (uint64_t)(uintptr_t) "Dual MIT/GPL"; /* what the kernel knows of ours */
    memcpy(attr.prog_name, "aethergraph", sizeof "aethergraph");
    p->code = (int)bpf(BPF_PROG_LOAD, &attr);
    if (p->code < 0) {
        const int number = errno;
        ae_xdp_program_close(p);
        return ae_error_os(err, number, "loading the program for AF_XDP");
    }
    return AETHER_OK;
}

int ae_xdp_program_serve(ae_xdp_program *p, uint32_t queue, int socket, aether_error *err) {
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.map_fd = (uint32_t)p->map;
    attr.key = (uint64_t)(uintptr_t)&queue;
    attr.value = (uint64_t)(uintptr_t)&socket;
    if (bpf(BPF_MAP_UPDATE_ELEM, &attr))
        return ae_error_os(err, errno, "handing queue %u to its AF_XDP socket", queue);
    return AETHER_OK;
}

int ae_xdp_program_attach(ae_xdp_program *p, uint32_t interface, aether_error *err) {
    const uint32_t modes[] = {XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};
    for (unsigned i = 0; i < 2 && p->link < 0; i++) {
        union bpf_attr attr;
        memset(&attr, 0, sizeof attr);
        attr.link_create.prog_fd = (uint32_t)p->code;
        attr.link_create.target_ifindex = interface;
        attr.link_create.attach_type = BPF_XDP;
        attr.link_create.flags = modes[i];
        p->link = (int)bpf(BPF_LINK_CREATE, &attr);
        if (p->link < 0 && errno == EBUSY)
            break;
    }
    if (p->link < 0)
        return ae_error_os(err, errno, "attaching the program for AF_XDP%s",
                           errno == EBUSY ? " (the interface has another one)" : "");
    return AETHER_OK;
}

void ae_xdp_program_close(ae_xdp_program *p) {
    const int descriptors[] = {p->link, p->code, p->map};
    for (unsigned i = 0; i < 3; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
    *p = (ae_xdp_program){-1, -1, -1};
}
