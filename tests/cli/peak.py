#!/usr/bin/env python3
"""Runs a command and prints the most anonymous memory (bytes) that it held, as seen by looking often."""
import os
import subprocess
import sys
import time

p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
try:
    os.nice(-20)  # looks before others work, where that is allowed
except OSError:
    pass
peak = 0
while p.poll() is None:
    try:
        with open(f"/proc/{p.pid}/status") as f:
            for line in f:
                if line.startswith("RssAnon:"):
                    peak = max(peak, int(line.split()[1]) * 1024)
    except OSError:
        pass
    time.sleep(0.0005)
print(peak)
sys.exit(p.returncode)
