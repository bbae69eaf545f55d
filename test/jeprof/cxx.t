#!/usr/bin/perl
# C++ names: the built-in reader of mangled names, alone and beside c++filt, over fixed names and
# over all of libstdc++.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
our $dir;

my $id = '77' x 20;
my $base = 0x7f0000000000;

# Shows names through an object that has them as symbols; returns { mangled => shown }.
sub shown {
	my @names = @_;
	my $code_size = 64 * (@names + 64);
	elf_file("$dir/names.so", id => $id, code => [0x1000, 0x1000, $code_size],
		symbols => [map { [$names[$_], 0x1000 + 64 * $_, 64] } 0 .. $#names]);
	my @stacks = map { [[$base + 0x1000 + 64 * $_], 1, 4096] } 0 .. $#names;
	our_dump("$dir/names.heap", stacks => \@stacks,
		modules => [[$base + 0x1000, $base + 0x1000 + $code_size, $base, $id, "$dir/names.so"]]);
	my ($code, $out) = jeprof('--raw', "$dir/names.heap");
	my @full = $out =~ /^0x[0-9a-f]+ (.*)$/mg;
	($code, $out) = jeprof('--addresses', '--text', "$dir/names.heap");
	my %at = map { /([0-9a-f]{16}) (.*) \?\?:\?$/ ? (hex $1, $2) : () } split /\n/, $out;
	return { map { $names[$_] => $at{ $base + 0x1000 + 64 * $_ } } 0 .. $#names };
}

my %want = (
	'_Z3fooi' => 'foo', '_ZN3app4Pool4growIiEEvm' => 'app::Pool::grow',
	'_ZNSt6vectorIiSaIiEE6resizeEm' => 'std::vector::resize',
	'_ZN12_GLOBAL__N_16Holder4fillEi' => '(anonymous namespace)::Holder::fill',
	'_ZN3FooC2ERKS_' => 'Foo::Foo', '_ZN3FooD0Ev' => 'Foo::~Foo',
	'_Znwm' => 'operator new', '_ZN3FooixEi' => 'Foo::operator[]',
	'_ZN3FooclEv' => 'Foo::operator()', '_ZlsRSoRK3Foo' => 'operator<<',
	'_ZNK3FoocvbEv' => 'Foo::operator bool',
	'_ZZ4mainENKUliE_clEi' => 'main::{lambda#1}::operator()',
	'_ZZ4mainENKUliE0_clEi' => 'main::{lambda#2}::operator()',
	'_ZNSt8ios_base4InitC1Ev' => 'std::ios_base::Init::Init',
	'_ZNKSs4sizeEv' => 'std::basic_string::size',
	'_ZNSt8_Rb_treeISsSt4pairIKSsiESt10_Select1stIS2_ESt4lessISsESaIS2_EE9_M_insertEv' =>
	    'std::_Rb_tree::_M_insert',
	'_ZN5applyIXadL_Z3foovEEE3runEv' => 'apply::run',
	'_ZN20constructSymbolEntryIiE3getEv' => 'constructSymbolEntry::get',
	'_ZN3BarltERKS_' => 'Bar::operator<',
	'_Z10make_constIiEN3lib6constaEv' => 'make_const', '_Zbroken' => '_Zbroken', '_ZN3' => '_ZN3',
	'_ZN99xE' => '_ZN99xE', '_Z' => '_Z');
my @names = sort keys %want;
{
	local $ENV{PATH} = '/nonexistent';
	is_deeply(shown(@names), \%want, 'without c++filt');
}
SKIP: {
	skip 'c++filt is not installed', 1 unless which('c++filt');
	is_deeply(shown(@names), \%want, 'with c++filt');
}
SKIP: {
	my ($library) = grep { -e } glob '/usr/lib/*/libstdc++.so.6';
	skip 'no libstdc++, nm or c++filt', 2 unless $library && which('nm') && which('c++filt');
	my %mangled = map { /^[0-9a-f]+ [TW] (_Z[^@]+)/ ? ($1, 1) : () } split /\n/,
	    (run('nm', '-D', '--defined-only', $library))[1];
	my @all = sort keys %mangled;
	skip 'no names in libstdc++', 2 unless @all > 1000;
	my $theirs = shown(@all);
	local $ENV{PATH} = '/nonexistent';
	my $ours = shown(@all);
	my @other = grep { ($ours->{$_} // '') ne ($theirs->{$_} // '-') } @all;
	cmp_ok(scalar(@other), '<=', 0.002 * @all, 'libstdc++: the same with and without c++filt')
	    or diag join "\n", map { "$_ $ours->{$_} $theirs->{$_}" } @other[0 .. 9];
	is(scalar(grep { $ours->{$_} =~ /^_Z/ } @all), 0, 'libstdc++: no name is left mangled');
}
done_testing();
