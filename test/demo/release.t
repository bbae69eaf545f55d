#!/bin/sh
# A release: its version stands in each recipe of packages and in the changelog; README.md's first words are few, and name the library
# by a path; scripts/dist finds its commit by the tag, and without it by the heading of CHANGELOG.md, and names what comes before and
# after it; SECURITY.md has the table of misuse that the tests hold.
. "$JEMALLOC_SRC/test/include/tap.sh"

cd "$SRC" || exit 1
version=$(sed -n 's/^m4_define(\[JEM_RELEASE\], \[\(.*\)\])$/\1/p' configure.ac)
ok $([ -n "$version" ]; echo $?) "configure.ac has a release: $version"
is "$(sed -n 's/^## \([0-9.]*\), [0-9-]*$/\1/p' CHANGELOG.md | sed -n 1p)" "$version" "the newest release of CHANGELOG.md"
is "$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)" "$version" "debian/changelog"
is "$(sed -n 's/.*global release_version \([0-9.]*\)}$/\1/p' packaging/rpm/jemalloc-prof.spec)" "$version" "the spec of RPM"
is "$(sed -n 's/^pkgver=//p' packaging/alpine/APKBUILD)" "$version" "the APKBUILD"
is "$(cat doc/examples/fleet/*.yaml | sed -n 's/.*image: registry.example\/jeprofd://p' | sort -u)" "$version" "the images of doc/examples/fleet"
has "$(cat CONTRIBUTING.md)" "\`v$version\`" "CONTRIBUTING.md"
day=$(sed -n "s/^## $version, //p" CHANGELOG.md)
has "$(cat README.md)" "release $version, $(date -d "$day" '+%-d %B %Y')" "README.md has the day of the release"
first=$(sed -n '2,/^!\[/p' README.md | grep -v '^!\[' | grep .)
ok $([ "$(echo "$first" | wc -l)" -le 10 ]; echo $?) "README.md's first words are ten lines at most"
is "$(echo "$first" | grep -E '.{121}')" "" "of 120 columns at most"
has "$first" 'LD_PRELOAD=/usr/local/lib/libjemalloc.so.2 PROGRAM' "they name the library by its path"
is "$(grep -n 'LD_PRELOAD=libjemalloc' README.md doc/GUIDE.md)" "" "nowhere by its name alone, which may find another one"
has "$(sed -n 's/^ -- .*  //p' debian/changelog)" "$(date -d "$day" '+%a, %d %b %Y')" "debian/changelog has it too"
# What autogen.sh makes of the source, builds and the history stay out of an image's build; what is tracked gets in.
for name in .git 'build*' configure autom4te.cache config.log config.status; do
	ok "$(grep -qxF "$name" .dockerignore; echo $?)" ".dockerignore has $name"
done
is "$(scripts/tracked '^(build|configure$|config[.]|autom4te|.*[.]o$)')" "" "and no file of the source"
has "$(cat packaging/docker/Dockerfile)" '--with-version="$VERSION"' "the Dockerfile takes the version from who knows it"

scripts/misuse-table >"$OLDPWD/table"
sed -n '/^| misuse | cases/,/^$/p' SECURITY.md | sed '/^$/d' >"$OLDPWD/page"
cd "$OLDPWD" || exit 1
is "$(cat page)" "$(cat table)" "SECURITY.md has what scripts/misuse-table prints"

command -v git >/dev/null || { done_testing; exit; }
forget_git
mkdir -p repo/scripts
cp "$SRC/scripts/dist" repo/scripts/
cp "$SRC/configure.ac" repo/
cd repo || exit 1
commit() {
	git add -A
	git -c user.name=test -c user.email=test@localhost commit -q -m "$1"
	git rev-parse HEAD
}
name() { scripts/dist "$@" --name 2>&1; }
git init -q .
printf '# Changelog\n\n## Unreleased\n' >CHANGELOG.md
first=$(commit first)
is "$(name)" "jemalloc-prof-$version~git1.$(echo "$first" | cut -c 1-9)" "before the release"
name --release >said
ok $([ $? -ne 0 ]; echo $?) "there is none yet"
has "$(cat said)" "no commit of release $version" "which is said"
printf '# Changelog\n\n## %s, 2026-11-25\n' "$version" >CHANGELOG.md
second=$(commit second)
is "$(name)" "jemalloc-prof-$version" "the commit that gives CHANGELOG.md its heading"
printf '# Changelog\n\n## Unreleased\n- More.\n\n## %s, 2026-11-25\n' "$version" >CHANGELOG.md
third=$(commit third)
is "$(name)" "jemalloc-prof-$version+git3.$(echo "$third" | cut -c 1-9)" "after it"
is "$(name --release)" "jemalloc-prof-$version" "the release, from a later commit"
is "$(scripts/dist --release --commit)" "$second" "is made of its commit"
git -c user.name=test -c user.email=test@localhost tag -a -m release "v$version" "$third"
is "$(scripts/dist --release --commit)" "$third" "a tag is believed first"
git tag -d "v$version" >/dev/null
cd ..
git clone -q --depth 1 "file://$PWD/repo" shallow
(cd shallow && scripts/dist --release --name) >said 2>&1
ok $([ $? -ne 0 ]; echo $?) "a shallow clone does not know it"
done_testing
