#!/bin/sh
# A CMake project that finds the installed library by pkg-config and links it in three ways: the shared library, the static archive in a
# program that is otherwise dynamic, and a program that is static as a whole.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/clients/aid"
[ -n "${CHECK_NO_DEPS:-}" ] || command -v cmake >/dev/null && command -v pkg-config >/dev/null || "$SRC/scripts/install-deps" clients >deps.out 2>&1

make -s -C "$BUILD" install prefix="$W/root" >install.out 2>&1
ok $? "the library is installed" "$(tail -n 20 install.out)"
# jemalloc.pc has the prefix of configure, so pkg-config has to take the directory where it finds the file.
export PKG_CONFIG_PATH=$W/root/lib/pkgconfig

mkdir project
cat >project/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.13)
project(user C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JEMALLOC REQUIRED IMPORTED_TARGET jemalloc>=5.3.1)

add_executable(shared main.c)
target_link_libraries(shared PRIVATE PkgConfig::JEMALLOC)

find_library(JEMALLOC_ARCHIVE libjemalloc.a HINTS ${JEMALLOC_STATIC_LIBRARY_DIRS} REQUIRED)
list(REMOVE_ITEM JEMALLOC_STATIC_LIBRARIES jemalloc)
foreach(kind archive static)
	add_executable(${kind} main.c)
	target_include_directories(${kind} PRIVATE ${JEMALLOC_STATIC_INCLUDE_DIRS})
	target_link_libraries(${kind} PRIVATE ${JEMALLOC_ARCHIVE} ${JEMALLOC_STATIC_LIBRARIES})
endforeach()
target_link_options(static PRIVATE -static)
CMAKE
cat >project/main.c <<'C'
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
	const char *version = "none";
	size_t size = sizeof(version), was, is, n = sizeof(was);
	unsigned long long epoch = 1;
	mallctl("version", &version, &size, NULL, 0);
	mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	mallctl("stats.allocated", &was, &n, NULL, 0);
	void *volatile p = malloc(3000000);
	mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	mallctl("stats.allocated", &is, &n, NULL, 0);
	printf("%s %s\n", version, is - was >= 3000000 ? "serves malloc" : "does not serve malloc");
	free(p);
	return 0;
}
C
runs "CMake finds the library" cmake -S project -B made -DPKG_CONFIG_ARGN=--define-prefix
runs "the programs are built" cmake --build made
version=$(sed -n 's/^#define JEMALLOC_VERSION "\(.*\)"$/\1/p' root/include/jemalloc/jemalloc.h)
for kind in shared archive static; do
	is "$(made/$kind 2>&1)" "$version serves malloc" "$kind: the library serves the program"
done
# ---- by the package file
cat >package.cmake <<'CMAKE'
cmake_minimum_required(VERSION 3.13)
project(user C)
set(all prefix exec_prefix libdir includedir beside beside_include to_include shared libraries name)
foreach(one ${all})
	set(${one} mine)
endforeach()
set(after)
get_cmake_property(before VARIABLES)
find_package(jemalloc-prof REQUIRED)
get_cmake_property(after VARIABLES)
list(REMOVE_ITEM after ${before} before)
foreach(one ${all})
	if(NOT "${${one}}" STREQUAL mine)
		list(APPEND after "${one}, changed")
	endif()
endforeach()
file(WRITE ${CMAKE_BINARY_DIR}/variables "${after}")
add_executable(by-shared main.c)
target_link_libraries(by-shared PRIVATE jemalloc-prof::shared)
add_executable(by-static main.c)
target_link_libraries(by-static PRIVATE jemalloc-prof::static)
file(WRITE ${CMAKE_BINARY_DIR}/preload "${JEMALLOC_PROF_LIBRARY}")
CMAKE
mkdir by && cp package.cmake by/CMakeLists.txt && cp project/main.c by/
runs "find_package(jemalloc-prof)" cmake -S by -B bymade -DCMAKE_PREFIX_PATH="$W/root"
runs "its programs are built" cmake --build bymade
for kind in shared static; do
	is "$(bymade/by-$kind 2>&1)" "$version serves malloc" "by-$kind: the library serves the program"
done
is "$(cat bymade/preload)" "$W/root/lib/libjemalloc.so.2" "JEMALLOC_PROF_LIBRARY is the installed one"
is "$(tr ';' '\n' <bymade/variables | grep -vE '^(jemalloc-prof_|JEMALLOC_PROF_LIBRARY$|CMAKE_|FIND_PACKAGE_MESSAGE_DETAILS_)')" "" \
    "no other variable of the project is made or changed"
is "$(ldd bymade/by-static | grep -c libjemalloc)" 0 "the static target needs no library"
release=$(sed -n 's/^set(PACKAGE_VERSION "\(.*\)")$/\1/p' root/lib/cmake/jemalloc-prof/jemalloc-prof-config-version.cmake)
sed -i "s/find_package(.*/find_package(jemalloc-prof $release REQUIRED)/" by/CMakeLists.txt
runs "find_package with this version, $release" cmake -S by -B bymade2 -DCMAKE_PREFIX_PATH="$W/root"
sed -i "s/find_package(.*/find_package(jemalloc-prof 99 REQUIRED)/" by/CMakeLists.txt
cmake -S by -B bymade3 -DCMAKE_PREFIX_PATH="$W/root" >out 2>&1
[ $? -ne 0 ]
ok $? "a newer version is not there"

is "$(ldd made/shared | grep -c "$W/root/lib/libjemalloc.so.2")" 1 "the shared one needs the installed library"
is "$(ldd made/archive | grep -c libjemalloc)" 0 "the one with the archive does not"
is "$(ldd made/static 2>&1 | grep -c '=>')" 0 "the static one needs no library"
done_testing
