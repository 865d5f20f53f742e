"""Runs a program as a container engine or a kubelet would, without either: scripts/installed.

    room.py ROOM.json COMMAND…

ROOM.json has: root (a folder), user, read_only, folders (path in the root to its source, or to null for a fresh tmpfs),
files (path in the root to its text, read-only), capabilities (false: none), privileges (false: no new ones), seccomp
(true: the default profile of docker and containerd), memory (bytes), environment.

What is applied, and what is not, is printed to standard error. Needs root, and a mount namespace of its own.
"""

import ctypes
import json
import os
import pathlib
import platform
import re
import struct
import subprocess
import sys

# The system calls that docker's default profile (moby 28, profiles/seccomp/default.json) denies to a process without
# capabilities on a kernel of 4.8 or newer. Everything else that a program of today calls is allowed, `seccomp` and
# Landlock's calls too. `clone3` is ENOSYS, so that libraries use `clone`, whose flags can be read.
DENIED = """
acct add_key adjtimex bpf clock_adjtime clock_settime create_module delete_module fanotify_init finit_module
fsconfig fsmount fsopen fspick get_kernel_syms get_mempolicy init_module io_uring_enter io_uring_register
io_uring_setup ioperm iopl kexec_file_load kexec_load keyctl lookup_dcookie mbind migrate_pages mount mount_setattr
move_mount move_pages nfsservctl open_by_handle_at open_tree perf_event_open pivot_root query_module quotactl
quotactl_fd reboot request_key set_mempolicy set_mempolicy_home_node setdomainname sethostname setns settimeofday
swapoff swapon sysfs syslog umount2 unshare uselib userfaultfd ustat vhangup _sysctl chroot
""".split()
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
NEW_NAMESPACES = 0x7E020000
AF_VSOCK = 40
EPERM, ENOSYS = 1, 38
ALLOW, ERRNO = 0x7FFF0000, 0x00050000

libc = ctypes.CDLL(None, use_errno=True)


def say(applied, what):
    print(f"room: {'applied' if applied else 'NOT APPLIED'}: {what}", file=sys.stderr)


def run(*command):
    subprocess.run(list(map(str, command)), check=True)


def mount(room, root):
    run("mount", "--make-rprivate", "/")
    run("mount", "--bind", root, root)
    for path, text in room["files"].items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for path in [*room["folders"], "/proc", "/dev", "/sys"]:
        (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    if room["read_only"]:
        run("mount", "-o", "remount,ro,bind", root)
    say(room["read_only"], "a read-only root")
    user = room["user"]
    # A folder may be inside another.
    for path, source in sorted(room["folders"].items()):
        target = root / path.lstrip("/")
        if not target.is_dir():
            target.mkdir()
        if source is None:
            run("mount", "-t", "tmpfs", "-o", f"uid={user},gid={user},mode=1777,nosuid,nodev", "tmpfs", target)
        else:
            os.chown(source, user, user)
            run("mount", "--bind", source, target)
    run("mount", "-t", "proc", "-o", "nosuid,nodev,noexec", "proc", root / "proc")
    run("mount", "-t", "tmpfs", "-o", "mode=755,nosuid", "tmpfs", root / "dev")
    for device in ["null", "zero", "full", "random", "urandom"]:
        (root / "dev" / device).touch()
        run("mount", "--bind", f"/dev/{device}", root / "dev" / device)
    say(True, f"folders to write to: {' '.join(room['folders'])}")


def limit_memory(name, limit):
    """Joins a group with this limit, in whichever hierarchy has the controller of memory."""
    for folder, file in [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")]:
        group = pathlib.Path(folder) / f"mediagate-{name}"
        try:
            group.mkdir(exist_ok=True)
            # Only in a hierarchy with the controller does the kernel put the file there.
            if (group / file).exists():
                (group / file).write_text(str(limit))
                (group / "cgroup.procs").write_text(str(os.getpid()))
                say(True, f"{limit >> 20} MiB of memory")
                return
            group.rmdir()
        except OSError:
            # No hierarchy is there, or none that takes processes.
            continue
    say(False, f"{limit >> 20} MiB of memory: there is no controller")


def seccomp_filter():
    """The default profile as a program for the kernel; None for machines whose numbers are not known here."""
    header = next(map(pathlib.Path, ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"]))
    if platform.machine() != "x86_64" or not header.exists():
        return None
    numbers = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", header.read_text())}

    def step(code, yes, no, value):
        return struct.pack("HBBI", code, yes, no, value)

    load, equal, any_bit, end = 0x20, 0x15, 0x45, 0x06

    def refuse(error):
        return step(end, 0, 0, ERRNO | error)

    steps = [step(load, 0, 0, 0)]
    for name in DENIED:
        if name in numbers:
            steps += [step(equal, 0, 1, numbers[name]), refuse(EPERM)]
    steps += [step(equal, 0, 1, numbers["clone3"]), refuse(ENOSYS)]
    # The first argument: flags of clone, the family of a socket.
    for name, test, value in [("clone", any_bit, NEW_NAMESPACES), ("socket", equal, AF_VSOCK)]:
        steps += [
            step(equal, 0, 4, numbers[name]),
            step(load, 0, 0, 16),
            step(test, 0, 1, value),
            refuse(EPERM),
            step(end, 0, 0, ALLOW),
        ]
    steps.append(step(end, 0, 0, ALLOW))
    return b"".join(steps), len(steps)


def main(path, *command):
    room = json.loads(pathlib.Path(path).read_text())
    root = pathlib.Path(room["root"])
    limit_memory(pathlib.Path(path).stem, room["memory"])
    mount(room, root)
    os.chroot(root)
    os.chdir("/")
    if not room["capabilities"]:
        # PR_CAPBSET_DROP; the permitted ones go with the user.
        last = int(pathlib.Path("/proc/sys/kernel/cap_last_cap").read_text())
        for capability in range(last + 1):
            libc.prctl(24, capability, 0, 0, 0)
    say(not room["capabilities"], "no capabilities")
    user = room["user"]
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    say(user != 0, f"user {user}")
    if not room["privileges"]:
        libc.prctl(38, 1, 0, 0, 0)
    say(not room["privileges"], "no new privileges")
    if room["seccomp"]:
        made = PROFILE
        if made is None:
            say(False, "the default seccomp profile: the numbers of this machine's calls are not known")
        else:

            class Program(ctypes.Structure):
                _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

            steps = ctypes.create_string_buffer(made[0])
            program = Program(made[1], ctypes.cast(steps, ctypes.c_void_p))
            if libc.prctl(22, 2, ctypes.byref(program), 0, 0):
                sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
            say(True, f"the default seccomp profile, as {len(DENIED)} calls that it denies")
    os.execve(command[0], list(command), room["environment"])


if __name__ == "__main__":
    # Read before the root changes.
    PROFILE = seccomp_filter()
    main(*sys.argv[1:])
