#!/usr/bin/perl
# jeprof completion: what bash, zsh and fish get is accepted by them; what bash offers is what acts.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $source, $jeprof);

my %text;
for my $shell (qw(bash zsh fish)) {
	my ($code, $out, $err) = jeprof('completion', $shell);
	is("$code|$err", '0|', "completion $shell");
	$text{$shell} = spew("$dir/$shell", $out);
    SKIP: {
		skip "no $shell", 1 unless which($shell);
		is((run(which($shell), '-n', $text{$shell}))[0], 0, "$shell can read it");
	}
}
for my $case ([], ['csh'], ['bash', 'zsh']) {
	my ($code, $out, $err) = jeprof('completion', @$case);
	is("$code|$out", '2|', "completion @$case: exit 2");
	like($err, qr/bash, zsh or fish/, 'and which there are');
}

# A package may give jeprof another name: that one is completed, and no command of the other is told.
symlink $jeprof, "$dir/jeprof-prof";
for my $shell (qw(bash zsh fish)) {
	my ($code, $out) = run("$dir/jeprof-prof", 'completion', $shell);
	is($out =~ s/\bjeprof-prof\b/jeprof/gr, slurp($text{$shell}), "completion $shell of another name");
	unlike($out =~ s/_jeprof\b//gr =~ s/\(jeprofctl\)//gr, qr/\bjeprof\b(?!-prof)/, 'which is the only one');
}

# Options of jeprof, which jeprofctl does not have.
like(slurp($text{zsh}), qr/^\tstart\|stop\|[a-z|]+\) ;;$/m, "zsh: none for jeprofctl's verbs");
unlike(slurp($text{fish}), qr/seen_subcommand_from [a-z ]*\bstart\b/, 'fish: none');
like(slurp($text{fish}), qr/seen_subcommand_from leaks' -l gate$/m, 'fish: those of a verb');

# What bash offers for a line whose last word is being typed.
sub offered {
	my @words = @_;
	my $line = join ' ', map { "'$_'" } @words;
	return (run('/bin/bash', '-c',
			". $text{bash}; COMP_WORDS=($line); COMP_CWORD=$#words; _jeprof; echo \${COMPREPLY[*]}"))[1];
}
SKIP: {
	skip 'no bash', 1 unless -x '/bin/bash';
	is(offered('jeprof', 'rep'), "report\n", 'a verb');
	is(offered('jeprof', 'sta'), "start status\n", "jeprofctl's");
	is(offered('jeprof', '--callg'), "--callgrind\n", 'a legacy option');
	is(offered('jeprof', 'leaks', '--ga'), "--gate\n", 'an option of a verb');
	is(offered('jeprof', 'top', '--ga'), "\n", 'not where it does nothing');
	is(offered('jeprof', 'export', '--to', 'mas'), "massif\n", 'a word behind an option');
	is(offered('jeprof', 'top', ''), "\n", 'a file is left to the shell');
	is(offered('jeprof', 'start', '--callg'), "\n", "nor behind jeprofctl's verbs");
	# Each verb that is offered is one.
	my %known = map { $_ => 1 } split ' ', offered('jeprof', '');
	my ($help) = (jeprof('--help'))[1];
	is(join(' ', grep { !$known{$_} } $help =~ /^  jeprof ([a-z]+)\b/mg), '',
		'all verbs of --help');
}
done_testing();
