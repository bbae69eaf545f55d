#!/bin/sh
# The checks of the source (scripts/tracked, check_size, check_format, check_shell): they read what git tracks, or what .gitignore does not
# name where there is no git, and never what a build leaves; each rule names its fault; no length of code is a fault.
. "$JEMALLOC_SRC/test/include/tap.sh"
forget_git

mkdir -p tree/scripts tree/src/os tree/bin/agent tree/doc tree/test/unit tree/include/jemalloc
for file in scripts/tracked scripts/check_size scripts/check_format scripts/check_shell .editorconfig .gitignore; do cp "$SRC/$file" "tree/$file"; done
cd tree || exit 1
printf '/*\n * What it is.\n */\nint\nthing_number(void) {\n\treturn 1;\n}\n' >src/os/thing.c
printf '/* A test. */\n' >test/unit/thing.c

# What ./configure && make && make tests leaves in the tree, with every fault that there is.
long=$(printf '%0120d' 0)
for file in src/config.h include/jemalloc/jemalloc.h bin/page_parts.c; do printf 'int  x_%s ;\n' "$long" >$file; done
for file in test/unit/thing lib/libjemalloc.so.2 src/os/thing.o src/os/thing.d bin/jeprofd Makefile doc/manual/manual build-x/src/y.c; do
	mkdir -p "$(dirname $file)"
	echo "$long" >$file
done
own="src/os/thing.c test/unit/thing.c"
passes() {
	runs "$1: check_size" scripts/check_size
	runs "$1: check_format" scripts/check_format
}
is "$(scripts/tracked '[.]c$' | xargs)" "$own" "without git: the files of the tree, not of the build"
is "$(scripts/tracked 'test/unit|lib/|^Makefile' | xargs)" "test/unit/thing.c" "no programs, no libraries"
passes "a tree with a build in it, without git"
if command -v git >/dev/null; then
	git init -q . && git add . && git -c user.name=t -c user.email=t@t commit -q -m 'First'
	is "$(git status --porcelain --untracked-files=all)" "" "git ignores what the build leaves"
	is "$(scripts/tracked '[.]c$' | xargs)" "$own" "with git: the same files"
	printf 'int  y_%s ;\n' "$long" >src/scratch.c
	passes "with git and a file that it does not track"
	rm src/scratch.c
	GIT_DIR=/nonexistent scripts/tracked '[.]c$' >said 2>&1
	is "$(xargs <said)" "$own" "where git refuses the repository: the same files"
	rm said
else
	diag "no git: not tested with it"
fi

# A function of 200 lines in a file of 2500, without an assert.
{
	printf '/*\n * What it is.\n */\nint\nthing_sum(int a) {\n'
	i=0
	while [ $i -lt 200 ]; do
		printf '\ta += %d;\n' $i
		i=$((i + 1))
	done
	printf '\treturn a;\n}\n'
	while [ $i -lt 2400 ]; do
		printf '#define THING_%d %d\n' $i $i
		i=$((i + 1))
	done
} >src/long.c
[ ! -d .git ] || git add src/long.c
passes "a long function in a long file"
has "$(scripts/check_size -v)" "204 src/long.c: thing_sum" "its length is told"
rm src/long.c

# faulty NAME GATE TEXT: the file is named by the gate
faulty() {
	printf "$3" >src/bad.c
	[ ! -d .git ] || git add src/bad.c
	scripts/"$2" >said 2>&1
	is "$?" 1 "$1 is a fault"
	has "$(cat said)" "src/bad.c" "and the file is named"
	rm -f src/bad.c said
}
open='/*\n * What it is.\n */\n'
faulty "nesting of 4" check_size "${open}void\nf(int a) {\n\tif (a) {\n\t\tif (a) {\n\t\t\tif (a) {\n\t\t\t\tif (a) {\n\t\t\t\t\tg();\n\t\t\t\t}\n\t\t\t}\n\t\t}\n\t}\n}\n"
faulty "a line of 101 columns" check_size "${open}extern int a$(printf '%088d' 0);\n"
faulty "a question that acts" check_size "${open}bool\nis_odd(struct s *s) {\n\treturn s->n++ > 0;\n}\n"
faulty "a file without an opening comment" check_size "int a;\n"
faulty "two spaces for a tab" check_format "${open}void\nf(void) {\n  g();\n}\n"
runs "scripts of the shell" scripts/check_shell
for fault in 'set -o pipefail\nmake | grep -q thing' 'set -eo pipefail\nmake | head -1' 'if true; then'; do
	printf "#!/bin/bash\n$fault\n" >scripts/bad
	scripts/check_shell scripts/bad >said 2>&1
	is "$?" 1 "a fault of the shell: $fault"
	has "$(cat said)" "scripts/bad" "and the file is named"
	rm -f scripts/bad said
done
echo 'src/os/thing.c thing_number it is long' >doc/SIZES
scripts/check_size >said 2>&1
is "$?" 1 "an exception that is not needed is a fault"
done_testing
