"""A wire with a delay between two network namespaces, for kernels without netem: a tap in each, and
frames that wait on their way. delayed_link.py NAMESPACE NAME NAMESPACE NAME MILLISECONDS; prints a
line when both taps are there, and ends when it is killed."""
import ctypes
import fcntl
import heapq
import os
import select
import struct
import sys
import time

TUNSETIFF, TAP, NO_HEADER, CLONE_NEWNET = 0x400454CA, 2, 0x1000, 0x40000000


def tap(namespace, name):
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/var/run/netns/" + namespace) as f:
        if libc.setns(f.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode(), TAP | NO_HEADER))
    return fd


ends = [tap(sys.argv[1], sys.argv[2]), tap(sys.argv[3], sys.argv[4])]
delay = float(sys.argv[5]) / 1000
print("there", flush=True)
waiting, number = [], 0
while True:
    left = max(0, waiting[0][0] - time.monotonic()) if waiting else None
    for fd in select.select(ends, [], [], left)[0]:
        while True:
            try:
                frame = os.read(fd, 65536)
            except BlockingIOError:
                break
            except OSError:  # the device is down
                break
            heapq.heappush(waiting, (time.monotonic() + delay, number, ends[fd == ends[0]], frame))
            number += 1
    while waiting and waiting[0][0] <= time.monotonic():
        _, _, to, frame = heapq.heappop(waiting)
        try:
            os.write(to, frame)
        except OSError:
            pass
