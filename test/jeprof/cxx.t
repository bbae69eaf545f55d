#!/usr/bin/perl
# C++ names: the built-in reader of mangled names, alone and beside c++filt, over fixed names and
# over all of libstdc++.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
no warnings 'portable';
our ($dir, $jeprof);

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

# The same by the table that jeprofd has made.
sub by_table {
	my @names = @_;
	shown(@names);
	my @address = map { 0x1000 + 64 * $_ } 0 .. $#names;
	my $name = table_names("$dir/names.so", @address);
	return { map { $names[$_] => $name->{ $address[$_] } // '' } 0 .. $#names };
}

# The mangled names that libstdc++ exports.
sub exported {
	my ($library) = grep { -e } glob '/usr/lib/*/libstdc++.so.6';
	return () unless $library && which('nm') && which('c++filt');
	my %mangled = map { /^[0-9a-f]+ [TW] (_Z[^@]+)/ ? ($1, 1) : () } split /\n/,
	    (run('nm', '-D', '--defined-only', $library))[1];
	return sort keys %mangled;
}

my %want = (
	'_Z3fooi' => 'foo', '_ZN3app4Pool4growIiEEvm' => 'app::Pool::grow',
	'_ZNSt6vectorIiSaIiEE6resizeEm' => 'std::vector::resize',
	'_ZN12_GLOBAL__N_16Holder4fillEi' => '(anonymous namespace)::Holder::fill',
	'_ZN3FooCI23BarEi' => 'Foo::Bar', '_ZN2ns3FooCI1NS_3BarIiEEEi' => 'ns::Foo::Bar',
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
	'_ZNK1PIXadL_Z3fooIiEvT_EEXadL_ZS0_IlEvS1_EE3BoxI5OtherEEcvPS4_Ev' => 'P::operator Box*',
	'_ZNSt5dequeINSt10filesystem4pathESaIS1_EE12emplace_backIIS1_EEERS1_DpOT_' =>
	    'std::deque::emplace_back',
	'_ZTHN4pool6threadE' => 'pool::thread', '_ZTWN4pool6threadE' => 'pool::thread',
	'_ZTch0_v0_n40_N1D2clEv' => 'D::cl', '_ZTcv0_n32_v0_n40_N1D2clEv' => 'D::cl',
	'_ZZ5ScaleILi2EEvPN1A5FixedILi64EXT_EEEE1p' => 'Scale::p',
	'_ZZ1fvEN3$_0D2Ev' => 'f::$_0::~$_0',
	'_ZZN2Dm1fEiiEd0_NKUlvE_clEv' => 'Dm::f::{lambda#1}::operator()',
	'_Z5retftIiEPFT_lES0_' => 'retft', '_Z4twicIiEPFPFccET_ES2_' => 'twic',
	'_ZSt7forwardIMSt6threadFvvEEOT_RNSt16remove_referenceIS3_E4typeE' => 'std::forward',
	'_ZSt7forwardIRA2_KcEOT_RNSt16remove_referenceIS3_E4typeE' => 'std::forward',
	'_ZZ5retftIiEPFT_lES0_ENKUlvE_clEv' => 'retft::{lambda#1}::operator()',
	'_ZN3app5NamedIXtlNS_3StrEtlA8_cLc97ELc98ELc99EEEEE3runEv' => 'app::Named::run',
	'_ZN3app2ptIXtlNS_1PELi1ELin2EEES1_EEvT0_' => 'app::pt',
	'_Z10make_constIiEN3lib6constaEv' => 'make_const', '_Zbroken' => '_Zbroken', '_ZN3' => '_ZN3',
	'_ZN99xE' => '_ZN99xE', '_Z' => '_Z');
# What only newer compilers and demanglers know.
my %late = ('_ZN1AW3mod1fES_' => 'A::f@mod',
	'_ZW3foo3barv' => 'bar@foo', '_ZW3FooW3BarWP4part3bazv' => 'baz@Foo.Bar:part', '_ZNW3foo3Bar3bazEv' => 'Bar@foo::baz',
	'_ZZW3fooW3bar1gPS0_3BoxIiEPS0_1QPS1_IS1_IS4_EEENKUlS5_T_E_clIS3_EEDaS5_S9_' => 'g@foo.bar::{lambda#1}::operator()',
	'_ZNW3foo3BoxIiPS0_E3getEv' => 'Box@foo::get',
	'_ZZ4mainENKUlTyT_E_clIiEEDaS_' => 'main::{lambda#1}::operator()',
	'_ZZ4mainENKUlTnjTyT_T0_E0_clILj3EiEEDaS_' => 'main::{lambda#2}::operator()',
	'_ZZ4mainENKUlTtTyETpTyPT_IiEDpT0_E_clISaJiEEEDaS1_' => 'main::{lambda#1}::operator()',
	'_ZNH1A1fES_' => 'A::f', '_ZN1AF1fIiEEvT_' => 'A::f', '_Z1fITk1CiEvT_' => 'f', '_ZZ1fIiEvvENKUlTyTL0__E_clIcEEDaS_' => 'f::{lambda#1}::operator()');
my @names = sort keys %want;
{
	local $ENV{PATH} = '/nonexistent';
	is_deeply(shown(@names), \%want, 'without c++filt');
	is_deeply(shown(keys %late), \%late, 'and the late ones');
}
SKIP: {
	skip 'c++filt is not installed', 1 unless which('c++filt');
	is_deeply(shown(@names), \%want, 'with c++filt');
}
SKIP: {
	my @all = exported();
	skip 'no names in libstdc++', 2 unless @all > 1000;
	my $theirs = shown(@all);
	local $ENV{PATH} = '/nonexistent';
	my $ours = shown(@all);
	my @other = grep { ($ours->{$_} // '') ne ($theirs->{$_} // '-') } @all;
	cmp_ok(scalar(@other), '<=', 0.002 * @all, 'libstdc++: the same with and without c++filt')
	    or diag join "\n", map { "$_ $ours->{$_} $theirs->{$_}" } @other[0 .. 9];
	is(scalar(grep { $ours->{$_} =~ /^_Z/ } @all), 0, 'libstdc++: no name is left mangled');
}

# jeprofd names functions alike. Of these names the first ones are as c++filt prints them; those of
# older Rust end in a hash.
my %both = (
	'<Foo<<X as Y>::Z> as T>::m' => 'Foo::m', '<[T] as Tr>::m' => '[T]::m', '<[T]>::m' => '[T]::m',
	'<alloc::vec::Vec<T> as core::ops::Drop>::drop::h0123456789abcdef' => 'alloc::vec::Vec::drop',
	'<<I as IntoIterator>::IntoIter as Iterator>::next' => 'I::IntoIter::next',
	'<dyn core::ops::Fn<(i32,)>+Output = i32 as a::Shape>::area' => 'core::ops::Fn::area',
	'<dyn a::A + core::marker::Send as a::Shape>::area' => 'a::A::area',
	'<&mut T as Tr>::m' => 'T::m', '<(A, B) as Tr>::m::h0123456789abcdef' => '<(A, B) as Tr>::m',
	'foo::<fn(i32) -> i32>' => 'foo', '<fn(A) -> B as Tr>::m' => 'B::m',
	'core::fmt::num::<impl core::fmt::Display for u32>::fmt' => 'core::fmt::num::fmt',
	'<cargo[c5dce340fc6ba822]::ops::CleanContext>::rm_rf' => 'cargo::ops::CleanContext::rm_rf',
	'<core[c1f1a4ba060b9bfa]::R<i64> as jiff[629214bdd4b5c39b]::C<i64>>::context::<u8>::{closure#0}' =>
	    'core::R::context::{closure#0}',
	'{unnamed type#1}::f' => '{unnamed#1}::f', 'f()::{unnamed type#12}::run(int)' => 'f::{unnamed#12}::run',
	'main::{lambda({lambda()#1})#2}::operator()() const' => 'main::{lambda#2}::operator()',
	'my_operators::T foo<int>()' => 'foo', 'operator delete[]' => 'operator delete[]',
	'std::vector<int>& my::operator_count<int>(char)' => 'my::operator_count',
	'int (*(*f(int))(long))(char)' => 'f', 'char const (&A::f(char const (&) [2])) [2]' => 'A::f',
	'S::run()::$_0::operator()(X*) const::{lambda(auto:1*)#1} llvm::each<Y, Z>(Y, Z)' => 'llvm::each',
	'f(int, int)::{default arg#2}::{lambda()#1}::operator()() const' => 'f::{lambda#1}::operator()',
	'A& (anonymous namespace)::operator<< <B>(A&, C)' => '(anonymous namespace)::operator<<',
	'bool operator< <int>(C<int>)' => 'operator<',
	'S::operator void (*)(int)()' => 'S::operator void', 'h(void (*)(int), int (&) [3])' => 'h',
	'long operator"" _kb(unsigned long long)' => 'operator"" _kb', 'T& S::operator,(int)' => 'S::operator,',
	'decltype ((new int (f<int>(int)) [3]{1}))' => 'decltype ((new int (f<int>(int)) [3]{1}))',
	'a->b' => 'a->b', '<unfinished' => '<unfinished', '<a>' => '<a>', '<b>.cold' => '<b>', '<a as b>x::y' => 'x::y',
	'main.(*Pool).grow' => 'main.(*Pool).grow', 'net/http.(*conn).serve.func1' => 'net/http.(*conn).serve.func1',
	'foo.isra.0.constprop.1' => 'foo', 'foo.cold' => 'foo',
	'_ZN1a4main28_$u7b$$u7b$closure$u7d$$u7d$17h49f6f6c229b93c8eE' => 'a::main::{{closure}}',
	'_ZN1a8caf$ue9$17h49f6f6c229b93c8eE' => "a::caf\xc3\xa9",
	'_ZN1a14$u4e2d$$u6587$17h49f6f6c229b93c8eE' => "a::\xe4\xb8\xad\xe6\x96\x87",
	'_ZN1a9$u1f980$x17h49f6f6c229b93c8eE' => "a::\xf0\x9f\xa6\x80x",
	'_ZN1a26x$ud800$$u9f$$u110000$$u1$17h49f6f6c229b93c8eE' => "a::x\$ud800\$\$u9f\$\$u110000\$\$u1\$",
	'_ZN3std2rt10lang_start28_$u7b$$u7b$closure$u7d$$u7d$17h6fcb152e586341c1E.llvm.3113442414887620974' =>
	    'std::rt::lang_start::{{closure}}',
	'_ZN41_$LT$$u5b$u8$u5d$$u20$as$u20$a..Shape$GT$4area17ha13369189167a08fE' => '[u8]::area',
	'_ZN3std6thread9lifecycle18JoinInner$LT$T$GT$4join17h0b7e25a38e05025eE' =>
	    'std::thread::lifecycle::JoinInner::join',
	'_ZN4core3ops8function6FnOnce40call_once$u7b$$u7b$vtable.shim$u7d$$u7d$17hb3714d4fe07a38edE' =>
	    'core::ops::function::FnOnce::call_once{{vtable.shim}}',
	'_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Write$GT$9write_str17hcc4e95ed9fd4917cE.4307' =>
	    'alloc::string::String::write_str',
	'_ZN3app4Pool4growIiEEvm.isra.0' => 'app::Pool::grow');
# Rust's newer names: jeprof reads them by c++filt alone.
my %newer = (
	'_RNvMs_NtNtCsgZdARNDurcI_5cargo3ops11cargo_cleanNtB4_12CleanContext5rm_rf' =>
	    'cargo::ops::cargo_clean::CleanContext::rm_rf',
	'_RNvXs2_NtNtCs7vOdYirBLP0_11toml_parser6parser5eventNtB5_18ValidateWhitespaceNtB5_13EventReceiver10simple_key'
	    => 'toml_parser::parser::event::ValidateWhitespace::simple_key',
	'_RNCINvXsp_NtCs8sGJ4AnL5LH_4jiff5errorINtNtCsgEmfK2I1SDS_4core6result6ResultxNtNtB8_4util13ParseIntErrorEINtB8_12ErrorContextxB1c_E7contextNtNtNtB8_3fmt6offset5ErrorE0Ba_'
	    => 'core::result::Result::context::{closure#0}',
	'_RINvMNtCs8NwYtU1Mohg_4core3stre18trim_start_matchesReECscYsbIx0cOGh_14rustc_demangle' =>
	    'str::trim_start_matches',
	'_RINvMNtCs8NwYtU1Mohg_4core5sliceSh11copy_withinINtNtNtB5_3ops5range14RangeInclusivejEECsg0oAa7DM2pc_11miniz_oxide'
	    => '[u8]::copy_within',
	'_RNvXsy_NtCseQVuubCcFDg_12simd_adler324hashAhj22_NtB7_11Adler32Hash4hash' => '[u8]::hash',
	'_RNvMs3_NtCsbEht8wFNRx7_5alloc7raw_vecINtB5_6RawVecTbReEE8grow_oneCs8CE5MOktPo1_18rustc_codegen_llvm.llvm.77'
	    => 'alloc::raw_vec::RawVec::grow_one',
	'_RNvXsa_NtNtCs8NwYtU1Mohg_4core3fmt5floatC3f16NtB7_5Debug3fmt' => 'f16::fmt',
	# Identifiers that are not ASCII; then damaged ones.
	'_RNvCs1_3appu8gdel_5qa' => "app::g\xc3\xb6del",
	'_RNvCs1_3appu30____7hkackfecea1cbdathfdh9hlq6y' => "app::\xe1\x83\xa1\xe1\x83\x90\xe1\x83\xad\xe1\x83\x9b\xe1\x83\x94\xe1\x83\x9a\xe1\x83\x90\xe1\x83\x93_\xe1\x83\x92\xe1\x83\x94\xe1\x83\x9b\xe1\x83\xa0\xe1\x83\x98\xe1\x83\x94\xe1\x83\x9a\xe1\x83\x98_\xe1\x83\xa1\xe1\x83\x90\xe1\x83\x93\xe1\x83\x98\xe1\x83\x9a\xe1\x83\x98",
	'_RNvCs1_3appu10wgv71a119e' => "app::\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e",
	'_RNvCs1_3appu18ber_strae_9_26a28a' => "app::\xc3\xbcber_stra\xc3\x9fe_9",
	'_RNvCs1_3appu12nicode_9q99d' => "app::\xf0\x9d\x94\x98nicode",
	'_RNvCs1_3appu6z9_gia' => "app::z\xc3\x9f9",
	'_RNvCs1_3appu5___eha' => "app::_\xc3\xbc",
	'_RNvCs1_3appu5___dha' => "app::\xc3\xbc_",
	'_RNvCs1_3appu5_2n7ca' => "app::\xf0\x90\x80\x80\xf0\x90\x80\x80",
	map { $_ => $_ } '_R', '_RNv', '_RNvC3foo', '_RNvB_3foo', '_RC9foo', '_RNvC3foo3bar_',
	qw(_RNvCs1_3appu0_ _RNvCs1_3appu4ab_A _RNvCs1_3appu8b99999999 _RNvCs1_3appu9ab));
$both{ '<' x 16 . 'T' . '>::a' x 16 } = 'T' . '::a' x 16;
$both{ '<' x 17 . 'T' . '>::a' x 17 } = '<' x 17 . 'T' . '>::a' x 17; # more than anybody writes
my @both = sort keys %both;
my @newer = sort keys %newer;
SKIP: {
	skip 'c++filt is not installed', 2 unless which('c++filt');
	is_deeply(shown(@both), \%both, 'names that jeprofd must show alike');
	is_deeply(shown(@newer), \%newer, 'and of newer Rust');
}
{
	local $ENV{PATH} = '/nonexistent';
	is_deeply(shown(@both), \%both, 'without c++filt');
}
SKIP: {
	skip 'no jeprof-symbolize, or no C++ library for it', 4
	    unless -x "$jeprof-symbolize" && by_table('_Z3fooi')->{_Z3fooi} eq 'foo';
	is_deeply(by_table(@both), \%both, 'for jeprofd');
	is_deeply(by_table(@newer), \%newer, 'for jeprofd, of newer Rust');
	is_deeply(by_table(@names), \%want, 'for jeprofd, of C++');
	my @all = exported();
	skip 'no names in libstdc++', 1 unless @all > 1000;
	is_deeply(by_table(@all), shown(@all), 'for jeprofd, of libstdc++');
}

# Forged names: the seconds of the processor and the memory are far more than what they need.
sub forged {
	my ($title, $want, @names) = @_;
	my $symbols = join '', map { sprintf "0x%x %s\n", 0x1000 * ($_ + 1), $names[$_] } 0 .. $#names;
	my $stacks = join '', map { sprintf "@ 0x%x\n  t*: 1: 100 [0: 0]\n", 0x1000 * ($_ + 1) } 0 .. $#names;
	spew("$dir/forged.heap", "--- symbol\nbinary=/bin/x\n$symbols---\n--- heap\nheap_v2/0\n"
		    . "  t*: 1: 100 [0: 0]\n$stacks\nMAPPED_LIBRARIES:\n00400000-00500000 r-xp 00000000 00:00 1 /bin/x\n");
	my ($code, $out) = run('/bin/sh', '-c', 'ulimit -t 300; ulimit -v 2500000; exec "$@"', 'sh', $^X, $jeprof, 'top', "$dir/forged.heap");
	like($out, $want, $title) or diag "code $code";
}

my $many = 200_000;
forged('a long name with many brackets', qr/ 1  a *$/m, 'a' . '<' x $many . '>' x $many);
forged('and with round ones', qr/ 1  a *$/m, 'a' . '(' x $many . ')' x $many);
forged('of many types of Rust', qr/ 1  <<<<<.*::a *$/m, '<' x $many . 'T' . '>::a' x $many);
load_jeprof();
my $doubling = '_ZZ1f1aZS_ES_' . join('', map { my $to = $_ < 10 ? $_ : chr 55 + $_; "ZS${to}_ES${to}_" } 0 .. 30) . 'E1x';
forged('a name that doubles at each reference', qr{ 1  _ZZ1f1aZS_ES_ZS0_E}, $doubling);
forged('beside others', qr/ 1  app::Pool::grow *$/m, $doubling, '_ZN3app4Pool4growIiEEvm');
my $nested = '_ZN' . '1a' x $many . 'Ev';
forged('a deep one', qr/ 1  _ZN1a1a/, $nested);
{
	local $ENV{PATH} = '/bin-of-nobody';
	forged('without c++filt', qr{ 1  _ZZ1f1aZS_ES_ZS0_E}, $doubling);
	forged('a deep one', qr/ 1  _ZN1a1a/, $nested);
}
srand 1;
my @texts = map { join '', map { qw(< > a) [rand 3] } 1 .. rand 14 } 1 .. 2000;
my @other = grep {
	my $want = $_;
	1 while $want =~ s/<[^<>]*>//g;
	Names::cut_pairs($_, '<', '>') ne $want
} @texts;
is("@other", '', 'pairs of brackets, as taken away one by one');
done_testing();
