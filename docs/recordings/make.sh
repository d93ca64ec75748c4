#!/bin/bash
# Makes the recordings of Pageyard's own under traces/. Needs root, a kernel with tracefs, and of
# Debian: gcc libc6-dev iperf3 zstd procps; for the guest also qemu-system-x86 busybox-static
# e2fsprogs. See README.md in this folder.
#
#   make.sh [-p PAGEYARD] [-o DIR] exit | udp | thp | guest ...
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
pageyard=$(command -v pageyard || echo "$here/../../target/release/pageyard")
out=$here/../../traces
while getopts p:o: option; do
	case $option in
	p) pageyard=$(realpath "$OPTARG") ;;
	o) out=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))

scratch=$(mktemp -d)
undo=()
finish() {
	# Last in, first out. The list may be empty.
	for ((i = ${#undo[@]} - 1; i >= 0; i--)); do eval "${undo[i]}" || true; done
	rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

machine="$(uname -r | cut -d. -f1,2)-$(nproc)cpu"
mkdir -p "$out"
gcc -O2 -static -o "$scratch/traffic" "$here/traffic.c"

record() { # NAME OPTIONS -- COMMAND
	local name=$1
	shift
	rm -rf "${out:?}/$name"
	"$pageyard" record -o "$out/$name" --zstd=19 "$@"
	du -sh "$out/$name"
}

# A process of 1 GB of small pages ends. It has touched its pages before the recording begins.
make_exit() {
	"$scratch/traffic" hold 1024 > "$scratch/ready" &
	local holder=$!
	undo+=("kill $holder 2>/dev/null")
	until grep -qs ready "$scratch/ready"; do sleep 0.1; done
	record "exit1g-$machine" --buffer-kb 32768 -- \
		sh -c "kill $holder; while kill -0 $holder 2>/dev/null; do sleep 0.01; done"
}

# UDP over loopback, eight streams from CPU 0 to CPU 1 in datagrams of two sizes, under three small
# limits of the per-CPU lists. Without kpageflags: what counts here is between list and zone.
make_udp() {
	local knob=/proc/sys/vm/percpu_pagelist_high_fraction
	undo+=("echo $(cat $knob) > $knob")
	iperf3 -s -p 5299 > "$scratch/server" &
	undo+=("kill $! 2>/dev/null")
	sleep 1
	local client="iperf3 -c 127.0.0.1 -p 5299 -u -b 0 -P 8 -A 0,1"
	for fraction in 1000 5000 20000; do
		echo $fraction > $knob
		record "udpfraction$fraction-$machine" --no-kpageflags -- \
			sh -c "$client -l 9000 -n 400M; $client -l 28000 -n 400M"
	done
}

# Faults of order 9, by two processes at once.
make_thp() {
	cp "$scratch/traffic" /tmp/pageyard-traffic
	undo+=("rm -f /tmp/pageyard-traffic")
	record "thp-$machine" -- \
		sh -c '/tmp/pageyard-traffic huge 128 3 & /tmp/pageyard-traffic huge 128 3; wait'
}

# A guest of 4 CPUs and 2 nodes with little memory, under an unmodified Debian kernel (KERNEL: its
# vmlinuz, of the package linux-image-cloud-amd64: drivers for its disk and file system are built in).
make_guest() {
	local root=$scratch/root disk=$scratch/disk
	mkdir -p "$root"/{bin,proc,sys,dev,tmp,out,data,lib64}
	cp "$(command -v busybox)" "$root/bin/busybox"
	for name in sh cat echo mount mkdir rm head sync poweroff sleep; do
		ln -s busybox "$root/bin/$name"
	done
	cp "$scratch/traffic" "$pageyard" "$root/bin/"
	install -m 755 "$here/guest-workload.sh" "$root/bin/guest-workload.sh"
	install -m 755 "$here/guest-init.sh" "$root/init"
	truncate -s 160M "$root/data/holes"
	ldd "$pageyard" | grep -o '/[^ ]*' | while read -r library; do
		cp --parents -L "$library" "$root"
	done
	mke2fs -q -t ext4 -d "$root" "$disk" 512M
	timeout 600 qemu-system-x86_64 -nodefaults -no-reboot -display none -serial stdio \
		-accel tcg,thread=multi -smp 4 -m 320M \
		-object memory-backend-ram,id=m0,size=192M -object memory-backend-ram,id=m1,size=128M \
		-numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 \
		-drive file="$disk",if=none,id=disk,format=raw -device nvme,drive=disk,serial=1 \
		-kernel "${KERNEL:?set it to the vmlinuz to boot}" \
		-append "console=ttyS0 root=/dev/nvme0n1 rw init=/init quiet panic=-1"
	debugfs -R "rdump /out/recording $scratch" "$disk"
	local release
	release=$(cut -d. -f1,2 "$scratch/recording/kernel")
	local name=pressure-$release-4cpu-2node
	# The guest compresses in haste: it has little time and less memory.
	for file in "$scratch"/recording/*.zst; do
		zstd -q -d --rm "$file"
		zstd -q -19 --rm "${file%.zst}"
	done
	rm -rf "${out:?}/$name"
	cp -r "$scratch/recording" "$out/$name"
	echo "docs/recordings/guest-workload.sh in a QEMU guest: 4 CPUs, 2 nodes (192M, 128M)" \
		> "$out/$name/command"
	du -sh "$out/$name"
}

(($# > 0)) || { sed -n '2,7s/^# \?//p' "$0"; exit 2; }
for what in "$@"; do
	case $what in
	exit | udp | thp | guest) "make_$what" ;;
	*) echo "make.sh: no recording $what" >&2; exit 2 ;;
	esac
done
