#!/bin/sh
# Makes ./configure from configure.ac. Needs autoconf only. Arguments are passed on: with any, configure is run too.
set -e
cd "$(dirname "$0")"
autoconf
rm -rf autom4te.cache
if [ $# -gt 0 ]; then
	exec ./configure "$@"
fi
