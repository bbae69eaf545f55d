#!/bin/sh
# A Rust program on this library as its global allocator, built as the crates that wrap jemalloc build it: static, every name with a
# prefix, installed by two targets of make. Needs rustc alone, nothing from the net.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/clients/aid"
[ -n "${CHECK_NO_DEPS:-}" ] || command -v rustc >/dev/null || "$SRC/scripts/install-deps" clients >deps.out 2>&1

vendored source
mkdir build
cd build || exit 1
CFLAGS="-O3 -ffunction-sections -fdata-sections -fPIC -m64 -Wall" ../source/configure --disable-cxx --enable-doc=no --enable-shared=no \
	--with-jemalloc-prefix=_rjem_ --with-private-namespace=_rjem_ --enable-prof "--prefix=$W/out" >../configure.out 2>&1
ok $? "configure takes the switches" "$(tail -n 20 ../configure.out)"
make -j2 >../make.out 2>&1 && make install_lib_static install_include >>../make.out 2>&1
ok $? "it builds, and installs by install_lib_static and install_include" "$(tail -n 20 ../make.out)"
cd .. || exit 1
is "$(cd out && find . -type f | sort | tr '\n' ' ')" \
	"./include/jemalloc/jemalloc.h ./include/jemalloc/jemalloc_prof.h ./lib/libjemalloc.a ./lib/libjemalloc_pic.a " "and nothing else is installed"
# The base of probes (<sys/sdt.h> has it too) is one weak, hidden byte for all objects that have probes.
for archive in out/lib/libjemalloc.a out/lib/libjemalloc_pic.a; do
	is "$(nm -g --defined-only $archive | awk 'NF == 3 && $3 !~ /^(_rjem_|_\.stapsdt\.base$)/ { print $3 }')" "" "${archive##*/}: each global name has the prefix"
done
is "$(nm -g --defined-only "$BUILD/lib/libjeprof_client.a" | awk 'NF == 3 && $3 !~ /^jeprof_/ { print $3 }')" "" \
	"libjeprof_client.a: each global name begins with jeprof_"

cat >main.rs <<'RUST'
use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void, CString};

extern "C" {
	fn _rjem_mallocx(size: usize, flags: c_int) -> *mut c_void;
	fn _rjem_rallocx(ptr: *mut c_void, size: usize, flags: c_int) -> *mut c_void;
	fn _rjem_sdallocx(ptr: *mut c_void, size: usize, flags: c_int);
	fn _rjem_mallctl(name: *const c_char, old: *mut c_void, old_len: *mut usize, new: *mut c_void, new_len: usize) -> c_int;
}
struct Jemalloc;
fn flags(layout: &Layout) -> c_int {
	layout.align().trailing_zeros() as c_int
}
const ZERO: c_int = 0x40;
unsafe impl GlobalAlloc for Jemalloc {
	unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
		_rjem_mallocx(layout.size(), flags(&layout)) as *mut u8
	}
	unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
		_rjem_mallocx(layout.size(), flags(&layout) | ZERO) as *mut u8
	}
	unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
		_rjem_rallocx(ptr as *mut c_void, size, flags(&layout)) as *mut u8
	}
	unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
		_rjem_sdallocx(ptr as *mut c_void, layout.size(), flags(&layout))
	}
}
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn number(name: &str) -> usize {
	let name = CString::new(name).unwrap();
	let (mut value, mut len) = (0usize, std::mem::size_of::<usize>());
	let mut epoch = 1u64;
	unsafe {
		_rjem_mallctl(b"epoch\0".as_ptr() as *const c_char, std::ptr::null_mut(), std::ptr::null_mut(),
			&mut epoch as *mut u64 as *mut c_void, 8);
		let err = _rjem_mallctl(name.as_ptr(), &mut value as *mut usize as *mut c_void, &mut len, std::ptr::null_mut(), 0);
		assert_eq!(err, 0);
	}
	value
}

#[inline(never)]
fn hold_pages() -> Vec<Vec<u8>> {
	let mut pages = Vec::new();
	for i in 0..1000 {
		pages.push(vec![(i % 251) as u8; 10_000]);
	}
	pages
}

#[repr(align(256))]
struct Aligned([u8; 300]);

fn work(seed: usize) -> usize {
	let mut map = HashMap::new();
	for i in 0..20_000 {
		map.insert(i * seed, format!("text {} of {}", i, seed));
		if i % 3 == 0 {
			map.remove(&(i / 2 * seed));
		}
	}
	let boxes: Vec<Box<Aligned>> = (0..100).map(|i| Box::new(Aligned([i as u8; 300]))).collect();
	assert!(boxes.iter().all(|b| &**b as *const Aligned as usize % 256 == 0 && b.0[299] == b.0[0]));
	map.values().map(|s| s.len()).sum()
}

fn main() {
	let before = number("stats.allocated");
	let held = hold_pages();
	let after = number("stats.allocated");
	println!("counted {}", after - before >= 10_000_000 && after - before < 12_000_000);
	let sums: Vec<usize> = (1..=4).map(|seed| std::thread::spawn(move || work(seed))).collect::<Vec<_>>()
		.into_iter().map(|t| t.join().unwrap()).collect();
	println!("equal {}", (1..=4).all(|seed| sums[seed - 1] == work(seed)));
	println!("zero {}", vec![0u64; 100_000].iter().all(|&x| x == 0));
	println!("held {}", held.iter().enumerate().all(|(i, v)| v.len() == 10_000 && v.iter().all(|&b| b == (i % 251) as u8)));
	std::mem::forget(held); // for the profile at the end
}
RUST
rustc -g -O -o program main.rs -L native=out/lib -l static=jemalloc_pic >rustc.out 2>&1
ok $? "a Rust program is linked with libjemalloc_pic.a" "$(cat rustc.out)" || done_testing
is "$(./program | tr '\n' ' ')" "counted true equal true zero true held true " "it works, and the library counts what it allocates"
is "$(_RJEM_MALLOC_CONF="prof:true,lg_prof_sample:12,prof_final:true,prof_prefix:$W/rust" ./program | grep -c true)" 4 "also profiled"
has "$("$BUILD/bin/jeprof" top --cum -n 20 ./program rust.*.heap 2>&1)" "hold_pages" "jeprof names the Rust function that holds the memory"
done_testing
