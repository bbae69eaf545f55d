#!/usr/bin/perl
#
# jeprof - reads the heap profiles that the library writes and answers "where is the memory?"
#
# A profile is read, its addresses get names, its stacks are reduced to sums, and these are printed.
# The packages of the rooms, which are the files of bin/jeprof.d:
#   Options, Main, Shell, Completion   the command line, its verbs, the interactive mode, completion by a shell.
#   Talk, Tool, Screen     messages and failure, other programs, the terminal.
#   Input, Fetch, Pack     the bytes of a profile: from a file, the network, a pack.
#   Dump, Foreign, Contention, CpuProfile, Box, Course   read one profile: rate, threads, stacks as text, maps, metadata; look up no names.
#   Order, Series          which dump came first; the dumps of a process.
#   Places, Object         turn addresses into places. A place is (object, offset inside the object), where the object
#           is known by its build-id (else by its path), so two runs at different addresses agree.
#   Elf, Missing           symbols out of ELF files, any class and byte order, without help of other programs; objects
#           that are not there.
#   Names, Cxx             give places their names: symbols, demangling, and source lines through an outside tool.
#   Reduce, Fold           cut allocator frames, filter, and sum stacks into entries (flat, cumulative, edges); find the
#           owner of an allocation: past wrappers of malloc and functions without a name.
#   Noise, Ages, Since     the error of an estimate; how old live bytes are, and what that says of growth.
#   Labels                 what live memory was allocated for, as the program named it.
#   Print, Top, Picture, Flame, Source, Leaks, Frag, Report, Page, Threads   the forms of an answer.
#   Export, Proto, Pprof, Otlp, Massif, Writing   the forms for other programs; the file of -o.
#   Run, Live, Open, Doctor, Patient, Whose   programs that run: start, watch, show, ask why there is no profile.
#   Elsewhere              whose the memory of a process is that does not come from malloc.
#   Rooms                  compiles each room of join-jeprof's list "later" when it is first called.
# Web and Wrappers are texts and lists of bin/page/, which scripts/join-page writes as Perl.
# Invariant: a symbol gives its name to an address only if its size covers the address, or if it is
# a label without a size, as of assembler code, and the last symbol before it; and only if its file
# is the one that ran, or the separate debug file of that: by the build-id that the dump records,
# else by its fit to the recorded mappings; a debug file without a build-id by its place and name. A
# profile that brings names along, a server that is asked for them (Fetch), and where no symbol fits
# a tool that tells source lines (Names::use_lines), are believed. Results go to stdout, messages to
# stderr; with run all goes to stderr. Exit: 0 done, 1 failed, 2 usage, 3 done with doubts; run ends
# as its program does, live with 128 + the signal that ends it or as jeprofctl failed, doctor by its
# verdict, and verbs of jeprofctl as that does. Needs nothing but perl-base; better with
# jeprof-symbolize, llvm-symbolizer or addr2line (lines), c++filt (C++ names), objdump (--disasm),
# dot (pictures), gzip, xz, zstd, bzip2, curl; with jeprofctl for live processes and black boxes.
# scripts/join-jeprof makes one file of the rooms, bin/jeprof.d/: this one as it is, then each in a
# block of its own, or, where few commands need it, as text for Rooms.

use strict;
use warnings;
no warnings qw(portable recursion); # addresses have 64 bits

# Rooms: keeps rooms as text until they are needed: to compile them all takes longer than to read a
# small profile. Other rooms use subs of them alone: a variable has no value before the first call.
package Rooms;

# Compiles a text; true, or undef with the error in $@. It stands before the lexicals of this file,
# so that the text does not see them; the pragmas above hold in it.
sub compiled { return eval $_[0] . "\n;1" }

our $AUTOLOAD;
my %rooms; # package => the rooms [name, text] that have subs of it; a compiled one is []

# Takes a room: its name and its text; the joined script calls it. The first call of a sub of the
# room's packages compiles it, by AUTOLOAD.
sub keep {
	my ($name, $text) = @_;
	my $room = [$name, $text];
	for my $package ($text =~ /^package (\w+);/mg, $text =~ /^sub (\w+)::/mg) {
		push @{ $rooms{$package} }, $room;
		no strict 'refs';
		*{"${package}::AUTOLOAD"} = \&compile;
	}
}

# AUTOLOAD of the packages of rooms that are not compiled: compiles all rooms with subs of the
# package, and goes on into the sub that was called. Dies if one has errors, or has no such sub.
sub compile {
	my $wanted = $AUTOLOAD;
	my ($package) = $wanted =~ /^(\w+)::/;
	no strict 'refs';
	delete ${"${package}::"}{AUTOLOAD};
	for my $room (@{ $rooms{$package} }) {
		my ($name, $text) = splice @$room;
		!defined $text or compiled("#line 1 \"$name.pl\"\n$text") or die $@;
	}
	goto &$wanted;
}
