#!/usr/bin/perl
#
# jeprof - reads the heap profiles that the library writes and answers "where is the memory?"
#
# The way of every answer: read -> symbolize -> reduce -> print. The packages of the rooms:
#   Options, Main, Shell, Completion   the command line, its verbs, the interactive mode, completion by a shell.
#   Talk, Tool, Screen     messages and failure, other programs, the terminal.
#   Input, Fetch, Pack     the bytes of a profile: from a file, the network, a pack.
#   Dump, Foreign, Contention, Box, Course   parse one profile: rate, threads, stacks as text, maps, metadata; know no names.
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
#   Run, Live, Open, Doctor, Patient, Whose, Elsewhere   programs that run: start, watch, show, ask why there is no profile.
#   Rooms                  compiles the rooms of later (scripts/join-jeprof) when they are first called.
# Invariant: a name comes only from a function symbol whose size covers the address, and only from a
# file with the build-id that the dump records. Where the dump records none, the file must fit the
# recorded mappings. Results go to stdout, messages to stderr. Exit: 0 done, 1 failed, 2 usage, 3 done with doubts. Needs nothing
# but perl-base; better with jeprof-symbolize, llvm-symbolizer or addr2line (lines), c++filt (C++
# names), objdump (--disasm), dot (pictures). The rooms are bin/jeprof.d/; scripts/join-jeprof makes
# one file of them, each in a block of its own or, where few commands need it, as text that Rooms
# compiles when it is first called.

use strict;
use warnings;
no warnings qw(portable recursion); # addresses have 64 bits

# Rooms: to compile them all takes longer than to read a small profile.
package Rooms;

sub compiled { return eval $_[0] . "\n;1" }

our $AUTOLOAD;
my %rooms; # by package: [name, text] of those that have subs of it

# The subs of its packages are there, and compile it when one of them is called.
sub keep {
	my ($name, $text) = @_;
	my $room = [$name, $text];
	for my $package ($text =~ /^package (\w+);/mg, $text =~ /^sub (\w+)::/mg) {
		push @{ $rooms{$package} }, $room;
		no strict 'refs';
		*{"${package}::AUTOLOAD"} = \&compile;
	}
}

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
