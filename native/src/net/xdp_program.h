/*
 * net/xdp_program.h - the program in the kernel that hands the datagrams of one address to us.
 *
 *   frame -> Ethernet, IPv4 without options or fragments, UDP, our address and port?
 *              yes -> the AF_XDP socket of the frame's queue, if the map has one
 *              no  -> the system, as ever
 *
 * 27 instructions, written here and loaded by bpf(2): no compiler and no library at run time. It is
 * attached through a link, so the kernel detaches it when the last descriptor is closed, which
 * killing the process does, too.
 *
 * Caveats: needs CAP_NET_ADMIN and CAP_BPF (root), Linux 5.9. An interface carries one program of
 * this kind: a second one is refused (EBUSY). Whatever the program does not take (other networks'
 * tags, fragments, IPv6) comes by the ordinary socket.
 */
#ifndef AE_NET_XDP_PROGRAM_H
#define AE_NET_XDP_PROGRAM_H

#include <netinet/in.h>

#include "aether.h"

typedef struct ae_xdp_program {
    int map;  /* queue -> AF_XDP socket */
    int code; /* the program, loaded */
    int link; /* its attachment */
} ae_xdp_program;

/* Load the program for `address` (any, if it is INADDR_ANY) and make a map for `queues` sockets.
 * On failure all descriptors are closed, and -1. */
int ae_xdp_program_load(ae_xdp_program *p, const struct sockaddr_in *address, uint32_t queues,
                        aether_error *err);
/* Hand the datagrams of a queue to a socket. */
int ae_xdp_program_serve(ae_xdp_program *p, uint32_t queue, int socket, aether_error *err);
/* Attach the program: in the driver where it can, else in front of the system's network stack. */
int ae_xdp_program_attach(ae_xdp_program *p, uint32_t interface, aether_error *err);
void ae_xdp_program_close(ae_xdp_program *p);

#endif
